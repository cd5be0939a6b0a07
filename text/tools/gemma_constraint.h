/* The graph of arguments as Gemma 4 writes them: {key:value,..} with bare keys, and texts between <|"|>. */
#ifndef CLEF_MODEL_GEMMA_CONSTRAINT_H
#define CLEF_MODEL_GEMMA_CONSTRAINT_H

#include "text/constrain/constraint.h"

typedef struct clef__gemma {
    clef_constraint *c;
    uint32_t (*literal)(void *user, const char *text, uint32_t to); /* a text, and then node `to` */
    void     *user;
    uint32_t *rules; /* [n_exprs] where the values of an expression begin; 0: not made yet. Zeroed */
    int32_t   depth;
} clef__gemma;

/** A value of this expression of the constraint's schema, and then node `to`. An error of c->work where the
 *  expression asks for what cannot be held: a number of members, long lists. */
uint32_t clef__gemma_value(clef__gemma *g, uint32_t expr, uint32_t to);

#endif
