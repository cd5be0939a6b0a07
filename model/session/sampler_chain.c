/* The samplers on the host. Tokens stay in the order of their ids; what keeps the best finds the last one to
 * keep with a heap, and drops those after it. */
#include "model/session/sampler_chain.h"

#include <math.h>
#include <string.h>

#include "model/session/rules.h"
#include "model/session/sampler_math.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

int clef__logits_finite(const float *logits, int32_t n)
{
    int any = 0, bad = 0;
    for (int32_t i = 0; i < n; i++) {
        bad |= !(logits[i] < INFINITY);
        any |= logits[i] > -INFINITY;
    }
    return any && !bad;
}

void clef__chain_load(clef__sampler_chain *c, const float *logits, const uint32_t *mask)
{
    const clef_sampler_opts *o = c->opts;
    c->n = c->n_vocab;
    for (int32_t i = 0; i < c->n_vocab; i++) {
        const int allowed = !mask || mask[i / 32] >> (i % 32) & 1;
        c->tokens[i] = (clef__sampler_token){.z = allowed ? (double)logits[i] : -(double)INFINITY, .id = i};
    }
    for (int32_t i = 0; i < o->n_biases; i++)
        c->tokens[o->biases[i].id].z += (double)o->biases[i].bias;
    if (c->rules)
        clef__rules_apply(c->rules, c->text, c->n_text, c->tokens, c->n_vocab);
    for (int32_t i = 0; i < c->n_vocab && mask && c->rules; i++) /* what is forced may not be allowed */
        if (!(mask[i / 32] >> (i % 32) & 1))
            c->tokens[i].z = -(double)INFINITY;
    c->n = 0;
    for (int32_t i = 0; i < c->n_vocab; i++)
        if (c->tokens[i].z > -(double)INFINITY)
            c->tokens[c->n++] = c->tokens[i];
}

static double largest(const clef__sampler_chain *c)
{
    double most = c->tokens[0].z;
    for (int32_t i = 1; i < c->n; i++)
        most = c->tokens[i].z > most ? c->tokens[i].z : most;
    return most;
}

void clef__chain_softmax(clef__sampler_chain *c)
{
    const double most = largest(c);
    double sum = 0;
    for (int32_t i = 0; i < c->n; i++)
        sum += c->tokens[i].p = clef__exact_exp(c->tokens[i].z - most);
    for (int32_t i = 0; i < c->n; i++)
        c->tokens[i].p /= sum;
}

/* ---- the best -------------------------------------------------------------------------------- */

/* Whether a comes before b: by the larger key, of equals by the lower id. */
static int before(const clef__sampler_token *a, const clef__sampler_token *b)
{
    return a->key > b->key || (a->key == b->key && a->id < b->id);
}

static void sift_down(const clef__sampler_chain *c, int32_t i, int32_t n)
{
    int32_t *heap = c->room;
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&c->tokens[heap[child + 1]], &c->tokens[heap[child]]))
            child++;
        if (!before(&c->tokens[heap[child]], &c->tokens[heap[i]]))
            return;
        const int32_t t = heap[i];
        heap[i] = heap[child];
        heap[child] = t;
    }
}

/* Keeps the first by key, at most `most` of them and no more than are needed for the sum of p to reach
 * `mass`; at least one. */
static void keep_first(clef__sampler_chain *c, int32_t most, double mass)
{
    int32_t n = c->n;
    clef__sampler_token last;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        c->room[i] = i;
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(c, i, n);
    do {
        last = c->tokens[c->room[0]];
        sum += last.p;
        most--;
        c->room[0] = c->room[--n];
        sift_down(c, 0, n);
    } while (n > 0 && most > 0 && sum < mass);
    int32_t kept = 0;
    for (int32_t i = 0; i < c->n; i++)
        if (!before(&last, &c->tokens[i]))
            c->tokens[kept++] = c->tokens[i];
    c->n = kept;
}

static void key_by_logit(clef__sampler_chain *c)
{
    for (int32_t i = 0; i < c->n; i++)
        c->tokens[i].key = c->tokens[i].z;
}

/* ---- the samplers ---------------------------------------------------------------------------- */

static void penalties(clef__sampler_chain *c)
{
    const clef_sampler_opts *o = c->opts;
    const int32_t from = c->n_text > o->repeat_last_n ? c->n_text - o->repeat_last_n : 0;
    const double penalty = (double)o->repeat_penalty, inverse = 1 / penalty;
    int32_t *count = c->room;
    memset(count, 0, (size_t)c->n_vocab * sizeof *count);
    for (int32_t i = from; i < c->n_text; i++)
        count[c->text[i]]++;
    for (int32_t i = 0; i < c->n; i++) {
        clef__sampler_token *t = &c->tokens[i];
        if (!count[t->id])
            continue;
        t->z = t->z > 0 ? t->z * inverse : t->z * penalty;
        t->z -= (double)o->frequency_penalty * count[t->id] + (double)o->presence_penalty;
    }
}

static void dry(clef__sampler_chain *c)
{
    const clef_sampler_opts *o = c->opts;
    clef__dry_lengths(c);
    for (int32_t i = 0; i < c->n; i++) {
        const int32_t n = c->room[c->tokens[i].id] - o->dry_allowed_length;
        if (n >= 0) /* far from the ends of double, so that logits stay finite */
            c->tokens[i].z -=
                fmin((double)o->dry_multiplier * clef__exact_power((double)o->dry_base, n), 1e100);
    }
}

static void top_n_sigma(clef__sampler_chain *c)
{
    const double most = largest(c);
    double mean = 0, square = 0;
    for (int32_t i = 0; i < c->n; i++)
        mean += (c->tokens[i].z - most) / c->n; /* of differences: a common offset costs no digits */
    for (int32_t i = 0; i < c->n; i++)
        square += (c->tokens[i].z - most - mean) * (c->tokens[i].z - most - mean) / c->n;
    const double least = -(double)c->opts->top_n_sigma * sqrt(square);
    int32_t kept = 0;
    for (int32_t i = 0; i < c->n; i++)
        if (c->tokens[i].z - most >= least)
            c->tokens[kept++] = c->tokens[i];
    c->n = kept;
}

static void top_k(clef__sampler_chain *c)
{
    key_by_logit(c);
    if (c->opts->top_k < c->n)
        keep_first(c, c->opts->top_k, INFINITY);
}

static void top_p(clef__sampler_chain *c)
{
    clef__chain_softmax(c);
    key_by_logit(c);
    keep_first(c, INT32_MAX, (double)c->opts->top_p);
}

static void typical(clef__sampler_chain *c)
{
    double entropy = 0;
    clef__chain_softmax(c);
    for (int32_t i = 0; i < c->n; i++)
        entropy -= c->tokens[i].p > 0 ? c->tokens[i].p * clef__exact_log(c->tokens[i].p) : 0;
    for (int32_t i = 0; i < c->n; i++) {
        clef__sampler_token *t = &c->tokens[i];
        t->key = t->p > 0 ? -fabs(-clef__exact_log(t->p) - entropy) : -(double)INFINITY;
    }
    keep_first(c, INT32_MAX, (double)c->opts->typical);
}

static void min_p(clef__sampler_chain *c)
{
    const double least = largest(c) + clef__exact_log((double)c->opts->min_p);
    int32_t kept = 0;
    for (int32_t i = 0; i < c->n; i++)
        if (c->tokens[i].z >= least)
            c->tokens[kept++] = c->tokens[i];
    c->n = kept;
}

static void xtc(clef__sampler_chain *c)
{
    int32_t n = 0, kept = 0, least = 0;
    const double u = (double)(c->xtc_bits >> 11) * 0x1p-53;
    if (u >= (double)c->opts->xtc_probability || c->opts->xtc_threshold > 0.5f)
        return;
    clef__chain_softmax(c);
    for (int32_t i = 0; i < c->n; i++)
        if (c->tokens[i].p >= (double)c->opts->xtc_threshold) {
            if (!n++ || c->tokens[i].p <= c->tokens[least].p) /* of equals the last */
                least = i;
        }
    for (int32_t i = 0; i < c->n && n; i++)
        if (i == least || c->tokens[i].p < (double)c->opts->xtc_threshold)
            c->tokens[kept++] = c->tokens[i];
    c->n = n ? kept : c->n;
}

static void temperature(clef__sampler_chain *c)
{
    const double t = (double)c->opts->temperature, most = largest(c);
    if (t == 0) {
        key_by_logit(c);
        keep_first(c, 1, INFINITY);
        return;
    }
    for (int32_t i = 0; i < c->n; i++)
        c->tokens[i].z = fmax((c->tokens[i].z - most) / t, -1e100); /* a tiny t leaves them finite */
}

void clef__chain_mirostat(clef__sampler_chain *c)
{
    const double most = largest(c);
    int32_t kept = 0;
    clef__chain_softmax(c);
    double best = 0;
    for (int32_t i = 0; i < c->n; i++)
        best = c->tokens[i].p > best ? c->tokens[i].p : best;
    const int any = -clef__exact_log(best) * 1.4426950408889634 <= c->mu;
    for (int32_t i = 0; i < c->n; i++) {
        const clef__sampler_token *t = &c->tokens[i];
        const int keeps = any ? t->p > 0 && -clef__exact_log(t->p) * 1.4426950408889634 <= c->mu
                              : t->z == most && kept == 0;
        if (keeps)
            c->tokens[kept++] = *t;
    }
    c->n = kept;
}

/* ---- the table ------------------------------------------------------------------------------- */

int clef__chain_has(const clef_sampler_opts *o, clef_sampler_kind kind)
{
    switch (kind) {
    case CLEF_SAMPLER_PENALTIES:
        return (o->repeat_penalty != 0 && o->repeat_penalty != 1) || o->presence_penalty != 0 ||
               o->frequency_penalty != 0;
    case CLEF_SAMPLER_DRY:
        return o->dry_multiplier > 0;
    case CLEF_SAMPLER_TOP_N_SIGMA:
        return o->top_n_sigma > 0;
    case CLEF_SAMPLER_TOP_K:
        return o->top_k > 0;
    case CLEF_SAMPLER_TYPICAL:
        return o->typical > 0 && o->typical < 1;
    case CLEF_SAMPLER_TOP_P:
        return o->top_p > 0 && o->top_p < 1;
    case CLEF_SAMPLER_MIN_P:
        return o->min_p > 0;
    case CLEF_SAMPLER_XTC:
        return o->xtc_probability > 0;
    case CLEF_SAMPLER_TEMPERATURE:
        return o->temperature != 1;
    default:
        return 0;
    }
}

void clef__chain_apply(clef__sampler_chain *c, clef_sampler_kind kind)
{
    static void (*const apply[CLEF_N_SAMPLERS])(clef__sampler_chain *) = {
        [CLEF_SAMPLER_PENALTIES] = penalties,
        [CLEF_SAMPLER_DRY] = dry,
        [CLEF_SAMPLER_TOP_N_SIGMA] = top_n_sigma,
        [CLEF_SAMPLER_TOP_K] = top_k,
        [CLEF_SAMPLER_TYPICAL] = typical,
        [CLEF_SAMPLER_TOP_P] = top_p,
        [CLEF_SAMPLER_MIN_P] = min_p,
        [CLEF_SAMPLER_XTC] = xtc,
        [CLEF_SAMPLER_TEMPERATURE] = temperature,
    };
    apply[kind](c);
}

const char *clef_sampler_name(clef_sampler_kind kind)
{
    static const char *const names[CLEF_N_SAMPLERS] = {
        [CLEF_SAMPLER_PENALTIES] = "penalties",
        [CLEF_SAMPLER_DRY] = "dry",
        [CLEF_SAMPLER_TOP_N_SIGMA] = "top_n_sigma",
        [CLEF_SAMPLER_TOP_K] = "top_k",
        [CLEF_SAMPLER_TYPICAL] = "typical",
        [CLEF_SAMPLER_TOP_P] = "top_p",
        [CLEF_SAMPLER_MIN_P] = "min_p",
        [CLEF_SAMPLER_XTC] = "xtc",
        [CLEF_SAMPLER_TEMPERATURE] = "temperature",
    };
    return kind > CLEF_SAMPLER_END && kind < CLEF_N_SAMPLERS ? names[kind] : NULL;
}
