/* A case of a proof: random data, one plan, and its results against the reference in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op/ref.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/proof.h"

typedef struct leaf {
    unsigned char *bytes;
    float *x;
    size_t n, n_bytes;
} leaf;

typedef struct run {
    const clef_proof_case *of;
    leaf *leaves; /* by value id */
    const int64_t *symbols;
    clef_plan *plan;
    uint64_t random;
} run;

/* ---- data
 * ------------------------------------------------------------------------------------------------------------------------
 */

static double uniform(run *r) /* (0, 1) */
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return ((double)(r->random >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(run *r)
{
    return sqrt(-2 * log(uniform(r))) * cos(6.283185307179586 * uniform(r));
}

/* Blocks of a format that clef does not write: random bytes, drawn again until the elements are of a usual
 * size. */
static void draw_blocks(run *r, clef_dtype dtype, leaf *l)
{
    const size_t elems = (size_t)clef_dtype_block_elems(dtype), bytes = (size_t)clef_dtype_block_bytes(dtype);
    for (size_t i = 0; i < l->n / elems; i++) {
        float *x = l->x + i * elems, most = 0;
        while (!(most > 0.25f && most < 4)) {
            most = 0;
            for (size_t k = 0; k < bytes; k++)
                l->bytes[i * bytes + k] = (unsigned char)(uniform(r) * 256);
            clef_dtype_decode(dtype, l->bytes + i * bytes, elems, x);
            for (size_t k = 0; k < elems; k++)
                most = isfinite(x[k]) ? fmaxf(most, fabsf(x[k])) : INFINITY;
        }
    }
}

static void free_leaf(leaf *l)
{
    free(l->bytes);
    free(l->x);
    *l = (leaf){0};
}

/* At the present symbols. States are 0. What a format cannot hold is rounded for both sides. */
static clef_status fill_leaf(run *r, const clef_value *v, clef_error *err)
{
    const clef_proof_case *c = r->of;
    const int whole = v->dtype == CLEF_I32 || v->dtype == CLEF_I8;
    const double spread = c->spread != 0 ? (double)c->spread : 1;
    leaf *l = &r->leaves[v->id];
    r->random = 20240817 + (uint64_t)v->id * 1000003;
    l->n = (size_t)clef__elements(v, r->symbols);
    l->n_bytes = (size_t)clef__bytes(v, r->symbols);
    l->x = calloc(l->n + 1, sizeof *l->x);
    l->bytes = malloc(l->n_bytes + 1);
    if (!l->x || !l->bytes)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu random elements", v->name, l->n);
    if (!clef_dtype_encodes(v->dtype)) {
        draw_blocks(r, v->dtype, l);
        return CLEF_OK;
    }
    for (size_t i = 0; i < l->n && v->kind != CLEF_STATE; i++)
        l->x[i] =
            (float)(whole ? c->int_lo + floor(uniform(r) * (c->int_hi - c->int_lo)) : spread * normal(r));
    clef_dtype_encode(v->dtype, l->x, l->n, l->bytes);
    clef_dtype_decode(v->dtype, l->bytes, l->n, l->x);
    return CLEF_OK;
}

/* Inputs anew, weights and states once: the plan borrows the weights. */
static clef_status fill_leaves(run *r, clef_error *err)
{
    const clef_graph *g = r->of->graph;
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < g->n_values && !s; i++) {
        const clef_value *v = g->values[i];
        if (v->op != CLEF_OP_NONE || v->kind == CLEF_CONSTANT ||
            (v->kind != CLEF_INPUT && r->leaves[i].bytes))
            continue;
        free_leaf(&r->leaves[i]);
        s = fill_leaf(r, v, err);
    }
    return s;
}

static clef_status leaf_for_reference(void *user, const clef_value *v, double *x, int64_t n, clef_error *err)
{
    const run *r = user;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)r->leaves[v->id].x[i];
    return CLEF_OK;
}

static const void *weight_for_plan(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    const run *r = user;
    const clef_value *v = clef_graph_find(r->of->graph, name);
    return v && v->dtype == dtype && r->leaves[v->id].n_bytes == n_bytes ? r->leaves[v->id].bytes : NULL;
}

/* ---- running
 * ---------------------------------------------------------------------------------------------------------------------
 */

static double element(clef_dtype dtype, const void *data, int64_t i)
{
    enum { MOST = 256 }; /* elements of a block */
    const int64_t elems = clef_dtype_block_elems(dtype);
    float block[MOST];
    if (dtype == CLEF_I32)
        return (double)((const int32_t *)data)[i];
    clef_dtype_decode(dtype, (const char *)data + i / elems * clef_dtype_block_bytes(dtype), (size_t)elems,
                      block);
    return (double)block[i % elems];
}

static double compare(double tol, clef_dtype dtype, const void *data, const clef_ref_tensor *ref)
{
    const int64_t n = ref->n[0] * ref->n[1] * ref->n[2] * ref->n[3];
    double most = 0, worst = 0;
    for (int64_t i = 0; i < n; i++)
        most = isfinite(ref->x[i]) ? fmax(most, fabs(ref->x[i])) : most;
    const double allowed = tol * (most + 1e-6);
    for (int64_t i = 0; i < n; i++) {
        const double x = element(dtype, data, i),
                     wrong = x == ref->x[i] || (isnan(x) && isnan(ref->x[i])) ? 0 : fabs(x - ref->x[i]);
        worst = fmax(worst, wrong == 0 ? 0 : allowed > 0 && isfinite(wrong) ? wrong / allowed : INFINITY);
    }
    return worst;
}

static clef_status check_output(run *r, int32_t i, const clef_ref_tensor *results, double *worst,
                                clef_error *err)
{
    const clef_value *v = r->of->graph->outputs[i].value;
    const size_t n_bytes = (size_t)clef__bytes(v, r->symbols);
    void *data = malloc(n_bytes + 1);
    if (!data)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu bytes", v->name, n_bytes);
    const clef_status s =
        clef_plan_read(r->plan, clef_plan_output(r->plan, r->of->graph->outputs[i].name), data, n_bytes, err);
    if (!s)
        *worst = fmax(*worst, compare(r->of->tol, v->dtype, data, &results[v->id]));
    free(data);
    return s;
}

/* States zeroed, symbols bound, inputs written. */
static clef_status begin(void *user, clef_error *err)
{
    run *r = user;
    const clef_graph *g = r->of->graph;
    clef_status s = clef_plan_reset(r->plan, err);
    for (int32_t i = 1; i <= g->n_symbols && !s; i++)
        s = clef_plan_bind(r->plan, i, r->symbols[i - 1], err);
    for (int32_t i = 0; i < g->n_values && !s; i++)
        if (g->values[i]->kind == CLEF_INPUT)
            s = clef_plan_write(r->plan, clef_plan_input(r->plan, g->values[i]->name), r->leaves[i].bytes,
                                r->leaves[i].n_bytes, err);
    return s;
}

static clef_status run_plan(run *r, clef_error *err)
{
    const clef_status s = begin(r, err);
    return s ? s : clef_plan_run(r->plan, err);
}

static clef_status run_once(run *r, void *user, clef_error *err)
{
    double *worst = user;
    const clef_graph *g = r->of->graph;
    clef_ref_tensor *results = calloc((size_t)g->n_values + 1, sizeof *results);
    if (!results)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a reference of %d values", g->n_values);
    for (int32_t i = 0; i < g->n_values; i++)
        results[i].stored = g->values[i]->kind == CLEF_WEIGHT ? r->leaves[i].bytes : NULL;
    clef_status s = clef__ref_eval(g, r->symbols, leaf_for_reference, r, results, err);
    if (!s)
        s = run_plan(r, err);
    for (int32_t i = 0; i < g->n_outputs && !s; i++)
        s = check_output(r, i, results, worst, err);
    clef__ref_free(results, g->n_values);
    free(results);
    return s;
}

/* Each run of the case. */
static clef_status run_all(clef_device *dev, const clef_proof_case *c,
                           clef_status (*once)(run *, void *, clef_error *), void *user, clef_error *err)
{
    int64_t bounds[CLEF_MAX_SYMBOLS] = {0}, ones[CLEF_MAX_SYMBOLS];
    run r = {.of = c, .leaves = calloc((size_t)c->graph->n_values + 1, sizeof *r.leaves)};
    const clef_plan_opts opts = {.compile = {.gemm = c->gemm, .no_tune = 1, .no_proof = 1},
                                 .as_stored = 1,
                                 .variants = c->variants,
                                 .weights = weight_for_plan,
                                 .weights_user = &r};
    const int32_t n_runs = c->n_runs ? c->n_runs : c->graph->n_symbols ? 2 : 1;
    clef_status s = r.leaves ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for the data of a case");
    for (int32_t i = 0; i < CLEF_MAX_SYMBOLS; i++) {
        bounds[i] = i < c->graph->n_symbols ? c->graph->symbols[i].bound : 1;
        ones[i] = 1;
    }
    for (int32_t i = 0; i < n_runs && !s; i++) {
        r.symbols = c->n_runs ? c->symbols[i] : i ? ones : bounds;
        s = fill_leaves(&r, err);
        if (!s && !r.plan)
            s = clef__plan_create_bare(dev, c->graph, &opts, &r.plan, err); /* no kernel but those that run */
        if (!s)
            s = once(&r, user, err);
    }
    clef_plan_destroy(r.plan);
    for (int32_t i = 0; r.leaves && i < c->graph->n_values; i++)
        free_leaf(&r.leaves[i]);
    free(r.leaves);
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
    return s ? s : v->visit(v->user, r->plan, begin, r, err);
}

clef_status clef__proof_visit(clef_device *dev, const clef_proof_case *c, const clef_proof_visit *visit,
                              clef_error *err)
{
    return run_all(dev, c, visit_once, (void *)(uintptr_t)visit, err);
}
