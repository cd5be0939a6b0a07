/* layer_norm and rms_norm: normalisation of each row. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/grad/norm_grad.h"
#include "graph/lower/subgroup.h"
#include "graph/lower/variant.h"
#include "graph/op/ways.h"

static const clef_attr_def norm_attrs[] = {
    {"eps", CLEF_ATTR_FLOAT, offsetof(clef_norm_opts, eps), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_layer_norm(clef_graph *g, clef_value *x, clef_value *weight, clef_value *bias,
                            const clef_norm_opts *opts)
{
    return clef__node(g, CLEF_OP_layer_norm, (clef_value *[]){x, weight, bias}, 3, opts);
}

clef_value *clef_rms_norm(clef_graph *g, clef_value *x, clef_value *weight, const clef_norm_opts *opts)
{
    return clef__node(g, CLEF_OP_rms_norm, (clef_value *[]){x, weight}, 2, opts);
}

static clef_status norm_infer(clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0];
    char a[96], b[96];
    for (int32_t i = 1; i <= 2; i++)
        if (n->in[i] && (n->in[i]->shape.rank != 1 ||
                         !clef__dim_equal(n->in[i]->shape.dim[0], clef__dim_right(&x->shape, 0))))
            return clef__fail(err, CLEF_E_SHAPE, "%s %s is not the last dim of x %s",
                              i == 1 ? "weight" : "bias", clef__shape_text(n->graph, &n->in[i]->shape, a),
                              clef__shape_text(n->graph, &x->shape, b));
    return clef__infer_same(n, err);
}

static void norm_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_norm_opts *o = (const void *)n->attr;
    const int64_t N = out->n[3];
    for (int64_t r = 0; r < out->n[0] * out->n[1] * out->n[2]; r++) {
        const double *x = in[0].x + r * N;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < N && n->op == CLEF_OP_layer_norm; i++)
            mean += x[i] / (double)N;
        for (int64_t i = 0; i < N; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)N;
        for (int64_t i = 0; i < N; i++)
            out->x[r * N + i] = (x[i] - mean) / sqrt(square + (double)o->eps) * (in[1].x ? in[1].x[i] : 1) +
                                (in[2].x ? in[2].x[i] : 0);
    }
}

static clef_cost norm_cost(const clef_value *n, const int64_t *symbols)
{
    return clef__cost_elementwise(n, symbols, n->op == CLEF_OP_layer_norm ? 7 : 4);
}

static clef_status norm_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_norm_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0], *weight = n->in[1], *bias = n->in[2];
    norm_args args = {.x = clef__view(lo, x),
                      .weight = clef__view(lo, weight).offset,
                      .bias = clef__view(lo, bias).offset,
                      .eps = o->eps};
    clef__n4(lo, x, args.n);
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, x, 0));
    return clef__launch(lo,
                        &(clef_launch){.source = "norm",
                                       .kernel = "norm_rows",
                                       .c_version = CLEF_SUBGROUP_C_VERSION(lo),
                                       .defs = {{"WG", (int32_t)wg},
                                                CLEF_SUBGROUP_DEFS(lo),
                                                {"CENTER", n->op == CLEF_OP_layer_norm},
                                                {"WEIGHT_TYPE", weight ? (int32_t)weight->dtype : DTYPE_NONE},
                                                {"BIAS_TYPE", bias ? (int32_t)bias->dtype : DTYPE_NONE}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, x, weight, bias},
                                       .n_bufs = 4,
                                       .groups = {clef__rows(lo, x)}, /* one work-group a row */
                                       .local = {wg}},
                        err);
}

CLEF_ROW_VARIANTS(layer_norm, norm_lower);
CLEF_ROW_VARIANTS(rms_norm, norm_lower);

/* The gradients of weight and bias are sums over all rows: of d times the norm without them, and of d. */
static void norm_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef_graph *g = n->graph;
    if (clef__wants_gradient(gr, n->in[0]))
        clef__add_gradient(gr, n->in[0], clef__norm_grad(n, d));
    if (clef__wants_gradient(gr, n->in[1])) {
        clef_value *bare = clef__node(g, n->op, (clef_value *[]){n->in[0]}, 1, n->attr);
        clef__add_gradient(gr, n->in[1], clef_mul(g, bare, d));
    }
    clef__add_gradient(gr, n->in[2], d);
}

/* tol: mean and variance are sums of N rounded terms in 16 or more parts: under (N / 16 + 5) 6e-8 of a value
 * for the longest case; the shifted case loses 50 to 1 in its input's rounding, 50 * 6e-8. */
const clef_op_def clef__op_layer_norm = {
    .name = "layer_norm",
    .formula = "out = (x - mean) / sqrt(var + eps) weight + bias, over the last dim",
    .n_min = 1,
    .n_max = 3,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_WEIGHT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_WEIGHT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = norm_attrs,
    .attr_bytes = sizeof(clef_norm_opts),
    .infer = norm_infer,
    .way = clef__way_rows,
    .ref = norm_ref,
    .cost = norm_cost,
    .lower = clef__lower_variant,
    .grad = norm_rule,
    .in_place = 1,
    .tol = 4e-6f,
};

const clef_op_def clef__op_rms_norm = {
    .name = "rms_norm",
    .formula = "out = x / sqrt(mean(x^2) + eps) weight, over the last dim",
    .n_min = 1,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_WEIGHT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = norm_attrs,
    .attr_bytes = sizeof(clef_norm_opts),
    .infer = norm_infer,
    .way = clef__way_rows,
    .ref = norm_ref,
    .cost = norm_cost,
    .lower = clef__lower_variant,
    .grad = norm_rule,
    .in_place = 1,
    .tol = 4e-6f,
};
