/* relative_bias_grad: the gradient of the table of a relative bias: for each distance the sum over its pairs
 * of query and key. */
#include "graph/grad/relative_bias_grad.h"
#include "graph/op.h"

static const clef_attr_def relative_bias_grad_attrs[] = {
    {"distances", CLEF_ATTR_INT, offsetof(clef__relative_bias_grad_opts, distances), NULL},
    {"each", CLEF_ATTR_INT, offsetof(clef__relative_bias_grad_opts, each), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__relative_bias_grad(clef_value *d, clef_value *pos,
                                     const clef__relative_bias_grad_opts *opts)
{
    return d ? clef__node(d->graph, CLEF_OP_relative_bias_grad, (clef_value *[]){d, pos}, 2, opts) : NULL;
}

static clef_status relative_bias_grad_infer(clef_value *n, clef_error *err)
{
    const clef__relative_bias_grad_opts *o = (const void *)n->attr;
    const clef_shape *d = &n->in[0]->shape;
    char text[96];
    if (d->rank != 3 || d->dim[0].symbol || o->distances < 1 || o->distances % 2 == 0)
        return clef__fail(err, CLEF_E_SHAPE,
                          "d %s, expected [H, queries, keys], and an odd number of distances",
                          clef__shape_text(n->graph, d, text));
    if (o->each && !n->in[1])
        return clef__fail(err, CLEF_E_ARG, "each=1 without pos");
    if (n->in[1] && (n->in[1]->shape.rank != 1 ||
                     !clef__dim_equal(n->in[1]->shape.dim[0], o->each ? d->dim[1] : clef_n(1))))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s, expected %s",
                          clef__shape_text(n->graph, &n->in[1]->shape, text), o->each ? "[queries]" : "[1]");
    n->dtype = CLEF_F32;
    n->shape = clef_shape_2(clef_n(o->distances), d->dim[0]);
    return CLEF_OK;
}

static void relative_bias_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef__relative_bias_grad_opts *o = (const void *)n->attr;
    const int64_t D = out->n[2], H = out->n[3], T = in[0].n[2], S = in[0].n[3];
    for (int64_t i = 0; i < D * H; i++)
        out->x[i] = 0;
    for (int64_t h = 0; h < H; h++)
        for (int64_t t = 0; t < T; t++)
            for (int64_t s = 0; s < S; s++) {
                const int64_t pos = o->each ? (int64_t)in[1].x[t] : t + (in[1].x ? (int64_t)in[1].x[0] : 0);
                int64_t at = s - pos + D / 2;
                at = at < 0 ? 0 : at >= D ? D - 1 : at;
                out->x[at * H + h] += in[0].x[(h * T + t) * S + s];
            }
}

static clef_cost relative_bias_grad_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = (double)clef__elements(n->in[0], symbols);
    return cost;
}

static clef_status relative_bias_grad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef__relative_bias_grad_opts *o = (const void *)n->attr;
    const relative_bias_args args = {.heads = clef__n(lo, n, 0),
                                     .queries = clef__n(lo, n->in[0], 1),
                                     .keys = clef__n(lo, n->in[0], 0),
                                     .distances = (args_uint)o->distances,
                                     .x = clef__view(lo, n->in[0]).offset,
                                     .pos = clef__view(lo, n->in[1]).offset,
                                     .each = o->each != 0};
    const uint32_t wg = clef__fit_local(lo, 64);
    return clef__launch(lo,
                        &(clef_launch){.source = "relative_bias_grad",
                                       .kernel = "relative_bias_grad",
                                       .defs = {{"WG", (int32_t)wg}, {"POS", n->in[1] != NULL}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1]},
                                       .n_bufs = 3,
                                       .groups = {clef__ceil_div(args.distances * args.heads, wg)},
                                       .local = {wg}},
                        err);
}

const clef_op_def clef__op_relative_bias_grad = {
    .name = "relative_bias_grad",
    .formula = "out[i, h] = the sum of d[h, t, s] over all t, s whose relative bias is row i of the table",
    .n_min = 1,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = relative_bias_grad_attrs,
    .attr_bytes = sizeof(clef__relative_bias_grad_opts),
    .infer = relative_bias_grad_infer,
    .ref = relative_bias_grad_ref,
    .cost = relative_bias_grad_cost,
    .lower = relative_bias_grad_lower,
    .tol = 5e-6f, /* chains of some 10^3 terms */
};
