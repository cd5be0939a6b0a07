/* Bits and numbers, as the instructions of both vendors' GPUs have them. */
#ifndef CLEF_LAB_GPU_BITS_H
#define CLEF_LAB_GPU_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t gpu_reverse(uint32_t a)
{
    uint32_t out = 0;
    for (int i = 0; i < 32; i++)
        out |= (a >> i & 1) << (31 - i);
    return out;
}

/* Rounds towards zero; beyond the limits to them; NaN to 0. */
static inline uint32_t gpu_to_int(float a, double least, double most)
{
    const double x = a != a ? 0 : (double)a < least ? least : (double)a > most ? most : (double)a;
    return (uint32_t)(int64_t)x;
}

static inline float gpu_float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t gpu_float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline double gpu_half_of(uint16_t bits)
{
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (double)half;
}

/* Rounds to the nearest half, ties to even. */
static inline uint16_t gpu_half_bits(double a)
{
    const _Float16 half = (_Float16)a;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

#endif
