/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], where x is quantised
 * (panel_cpu_activations.h) and w is a panel of a block format (cl/panel/panel.h). A group computes NT tokens
 * (those beyond the last row are dropped) and 16 rows of the result. A token's sums do not depend on NT.
 * Launch: {blocks of NT tokens, tiles of the result}, one work-item a group; consecutive groups share tiles
 * of w.
 *   -D NT         tokens a group
 *   -D W_TYPE     dtype of w
 *   -D BIAS_TYPE  dtype of bias, DTYPE_NONE without
 *   -D ACT        index in PANEL_ACTS; with swiglu, two tiles of w give one tile of the result
 *   -D RESIDUAL   1: there is one to add
 *   -D DOT        as in panel.h
 *   -D STREAMS    1: w is prefetched, since few tokens share what is read (default: 0) */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#if !defined(NT) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(DOT)
#  error "panel_cpu_gemm_int8.cl needs NT, W_TYPE, BIAS_TYPE and DOT"
#endif
#define ANY_NT_ALIKE 1
#include "panel_products.h"
#include "panel_cpu_epilogue.h"

/* Computes the products of a tile of w with NT tokens. */
INLINED void tile_sums(float16 acc[NT], global const uchar *w, uint tile, uint tiles, uint blocks, x_ptrs x)
{
    tile_ptrs p = tile_at(w, tile, tiles, blocks);
#pragma unroll
    for (int t = 0; t < NT; t++)
        acc[t] = 0;
    for (uint b = 0; b < blocks; b += STEP_BLOCKS)
        tile_step(acc, &p, &x);
}

STAGE_KERNEL void panel_cpu_gemm_int8(STAGE_GROUP const panel_args a, global float *out,
                                      global const uchar *x, global const uchar *w, PANEL_OUT_BUFS)
{
    const uint tile = group_id(1), blocks = a.k / 32, tiles = W_TILES(a.n);
    const uint token = a.first + group_id(0) * NT;
    const x_ptrs xs = x_at(x + a.x + (size_t)token * (a.k / 8 * 11), a.k);
    float16 acc[NT];
#if GATED
    float16 gate[NT];
    tile_sums(gate, w, 2 * tile, tiles, blocks, xs);
    tile_sums(acc, w, 2 * tile + 1, tiles, blocks, xs);
#else
    tile_sums(acc, w, tile, tiles, blocks, xs);
#endif
#pragma unroll
    for (int t = 0; t < NT; t++)
        if (token + t < a.m)
#if GATED
            finish_gated(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, gate[t], acc[t]);
#else
            finish(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, acc[t]);
#endif
}
