/* A fused step as a unit of a case file: a line for each kind of substep, then cases of the plan's own nodes
 * that launch these kinds. The child builds the step and compares it with its launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/prove/trial.h"

enum { REPEATS = 3, MAX_CASES = 64, PRINT_BYTES = 8, NAME_BYTES = 12 };

int clef__fused_journal(const clef_device *dev, const clef_cache_key *key, char out[CLEF__TRIAL_PATH])
{
    int n = snprintf(out, CLEF__TRIAL_PATH, "%s/proof", dev->cache_dir);
    if (n < 0 || n + 2 * NAME_BYTES + 80 > CLEF__TRIAL_PATH || clef__os_make_dirs(out, NULL))
        return 0;
    n += snprintf(out + n, CLEF__TRIAL_PATH - (size_t)n, "/step-");
    for (int32_t i = 0; i < NAME_BYTES; i++)
        n += snprintf(out + n, CLEF__TRIAL_PATH - (size_t)n, "%02x", key->bytes[i]);
    strcpy(out + n, ".out");
    return 1;
}

uint64_t clef__fused_print(const clef_cache_key *key)
{
    uint64_t print = 0;
    for (int32_t i = 0; i < PRINT_BYTES; i++)
        print = print << 8 | key->bytes[i];
    return print;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_kind(FILE *to, const clef_fused_kind *kind)
{
    fprintf(to, "kind %s %s %u", kind->source, kind->kernel, (unsigned)kind->n_bufs);
    for (int32_t i = 0; i < CLEF_MAX_DEFS && kind->defs[i].name; i++)
        fprintf(to, " %s %d", kind->defs[i].name, (int)kind->defs[i].value);
    fputc('\n', to);
}

typedef struct chosen {
    clef_proof_unit at[MAX_CASES];
    int32_t n;
} chosen;

/* Adds the node's kernels at these symbols, if no case so far launches the same kernels. */
static void choose_case(const clef_plan *plan, const clef_value *n, const int64_t *symbols, chosen *c)
{
    clef_lowering lo = clef__plan_lowering(plan);
    lo.symbols = symbols;
    clef_proof_unit *u = &c->at[c->n];
    if (c->n == MAX_CASES)
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

/* Chooses cases of one row: with the symbols of the plan's list, and with as many visible keys as
 * possible. */
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
            choose_case(plan, plan->launches[i].node, plan->symbols, c);
            choose_case(plan, plan->launches[i].node, far, c);
        }
}

clef_status clef__fused_write(const char *path, const clef_plan *plan, const clef_fused_kinds *kinds,
                              int32_t n_hung, int32_t *n_steps, clef_error *err)
{
    chosen *c = calloc(1, sizeof *c);
    FILE *to = c ? fopen(path, "wb") : NULL;
    clef_status s = !c    ? clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for its case file")
                    : !to ? clef__fail(err, CLEF_E_IO, "%s: cannot be written", path)
                          : CLEF_OK;
    if (!s) {
        choose_all(plan, c);
        fprintf(to, "%sstep %d %d\n", clef__trial_head, (int)n_hung, (int)c->n);
        for (int32_t i = 0; i < kinds->n; i++)
            write_kind(to, &kinds->at[i]);
        fputs("cases\n", to);
    }
    for (int32_t i = 0; !s && i < c->n; i++)
        s = clef__trial_write_case(to, plan, &c->at[i], err);
    const int failed = to && ferror(to);
    if (to && (fclose(to) || failed) && !s)
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    if (s && to)
        clef__os_remove(path);
    *n_steps = 1 + (c ? c->n : 0) + 1; /* the build, cases, the saved program */
    free(c);
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char first_word[] = "step ", last_kind[] = "\ncases\n";

int clef__fused_is_unit(const char *unit)
{
    return strncmp(unit, first_word, sizeof first_word - 1) == 0;
}

const char *clef__fused_skip_unit(const char *unit)
{
    int n_hung, n_cases;
    const char *at = strstr(unit, last_kind);
    if (!at || sscanf(unit, "step %d %d", &n_hung, &n_cases) != 2)
        return NULL;
    at += sizeof last_kind - 1;
    for (int32_t i = 0; i < n_cases && at; i++)
        at = clef__trial_skip_case(at);
    return at;
}

/* Returns the next word, NULL if none is left. */
static const char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " "), *end = word + strcspn(word, " ");
    *rest = *end ? end + 1 : end;
    *end = 0;
    return *word ? word : NULL;
}

/* Parses "kind SOURCE KERNEL BUFS [NAME VALUE]..". The names point into the line. */
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

/* Returns 0 when a line is not a valid kind. */
static int read_kinds(char *line, const char *end, clef_fused_kinds *out)
{
    out->n = 0;
    while (line < end) {
        char *line_end = strchr(line, '\n');
        if (!line_end || out->n == CLEF_FUSED_KINDS)
            return 0;
        *line_end = 0;
        if (!read_kind(line, &out->at[out->n++]))
            return 0;
        line = line_end + 1;
    }
    return out->n > 0;
}

clef_status clef__fused_read_unit(clef_device *dev, char *text, clef__fused_unit *out, clef_error *err)
{
    int n_hung = 0, n_cases = 0;
    char *line = strchr(text, '\n'), *cases = strstr(text, last_kind);
    if (!cases || sscanf(text, "step %d %d", &n_hung, &n_cases) != 2 ||
        !read_kinds(line + 1, cases + 1, &out->kinds))
        return clef__fail(err, CLEF_E_FORMAT, "fused step: its unit is malformed");
    out->n_hung = n_hung;
    out->n_cases = n_cases;
    out->cases = cases + sizeof last_kind - 1;
    const clef_status s = clef__fused_key(dev, &out->kinds, &out->key, err);
    return s || clef__fused_journal(dev, &out->key, out->journal)
               ? s
               : clef__fail(err, CLEF_E_IO, "%s: cannot be written", dev->cache_dir);
}

/* ---- trying ---------------------------------------------------------------------------------- */

typedef struct trial {
    const clef_fused_kinds *kinds;
    int32_t n_held; /* runs that passed the comparison */
} trial;

static clef_status compare_with_launches(void *user, clef_plan *plan,
                                         clef_status (*begin)(void *run, clef_error *err), void *run,
                                         clef_error *err)
{
    trial *t = user;
    const clef_fused_trial how = {REPEATS, begin, run};
    clef_status s = clef__fused_attach(plan, t->kinds, REPEATS, err);
    if (!s)
        s = clef__fused_check(plan, &how, err);
    t->n_held += !s;
    clef__fused_detach(plan);
    return s == CLEF_E_UNSUPPORTED ? CLEF_OK : s; /* it launches other kernels: a case of the op in place of
                                                     the plan's node */
}

static clef_status try_case(clef_device *dev, const char *start, trial *t, clef_error *err)
{
    clef_proof_entry e;
    clef_graph *g = NULL;
    if (!start || !clef__trial_read_case(start, &e))
        return clef__fail(err, CLEF_E_FORMAT, "fused step: a case is malformed");
    clef_status s = clef_graph_parse(e.text, e.n, e.op, &g, err);
    e.c.graph = g;
    if (!s)
        s = clef__proof_visit(dev, &e.c, &(clef_proof_visit){compare_with_launches, t}, err);
    clef_graph_destroy(g);
    clef__os_guard_step();
    return s;
}

static clef_status try_cases(clef_device *dev, const clef__fused_unit *u, clef_error *err)
{
    const char *at = u->cases;
    trial t = {.kinds = &u->kinds};
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < u->n_cases && !s; i++) {
        s = try_case(dev, at, &t, err);
        at = s ? NULL : clef__trial_skip_case(at);
    }
    return !s && !t.n_held ? clef__fail(err, CLEF_E_UNSUPPORTED, "fused step: no case launches its kernels")
                           : s;
}

clef_status clef__fused_try_unit(clef_device *dev, const clef__fused_unit *u, clef_error *err)
{
    cl_kernel kernel = NULL;
    clef_status s = clef__fused_create(dev, &u->kinds, CLEF_JOIN_BUILD, &kernel, err);
    if (!s) {
        clef__os_guard_step();
        clef__os_guard_allow(clef__trial_seconds(u->n_hung));
        s = try_cases(dev, u, err);
    }
    if (!s) {
        clef__program_keep(dev, kernel);
        clef__os_guard_step();
    }
    if (kernel)
        clReleaseKernel(kernel);
    return s;
}
