/* Writes down a window of 30 seconds: one token after another, or by beams, at temperatures that rise until
 * the text passes the checks. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "media/speech/speech.h"
#include "model/session/sampler.h"

/* log sum e^x */
static double log_sum(const float *x, int32_t n)
{
    double most = -(double)INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++)
        most = (double)x[i] > most ? (double)x[i] : most;
    for (int32_t i = 0; i < n && most > -(double)INFINITY; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

static int32_t likeliest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

clef_status clef__window_begin(clef_transcriber *t, clef__window *w, int32_t *language, clef_error *err)
{
    const clef__speech_tokens *k = &t->tokens;
    const float *logits;
    clef_status s = clef_session_reset(t->session, err);
    if (!s)
        s = clef_session_feed(t->session, w->prompt, w->n_prompt - w->n_start + 1, &logits, err);
    if (s)
        return s;
    if (!clef__logits_finite(logits, t->hp->n_vocab))
        return clef__fail_not_finite(w->n_prompt, err);
    w->no_speech_prob = (float)exp((double)logits[k->no_speech] - log_sum(logits, t->hp->n_vocab));
    for (int32_t i = 0; language && i < k->n_languages; i++)
        if (*language < 0 || logits[k->languages[i]] > logits[*language])
            *language = k->languages[i];
    return CLEF_OK;
}

/* How many tokens the window's text may have. */
static int32_t most_tokens(const clef_transcriber *t, const clef_transcribe_opts *o, const clef__window *w)
{
    const int32_t n_context = clef_session_n_context(t->session), half = n_context / 2 - 1,
                  room = n_context - w->n_prompt;
    const int64_t own = (int64_t)t->max_length + (w->n_prompt < half ? w->n_prompt : half) - w->n_prompt;
    const int64_t most = o->n_max ? o->n_max : own;
    return most < 1 ? 1 : most < room ? (int32_t)most : room;
}

/* ---- one token after another -------------------------------------------------------------------- */

/* Samples the token after the window's text and adds its log-probability to *sum. */
static clef_status sample(clef_transcriber *t, const clef__window *w, const float *logits,
                          clef_sampler *sampler, int32_t *id, double *sum, clef_error *err)
{
    const int32_t n_vocab = t->hp->n_vocab;
    if (!clef__logits_finite(logits, n_vocab))
        return clef__fail_not_finite(w->n_prompt + w->n, err);
    memcpy(t->logits, logits, (size_t)n_vocab * sizeof *logits);
    clef__speech_ban(t, w, w->ids, w->n, t->logits);
    *id = sampler ? clef_sampler_pick(sampler, t->logits) : likeliest(t->logits, n_vocab);
    if (*id < 0 || isinf(t->logits[*id]))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "generation_config.json: no token of the vocabulary is allowed after %" PRId32
                          " tokens",
                          w->n_prompt + w->n);
    *sum += (double)t->logits[*id] - log_sum(t->logits, n_vocab);
    return CLEF_OK;
}

static clef_status decode_tokens(clef_transcriber *t, const clef_transcribe_opts *o, clef__window *w,
                                 clef_error *err)
{
    const int32_t n_before = w->n_prompt - w->n_start, n_most = most_tokens(t, o, w);
    const clef_sampler_opts opts = {.temperature = w->temperature, .seed = o->seed};
    clef_sampler *sampler = NULL;
    const float *logits;
    int32_t id = -1;
    double sum = 0;
    w->n = 0;
    clef_status s = clef_session_keep(t->session, n_before, err);
    if (!s && w->temperature > 0)
        s = clef_sampler_create(t->hp->n_vocab, &opts, &sampler, err);
    if (!s)
        s = clef_session_feed(t->session, w->prompt + n_before, w->n_start, &logits, err);
    while (!s && w->n < n_most) {
        s = sample(t, w, logits, sampler, &id, &sum, err);
        if (s || id == t->tokens.end)
            break;
        w->ids[w->n++] = id;
        if (w->n < n_most)
            s = clef_session_feed(t->session, &id, 1, &logits, err);
    }
    clef_sampler_destroy(sampler);
    w->avg_logprob = (float)(sum / (w->n + (id == t->tokens.end)));
    return s;
}

/* ---- beams --------------------------------------------------------------------------------------- */

typedef struct ban_user {
    const clef_transcriber *t;
    const clef__window *w;
} ban_user;

static void ban(void *user, const int32_t *text, int32_t n, float *logits)
{
    const ban_user *u = user;
    clef__speech_ban(u->t, u->w, text + u->w->n_prompt, n - u->w->n_prompt, logits);
}

static clef_status decode_beams(clef_transcriber *t, const clef_transcribe_opts *o, clef__window *w,
                                clef_error *err)
{
    ban_user user = {t, w};
    const clef_beam_opts opts = {
        .length_penalty = 1, .n_best = 1, .n_max = most_tokens(t, o, w), .ban = ban, .ban_user = &user};
    clef_hypothesis *best;
    int32_t n;
    clef_status s = clef_session_beams(t->session, w->prompt, w->n_prompt, &opts, &best, &n, err);
    if (s)
        return s;
    w->n = n ? best->n : 0;
    w->avg_logprob = n ? best->score : 0;
    if (w->n)
        memcpy(w->ids, best->ids, (size_t)w->n * sizeof *w->ids);
    clef_hypotheses_free(best, n);
    return CLEF_OK;
}

/* ---- temperatures -------------------------------------------------------------------------------- */

static float threshold(float given, float usual)
{
    return given == 0 ? usual : given;
}

/* 1 if the text is not good enough, unless the window is silence. */
static int fails(const clef_transcribe_opts *o, const clef__window *w, int32_t *skip)
{
    const float compression = threshold(o->most_compression, 2.4F), logprob = threshold(o->least_logprob, -1),
                silence = threshold(o->most_no_speech, 0.6F);
    const int is_unlikely = logprob <= 0 && w->avg_logprob < logprob;
    *skip = silence >= 0 && is_unlikely && w->no_speech_prob > silence;
    return !*skip && (is_unlikely || (compression > 0 && w->compression_ratio > compression));
}

clef_status clef__window_decode(clef_transcriber *t, const clef_transcribe_opts *o, clef__window *w,
                                int32_t *skip, clef_error *err)
{
    static const float usual[] = {0, 0.2F, 0.4F, 0.6F, 0.8F, 1};
    const float *temperatures = o->temperatures ? o->temperatures : usual;
    const int32_t n = o->temperatures ? o->n_temperatures : (int32_t)(sizeof usual / sizeof *usual);
    *skip = 0;
    for (int32_t i = 0; i < n; i++) {
        w->temperature = temperatures[i];
        const int beams = t->opts.n_beams > 0 && w->temperature == 0;
        const clef_status s = beams ? decode_beams(t, o, w, err) : decode_tokens(t, o, w, err);
        if (s)
            return s;
        w->compression_ratio = clef__compression_ratio(w->ids, w->n, t->hp->n_vocab);
        if (!fails(o, w, skip))
            break;
    }
    return CLEF_OK;
}
