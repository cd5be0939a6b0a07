/* A step of expert_tiles.cl in floats: loads STEP elements of k to local memory and multiplies them.
 * ALIGNED is as in expert_sixteens.h. */
#ifndef CLEF_CL_EXPERT_EXPERT_STEP_FLOATS_H
#define CLEF_CL_EXPERT_EXPERT_STEP_FLOATS_H

#include "expert_sixteens.h"

typedef float x_elem;
typedef struct step_data {
    local float4 *w, *x; /* element k of all columns and of all rows is adjacent */
} step_data;

#define STEP_DATA(name)                                                                                      \
    local float4 w_floats[STEP * COLUMNS / 4], x_floats[STEP * X_STRIDE / 4];                                \
    const step_data name = {w_floats, x_floats}

/* Elements at .. at + 3 of x, which are k .. k + 3 of a row of n; 0 beyond n. */
static inline float4 load_x4(global const float *x, size_t at, uint k, uint n)
{
    if (k + 4 <= n) {
#if ALIGNED
        return *(global const float4 *)(x + at);
#else
        return vload4(0, x + at);
#endif
    }
    return (float4)(k < n ? x[at] : 0.0f, k + 1 < n ? x[at + 1] : 0.0f, k + 2 < n ? x[at + 2] : 0.0f, 0.0f);
}

/* Elements at .. at + 15 of W, which are k .. of a row of n, k a multiple of 16; 0 beyond n. */
static inline float16 load_w16(global const ELEM(W_TYPE) *w, size_t at, uint k, uint n)
{
#if !IS_BLOCKS(W_TYPE)
    if (k + 16 > n) {
        float v[16];
        for (uint i = 0; i < 16; i++)
            v[i] = k + i < n ? LOAD(W_TYPE, w, at + i) : 0.0f;
        return vload16(0, v);
    }
#endif
    return load_whole16(w, at);
}

/* Columns from `first` on, of the matrix at w0, from element k0 of k on. What is beyond n is some column
 * again. */
static inline void load_w(const step_data *s, const expert_args *a, global const ELEM(W_TYPE) *w, size_t w0,
                          uint first, uint k0)
{
    local float *to = (local float *)s->w;
#if TRANSPOSED
    for (uint i = get_local_id(0); i < STEP / 16 * COLUMNS; i += WG) {
        const uint column = i % COLUMNS, part = i / COLUMNS * 16;
        const size_t at = w0 + (size_t)min(first + column, a->n - 1) * a->k + k0 + part;
        float v[16];
        vstore16(load_w16(w, at, k0 + part, a->k), 0, v);
#  pragma unroll
        for (uint j = 0; j < 16; j++)
            to[(part + j) * COLUMNS + column] = v[j];
    }
#else
    for (uint i = get_local_id(0); i < STEP * COLUMNS; i += WG) {
        const uint k = k0 + i / COLUMNS, column = min(first + i % COLUMNS, a->n - 1);
        to[i] = k < a->k ? LOAD(W_TYPE, w, w0 + (size_t)k * a->n + column) : 0.0f;
    }
#endif
}

/* The rows whose numbers in x are given: two for each item, and that of row `item` of the tile. */
static inline void load_x(const step_data *s, const expert_tiles_args *p, global const float *x,
                          const uint rows[2], uint own_row, uint k0)
{
    const uint k = get_local_id(0) % 8 * 4;
#pragma unroll
    for (uint i = 0; i < 2; i++) {
        const float4 v = load_x4(x, p->a.x + (size_t)rows[i] * p->a.k + k0 + k, k0 + k, p->a.k);
        local float *to = (local float *)s->x + k * X_STRIDE + get_local_id(0) / 8 + i * (ROWS / 2);
        to[0] = v.x;
        to[X_STRIDE] = v.y;
        to[2 * X_STRIDE] = v.z;
        to[3 * X_STRIDE] = v.w;
    }
}

static inline void multiply_step(const step_data *s, float4 sum[4][2], uint c, uint t)
{
#pragma unroll 4
    for (uint k = 0; k < STEP; k++) {
        const float4 v = s->x[k * (X_STRIDE / 4) + t];
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            const float4 w = s->w[k * (COLUMNS / 4) + 16 * i + c];
            sum[0][i] = fma(w, (float4)v.x, sum[0][i]);
            sum[1][i] = fma(w, (float4)v.y, sum[1][i]);
            sum[2][i] = fma(w, (float4)v.z, sum[2][i]);
            sum[3][i] = fma(w, (float4)v.w, sum[3][i]);
        }
    }
}

#endif
