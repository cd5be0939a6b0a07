/* out[t, r] = act(alpha x'[t] . w[r] + bias[r]) + residual[t, r] for up to NT tokens in one launch. x' are
 * the rows of x after their norm; if w is in a block format, they are rounded to 8 bits. Each group prepares
 * them for itself, then computes `span` tiles of the result.
 * Launch: one work-item a group, ceil(tiles of the result / span) groups.
 *   -D NT         tokens; those beyond the last row are computed and dropped
 *   -D ROW_BYTES  bytes of a prepared row, rounded up to a multiple of 64
 *   -D W_TYPE     dtype of w
 *   -D DOT        as in panel.h
 *   -D PREFETCH   0: w is not prefetched, because the core's own prefetcher does better (default: 1)
 *   and those of panel_cpu_activations.h and panel_cpu_epilogue.h */
#define WG 1
#include "args.h"
#include "fetch.h"
#include "substep.h"
#include "weights.h"

#if !defined(NT) || !defined(ROW_BYTES) || !defined(W_TYPE) || !defined(DOT)
#  error "panel_cpu_gemv.cl needs NT, ROW_BYTES, W_TYPE and DOT"
#endif
#ifndef PREFETCH
#  define PREFETCH 1
#endif
#define X_SPACE    STAGE_LOCAL
#define ROWS_SPACE STAGE_LOCAL
#define QUANTISE   IS_BLOCKS(W_TYPE)
#include "panel_cpu_epilogue.h"
#include "panel_cpu_activations.h"

#if QUANTISE

#  define STREAMS PREFETCH
#  include "panel_products.h"

INLINED void tile_sums(float16 acc[NT], global const uchar *w, const panel_args *a, uint tile,
                       X_SPACE const uchar *rows)
{
    whole_tile(acc, w, tile, W_TILES(a->n), a->k, x_at(rows, a->k));
}

#else

/* Independent chains of sums: with few tokens, one chain would wait for each multiplication to end. */
enum { CHAINS = NT == 1 ? 8 : NT == 2 ? 4 : 2 };

INLINED void tile_sums(float16 acc[NT], global const ELEM(W_TYPE) *w, const panel_args *a, uint tile,
                       X_SPACE const uchar *rows)
{
    X_SPACE const float *x = (X_SPACE const float *)rows;
    float16 s[CHAINS][NT];
    uint k = 0;
    w += (size_t)tile * PANEL_ROWS * a->k;
#  pragma unroll
    for (int c = 0; c < CHAINS; c++)
#  pragma unroll
        for (int t = 0; t < NT; t++)
            s[c][t] = 0;
    for (; k + CHAINS <= a->k; k += CHAINS) {
#  if PREFETCH
        global const uchar *ahead = (global const uchar *)(w + k * PANEL_ROWS) + FETCH_AHEAD;
#    pragma unroll
        for (uint i = 0; i < CHAINS * PANEL_ROWS * sizeof *w; i += LINE_BYTES)
            FETCH(ahead + i);
#  endif
#  pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            const float16 v = LOAD16(W_TYPE, w, (k + c) * PANEL_ROWS);
#  pragma unroll
            for (int t = 0; t < NT; t++)
                s[c][t] = fma(v, (float16)x[t * a->k + k + c], s[c][t]);
        }
    }
    for (; k < a->k; k++) {
        const float16 v = LOAD16(W_TYPE, w, k * PANEL_ROWS);
#  pragma unroll
        for (int t = 0; t < NT; t++)
            s[0][t] = fma(v, (float16)x[t * a->k + k], s[0][t]);
    }
#  pragma unroll
    for (int t = 0; t < NT; t++) {
        acc[t] = s[0][t];
#  pragma unroll
        for (int c = 1; c < CHAINS; c++)
            acc[t] += s[c][t];
    }
}

#endif

STAGE_KERNEL void panel_cpu_gemv(STAGE_GROUP const panel_gemv_args a, global float *out,
                                 global const float *x, global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS,
                                 global const norm_weight_elem *norm_weight,
                                 global const norm_bias_elem *norm_bias)
{
    STAGE_LOCAL int16 rows[NT * ROW_BYTES / 64];
    const uint first = group_id(0) * a.span, tiles = (a.p.n + PANEL_ROWS - 1) / PANEL_ROWS,
               last = min(first + a.span, tiles);
    for (uint t = 0; t < NT; t++) {
        const normed_row r = row_at(&a.rows, min(t, a.p.m - 1), x, norm_weight, norm_bias);
        prepare_row(&a.rows, &r, (ROWS_SPACE uchar *)rows, t, NT, 0);
    }
    for (uint tile = first; tile < last; tile++) {
        float16 acc[NT];
#if GATED
        float16 gate[NT];
        tile_sums(gate, w, &a.p, 2 * tile, (X_SPACE const uchar *)rows);
        tile_sums(acc, w, &a.p, 2 * tile + 1, (X_SPACE const uchar *)rows);
#else
        tile_sums(acc, w, &a.p, tile, (X_SPACE const uchar *)rows);
#endif
#pragma unroll
        for (uint t = 0; t < NT; t++)
            if (t < a.p.m)
#if GATED
                finish_gated(&a.p, out, PANEL_OUT, t, tile * PANEL_ROWS, gate[t], acc[t]);
#else
                finish(&a.p, out, PANEL_OUT, t, tile * PANEL_ROWS, acc[t]);
#endif
    }
}
