/* Floats as sums of two halves each, for kernels of attention on units that multiply matrices: products are
 * nearly as exact as in f32. Queries and weights are scaled by powers of two to at most LARGEST: so even a
 * unit that takes halves below 2^-14 as zeros loses no more than 2^-28 of the largest. Without EXACT they are
 * rounded to one half. */
#ifndef CLEF_CL_ATTENTION_HALVES_H
#define CLEF_CL_ATTENTION_HALVES_H

#include "inline.h"

#define LARGEST 32768.0f

/* A word of the halves of x and y. */
static inline uint two_halves(float x, float y)
{
    uint word;
#if MATRIX == 1 && !MATRIX_PLAIN
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
#else
    vstore_half2((float2)(x, y), 0, (half *)&word);
#endif
    return word;
}

static inline float2 halves_of(uint word) { return vload_half2(0, (const half *)&word); }

/* x and y as sums of two halves each: a word of the larger ones, then one of what is left. */
static inline uint2 split_pair(float x, float y)
{
    const uint word = two_halves(x, y);
    const float2 rest = (float2)(x, y) - halves_of(word);
    return (uint2)(word, two_halves(rest.x, rest.y));
}

/* x and y as halves, and with EXACT what these leave. */
static inline uint2 half_words(float x, float y)
{
    return EXACT ? split_pair(x, y) : (uint2)(two_halves(x, y), 0);
}

/* For a query whose largest element is `most`: the power of two by which it is divided, and the factor that
 * divides it. */
INLINED float2 powers_of(float most)
{
    /* The query is below 2 powers; clamped so that the inverse is a float, too. */
    const uint power = clamp(as_uint(most) & 0x7f800000u, 0x0a000000u, 0x7e000000u);
    return (float2)(as_float(power) * (2 / LARGEST), as_float(0x7f000000u - power) * (LARGEST / 2));
}

#endif
