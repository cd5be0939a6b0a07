/* Elementwise functions of one input. One line each at the end of this file: name, formula, operations, the
 * function in double. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/lower/elementwise.h"
#include "graph/op/ways.h"

static const double SQRT_HALF = 0.70710678118654752440,
                    GELU_SLOPE = 0.79788456080286535588; /* sqrt(1/2), sqrt(2/pi) */

/* The gradient through an activation with an op of its own. */
static clef_value *slope_times(clef_value *n, clef_value *d, clef_op op)
{
    return clef__node(n->graph, op, (clef_value *[]){n->in[0], d}, 2, NULL);
}

static clef_value *times(clef_value *x, float scale)
{
    return x ? clef_affine(x->graph, x, &(clef_affine_opts){.scale = scale}) : NULL;
}

static clef_value *one_minus(clef_value *x)
{
    return x ? clef_affine(x->graph, x, &(clef_affine_opts){.scale = -1, .shift = 1}) : NULL;
}

/* One line each: name, formula, operations, cases, tolerance, the function in double, and the gradient of x
 * as nodes (n: the result, d: its gradient).
 *
 * tol: OpenCL 1.2, 7.4, table 7.1 allows exp 3, log 3, tanh 5, erf 16, sqrt 3 and rsqrt 2 ulp of 6e-8; a
 * quotient adds 2.5; exp's argument, up to 20 and itself rounded, adds 20 ulp / 2. */
#define UNARY(name_, text, operations, cases_, tolerance, expression, gradient)                              \
    clef_value *clef_##name_(clef_graph *g, clef_value *x)                                                   \
    {                                                                                                        \
        return clef__node(g, CLEF_OP_##name_, (clef_value *[]){x}, 1, NULL);                                 \
    }                                                                                                        \
    static void name_##_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)            \
    {                                                                                                        \
        (void)n;                                                                                             \
        for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++) {                        \
            const double x = in[0].x[i];                                                                     \
            out->x[i] = expression;                                                                          \
        }                                                                                                    \
    }                                                                                                        \
    static void name_##_rule(clef__gradients *gr, clef_value *n, clef_value *d)                              \
    {                                                                                                        \
        clef__add_gradient(gr, n->in[0], gradient);                                                          \
    }                                                                                                        \
    const clef_op_def clef__op_##name_ = {                                                                   \
        .name = #name_,                                                                                      \
        .formula = text,                                                                                     \
        .n_min = 1,                                                                                          \
        .n_max = 1,                                                                                          \
        .in = {CLEF_IN_F32},                                                                                 \
        .infer = clef__infer_same,                                                                           \
        .way = clef__way_elementwise,                                                                        \
        .ref = name_##_ref,                                                                                  \
        .flops = operations,                                                                                 \
        .lower = clef__lower_named,                                                                          \
        .grad = name_##_rule,                                                                                \
        .in_place = 1,                                                                                       \
        .cases = cases_,                                                                                     \
        .tol = tolerance,                                                                                    \
    };

UNARY(gelu, "out = x/2 (1 + erf(x / sqrt 2))", 8, "unary", 2e-6f, 0.5 * x * (1 + erf(x * SQRT_HALF)),
      slope_times(n, d, CLEF_OP_gelu_grad))
UNARY(gelu_tanh, "out = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))", 9, "unary", 2e-6f,
      0.5 * x * (1 + tanh(GELU_SLOPE * (x + 0.044715 * x * x * x))),
      slope_times(n, d, CLEF_OP_gelu_tanh_grad))
UNARY(silu, "out = x / (1 + exp(-x))", 4, "unary", 1e-6f, x / (1 + exp(-x)),
      slope_times(n, d, CLEF_OP_silu_grad))
UNARY(relu, "out = max(x, 0)", 1, "unary", 1e-7f, x > 0 ? x : 0, slope_times(n, d, CLEF_OP_relu_grad))
UNARY(sigmoid, "out = 1 / (1 + exp(-x))", 3, "unary", 1e-6f, 1 / (1 + exp(-x)),
      clef_mul(n->graph, d, clef_mul(n->graph, n, one_minus(n))))
UNARY(tanh, "out = tanh(x)", 5, "unary", 1e-6f, tanh(x),
      clef_mul(n->graph, d, one_minus(clef_square(n->graph, n))))
UNARY(exp, "out = exp(x)", 1, "unary_positive", 5e-6f, exp(x), clef_mul(n->graph, d, n))
UNARY(log, "out = ln(x)", 1, "unary_positive", 1e-6f, log(x), clef_div(n->graph, d, n->in[0]))
UNARY(neg, "out = -x", 1, "unary", 1e-7f, -x, clef_neg(n->graph, d))
UNARY(sqrt, "out = sqrt(x)", 1, "unary_positive", 1e-6f, sqrt(x), times(clef_div(n->graph, d, n), 0.5f))
UNARY(rsqrt, "out = 1 / sqrt(x)", 2, "unary_positive", 1e-6f, 1 / sqrt(x),
      times(clef_mul(n->graph, d, clef_mul(n->graph, n, clef_square(n->graph, n))), -0.5f))
UNARY(square, "out = x^2", 1, "unary", 1e-6f, x *x, times(clef_mul(n->graph, d, n->in[0]), 2))
