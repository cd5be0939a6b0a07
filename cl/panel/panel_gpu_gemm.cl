/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r] on GPUs, for many rows of x and a weight in
 * panels (cl/panel/panel.h). A group multiplies TILES tiles of w, of 16 rows each, by 16 TOKENS rows of x. It
 * holds 32 columns of both in local memory at a time, with w decoded.
 * Launch: {blocks of 16 TOKENS rows of x, sets of TILES tiles of w} groups of 256 work-items. Work-item (r,
 * t) computes row r of each tile for the tokens t, 16 + t, ..
 *   -D TILES      4 or 8
 *   -D TOKENS     with QUANTISE 2 even
 *   -D FOURS      as in panel_gpu_gemm_places.h
 *   -D W_TYPE     dtype of w
 *   -D QUANTISE   1: x is in 8 bits (panel_gpu_activations.cl), w in blocks; 2: x is in half precision,
 *                 and so are the sums of 16 products
 *   -D INT_DOT    as in dot.h; used with QUANTISE 1
 *   and those of panel_gpu_epilogue.h */
#define WG 256
#include "args.h"
#include "dot.h"
#include "group.h"
#include "weights.h"
#include "panel_gpu_epilogue.h"

#if !defined(TILES) || !defined(TOKENS) || !defined(W_TYPE) || !defined(QUANTISE)
#  error "panel_gpu_gemm.cl needs TILES, TOKENS, W_TYPE, QUANTISE and INT_DOT"
#endif

#define ALIGNED_16 __attribute__((aligned(16))) /* local memory that is read by loads of 16 bytes */

enum { W_ROWS = TILES * PANEL_ROWS, X_ROWS = TOKENS * 16 };

#if IS_BLOCKS(W_TYPE)
#  include "panel_gpu_codes.h"
#  define SCALES (1 + HALF_SCALES)
#endif

#include "panel_gpu_gemm_places.h"
#if QUANTISE == 1
#  include "panel_gpu_gemm_bytes.h"
#elif QUANTISE == 2
#  include "panel_gpu_gemm_halves.h"
#else
#  include "panel_gpu_gemm_floats.h"
#endif

GROUP_KERNEL
void panel_gpu_gemm(const panel_args a, global float *out, global const uchar *x,
                    global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
#if QUANTISE == 1
    local uint w_words[8 * W_ROWS] ALIGNED_16, x_words[8 * X_APART] ALIGNED_16;
    local float scale[SCALES * W_ROWS] ALIGNED_16, base[SCALES * W_ROWS] ALIGNED_16, d[X_APART] ALIGNED_16,
        sums[SCALES * X_APART] ALIGNED_16;
    const step_data s = {w_words, x_words, scale, base, d, sums};
#elif QUANTISE == 2
    local half w_halves[32 * W_ROWS];
    local half2 x_halves[32 * X_ROWS / 2];
    local float scale[SCALES * W_ROWS], base[SCALES * W_ROWS], d[X_ROWS], sums[SCALES * X_ROWS];
    const step_data s = {w_halves, x_halves, scale, base, d, sums};
#else
    local float w_floats[32 * W_ROWS] ALIGNED_16, x_floats[32 * X_APART] ALIGNED_16;
    const step_data s = {w_floats, x_floats};
#endif
    const uint item = get_local_id(0), row = item % PANEL_ROWS, t = item / PANEL_ROWS;
    const uint token = get_group_id(0) * X_ROWS, tile = get_group_id(1) * TILES, steps = (a.k + 31) / 32;
    float acc[TILES][TOKENS];
#pragma unroll
    for (uint i = 0; i < TILES; i++)
#pragma unroll
        for (uint j = 0; j < TOKENS; j++)
            acc[i][j] = 0;
    for (uint b = 0; b < steps; b++) {
        load_step(&s, w, &a, x, tile, token, b, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(&s, acc, row, t);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint i = 0; i < TILES; i += 1 + GATED) {
        const uint at = (tile + i) / (1 + GATED) * PANEL_ROWS + row;
#pragma unroll
        for (uint j = 0; j < TOKENS; j++)
            if (at < a.n && token + j * 16 + t < a.m)
                finish(&a, out, PANEL_OUT, token + j * 16 + t, at, acc[i][j], acc[i + GATED][j]);
    }
}
