/* Values in f32, f16, or 8 bits with a scale for every 32. The loops have no branches, so that compilers make
 * vectors of them. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ranks/mpi/wire.h"

enum { BLOCK = CLEF__WIRE_BLOCK, TILE = 512 /* values that are summed at once, in the first cache */ };

/* Below this a block is written as zeros: its scale would have no inverse. */
static const float least = 1e-36f;

typedef struct q8_block {
    float scale;
    int8_t q[BLOCK];
} q8_block;

size_t clef__wire_bytes(clef__wire wire, size_t n)
{
    switch (wire) {
    case CLEF__WIRE_F16:
        return n * sizeof(uint16_t);
    case CLEF__WIRE_Q8:
        return (n + BLOCK - 1) / BLOCK * sizeof(q8_block);
    default:
        return n * sizeof(float);
    }
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* `yes` where a < b, for numbers below 2^31; without a branch, which compilers would not make vectors of. */
static uint32_t where_less(uint32_t a, uint32_t b, uint32_t yes, uint32_t no)
{
    const uint32_t mask = (uint32_t)((int32_t)(a - b) >> 31);
    return no ^ ((yes ^ no) & mask);
}

/* IEEE binary16, rounded to nearest even. Beyond 65504 it is infinite. */
static uint16_t to_f16(float x)
{
    const uint32_t sign = bits_of(x) & 0x80000000u, u = bits_of(x) ^ sign;
    /* Subnormal: adding 0.5 puts the bits of the result at the end of the mantissa, rounded. */
    const uint32_t small = bits_of(of_bits(u) + 0.5f) - 0x3F000000u;
    const uint32_t normal =
        (u + 0xC8000FFFu + (u >> 13 & 1)) >> 13; /* exponent - 112, half a unit less one */
    uint32_t h = where_less(u, 0x38800000u, small, normal);
    h = where_less(u, 0x477FF000u, h, 0x7C00u);
    h = where_less(0x7F800000u, u, 0x7E00u, h);
    return (uint16_t)(h | sign >> 16);
}

static float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7FFF) << 13;
    const float scaled = of_bits(magnitude) * 0x1p112f; /* exponent + 112; right for subnormals, too */
    return of_bits(where_less(magnitude, 0x0F800000u, bits_of(scaled), magnitude | 0x7F800000u) | sign);
}

static void pack_f16(const float *restrict x, size_t n, uint16_t *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = to_f16(x[i]);
}

/* The nearest integer, for |x| below 2^22. */
static int32_t nearest(float x)
{
    return (int32_t)(bits_of(x + 0x1.8p23f) - 0x4B400000u);
}

static void pack_block(const float x[BLOCK], q8_block *out)
{
    float most = 0;
    uint32_t most_bits = 0; /* NaN and infinite values have the greatest bits */
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t u = bits_of(x[i]) & 0x7FFFFFFFu;
        most_bits = u > most_bits ? u : most_bits;
    }
    most = of_bits(most_bits);
    const int is_finite = most_bits < 0x7F800000u, is_zero = most < least;
    const float inverse = is_finite && !is_zero ? 127 / most : 0;
    out->scale = !is_finite ? NAN : is_zero ? 0 : most / 127;
    if (!is_finite) {
        memset(out->q, 1, sizeof out->q);
        return;
    }
    for (int i = 0; i < BLOCK; i++)
        out->q[i] = (int8_t)nearest(x[i] * inverse);
}

static void pack_q8(const float *x, size_t n, q8_block *out)
{
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        pack_block(x + i, out++);
    if (i == n)
        return;
    float last[BLOCK] = {0};
    memcpy(last, x + i, (n - i) * sizeof *x);
    pack_block(last, out);
}

void clef__wire_pack(clef__wire wire, const float *x, size_t n, void *out)
{
    if (wire == CLEF__WIRE_F16)
        pack_f16(x, n, out);
    else if (wire == CLEF__WIRE_Q8)
        pack_q8(x, n, out);
    else if (out != x)
        memcpy(out, x, n * sizeof *x);
}

/* Values begin.. of a part; begin is a multiple of BLOCK. TILE values fit into `out`. */
static void unpack(clef__wire wire, const void *part, size_t begin, size_t n, float *restrict out)
{
    if (wire == CLEF__WIRE_F32) {
        memcpy(out, (const float *)part + begin, n * sizeof *out);
    } else if (wire == CLEF__WIRE_F16) {
        const uint16_t *h = (const uint16_t *)part + begin;
        for (size_t i = 0; i < n; i++)
            out[i] = from_f16(h[i]);
    } else {
        const q8_block *block = (const q8_block *)part + begin / BLOCK;
        for (size_t i = 0; i < n; i += BLOCK, block++)
            for (size_t j = 0; j < BLOCK; j++)
                out[i + j] = block->scale * (float)block->q[j];
    }
}

static void sum_two(const float *a, const float *b, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = a[i] + b[i];
}

void clef__wire_sum(clef__wire wire, const void *const *parts, int32_t n_parts, float *x, size_t n)
{
    if (wire == CLEF__WIRE_F32 && n_parts == 2) {
        sum_two(parts[0], parts[1], x, n);
        return;
    }
    float sum[TILE], next[TILE];
    for (size_t begin = 0; begin < n; begin += TILE) {
        const size_t count = n - begin < TILE ? n - begin : TILE;
        unpack(wire, parts[0], begin, count, sum);
        for (int32_t j = 1; j < n_parts; j++) {
            if (wire == CLEF__WIRE_F32) {
                sum_two(sum, (const float *)parts[j] + begin, sum, count);
            } else {
                unpack(wire, parts[j], begin, count, next);
                sum_two(sum, next, sum, count);
            }
        }
        memcpy(x + begin, sum, count * sizeof *x);
    }
}
