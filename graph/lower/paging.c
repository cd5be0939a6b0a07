/* Caches in pages: checks, the argument block, and what references and random inputs need. */
#include "graph/lower/paging.h"

#include <string.h>

/* ---- inference and lowering ------------------------------------------------------------------- */

clef_status clef__check_paging(const clef_value *n, const clef_value *pool, const clef_value *pos,
                               const clef_value *runs, const clef_value *pages, clef_dim B, clef_error *err)
{
    char a[96], b[96];
    if (!runs || (pool && !pages) || !pos)
        return clef__fail(err, CLEF_E_ARG, "expected pos, runs and pages together");
    if (runs->shape.rank != 2 || runs->shape.dim[1].symbol || runs->shape.dim[1].n != RUN_WORDS)
        return clef__fail(err, CLEF_E_SHAPE, "runs %s, expected [M, %d]",
                          clef__shape_text(n->graph, &runs->shape, a), RUN_WORDS);
    if (pos->shape.rank != 1 || !clef__dim_equal(pos->shape.dim[0], B))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s, expected a position for each row of the step",
                          clef__shape_text(n->graph, &pos->shape, a));
    if (!pool)
        return CLEF_OK;
    if (pages->shape.rank != 2 || pages->shape.dim[1].symbol)
        return clef__fail(err, CLEF_E_SHAPE, "pages %s, expected [sequences, pages of a sequence]",
                          clef__shape_text(n->graph, &pages->shape, a));
    if (!clef__is_cache(pool) || pool->shape.rank != 4 || pool->shape.dim[2].symbol ||
        pool->shape.dim[2].n != KV_PAGE)
        return clef__fail(err, CLEF_E_SHAPE, "the cache %s %s, expected a state [pages, H, %d, D]",
                          pool->name, clef__shape_text(n->graph, &pool->shape, b), KV_PAGE);
    return CLEF_OK;
}

paging_args clef__paging_args(const clef_lowering *lo, const clef_value *runs, const clef_value *pages)
{
    paging_args args = {0};
    if (!runs)
        return args;
    args.runs = clef__view(lo, runs).offset;
    args.n_runs = clef__n(lo, runs, 1);
    if (pages) {
        args.pages = clef__view(lo, pages).offset;
        args.n_pages = clef__n(lo, pages, 0);
    }
    return args;
}

int clef__runs_are_rows(const clef_lowering *lo, const clef_value *runs, uint32_t rows)
{
    return clef__n(lo, runs, 1) == rows;
}

/* ---- references ------------------------------------------------------------------------------- */

int clef__ref_find_run(const clef_ref_tensor *runs, int64_t b, clef__ref_run *out)
{
    for (int64_t r = 0; r < runs->n[2]; r++) {
        const double *words = runs->x + r * RUN_WORDS;
        *out = (clef__ref_run){(int64_t)words[0], (int64_t)words[1], (int64_t)words[2]};
        if (b >= out->first && b < out->first + out->rows)
            return 1;
    }
    return 0;
}

int64_t clef__ref_pool_row(const clef_ref_tensor *pool, const clef_ref_tensor *pages, int64_t sequence,
                           int64_t h, int64_t s)
{
    if (s < 0 || s >= pages->n[3] * KV_PAGE || sequence < 0 || sequence >= pages->n[2])
        return -1;
    const int64_t page = (int64_t)pages->x[sequence * pages->n[3] + s / KV_PAGE];
    return page < 0 || page >= pool->n[0] ? -1 : (page * pool->n[1] + h) * KV_PAGE + s % KV_PAGE;
}

/* ---- random inputs ----------------------------------------------------------------------------- */

/* The first row of run r of `runs`, when `rows` rows are shared out evenly. */
static int64_t first_row(int64_t r, int64_t runs, int64_t rows)
{
    return r * rows / runs;
}

/* Pages of a sequence that no other sequence has, if every page of the pool is given to one. */
static int64_t own_pages(const clef_value *pages, const clef_value *pool, const int64_t *symbols)
{
    const int64_t n = clef__dim_at(pages->graph, pages->shape.dim[1], symbols),
                  each = clef__dim_at(pool->graph, pool->shape.dim[0], symbols) /
                         clef__dim_at(pages->graph, pages->shape.dim[0], symbols);
    return each < n ? each : n;
}

static void draw_runs(const clef_value *runs, int64_t rows, const int64_t *symbols, float *out)
{
    const int64_t n = clef__dim_at(runs->graph, runs->shape.dim[0], symbols);
    for (int64_t r = 0; r < n; r++) {
        const int64_t first = first_row(r, n, rows);
        out[r * RUN_WORDS] = (float)(n - 1 - r); /* not in the order of the sequences */
        out[r * RUN_WORDS + 1] = (float)first;
        out[r * RUN_WORDS + 2] = (float)(first_row(r + 1, n, rows) - first);
    }
}

static void draw_pages(const clef_value *pages, const clef_value *pool, const int64_t *symbols, float *out)
{
    const int64_t n = clef__dim_at(pages->graph, pages->shape.dim[1], symbols),
                  sequences = clef__dim_at(pages->graph, pages->shape.dim[0], symbols),
                  own = own_pages(pages, pool, symbols);
    for (int64_t i = 0; i < sequences * n; i++) /* neighbours are far apart in the pool */
        out[i] = i % n < own ? (float)(i % n * sequences + i / n) : 0;
}

/* The positions that a sequence has pages for, and that a mask over the keys covers. */
static int64_t room_of(const clef__paging_in *in, int64_t rows, const int64_t *symbols)
{
    const int64_t paged = in->pages ? own_pages(in->pages, in->pool, symbols) * KV_PAGE : 2 * rows,
                  masked = in->mask
                               ? clef__dim_at(in->mask->graph, clef__dim_right(&in->mask->shape, 0), symbols)
                               : 1; /* 1: it is broadcast */
    return masked > 1 && masked < paged ? masked : paged;
}

static void draw_positions(const clef__paging_in *in, int64_t rows, const int64_t *symbols, float *out)
{
    const int64_t n = clef__dim_at(in->runs->graph, in->runs->shape.dim[0], symbols),
                  room = room_of(in, rows, symbols);
    for (int64_t r = 0; r < n; r++) {
        const int64_t first = first_row(r, n, rows), end = first_row(r + 1, n, rows);
        const int64_t spare = room - (end - first), start = spare > 0 ? r * 37 % (spare + 1) : 0;
        for (int64_t b = first; b < end; b++)
            out[b] = (float)(start + b - first < room ? start + b - first : room - 1);
    }
}

int clef__draw_paging(const clef__paging_in *in, const clef_value *v, int64_t rows, const int64_t *symbols,
                      float *out)
{
    if (v == in->runs)
        draw_runs(v, rows, symbols, out);
    else if (v == in->pages)
        draw_pages(v, in->pool, symbols, out);
    else if (v == in->pos)
        draw_positions(in, rows, symbols, out);
    else
        return 0;
    return 1;
}
