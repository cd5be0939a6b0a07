/* Half floats. */
#include "graph/blocks.h"

#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

float clef__f16_decode(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = (float)fraction * 0x1p-24f; /* subnormal: exact in f32 */
    return sign ? -small : small;
}

uint16_t clef__f16_encode(float x)
{
    const uint32_t u = bits_of(x), magnitude = u & 0x7fffffffu;
    const uint32_t sign = u >> 16 & 0x8000u;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu)); /* NaN, made quiet */
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u); /* 65520 and more round to infinity */
    if (magnitude < 0x38800000u) {         /* below 2^-14: a multiple of 2^-24; the addition rounds to even */
        const float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000u));
    }
    const uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | ((magnitude + 0xfffu + odd - 0x38000000u) >> 13));
}

float clef__bf16_decode(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t clef__bf16_encode(float x)
{
    const uint32_t u = bits_of(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 64); /* NaN, made quiet */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
