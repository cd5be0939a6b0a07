/* The reference of a graph that is cut for several ranks: the graphs of all ranks are evaluated side by
 * side. */
#ifndef CLEF_TESTS_SIDE_BY_SIDE_H
#define CLEF_TESTS_SIDE_BY_SIDE_H

#include "graph/cases/oracle.h"
#include "graph/collective.h"
#include "ranks/shard/shard.h"

/** Evaluates the ranks' graphs in double, at o->symbols, on the data of `o`, whose graph is the whole one
 *  (clef__oracle_draw()). Leaves have the data of the same name; parts of weights have their part of it.
 *  results[r] holds zeroed tensors by value id of graphs[r]; free each with clef__ref_free(), on failure
 *  too. CLEF_E_NOMEM; CLEF_E_ARG: the ranks wait for each other, or a rank has a leaf that the whole graph
 *  lacks. */
clef_status clef__ranks_eval(const clef__oracle *o, clef_graph *const *graphs, const clef_layout *layout,
                             clef_ref_tensor *const *results, clef_error *err);

#endif
