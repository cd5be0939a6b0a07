/* A step of panel_gpu_gemm_mma.cl with w in a block format: loads 32 columns to local memory and multiplies
 * them. Local memory holds x and the codes less their offset, as bytes (QUANTISE 1) or halves (2). A row has
 * 8 or 16 words. Rows are STRIDE words apart, so that the work-items of a unit have no bank conflicts. */
#ifndef CLEF_CL_PANEL_MATRIX_BLOCKS_H
#define CLEF_CL_PANEL_MATRIX_BLOCKS_H

#include "panel_gpu_codes.h"

/* PARTS: products for a block, each with its own scale. PART_WORDS: words from one part to the next. */
#if QUANTISE == 1
enum { WORDS = 8, PARTS = 1 + HALF_SCALES, PART_WORDS = 0 };
#else
enum { WORDS = 16, PARTS = 2, PART_WORDS = 8 };
#endif
enum { STRIDE = WORDS + 4, SCALES = 1 + HALF_SCALES };

typedef struct step_data {
    local uint *w, *x;
    local float *scale, *base; /* of 16 columns (HALF_SCALES) or 32 of each row of w */
    local float *d, *sums;     /* of the tokens: scale, and sum of x (the factor of base) */
    matrix_scratch scratch;
} step_data;

/* Stores four codes, group i of a row, less their offset. No byte borrows from the next. */
static inline void store_codes(local uint *row, uint i, uint codes)
{
#if HAS_OFFSET
    codes = ((codes | 0x80808080u) - 0x01010101u * OFFSET) ^ 0x80808080u;
#endif
#if QUANTISE == 1
    row[i] = codes;
#else
    vstore_half4(convert_float4(as_char4(codes)), i, (local half *)row);
#endif
}

static inline void load_step(const step_data *s, global const uchar *w, const panel_args *a,
                             global const uchar *x, uint tile, uint token, uint b, uint item)
{
    const uint blocks = a->k / 32, tiles = W_TILES(a->n), row_words = blocks * WORDS;
    global const uint *words = (global const uint *)x;
    global const float *d = (global const float *)(words + (size_t)a->m * row_words);
    for (uint i = item; i < W_ROWS * 4; i += WG) {
        const uint g = i / PANEL_ROWS % 4, of = i / (PANEL_ROWS * 4), row = of * PANEL_ROWS + i % PANEL_ROWS;
        const lane_ptrs p = lane_at(w, min(tile + of, tiles - 1), tiles, blocks, i % PANEL_ROWS);
        const uint2 v = lane_codes(&p, b, g);
        store_codes(s->w + row * STRIDE, g, v.x);
        store_codes(s->w + row * STRIDE, g + 4, v.y);
        if (g == 0) {
            float2 scale, base;
            lane_scales(&p, b, &scale, &base);
            s->scale[row] = scale.x;
            if (HALF_SCALES)
                s->scale[W_ROWS + row] = scale.y;
            if (HAS_MINIMA)
                s->base[row] = base.x;
        }
    }
    for (uint i = item; i < X_ROWS * WORDS; i += WG)
        s->x[i / WORDS * STRIDE + i % WORDS] =
            words[(size_t)min(token + i / WORDS, a->m - 1) * row_words + b * WORDS + i % WORDS];
    for (uint i = item; i < X_ROWS; i += WG) {
        const size_t at = (size_t)min(token + i, a->m - 1) * blocks + b;
        s->d[i] = d[at];
#if HAS_MINIMA && QUANTISE == 1
        const int2 pair = vload2(at, (global const int *)(d + (size_t)a->m * blocks));
        s->sums[i] = d[at] * (float)(pair.x + pair.y);
#elif HAS_MINIMA
        const float2 pair = vload2(at, d + (size_t)a->m * blocks);
        s->sums[i] = pair.x + pair.y;
#endif
    }
}

static inline matrix_floats multiply_part(matrix_w w, matrix_x x, uint part, matrix_scratch scratch)
{
#if QUANTISE == 2
    return matrix_halves(w, x, (matrix_floats)0, scratch);
#elif HALF_SCALES
    return MATRIX_TO_FLOATS(matrix_half_bytes(w, x, part, scratch));
#else
    return MATRIX_TO_FLOATS(matrix_bytes(w, x, scratch));
#endif
}

static inline void multiply_step(const step_data *s, matrix_floats acc[ROW_PARTS][TOKEN_PARTS], uint row,
                                 uint t, uint lane)
{
    matrix_floats d[TOKEN_PARTS];
#pragma unroll
    for (uint j = 0; j < TOKEN_PARTS; j++)
        d[j] = matrix_of_tokens(s->d + t + j * MATRIX_TOKENS, lane);
#pragma unroll
    for (uint part = 0; part < PARTS; part++) {
        matrix_x x[TOKEN_PARTS];
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            x[j] = matrix_load_x(s->x + (t + j * MATRIX_TOKENS) * STRIDE + part * PART_WORDS, STRIDE, lane);
#pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++) {
            const uint at = row + i * MATRIX_ROWS;
            const matrix_w w = matrix_load_w(s->w + at * STRIDE + part * PART_WORDS, STRIDE, lane);
            const matrix_floats scale =
                matrix_of_rows(s->scale + (HALF_SCALES ? part * W_ROWS : 0) + at, lane);
#pragma unroll
            for (uint j = 0; j < TOKEN_PARTS; j++)
                acc[i][j] = fma(multiply_part(w, x[j], part, s->scratch) * d[j], scale, acc[i][j]);
        }
    }
#if HAS_MINIMA
#  pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++) {
        const matrix_floats base = matrix_of_rows(s->base + row + i * MATRIX_ROWS, lane);
#  pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            acc[i][j] = fma(base, matrix_of_tokens(s->sums + t + j * MATRIX_TOKENS, lane), acc[i][j]);
    }
#endif
}

/* The sums contain the tokens' scales already. */
static inline float token_scale(const panel_args *a, global const uchar *x, uint token) { return 1.0f; }

#endif
