/* Parts of the attention kernels for CPUs, whose single work-items compute with vectors of 16 keys or of 16
 * elements: reading rows of k and v, turning scores into weights, and writing results. Include it after
 * attention.h, with ROWS, D and E defined.
 *   -D AT_ONCE  1: products of ROWS rows are found for one vector of 16 at a time, because the sums of more
 *               do not fit the registers (default: 4) */
#ifndef CLEF_CL_ATTENTION_VECTOR_H
#define CLEF_CL_ATTENTION_VECTOR_H

#if !defined(ROWS) || !defined(D) || !defined(E)
#  error "attention_vector.h needs ROWS, D and E"
#endif

#include "fetch.h"
#include "substep.h"

#ifdef STAGE
#  define SINGLE_KERNEL STAGE_KERNEL
#else
#  define SINGLE_KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) kernel
#endif

#ifndef AT_ONCE
#  define AT_ONCE 4
#endif

/* Keys are processed in chunks of KEYS. DV, EV: vectors in a row of k, of v. */
enum { CHUNK = 4, KEYS = 16 * CHUNK, DV = (D + 15) / 16, EV = (E + 15) / 16, E16 = 16 * EV };

static float16 iota16(void) { return (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

/* Elements 16 j .. of a row of k or v; zeros beyond its end. */
#define DEFINE_ROW16(name, type, last)                                                                      \
    static float16 name(global const ELEM(type) *p, size_t at, uint j)                                      \
    {                                                                                                       \
        if (16 * j + 16 <= last)                                                                            \
            return LOAD16(type, p, at + 16 * j);                                                            \
        if (type == DTYPE_F32 && 16 * j + 8 == last) /* half a vector at once: single elements would wait
                                                        for the store */ \
            return (float16)(vload8(0, (global const float *)p + at + 16 * j), (float8)(0.0f));             \
        float x[16];                                                                                        \
        for (uint i = 0; i < 16; i++)                                                                       \
            x[i] = 16 * j + i < last ? LOAD(type, p, at + 16 * j + i) : 0.0f;                               \
        return vload16(0, x);                                                                               \
    }
DEFINE_ROW16(key16, K_TYPE, D)
DEFINE_ROW16(value16, V_TYPE, E)

/* Prefetches the row of k or v that begins at element `at`. */
#define ROW_BYTES(type, n)                                                                                   \
    (IS_BLOCKS(type) ? (n) / 32 * ((type) == DTYPE_Q8_0 ? Q8_0_BYTES : Q4_0_BYTES) : (n) * sizeof(ELEM(type)))
#define DEFINE_FETCH(name, type, n)                                            \
    static void name(global const ELEM(type) *p, size_t at)                    \
    {                                                                          \
        global const char *row = (global const char *)p + ROW_BYTES(type, at); \
        for (uint i = 0; i < ROW_BYTES(type, n); i += LINE_BYTES)              \
            FETCH(row + i);                                                    \
    }
DEFINE_FETCH(fetch_key, K_TYPE, D)
DEFINE_FETCH(fetch_value, V_TYPE, E)

/* e^x for x <= 0 or NaN, to 2 ulp; 0 below -87. x = n ln 2 + f with |f| < 0.35; Taylor's series to f^7. */
static float16 exp_negative(float16 x)
{
    const float16 shifted = fma(x, (float16)1.44269504f, (float16)12582912.0f), n = shifted - 12582912.0f;
    const float16 f = fma(n, (float16)-1.42860677e-6f, fma(n, (float16)-0.693145752f, x));
    float16 y = fma(f, (float16)(1.0f / 5040), (float16)(1.0f / 720));
    y = fma(y, f, (float16)(1.0f / 120));
    y = fma(y, f, (float16)(1.0f / 24));
    y = fma(y, f, (float16)(1.0f / 6));
    y = fma(y, f, (float16)0.5f);
    y = fma(y, f, (float16)1.0f);
    y = fma(y, f, (float16)1.0f);
    y = as_float16(as_int16(y) + (as_int16(shifted) << 23));
    return select(y, (float16)0.0f, x < -87.0f);
}

/* The logits of 16 keys from s on, from their scaled products: capped and masked; -INFINITY for keys that the
 * query does not see: those outside begin .. last. No key beyond `end` is read. */
static float16 logit16(const attention_args *a, int begin, int last, global const mask_elem *mask,
                       size_t mask_row, int s, int end, float16 z)
{
    if (a->softcap > 0)
        z = a->softcap * tanh(z / a->softcap);
#if MASK >= 0
    mask_elem m[16];
    for (int i = 0; i < 16; i++)
        m[i] = mask[mask_row + min(s + i, end - 1) * (size_t)a->mask.stride[3]];
#  if MASK == DTYPE_F32
    z += vload16(0, m);
#  else
    z = select((float16)-INFINITY, z, convert_int16(vload16(0, m)) != 0);
#  endif
#endif
    if (s + 15 > last || s < begin) {
        const float16 key = iota16();
        z = select((float16)-INFINITY, z, key <= (float)(last - s) && key >= (float)(begin - s));
    }
    return z;
}

/* The first sum of weights of a query, from its first logit. */
static float16 first_weight(float logit)
{
    float16 sum = 0;
    sum.s0 = logit > -INFINITY ? 1.0f : 0.0f;
    return sum;
}

/* For N vectors of keys: their largest score; and their weights, in place of the scores, relative to `base`.
 * Returns their sums. */
#define DEFINE_SOFTEN(N)                                                                   \
    static float highest_##N(const float16 *z)                                             \
    {                                                                                      \
        float16 high = z[0];                                                               \
        _Pragma("unroll") for (int c = 1; c < N; c++) high = z[c] > high ? z[c] : high;    \
        return max16(high);                                                                \
    }                                                                                      \
    static float16 soften_##N(float16 *z, float base)                                      \
    {                                                                                      \
        float16 total = 0;                                                                 \
        _Pragma("unroll") for (int c = 0; c < N; c++)                                      \
        {                                                                                  \
            z[c] = exp_negative(z[c] - base);                                              \
            total += z[c];                                                                 \
        }                                                                                  \
        return total;                                                                      \
    }
DEFINE_SOFTEN(1)
DEFINE_SOFTEN(2)
DEFINE_SOFTEN(4)

/* The same for the vectors that hold n keys. The weights of later vectors are not read. */
static float highest(const float16 *z, int n)
{
    return n <= 16 ? highest_1(z) : n <= 32 ? highest_2(z) : highest_4(z);
}

static float16 soften(float16 *z, float most, int n)
{
    const float base = most == -INFINITY ? 0.0f : most;
    return n <= 16 ? soften_1(z, base) : n <= 32 ? soften_2(z, base) : soften_4(z, base);
}

/* Queries first .. last, at most ROWS of them, of one sequence and one head of k. */
typedef struct row_id {
    uint b, hk, first, last;
} row_id;

/* Turns the chunk's scores of ROWS queries into weights relative to the running maximum (queries beyond the
 * last repeat it). keep[i]: the factor for the earlier sums of query i; one vector holds those of all. */
static void soften_rows(const attention_args *a, float16 *z, float *keep, float *most, float16 *sum,
                        global const mask_elem *mask, global const int *pos, global const int *first_keys,
                        row_id row, int s, int end)
{
    const int n = end - s;
    float before[16], now[16], kept[16];
    vstore16((float16)0.0f, 0, before);
    vstore16((float16)0.0f, 0, now);
    for (uint i = 0; i < ROWS; i++) {
        const uint query = min(row.first + i, row.last);
        const int at = position(a, pos, row.b, query), last = min(end, keys_end(a, at)) - 1,
                  begin = keys_begin(a, at, first_key(a, first_keys, row.b, query));
        const size_t mask_row = row_at(a, &a->mask, row.b, row.hk, query);
        for (int c = 0; c < (n <= 16 ? 1 : n <= 32 ? 2 : CHUNK); c++)
            z[i * CHUNK + c] = logit16(a, begin, last, mask, mask_row, s + 16 * c, end, z[i * CHUNK + c]);
        before[i] = most[i];
        most[i] = now[i] = fmax(before[i], highest(z + i * CHUNK, n));
    }
    const float16 earlier = vload16(0, before), latest = vload16(0, now);
    vstore16(latest > earlier ? exp_negative(earlier - latest) : (float16)1.0f, 0, kept);
    for (uint i = 0; i < ROWS; i++) {
        keep[i] = kept[i];
        sum[i] = sum[i] * kept[i] + soften(z + i * CHUNK, now[i], n);
    }
}

/* Writes a row of the result: the sum of values divided by the sum of weights. */
static void put_row(global float *to, const float16 *acc, float total)
{
    const float inverse = total != 0 ? 1.0f / total : 0.0f;
    for (uint j = 0; j < E / 16; j++)
        vstore16(acc[j] * inverse, j, to);
    for (uint j = E / 16 * 16; j < E; j++)
        to[j] = ((const float *)acc)[j] * inverse;
}

#endif
