/* Half floats and GGUF's block formats (ggml-common.h and quantize_row_*_ref of ggml say what a block means and how it is rounded). */
#include "graph/blocks.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32 };

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

static float get_scale(const uint8_t *block)
{
    return clef__f16_decode((uint16_t)(block[0] | block[1] << 8));
}

static void put_scale(uint8_t *block, float d)
{
    const uint16_t h = clef__f16_encode(d);
    block[0] = (uint8_t)(h & 255);
    block[1] = (uint8_t)(h >> 8);
}

void clef__q8_0_decode(const uint8_t block[34], float x[BLOCK])
{
    const float d = get_scale(block);
    for (int i = 0; i < BLOCK; i++)
        x[i] = d * (float)(int8_t)block[2 + i];
}

/* Out of range only when x is not finite: NaN becomes 0. */
static uint8_t q8_0_code(float x)
{
    const float q = roundf(x);
    return (uint8_t)(int8_t)(q >= 127 ? 127 : q > -127 ? q : q == q ? -127 : 0);
}

void clef__q8_0_encode(const float x[BLOCK], uint8_t block[34])
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    put_scale(block, d);
    for (int i = 0; i < BLOCK; i++)
        block[2 + i] = q8_0_code(x[i] * inverse);
}

void clef__q4_0_decode(const uint8_t block[18], float x[BLOCK])
{
    const float d = get_scale(block);
    for (int i = 0; i < BLOCK / 2; i++) {
        x[i] = d * (float)((block[2 + i] & 15) - 8);
        x[i + BLOCK / 2] = d * (float)((block[2 + i] >> 4) - 8);
    }
}

/* The value of the largest magnitude becomes exactly -8 d, so that all 16 codes are used. */
static uint8_t q4_0_code(float x, float inverse)
{
    const float q = x * inverse + 8.5f;
    return (uint8_t)(q >= 15 ? 15 : q > 0 ? q : 0);
}

void clef__q4_0_encode(const float x[BLOCK], uint8_t block[18])
{
    float most = 0, at_most = 0;
    for (int i = 0; i < BLOCK; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            at_most = x[i];
        }
    const float d = at_most / -8, inverse = d != 0 ? 1 / d : 0;
    put_scale(block, d);
    for (int i = 0; i < BLOCK / 2; i++)
        block[2 + i] = (uint8_t)(q4_0_code(x[i], inverse) | q4_0_code(x[i + BLOCK / 2], inverse) << 4);
}
