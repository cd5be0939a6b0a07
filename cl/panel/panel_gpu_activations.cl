/* Prepares rows of x [m, k] for products on GPUs. If NORM is set, a row is normalised, with mean and scale as
 * in norm.cl. Launch: one work-group for each row. QUANTISE selects how rows are stored, as arrays one after
 * the other:
 *   0  float [m][K]
 *   1  8 bits in blocks of 32, d = max |x| / 127, q = round(x / d): quants char [m][K / 32][32], scales d
 *      float [m][K / 32], sums of 16 quants int [m][K / 32][2]
 *   2  half precision in blocks of 32, d = the power of two below max |x|: half x / d, d, and sums of 16 of x
 *      as float, in the same order
 *   3  rows of halves with one such d each: half x / d [m][K], d [m]
 *   4  rows of bf16 with one such d each: bf16 x / d [m][K], d [m]
 *
 *   -D WG                work-items a group, a power of two
 *   -D NORM              index in PANEL_NORMS
 *   -D NORM_WEIGHT_TYPE  dtype of the norm's weight, DTYPE_NONE without; NORM_BIAS_TYPE the same for its
 *                        bias
 *   -D QUANTISE          0 to 4; other than 0: k is a multiple of 32
 *   and those of group.h */
#include "args.h"
#include "group.h"
#include "weights.h"

#ifndef QUANTISE
#  error "panel_gpu_activations.cl needs WG, NORM, NORM_WEIGHT_TYPE, NORM_BIAS_TYPE and QUANTISE"
#endif

#include "panel_gpu_rows.h"

#if QUANTISE > 1
/* The bits of the largest float that is a power of two up to `most`. It is clamped so that its inverse is a
 * float, too. */
static uint power_below(float most) { return clamp(as_uint(most) & 0x7f800000u, 0x00800000u, 0x7e000000u); }
#endif

#if QUANTISE == 4
static uint to_bf16(float x)
{
    const uint u = as_uint(x);
    return isnan(x) ? 0x7fc0u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16; /* to the nearest, ties to even */
}
#endif

GROUP_KERNEL
void panel_gpu_activations(const rows_args a, global uchar *out, global const float *x,
                           global const norm_weight_elem *norm_weight, global const norm_bias_elem *norm_bias)
{
    EXACT_ROUNDING
    const uint row = get_group_id(0), lane = get_local_id(0);
    GROUP_SCRATCH(scratch);
    x += row_of(&a, row);
    NORM_OF_ROW(a.k, a.eps, scratch);
#if QUANTISE == 1
    const uint blocks = a.k / 32;
    global float *scales = (global float *)(out + (size_t)a.m * a.k) + (size_t)row * blocks;
    global int *sums = (global int *)(out + (size_t)a.m * (a.k + blocks * 4)) + (size_t)row * blocks * 2;
    out += (size_t)row * a.k;
    for (uint b = lane; b < blocks; b += WG) {
        float v[32], most = 0;
        int sum[2] = {0, 0};
        for (uint i = 0; i < 32; i++) {
            v[i] = NORMED(b * 32 + i);
            most = fmax(most, fabs(v[i]));
        }
        const float d = most > 0 ? divided(most, 127.0f) : 0.0f, inverse = d > 0 ? divided(1.0f, d) : 0.0f;
        for (uint i = 0; i < 32; i += 4) {
            const float4 r = rint((float4)(v[i], v[i + 1], v[i + 2], v[i + 3]) * inverse);
            const int4 q = convert_int4(r);
            sum[i / 16] += (q.x + q.y) + (q.z + q.w);
            ((global uint *)out)[b * 8 + i / 4] = as_uint(convert_char4(q));
        }
        scales[b] = d;
        sums[2 * b] = sum[0];
        sums[2 * b + 1] = sum[1];
    }
#elif QUANTISE == 2
    const uint blocks = a.k / 32;
    global float *scales = (global float *)(out + (size_t)a.m * a.k * 2) + (size_t)row * blocks;
    global float *sums =
        (global float *)(out + (size_t)a.m * (a.k * 2 + blocks * 4)) + (size_t)row * blocks * 2;
    global half *halves = (global half *)out + (size_t)row * a.k;
    for (uint b = lane; b < blocks; b += WG) {
        float v[32], most = 0, sum[2] = {0, 0};
        for (uint i = 0; i < 32; i++) {
            v[i] = NORMED(b * 32 + i);
            most = fmax(most, fabs(v[i]));
            sum[i / 16] += v[i];
        }
        const uint power = power_below(most);
        const float inverse = as_float(0x7f000000u - power);
        for (uint i = 0; i < 32; i += 4)
            vstore_half4_rte((float4)(v[i], v[i + 1], v[i + 2], v[i + 3]) * inverse, b * 8 + i / 4, halves);
        scales[b] = as_float(power);
        sums[2 * b] = sum[0];
        sums[2 * b + 1] = sum[1];
    }
#elif QUANTISE >= 3
    float most = 0;
    for (uint i = lane; i < a.k; i += WG)
        most = fmax(most, fabs(NORMED(i)));
    const uint power = power_below(group_max(most, scratch));
    const float inverse = as_float(0x7f000000u - power);
    for (uint i = lane; i < a.k / 2; i += WG) {
        const size_t at = (size_t)row * (a.k / 2) + i;
        const float2 v = (float2)(NORMED(2 * i), NORMED(2 * i + 1)) * inverse;
#  if QUANTISE == 3
        vstore_half2_rte(v, at, (global half *)out);
#  else
        ((global uint *)out)[at] = to_bf16(v.x) | to_bf16(v.y) << 16;
#  endif
    }
    if (lane == 0)
        ((global float *)(out + (size_t)a.m * a.k * 2))[row] = as_float(power);
#else
    for (uint i = lane; i < a.k; i += WG)
        ((global float *)out)[(size_t)row * a.k + i] = NORMED(i);
#endif
}
