/* Prepares rows of x for f32 products, packed as tile.h describes. With a norm, a row is normalised
 * (panel_cpu_activations.h). The last block is filled up with copies of the last row. Launch: {blocks of NT
 * rows} work-groups of one work-item.
 *   -D NT, VECTORS, DEPTH  as in tile.h
 *   -D NORM, NORM_WEIGHT_TYPE, NORM_BIAS_TYPE  as in panel_cpu_activations.h */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#define ROWS_SPACE global
#define QUANTISE 0
#include "panel_cpu_activations.h"
#include "tile.h"

STAGE_KERNEL void panel_cpu_activations_f32(STAGE_GROUP const rows_args a, global float *out,
                                            global const float *x, global const norm_weight_elem *weight,
                                            global const norm_bias_elem *bias)
{
    const uint block = group_id(0), blocks = (a.m + NT - 1) / NT;
    global const float *from[NT];
    float mean[NT], scale[NT];
    normed_row r;
    for (uint t = 0; t < NT; t++) {
        r = row_at(&a, min(block * NT + t, a.m - 1), x, weight, bias);
        from[t] = r.x;
        mean[t] = r.mean;
        scale[t] = r.scale;
    }
    for (uint k0 = 0; k0 < a.k; k0 += DEPTH) {
        const uint end = min(k0 + DEPTH, a.k);
        global float *to = out + packed_at(blocks, block, k0, end - k0);
        uint k = k0;
        for (; k + 16 <= end; k += 16) {
            float16 v[LANES];
#pragma unroll
            for (uint t = 0; t < LANES; t++) {
                v[t] = 0;
                if (t < NT) {
                    r.x = from[t];
                    r.mean = mean[t];
                    r.scale = scale[t];
                    v[t] = normed16(&r, k);
                }
            }
            transpose(v, LANES);
#pragma unroll
            for (uint i = 0; i < LANES; i++)
                vstore16(v[i], i, to);
            to += 16 * LANES;
        }
        for (; k < end; k++) {
            for (uint t = 0; t < NT; t++) {
                r.x = from[t];
                r.mean = mean[t];
                r.scale = scale[t];
                to[t] = normed1(&r, k);
            }
            to += LANES;
        }
    }
}
