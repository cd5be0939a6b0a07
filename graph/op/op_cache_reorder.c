/* cache_reorder: puts the sequences of a KV cache in another order, for beam search. */
#include <string.h>

#include "graph/op.h"
#include "graph/op/ways.h"

enum { MAX_BEAMS = 64 }; /* a work-item keeps a word of each beam */

static const clef_attr_def cache_reorder_attrs[] = {
    {"rows", CLEF_ATTR_DIM, offsetof(clef_cache_reorder_opts, rows), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_cache_reorder(clef_graph *g, clef_value *cache, clef_value *order,
                               const clef_cache_reorder_opts *opts)
{
    return clef__node(g, CLEF_OP_cache_reorder, (clef_value *[]){cache, order}, 2, opts);
}

static clef_status cache_reorder_infer(clef_value *n, clef_error *err)
{
    const clef_value *cache = n->in[0], *order = n->in[1];
    clef_cache_reorder_opts *o = (void *)n->attr;
    char text[96];
    if (!clef__is_cache(cache))
        return clef__fail(err, CLEF_E_ARG, "%s is neither a state nor a cache_write", cache->name);
    if (cache->shape.rank != 4 || order->shape.rank != 1 ||
        clef__dim_at(n->graph, order->shape.dim[0], NULL) > clef__dim_at(n->graph, cache->shape.dim[0], NULL))
        return clef__fail(err, CLEF_E_SHAPE,
                          "order %s does not fit the cache: expected [B] and [at least B, H, C, D]",
                          clef__shape_text(n->graph, &order->shape, text));
    if (clef__dim_at(n->graph, order->shape.dim[0], NULL) > MAX_BEAMS)
        return clef__fail(err, CLEF_E_LIMIT, "order %s: at most %d sequences can be reordered",
                          clef__shape_text(n->graph, &order->shape, text), MAX_BEAMS);
    if (o->rows.n == 0)
        o->rows = cache->shape.dim[2];
    if (o->rows.n < 1 ||
        clef__dim_at(n->graph, o->rows, NULL) > clef__dim_at(n->graph, cache->shape.dim[2], NULL))
        return clef__fail(err, CLEF_E_SHAPE, "%lld rows, the cache has %s",
                          (long long)clef__dim_at(n->graph, o->rows, NULL),
                          clef__shape_text(n->graph, &cache->shape, text));
    n->dtype = cache->dtype;
    n->shape = cache->shape;
    return CLEF_OK;
}

/* The reference does not know the value of a symbol. If `rows` is a symbol, it moves all rows, and cases
 * compare no row beyond the symbol's value. */
static void cache_reorder_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_cache_reorder_opts *o = (const void *)n->attr;
    const int64_t H = out->n[1], C = out->n[2], D = out->n[3], rows = o->rows.symbol ? C : o->rows.n;
    memcpy(out->x, in[0].x, (size_t)(out->n[0] * H * C * D) * sizeof *out->x);
    for (int64_t b = 0; b < in[1].n[3]; b++) {
        const int64_t from = (int64_t)in[1].x[b];
        for (int64_t h = 0; h < H && from >= 0 && from < out->n[0]; h++)
            memcpy(out->x + (b * H + h) * C * D, in[0].x + (from * H + h) * C * D,
                   (size_t)(rows * D) * sizeof *out->x);
    }
}

static clef_cost cache_reorder_cost(const clef_value *n, const int64_t *symbols)
{
    const clef_cache_reorder_opts *o = (const void *)n->attr;
    const double kept = (double)clef_dtype_block_bytes(n->dtype) / clef_dtype_block_elems(n->dtype);
    const double moved = (double)clef__dim_at(n->graph, n->in[1]->shape.dim[0], symbols) *
                         (double)n->shape.dim[1].n * (double)clef__dim_at(n->graph, o->rows, symbols) *
                         (double)n->shape.dim[3].n;
    return (clef_cost){.bytes = 2 * kept * moved};
}

static clef_status cache_reorder_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_cache_reorder_opts *o = (const void *)n->attr;
    const view_args view = clef__view(lo, n);
    const uint32_t elems = (uint32_t)clef_dtype_block_elems(n->dtype),
                   bytes = (uint32_t)clef_dtype_block_bytes(n->dtype);
    const uint32_t word = bytes % 4 ? 2 : 4, D = clef__n(lo, n, 0);
    cache_reorder_args args = {.n = clef__size(lo, n->in[1]),
                               .n_sources = clef__n(lo, n, 3),
                               .rows = (uint32_t)clef__dim_at(lo->graph, o->rows, lo->symbols),
                               .words = D / elems * bytes / word,
                               .cache = view.offset / elems * bytes / word,
                               .order = clef__view(lo, n->in[1]).offset};
    for (int i = 0; i < 3; i++)
        args.stride[i] = view.stride[i] / elems * bytes / word;
    const uint32_t wg = clef__fit_local(lo, args.words);
    return clef__launch(lo,
                        &(clef_launch){.source = "reorder",
                                       .kernel = "cache_reorder",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"WORD", (int32_t)word},
                                                {"BEAMS", (int32_t)clef__bound_n(lo, n->in[1], 0)}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[1]},
                                       .n_bufs = 2,
                                       .groups = {clef__n(lo, n, 2) * args.rows},
                                       .local = {wg}},
                        err);
}

static clef_row_range cache_reorder_rows(const clef_value *n)
{
    return (clef_row_range){.n_rows = n->in[0]->shape.dim[0], .span = clef_n(1)};
}

const clef_op_def clef__op_cache_reorder = {
    .name = "cache_reorder",
    .formula = "cache[b, h, s, :] = cache before[order[b], h, s, :] for s < rows; out is the cache",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_WEIGHT, CLEF_IN_I32 | CLEF_IN_DENSE},
    .attrs = cache_reorder_attrs,
    .attr_bytes = sizeof(clef_cache_reorder_opts),
    .row_numbers = 1 << 1,
    .row_range = cache_reorder_rows,
    .infer = cache_reorder_infer,
    .way = clef__way_first_input,
    .ref = cache_reorder_ref,
    .cost = cache_reorder_cost,
    .lower = cache_reorder_lower,
    .proof = CLEF__PROOF_BY_CASES,
    .view = 1,
    .writes = 1,
    .tol = 0, /* moves bits; the affines in the cases multiply by 1 */
};
