/* Samples the next token on the host: recent tokens, and the number of the draw. What the device can do is
 * sampled by graph/op/sample.c, which does the same; the rest by the chain in model/session/sampler_chain.c.
 */
#include "model/session/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/session/sampler_math.h"
#include "model/session/sampler_opts.h"

/* Names the stream of XTC's chances: "XTC" in the first bytes. */
#define XTC_STREAM 0x5854430000000000u

struct clef_sampler {
    clef_sampler_opts opts; /* with copies of its lists */
    clef__dry_breakers breakers;
    sample_options device; /* SAMPLE_OFF: the chain samples */
    int32_t n_vocab;
    /* of one that samples by itself */
    clef_candidate *candidates; /* [n_vocab] */
    float *masked;              /* [n_vocab] */
    clef__sampler_room room;
    int32_t *text; /* the last tokens, at least n_seen of them */
    int32_t n_text, cap_text, n_seen;
    uint64_t n_draws;
    double mu;
};

/* ---- making ---------------------------------------------------------------------------------- */

static int32_t *copied(const void *from, size_t n_bytes)
{
    int32_t *out = malloc(n_bytes + 1);
    if (out && n_bytes)
        memcpy(out, from, n_bytes);
    return out;
}

static void set_bit(uint32_t *bits, int32_t i)
{
    bits[i / 32] |= 1u << (i % 32);
}

/* Sorts the breakers by whether they have one token. */
static int copy_breakers(clef_sampler *s)
{
    const int32_t *ids = s->opts.dry_breakers, n = s->opts.n_dry_breakers;
    clef__dry_breakers *b = &s->breakers;
    const size_t words = ((size_t)s->n_vocab + 31) / 32;
    if (!n || !clef__chain_has(&s->opts, CLEF_SAMPLER_DRY))
        return 1;
    b->ends = calloc(words, sizeof *b->ends);
    b->singly = calloc(words, sizeof *b->singly);
    b->many = calloc((size_t)n, sizeof *b->many);
    if (!b->ends || !b->singly || !b->many)
        return 0;
    for (int32_t i = 0, length; i < n; i += length + 1) {
        for (length = 0; ids[i + length] >= 0;)
            length++;
        set_bit(length == 1 ? b->singly : b->ends, ids[i + length - 1]);
        if (length > 1) {
            memcpy(b->many + b->n_many, ids + i, (size_t)(length + 1) * sizeof *ids);
            b->n_many += length + 1;
        }
    }
    return 1;
}

/* The tokens that the options look back at; INT32_MAX: all. */
static int32_t looks_back(const clef_sampler_opts *o)
{
    const int32_t penalties = clef__chain_has(o, CLEF_SAMPLER_PENALTIES) ? o->repeat_last_n : 0,
                  all = o->dry_last_n > 0 ? o->dry_last_n : INT32_MAX,
                  dry = clef__chain_has(o, CLEF_SAMPLER_DRY) ? all : 0;
    return penalties > dry ? penalties : dry;
}

clef_status clef__sampler_create(int32_t n_vocab, const clef_sampler_opts *opts, clef_sampler **out,
                                 clef_error *err)
{
    clef_sampler_opts o = opts ? *opts : (clef_sampler_opts){0};
    *out = NULL;
    clef_status status = clef__sampler_check(&o, n_vocab, err);
    if (!status && n_vocab < 1)
        status = clef__fail(err, CLEF_E_ARG, "a vocabulary of %d, expected at least 1", n_vocab);
    clef_sampler *s = status ? NULL : calloc(1, sizeof *s);
    if (!s)
        return status ? status : clef__fail(err, CLEF_E_NOMEM, "no memory for a sampler");
    clef__sampler_defaults(&o);
    clef_logit_bias *biases = (clef_logit_bias *)copied(o.biases, (size_t)o.n_biases * sizeof *o.biases);
    s->opts = o;
    s->n_vocab = n_vocab;
    s->n_seen = looks_back(&o);
    s->mu = 2 * (double)o.mirostat_tau;
    s->opts.biases = biases;
    clef__sampler_write(&o, 0, &s->device);
    if (!biases || !copy_breakers(s)) {
        clef_sampler_destroy(s);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a sampler's lists");
    }
    s->opts.dry_breakers = NULL; /* they are the caller's */
    *out = s;
    return CLEF_OK;
}

double clef__sampler_mu(const clef_sampler *s)
{
    return 2 * (double)s->opts.mirostat_tau;
}

clef_status clef__sampler_reserve(clef__sampler_room *r, const clef_sampler *s, int32_t n_text,
                                  clef_error *err)
{
    const size_t n = (size_t)s->n_vocab;
    if (!r->n_vocab) {
        r->tokens = malloc(n * sizeof *r->tokens);
        r->room = malloc(n * sizeof *r->room);
        r->n_vocab = s->n_vocab;
    }
    if (!r->tokens || !r->room) {
        clef__sampler_release(r);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d tokens of a sampler", s->n_vocab);
    }
    if (n_text <= r->n_lengths || !clef__chain_has(&s->opts, CLEF_SAMPLER_DRY))
        return CLEF_OK;
    int32_t *lengths = realloc(r->lengths, (size_t)n_text * sizeof *lengths);
    if (!lengths)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for DRY over %d tokens", n_text);
    r->lengths = lengths;
    r->n_lengths = n_text;
    return CLEF_OK;
}

void clef__sampler_release(clef__sampler_room *r)
{
    free(r->tokens);
    free(r->room);
    free(r->lengths);
    *r = (clef__sampler_room){0};
}

clef_status clef_sampler_create(int32_t n_vocab, const clef_sampler_opts *opts, clef_sampler **out,
                                clef_error *err)
{
    enum { FIRST_TEXT = 4096 };
    clef_sampler *s;
    clef_status status = clef__sampler_create(n_vocab, opts, &s, err);
    *out = NULL;
    if (status)
        return status;
    const size_t n = (size_t)n_vocab;
    s->cap_text = s->n_seen <= FIRST_TEXT / 2 ? 2 * s->n_seen + 1 : FIRST_TEXT;
    s->text = malloc((size_t)s->cap_text * sizeof *s->text);
    s->masked = malloc(n * sizeof *s->masked);
    if (s->device.mode != SAMPLE_OFF)
        s->candidates = malloc(n * sizeof *s->candidates);
    else
        status = clef__sampler_reserve(&s->room, s, s->cap_text, err);
    if (!status && (!s->text || !s->masked || (s->device.mode != SAMPLE_OFF && !s->candidates)))
        status = clef__fail(err, CLEF_E_NOMEM, "no memory for %d candidates", n_vocab);
    if (status) {
        clef_sampler_destroy(s);
        return status;
    }
    *out = s;
    return CLEF_OK;
}

void clef_sampler_destroy(clef_sampler *s)
{
    if (!s)
        return;
    free((void *)s->opts.biases);
    free(s->breakers.ends);
    free(s->breakers.singly);
    free(s->breakers.many);
    free(s->candidates);
    free(s->masked);
    clef__sampler_release(&s->room);
    free(s->text);
    free(s);
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Room for another token: forgets what nobody looks back at, or gets memory. */
static void make_room(clef_sampler *s)
{
    int32_t keep = s->n_seen < s->n_text ? s->n_seen : s->n_text / 2;
    if (s->n_seen >= s->n_text && s->cap_text < INT32_MAX / 2) {
        int32_t *more = realloc(s->text, 2 * (size_t)s->cap_text * sizeof *more);
        s->text = more ? more : s->text;
        if (more && !clef__sampler_reserve(&s->room, s, 2 * s->cap_text, NULL)) {
            s->cap_text *= 2;
            return;
        }
    }
    memmove(s->text, s->text + s->n_text - keep, (size_t)keep * sizeof *s->text);
    s->n_text = keep;
}

void clef_sampler_accept(clef_sampler *s, int32_t id)
{
    if (id < 0 || id >= s->n_vocab)
        return;
    if (s->n_text == s->cap_text)
        make_room(s);
    s->text[s->n_text++] = id;
}

/* ---- sampling --------------------------------------------------------------------------------- */

static clef__sampler_chain chain_of(const clef_sampler *s, const clef__sampler_room *room,
                                    const clef__sampler_pick *pick)
{
    return (clef__sampler_chain){
        .opts = &s->opts,
        .breakers = &s->breakers,
        .text = pick->text,
        .n_text = pick->n_text,
        .n_vocab = s->n_vocab,
        .tokens = room->tokens,
        .room = room->room,
        .lengths = room->lengths,
        .xtc_bits = clef__sample_bits(s->opts.seed + XTC_STREAM, pick->draw, pick->stream),
        .mu = *pick->mu,
        .rules = pick->rules,
    };
}

/* The lowest allowed id; -1: none. It is sampled where no logit is above -inf. */
static int32_t first_allowed(const uint32_t *mask, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!mask || mask[i / 32] >> (i % 32) & 1)
            return i;
    return -1;
}

clef_status clef__fail_not_finite(int32_t n, clef_error *err)
{
    return clef__fail(err, CLEF_E_NOT_FINITE,
                      "the logits after %d tokens are not finite: one is NaN or inf, or all are -inf; clef "
                      "compare --stats finds the first value that is not finite",
                      n);
}

static int32_t draw_one(const clef__sampler_chain *c, uint64_t bits)
{
    double sum = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < c->n; i++)
        sum += c->tokens[i].p;
    double at = (double)(bits >> 11) * 0x1p-53 * sum;
    for (int32_t i = 0; i < c->n; i++) {
        if (at < c->tokens[i].p)
            return i;
        at -= c->tokens[i].p;
        last = c->tokens[i].p > 0 ? i : last;
    }
    return last; /* by rounding */
}

int32_t clef__sampler_pick_with(const clef_sampler *s, clef__sampler_room *room,
                                const clef__sampler_pick *pick)
{
    clef__sampler_chain c = chain_of(s, room, pick);
    if (!clef__logits_finite(pick->logits, s->n_vocab))
        return CLEF__PICK_NOT_FINITE;
    clef__chain_load(&c, pick->logits, pick->mask);
    room->n = c.n;
    if (!c.n)
        return pick->rules ? CLEF__PICK_NONE : first_allowed(pick->mask, s->n_vocab);
    int32_t first = 0;
    if (s->opts.samplers[0] == CLEF_SAMPLER_PENALTIES)
        clef__chain_apply(&c, (clef_sampler_kind)s->opts.samplers[first++]);
    if (pick->rules)
        clef__rules_decay(pick->rules, c.n_text, c.tokens, c.n);
    for (int32_t i = first; i < CLEF_N_SAMPLERS && s->opts.samplers[i]; i++)
        clef__chain_apply(&c, (clef_sampler_kind)s->opts.samplers[i]);
    if (s->opts.mirostat)
        clef__chain_mirostat(&c);
    clef__chain_softmax(&c);
    room->n = c.n;
    const int32_t drawn = draw_one(&c, clef__sample_bits(s->opts.seed, pick->draw, pick->stream));
    if (s->opts.mirostat) {
        const double surprise = -clef__exact_log(c.tokens[drawn].p) * 1.4426950408889634;
        *pick->mu -= (double)s->opts.mirostat_eta * (surprise - (double)s->opts.mirostat_tau);
    }
    return c.tokens[drawn].id;
}

static clef__sampler_pick own_sample(const clef_sampler *s, const float *logits, const uint32_t *mask,
                                     double *mu)
{
    *mu = s->mu;
    return (clef__sampler_pick){
        .logits = logits, .mask = mask, .text = s->text, .n_text = s->n_text, .draw = s->n_draws, .mu = mu};
}

int32_t clef_sampler_pick_masked(clef_sampler *s, const float *logits, const uint32_t *mask)
{
    const float *z = logits;
    double mu;
    const clef__sampler_pick pick = own_sample(s, logits, mask, &mu);
    if (first_allowed(mask, s->n_vocab) < 0)
        return CLEF__PICK_NONE;
    if (!clef__logits_finite(logits, s->n_vocab))
        return CLEF__PICK_NOT_FINITE;
    if (s->device.mode == SAMPLE_OFF) {
        const int32_t id = clef__sampler_pick_with(s, &s->room, &pick);
        s->n_draws++;
        s->mu = mu;
        return id;
    }
    for (int32_t i = 0; i < s->n_vocab && mask; i++)
        s->masked[i] = mask[i / 32] >> (i % 32) & 1 ? logits[i] : -INFINITY;
    if (mask)
        z = s->masked;
    const int32_t last_n = s->device.last_n < s->n_text ? s->device.last_n : s->n_text;
    const int32_t id = clef__sample_pick(&s->device, z, s->n_vocab, s->text + s->n_text - last_n, last_n,
                                         s->n_draws++, 0, s->candidates);
    return id < 0 ? first_allowed(mask, s->n_vocab) : id; /* all that are allowed are -inf */
}

int32_t clef_sampler_pick(clef_sampler *s, const float *logits)
{
    return clef_sampler_pick_masked(s, logits, NULL);
}

/* ---- explaining ------------------------------------------------------------------------------ */

typedef struct explanation {
    clef__sampler_chain chain;
    double *p;
    clef_sampler_report report;
    void *user;
} explanation;

static void say(explanation *e, const char *name)
{
    clef__sampler_chain *c = &e->chain;
    clef__chain_softmax(c);
    for (int32_t i = 0; i < c->n_vocab; i++)
        e->p[i] = 0;
    for (int32_t i = 0; i < c->n; i++)
        e->p[c->tokens[i].id] = c->tokens[i].p;
    e->report(e->user, name, e->p, c->n_vocab);
}

static clef_status load(explanation *e, const clef_sampler_opts *opts, const float *logits,
                        const uint32_t *mask, clef_error *err)
{
    e->chain.opts = opts;
    for (int32_t i = 0; i < e->chain.n_vocab; i++)
        if (!(logits[i] < INFINITY))
            return clef__fail(err, CLEF_E_ARG, "the logit of token %d is %s, expected a number or -inf", i,
                              isnan(logits[i]) ? "NaN" : "inf");
    clef__chain_load(&e->chain, logits, mask);
    return e->chain.n ? CLEF_OK
                      : clef__fail(err, CLEF_E_ARG, "no token is left: all logits are -inf or not allowed");
}

static clef_status explain(explanation *e, const clef_sampler *s, const float *logits, const uint32_t *mask,
                           clef_error *err)
{
    clef_sampler_opts plain = s->opts;
    plain.n_biases = 0;
    clef_status status = load(e, &plain, logits, mask, err);
    if (!status)
        say(e, "logits");
    if (!status)
        status = load(e, &s->opts, logits, mask, err);
    if (status)
        return status;
    if (s->opts.n_biases)
        say(e, "logit_bias");
    for (int32_t i = 0; i < CLEF_N_SAMPLERS && s->opts.samplers[i]; i++) {
        clef__chain_apply(&e->chain, (clef_sampler_kind)s->opts.samplers[i]);
        say(e, clef_sampler_name((clef_sampler_kind)s->opts.samplers[i]));
    }
    if (s->opts.mirostat) {
        clef__chain_mirostat(&e->chain);
        say(e, "mirostat");
    }
    return CLEF_OK;
}

clef_status clef_sampler_explain(const clef_sampler *s, const float *logits, const uint32_t *mask,
                                 clef_sampler_report report, void *user, clef_error *err)
{
    clef__sampler_room room = {0};
    double mu;
    const clef__sampler_pick pick = own_sample(s, logits, mask, &mu);
    explanation e = {.report = report, .user = user, .p = malloc((size_t)s->n_vocab * sizeof *e.p)};
    clef_status status = clef__sampler_reserve(&room, s, s->cap_text, err);
    if (!status && !e.p)
        status = clef__fail(err, CLEF_E_NOMEM, "no memory for %d probabilities", s->n_vocab);
    if (!status) {
        e.chain = chain_of(s, &room, &pick);
        status = explain(&e, s, logits, mask, err);
    }
    clef__sampler_release(&room);
    free(e.p);
    return status;
}
