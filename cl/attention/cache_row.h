/* Writes elements in the form of a cache. Halves are rounded to nearest, ties to even. A block of q8_0 has d
 * = max |x| / 127, as a half, and the integers nearest to x / d, ties away from 0.
 *   KEEP(type, to, at, j, x)     writes elements n j .. n j + n - 1 of x, in private memory, to the same
 *                                place of the row that begins at `at`; n = KEEP_AT_ONCE(type)
 *   KEEP_ONE(type, to, i, x)     writes one element; not for q8_0
 *   KEEP_ROW(type, to, at, ELEMENT, n, item)
 *                                writes the row of n elements ELEMENT(0) .. ELEMENT(n - 1) that begins at
 *                                `at`; called by all WG items of a group, with numbers 0 .. WG - 1 */
#ifndef CLEF_CL_CACHE_ROW_H
#define CLEF_CL_CACHE_ROW_H

#define KEEP_AT_ONCE(type)       ((type) == DTYPE_Q8_0 ? 32 : 16)
#define KEEP(type, to, at, j, x) JOIN(keep_, type)(to, at, j, x)
#define KEEP_ONE(type, to, i, x) JOIN(keep_one_, type)(to, i, x)
#define KEEP_ROW(type, to, at, ELEMENT, n, item)                               \
    do {                                                                       \
        for (uint j = (item); (type) == DTYPE_Q8_0 && j < (n) / 32; j += WG) { \
            float x[32];                                                       \
            for (uint i = 0; i < 32; i++)                                      \
                x[i] = ELEMENT(32 * j + i);                                    \
            KEEP(type, to, (at) + 32 * j, 0, x);                               \
        }                                                                      \
        for (uint i = (item); (type) != DTYPE_Q8_0 && i < (n); i += WG)        \
            KEEP_ONE(type, to, (at) + i, ELEMENT(i));                          \
    } while (0)

static inline void keep_block(global uchar *block, float16 a, float16 b)
{
    const float d = max16(fmax(fabs(a), fabs(b))) / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
    vstore_half_rte(d, 0, (global half *)block);
    vstore16(convert_char16_sat(round(a * inverse)), 0, (global char *)block + 2);
    vstore16(convert_char16_sat(round(b * inverse)), 0, (global char *)block + 18);
}

static inline void keep_0(global float *to, size_t at, uint j, const float *x)
{
    vstore16(vload16(j, x), 0, to + at + 16 * j);
}
static inline void keep_1(global half *to, size_t at, uint j, const float *x)
{
    vstore_half16_rte(vload16(j, x), 0, to + at + 16 * j);
}
static inline void keep_5(global uchar *to, size_t at, uint j, const float *x)
{
    keep_block(to + (at / 32 + j) * Q8_0_BYTES, vload16(2 * j, x), vload16(2 * j + 1, x));
}

static inline void keep_one_0(global float *to, size_t i, float x) { to[i] = x; }
static inline void keep_one_1(global half *to, size_t i, float x) { vstore_half_rte(x, i, to); }
static inline void keep_one_5(global uchar *to, size_t i, float x)
{
    (void)to;
    (void)i;
    (void)x;
}

#endif
