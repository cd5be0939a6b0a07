/* Prepares rows of x [m, k] for products on GPUs. If NORM is set, a row is normalised, with mean and scale as
 * in norm.cl. Launch: one work-group for each row that is stored. QUANTISE selects how rows are stored, as
 * arrays one after the other:
 *   0  float [m][K]
 *   1  8 bits in blocks of 32, d = max |x| / 127, q = round(x / d): quants char [m][K / 32][32], scales d
 *      float [m][K / 32], sums of 16 quants int [m][K / 32][2]
 *   2  half precision in blocks of 32, d = the power of two below max |x|: half x / d, d, and sums of 16 of x
 *      as float, in the same order
 *   3  rows of halves with one such d each: half x / d [m][K], d [m]
 *   4  rows of bf16 with one such d each: bf16 x / d [m][K], d [m]
 * Units that multiply matrices read 32 bytes of many rows at a time. With SLICED these are adjacent: copies
 * of the last row make m a multiple of SLICED, and the numbers of a row are 8 words in each slice of 32
 * bytes, [K / 32 or K / 16][m][8]. Scales are [K / 32][m]. Sums are of 32 of x, [K / 32][m] floats.
 *
 *   -D WG                work-items a group, a power of two
 *   -D NORM              index in PANEL_NORMS
 *   -D NORM_WEIGHT_TYPE  dtype of the norm's weight, DTYPE_NONE without; NORM_BIAS_TYPE the same for its
 *                        bias
 *   -D QUANTISE          0 to 4; other than 0: k is a multiple of 32
 *   -D SLICED            0: rows one after the other
 *   -D PAIRED            1: the 8 words of a slice are in the order 0 4 1 5 2 6 3 7
 *   and those of group.h */
#include "args.h"
#include "bf16.h"
#include "group.h"
#include "inline.h"
#include "weights.h"

#if !defined(QUANTISE) || !defined(SLICED) || !defined(PAIRED)
#  error "panel_gpu_activations.cl needs WG, NORM, NORM_*_TYPE, QUANTISE, SLICED and PAIRED"
#endif

#include "panel_gpu_rows.h"

#define FOUR_NORMED(i) (float4)(NORMED(i), NORMED((i) + 1), NORMED((i) + 2), NORMED((i) + 3))

#if QUANTISE > 1
/* The bits of the largest power of two that is at most `most`, clamped so that its inverse is a float,
 * too. */
static uint power_below(float most) { return clamp(as_uint(most) & 0x7f800000u, 0x00800000u, 0x7e000000u); }
#endif

/* What NORMED needs, as parameters and as arguments of the functions below. These are inlined (inline.h),
 * since some have barriers. */
#define ROW_PARAMETERS                                                                                       \
    const rows_args a, global const float *x, global const norm_weight_elem *norm_weight,                    \
        global const norm_bias_elem *norm_bias, float mean, float scale
#define ROW a, x, norm_weight, norm_bias, mean, scale

/* Where a row is stored: row `row` of m. No struct, which Mesa's compiler would keep in memory. */
#define PLACE_PARAMETERS global uchar *to, uint row, uint m
#define PLACE out, row, m

#if QUANTISE == 0
INLINED void store_floats(PLACE_PARAMETERS, ROW_PARAMETERS)
{
    EXACT_ROUNDING
    global float *out = (global float *)to + (size_t)row * a.k;
    for (uint i = get_local_id(0); i < a.k; i += WG)
        out[i] = NORMED(i);
}

#elif QUANTISE == 1 && SLICED
/* Eight work-items share a block, four columns each, so that neighbours read adjacent memory. most, sum: WG
 * elements each. */
INLINED void store_bytes_sliced(PLACE_PARAMETERS, local float *most, local int *sum, ROW_PARAMETERS)
{
    EXACT_ROUNDING
    const uint blocks = a.k / 32, lane = get_local_id(0), word = lane % 8, team = lane - word;
    global float *scales = (global float *)(to + (size_t)m * a.k),
                 *sums = scales + (size_t)m * blocks;
    uint i = min(lane / 8, blocks - 1) * 32 + word * 4;
    float4 v = FOUR_NORMED(i);
    for (uint first = 0; first < blocks; first += WG / 8) {
        const uint b = first + lane / 8;
        most[lane] = fmax(fmax(fabs(v.x), fabs(v.y)), fmax(fabs(v.z), fabs(v.w)));
        barrier(CLK_LOCAL_MEM_FENCE);
        i = min(b + WG / 8, blocks - 1) * 32 + word * 4;
        const float4 next = FOUR_NORMED(i); /* is read while this block is stored */
        float all = 0;
        for (uint of = 0; of < 8; of++)
            all = fmax(all, most[team + of]);
        const float d = all > 0 ? divided(all, 127.0f) : 0.0f, inverse = d > 0 ? divided(1.0f, d) : 0.0f;
        const int4 q = convert_int4(rint(v * inverse));
        sum[lane] = (q.x + q.y) + (q.z + q.w);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (b < blocks) {
            const size_t at = (size_t)b * m + row;
            ((global uint *)to)[at * 8 + (PAIRED ? word % 4 * 2 + word / 4 : word)] =
                as_uint(convert_char4(q));
            if (word == 0) {
                int of_block = 0;
                for (uint of = 0; of < 8; of++)
                    of_block += sum[team + of];
                scales[at] = d;
                sums[at] = d * (float)of_block;
            }
        }
        v = next;
    }
}

#elif QUANTISE == 1
INLINED void store_bytes(PLACE_PARAMETERS, ROW_PARAMETERS)
{
    EXACT_ROUNDING
    const uint blocks = a.k / 32;
    global float *scales = (global float *)(to + (size_t)m * a.k);
    global int *sums = (global int *)(scales + (size_t)m * blocks) + (size_t)row * blocks * 2;
    global uint *out = (global uint *)(to + (size_t)row * a.k);
    scales += (size_t)row * blocks;
    for (uint b = get_local_id(0); b < blocks; b += WG) {
        float v[32], most = 0;
        int2 sum = 0;
        for (uint i = 0; i < 32; i++) {
            v[i] = NORMED(b * 32 + i);
            most = fmax(most, fabs(v[i]));
        }
        const float d = most > 0 ? divided(most, 127.0f) : 0.0f, inverse = d > 0 ? divided(1.0f, d) : 0.0f;
        for (uint i = 0; i < 32; i += 4) {
            const float4 r = rint((float4)(v[i], v[i + 1], v[i + 2], v[i + 3]) * inverse);
            const int4 q = convert_int4(r);
            if (i < 16)
                sum.x += (q.x + q.y) + (q.z + q.w);
            else
                sum.y += (q.x + q.y) + (q.z + q.w);
            out[b * 8 + i / 4] = as_uint(convert_char4(q));
        }
        scales[b] = d;
        vstore2(sum, b, sums);
    }
}

#elif QUANTISE == 2
INLINED void store_blocks_of_halves(PLACE_PARAMETERS, ROW_PARAMETERS)
{
    EXACT_ROUNDING
    const uint blocks = a.k / 32;
    global float *scales = (global float *)(to + (size_t)m * a.k * 2),
                 *sums = scales + (size_t)m * blocks;
    for (uint b = get_local_id(0); b < blocks; b += WG) {
        const size_t at = SLICED ? (size_t)b * m + row : (size_t)row * blocks + b;
        float v[32], most = 0;
        float2 sum = 0;
        for (uint i = 0; i < 32; i++) {
            v[i] = NORMED(b * 32 + i);
            most = fmax(most, fabs(v[i]));
            if (i < 16)
                sum.x += v[i];
            else
                sum.y += v[i];
        }
        const uint power = power_below(most);
        const float inverse = as_float(0x7f000000u - power);
        for (uint i = 0; i < 8; i++) {
            const size_t slice = SLICED ? ((size_t)(2 * b + i / 4) * m + row) * 4 + i % 4 : 8 * at + i;
            vstore_half4_rte((float4)(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]) * inverse, slice,
                             (global half *)to);
        }
        scales[at] = as_float(power);
#  if SLICED
        sums[at] = sum.x + sum.y;
#  else
        vstore2(sum, at, sums);
#  endif
    }
}

#else
/* Halves or bf16, with one power of two for the row. */
INLINED void store_row(PLACE_PARAMETERS, group_scratch scratch, ROW_PARAMETERS)
{
    EXACT_ROUNDING
    const uint lane = get_local_id(0);
    float most = 0;
    for (uint i = lane; i < a.k; i += WG)
        most = fmax(most, fabs(NORMED(i)));
    const uint power = power_below(group_max(most, scratch));
    const float inverse = as_float(0x7f000000u - power);
    for (uint i = lane; i < a.k / 2; i += WG) {
        const size_t at =
            SLICED ? ((size_t)(i / 8) * m + row) * 8 + i % 8 : (size_t)row * (a.k / 2) + i;
        const float2 v = (float2)(NORMED(2 * i), NORMED(2 * i + 1)) * inverse;
#  if QUANTISE == 3
        vstore_half2_rte(v, at, (global half *)to);
#  else
        ((global uint *)to)[at] = bf16_nearest(v.x) | bf16_nearest(v.y) << 16;
#  endif
    }
    if (lane == 0)
        ((global float *)(to + (size_t)m * a.k * 2))[row] = as_float(power);
}
#endif

GROUP_KERNEL
void panel_gpu_activations(const rows_args a, global uchar *out, global const float *x,
                           global const norm_weight_elem *norm_weight, global const norm_bias_elem *norm_bias)
{
    EXACT_ROUNDING
#if SLICED
    const uint m = (a.m + SLICED - 1) / SLICED * SLICED;
#else
    const uint m = a.m;
#endif
    const uint row = get_group_id(0);
    GROUP_SCRATCH(scratch);
    x += row_of(&a, min(row, a.m - 1));
    NORM_OF_ROW(a.k, a.eps, scratch);
#if QUANTISE == 0
    store_floats(PLACE, ROW);
#elif QUANTISE == 1 && SLICED
    local float most[WG];
    local int sum[WG];
    store_bytes_sliced(PLACE, most, sum, ROW);
#elif QUANTISE == 1
    store_bytes(PLACE, ROW);
#elif QUANTISE == 2
    store_blocks_of_halves(PLACE, ROW);
#else
    store_row(PLACE, scratch, ROW);
#endif
}
