/* Passes: each takes a valid graph and leaves a valid graph that computes the same outputs. */
#ifndef CLEF_GRAPH_PASS_H
#define CLEF_GRAPH_PASS_H

#include "graph/op.h"

#define PASS(name) clef_status clef__pass_##name(clef_graph *g, clef_error *err);
#include "graph/pass/passes.def"
#undef PASS

/** Rewrites a graph value by value: walks the values in order, with their inputs already replaced, and lets
 *  `visit` say what stands in v's place: v itself, a value before it, or a node that it makes through the
 *  builders and returns (NULL, with the graph's error set, stops the pass). A replacement takes over v's
 *  uses and its name. v->n_uses counts the uses of each value. */
typedef clef_value *(*clef_visit)(clef_value *v, const void *user);
clef_status clef__rewrite(clef_graph *g, clef_visit visit, const void *user, clef_error *err);

/** Sets n_uses of every value, and forward to NULL. */
void clef__count_uses(const clef_graph *g);

/** The part of fuse that makes cached_attention (graph/pass/pass_fuse_cache.c). */
clef_status clef__fuse_cache(clef_graph *g, clef_error *err);

/** The pass that depends on the device: puts panels (and, unless `exact`, quantised activations) in the place
 *  of products with weights where the device multiplies them fast. A plan runs it on its own copy. */
clef_status clef__pass_choose(clef_graph *g, const clef_caps *caps, clef_gemm gemm, int exact,
                              clef_error *err);
/** After it: products of a few rows add in the order of those of many, so that a row's result is to the bit
 *  the same among others. */
void clef__pass_batch_invariant(clef_graph *g);

/** Before choose: weights of more than max_alloc_bytes, which no buffer holds, become parts
 *  (graph/pass/pass_split.c). What cannot be cut stays. */
clef_status clef__pass_split(clef_graph *g, uint64_t max_alloc_bytes, clef_error *err);

/** The second half of choose (graph/pass/pass_panels.c): norms, activations and residuals become part of the
 *  products around them, and products of one x one product, of max_alloc_bytes at most. */
clef_status clef__fuse_panels(clef_graph *g, uint64_t max_alloc_bytes, clef_error *err);

/** 1 when v is an output. */
int clef__is_output(const clef_value *v);
/** 1 when x may stand in the place of the node n that only passes its elements on: dense, of n's dtype, and
 *  no state (which may change between n and n's uses) nor behind so many views that those on top of n would
 *  be too many. */
int clef__stands_for(const clef_value *x, const clef_value *n);
/** 1 when running the node changes a state. */
int clef__has_effect(const clef_value *v);

#endif
