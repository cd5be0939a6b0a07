/* When each token is said: dynamic time warping over the attention of some heads to the source (transformers,
 * generation_whisper.py, _extract_token_timestamps). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "media/speech/speech.h"

/* ---- the attention of the heads ------------------------------------------------------------------ */

/* Copies the heads' rows of the last step to weights [heads, n, n_frames], row i. */
static clef_status read_row(clef_transcriber *t, int32_t i, int32_t n, int32_t n_frames, float *rows,
                            float *weights, clef_error *err)
{
    const int32_t width = t->hp->n_source;
    const size_t n_bytes = (size_t)t->hp->n_heads * (size_t)width * sizeof *rows;
    int32_t layer = -1;
    for (int32_t k = 0; k < t->n_heads; k++) {
        char name[40];
        if (t->heads[k].layer != layer) {
            layer = t->heads[k].layer;
            snprintf(name, sizeof name, "cross_attention_%" PRId32, layer);
            const int32_t output = clef_plan_output(t->session->plan, name);
            const clef_status s = clef_plan_read(t->session->plan, output, rows, n_bytes, err);
            if (s)
                return s;
        }
        memcpy(weights + ((size_t)k * (size_t)n + (size_t)i) * (size_t)n_frames,
               rows + (size_t)t->heads[k].head * (size_t)width, (size_t)n_frames * sizeof *rows);
    }
    return CLEF_OK;
}

/* Feeds the window's text again, token by token, and collects the heads' attention. */
static clef_status collect(clef_transcriber *t, const clef__window *w, int32_t n_frames, float *weights,
                           clef_error *err)
{
    const float *logits;
    float *rows = malloc((size_t)t->hp->n_heads * (size_t)t->hp->n_source * sizeof *rows);
    clef_status s = rows ? clef_session_reset(t->session, err)
                         : clef__fail(err, CLEF_E_NOMEM, "no memory for rows of attention");
    if (!s)
        s = clef_session_feed(t->session, w->prompt, w->n_prompt, &logits, err);
    for (int32_t i = 0; i < w->n && !s; i++) {
        s = clef_session_feed(t->session, &w->ids[i], 1, &logits, err);
        if (!s)
            s = read_row(t, i, w->n, n_frames, rows, weights, err);
    }
    free(rows);
    return s;
}

/* ---- their mean ---------------------------------------------------------------------------------- */

/* Gives each column [n] of x [n, n_frames] a mean of 0 and a deviation of 1. */
static void standardise(float *x, int32_t n, int32_t n_frames)
{
    for (int32_t k = 0; k < n_frames; k++) {
        double sum = 0, squares = 0;
        for (int32_t i = 0; i < n; i++)
            sum += (double)x[(size_t)i * (size_t)n_frames + (size_t)k];
        for (int32_t i = 0; i < n; i++) {
            const double d = (double)x[(size_t)i * (size_t)n_frames + (size_t)k] - sum / n;
            squares += d * d;
        }
        const double deviation = sqrt(squares / n);
        for (int32_t i = 0; i < n; i++) {
            float *at = &x[(size_t)i * (size_t)n_frames + (size_t)k];
            *at = deviation > 0 ? (float)(((double)*at - sum / n) / deviation) : 0;
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Adds the medians of `width` neighbours in a row, which is mirrored at its ends, to `sums`. */
static void add_medians(const float *row, int32_t n, int32_t width, double *sums)
{
    float near[99];
    const int32_t reach = width / 2;
    for (int32_t k = 0; k < n; k++) {
        if (n <= reach) { /* too short to be mirrored */
            sums[k] += (double)row[k];
            continue;
        }
        for (int32_t j = -reach; j <= reach; j++) {
            int32_t at = k + j < 0 ? -(k + j) : k + j;
            at = at >= n ? 2 * (n - 1) - at : at;
            near[j + reach] = row[at];
        }
        qsort(near, (size_t)(2 * reach + 1), sizeof *near, by_size);
        sums[k] += (double)near[reach];
    }
}

/* ---- the path ------------------------------------------------------------------------------------ */

enum { BOTH, TOKEN, FRAME };

/* The cheapest path through cost [n, n_frames]: first[i] is the first frame of token i. */
static int find_path(const double *cost, int32_t n, int32_t n_frames, int32_t *first)
{
    const size_t width = (size_t)n_frames + 1;
    unsigned char *steps = malloc(((size_t)n + 1) * width);
    float *sums = malloc(2 * width * sizeof *sums), *last = sums, *row = sums ? sums + width : NULL;
    int32_t i = n, j = n_frames;
    if (!steps || !sums) {
        free(steps);
        free(sums);
        return 0;
    }
    for (size_t k = 0; k < width; k++)
        last[k] = k ? INFINITY : 0;
    for (int32_t a = 1; a <= n; a++) {
        row[0] = INFINITY;
        for (int32_t b = 1; b <= n_frames; b++) {
            const float both = last[b - 1], token = last[b], frame = row[b - 1];
            const int step = both < token && both < frame    ? BOTH
                             : token < both && token < frame ? TOKEN
                                                             : FRAME;
            const float best = step == BOTH ? both : step == TOKEN ? token : frame;
            row[b] = (float)(cost[(size_t)(a - 1) * (size_t)n_frames + (size_t)(b - 1)] + (double)best);
            steps[(size_t)a * width + (size_t)b] = (unsigned char)step;
        }
        float *old = last;
        last = row;
        row = old;
    }
    while (i > 0 || j > 0) {
        const int step = i == 0 ? FRAME : j == 0 ? TOKEN : steps[(size_t)i * width + (size_t)j];
        if (i > 0)
            first[i - 1] = j > 0 ? j - 1 : 0;
        i -= step != FRAME;
        j -= step != TOKEN;
    }
    free(steps);
    free(sums);
    return 1;
}

clef_status clef__speech_align(clef_transcriber *t, const clef__window *w, double *times, clef_error *err)
{
    const int32_t n = w->n, n_frames = w->n_frames < 2 ? 1 : w->n_frames / 2;
    const size_t size = (size_t)n * (size_t)n_frames;
    float *weights = malloc((size_t)t->n_heads * size * sizeof *weights + 1);
    double *cost = calloc(size + 1, sizeof *cost);
    int32_t *first = calloc((size_t)n + 1, sizeof *first);
    clef_status s =
        weights && cost && first
            ? collect(t, w, n_frames, weights, err)
            : clef__fail(err, CLEF_E_NOMEM, "no memory for the attention of %" PRId32 " tokens", n);
    for (int32_t k = 0; k < t->n_heads && !s; k++) {
        standardise(weights + (size_t)k * size, n, n_frames);
        for (int32_t i = 0; i < n; i++)
            add_medians(weights + (size_t)k * size + (size_t)i * (size_t)n_frames, n_frames, t->median_width,
                        cost + (size_t)i * (size_t)n_frames);
    }
    for (size_t i = 0; i < size && !s; i++)
        cost[i] = -cost[i] / t->n_heads;
    if (!s && !find_path(cost, n, n_frames, first))
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for a path of %" PRId32 " tokens", n);
    for (int32_t i = 0; i <= n && !s; i++)
        times[i] = n ? first[i < n ? i : n - 1] * CLEF__SECONDS_OF_TIME : 0;
    free(weights);
    free(cost);
    free(first);
    return s;
}
