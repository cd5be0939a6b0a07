/* softmax_grad: the gradient of the logits in a softmax, or in its logarithm, from its result. */
#include <math.h>

#include "graph/grad/softmax_grad.h"
#include "graph/op.h"

static const clef_attr_def softmax_grad_attrs[] = {
    {"scale", CLEF_ATTR_FLOAT, offsetof(clef__softmax_grad_opts, scale), NULL},
    {"log", CLEF_ATTR_INT, offsetof(clef__softmax_grad_opts, log), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__softmax_grad(clef_value *y, clef_value *d, const clef__softmax_grad_opts *opts)
{
    return y ? clef__node(y->graph, CLEF_OP_softmax_grad, (clef_value *[]){y, d}, 2, opts) : NULL;
}

/* scale y (d - sum(y d)); log: scale (d - exp(y) sum(d)), and 0 where y is -inf. */
static void softmax_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef__softmax_grad_opts *o = (const void *)n->attr;
    const double scale = o->scale != 0 ? (double)o->scale : 1;
    const int64_t N = out->n[3];
    for (int64_t r = 0; r < out->n[0] * out->n[1] * out->n[2]; r++) {
        const double *y = in[0].x + r * N, *d = in[1].x + r * N;
        double sum = 0;
        for (int64_t i = 0; i < N; i++)
            sum += !o->log ? y[i] * d[i] : y[i] > -INFINITY ? d[i] : 0;
        for (int64_t i = 0; i < N; i++)
            out->x[r * N + i] = scale * (!o->log            ? y[i] * (d[i] - sum)
                                         : y[i] > -INFINITY ? d[i] - exp(y[i]) * sum
                                                            : 0);
    }
}

static clef_status softmax_grad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef__softmax_grad_opts *o = (const void *)n->attr;
    const softmax_grad_args args = {.n = clef__n(lo, n, 0),
                                    .y = clef__view(lo, n->in[0]).offset,
                                    .d = clef__view(lo, n->in[1]).offset,
                                    .scale = o->scale != 0 ? o->scale : 1,
                                    .log = o->log};
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, n, 0));
    return clef__launch(lo,
                        &(clef_launch){.source = "softmax_grad",
                                       .kernel = "softmax_grad_rows",
                                       .defs = {{"WG", (int32_t)wg}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1]},
                                       .n_bufs = 3,
                                       .groups = {clef__rows(lo, n)},
                                       .local = {wg}},
                        err);
}

const clef_op_def clef__op_softmax_grad = {
    .name = "softmax_grad",
    .formula = "out = scale y (d - sum(y d)) for y = softmax(x); with log scale (d - exp(y) sum(d))",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = softmax_grad_attrs,
    .attr_bytes = sizeof(clef__softmax_grad_opts),
    .infer = clef__infer_gate,
    .ref = softmax_grad_ref,
    .flops = 5,
    .lower = softmax_grad_lower,
    .in_place = 3,
    .tol = 5e-6f, /* a sum of up to 1031 terms in groups, exp to 3 ulp */
};
