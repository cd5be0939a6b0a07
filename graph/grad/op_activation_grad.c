/* The gradients of activations: the result's gradient times the slope at x. */
#include <math.h>

#include "graph/lower/elementwise.h"

static const double SQRT_HALF = 0.70710678118654752440,
                    DENSITY_0 = 0.39894228040143267794, /* 1 / sqrt(2 pi) */
    GELU_SLOPE = 0.79788456080286535588;                /* sqrt(2 / pi) */

static double gelu_slope(double x)
{
    return 0.5 * (1 + erf(x * SQRT_HALF)) + x * DENSITY_0 * exp(-x * x / 2);
}

static double gelu_tanh_slope(double x)
{
    const double t = tanh(GELU_SLOPE * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_SLOPE * (1 + 3 * 0.044715 * x * x);
}

static double silu_slope(double x)
{
    const double s = 1 / (1 + exp(-x));
    return s + x * s * (1 - s);
}

static double relu_slope(double x)
{
    return x > 0;
}

/* tol: exp 3, erf 16 ulp, a quotient 2.5 (OpenCL 1.2, 7.4) and some ten roundings of 6e-8 */
#define ACTIVATION_GRAD(name_, text, operations)                                                             \
    static void name_##_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)       \
    {                                                                                                        \
        (void)n;                                                                                             \
        for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++)                          \
            out->x[i] = in[1].x[i] * name_##_slope(in[0].x[i]);                                              \
    }                                                                                                        \
    const clef_op_def clef__op_##name_##_grad = {                                                            \
        .name = #name_ "_grad",                                                                              \
        .formula = text,                                                                                     \
        .n_min = 2,                                                                                          \
        .n_max = 2,                                                                                          \
        .in = {CLEF_IN_FLOAT, CLEF_IN_F32},                                                                  \
        .infer = clef__infer_gate,                                                                           \
        .ref = name_##_grad_ref,                                                                             \
        .flops = operations,                                                                                 \
        .lower = clef__lower_named,                                                                          \
        .in_place = 3,                                                                                       \
        .cases = "activation_grad",                                                                          \
        .tol = 2e-6f,                                                                                        \
    };

ACTIVATION_GRAD(gelu, "out = d gelu'(x)", 14)
ACTIVATION_GRAD(gelu_tanh, "out = d gelu_tanh'(x)", 16)
ACTIVATION_GRAD(silu, "out = d silu'(x)", 8)
ACTIVATION_GRAD(relu, "out = d where x > 0, else 0", 1)
