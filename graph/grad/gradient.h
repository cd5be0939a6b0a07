/* What the gradient rules of ops may call. A rule is the field `grad` of clef_op_def: it gets a node and the
 * gradient of the node's result, and adds the gradients of those inputs that want one, made with the
 * builders. */
#ifndef CLEF_GRAPH_GRADIENT_H
#define CLEF_GRAPH_GRADIENT_H

#include "clef/gradient.h"
#include "graph/value.h"

typedef struct clef__gradients clef__gradients;

/** 1 when v is a value whose gradient is needed. v may be NULL (0). */
int clef__wants_gradient(const clef__gradients *gr, const clef_value *v);

/** Adds d to the gradient of v, if v wants one. d has v's shape, or, if v was broadcast, a shape that v
 *  broadcasts to: d is then summed over the dims that v lacks. Of several gradients the sum counts. d NULL:
 *  an error that the graph has. */
void clef__add_gradient(clef__gradients *gr, clef_value *v, clef_value *d);
/** Adds d to the gradient of the part of v that begins at `start` of `axis` and has d's shape. */
void clef__add_gradient_of_part(clef__gradients *gr, clef_value *v, int32_t axis, int32_t start,
                                clef_value *d);

/** x [.., N] as [R, N]. */
clef_value *clef__as_rows(clef_value *x);

#endif
