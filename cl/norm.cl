/* out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias over the rows of x [n0, n1, n2, n3];
 * without CENTER mean is 0.
 * Launch: one group of WG work-items for each row. out is dense and may be x.
 *   -D WG           work-items in a group, a power of two
 *   -D CENTER       1: layer_norm, 0: rms_norm
 *   -D WEIGHT_TYPE, BIAS_TYPE  dtypes of weight and bias, DTYPE_NONE (-1) without */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(CENTER) || !defined(WEIGHT_TYPE) || !defined(BIAS_TYPE)
#  error "norm.cl needs WG, CENTER, WEIGHT_TYPE and BIAS_TYPE"
#endif

#if WEIGHT_TYPE < 0
typedef float weight_elem;
#  define WEIGHT(i)   1.0f
#  define WEIGHT16(i) 1.0f
#else
typedef ELEM(WEIGHT_TYPE) weight_elem;
#  define WEIGHT(i)   LOAD(WEIGHT_TYPE, weight, a.weight + i)
#  define WEIGHT16(i) LOAD16(WEIGHT_TYPE, weight, a.weight + i)
#endif
#include "bias.h"
#define BIAS(i)   BIAS_OF(bias, a.bias + i)
#define BIAS16(i) BIAS16_OF(bias, a.bias + i)

/* This work-item's part of the sum of (x - mean)^power, power 1 or 2. It reads 16 columns at a time, then
 * single ones. */
static float share(global const float *x, uint n, float mean, int power)
{
    const uint whole = n / 16 * 16, lane = local_id(0);
    float16 sum = 0;
    float tail = 0;
    for (uint i = lane * 16; i < whole; i += WG * 16) {
        const float16 d = vload16(0, x + i) - mean;
        sum += power == 1 ? d : d * d;
    }
    for (uint i = whole + lane; i < n; i += WG) {
        const float d = x[i] - mean;
        tail += power == 1 ? d : d * d;
    }
    return sum16(sum) + tail;
}

GROUP_KERNEL
void norm_rows(STAGE_GROUP const norm_args a, global float *out, global const float *x,
               global const weight_elem *weight, global const bias_elem *bias)
{
    const uint row = group_id(0), i2 = row % a.n[2], i1 = row / a.n[2] % a.n[1], i0 = row / a.n[2] / a.n[1];
    const uint n = a.n[3], whole = n / 16 * 16, lane = local_id(0);
    GROUP_SCRATCH(scratch);
    x += a.x.offset + i0 * (size_t)a.x.stride[0] + i1 * (size_t)a.x.stride[1] + i2 * (size_t)a.x.stride[2];
    out += (size_t)row * n;

#if CENTER
    const float mean = group_sum(share(x, n, 0, 1), scratch) / n;
#else
    const float mean = 0;
#endif
    const float variance = group_sum(share(x, n, mean, 2), scratch) / n;
    const float scale = 1.0f / sqrt(variance + a.eps);
    for (uint i = lane * 16; i < whole; i += WG * 16)
        vstore16((vload16(0, x + i) - mean) * scale * WEIGHT16(i) + BIAS16(i), 0, out + i);
    for (uint i = whole + lane; i < n; i += WG)
        out[i] = (x[i] - mean) * scale * WEIGHT(i) + BIAS(i);
}
