/* A step of panel_gpu_gemm.cl with 8-bit tokens: loads 32 columns to local memory and multiplies them, four
 * bytes at a time. */
#ifndef CLEF_CL_PANEL_GPU_GEMM_BYTES_H
#define CLEF_CL_PANEL_GPU_GEMM_BYTES_H

/* The 32 columns of a step, as words of four codes or quants; word g is a column of panel_gpu_gemm_places.h.
 * A column of the scales of w is one of its SCALES parts. */
typedef struct step_data {
    local uint *w, *x;
    local float *scale, *base; /* of 16 columns (HALF_SCALES) or 32 of each row of w */
    local float *d,
        *sums; /* of the tokens: scale d, and d times the sum of the quants (the factor of base) */
} step_data;

static inline void load_step(const step_data *s, global const uchar *w, const panel_args *a,
                             global const uchar *x, uint tile, uint token, uint b, uint item)
{
    const uint blocks = a->k / 32, tiles = W_TILES(a->n), row = item % PANEL_ROWS, g = item / PANEL_ROWS % 4;
    global const uint *quants = (global const uint *)x;
    global const float *d = (global const float *)(x + (size_t)a->m * a->k);
    global const int *sums = (global const int *)(x + (size_t)a->m * (a->k + blocks * 4));
    EACH_OWN_TILE(i, item)
    {
        lane_ptrs p;
        lane_at(&p, w, min(tile + i, tiles - 1), tiles, blocks, row);
        const uint2 v = lane_codes(&p, b, g);
        s->w[w_place(g, i, row)] = v.x;
        s->w[w_place(g + 4, i, row)] = v.y;
        if (g == 0) {
            float2 scale, base;
            lane_scales(&p, b, &scale, &base);
            s->scale[w_place(0, i, row)] = scale.x;
            s->base[w_place(0, i, row)] = base.x;
            if (HALF_SCALES) {
                s->scale[w_place(1, i, row)] = scale.y;
                s->base[w_place(1, i, row)] = base.y;
            }
        }
    }
    for (uint i = item; i < X_ROWS * 8; i += WG)
        s->x[x_place(i % 8, i / 8)] =
            quants[(size_t)min(token + i / 8, a->m - 1) * (a->k / 4) + b * 8 + i % 8];
    for (uint i = item; i < X_ROWS; i += WG) {
        const size_t at = (size_t)min(token + i, a->m - 1) * blocks + b;
        const int2 pair = vload2(at, sums);
        s->d[x_place(0, i)] = d[at];
        s->sums[x_place(0, i)] = d[at] * (float)(HALF_SCALES ? pair.x : pair.x + pair.y);
        if (HALF_SCALES)
            s->sums[x_place(1, i)] = d[at] * (float)pair.y;
    }
}

static inline void multiply_step(const step_data *s, float acc[TILES][TOKENS], uint row, uint t)
{
#pragma unroll
    for (uint part = 0; part < SCALES; part++) {
        int sum[TILES][TOKENS];
#pragma unroll
        for (uint i = 0; i < TILES; i++)
#pragma unroll
            for (uint j = 0; j < TOKENS; j++)
                sum[i][j] = 0;
#pragma unroll
        for (uint g = part * 4; g < part * 4 + 8 / SCALES; g++) {
            uint w[TILES], x[TOKENS];
            LOAD_W(uint, w, s->w, g, row)
            LOAD_X(uint, x, s->x, g, t)
#pragma unroll
            for (uint i = 0; i < TILES; i++)
#pragma unroll
                for (uint j = 0; j < TOKENS; j++)
                    sum[i][j] = dot4s(sum[i][j], w[i], x[j]);
        }
#if FOURS
        float d[TOKENS], sums[TOKENS];
        LOAD_X(float, d, s->d, 0, t)
        if (HAS_BASE)
            LOAD_X(float, sums, s->sums, part, t)
#pragma unroll
        for (uint i = 0; i < TILES; i += 4) {
            float scale[4], base[4];
            LOAD_FOUR(float, scale, s->scale, part, i, row)
            if (HAS_BASE)
                LOAD_FOUR(float, base, s->base, part, i, row)
#pragma unroll
            for (uint n = 0; n < 4; n++)
#pragma unroll
                for (uint j = 0; j < TOKENS; j++) {
                    acc[i + n][j] = fma((float)sum[i + n][j] * d[j], scale[n], acc[i + n][j]);
                    if (HAS_BASE)
                        acc[i + n][j] = fma(base[n], sums[j], acc[i + n][j]);
                }
        }
#else
#  pragma unroll
        for (uint i = 0; i < TILES; i++) {
            const float scale = s->scale[w_place(part, i, row)], base = s->base[w_place(part, i, row)];
#  pragma unroll
            for (uint j = 0; j < TOKENS; j++) {
                acc[i][j] = fma((float)sum[i][j] * s->d[j * 16 + t], scale, acc[i][j]);
                if (HAS_BASE)
                    acc[i][j] = fma(base, s->sums[x_place(part, j * 16 + t)], acc[i][j]);
            }
        }
#endif
    }
}

#endif
