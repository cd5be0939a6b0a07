/* clamped_swiglu: gpt-oss's gated activation. */
#include <math.h>

#include "graph/lower/elementwise.h"
#include "graph/op/ways.h"

static const clef_attr_def clamped_attrs[] = {
    {"alpha", CLEF_ATTR_FLOAT, offsetof(clef_clamped_swiglu_opts, alpha), NULL},
    {"limit", CLEF_ATTR_FLOAT, offsetof(clef_clamped_swiglu_opts, limit), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_clamped_swiglu(clef_graph *g, clef_value *gate, clef_value *up,
                                const clef_clamped_swiglu_opts *opts)
{
    return clef__node(g, CLEF_OP_clamped_swiglu, (clef_value *[]){gate, up}, 2, opts);
}

static void clamped_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_clamped_swiglu_opts *o = (const void *)n->attr;
    const double alpha = (double)o->alpha, limit = (double)o->limit;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++) {
        const double gate = in[0].x[i] > limit ? limit : in[0].x[i];
        const double up = in[1].x[i] > limit ? limit : in[1].x[i] < -limit ? -limit : in[1].x[i];
        out->x[i] = gate / (1 + exp(-alpha * gate)) * (up + 1);
    }
}

static clef_status clamped_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_clamped_swiglu_opts *o = (const void *)n->attr;
    return clef__lower_elementwise(lo, n, "clamped_swiglu", o->alpha, o->limit, err);
}

const clef_op_def clef__op_clamped_swiglu = {
    .name = "clamped_swiglu",
    .formula = "out = g sigmoid(alpha g) (u + 1), g = min(gate, limit), u = up within -limit .. limit",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_F32, CLEF_IN_F32},
    .attrs = clamped_attrs,
    .attr_bytes = sizeof(clef_clamped_swiglu_opts),
    .infer = clef__infer_gate,
    .way = clef__way_elementwise,
    .ref = clamped_ref,
    .flops = 9,
    .lower = clamped_lower,
    .in_place = 3,
    .tol = 2e-6f, /* alpha g is rounded by 6e-8 of up to 12, exp 3 ulp, quotient 2.5, sum and products 0.5
                     each */
};
