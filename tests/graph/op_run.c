/* Runs a case on a device, against the op's reference in double. */
#include "op_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

#include "graph/hash.h"

/* ---- running and comparing ------------------------------------------------------------------- */

static double tolerance(const op_run *r)
{
    return (double)(r->data->of->tol != 0 ? r->data->of->tol : r->op->tol);
}

static void complain(const op_run *r, const char *what)
{
    static const char *const gemms[] = {"auto", "own", "clblast"};
    print_error("%s on %s, variant %s, gemm %s, symbols", r->op->name, clef_device_describe(r->dev)->name,
                r->variant ? r->variant->name : "free", gemms[r->gemm]);
    for (int32_t i = 1; i <= r->data->graph->n_symbols; i++)
        print_error(" %s=%lld", clef_graph_symbol(r->data->graph, i, NULL),
                    (long long)r->data->oracle.symbols[i - 1]);
    print_error(": %s\n%s", what, r->data->of->graph);
}

static int check_output(op_run *r, int32_t i)
{
    const clef_value *v = r->data->graph->outputs[i].value;
    const size_t n_bytes = (size_t)clef__bytes(v, r->data->oracle.symbols);
    char text[400];
    int64_t at = 0;
    clef_error err;
    void *data = malloc(n_bytes);
    assert_non_null(data);
    if (clef_plan_read(r->plan, clef_plan_output(r->plan, r->data->graph->outputs[i].name), data, n_bytes,
                       &err)) {
        complain(r, err.text);
        free(data);
        return 0;
    }
    const double *want = r->data->oracle.results[v->id].x;
    const double e = clef__worst_error(v->dtype, data, want, clef__elements(v, r->data->oracle.symbols),
                                       tolerance(r), &at);
    r->worst = fmax(r->worst, e);
    if (e > 1) {
        snprintf(text, sizeof text, "element %lld is %.9g, expected %.9g (%.3g of the tolerance %.3g)",
                 (long long)at, clef__stored_element(v->dtype, data, at), want[at], e, tolerance(r));
        complain(r, text);
    }
    free(data);
    return e <= 1;
}

static clef_status write_inputs(op_run *r, clef_error *err)
{
    clef_status s = clef_plan_reset(r->plan, err);
    for (int32_t i = 1; i <= r->data->graph->n_symbols && !s; i++)
        s = clef_plan_bind(r->plan, clef_plan_symbol(r->plan, clef_graph_symbol(r->data->graph, i, NULL)),
                           r->data->oracle.symbols[i - 1], err);
    for (int32_t i = 0; i < r->data->graph->n_values && !s; i++) {
        const clef_value *v = r->data->graph->values[i];
        if (v->kind == CLEF_INPUT)
            s = clef_plan_write(r->plan, clef_plan_input(r->plan, v->name), r->data->oracle.leaves[i].bytes,
                                r->data->oracle.leaves[i].n_bytes, err);
    }
    return s ? s : clef_plan_run(r->plan, err);
}

/* One run at the present symbols. */
static int check_run(op_run *r)
{
    clef_error err;
    int ok = 1;
    if (clef__oracle_eval(&r->data->oracle, &err) || write_inputs(r, &err)) {
        complain(r, err.text);
        ok = 0;
    }
    for (int32_t i = 0; i < r->data->graph->n_outputs && ok; i++)
        ok = check_output(r, i);
    return ok;
}

static int32_t count_rounds(const clef_graph *g)
{
    return g->n_symbols ? (g->n_symbols > 1 ? g->n_symbols : 0) + 4 : 1;
}

/* The symbols' values in a round: at the bounds, all at 1, each at 1 alone, in the middle, and back at the
 * bounds. */
static void set_symbols(const clef_graph *g, int32_t round, int64_t *symbols)
{
    const int32_t n = g->n_symbols, alone = n > 1 ? n : 0, rounds = count_rounds(g);
    for (int32_t i = 0; i < n; i++)
        symbols[i] = round == 1 || (alone && round == i + 2) ? 1
                     : round == rounds - 2                   ? (g->symbols[i].bound + 1) / 2
                                                             : g->symbols[i].bound;
}

/* One plan of `planned` (the case's graph, or what the passes made of it) serves all rounds. */
static int check_symbols(op_run *r, const clef_graph *planned)
{
    const clef_graph *g = r->data->graph;
    char forced[64] = "";
    if (r->variant)
        snprintf(forced, sizeof forced, "%s=%s", r->op->name, r->variant->name);
    const clef_plan_opts opts = {.compile.gemm = r->gemm,
                                 .as_stored = 1,
                                 .variants = forced,
                                 .compile.no_tune = 1,
                                 .weights = clef__oracle_weight,
                                 .weights_user = &r->data->oracle};
    clef_error err;
    int ok = 1;
    for (int32_t round = 0; round < count_rounds(g); round++) {
        set_symbols(g, round, r->data->oracle.symbols);
        if (clef__oracle_draw(&r->data->oracle, &err)) {
            complain(r, err.text);
            ok = 0;
            break;
        }
        if (round == 0 && clef_plan_create(r->dev, planned, &opts, &r->plan, &err)) {
            complain(r, err.text);
            return 0;
        }
        ok = check_run(r) && ok;
    }
    clef_plan_destroy(r->plan);
    return ok;
}

/* Whether the variant can do a node of the case, at the symbols' bounds or at 1. */
static int variant_fits(const op_run *r)
{
    const clef_graph *g = r->data->graph;
    for (int32_t i = 0; i < 2 * g->n_values; i++) {
        const clef_value *n = g->values[i / 2];
        const clef_lowering lo = {.graph = g,
                                  .caps = &clef_device_describe(r->dev)->caps,
                                  .symbols = r->data->oracle.symbols,
                                  .gemm = r->gemm,
                                  .node = n};
        for (int32_t k = 0; k < g->n_symbols; k++)
            r->data->oracle.symbols[k] = i % 2 ? 1 : g->symbols[k].bound;
        if (n->op != CLEF_OP_NONE && clef__ops[n->op] == r->op && clef__variant_fits(&lo, n, r->variant))
            return 1;
    }
    return 0;
}

/* ---- what another run has tested: a digest of launches stands for the work of a graph -------- */

static uint64_t add_launch(uint64_t digest, const clef_launch *l)
{
    if (l->source)
        digest = clef__hash(digest, l->source, strlen(l->source) + 1);
    if (l->kernel)
        digest = clef__hash(digest, l->kernel, strlen(l->kernel) + 1);
    for (int i = 0; i < CLEF_MAX_DEFS && l->defs[i].name; i++) {
        digest = clef__hash(digest, l->defs[i].name, strlen(l->defs[i].name) + 1);
        digest = clef__hash(digest, &l->defs[i].value, sizeof l->defs[i].value);
    }
    digest = clef__hash(digest, l->args, l->args_bytes);
    digest = clef__hash(digest, l->bufs, l->n_bufs * sizeof *l->bufs);
    digest = clef__hash(digest, l->groups, sizeof l->groups);
    digest = clef__hash(digest, l->local, sizeof l->local);
    return clef__hash(digest, &(uint64_t[]){l->call, (uint64_t)l->c_version, l->scratch_bytes},
                      3 * sizeof(uint64_t));
}

/* All launches of the graph on a device of these capabilities, in every round. 0: it cannot be lowered
 * there. */
static uint64_t digest_graph(const op_run *r, const clef_graph *g, const clef_caps *caps)
{
    static clef_launch launches[64];
    static unsigned char args[64 * CLEF_MAX_ARGS_BYTES];
    const clef_variant *forced[CLEF_N_OPS] = {0};
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    uint64_t digest = CLEF__HASH_START;
    for (int32_t i = 0; i < CLEF_N_OPS; i++)
        forced[i] = clef__ops[i] == r->op ? r->variant : NULL;
    for (int32_t round = 0; round < count_rounds(g); round++) {
        set_symbols(g, round, symbols);
        for (int32_t i = 0; i < g->n_values; i++) {
            const clef_value *n = g->values[i];
            clef_error err;
            clef_lowering lo = {.graph = g,
                                .caps = caps,
                                .symbols = symbols,
                                .gemm = r->gemm,
                                .forced = forced,
                                .node = n,
                                .launches = launches,
                                .cap = 64,
                                .args = args};
            if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->lower)
                continue;
            if (clef__ops[n->op]->lower(&lo, n, &err))
                return 0;
            for (int32_t k = 0; k < lo.n; k++)
                digest = add_launch(digest, &launches[k]);
        }
    }
    return digest;
}

/* Whether the run under CLEF_TEST_BEYOND has launched for this graph what this run would. A graph that cannot
 * be lowered counts as not tested. */
static int is_tested(const op_run *r, const clef_graph *g)
{
    const clef_caps *caps = &clef_device_describe(r->dev)->caps;
    const uint64_t digest = r->other ? digest_graph(r, g, caps) : 0;
    return digest && digest == digest_graph(r, g, r->other);
}

static int differ(const clef_graph *a, const clef_graph *b)
{
    int same = a->n_values == b->n_values;
    for (int32_t i = 0; i < a->n_values && same; i++)
        same = a->values[i]->op == b->values[i]->op &&
               clef__shape_equal(&a->values[i]->shape, &b->values[i]->shape);
    return !same;
}

/* What the passes make of the case's graph; NULL where that is the same graph, or after a complaint (*ok is
 * 0). */
static clef_graph *optimize_copy(const op_run *r, int *ok)
{
    clef_error err;
    clef_graph *g = clef_graph_clone(r->data->graph);
    assert_non_null(g);
    *ok = clef_graph_optimize(g, NULL, &err) == CLEF_OK && clef_graph_optimize(g, "verify", &err) == CLEF_OK;
    if (!*ok)
        complain(r, err.text);
    if (*ok && differ(g, r->data->graph))
        return g;
    clef_graph_destroy(g);
    return NULL;
}

/* What the passes make of the case's graph gives what the graph as written gives. */
static int check_optimized(op_run *r)
{
    int ok;
    clef_graph *g = optimize_copy(r, &ok);
    if (g)
        ok = check_symbols(r, g);
    if (!ok)
        print_error("after the passes\n");
    clef_graph_destroy(g);
    return ok;
}

static double flops_at_bounds(const clef_graph *g)
{
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    double flops = 0;
    for (int32_t i = 0; i < g->n_symbols; i++)
        symbols[i] = g->symbols[i].bound;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->op != CLEF_OP_NONE) {
            const clef_cost cost = clef__cost(g->values[i], symbols);
            flops += cost.flops + cost.bytes / 8;
        }
    return flops;
}

int op_run_open(op_run *r, case_data *c, const clef_op_def *op, const clef_op_case *of, clef_device *dev,
                const clef_caps *other, const clef_variant *variant)
{
    clef_error err;
    *c = (case_data){.of = of};
    *r = (op_run){.op = op,
                  .dev = dev,
                  .other = other,
                  .gemm = variant && variant->clblast ? CLEF_GEMM_CLBLAST : CLEF_GEMM_OWN,
                  .variant = variant,
                  .data = c};
    if (clef_graph_parse(of->graph, strlen(of->graph), op->name, &c->graph, &err)) {
        print_error("%s\n%s", err.text, of->graph);
        return 0;
    }
    c->oracle = (clef__oracle){.int_lo = of->int_lo, .int_hi = of->int_hi, .spread = of->spread};
    assert_int_equal(clef__oracle_init(&c->oracle, c->graph, &err), CLEF_OK);
    return 1;
}

void op_run_close(case_data *c)
{
    clef__oracle_finish(&c->oracle);
    clef_graph_destroy(c->graph);
}

int op_run_is_due(op_run *r, double most_flops)
{
    int ok = 1, due = flops_at_bounds(r->data->graph) <= most_flops && (!r->variant || variant_fits(r));
    if (due && is_tested(r, r->data->graph)) {
        clef_graph *g = optimize_copy(r, &ok);
        due = !ok || (g && !is_tested(r, g));
        clef_graph_destroy(g);
    }
    return due;
}

int op_run_check(op_run *r)
{
    const int ok = check_symbols(r, r->data->graph);
    return check_optimized(r) && ok;
}
