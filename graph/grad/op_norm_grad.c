/* layer_norm_grad and rms_norm_grad: the gradients of x in the norms of graph/op/op_norm.c. */
#include <math.h>

#include "graph/grad/norm_grad.h"
#include "graph/op.h"

static const clef_attr_def norm_grad_attrs[] = {
    {"eps", CLEF_ATTR_FLOAT, offsetof(clef_norm_opts, eps), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__norm_grad(clef_value *n, clef_value *d)
{
    const clef_op op = n->op == CLEF_OP_layer_norm ? CLEF_OP_layer_norm_grad : CLEF_OP_rms_norm_grad;
    return clef__node(n->graph, op, (clef_value *[]){n->in[0], d, n->in[1]}, 3, n->attr);
}

static clef_status norm_grad_infer(clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *weight = n->in[2];
    char a[96], b[96];
    if (!clef__shape_equal(&x->shape, &n->in[1]->shape) || x->shape.rank == 0)
        return clef__fail(err, CLEF_E_SHAPE, "x %s and d %s differ, or are scalars",
                          clef__shape_text(n->graph, &x->shape, a),
                          clef__shape_text(n->graph, &n->in[1]->shape, b));
    if (weight &&
        (weight->shape.rank != 1 || !clef__dim_equal(weight->shape.dim[0], clef__dim_right(&x->shape, 0))))
        return clef__fail(err, CLEF_E_SHAPE, "weight %s is not the last dim of x %s",
                          clef__shape_text(n->graph, &weight->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    return clef__infer_same(n, err);
}

/* With g = d weight, x' = (x - mean) r, r = 1 / sqrt(var + eps): r (g - mean(g) - x' mean(g x')). */
static void norm_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_norm_opts *o = (const void *)n->attr;
    const int64_t N = out->n[3];
    const int centers = n->op == CLEF_OP_layer_norm_grad;
    for (int64_t row = 0; row < out->n[0] * out->n[1] * out->n[2]; row++) {
        const double *x = in[0].x + row * N, *d = in[1].x + row * N, *w = in[2].x;
        double mean = 0, square = 0, g_mean = 0, gx_mean = 0;
        for (int64_t i = 0; i < N && centers; i++)
            mean += x[i] / (double)N;
        for (int64_t i = 0; i < N; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)N;
        const double r = 1 / sqrt(square + (double)o->eps);
        for (int64_t i = 0; i < N; i++) {
            const double g = d[i] * (w ? w[i] : 1);
            g_mean += centers ? g / (double)N : 0;
            gx_mean += g * (x[i] - mean) * r / (double)N;
        }
        for (int64_t i = 0; i < N; i++)
            out->x[row * N + i] = r * (d[i] * (w ? w[i] : 1) - g_mean - (x[i] - mean) * r * gx_mean);
    }
}

static clef_status norm_grad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_norm_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0], *d = n->in[1], *weight = n->in[2];
    norm_grad_args args = {.x = clef__view(lo, x),
                           .d = clef__view(lo, d),
                           .weight = clef__view(lo, weight).offset,
                           .eps = o->eps};
    clef__n4(lo, x, args.n);
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, x, 0));
    return clef__launch(
        lo,
        &(clef_launch){.source = "norm_grad",
                       .kernel = "norm_grad_rows",
                       .defs = {{"WG", (int32_t)wg},
                                {"CENTER", n->op == CLEF_OP_layer_norm_grad},
                                {"WEIGHT_TYPE", weight ? (int32_t)weight->dtype : DTYPE_NONE}},
                       .args = &args,
                       .args_bytes = sizeof args,
                       .bufs = {n, x, d, weight},
                       .n_bufs = 4,
                       .groups = {clef__rows(lo, x)},
                       .local = {wg}},
        err);
}

/* tol: four sums of N rounded terms in 16 or more parts, as in the norms */
#define NORM_GRAD(name_, text)                                                                               \
    const clef_op_def clef__op_##name_ = {                                                                   \
        .name = #name_,                                                                                      \
        .formula = text,                                                                                     \
        .n_min = 2,                                                                                          \
        .n_max = 3,                                                                                          \
        .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_F32 | CLEF_IN_ROWS,                                       \
               CLEF_IN_WEIGHT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},                                           \
        .attrs = norm_grad_attrs,                                                                            \
        .attr_bytes = sizeof(clef_norm_opts),                                                                \
        .infer = norm_grad_infer,                                                                            \
        .ref = norm_grad_ref,                                                                                \
        .flops = 12,                                                                                         \
        .lower = norm_grad_lower,                                                                            \
        .in_place = 3,                                                                                       \
        .cases = "norm_grad",                                                                                \
        .tol = 1e-5f,                                                                                        \
    }

NORM_GRAD(layer_norm_grad, "out = the gradient of x in layer_norm(x, weight), for d that of its result");
NORM_GRAD(rms_norm_grad, "out = the gradient of x in rms_norm(x, weight), for d that of its result");
