/* swiglu: the gated activation of SwiGLU. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/lower/elementwise.h"
#include "graph/op/ways.h"

clef_value *clef_swiglu(clef_graph *g, clef_value *gate, clef_value *up)
{
    return clef__node(g, CLEF_OP_swiglu, (clef_value *[]){gate, up}, 2, NULL);
}

clef_status clef__infer_gate(clef_value *n, clef_error *err)
{
    char a[96], b[96];
    if (!clef__shape_equal(&n->in[0]->shape, &n->in[1]->shape))
        return clef__fail(err, CLEF_E_SHAPE, "gate %s and up %s differ",
                          clef__shape_text(n->graph, &n->in[0]->shape, a),
                          clef__shape_text(n->graph, &n->in[1]->shape, b));
    return clef__infer_same(n, err);
}

static void swiglu_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++)
        out->x[i] = in[0].x[i] / (1 + exp(-in[0].x[i])) * in[1].x[i];
}

static void swiglu_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef_graph *g = n->graph;
    if (clef__wants_gradient(gr, n->in[0]))
        clef__add_gradient(
            gr, n->in[0],
            clef__node(g, CLEF_OP_silu_grad, (clef_value *[]){n->in[0], clef_mul(g, d, n->in[1])}, 2, NULL));
    if (clef__wants_gradient(gr, n->in[1]))
        clef__add_gradient(gr, n->in[1], clef_mul(g, clef_silu(g, n->in[0]), d));
}

const clef_op_def clef__op_swiglu = {
    .name = "swiglu",
    .formula = "out = silu(gate) up",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_F32, CLEF_IN_F32},
    .infer = clef__infer_gate,
    .way = clef__way_elementwise,
    .ref = swiglu_ref,
    .flops = 5,
    .lower = clef__lower_named,
    .in_place = 3,
    .grad = swiglu_rule,
    .tol = 1e-6f, /* exp 3 ulp, quotient 2.5, sum and product 0.5 each (OpenCL 1.2, 7.4), of 6e-8 */
};
