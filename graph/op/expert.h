/* The attributes of expert_matmul. */
#ifndef CLEF_GRAPH_EXPERT_H
#define CLEF_GRAPH_EXPERT_H

#include "graph/op.h"

/** The options of clef_expert_matmul(), which come first, and what passes add. */
typedef struct clef__expert_attrs {
    clef_expert_matmul_opts opts;
    int32_t batch_invariant; /* 1: a row's result is bit-identical whatever other rows are in the batch */
    int32_t int8;            /* 1: x may be rounded to 8 bits, in blocks of 32 */
    int32_t half;            /* 1: x may be rounded to the weight's type, which is f16 or bf16 */
} clef__expert_attrs;

static inline const clef__expert_attrs *clef__expert_attrs_of(const clef_value *n)
{
    return (const void *)n->attr;
}

/** panel_experts: expert_matmul on CPUs, with packed experts (graph/lower/panel/panel_ops.h) and x rounded to
 * 8 bits in blocks of 32. w is a weight [experts, N, K] in blocks that has panels, with N % 16 == 0. */
typedef struct clef__panel_experts_opts {
    int32_t n, k, experts;
    clef_dtype dtype;        /* of W before it was packed */
    int32_t batch_invariant; /* as in clef__expert_attrs */
} clef__panel_experts_opts;
clef_value *clef__panel_experts(clef_graph *g, clef_value *x, clef_value *packed, clef_value *ids,
                                clef_value *bias, const clef__panel_experts_opts *opts);
/** Returns 1 when there is a kernel that multiplies the node's x in 8 bits (graph/lower/expert/expert.c). */
int clef__experts_have_bytes(const clef_value *n);
/** The tolerance of the expert_matmul n. */
float clef__expert_tol(const clef_value *n);

#endif
