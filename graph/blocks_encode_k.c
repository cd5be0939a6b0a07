/* Encodes Q2_K to Q6_K: blocks of 256 in groups with a scale each; the scales are coded relative to the
 * block's. Several scales are tried for each group. For the codes of each try, the best scale (and minimum)
 * follow by least squares, in which each element has a weight. */
#include <math.h>
#include <string.h>

#include "graph/blocks.h"

enum { BLOCK = 256, GROUP = 32, SMALL_GROUP = 16, MOST_GROUPS = BLOCK / SMALL_GROUP, N_TRIES = 10 };

/* Clamps q and rounds to even; NaN becomes the least value. Beyond 2^23 a float has no fraction, so the sum
 * rounds. Compilers turn this into vector code, where rintf() would be a call. */
static inline float clamp_round(float q, float least, float most)
{
    const float over = q > least ? q : least, in = over < most ? over : most;
    return in + 0x1.8p23f - 0x1.8p23f;
}

/* ---- x = d q - m ----------------------------------------------------------------------------- */

/* Groups of n elements, 32 or 16; the largest code of an element, and that of a scale or minimum. */
typedef struct line_format {
    int n;
    float most, most_scale;
} line_format;

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
static void code_line(line_format f, const float *x, float d, float m, float *codes)
{
    const float inverse = d > 0 ? 1 / d : 0;
    for (int i = 0; i < f.n; i++)
        codes[i] = clamp_round((x[i] + m) * inverse, 0, f.most);
}

static float line_error(line_format f, const float *x, const float *w, float d, float m, const float *codes)
{
    float error[LANES] = {0};
    for (int i = 0; i < f.n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            const float e = d * codes[i + k] - m - x[i + k];
            error[k] += w[i + k] * e * e;
        }
    return sum_lanes(error);
}

/* The best line for the codes of l. */
static line refit(line_format f, const float *x, const float *w, float total, line l)
{
    float codes[GROUP], q[LANES] = {0}, qq[LANES] = {0}, xs[LANES] = {0}, xq[LANES] = {0};
    code_line(f, x, l.d, l.m, codes);
    for (int i = 0; i < f.n; i += LANES)
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
    best.error = line_error(f, x, w, best.d, best.m, codes);
    return best;
}

static line fit_line(line_format f, const float *x, const float *w)
{
    float lo = 0, hi = 0, total = 0;
    for (int i = 0; i < f.n; i++)
        total += w[i];
    for (int i = 0; i < f.n; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    if (!(hi - lo > 0) || !isfinite(hi - lo))
        return (line){0};
    line best = refit(f, x, w, total, (line){.d = (hi - lo) / f.most, .m = -lo});
    for (int t = 1; t <= 2 * N_TRIES;
         t++) { /* tries ranges that cut off a little, at both ends or at the upper one alone */
        const float cut = 0.02f * (float)((t + 1) / 2), low = t % 2 ? lo : lo * (1 - cut);
        const line l = refit(f, x, w, total, (line){.d = (hi * (1 - cut) - low) / f.most, .m = -low});
        const line again = refit(f, x, w, total, l);
        const line *better = again.error < l.error ? &again : &l;
        if (better->error < best.error && better->d >= 0)
            best = *better;
    }
    return best;
}

/* Chooses the codes of a group's line: of the nearest codes and their neighbours, those with the least
 * error. */
static void choose_codes(line_format f, const float *x, const float *w, const line *l, float d, float m,
                         uint8_t codes[2])
{
    const float at_d = d > 0 ? clamp_round(l->d / d, 0, f.most_scale) : 0,
                at_m = m > 0 ? clamp_round(l->m / m, 0, f.most_scale) : 0;
    float best = INFINITY, q[GROUP];
    codes[0] = (uint8_t)at_d;
    codes[1] = (uint8_t)at_m;
    for (int k = 0; k < 9; k++) {
        const float a = at_d + (float)(k / 3 - 1), b = at_m + (float)(k % 3 - 1);
        if (a < 0 || a > f.most_scale || b < 0 || b > f.most_scale)
            continue;
        code_line(f, x, d * a, m * b, q);
        const float error = line_error(f, x, w, d * a, m * b, q);
        if (error < best) {
            best = error;
            codes[0] = (uint8_t)a;
            codes[1] = (uint8_t)b;
        }
    }
}

/* Writes d and m (4 bytes), and gives the codes of each group's line and those of the elements. */
static void encode_lines(line_format f, const float *x, const float *importance, uint8_t *halves,
                         uint8_t codes[][2], uint8_t q[BLOCK])
{
    float w[BLOCK], d = 0, m = 0, exact[GROUP];
    line lines[MOST_GROUPS];
    clef__set_weights(x, importance, BLOCK, f.n, 1, w);
    for (int s = 0; s < BLOCK / f.n; s++) {
        lines[s] = fit_line(f, x + f.n * s, w + f.n * s);
        d = fmaxf(d, lines[s].d);
        m = fmaxf(m, lines[s].m);
    }
    d = clef__put_half(halves, d / f.most_scale);
    m = clef__put_half(halves + 2, m / f.most_scale);
    for (int s = 0; s < BLOCK / f.n; s++) {
        choose_codes(f, x + f.n * s, w + f.n * s, &lines[s], d, m, codes[s]);
        code_line(f, x + f.n * s, d * (float)codes[s][0], m * (float)codes[s][1], exact);
        for (int i = 0; i < f.n; i++)
            q[f.n * s + i] = (uint8_t)exact[i];
    }
}

/* The head of Q4_K and Q5_K: the halves, and 12 bytes that six_bits() of cl/blocks.h reads. */
static void encode_head(const float *x, const float *importance, float most, uint8_t head[16],
                        uint8_t q[BLOCK])
{
    uint8_t codes[BLOCK / GROUP][2], *to = head + 4;
    encode_lines((line_format){GROUP, most, 63}, x, importance, head, codes, q);
    for (int s = 0; s < 4; s++) {
        to[s] = (uint8_t)(codes[s][0] | (codes[s + 4][0] >> 4) << 6);
        to[s + 4] = (uint8_t)(codes[s][1] | (codes[s + 4][1] >> 4) << 6);
        to[s + 8] = (uint8_t)((codes[s + 4][0] & 15) | (codes[s + 4][1] & 15) << 4);
    }
}

/* Writes two bits of each element as crumb() of cl/blocks.h reads them. */
static void put_crumbs(const uint8_t q[BLOCK], int shift, uint8_t to[BLOCK / 4])
{
    memset(to, 0, BLOCK / 4);
    for (int i = 0; i < BLOCK; i++)
        to[i / 128 * 32 + i % 32] |= (uint8_t)((q[i] >> shift & 3) << 2 * (i % 128 / 32));
}

void clef__q2_k_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    uint8_t q[BLOCK], codes[MOST_GROUPS][2];
    encode_lines((line_format){SMALL_GROUP, 3, 15}, x, importance, block + 80, codes, q);
    for (int s = 0; s < MOST_GROUPS; s++)
        block[s] = (uint8_t)(codes[s][0] | codes[s][1] << 4);
    put_crumbs(q, 0, block + 16);
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
    encode_head(x, importance, 15, block, q);
    put_nibbles(q, block + 16);
}

void clef__q5_k_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    uint8_t q[BLOCK];
    encode_head(x, importance, 31, block, q);
    memset(block + 16, 0, GROUP);
    for (int i = 0; i < BLOCK; i++)
        block[16 + i % GROUP] |= (uint8_t)((q[i] >> 4) << i / GROUP);
    put_nibbles(q, block + 48);
}

/* ---- x = d q --------------------------------------------------------------------------------- */

/* Keeps the scale that is best for the codes at 1 / inverse, if it is better than *best. *gain: how much the
 * squared error falls by it. */
static void try_scale(const float *x, const float *w, float inverse, float least, float *best, float *gain)
{
    float xq = 0, qq = 0;
    for (int i = 0; i < SMALL_GROUP; i++) {
        const float q = clamp_round(x[i] * inverse, least, -least - 1);
        xq += w[i] * x[i] * q;
        qq += w[i] * q * q;
    }
    if (qq > 0 && xq * xq > *gain * qq) {
        *gain = xq * xq / qq;
        *best = xq / qq;
    }
}

/* The best scale, of either sign, for codes from least to -least - 1. */
static float fit_scale(const float *x, const float *w, float least)
{
    float most = 0, best = 0, gain = 0;
    for (int i = 0; i < SMALL_GROUP; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    if (most == 0 || !isfinite(most))
        return 0;
    for (int t = -N_TRIES; t <= N_TRIES; t++) { /* the largest element at the least code, or near it */
        try_scale(x, w, (least + 0.1f * (float)t) / most, least, &best, &gain);
        if (least > -8) /* of few codes the largest is another choice */
            try_scale(x, w, (-least - 1 + 0.1f * (float)t) / most, least, &best, &gain);
    }
    return best;
}

/* The codes of the groups' scales, from least_scale to -least_scale - 1, and of the elements. Returns the
 * block's scale, which is written to `half`. */
static void encode_scales(const float *x, const float *importance, float least, float least_scale,
                          uint8_t *half, int8_t codes[MOST_GROUPS], uint8_t q[BLOCK])
{
    float scales[MOST_GROUPS], most = 0, w[BLOCK];
    clef__set_weights(x, importance, BLOCK, SMALL_GROUP, 0, w);
    for (int g = 0; g < MOST_GROUPS; g++) {
        scales[g] = fit_scale(x + SMALL_GROUP * g, w + SMALL_GROUP * g, least);
        most = fabsf(scales[g]) > fabsf(most) ? scales[g] : most;
    }
    const float d = clef__put_half(half, most / least_scale), inverse = d != 0 ? 1 / d : 0;
    for (int g = 0; g < MOST_GROUPS; g++) {
        const float code = clamp_round(scales[g] * inverse, least_scale, -least_scale - 1), dg = d * code,
                    inverse_g = dg != 0 ? 1 / dg : 0;
        codes[g] = (int8_t)code;
        for (int i = SMALL_GROUP * g; i < SMALL_GROUP * (g + 1); i++)
            q[i] = (uint8_t)(clamp_round(x[i] * inverse_g, least, -least - 1) - least);
    }
}

void clef__q3_k_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    int8_t codes[MOST_GROUPS];
    uint8_t q[BLOCK], *scales = block + 96;
    encode_scales(x, importance, -4, -32, block + 108, codes, q);
    memset(block, 0, 32);
    for (int i = 0; i < BLOCK; i++)
        block[i % 32] |= (uint8_t)((q[i] >> 2) << i / 32);
    put_crumbs(q, 0, block + 32);
    memset(scales, 0, 12);
    for (int g = 0; g < MOST_GROUPS; g++) {
        const int code = codes[g] + 32;
        scales[g % 8] |= (uint8_t)((code & 15) << g / 8 * 4);
        scales[8 + g % 4] |= (uint8_t)((code >> 4) << g / 4 * 2);
    }
}

void clef__q6_k_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    int8_t codes[MOST_GROUPS];
    uint8_t q[BLOCK];
    encode_scales(x, importance, -32, -128, block + 208, codes, q);
    memcpy(block + 192, codes, sizeof codes);
    for (int i = 0; i < BLOCK / 2; i++) {
        const uint8_t *pair = q + i / 64 * 128 + i % 64;
        block[i] = (uint8_t)((pair[0] & 15) | (pair[64] & 15) << 4);
    }
    put_crumbs(q, 4, block + 128);
}
