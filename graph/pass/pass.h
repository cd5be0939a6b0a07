/* Passes: each changes a valid graph into another that computes the same outputs. */
#ifndef CLEF_GRAPH_PASS_H
#define CLEF_GRAPH_PASS_H

#include "graph/op.h"

#define PASS(name) clef_status clef__pass_##name(clef_graph *g, clef_error *err);
#include "graph/pass/passes.def"
#undef PASS

/** Rewrites a graph value by value: walks the values in order, with their inputs already replaced. For each
 *  value v, `visit` returns v itself, a value before it, or a new node that it makes with the builders.
 *  (NULL, with the graph's error set, stops the pass.) A replacement inherits v's uses and its name.
 *  v->n_uses counts the uses of each value. */
typedef clef_value *(*clef_visit)(clef_value *v, const void *user);
clef_status clef__rewrite(clef_graph *g, clef_visit visit, const void *user, clef_error *err);

/** Opens the scope of v in g, so that a node that replaces v gets a name in it. */
void clef__enter_scope_of(clef_graph *g, const clef_value *v);
/** Closes it. */
void clef__leave_scope(clef_graph *g);

/** Counts n_uses of every value, and sets forward to NULL. */
void clef__count_uses(const clef_graph *g);

/** The part of fuse that makes cached_attention (graph/pass/pass_fuse_cache.c). */
clef_status clef__fuse_cache(clef_graph *g, clef_error *err);

/** The pass that depends on the device: replaces products with weights by products with panels where the
 *  device multiplies those fast. Unless `exact`, activations may be quantised. A plan runs it on its own
 *  copy. */
clef_status clef__pass_choose(clef_graph *g, const clef_caps *caps, clef_gemm gemm, int exact,
                              clef_error *err);
/** Runs after choose: makes products of a few rows add in the same order as products of many, so that a row's
 *  result is bit-identical whatever other rows are in the batch. */
void clef__pass_batch_invariant(clef_graph *g);

/** Runs before choose: splits weights of more than max_alloc_bytes, which no buffer holds, into parts
 *  (graph/pass/pass_split.c). Weights that cannot be split stay. */
clef_status clef__pass_split(clef_graph *g, uint64_t max_alloc_bytes, clef_error *err);

/** The second half of choose (graph/pass/pass_panels.c): merges norms, activations and residuals into the
 *  products around them, and products of one x into one product, whose weight has max_alloc_bytes at most. */
clef_status clef__fuse_panels(clef_graph *g, uint64_t max_alloc_bytes, clef_error *err);

/** The last part of choose (graph/pass/pass_experts.c): on GPUs products with chosen experts and what follows
 *  them become ops that compute both in one launch where there are few rows. */
clef_status clef__fuse_experts(clef_graph *g, const clef_caps *caps, clef_error *err);

/** 1 when one node reads v, once, and v is not an output. */
int clef__only_use(const clef_value *v);
/** 1 when x may replace the node n, which only passes x's elements on. x must be dense, of n's dtype and no
 *  state, which may change between n and n's uses. It must also have few enough views behind it. */
int clef__stands_for(const clef_value *x, const clef_value *n);
/** 1 when the node changes a state or sends a value to another rank. */
int clef__has_effect(const clef_value *v);

#endif
