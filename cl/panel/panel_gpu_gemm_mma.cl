/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r] on GPUs with units that multiply matrices
 * (matrix.h), for many rows of x and a weight in panels (cl/panel/panel.h). A group multiplies TILES tiles of
 * w, of 16 rows each, by 16 TOKENS rows of x. It holds 32 columns of both in local memory at a time. Each
 * unit of the group computes 32 rows for UNIT_TOKENS tokens.
 * Launch: {blocks of 16 TOKENS rows of x, sets of TILES tiles of w} groups of MATRIX_LANES (TILES / 2) (16
 * TOKENS / UNIT_TOKENS) work-items.
 *   -D TILES        even
 *   -D TOKENS       16 TOKENS a multiple of UNIT_TOKENS
 *   -D UNIT_TOKENS  a multiple of MATRIX_TOKENS
 *   -D W_TYPE       dtype of w
 *   -D QUANTISE     how panel_gpu_activations.cl made x: 1 in 8 bits, w in blocks; 2 in halves, w in
 *                   blocks; 3 in halves, w too; 4 in bf16, w too
 *   and those of matrix.h and panel_gpu_epilogue.h */
#include "matrix.h"
#if !defined(TILES) || !defined(TOKENS) || !defined(UNIT_TOKENS) || !defined(W_TYPE) || !defined(QUANTISE)
#  error "panel_gpu_gemm_mma.cl needs TILES, TOKENS, UNIT_TOKENS, W_TYPE and QUANTISE"
#endif
#define UNIT_ROWS 32
#define WG        (MATRIX_LANES * (TILES * 16 / UNIT_ROWS) * (TOKENS * 16 / UNIT_TOKENS))
#include "args.h"
#include "group.h"
#include "weights.h"
#include "panel_gpu_epilogue.h"

/* A unit has ROW_PARTS x TOKEN_PARTS fragments of sums. */
enum {
    W_ROWS = TILES * PANEL_ROWS,
    X_ROWS = TOKENS * 16,
    ROW_PARTS = UNIT_ROWS / MATRIX_ROWS,
    TOKEN_PARTS = UNIT_TOKENS / MATRIX_TOKENS
};

#if QUANTISE <= 2
#  include "panel_gpu_gemm_mma_blocks.h"
#else
#  include "panel_gpu_gemm_mma_halves.h"
#endif

GROUP_KERNEL
void panel_gpu_gemm_mma(const panel_args a, global float *out, global const uchar *x,
                        global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
    local uint w_words[STRIDE * W_ROWS], x_words[STRIDE * X_ROWS];
    MATRIX_SCRATCH(scratch, WG);
#if QUANTISE <= 2
    local float scale[SCALES * W_ROWS], base[HAS_MINIMA ? W_ROWS : 1], d[X_ROWS],
        sums[HAS_MINIMA ? X_ROWS : 1];
    const step_data s = {w_words, x_words, scale, base, d, sums, scratch};
#else
    const step_data s = {w_words, x_words, scratch};
#endif
    const uint item = get_local_id(0), lane = matrix_lane(), unit = matrix_unit();
    const uint row = unit % (W_ROWS / UNIT_ROWS) * UNIT_ROWS,
               t = unit / (W_ROWS / UNIT_ROWS) * UNIT_TOKENS; /* the first row and token of the unit */
    const uint token = get_group_id(0) * X_ROWS, tile = get_group_id(1) * TILES, steps = a.k / 32;
    matrix_floats acc[ROW_PARTS][TOKEN_PARTS];
#pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++)
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            acc[i][j] = 0;
    for (uint b = 0; b < steps; b++) {
        load_step(&s, (global const uchar *)w, &a, x, tile, token, b, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(&s, acc, row, t, lane);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const uint first = (tile * PANEL_ROWS + row) / (1 + GATED);
#pragma unroll
    for (uint i = 0; i < ROW_PARTS / (1 + GATED); i++)
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++) {
            float v[MATRIX_SUMS], gated[MATRIX_SUMS];
            MATRIX_STORE(acc[i][j], 0, v);
            MATRIX_STORE(acc[i + GATED * ROW_PARTS / 2][j], 0, gated);
#pragma unroll
            for (uint e = 0; e < MATRIX_SUMS; e++) {
                const uint at = first + i * MATRIX_ROWS + matrix_row(e, lane),
                           of = token + t + j * MATRIX_TOKENS + matrix_token(e, lane);
                if (at < a.n && of < a.m) {
                    const float factor = token_scale(&a, x, of);
                    finish(&a, out, PANEL_OUT, of, at, v[e] * factor, gated[e] * factor);
                }
            }
        }
}
