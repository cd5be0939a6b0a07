/* reduce, argmax and topk: results of whole rows. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/lower/subgroup.h"
#include "graph/lower/variant.h"
#include "graph/op/ways.h"

static clef_cost row_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = (double)clef__elements(n->in[0], symbols);
    return cost;
}

/* Launches `kernel` with one work-group for each row of x. */
static clef_status rows_lower(clef_lowering *lo, const clef_value *n, const char *kernel, clef_def def,
                              uint32_t k, clef_error *err)
{
    const clef_value *x = n->in[0];
    reduce_args args = {.x = clef__view(lo, x), .k = k};
    clef__n4(lo, x, args.n);
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, x, 0));
    return clef__launch(lo,
                        &(clef_launch){.source = "reduce",
                                       .kernel = kernel,
                                       .c_version = CLEF_SUBGROUP_C_VERSION(lo),
                                       .defs = {{"WG", (int32_t)wg}, def, CLEF_SUBGROUP_DEFS(lo)},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, x},
                                       .n_bufs = 2,
                                       .groups = {clef__rows(lo, x)},
                                       .local = {wg}},
                        err);
}

/* ---- reduce ---------------------------------------------------------------------------------- */

static const char *const reductions[] = {"sum", "mean", "max", NULL};

static const clef_attr_def reduce_attrs[] = {
    {"kind", CLEF_ATTR_ENUM, offsetof(clef_reduce_opts, kind), reductions},
    {NULL, 0, 0, NULL},
};

clef_value *clef_reduce(clef_graph *g, clef_value *x, const clef_reduce_opts *opts)
{
    return clef__node(g, CLEF_OP_reduce, (clef_value *[]){x}, 1, opts);
}

static clef_status reduce_infer(clef_value *n, clef_error *err)
{
    const clef_reduce_opts *o = (const void *)n->attr;
    if ((uint32_t)o->kind > CLEF_REDUCE_MAX)
        return clef__fail(err, CLEF_E_ARG, "expected a clef_reduction, got %d", (int)o->kind);
    if (n->in[0]->shape.rank == 0)
        return clef__fail(err, CLEF_E_SHAPE, "x is a scalar, expected a last dim");
    clef__infer_same(n, err);
    n->shape.dim[n->shape.rank - 1] = clef_n(1);
    return CLEF_OK;
}

static void reduce_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_reduce_opts *o = (const void *)n->attr;
    const int64_t N = in->n[3];
    for (int64_t r = 0; r < in->n[0] * in->n[1] * in->n[2]; r++) {
        double sum = 0, max = -INFINITY;
        for (int64_t i = 0; i < N; i++) {
            sum += in->x[r * N + i];
            max = fmax(max, in->x[r * N + i]);
        }
        if (isnan(sum)) /* from a NaN, or from infinities of both signs */
            for (int64_t i = 0; i < N; i++)
                max = isnan(in->x[r * N + i]) ? NAN : max;
        out->x[r] = o->kind == CLEF_REDUCE_MAX ? max : o->kind == CLEF_REDUCE_MEAN ? sum / (double)N : sum;
    }
}

static clef_status reduce_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_reduce_opts *o = (const void *)n->attr;
    return rows_lower(lo, n, "reduce_rows", (clef_def){"KIND", (int32_t)o->kind}, 0, err);
}

CLEF_ROW_VARIANTS(reduce, reduce_lower);

static void reduce_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_reduce_opts *o = (const void *)n->attr;
    const float share = 1 / (float)clef__dim_right(&n->in[0]->shape, 0).n;
    if (o->kind == CLEF_REDUCE_MAX) {
        clef__graph_fail(n->graph, CLEF_E_UNSUPPORTED, "%s: the maximum has no gradient", n->name);
        return;
    }
    if (o->kind == CLEF_REDUCE_MEAN)
        d = clef_affine(n->graph, d, &(clef_affine_opts){.scale = share});
    clef__add_gradient(gr, n->in[0], clef_expand(n->graph, d, n->in[0]));
}

const clef_op_def clef__op_reduce = {
    .name = "reduce",
    .formula = "out = sum, mean or max of the last dim, which becomes 1",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS},
    .attrs = reduce_attrs,
    .attr_bytes = sizeof(clef_reduce_opts),
    .infer = reduce_infer,
    .way = clef__way_rows,
    .ref = reduce_ref,
    .cost = row_cost,
    .lower = clef__lower_variant,
    .grad = reduce_rule,
    .tol = 5e-6f, /* 1000 terms in 16 or more sums: 1000 / 16 roundings of 6e-8 */
};

/* Whether element i of x precedes element j in falling order; NaN counts as -inf. */
static int before(const double *x, int64_t i, int64_t j)
{
    const double a = isnan(x[i]) ? -INFINITY : x[i], b = isnan(x[j]) ? -INFINITY : x[j];
    return a > b || (a == b && i < j);
}

/* ---- argmax ---------------------------------------------------------------------------------- */

clef_value *clef_argmax(clef_graph *g, clef_value *x)
{
    return clef__node(g, CLEF_OP_argmax, (clef_value *[]){x}, 1, NULL);
}

static clef_status argmax_infer(clef_value *n, clef_error *err)
{
    if (n->in[0]->shape.rank == 0)
        return clef__fail(err, CLEF_E_SHAPE, "x is a scalar, expected a last dim");
    n->dtype = CLEF_I32;
    n->shape = n->in[0]->shape;
    n->shape.rank--;
    n->shape.dim[n->shape.rank] = (clef_dim){0};
    return CLEF_OK;
}

static void argmax_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    for (int64_t r = 0; r < in->n[0] * in->n[1] * in->n[2]; r++) {
        const double *x = in->x + r * in->n[3];
        int64_t best = 0;
        for (int64_t i = 1; i < in->n[3]; i++)
            if (before(x, i, best))
                best = i;
        out->x[r] = (double)best;
    }
}

static clef_status argmax_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return rows_lower(lo, n, "argmax_rows", (clef_def){"KIND", 0}, 0, err);
}

const clef_op_def clef__op_argmax = {
    .name = "argmax",
    .formula = "out = index of the largest of the last dim; of equals the lowest; NaN counts as -inf",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS},
    .infer = argmax_infer,
    .ref = argmax_ref,
    .cost = row_cost,
    .lower = argmax_lower,
    .tol = 0, /* exact */
};

/* ---- topk ------------------------------------------------------------------------------------ */

enum { MAX_K = 64 };

static const clef_attr_def topk_attrs[] = {
    {"k", CLEF_ATTR_INT, offsetof(clef_topk_opts, k), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_topk(clef_graph *g, clef_value *x, const clef_topk_opts *opts)
{
    return clef__node(g, CLEF_OP_topk, (clef_value *[]){x}, 1, opts);
}

static clef_status topk_infer(clef_value *n, clef_error *err)
{
    const clef_topk_opts *o = (const void *)n->attr;
    const clef_shape *x = &n->in[0]->shape;
    char text[96];
    if (x->rank == 0)
        return clef__fail(err, CLEF_E_SHAPE, "x is a scalar, expected a last dim");
    if (o->k < 1 || o->k > MAX_K || o->k > x->dim[x->rank - 1].n)
        return clef__fail(err, CLEF_E_ARG, "k %d, expected 1 to %d and no more than x %s has", o->k, MAX_K,
                          clef__shape_text(n->graph, x, text));
    n->dtype = CLEF_I32;
    n->shape = *x;
    n->shape.dim[x->rank - 1] = clef_n(o->k);
    return CLEF_OK;
}

static void topk_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    for (int64_t r = 0; r < in->n[0] * in->n[1] * in->n[2]; r++) {
        const double *x = in->x + r * in->n[3];
        double *y = out->x + r * out->n[3];
        for (int64_t k = 0, last = -1; k < out->n[3]; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < in->n[3]; i++)
                if ((last < 0 || before(x, last, i)) && (best < 0 || before(x, i, best)))
                    best = i;
            y[k] = (double)best;
            last = best;
        }
    }
}

static clef_status topk_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_topk_opts *o = (const void *)n->attr;
    return rows_lower(lo, n, "topk_rows", (clef_def){"KIND", 0}, (uint32_t)o->k, err);
}

const clef_op_def clef__op_topk = {
    .name = "topk",
    .formula = "out = indices of the k largest of the last dim, largest first; of equals the lowest first",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS},
    .attrs = topk_attrs,
    .attr_bytes = sizeof(clef_topk_opts),
    .infer = topk_infer,
    .ref = topk_ref,
    .cost = row_cost,
    .lower = topk_lower,
    .tol = 0, /* exact */
};
