/* The gradients of what mixtures of experts are made of. */
#ifndef CLEF_GRAPH_EXPERT_GRAD_H
#define CLEF_GRAPH_EXPERT_GRAD_H

#include "graph/value.h"

typedef struct clef__gather_elements_grad_opts {
    int32_t columns; /* of x */
} clef__gather_elements_grad_opts;
/** The gradient of x [.., columns] in clef_gather_elements(), from d [.., k] and ids [.., k]. */
clef_value *clef__gather_elements_grad(clef_value *d, clef_value *ids,
                                       const clef__gather_elements_grad_opts *opts);

typedef struct clef__expert_matmul_grad_opts {
    int32_t experts;
} clef__expert_matmul_grad_opts;
/** out [experts, M, N]: the gradient of the weights in clef_expert_matmul(), for a and b that are d and x,
 *  or, where the weights are [E, K, N], x and d. a is [B, T, M] or [B, T, k, M], b likewise; ids [B, T,
 *  k]. */
clef_value *clef__expert_matmul_grad(clef_value *a, clef_value *b, clef_value *ids,
                                     const clef__expert_matmul_grad_opts *opts);

#endif
