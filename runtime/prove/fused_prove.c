/* A fused step in a child's hands: what it is told, and what it does. The file is a line for each kind of
 * stage, then cases as provers have them (proof_file.c): nodes of the plan that launch these kinds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/plan/fused.h"
#include "runtime/prove/proof.h"

enum { REPEATS = 3, MAX_UNITS = 64, MAX_LINE = 1024 };
static const char head[] = "clef fused step 1\n";

/* ---- writing
 * ------------------------------------------------------------------------------------------------------------------------
 */

static void write_kind(FILE *to, const clef_fused_kind *kind)
{
    fprintf(to, "kind %s %s %u", kind->source, kind->kernel, (unsigned)kind->n_bufs);
    for (int32_t i = 0; i < CLEF_MAX_DEFS && kind->defs[i].name; i++)
        fprintf(to, " %s %d", kind->defs[i].name, (int)kind->defs[i].value);
    fputc('\n', to);
}

typedef struct chosen {
    clef_proof_unit at[MAX_UNITS];
    int32_t n;
} chosen;

/* The node's kernels there, if none of those so far launches the same. */
static void choose(const clef_plan *plan, const clef_value *n, const int64_t *symbols, chosen *c)
{
    const clef_lowering lo = {.caps = &plan->dev->info.caps,
                              .symbols = symbols,
                              .gemm = plan->opts.compile.gemm,
                              .tuning = &plan->tuning,
                              .forced = plan->forced};
    clef_proof_unit *u = &c->at[c->n];
    if (c->n == MAX_UNITS)
        return;
    *u = (clef_proof_unit){.node = n};
    memcpy(u->symbols, symbols, sizeof u->symbols);
    clef__proof_kernels(&lo, n, &u->kernels);
    int32_t i = 0;
    while (i < c->n &&
           (c->at[i].node->op != n->op || !clef__proof_same_kernels(&c->at[i].kernels, &u->kernels)))
        i++;
    c->n += u->kernels.n && i == c->n;
}

/* Of one row: as the plan's list has them, and where as much is to be seen as there can be. */
static void choose_all(const clef_plan *plan, chosen *c)
{
    int64_t far[CLEF_MAX_SYMBOLS];
    clef_fused_kind kind;
    for (int32_t i = 0; i < CLEF_MAX_SYMBOLS; i++)
        far[i] = i < plan->graph->n_symbols && plan->graph->symbols[i].role == CLEF__SYMBOL_KEYS
                     ? plan->graph->symbols[i].bound
                     : 1;
    for (int32_t i = 0; i < plan->n_launches; i++)
        if (clef__fused_kind_of(&plan->launches[i], &kind) &&
            (!i || plan->launches[i].node != plan->launches[i - 1].node)) {
            choose(plan, plan->launches[i].node, plan->symbols, c);
            choose(plan, plan->launches[i].node, far, c);
        }
}

clef_status clef__fused_write(const char *path, const clef_plan *plan, const clef_fused_kinds *kinds,
                              int32_t *n_steps, clef_error *err)
{
    chosen *c = calloc(1, sizeof *c);
    FILE *to = c ? fopen(path, "w") : NULL;
    clef_status s = !c    ? clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for what its child is told")
                    : !to ? clef__fail(err, CLEF_E_IO, "%s: cannot be written", path)
                          : CLEF_OK;
    if (!s) {
        choose_all(plan, c);
        fputs(head, to);
        for (int32_t i = 0; i < kinds->n; i++)
            write_kind(to, &kinds->at[i]);
        fputs("cases\n", to);
    }
    for (int32_t i = 0; !s && i < c->n; i++)
        s = clef__proof_write_unit(to, plan, &c->at[i], err);
    const int failed = to && ferror(to);
    if (to && (fclose(to) || failed) && !s)
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    if (s && to)
        clef__os_remove(path);
    *n_steps = kinds->n + 1 + (c ? c->n : 0) + 1; /* sources compiled, cases, the program kept */
    free(c);
    return s;
}

/* ---- reading
 * ------------------------------------------------------------------------------------------------------------------------
 */

int clef__fused_is_case(const char *text)
{
    return strncmp(text, head, sizeof head - 1) == 0;
}

/* NULL: none is left. */
static const char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " "), *end = word + strcspn(word, " ");
    *rest = *end ? end + 1 : end;
    *end = 0;
    return *word ? word : NULL;
}

/* "kind SOURCE KERNEL BUFS [NAME VALUE]..": its names stay in the line. */
static int read_kind(char *line, clef_fused_kind *out)
{
    const char *word = next_word(&line), *source = next_word(&line), *kernel = next_word(&line),
               *n_bufs = next_word(&line), *name, *value;
    clef_launch l = {.source = source, .kernel = kernel};
    if (!n_bufs || strcmp(word, "kind") != 0)
        return 0;
    l.n_bufs = (uint32_t)strtoul(n_bufs, NULL, 10);
    for (int32_t i = 0; (name = next_word(&line)) != NULL; i++) {
        value = next_word(&line);
        if (!value || i == CLEF_MAX_DEFS)
            return 0;
        l.defs[i] = (clef_def){name, (int32_t)strtol(value, NULL, 10)};
    }
    return clef__fused_kind_of(&l, out);
}

/* Where its cases begin; NULL: it does not read as a fused step. */
static const char *read_kinds(char *text, clef_fused_kinds *out)
{
    char *line = text + sizeof head - 1;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        if (strcmp(line, "cases") == 0)
            return out->n ? end + 1 : NULL;
        if (out->n == CLEF_FUSED_KINDS || !read_kind(line, &out->at[out->n++]))
            return NULL;
    }
    return NULL;
}

/* ---- trying
 * ---------------------------------------------------------------------------------------------------------------------------
 */

typedef struct trial {
    const clef_fused_kinds *kinds;
    int32_t n_held; /* runs whose launches the fused step takes */
} trial;

static clef_status hold(void *user, clef_plan *plan, clef_status (*begin)(void *run, clef_error *err),
                        void *run, clef_error *err)
{
    trial *t = user;
    const clef_fused_trial how = {REPEATS, begin, run};
    clef_status s = clef__fused_give(plan, t->kinds, REPEATS, err);
    if (!s)
        s = clef__fused_check(plan, &how, err);
    t->n_held += !s;
    clef__fused_release(plan);
    return s == CLEF_E_UNSUPPORTED ? CLEF_OK
                                   : s; /* its launches are others: a case that stands for the plan's */
}

static clef_status try_case(clef_device *dev, const char *start, trial *t, clef_error *err)
{
    clef_proof_entry e;
    clef_graph *g = NULL;
    if (!clef__proof_read_case(start, &e))
        return clef__fail(err, CLEF_E_FORMAT, "fused step: a case does not read as one");
    clef_status s = clef_graph_parse(e.text, e.n, e.op, &g, err);
    e.c.graph = g;
    if (!s)
        s = clef__proof_visit(dev, &e.c, &(clef_proof_visit){hold, t}, err);
    clef_graph_destroy(g);
    clef__os_guard_step();
    return s;
}

static clef_status try_cases(clef_device *dev, const char *text, const clef_fused_kinds *kinds,
                             clef_error *err)
{
    const char *starts[MAX_UNITS];
    const int32_t n = clef__proof_cases(text, starts, MAX_UNITS);
    trial t = {.kinds = kinds};
    clef_status s = n < 0 || n > MAX_UNITS
                        ? clef__fail(err, CLEF_E_FORMAT, "fused step: expected cases of a proof")
                        : CLEF_OK;
    for (int32_t i = 0; i < n && !s; i++)
        s = try_case(dev, starts[i], &t, err);
    return !s && !t.n_held ? clef__fail(err, CLEF_E_UNSUPPORTED, "fused step: no case launches what it runs")
                           : s;
}

static clef_status build_and_try(clef_device *dev, const char *cases, const clef_fused_kinds *kinds,
                                 clef_error *err)
{
    cl_kernel kernel = NULL;
    clef_status s = clef__fused_link(dev, kinds, CLEF_LINK_BUILD, &kernel, err);
    if (!s)
        s = try_cases(dev, cases, kinds, err);
    if (!s) {
        clef__program_keep(dev, kernel);
        clef__os_guard_step();
    }
    if (kernel)
        clReleaseKernel(kernel);
    return s;
}

/* Others may wait for the record meanwhile. */
static clef_status try_unless_known(clef_device *dev, const char *record, const clef_cache_key *key,
                                    const char *cases, const clef_fused_kinds *kinds, clef_error *err)
{
    clef_status s = clef__os_hold(record, err);
    if (s || clef__cache_has(dev, key) || clef__fused_verdict(record) >= CLEF_PROOF_WRONG)
        return s;
    clef_error why = {0};
    clef__os_held_clear();
    clef__os_guard(clef__proof_seconds());
    s = build_and_try(dev, cases, kinds, &why);
    clef__os_guard_end();
    const int differs = s == CLEF_E_CL && !why.cl_code;
    const clef_verdict verdict = differs ? CLEF_PROOF_WRONG : clef__proof_verdict(s, &why, 0);
    if (verdict >= CLEF_PROOF_WRONG) {
        clef__os_held_write("\n");
        clef__os_held_write(clef__verdict_names[verdict]);
        clef__os_held_write("\n");
        return CLEF_OK; /* the plan tells it */
    }
    if (s && err)
        *err = why;
    return s;
}

clef_status clef__fused_prove(clef_device *dev, const char *path, char *text, clef_error *err)
{
    clef_fused_kinds kinds = {.n = 0};
    clef_cache_key key;
    char record[CLEF_FUSED_PATH];
    const char *cases = read_kinds(text, &kinds);
    clef__os_remove(path);
    dev->saves_nothing = 1; /* the others' programs are theirs to keep */
    if (clef__programs_go_behind(dev))
        clef__os_go_behind();
    if (!cases)
        return clef__fail(err, CLEF_E_FORMAT, "%s: does not read as a fused step", path);
    const clef_status s = clef__fused_key(dev, &kinds, &key, err);
    if (s)
        return s;
    return clef__fused_record(dev, &key, record)
               ? try_unless_known(dev, record, &key, cases, &kinds, err)
               : clef__fail(err, CLEF_E_IO, "%s: cannot be written", dev->cache_dir);
}
