/* A step of panel_gpu_gemm.cl with tokens in f32: loads 32 columns to local memory and multiplies them. */
#ifndef CLEF_CL_PANEL_TILE_FLOATS_H
#define CLEF_CL_PANEL_TILE_FLOATS_H

typedef struct step_data {
    local float *w, *x; /* as panel_gpu_gemm_places.h places columns */
} step_data;

/* Loads 32 columns from 32 b on. Columns beyond the last are zeros. */
static inline void load_step(const step_data *s, global const ELEM(W_TYPE) *w, const panel_args *a,
                             global const uchar *x, uint tile, uint token, uint b, uint item)
{
    const uint tiles = W_TILES(a->n), row = item % PANEL_ROWS;
    global const float *floats = (global const float *)x + a->x;
#if IS_BLOCKS(W_TYPE)
    const uint g = item / PANEL_ROWS % 4;
    EACH_OWN_TILE(i, item)
    {
        lane_ptrs p;
        lane_at(&p, w, min(tile + i, tiles - 1), tiles, a->k / 32, row);
        const uint2 v = lane_codes(&p, b, g);
        float2 scale, base;
        lane_scales(&p, b, &scale, &base);
        const float4 first = fma(convert_float4(as_char4(v.x)), (float4)scale.x, (float4)base.x);
        const float4 second = fma(convert_float4(as_char4(v.y)), (float4)scale.y, (float4)base.y);
        local float *to = s->w + w_place(g * 4, i, row);
        to[0] = first.x;
        to[W_ROWS] = first.y;
        to[2 * W_ROWS] = first.z;
        to[3 * W_ROWS] = first.w;
        to += 16 * W_ROWS;
        to[0] = second.x;
        to[W_ROWS] = second.y;
        to[2 * W_ROWS] = second.z;
        to[3 * W_ROWS] = second.w;
    }
#else
    for (uint i = item / PANEL_ROWS; i < TILES * 32; i += WG / PANEL_ROWS) {
        const uint k = b * 32 + i % 32;
        const size_t at = ((size_t)min(tile + i / 32, tiles - 1) * a->k + k) * PANEL_ROWS + row;
        s->w[w_place(i % 32, i / 32, row)] = k < a->k ? LOAD(W_TYPE, w, at) : 0.0f;
    }
#endif
    for (uint i = item; i < X_ROWS * 32; i += WG) {
        const uint k = b * 32 + i % 32;
        s->x[x_place(i % 32, i / 32)] =
            k < a->k ? floats[min(token + i / 32, a->m - 1) * (size_t)a->x_stride + k] : 0.0f;
    }
}

static inline void multiply_step(const step_data *s, float acc[TILES][TOKENS], uint row, uint t)
{
    for (uint k = 0; k < 32; k++) {
        float w[TILES], x[TOKENS];
        LOAD_W(float, w, s->w, k, row)
        LOAD_X(float, x, s->x, k, t)
#pragma unroll
        for (uint i = 0; i < TILES; i++)
#pragma unroll
            for (uint j = 0; j < TOKENS; j++)
                acc[i][j] = fma(w[i], x[j], acc[i][j]);
    }
}

#endif
