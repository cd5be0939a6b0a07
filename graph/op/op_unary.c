/* Elementwise functions of one input. One line each at the end of this file: name, formula, operations, the
 * function in double. */
#include <math.h>

#include "graph/lower/elementwise.h"

static const double SQRT_HALF = 0.70710678118654752440,
                    GELU_SLOPE = 0.79788456080286535588; /* sqrt(1/2), sqrt(2/pi) */

/* tol: OpenCL 1.2, 7.4, table 7.1 allows exp 3, log 3, tanh 5, erf 16, sqrt 3 and rsqrt 2 ulp of 6e-8; a
 * quotient adds 2.5. */
#define UNARY(name_, text, operations, cases_, tolerance, expression)                                        \
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
    static clef_cost name_##_cost(const clef_value *n, const int64_t *symbols)                               \
    {                                                                                                        \
        return clef__cost_elementwise(n, symbols, operations);                                               \
    }                                                                                                        \
    static clef_status name_##_lower(clef_lowering *lo, const clef_value *n, clef_error *err)                \
    {                                                                                                        \
        return clef__lower_elementwise(lo, n, #name_, 0, 0, err);                                            \
    }                                                                                                        \
    const clef_op_def clef__op_##name_ = {                                                                   \
        .name = #name_,                                                                                      \
        .formula = text,                                                                                     \
        .n_min = 1,                                                                                          \
        .n_max = 1,                                                                                          \
        .in = {CLEF_IN_F32},                                                                                 \
        .infer = clef__infer_same,                                                                           \
        .ref = name_##_ref,                                                                                  \
        .cost = name_##_cost,                                                                                \
        .lower = name_##_lower,                                                                              \
        .in_place = 1,                                                                                       \
        .cases = cases_,                                                                                     \
        .tol = tolerance,                                                                                    \
    };

UNARY(gelu, "out = x/2 (1 + erf(x / sqrt 2))", 8, "unary", 2e-6f, 0.5 * x * (1 + erf(x * SQRT_HALF)))
UNARY(gelu_tanh, "out = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))", 9, "unary", 2e-6f,
      0.5 * x * (1 + tanh(GELU_SLOPE * (x + 0.044715 * x * x * x))))
UNARY(silu, "out = x / (1 + exp(-x))", 4, "unary", 1e-6f, x / (1 + exp(-x)))
UNARY(relu, "out = max(x, 0)", 1, "unary", 1e-7f, x > 0 ? x : 0)
UNARY(sigmoid, "out = 1 / (1 + exp(-x))", 3, "unary", 1e-6f, 1 / (1 + exp(-x)))
UNARY(tanh, "out = tanh(x)", 5, "unary", 1e-6f, tanh(x))
UNARY(exp, "out = exp(x)", 1, "unary_positive", 5e-6f,
      exp(x)) /* an argument up to 20, itself rounded, adds 20 ulp / 2 */
UNARY(log, "out = ln(x)", 1, "unary_positive", 1e-6f, log(x))
UNARY(neg, "out = -x", 1, "unary", 1e-7f, -x)
UNARY(sqrt, "out = sqrt(x)", 1, "unary_positive", 1e-6f, sqrt(x))
UNARY(rsqrt, "out = 1 / sqrt(x)", 2, "unary_positive", 1e-6f, 1 / sqrt(x))
UNARY(square, "out = x^2", 1, "unary", 1e-6f, x *x)
