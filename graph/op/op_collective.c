/* all_reduce, all_gather, send and receive: what the ranks of a sharded graph exchange (ranks/shard/shard.h).
 * The reference of one graph alone treats it as the only rank; clef__ranks_eval() evaluates the graphs of all
 * ranks side by side. */
#include <inttypes.h>
#include <string.h>

#include "graph/collective.h"
#include "graph/op.h"

static clef_status launch_exchange(clef_lowering *lo, const clef_value *n, const clef_value *out,
                                   const clef_exchange_call *call, clef_error *err)
{
    return clef__launch(lo,
                        &(clef_launch){.call = CLEF_CALL_EXCHANGE,
                                       .args = call,
                                       .args_bytes = sizeof *call,
                                       .bufs = {out, n->in[0]},
                                       .n_bufs = 2},
                        err);
}

static uint64_t bytes_now(const clef_lowering *lo, const clef_value *v)
{
    return (uint64_t)clef__bytes(v, lo->symbols);
}

static void copy_tensor(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    memcpy(out->x, in[0].x, (size_t)(out->n[0] * out->n[1] * out->n[2] * out->n[3]) * sizeof *out->x);
}

/* ---- all_reduce ------------------------------------------------------------------------------ */

clef_value *clef__all_reduce(clef_graph *g, clef_value *x)
{
    return clef__node(g, CLEF_OP_all_reduce, &x, 1, NULL);
}

static clef_status reduce_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_exchange_call call = {.kind = CLEF_EXCHANGE_SUM, .n_bytes = bytes_now(lo, n)};
    return launch_exchange(lo, n, n, &call, err);
}

const clef_op_def clef__op_all_reduce = {
    .name = "all_reduce",
    .formula = "out = the sum of x over the ranks that share a stage",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE},
    .infer = clef__infer_same,
    .ref = copy_tensor,
    .flops = 1,
    .lower = reduce_lower,
    .effect = 1,
    .in_place = 1,
    .proof = CLEF__PROOF_BY_READERS,
    .tol = 0, /* exact for one rank */
};

/* ---- all_gather ------------------------------------------------------------------------------ */

static const clef_attr_def gather_attrs[] = {
    {"axis", CLEF_ATTR_INT, offsetof(clef__all_gather_opts, axis), NULL},
    {"size", CLEF_ATTR_INT, offsetof(clef__all_gather_opts, size), NULL},
    {"grain", CLEF_ATTR_INT, offsetof(clef__all_gather_opts, grain), NULL},
    {"part", CLEF_ATTR_INT, offsetof(clef__all_gather_opts, part), NULL},
    {"parts", CLEF_ATTR_INT, offsetof(clef__all_gather_opts, parts), NULL},
    {NULL, 0, 0, NULL},
};

clef__range clef__part_of(int64_t size, int64_t grain, int32_t part, int32_t parts)
{
    const int64_t units = size / grain, from = units * part / parts * grain,
                  to = part == parts - 1 ? size : units * (part + 1) / parts * grain;
    return (clef__range){from, to - from};
}

clef_value *clef__all_gather(clef_graph *g, clef_value *x, const clef__all_gather_opts *opts)
{
    return clef__node(g, CLEF_OP_all_gather, &x, 1, opts);
}

static clef_status gather_infer(clef_value *n, clef_error *err)
{
    const clef__all_gather_opts *o = (const void *)n->attr;
    const clef_shape *x = &n->in[0]->shape;
    char text[96];
    if (o->axis < 0 || o->axis >= x->rank || x->dim[o->axis].symbol)
        return clef__fail(err, CLEF_E_ARG, "axis %d of %s: expected an axis without a symbol", o->axis,
                          clef__shape_text(n->graph, x, text));
    if (o->parts < 1 || o->part < 0 || o->part >= o->parts || o->grain < 1 || o->size / o->grain < o->parts)
        return clef__fail(err, CLEF_E_ARG, "part %d of %d with %d elements in units of %d", o->part, o->parts,
                          o->size, o->grain);
    const clef__range mine = clef__part_of(o->size, o->grain, o->part, o->parts);
    if (mine.size != x->dim[o->axis].n)
        return clef__fail(err, CLEF_E_SHAPE, "axis %d of %s: part %d of %d has %" PRId64 " of %d elements",
                          o->axis, clef__shape_text(n->graph, x, text), o->part, o->parts, mine.size,
                          o->size);
    clef__infer_same(n, err);
    n->shape.dim[o->axis].n = o->size;
    return CLEF_OK;
}

/* The other ranks' elements are 0. */
static void gather_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef__all_gather_opts *o = (const void *)n->attr;
    const int32_t axis = o->axis + CLEF_MAX_DIMS - n->shape.rank;
    int64_t from[CLEF_MAX_DIMS] = {0};
    from[axis] = clef__part_of(o->size, o->grain, o->part, o->parts).start;
    const double *x = in->x;
    for (int64_t i0 = 0; i0 < in->n[0]; i0++)
        for (int64_t i1 = 0; i1 < in->n[1]; i1++)
            for (int64_t i2 = 0; i2 < in->n[2]; i2++)
                for (int64_t i3 = 0; i3 < in->n[3]; i3++)
                    out->x[clef__ref_at(out, i0 + from[0], i1 + from[1], i2 + from[2], i3 + from[3])] = *x++;
}

static clef_status gather_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef__all_gather_opts *o = (const void *)n->attr;
    clef_exchange_call call = {.kind = CLEF_EXCHANGE_GATHER,
                               .n_bytes = bytes_now(lo, n),
                               .outer = 1,
                               .inner_bytes = (uint64_t)clef_dtype_block_bytes(n->dtype),
                               .size = (uint32_t)o->size,
                               .grain = (uint32_t)o->grain};
    for (int32_t i = 0; i < n->shape.rank; i++) {
        const int64_t dim = clef__dim_at(n->graph, n->shape.dim[i], lo->symbols);
        if (i < o->axis)
            call.outer *= (uint32_t)dim;
        else if (i > o->axis)
            call.inner_bytes *= (uint64_t)dim;
    }
    return launch_exchange(lo, n, n, &call, err);
}

const clef_op_def clef__op_all_gather = {
    .name = "all_gather",
    .formula = "out = the ranks' parts of an axis, joined",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = gather_attrs,
    .attr_bytes = sizeof(clef__all_gather_opts),
    .infer = gather_infer,
    .ref = gather_ref,
    .flops = 1,
    .lower = gather_lower,
    .effect = 1,
    .proof = CLEF__PROOF_BY_READERS,
    .tol = 0, /* exact */
};

/* ---- send and receive ------------------------------------------------------------------------ */

static const clef_attr_def peer_attrs[] = {
    {"rank", CLEF_ATTR_INT, offsetof(clef__peer_opts, rank), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__send(clef_graph *g, clef_value *x, int32_t to)
{
    return clef__node(g, CLEF_OP_send, &x, 1, &(clef__peer_opts){to});
}

clef_value *clef__receive(clef_graph *g, clef_value *x, int32_t from)
{
    return clef__node(g, CLEF_OP_receive, &x, 1, &(clef__peer_opts){from});
}

static clef_status peer_infer(clef_value *n, clef_error *err)
{
    const clef__peer_opts *o = (const void *)n->attr;
    const clef_value *base = clef__base(n->in[0]);
    if (o->rank < 0)
        return clef__fail(err, CLEF_E_ARG, "rank %d, expected 0 or more", o->rank);
    if (n->op == CLEF_OP_receive && base->kind != CLEF_INPUT && base->kind != CLEF_STATE)
        return clef__fail(err, CLEF_E_ARG, "%s is neither an input nor a state", n->in[0]->name);
    n->dtype = n->in[0]->dtype;
    n->shape = n->in[0]->shape;
    return CLEF_OK;
}

static clef_status peer_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef__peer_opts *o = (const void *)n->attr;
    const clef_exchange_call call = {.kind =
                                         n->op == CLEF_OP_send ? CLEF_EXCHANGE_SEND : CLEF_EXCHANGE_RECEIVE,
                                     .n_bytes = bytes_now(lo, n),
                                     .offset_bytes = (uint64_t)clef__view(lo, n->in[0]).offset *
                                                     (uint64_t)clef_dtype_block_bytes(n->dtype),
                                     .peer = o->rank};
    return launch_exchange(lo, n, n->in[0], &call, err);
}

/* A view of x, with what the node does besides. */
#define PEER(name_, text, ...)                                                                               \
    const clef_op_def clef__op_##name_ = {                                                                   \
        .name = #name_,                                                                                      \
        .formula = text,                                                                                     \
        .n_min = 1,                                                                                          \
        .n_max = 1,                                                                                          \
        .in = {CLEF_IN_DENSE},                                                                               \
        .attrs = peer_attrs,                                                                                 \
        .attr_bytes = sizeof(clef__peer_opts),                                                               \
        .infer = peer_infer,                                                                                 \
        .ref = copy_tensor,                                                                                  \
        .flops = 1,                                                                                          \
        .lower = peer_lower,                                                                                 \
        .view = 1,                                                                                           \
        .proof = CLEF__PROOF_BY_READERS,                                                                     \
        __VA_ARGS__,                                                                                         \
    };

PEER(send, "out = x, which another rank receives", .effect = 1)
PEER(receive, "x = what another rank has sent; out = x", .writes = 1)
