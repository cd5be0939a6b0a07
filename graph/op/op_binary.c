/* Elementwise functions of two inputs, with numpy's broadcasting. One line each at the end of this file. */
#include "graph/grad/gradient.h"
#include "graph/lower/elementwise.h"
#include "graph/op/ways.h"

/* tol: one rounding (2.5 ulp for a quotient, OpenCL 1.2, 7.4) of 6e-8. */
#define BINARY(name_, text, expression, way_, sum_, gradient_a, gradient_b)                                  \
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
    static void name_##_rule(clef__gradients *gr, clef_value *n, clef_value *d)                              \
    {                                                                                                        \
        if (clef__wants_gradient(gr, n->in[0]))                                                              \
            clef__add_gradient(gr, n->in[0], gradient_a);                                                    \
        if (clef__wants_gradient(gr, n->in[1]))                                                              \
            clef__add_gradient(gr, n->in[1], gradient_b);                                                    \
    }                                                                                                        \
    const clef_op_def clef__op_##name_ = {                                                                   \
        .name = #name_,                                                                                      \
        .formula = text,                                                                                     \
        .n_min = 2,                                                                                          \
        .n_max = 2,                                                                                          \
        .in = {CLEF_IN_FLOAT, CLEF_IN_FLOAT},                                                                \
        .infer = clef__infer_broadcast,                                                                      \
        .way = way_,                                                                                         \
        .sum = sum_,                                                                                         \
        .ref = name_##_ref,                                                                                  \
        .flops = 1,                                                                                          \
        .lower = clef__lower_named,                                                                          \
        .grad = name_##_rule,                                                                                \
        .in_place = 3,                                                                                       \
        .cases = "binary",                                                                                   \
        .tol = 3e-7f,                                                                                        \
    };

BINARY(add, "out = a + b, with broadcasting", a + b, clef__way_gate, clef__sum_add, d, d)
BINARY(sub, "out = a - b, with broadcasting", a - b, clef__way_gate, clef__sum_sub, d, clef_neg(n->graph, d))
BINARY(mul, "out = a b, with broadcasting", a *b, clef__way_elementwise, clef__sum_mul,
       clef_mul(n->graph, d, n->in[1]), clef_mul(n->graph, d, n->in[0]))
BINARY(div, "out = a / b, with broadcasting", a / b, clef__way_elementwise, clef__sum_div,
       clef_div(n->graph, d, n->in[1]),
       clef_neg(n->graph, clef_div(n->graph, clef_mul(n->graph, d, n), n->in[1])))
