/* Beam search. The device finds each beam's likeliest continuations, the host decides which continue, and the
 * device reorders the caches at the next step. The rules are those of transformers' generate()
 * (generation/utils.py, _beam_search): see clef_session_beams(). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/session/session.h"

/* A running or a finished text. */
typedef struct text {
    int32_t *ids;
    int32_t n, ended;
    float score; /* sum of log-probabilities; of a finished text / n^length_penalty */
} text;

typedef struct candidate {
    float score;
    int32_t beam, token;
} candidate;

typedef struct search {
    clef_session *s;
    clef_beam_opts o;
    int32_t n_steps;      /* most tokens of a text */
    int32_t n_first;      /* tokens of the prompt */
    int32_t n_forced;     /* those of them that count in the text's length: all after an encoder-decoder's
                             first */
    text *running, *next; /* [n_beams] */
    text *finished;       /* [n_beams], n_finished of them set, the best first */
    int32_t n_finished;
    candidate *candidates; /* [n_beams * n_candidates], the first n_kept of them set */
    int32_t n_kept;
    int32_t *tokens; /* [n_beams * n_candidates], read from the device */
    float *logs;
    int32_t *ids, *order, *pos; /* [n_beams] for the device */
    clef__rules_place rules;    /* its rules are NULL: none */
    int32_t *whole; /* [n_first + n_steps]: a text with its prompt. NULL: the device's candidates are
                       taken as they are */
    float *logits;  /* [n_beams, n_vocab] */
    clef__sampler_token *all; /* [n_vocab] */
} search;

/* ---- memory ---------------------------------------------------------------------------------- */

static text *make_texts(int32_t n, int32_t n_steps)
{
    text *t = calloc((size_t)n, sizeof *t);
    for (int32_t i = 0; t && i < n; i++) {
        t[i].ids = malloc((size_t)n_steps * sizeof *t->ids);
        if (!t[i].ids) {
            while (i-- > 0)
                free(t[i].ids);
            free(t);
            return NULL;
        }
    }
    return t;
}

static void free_texts(text *t, int32_t n)
{
    for (int32_t i = 0; t && i < n; i++)
        free(t[i].ids);
    free(t);
}

static void search_finish(search *q)
{
    const int32_t n = q->o.n_beams;
    free_texts(q->running, n);
    free_texts(q->next, n);
    free_texts(q->finished, n);
    free(q->candidates);
    free(q->tokens);
    free(q->logs);
    free(q->ids);
    free(q->whole);
    free(q->logits);
    free(q->all);
}

/* What the host needs to change log-probabilities. */
static int make_room(search *q)
{
    const size_t n_vocab = (size_t)q->s->hp->n_vocab;
    const int changes = q->rules.rules || q->o.ban || (q->o.repeat_penalty != 0 && q->o.repeat_penalty != 1);
    if (!changes)
        return 1;
    q->whole = malloc(((size_t)q->n_first + (size_t)q->n_steps) * sizeof *q->whole);
    q->logits = malloc((size_t)q->o.n_beams * n_vocab * sizeof *q->logits);
    q->all = malloc(n_vocab * sizeof *q->all);
    return q->whole && q->logits && q->all;
}

static clef_status search_init(search *q, clef_error *err)
{
    const int32_t n = q->o.n_beams;
    const size_t n_all = (size_t)n * (size_t)q->s->n_candidates;
    q->running = make_texts(n, q->n_steps);
    q->next = make_texts(n, q->n_steps);
    q->finished = make_texts(n, q->n_steps);
    q->candidates = malloc(n_all * sizeof *q->candidates);
    q->tokens = malloc(n_all * sizeof *q->tokens);
    q->logs = malloc(n_all * sizeof *q->logs);
    q->ids = malloc(3 * (size_t)n * sizeof *q->ids);
    if (!q->running || !q->next || !q->finished || !q->candidates || !q->tokens || !q->logs || !q->ids ||
        !make_room(q))
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " beams of %" PRId32 " tokens", n,
                          q->n_steps);
    q->order = q->ids + n;
    q->pos = q->order + n;
    return CLEF_OK;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static int ends_text(const search *q, int32_t id)
{
    const clef_hparams *hp = q->s->hp;
    int ends = id == hp->eos;
    for (int32_t i = 0; i < hp->n_eos_more; i++)
        ends |= id == hp->eos_more[i];
    return ends && !q->o.ignore_eos;
}

/* The divisor of the score of a text of n tokens. */
static float length_of(const search *q, int32_t n)
{
    return powf((float)(n + q->n_forced), q->o.length_penalty);
}

/* The best first. Equal scores are ordered by beam, then as in the device's topk: the lower id first. */
static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->beam != y->beam ? (x->beam > y->beam) - (x->beam < y->beam)
                              : (x->token > y->token) - (x->token < y->token);
}

/* Reads the likeliest continuations of each running beam from the device. */
static clef_status read_device(search *q, int32_t n_all, clef_error *err)
{
    const clef_session *s = q->s;
    clef_status status =
        clef_plan_read(s->plan, s->io.candidates, q->tokens, (size_t)n_all * sizeof *q->tokens, err);
    if (!status)
        status = clef_plan_read(s->plan, s->io.scores, q->logs, (size_t)n_all * sizeof *q->logs, err);
    for (int32_t i = 0; i < n_all && !status; i++)
        if (isnan(q->logs[i]) || (i % s->n_candidates == 0 && isinf(q->logs[i]))) /* or nothing but -inf */
            status = clef__fail_not_finite(q->n_first + q->running[i / s->n_candidates].n, err);
    return status;
}

/* z - log sum e^z */
static void normalise(clef__sampler_token *t, int32_t n)
{
    double most = t[0].z, sum = 0;
    for (int32_t i = 1; i < n; i++)
        most = t[i].z > most ? t[i].z : most;
    for (int32_t i = 0; i < n; i++)
        sum += exp(t[i].z - most);
    for (int32_t i = 0; i < n && most > -(double)INFINITY; i++)
        t[i].z -= most + log(sum);
}

/* The likeliest of all, the best first, of equals the lower id. */
static void take_likeliest(const clef__sampler_token *t, int32_t n, int32_t k, int32_t *tokens, float *logs)
{
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n; i++) {
        const float z = (float)t[i].z;
        if (n_kept == k && !(z > logs[k - 1]))
            continue;
        int32_t at = n_kept < k ? n_kept++ : k - 1;
        for (; at > 0 && z > logs[at - 1]; at--) {
            tokens[at] = tokens[at - 1];
            logs[at] = logs[at - 1];
        }
        tokens[at] = t[i].id;
        logs[at] = z;
    }
}

/* Penalises the tokens that are in the text of n tokens, once each. They are log-probabilities. */
static void penalise(const search *q, int32_t n)
{
    const double penalty = q->o.repeat_penalty != 0 ? (double)q->o.repeat_penalty : 1;
    for (int32_t i = 0; i < q->s->hp->n_vocab; i++)
        q->all[i].key = 0;
    for (int32_t i = 0; i < n; i++) {
        clef__sampler_token *t = &q->all[q->whole[i]];
        if (t->key == 0)
            t->z = t->z < 0 ? t->z * penalty : t->z / penalty;
        t->key = 1;
    }
}

/* What the caller bans. */
static void ban(const search *q, int32_t n_text, float *logits)
{
    for (int32_t i = 0; i < q->s->hp->n_vocab; i++) /* the rules' bans count there, too */
        logits[i] = isinf(q->all[i].z) ? -INFINITY : logits[i];
    q->o.ban(q->o.ban_user, q->whole, n_text, logits);
    for (int32_t i = 0; i < q->s->hp->n_vocab; i++)
        if (isinf(logits[i]))
            q->all[i].z = -(double)INFINITY;
}

/* Finds the likeliest continuations of beam b on the host, after the rules and the penalty. */
static clef_status find_likeliest(search *q, int32_t b, clef_error *err)
{
    const text *t = &q->running[b];
    const int32_t n_vocab = q->s->hp->n_vocab, k = q->s->n_candidates, n_text = q->n_first + t->n;
    float *logits = q->logits + (size_t)b * (size_t)n_vocab;
    if (!clef__logits_finite(logits, n_vocab))
        return clef__fail_not_finite(n_text, err);
    memcpy(q->whole + q->n_first, t->ids, (size_t)t->n * sizeof *t->ids);
    for (int32_t i = 0; i < n_vocab; i++)
        q->all[i] = (clef__sampler_token){.z = (double)logits[i], .id = i};
    normalise(q->all, n_vocab);
    if (q->rules.rules)
        clef__rules_apply(&q->rules, q->whole, n_text, q->all, n_vocab);
    if (q->o.ban)
        ban(q, n_text, logits);
    penalise(q, n_text);
    if (q->rules.rules)
        clef__rules_decay(&q->rules, n_text, q->all, n_vocab);
    if (q->rules.rules && q->rules.rules->renormalize)
        normalise(q->all, n_vocab);
    take_likeliest(q->all, n_vocab, k, q->tokens + (size_t)b * (size_t)k, q->logs + (size_t)b * (size_t)k);
    return CLEF_OK;
}

static clef_status read_host(search *q, int32_t n, clef_error *err)
{
    const clef_session *s = q->s;
    clef_status status = clef_plan_read(s->plan, s->io.logits, q->logits,
                                        (size_t)n * (size_t)s->hp->n_vocab * sizeof *q->logits, err);
    for (int32_t b = 0; b < n && !status; b++)
        status = find_likeliest(q, b, err);
    return status;
}

/* Finds the likeliest continuations of the n running beams, and keeps the best n_candidates of all. */
static clef_status read_candidates(search *q, int32_t n, clef_error *err)
{
    const int32_t k = q->s->n_candidates, n_all = n * k;
    const clef_status status = q->whole ? read_host(q, n, err) : read_device(q, n_all, err);
    if (status)
        return status;
    for (int32_t i = 0; i < n_all; i++)
        q->candidates[i] = (candidate){q->running[i / k].score + q->logs[i], i / k, q->tokens[i]};
    qsort(q->candidates, (size_t)n_all, sizeof *q->candidates, by_score);
    q->n_kept = n_all < k ? n_all : k;
    return CLEF_OK;
}

/* Inserts a finished text by its score, if it is better than the worst. */
static void add_finished(search *q, const candidate *c, int32_t n, int ended)
{
    const int32_t n_beams = q->o.n_beams;
    const float score = c->score / length_of(q, n);
    int32_t at = q->n_finished;
    while (at > 0 && q->finished[at - 1].score < score)
        at--;
    if (at == n_beams)
        return;
    const int32_t last = q->n_finished < n_beams ? q->n_finished++ : n_beams - 1;
    const text spare = q->finished[last];
    memmove(q->finished + at + 1, q->finished + at, (size_t)(last - at) * sizeof *q->finished);
    text *t = &q->finished[at];
    *t = (text){.ids = spare.ids, .n = n - ended, .ended = ended, .score = score};
    memcpy(t->ids, q->running[c->beam].ids, (size_t)(n - 1) * sizeof *t->ids);
    if (!ended)
        t->ids[n - 1] = c->token;
}

/* Sorts the candidates for token number n (from 1) into those that end a text and the n_beams that continue.
 * Returns how many continue. */
static int32_t take_candidates(search *q, int32_t n)
{
    int32_t n_next = 0;
    for (int32_t i = 0; i < q->n_kept; i++) {
        const candidate *c = &q->candidates[i];
        if (isinf(c->score)) /* banned */
            break;
        const int ended = ends_text(q, c->token);
        if ((ended || n == q->n_steps) && i < q->o.n_beams) /* later candidates can only continue */
            add_finished(q, c, n, ended);
        if (ended || n_next == q->o.n_beams)
            continue;
        text *t = &q->next[n_next];
        const text *from = &q->running[c->beam];
        t->score = c->score;
        t->n = n;
        memcpy(t->ids, from->ids, (size_t)(n - 1) * sizeof *t->ids);
        t->ids[n - 1] = q->ids[n_next] = c->token;
        q->order[n_next++] = c->beam;
    }
    text *done = q->running;
    q->running = q->next;
    q->next = done;
    return n_next;
}

/* 1 while a running text may still become better than the worst of n_beams finished ones. */
static int may_improve(const search *q, int32_t n)
{
    if (q->n_finished < q->o.n_beams)
        return 1;
    const int32_t at = q->o.early_stopping == 2 && q->o.length_penalty > 0 ? q->n_steps : n;
    return q->o.early_stopping != 1 &&
           q->running[0].score / length_of(q, at) > q->finished[q->o.n_beams - 1].score;
}

/* Runs the step that reads the last tokens of n texts, at position `past`. */
static clef_status run_beams(search *q, int32_t n, int32_t past, clef_error *err)
{
    clef_session *s = q->s;
    const size_t n_bytes = (size_t)n * sizeof *q->ids;
    for (int32_t i = 0; i < n; i++)
        q->pos[i] = past;
    clef_status status = clef_plan_bind(s->plan, s->io.B, n, err);
    if (!status && s->io.T)
        status = clef_plan_bind(s->plan, s->io.T, 1, err);
    if (!status)
        status = clef_plan_write(s->plan, s->io.ids, q->ids, n_bytes, err);
    if (!status)
        status = clef_plan_write(s->plan, s->io.pos, q->pos, n_bytes, err);
    if (!status)
        status = clef_plan_write(s->plan, s->io.order, q->order, n_bytes, err);
    return status ? status : clef__session_step(s, past, 1, err);
}

static clef_status run_search(search *q, clef_error *err)
{
    const clef_compile_opts *o = &q->s->opts.compile;
    clef_status status = CLEF_OK;
    int32_t n_running = 1; /* all beams begin as one */
    for (int32_t n = 1; !status; n++) {
        status = read_candidates(q, n_running, err);
        if (!status && q->o.step)
            status = q->o.step(q->o.step_user, err);
        if (status)
            break;
        n_running = take_candidates(q, n);
        if (n == q->n_steps || !n_running || !may_improve(q, n))
            break;
        status = run_beams(q, n_running, q->n_first + n - 1, err);
        if (!status && o->progress &&
            o->progress(o->progress_user, "beams", (uint64_t)n, (uint64_t)q->n_steps))
            status = clef__fail(err, CLEF_E_CANCELLED,
                                "beams: interrupted at %" PRId32 " of %" PRId32 " tokens", n, q->n_steps);
    }
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

static clef_status check_opts(const clef_session *s, int32_t n, clef_beam_opts *o, int32_t *n_steps,
                              clef_error *err)
{
    if (!s->n_beams)
        return clef__fail(err, CLEF_E_ARG, "the session was made without beams (clef_session_opts.n_beams)");
    if (!o->n_beams)
        o->n_beams = s->n_beams;
    if (!o->n_best)
        o->n_best = 1;
    if (o->n_beams < 1 || o->n_beams > s->n_beams)
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " beams, the session was made for %" PRId32, o->n_beams,
                          s->n_beams);
    if (o->n_best < 1 || o->n_best > o->n_beams)
        return clef__fail(err, CLEF_E_ARG,
                          "the best %" PRId32 " of %" PRId32 " beams, expected 1 to %" PRId32, o->n_best,
                          o->n_beams, o->n_beams);
    if (!isfinite(o->length_penalty))
        return clef__fail(err, CLEF_E_ARG, "length penalty %g, expected a number", (double)o->length_penalty);
    if (o->n_max < 0)
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " tokens to generate, expected 0 (no limit) or more",
                          o->n_max);
    const int32_t room = s->opts.n_context - n + 1; /* the last token is not fed */
    *n_steps = o->n_max && o->n_max < room ? o->n_max : room;
    return CLEF_OK;
}

/* Moves the best texts' ids to the caller. */
static clef_status give_best(search *q, clef_hypothesis **out, int32_t *n_out, clef_error *err)
{
    const int32_t n = q->n_finished < q->o.n_best ? q->n_finished : q->o.n_best;
    *out = calloc((size_t)n + 1, sizeof **out);
    if (!*out)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " texts", n);
    for (int32_t i = 0; i < n; i++) {
        text *t = &q->finished[i];
        (*out)[i] = (clef_hypothesis){.ids = t->ids, .n = t->n, .ended = t->ended, .score = t->score};
        t->ids = NULL;
    }
    *n_out = n;
    return CLEF_OK;
}

clef_status clef_session_beams(clef_session *s, const int32_t *ids, int32_t n, const clef_beam_opts *opts,
                               clef_hypothesis **out, int32_t *n_out, clef_error *err)
{
    search q = {.s = s,
                .o = opts ? *opts : (clef_beam_opts){.length_penalty = 1},
                .n_first = n,
                .n_forced = s->is_seq2seq && !s->hp->n_mels ? n - 1 : 0};
    const float *logits;
    *out = NULL;
    *n_out = 0;
    clef_status status = check_opts(s, n, &q.o, &q.n_steps, err);
    q.rules = (clef__rules_place){.rules = s->model->rules.n && !q.o.no_rules ? &s->model->rules : NULL,
                                  .hp = s->hp,
                                  .source = s->encoder.source,
                                  .n_source = s->hp->n_mels ? 0 : s->encoder.n,
                                  .n_fed = n,
                                  .n_most = n + q.n_steps};
    if (!status)
        status = clef_session_reset(s, err);
    if (!status)
        status = clef_session_feed(s, ids, n, &logits, err); /* checks the ids, too */
    if (status)
        return status;
    status = search_init(&q, err);
    if (!status && q.whole)
        memcpy(q.whole, ids, (size_t)n * sizeof *ids);
    if (!status)
        status = run_search(&q, err);
    if (!status)
        status = give_best(&q, out, n_out, err);
    search_finish(&q);
    const clef_status reset = clef_session_reset(s, status ? NULL : err);
    return status ? status : reset;
}

void clef_hypotheses_free(clef_hypothesis *hypotheses, int32_t n)
{
    for (int32_t i = 0; hypotheses && i < n; i++)
        free(hypotheses[i].ids);
    free(hypotheses);
}
