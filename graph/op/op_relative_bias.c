/* relative_bias: a value for each distance between a key and a query, laid out as a bias of the scores. */
#include "graph/grad/gradient.h"
#include "graph/grad/relative_bias_grad.h"
#include "graph/op.h"
#include "graph/op/ways.h"

static const clef_attr_def relative_bias_attrs[] = {
    {"queries", CLEF_ATTR_DIM, offsetof(clef_relative_bias_opts, queries), NULL},
    {"keys", CLEF_ATTR_DIM, offsetof(clef_relative_bias_opts, keys), NULL},
    {"each", CLEF_ATTR_INT, offsetof(clef_relative_bias_opts, each), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_relative_bias(clef_graph *g, clef_value *x, clef_value *pos,
                               const clef_relative_bias_opts *opts)
{
    return clef__node(g, CLEF_OP_relative_bias, (clef_value *[]){x, pos}, 2, opts);
}

static clef_status relative_bias_infer(clef_value *n, clef_error *err)
{
    const clef_relative_bias_opts *o = (const void *)n->attr;
    const clef_shape *x = &n->in[0]->shape;
    char text[96];
    if (x->rank != 2 || x->dim[0].symbol || x->dim[1].symbol || x->dim[0].n % 2 == 0)
        return clef__fail(err, CLEF_E_SHAPE, "x %s, expected [distances, heads], an odd number of distances",
                          clef__shape_text(n->graph, x, text));
    if (o->each && !n->in[1])
        return clef__fail(err, CLEF_E_ARG, "each=1 without pos");
    if (n->in[1] && (n->in[1]->shape.rank != 1 ||
                     !clef__dim_equal(n->in[1]->shape.dim[0], o->each ? o->queries : clef_n(1))))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s, expected %s",
                          clef__shape_text(n->graph, &n->in[1]->shape, text), o->each ? "[queries]" : "[1]");
    if (o->queries.n < 1 || o->keys.n < 1)
        return clef__fail(err, CLEF_E_ARG, "%lld queries and %lld keys, expected at least 1",
                          (long long)o->queries.n, (long long)o->keys.n);
    n->dtype = CLEF_F32;
    n->shape = clef_shape_3(x->dim[1], o->queries, o->keys);
    return CLEF_OK;
}

static void relative_bias_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_relative_bias_opts *o = (const void *)n->attr;
    const int64_t distances = in[0].n[2], H = in[0].n[3], T = out->n[2], S = out->n[3];
    for (int64_t h = 0; h < H; h++)
        for (int64_t t = 0; t < T; t++)
            for (int64_t s = 0; s < S; s++) {
                const int64_t pos = o->each ? (int64_t)in[1].x[t] : t + (in[1].x ? (int64_t)in[1].x[0] : 0);
                int64_t at = s - pos + distances / 2;
                at = at < 0 ? 0 : at >= distances ? distances - 1 : at;
                out->x[(h * T + t) * S + s] = in[0].x[at * H + h];
            }
}

static clef_status relative_bias_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_relative_bias_opts *o = (const void *)n->attr;
    const relative_bias_args args = {.heads = clef__n(lo, n, 2),
                                     .queries = clef__n(lo, n, 1),
                                     .keys = clef__n(lo, n, 0),
                                     .distances = clef__n(lo, n->in[0], 1),
                                     .x = clef__view(lo, n->in[0]).offset,
                                     .pos = clef__view(lo, n->in[1]).offset,
                                     .each = o->each != 0};
    return clef__launch(lo,
                        &(clef_launch){.source = "relative_bias",
                                       .kernel = "relative_bias",
                                       .defs = {{"HAS_POS", n->in[1] != NULL}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1]},
                                       .n_bufs = 3,
                                       .groups = {args.heads * args.queries}},
                        err);
}

static void relative_bias_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_relative_bias_opts *o = (const void *)n->attr;
    const clef__relative_bias_grad_opts opts = {.distances = (int32_t)n->in[0]->shape.dim[0].n,
                                                .each = o->each};
    clef__add_gradient(gr, n->in[0], clef__relative_bias_grad(d, n->in[1], &opts));
}

const clef_op_def clef__op_relative_bias = {
    .name = "relative_bias",
    .formula =
        "out[h, t, s] = x[s - (pos + t) + distances / 2, h], the distance held within x; with each=1 pos[t]",
    .n_min = 1,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = relative_bias_attrs,
    .attr_bytes = sizeof(clef_relative_bias_opts),
    .infer = relative_bias_infer,
    .way = clef__way_relative_bias,
    .ref = relative_bias_ref,
    .lower = relative_bias_lower,
    .grad = relative_bias_rule,
    .tol = 0, /* copies */
};
