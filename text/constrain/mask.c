/* Masks: the tokens that may come next, by a walk through the trie of the vocabulary. What the walk costs is
 * paid once for each config: masks are kept.
 *
 * Where any character may come, as inside a JSON string, all plain tokens may: only the others are walked. */
#include <stdlib.h>
#include <string.h>

#include "text/constrain/constraint.h"

enum { MASK_BYTES = 32 << 20 }; /* of the masks that are kept */

typedef struct place {
    clef_constraint_state state;
    int32_t done; /* 1: the plain tokens below are in the mask */
} place;

static void set_token(uint32_t *mask, int32_t id)
{
    mask[id / 32] |= 1u << id % 32;
}

/* Adds the plain tokens below a node that have at most `room` characters after the first n_read. */
static void add_plain(const clef_token_trie *t, uint32_t node, uint32_t n_read, uint32_t room, uint32_t *mask)
{
    const uint32_t end = t->tokens[t->skip[node]];
    for (uint32_t i = t->tokens[node]; i < end; i++)
        if (t->n_chars[i] && (room == UINT32_MAX || t->n_chars[i] - n_read <= room))
            set_token(mask, t->ids[i]);
}

static uint32_t characters(const clef_token_trie *t, const uint32_t *path, uint32_t depth)
{
    uint32_t n = 0;
    for (uint32_t d = 1; d <= depth; d++)
        n += (t->byte[path[d]] & 0xC0) != 0x80;
    return n;
}

static int is_plain_byte(uint8_t byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\';
}

static void walk(clef__machine *m, const clef_token_trie *t, const clef_constraint_state *state,
                 uint32_t *mask)
{
    place at[CLEF__MAX_TOKEN_DEPTH + 1];
    uint32_t path[CLEF__MAX_TOKEN_DEPTH + 1] = {0}, room = 0;
    uint8_t plain[CLEF__MAX_TOKEN_DEPTH + 1]; /* so far every byte is one of a plain token */
    at[0] = (place){.state = *state};
    plain[0] = !state->left;
    if (plain[0] && clef__machine_is_free(m, state->config, &room)) {
        at[0].done = 1;
        if (room == UINT32_MAX)
            memcpy(mask, t->plain, (size_t)(t->n_vocab + 31) / 32 * sizeof *mask);
        else
            add_plain(t, 0, 0, room, mask);
    }
    for (uint32_t i = 1; i < t->n_nodes && !m->work.status;) {
        const uint32_t d = t->depth[i];
        at[d] = at[d - 1];
        plain[d] = plain[d - 1] && is_plain_byte(t->byte[i]);
        if ((at[d].done && !t->wild[i]) || !clef__constraint_byte(m, &at[d].state, t->byte[i])) {
            i = t->skip[i];
            continue;
        }
        path[d] = i;
        const uint32_t end = i + 1 < t->n_nodes ? t->tokens[i + 1] : t->n_tokens;
        for (uint32_t k = t->tokens[i]; k < end; k++)
            set_token(mask, t->ids[k]);
        if (plain[d] && !at[d].done && !at[d].state.left &&
            clef__machine_is_free(m, at[d].state.config, &room)) {
            add_plain(t, i, characters(t, path, d), room, mask);
            at[d].done = 1;
        }
        i++;
    }
}

static int is_special(const clef_token_trie *t, int32_t id)
{
    return t->texts[id] == NULL;
}

/* Tokens that a frame of a grammar names. */
static void add_named_of(const clef__machine *m, const clef_token_trie *t, const clef__frame *f,
                         uint32_t *mask)
{
    const clef__gnode *node = f->op == CLEF__OP_SET ? &m->nodes[f->a] : NULL;
    if (!node || node->kind == CLEF__G_SET)
        return;
    for (int32_t id = 0; id < t->n_vocab; id++)
        if (clef__gnode_takes(node, id, is_special(t, id)))
            set_token(mask, id);
}

static void add_named(clef__machine *m, const clef_token_trie *t, uint32_t config, uint32_t *mask)
{
    uint32_t n;
    for (uint32_t i = m->first[config]; i < m->first[config + 1]; i++)
        add_named_of(m, t, &m->frames[m->items[i]], mask);
    const uint32_t *after = clef__machine_after(m, config, &n);
    for (uint32_t i = 0; i < n; i++)
        add_named_of(m, t, &m->frames[after[i]], mask);
}

static clef_status compute(clef_constraint *c, const clef_token_trie *t, const clef_constraint_state *state,
                           uint32_t *mask, clef_error *err)
{
    const size_t n_words = (size_t)(t->n_vocab + 31) / 32;
    memset(mask, 0, n_words * sizeof *mask);
    walk(&c->machine, t, state, mask);
    if (!state->left)
        add_named(&c->machine, t, state->config, mask);
    for (int32_t i = 0; i < t->n_ends; i++)
        mask[t->ends[i] / 32] &= ~(1u << t->ends[i] % 32);
    if (clef__constraint_may_end(c, state))
        for (int32_t i = 0; i < t->n_ends; i++)
            set_token(mask, t->ends[i]);
    if (c->machine.work.status)
        return clef__fail(err, c->machine.work.status,
                          "constraint: the text can be read in too many ways, or its "
                          "states need more than %d MiB",
                          CLEF__MAX_MEMORY >> 20);
    for (size_t i = 0; i < n_words; i++)
        if (mask[i])
            return CLEF_OK;
    return clef__fail(err, CLEF_E_ARG, "constraint: the vocabulary has no token for what must follow");
}

/* The place of a config's mask among those that are kept; NULL if there is no room. *known: it is there. */
static uint32_t *kept_mask(clef_constraint *c, const clef_token_trie *t, uint32_t config, int *known)
{
    const size_t n_words = (size_t)(t->n_vocab + 31) / 32, most = MASK_BYTES / (n_words * sizeof(uint32_t));
    if (c->masks_of != t || c->n_masks >= most) { /* another vocabulary, or full: begin anew */
        c->masks_of = t;
        c->n_masks = 0;
        if (c->mask_of)
            memset(c->mask_of, 0, c->n_mask_of * sizeof *c->mask_of);
        free(c->masks);
        c->masks = NULL;
        c->room_masks = 0;
    }
    if (config >= c->n_mask_of) {
        const uint32_t n = c->machine.n_configs * 2;
        uint32_t *grown = realloc(c->mask_of, n * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + c->n_mask_of, 0, (n - c->n_mask_of) * sizeof *grown);
        c->mask_of = grown;
        c->n_mask_of = n;
    }
    *known = c->mask_of[config] != 0;
    if (*known)
        return c->masks + (size_t)(c->mask_of[config] - 1) * n_words;
    if (c->n_masks == c->room_masks) {
        const uint32_t room = c->room_masks ? c->room_masks * 2 : 16;
        uint32_t *grown = realloc(c->masks, room * n_words * sizeof *grown);
        if (!grown)
            return NULL;
        c->masks = grown;
        c->room_masks = room;
    }
    return c->masks + (size_t)c->n_masks * n_words;
}

clef_status clef_constraint_mask(clef_constraint *c, const clef_token_trie *t,
                                 const clef_constraint_state *state, uint32_t *mask, clef_error *err)
{
    const size_t n_words = (size_t)(t->n_vocab + 31) / 32;
    clef_constraint_state own;
    int known = 0;
    clef_status s = clef__constraint_enter(c, state, &own, err);
    if (s)
        return s;
    uint32_t *kept = own.left ? NULL : kept_mask(c, t, own.config, &known);
    if (!kept)
        return compute(c, t, &own, mask, err);
    if (!known && !(s = compute(c, t, &own, kept, err)))
        c->mask_of[own.config] = ++c->n_masks;
    if (!s)
        memcpy(mask, kept, n_words * sizeof *mask);
    return s;
}

clef_status clef_constraint_accept(clef_constraint *c, const clef_token_trie *t, clef_constraint_state *state,
                                   int32_t id, clef_error *err)
{
    clef_constraint_state own;
    size_t n = 0;
    if (id < 0 || id >= t->n_vocab)
        return clef__fail(err, CLEF_E_ARG, "constraint: token %d, expected 0 to %d", id, t->n_vocab - 1);
    clef_status s = clef__constraint_enter(c, state, &own, err);
    if (s)
        return s;
    for (int32_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id)
            return clef__constraint_may_end(c, &own)
                       ? CLEF_OK
                       : clef__fail(err, CLEF_E_ARG, "constraint: the text may not end here");
    const uint32_t named =
        own.left ? CLEF__NO_CONFIG : clef__machine_token(&c->machine, own.config, id, is_special(t, id));
    if (named != CLEF__NO_CONFIG)
        own.config = named;
    else if (t->texts[id])
        s = clef__constraint_read(c, &own, t->texts[id], t->n_text[id], &n, err);
    if (!s && named == CLEF__NO_CONFIG && (!t->texts[id] || n < t->n_text[id]))
        s = clef__fail(err, CLEF_E_ARG, "constraint: token %d is not allowed here", id);
    if (!s)
        clef__constraint_leave(c, &own, state);
    return s;
}
