/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], where x is quantised
 * (panel_cpu_activations.h) and w is a panel of a block format (cl/panel/panel.h). A group computes a.blocks
 * of the a.pairs blocks of NT tokens (those beyond the last row are dropped) and 16 rows of the result. A
 * token's sums do not depend on NT.
 * Launch: {blocks of tokens / a.blocks, tiles of the result}, one work-item a group; consecutive groups share
 * tiles of w. With STRIPS, a.blocks NT <= STRIP_TOKENS; otherwise a.blocks is 1.
 *   -D NT         tokens of a block
 *   -D W_TYPE     dtype of w
 *   -D BIAS_TYPE  dtype of bias, where there is one
 *   -D ACT        index in PANEL_ACTS; with swiglu, two tiles of w give one tile of the result
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
/* 1: registers are few and small, and tokens enough (panel_cpu_strip.h) */
#define STRIPS ((DOT == 2 || DOT == 3) && NT >= STRIP_LEAST)
#if STRIPS
#  include "panel_cpu_strip.h"
#endif
#include "panel_cpu_epilogue.h"

#if STRIPS

enum { MATRICES = GATED ? 2 : 1 };

STAGE_KERNEL void panel_cpu_gemm_int8(STAGE_GROUP const panel_args a, global float *out,
                                      global const uchar *x, global const uchar *w, PANEL_OUT_BUFS)
{
    const uint tile = group_id(1), first = group_id(0) * a.blocks, n = min(a.blocks, a.pairs - first);
    const uint token = a.first + first * NT;
    float8 acc[MATRICES][STRIP_TOKENS * 2];
#  pragma unroll 1
    for (uint i = 0; i < MATRICES; i++)
        strip_sums(acc[i], w, MATRICES * tile + i, W_TILES(a.n),
                   x + a.x + (size_t)token * TOKEN_BYTES(a.k, WORDS), a.k, n);
    for (uint t = 0; t < n * NT && token + t < a.m; t++) {
        const float16 sums = (float16)(acc[0][2 * t], acc[0][2 * t + 1]);
#  if GATED
        finish_gated(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, sums,
                     (float16)(acc[1][2 * t], acc[1][2 * t + 1]));
#  else
        finish(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, sums);
#  endif
    }
}

#else

STAGE_KERNEL void panel_cpu_gemm_int8(STAGE_GROUP const panel_args a, global float *out,
                                      global const uchar *x, global const uchar *w, PANEL_OUT_BUFS)
{
    const uint tile = group_id(1), tiles = W_TILES(a.n), token = a.first + group_id(0) * NT;
    const x_ptrs xs = x_at(x + a.x + (size_t)token * TOKEN_BYTES(a.k, 0), a.k);
    float16 acc[NT];
#  if GATED
    float16 gate[NT];
    whole_tile(gate, w, 2 * tile, tiles, a.k, xs);
    whole_tile(acc, w, 2 * tile + 1, tiles, a.k, xs);
#  else
    whole_tile(acc, w, tile, tiles, a.k, xs);
#  endif
#  pragma unroll
    for (int t = 0; t < NT; t++)
        if (token + t < a.m)
#  if GATED
            finish_gated(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, gate[t], acc[t]);
#  else
            finish(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, acc[t]);
#  endif
}

#endif
