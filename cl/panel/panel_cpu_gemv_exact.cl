/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], where x is in f32 and w is a panel of a
 * block format (cl/panel/panel.h). Weights are decoded as they are read. A group computes NT tokens and two
 * tiles of 16 rows. Launch: {blocks of NT tokens, pairs of tiles}, one work-item a group; consecutive groups
 * share tiles of w.
 *   -D NT         tokens a group
 *   -D W_TYPE     dtype of w
 *   -D BIAS_TYPE  dtype of bias, where there is one
 *   -D ACT        index in PANEL_ACTS; with swiglu, the two tiles give one tile of the result
 *   -D DOT        as in panel.h */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#if !defined(NT) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(DOT)
#  error "panel_cpu_gemv_exact.cl needs NT, W_TYPE, BIAS_TYPE and DOT"
#endif
#include "panel_cpu_codes.h"
#include "panel_cpu_epilogue.h"

STAGE_KERNEL void panel_cpu_gemv_exact(STAGE_GROUP const panel_args a, global float *out,
                                       global const float *x, global const uchar *w, PANEL_OUT_BUFS)
{
    const uint blocks = a.k / 32, tiles = W_TILES(a.n);
    float16 gate[NT];
    const uint token = a.first + group_id(0) * NT;
    x += a.x + (size_t)token * a.x_stride;
    for (uint tile = group_id(1) * 2; tile < group_id(1) * 2 + 2; tile++) {
        tile_ptrs p = tile_at(w, tile, tiles, blocks);
        float16 acc[NT];
#pragma unroll
        for (int t = 0; t < NT; t++)
            acc[t] = 0;
        for (uint first = 0; first < blocks; first += STEP_BLOCKS) {
            for (uint b = 0; b < STEP_BLOCKS; b++) {
                global const float *from = x + (first + b) * 32;
                int16 v[8];
                float16 scale[2], more, sum[NT];
                block_codes(&p, b, v);
                block_scales(&p, b, scale, &more);
#pragma unroll
                for (int t = 0; t < NT; t++)
                    sum[t] = 0;
#pragma unroll
                for (uint k = 0; k < 32; k++) {
                    const float16 column = column_floats(v, k, scale, more);
#pragma unroll
                    for (int t = 0; t < NT; t++)
                        sum[t] = fma(column, (float16)from[t * a.x_stride + k], sum[t]);
                }
#pragma unroll
                for (int t = 0; t < NT; t++)
                    acc[t] += sum[t];
            }
            next_step(&p);
        }
#pragma unroll
        for (int t = 0; t < NT; t++) {
#if GATED
            if (tile % 2 == 0)
                gate[t] = acc[t];
            else
                finish_gated(&a, out, PANEL_OUT, token + t, tile / 2 * PANEL_ROWS, gate[t], acc[t]);
#else
            if (tile * PANEL_ROWS < a.n)
                finish(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, acc[t]);
#endif
        }
    }
}
