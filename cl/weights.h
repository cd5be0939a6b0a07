/* Reads elements of any dtype as floats.
 *   LOAD(type, p, i)    element i
 *   LOAD16(type, p, i)  elements i .. i + 15; in a block format i is a multiple of 16
 *   ELEM(type)          the type that a pointer to such elements points to
 * `type` is a DTYPE_ number of args.h, as a macro. Block formats are read as bytes, since their fields are
 * aligned to 2 bytes at most. */
#ifndef CLEF_CL_WEIGHTS_H
#define CLEF_CL_WEIGHTS_H

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ELEM(type)         JOIN(elem_, type)
#define LOAD(type, p, i)   JOIN(load_, type)(p, i)
#define LOAD16(type, p, i) JOIN(load16_, type)(p, i)
#define IS_BLOCKS(type)    ((type) >= DTYPE_Q8_0)

#include "blocks.h"

typedef float  elem_0; /* f32 */
typedef half   elem_1; /* f16 */
typedef ushort elem_2; /* bf16 */
typedef int    elem_3;
typedef char   elem_4;
typedef uchar  elem_5; /* q8_0: 34 bytes hold a half d and 32 chars q: d q */
typedef uchar elem_6;  /* q4_0: 18 bytes hold a half d and 16 bytes, low nibbles q of elements 0..15, high
                          of 16..31: d (q - 8) */

enum { Q8_0_BYTES = FORMAT_5(FORMAT_BYTES), Q4_0_BYTES = FORMAT_6(FORMAT_BYTES) };

static inline float load_0(global const float *p, size_t i) { return p[i]; }
static inline float load_1(global const half *p, size_t i) { return vload_half(i, p); }
static inline float load_2(global const ushort *p, size_t i) { return as_float((uint)p[i] << 16); }

static inline float16 load16_0(global const float *p, size_t i) { return vload16(0, p + i); }
static inline float16 load16_1(global const half *p, size_t i)
{
    const ushort16 bits =
        vload16(0, (global const ushort *)p +
                       i); /* PoCL's vload_half16 assumes memory that is aligned to 16 bytes, */
#if defined(__clang__) && defined(__AVX512F__)
    /* and compiles to eight instructions; 4: the current rounding mode */
    return __builtin_ia32_vcvtph2ps512_mask(as_short16(bits), (float16)0.0f, -1, 4);
#elif defined(__x86_64__) || defined(__aarch64__) || defined(__SPIR__)
    return vload_half16(0, (const half *)&bits);
#else /* one by one: Mesa keeps a vector whose address is taken in memory */
#    define ONE(i) half_of_bits(bits.s##i)
    return (float16)(ONE(0), ONE(1), ONE(2), ONE(3), ONE(4), ONE(5), ONE(6), ONE(7), ONE(8), ONE(9), ONE(a),
                     ONE(b), ONE(c), ONE(d), ONE(e), ONE(f));
#    undef ONE
#endif
}
static inline float16 load16_2(global const ushort *p, size_t i)
{
    return as_float16(convert_uint16(vload16(0, p + i)) << 16);
}

/* The half at the start of a block. */
static inline float block_scale(global const uchar *block)
{
    return half_of_bits(*(global const ushort *)block);
}

/* 16 of a block's integers (`upper` selects the half), still to be multiplied by its scale. */
static inline float16 block16_5(global const uchar *block, uint upper)
{
    return convert_float16(as_char16(vload16(0, block + 2 + 16 * upper)));
}

static inline float16 block16_6(global const uchar *block, uint upper)
{
    const uchar16 q = vload16(0, block + 2);
    return convert_float16(upper ? q >> (uchar)4 : q & (uchar)15) - 8.0f;
}

static inline float load_5(global const uchar *p, size_t i)
{
    p += i / 32 * Q8_0_BYTES;
    return block_scale(p) * (float)as_char(p[2 + i % 32]);
}

static inline float load_6(global const uchar *p, size_t i)
{
    p += i / 32 * Q4_0_BYTES;
    const uint q = p[2 + i % 16];
    return block_scale(p) * ((float)(i % 32 < 16 ? q & 15 : q >> 4) - 8.0f);
}

static inline float16 load16_5(global const uchar *p, size_t i)
{
    p += i / 32 * Q8_0_BYTES;
    return block_scale(p) * block16_5(p, i % 32 / 16);
}

static inline float16 load16_6(global const uchar *p, size_t i)
{
    p += i / 32 * Q4_0_BYTES;
    return block_scale(p) * block16_6(p, i % 32 / 16);
}

/* The other block formats, by the decoders that host and kernels share. A single element costs as much as all
 * sixteen. */
#define BLOCK_LOADS(number, NAME, name, elems, bytes, ggml, vectors, scales, offset, most, table) \
    typedef uchar elem_##number;                                                                  \
    static inline float16 load16_##number(global const uchar *p, size_t i)                        \
    {                                                                                             \
        float x[16];                                                                              \
        name##_16(p + i / elems * bytes, (uint)(i % elems / 16), x);                              \
        return vload16(0, x);                                                                     \
    }                                                                                             \
    static inline float load_##number(global const uchar *p, size_t i)                            \
    {                                                                                             \
        float x[16];                                                                              \
        name##_16(p + i / elems * bytes, (uint)(i % elems / 16), x);                              \
        return x[i % 16];                                                                         \
    }
DECODED_FORMATS(BLOCK_LOADS)

static inline float sum16(float16 v)
{
    const float8 a = v.lo + v.hi;
    const float4 b = a.lo + a.hi;
    const float2 c = b.lo + b.hi;
    return c.x + c.y;
}

static inline float max16(float16 v)
{
    const float8 a = fmax(v.lo, v.hi);
    const float4 b = fmax(a.lo, a.hi);
    const float2 c = fmax(b.lo, b.hi);
    return fmax(c.x, c.y);
}

#endif
