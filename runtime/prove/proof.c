/* Proof before use, for a plan: finds the kernels that its graph launches and that this device has never run,
 * has them proven in child processes, and sets aside those that fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/proof.h"
#include "runtime/tune/tune.h"

enum { MAX_ROUNDS = CLEF_N_VARIANTS + 1, MAX_SETTINGS = 2 };

/* Symbol values at which a plan is proven. */
typedef struct settings {
    int64_t symbols[MAX_SETTINGS][CLEF_MAX_SYMBOLS];
    int32_t n;
} settings;

typedef struct prover {
    clef_plan *plan;
    clef_proofs *known;
    clef_tuning *tuning; /* failed variants are set aside in it */
    const settings *at;
    clef_proof_units units;
    clef_proof too_large; /* of the kernels that were refused for their groups, that with the largest */
} prover;

/* ---- which kernels are unknown --------------------------------------------------------------- */

static void kernels_of(const prover *p, const clef_value *n, int32_t setting, clef_proof_kernels *out)
{
    const clef_lowering lo = {.caps = &p->plan->dev->info.caps,
                              .symbols = p->at->symbols[setting],
                              .gemm = p->plan->opts.compile.gemm,
                              .tuning = p->tuning,
                              .forced = p->plan->forced};
    clef__proof_kernels(&lo, n, out);
}

static int has_kernels(const clef_value *n)
{
    return n->op != CLEF_OP_NONE && clef__ops[n->op]->lower;
}

static int is_proven_by_readers(const clef_value *n)
{
    return has_kernels(n) && clef__ops[n->op]->proof == CLEF__PROOF_BY_READERS;
}

/* The last row of an op fits everywhere. If it is wrong, there is nothing to use in its place. */
static int is_last_row(clef_op op, const clef_variant *variant)
{
    const clef_variant *row = NULL;
    clef_op of;
    for (int32_t i = 0; clef__variant_row(i, &of); i++)
        row = of == op ? clef__variant_row(i, NULL) : row;
    return row == variant;
}

/* Proofs of the readers cover the last row of an op. Another one has proofs of its own, so that a reader is
 * not blamed for it. */
static int needs_proof(const clef_value *n, const clef_proof_kernels *k)
{
    return has_kernels(n) && (!is_proven_by_readers(n) || (k->variant && !is_last_row(n->op, k->variant)));
}

static int is_asked_for(const prover *p, uint64_t print)
{
    for (int32_t i = 0; i < p->units.n; i++)
        for (int32_t k = 0; k < p->units.at[i].kernels.n; k++)
            if (p->units.at[i].kernels.prints[k] == print)
                return 1;
    return 0;
}

static int is_known(const prover *p, uint64_t print)
{
    const clef_proof *found = clef__proofs_find(p->known, print);
    return clef__proof_is_settled(found) && !clef__proof_is_outgrown(p->known, found);
}

/* Adds a unit for the node, if one of its kernels is neither known nor in an earlier unit. */
static clef_status add_unit(prover *p, const clef_value *n, int32_t setting, clef_error *err)
{
    clef_proof_unit unit = {.node = n};
    int32_t i = 0;
    if (!has_kernels(n))
        return CLEF_OK;
    kernels_of(p, n, setting, &unit.kernels);
    if (!needs_proof(n, &unit.kernels))
        return CLEF_OK;
    for (int32_t k = 0; k < unit.kernels.n; k++) {
        const clef_proof *found = clef__proofs_find(p->known, unit.kernels.prints[k]);
        unit.n_hung = found && found->n_hung > unit.n_hung ? found->n_hung : unit.n_hung;
    }
    while (i < unit.kernels.n &&
           (is_known(p, unit.kernels.prints[i]) || is_asked_for(p, unit.kernels.prints[i])))
        i++;
    if (i == unit.kernels.n)
        return CLEF_OK;
    memcpy(unit.symbols, p->at->symbols[setting], sizeof unit.symbols);
    if (p->units.n == p->units.cap) {
        const int32_t cap = 2 * p->units.cap + 32;
        clef_proof_unit *grown = realloc(p->units.at, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %d proofs", (int)cap);
        p->units.at = grown;
        p->units.cap = cap;
    }
    p->units.at[p->units.n++] = unit;
    return CLEF_OK;
}

static clef_status collect_of(prover *p, int by_readers, clef_error *err)
{
    const clef_graph *g = p->plan->graph;
    clef_status s = CLEF_OK;
    for (int32_t m = 0; m < p->at->n; m++)
        for (int32_t i = 0; i < g->n_values && !s; i++)
            if (is_proven_by_readers(g->values[i]) == by_readers)
                s = add_unit(p, g->values[i], m, err);
    return s;
}

/* Ops whose readers' proofs run them come first: the readers are proven with what is right. */
static clef_status collect_units(prover *p, clef_error *err)
{
    p->units.n = 0;
    const clef_status s = collect_of(p, 1, err);
    return s || p->units.n ? s : collect_of(p, 0, err);
}

/* ---- results ---------------------------------------------------------------------------------- */

static void tell_user(const prover *p, const clef_proof *proof)
{
    const clef_device *dev = p->plan->dev;
    char text[400], much[64] = "";
    if (proof->verdict == CLEF_PROOF_WRONG)
        snprintf(much, sizeof much, " (%.3g times the error allowed)", proof->worst);
    else if (proof->cl_code)
        snprintf(much, sizeof much, " (%s)", clef__cl_name(proof->cl_code));
    snprintf(text, sizeof text, "%s %s %s%s on %s: set aside", proof->op, proof->variant,
             clef__proof_says(proof->verdict), much, dev->info.name);
    if (dev->notice)
        dev->notice(dev->notice_user, text);
}

static const clef_proof *find_bad(const clef_proofs *known, clef_op op, const clef_variant *variant)
{
    return clef__proofs_find_bad(known, clef__ops[op]->name, variant->name);
}

/* Stores the unit's verdict for each of its kernels. The user is notified of the first bad kernel of a
 * variant, and of a hang only once. */
static clef_status keep_verdicts(prover *p, const clef_proof_unit *u, clef_error *err)
{
    const clef_variant *variant = u->kernels.variant;
    clef_proof proof = {
        .verdict = u->verdict, .worst = u->worst, .cl_code = u->cl_code, .items = u->kernels.items};
    clef_status s = CLEF_OK;
    snprintf(proof.op, sizeof proof.op, "%s", clef__ops[u->node->op]->name);
    snprintf(proof.variant, sizeof proof.variant, "%s", variant ? variant->name : "-");
    if (clef__proof_limits_groups(&proof)) { /* its kernels are tried again, in smaller groups */
        if (proof.items > p->too_large.items)
            p->too_large = proof;
        return CLEF_OK;
    }
    const int is_news = proof.verdict != CLEF_PROOF_HUNG || u->n_hung == 0;
    if (proof.verdict >= CLEF_PROOF_WRONG && variant && is_news && !find_bad(p->known, u->node->op, variant))
        tell_user(p, &proof);
    for (int32_t i = 0; i < u->kernels.n && !s; i++) {
        proof.print = u->kernels.prints[i];
        s = clef__proofs_put(p->known, &proof, err);
    }
    return s;
}

/* Has the units proven in child processes and stores their verdicts. Returns 1 if there are any. */
static int prove_units(prover *p, clef_status *s, clef_error *err)
{
    int32_t n_known = 0;
    p->too_large = (clef_proof){0};
    *s = clef__proof_by_children(p->plan, &p->units, err);
    for (int32_t i = 0; i < p->units.n && *s != CLEF_E_NOMEM; i++) {
        n_known += p->units.at[i].known;
        if (p->units.at[i].known && keep_verdicts(p, &p->units.at[i], *s ? NULL : err))
            *s = CLEF_E_NOMEM;
    }
    if (p->too_large.items && *s != CLEF_E_NOMEM &&
        clef__proofs_note_group(p->known, &p->too_large, *s ? NULL : err))
        *s = CLEF_E_NOMEM;
    if (n_known && *s != CLEF_E_NOMEM)
        (void)clef__proofs_save(p->plan->dev, p->known, NULL);
    clef__proofs_limit_groups(p->plan->dev, p->known);
    return n_known > 0;
}

/* ---- setting aside --------------------------------------------------------------------------- */

void clef__proofs_set_aside(const clef_proofs *known, clef_tuning *tuning)
{
    clef_tune_choice *choices = (clef_tune_choice *)(uintptr_t)tuning->choices;
    unsigned char *aside = (unsigned char *)(uintptr_t)tuning->aside;
    const clef_variant *variant;
    clef_op op = CLEF_OP_NONE;
    int32_t n = 0;
    for (int32_t row = 0; aside && (variant = clef__variant_row(row, &op)); row++)
        if (find_bad(known, op, variant))
            aside[row] = 1;
    for (int32_t i = 0; i < tuning->n; i++)
        if (!find_bad(known, (clef_op)choices[i].key.op, choices[i].variant))
            choices[n++] = choices[i];
    tuning->n = n;
}

/* Returns a bad verdict on the kernels that the node uses at this setting, NULL if there is none. */
static const clef_proof *find_charge(const prover *p, const clef_value *n, int32_t setting)
{
    clef_proof_kernels k = {0};
    if (has_kernels(n))
        kernels_of(p, n, setting, &k);
    if (!needs_proof(n, &k))
        return NULL;
    if (k.n && k.variant)
        return find_bad(p->known, n->op, k.variant);
    for (int32_t i = 0; i < k.n; i++) {
        const clef_proof *found = clef__proofs_find(p->known, k.prints[i]);
        if (found && found->verdict >= CLEF_PROOF_WRONG && !clef__proof_is_outgrown(p->known, found))
            return found;
    }
    return NULL;
}

/* A suspicion does not stop a plan: if the op has no other kernels, the suspected ones are used. It is
 * reported once. */
static void tell_used_anyway(const prover *p, const clef_proof *charge)
{
    const clef_device *dev = p->plan->dev;
    char text[400];
    clef_proof *own = &p->known->at[charge - p->known->at];
    if (own->is_reported || !dev->notice)
        return;
    own->is_reported = 1;
    snprintf(text, sizeof text,
             "%s has no other kernel than one that %s on %s: it is used all the same (--strict refuses)",
             own->op, clef__proof_says(own->verdict), dev->info.name);
    dev->notice(dev->notice_user, text);
}

static clef_status check_node(const prover *p, const clef_value *n, int32_t setting, clef_error *err)
{
    const clef_proof *charge = find_charge(p, n, setting);
    if (!charge) /* as of inputs, which have no op */
        return CLEF_OK;
    const char *device = p->plan->dev->info.name, *op = clef__ops[n->op]->name;
    if (!clef__proof_is_suspicion(charge))
        return clef__fail(
            err, CLEF_E_DEVICE,
            "%s: the kernels of %s fail on %s (%s%s%s), and there are no others; CLEF_PROOF=0 uses them "
            "anyway, `clef cache clear aside` lets clef try them again",
            n->name, op, device, clef__verdict_names[charge->verdict], charge->cl_code ? ": " : "",
            charge->cl_code ? clef__cl_name(charge->cl_code) : "");
    if (p->plan->opts.compile.strict)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "strict: %s: the kernel of %s hung in its trial on %s, and there is no other",
                          n->name, op, device);
    tell_used_anyway(p, charge);
    return CLEF_OK;
}

/* Where all kernels of an op lack resources, smaller groups may do with less. Returns 1 if they are to be
 * tried. */
static int try_smaller_groups(const prover *p)
{
    const clef_graph *g = p->plan->graph;
    int tries = 0;
    for (int32_t m = 0; m < p->at->n; m++)
        for (int32_t i = 0; i < g->n_values; i++) {
            const clef_proof *charge = find_charge(p, g->values[i], m);
            if (charge && clef__proof_may_limit_groups(charge))
                tries |= clef__proofs_try_group(p->known, charge);
        }
    if (tries)
        clef__proofs_limit_groups(p->plan->dev, p->known);
    return tries;
}

static clef_status check_nodes(const prover *p, clef_error *err)
{
    const clef_graph *g = p->plan->graph;
    clef_status s = CLEF_OK;
    for (int32_t m = 0; m < p->at->n && !s; m++)
        for (int32_t i = 0; i < g->n_values && !s; i++)
            s = check_node(p, g->values[i], m, err);
    return s;
}

static int device_proves(const clef_device *dev)
{
    const char *proof = clef__os_env("CLEF_PROOF");
    return dev->prover[0] && dev->cache_dir[0] && !(proof && strcmp(proof, "0") == 0);
}

int clef__proof_wanted(const clef_plan *plan)
{
    return !plan->opts.compile.no_proof && device_proves(plan->dev);
}

clef_status clef__proof_begin(clef_device *dev, const clef_plan_opts *opts, clef_error *err)
{
    clef_proofs *known = NULL;
    return (opts && opts->compile.no_proof) || !device_proves(dev) ? CLEF_OK
                                                                   : clef__proofs_open(dev, &known, err);
}

int clef__proof_failed(clef_device *dev, int32_t row)
{
    clef_proofs *known = NULL;
    clef_op op = CLEF_OP_NONE;
    const clef_variant *variant = clef__variant_row(row, &op);
    return device_proves(dev) && !clef__proofs_open(dev, &known, NULL) && find_bad(known, op, variant);
}

int clef__proof_trusts(clef_device *dev, int32_t row)
{
    clef_proofs *known = NULL;
    clef_op op = CLEF_OP_NONE;
    const clef_variant *variant = clef__variant_row(row, &op);
    if (!device_proves(dev))
        return 1;
    for (int32_t i = 0; !clef__proofs_open(dev, &known, NULL) && i < known->n; i++)
        if (known->at[i].verdict == CLEF_PROOF_RIGHT && strcmp(known->at[i].op, clef__ops[op]->name) == 0 &&
            strcmp(known->at[i].variant, variant->name) == 0)
            return 1;
    return 0;
}

/* ---- entry points ----------------------------------------------------------------------------- */

/* Proves kernels until every kernel is known: when a variant is set aside, the next one may be unknown too.
 * *proven is set to 1 if anything was proven. */
static clef_status prove_until_known(clef_plan *plan, const settings *at, clef_tuning *tuning, int *proven,
                                     clef_error *err)
{
    prover p = {.plan = plan, .at = at, .tuning = tuning};
    clef_status s = clef__proofs_open(plan->dev, &p.known, err);
    const int32_t max_group = s ? 0 : clef__proofs_max_group(p.known);
    int all_known = 0;
    for (int round = 0; round < MAX_ROUNDS && !s; round++) {
        clef__proofs_set_aside(p.known, tuning);
        s = collect_units(&p, err);
        if (!s && !p.units.n && try_smaller_groups(&p))
            continue;
        all_known = !s && !p.units.n;
        if (s || all_known || !prove_units(&p, &s, err)) /* no verdicts: the plan is made without proofs */
            break;
        *proven = 1;
    }
    if (p.known && !all_known) /* smaller groups were not tried to the end */
        (void)clef__proofs_end_try(plan->dev, p.known, 0, NULL);
    if (s == CLEF_E_IO) {
        s = CLEF_OK;
        if (err)
            *err = (clef_error){0};
    }
    if (!s) {
        clef__proofs_set_aside(p.known, tuning);
        s = check_nodes(&p, err);
        const clef_status ended = clef__proofs_end_try(plan->dev, p.known, !s, s ? NULL : err);
        s = s ? s : ended;
    }
    if (p.known)
        clef__proofs_tell_groups(plan->dev, p.known, max_group);
    free(p.units.at);
    return s;
}

clef_status clef__proof_at_load(clef_plan *plan, clef_error *err)
{
    clef_tune_db *db = NULL;
    clef_tuning tuning = {0};
    settings at = {.n = 1};
    int proven = 0;
    if (!clef__proof_wanted(plan))
        return CLEF_OK;
    for (int32_t i = 0; i < plan->graph->n_symbols; i++) {
        const int64_t bound = plan->graph->symbols[i].bound;
        at.symbols[0][i] = 1;
        at.symbols[1][i] = plan->opts.expected_length > 0 && plan->opts.expected_length < bound
                               ? plan->opts.expected_length
                               : bound;
        at.n = 2;
    }
    clef_status s = clef__tune_db_open(plan->dev, &db, err);
    if (!s)
        s = clef__tuning_make(db, &tuning, err);
    if (!s)
        s = prove_until_known(plan, &at, &tuning, &proven, err);
    clef__tuning_finish(&tuning);
    return s;
}

clef_status clef__proof_at_use(clef_plan *plan, int *again, clef_error *err)
{
    settings at = {.n = 1};
    *again = 0;
    if (!clef__proof_wanted(plan))
        return CLEF_OK;
    memcpy(at.symbols[0], plan->symbols, sizeof at.symbols[0]);
    return prove_until_known(plan, &at, &plan->tuning, again, err);
}

clef_status clef__proof_apply(clef_plan *plan, clef_error *err)
{
    clef_proofs *known = NULL;
    if (!clef__proof_wanted(plan))
        return CLEF_OK;
    const clef_status s = clef__proofs_open(plan->dev, &known, err);
    if (!s)
        clef__proofs_set_aside(known, &plan->tuning);
    return s;
}
