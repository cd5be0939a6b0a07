/* The gradient of attention. */
#ifndef CLEF_GRAPH_ATTENTION_GRAD_H
#define CLEF_GRAPH_ATTENTION_GRAD_H

#include "graph/lower/attention/attention.h"

/** Indices of the inputs of attention_grad. */
enum {
    CLEF_ATTENTION_GRAD_Q,
    CLEF_ATTENTION_GRAD_K,
    CLEF_ATTENTION_GRAD_V,
    CLEF_ATTENTION_GRAD_Y,
    CLEF_ATTENTION_GRAD_DY,
    CLEF_ATTENTION_GRAD_MASK,
    CLEF_ATTENTION_GRAD_POS,
    CLEF_ATTENTION_GRAD_FIRST,
    CLEF_ATTENTION_GRAD_N_IN
};

/** The gradients of q, k and v, each NULL where something failed. They are views of one node, in the shapes
 *  of the inputs; heads are inside tokens in memory: dq is [B, T, H, D] there, dk [B, S, Hk, D], dv [B, S,
 *  Hk, E]. */
typedef struct clef__attention_gradients {
    clef_value *q, *k, *v;
} clef__attention_gradients;

/** The gradients of the attention y [B, T, H, E], which has neither sinks nor pages, from that of its result.
 *  Its mask counts as a constant. All sizes must be numbers. */
clef__attention_gradients clef__attention_grad(clef_value *y, clef_value *dy);

/** The attention whose gradient n is, as far as infer, lower, cost and ref of attention read it. */
clef_value clef__attention_of_grad(const clef_value *n);

#endif
