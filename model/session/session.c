/* A session: one sequence fed step by step through a plan that keeps its KV cache. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/lora.h"
#include "clef/ranks.h"
#include "graph/fail.h"
#include "model/session/session.h"
#include "runtime/plan/bounded.h"

/* Rows of the plan's first run; an encoder reads its source in one run. */
static int32_t first_rows(const clef_session *s, clef_part part)
{
    return part == CLEF_PART_ENCODER || s->opts.n_prompt < s->n_batch ? s->opts.n_prompt : s->n_batch;
}

/* Writes the number of the session's adapter for each sequence; it stays on the device. */
static clef_status write_adapter(const clef_session *s, clef_plan *plan, clef_error *err)
{
    enum { MOST = MAX_CANDIDATES }; /* there are fewer beams */
    int32_t numbers[MOST];
    const int32_t input = clef__plan_io_of(plan).adapter;
    const size_t n_bytes = clef_plan_input_bytes(plan, input, NULL, NULL);
    for (int32_t i = 0; i < MOST; i++)
        numbers[i] = s->opts.lora;
    return n_bytes <= sizeof numbers
               ? clef_plan_write(plan, input, numbers, n_bytes, err)
               : clef__fail(err, CLEF_E_LIMIT, "%zu sequences with adapters, expected at most %d",
                            n_bytes / sizeof *numbers, MOST);
}

clef_status clef__session_plan(const clef_session *s, clef_device *dev, clef_model *model,
                               const clef_build_opts *build, clef_plan **out, clef_error *err)
{
    clef_graph *graph;
    clef_build_opts with_loras = *build;
    clef_lora_set *loras = s->opts.loras;
    with_loras.loras = loras;
    clef_status status = clef_model_build(model, &with_loras, &graph, err);
    if (status)
        return status;
    status = clef_graph_optimize(graph, NULL, err);
    if (!status && build->part != CLEF_PART_ENCODER) /* an encoder reads its source in one run */
        status = clef__bound_rows(dev, graph, "T", CLEF__LEAST_ROWS, err);
    if (!status)
        status =
            clef_plan_create(dev, graph,
                             &(clef_plan_opts){.compile = s->opts.compile,
                                               .describe_only = s->opts.describe_only,
                                               .expected_length = first_rows(s, build->part),
                                               .weights = loras ? clef_lora_set_weight : clef_model_weight,
                                               .release = loras ? clef_lora_set_release : clef_model_release,
                                               .weights_name = clef_model_weights_name(model, loras),
                                               .weights_user = loras ? (void *)loras : model},
                             out, err);
    if (!status && loras && !s->opts.describe_only)
        status = write_adapter(s, *out, err);
    clef_graph_destroy(graph);
    return status;
}

static clef_status make_plan(clef_session *s, clef_error *err)
{
    const clef_build_opts opts = {.n_context = s->opts.n_context,
                                  .n_batch = s->opts.n_batch,
                                  .n_sequences = s->n_beams ? s->n_beams : 1,
                                  .kv_type = s->opts.kv_type,
                                  .part = s->is_seq2seq ? CLEF_PART_DECODER : CLEF_PART_WHOLE,
                                  .n_source = s->opts.n_source,
                                  .candidates = s->n_candidates,
                                  .taps = s->opts.taps,
                                  .n_taps = s->opts.n_taps,
                                  .sample = !s->n_beams};
    clef_status status = s->is_seq2seq ? clef__session_encoder(s, s->dev, s->model, err) : CLEF_OK;
    if (!status)
        status = clef__session_plan(s, s->dev, s->model, &opts, &s->plan, err);
    return status;
}

/* How many candidates of each beam the host examines: enough that n_beams remain if every better one ends its
 * text. */
static clef_status set_beams(clef_session *s, clef_error *err)
{
    const int32_t n = s->opts.n_beams, per_beam = 2 + s->hp->n_eos_more;
    if (n < 0 || n * per_beam > MAX_CANDIDATES)
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " beams, expected 0 to %d", n,
                          MAX_CANDIDATES / per_beam);
    if (n * per_beam > s->hp->n_vocab)
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " beams for a vocabulary of %" PRId32, n,
                          s->hp->n_vocab);
    s->n_beams = n;
    s->n_candidates = n * per_beam;
    return CLEF_OK;
}

static void set_defaults(clef_session *s)
{
    s->is_seq2seq = s->hp->n_decoder_layers > 0;
    s->is_recurrent = s->hp->linear_taps > 0;
    if (!s->opts.n_context)
        s->opts.n_context = s->hp->n_context;
    if (!s->opts.n_source)
        s->opts.n_source = s->hp->n_context;
    if (s->hp->n_mels)
        s->opts.n_source = s->hp->n_source;
    if (!s->opts.n_batch)
        s->opts.n_batch = 512;
    if (s->opts.n_batch > 1 && s->is_seq2seq)
        s->opts.n_batch = 1; /* a token or two come before the target's text */
    if (s->opts.n_batch > s->opts.n_context && s->opts.n_context > 0)
        s->opts.n_batch = s->opts.n_context;
}

/* The most tokens of a step: as requested, or fewer if launches must be kept short. */
static int32_t rows_of(const clef_session *s)
{
    int64_t bound = 1;
    clef_graph_symbol(clef_plan_graph(s->plan), s->io.T, &bound);
    return (int32_t)bound;
}

clef_status clef__session_open(clef_session *s, clef_error *err)
{
    const clef_status status = make_plan(s, err);
    if (status)
        return status;
    s->io = clef__plan_io_of(s->plan);
    if (s->io.T)
        s->n_batch = rows_of(s);
    return s->is_seq2seq ? clef__session_join(s, err) : CLEF_OK;
}

clef_status clef_session_create(clef_device *dev, clef_model *model, const clef_session_opts *opts,
                                clef_session **out, clef_error *err)
{
    *out = NULL;
    clef_session *s = calloc(1, sizeof *s);
    if (!s)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a session");
    s->dev = dev;
    s->model = model;
    s->hp = clef_model_hparams(model);
    s->opts = opts ? *opts : (clef_session_opts){0};
    set_defaults(s);
    s->n_batch = s->opts.n_batch;
    if (s->opts.lora < 0 || s->opts.lora > clef_lora_set_count(s->opts.loras)) {
        const int32_t lora = s->opts.lora, n = clef_lora_set_count(s->opts.loras);
        clef_session_destroy(s);
        return clef__fail(err, CLEF_E_ARG, "adapter %" PRId32 ", expected 0 to %" PRId32, lora, n);
    }
    s->last = malloc((size_t)s->hp->n_vocab * sizeof *s->last);
    s->seen = calloc(s->opts.n_context > 0 ? (size_t)s->opts.n_context + 1 : 1, sizeof *s->seen);
    clef_status status = s->last && s->seen
                             ? set_beams(s, err)
                             : clef__fail(err, CLEF_E_NOMEM, "no memory for %d logits and %d tokens",
                                          s->hp->n_vocab, s->opts.n_context);
    if (!status)
        status = clef__session_open(s, err);
    if (status) {
        clef_session_destroy(s);
        return status;
    }
    *out = s;
    return CLEF_OK;
}

void clef_session_destroy(clef_session *s)
{
    if (!s)
        return;
    clef_plan_destroy(s->plan);
    clef_plan_destroy(s->encoder.plan);
    free(s->encoder.rows);
    free(s->encoder.source);
    free(s->encoder.features);
    free(s->encoder.inputs);
    clef_sampler_destroy(s->sampler);
    clef__sampler_release(&s->room);
    clef__guide_finish(&s->guide);
    free(s->last);
    free(s->seen);
    free(s);
}

int32_t clef_session_n_context(const clef_session *s)
{
    return s->opts.n_context;
}

int32_t clef_session_n_past(const clef_session *s)
{
    return s->n_past;
}

const int32_t *clef_session_ids(const clef_session *s)
{
    return s->seen;
}

const int32_t *clef_session_source(const clef_session *s, int32_t *n)
{
    *n = s->encoder.n;
    return s->encoder.source;
}

const clef_plan *clef_session_plan(const clef_session *s, int32_t i)
{
    return i == 0 ? s->plan : i == 1 ? s->encoder.plan : NULL;
}

clef_plan_stats clef_session_describe(const clef_session *s)
{
    return s->plan ? clef_plan_describe(s->plan) : (clef_plan_stats){0};
}

int32_t clef_session_profile(clef_session *s, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    return s->plan ? clef_plan_profile(s->plan, times, capacity, err) : 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static clef_status bind_step(clef_session *s, int32_t past, int32_t n, clef_error *err)
{
    int32_t visible = (past + n + VISIBLE_STEP - 1) / VISIBLE_STEP * VISIBLE_STEP;
    if (visible > s->opts.n_context)
        visible = s->opts.n_context;
    clef_status status = s->io.T ? clef_plan_bind(s->plan, s->io.T, n, err) : CLEF_OK;
    if (!status)
        status = clef_plan_bind(s->plan, s->io.S, visible, err);
    return status;
}

clef_status clef__session_step(clef_session *s, int32_t past, int32_t n, clef_error *err)
{
    const clef_status status = bind_step(s, past, n, err);
    return status ? status : clef_plan_run(s->plan, err);
}

/* Writes the sampling options to the device, unless it has them. */
static clef_status set_sampling(clef_session *s, const sample_options *o, clef_error *err)
{
    if (s->io.sampling < 0 || memcmp(&s->sample, o, sizeof *o) == 0)
        return CLEF_OK;
    const clef_status status = clef_plan_write(s->plan, s->io.sampling, o, sizeof *o, err);
    if (!status)
        s->sample = *o;
    return status;
}

static clef_status feed_step(clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    const int32_t itself = 0;
    clef_status status = clef_plan_bind(s->plan, s->io.B, 1, err);
    if (!status && s->io.T)
        status = clef_plan_bind(s->plan, s->io.T, n, err);
    if (!status && s->io.order >= 0)
        status = clef_plan_write(s->plan, s->io.order, &itself, sizeof itself, err);
    if (!status)
        status = clef_plan_write(s->plan, s->io.ids, ids, (size_t)n * sizeof *ids, err);
    if (!status)
        status = clef_plan_write(s->plan, s->io.pos, &s->n_past, sizeof s->n_past, err);
    if (!status)
        status = bind_step(s, s->n_past, n, err);
    if (!status)
        status = clef_plan_run(s->plan, err);
    if (status)
        return status;
    memmove(s->seen + s->n_past, ids, (size_t)n * sizeof *ids); /* they may be there already */
    s->n_past += n;
    return CLEF_OK;
}

static clef_status check_ids(const clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    if (!s->plan)
        return clef__fail(err, CLEF_E_ARG, "the session's device was lost and did not come back");
    if (s->is_seq2seq && !s->encoder.n)
        return clef__fail(err, CLEF_E_ARG, "an encoder-decoder needs a source first: clef_session_encode()");
    if (n < 1)
        return clef__fail(err, CLEF_E_ARG, "%d tokens to feed, expected at least 1", n);
    if (n > s->opts.n_context - s->n_past)
        return clef__fail(err, CLEF_E_LIMIT, "%d tokens after %d: the context holds %d", n, s->n_past,
                          s->opts.n_context);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->hp->n_vocab)
            return clef__fail(err, CLEF_E_ARG, "token %d of the input is %d, the vocabulary has 0 to %d", i,
                              ids[i], s->hp->n_vocab - 1);
    return CLEF_OK;
}

clef_status clef__session_prompt(clef_session *s, const int32_t *ids, int32_t n, const sample_options *last,
                                 clef_error *err)
{
    const sample_options off = {.mode = SAMPLE_OFF};
    clef_status status = CLEF_OK;
    for (int32_t at = 0; at < n && !status; at += s->n_batch) {
        const int32_t step = n - at < s->n_batch ? n - at : s->n_batch;
        status = set_sampling(s, at + step == n ? last : &off, err);
        if (!status)
            status = feed_step(s, ids + at, step, err);
        if (!status && n > 1 && s->opts.compile.progress &&
            s->opts.compile.progress(s->opts.compile.progress_user, "prompt", (uint64_t)(at + step),
                                     (uint64_t)n))
            status =
                clef__fail(err, CLEF_E_CANCELLED, "prompt: interrupted at %d of %d tokens", at + step, n);
    }
    return status;
}

clef_status clef__session_end(clef_session *s, clef_error *err)
{
    const int is_ahead = s->gen.active && s->gen.n_ahead > 0, reads = is_ahead && !s->gen.on_host;
    s->state_is_ahead |= s->is_recurrent && is_ahead && s->gen.n_given > 0;
    s->gen = (generation){0};
    return reads ? clef_plan_read_wait(s->plan, err) : CLEF_OK;
}

/* Positions of the cache from n_past on are never read, and later steps overwrite them. A recurrent state has
 * no positions to return to. */
static void rewind_to(clef_session *s, int32_t n_past)
{
    s->n_past = n_past;
    s->state_is_ahead = s->is_recurrent;
}

/* A recurrent state cannot be rewound, so the sequence is fed again from position 0. */
clef_status clef__session_replay(clef_session *s, clef_error *err)
{
    const sample_options off = {.mode = SAMPLE_OFF};
    const int32_t n = s->n_past;
    if (!s->state_is_ahead)
        return CLEF_OK;
    s->n_past = 0;
    const clef_status status = clef__session_prompt(s, s->seen, n, &off, err);
    s->n_past = n;
    s->state_is_ahead = status != CLEF_OK;
    return status;
}

static clef_status feed_ids(clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    const sample_options off = {.mode = SAMPLE_OFF};
    const int32_t n_past = s->n_past;
    clef_status status = clef__session_replay(s, err);
    if (!status)
        status = clef__session_prompt(s, ids, n, &off, err);
    if (!status)
        status =
            clef_plan_read(s->plan, s->io.logits, s->last, (size_t)s->hp->n_vocab * sizeof *s->last, err);
    if (status)
        rewind_to(s, n_past);
    return status;
}

clef_status clef_session_feed(clef_session *s, const int32_t *ids, int32_t n, const float **logits,
                              clef_error *err)
{
    clef_error why = {0};
    *logits = NULL;
    clef_status status = check_ids(s, ids, n, err);
    if (!status)
        status = clef__session_end(s, err);
    if (status)
        return status;
    status = feed_ids(s, ids, n, &why);
    if (status)
        status = clef__session_recover(s, NULL, &why, err);
    if (!status && why.status)
        status = feed_ids(s, ids, n, err);
    if (!status)
        *logits = s->last;
    return status;
}

/* ---- generation ------------------------------------------------------------------------------ */

clef_status clef__session_start_read(clef_session *s, clef_error *err)
{
    if (s->gen.on_host) { /* which reads the logits when they are wanted */
        s->gen.n_ahead++;
        return CLEF_OK;
    }
    const clef_status status = clef_plan_read_start(s->plan, s->io.token, &s->token, sizeof s->token, err);
    s->gen.n_ahead += !status;
    return status;
}

/* Makes the sampler of a generation for which the device has no options. */
static clef_status make_sampler(clef_session *s, const clef_sampler_opts *opts, clef_error *err)
{
    clef_sampler_destroy(s->sampler);
    const clef_status status = clef__sampler_create(s->hp->n_vocab, opts, &s->sampler, err);
    return status ? status : clef__sampler_reserve(&s->room, s->sampler, s->opts.n_context + 1, err);
}

/* Where a generation after n tokens begins under the model's rules. */
static clef__rules_place place_rules(const clef_session *s, int32_t n, int32_t n_max)
{
    const clef__rules *rules = &s->model->rules;
    return (clef__rules_place){.rules = rules->n && !s->no_rules ? rules : NULL,
                               .hp = s->hp,
                               .source = s->encoder.source,
                               .n_source = s->hp->n_mels ? 0 : s->encoder.n,
                               .n_fed = n,
                               .n_most = n_max ? n + n_max : s->opts.n_context + 1};
}

static clef_status start_generation(clef_session *s, const int32_t *ids, int32_t n, int32_t n_max,
                                    const sample_options *sample, clef_error *err)
{
    const int32_t n_past = s->n_past;
    s->gen = (generation){.active = 1, .n_max = n_max, .sample = *sample};
    s->gen.rules = place_rules(s, n_past + n, n_max);
    s->gen.on_host = sample->mode == SAMPLE_OFF;
    s->gen.mu = s->gen.on_host ? clef__sampler_mu(s->sampler) : 0;
    clef_status status = s->guide.mask ? clef__guide_begin(&s->guide, &s->gen.place, err) : CLEF_OK;
    if (!status)
        status = clef__session_replay(s, err);
    if (!status)
        status = clef__session_prompt(s, ids, n, sample, err);
    if (!status)
        status = clef__session_start_read(s, err);
    if (status) {
        rewind_to(s, n_past);
        s->gen.active = 0;
    }
    return status;
}

clef_status clef_session_generate(clef_session *s, const int32_t *ids, int32_t n, int32_t n_max,
                                  const clef_sampler_opts *opts, clef_error *err)
{
    sample_options sample;
    clef_error why = {0};
    clef_status status = check_ids(s, ids, n, err);
    if (!status && s->n_beams)
        status = clef__fail(err, CLEF_E_ARG, "a session made for beams does not sample");
    if (!status && n_max < 0)
        status = clef__fail(err, CLEF_E_ARG, "%d tokens to generate, expected 0 (no limit) or more", n_max);
    if (!status)
        status = clef__sampler_options(opts, s->n_past + n, &sample, err);
    if (!status)
        status = clef__session_end(s, err);
    s->no_rules = opts && opts->no_rules;
    if (!status && (s->guide.mask || (s->model->rules.n && !s->no_rules)))
        sample = (sample_options){.mode = SAMPLE_OFF, .first = sample.first};
    if (!status && sample.mode == SAMPLE_OFF)
        status = make_sampler(s, opts, err);
    if (status)
        return status;
    status = start_generation(s, ids, n, n_max, &sample, &why);
    if (status)
        status = clef__session_recover(s, NULL, &why, err);
    return !status && why.status ? start_generation(s, ids, n, n_max, &sample, err) : status;
}

/* Enqueues the step of a token that the host has sampled, at position `past`. */
static clef_status feed_sampled(clef_session *s, int32_t past, int32_t token, clef_error *err)
{
    clef_status status = s->io.T ? clef_plan_bind(s->plan, s->io.T, 1, err) : CLEF_OK;
    if (!status)
        status = clef_plan_write(s->plan, s->io.ids, &token, sizeof token, err);
    if (!status)
        status = clef_plan_write(s->plan, s->io.pos, &past, sizeof past, err);
    return status ? status : clef__session_step(s, past, 1, err);
}

clef_status clef_session_guide(clef_session *s, const clef_guide *guide, clef_error *err)
{
    const clef_status status = clef__session_end(s, err);
    return status ? status : clef__guide_set(&s->guide, guide, s->hp->n_vocab, err);
}

/* Samples from the logits of the last step, after `past` tokens, and enqueues the next one. */
static clef_status sample_on_host(clef_session *s, int32_t past, int more, clef_error *err)
{
    generation *g = &s->gen;
    const size_t n_bytes = (size_t)s->hp->n_vocab * sizeof *s->last;
    clef_status status = clef_plan_read(s->plan, s->io.logits, s->last, n_bytes, err);
    const clef__sampler_pick pick = {.logits = s->last,
                                     .mask = s->guide.mask,
                                     .text = s->seen,
                                     .n_text = past,
                                     .draw = (uint64_t)g->n_given,
                                     .mu = &g->mu,
                                     .rules = g->rules.rules ? &g->rules : NULL};
    if (status)
        return status;
    s->token = s->guide.mask ? clef__guide_sample(&s->guide, &g->place, s->sampler, &s->room, &pick)
                             : clef__sampler_pick_with(s->sampler, &s->room, &pick);
    if (s->token == CLEF__PICK_NOT_FINITE)
        status = clef__fail_not_finite(past, err);
    else if (s->token < 0)
        status = clef__fail(err, CLEF_E_ARG, "%s: no token of the vocabulary is allowed%s",
                            s->guide.mask ? "guide" : "generation_config.json",
                            s->guide.mask ? ", or the constraint grew beyond its limits" : "");
    if (status)
        return status;
    return more ? feed_sampled(s, past, s->token, err) : CLEF_OK;
}

/* Waits for the token that the device samples; meanwhile it works on the next one. */
static clef_status sample_on_device(clef_session *s, int32_t past, int more, clef_error *err)
{
    const clef_status status = more ? clef__session_step(s, past, 1, err) : CLEF_OK;
    const clef_status waited = clef_plan_read_wait(s->plan, status ? NULL : err);
    if (status || waited)
        return status ? status : waited;
    return s->token < 0 ? clef__fail_not_finite(past, err) : CLEF_OK;
}

static clef_status next_token(clef_session *s, int32_t *id, clef_error *err)
{
    generation *g = &s->gen;
    if (!g->active)
        return clef__fail(err, CLEF_E_ARG, "no generation is running");
    if (!g->n_ahead)
        return g->n_max && g->n_given == g->n_max
                   ? clef__fail(err, CLEF_E_LIMIT, "all %d tokens have been generated", g->n_max)
                   : clef__fail(err, CLEF_E_LIMIT, "a token after %d: the context holds %d", s->n_past,
                                s->opts.n_context);
    const int32_t past = s->n_past + (g->n_given > 0); /* includes the previous token */
    const int more = past < s->opts.n_context && (!g->n_max || g->n_given + 1 < g->n_max);
    clef_status status =
        g->on_host ? sample_on_host(s, past, more, err) : sample_on_device(s, past, more, err);
    const int32_t token = s->token;
    g->n_ahead = 0;
    if (!status && more)
        status = clef__session_start_read(s, err);
    if (status) {
        rewind_to(s, s->n_past);
        g->active = 0;
        return status;
    }
    s->n_past = past;
    s->seen[past] = token;
    g->n_given++;
    *id = token;
    return CLEF_OK;
}

clef_status clef_session_next(clef_session *s, int32_t *id, clef_error *err)
{
    const generation before = s->gen;
    clef_error why = {0};
    *id = -1;
    clef_status status = next_token(s, id, &why);
    if (!status)
        return CLEF_OK;
    status = clef__session_recover(s, &before, &why, err);
    return status ? status : next_token(s, id, err);
}

clef_status clef_session_reset(clef_session *s, clef_error *err)
{
    const clef_status status = clef__session_end(s, err);
    s->n_past = s->state_is_ahead = 0;
    return status || !s->plan ? status : clef_plan_reset(s->plan, err);
}

clef_status clef_session_keep(clef_session *s, int32_t n, clef_error *err)
{
    if (n < 0 || n > s->n_past)
        return clef__fail(err, CLEF_E_ARG, "%d positions to keep, the cache holds %d", n, s->n_past);
    const clef_status status = clef__session_end(s, err);
    if (n < s->n_past)
        rewind_to(s, n);
    return status;
}
