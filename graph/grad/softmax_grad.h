/* The gradient of the logits in a softmax. */
#ifndef CLEF_GRAPH_SOFTMAX_GRAD_H
#define CLEF_GRAPH_SOFTMAX_GRAD_H

#include "graph/value.h"

typedef struct clef__softmax_grad_opts {
    float   scale; /* of the logits; 0 means 1 */
    int32_t log;   /* 1: y is the logarithm of the softmax */
} clef__softmax_grad_opts;

/** The gradient of the logits from the result y of a softmax over the last dim, and the gradient d of y. */
clef_value *clef__softmax_grad(clef_value *y, clef_value *d, const clef__softmax_grad_opts *opts);

struct clef__gradients;
/** The gradient rule of softmax for its node n: adds the gradients of mask and sinks. Returns that of x if
 *  wants_x, else NULL. */
clef_value *clef__softmax_rule(struct clef__gradients *gr, clef_value *n, clef_value *d, int wants_x);

#endif
