/* cast: rounds f32 to 16 bits. It has no gradient, because it is put in when the gradients are there. */
#include "clef/gradient.h"
#include "graph/op.h"

static const clef_attr_def cast_attrs[] = {
    {"dtype", CLEF_ATTR_DTYPE, offsetof(clef_cast_opts, dtype), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_cast(clef_graph *g, clef_value *x, const clef_cast_opts *opts)
{
    return clef__node(g, CLEF_OP_cast, (clef_value *[]){x}, 1, opts);
}

static clef_status cast_infer(clef_value *n, clef_error *err)
{
    const clef_cast_opts *o = (const void *)n->attr;
    if (o->dtype != CLEF_F16 && o->dtype != CLEF_BF16)
        return clef__fail(err, CLEF_E_ARG, "dtype %s, expected f16 or bf16", clef_dtype_name(o->dtype));
    clef__infer_same(n, err);
    n->dtype = o->dtype;
    return CLEF_OK;
}

static void cast_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++) {
        float x = (float)in[0].x[i];
        uint16_t rounded;
        clef_dtype_encode(n->dtype, &x, 1, &rounded);
        clef_dtype_decode(n->dtype, &rounded, 1, &x);
        out->x[i] = (double)x;
    }
}

static clef_status cast_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    enum { SPAN = 8192 };
    const uint32_t wg = clef__fit_local(lo, 256);
    const cast_args args = {.n = clef__size(lo, n), .span = SPAN, .x = clef__view(lo, n->in[0]).offset};
    return clef__launch(lo,
                        &(clef_launch){.source = "cast",
                                       .kernel = "cast",
                                       .defs = {{"WG", (int32_t)wg}, {"OUT_TYPE", (int32_t)n->dtype}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0]},
                                       .n_bufs = 2,
                                       .groups = {clef__ceil_div(args.n, args.span)},
                                       .local = {wg}},
                        err);
}

const clef_op_def clef__op_cast = {
    .name = "cast",
    .formula = "out = x, rounded to dtype, f16 or bf16: to nearest, ties to even",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = cast_attrs,
    .attr_bytes = sizeof(clef_cast_opts),
    .infer = cast_infer,
    .ref = cast_ref,
    .lower = cast_lower,
    .tol = 0, /* exact */
};
