/* A step of expert_tiles.cl in bytes: loads STEP elements of k to local memory, as words of four codes of W
 * and four quants of x, and multiplies them. x is prepared by panel_gpu_activations.cl. */
#ifndef CLEF_CL_EXPERT_EXPERT_STEP_BYTES_H
#define CLEF_CL_EXPERT_EXPERT_STEP_BYTES_H

#include "dot.h"

enum { WORDS = STEP / 4 };

typedef uchar x_elem;
typedef struct step_data {
    local uint4 *w, *x; /* word g of all columns and of all rows is adjacent */
    local float4 *scale, *base; /* of each column, N_CODE_SCALES times */
    local float4 *d, *sums;     /* of each row: its scale, and d times the sum of its quants (for base) */
} step_data;

#define STEP_DATA(name)                                                                                      \
    local uint4 w_words[WORDS * COLUMNS / 4], x_words[WORDS * X_STRIDE / 4];                                 \
    local float4 scales[N_CODE_SCALES * COLUMNS / 4], bases[N_CODE_SCALES * COLUMNS / 4],                    \
        x_scales[ROWS / 4], x_sums[N_CODE_SCALES * ROWS / 4];                                                \
    const step_data name = {w_words, x_words, scales, bases, x_scales, x_sums}

static inline void load_w(const step_data *s, const expert_args *a, global const uchar *w, size_t w0,
                          uint first, uint k0)
{
    for (uint i = get_local_id(0); i < 2 * COLUMNS; i += WG) {
        const uint column = i % COLUMNS, part = i / COLUMNS; /* of 16 elements */
        const size_t at = w0 + (size_t)min(first + column, a->n - 1) * a->k + k0 + part * 16;
        const uint4 v = code_words(w, at);
        local uint *to = (local uint *)s->w + part * 4 * COLUMNS + column;
        to[0] = v.x;
        to[COLUMNS] = v.y;
        to[2 * COLUMNS] = v.z;
        to[3 * COLUMNS] = v.w;
        if (part < N_CODE_SCALES) {
            const float2 scale = code_scale(w, at);
            ((local float *)s->scale)[i] = scale.x;
            ((local float *)s->base)[i] = scale.y;
        }
    }
}

static inline void load_x(const step_data *s, const expert_tiles_args *p, global const uchar *x,
                          const uint rows[2], uint own_row, uint k0)
{
    const uint item = get_local_id(0), k = p->a.k, blocks = k / 32;
    global const uint *quants = (global const uint *)x;
    global const float *d = (global const float *)(x + (size_t)p->m * k);
    global const int *sums = (global const int *)(x + (size_t)p->m * (k + blocks * 4));
#pragma unroll
    for (uint i = 0; i < 2; i++)
        ((local uint *)s->x)[item % 8 * X_STRIDE + item / 8 + i * (ROWS / 2)] =
            quants[(size_t)rows[i] * (k / 4) + k0 / 4 + item % 8];
    if (item < ROWS) {
        const size_t at = (size_t)own_row * blocks + k0 / 32;
        const int2 pair = vload2(at, sums);
        ((local float *)s->d)[item] = d[at];
        ((local float *)s->sums)[item] = d[at] * (float)(N_CODE_SCALES == 2 ? pair.x : pair.x + pair.y);
        if (N_CODE_SCALES == 2)
            ((local float *)s->sums)[ROWS + item] = d[at] * (float)pair.y;
    }
}

#define DOTS(acc, w, v)               \
    acc.x = dot4s(acc.x, (w).x, v); \
    acc.y = dot4s(acc.y, (w).y, v); \
    acc.z = dot4s(acc.z, (w).z, v); \
    acc.w = dot4s(acc.w, (w).w, v)
#define ADD_SCALED(r, field)                                                                   \
    sum[r][i] = fma(convert_float4(found[r][i]) * d.field, scale, sum[r][i]);                \
    if (HAS_BASE)                                                                              \
    sum[r][i] = fma(base, (float4)sums.field, sum[r][i])

static inline void multiply_step(const step_data *s, float4 sum[4][2], uint c, uint t)
{
    const float4 d = s->d[t];
#pragma unroll
    for (uint part = 0; part < N_CODE_SCALES; part++) {
        int4 found[4][2];
#pragma unroll
        for (uint r = 0; r < 4; r++)
            found[r][0] = found[r][1] = 0;
#pragma unroll
        for (uint g = part * 4; g < part * 4 + WORDS / N_CODE_SCALES; g++) {
            const uint4 v = s->x[g * (X_STRIDE / 4) + t];
#pragma unroll
            for (uint i = 0; i < 2; i++) {
                const uint4 w = s->w[g * (COLUMNS / 4) + 16 * i + c];
                DOTS(found[0][i], w, v.x);
                DOTS(found[1][i], w, v.y);
                DOTS(found[2][i], w, v.z);
                DOTS(found[3][i], w, v.w);
            }
        }
        const float4 sums = s->sums[part * (ROWS / 4) + t];
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            const float4 scale = s->scale[part * (COLUMNS / 4) + 16 * i + c],
                         base = s->base[part * (COLUMNS / 4) + 16 * i + c];
            ADD_SCALED(0, x);
            ADD_SCALED(1, y);
            ADD_SCALED(2, z);
            ADD_SCALED(3, w);
        }
    }
}

#endif
