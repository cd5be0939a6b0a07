/* Picks the next token on the host: options, recent tokens, and the number of the draw. graph/op/sample.c
 * picks. */
#include "model/session/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "graph/fail.h"

enum { DEFAULT_LAST_N = 64 };

struct clef_sampler {
    sample_options options;
    int32_t n_vocab, last_n;
    clef_candidate *candidates; /* [n_vocab] */
    int32_t *recent;            /* ring of the last tokens */
    int32_t n_recent, next_recent;
    uint64_t n_draws;
};

static clef_status check_options(const clef_sampler_opts *o, clef_error *err)
{
    if (!(o->temperature >= 0) || isinf(o->temperature))
        return clef__fail(err, CLEF_E_ARG, "temperature %g, expected 0 or more", (double)o->temperature);
    if (o->top_k < 0)
        return clef__fail(err, CLEF_E_ARG, "top-k %d, expected 0 (off) or more", o->top_k);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return clef__fail(err, CLEF_E_ARG, "top-p %g, expected 0 to 1", (double)o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return clef__fail(err, CLEF_E_ARG, "min-p %g, expected 0 to 1", (double)o->min_p);
    if (!(o->repeat_penalty >= 0) || isinf(o->repeat_penalty))
        return clef__fail(err, CLEF_E_ARG, "repeat-penalty %g, expected more than 0",
                          (double)o->repeat_penalty);
    if (o->repeat_last_n < 0)
        return clef__fail(err, CLEF_E_ARG, "repeat-last-n %d, expected 0 or more", o->repeat_last_n);
    return CLEF_OK;
}

/* The limit is far from the ends of float, so that it does not matter how a device handles denormals or
 * infinities. */
static float scale_of(float temperature)
{
    const double scale = 1.4426950408889634 / (double)temperature;
    return (float)fmin(fmax(scale, 1e-30), 1e30);
}

/* Tokens farther than this below the largest logit are never picked: min-p's limit plus 1e-4, because weights
 * are rounded. If top-p needs the sum of all weights, there is no limit. */
static uint32_t reach_of(const clef_sampler_opts *o)
{
    const double most = (double)SAMPLE_REACH;
    const int by_min_p = o->min_p > 0 && (o->top_p == 0 || o->top_p == 1);
    return (uint32_t)(by_min_p ? fmin((1e-4 - log2((double)o->min_p)) * 0x1p24, most) : most);
}

clef_status clef__sampler_options(const clef_sampler_opts *opts, int32_t first, sample_options *out,
                                  clef_error *err)
{
    const clef_sampler_opts none = {0}, *o = opts ? opts : &none;
    const clef_status s = check_options(o, err);
    *out = (sample_options){.mode = SAMPLE_GREEDY, .first = first};
    if (s)
        return s;
    if (o->repeat_penalty != 0 && o->repeat_penalty != 1) {
        out->last_n = o->repeat_last_n ? o->repeat_last_n : DEFAULT_LAST_N;
        out->penalty = o->repeat_penalty;
        out->inverse_penalty = 1.0f / o->repeat_penalty;
    }
    if (o->temperature == 0)
        return CLEF_OK;
    const uint64_t least = (uint64_t)((double)o->min_p * 0x1p40);
    out->mode = SAMPLE_DRAW;
    out->top_k = o->top_k;
    if (o->top_p > 0 && o->top_p < 1)
        out->top_p = (uint32_t)fmax((double)o->top_p * 0x1p32, 1);
    out->scale = scale_of(o->temperature);
    if ((out->top_p || o->min_p > 0) && o->temperature != 1) { /* they see the temperature 1 */
        out->draw_scale = out->scale;
        out->scale = scale_of(1);
    }
    out->min_weight_lo = (uint32_t)least;
    out->min_weight_hi = (uint32_t)(least >> 32);
    out->reach = reach_of(o);
    out->seed_lo = (uint32_t)o->seed;
    out->seed_hi = (uint32_t)(o->seed >> 32);
    return CLEF_OK;
}

clef_status clef_sampler_create(int32_t n_vocab, const clef_sampler_opts *opts, clef_sampler **out,
                                clef_error *err)
{
    *out = NULL;
    sample_options options;
    clef_status s = clef__sampler_options(opts, 0, &options, err);
    if (!s && n_vocab < 1)
        s = clef__fail(err, CLEF_E_ARG, "a vocabulary of %d, expected at least 1", n_vocab);
    if (s)
        return s;
    clef_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a sampler");
    sampler->options = options;
    sampler->last_n = options.last_n ? options.last_n : 1;
    sampler->n_vocab = n_vocab;
    sampler->candidates = malloc((size_t)n_vocab * sizeof *sampler->candidates);
    sampler->recent = malloc((size_t)sampler->last_n * sizeof *sampler->recent);
    if (!sampler->candidates || !sampler->recent) {
        clef_sampler_destroy(sampler);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d candidates", n_vocab);
    }
    *out = sampler;
    return CLEF_OK;
}

void clef_sampler_destroy(clef_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->candidates);
    free(sampler->recent);
    free(sampler);
}

void clef_sampler_accept(clef_sampler *s, int32_t id)
{
    if (id < 0 || id >= s->n_vocab)
        return;
    s->recent[s->next_recent] = id;
    s->next_recent = (s->next_recent + 1) % s->last_n;
    if (s->n_recent < s->last_n)
        s->n_recent++;
}

int32_t clef_sampler_pick(clef_sampler *s, const float *logits)
{
    const int32_t n_recent = s->options.last_n ? s->n_recent : 0;
    return clef__sample_pick(&s->options, logits, s->n_vocab, s->recent, n_recent, s->n_draws++, 0,
                             s->candidates);
}
