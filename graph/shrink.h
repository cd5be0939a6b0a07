/* Makes a graph of one node that is as small as possible but launches the same kernels. */
#ifndef CLEF_GRAPH_SHRINK_H
#define CLEF_GRAPH_SHRINK_H

#include "graph/op.h"

/** The graph that is being built, and the values of the node's graph that already have leaves in it. */
typedef struct clef__shrinker clef__shrinker;

/** Makes a graph with a copy of `n`, whose inputs are leaves of the same dtypes, and one output "proof".
 *  Weights have fewer rows if the op supports it (clef_op_def.shrink). *out is NULL when the node does not
 *  fit into a small graph. CLEF_E_NOMEM. Free with clef_graph_destroy(). */
clef_status clef__graph_of_node(const clef_value *n, clef_graph **out, clef_error *err);

/* ---- for clef_op_def.shrink ------------------------------------------------------------------ */

/** The graph that the node is added to. */
clef_graph *clef__shrink_graph(const clef__shrinker *s);
/** A leaf of v's shape; NULL if v is NULL. Views of states are rebuilt on a leaf, since kernels may read the
 *  whole state. */
clef_value *clef__shrink_copy(clef__shrinker *s, const clef_value *v);
/** A leaf for v with dim `axis` cut to n, which must not exceed its size. */
clef_value *clef__shrink_cut(clef__shrinker *s, const clef_value *v, int32_t axis, int64_t n);
/** A leaf for v with this shape, whose dims must not exceed v's. */
clef_value *clef__shrink_to(clef__shrinker *s, const clef_value *v, const clef_shape *shape);
/** The lesser of a static dim and `most`. */
int64_t clef__shrink_rows(const clef_value *v, int32_t axis, int64_t most);

#endif
