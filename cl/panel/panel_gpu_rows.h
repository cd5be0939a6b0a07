/* A row of x before a product on GPUs: its norm, and how it is rounded to 8 bits.
 *   -D NORM              index in PANEL_NORMS
 *   -D NORM_WEIGHT_TYPE  dtype of the norm's weight, DTYPE_NONE without; NORM_BIAS_TYPE the same for its bias
 *   EXACT_ROUNDING                at the head of a function that rounds: a product rounds to f32 before it
 *                                 rounds to an integer, so that devices agree to the last bit
 *   NORM_OF_ROW(k, eps, scratch)  declares what NORMED needs of the row at x, in all items of the group
 *   NORMED(i)                     element i after the norm */
#ifndef CLEF_CL_PANEL_GPU_ROWS_H
#define CLEF_CL_PANEL_GPU_ROWS_H

#if !defined(NORM) || !defined(NORM_WEIGHT_TYPE) || !defined(NORM_BIAS_TYPE)
#  error "panel_gpu_rows.h needs WG, NORM, NORM_WEIGHT_TYPE and NORM_BIAS_TYPE"
#endif

#define EXACT_ROUNDING _Pragma("OPENCL FP_CONTRACT OFF")

#if NORM_WEIGHT_TYPE < 0
typedef float norm_weight_elem;
#  define NORM_WEIGHT(i) 1.0f
#else
typedef ELEM(NORM_WEIGHT_TYPE) norm_weight_elem;
#  define NORM_WEIGHT(i) LOAD(NORM_WEIGHT_TYPE, norm_weight, a.weight + (i))
#endif
#if NORM_BIAS_TYPE < 0
typedef float norm_bias_elem;
#  define NORM_BIAS(i) 0.0f
#else
typedef ELEM(NORM_BIAS_TYPE) norm_bias_elem;
#  define NORM_BIAS(i) LOAD(NORM_BIAS_TYPE, norm_bias, a.bias + (i))
#endif

#if NORM
#  define NORMED(i) ((x[i] - mean) * scale * NORM_WEIGHT(i) + NORM_BIAS(i))
#else
#  define NORMED(i) x[i]
#endif

/* This work-item's part of the sum of (x - mean)^power over a row, power 1 or 2. */
static float share(global const float *x, uint n, float mean, int power)
{
    float sum = 0;
    for (uint i = get_local_id(0); i < n; i += WG) {
        const float d = x[i] - mean;
        sum += power == 1 ? d : d * d;
    }
    return sum;
}

/* x / y, rounded to the nearest float: GPUs round quotients loosely, and one Newton step corrects that. */
static float divided(float x, float y)
{
    const float inverse = 1.0f / y, q = x * inverse;
    return fma(fma(-q, y, x), inverse, q);
}

/* Where row `row` begins. */
static size_t row_of(const rows_args *a, uint row)
{
    return a->x.offset + row / a->n2 / a->n1 * (size_t)a->x.stride[0] +
           row / a->n2 % a->n1 * (size_t)a->x.stride[1] + row % a->n2 * (size_t)a->x.stride[2];
}

#define SCALE_OF_ROW(k, eps, scratch) \
    const float scale = 1.0f / sqrt(group_sum(share(x, k, mean, 2), scratch) / (k) + (eps))
#if NORM == 2
#  define NORM_OF_ROW(k, eps, scratch)                                 \
    const float mean = group_sum(share(x, k, 0, 1), scratch) / (k);  \
    SCALE_OF_ROW(k, eps, scratch)
#elif NORM
#  define NORM_OF_ROW(k, eps, scratch) \
    const float mean = 0;            \
    SCALE_OF_ROW(k, eps, scratch)
#else
#  define NORM_OF_ROW(k, eps, scratch) const float mean = 0, scale = 1
#endif

#endif
