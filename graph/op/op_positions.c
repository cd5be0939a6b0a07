/* positions: the position of each token of the step in its sequence. */
#include "graph/op.h"

static const clef_attr_def positions_attrs[] = {
    {"length", CLEF_ATTR_DIM, offsetof(clef_positions_opts, length), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_positions(clef_graph *g, clef_value *pos, const clef_positions_opts *opts)
{
    return clef__node(g, CLEF_OP_positions, &pos, 1, opts);
}

static clef_status positions_infer(clef_value *n, clef_error *err)
{
    const clef_positions_opts *o = (const void *)n->attr;
    char text[96];
    if (n->in[0]->shape.rank != 1)
        return clef__fail(err, CLEF_E_SHAPE, "pos %s, expected [B]",
                          clef__shape_text(n->graph, &n->in[0]->shape, text));
    if (o->length.n < 1)
        return clef__fail(err, CLEF_E_ARG, "length %lld, expected at least 1", (long long)o->length.n);
    n->dtype = CLEF_I32;
    n->shape = clef_shape_2(n->in[0]->shape.dim[0], o->length);
    return CLEF_OK;
}

static void positions_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    for (int64_t i = 0; i < out->n[2] * out->n[3]; i++)
        out->x[i] = in[0].x[i / out->n[3]] + (double)(i % out->n[3]);
}

static clef_status positions_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const positions_args args = {
        .n = clef__size(lo, n), .length = clef__n(lo, n, 0), .pos = clef__view(lo, n->in[0]).offset};
    return clef__launch(lo,
                        &(clef_launch){.source = "positions",
                                       .kernel = "positions",
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0]},
                                       .n_bufs = 2,
                                       .groups = {args.n}},
                        err);
}

const clef_op_def clef__op_positions = {
    .name = "positions",
    .formula = "out[b, t] = pos[b] + t",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_I32 | CLEF_IN_DENSE},
    .attrs = positions_attrs,
    .attr_bytes = sizeof(clef_positions_opts),
    .infer = positions_infer,
    .ref = positions_ref,
    .lower = positions_lower,
    .tol = 0, /* integers */
};
