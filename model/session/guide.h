/* A session's constraint: what its next token may be. */
#ifndef CLEF_MODEL_SESSION_GUIDE_H
#define CLEF_MODEL_SESSION_GUIDE_H

#include "clef/constrain.h"
#include "model/session/sampler.h"

/** What a session asks of a constraint: the functions of clef/constrain.h. A constraint's first member points
 *  to this table, so that sessions and batches need not know who compiled it. */
typedef struct clef__constraint_ops {
    clef_status (*begin)(clef_constraint *c, clef_constraint_state *state, clef_error *err);
    clef_status (*read)(clef_constraint *c, clef_constraint_state *state, const char *bytes, size_t n,
                        size_t *n_read, clef_error *err);
    clef_status (*mask)(clef_constraint *c, const clef_token_trie *trie, const clef_constraint_state *state,
                        uint32_t *mask, clef_error *err);
    clef_status (*accept)(clef_constraint *c, const clef_token_trie *trie, clef_constraint_state *state,
                          int32_t id, clef_error *err);
    /** Keeps the place of a text that does not run while others do. */
    void (*keep)(clef_constraint *c, clef_constraint_state *state);
} clef__constraint_ops;

/** Where a text is. It can be copied, to come back to it. */
typedef struct clef__guide_place {
    clef_constraint_state state;
    size_t                n_matched; /* bytes of `after` at the end of the text */
    int32_t               begun;     /* the constraint holds */
} clef__guide_place;

/** Zeroed: no constraint. */
typedef struct clef__guide {
    clef_guide guide;   /* its `after` is owned */
    uint32_t  *mask;
    int32_t    n_words;
} clef__guide;

/** Takes a copy for a model with n_vocab logits. guide NULL: none. CLEF_E_ARG, CLEF_E_NOMEM. */
clef_status clef__guide_set(clef__guide *g, const clef_guide *guide, int32_t n_vocab, clef_error *err);
void        clef__guide_finish(clef__guide *g);

clef_status clef__guide_begin(const clef__guide *g, clef__guide_place *place, clef_error *err);
/** Keeps the place of a text that does not run while others do with the same constraint. */
void clef__guide_keep(const clef__guide *g, clef__guide_place *place);
/** 1 if the token ends a text. */
int clef__guide_ends(const clef__guide *g, int32_t id);

/** Goes on by a token that was not sampled. */
void clef__guide_pass(const clef__guide *g, clef__guide_place *place, int32_t id);
/** Makes the mask, samples by `pick`, whose mask is g->mask, and goes on by what was sampled. CLEF__PICK_NONE
 *  if no token is allowed, or the constraint grew beyond its limits; CLEF__PICK_NOT_FINITE. */
int32_t clef__guide_sample(const clef__guide *g, clef__guide_place *place, const clef_sampler *sampler,
                           clef__sampler_room *room, const clef__sampler_pick *pick);

#endif
