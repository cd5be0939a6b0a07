/* A step of panel_gpu_gemm.cl with tokens in halves: loads 32 columns to local memory and multiplies them. */
#ifndef CLEF_CL_PANEL_TILE_HALVES_H
#define CLEF_CL_PANEL_TILE_HALVES_H

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

/* The 32 columns of a step. Column k of all rows is adjacent. Tokens are stored in pairs: pair (j, t) holds
 * tokens 32 j + t and 32 j + 16 + t. */
typedef struct step_data {
    local half *w;
    local half2 *x;
    local float *scale, *base, *d, *sums; /* as in panel_gpu_gemm_bytes.h; sums are of x itself */
} step_data;

/* Codes with an offset or minima are unsigned. Their middle is subtracted, so that sums in halves stay
 * small. */
enum { PAIRS = TOKENS / 2, MIDDLE = HAS_BASE && CODE_VECTORS < 8 ? (MOST + 1) / 2 : 0 };

static inline void load_step(const step_data *s, global const uchar *w, const panel_args *a,
                             global const uchar *x, uint tile, uint token, uint b, uint item)
{
    const uint blocks = a->k / 32, tiles = W_TILES(a->n), row = item % PANEL_ROWS, g = item / PANEL_ROWS % 4;
    global const half *halves = (global const half *)x;
    global const float *d = (global const float *)(x + (size_t)a->m * a->k * 2);
    global const float *sums = (global const float *)(x + (size_t)a->m * (a->k * 2 + blocks * 4));
    for (uint i = item / (PANEL_ROWS * 4); i < TILES; i += WG / (PANEL_ROWS * 4)) {
        lane_ptrs p;
        lane_at(&p, w, min(tile + i, tiles - 1), tiles, blocks, row);
        const uint2 v = lane_codes(&p, b, g);
        const half4 first = convert_half4(as_char4(v.x) - (char)MIDDLE),
                    second = convert_half4(as_char4(v.y) - (char)MIDDLE);
        local half *to = s->w + g * 4 * W_ROWS + i * PANEL_ROWS + row;
        to[0] = first.x;
        to[W_ROWS] = first.y;
        to[2 * W_ROWS] = first.z;
        to[3 * W_ROWS] = first.w;
        to += 16 * W_ROWS;
        to[0] = second.x;
        to[W_ROWS] = second.y;
        to[2 * W_ROWS] = second.z;
        to[3 * W_ROWS] = second.w;
        if (g == 0) {
            float2 scale, base;
            lane_scales(&p, b, &scale, &base);
            s->scale[i * PANEL_ROWS + row] = scale.x;
            s->base[i * PANEL_ROWS + row] = fma((float)MIDDLE, scale.x, base.x);
            if (HALF_SCALES) {
                s->scale[W_ROWS + i * PANEL_ROWS + row] = scale.y;
                s->base[W_ROWS + i * PANEL_ROWS + row] = fma((float)MIDDLE, scale.y, base.y);
            }
        }
    }
    for (uint i = item; i < X_ROWS / 2 * 32; i += WG) {
        const uint k = i % 32, pair = i / 32, first = token + pair / 16 * 32 + pair % 16;
        const half one = halves[(size_t)min(first, a->m - 1) * a->k + b * 32 + k];
        const half other = halves[(size_t)min(first + 16, a->m - 1) * a->k + b * 32 + k];
        s->x[k * (X_ROWS / 2) + pair] = (half2)(one, other);
    }
    for (uint i = item; i < X_ROWS; i += WG) {
        const size_t at = (size_t)min(token + i, a->m - 1) * blocks + b;
        const float2 pair = vload2(at, sums);
        s->d[i] = d[at];
        s->sums[i] = HALF_SCALES ? pair.x : pair.x + pair.y;
        if (HALF_SCALES)
            s->sums[X_ROWS + i] = pair.y;
    }
}

static inline void multiply_step(const step_data *s, float acc[TILES][TOKENS], uint row, uint t)
{
#pragma unroll
    for (uint part = 0; part < 2; part++) { /* 16 columns each: a longer sum would lose too much to
                                               rounding */
        const uint of = HALF_SCALES ? part : 0;
        half2 sum[TILES][PAIRS];
#pragma unroll
        for (uint i = 0; i < TILES; i++)
#pragma unroll
            for (uint j = 0; j < PAIRS; j++)
                sum[i][j] = (half2)(0);
        for (uint k = part * 16; k < part * 16 + 16; k++) {
            half w[TILES];
            half2 x[PAIRS];
#pragma unroll
            for (uint i = 0; i < TILES; i++)
                w[i] = s->w[k * W_ROWS + i * PANEL_ROWS + row];
#pragma unroll
            for (uint j = 0; j < PAIRS; j++)
                x[j] = s->x[k * (X_ROWS / 2) + j * 16 + t];
#pragma unroll
            for (uint i = 0; i < TILES; i++)
#pragma unroll
                for (uint j = 0; j < PAIRS; j++)
                    sum[i][j] = fma((half2)(w[i]), x[j], sum[i][j]);
        }
#pragma unroll
        for (uint i = 0; i < TILES; i++) {
            const float scale = s->scale[of * W_ROWS + i * PANEL_ROWS + row],
                        base = s->base[of * W_ROWS + i * PANEL_ROWS + row];
#pragma unroll
            for (uint j = 0; j < TOKENS; j++) {
                const float found = (float)(j % 2 ? sum[i][j / 2].y : sum[i][j / 2].x);
                acc[i][j] = fma(found * s->d[j * 16 + t], scale, acc[i][j]);
                if (HAS_BASE && (HALF_SCALES || part == 0))
                    acc[i][j] = fma(base, s->sums[of * X_ROWS + j * 16 + t], acc[i][j]);
            }
        }
    }
}

#endif
