/* Prepares rows of x for a product (rows_args). With a norm, a row is normalised. Then it is stored in f32,
 * or rounded to 8 bits in blocks of 32: d = max |x| / 127, q = round(x / d). args.h gives the order of
 * rounded rows at TOKEN_BLOCK. With QUANTISE, k is a multiple of 32.
 * A program takes longer to compile than rows take to ask which norm there is, so one program serves all
 * (rows_args.norm).
 *   -D NORM_WEIGHT_TYPE  dtype of the norm's weight, where there is one; NORM_BIAS_TYPE the same for its bias
 *   -D QUANTISE          1: to 8 bits
 *   ROWS_SPACE           address space of the result */
#ifndef CLEF_CL_PANEL_ROWS_H
#define CLEF_CL_PANEL_ROWS_H

#include "inline.h"

#if !defined(NORM_WEIGHT_TYPE) || !defined(NORM_BIAS_TYPE) || !defined(QUANTISE) || !defined(ROWS_SPACE)
#    error "panel_cpu_activations.h needs NORM_WEIGHT_TYPE, NORM_BIAS_TYPE, QUANTISE and ROWS_SPACE"
#endif

#pragma OPENCL FP_CONTRACT                                                                                   \
    OFF /* a product rounds to f32 before it rounds to an integer, so that devices agree to the last bit */

#define ENUMERATE_NORM(name) NORM_##name,
enum { PANEL_NORMS(ENUMERATE_NORM) };

typedef ELEM(NORM_WEIGHT_TYPE) norm_weight_elem;
#define NORM_WEIGHT(i) (r->has_weight ? LOAD(NORM_WEIGHT_TYPE, r->weight, r->weight_at + (i)) : 1.0f)
#define NORM_WEIGHT16(i)                                                                                     \
    (r->has_weight ? LOAD16(NORM_WEIGHT_TYPE, r->weight, r->weight_at + (i)) : (float16)1)
typedef ELEM(NORM_BIAS_TYPE) norm_bias_elem;
#define NORM_BIAS(i)   (r->has_bias ? LOAD(NORM_BIAS_TYPE, r->bias, r->bias_at + (i)) : 0.0f)
#define NORM_BIAS16(i) (r->has_bias ? LOAD16(NORM_BIAS_TYPE, r->bias, r->bias_at + (i)) : (float16)0)

/* A row, with the mean and scale that its norm applies. */
typedef struct normed_row {
    global const float *x;
    global const norm_weight_elem *weight;
    global const norm_bias_elem *bias;
    uint weight_at, bias_at;
    float mean, scale;
    uint norm, has_weight, has_bias;
} normed_row;

/* The sum of (x - mean)^power over a row, power 1 or 2. */
INLINED float row_sum(global const float *x, uint n, float mean, int power)
{
    float16 s[4];
    float tail = 0;
    uint i = 0;
#pragma unroll
    for (int c = 0; c < 4; c++)
        s[c] = 0;
    for (; i + 64 <= n; i += 64)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const float16 d = vload16(0, x + i + 16 * c) - mean;
            s[c] = power == 1 ? s[c] + d : fma(d, d, s[c]);
        }
    for (; i + 16 <= n; i += 16) {
        const float16 d = vload16(0, x + i) - mean;
        s[0] = power == 1 ? s[0] + d : fma(d, d, s[0]);
    }
    for (; i < n; i++) {
        const float d = x[i] - mean;
        tail += power == 1 ? d : d * d;
    }
    return sum16((s[0] + s[1]) + (s[2] + s[3])) + tail;
}

INLINED normed_row row_at(const rows_args *a, uint row, global const float *x,
                          global const norm_weight_elem *weight, global const norm_bias_elem *bias)
{
    normed_row r;
    r.x = x + a->x.offset + row / a->n2 / a->n1 * (size_t)a->x.stride[0] +
          row / a->n2 % a->n1 * (size_t)a->x.stride[1] + row % a->n2 * (size_t)a->x.stride[2];
    r.weight = weight;
    r.bias = bias;
    r.weight_at = a->weight;
    r.bias_at = a->bias;
    r.mean = 0;
    r.scale = 1;
    r.norm = a->norm;
    r.has_weight = a->has_weight;
    r.has_bias = a->has_bias;
    if (r.norm == NORM_none)
        return r;
    if (r.norm == NORM_layer)
        r.mean = row_sum(r.x, a->k, 0, 1) / a->k;
    r.scale = 1.0f / sqrt(row_sum(r.x, a->k, r.mean, 2) / a->k + a->eps);
    return r;
}

/* Elements i .. i + 15 of the row after its norm, and element i. */
INLINED float16 normed16(const normed_row *r, uint i)
{
    const float16 x = vload16(0, r->x + i);
    return r->norm ? (x - r->mean) * r->scale * NORM_WEIGHT16(i) + NORM_BIAS16(i) : x;
}

INLINED float normed1(const normed_row *r, uint i)
{
    return r->norm ? (r->x[i] - r->mean) * r->scale * NORM_WEIGHT(i) + NORM_BIAS(i) : r->x[i];
}

#if QUANTISE

/* Joins two vectors: adjacent lanes of a are added, then those of b (or their maximum is taken). After four
 * rounds over sixteen vectors, lane i is the sum (or maximum) of vector i. */
#  define PAIRS_SUM(a, b) ((int16)(a.even, b.even) + (int16)(a.odd, b.odd))
#  define PAIRS_MAX(a, b) fmax((float16)(a.even, b.even), (float16)(a.odd, b.odd))

/* Rounds to the nearest integer, ties to even, for |x| < 2^22: once 1.5 2^23 is added, a float has no bits
 * for fractions. */
INLINED int16 nearest(float16 x)
{
    return as_int16(x + 12582912.0f) - 0x4b400000;
}

/* Stores the lowest bytes of q, 16 i bytes from p on. PoCL's vstore16() of bytes stores each by itself. */
#  ifdef __clang__
typedef char16 __attribute__((aligned(1), may_alias)) loose_char16;
#    define PUT_BYTES(q, i, p) (((ROWS_SPACE loose_char16 *)(p))[i] = convert_char16(q))
#  else
#    define PUT_BYTES(q, i, p) vstore16(convert_char16(q), i, p)
#  endif
/* Stores words; of each four the second and the third change places. */
#  define PUT_WORDS(q, i, p) vstore8(((q).s014589cd & 65535) | (q).s2367abef << 16, i, (ROWS_SPACE int *)(p))

/* Quantises row t of a block of nt tokens; the block's quantised form begins at `out`. The loop quantises
 * eight blocks of 32 at a time, so that vectors find their maxima and sums. If fewer are left, the last one
 * is repeated. words: as in rows_args. */
INLINED void prepare_row(const rows_args *a, const normed_row *r, ROWS_SPACE uchar *out, uint t, uint nt,
                         uint words)
{
    const uint blocks = a->k / 32;
    ROWS_SPACE float *scales = (ROWS_SPACE float *)(out + ((size_t)nt * a->k << words));
    ROWS_SPACE int *sums = (ROWS_SPACE int *)(scales + (size_t)nt * blocks);
    for (uint first = 0; first < blocks; first += 8) {
        const uint n = min(8u, blocks - first);
        float16 m[8];
        int16 q[16];
#  pragma unroll
        for (uint i = 0; i < 8; i++) {
            const uint at = (first + min(i, n - 1)) * 32;
            m[i] = fmax(fabs(normed16(r, at)), fabs(normed16(r, at + 16)));
        }
#  pragma unroll
        for (uint i = 0; i < 4; i++)
            m[i] = PAIRS_MAX(m[2 * i], m[2 * i + 1]);
#  pragma unroll
        for (uint i = 0; i < 2; i++)
            m[i] = PAIRS_MAX(m[2 * i], m[2 * i + 1]);
        m[0] = PAIRS_MAX(m[0], m[1]);
        const float8 d = fmax(m[0].even, m[0].odd) / 127.0f;
        const float8 inverse = d > 0.0f ? 1.0f / d : 0.0f;
        float ds[8], inverses[8];
        vstore8(d, 0, ds);
        vstore8(inverse, 0, inverses);
#  pragma unroll
        for (uint i = 0; i < 8; i++) {
            const uint b = first + min(i, n - 1);
            q[2 * i] = nearest(normed16(r, b * 32) * inverses[i]);
            q[2 * i + 1] = nearest(normed16(r, b * 32 + 16) * inverses[i]);
            ROWS_SPACE char *to = (ROWS_SPACE char *)out + (((size_t)b * nt + t) * 32 << words);
            if (words) {
                PUT_WORDS(q[2 * i], 0, to);
                PUT_WORDS(q[2 * i + 1], 1, to);
            } else {
                PUT_BYTES(q[2 * i], 0, to);
                PUT_BYTES(q[2 * i + 1], 1, to);
            }
        }
#  pragma unroll
        for (uint i = 0; i < 8; i++)
            q[i] = PAIRS_SUM(q[2 * i], q[2 * i + 1]);
#  pragma unroll
        for (uint i = 0; i < 4; i++)
            q[i] = PAIRS_SUM(q[2 * i], q[2 * i + 1]);
#  pragma unroll
        for (uint i = 0; i < 2; i++)
            q[i] = PAIRS_SUM(q[2 * i], q[2 * i + 1]);
        const int16 both = PAIRS_SUM(q[0], q[1]);
        if (nt == 1 && n == 8) {
            vstore8(d, 0, scales + first);
            vstore16(both, 0, sums + first * 2);
            continue;
        }
        int each[16];
        vstore16(both, 0, each);
        for (uint i = 0; i < n; i++) {
            const size_t at = (size_t)(first + i) * nt + t;
            scales[at] = ds[i];
            sums[at * 2] = each[2 * i];
            sums[at * 2 + 1] = each[2 * i + 1];
        }
    }
}

#else

/* Writes row t in f32; row 0 begins at `out`. */
INLINED void prepare_row(const rows_args *a, const normed_row *r, ROWS_SPACE uchar *out, uint t, uint nt,
                         uint words)
{
    ROWS_SPACE float *to = (ROWS_SPACE float *)out + (size_t)t * a->k;
    uint i = 0;
    for (; i + 16 <= a->k; i += 16)
        vstore16(normed16(r, i), 0, to + i);
    for (; i < a->k; i++)
        to[i] = normed1(r, i);
}

#endif

#endif
