/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r] on GPUs, for many rows of x and a weight in panels (cl/panel.h). A group
 * has TILES tiles of w, 16 rows each, and 16 TOKENS rows of x; 32 columns of both lie in local memory at a time, w decoded.
 * Launch: {blocks of 16 TOKENS rows of x, sets of TILES tiles of w} groups of 256 items; item (r, t) has row r of each tile and the tokens
 * t, 16 + t, ..
 *   -D TILES      2 or more, even
 *   -D TOKENS     with QUANTISE 2 even
 *   -D W_TYPE     dtype of w
 *   -D QUANTISE   1: x is in 8 bits (panel_lane_rows.cl), w in blocks; 2: x is in half precision, and so are the sums of 16 products
 *   -D INT_DOT    as in dot.h; counts with QUANTISE
 *   and those of panel_lane_out.h */
#define WG 256
#include "args.h"
#include "dot.h"
#include "group.h"
#include "weights.h"
#include "panel_lane_out.h"

#if !defined(TILES) || !defined(TOKENS) || !defined(W_TYPE) || !defined(QUANTISE)
#  error "panel_tile.cl needs TILES, TOKENS, W_TYPE, QUANTISE and INT_DOT"
#endif

enum { W_ROWS = TILES * PANEL_ROWS, X_ROWS = TOKENS * 16 };

#if IS_BLOCKS(W_TYPE)
#  include "panel_lane.h"
#  define SCALES (1 + HALF_SCALES)
#endif

#if QUANTISE == 1

/* 32 columns of a step: words of four codes or quants, word g of all rows behind one another. */
typedef struct step_data {
    local uint *w, *x;
    local float *scale, *base; /* of 16 columns (HALF_SCALES) or 32 of each row of w */
    local float *d, *sums;     /* of the tokens: scale, and what a base counts: scale times the sum of the quants */
} step_data;

static inline void load_step(const step_data *s, global const uchar *w, const panel_args *a, global const uchar *x, uint tile, uint token,
                             uint b, uint item)
{
    const uint blocks = a->k / 32, tiles = W_TILES(a->n), row = item % PANEL_ROWS, g = item / PANEL_ROWS % 4;
    global const uint *quants = (global const uint *)x;
    global const float *d = (global const float *)(x + (size_t)a->m * a->k);
    global const int *sums = (global const int *)(x + (size_t)a->m * (a->k + blocks * 4));
    for (uint i = item / (PANEL_ROWS * 4); i < TILES; i += WG / (PANEL_ROWS * 4)) {
        const lane_ptrs p = lane_at(w, min(tile + i, tiles - 1), tiles, blocks, row);
        const uint2 v = lane_codes(&p, b, g);
        s->w[g * W_ROWS + i * PANEL_ROWS + row] = v.x;
        s->w[(g + 4) * W_ROWS + i * PANEL_ROWS + row] = v.y;
        if (g == 0) {
            float2 scale, base;
            lane_scales(&p, b, &scale, &base);
            s->scale[i * PANEL_ROWS + row] = scale.x;
            s->base[i * PANEL_ROWS + row] = base.x;
            if (HALF_SCALES) {
                s->scale[W_ROWS + i * PANEL_ROWS + row] = scale.y;
                s->base[W_ROWS + i * PANEL_ROWS + row] = base.y;
            }
        }
    }
    for (uint i = item; i < X_ROWS * 8; i += WG)
        s->x[i % 8 * X_ROWS + i / 8] = quants[(size_t)min(token + i / 8, a->m - 1) * (a->k / 4) + b * 8 + i % 8];
    for (uint i = item; i < X_ROWS; i += WG) {
        const size_t at = (size_t)min(token + i, a->m - 1) * blocks + b;
        const int2 pair = vload2(at, sums);
        s->d[i] = d[at];
        s->sums[i] = d[at] * (float)(HALF_SCALES ? pair.x : pair.x + pair.y);
        if (HALF_SCALES)
            s->sums[X_ROWS + i] = d[at] * (float)pair.y;
    }
}

static inline void multiply_step(const step_data *s, float acc[TILES][TOKENS], uint row, uint t)
{
#  pragma unroll
    for (uint part = 0; part < SCALES; part++) {
        int sum[TILES][TOKENS];
#  pragma unroll
        for (uint i = 0; i < TILES; i++)
#  pragma unroll
            for (uint j = 0; j < TOKENS; j++)
                sum[i][j] = 0;
#  pragma unroll
        for (uint g = part * 4; g < part * 4 + 8 / SCALES; g++) {
            uint w[TILES], x[TOKENS];
#  pragma unroll
            for (uint i = 0; i < TILES; i++)
                w[i] = s->w[g * W_ROWS + i * PANEL_ROWS + row];
#  pragma unroll
            for (uint j = 0; j < TOKENS; j++)
                x[j] = s->x[g * X_ROWS + j * 16 + t];
#  pragma unroll
            for (uint i = 0; i < TILES; i++)
#  pragma unroll
                for (uint j = 0; j < TOKENS; j++)
                    sum[i][j] = dot4s(sum[i][j], w[i], x[j]);
        }
#  pragma unroll
        for (uint i = 0; i < TILES; i++) {
            const float scale = s->scale[part * W_ROWS + i * PANEL_ROWS + row], base = s->base[part * W_ROWS + i * PANEL_ROWS + row];
#  pragma unroll
            for (uint j = 0; j < TOKENS; j++) {
                acc[i][j] = fma((float)sum[i][j] * s->d[j * 16 + t], scale, acc[i][j]);
                if (HAS_BASE)
                    acc[i][j] = fma(base, s->sums[part * X_ROWS + j * 16 + t], acc[i][j]);
            }
        }
    }
}

#elif QUANTISE == 2

#  pragma OPENCL EXTENSION cl_khr_fp16 : enable

/* 32 columns of a step: column k of all rows behind one another. Tokens lie in pairs: (j, t) has 32 j + t and 32 j + 16 + t. */
typedef struct step_data {
    local half *w;
    local half2 *x;
    local float *scale, *base, *d, *sums; /* as with 8 bits */
} step_data;

/* Codes with an offset or minima have no sign: taken less their middle, so that sums in halves stay small. */
enum { PAIRS = TOKENS / 2, MIDDLE = HAS_BASE ? (MOST + 1) / 2 : 0 };

static inline void load_step(const step_data *s, global const uchar *w, const panel_args *a, global const uchar *x, uint tile, uint token,
                             uint b, uint item)
{
    const uint blocks = a->k / 32, tiles = W_TILES(a->n), row = item % PANEL_ROWS, g = item / PANEL_ROWS % 4;
    global const half *halves = (global const half *)x;
    global const float *d = (global const float *)(x + (size_t)a->m * a->k * 2);
    global const float *sums = (global const float *)(x + (size_t)a->m * (a->k * 2 + blocks * 4));
    for (uint i = item / (PANEL_ROWS * 4); i < TILES; i += WG / (PANEL_ROWS * 4)) {
        const lane_ptrs p = lane_at(w, min(tile + i, tiles - 1), tiles, blocks, row);
        const uint2 v = lane_codes(&p, b, g);
        const half4 first = convert_half4(as_char4(v.x) - (char)MIDDLE), second = convert_half4(as_char4(v.y) - (char)MIDDLE);
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
#  pragma unroll
    for (uint part = 0; part < 2; part++) { /* 16 columns each: more in one sum would round too much */
        const uint of = HALF_SCALES ? part : 0;
        half2 sum[TILES][PAIRS];
#  pragma unroll
        for (uint i = 0; i < TILES; i++)
#  pragma unroll
            for (uint j = 0; j < PAIRS; j++)
                sum[i][j] = (half2)(0);
        for (uint k = part * 16; k < part * 16 + 16; k++) {
            half w[TILES];
            half2 x[PAIRS];
#  pragma unroll
            for (uint i = 0; i < TILES; i++)
                w[i] = s->w[k * W_ROWS + i * PANEL_ROWS + row];
#  pragma unroll
            for (uint j = 0; j < PAIRS; j++)
                x[j] = s->x[k * (X_ROWS / 2) + j * 16 + t];
#  pragma unroll
            for (uint i = 0; i < TILES; i++)
#  pragma unroll
                for (uint j = 0; j < PAIRS; j++)
                    sum[i][j] = fma((half2)(w[i]), x[j], sum[i][j]);
        }
#  pragma unroll
        for (uint i = 0; i < TILES; i++) {
            const float scale = s->scale[of * W_ROWS + i * PANEL_ROWS + row], base = s->base[of * W_ROWS + i * PANEL_ROWS + row];
#  pragma unroll
            for (uint j = 0; j < TOKENS; j++) {
                const float found = (float)(j % 2 ? sum[i][j / 2].y : sum[i][j / 2].x);
                acc[i][j] = fma(found * s->d[j * 16 + t], scale, acc[i][j]);
                if (HAS_BASE && (HALF_SCALES || part == 0))
                    acc[i][j] = fma(base, s->sums[of * X_ROWS + j * 16 + t], acc[i][j]);
            }
        }
    }
}

#else

typedef struct step_data {
    local float *w, *x; /* column k of all rows behind one another */
} step_data;

/* 32 columns from 32 b on; those behind the last are zeros. */
static inline void load_step(const step_data *s, global const ELEM(W_TYPE) *w, const panel_args *a, global const uchar *x, uint tile,
                             uint token, uint b, uint item)
{
    const uint tiles = W_TILES(a->n), row = item % PANEL_ROWS;
    global const float *floats = (global const float *)x + a->x;
#  if IS_BLOCKS(W_TYPE)
    const uint g = item / PANEL_ROWS % 4;
    for (uint i = item / (PANEL_ROWS * 4); i < TILES; i += WG / (PANEL_ROWS * 4)) {
        const lane_ptrs p = lane_at(w, min(tile + i, tiles - 1), tiles, a->k / 32, row);
        const uint2 v = lane_codes(&p, b, g);
        float2 scale, base;
        lane_scales(&p, b, &scale, &base);
        const float4 first = fma(convert_float4(as_char4(v.x)), (float4)scale.x, (float4)base.x);
        const float4 second = fma(convert_float4(as_char4(v.y)), (float4)scale.y, (float4)base.y);
        local float *to = s->w + g * 4 * W_ROWS + i * PANEL_ROWS + row;
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
#  else
    for (uint i = item / PANEL_ROWS; i < TILES * 32; i += WG / PANEL_ROWS) {
        const uint k = b * 32 + i % 32;
        const size_t at = ((size_t)min(tile + i / 32, tiles - 1) * a->k + k) * PANEL_ROWS + row;
        s->w[i % 32 * W_ROWS + i / 32 * PANEL_ROWS + row] = k < a->k ? LOAD(W_TYPE, w, at) : 0.0f;
    }
#  endif
    for (uint i = item; i < X_ROWS * 32; i += WG) {
        const uint k = b * 32 + i % 32;
        s->x[i % 32 * X_ROWS + i / 32] = k < a->k ? floats[min(token + i / 32, a->m - 1) * (size_t)a->x_stride + k] : 0.0f;
    }
}

static inline void multiply_step(const step_data *s, float acc[TILES][TOKENS], uint row, uint t)
{
    for (uint k = 0; k < 32; k++) {
        float w[TILES], x[TOKENS];
#  pragma unroll
        for (uint i = 0; i < TILES; i++)
            w[i] = s->w[k * W_ROWS + i * PANEL_ROWS + row];
#  pragma unroll
        for (uint j = 0; j < TOKENS; j++)
            x[j] = s->x[k * X_ROWS + j * 16 + t];
#  pragma unroll
        for (uint i = 0; i < TILES; i++)
#  pragma unroll
            for (uint j = 0; j < TOKENS; j++)
                acc[i][j] = fma(w[i], x[j], acc[i][j]);
    }
}

#endif

GROUP_KERNEL
void panel_tile(const panel_args a, global float *out, global const uchar *x, global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
#if QUANTISE == 1
    local uint w_words[8 * W_ROWS], x_words[8 * X_ROWS];
    local float scale[SCALES * W_ROWS], base[SCALES * W_ROWS], d[X_ROWS], sums[SCALES * X_ROWS];
    const step_data s = {w_words, x_words, scale, base, d, sums};
#elif QUANTISE == 2
    local half w_halves[32 * W_ROWS];
    local half2 x_halves[32 * X_ROWS / 2];
    local float scale[SCALES * W_ROWS], base[SCALES * W_ROWS], d[X_ROWS], sums[SCALES * X_ROWS];
    const step_data s = {w_halves, x_halves, scale, base, d, sums};
#else
    local float w_floats[32 * W_ROWS], x_floats[32 * X_ROWS];
    const step_data s = {w_floats, x_floats};
#endif
    const uint item = get_local_id(0), row = item % PANEL_ROWS, t = item / PANEL_ROWS;
    const uint token = get_group_id(0) * X_ROWS, tile = get_group_id(1) * TILES, steps = (a.k + 31) / 32;
    float acc[TILES][TOKENS];
#pragma unroll
    for (uint i = 0; i < TILES; i++)
#pragma unroll
        for (uint j = 0; j < TOKENS; j++)
            acc[i][j] = 0;
    for (uint b = 0; b < steps; b++) {
        load_step(&s, w, &a, x, tile, token, b, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(&s, acc, row, t);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint i = 0; i < TILES; i += 1 + GATED) {
        const uint at = (tile + i) / (1 + GATED) * PANEL_ROWS + row;
#pragma unroll
        for (uint j = 0; j < TOKENS; j++)
            if (at < a.n && token + j * 16 + t < a.m)
                finish(&a, out, PANEL_OUT, token + j * 16 + t, at, acc[i][j], acc[i + GATED][j]);
    }
}
