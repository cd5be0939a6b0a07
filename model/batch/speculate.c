/* How many tokens are drafted in a step, and whether that pays. They come from a draft model (draft.c)
 * or from a sequence's own text: its last few tokens are looked for earlier in the text, and what followed
 * them there is drafted ("prompt lookup decoding"). */
#include <string.h>

#include "model/batch/batch.h"

enum {
    FIRST_WANTED = 2,   /* drafted at first; twice as many each time that all were right */
    LONGEST_PAUSE = 64, /* most steps without draft tokens after wrong ones, for a sequence */
    N_MEASURED = 5,     /* steps of either kind that are measured before they are compared */
    FIRST_OFF = 16,     /* steps without draft tokens for all, once these cost more than they give */
    LONGEST_OFF = 256
};

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* ---- from the text ------------------------------------------------------------------------------ */

/* The last place before the end at which the last n tokens are, too; -1: there is none. */
static int32_t find_last(const int32_t *tokens, int32_t n_tokens, int32_t n)
{
    const int32_t *wanted = tokens + n_tokens - n;
    for (int32_t at = n_tokens - n - 1; at >= 0; at--)
        if (tokens[at] == wanted[0] && memcmp(tokens + at, wanted, (size_t)n * sizeof *tokens) == 0)
            return at;
    return -1;
}

/* Drafts up to n tokens after those of s, and returns their number. */
static int32_t draft_from_text(const clef_batch *b, batch_sequence *s, int32_t n)
{
    int32_t at = -1, length = b->opts.ngram_max;
    if (s->pause > 0) {
        s->pause--;
        return 0;
    }
    for (; length >= b->opts.ngram_min && at < 0; length--)
        at = length < s->n_tokens ? find_last(s->tokens, s->n_tokens, length) : -1;
    if (at < 0)
        return 0;
    const int32_t from = at + length + 1; /* the loop has counted once more */
    n = least(n, s->n_tokens - from);
    memcpy(s->drafts, s->tokens + from, (size_t)n * sizeof *s->drafts);
    return n;
}

/* ---- whether it pays ---------------------------------------------------------------------------- */

/* A running mean after n others. The first step after some of the other kind does not count, and one that
 * takes long, as the first of its length does, counts as twice the mean. */
static double mean_seconds(double mean, int32_t n, double x)
{
    if (n < 2)
        return x;
    return mean + ((x < 2 * mean ? x : 2 * mean) - mean) / least(n, 8);
}

void clef__batch_weigh(clef_batch *b, double seconds, int64_t n_sampled)
{
    batch_gain *g = &b->gain;
    if (!g->is_even || !g->n_running)
        return;
    if (!g->has_any) {
        g->plain = mean_seconds(g->plain, g->n_plain++, seconds);
        return;
    }
    g->spec = mean_seconds(g->spec, g->n_spec++, seconds);
    g->tokens += ((double)n_sampled / g->n_running - g->tokens) / least(g->n_spec, 8);
}

/* Draft tokens pay where a sequence gets more tokens in the same time. Both kinds of steps are measured
 * first, and again from time to time. */
static int pays(clef_batch *b)
{
    batch_gain *g = &b->gain;
    if (b->opts.spec_always)
        return 1;
    if (g->off > 0) {
        g->off--;
        b->stats.n_spec_off++;
        return 0;
    }
    if (g->n_plain < N_MEASURED || g->n_spec < N_MEASURED)
        return g->n_plain >= N_MEASURED;
    if (g->tokens * g->plain >= g->spec) {
        g->next_off = 0;
        return 1;
    }
    g->next_off = g->next_off ? least(2 * g->next_off, LONGEST_OFF) : FIRST_OFF;
    g->off = g->next_off - 1;
    g->n_spec = 0; /* measured anew */
    b->stats.n_spec_off++;
    return 0;
}

static void begin_step(clef_batch *b)
{
    batch_gain *g = &b->gain;
    if (b->stats.n_running && g->n_running != b->stats.n_running)
        *g = (batch_gain){.n_running = b->stats.n_running};
    g->is_even = 1;
    g->has_any = 0;
    for (int32_t i = 0; i < b->n_all; i++) {
        b->all[i]->n_drafts = b->all[i]->n_asked = 0;
        g->is_even &= b->all[i]->slot == NO_SLOT || clef__batch_generates(b->all[i]);
    }
}

/* Whether a model drafts: another one, or the further layer of this one. */
static int has_drafter(const clef_batch *b)
{
    return b->draft || b->further.plan;
}

/* ---- drafting --------------------------------------------------------------------------------- */

static int takes_drafts(const batch_sequence *s)
{
    return clef__batch_generates(s) && !s->no_speculation;
}

/* Whether the step may have draft tokens at all. */
static int may_draft(const clef_batch *b)
{
    int any = 0;
    for (int32_t i = 0; i < b->n_all; i++)
        any |= takes_drafts(b->all[i]);
    return any && (has_drafter(b) || b->opts.ngram_max) && !b->no_speculation &&
           b->stats.n_running <= b->opts.spec_max_sequences;
}

/* Recurrent states are kept at multiples of SNAPSHOT_STEP, so a step ends there; and what they are behind
 * must not grow without end. */
static int32_t kept_rows(const clef_batch *b, const batch_sequence *s)
{
    if (s->n_behind >= MOST_BEHIND)
        return 0;
    return b->is_recurrent && !b->no_prefix_cache ? SNAPSHOT_STEP - 1 - s->n_past % SNAPSHOT_STEP
                                                  : MOST_DRAFTS;
}

static int32_t n_wanted(const clef_batch *b, const batch_sequence *s, int32_t room)
{
    const int32_t left = s->n_most - s->n_tokens - 1, /* the step samples one token in any case */
        wanted = s->n_wanted      ? s->n_wanted
                 : has_drafter(b) ? b->opts.draft_tokens
                                  : FIRST_WANTED;
    return least(least(wanted, room), least(left, kept_rows(b, s)));
}

clef_status clef__batch_draft_tokens(clef_batch *b, clef_error *err)
{
    int32_t room = b->opts.step_tokens - b->stats.n_running;
    clef_status status = CLEF_OK;
    begin_step(b);
    for (int32_t i = 0; i < b->n_all; i++)
        room -= b->all[i]->n_behind;
    if (b->further.plan)
        status = clef__further_follow(b, err);
    if (status || !may_draft(b) || (b->gain.is_even && !pays(b)))
        return status;
    for (int32_t i = 0; i < b->n_all && room > 0; i++) {
        batch_sequence *s = b->all[i];
        const int32_t n = takes_drafts(s) ? n_wanted(b, s, room) : 0;
        if (n <= 0)
            continue;
        if (has_drafter(b))
            s->n_asked = n;
        else
            s->n_drafts = draft_from_text(b, s, n);
        room -= has_drafter(b) ? n : s->n_drafts;
    }
    if (b->draft)
        status = clef__draft_tokens(b, err);
    else if (b->further.plan)
        status = clef__further_draft(b, err);
    for (int32_t i = 0; i < b->n_all; i++)
        b->gain.has_any |= b->all[i]->n_drafts > 0;
    return status;
}

void clef__batch_learn(clef_batch *b, batch_sequence *s, int32_t n_accepted)
{
    const int32_t most = has_drafter(b) ? b->opts.draft_tokens : MOST_DRAFTS;
    if (!s->n_drafts)
        return;
    b->stats.n_drafted += s->n_drafts;
    b->stats.n_accepted += n_accepted;
    if (n_accepted == s->n_drafts) {
        s->n_wanted = least(2 * (s->n_wanted ? s->n_wanted : FIRST_WANTED), most);
        s->n_pauses = 0;
    } else if (n_accepted) {
        s->n_wanted = least(n_accepted + 1, most);
    } else {
        s->n_wanted = has_drafter(b) ? 1 : FIRST_WANTED;
        s->pause = s->n_pauses = least(s->n_pauses ? 2 * s->n_pauses : 1, LONGEST_PAUSE);
    }
}
