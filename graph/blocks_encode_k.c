/* Encodes Q4_K, Q5_K and Q6_K: blocks of 256 in groups with a scale each; the scales are coded relative to
 * the block's. Several scales are tried for each group. For the codes of each try, the best scale (and
 * minimum) follow by least squares, in which each element has a weight. */
#include <math.h>
#include <string.h>

#include "graph/blocks.h"

enum {
    BLOCK = 256,
    GROUP = 32,
    N_GROUPS = BLOCK / GROUP,
    GROUP_6 = 16,
    N_GROUPS_6 = BLOCK / GROUP_6,
    N_TRIES = 10
};

/* Writes d as a half, and returns the value that a reader gets. */
static float put_half(uint8_t *to, float d)
{
    const uint16_t h = clef__f16_encode(d);
    to[0] = (uint8_t)(h & 255);
    to[1] = (uint8_t)(h >> 8);
    return clef__f16_decode(h);
}

/* Clamps q and rounds to even; NaN becomes the least value. Beyond 2^23 a float has no fraction, so the sum
 * rounds. Compilers turn this into vector code, where rintf() would be a call. */
static inline float clamp_round(float q, float least, float most)
{
    const float over = q > least ? q : least, in = over < most ? over : most;
    return in + 0x1.8p23f - 0x1.8p23f;
}

/* ---- x = d q - m ----------------------------------------------------------------------------- */

typedef struct line {
    float d, m; /* both >= 0 */
    float error;
} line;

/* Sums are kept in lanes, so that the order of the additions allows vector code. */
enum { LANES = 8 };

static float sum_lanes(const float lanes[LANES])
{
    float sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

/* The codes for line l. */
static void code_line(const float x[GROUP], float d, float m, float most, float codes[GROUP])
{
    const float inverse = d > 0 ? 1 / d : 0;
    for (int i = 0; i < GROUP; i++)
        codes[i] = clamp_round((x[i] + m) * inverse, 0, most);
}

static float line_error(const float x[GROUP], const float w[GROUP], float d, float m,
                        const float codes[GROUP])
{
    float error[LANES] = {0};
    for (int i = 0; i < GROUP; i += LANES)
        for (int k = 0; k < LANES; k++) {
            const float e = d * codes[i + k] - m - x[i + k];
            error[k] += w[i + k] * e * e;
        }
    return sum_lanes(error);
}

/* The best line for the codes of l. */
static line refit(const float x[GROUP], const float w[GROUP], float total, line l, float most)
{
    float codes[GROUP], q[LANES] = {0}, qq[LANES] = {0}, xs[LANES] = {0}, xq[LANES] = {0};
    code_line(x, l.d, l.m, most, codes);
    for (int i = 0; i < GROUP; i += LANES)
        for (int k = 0; k < LANES; k++) {
            const float c = codes[i + k], wc = w[i + k] * c, wx = w[i + k] * x[i + k];
            q[k] += wc;
            qq[k] += wc * c;
            xs[k] += wx;
            xq[k] += wx * c;
        }
    const float sq = sum_lanes(q), sqq = sum_lanes(qq), sx = sum_lanes(xs), sxq = sum_lanes(xq),
                det = total * sqq - sq * sq;
    line best = l;
    if (det > 0) {
        best.d = (total * sxq - sq * sx) / det;
        best.m = (best.d * sq - sx) / total;
    }
    if (best.m < 0 && sqq > 0) { /* the least element is above 0: a line through the origin */
        best.m = 0;
        best.d = sxq / sqq;
    }
    best.error = line_error(x, w, best.d, best.m, codes);
    return best;
}

static line fit_line(const float x[GROUP], const float w[GROUP], float most)
{
    float lo = 0, hi = 0, total = 0;
    for (int i = 0; i < GROUP; i++)
        total += w[i];
    for (int i = 0; i < GROUP; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    if (!(hi - lo > 0) || !isfinite(hi - lo))
        return (line){0};
    line best = refit(x, w, total, (line){.d = (hi - lo) / most, .m = -lo}, most);
    for (int t = 1; t <= 2 * N_TRIES;
         t++) { /* tries ranges that cut off a little, at both ends or at the upper one alone */
        const float cut = 0.02f * (float)((t + 1) / 2), low = t % 2 ? lo : lo * (1 - cut);
        const line l = refit(x, w, total, (line){.d = (hi * (1 - cut) - low) / most, .m = -low}, most);
        const line again = refit(x, w, total, l, most);
        const line *better = again.error < l.error ? &again : &l;
        if (better->error < best.error && better->d >= 0)
            best = *better;
    }
    return best;
}

/* Chooses the 6-bit codes of a group's line: of the nearest codes and their neighbours, those with the least
 * error. */
static void choose_codes(const float x[GROUP], const float w[GROUP], const line *l, float d, float m,
                         float most, uint8_t codes[2])
{
    const float at_d = d > 0 ? clamp_round(l->d / d, 0, 63) : 0,
                at_m = m > 0 ? clamp_round(l->m / m, 0, 63) : 0;
    float best = INFINITY, q[GROUP];
    codes[0] = (uint8_t)at_d;
    codes[1] = (uint8_t)at_m;
    for (int k = 0; k < 9; k++) {
        const float a = at_d + (float)(k / 3 - 1), b = at_m + (float)(k % 3 - 1);
        if (a < 0 || a > 63 || b < 0 || b > 63)
            continue;
        code_line(x, d * a, m * b, most, q);
        const float error = line_error(x, w, d * a, m * b, q);
        if (error < best) {
            best = error;
            codes[0] = (uint8_t)a;
            codes[1] = (uint8_t)b;
        }
    }
}

/* Writes the 12 bytes that six_bits() of cl/blocks.h reads. */
static void put_six_bits(uint8_t codes[N_GROUPS][2], uint8_t to[12])
{
    for (int s = 0; s < 4; s++) {
        to[s] = (uint8_t)(codes[s][0] | (codes[s + 4][0] >> 4) << 6);
        to[s + 4] = (uint8_t)(codes[s][1] | (codes[s + 4][1] >> 4) << 6);
        to[s + 8] = (uint8_t)((codes[s + 4][0] & 15) | (codes[s + 4][1] & 15) << 4);
    }
}

/* Writes the head of Q4_K and Q5_K (16 bytes), and the code of each element. */
static void encode_lines(const float *x, const float *importance, float most, uint8_t head[16],
                         uint8_t q[BLOCK])
{
    float w[BLOCK];
    clef__set_weights(x, importance, BLOCK, GROUP, 1, w);
    line lines[N_GROUPS];
    uint8_t codes[N_GROUPS][2];
    float d = 0, m = 0, exact[GROUP];
    for (int s = 0; s < N_GROUPS; s++) {
        lines[s] = fit_line(x + GROUP * s, w + GROUP * s, most);
        d = fmaxf(d, lines[s].d);
        m = fmaxf(m, lines[s].m);
    }
    d = put_half(head, d / 63);
    m = put_half(head + 2, m / 63);
    for (int s = 0; s < N_GROUPS; s++) {
        choose_codes(x + GROUP * s, w + GROUP * s, &lines[s], d, m, most, codes[s]);
        code_line(x + GROUP * s, d * (float)codes[s][0], m * (float)codes[s][1], most, exact);
        for (int i = 0; i < GROUP; i++)
            q[GROUP * s + i] = (uint8_t)exact[i];
    }
    put_six_bits(codes, head + 4);
}

static void put_nibbles(const uint8_t q[BLOCK], uint8_t to[BLOCK / 2])
{
    for (int i = 0; i < BLOCK / 2; i++) {
        const uint8_t *pair = q + i / GROUP * 2 * GROUP + i % GROUP;
        to[i] = (uint8_t)((pair[0] & 15) | (pair[GROUP] & 15) << 4);
    }
}

void clef__q4_k_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    uint8_t q[BLOCK];
    encode_lines(x, importance, 15, block, q);
    put_nibbles(q, block + 16);
}

void clef__q5_k_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    uint8_t q[BLOCK];
    encode_lines(x, importance, 31, block, q);
    memset(block + 16, 0, GROUP);
    for (int i = 0; i < BLOCK; i++)
        block[16 + i % GROUP] |= (uint8_t)((q[i] >> 4) << i / GROUP);
    put_nibbles(q, block + 48);
}

/* ---- x = d q --------------------------------------------------------------------------------- */

/* The best scale, of either sign, for codes from -32 to 31. */
static float fit_scale(const float x[GROUP_6], const float w[GROUP_6])
{
    float most = 0, best = 0, best_gain = 0;
    for (int i = 0; i < GROUP_6; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    if (most == 0 || !isfinite(most))
        return 0;
    for (int t = -N_TRIES; t <= N_TRIES; t++) { /* the largest element at -32, or a little to its sides */
        const float inverse = (-32 + 0.1f * (float)t) / most;
        float xq = 0, qq = 0;
        for (int i = 0; i < GROUP_6; i++) {
            const float q = clamp_round(x[i] * inverse, -32, 31);
            xq += w[i] * x[i] * q;
            qq += w[i] * q * q;
        }
        if (qq > 0 && xq * xq > best_gain * qq) {
            best_gain = xq * xq / qq; /* how much the squared error falls */
            best = xq / qq;
        }
    }
    return best;
}

void clef__q6_k_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    float scales[N_GROUPS_6], most = 0, w[BLOCK];
    uint8_t q[BLOCK];
    clef__set_weights(x, importance, BLOCK, GROUP_6, 0, w);
    for (int g = 0; g < N_GROUPS_6; g++) {
        scales[g] = fit_scale(x + GROUP_6 * g, w + GROUP_6 * g);
        most = fabsf(scales[g]) > fabsf(most) ? scales[g] : most;
    }
    const float d = put_half(block + 208, most / -128), inverse = d != 0 ? 1 / d : 0;
    for (int g = 0; g < N_GROUPS_6; g++) {
        const float code = clamp_round(scales[g] * inverse, -128, 127), dg = d * code,
                    inverse_g = dg != 0 ? 1 / dg : 0;
        block[192 + g] = (uint8_t)(int8_t)code;
        for (int i = 0; i < GROUP_6; i++)
            q[GROUP_6 * g + i] = (uint8_t)(clamp_round(x[GROUP_6 * g + i] * inverse_g, -32, 31) + 32);
    }
    memset(block + 128, 0, 64);
    for (int i = 0; i < BLOCK / 2; i++) {
        const uint8_t *pair = q + i / 64 * 128 + i % 64;
        block[i] = (uint8_t)((pair[0] & 15) | (pair[64] & 15) << 4);
    }
    for (int i = 0; i < BLOCK; i++)
        block[128 + i / 128 * 32 + i % 32] |= (uint8_t)((q[i] >> 4) << 2 * (i % 128 / 32));
}

/* ---- without importance ---------------------------------------------------------------------- */

void clef__q4_k_encode(const float *x, uint8_t *block)
{
    clef__q4_k_encode_weighted(x, NULL, block);
}

void clef__q5_k_encode(const float *x, uint8_t *block)
{
    clef__q5_k_encode_weighted(x, NULL, block);
}

void clef__q6_k_encode(const float *x, uint8_t *block)
{
    clef__q6_k_encode_weighted(x, NULL, block);
}
