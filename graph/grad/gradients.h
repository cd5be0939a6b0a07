/* The gradients of a graph's values while they are added up. */
#ifndef CLEF_GRAPH_GRAD_GRADIENTS_H
#define CLEF_GRAPH_GRAD_GRADIENTS_H

#include "graph/grad/gradient.h"
#include "graph/op.h"

/** One of the gradients that are added up: of the whole value, or of a part of it. */
typedef struct clef__addend {
    clef_value *d;
    int32_t     axis, start; /* axis -1: of the whole value */
    struct clef__addend *next;
} clef__addend;

struct clef__gradients {
    clef_graph     *g;
    int32_t         n;       /* values before any gradient was added */
    unsigned char  *wanted;  /* by id: whether the gradient of the value is needed */
    clef__addend  **addends; /* by id */
    clef_value    **again;   /* by id: what computes the value once more; NULL: nothing does */
};

/** Adds a to the gradients of v. */
void clef__keep_addend(clef__gradients *gr, const clef_value *v, clef__addend a);
/** The gradient of v: the sum of all that was added. It takes the parts out of the list. */
clef_value *clef__sum_addends(const clef_value *v, clef__addend *list);

#endif
