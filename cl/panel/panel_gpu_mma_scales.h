/* For panel_gpu_gemm_mma.cl: reads the scales of w for a unit's ROW_PARTS parts.
 *   scales_at(p, rows, w, args, part, lane)  p: where a work-item reads its share; rows: those of w_at()
 *   scales_fetch(s, p, b)                    reads its share, of block b of 32 columns
 *   scales_share(out, s)                     the scales that the work-item needs, of the unit's shares */
#ifndef CLEF_CL_PANEL_GPU_MMA_SCALES_H
#define CLEF_CL_PANEL_GPU_MMA_SCALES_H

#include "panel_gpu_mma_fragments.h"

/* Four work-items of NVIDIA's unit have words of the same four rows of two parts. Each reads the scales of
 * one of them. */
#if MATRIX == 1 && !MATRIX_PLAIN && IS_BLOCKS(W_TYPE) && UNIT_ROWS == 32
typedef lane_ptrs scale_rows;

typedef struct scale_share {
    float2 scale, base;
} scale_share;

static inline void scales_at(scale_rows *p, const w_rows *rows, global const ELEM(W_TYPE) *w,
                             const panel_args *a, uint part, uint lane)
{
    lane_at(p, (global const uchar *)w, min(part + lane % 4 / 2, W_TILES(a->n) - 1), W_TILES(a->n), a->k / 32,
            lane_row(0, lane) + lane % 2);
}

static inline void scales_fetch(scale_share *s, const scale_rows *p, uint b)
{
    scales_of_row(p, b, &s->scale, &s->base);
}

static inline float2 share_of(float2 v, uint i)
{
    const float x = matrix_of_four(v.x, i);
    return (float2)(x, HALF_SCALES ? matrix_of_four(v.y, i) : x);
}

static inline void scales_share(w_scales out[ROW_PARTS], const scale_share *s)
{
#  pragma unroll
    for (uint i = 0; i < 4; i++) {
        out[i / 2].scale[i % 2] = share_of(s->scale, i);
        out[i / 2].base[i % 2] = QUANTISE == 4 || HAS_MINIMA ? share_of(s->base, i) : (float2)0;
    }
}
#else
typedef struct scale_rows {
    const w_rows *of;
} scale_rows;

typedef struct scale_share {
    w_scales of[ROW_PARTS];
} scale_share;

static inline void scales_at(scale_rows *p, const w_rows *rows, global const ELEM(W_TYPE) *w,
                             const panel_args *a, uint part, uint lane)
{
    p->of = rows;
}

static inline void scales_fetch(scale_share *s, const scale_rows *p, uint b)
{
#  pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++)
        w_fetch_scales(&s->of[i], &p->of[i], b);
}

static inline void scales_share(w_scales out[ROW_PARTS], const scale_share *s)
{
#  pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++)
        out[i] = s->of[i];
}
#endif

#endif
