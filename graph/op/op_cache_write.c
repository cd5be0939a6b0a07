/* cache_write: writes rows to the KV cache, whose dtype may be narrower than theirs. */
#include <string.h>

#include "graph/lower/attention/attention.h"
#include "graph/lower/paging.h"
#include "graph/op/ways.h"

enum { CACHE, X, POS, RUNS, PAGES, N_IN }; /* indices of the inputs */

clef_value *clef_cache_write(clef_graph *g, clef_value *cache, clef_value *x, clef_value *pos)
{
    return clef__node(g, CLEF_OP_cache_write, (clef_value *[]){cache, x, pos}, 3, NULL);
}

clef_value *clef_paged_write(clef_graph *g, clef_value *pool, clef_value *x, clef_value *pos,
                             clef_value *runs, clef_value *pages)
{
    return clef__node(g, CLEF_OP_cache_write, (clef_value *[]){pool, x, pos, runs, pages}, N_IN, NULL);
}

static clef_status cache_write_infer(clef_value *n, clef_error *err)
{
    const clef_value *cache = n->in[CACHE], *x = n->in[X], *pos = n->in[POS];
    const clef_dim *c = cache->shape.dim, *d = x->shape.dim;
    const int is_paged = n->in[PAGES] != NULL;
    char a[96], b[96];
    if (!clef__is_cache(cache))
        return clef__fail(err, CLEF_E_ARG, "%s is neither a state nor a cache_write", cache->name);
    if (cache->dtype != CLEF_F32 && cache->dtype != CLEF_F16 && cache->dtype != CLEF_Q8_0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "the cache %s is %s, expected f32, f16 or q8_0",
                          cache->name, clef_dtype_name(cache->dtype));
    if (cache->shape.rank != 4 || x->shape.rank != 4 || !clef__dim_equal(c[1], d[1]) ||
        !clef__dim_equal(c[3], d[3]) ||
        (is_paged ? !clef__dim_equal(d[2], clef_n(1)) : clef__dim_at(n->graph, d[0], NULL) > c[0].n))
        return clef__fail(
            err, CLEF_E_SHAPE,
            is_paged ? "x %s does not fit the cache %s: expected [B, H, 1, D] and [any, H, any, D]"
                     : "x %s does not fit the cache %s: expected [B, H, T, D] and [at least B, H, "
                       "any, D]",
            clef__shape_text(n->graph, &x->shape, a), clef__shape_text(n->graph, &cache->shape, b));
    if (pos && (pos->shape.rank != 1 || !clef__dim_equal(pos->shape.dim[0], d[0])))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s is not [B] of x %s",
                          clef__shape_text(n->graph, &pos->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    if (clef__base(x) == clef__base(cache))
        return clef__fail(err, CLEF_E_ARG, "%s is a part of the state that it is written to; copy it first",
                          x->name);
    n->dtype = cache->dtype;
    n->shape = cache->shape;
    return is_paged || n->in[RUNS] ? clef__check_paging(n, cache, pos, n->in[RUNS], n->in[PAGES], d[0], err)
                                   : CLEF_OK;
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

static void paged_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_ref_tensor *x = &in[X];
    const int64_t H = x->n[1], D = out->n[3];
    for (int64_t r = 0; r < x->n[0] * H; r++) {
        clef__ref_run run;
        const int64_t b = r / H;
        const int64_t row =
            clef__ref_find_run(&in[RUNS], b, &run)
                ? clef__ref_pool_row(out, &in[PAGES], run.sequence, r % H, (int64_t)in[POS].x[b])
                : -1;
        if (row >= 0)
            clef__ref_keep(n->dtype, x->x + r * D, D, out->x + row * D);
    }
}

static void cache_write_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_ref_tensor *x = &in[X];
    const int64_t C = out->n[2], D = out->n[3];
    memcpy(out->x, in[CACHE].x, (size_t)(out->n[0] * out->n[1] * C * D) * sizeof *out->x);
    if (in[PAGES].x) {
        paged_ref(n, in, out);
        return;
    }
    for (int64_t r = 0; r < x->n[0] * x->n[1] * x->n[2]; r++) {
        const int64_t t = r % x->n[2], bh = r / x->n[2];
        const int64_t row = t + (in[POS].x ? (int64_t)in[POS].x[bh / x->n[1]] : 0);
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
                                     const clef_value *x, const clef_value *pos, const clef_value *runs,
                                     const clef_value *pages, clef_error *err)
{
    const uint32_t at_once = cache->dtype == CLEF_F32   ? 1
                             : cache->dtype == CLEF_F16 ? 16
                                                        : 32; /* elements for each work-item */
    const uint32_t wg = clef__fit_local(lo, clef__ceil_div(args->n[3], at_once));
    return clef__launch(
        lo,
        &(clef_launch){.source = "cache",
                       .kernel = "cache_write",
                       .defs = {{"WG", (int32_t)wg},
                                {"TYPE", (int32_t)cache->dtype},
                                {"POS", pos != NULL},
                                {"PAGED", pages != NULL}},
                       .args = args,
                       .args_bytes = sizeof *args,
                       .bufs = {cache, x, pos, runs, pages},
                       .n_bufs = pages ? 5 : 3,
                       .groups = {args->n[0] * args->n[1] * args->n[2]}, /* one work-group a row of x */
                       .local = {wg}},
        err);
}

static clef_status cache_write_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[X], *pos = n->in[POS], *runs = n->in[RUNS], *pages = n->in[PAGES];
    cache_write_args args = {.x = clef__view(lo, x),
                             .cache = clef__view(lo, n),
                             .pos = clef__view(lo, pos).offset,
                             .capacity = pages ? clef__n(lo, pages, 0) * KV_PAGE : clef__n(lo, n, 1),
                             .paging = clef__paging_args(lo, runs, pages)};
    clef__n4(lo, x, args.n);
    return clef__cache_write_launch(lo, &args, n, x, pos, runs, pages, err);
}

static clef_row_range cache_write_rows(const clef_value *n)
{
    return (clef_row_range){.n_rows = n->in[CACHE]->shape.dim[2], .span = n->in[X]->shape.dim[2]};
}

static int cache_write_draw(const clef_value *n, int32_t i, const int64_t *symbols, float *out)
{
    const int64_t rows = clef__dim_at(n->graph, n->in[X]->shape.dim[0], symbols);
    const clef__paging_in in = {n->in[POS], n->in[RUNS], n->in[PAGES], n->in[CACHE], NULL};
    return in.pages && clef__draw_paging(&in, n->in[i], rows, symbols, out);
}

const clef_op_def clef__op_cache_write = {
    .name = "cache_write",
    .formula =
        "cache[b, h, pos[b] + t, :] = x[b, h, t, :]; with pages at pos[b] of its sequence; out is the cache",
    .n_min = 2,
    .n_max = N_IN,
    .in = {CLEF_IN_WEIGHT, CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .row_numbers = 1 << POS,
    .row_range = cache_write_rows,
    .draw = cache_write_draw,
    .infer = cache_write_infer,
    .way = clef__way_cache_write,
    .ref = cache_write_ref,
    .cost = cache_write_cost,
    .lower = cache_write_lower,
    .view = 1,
    .writes = 1,
    .tol = 3e-7f, /* one rounding of 6e-8, in an affine after it */
};
