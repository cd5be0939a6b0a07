/* What happens to gradients: sums over steps, the norm, and the optimisers' steps (clef/gradient.h has the
 * formulas).
 * Launch: one group of WG work-items for `span` elements; of sum_squares NORM_PARTS groups.
 *   -D WG  work-items in a group, a power of two */
#include "args.h"
#include "group.h"

/* Indices in `numbers`: CLEF_STEP_ of clef/gradient.h. */
enum { RATE, BETA1, BETA2, EPS, DECAY, CORRECT1, CORRECT2, CLIP, SCALE };

#define FIRST ((uint)get_group_id(0) * a.span + (uint)get_local_id(0))
#define END   min(((uint)get_group_id(0) + 1) * a.span, a.n)

GROUP_KERNEL
void accumulate(const optimizer_args a, global float *state, global const float *x, global const float *keep)
{
    const float k = keep[a.numbers];
    state += a.p;
    x += a.grad;
    if (k != 0.0f)
        for (uint i = FIRST; i < END; i += WG)
            state[i] = k * state[i] + x[i];
    else
        for (uint i = FIRST; i < END; i += WG)
            state[i] = x[i];
}

GROUP_KERNEL
void sum_squares(const optimizer_args a, global float *out, global const float *x, global const float *before)
{
    const uint end = END;
    GROUP_SCRATCH(scratch);
    float sum = 0;
    x += a.grad;
    uint i = FIRST;
#if WG == 1
    float16 wide = 0;
    for (; i + 16 <= end; i += 16) {
        const float16 v = vload16(0, x + i);
        wide += v * v;
    }
    const float8 half_sums = wide.lo + wide.hi;
    const float4 quarter = half_sums.lo + half_sums.hi;
    sum = quarter.s0 + quarter.s1 + quarter.s2 + quarter.s3;
#endif
    for (; i < end; i += WG)
        sum += x[i] * x[i];
    sum = group_sum(sum, scratch);
    if (get_local_id(0) == 0)
        out[get_group_id(0)] = sum + (a.decays ? before[a.norm + get_group_id(0)] : 0.0f);
}

/* What the gradient is multiplied by; NaN: no step is made. */
static float gradient_factor(global const float *numbers, global const float *norm)
{
    const float scale = numbers[SCALE], clip = numbers[CLIP];
    float sum = 0;
    for (uint i = 0; i < NORM_PARTS; i++)
        sum += norm[i];
    const float length = fabs(scale) * sqrt(sum);
    if (!isfinite(length))
        return NAN;
    return clip > 0.0f && length + 1e-6f > clip ? scale * (clip / (length + 1e-6f)) : scale;
}

GROUP_KERNEL
void adamw(const optimizer_args a, global float *p, global const float *grad, global float *m,
           global float *v, global const float *numbers, global const float *norm)
{
    numbers += a.numbers;
    const float factor = gradient_factor(numbers, norm + a.norm);
    const float beta1 = numbers[BETA1], beta2 = numbers[BETA2], eps = numbers[EPS],
                kept = a.decays ? 1.0f - numbers[RATE] * numbers[DECAY] : 1.0f,
                rate = numbers[RATE] / numbers[CORRECT1], root = 1.0f / sqrt(numbers[CORRECT2]);
    p += a.p;
    grad += a.grad;
    m += a.m;
    v += a.v;
    if (isnan(factor))
        return;
    uint i = FIRST;
#if WG == 1
    for (; i + 16 <= END; i += 16) {
        const float16 g = factor * vload16(0, grad + i);
        const float16 m1 = beta1 * vload16(0, m + i) + (1.0f - beta1) * g;
        const float16 v1 = beta2 * vload16(0, v + i) + (1.0f - beta2) * g * g;
        vstore16(m1, 0, m + i);
        vstore16(v1, 0, v + i);
        vstore16(kept * vload16(0, p + i) - rate * m1 / (sqrt(v1) * root + eps), 0, p + i);
    }
#endif
    for (; i < END; i += WG) {
        const float g = factor * grad[i];
        m[i] = beta1 * m[i] + (1.0f - beta1) * g;
        v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
        p[i] = kept * p[i] - rate * m[i] / (sqrt(v[i]) * root + eps);
    }
}

GROUP_KERNEL
void sgd(const optimizer_args a, global float *p, global const float *grad, global float *m,
         global const float *numbers, global const float *norm)
{
    numbers += a.numbers;
    const float factor = gradient_factor(numbers, norm + a.norm);
    const float decay = a.decays ? numbers[DECAY] : 0.0f;
    p += a.p;
    grad += a.grad;
    m += a.m;
    if (isnan(factor))
        return;
    for (uint i = FIRST; i < END; i += WG) {
        m[i] = numbers[BETA1] * m[i] + (factor * grad[i] + decay * p[i]);
        p[i] -= numbers[RATE] * m[i];
    }
}
