/* Suggests tokens from a sequence's own text: the last few tokens are looked for earlier in the text, and
 * what followed them there is suggested ("prompt lookup decoding"). */
#include <string.h>

#include "model/batch/batch.h"

enum {
    FIRST_WANTED = 2,  /* suggested at first; twice as many each time that all were right */
    LONGEST_PAUSE = 64 /* most steps without suggestions after wrong ones */
};

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The last place before the end at which the last n tokens stand, too; -1: there is none. */
static int32_t find_last(const int32_t *tokens, int32_t n_tokens, int32_t n)
{
    const int32_t *wanted = tokens + n_tokens - n;
    for (int32_t at = n_tokens - n - 1; at >= 0; at--)
        if (tokens[at] == wanted[0] && memcmp(tokens + at, wanted, (size_t)n * sizeof *tokens) == 0)
            return at;
    return -1;
}

int32_t clef__batch_suggest(const clef_batch *b, batch_sequence *s, int32_t room)
{
    const int32_t left = s->n_most - s->n_tokens - 1; /* the step picks one token in any case */
    int32_t n = least(least(s->n_wanted ? s->n_wanted : FIRST_WANTED, room), left), at = -1,
            length = b->opts.ngram_max;
    if (b->no_speculation || !b->opts.ngram_max || n <= 0 || b->stats.n_running > b->opts.spec_max_sequences)
        return 0;
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

void clef__batch_learn(clef_batch *b, batch_sequence *s, int32_t n_accepted)
{
    if (!s->n_drafts)
        return;
    b->stats.n_suggested += s->n_drafts;
    b->stats.n_accepted += n_accepted;
    if (n_accepted == s->n_drafts) {
        s->n_wanted = least(2 * (s->n_wanted ? s->n_wanted : FIRST_WANTED), MOST_DRAFTS);
        s->n_pauses = 0;
    } else if (n_accepted) {
        s->n_wanted = n_accepted + 1;
    } else {
        s->n_wanted = FIRST_WANTED;
        s->pause = s->n_pauses = least(s->n_pauses ? 2 * s->n_pauses : 1, LONGEST_PAUSE);
    }
}
