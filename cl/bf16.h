/* Floats rounded to bf16.
 *   bf16_nearest(x)               to the nearest, ties to even; NaN stays NaN
 *   two_bf16_nearest(low, high)   two as a word, to the nearest. With NVIDIA's instruction ties go to even.
 *                                 Without it they go away from 0, and NaN has to be 0x7fc00000, since adding
 *                                 to the bits of another may make a number of it
 *   two_bf16_cut(low, high)       two as a word, whose lower bits are cut off: towards 0
 * Programs with MATRIX and MATRIX_PLAIN (instruction/matrix.h) may use the vendor's instructions. */
#ifndef CLEF_CL_BF16_H
#define CLEF_CL_BF16_H

#if defined(MATRIX) && !MATRIX_PLAIN
#  define BF16_BY_PTX  (MATRIX == 1)
#  define BF16_BY_PERM (MATRIX == 2 || MATRIX == 4)
#else
#  define BF16_BY_PTX  0
#  define BF16_BY_PERM 0
#endif

static inline uint bf16_nearest(float x)
{
    const uint u = as_uint(x);
    return isnan(x) ? 0x7fc0u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

static inline uint two_bf16_nearest(float low, float high)
{
#if BF16_BY_PTX
    uint word;
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return (as_uint(low) + 0x8000u) >> 16 | ((as_uint(high) + 0x8000u) & 0xffff0000u);
#endif
}

static inline uint two_bf16_cut(float low, float high)
{
#if BF16_BY_PERM
    return __builtin_amdgcn_perm(as_uint(high), as_uint(low), 0x07060302u);
#else
    return as_uint(low) >> 16 | (as_uint(high) & 0xffff0000u);
#endif
}

#endif
