/* As panel_gpu_gemm_mma.cl, on units of few registers: w goes through local memory, too, which holds 32
 * columns of w and of x at a time, and the next 32. So each number of w is read once a group, and a weight in
 * blocks is decoded once a group, not once for each of its units.
 * Launch: {blocks of 16 TOKENS rows of x, sets of TILES tiles of w} groups of MATRIX_LANES (TILES / 2) (16
 * TOKENS / UNIT_TOKENS) work-items.
 *   -D TILES        even
 *   -D TOKENS       16 TOKENS is a multiple of UNIT_TOKENS, and SLICED of panel_gpu_activations.cl
 *   -D UNIT_ROWS    32
 *   -D UNIT_TOKENS  8, 16 or 32
 *   -D W_TYPE       dtype of w
 *   -D QUANTISE     how panel_gpu_activations.cl made x: 3 in halves, w too; 4 in bf16, w too or in blocks
 *   and those of matrix.h (MATRIX 3) and panel_gpu_epilogue.h */
#define PARTS 1
#include "panel_gpu_mma_tiles.h"
#if !defined(W_TYPE) || !defined(QUANTISE) || UNIT_ROWS != 32 || UNIT_TOKENS > 32
#  error "panel_gpu_gemm_mma_local.cl needs W_TYPE and QUANTISE, UNIT_ROWS 32 and UNIT_TOKENS up to 32"
#endif
#include "panel_gpu_mma_copy.h"

/* f(i, j) for each part of the rows of a unit and each of its tokens, of which it has TOKEN_PARTS. Intel's
 * compiler keeps an array in registers where its indices are constants before loops are unrolled. */
#define EACH_TOKEN_PART(f, i) f(i, 0) f(i, 1) f(i, 2) f(i, 3)
#define EACH_PART(f) EACH_TOKEN_PART(f, 0) EACH_TOKEN_PART(f, 1) EACH_TOKEN_PART(f, 2) EACH_TOKEN_PART(f, 3)

UNIT_INLINED matrix_floats multiply(matrix_w w, matrix_x x, matrix_floats sums, matrix_scratch scratch)
{
#if QUANTISE == 3
    return matrix_halves(w, x, sums, scratch);
#else
    return matrix_bf16(w, x, sums, scratch);
#endif
}

UNIT_INLINED void multiply_step(matrix_floats acc[4][4], local const uint *w_words, local const uint *x_words,
                                uint row, uint t, uint lane, matrix_scratch scratch)
{
#pragma unroll
    for (uint part = 0; part < 2; part++) { /* 16 columns each */
        local const uint *w_at = w_words + (part * (W_FRAGMENTS / 2) + row / 8) * FRAGMENT,
                         *x_at = x_words + (part * (X_FRAGMENTS / 2) + t / 8) * FRAGMENT;
        matrix_x x[4];
        matrix_w w;
#define LOAD_X(i, j)     \
    if (j < TOKEN_PARTS) \
        x[j] = fragment_load(x_at + j * FRAGMENT, lane);
#define MULTIPLY(i, j)   \
    if (j < TOKEN_PARTS) \
        acc[i][j] = multiply(w, x[j], acc[i][j], scratch);
#define MULTIPLY_ROW(i)                           \
    w = fragment_load(w_at + i * FRAGMENT, lane); \
    EACH_TOKEN_PART(MULTIPLY, i)
        EACH_TOKEN_PART(LOAD_X, 0)
        MULTIPLY_ROW(0)
        MULTIPLY_ROW(1)
        MULTIPLY_ROW(2)
        MULTIPLY_ROW(3)
    }
}

#define PART_ROW     matrix_row
#define PART_TOKEN   matrix_token
#define TOKEN_SCALES 1
#include "panel_gpu_mma_finish.h"

GROUP_KERNEL
void panel_gpu_gemm_mma_local(const panel_args a, global float *out, global const uchar *x,
                              global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
    local uint w_words[2][W_FRAGMENTS * FRAGMENT] __attribute__((aligned(16))),
        x_words[2][X_FRAGMENTS * FRAGMENT] __attribute__((aligned(16)));
    MATRIX_SCRATCH(scratch, WG);
    const uint lane = matrix_lane(), unit = matrix_unit(), steps = a.k / 32,
               rows = (a.m + X_ROWS - 1) / X_ROWS * X_ROWS;
    const uint row = unit % (W_ROWS / UNIT_ROWS) * UNIT_ROWS,
               t = unit / (W_ROWS / UNIT_ROWS) * UNIT_TOKENS; /* the first row and token of the unit */
    const copy_from from = {.w = (global const uchar *)w,
                            .x = (global const uint *)x,
                            .tile = get_group_id(1) * TILES,
                            .tiles = W_TILES(a.n),
                            .token = get_group_id(0) * X_ROWS,
                            .rows = rows,
                            .k = a.k};
    global const float *scales = (global const float *)(x + (size_t)rows * a.k * 2); /* of the tokens */
    matrix_floats acc[4][4];
    copy next;
#define CLEAR(i, j) acc[i][j] = 0;
    EACH_PART(CLEAR)
    copy_fetch(&next, &from, 0, unit, lane);
    copy_store(&next, w_words[0], x_words[0], unit, lane);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (uint b = 0; b < steps; b++) {
        const uint now = b % 2;
        copy_fetch(&next, &from, min(b + 1, steps - 1), unit, lane);
        multiply_step(acc, w_words[now], x_words[now], row, t, lane, scratch);
        copy_store(&next, w_words[1 - now], x_words[1 - now], unit, lane);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const uint first = (from.tile * PANEL_ROWS + row) / (1 + GATED);
#define FINISH(i, j)                                                                                       \
    if (i < ROW_PARTS / (1 + GATED) && j < TOKEN_PARTS)                                                    \
        finish_part(&a, out, PANEL_OUT, scales, acc[i][j], acc[(i + GATED * ROW_PARTS / 2) % 4][j],        \
                    first + i * MATRIX_ROWS, from.token + t + j * MATRIX_TOKENS, lane);
    EACH_PART(FINISH)
}
