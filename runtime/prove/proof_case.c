/* A case of a proof: random data, one plan, and a comparison of its results with the reference in double. */
#include <math.h>
#include <stdlib.h>

#include "graph/cases/oracle.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/proof.h"
#include "runtime/tune/tune.h"

typedef struct run {
    const clef_proof_case *of;
    clef__oracle oracle;
    clef_plan *plan;
} run;

static clef_status check_output(run *r, int32_t i, double *worst, clef_error *err)
{
    const clef_value *v = r->of->graph->outputs[i].value;
    const size_t n_bytes = (size_t)clef__bytes(v, r->oracle.symbols);
    void *data = malloc(n_bytes + 1);
    if (!data)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu bytes", v->name, n_bytes);
    const clef_status s =
        clef_plan_read(r->plan, clef_plan_output(r->plan, r->of->graph->outputs[i].name), data, n_bytes, err);
    if (!s)
        *worst = fmax(*worst, clef__worst_error(v->dtype, data, r->oracle.results[v->id].x,
                                                clef__elements(v, r->oracle.symbols), r->of->tol, NULL));
    free(data);
    return s;
}

/* Zeroes states, binds symbols and writes inputs. */
static clef_status begin_run(void *user, clef_error *err)
{
    run *r = user;
    const clef_graph *g = r->of->graph;
    clef_status s = clef_plan_reset(r->plan, err);
    for (int32_t i = 1; i <= g->n_symbols && !s; i++)
        s = clef_plan_bind(r->plan, i, r->oracle.symbols[i - 1], err);
    for (int32_t i = 0; i < g->n_values && !s; i++)
        if (g->values[i]->kind == CLEF_INPUT)
            s = clef_plan_write(r->plan, clef_plan_input(r->plan, g->values[i]->name),
                                r->oracle.leaves[i].bytes, r->oracle.leaves[i].n_bytes, err);
    return s;
}

static clef_status run_plan(run *r, clef_error *err)
{
    const clef_status s = begin_run(r, err);
    return s ? s : clef_plan_run(r->plan, err);
}

static clef_status run_once(run *r, void *user, clef_error *err)
{
    clef_status s = clef__oracle_eval(&r->oracle, err);
    if (!s)
        s = run_plan(r, err);
    for (int32_t i = 0; i < r->of->graph->n_outputs && !s; i++)
        s = check_output(r, i, user, err);
    return s;
}

/* Sets the symbols of run i to the case's values. Without values, the first run uses the symbols' bounds, and
 * the second run uses 1. */
static void set_symbols(run *r, int32_t i)
{
    const clef_proof_case *c = r->of;
    for (int32_t k = 0; k < CLEF_MAX_SYMBOLS; k++)
        r->oracle.symbols[k] = c->n_runs                       ? c->symbols[i][k]
                               : i || k >= c->graph->n_symbols ? 1
                                                               : c->graph->symbols[k].bound;
}

/* Uses the device's tuning, so that a variant runs with the values that plans use, and what packs weights is
 * what has passed. Builds only the kernels
 * that run. */
static clef_status make_plan(clef_device *dev, const clef_proof_case *c, const clef_plan_opts *opts,
                             clef_plan **out, clef_error *err)
{
    clef_tuning tuning = {0};
    clef_proofs *known = NULL;
    const clef_status s = clef__tuning_of(dev, &tuning, err);
    if (!s && !clef__proofs_open(dev, &known, NULL))
        clef__proofs_set_aside(known, &tuning);
    return s ? s : clef__plan_make(dev, c->graph, opts, NULL, &tuning, out, err);
}

/* Calls once() for each run of the case. */
static clef_status run_all(clef_device *dev, const clef_proof_case *c,
                           clef_status (*once)(run *, void *, clef_error *), void *user, clef_error *err)
{
    run r = {.of = c, .oracle = {.int_lo = c->int_lo, .int_hi = c->int_hi, .spread = c->spread}};
    const clef_plan_opts opts = {.compile = {.gemm = c->gemm, .no_tune = 1, .no_proof = 1},
                                 .as_stored = 1,
                                 .variants = c->variants,
                                 .weights = clef__oracle_weight,
                                 .weights_user = &r.oracle};
    const int32_t n_runs = c->n_runs ? c->n_runs : c->graph->n_symbols ? 2 : 1;
    clef_status s = clef__oracle_init(&r.oracle, c->graph, err);
    for (int32_t i = 0; i < n_runs && !s; i++) {
        set_symbols(&r, i);
        s = clef__oracle_draw(&r.oracle, err);
        if (!s && !r.plan)
            s = make_plan(dev, c, &opts, &r.plan, err);
        if (!s)
            s = once(&r, user, err);
    }
    clef_plan_destroy(r.plan);
    clef__oracle_finish(&r.oracle);
    return s;
}

clef_status clef__proof_run(clef_device *dev, const clef_proof_case *c, double *worst, clef_error *err)
{
    *worst = 0;
    return run_all(dev, c, run_once, worst, err);
}

static clef_status visit_once(run *r, void *user, clef_error *err)
{
    const clef_proof_visit *v = user;
    const clef_status s = run_plan(r, err); /* which lowers and binds */
    return s ? s : v->visit(v->user, r->plan, begin_run, r, err);
}

clef_status clef__proof_visit(clef_device *dev, const clef_proof_case *c, const clef_proof_visit *visit,
                              clef_error *err)
{
    return run_all(dev, c, visit_once, (void *)(uintptr_t)visit, err);
}
