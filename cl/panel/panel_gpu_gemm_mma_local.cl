/* As panel_gpu_gemm_mma.cl, for a weight in halves or bf16, on units of few registers: w goes through local
 * memory, too, which holds 32 columns of w and of x at a time. So each number of w is read once a group, not
 * once for each of its units. Rows in local memory are STRIDE words apart, so that the work-items of a unit
 * have no bank conflicts.
 * Launch: {blocks of 16 TOKENS rows of x, sets of TILES tiles of w} groups of MATRIX_LANES (TILES / 2) (16
 * TOKENS / UNIT_TOKENS) work-items.
 *   -D TILES        even
 *   -D TOKENS       16 TOKENS is a multiple of UNIT_TOKENS, and SLICED of panel_gpu_activations.cl
 *   -D UNIT_ROWS    32
 *   -D UNIT_TOKENS  a multiple of MATRIX_TOKENS
 *   -D STEP         1
 *   -D W_TYPE       dtype of w
 *   -D QUANTISE     how panel_gpu_activations.cl made x: 3 in halves; 4 in bf16
 *   and those of matrix.h and panel_gpu_epilogue.h */
#include "panel_gpu_mma_tiles.h"
#if !defined(W_TYPE) || !defined(QUANTISE) || UNIT_ROWS != 32
#  error "panel_gpu_gemm_mma_local.cl needs W_TYPE and QUANTISE, and UNIT_ROWS 32"
#endif

enum { STRIDE = 20 };

/* rows: of x, a multiple of X_ROWS. */
UNIT_INLINED void load_step(local uint *w_words, local uint *x_words, global const ushort *columns,
                             global const uint *slices, const panel_args *a, uint rows, uint tile, uint token,
                             uint b, uint item)
{
    const uint tiles = W_TILES(a->n);
    for (uint i = item; i < W_ROWS * 16; i += WG) {
        const uint pair = i / PANEL_ROWS % 16, of = i / (PANEL_ROWS * 16), row = i % PANEL_ROWS;
        const size_t at = ((size_t)min(tile + of, tiles - 1) * a->k + b * 32 + pair * 2) * PANEL_ROWS + row;
        w_words[(of * PANEL_ROWS + row) * STRIDE + pair] = columns[at] | (uint)columns[at + PANEL_ROWS] << 16;
    }
    for (uint i = item; i < X_ROWS * 16; i += WG) {
        const uint slice = i / (X_ROWS * 8), row = i / 8 % X_ROWS, word = i % 8;
        x_words[row * STRIDE + slice * 8 + word] =
            slices[((size_t)(b * 2 + slice) * rows + token + row) * 8 + word];
    }
}

UNIT_INLINED void multiply_step(matrix_floats acc[ROW_PARTS][TOKEN_PARTS], local const uint *w_words,
                                local const uint *x_words, uint row, uint t, uint lane,
                                matrix_scratch scratch)
{
#pragma unroll
    for (uint part = 0; part < 2; part++) { /* 16 columns each */
        matrix_x x[TOKEN_PARTS];
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            x[j] = matrix_load_x(x_words + (t + j * MATRIX_TOKENS) * STRIDE + part * 8, STRIDE, lane);
#pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++) {
            const matrix_w w =
                matrix_load_w(w_words + (row + i * MATRIX_ROWS) * STRIDE + part * 8, STRIDE, lane);
#pragma unroll
            for (uint j = 0; j < TOKEN_PARTS; j++)
#if QUANTISE == 3
                acc[i][j] = matrix_halves(w, x[j], acc[i][j], scratch);
#else
                acc[i][j] = matrix_bf16(w, x[j], acc[i][j], scratch);
#endif
        }
    }
}

GROUP_KERNEL
void panel_gpu_gemm_mma_local(const panel_args a, global float *out, global const uchar *x,
                              global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
    local uint w_words[STRIDE * W_ROWS], x_words[STRIDE * X_ROWS];
    MATRIX_SCRATCH(scratch, WG);
    const uint item = get_local_id(0), lane = matrix_lane(), unit = matrix_unit();
    const uint row = unit % (W_ROWS / UNIT_ROWS) * UNIT_ROWS,
               t = unit / (W_ROWS / UNIT_ROWS) * UNIT_TOKENS; /* the first row and token of the unit */
    const uint token = get_group_id(0) * X_ROWS, tile = get_group_id(1) * TILES, steps = a.k / 32,
               rows = (a.m + X_ROWS - 1) / X_ROWS * X_ROWS;
    global const float *scales = (global const float *)(x + (size_t)rows * a.k * 2); /* of the tokens */
    matrix_floats acc[ROW_PARTS][TOKEN_PARTS];
#pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++)
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            acc[i][j] = 0;
    for (uint b = 0; b < steps; b++) {
        load_step(w_words, x_words, (global const ushort *)w, (global const uint *)x, &a, rows, tile, token,
                  b, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(acc, w_words, x_words, row, t, lane, scratch);
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
                if (at < a.n && of < a.m)
                    finish(&a, out, PANEL_OUT, of, at, v[e] * scales[of], gated[e] * scales[of]);
            }
        }
}
