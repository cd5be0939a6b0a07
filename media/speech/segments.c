/* Divides a window's text at its timestamps (transformers, generation_whisper.py, _retrieve_segment). */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "media/speech/speech.h"

static const double seconds_of_frame = 0.01;

clef_status clef__speech_text(const clef_transcriber *t, const int32_t *ids, int32_t n, char **out,
                              clef_error *err)
{
    int32_t *text = malloc(((size_t)n + 1) * sizeof *text), n_text = 0;
    size_t n_bytes;
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the text of %d tokens", n);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < t->tokens.end)
            text[n_text++] = ids[i];
    const clef_status s = clef_tokenizer_decode(t->tok, text, n_text, out, &n_bytes, err);
    free(text);
    return s;
}

void clef__segment_finish(clef_segment *g)
{
    for (int32_t i = 0; i < g->n_words; i++)
        free(g->words[i].text);
    free(g->words);
    clef_text_free(g->text);
    free(g->ids);
    *g = (clef_segment){0};
}

/* What the segments of a window share. */
typedef struct place {
    const clef_transcriber *t;
    const clef__window *w;
    int32_t seek;
    const double *times; /* NULL: no words */
    clef_transcript *out;
} place;

/* Appends the window's ids from .. to - 1 as a segment from start to end seconds. */
static clef_status append(const place *p, int32_t from, int32_t to, double start, double end, clef_error *err)
{
    clef_transcript *out = p->out;
    const clef__window *w = p->w;
    clef_segment *more = realloc(out->segments, ((size_t)out->n_segments + 1) * sizeof *more);
    if (!more)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for segment %d", out->n_segments);
    out->segments = more;
    clef_segment *g = &more[out->n_segments++];
    const double offset = p->seek * seconds_of_frame;
    *g = (clef_segment){.start = offset + start,
                        .end = offset + end,
                        .seek = p->seek,
                        .n_ids = to - from,
                        .temperature = w->temperature,
                        .avg_logprob = w->avg_logprob,
                        .compression_ratio = w->compression_ratio,
                        .no_speech_prob = w->no_speech_prob};
    g->ids = malloc(((size_t)g->n_ids + 1) * sizeof *g->ids);
    if (!g->ids)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for segment %d", out->n_segments - 1);
    if (g->n_ids)
        memcpy(g->ids, w->ids + from, (size_t)g->n_ids * sizeof *g->ids);
    clef_status s = clef__speech_text(p->t, g->ids, g->n_ids, &g->text, err);
    if (!s && p->times)
        s = clef__segment_words(p->t, out->language, p->times + from, offset, g, err);
    return s;
}

static int is_time(const place *p, int32_t i)
{
    return i >= 0 && i < p->w->n && p->w->ids[i] >= p->t->tokens.first_time;
}

/* The time of token i, in seconds of the window. */
static double time_at(const place *p, int32_t i)
{
    return (p->w->ids[i] - p->t->tokens.first_time) * CLEF__SECONDS_OF_TIME;
}

/* The whole text is a segment: up to its last timestamp, or to the sound's end. */
static clef_status append_all(const place *p, int32_t *n_frames, clef_error *err)
{
    const clef__window *w = p->w;
    int32_t last = w->n - 1;
    while (last >= 0 && !is_time(p, last))
        last--;
    const int has_time = last >= 0 && w->ids[last] != p->t->tokens.first_time;
    *n_frames = w->n_frames;
    return append(p, 0, w->n, 0, has_time ? time_at(p, last) : w->n_frames / 2 * CLEF__SECONDS_OF_TIME, err);
}

clef_status clef__window_segments(const clef_transcriber *t, const clef__window *w, int32_t seek,
                                  const double *times, clef_transcript *out, int32_t *n_frames,
                                  clef_error *err)
{
    const place p = {t, w, seek, times, out};
    const int is_ended = is_time(&p, w->n - 1) && !is_time(&p, w->n - 2); /* no speech after it */
    clef_status s = CLEF_OK;
    int32_t from = 0, n_pairs = 0;
    for (int32_t i = 1; i < w->n; i++)
        n_pairs += is_time(&p, i - 1) && is_time(&p, i);
    if (!n_pairs || !w->is_timed)
        return append_all(&p, n_frames, err);
    for (int32_t i = 1; i < w->n && !s; i++) {
        if (!is_time(&p, i - 1) || !is_time(&p, i))
            continue;
        const int is_last = --n_pairs == 0 && !is_ended; /* it keeps both times */
        const int32_t to = is_last ? i + 1 : i;
        s = append(&p, from, to, time_at(&p, from), time_at(&p, i - 1), err);
        from = to;
    }
    if (!s && is_ended)
        s = append(&p, from, w->n, time_at(&p, from), time_at(&p, w->n - 1), err);
    /* What follows the last pair is not whole: the next window begins there. */
    *n_frames = is_ended ? w->n_frames : 2 * (w->ids[from - 2] - t->tokens.first_time);
    return s;
}
