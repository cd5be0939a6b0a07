/* Reading elements of any dtype as floats. LOAD(type, p, i): element i. LOAD16(type, p, i): elements i .. i + 15; in a block format i is
 * a multiple of 16. ELEM(type): what a pointer to such elements points to. `type` is a DTYPE_ number of args.h, given as a macro.
 * Block formats are read as bytes, since their fields are aligned to 2 at most. */
#ifndef CLEF_CL_WEIGHTS_H
#define CLEF_CL_WEIGHTS_H

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ELEM(type)         JOIN(elem_, type)
#define LOAD(type, p, i)   JOIN(load_, type)(p, i)
#define LOAD16(type, p, i) JOIN(load16_, type)(p, i)
#define IS_BLOCKS(type)    ((type) == DTYPE_Q8_0 || (type) == DTYPE_Q4_0)

typedef float  elem_0; /* f32 */
typedef half   elem_1; /* f16 */
typedef ushort elem_2; /* bf16 */
typedef int    elem_3;
typedef char   elem_4;
typedef uchar  elem_5; /* q8_0: 34 bytes hold a half d and 32 chars q: d q */
typedef uchar  elem_6; /* q4_0: 18 bytes hold a half d and 16 bytes, low nibbles q of elements 0..15, high of 16..31: d (q - 8) */

enum { Q8_0_BYTES = 34, Q4_0_BYTES = 18 };

static inline float load_0(global const float *p, size_t i) { return p[i]; }
static inline float load_1(global const half *p, size_t i) { return vload_half(i, p); }
static inline float load_2(global const ushort *p, size_t i) { return as_float((uint)p[i] << 16); }

static inline float16 load16_0(global const float *p, size_t i) { return vload16(0, p + i); }
static inline float16 load16_1(global const half *p, size_t i) { return vload_half16(0, p + i); }
static inline float16 load16_2(global const ushort *p, size_t i) { return as_float16(convert_uint16(vload16(0, p + i)) << 16); }

/* The half that a block begins with. PoCL decodes halves in software, one by one, so a CPU moves the exponent instead: the product is
 * exact, for subnormals too; a scale is never infinite. GPUs have an instruction, and may flush subnormals. */
static inline float block_scale(global const uchar *block)
{
#if WG == 1
    const uint h = *(global const ushort *)block;
    return as_float(as_uint(as_float((h & 0x7fff) << 13) * 0x1p112f) | (h & 0x8000) << 16);
#else
    return vload_half(0, (global const half *)block);
#endif
}

/* The whole numbers of a block, halves of 16, to be multiplied by its scale. */
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
