/* A step of panel_matrix.cl in bytes: what a group takes to local memory, and its products. A row has 8 words of four bytes, and lies
 * STRIDE words behind the one before, so that the items of a unit meet no bank twice. */
#ifndef CLEF_CL_PANEL_MATRIX_BYTES_H
#define CLEF_CL_PANEL_MATRIX_BYTES_H

#include "panel_lane.h"

enum { STRIDE = 12, SCALES = 1 + HALF_SCALES };

typedef struct step_data {
    local uint *w, *x;
    local float *scale, *base; /* of 16 columns (HALF_SCALES) or 32 of each row of w */
    local float *d, *sums;     /* of the tokens: scale, and what a base counts: scale times the sum of the quants */
    matrix_scratch scratch;
} step_data;

/* Four codes less their offset: no byte borrows from the next. */
static inline uint less_offset(uint codes)
{
#if HAS_OFFSET
    return ((codes | 0x80808080u) - 0x01010101u * OFFSET) ^ 0x80808080u;
#else
    return codes;
#endif
}

static inline void load_step(const step_data *s, global const uchar *w, const panel_args *a, global const uchar *x, uint tile, uint token,
                             uint b, uint item)
{
    const uint blocks = a->k / 32, tiles = W_TILES(a->n);
    global const uint *quants = (global const uint *)x;
    global const float *d = (global const float *)(x + (size_t)a->m * a->k);
    for (uint i = item; i < W_ROWS * 4; i += WG) {
        const uint g = i / PANEL_ROWS % 4, of = i / (PANEL_ROWS * 4), row = of * PANEL_ROWS + i % PANEL_ROWS;
        const lane_ptrs p = lane_at(w, min(tile + of, tiles - 1), tiles, blocks, i % PANEL_ROWS);
        const uint2 v = lane_codes(&p, b, g);
        s->w[row * STRIDE + g] = less_offset(v.x);
        s->w[row * STRIDE + g + 4] = less_offset(v.y);
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
    for (uint i = item; i < X_ROWS * 8; i += WG)
        s->x[i / 8 * STRIDE + i % 8] = quants[(size_t)min(token + i / 8, a->m - 1) * (a->k / 4) + b * 8 + i % 8];
    for (uint i = item; i < X_ROWS; i += WG) {
        const size_t at = (size_t)min(token + i, a->m - 1) * blocks + b;
        s->d[i] = d[at];
#if HAS_MINIMA
        const int2 pair = vload2(at, (global const int *)(x + (size_t)a->m * (a->k + blocks * 4)));
        s->sums[i] = d[at] * (float)(pair.x + pair.y);
#endif
    }
}

static inline void multiply_step(const step_data *s, matrix_floats acc[ROW_PARTS][TOKEN_PARTS], uint row, uint t, uint lane)
{
    matrix_x x[TOKEN_PARTS];
    matrix_floats d[TOKEN_PARTS];
#pragma unroll
    for (uint j = 0; j < TOKEN_PARTS; j++) {
        x[j] = matrix_load_x(s->x + (t + j * MATRIX_TOKENS) * STRIDE, STRIDE, lane);
        d[j] = matrix_of_tokens(s->d + t + j * MATRIX_TOKENS, lane);
    }
#pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++) {
        const matrix_w w = matrix_load_w(s->w + (row + i * MATRIX_ROWS) * STRIDE, STRIDE, lane);
#pragma unroll
        for (uint part = 0; part < SCALES; part++) {
            const matrix_floats scale = matrix_of_rows(s->scale + part * W_ROWS + row + i * MATRIX_ROWS, lane);
#pragma unroll
            for (uint j = 0; j < TOKEN_PARTS; j++) {
#if HALF_SCALES
                const matrix_ints sums = matrix_half_bytes(w, x[j], part, s->scratch);
#else
                const matrix_ints sums = matrix_bytes(w, x[j], s->scratch);
#endif
                acc[i][j] = fma(MATRIX_TO_FLOATS(sums) * d[j], scale, acc[i][j]);
            }
        }
#if HAS_MINIMA
        const matrix_floats base = matrix_of_rows(s->base + row + i * MATRIX_ROWS, lane);
#  pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            acc[i][j] = fma(base, matrix_of_tokens(s->sums + t + j * MATRIX_TOKENS, lane), acc[i][j]);
#endif
    }
}

/* Scales are in the sums. */
static inline float token_scale(const panel_args *a, global const uchar *x, uint token) { return 1.0f; }

#endif
