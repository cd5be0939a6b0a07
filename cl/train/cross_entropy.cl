/* The logarithm of the sum of exponentials of each row of x [n0, n1, n2, n3]; the cross-entropy; its
 * gradient. Launch: one group of WG work-items for each row. out is dense; of cross_entropy_grad it may be x.
 *   -D WG  work-items in a group, a power of two */
#include "args.h"
#include "group.h"

static global const float *row_of(const cross_entropy_args *a, global const float *x)
{
    const uint row = get_group_id(0), i2 = row % a->n[2], i1 = row / a->n[2] % a->n[1],
               i0 = row / a->n[2] / a->n[1];
    return x + a->x.offset + i0 * (size_t)a->x.stride[0] + i1 * (size_t)a->x.stride[1] +
           i2 * (size_t)a->x.stride[2];
}

static float sum_lanes(float16 v)
{
    const float8 a = v.lo + v.hi;
    const float4 b = a.lo + a.hi;
    return b.s0 + b.s1 + b.s2 + b.s3;
}

static float most_of_lanes(float16 v)
{
    const float8 a = fmax(v.lo, v.hi);
    const float4 b = fmax(a.lo, a.hi);
    return fmax(fmax(b.s0, b.s1), fmax(b.s2, b.s3));
}

GROUP_KERNEL
void log_sum_exp(const cross_entropy_args a, global float *out, global const float *x)
{
    const uint n = a.n[3], whole = n / 16 * 16, lane = get_local_id(0);
    GROUP_SCRATCH(scratch);
    float16 wide = -INFINITY;
    float most = -INFINITY, sum = 0;
    x = row_of(&a, x);
    for (uint i = lane * 16; i < whole; i += WG * 16)
        wide = fmax(wide, vload16(0, x + i));
    for (uint i = whole + lane; i < n; i += WG)
        most = fmax(most, x[i]);
    most = group_max(fmax(most, most_of_lanes(wide)), scratch);
    wide = 0;
    const float shift = most > -INFINITY ? most : 0.0f;
    for (uint i = lane * 16; i < whole; i += WG * 16)
        wide += exp(vload16(0, x + i) - shift);
    for (uint i = whole + lane; i < n; i += WG)
        sum += exp(x[i] - shift);
    sum = group_sum(sum + sum_lanes(wide), scratch);
    if (lane == 0)
        out[get_group_id(0)] = shift + log(sum); /* all -inf: log 0 */
}

/* The column of the row's label; n[3] or more if there is none. */
static uint label_column(const cross_entropy_args *a, global const int *labels)
{
    const int label = labels[a->labels + get_group_id(0)];
    const uint at = (uint)label / a->each;
    return label >= 0 && at >= a->first ? at - a->first : UINT_MAX;
}

GROUP_KERNEL
void cross_entropy(const cross_entropy_args a, global float *out, global const float *x,
                   global const int *labels, global const float *lse)
{
    const uint row = get_group_id(0), column = label_column(&a, labels);
    if (get_local_id(0) == 0)
        out[row] = column < a.n[3] ? lse[a.lse + row] - row_of(&a, x)[column] : 0.0f;
}

GROUP_KERNEL
void cross_entropy_grad(const cross_entropy_args a, global float *out, global const float *x,
                        global const int *labels, global const float *lse, global const float *d)
{
    const uint row = get_group_id(0), n = a.n[3], lane = get_local_id(0), column = label_column(&a, labels);
    const float scale = column < n ? d[a.d + row] : 0.0f, shift = column < n ? lse[a.lse + row] : INFINITY;
    x = row_of(&a, x);
    out += (size_t)row * n;
    uint i = lane;
#if WG == 1
    for (; i + 16 <= n; i += 16)
        vstore16(scale * exp(vload16(0, x + i) - shift), 0, out + i);
    for (; i < n; i++)
        out[i] = scale * exp(x[i] - shift);
    if (column < n)
        out[column] -= scale;
#else
    for (; i < n; i += WG)
        out[i] = scale * (exp(x[i] - shift) - (i == column ? 1.0f : 0.0f));
#endif
}
