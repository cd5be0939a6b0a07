/* Passes: each takes a valid graph and leaves a valid graph that computes the same outputs. */
#ifndef CLEF_GRAPH_PASS_H
#define CLEF_GRAPH_PASS_H

#include "graph/op.h"

#define PASS(name) clef_status clef__pass_##name(clef_graph *g, clef_error *err);
#include "graph/passes.def"
#undef PASS

/** Rewrites a graph value by value: walks the values in order, with their inputs already replaced, and lets `visit` say what stands
 *  in v's place: v itself, a value before it, or a node that it makes through the builders and returns (NULL, with the graph's error
 *  set, stops the pass). A replacement takes over v's uses and its name. v->n_uses counts the uses of each value. */
typedef clef_value *(*clef_visit)(clef_value *v);
clef_status clef__rewrite(clef_graph *g, clef_visit visit, clef_error *err);

/** 1 when v is an output. */
int clef__is_output(const clef_value *v);
/** 1 when running the node changes a state. */
int clef__has_effect(const clef_value *v);

#endif
