/* Draft tokens from the layer behind the model's own that predicts further tokens (model/arch/further.c). It
 * reads the hidden states that the batch's steps give out, and its caches have the pages of the batch: what
 * is found in the prefix cache, the layer has seen, too. A draft token is fed back to it with the layer's own
 * hidden state. Rows of draft tokens are written again once the model's hidden states are there. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/batch/batch.h"

/* The most hidden states of a sequence that wait until something is drafted. */
enum { MOST_UNSEEN = 64 };

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* ---- making ------------------------------------------------------------------------------------ */

static int make_room(clef_batch *b)
{
    batch_further *f = &b->further;
    const size_t rows = (size_t)b->opts.step_tokens, n = (size_t)b->opts.max_sequences,
                 samples = (size_t)b->most_samples, width = (size_t)f->width;
    if (f->hidden)
        return 1;
    f->hidden = malloc(rows * width * sizeof *f->hidden);
    f->next = malloc(samples * width * sizeof *f->next);
    f->token = malloc(samples * sizeof *f->token);
    f->sampling_for = malloc(samples * sizeof(batch_sequence *));
    const int made = clef__batch_make_input(&f->ids, rows) && clef__batch_make_input(&f->pos, rows) &&
                     clef__batch_make_input(&f->adapter, rows) && clef__batch_make_input(&f->runs, 3 * n) &&
                     clef__batch_make_input(&f->samples, samples) &&
                     clef__batch_make_input(&f->pages, n * (size_t)b->n_each) &&
                     clef__batch_make_input(&f->sampling, samples * SAMPLE_OPTIONS) &&
                     clef__batch_make_input(&f->recent, samples * CLEF_RECENT);
    if (!made || !f->hidden || !f->next || !f->token || !f->sampling_for)
        return 0;
    const sample_options greedy = {.mode = SAMPLE_GREEDY};
    for (size_t i = 0; i < samples; i++)
        memcpy(f->sampling.now + i * SAMPLE_OPTIONS, &greedy, sizeof greedy);
    return 1;
}

static clef_status list_states(batch_further *f, clef_error *err)
{
    f->n_states = clef__plan_states(f->plan, NULL, 0);
    free(f->states);
    f->states = malloc(((size_t)f->n_states + 1) * sizeof *f->states);
    if (!f->states)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d states", f->n_states);
    clef__plan_states(f->plan, f->states, f->n_states);
    return CLEF_OK;
}

clef_status clef__further_open(clef_batch *b, clef_error *err)
{
    batch_further *f = &b->further;
    batch_input *const inputs[] = {&f->ids,     &f->pos,   &f->runs,     &f->samples,
                                   &f->adapter, &f->pages, &f->sampling, &f->recent};
    clef_build_opts build = b->build;
    int64_t bound = b->opts.step_tokens;
    build.mtp = CLEF_MTP_LAYER;
    build.pictures = 0; /* nothing is drafted for texts with pictures */
    f->width = b->hp->d_model;
    clef_error why = {0};
    clef_status s = clef__batch_plan(b, &build, &f->plan, &why);
    if (s)
        return clef__fail(err, s, "the layer that predicts further tokens (--spec mtp): %s", why.text);
    s = list_states(f, err);
    if (s)
        return s;
    f->io = clef__plan_io_of(f->plan);
    clef_graph_symbol(clef_plan_graph(f->plan), f->io.B, &bound);
    b->opts.step_tokens = least(b->opts.step_tokens, (int32_t)bound);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        inputs[i]->n_sent = 0;
    return make_room(b) ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for hidden states");
}

void clef__further_close(clef_batch *b)
{
    clef_plan_destroy(b->further.plan);
    b->further.plan = NULL;
    b->further.n_states = 0;
}

void clef__further_free(clef_batch *b)
{
    batch_further *f = &b->further;
    batch_input *const inputs[] = {&f->ids,     &f->pos,   &f->runs,     &f->samples,
                                   &f->adapter, &f->pages, &f->sampling, &f->recent};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        clef__batch_free_input(inputs[i]);
    free(f->hidden);
    free(f->next);
    free(f->token);
    free(f->sampling_for);
    free(f->states);
}

/* ---- hidden states of the steps ------------------------------------------------------------------- */

clef_status clef__further_read(clef_batch *b, clef_error *err)
{
    const size_t row = (size_t)b->further.width * sizeof(float);
    return clef_plan_read(b->plan, b->io.hidden, b->further.hidden, (size_t)b->rows.n_rows * row, err);
}

static clef_status reserve(batch_sequence *s, int32_t n, size_t row, clef_error *err)
{
    if (n <= s->cap_hidden)
        return CLEF_OK;
    float *hidden = realloc(s->hidden, (size_t)n * row);
    if (!hidden)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d hidden states", n);
    s->hidden = hidden;
    s->cap_hidden = n;
    return CLEF_OK;
}

clef_status clef__further_keep(clef_batch *b, batch_sequence *s, int32_t row, int32_t n, clef_error *err)
{
    const size_t width = (size_t)b->further.width;
    if (n <= 0 || s->no_speculation)
        return CLEF_OK;
    const clef_status status = reserve(s, s->n_hidden + n, width * sizeof(float), err);
    if (status)
        return status;
    memcpy(s->hidden + (size_t)s->n_hidden * width, b->further.hidden + (size_t)row * width,
           (size_t)n * width * sizeof(float));
    s->n_hidden += n;
    return CLEF_OK;
}

/* ---- runs of the layer ----------------------------------------------------------------------------- */

static void begin_run(clef_batch *b)
{
    batch_further *f = &b->further;
    f->n_rows = f->n_runs = f->n_samples = f->visible = 0;
    f->samples.now[0] = 0;
}

/* Adds a run of n rows of s from position `first` on, with the tokens that follow. */
static void add_run(clef_batch *b, const batch_sequence *s, int32_t first, const int32_t *tokens, int32_t n)
{
    batch_further *f = &b->further;
    const size_t width = (size_t)f->width, at = (size_t)f->n_rows;
    int32_t *run = f->runs.now + 3 * (size_t)f->n_runs++;
    run[0] = s->slot;
    run[1] = f->n_rows;
    run[2] = n;
    for (int32_t i = 0; i < n; i++, f->n_rows++) {
        f->ids.now[f->n_rows] = tokens[i];
        f->pos.now[f->n_rows] = first + i;
        f->adapter.now[f->n_rows] = s->key.adapter;
    }
    memcpy(f->hidden + at * width, s->hidden, (size_t)n * width * sizeof *f->hidden);
    f->visible = f->visible < first + n ? first + n : f->visible;
    clef__batch_fill_table(b, s);
}

/* The last row that was added predicts a token of s. */
static void add_sample(clef_batch *b, batch_sequence *s)
{
    batch_further *f = &b->further;
    f->samples.now[f->n_samples] = f->n_rows - 1;
    f->sampling_for[f->n_samples++] = s;
}

/* Adds what the layer has not seen of s, but for the last `kept` hidden states. */
static void add_unseen(clef_batch *b, batch_sequence *s, int32_t kept)
{
    const size_t width = (size_t)b->further.width;
    const int32_t n = least(s->n_hidden - kept, b->opts.step_tokens - b->further.n_rows),
                  first = s->n_past - s->n_hidden;
    if (n <= 0)
        return;
    add_run(b, s, first, s->tokens + first + 1, n);
    s->n_hidden -= n;
    memmove(s->hidden, s->hidden + (size_t)n * width, (size_t)s->n_hidden * width * sizeof *s->hidden);
}

static clef_status bind(clef_batch *b, clef_error *err)
{
    const batch_further *f = &b->further;
    clef_status s = clef_plan_bind(f->plan, f->io.B, f->n_rows, err);
    if (!s && f->io.M)
        s = clef_plan_bind(f->plan, f->io.M, f->n_runs, err);
    if (!s)
        s = clef_plan_bind(f->plan, f->io.N, f->n_samples ? f->n_samples : 1, err);
    if (!s && f->io.S)
        s = clef_plan_bind(f->plan, f->io.S, clef__batch_seen(b, f->visible), err);
    return s;
}

static clef_status write_inputs(clef_batch *b, clef_error *err)
{
    batch_further *f = &b->further;
    const int32_t n_pages = b->opts.max_sequences * b->n_each, n_samples = f->n_samples ? f->n_samples : 1;
    const struct {
        int32_t input;
        batch_input *x;
        int32_t n;
    } inputs[] = {{f->io.ids, &f->ids, f->n_rows},
                  {f->io.pos, &f->pos, f->n_rows},
                  {f->io.adapter, &f->adapter, f->n_rows},
                  {f->io.runs, &f->runs, 3 * f->n_runs},
                  {f->io.pages, &f->pages, n_pages},
                  {f->io.samples, &f->samples, n_samples},
                  {f->io.sampling, &f->sampling, n_samples * SAMPLE_OPTIONS},
                  {f->io.recent, &f->recent, n_samples * CLEF_RECENT}};
    clef_status s = CLEF_OK;
    memcpy(f->pages.now, b->rows.pages, (size_t)n_pages * sizeof *f->pages.now);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && !s; i++)
        s = clef__batch_write(f->plan, inputs[i].input, inputs[i].x, inputs[i].n, err);
    return s ? s
             : clef_plan_write(f->plan, f->io.hidden_in, f->hidden,
                               (size_t)f->n_rows * (size_t)f->width * sizeof *f->hidden, err);
}

/* Takes what was sampled as draft tokens, with the hidden states that go on from them. */
static clef_status take_samples(clef_batch *b, clef_error *err)
{
    batch_further *f = &b->further;
    const size_t width = (size_t)f->width, n = f->n_samples ? (size_t)f->n_samples : 1;
    clef_status status = clef_plan_read(f->plan, f->io.token, f->token, n * sizeof *f->token, err);
    if (!status && f->n_samples)
        status = clef_plan_read(f->plan, f->io.next_hidden, f->next, n * width * sizeof *f->next, err);
    for (int32_t i = 0; i < f->n_samples && !status; i++) {
        batch_sequence *s = f->sampling_for[i];
        if (f->token[i] < 0) /* its logits are not finite */
            s->n_asked = s->n_drafts;
        else
            s->drafts[s->n_drafts++] = f->token[i];
        memcpy(s->hidden, f->next + (size_t)i * width, width * sizeof *s->hidden);
    }
    return status;
}

static clef_status run(clef_batch *b, clef_error *err)
{
    clef_status s = bind(b, err);
    if (!s)
        s = write_inputs(b, err);
    if (!s)
        s = clef_plan_run(b->further.plan, err);
    return s ? s : take_samples(b, err);
}

/* ---- use ---------------------------------------------------------------------------------------- */

clef_status clef__further_follow(clef_batch *b, clef_error *err)
{
    clef_status status = CLEF_OK;
    do {
        begin_run(b);
        for (int32_t i = 0; i < b->n_all; i++)
            if (b->all[i]->n_hidden > MOST_UNSEEN)
                add_unseen(b, b->all[i], 1);
        if (b->further.n_rows)
            status = run(b, err);
    } while (b->further.n_rows && !status);
    return status;
}

/* Gets pages for the rows of draft tokens. Without them nothing is asked. */
static void get_pages(clef_batch *b, batch_sequence *s)
{
    const int32_t before = s->chain.n;
    if (!s->n_hidden || !clef__pages_grow(b->pages, &s->chain, s->n_past + s->n_asked))
        s->n_asked = 0;
    b->rows.tables_changed |= s->chain.n != before;
}

/* The first draft token of each sequence. */
static clef_status draft_first(clef_batch *b, clef_error *err)
{
    clef_status status = CLEF_OK;
    do {
        begin_run(b);
        for (int32_t i = 0; i < b->n_all; i++) {
            batch_sequence *s = b->all[i];
            if (s->n_asked <= 0 || !s->n_hidden)
                continue;
            add_unseen(b, s, 0);
            if (!s->n_hidden)
                add_sample(b, s);
        }
        if (b->further.n_rows)
            status = run(b, err);
    } while (b->further.n_rows && !status);
    return status;
}

clef_status clef__further_draft(clef_batch *b, clef_error *err)
{
    for (int32_t i = 0; i < b->n_all; i++)
        if (b->all[i]->n_asked > 0)
            get_pages(b, b->all[i]);
    clef_status status = draft_first(b, err);
    for (int32_t n = 1; n < MOST_DRAFTS && !status; n++) {
        begin_run(b);
        for (int32_t i = 0; i < b->n_all; i++) {
            batch_sequence *s = b->all[i];
            if (s->n_drafts != n || s->n_asked <= n)
                continue;
            add_run(b, s, s->n_past + n - 1, &s->drafts[n - 1], 1);
            add_sample(b, s);
        }
        if (!b->further.n_rows)
            break;
        status = run(b, err);
    }
    return status;
}
