/* Elementwise functions of two inputs, with numpy's broadcasting. One line each at the end of this file. */
#include "graph/lower/elementwise.h"

/* tol: one rounding (2.5 ulp for a quotient, OpenCL 1.2, 7.4) of 6e-8. */
#define BINARY(name_, text, expression)                                                                      \
    clef_value *clef_##name_(clef_graph *g, clef_value *a, clef_value *b)                                    \
    {                                                                                                        \
        return clef__node(g, CLEF_OP_##name_, (clef_value *[]){a, b}, 2, NULL);                              \
    }                                                                                                        \
    static void name_##_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)            \
    {                                                                                                        \
        (void)n;                                                                                             \
        const int64_t H = out->n[1], T = out->n[2], N = out->n[3];                                           \
        for (int64_t i = 0; i < out->n[0] * H * T * N; i++) {                                                \
            const int64_t at[4] = {i / N / T / H, i / N / T % H, i / N % T, i % N};                          \
            const double a = in[0].x[clef__ref_at(&in[0], at[0], at[1], at[2], at[3])];                      \
            const double b = in[1].x[clef__ref_at(&in[1], at[0], at[1], at[2], at[3])];                      \
            out->x[i] = expression;                                                                          \
        }                                                                                                    \
    }                                                                                                        \
    static clef_cost name_##_cost(const clef_value *n, const int64_t *symbols)                               \
    {                                                                                                        \
        return clef__cost_elementwise(n, symbols, 1);                                                        \
    }                                                                                                        \
    static clef_status name_##_lower(clef_lowering *lo, const clef_value *n, clef_error *err)                \
    {                                                                                                        \
        return clef__lower_elementwise(lo, n, #name_, 0, 0, err);                                            \
    }                                                                                                        \
    const clef_op_def clef__op_##name_ = {                                                                   \
        .name = #name_,                                                                                      \
        .formula = text,                                                                                     \
        .n_min = 2,                                                                                          \
        .n_max = 2,                                                                                          \
        .in = {CLEF_IN_FLOAT, CLEF_IN_FLOAT},                                                                \
        .infer = clef__infer_broadcast,                                                                      \
        .ref = name_##_ref,                                                                                  \
        .cost = name_##_cost,                                                                                \
        .lower = name_##_lower,                                                                              \
        .in_place = 3,                                                                                       \
        .cases = "binary",                                                                                   \
        .tol = 3e-7f,                                                                                        \
    };

BINARY(add, "out = a + b, with broadcasting", a + b)
BINARY(sub, "out = a - b, with broadcasting", a - b)
BINARY(mul, "out = a b, with broadcasting", a *b)
BINARY(div, "out = a / b, with broadcasting", a / b)
