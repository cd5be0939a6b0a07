/* Weights of block formats as bf16, for units that multiply matrices of bf16 (matrix.h): code scale + base,
 * computed in f32 and rounded to the nearest. bf16 has the range of f32, so no scale is too small or too
 * large. Needs panel_gpu_codes.h and matrix.h.
 *
 *   base_for_codes(scale, base)     what four_bf16() takes as base; scale is plain_nan()
 *   four_bf16(codes, scale, base)   the weights of four codes of a word */
#ifndef CLEF_CL_PANEL_GPU_BF16_H
#define CLEF_CL_PANEL_GPU_BF16_H

#include "bf16.h"

/* lane_decode() returns signed codes for tables and for eight bits, else numbers below 64. A signed code is
 * multiplied as code + 128, which is a byte without sign, and base makes up for it. */
#define SIGNED_CODES (CODE_TABLE != TABLE_NONE || CODE_VECTORS == 8)

/* code_number(): byte i of a word as a float, plus CODE_ADDS for an unsigned code of 0. NVIDIA converts whole
 * numbers to floats on a slow unit. There a byte becomes part of the bits of a float: bits 16 to 22 of 128,
 * or bits 8 to 15 of 32768. Base is then rounded, which is an error below scale / 500. */
static inline float code_number(uint codes, uint i)
{
#if MATRIX == 1 && !MATRIX_PLAIN
    /* The word has the highest byte of the float, byte i of the codes, and zeros. */
    const uint high = SIGNED_CODES ? 0x47u : 0x43u,
               select = SIGNED_CODES ? 0x4505u | i << 4 : 0x4055u | i << 8;
    uint bits;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(bits) : "r"(codes), "r"(high), "r"(select));
    return as_float(bits);
#elif MATRIX == 1 && SIGNED_CODES
    return as_float(0x47000000u | (codes >> 8 * i & 255u) << 8);
#elif MATRIX == 1
    return as_float(0x43000000u | (codes >> 8 * i & 255u) << 16);
#else
    return (float)(uchar)(codes >> 8 * i);
#endif
}
#if MATRIX == 1
#  define CODE_ADDS (SIGNED_CODES ? 32768.0f + 128.0f : 128.0f)
#else
#  define CODE_ADDS (SIGNED_CODES ? 128.0f : 0.0f)
#endif

/* NaN with the one bit pattern that rounding by addition keeps. */
static inline float plain_nan(float x) { return isnan(x) ? as_float(0x7fc00000u) : x; }

static inline void bf16_terms(float2 *scale, float2 *base)
{
    *scale = (float2)(plain_nan(scale->x), plain_nan(scale->y));
    *base = fma((float2)-CODE_ADDS, *scale, *base);
    *base = (float2)(plain_nan(base->x), plain_nan(base->y));
}

static inline uint2 four_bf16(uint codes, float scale, float base)
{
#if SIGNED_CODES
    codes ^= 0x80808080u;
#endif
    const float a = fma(code_number(codes, 0), scale, base), b = fma(code_number(codes, 1), scale, base),
                c = fma(code_number(codes, 2), scale, base), d = fma(code_number(codes, 3), scale, base);
    return (uint2)(two_bf16_nearest(a, b), two_bf16_nearest(c, d));
}

#endif
