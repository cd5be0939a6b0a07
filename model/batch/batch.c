/* A batch: requests come and go, and steps run them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/batch/batch.h"
#include "model/batch/disk.h"
#include "model/open/config.h"
#include "model/open/model.h"
#include "model/sight/sight.h"
#include "runtime/os/os.h"

/* ---- making ------------------------------------------------------------------------------------ */

/* Whether the model has layers with full, and with sliding attention. */
static void find_kinds(clef_batch *b)
{
    const clef_hparams *hp = b->hp;
    const int32_t n = hp->n_decoder_layers ? hp->n_decoder_layers : hp->n_layers;
    for (int32_t i = 0; i < n; i++) {
        const int is_linear = hp->linear_taps > 0 && (hp->linear_layers[i / 32] >> (i % 32) & 1);
        const int slides = clef__layer_slides(hp, i);
        b->has_sliding |= slides && !is_linear;
        b->has_full |= !slides && !is_linear;
    }
    b->is_recurrent = hp->linear_taps > 0;
}

/* The rows of a step. Where those of a picture see each other, a step has room for them (Gemma 3's are 256).
 */
static int32_t default_step(const clef_batch *b)
{
    const int is_small = clef_device_describe(b->dev)->caps.is_cpu &&
                         (!b->model->sight || b->model->sight->view == CLEF__SIGHT_CAUSAL);
    return is_small ? 256 : 512;
}

static void set_defaults(clef_batch *b)
{
    clef_batch_opts *o = &b->opts;
    if (!o->n_context)
        o->n_context = b->hp->n_context;
    if (!o->max_sequences)
        o->max_sequences = 8;
    if (!o->step_tokens)
        o->step_tokens = default_step(b);
    if (!o->n_source)
        o->n_source = b->hp->n_context;
    if (b->hp->n_decoder_layers > 0)
        b->no_prefix_cache = "what an encoder-decoder's target computes depends on its source";
    else if (o->no_prefix_cache)
        b->no_prefix_cache = "switched off";
    if (o->ngram_max && !o->ngram_min)
        o->ngram_min = o->ngram_max < DEFAULT_NGRAM_MIN ? o->ngram_max : DEFAULT_NGRAM_MIN;
    if (!o->spec_max_sequences)
        o->spec_max_sequences = 4;
    if (!o->draft_tokens)
        o->draft_tokens = DEFAULT_DRAFT;
    const int is_asked = o->ngram_max || o->draft || o->mtp;
    b->most_samples = o->max_sequences + (is_asked ? MOST_DRAFTS * o->spec_max_sequences : 0);
}

static clef_status check_speculation(const clef_batch_opts *o, clef_error *err)
{
    if (o->ngram_min < 0 || o->ngram_min > o->ngram_max || o->spec_max_sequences < 0)
        return clef__fail(err, CLEF_E_ARG,
                          "speculation by %d to %d tokens, up to %d sequences: expected 1 or more, rising",
                          o->ngram_min, o->ngram_max, o->spec_max_sequences);
    if ((o->draft != NULL) + (o->ngram_max > 0) + (o->mtp != 0) > 1)
        return clef__fail(err, CLEF_E_ARG,
                          "speculation: expected one of the text itself, a draft and the model's own layer");
    if (o->draft_tokens < 1 || o->draft_tokens > MOST_DRAFTS)
        return clef__fail(err, CLEF_E_ARG, "drafts of %d tokens, expected 1 to %d", o->draft_tokens,
                          MOST_DRAFTS);
    return CLEF_OK;
}

static clef_status check_opts(const clef_batch *b, clef_error *err)
{
    const clef_batch_opts *o = &b->opts;
    if (o->n_context < 1 || o->n_context > b->hp->n_context)
        return clef__fail(err, CLEF_E_ARG, "a context of %d: expected 1 to %d, the model's positions",
                          o->n_context, b->hp->n_context);
    if (o->max_sequences < 1 || o->max_sequences > 4096)
        return clef__fail(err, CLEF_E_ARG, "%d sequences at once, expected 1 to 4096", o->max_sequences);
    if (o->step_tokens < o->max_sequences)
        return clef__fail(err, CLEF_E_ARG, "%d tokens a step, expected at least %d, one for each sequence",
                          o->step_tokens, o->max_sequences);
    if (o->kv_tokens < 0)
        return clef__fail(err, CLEF_E_ARG, "a pool of %" PRId64 " positions, expected 0 or more",
                          o->kv_tokens);
    return check_speculation(o, err);
}

/* Sequences whose recurrent states may have to be brought back after a step. */
static int32_t n_spares(const clef_batch *b)
{
    const clef_batch_opts *o = &b->opts;
    const int32_t most = o->max_sequences < o->spec_max_sequences ? o->max_sequences : o->spec_max_sequences;
    return b->is_recurrent && (o->ngram_max || o->draft || o->mtp) ? most : 0;
}

static clef_status make_pages(clef_batch *b, clef_error *err)
{
    return clef__pages_create(&(clef__pages_opts){.n_blocks = b->stats.n_pages,
                                                  .n_chains = b->opts.max_sequences,
                                                  .window = b->has_sliding ? b->hp->sliding_window : 0,
                                                  .n_sliding = b->build.n_sliding_pages,
                                                  .n_marks = b->n_snapshots,
                                                  .keeps = !b->no_prefix_cache},
                              &b->pages, err);
}

int clef__batch_make_input(batch_input *x, size_t n)
{
    x->now = calloc(n, sizeof *x->now);
    x->sent = calloc(n, sizeof *x->sent);
    return x->now && x->sent;
}

void clef__batch_free_input(batch_input *x)
{
    free(x->now);
    free(x->sent);
}

/* All that a step needs on the host. */
static clef_status make_rows(clef_batch *b, clef_error *err)
{
    batch_rows *r = &b->rows;
    const size_t rows = (size_t)b->opts.step_tokens, n = (size_t)b->opts.max_sequences,
                 vocab = (size_t)b->hp->n_vocab, samples = (size_t)b->most_samples;
    int made = clef__batch_make_input(&r->ids, rows) && clef__batch_make_input(&r->pos, rows) &&
               clef__batch_make_input(&r->source_end, rows) && clef__batch_make_input(&r->adapter, rows) &&
               clef__batch_make_input(&r->runs, 3 * n) && clef__batch_make_input(&r->samples, samples) &&
               clef__batch_make_input(&r->sampling, samples * SAMPLE_OPTIONS) &&
               clef__batch_make_input(&r->recent, samples * CLEF_RECENT);
    r->sampled = calloc(samples, sizeof *r->sampled);
    r->pages = calloc(n * (size_t)b->n_each, sizeof *r->pages);
    r->sliding_pages = calloc(n * (size_t)b->n_each, sizeof *r->sliding_pages);
    r->logits = malloc(samples * vocab * sizeof *r->logits);
    b->candidates = malloc(vocab * sizeof *b->candidates);
    b->slots = calloc(n, sizeof *b->slots);
    b->encoder.ends = calloc(n, sizeof *b->encoder.ends);
    b->cap_tokens = 2 * b->most_samples;
    b->tokens = malloc((size_t)b->cap_tokens * sizeof *b->tokens);
    made = made && r->sampled && r->pages && r->sliding_pages && r->logits && b->candidates && b->slots &&
           b->encoder.ends && b->tokens;
    return made ? CLEF_OK
                : clef__fail(err, CLEF_E_NOMEM, "no memory for steps of %d rows", b->opts.step_tokens);
}

static clef_status open_batch(clef_batch *b, clef_error *err)
{
    set_defaults(b);
    find_kinds(b);
    clef_status s = check_opts(b, err);
    if (s)
        return s;
    b->n_each = (b->opts.n_context + KV_BLOCK - 1) / KV_BLOCK;
    b->n_snapshots = b->is_recurrent && !b->no_prefix_cache ? 8 + 2 * b->opts.max_sequences : 0;
    b->build = (clef_build_opts){.n_context = b->opts.n_context,
                                 .n_sequences = b->opts.max_sequences,
                                 .kv_type = b->opts.kv_type,
                                 .loras = b->opts.loras,
                                 .part = b->hp->n_decoder_layers ? CLEF_PART_DECODER : CLEF_PART_WHOLE,
                                 .n_source = b->opts.n_source,
                                 .sample = 1,
                                 .n_rows = b->opts.step_tokens,
                                 .n_samples = b->most_samples,
                                 .n_snapshots = b->n_snapshots + n_spares(b),
                                 .mtp = b->opts.mtp ? CLEF_MTP_TARGET : CLEF_MTP_NONE};
    s = clef__batch_open(b, err);
    if (!s)
        s = make_pages(b, err);
    if (!s)
        s = clef__disk_open(b, err);
    if (!s)
        s = make_rows(b, err);
    return !s && b->opts.draft ? clef__draft_open(b, err) : s;
}

clef_status clef_batch_create(clef_device *dev, clef_model *model, const clef_batch_opts *opts,
                              clef_batch **out, clef_error *err)
{
    return clef__batch_create(dev, model, opts, 0, out, err);
}

clef_status clef__batch_create(clef_device *dev, clef_model *model, const clef_batch_opts *opts,
                               uint64_t beside_bytes, clef_batch **out, clef_error *err)
{
    *out = NULL;
    if (clef_model_hparams(model)->n_mels)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: %s hears its source: it has no tokens (clef transcribe)",
                          clef_model_path(model), clef_model_hparams(model)->arch);
    clef_batch *b = calloc(1, sizeof *b);
    if (!b)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a batch");
    b->dev = dev;
    b->model = model;
    b->hp = clef_model_hparams(model);
    b->beside_bytes = beside_bytes;
    b->opts = opts ? *opts : (clef_batch_opts){0};
    const clef_status s = open_batch(b, err);
    if (s) {
        clef_batch_destroy(b);
        return s;
    }
    *out = b;
    return CLEF_OK;
}

static void free_sequence(batch_sequence *s)
{
    if (!s)
        return;
    free(s->tokens);
    free(s->source);
    free(s->stops);
    free(s->forced);
    free(s->no_ends);
    free(s->hidden);
    free(s->chain.blocks);
    clef__batch_free_pictures(s);
    clef_sampler_destroy(s->sampler);
    clef__guide_finish(&s->guide);
    clef__thought_finish(&s->thought);
    free(s);
}

static void free_rows(batch_rows *r)
{
    clef__batch_free_input(&r->ids);
    clef__batch_free_input(&r->pos);
    clef__batch_free_input(&r->source_end);
    clef__batch_free_input(&r->adapter);
    clef__batch_free_input(&r->samples);
    clef__batch_free_input(&r->sampling);
    clef__batch_free_input(&r->recent);
    clef__batch_free_input(&r->runs);
    free(r->sampled);
    free(r->pages);
    free(r->sliding_pages);
    free(r->logits);
}

void clef_batch_destroy(clef_batch *b)
{
    if (!b)
        return;
    clef_batch_destroy(b->draft);
    clef__further_free(b);
    for (int32_t i = 0; i < b->n_all; i++)
        free_sequence(b->all[i]);
    clef__batch_close(b);
    clef__disk_close(b);
    clef__pages_destroy(b->pages);
    free_rows(&b->rows);
    clef__batch_drop_pictures(b);
    free(b->encoder.rows);
    free(b->encoder.page);
    free(b->encoder.ends);
    free(b->encoder.states);
    free(b->encoder.outputs);
    free(b->states);
    free(b->candidates);
    clef__sampler_release(&b->room);
    free(b->slots);
    free(b->tokens);
    free(b->all);
    free(b);
}

/* ---- requests ---------------------------------------------------------------------------------- */

static clef_status check_ids(const clef_batch *b, const int32_t *ids, int32_t n, const char *what,
                             clef_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= b->hp->n_vocab)
            return clef__fail(err, CLEF_E_ARG, "token %d of the %s is %d, the vocabulary has 0 to %d", i,
                              what, ids[i], b->hp->n_vocab - 1);
    return CLEF_OK;
}

/* The most tokens that one sequence can have. */
static int32_t most_tokens(const clef_batch *b)
{
    return b->stats.kv_tokens < b->opts.n_context ? (int32_t)b->stats.kv_tokens : b->opts.n_context;
}

static clef_status check_source(const clef_batch *b, const clef_request *r, clef_error *err)
{
    if ((b->hp->n_decoder_layers > 0) != (r->n_source > 0))
        return clef__fail(err, CLEF_E_ARG, "a source of %d tokens: %s", r->n_source,
                          b->hp->n_decoder_layers ? "an encoder-decoder needs one"
                                                  : "only an encoder-decoder has one");
    if (r->n_source > b->opts.n_source)
        return clef__fail(err, CLEF_E_LIMIT, "a source of %d tokens, the batch accepts %d", r->n_source,
                          b->opts.n_source);
    return check_ids(b, r->source, r->n_source, "source", err);
}

static clef_status check_request(const clef_batch *b, const clef_request *r, clef_error *err)
{
    const int32_t most = most_tokens(b);
    if (!b->plan)
        return clef__fail(err, CLEF_E_ARG, "the batch's device was lost and did not come back");
    if (r->n < 1 || r->n_max < 0 || r->n_stops < 0)
        return clef__fail(err, CLEF_E_ARG,
                          "%d prompt tokens, %d to generate, %d stop tokens: expected at least 1, 0 and 0",
                          r->n, r->n_max, r->n_stops);
    if (r->logprobs < 0 || r->logprobs > 2)
        return clef__fail(err, CLEF_E_ARG, "logprobs %d: expected 0 to 2", r->logprobs);
    if (r->n_top < 0 || r->n_top > CLEF_MOST_TOP || (r->n_top && !r->logprobs))
        return clef__fail(err, CLEF_E_ARG, "the %d likeliest tokens: expected 0 to %d, with logprobs",
                          r->n_top, CLEF_MOST_TOP);
    if (r->n_min < 0 || (r->n_min && r->guide))
        return clef__fail(err, CLEF_E_ARG, "at least %d tokens: expected 0 or more, and 0 with a guide",
                          r->n_min);
    if (r->n >= most || r->n_max > most - r->n)
        return clef__fail(
            err, CLEF_E_LIMIT,
            "%d prompt tokens and %d to generate: the context holds %d, the pool of keys and values %" PRId64,
            r->n, r->n_max ? r->n_max : 1, b->opts.n_context, b->stats.kv_tokens);
    if (r->lora < 0 || r->lora > clef_lora_set_count(b->opts.loras))
        return clef__fail(err, CLEF_E_ARG, "adapter %d, the batch has %d", r->lora,
                          clef_lora_set_count(b->opts.loras));
    if (r->n_forced < 0 || r->n_forced > (r->n_max ? r->n_max : most - r->n))
        return clef__fail(err, CLEF_E_ARG, "%d forced tokens of the text, %d to generate", r->n_forced,
                          r->n_max ? r->n_max : most - r->n);
    clef_status s = check_source(b, r, err);
    if (!s)
        s = clef__batch_check_pictures(b, r, err);
    if (!s)
        s = check_ids(b, r->forced, r->n_forced, "text", err);
    return s ? s : check_ids(b, r->ids, r->n, "prompt", err);
}

static int32_t *copied(const int32_t *ids, int32_t n, int32_t room)
{
    int32_t *out = malloc((size_t)room * sizeof *out + 1);
    if (out && n)
        memcpy(out, ids, (size_t)n * sizeof *ids);
    return out;
}

static batch_sequence *make_sequence(const clef_batch *b, const clef_request *r)
{
    batch_sequence *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (batch_sequence){.slot = NO_SLOT,
                          .n_tokens = r->n,
                          .n_prompt = r->n,
                          .n_most = r->n_max ? r->n + r->n_max : most_tokens(b),
                          .n_source = r->n_source,
                          .n_stops = r->n_stops,
                          .n_forced = r->n_forced,
                          .no_speculation = r->no_speculation || ((b->draft || b->opts.mtp) && r->n_pictures),
                          .ignore_eos = r->ignore_eos,
                          .key = {.adapter = r->lora, .salt = r->salt},
                          .chain = {.root = -1},
                          .stream = r->stream,
                          .logprobs = r->logprobs,
                          .n_top = r->n_top,
                          .n_min = r->n_min,
                          .n_cached = -1};
    s->tokens = copied(r->ids, r->n, s->n_most);
    s->source = copied(r->source, r->n_source, r->n_source);
    s->stops = copied(r->stops, r->n_stops, r->n_stops);
    s->forced = copied(r->forced, r->n_forced, r->n_forced);
    s->chain.blocks = malloc(((size_t)s->n_most / KV_BLOCK + 1) * sizeof *s->chain.blocks);
    if (s->tokens && s->source && s->stops && s->forced && s->chain.blocks &&
        clef__batch_take_pictures(b, s, r))
        return s;
    free_sequence(s);
    return NULL;
}

/* The mask for the first n_min tokens. */
static int forbid_ends(const clef_batch *b, batch_sequence *s)
{
    const int32_t n_words = (b->hp->n_vocab + 31) / 32;
    if (!s->n_min)
        return 1;
    s->no_ends = malloc((size_t)n_words * sizeof *s->no_ends);
    for (int32_t id = 0; s->no_ends && id < n_words * 32; id++) {
        s->no_ends[id / 32] = id % 32 ? s->no_ends[id / 32] : 0;
        if (id < b->hp->n_vocab && !clef__batch_ends_text(b, s, id))
            s->no_ends[id / 32] |= 1u << id % 32;
    }
    return s->no_ends != NULL;
}

static int make_room(clef_batch *b)
{
    if (b->n_all < b->cap_all)
        return 1;
    const int32_t cap = b->cap_all ? 2 * b->cap_all : 16;
    batch_sequence **all = realloc(b->all, (size_t)cap * sizeof(batch_sequence *));
    if (!all)
        return 0;
    b->all = all;
    b->cap_all = cap;
    return 1;
}

static void append(clef_batch *b, batch_sequence *s)
{
    s->number = b->next_number++;
    b->all[b->n_all++] = s;
    b->stats.n_waiting++;
}

/* The mirror of s in the draft's batch. It is greedy, and never ends by itself. */
static int add_mirror(clef_batch *draft, batch_sequence *s)
{
    const clef_request r = {
        .ids = s->tokens, .n = s->n_tokens, .n_max = s->n_most - s->n_tokens + 1, .ignore_eos = 1};
    s->mirror = make_room(draft) ? make_sequence(draft, &r) : NULL;
    if (s->mirror) {
        s->mirror->sampling.mode = SAMPLE_GREEDY;
        append(draft, s->mirror);
    }
    return s->mirror != NULL;
}

/* Makes the sampler of a request for which the device has no options. */
static clef_status make_sampler(clef_batch *b, const clef_request *r, clef_sampler **out, clef_error *err)
{
    const int32_t n_most = r->n_max ? r->n + r->n_max : most_tokens(b);
    const clef_status s = clef__sampler_create(b->hp->n_vocab, &r->sampling, out, err);
    return s ? s : clef__sampler_reserve(&b->room, *out, n_most, err);
}

static clef_status begin_guide(const clef_batch *b, const clef_guide *guide, clef__guide *out,
                               clef__guide_place *place, clef_error *err)
{
    const clef_status s = clef__guide_set(out, guide, b->hp->n_vocab, err);
    return s ? s : clef__guide_begin(out, place, err);
}

static clef_status begin_thought(const clef_batch *b, const clef_thought *limits, clef__thought *out,
                                 clef_error *err)
{
    const clef_tokenizer *tok = clef_model_tokenizer(b->model, err);
    return tok ? clef__thought_begin(out, limits, tok, err)
               : clef__fail(err, CLEF_E_ARG, "thought: no tokenizer");
}

/* Puts all running sequences back, and forgets what the caches hold. */
static void forget_caches(clef_batch *b)
{
    for (int32_t i = 0; i < b->opts.max_sequences; i++)
        if (b->slots[i])
            clef__batch_preempt(b, b->slots[i]);
    clef__pages_forget(b->pages);
    if (b->draft)
        forget_caches(b->draft);
}

/* Makes the plan anew, so that it takes rows of pictures. What was computed is computed again. */
static clef_status begin_pictures(clef_batch *b, clef_error *err)
{
    clef_error again = {0};
    if (b->build.pictures)
        return CLEF_OK;
    if (!b->picture_rows.rows && !clef__batch_make_pictures(b)) {
        clef__batch_drop_pictures(b);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for steps of %d rows", b->opts.step_tokens);
    }
    forget_caches(b);
    clef__batch_close(b);
    b->build.pictures = 1;
    const clef_status s = clef__batch_open(b, err);
    if (!s)
        return CLEF_OK;
    clef__batch_close(b);
    b->build.pictures = 0;
    if (clef__batch_open(b, &again))
        clef__batch_close(b);
    return s;
}

clef_status clef_batch_add(clef_batch *b, const clef_request *r, int64_t *sequence, clef_error *err)
{
    sample_options sampling;
    clef_sampler *sampler = NULL;
    clef__guide guide = {.n_words = 0};
    clef__guide_place place = {.begun = 0};
    clef__thought thought = {.most = 0};
    *sequence = -1;
    clef_status status = check_request(b, r, err);
    if (!status)
        status = clef__sampler_options(&r->sampling, r->n, &sampling, err);
    const int has_rules = b->model->rules.n && !r->sampling.no_rules;
    if (!status && (r->guide || r->n_min || has_rules || r->logprobs == 2))
        sampling = (sample_options){.mode = SAMPLE_OFF, .first = sampling.first};
    if (!status && r->guide)
        status = begin_guide(b, r->guide, &guide, &place, err);
    if (!status && r->thought)
        status = begin_thought(b, r->thought, &thought, err);
    if (!status && sampling.mode == SAMPLE_OFF)
        status = make_sampler(b, r, &sampler, err);
    if (!status && r->n_pictures)
        status = begin_pictures(b, err);
    if (!status) /* steps may have become smaller */
        status = clef__batch_check_pictures(b, r, err);
    if (status) {
        clef_sampler_destroy(sampler);
        clef__guide_finish(&guide);
        clef__thought_finish(&thought);
        return status;
    }
    batch_sequence *s = make_room(b) ? make_sequence(b, r) : NULL;
    if (s && (!forbid_ends(b, s) || (b->draft && !r->n_pictures && !add_mirror(b->draft, s)))) {
        free_sequence(s);
        s = NULL;
    }
    if (!s) {
        clef_sampler_destroy(sampler);
        clef__guide_finish(&guide);
        clef__thought_finish(&thought);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a request of %d tokens", r->n);
    }
    s->sampling = sampling;
    s->sampler = sampler;
    s->mu = sampler ? clef__sampler_mu(sampler) : 0;
    s->guide = guide;
    s->place = place;
    s->thought = thought;
    if (has_rules)
        s->rules = (clef__rules_place){.rules = &b->model->rules,
                                       .hp = b->hp,
                                       .source = s->source,
                                       .n_source = s->n_source,
                                       .n_fed = r->n + r->n_forced,
                                       .n_most = s->n_most};
    append(b, s);
    *sequence = s->number;
    return CLEF_OK;
}

void clef__batch_remove(clef_batch *b, batch_sequence *s)
{
    int32_t i = 0;
    if (s->slot != NO_SLOT)
        clef__batch_preempt(b, s);
    if (s->mirror)
        clef__batch_remove(b->draft, s->mirror);
    b->stats.n_waiting--;
    while (b->all[i] != s)
        i++;
    memmove(b->all + i, b->all + i + 1, (size_t)(b->n_all - i - 1) * sizeof(batch_sequence *));
    b->n_all--;
    free_sequence(s);
}

static batch_sequence *find(const clef_batch *b, int64_t sequence)
{
    for (int32_t i = 0; i < b->n_all; i++)
        if (b->all[i]->number == sequence)
            return b->all[i];
    return NULL;
}

static clef_status not_found(int64_t sequence, clef_error *err)
{
    return clef__fail(err, CLEF_E_NOT_FOUND, "no sequence has the number %" PRId64, sequence);
}

clef_status clef_batch_cancel(clef_batch *b, int64_t sequence, clef_error *err)
{
    int32_t found = 0, kept = 0;
    for (int32_t i = 0; i < b->n_tokens; i++) { /* tokens that were not taken */
        const clef_batch_token t = b->tokens[(b->first_token + i) % b->cap_tokens];
        if (t.sequence != sequence)
            b->tokens[(b->first_token + kept++) % b->cap_tokens] = t;
        found |= t.sequence == sequence;
    }
    b->n_tokens = kept;
    batch_sequence *s = find(b, sequence);
    if (s)
        clef__batch_remove(b, s);
    return s || found ? CLEF_OK : not_found(sequence, err);
}

clef_status clef_batch_pause(clef_batch *b, int64_t sequence, clef_error *err)
{
    batch_sequence *s = find(b, sequence);
    if (!s)
        return not_found(sequence, err);
    s->is_paused = 1;
    if (s->slot != NO_SLOT)
        clef__batch_preempt(b, s);
    return CLEF_OK;
}

clef_status clef_batch_resume(clef_batch *b, int64_t sequence, clef_error *err)
{
    batch_sequence *s = find(b, sequence);
    if (!s)
        return not_found(sequence, err);
    s->is_paused = 0;
    return CLEF_OK;
}

int32_t clef_batch_find(const clef_batch *b, int64_t sequence, int32_t *n_past, int32_t *n_cached)
{
    const batch_sequence *s = find(b, sequence);
    *n_past = s ? s->n_past : 0;
    *n_cached = s && s->n_cached > 0 ? s->n_cached : 0;
    return s ? s->slot != NO_SLOT : -1;
}

/* ---- steps ------------------------------------------------------------------------------------- */

static int is_alone(const clef_batch *b)
{
    int32_t n = 0;
    const clef_plan *const plans[] = {b->plan, b->encoder.plan, clef_batch_plan(b, 2)};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        int32_t stages = 0;
        while (plans[i] && clef_plan_stage(plans[i], stages))
            stages++;
        n += stages + (stages > 1);
    }
    return clef_device_n_plans(b->dev) == n;
}

static void close_plans(clef_batch *b)
{
    clef__batch_close(b);
    if (b->draft)
        clef__batch_close(b->draft);
}

/* After a lost device: a new context, and plans with empty caches. */
static clef_status recover(clef_batch *b, const clef_error *why, clef_error *err)
{
    clef_error again = {0};
    if (!clef_error_is_lost(why) || !is_alone(b)) {
        if (err)
            *err = *why;
        return why->status;
    }
    close_plans(b);
    clef_status s = clef_device_reopen(b->dev, &again);
    if (!s)
        s = clef__batch_open(b, &again);
    if (!s && b->draft)
        s = clef__batch_open(b->draft, &again);
    if (!s)
        return CLEF_OK;
    close_plans(b);
    return clef__fail_cl(err, why->status, why->cl_code, "%.400s; the device did not come back: %.500s",
                         why->text, again.text);
}

/* The ring must have room for all tokens that a step can sample. */
static clef_status make_token_room(clef_batch *b, clef_error *err)
{
    if (b->n_tokens + b->most_samples <= b->cap_tokens)
        return CLEF_OK;
    const int32_t cap = 2 * (b->n_tokens + b->most_samples);
    clef_batch_token *tokens = malloc((size_t)cap * sizeof *tokens);
    if (!tokens)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d tokens that were not taken", cap);
    for (int32_t i = 0; i < b->n_tokens; i++)
        tokens[i] = b->tokens[(b->first_token + i) % b->cap_tokens];
    free(b->tokens);
    b->tokens = tokens;
    b->first_token = 0;
    b->cap_tokens = cap;
    return CLEF_OK;
}

/* The places of texts that are paused or wait would else be gone once others need much memory. */
static void keep_places(clef_batch *b)
{
    for (int32_t i = 0; i < b->n_all; i++)
        if (b->all[i]->guide.mask)
            clef__guide_keep(&b->all[i]->guide, &b->all[i]->place);
}

static clef_status step_once(clef_batch *b, int32_t *n, clef_error *err)
{
    const double began = clef__os_seconds();
    const int64_t n_before = b->stats.n_generated;
    keep_places(b);
    clef_status s = clef__batch_schedule(b, n, err);
    if (s || !*n)
        return s;
    s = clef__batch_run(b, err);
    if (!s)
        clef__batch_weigh(b, clef__os_seconds() - began, b->stats.n_generated - n_before);
    return s;
}

clef_status clef_batch_step(clef_batch *b, int32_t *n_rows, clef_error *err)
{
    clef_error why = {0};
    *n_rows = 0;
    if (!b->plan)
        return clef__fail(err, CLEF_E_ARG, "the batch's device was lost and did not come back");
    clef_status s = make_token_room(b, err);
    if (s)
        return s;
    s = step_once(b, n_rows, &why);
    if (!s)
        return CLEF_OK;
    forget_caches(b); /* a step that failed may have changed states half */
    s = recover(b, &why, err);
    if (!s)
        s = make_token_room(b, err); /* the step that failed may have sampled tokens */
    return s ? s : step_once(b, n_rows, err);
}

int32_t clef_batch_take(clef_batch *b, clef_batch_token *out, int32_t capacity)
{
    const int32_t n = b->n_tokens < capacity ? b->n_tokens : capacity;
    for (int32_t i = 0; i < n; i++)
        out[i] = b->tokens[(b->first_token + i) % b->cap_tokens];
    b->first_token = (b->first_token + n) % b->cap_tokens;
    b->n_tokens -= n;
    return n;
}

/* ---- describing -------------------------------------------------------------------------------- */

clef_batch_stats clef_batch_describe(const clef_batch *b)
{
    clef_batch_stats stats = b->stats;
    const clef__pages_count n = clef__pages_counts(b->pages);
    stats.n_pages_running = n.in_chains;
    stats.n_pages_kept = n.kept;
    return stats;
}

const char *clef_batch_no_prefix_cache(const clef_batch *b)
{
    return b->no_prefix_cache;
}

const char *clef_batch_no_speculation(const clef_batch *b)
{
    return b->no_speculation;
}

const clef_plan *clef_batch_plan(const clef_batch *b, int32_t i)
{
    return i == 0               ? b->plan
           : i == 1             ? b->encoder.plan
           : i == 2 && b->draft ? b->draft->plan
           : i == 2             ? b->further.plan
                                : NULL;
}
