/* Softmax over the rows of x [n0, n1, n2, n3]: z = cap(scale x) + mask, out = exp(z - max z) / sum exp(z -
 * max z). A row whose columns are all dropped gives zeros (log: -inf); a NaN that is kept makes its whole row
 * NaN.
 * Launch: one group of WG work-items for each row. out is dense.
 *   -D WG     work-items in a group, a power of two
 *   -D MASK   0 none, 1 f32 added, 2 int kept where not 0, 3 char kept where not 0
 *   -D POS    1: row t of sequence b is at position pos[b] + t, else at t
 *   -D SINKS  dtype of sinks [n1], DTYPE_NONE (-1) without: the logit of one more column, which is not part
 *             of the result */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(WG) || !defined(MASK) || !defined(POS) || !defined(SINKS)
#  error "softmax.cl needs WG, MASK, POS and SINKS"
#endif

#if SINKS < 0
typedef float sink_elem;
#else
typedef ELEM(SINKS) sink_elem;
#endif

#if MASK == 3
typedef char mask_t;
#elif MASK == 2
typedef int mask_t;
#else
typedef float mask_t;
#endif

/* The logit of column s of the row; -INFINITY if the column is dropped. */
static float logit(const softmax_args *a, global const float *x, global const mask_t *mask, uint mask_row,
                   int s, int at)
{
    if ((a->causal && s > at) || (a->window > 0 && (s <= at - a->window || s - a->window >= at)) ||
        (a->window < 0 && s < at - at % -a->window))
        return -INFINITY;
    float z = a->scale * x[s];
    if (a->softcap > 0)
        z = a->softcap * tanh(z / a->softcap);
#if MASK == 1
    z += mask[mask_row + s * a->mask.stride[3]];
#elif MASK
    if (!mask[mask_row + s * a->mask.stride[3]])
        return -INFINITY;
#endif
    return z;
}

#if WG == 1
/* logit() of columns s .. s + 15, without a branch. */
static float16 logit16(const softmax_args *a, global const float *x, global const mask_t *mask, uint mask_row,
                       int s, int at)
{
    const int16 column = s + (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    float16 z = a->scale * vload16(0, x + s);
    if (a->softcap > 0)
        z = a->softcap * tanh(z / a->softcap);
#  if MASK
    mask_t m[16];
    for (int i = 0; i < 16; i++)
        m[i] = mask[mask_row + (s + i) * a->mask.stride[3]];
#    if MASK == 1
    z += vload16(0, m);
#    else
    z = select(z, (float16)(-INFINITY), convert_int16(vload16(0, m)) == 0);
#    endif
#  endif
    if (a->causal)
        z = select(z, (float16)(-INFINITY), column > at);
    if (a->window > 0)
        z = select(z, (float16)(-INFINITY), column <= at - a->window || column - a->window >= at);
    if (a->window < 0)
        z = select(z, (float16)(-INFINITY), column < at - at % -a->window);
    return z;
}
#endif

GROUP_KERNEL
void softmax_rows(STAGE_GROUP const softmax_args a, global float *out, global const float *x,
                  global const mask_t *mask, global const int *pos, global const sink_elem *sinks)
{
    const uint row = group_id(0), t = row % a.n[2], h = row / a.n[2] % a.n[1], b = row / a.n[2] / a.n[1];
    const int lane = local_id(0), n = a.n[3];
    const uint mask_row = a.mask.offset + b * a.mask.stride[0] + h * a.mask.stride[1] + t * a.mask.stride[2];
#if POS
    const int at = (int)t + pos[a.pos + b];
#else
    const int at = (int)t;
#endif
    x += a.x.offset + b * a.x.stride[0] + h * a.x.stride[1] + t * a.x.stride[2];
    out += (size_t)row * n;
    GROUP_SCRATCH(scratch);

    /* A CPU processes 16 columns at a time (`whole` of them), then single ones. */
    float max_z = -INFINITY, sum = 0;
#if WG == 1
    const int whole = n / 16 * 16;
    float16 max16_z = -INFINITY, sum16_z = 0;
    for (int s = 0; s < whole; s += 16)
        max16_z = fmax(max16_z, logit16(&a, x, mask, mask_row, s, at));
    max_z = max16(max16_z);
#else
    const int whole = 0;
#endif
    for (int s = whole + lane; s < n; s += WG)
        max_z = fmax(max_z, logit(&a, x, mask, mask_row, s, at));
    max_z = group_max(max_z, scratch);
#if SINKS >= 0
    const float sink = LOAD(SINKS, sinks, a.sinks + h);
    max_z = fmax(max_z, sink);
#endif
    if (max_z == -INFINITY) /* nothing is kept, or only NaNs, which fmax ignores */
        max_z = 0;
#if WG == 1
    for (int s = 0; s < whole; s += 16)
        sum16_z += exp(logit16(&a, x, mask, mask_row, s, at) - max_z);
    sum = sum16(sum16_z);
#endif
    for (int s = whole + lane; s < n; s += WG)
        sum += exp(logit(&a, x, mask, mask_row, s, at) - max_z);
    sum = group_sum(sum, scratch);
#if SINKS >= 0
    sum += exp(sink - max_z);
#endif
    const int is_empty = sum == 0; /* otherwise it is NaN, or at least 1 from the largest element */
    const float log_sum = a.log ? log(sum) : 0.0f, empty = a.log ? -INFINITY : 0.0f;
    /* out may be x: a work-item reads each element before it writes it */
#if WG == 1
    for (int s = 0; s < whole; s += 16) {
        const float16 z = logit16(&a, x, mask, mask_row, s, at) - max_z;
        vstore16(is_empty ? (float16)(empty) : a.log ? z - log_sum : exp(z) / sum, 0, out + s);
    }
#endif
    for (int s = whole + lane; s < n; s += WG) {
        const float z = logit(&a, x, mask, mask_row, s, at) - max_z;
        out[s] = is_empty ? empty : a.log ? z - log_sum : exp(z) / sum;
    }
}
