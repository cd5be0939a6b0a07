/* Decoders of GGUF's block formats (ggml-common.h of ggml has the layouts), shared by host and kernels.
 * name_16(b, g, x) sets x[0..15] to elements 16 g .. 16 g + 15 of the block at b.
 * In the comments fields are in the order of their bytes, with the number of bytes in brackets; d is a half,
 * and x = d q unless stated otherwise. Blocks of 256 have 16 groups of 16 or 8 groups of 32, each with its
 * own scale. */
#ifndef CLEF_CL_BLOCKS_H
#define CLEF_CL_BLOCKS_H

#include "args.h"

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef uchar  block_u8;
typedef ushort block_u16;
typedef global const uchar *block_bytes;
#  define BLOCK_TABLE(type)  static constant block_##type
/* A table is only built into programs that read its format. */
#    define USES_BLOCKS(dtype)                                                                               \
        (W_TYPE == dtype || TABLE_TYPE == dtype || X_TYPE == dtype || WEIGHT_TYPE == dtype ||                \
         BIAS_TYPE == dtype)
#    define NO_TABLE ((constant const block_u16 *)0) /* for decoders that the program does not call */

/* PoCL decodes halves in software, one by one, so a CPU moves the exponent instead. The product is exact,
 * also for subnormals; a scale is never infinite. GPUs have an instruction, and may flush subnormals. */
static inline float half_of_bits(uint h)
{
#  if WG == 1
    return as_float(as_uint(as_float((h & 0x7fff) << 13) * 0x1p112f) | (h & 0x8000) << 16);
#  else
    const ushort bits = (ushort)h;
    return vload_half(0, (const half *)&bits);
#  endif
}

static inline float float_of_bits(uint u) { return as_float(u); }
#else
#  include <string.h>
#  ifdef __clang__
#    pragma STDC FP_CONTRACT OFF /* gcc contracts nothing in ISO C */
#  endif
typedef uint8_t  block_u8;
typedef uint16_t block_u16;
typedef const uint8_t *block_bytes;
#  define BLOCK_TABLE(type)  static const block_##type
#  define USES_BLOCKS(dtype) 1

/* For the host, which must include graph/blocks.h before this file. */
static inline float half_of_bits(args_uint h) { return clef__f16_decode((uint16_t)h); }

static inline float float_of_bits(args_uint u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
#endif

#include "grids.h"

static inline args_uint u16_at(block_bytes p) { return (args_uint)p[0] | (args_uint)p[1] << 8; }
static inline args_uint u32_at(block_bytes p) { return u16_at(p) | u16_at(p + 2) << 16; }
static inline float half_at(block_bytes p) { return half_of_bits(u16_at(p)); }
static inline args_int i8_at(block_bytes p) { return (args_int)(p[0] ^ 128) - 128; }
static inline args_uint nibble(args_uint byte, args_uint upper) { return byte >> 4 * upper & 15; }

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* d(2) q(16): x = d (q - 8). In this and the following formats the low nibbles are elements 0..15, the high
 * ones 16..31. */
static inline void q4_0_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b);
    for (int i = 0; i < 16; i++)
        x[i] = d * (float)((args_int)nibble(b[2 + i], g) - 8);
}

/* d(2) m(2) q(16): x = d q + m. */
static inline void q4_1_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 16; i++)
        x[i] = d * (float)nibble(b[4 + i], g) + m;
}

/* d(2) h(4) q(16): bit i of h is bit 4 of element i's q; x = d (q - 16). */
static inline void q5_0_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b);
    const args_uint h = u32_at(b + 2) >> 16 * g;
    for (int i = 0; i < 16; i++)
        x[i] = d * (float)((args_int)(nibble(b[6 + i], g) | (h >> i & 1) << 4) - 16);
}

/* d(2) m(2) h(4) q(16): x = d q + m. */
static inline void q5_1_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b), m = half_at(b + 2);
    const args_uint h = u32_at(b + 4) >> 16 * g;
    for (int i = 0; i < 16; i++)
        x[i] = d * (float)(nibble(b[8 + i], g) | (h >> i & 1) << 4) + m;
}

/* d(2) q(32), signed. */
static inline void q8_0_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b);
    for (int i = 0; i < 16; i++)
        x[i] = d * (float)i8_at(b + 2 + 16 * g + i);
}

/* The 16 numbers of IQ4_NL and IQ4_XS: quantiles of a bell curve. */
BLOCK_TABLE(u8)
iq4_values[16] = {/* + 127 */ 0, 23,  44,  62,  78,  92,  105, 117,
                  128,           140, 152, 165, 180, 196, 216, 240};

/* d(2) q(16). */
static inline void iq4_nl_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b);
    for (int i = 0; i < 16; i++)
        x[i] = d * (float)((args_int)iq4_values[nibble(b[2 + i], g)] - 127);
}

/* e(1) q(16) (OCP Microscaling Formats, MXFP4): the numbers of e2m1, doubled, times 2^(e - 128). */
BLOCK_TABLE(u8) mxfp4_values[8] = {0, 1, 2, 3, 4, 6, 8, 12};

static inline void mxfp4_16(block_bytes b, args_uint g, float *x)
{
    const args_uint e = b[0];
    const float d = float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    for (int i = 0; i < 16; i++) {
        const args_uint q = nibble(b[1 + i], g);
        const float magnitude = (float)mxfp4_values[q & 7];
        x[i] = d * (q & 8 && magnitude > 0 ? -magnitude : magnitude);
    }
}

/* Half of an unsigned float of 4 bits of exponent and 3 of mantissa (arXiv:2209.05433, E4M3). */
static inline float e4m3_half(args_uint u)
{
    const args_uint e = u >> 3 & 15u, m = u & 7u;
    return u == 0x7fu ? 0 : e ? float_of_bits((e + 119u) << 23 | m << 20) : (float)m * 0x1p-10f;
}

/* s(4) q(32) (NVFP4): each 16 elements have a scale in E4M3 and 8 bytes; the numbers are those of MXFP4. */
static inline void nvfp4_16(block_bytes b, args_uint g, float *x)
{
    const float d = e4m3_half(b[g]);
    for (args_uint i = 0; i < 16; i++) {
        const args_uint q = nibble(b[4 + 8 * g + i % 8], i / 8);
        const float magnitude = (float)mxfp4_values[q & 7];
        x[i] = d * (q & 8 && magnitude > 0 ? -magnitude : magnitude);
    }
}

/* d(2) q(16): a bit each, d or -d. */
static inline void q1_0_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b);
    for (args_uint i = 0; i < 16; i++)
        x[i] = b[2 + 2 * g + i / 8] >> i % 8 & 1 ? d : -d;
}

/* d(2) q(16): two bits each, -1 to 2. */
static inline void q2_0_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b);
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)((args_int)(b[2 + 4 * g + i / 4] >> i % 4 * 2 & 3) - 1);
}

/* ---- weights of quantised folders: blocks of 32 or 64, whose scales belong to all columns ------ */

/* A float with 10 bits of mantissa, of its upper 16 bits and 3 more: it holds every half and every bf16. */
static inline float short_float(block_bytes upper, args_uint more)
{
    return float_of_bits(u16_at(upper) << 16 | (more & 7u) << 13);
}

/* Codes of 4 bits: each 32 elements are 16 bytes, the low nibbles first. */
static inline args_uint nibble_of_32(block_bytes q, args_uint g, args_uint i)
{
    return nibble(q[16 * (g / 2) + i], g % 2);
}

/* d(2) b(1) q: 3 more bits of d are the upper ones of b, the others z; x = d (q - z). */
static inline void i4_16(block_bytes b, args_uint g, float *x)
{
    const float d = short_float(b, (args_uint)b[2] >> 5);
    const args_int z = b[2] & 31;
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)((args_int)nibble_of_32(b + 3, g, i) - z);
}

static inline void i4_32_16(block_bytes b, args_uint g, float *x) { i4_16(b, g, x); }
static inline void i4_64_16(block_bytes b, args_uint g, float *x) { i4_16(b, g, x); }

/* d(2) m(2) b(1) q: x = d q + m; the lower 3 bits of b belong to d, the next 3 to m. */
static inline void a4_16(block_bytes b, args_uint g, float *x)
{
    const float d = short_float(b, b[4]), m = short_float(b + 2, (args_uint)b[4] >> 3);
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)nibble_of_32(b + 5, g, i) + m;
}

static inline void a4_32_16(block_bytes b, args_uint g, float *x) { a4_16(b, g, x); }
static inline void a4_64_16(block_bytes b, args_uint g, float *x) { a4_16(b, g, x); }

/* d(4) z(1) q: d in f32, signed q: x = d (q + 128 - z). */
static inline void i8_16(block_bytes b, args_uint g, float *x)
{
    const float d = float_of_bits(u32_at(b));
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)(i8_at(b + 5 + 16 * g + i) + 128 - (args_int)b[4]);
}

static inline void i8_32_16(block_bytes b, args_uint g, float *x) { i8_16(b, g, x); }
static inline void i8_64_16(block_bytes b, args_uint g, float *x) { i8_16(b, g, x); }

/* d(4) q: d in f32, q in E4M3; x = d q. */
static inline void f8_16(block_bytes b, args_uint g, float *x)
{
    const float d = float_of_bits(u32_at(b));
    for (args_uint i = 0; i < 16; i++) {
        const args_uint q = b[4 + 16 * g + i], u = q & 127u;
        const float magnitude = u == 127u ? float_of_bits(0x7fc00000u) : 2 * e4m3_half(u);
        x[i] = d * (q & 128u ? -magnitude : magnitude);
    }
}

static inline void f8_32_16(block_bytes b, args_uint g, float *x) { f8_16(b, g, x); }
static inline void f8_64_16(block_bytes b, args_uint g, float *x) { f8_16(b, g, x); }

/* The bits of the 16 numbers of NF4 (arXiv:2305.14314, appendix E). */
static inline args_uint nf4_bits(args_uint q)
{
    const args_uint bits[16] = {0xbf800000u, 0xbf3239b1u, 0xbf066b30u, 0xbeca32a0u,
                                 0xbe91a24du, 0xbe3d353fu, 0xbdba7871u, 0x00000000u,
                                 0x3da2faffu, 0x3e24cae3u, 0x3e7c04ddu, 0x3ead033au,
                                 0x3ee1a4b8u, 0x3f1007abu, 0x3f3913b3u, 0x3f800000u};
    return bits[q];
}

/* d(4) q: d in f32, q the number of one of NF4; x = d value. */
static inline void nf4_16(block_bytes b, args_uint g, float *x)
{
    const float d = float_of_bits(u32_at(b));
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * float_of_bits(nf4_bits(nibble_of_32(b + 4, g, i)));
}

static inline void nf4_32_16(block_bytes b, args_uint g, float *x) { nf4_16(b, g, x); }
static inline void nf4_64_16(block_bytes b, args_uint g, float *x) { nf4_16(b, g, x); }

/* ---- K formats: blocks of 256 ---------------------------------------------------------------- */

/* Two bits of each element: byte j of 32 holds elements j, 32 + j, 64 + j and 96 + j of a half. */
static inline args_uint crumb(block_bytes q, args_uint g, args_uint i)
{
    return (args_uint)q[32 * (g / 8) + 16 * (g % 2) + i] >> 2 * (g % 8 / 2) & 3u;
}

/* s(16) q(64) d(2) m(2): x = d (s & 15) q - m (s >> 4). */
static inline void q2_k_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b + 80) * (float)(b[g] & 15), m = half_at(b + 82) * (float)(b[g] >> 4);
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)crumb(b + 16, g, i) - m;
}

/* h(32) q(64) s(12) d(2): 6-bit scales minus 32, the low nibbles first, then the upper two bits. If the bit
 * of h is 0, q is less by 4. */
static inline void q3_k_16(block_bytes b, args_uint g, float *x)
{
    const args_uint s = nibble(b[96 + g % 8], g / 8) | ((args_uint)b[104 + g % 4] >> 2 * (g / 4) & 3u) << 4;
    const float d = half_at(b + 108) * (float)((args_int)s - 32);
    for (args_uint i = 0; i < 16; i++) {
        const args_uint h = (args_uint)b[16 * (g % 2) + i] >> g / 2 & 1u;
        x[i] = d * (float)((args_int)(crumb(b + 32, g, i) | h << 2) - 4);
    }
}

/* The 6-bit scale (which 0) or minimum (which 4) of group s of 32, from 12 bytes. Those of groups 4..7 are
 * split. */
static inline args_uint six_bits(block_bytes p, args_uint s, args_uint which)
{
    return s < 4 ? p[which + s] & 63u : nibble(p[4 + s], which / 4) | (p[which + s - 4] >> 6 & 3u) << 4;
}

/* d(2) m(2) s(12) q(128): x = d scale q - m minimum; 32 bytes hold 64 elements, the low nibbles first. */
static inline void q4_k_16(block_bytes b, args_uint g, float *x)
{
    const args_uint s = g / 2;
    const float d = half_at(b) * (float)six_bits(b + 4, s, 0),
                m = half_at(b + 2) * (float)six_bits(b + 4, s, 4);
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)nibble(b[16 + 32 * (s / 2) + 16 * (g % 2) + i], s % 2) - m;
}

/* d(2) m(2) s(12) h(32) q(128): bit s of byte j of h is bit 4 of element 32 s + j. */
static inline void q5_k_16(block_bytes b, args_uint g, float *x)
{
    const args_uint s = g / 2;
    const float d = half_at(b) * (float)six_bits(b + 4, s, 0),
                m = half_at(b + 2) * (float)six_bits(b + 4, s, 4);
    for (args_uint i = 0; i < 16; i++) {
        const args_uint j = 16 * (g % 2) + i, h = b[16 + j] >> s & 1u;
        x[i] = d * (float)(nibble(b[48 + 32 * (s / 2) + j], s % 2) | h << 4) - m;
    }
}

/* q(128) h(64) s(16) d(2): x = d s (q - 32), s signed. h has bits 4 and 5 of q. 64 bytes of q hold 128
 * elements, the low nibbles first. */
static inline void q6_k_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b + 208) * (float)i8_at(b + 192 + g);
    for (args_uint i = 0; i < 16; i++) {
        const args_uint low = nibble(b[64 * (g / 8) + 16 * (g % 4) + i], g % 8 / 4);
        x[i] = d * (float)((args_int)(low | crumb(b + 128, g, i) << 4) - 32);
    }
}

/* ---- ternary: blocks of 256, x = d (q - 1) --------------------------------------------------- */

/* q(48) h(4) d(2): a byte is a fraction of 256 with five base-3 digits (in h: four), the most significant
 * first. 32 bytes hold elements 0..159, 16 the next 80, 4 the last 16. */
static inline void tq1_0_16(block_bytes b, args_uint g, float *x)
{
    const args_uint first = g < 10   ? 16 * (g % 2)
                            : g < 15 ? 32
                                     : 48,
                    digit = g < 10   ? g / 2
                            : g < 15 ? g - 10
                                     : 0;
    const float d = half_at(b + 52);
    for (args_uint i = 0; i < 16; i++) {
        args_uint rest = b[first + (g < 15 ? i : i % 4)];
        for (args_uint k = g < 15 ? digit : i / 4; k > 0; k--)
            rest = rest * 3 & 255;
        x[i] = d * (float)((args_int)(rest * 3 >> 8) - 1);
    }
}

/* q(64) d(2). */
static inline void tq2_0_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b + 64);
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)((args_int)crumb(b, g, i) - 1);
}

/* ---- IQ formats: blocks of 256, whose elements lie in a codebook by 8 or 4 ------------------- */

/* d(2) h(2) s(4) q(128): 6-bit scales minus 32 for 32 elements, their upper two bits in h. q indexes IQ4_NL's
 * numbers. */
static inline void iq4_xs_16(block_bytes b, args_uint g, float *x)
{
    const args_uint k = g / 2, s = nibble(b[4 + k / 2], k % 2) | (u16_at(b + 2) >> 2 * k & 3) << 4;
    const float d = half_at(b) * (float)((args_int)s - 32);
    for (args_uint i = 0; i < 16; i++)
        x[i] = d * (float)((args_int)iq4_values[nibble(b[8 + 16 * k + i], g % 2)] - 127);
}

/* Seven signs, and an eighth that makes the number of minus signs even. */
static inline args_uint even_signs(args_uint seven)
{
    return seven | (0x6996u >> ((seven ^ seven >> 4) & 15) & 1) << 7;
}

/* 8 elements of the IQ2 formats: 2-bit numbers of the entry mean 8, 25, 43; a set bit of `signs` is a
 * minus. */
static inline void iq2_8(args_uint entry, args_uint signs, float d, float *x)
{
    for (int i = 0; i < 8; i++) {
        const float magnitude = d * (float)(0x2b1908u >> 8 * (entry >> 2 * i & 3) & 255);
        x[i] = signs >> i & 1 ? -magnitude : magnitude;
    }
}

/* 4 elements of the IQ3 formats: q means 4 + 8 q, but 62 for 7 (XXS), or 1 + 2 q (S). */
static inline void iq3_4(args_uint entry, args_uint signs, float d, int is_s, float *x)
{
    for (int i = 0; i < 4; i++) {
        const args_uint q = entry >> 4 * i & 7;
        const float magnitude = d * (float)(is_s ? 1 + 2 * q : 4 + 8 * q + (q == 7 ? 2 : 0));
        x[i] = signs >> i & 1 ? -magnitude : magnitude;
    }
}

/* d(2), then for each 32 elements q(4) a(4): the scale is the upper four bits of a, the signs are four groups
 * of seven bits below it. */
static inline void iq2_xxs_16(block_bytes b, args_uint g, float *x)
{
    block_bytes p = b + 2 + 8 * (g / 2);
    const args_uint a = u32_at(p + 4), l = 2 * (g % 2);
    const float d = half_at(b) * (0.5f + (float)(a >> 28)) * 0.25f;
    iq2_8(iq2_xxs_grid[p[l]], even_signs(a >> 7 * l & 127), d, x);
    iq2_8(iq2_xxs_grid[p[l + 1]], even_signs(a >> 7 * (l + 1) & 127), d, x + 8);
}

/* d(2) q(64) s(8): q has 16 bits, the upper seven of which are signs. */
static inline void iq2_xs_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b) * (0.5f + (float)nibble(b[66 + g / 2], g % 2)) * 0.25f;
    const args_uint q0 = u16_at(b + 2 + 4 * g), q1 = u16_at(b + 4 + 4 * g);
    iq2_8(iq2_xs_grid[q0 & 511], even_signs(q0 >> 9), d, x);
    iq2_8(iq2_xs_grid[q1 & 511], even_signs(q1 >> 9), d, x + 8);
}

/* d(2) q(32) signs(32) h(8) s(8): h has bits 8 and 9 of q. */
static inline void iq2_s_16(block_bytes b, args_uint g, float *x)
{
    const float d = half_at(b) * (0.5f + (float)nibble(b[74 + g / 2], g % 2)) * 0.25f;
    const args_uint l = 2 * g, h = (args_uint)b[66 + g / 2] >> 4 * (g % 2);
    iq2_8(iq2_s_grid[b[2 + l] | (h & 3) << 8], b[34 + l], d, x);
    iq2_8(iq2_s_grid[b[3 + l] | (h >> 2 & 3) << 8], b[35 + l], d, x + 8);
}

/* d(2) q(64) a(32): four bytes of a for each 32 elements, as in IQ2_XXS. */
static inline void iq3_xxs_16(block_bytes b, args_uint g, float *x)
{
    const args_uint a = u32_at(b + 66 + 4 * (g / 2));
    const float d = half_at(b) * (0.5f + (float)(a >> 28)) * 0.5f;
    for (args_uint i = 0; i < 4; i++) {
        const args_uint signs = even_signs(a >> 7 * (2 * (g % 2) + i / 2) & 127);
        iq3_4(iq3_xxs_grid[b[2 + 4 * g + i]], signs >> 4 * (i % 2), d, 0, x + 4 * i);
    }
}

/* d(2) q(64) h(8) signs(32) s(4): h has bit 8 of q; the scale is 1 + 2 s. */
static inline void iq3_s_16(block_bytes b, args_uint g, float *x)
{
    const args_uint k = g / 2, h = b[66 + k] >> 4 * (g % 2), signs = u16_at(b + 74 + 2 * g);
    const float d = half_at(b) * (float)(1 + 2 * nibble(b[106 + k / 2], k % 2));
    for (args_uint i = 0; i < 4; i++)
        iq3_4(iq3_s_grid[b[2 + 4 * g + i] | (h >> i & 1) << 8], signs >> 4 * i, d, 1, x + 4 * i);
}

/* 8 elements of the IQ1 formats: 2-bit numbers minus 1, plus an eighth, or minus an eighth if `minus`. */
static inline void iq1_8(args_uint entry, args_uint minus, float d, float *x)
{
    for (int i = 0; i < 8; i++)
        x[i] = d * ((float)((args_int)(entry >> 2 * i & 3) - 1) + (minus ? -0.125f : 0.125f));
}

/* d(2) q(32) h(16): h has 16 bits for 32 elements: bits 8..10 of four q, a scale 1 + 2 s, and the sign of the
 * eighth. */
static inline void iq1_s_16(block_bytes b, args_uint g, float *x)
{
    const args_uint h = u16_at(b + 34 + 2 * (g / 2)), l = 2 * (g % 2);
    const float d = half_at(b) * (float)(2 * (h >> 12 & 7) + 1);
    iq1_8(iq1_s_grid[b[2 + 2 * g] | (h >> 3 * l & 7) << 8], h >> 15, d, x);
    iq1_8(iq1_s_grid[b[3 + 2 * g] | (h >> 3 * (l + 1) & 7) << 8], h >> 15, d, x + 8);
}

/* q(32) h(16) s(8): a nibble of h has bits 8..10 of q and the sign of the eighth. s has 16 bits for 64
 * elements: four 3-bit scales; its four upper nibbles, the lowest first, are d. */
static inline void iq1_m_16(block_bytes b, args_uint g, float *x)
{
    block_bytes s = b + 48;
    const args_uint h = b[32 + g];
    const args_uint d16 =
        nibble(s[1], 1) | nibble(s[3], 1) << 4 | nibble(s[5], 1) << 8 | nibble(s[7], 1) << 12;
    const float d = half_of_bits(d16) * (float)(2 * (u16_at(s + 2 * (g / 4)) >> 3 * (g % 4) & 7) + 1);
    iq1_8(iq1_s_grid[b[2 * g] | (h & 7) << 8], h & 8, d, x);
    iq1_8(iq1_s_grid[b[2 * g + 1] | (h >> 4 & 7) << 8], h >> 7, d, x + 8);
}

#endif
