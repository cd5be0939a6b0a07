/* Encodes blocks without K formats. ggml's quantize_row_*_ref define the rounding of Q8_0, Q4_0, Q4_1, Q5_0,
 * Q5_1, Q1_0 and Q2_0. */
#include <math.h>

#include "clef/graph.h"
#include "graph/blocks.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

float clef__put_half(uint8_t *to, float d)
{
    const uint16_t h = clef__f16_encode(d);
    to[0] = (uint8_t)(h & 255);
    to[1] = (uint8_t)(h >> 8);
    return clef__f16_decode(h);
}

static float inverse_of(float d)
{
    return d != 0 ? 1 / d : 0;
}

/* Truncates to an integer from 0 to most; NaN becomes 0. */
static uint8_t code_of(float q, uint8_t most)
{
    return (uint8_t)(q >= (float)most ? (float)most : q > 0 ? q : 0);
}

/* Writes nibbles in the order that all these formats have. The bits 4 go to `high`, 4 bytes, unless it is
 * NULL. */
static void put_codes(const uint8_t codes[BLOCK], uint8_t *nibbles, uint8_t *high)
{
    for (int i = 0; i < HALF; i++)
        nibbles[i] = (uint8_t)((codes[i] & 15) | (codes[i + HALF] & 15) << 4);
    for (int i = 0; high && i < BLOCK; i++)
        high[i / 8] = (uint8_t)((i % 8 ? high[i / 8] : 0) | (codes[i] >> 4) << i % 8);
}

/* The element of the largest magnitude, the first of equals. */
static float most_of(const float *x)
{
    float most = 0, at_most = 0;
    for (int i = 0; i < BLOCK; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            at_most = x[i];
        }
    return at_most;
}

/* Out of range only if x is not finite: NaN becomes 0. */
static uint8_t q8_0_code(float x)
{
    const float q = roundf(x);
    return (uint8_t)(int8_t)(q >= 127 ? 127 : q > -127 ? q : q == q ? -127 : 0);
}

void clef__q8_0_encode(const float *x, uint8_t *block)
{
    const float d = fabsf(most_of(x)) / 127, inverse = inverse_of(d);
    clef__put_half(block, d);
    for (int i = 0; i < BLOCK; i++)
        block[2 + i] = q8_0_code(x[i] * inverse);
}

/* The value of the largest magnitude becomes exactly -middle d, so that all codes are used. Returns d. */
static float centred_codes(const float *x, int middle, uint8_t codes[BLOCK])
{
    const float d = most_of(x) / (float)-middle, inverse = inverse_of(d);
    for (int i = 0; i < BLOCK; i++)
        codes[i] = code_of(x[i] * inverse + ((float)middle + 0.5f), (uint8_t)(2 * middle - 1));
    return d;
}

/* The codes range from the least element, which is returned in *low, to the largest. Returns d. */
static float ranged_codes(const float *x, uint8_t most, uint8_t codes[BLOCK], float *low)
{
    float high = -INFINITY;
    *low = INFINITY;
    for (int i = 0; i < BLOCK; i++) {
        *low = x[i] < *low ? x[i] : *low;
        high = x[i] > high ? x[i] : high;
    }
    const float d = (high - *low) / (float)most, inverse = inverse_of(d);
    for (int i = 0; i < BLOCK; i++)
        codes[i] = code_of((x[i] - *low) * inverse + 0.5f, most);
    return d;
}

void clef__q4_0_encode(const float *x, uint8_t *block)
{
    uint8_t codes[BLOCK];
    clef__put_half(block, centred_codes(x, 8, codes));
    put_codes(codes, block + 2, NULL);
}

void clef__q5_0_encode(const float *x, uint8_t *block)
{
    uint8_t codes[BLOCK];
    clef__put_half(block, centred_codes(x, 16, codes));
    put_codes(codes, block + 6, block + 2);
}

void clef__q4_1_encode(const float *x, uint8_t *block)
{
    uint8_t codes[BLOCK];
    float low;
    clef__put_half(block, ranged_codes(x, 15, codes, &low));
    clef__put_half(block + 2, low);
    put_codes(codes, block + 4, NULL);
}

void clef__q5_1_encode(const float *x, uint8_t *block)
{
    uint8_t codes[BLOCK];
    float low;
    clef__put_half(block, ranged_codes(x, 31, codes, &low));
    clef__put_half(block + 2, low);
    put_codes(codes, block + 8, block + 4);
}

/* ---- importance ------------------------------------------------------------------------------ */

void clef__set_weights(const float *x, const float *importance, int n, int group, int by_size, float *w)
{
    float squares = 0;
    for (int i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (int i = 0; i < n; i++)
        w[i] = !importance ? 1 : importance[i] * (by_size ? sqrtf(2 * squares / (float)n + x[i] * x[i]) : 1);
    for (int g = 0; importance && g < n; g += group) {
        float sum = 0;
        for (int i = 0; i < group; i++)
            sum += w[g + i];
        for (int i = 0; i < group && !(sum > 0 && isfinite(sum)); i++)
            w[g + i] = 1;
    }
}

/* ---- formats whose 16 numbers are not evenly spaced ------------------------------------------ */

static const float iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
static const float mxfp4_values[16] = {-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12};

/* The value nearest to q, of ascending values. */
static uint8_t nearest_code(const float values[16], float q)
{
    int lo = 0, hi = 15;
    while (hi - lo > 1) {
        const int middle = (lo + hi) / 2;
        *(q < values[middle] ? &hi : &lo) = middle;
    }
    return (uint8_t)(q - values[lo] < values[hi] - q ? lo : hi);
}

/* The codes at scale d, and their squared error minus that of all zeros (negative: better). The best scale
 * for these codes is sum xv / sum vv. w: NULL, or a weight for each. */
typedef struct fit {
    float xv, vv;
} fit;

static fit fit_codes(const float *x, const float *w, int n, const float values[16], float d, uint8_t *codes)
{
    const float inverse = inverse_of(d);
    fit f = {0, 0};
    for (int i = 0; i < n; i++) {
        codes[i] = nearest_code(values, x[i] * inverse);
        const float v = values[codes[i]], wv = w ? w[i] * v : v;
        f.xv += x[i] * wv;
        f.vv += v * wv;
    }
    return f;
}

static float error_at(fit f, float d)
{
    return d * (d * f.vv - 2 * f.xv);
}

/* Of the scales at which the largest of 32 elements is near the least number, the best. */
static float iq4_scale(const float *x, const float *w)
{
    const float most = most_of(x);
    uint8_t codes[BLOCK];
    float best = 0, best_error = 0;
    for (int t = -8; t <= 8; t++) {
        const fit f = fit_codes(x, w, BLOCK, iq4_values, most / (iq4_values[0] + (float)t), codes);
        const float d = f.vv > 0 ? f.xv / f.vv : 0, error = error_at(f, d);
        if (error < best_error) {
            best_error = error;
            best = d;
        }
    }
    return best;
}

void clef__iq4_nl_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    uint8_t codes[BLOCK];
    float w[BLOCK];
    clef__set_weights(x, importance, BLOCK, BLOCK, 1, w);
    fit_codes(x, w, BLOCK, iq4_values, clef__put_half(block, iq4_scale(x, w)), codes);
    put_codes(codes, block + 2, NULL);
}

/* The code of a group's scale, plus 32: of the nearest code and its neighbours, that of the least error. */
static int iq4_xs_code(const float *x, const float *w, float scale, float d)
{
    uint8_t codes[BLOCK];
    const int near = d != 0 ? code_of(scale / d + 32.5f, 63) : 32;
    int best = 32;
    float best_error = 0;
    for (int code = near > 0 ? near - 1 : 0; code <= near + 1 && code < 64; code++) {
        const float at = d * (float)(code - 32),
                    error = error_at(fit_codes(x, w, BLOCK, iq4_values, at, codes), at);
        if (error < best_error) {
            best_error = error;
            best = code;
        }
    }
    return best;
}

void clef__iq4_xs_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    enum { N = 256, GROUPS = N / BLOCK };
    float w[N], scales[GROUPS], most = 0;
    uint8_t codes[BLOCK];
    uint32_t high = 0;
    clef__set_weights(x, importance, N, BLOCK, 1, w);
    for (int k = 0; k < GROUPS; k++) {
        scales[k] = iq4_scale(x + BLOCK * k, w + BLOCK * k);
        most = fabsf(scales[k]) > fabsf(most) ? scales[k] : most;
    }
    const float d = clef__put_half(block, most / -32);
    for (int k = 0; k < GROUPS; k++) {
        const int code = iq4_xs_code(x + BLOCK * k, w + BLOCK * k, scales[k], d);
        high |= (uint32_t)(code >> 4) << 2 * k;
        block[4 + k / 2] = (uint8_t)((k % 2 ? block[4 + k / 2] : 0) | (code & 15) << k % 2 * 4);
        fit_codes(x + BLOCK * k, NULL, BLOCK, iq4_values, d * (float)(code - 32), codes);
        put_codes(codes, block + 8 + HALF * k, NULL);
    }
    block[2] = (uint8_t)(high & 255);
    block[3] = (uint8_t)(high >> 8);
}

/* In files the codes 1 to 7 are the positive numbers, 9 to 15 the negative ones. */
static uint8_t stored_e2m1(uint8_t code)
{
    return (uint8_t)(code >= 8 ? code - 8 : code < 7 ? 15 - code : 0);
}

/* 2^(e - 128), which is exact in f32; the two least are subnormals. */
static float power_of_two(int e)
{
    return ldexpf(1, e - 128);
}

void clef__mxfp4_encode(const float *x, uint8_t *block)
{
    uint8_t codes[BLOCK];
    int first = 0, best = 0;
    float best_error = 0;
    frexpf(most_of(x), &first); /* most in [2^(first - 1), 2^first): 2^(first - 3) makes it 4 to 8 of the
                                   doubled numbers' 12 */
    for (int e = first + 128 - 4; e <= first + 128 - 2; e++) {
        if (e < 1 || e > 254)
            continue;
        const fit f = fit_codes(x, NULL, BLOCK, mxfp4_values, power_of_two(e), codes);
        const float error = error_at(f, power_of_two(e));
        if (error < best_error) {
            best_error = error;
            best = e;
        }
    }
    fit_codes(x, NULL, BLOCK, mxfp4_values, power_of_two(best), codes);
    for (int i = 0; i < BLOCK; i++)
        codes[i] = best ? stored_e2m1(codes[i]) : 0;
    block[0] = (uint8_t)best;
    put_codes(codes, block + 1, NULL);
}

/* Half of the number that a byte of E4M3 means. */
static float e4m3_half(int u)
{
    return u < 8 ? ldexpf((float)u, -10) : ldexpf((float)(8 + u % 8), u / 8 - 11);
}

/* The 16 elements of a scale: of the scales near to the one that makes the largest element 6, that of the
 * least squared error. Returns it. */
static uint8_t nvfp4_part(const float *x, uint8_t codes[16])
{
    float most = 0, best_error = 0;
    int near = 0, best = 0;
    for (int i = 0; i < 16; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    while (near < 126 && e4m3_half(near) * 12 < most)
        near++;
    for (int u = near > 4 ? near - 3 : 1; u <= near + 3 && u <= 126; u++) {
        const float d = e4m3_half(u), error = error_at(fit_codes(x, NULL, 16, mxfp4_values, d, codes), d);
        if (error < best_error) {
            best_error = error;
            best = u;
        }
    }
    fit_codes(x, NULL, 16, mxfp4_values, e4m3_half(best), codes);
    for (int i = 0; i < 16; i++)
        codes[i] = best ? stored_e2m1(codes[i]) : 0;
    return (uint8_t)best;
}

void clef__nvfp4_encode(const float *x, uint8_t *block)
{
    uint8_t codes[16];
    for (int g = 0; g < 4; g++) {
        block[g] = nvfp4_part(x + 16 * (size_t)g, codes);
        for (int i = 0; i < 8; i++)
            block[4 + 8 * g + i] = (uint8_t)(codes[i] | codes[8 + i] << 4);
    }
}

/* ---- one and two bits ------------------------------------------------------------------------ */

void clef__q1_0_encode(const float *x, uint8_t *block)
{
    enum { N = 128 };
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum += fabsf(x[i]);
    clef__put_half(block, sum / N);
    for (int i = 0; i < N; i++)
        block[2 + i / 8] = (uint8_t)((i % 8 ? block[2 + i / 8] : 0) | (x[i] >= 0) << i % 8);
}

void clef__q2_0_encode(const float *x, uint8_t *block)
{
    enum { N = 64 };
    float most = 0;
    for (int i = 0; i < N; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    clef__put_half(block, most);
    for (int i = 0; i < N; i++) {
        const uint8_t code = code_of(roundf(x[i] * inverse_of(most)) + 1, 3);
        block[2 + i / 4] = (uint8_t)((i % 4 ? block[2 + i / 4] : 0) | code << i % 4 * 2);
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The weighted encoders, and the same with equal weights. */
#define WEIGHTED(X)                                                                                          \
    X(Q2_K, q2_k)                                                                                            \
    X(Q3_K, q3_k)                                                                                            \
    X(Q4_K, q4_k)                                                                                            \
    X(Q5_K, q5_k)                                                                                            \
    X(Q6_K, q6_k)                                                                                            \
    X(IQ4_NL, iq4_nl)                                                                                        \
    X(IQ4_XS, iq4_xs)                                                                                        \
    X(IQ3_S, iq3_s)

#define EQUALLY(NAME, name)                                                                                  \
    static void name##_encode(const float *x, uint8_t *block)                                                \
    {                                                                                                        \
        clef__##name##_encode_weighted(x, NULL, block);                                                      \
    }
WEIGHTED(EQUALLY)

clef_block_encoder *clef__block_encoder(int dtype)
{
    static clef_block_encoder *const encoders[CLEF_N_DTYPES] = {[CLEF_Q8_0] = clef__q8_0_encode,
                                                                [CLEF_Q4_0] = clef__q4_0_encode,
                                                                [CLEF_Q4_1] = clef__q4_1_encode,
                                                                [CLEF_Q5_0] = clef__q5_0_encode,
                                                                [CLEF_Q5_1] = clef__q5_1_encode,
                                                                [CLEF_MXFP4] = clef__mxfp4_encode,
                                                                [CLEF_NVFP4] = clef__nvfp4_encode,
                                                                [CLEF_Q1_0] = clef__q1_0_encode,
                                                                [CLEF_Q2_0] = clef__q2_0_encode,
#define ENCODER(NAME, name) [CLEF_##NAME] = name##_encode,
                                                                WEIGHTED(ENCODER)};
    return dtype >= 0 && dtype < CLEF_N_DTYPES ? encoders[dtype] : NULL;
}

clef_weighted_encoder *clef__weighted_encoder(int dtype)
{
    static clef_weighted_encoder *const encoders[CLEF_N_DTYPES] = {
#define WEIGHTED_ENCODER(NAME, name) [CLEF_##NAME] = clef__##name##_encode_weighted,
        WEIGHTED(WEIGHTED_ENCODER)};
    return dtype >= 0 && dtype < CLEF_N_DTYPES ? encoders[dtype] : NULL;
}
