/* Picking the next token: repetition penalty, temperature, top-k, top-p, min-p, then a draw; or the largest logit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clef/generate.h"
#include "graph/fail.h"

enum { DEFAULT_LAST_N = 64 };

typedef struct candidate {
    float logit, p;
    int32_t id;
} candidate;

struct clef_sampler {
    clef_sampler_opts opts;
    int32_t n_vocab;
    candidate *candidates; /* [n_vocab] */
    int32_t *recent;       /* ring of the last tokens */
    int32_t n_recent, next_recent;
    uint64_t state;
};

static clef_status check(const clef_sampler_opts *o, clef_error *err)
{
    if (!(o->temperature >= 0) || isinf(o->temperature))
        return clef__fail(err, CLEF_E_ARG, "temperature %g, wanted 0 or more", (double)o->temperature);
    if (o->top_k < 0)
        return clef__fail(err, CLEF_E_ARG, "top-k %d, wanted 0 (off) or more", o->top_k);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return clef__fail(err, CLEF_E_ARG, "top-p %g, wanted 0 to 1", (double)o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return clef__fail(err, CLEF_E_ARG, "min-p %g, wanted 0 to 1", (double)o->min_p);
    if (!(o->repeat_penalty >= 0) || isinf(o->repeat_penalty))
        return clef__fail(err, CLEF_E_ARG, "repeat-penalty %g, wanted more than 0", (double)o->repeat_penalty);
    if (o->repeat_last_n < 0)
        return clef__fail(err, CLEF_E_ARG, "repeat-last-n %d, wanted 0 or more", o->repeat_last_n);
    return CLEF_OK;
}

clef_status clef_sampler_create(int32_t n_vocab, const clef_sampler_opts *opts, clef_sampler **out, clef_error *err)
{
    *out = NULL;
    const clef_sampler_opts none = {0};
    clef_status s = check(opts ? opts : &none, err);
    if (!s && n_vocab < 1)
        s = clef__fail(err, CLEF_E_ARG, "a vocabulary of %d, wanted at least 1", n_vocab);
    if (s)
        return s;
    clef_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a sampler");
    sampler->opts = opts ? *opts : none;
    if (!sampler->opts.repeat_last_n)
        sampler->opts.repeat_last_n = DEFAULT_LAST_N;
    sampler->n_vocab = n_vocab;
    sampler->state = sampler->opts.seed;
    sampler->candidates = malloc((size_t)n_vocab * sizeof *sampler->candidates);
    sampler->recent = malloc((size_t)sampler->opts.repeat_last_n * sizeof *sampler->recent);
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
    s->next_recent = (s->next_recent + 1) % s->opts.repeat_last_n;
    if (s->n_recent < s->opts.repeat_last_n)
        s->n_recent++;
}

/* SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine. Uniform in [0, 1) from its upper 53 bits. */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* Larger logit first; of equals the lower id, so that the order does not depend on the sort. */
static int before(const candidate *a, const candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Sorts the best to the front: heapsort, since qsort may allocate. */
static void sift_down(candidate *c, int32_t i, int32_t n)
{
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&c[child], &c[child + 1]))
            child++;
        if (!before(&c[i], &c[child]))
            return;
        const candidate t = c[i];
        c[i] = c[child];
        c[child] = t;
    }
}

static void sort_best_first(candidate *c, int32_t n)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(c, i, n);
    for (int32_t last = n - 1; last > 0; last--) {
        const candidate t = c[0];
        c[0] = c[last];
        c[last] = t;
        sift_down(c, 0, last);
    }
}

/* A NaN logit never wins. */
static void load(clef_sampler *s, const float *logits)
{
    for (int32_t i = 0; i < s->n_vocab; i++)
        s->candidates[i] = (candidate){.logit = isnan(logits[i]) ? -INFINITY : logits[i], .id = i};
    const float penalty = s->opts.repeat_penalty;
    if (penalty == 0 || penalty == 1)
        return;
    for (int32_t i = 0; i < s->n_recent; i++) {
        candidate *c = &s->candidates[s->recent[i]];
        if (c->p != 0) /* once for each token, however often it came */
            continue;
        c->p = 1;
        c->logit = c->logit > 0 ? c->logit / penalty : c->logit * penalty;
    }
}

/* Moves the k best to the front, in no order: quickselect with the middle as pivot. */
static void select_best(candidate *c, int32_t n, int32_t k)
{
    int32_t lo = 0, hi = n - 1;
    while (lo < hi) {
        const candidate pivot = c[lo + (hi - lo) / 2];
        int32_t i = lo, j = hi;
        while (i <= j) {
            while (before(&c[i], &pivot))
                i++;
            while (before(&pivot, &c[j]))
                j--;
            if (i <= j) {
                const candidate t = c[i];
                c[i++] = c[j];
                c[j--] = t;
            }
        }
        if (k - 1 <= j)
            hi = j;
        else if (k - 1 >= i)
            lo = i;
        else
            return;
    }
}

static int32_t greedy(const clef_sampler *s)
{
    int32_t best = 0;
    for (int32_t i = 1; i < s->n_vocab; i++)
        if (before(&s->candidates[i], &s->candidates[best]))
            best = i;
    return best;
}

/* How many of the n sorted candidates top-p and min-p leave; their p become probabilities, not yet summing to 1. */
static int32_t cut_tail(const clef_sampler *s, int32_t n, double *sum)
{
    candidate *c = s->candidates;
    double total = 0, mass = 0;
    for (int32_t i = 0; i < n; i++) {
        c[i].p = expf((c[i].logit - c[0].logit) / s->opts.temperature);
        total += (double)c[i].p;
    }
    const double top_p = s->opts.top_p > 0 ? (double)s->opts.top_p : 1;
    int32_t kept = 0;
    while (kept < n && (kept == 0 || (mass < top_p * total && c[kept].p >= s->opts.min_p * c[0].p)))
        mass += (double)c[kept++].p;
    *sum = mass;
    return kept;
}

int32_t clef_sampler_pick(clef_sampler *s, const float *logits)
{
    load(s, logits);
    if (s->opts.temperature == 0)
        return greedy(s);
    const int32_t n = s->opts.top_k > 0 && s->opts.top_k < s->n_vocab ? s->opts.top_k : s->n_vocab;
    if (n < s->n_vocab)
        select_best(s->candidates, s->n_vocab, n);
    sort_best_first(s->candidates, n);
    if (s->candidates[0].logit == -INFINITY)
        return s->candidates[0].id; /* nothing can be told apart */
    double sum;
    const int32_t kept = cut_tail(s, n, &sum);
    double at = uniform(&s->state) * sum;
    for (int32_t i = 0; i < kept - 1; i++) {
        at -= (double)s->candidates[i].p;
        if (at < 0)
            return s->candidates[i].id;
    }
    return s->candidates[kept - 1].id;
}
