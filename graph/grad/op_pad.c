/* pad: zeros around x along an axis; what the gradient of a slice consists of. */
#include "graph/grad/gradient.h"
#include "graph/lower/elementwise.h"

static const clef_attr_def pad_attrs[] = {
    {"axis", CLEF_ATTR_INT, offsetof(clef_pad_opts, axis), NULL},
    {"before", CLEF_ATTR_INT, offsetof(clef_pad_opts, before), NULL},
    {"after", CLEF_ATTR_INT, offsetof(clef_pad_opts, after), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_pad(clef_graph *g, clef_value *x, const clef_pad_opts *opts)
{
    return clef__node(g, CLEF_OP_pad, (clef_value *[]){x}, 1, opts);
}

static clef_status pad_infer(clef_value *n, clef_error *err)
{
    clef_pad_opts *o = (void *)n->attr;
    const clef_shape *x = &n->in[0]->shape;
    char text[96];
    if (o->axis < 0)
        o->axis += x->rank;
    if (o->axis < 0 || o->axis >= x->rank || x->dim[o->axis].symbol)
        return clef__fail(err, CLEF_E_ARG, "axis %d of %s: expected a dim without a symbol", o->axis,
                          clef__shape_text(n->graph, x, text));
    if (o->before < 0 || o->after < 0 || x->dim[o->axis].n + o->before + o->after > INT32_MAX)
        return clef__fail(err, CLEF_E_ARG,
                          "%d zeros before and %d after: expected 0 or more, and a dim below 2^31", o->before,
                          o->after);
    clef__infer_same(n, err);
    n->shape.dim[o->axis].n += (int64_t)o->before + o->after;
    return CLEF_OK;
}

static void pad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_pad_opts *o = (const void *)n->attr;
    const int32_t axis = o->axis + CLEF_MAX_DIMS - n->shape.rank;
    double *to = out->x;
    int64_t i[4];
    for (i[0] = 0; i[0] < out->n[0]; i[0]++)
        for (i[1] = 0; i[1] < out->n[1]; i[1]++)
            for (i[2] = 0; i[2] < out->n[2]; i[2]++)
                for (i[3] = 0; i[3] < out->n[3]; i[3]++) {
                    int64_t at[4] = {i[0], i[1], i[2], i[3]};
                    at[axis] -= o->before;
                    *to++ = at[axis] >= 0 && at[axis] < in->n[axis]
                                ? in->x[clef__ref_at(in, at[0], at[1], at[2], at[3])]
                                : 0;
                }
}

static clef_status pad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    enum { SPAN = 4096 };
    const clef_pad_opts *o = (const void *)n->attr;
    const uint32_t wg = clef__fit_local(lo, 256);
    pad_args args = {.x = clef__view(lo, n->in[0]), .span = SPAN};
    clef__n4(lo, n, args.n);
    clef__n4(lo, n->in[0], args.inside);
    args.first[o->axis + CLEF_MAX_DIMS - n->shape.rank] = (args_uint)o->before;
    args.pieces = clef__ceil_div(args.n[3], args.span);
    return clef__launch(lo,
                        &(clef_launch){.source = "pad",
                                       .kernel = "pad",
                                       .defs = {{"WG", (int32_t)wg}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0]},
                                       .n_bufs = 2,
                                       .groups = {args.n[0] * args.n[1] * args.n[2] * args.pieces},
                                       .local = {wg}},
                        err);
}

static void pad_grad(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_pad_opts *o = (const void *)n->attr;
    clef__add_gradient(
        gr, n->in[0],
        clef_slice(
            n->graph, d,
            &(clef_slice_opts){.axis = o->axis, .start = o->before, .size = n->in[0]->shape.dim[o->axis]}));
}

const clef_op_def clef__op_pad = {
    .name = "pad",
    .formula = "out = x with zeros before and after it along an axis",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32},
    .attrs = pad_attrs,
    .attr_bytes = sizeof(clef_pad_opts),
    .infer = pad_infer,
    .ref = pad_ref,
    .lower = pad_lower,
    .grad = pad_grad,
    .tol = 0, /* exact */
};
