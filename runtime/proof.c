/* Proof before use, from a plan's side: finds the kernels that its graph wants and the device has never run, has them proven in a child
 * process, and sets aside what failed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os.h"
#include "runtime/plan.h"
#include "runtime/proof.h"
#include "runtime/tune.h"

enum {
    MAX_NODE_LAUNCHES = 64,
    MAX_ROUNDS = CLEF_N_VARIANTS + 1,
    DEFAULT_SECONDS = 60,
    PATH_BYTES = 640,
    POLL_MS = 3,
    EXIT_INTERRUPTED = 130
};
static const int64_t warm_at[] = {1, 2, INT64_MAX};
static const int64_t LIGHT_ELEMENTS = 1 << 20; /* of a weight: the tuner measures none below */

typedef struct prover {
    clef_plan *plan;
    clef_proofs *known;
    clef_tuning tuning;
    clef_proof_unit *units;
    int32_t n, cap;
    clef_launch launches[MAX_NODE_LAUNCHES];
    unsigned char args[MAX_NODE_LAUNCHES * CLEF_MAX_ARGS_BYTES];
} prover;

/* ---- what a node's kernels are
 * ----------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t print, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++)
        print = (print ^ bytes[i]) * 1099511628211u;
    return print;
}

static uint64_t mix_text(uint64_t print, const char *text)
{
    return mix(print, text, strlen(text) + 1);
}

static uint64_t mix_launches(uint64_t print, const clef_launch *l, int32_t n)
{
    for (; n > 0; n--, l++) {
        print = mix_text(print, l->source ? l->source : "clblast");
        print = mix_text(print, l->kernel ? l->kernel : "gemm");
        print = mix(print, l->local, sizeof l->local);
        for (int32_t i = 0; i < CLEF_MAX_DEFS && l->defs[i].name; i++) {
            print = mix_text(print, l->defs[i].name);
            print = mix(print, &l->defs[i].value, sizeof l->defs[i].value);
        }
    }
    return print;
}

/* The kernels with their constants that a variant launches for the node at the symbols' values that plans are made for. 0: it serves none
 * of them, or cannot lower the node. */
static uint64_t print_of(prover *p, const clef_value *n, const clef_variant *variant, int chosen_only)
{
    const clef_graph *g = p->plan->graph;
    const clef_variant *forced[CLEF_N_OPS];
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    uint64_t print = mix_text(14695981039346656037u, clef__ops[n->op]->name);
    int used = 0;
    memcpy(forced, p->plan->forced, sizeof forced);
    print = mix_text(print, variant ? variant->name : "-");
    for (int32_t i = 0; i < n->n_in; i++)
        print = mix(print, n->in[i] ? &n->in[i]->dtype : &(clef_dtype){CLEF_N_DTYPES}, sizeof(clef_dtype));
    for (size_t m = 0; m < sizeof warm_at / sizeof *warm_at; m++) {
        for (int32_t i = 0; i < g->n_symbols; i++)
            symbols[i] = g->symbols[i].bound < warm_at[m] ? g->symbols[i].bound : warm_at[m];
        clef_lowering lo = {.graph = g,
                            .caps = &p->plan->dev->info.caps,
                            .symbols = symbols,
                            .gemm = p->plan->opts.gemm,
                            .tuning = &p->tuning,
                            .forced = forced,
                            .node = n,
                            .launches = p->launches,
                            .cap = MAX_NODE_LAUNCHES,
                            .args = p->args};
        if (variant && (chosen_only ? clef__variant_of(&lo, n, NULL) != variant : !clef__variant_fits(&lo, n, variant)))
            continue;
        if (variant)
            forced[n->op] = variant;
        if (!clef__ops[n->op]->lower(&lo, n, NULL)) {
            print = mix_launches(print, p->launches, lo.n);
            used |= lo.n > 0;
        }
        forced[n->op] = p->plan->forced[n->op];
    }
    return used ? print : 0;
}

/* ---- which are unknown
 * ------------------------------------------------------------------------------------------------------------------- */

static clef_status add_unit(prover *p, const clef_proof_unit *unit, clef_error *err)
{
    if (!unit->print || clef__proofs_find(p->known, unit->print))
        return CLEF_OK;
    for (int32_t i = 0; i < p->n; i++)
        if (p->units[i].print == unit->print)
            return CLEF_OK;
    if (p->n == p->cap) {
        const int32_t cap = 2 * p->cap + 32;
        clef_proof_unit *grown = realloc(p->units, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %d proofs", (int)cap);
        p->units = grown;
        p->cap = cap;
    }
    p->units[p->n++] = *unit;
    return CLEF_OK;
}

/* The tuner may run any variant of a product with a heavy weight. */
static int may_be_tuned(const clef_plan *plan, const clef_value *n)
{
    const char *wanted = clef__os_env("CLEF_TUNE");
    if (plan->opts.no_tune || (wanted && strcmp(wanted, "0") == 0) || (n->op != CLEF_OP_matmul && n->op != CLEF_OP_panel_matmul))
        return 0;
    return clef__elements(n->in[1], NULL) >= LIGHT_ELEMENTS;
}

static int needs_proof(const clef_value *n)
{
    return n->op != CLEF_OP_NONE && clef__ops[n->op]->lower && n->op != CLEF_OP_pack; /* packing is proven by what reads it */
}

static clef_status collect(prover *p, clef_error *err)
{
    const clef_graph *g = p->plan->graph;
    clef_status s = CLEF_OK;
    p->n = 0;
    for (int32_t i = 0; i < g->n_values && !s; i++) {
        const clef_value *n = g->values[i];
        const clef_variant *variant;
        clef_op of = CLEF_OP_NONE;
        int n_variants = 0;
        if (!needs_proof(n))
            continue;
        for (int32_t row = 0; (variant = clef__variant_row(row, &of)) && !s; row++) {
            if (of != n->op)
                continue;
            n_variants++;
            if (!p->tuning.aside[row])
                s = add_unit(p, &(clef_proof_unit){print_of(p, n, variant, !may_be_tuned(p->plan, n)), n, variant}, err);
        }
        if (!n_variants && !s)
            s = add_unit(p, &(clef_proof_unit){print_of(p, n, NULL, 1), n, NULL}, err);
    }
    return s;
}

/* ---- the child
 * ----------------------------------------------------------------------------------------------------------------------------- */

static double seconds_for_a_case(void)
{
    const char *text = clef__os_env("CLEF_PROOF_SECONDS");
    const double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : DEFAULT_SECONDS;
}

/* How far the child has come: cases ended, and the one under way (-1: none). */
typedef struct progress {
    int32_t n_done, at;
} progress;

static clef_status read_results(prover *p, const char *path, progress *to, clef_error *err)
{
    char *text = NULL, word[8], verdict[16];
    size_t n = 0;
    clef_status s = CLEF_OK;
    *to = (progress){0, -1};
    if (!clef__os_is_file(path) || clef__os_read(path, 64 << 20, &text, &n, NULL))
        return CLEF_OK;
    for (char *line = text, *end; !s && (end = strchr(line, '\n')); line = end + 1) {
        clef_proof proof = {0};
        *end = 0;
        const int fields = sscanf(line, "%7s %16" SCNx64 " %15s %lf", word, &proof.print, verdict, &proof.worst);
        int32_t i = 0;
        while (i < p->n && p->units[i].print != proof.print)
            i++;
        if (i == p->n || fields < 2)
            continue;
        to->at = fields == 2 ? i : -1;
        for (int v = 0; fields == 4 && clef__verdict_names[v] && !s; v++)
            if (strcmp(verdict, clef__verdict_names[v]) == 0) {
                proof.verdict = (clef_verdict)v;
                snprintf(proof.op, sizeof proof.op, "%s", clef__ops[p->units[i].node->op]->name);
                snprintf(proof.variant, sizeof proof.variant, "%s", p->units[i].variant ? p->units[i].variant->name : "-");
                to->n_done = i + 1;
                s = clef__proofs_put(p->known, &proof, err);
            }
    }
    free(text);
    return s;
}

/* Runs the prover from case `first` on until it ends, or one case takes too long; *cut: 1 when somebody ended it. */
static clef_status run_child(prover *p, const char *path, const char *results, int32_t first, int *hung, int *cut, progress *done,
                             clef_error *err)
{
    const clef_device_info *info = &p->plan->dev->info;
    char which[32], from[16];
    int64_t child;
    int code = 0;
    snprintf(which, sizeof which, "%d:%d", (int)info->platform, (int)info->index);
    snprintf(from, sizeof from, "%d", (int)first);
    const char *const argv[] = {p->plan->dev->prover, "selftest", "--prove", path, "--first", from, "-d", which, NULL};
    clef_status s = clef__os_spawn(argv, &child, err);
    double since = clef__os_seconds();
    *hung = 0;
    *done = (progress){first, -1};
    while (!s && !clef__os_ended(child, &code)) {
        progress now;
        clef__os_sleep(POLL_MS);
        s = read_results(p, results, &now, err);
        if (!s && (now.n_done != done->n_done || now.at != done->at)) {
            since = clef__os_seconds();
            *done = now;
            s = clef__plan_progress(p->plan, "proof", (uint64_t)now.n_done, (uint64_t)p->n, err);
        }
        *hung = clef__os_seconds() - since > seconds_for_a_case();
        if (s || *hung) {
            clef__os_kill(child);
            break;
        }
    }
    *cut = !*hung && (code == EXIT_INTERRUPTED || clef__os_ended_from_outside(code));
    if (*cut && !s) /* Ctrl-C comes to both processes */
        s = clef__plan_progress(p->plan, "proof", (uint64_t)done->n_done, (uint64_t)p->n, err);
    return s ? s : read_results(p, results, done, err);
}

static void tell(const prover *p, const clef_proof *proof)
{
    const clef_device *dev = p->plan->dev;
    char text[400], how[64] = "gives wrong numbers";
    if (proof->verdict == CLEF_PROOF_WRONG)
        snprintf(how, sizeof how, "gives wrong numbers (%.3g times the error allowed)", proof->worst);
    else
        snprintf(how, sizeof how, "%s",
                 proof->verdict == CLEF_PROOF_HUNG      ? "does not come back"
                 : proof->verdict == CLEF_PROOF_CRASHED ? "crashes the driver"
                                                        : "does not build or run");
    snprintf(text, sizeof text, "%s %s %s on %s: set aside, the next variant serves", proof->op, proof->variant, how, dev->info.name);
    if (dev->notice)
        dev->notice(dev->notice_user, text);
}

/* Every unit gets a verdict, but for those of a child that ended by itself without a case under way, or was ended: that is no fault of the
 * kernels. */
static clef_status prove_units(prover *p, clef_error *err)
{
    char path[PATH_BYTES], results[PATH_BYTES + 8];
    snprintf(path, sizeof path, "%s/proof/cases-%lld", p->plan->dev->cache_dir, (long long)clef__os_pid());
    snprintf(results, sizeof results, "%s.out", path);
    char dir[PATH_BYTES];
    snprintf(dir, sizeof dir, "%s/proof", p->plan->dev->cache_dir);
    if (clef__os_make_dirs(dir, NULL) || clef__proof_write(path, p->units, p->n, NULL))
        return CLEF_E_IO;
    clef__os_remove(results);
    clef_status s = CLEF_OK;
    for (int32_t first = 0; first < p->n && !s;) {
        progress done;
        int hung, cut;
        s = run_child(p, path, results, first, &hung, &cut, &done, err);
        if (s || cut || (done.at < 0 && !hung))
            break;
        const int32_t at = done.at >= 0 ? done.at : done.n_done;
        if (at >= p->n)
            break;
        clef_proof proof = {.print = p->units[at].print, .verdict = hung ? CLEF_PROOF_HUNG : CLEF_PROOF_CRASHED};
        snprintf(proof.op, sizeof proof.op, "%s", clef__ops[p->units[at].node->op]->name);
        snprintf(proof.variant, sizeof proof.variant, "%s", p->units[at].variant ? p->units[at].variant->name : "-");
        s = clef__proofs_put(p->known, &proof, err);
        first = at + 1;
    }
    clef__os_remove(path);
    clef__os_remove(results);
    return s;
}

/* ---- setting aside
 * -------------------------------------------------------------------------------------------------------------------------- */

static const clef_proof *bad(const clef_proofs *known, clef_op op, const clef_variant *variant)
{
    for (int32_t i = 0; i < known->n; i++)
        if (known->at[i].verdict >= CLEF_PROOF_WRONG && strcmp(known->at[i].op, clef__ops[op]->name) == 0 &&
            strcmp(known->at[i].variant, variant->name) == 0)
            return &known->at[i];
    return NULL;
}

static void set_aside(const clef_proofs *known, clef_tuning *tuning)
{
    clef_tune_choice *choices = (clef_tune_choice *)(uintptr_t)tuning->choices;
    unsigned char *aside = (unsigned char *)(uintptr_t)tuning->aside;
    const clef_variant *variant;
    clef_op op = CLEF_OP_NONE;
    int32_t n = 0;
    for (int32_t row = 0; (variant = clef__variant_row(row, &op)); row++)
        if (bad(known, op, variant))
            aside[row] = 1;
    for (int32_t i = 0; i < tuning->n; i++)
        if (!bad(known, (clef_op)choices[i].key.op, choices[i].variant))
            choices[n++] = choices[i];
    tuning->n = n;
}

static clef_status fresh_tuning(prover *p, clef_error *err)
{
    clef_tune_db *db = NULL;
    clef__tuning_finish(&p->tuning);
    clef_status s = clef__tune_db_open(p->plan->dev, &db, err);
    if (!s)
        s = clef__tuning_make(db, &p->tuning, err);
    if (!s)
        set_aside(p->known, &p->tuning);
    return s;
}

/* Every node of the plan has a kernel that did not fail. */
static clef_status check_nodes(prover *p, clef_error *err)
{
    const clef_graph *g = p->plan->graph;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *n = g->values[i];
        const clef_variant *variant;
        const clef_proof *found = NULL;
        clef_op of = CLEF_OP_NONE;
        int n_variants = 0;
        if (!needs_proof(n))
            continue;
        for (int32_t row = 0; (variant = clef__variant_row(row, &of)) && !found; row++)
            if (of == n->op) {
                n_variants++;
                if (p->tuning.aside[row] && print_of(p, n, variant, 1))
                    found = bad(p->known, of, variant);
            }
        if (!n_variants)
            found = clef__proofs_find(p->known, print_of(p, n, NULL, 1));
        if (found && found->verdict >= CLEF_PROOF_WRONG)
            return clef__fail(err, CLEF_E_DEVICE,
                              "%s: the kernels of %s fail on %s (%s), and there are no others; CLEF_PROOF=0 uses them all the same",
                              n->name, clef__ops[n->op]->name, p->plan->dev->info.name, clef__verdict_names[found->verdict]);
    }
    return CLEF_OK;
}

static int device_proves(const clef_device *dev)
{
    const char *proof = clef__os_env("CLEF_PROOF");
    return dev->prover[0] && dev->cache_dir[0] && !(proof && strcmp(proof, "0") == 0);
}

static int wanted(const clef_plan *plan)
{
    return !plan->opts.no_proof && device_proves(plan->dev);
}

int clef__proof_failed(clef_device *dev, int32_t row)
{
    clef_proofs *known = NULL;
    clef_op op = CLEF_OP_NONE;
    const clef_variant *variant = clef__variant_row(row, &op);
    return device_proves(dev) && !clef__proofs_open(dev, &known, NULL) && bad(known, op, variant);
}

clef_status clef__proof_at_load(clef_plan *plan, clef_error *err)
{
    if (!wanted(plan))
        return CLEF_OK;
    prover *p = calloc(1, sizeof *p);
    if (!p)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a proof");
    p->plan = plan;
    clef_status s = clef__proofs_open(plan->dev, &p->known, err);
    for (int round = 0; round < MAX_ROUNDS && !s; round++) {
        const int32_t before = p->known->n;
        s = fresh_tuning(p, err);
        if (!s)
            s = collect(p, err);
        if (s || !p->n)
            break;
        s = prove_units(p, err);
        for (int32_t i = before; i < p->known->n; i++)
            if (p->known->at[i].verdict >= CLEF_PROOF_WRONG &&
                strcmp(p->known->at[i].variant, "-") != 0) /* else the plan fails and says why */
                tell(p, &p->known->at[i]);
        if (p->known->n > before && s != CLEF_E_NOMEM)
            (void)clef__proofs_save(plan->dev, p->known, NULL);
        if (p->known->n == before) /* no prover ran: the plan is made without, as where there is none */
            break;
    }
    if (s == CLEF_E_IO) {
        s = CLEF_OK;
        if (err)
            *err = (clef_error){0};
    }
    if (!s)
        s = fresh_tuning(p, err);
    if (!s)
        s = check_nodes(p, err);
    clef__tuning_finish(&p->tuning);
    free(p->units);
    free(p);
    return s;
}

clef_status clef__proof_apply(clef_plan *plan, clef_error *err)
{
    clef_proofs *known = NULL;
    if (!wanted(plan))
        return CLEF_OK;
    const clef_status s = clef__proofs_open(plan->dev, &known, err);
    if (!s)
        set_aside(known, &plan->tuning);
    return s;
}
