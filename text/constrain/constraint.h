/* A compiled constraint: its automata, its machine, and the masks that were computed. */
#ifndef CLEF_TEXT_CONSTRAIN_CONSTRAINT_H
#define CLEF_TEXT_CONSTRAIN_CONSTRAINT_H

#include "model/session/guide.h"
#include "model/tokenizer/token_trie.h"
#include "text/constrain/grammar.h"

struct clef_constraint {
    const clef__constraint_ops *ops; /* first, where sessions look */

    clef__work    work;
    clef__dfas    dfas;
    clef__graph   graph;
    clef__schema  schema;
    uint32_t      n_schemas, start;
    clef__machine machine;

    const clef_token_trie *masks_of; /* the vocabulary of the masks */
    uint32_t *masks;                 /* [room_masks][words] */
    uint32_t *mask_of;               /* of each config: its mask + 1; 0: not computed */
    uint32_t  n_mask_of, n_masks, room_masks;
};

/** A constraint whose graph is still to be made, with its errors in *own; NULL when out of memory. */
clef_constraint *clef__constraint_new(const char *name, const clef_constraint_opts *opts, clef_error *own);
/** Makes the machine of a graph that begins at c->start; destroys c on failure. */
clef_status clef__constraint_seal(clef_constraint *c, clef_constraint **out, clef_constraint_problem *problem,
                                  clef_error *err);

/** A place of a text as the machine has it, whose config is of its present generation, and back. Each
 *  function of the API that takes a place enters once. CLEF_E_LIMIT: the place is gone. */
clef_status clef__constraint_enter(clef_constraint *c, const clef_constraint_state *state,
                                   clef_constraint_state *own, clef_error *err);
void clef__constraint_leave(const clef_constraint *c, const clef_constraint_state *own,
                            clef_constraint_state *state);
/** Carries the place of a text that nothing is asked about now, so that it does not go. */
void clef__constraint_keep(clef_constraint *c, clef_constraint_state *state);
/** As those of the API, with such a place. */
clef_status clef__constraint_read(clef_constraint *c, clef_constraint_state *own, const char *bytes, size_t n,
                                  size_t *n_read, clef_error *err);
int clef__constraint_may_end(clef_constraint *c, const clef_constraint_state *own);
/** The state after one byte; 0 if it is not allowed. */
int clef__constraint_byte(clef__machine *m, clef_constraint_state *state, uint8_t byte);

#endif
