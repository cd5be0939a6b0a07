/* A graph with its gradients, whose products have operands of 16 bits. */
#ifndef CLEF_GRAPH_ROUND_PRODUCTS_H
#define CLEF_GRAPH_ROUND_PRODUCTS_H

#include "graph/value.h"

/** Rounds to `dtype`, F16 or BF16:
 *
 *   the operands of products (matmul, attention and its gradient) that are computed or are states. A product
 *   with a weight stays as it is, because a weight has a format of its own;
 *   what the gradients of activations, and elementwise products, read of the values before n_forward. Nodes
 *   that compute such a value again read it as it was.
 *
 *  All that reads a value in 16 bits shares one copy of it, so that only the copy is kept for the backward
 *  pass where nothing else needs the value. Results, and sums within products, stay F32.
 *
 *  n_forward: the number of values before the gradients were added. */
clef_status clef__round_products(clef_graph *graph, clef_dtype dtype, int32_t n_forward, clef_error *err);

#endif
