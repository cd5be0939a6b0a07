/* Elementwise functions of two inputs, with numpy's broadcasting. One line each at the end of this file. */
#include "graph/lower/elementwise.h"

#define CASES(name)                                                                                          \
    {                                                                                                        \
        {.graph = "input a f32 [1]\ninput b f32 [1]\ny = " #name "(a, b)\noutput y\n"},                      \
            {.graph = "input a f32 [2, 3, 67]\ninput b f32 [2, 3, 67]\ny = " #name "(a, b)\noutput y\n"},    \
            {.graph = "symbol T <= 5\ninput a f32 [2, T, 130]\nweight b f32 [130]\ny = " #name               \
                      "(a, b)\noutput y\n"},                                                                 \
            {.graph = "input a f32 [3, 33]\nweight b f16 [33]\ny = " #name "(a, b)\noutput y\n"},            \
            {.graph = "input a f32 [3, 40]\nweight b bf16 [3, 1]\ny = " #name "(a, b)\noutput y\n"},         \
            {.graph = "symbol T <= 7\ninput a f32 [T, 1, 17]\ninput b f32 [1, 4, 1]\ny = " #name             \
                      "(a, b)\noutput y\n"},                                                                 \
            {.graph = "input a f32 [17]\ninput b f32 [2, 3, 4, 17]\ny = " #name "(a, b)\noutput y\n"},       \
            {.graph = "input a f32 [5, 34]\ninput b f32 [34, 5]\nt = permute(b) axes=[1, 0]\ny = " #name     \
                      "(a, t)\noutput y\n"},                                                                 \
            {.graph =                                                                                        \
                 "input a f32 [5, 40]\ns = slice(a) axis=1 start=-20 size=20\nt = slice(a) axis=1 size=20\n" \
                 "y = " #name "(s, t)\noutput y\n"},                                                         \
            {.graph = "input a f32 [9001]\nconst b f32 [1] = 3\ny = " #name "(a, b)\noutput y\n"},           \
            {.graph = NULL},                                                                                 \
    }

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
    static const clef_op_case name_##_cases[] = CASES(name_);                                                \
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
        .cases = name_##_cases,                                                                              \
        .tol = 3e-7f,                                                                                        \
    };

BINARY(add, "out = a + b, with broadcasting", a + b)
BINARY(sub, "out = a - b, with broadcasting", a - b)
BINARY(mul, "out = a b, with broadcasting", a *b)
BINARY(div, "out = a / b, with broadcasting", a / b)
