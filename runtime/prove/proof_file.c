/* The case file of trials. A unit is a case: a line of numbers, a graph in the text form, and the line "end".
 * Or it is a fused step, whose lines (fused_trial.c) come before its own cases. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/cases/cases.h"
#include "graph/shrink.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/trial.h"

enum {
    MANY = 29, /* the first number of rows to try in place of many: for most kernels two tiles and a rest */
    MOST = 64, /* the largest number of rows to try */
    ROOM = 16, /* least value of other symbols, such as the keys that rows may see */
    SLACK = 8  /* factor on the tolerance: a proof looks for broken kernels, the tests check accuracy */
};
const char clef__trial_head[] = "clef trials 1\n";

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns the larger of the node's tolerance and the op's cases' (the node's alone if the op has tol_of),
 * times SLACK. */
static double case_tolerance(const clef_value *n, const clef_op_case *cases)
{
    double tol = (double)clef__tolerance(n);
    for (const clef_op_case *c = cases; c->graph && !clef__ops[n->op]->tol_of; c++)
        tol = (double)c->tol > tol ? (double)c->tol : tol;
    return (double)SLACK * tol;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- a case that launches the same kernels --------------------------------------------------- */

/* A search for another graph that launches the unit's kernels. */
typedef struct search {
    const clef_proof_unit *unit;
    clef_lowering lo;
    const clef_variant *forced[CLEF_N_OPS];
} search;

static void search_init(search *s, const clef_plan *plan, const clef_proof_unit *u)
{
    *s = (search){.unit = u};
    s->forced[u->node->op] = u->kernels.variant;
    s->lo = (clef_lowering){.caps = &plan->dev->info.caps, .gemm = plan->opts.compile.gemm};
}

static int launches_the_same(search *s, const clef_value *n, const int64_t *symbols)
{
    clef_proof_kernels k;
    s->lo.symbols = symbols;
    s->lo.forced = s->forced;
    clef__proof_kernels(&s->lo, n, &k);
    return clef__proof_same_kernels(&k, &s->unit->kernels);
}

static const clef_value *node_of(const clef_graph *g, clef_op op)
{
    const clef_value *found = NULL;
    for (int32_t i = 0; i < g->n_values; i++)
        found = g->values[i]->op == op ? g->values[i] : found;
    return found;
}

static int is_length(const clef_graph *g, int32_t symbol)
{
    return g->symbols[symbol].role == CLEF__SYMBOL_ROWS;
}

/* Binds a symbol that counts rows to `rows`. With as_there, other symbols get the plan's values; otherwise
 * the larger of rows + 3 and ROOM, within their bounds. */
static void bind_symbols(const clef_graph *g, const clef_proof_unit *u, int64_t rows, int as_there,
                         clef_proof_case *c)
{
    const int64_t room = rows + 3 > ROOM ? rows + 3 : ROOM;
    c->n_runs = 1;
    c->int_hi = 3;
    for (int32_t i = 0; i < g->n_symbols; i++)
        c->symbols[0][i] = is_length(g, i) ? rows
                           : as_there      ? u->symbols[i]
                                           : at_most(room, g->symbols[i].bound);
    for (int32_t i = 0; i < g->n_symbols; i++) /* positions for which all rows are within the keys */
        if (g->symbols[i].role == CLEF__SYMBOL_KEYS)
            c->int_hi = (int32_t)at_most(3, c->symbols[0][i] >= rows ? c->symbols[0][i] - rows + 1 : 1);
}

/* Returns the number of rows of try i. */
static int64_t rows_to_try(int64_t i)
{
    return i < MANY ? MANY - i : i + 1;
}

/* Looks for a few rows that launch the same kernels as the plan's many: 29, 28 .. 1, 30, 31 .. 64, first with
 * few keys, then with as many as the plan has. If none does, at most 29 rows with few keys are used, which
 * prove a part of the kernels. */
static void choose_run(search *s, const clef_graph *g, clef_proof_case *c)
{
    const clef_value *n = node_of(g, s->unit->node->op);
    int64_t rows = 1;
    for (int32_t i = 0; i < g->n_symbols; i++)
        rows = is_length(g, i) ? s->unit->symbols[i] : rows;
    for (int as_there = 0; as_there <= 1; as_there++)
        for (int64_t i = 0; i < MOST; i++) {
            if (rows_to_try(i) > rows)
                continue;
            bind_symbols(g, s->unit, rows_to_try(i), as_there, c);
            if (launches_the_same(s, n, c->symbols[0]))
                return;
        }
    bind_symbols(g, s->unit, at_most(rows, MANY), 0, c);
}

static int64_t leaf_elements(const clef_graph *g)
{
    int64_t n = 0;
    for (int32_t i = 0; i < g->n_values; i++)
        n += g->values[i]->op == CLEF_OP_NONE ? clef__elements(g->values[i], NULL) : 0;
    return n;
}

/* Returns the op's largest case that launches the same kernels; if none does, its first case. */
static const clef_op_case *choose_case(search *s, const clef_op_case *cases)
{
    const clef_op_def *def = clef__ops[s->unit->node->op];
    const clef_op_case *best = cases;
    int64_t most = 0;
    for (const clef_op_case *c = cases; c->graph; c++) {
        int64_t bounds[CLEF_MAX_SYMBOLS] = {0};
        clef_graph *g = NULL;
        if (clef_graph_parse(c->graph, strlen(c->graph), def->name, &g, NULL))
            continue;
        for (int32_t i = 0; i < g->n_symbols; i++)
            bounds[i] = g->symbols[i].bound;
        const clef_value *n = node_of(g, s->unit->node->op);
        if (n && leaf_elements(g) > most && launches_the_same(s, n, bounds)) {
            most = leaf_elements(g);
            best = c;
        }
        clef_graph_destroy(g);
    }
    return best;
}

static void write_case(FILE *to, const clef_proof_unit *u, const clef_proof_case *c)
{
    fprintf(to, "case %s %s %d %d %d %d %.9g %.9g %d", clef__ops[u->node->op]->name,
            u->kernels.variant ? u->kernels.variant->name : "-", (int)u->n_hung, (int)c->gemm, (int)c->int_lo,
            (int)c->int_hi, (double)c->spread, c->tol, (int)c->n_runs);
    for (int32_t r = 0; r < c->n_runs; r++)
        for (int32_t i = 0; i < CLEF_MAX_SYMBOLS; i++)
            fprintf(to, " %" PRId64, c->symbols[r][i]);
    fputc('\n', to);
}

clef_status clef__trial_write_case(FILE *to, const clef_plan *plan, const clef_proof_unit *u, clef_error *err)
{
    const clef_variant *variant = u->kernels.variant;
    const clef_op_def *def = clef__ops[u->node->op];
    clef_proof_case c = {.gemm = variant && variant->clblast ? CLEF_GEMM_CLBLAST : CLEF_GEMM_OWN};
    clef_graph *g = NULL;
    clef_op_case *cases = NULL;
    search find;
    search_init(&find, plan, u);
    clef_status s = clef__cases_load(def, &cases, err);
    if (!s && def->proof != CLEF__PROOF_BY_CASES)
        s = clef__graph_of_node(u->node, &g, err);
    if (!s)
        c.tol = case_tolerance(u->node, cases);
    if (!s && g) {
        choose_run(&find, g, &c);
        write_case(to, u, &c);
        s = clef_graph_write_text(g, to, err);
        fputs("\nend\n", to);
    } else if (!s) {
        const clef_op_case *of = choose_case(&find, cases);
        c.int_lo = of->int_lo;
        c.int_hi = of->int_hi;
        c.spread = of->spread;
        write_case(to, u, &c);
        fprintf(to, "%send\n", of->graph);
    }
    clef__cases_free(cases);
    clef_graph_destroy(g);
    return s;
}

clef_status clef__proof_write(const char *path, const clef_plan *plan, const clef_proof_units *units,
                              clef_error *err)
{
    FILE *to = fopen(path, "wb");
    if (!to)
        return clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    fputs(clef__trial_head, to);
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < units->n && !s; i++)
        s = clef__trial_write_case(to, plan, &units->at[i], err);
    if (ferror(to) && !s)
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    if (fclose(to) && !s)
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_head(const char *line, clef_proof_entry *e)
{
    int gemm = 0, n_hung = 0, at = 0, n_runs = 0, lo = 0, hi = 0;
    double spread = 0;
    if (sscanf(line, "case %31s %31s %d %d %d %d %lf %lf %d%n", e->op, e->variant, &n_hung, &gemm, &lo, &hi,
               &spread, &e->c.tol, &n_runs, &at) != 9 ||
        n_runs < 0 || n_runs > CLEF_PROOF_MAX_RUNS || gemm < 0 || gemm > CLEF_GEMM_CLBLAST)
        return 0;
    e->c.gemm = (clef_gemm)gemm;
    e->n_hung = n_hung;
    e->c.int_lo = lo;
    e->c.int_hi = hi;
    e->c.spread = (float)spread;
    e->c.n_runs = n_runs;
    for (int32_t i = 0; i < n_runs * CLEF_MAX_SYMBOLS; i++) {
        char *end;
        e->c.symbols[i / CLEF_MAX_SYMBOLS][i % CLEF_MAX_SYMBOLS] = strtoll(line + at, &end, 10);
        if (end == line + at)
            return 0;
        at = (int)(end - line);
    }
    if (strcmp(e->variant, "-") != 0)
        snprintf(e->forced, sizeof e->forced, "%s=%s", e->op, e->variant);
    e->c.variants = e->forced;
    return 1;
}

int clef__trial_read_case(const char *start, clef_proof_entry *out)
{
    const char *line = strchr(start, '\n'), *end = line ? strstr(line, "\nend\n") : NULL;
    *out = (clef_proof_entry){0};
    if (!end || !read_head(start, out))
        return 0;
    out->text = line + 1;
    out->n = (size_t)(end - line);
    return 1;
}

const char *clef__trial_skip_case(const char *at)
{
    static const char last[] = "\nend\n";
    const char *end = strstr(at, last);
    return end ? end + sizeof last - 1 : NULL;
}

int32_t clef__trial_units(const char *text, const char **starts, int32_t most)
{
    const size_t n_head = strlen(clef__trial_head);
    int32_t n = 0;
    if (strncmp(text, clef__trial_head, n_head) != 0)
        return -1;
    for (const char *at = text + n_head; *at; n++) {
        if (n < most)
            starts[n] = at;
        at = clef__fused_is_unit(at) ? clef__fused_skip_unit(at) : clef__trial_skip_case(at);
        if (!at)
            return -1;
    }
    return n;
}
