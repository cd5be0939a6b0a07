/* cache_write: writes rows to the KV cache, whose dtype may be narrower than theirs. */
#include <string.h>

#include "graph/lower/attention.h"

clef_value *clef_cache_write(clef_graph *g, clef_value *cache, clef_value *x, clef_value *pos)
{
    return clef__node(g, CLEF_OP_cache_write, (clef_value *[]){cache, x, pos}, 3, NULL);
}

static clef_status cache_write_infer(clef_value *n, clef_error *err)
{
    const clef_value *cache = n->in[0], *x = n->in[1], *pos = n->in[2];
    const clef_dim *c = cache->shape.dim, *d = x->shape.dim;
    char a[96], b[96];
    if (!clef__is_cache(cache))
        return clef__fail(err, CLEF_E_ARG, "%s is neither a state nor a cache_write", cache->name);
    if (cache->dtype != CLEF_F32 && cache->dtype != CLEF_F16 && cache->dtype != CLEF_Q8_0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "the cache %s is %s, expected f32, f16 or q8_0",
                          cache->name, clef_dtype_name(cache->dtype));
    if (cache->shape.rank != 4 || x->shape.rank != 4 || !clef__dim_equal(c[1], d[1]) ||
        !clef__dim_equal(c[3], d[3]) || clef__dim_at(n->graph, d[0], NULL) > c[0].n)
        return clef__fail(err, CLEF_E_SHAPE,
                          "x %s does not fit the cache %s: expected [B, H, T, D] and [at least B, H, any, D]",
                          clef__shape_text(n->graph, &x->shape, a),
                          clef__shape_text(n->graph, &cache->shape, b));
    if (pos && (pos->shape.rank != 1 || !clef__dim_equal(pos->shape.dim[0], d[0])))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s is not [B] of x %s",
                          clef__shape_text(n->graph, &pos->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    if (clef__base(x) == clef__base(cache))
        return clef__fail(err, CLEF_E_ARG, "%s is a part of the state that it is written to; copy it first",
                          x->name);
    n->dtype = cache->dtype;
    n->shape = cache->shape;
    return CLEF_OK;
}

void clef__ref_keep(clef_dtype dtype, const double *x, int64_t n, double *out)
{
    enum { BLOCK = 32 }; /* of q8_0; f16 does not need whole blocks */
    float wide[BLOCK];
    unsigned char stored[BLOCK * sizeof(float)];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const size_t m = (size_t)(n - i < BLOCK ? n - i : BLOCK);
        for (size_t j = 0; j < m; j++)
            wide[j] = (float)x[(size_t)i + j];
        clef_dtype_encode(dtype, wide, m, stored);
        clef_dtype_decode(dtype, stored, m, wide);
        for (size_t j = 0; j < m; j++)
            out[(size_t)i + j] = (double)wide[j];
    }
}

static void cache_write_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_ref_tensor *x = &in[1];
    const int64_t C = out->n[2], D = out->n[3];
    memcpy(out->x, in[0].x, (size_t)(out->n[0] * out->n[1] * C * D) * sizeof *out->x);
    for (int64_t r = 0; r < x->n[0] * x->n[1] * x->n[2]; r++) {
        const int64_t t = r % x->n[2], bh = r / x->n[2];
        const int64_t row = t + (in[2].x ? (int64_t)in[2].x[bh / x->n[1]] : 0);
        if (row >= 0 && row < C)
            clef__ref_keep(n->dtype, x->x + r * D, D, out->x + (bh * C + row) * D);
    }
}

static clef_cost cache_write_cost(const clef_value *n, const int64_t *symbols)
{
    const double kept = (double)clef_dtype_block_bytes(n->dtype) / clef_dtype_block_elems(n->dtype);
    return (clef_cost){.bytes = (double)clef__elements(n->in[1], symbols) * (sizeof(float) + kept)};
}

clef_status clef__cache_write_launch(clef_lowering *lo, const cache_write_args *args, const clef_value *cache,
                                     const clef_value *x, const clef_value *pos, clef_error *err)
{
    const uint32_t at_once = cache->dtype == CLEF_F32   ? 1
                             : cache->dtype == CLEF_F16 ? 16
                                                        : 32; /* elements for each work-item */
    const uint32_t wg = clef__fit_local(lo, clef__ceil_div(args->n[3], at_once));
    return clef__launch(
        lo,
        &(clef_launch){.source = "cache",
                       .kernel = "cache_write",
                       .defs = {{"WG", (int32_t)wg}, {"TYPE", (int32_t)cache->dtype}, {"POS", pos != NULL}},
                       .args = args,
                       .args_bytes = sizeof *args,
                       .bufs = {cache, x, pos},
                       .n_bufs = 3,
                       .groups = {args->n[0] * args->n[1] * args->n[2]}, /* one work-group a row of x */
                       .local = {wg}},
        err);
}

static clef_status cache_write_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[1], *pos = n->in[2];
    cache_write_args args = {.x = clef__view(lo, x),
                             .cache = clef__view(lo, n),
                             .pos = clef__view(lo, pos).offset,
                             .capacity = clef__n(lo, n, 1)};
    clef__n4(lo, x, args.n);
    return clef__cache_write_launch(lo, &args, n, x, pos, err);
}

static clef_row_range cache_write_rows(const clef_value *n)
{
    return (clef_row_range){.n_rows = n->in[0]->shape.dim[2], .span = n->in[1]->shape.dim[2]};
}

const clef_op_def clef__op_cache_write = {
    .name = "cache_write",
    .formula = "cache[b, h, pos[b] + t, :] = x[b, h, t, :]; out is the cache",
    .n_min = 2,
    .n_max = 3,
    .in = {CLEF_IN_WEIGHT, CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .row_numbers = 1 << 2,
    .row_range = cache_write_rows,
    .infer = cache_write_infer,
    .ref = cache_write_ref,
    .cost = cache_write_cost,
    .lower = cache_write_lower,
    .view = 1,
    .writes = 1,
    .tol = 3e-7f, /* one rounding of 6e-8, in an affine after it */
};
