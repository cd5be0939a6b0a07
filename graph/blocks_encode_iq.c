/* Encodes IQ3_S: blocks of 256, in which each 4 magnitudes are an entry of a codebook of 512, each 32 have a
 * scale of 4 bits, and each element has a sign. */
#include <math.h>
#include <string.h>

#include "clef/graph.h"
#include "graph/blocks.h"

enum { BLOCK = 256, GROUP = 32, QUAD = 4, N_GROUPS = BLOCK / GROUP, QUADS = GROUP / QUAD, N_ENTRIES = 512 };
enum { BLOCK_BYTES = 110, MOST = 15, DIGITS = (MOST + 1) / 2, N_TRIES = 9, N_BEST = 4 };

/* ---- the codebook ---------------------------------------------------------------------------- */

/* The magnitudes of all entries, odd numbers up to 15. They are sorted by their last, so those with last
 * 1 + 2 k are first[k] .. first[k + 1] - 1. */
typedef struct codebook {
    float at[QUAD][N_ENTRIES];
    int first[DIGITS + 1];
} codebook;

/* Writes entry `e` as number i of a block. */
static void put_entry(uint8_t *block, int i, int e)
{
    block[2 + i] = (uint8_t)(e & 255);
    block[66 + i / 8] = (uint8_t)((i % 8 ? block[66 + i / 8] : 0) | (e >> 8) << i % 8);
}

/* Decodes all entries, which are in cl/grids.h. */
static void read_codebook(codebook *book)
{
    enum { PER_BLOCK = BLOCK / QUAD };
    uint8_t block[BLOCK_BYTES] = {0};
    float x[BLOCK];
    clef__put_half(block, 1);
    for (int e = 0; e < N_ENTRIES; e++) {
        put_entry(block, e % PER_BLOCK, e);
        if (e % PER_BLOCK < PER_BLOCK - 1)
            continue;
        clef__block_decode(CLEF_IQ3_S, block, x);
        for (int i = 0; i < BLOCK; i++)
            book->at[i % QUAD][e - PER_BLOCK + 1 + i / QUAD] = x[i];
    }
    for (int k = 0, e = 0; k <= DIGITS; k++) {
        while (e < N_ENTRIES && book->at[QUAD - 1][e] < (float)(1 + 2 * k))
            e++;
        book->first[k] = e;
    }
}

/* The entry that is nearest to y, of all whose last magnitude is 1 + 2 k, if it is nearer than *error. */
static void nearest_with(const codebook *book, int k, const float *y, const float *w, int *best, float *error)
{
    const float last = (float)(1 + 2 * k) - y[3], bound = w[3] * last * last;
    for (int e = book->first[k]; bound < *error && e < book->first[k + 1]; e++) {
        float sum = bound;
        for (int i = 0; i < QUAD - 1; i++)
            sum += w[i] * (book->at[i][e] - y[i]) * (book->at[i][e] - y[i]);
        if (sum < *error) {
            *error = sum;
            *best = e;
        }
    }
}

static int nearest_entry(const codebook *book, const float *y, const float *w)
{
    const float middle = (y[3] - 1) / 2;
    const int near = middle >= DIGITS - 1 ? DIGITS - 1 : middle > 0 ? (int)(middle + 0.5f) : 0;
    int best = 0;
    float error = INFINITY;
    for (int step = 0; step < DIGITS; step++) {
        if (near + step < DIGITS)
            nearest_with(book, near + step, y, w, &best, &error);
        if (step > 0 && near >= step)
            nearest_with(book, near - step, y, w, &best, &error);
    }
    return best;
}

/* ---- a group --------------------------------------------------------------------------------- */

/* Entries, and what decides their best scale: the weighted sums of x v and of v v. */
typedef struct group {
    int entries[QUADS];
    float xv, vv;
} group;

static group fit_entries(const codebook *book, const float *x, const float *w, float d)
{
    const float inverse = d > 0 ? 1 / d : 0;
    group g = {.xv = 0};
    for (int k = 0; k < QUADS; k++) {
        float y[QUAD];
        for (int i = 0; i < QUAD; i++)
            y[i] = fabsf(x[QUAD * k + i]) * inverse;
        g.entries[k] = nearest_entry(book, y, w + QUAD * k);
        for (int i = 0; i < QUAD; i++) {
            const float v = book->at[i][g.entries[k]], wv = w[QUAD * k + i] * v;
            g.xv += fabsf(x[QUAD * k + i]) * wv;
            g.vv += v * wv;
        }
    }
    return g;
}

/* The best scale of the magnitudes that are nearest at scale d, whether or not the codebook has them. *gain:
 * how much the squared error falls by it. */
static float free_scale(const float *x, const float *w, float d, float *gain)
{
    float xv = 0, vv = 0;
    for (int i = 0; i < GROUP; i++) {
        const float q = (fabsf(x[i]) / d - 1) / 2, v = 1 + 2 * (q >= DIGITS - 1 ? DIGITS - 1
                                                                : q > 0         ? floorf(q + 0.5f)
                                                                                : 0);
        xv += w[i] * fabsf(x[i]) * v;
        vv += w[i] * v * v;
    }
    *gain = vv > 0 ? xv * xv / vv : 0;
    return vv > 0 ? xv / vv : 0;
}

/* The best scale: tries those that are best without the codebook. */
static float fit_group(const codebook *book, const float *x, const float *w)
{
    float most = 0, scales[N_BEST] = {0}, gains[N_BEST] = {0}, best = 0, best_gain = 0;
    for (int i = 0; i < GROUP; i++)
        most = fmaxf(most, fabsf(x[i]));
    if (most == 0 || !isfinite(most))
        return 0;
    for (int t = -N_TRIES; t <= N_TRIES; t++) {
        float gain;
        const float d = free_scale(x, w, most / (MOST + 0.2f * (float)t), &gain);
        int at = N_BEST;
        for (; at > 0 && gain > gains[at - 1]; at--)
            if (at < N_BEST) {
                gains[at] = gains[at - 1];
                scales[at] = scales[at - 1];
            }
        if (at < N_BEST) {
            gains[at] = gain;
            scales[at] = d;
        }
    }
    for (int k = 0; k < N_BEST; k++) {
        const group g = fit_entries(book, x, w, scales[k]);
        if (g.vv > 0 && g.xv * g.xv > best_gain * g.vv) {
            best_gain = g.xv * g.xv / g.vv;
            best = g.xv / g.vv;
        }
    }
    return best;
}

/* Chooses the code of a group's scale and its entries: of the nearest code and its neighbours, those of the
 * least error. */
static int choose_code(const codebook *book, const float *x, const float *w, float scale, float d,
                       group *chosen)
{
    const float middle = d > 0 ? (scale / d - 1) / 2 : 0;
    const int near = middle >= MOST ? MOST : middle > 0 ? (int)(middle + 0.5f) : 0;
    int best = near;
    float best_error = INFINITY;
    *chosen = (group){.xv = 0};
    for (int code = near > 0 ? near - 1 : 0; code <= near + 1 && code <= MOST; code++) {
        const float at = d * (float)(1 + 2 * code);
        const group g = fit_entries(book, x, w, at);
        const float error = at * (at * g.vv - 2 * g.xv);
        if (error < best_error) {
            best_error = error;
            best = code;
            *chosen = g;
        }
    }
    return best;
}

/* ---- the block ------------------------------------------------------------------------------- */

void clef__iq3_s_encode_weighted(const float *x, const float *importance, uint8_t *block)
{
    codebook book;
    float w[BLOCK], scales[N_GROUPS], most = 0, xv = 0, vv = 0;
    uint8_t half[2];
    read_codebook(&book);
    clef__set_weights(x, importance, BLOCK, GROUP, 1, w);
    for (int k = 0; k < N_GROUPS; k++) {
        scales[k] = fit_group(&book, x + GROUP * k, w + GROUP * k);
        most = fmaxf(most, scales[k]);
    }
    const float d = clef__put_half(half, most / (1 + 2 * MOST));
    memset(block, 0, BLOCK_BYTES);
    for (int k = 0; k < N_GROUPS; k++) {
        group g;
        const int code = choose_code(&book, x + GROUP * k, w + GROUP * k, scales[k], d, &g);
        const float s = (float)(1 + 2 * code);
        block[106 + k / 2] |= (uint8_t)(code << k % 2 * 4);
        for (int i = 0; i < QUADS; i++)
            put_entry(block, QUADS * k + i, g.entries[i]);
        xv += s * g.xv;
        vv += s * s * g.vv;
    }
    for (int i = 0; i < BLOCK; i++)
        block[74 + i / 8] |= (uint8_t)((x[i] < 0) << i % 8);
    clef__put_half(block, d > 0 && vv > 0 ? xv / vv : 0); /* the best for all codes */
}
