/* A session's constraint, and the text that it waits for before it begins. */
#include "model/session/guide.h"

#include <stdlib.h>
#include <string.h>

#include "model/session/thought.h"
#include "model/tokenizer/token_trie.h"
#include "model/tokenizer/tokenizer.h"

static const clef__constraint_ops *ops(const clef__guide *g)
{
    return *(const clef__constraint_ops *const *)g->guide.constraint;
}

void clef__guide_finish(clef__guide *g)
{
    free((char *)g->guide.after);
    free(g->mask);
    *g = (clef__guide){.n_words = 0};
}

clef_status clef__guide_set(clef__guide *g, const clef_guide *guide, int32_t n_vocab, clef_error *err)
{
    clef__guide_finish(g);
    if (!guide)
        return CLEF_OK;
    const clef_token_trie *t = guide->trie;
    if (!guide->constraint || !t || !t->n_ends)
        return clef__fail(err, CLEF_E_ARG,
                          "guide: expected a constraint, and a vocabulary with a token that "
                          "ends a text");
    if (t->n_vocab > n_vocab)
        return clef__fail(err, CLEF_E_ARG,
                          "guide: a vocabulary of %d tokens, expected at most the model's %d", t->n_vocab,
                          n_vocab);
    const size_t n = guide->after ? strlen(guide->after) : 0;
    char *after = malloc(n + 1);
    g->n_words = (n_vocab + 31) / 32;
    g->mask = calloc((size_t)g->n_words, sizeof *g->mask);
    if (!after || !g->mask) {
        free(after);
        clef__guide_finish(g);
        return clef__fail(err, CLEF_E_NOMEM, "guide: out of host memory");
    }
    memcpy(after, n ? guide->after : "", n + 1);
    g->guide = *guide;
    g->guide.after = after;
    return CLEF_OK;
}

clef_status clef__guide_begin(const clef__guide *g, clef__guide_place *place, clef_error *err)
{
    *place = (clef__guide_place){.begun = !g->guide.after[0]};
    return ops(g)->begin(g->guide.constraint, &place->state, err);
}

/* Makes g->mask. Statuses of clef_constraint_mask(). */
static clef_status guide_mask(const clef__guide *g, const clef__guide_place *place, clef_error *err)
{
    const clef_token_trie *t = g->guide.trie;
    if (place->begun)
        return ops(g)->mask(g->guide.constraint, t, &place->state, g->mask, err);
    for (int32_t id = 0; id < t->n_vocab; id++)
        g->mask[id / 32] |= 1u << id % 32;
    for (int32_t i = 0; i < t->n_ends; i++)
        g->mask[t->ends[i] / 32] &= ~(1u << t->ends[i] % 32);
    return CLEF_OK;
}

/* Goes on by a token of the mask. CLEF_E_ARG: it completes `after`, and goes on with what the constraint
 * does not allow; another one is to be sampled. */
static clef_status guide_accept(const clef__guide *g, clef__guide_place *place, int32_t id, clef_error *err)
{
    const clef_token_trie *t = g->guide.trie;
    clef__guide_place next = *place;
    if (place->begun)
        return ops(g)->accept(g->guide.constraint, t, &place->state, id, err);
    if (id < 0 || id >= t->n_vocab)
        return CLEF_OK;
    const clef__token *token = &t->tok->vocab.tokens[id];
    const int is_text = t->texts[id] != NULL;
    const char *bytes = is_text ? t->texts[id] : token->text; /* the marker may be a special token */
    const size_t n = is_text ? t->n_text[id] : token->n_text;
    size_t i = 0;
    while (i < n && !next.begun) {
        next.n_matched = clef__tag_match(g->guide.after, next.n_matched, bytes[i++]);
        next.begun = !g->guide.after[next.n_matched];
    }
    while (i < n && next.begun && (bytes[i] == ' ' || bytes[i] == '\n'))
        i++;
    if (i < n) {
        size_t n_read = 0;
        const clef_status s = ops(g)->read(g->guide.constraint, &next.state, bytes + i, n - i, &n_read, err);
        if (s)
            return s;
        if (n_read < n - i)
            return clef__fail(err, CLEF_E_ARG, "guide: token %d is not allowed here", id);
    }
    *place = next;
    return CLEF_OK;
}

void clef__guide_pass(const clef__guide *g, clef__guide_place *place, int32_t id)
{
    guide_accept(g, place, id, NULL); /* the constraint may not know it: it is not of its text */
}

void clef__guide_keep(const clef__guide *g, clef__guide_place *place)
{
    ops(g)->keep(g->guide.constraint, &place->state);
}

int clef__guide_ends(const clef__guide *g, int32_t id)
{
    for (int32_t i = 0; i < g->guide.trie->n_ends; i++)
        if (g->guide.trie->ends[i] == id)
            return 1;
    return 0;
}

int32_t clef__guide_sample(const clef__guide *g, clef__guide_place *place, const clef_sampler *sampler,
                           clef__sampler_room *room, const clef__sampler_pick *pick)
{
    if (guide_mask(g, place, NULL))
        return CLEF__PICK_NONE;
    for (;;) {
        const int32_t id = clef__sampler_pick_with(sampler, room, pick);
        const clef_status s = id < 0 ? CLEF_OK : guide_accept(g, place, id, NULL);
        if (s != CLEF_E_ARG)
            return s ? CLEF__PICK_NONE : id;
        g->mask[id / 32] &= ~(1u << id % 32); /* what follows `after` in it is not allowed */
    }
}
