/* Draft tokens from a draft model: a second, smaller model of the same vocabulary. It has a batch of its own,
 * in which each sequence has a mirror with the same tokens. A mirror starts when its sequence generates,
 * first computes the text, and then samples its likeliest tokens, which are drafted. Those that turn out to
 * be wrong are taken back before it goes on: rows after the agreed text are written again. */
#include <string.h>

#include "graph/fail.h"
#include "model/batch/batch.h"

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

clef_status clef__draft_open(clef_batch *b, clef_error *err)
{
    clef_model *model = b->opts.draft;
    const clef_hparams *hp = clef_model_hparams(model);
    const char *name = clef_model_path(model);
    if (b->hp->n_decoder_layers || hp->n_decoder_layers)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s as a draft of %s: an encoder-decoder has no drafts",
                          name, clef_model_path(b->model));
    if (hp->linear_taps)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s as a draft: the memory of linear attention cannot return to an earlier token",
                          name);
    const clef_status s = clef__same_vocabulary(b->model, model, err);
    if (s)
        return s;
    const clef_batch_opts opts = {.n_context = least(b->opts.n_context, hp->n_context),
                                  .max_sequences = least(b->opts.max_sequences, b->opts.spec_max_sequences),
                                  .step_tokens = b->opts.step_tokens,
                                  .kv_type = b->opts.kv_type,
                                  .no_prefix_cache = 1, /* its rows are taken back */
                                  .repeatable = b->opts.repeatable,
                                  .describe_only = b->opts.describe_only,
                                  .compile = b->opts.compile};
    return clef__batch_create(b->dev, model, &opts, clef__batch_device_bytes(b), &b->draft, err);
}

/* Gives the mirror the text of its sequence, as far as it differs. */
static void agree(const batch_sequence *s, batch_sequence *m)
{
    const int32_t both = least(m->n_tokens, s->n_tokens);
    int32_t n = m->n_agreed;
    while (n < both && m->tokens[n] == s->tokens[n])
        n++;
    memcpy(m->tokens + n, s->tokens + n, (size_t)(s->n_tokens - n) * sizeof *s->tokens);
    m->n_past = least(m->n_past, least(n, s->n_tokens - 1));
    m->n_tokens = m->n_agreed = s->n_tokens;
}

/* Makes the mirrors ready. Where the context or the pool has no room, nothing is asked. */
static clef_status begin_mirror(clef_batch *b, batch_sequence *s, clef_error *err)
{
    clef_batch *d = b->draft;
    batch_sequence *m = s->mirror;
    clef__start what = CLEF__STARTED;
    agree(s, m);
    if (m->n_tokens - m->n_past > MOST_DRAFTS + 1)
        b->gain.is_even = 0; /* computing a text says nothing about later steps */
    s->n_asked = least(s->n_asked, d->opts.n_context - s->n_tokens);
    if (s->n_asked <= 0)
        return CLEF_OK;
    const clef_status status = m->slot == NO_SLOT ? clef__batch_start(d, m, &what, err) : CLEF_OK;
    if (what == CLEF__STARTED)
        clef__pages_slide(d->pages, &m->chain, m->n_past); /* the rows before are final */
    else
        s->n_asked = 0;
    return status;
}

/* Gets pages for the rows of a mirror. */
static int get_pages(clef_batch *d, batch_sequence *m)
{
    const int32_t before = m->chain.n;
    if (!clef__pages_grow(d->pages, &m->chain, m->n_past + m->n_rows)) {
        clef__batch_preempt(d, m);
        return 0;
    }
    d->rows.tables_changed |= m->chain.n != before || d->has_sliding;
    return 1;
}

/* The rows of the draft's next step: of each mirror that has sampled too few tokens. A mirror whose text is
 * too long for the step goes on in the next step of the batch. */
static int32_t choose_rows(clef_batch *b)
{
    clef_batch *d = b->draft;
    int32_t room = d->opts.step_tokens;
    for (int32_t i = 0; i < b->n_all && room > 0; i++) {
        batch_sequence *s = b->all[i], *m = s->mirror;
        if (s->n_asked <= 0 || m->n_tokens - s->n_tokens >= s->n_asked)
            continue;
        const int32_t wanted = m->n_tokens - m->n_past;
        m->n_rows = least(wanted, room);
        if (!get_pages(d, m) || m->n_rows < wanted)
            s->n_asked = 0;
        room -= m->n_rows;
    }
    return d->opts.step_tokens - room;
}

static void take_drafts(batch_sequence *s)
{
    const batch_sequence *m = s->mirror;
    const int32_t n = m->slot == NO_SLOT ? 0 : m->n_tokens - s->n_tokens;
    s->n_drafts = s->n_asked > 0 ? least(n, s->n_asked) : 0;
    memcpy(s->drafts, m->tokens + s->n_tokens, (size_t)s->n_drafts * sizeof *s->drafts);
}

clef_status clef__draft_tokens(clef_batch *b, clef_error *err)
{
    clef_batch *d = b->draft;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < b->n_all && !status; i++)
        if (b->all[i]->n_asked > 0)
            status = begin_mirror(b, b->all[i], err);
    while (!status && choose_rows(b) > 0) {
        status = clef__batch_run(d, err);
        d->n_tokens = d->first_token = 0; /* they are in the mirrors' texts */
    }
    for (int32_t i = 0; i < b->n_all && !status; i++)
        if (b->all[i]->n_asked > 0)
            take_drafts(b->all[i]);
    return status;
}
