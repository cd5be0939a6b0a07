/* Ops that the pass "choose" makes of what surrounds products with chosen experts on GPUs
 * (graph/pass/pass_experts.c). Their products stay in the graph. With few pairs (token, choice), the op's
 * launch also computes its products, and these lower to nothing. With many, the products have launches of
 * their own, and the op computes the rest. */
#ifndef CLEF_GRAPH_EXPERT_FUSED_H
#define CLEF_GRAPH_EXPERT_FUSED_H

#include "graph/op/expert.h"

/* The inputs of expert_gated: two products of one x and what they are products of. */
enum { GATED_GATE, GATED_UP, GATED_X, GATED_W_GATE, GATED_W_UP, GATED_IDS, GATED_INPUTS };
/* The inputs of expert_sum: a product, the scores, and what it is a product of; a residual or NULL. */
enum { SUM_Y, SUM_SCORES, SUM_IDS, SUM_X, SUM_W, SUM_RESIDUAL, SUM_INPUTS };

/* What weighs the products: the scores, which are of the chosen experts; the softmax over the chosen ones of
 * scores, which are of all experts; their softmax over all, divided by its sum over the chosen ones. The last
 * two differ for ids outside the experts alone. */
typedef enum clef__expert_softmax {
    CLEF__SOFTMAX_NONE,
    CLEF__SOFTMAX_CHOSEN,
    CLEF__SOFTMAX_ALL
} clef__expert_softmax;

typedef struct clef__expert_sum_opts {
    int32_t softmax; /* clef__expert_softmax */
} clef__expert_sum_opts;

/** silu(gate) up [B, T, k, N], of two nodes expert_matmul of the same x and ids, with transpose_b. */
clef_value *clef__expert_gated(clef_graph *g, clef_value *gate, clef_value *up);
/** The sum [B, T, N] of weights[b, t, j] y[b, t, j, :] over j, + residual. y is an expert_matmul with
 *  transpose_b; scores [B, T, experts] with opts->softmax, else the weights [B, T, k]; residual [B, T, N] or
 *  NULL. */
clef_value *clef__expert_sum_of(clef_graph *g, clef_value *y, clef_value *scores, clef_value *residual,
                                const clef__expert_sum_opts *opts);

/** 1 if such an op computes the expert_matmul n, which then lowers to nothing. */
int clef__expert_is_fused(const clef_lowering *lo, const clef_value *n);

#endif
