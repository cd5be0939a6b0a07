/* A step of a batch: its inputs, its run, and the tokens that it samples. */
#include <math.h>
#include <string.h>

#include "graph/fail.h"
#include "model/batch/disk.h"
#include "runtime/os/os.h"

/* A step sees masks up to a multiple of this, so that few lengths are bound. */
enum { VISIBLE_STEP = 256 };

/* ---- inputs ------------------------------------------------------------------------------------ */

void clef__batch_fill_table(clef_batch *b, const batch_sequence *s)
{
    int32_t *full = b->rows.pages + (size_t)s->slot * (size_t)b->n_each,
            *sliding = b->rows.sliding_pages + (size_t)s->slot * (size_t)b->n_each;
    for (int32_t i = 0; i < s->chain.n; i++) {
        const int32_t page = clef__pages_sliding(b->pages, s->chain.blocks[i]);
        full[i] = s->chain.blocks[i];
        sliding[i] = page < 0 ? 0 : page; /* no row sees it */
    }
}

int32_t clef__batch_first_row(const batch_sequence *s)
{
    return s->n_past - s->n_behind;
}

/* Token i of the text that s would have if the draft tokens were right. */
static int32_t text_token(const batch_sequence *s, int32_t i)
{
    return i < s->n_tokens ? s->tokens[i] : s->drafts[i - s->n_tokens];
}

int clef__batch_generates(const batch_sequence *s)
{
    return s->slot != NO_SLOT && s->n_tokens - s->n_past == 1;
}

/* How many rows a token is sampled from: the last one of the text, and the drafted ones. */
static int32_t n_samples(const batch_sequence *s)
{
    return s->n_rows && clef__batch_first_row(s) + s->n_rows >= s->n_tokens ? 1 + s->n_drafts : 0;
}

/* How the device samples the token after the text of s and i draft tokens. */
static void add_sampling(batch_rows *r, const batch_sequence *s, int32_t i)
{
    int32_t *recent = r->recent.now + (size_t)r->n_samples * CLEF_RECENT;
    const int32_t n = s->n_tokens + i;
    sample_options o = s->sampling;
    if (o.mode == SAMPLE_DRAW) {
        o.first = n - s->n_prompt;
        o.stream = s->stream;
    }
    memcpy(r->sampling.now + (size_t)r->n_samples * SAMPLE_OPTIONS, &o, sizeof o);
    for (int32_t k = 0; k < CLEF_RECENT && o.last_n; k++)
        recent[CLEF_RECENT - 1 - k] = k < n ? text_token(s, n - 1 - k) : -1;
}

static void add_rows(clef_batch *b, batch_sequence *s)
{
    batch_rows *r = &b->rows;
    int32_t *run = r->runs.now + 3 * (size_t)r->n_runs++;
    const int32_t first = clef__batch_first_row(s);
    s->first_row = r->n_rows;
    run[0] = s->slot;
    run[1] = r->n_rows;
    run[2] = s->n_rows;
    for (int32_t i = 0; i < s->n_rows; i++, r->n_rows++) {
        r->ids.now[r->n_rows] = text_token(s, first + i);
        r->pos.now[r->n_rows] = first + i;
        r->adapter.now[r->n_rows] = s->key.adapter;
        if (b->build.pictures)
            clef__batch_picture_row(b, s, r->n_rows, first + i);
        if (b->io.source_end >= 0)
            r->source_end.now[r->n_rows] = b->encoder.ends[s->slot];
    }
    s->first_sample = r->n_samples;
    for (int32_t i = 0, n = n_samples(s); i < n; i++) {
        add_sampling(r, s, i);
        r->samples.now[r->n_samples++] = r->n_rows - n + i;
    }
    if (r->visible < first + s->n_rows)
        r->visible = first + s->n_rows;
}

/* Rows of sequences that generate come first. */
static void fill_inputs(clef_batch *b)
{
    b->rows.n_rows = b->rows.n_runs = b->rows.n_samples = b->rows.visible = 0;
    clef__batch_clear_pictures(b);
    for (int32_t i = 0; i < b->opts.max_sequences && b->rows.tables_changed; i++)
        if (b->slots[i]) /* with or without rows in this step */
            clef__batch_fill_table(b, b->slots[i]);
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < b->n_all; i++) {
            batch_sequence *s = b->all[i];
            if (s->n_rows && clef__batch_generates(s) == (pass == 0))
                add_rows(b, s);
        }
    if (b->rows.n_samples == 0) /* the head needs a row; nobody reads its logits */
        b->rows.samples.now[0] = 0;
}

static clef_status write_table(clef_batch *b, int32_t input, const int32_t *data, clef_error *err)
{
    const size_t n = (size_t)b->opts.max_sequences * (size_t)b->n_each;
    return input < 0 ? CLEF_OK : clef_plan_write(b->plan, input, data, n * sizeof *data, err);
}

clef_status clef__batch_write(clef_plan *plan, int32_t input, batch_input *x, int32_t n, clef_error *err)
{
    const size_t n_bytes = (size_t)n * sizeof *x->now;
    if (input < 0 || (n == x->n_sent && memcmp(x->now, x->sent, n_bytes) == 0))
        return CLEF_OK;
    const clef_status s = clef_plan_write(plan, input, x->now, n_bytes, err);
    memcpy(x->sent, x->now, n_bytes);
    x->n_sent = s ? 0 : n;
    return s;
}

static clef_status write_tables(clef_batch *b, clef_error *err)
{
    if (!b->rows.tables_changed)
        return CLEF_OK;
    clef_status s = write_table(b, b->io.pages, b->rows.pages, err);
    if (!s)
        s = write_table(b, b->io.sliding_pages, b->rows.sliding_pages, err);
    b->rows.tables_changed = s != CLEF_OK;
    return s;
}

int32_t clef__batch_seen(const clef_batch *b, int32_t visible)
{
    const int32_t seen = (visible + VISIBLE_STEP - 1) / VISIBLE_STEP * VISIBLE_STEP;
    return seen < b->opts.n_context ? seen : b->opts.n_context;
}

static clef_status bind(clef_batch *b, clef_error *err)
{
    const batch_rows *r = &b->rows;
    clef_status s = clef_plan_bind(b->plan, b->io.B, r->n_rows, err);
    if (!s && b->io.M)
        s = clef_plan_bind(b->plan, b->io.M, r->n_runs, err);
    if (!s)
        s = clef_plan_bind(b->plan, b->io.N, r->n_samples ? r->n_samples : 1, err);
    if (!s && b->io.S)
        s = clef_plan_bind(b->plan, b->io.S, clef__batch_seen(b, r->visible), err);
    return s;
}

static clef_status write_pictures(clef_batch *b, clef_error *err)
{
    const int32_t n = b->rows.n_rows;
    batch_picture_rows *r = &b->picture_rows;
    clef_status s = clef__batch_write_pictures(b, n, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.is_token, &r->is_token, n, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.time, &r->turns[0], n, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.height, &r->turns[1], n, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.width, &r->turns[2], n, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.sees, &r->sees, n, err);
    return s ? s : clef__batch_write(b->plan, b->io.sees_from, &r->sees_from, n, err);
}

static clef_status run_rows(clef_batch *b, clef_error *err)
{
    batch_rows *r = &b->rows;
    clef_status s = bind(b, err);
    if (!s)
        s = write_tables(b, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.ids, &r->ids, r->n_rows, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.pos, &r->pos, r->n_rows, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.source_end, &r->source_end, r->n_rows, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.adapter, &r->adapter, r->n_rows, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.runs, &r->runs, 3 * r->n_runs, err);
    const int32_t n_samples = r->n_samples ? r->n_samples : 1;
    if (!s)
        s = clef__batch_write(b->plan, b->io.samples, &r->samples, n_samples, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.sampling, &r->sampling, n_samples * SAMPLE_OPTIONS, err);
    if (!s)
        s = clef__batch_write(b->plan, b->io.recent, &r->recent, n_samples * CLEF_RECENT, err);
    if (!s)
        s = write_pictures(b, err);
    return s ? s : clef_plan_run(b->plan, err);
}

/* ---- samples ---------------------------------------------------------------------------------- */

/* The device can sample the tokens of s: their logits are not needed. */
static int is_sampled_there(const batch_sequence *s)
{
    return !s->logprobs && !s->sampler && s->sampling.last_n <= CLEF_RECENT;
}

static clef_status read_results(clef_batch *b, clef_error *err)
{
    const size_t n =
        b->rows.n_samples ? (size_t)b->rows.n_samples : 1; /* read without need: the host waits */
    b->rows.has_logits = 0;
    for (int32_t i = 0; i < b->n_all; i++)
        b->rows.has_logits |= n_samples(b->all[i]) && !is_sampled_there(b->all[i]);
    if (!b->rows.has_logits)
        return clef_plan_read(b->plan, b->io.token, b->rows.sampled, n * sizeof *b->rows.sampled, err);
    return clef_plan_read(b->plan, b->io.logits, b->rows.logits,
                          n * (size_t)b->hp->n_vocab * sizeof *b->rows.logits, err);
}

static float logprob_of(const float *logits, int32_t n, int32_t id)
{
    float most = logits[id];
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)most);
    return (float)((double)logits[id] - (double)most - log(sum));
}

/* The likeliest n tokens. `id` has the log-probability `logprob`. */
static void find_top(const float *logits, int32_t n_vocab, int32_t id, float logprob, int32_t n,
                     clef_token_logprob *top)
{
    int32_t n_top = 0;
    for (int32_t i = 0; i < n_vocab && n; i++) {
        if (n_top == n && !(logits[i] > top[n - 1].logprob))
            continue;
        int32_t at = n_top < n ? n_top++ : n - 1;
        for (; at > 0 && logits[i] > top[at - 1].logprob; at--)
            top[at] = top[at - 1];
        top[at] = (clef_token_logprob){i, logits[i]};
    }
    for (int32_t i = 0; i < n_top; i++)
        top[i].logprob = top[i].id == id ? logprob : top[i].logprob - logits[id] + logprob;
}

/* The likeliest of those among which `id` was drawn, and the log-probability of id. Returns their number. */
static int32_t find_drawn(const clef__sampler_room *room, int32_t id, int32_t n, float *logprob,
                          clef_token_logprob *top)
{
    int32_t n_top = 0;
    for (int32_t i = 0; i < room->n; i++) {
        const clef_token_logprob one = {room->tokens[i].id, (float)room->tokens[i].p}; /* its log follows */
        int32_t at = n_top < n ? n_top : n;
        if (!(one.logprob > 0))
            continue;
        if (one.id == id)
            *logprob = (float)log(room->tokens[i].p);
        for (; at > 0 && (one.logprob > top[at - 1].logprob ||
                          (!(one.logprob < top[at - 1].logprob) && one.id < top[at - 1].id));
             at--)
            if (at < n)
                top[at] = top[at - 1];
        if (at < n)
            top[at] = one;
        n_top += n_top < n;
    }
    for (int32_t i = 0; i < n_top; i++)
        top[i].logprob = (float)log((double)top[i].logprob);
    return n_top;
}

int clef__batch_ends_text(const clef_batch *b, const batch_sequence *s, int32_t id)
{
    int ends = !s->ignore_eos && id == b->hp->eos;
    for (int32_t i = 0; i < b->hp->n_eos_more && !s->ignore_eos; i++)
        ends |= id == b->hp->eos_more[i];
    for (int32_t i = 0; i < s->n_stops; i++)
        ends |= id == s->stops[i];
    return ends || (s->guide.mask && clef__guide_ends(&s->guide, id));
}

/* Notes a sampled token. The ring has room for all that a step can sample. */
static clef_finish put_token(clef_batch *b, batch_sequence *s, int32_t id, float logprob, int is_forced)
{
    const clef_finish failed = id == CLEF__PICK_NOT_FINITE ? CLEF_FINISH_NOT_FINITE
                               : id < 0                    ? CLEF_FINISH_FAILED /* no token fits the guide */
                                                           : CLEF_FINISH_NONE;
    id = failed ? 0 : id;
    const int32_t at = (b->first_token + b->n_tokens++) % b->cap_tokens;
    if (s->keys)
        s->keys[s->n_tokens] = id;
    s->tokens[s->n_tokens++] = id;
    b->stats.n_generated++;
    b->tokens[at] =
        (clef_batch_token){.sequence = s->number,
                           .id = id,
                           .logprob = logprob,
                           .finish = failed                                          ? failed
                                     : !is_forced && clef__batch_ends_text(b, s, id) ? CLEF_FINISH_STOP
                                     : s->n_tokens == s->n_most                      ? CLEF_FINISH_LENGTH
                                                                                     : CLEF_FINISH_NONE,
                           .n_prompt = s->n_prompt,
                           .n_cached = s->n_cached,
                           .n_generated = s->n_tokens - s->n_prompt,
                           .n_preemptions = s->n_preemptions,
                           .n_drafted = s->n_drafted,
                           .n_accepted = s->n_accepted};
    return b->tokens[at].finish;
}

/* The token that the host samples after those of s. */
static int32_t sample_on_host(clef_batch *b, batch_sequence *s, const float *logits)
{
    const int32_t last_n = s->sampling.last_n < s->n_tokens ? s->sampling.last_n : s->n_tokens;
    const uint64_t draw = (uint64_t)(s->n_tokens - s->n_prompt);
    const int is_short = s->n_tokens - s->n_prompt < s->n_min;
    const clef__sampler_pick how = {.logits = logits,
                                    .mask = is_short ? s->no_ends : s->guide.mask,
                                    .text = s->tokens,
                                    .n_text = s->n_tokens,
                                    .draw = draw,
                                    .stream = s->stream,
                                    .mu = &s->mu,
                                    .rules = s->rules.rules ? &s->rules : NULL};
    if (s->guide.mask) {
        const double begin = clef__os_seconds();
        const int32_t id = clef__guide_sample(&s->guide, &s->place, s->sampler, &b->room, &how);
        b->stats.n_masks++;
        b->stats.mask_seconds += clef__os_seconds() - begin;
        return id;
    }
    if (s->sampler)
        return clef__sampler_pick_with(s->sampler, &b->room, &how);
    const int32_t id =
        clef__sample_pick(&s->sampling, logits, b->hp->n_vocab, s->tokens + s->n_tokens - last_n, last_n,
                          draw, s->stream, b->candidates);
    return id < 0 ? CLEF__PICK_NOT_FINITE : id;
}

/* The token that the device has sampled in row nth. */
static int32_t sampled_there(const clef_batch *b, int32_t nth)
{
    return b->rows.sampled[nth] < 0 ? CLEF__PICK_NOT_FINITE : b->rows.sampled[nth];
}

/* The token that has to come next in s, whatever would be sampled; -1: none. */
static int32_t forced_token(const batch_sequence *s)
{
    const int32_t n_generated = s->n_tokens - s->n_prompt;
    return n_generated < s->n_forced ? s->forced[n_generated] : clef__thought_next(&s->thought);
}

/* The constraint and the reasoning go on by a token that comes next. */
static void pass_token(batch_sequence *s, int32_t id, int is_forced)
{
    if (s->n_tokens - s->n_prompt < s->n_forced || id < 0)
        return;
    if (is_forced && s->guide.mask)
        clef__guide_pass(&s->guide, &s->place, id);
    clef__thought_take(&s->thought, id);
}

static clef_finish pick(clef_batch *b, batch_sequence *s, int32_t nth)
{
    const float *logits = b->rows.logits + (size_t)nth * (size_t)b->hp->n_vocab;
    const int32_t forced = forced_token(s), is_forced = forced >= 0;
    if (!b->rows.has_logits) {
        const int32_t there = is_forced ? forced : sampled_there(b, nth);
        pass_token(s, there, is_forced);
        return put_token(b, s, there, 0, is_forced);
    }
    const int is_wrong = s->logprobs && is_forced && !clef__logits_finite(logits, b->hp->n_vocab);
    const int32_t id = is_wrong ? CLEF__PICK_NOT_FINITE : is_forced ? forced : sample_on_host(b, s, logits);
    const int is_drawn = s->logprobs == 2;
    const float logprob = s->logprobs && !is_drawn && id >= 0 ? logprob_of(logits, b->hp->n_vocab, id) : 0;
    pass_token(s, id, is_forced);
    const clef_finish finish = put_token(b, s, id, logprob, is_forced);
    clef_batch_token *t = &b->tokens[(b->first_token + b->n_tokens - 1) % b->cap_tokens];
    t->n_top = id < 0 ? 0 : s->n_top < b->hp->n_vocab ? s->n_top : b->hp->n_vocab;
    if (is_drawn && is_forced && t->n_top) {
        t->n_top = 1;
        t->top[0] = (clef_token_logprob){id, 0};
    } else if (is_drawn && !is_forced && id >= 0)
        t->n_top = find_drawn(&b->room, id, t->n_top, &t->logprob, t->top);
    if (is_drawn)
        return finish;
    find_top(logits, b->hp->n_vocab, id < 0 ? 0 : id, logprob, t->n_top, t->top);
    return finish;
}

/* Notes that the next n tokens of s are computed. Without a prefix cache nobody looks for them. */
static void note_past(clef_batch *b, batch_sequence *s, int32_t n)
{
    if (!b->no_prefix_cache)
        clef__pages_note(b->pages, &s->chain, s->n_past, clef__batch_keys(s) + s->n_past, n);
    s->n_past += n;
}

/* Samples the next token of s, and as many more as were drafted rightly, whose rows the step has computed. */
static void sample_tokens(clef_batch *b, batch_sequence *s)
{
    int32_t n = 0;
    s->n_drafted += s->n_drafts;
    clef_finish finish = pick(b, s, s->first_sample);
    while (!finish && n < s->n_drafts && s->tokens[s->n_tokens - 1] == s->drafts[n]) {
        note_past(b, s, 1);
        s->n_accepted++;
        finish = pick(b, s, s->first_sample + ++n);
    }
    clef__batch_learn(b, s, n);
}

/* ---- the step ---------------------------------------------------------------------------------- */

/* Keeps the recurrent states of s at multiples of SNAPSHOT_STEP, and at the end of its prompt. */
static clef_status keep_memory(clef_batch *b, const batch_sequence *s, clef_error *err)
{
    if (!b->is_recurrent || b->no_prefix_cache || (s->n_past % SNAPSHOT_STEP && s->n_past != s->n_prompt))
        return CLEF_OK;
    const int32_t mark = clef__pages_mark(b->pages, &s->chain, s->n_past);
    return mark < 0 ? CLEF_OK : clef__batch_copy_memory(b, b->opts.max_sequences + mark, s->slot, err);
}

/* Keeps the recurrent states of sequences whose draft tokens may turn out to be wrong. */
static clef_status spare_memory(clef_batch *b, clef_error *err)
{
    clef_status status = CLEF_OK;
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_all && b->is_recurrent && !status; i++) {
        batch_sequence *s = b->all[i];
        if (!s->n_rows || !s->n_drafts)
            continue;
        s->spare = b->opts.max_sequences + b->n_snapshots + n++;
        status = clef__batch_copy_memory(b, s->spare, s->slot, err);
    }
    return status;
}

/* After a step of rows from `first` on: if some of them were draft tokens that were wrong, the recurrent
 * states return to those before the step. */
static clef_status settle_memory(clef_batch *b, batch_sequence *s, int32_t first, clef_error *err)
{
    if (!b->is_recurrent)
        return CLEF_OK;
    const int is_right = first + s->n_rows == s->n_past;
    s->n_behind = is_right ? 0 : s->n_past - first;
    return is_right ? keep_memory(b, s, err) : clef__batch_copy_memory(b, s->slot, s->spare, err);
}

/* Notes the rows of s as computed, and samples its next token if they were its last ones. */
static clef_status finish_rows(clef_batch *b, batch_sequence *s, clef_error *err)
{
    const int samples = n_samples(s) > 0;
    const int32_t first = clef__batch_first_row(s), before = s->n_past, row = s->first_row + before - first;
    note_past(b, s, s->n_rows - s->n_behind - s->n_drafts);
    if (samples)
        sample_tokens(b, s);
    clef_status status = settle_memory(b, s, first, err);
    if (!status)
        status = clef__disk_keep(b, s, err);
    if (!status && b->further.plan)
        status = clef__further_keep(b, s, row, s->n_past - before, err);
    s->n_rows = s->n_drafts = 0;
    return status;
}

/* The sequences whose last token has been sampled leave. */
static void remove_finished(clef_batch *b)
{
    for (int32_t i = 0; i < b->n_tokens; i++) {
        const clef_batch_token *t = &b->tokens[(b->first_token + i) % b->cap_tokens];
        for (int32_t k = 0; t->finish && k < b->n_all; k++)
            if (b->all[k]->number == t->sequence) {
                clef__batch_remove(b, b->all[k]);
                break;
            }
    }
}

clef_status clef__batch_run(clef_batch *b, clef_error *err)
{
    fill_inputs(b);
    clef_status status = spare_memory(b, err);
    if (!status)
        status = run_rows(b, err);
    if (!status)
        status = read_results(b, err);
    if (!status && b->further.plan)
        status = clef__further_read(b, err);
    if (status)
        return status;
    b->stats.n_steps++;
    b->stats.n_rows += b->rows.n_rows;
    b->stats.n_spec_steps += b->gain.has_any;
    for (int32_t i = 0; i < b->n_all; i++)
        if (b->all[i]->n_rows) {
            const clef_status kept = finish_rows(b, b->all[i], status ? NULL : err);
            status = status ? status : kept;
        }
    remove_finished(b);
    return status;
}
