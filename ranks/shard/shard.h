/* Cuts a graph for several ranks: processes that run it together, each with a part of the weights. */
#ifndef CLEF_GRAPH_SHARD_H
#define CLEF_GRAPH_SHARD_H

#include "graph/pass/cut.h"

/** How a graph is divided. Its layers go to `stages` groups of ranks. Within a stage `width` ranks share
 *  each layer (tensor parallelism, arXiv:1909.08053): products are cut by columns or rows, attention
 *  between heads. Rank r is number r % width of stage r / width. */
typedef struct clef_layout {
    int32_t width, stages;
} clef_layout;

/** Makes the graph that `rank` runs. It has the inputs, outputs and states of the values that the rank
 *  computes, under their names; of states and weights only the rank's part. Ranks exchange values by
 *  all_reduce and all_gather within a stage, by send and receive between stages. An input that a node
 *  writes to (the next token) is brought to the other stages at the end. A graph of less than two layers is
 *  not cut into stages: each stage has all of it, and its outputs are those of rank 0.
 *
 *  g      after its passes, before those of a device. begin  the first layer of each stage
 *  (clef__cut_choose()); NULL: stages with about as many layers.
 *
 *  CLEF_E_UNSUPPORTED: the heads of attention do not divide, or there are fewer places to cut than stages
 *  need; the error names what would do. CLEF_E_NOMEM. */
clef_status clef__shard(const clef_graph *g, const clef_layout *layout, int32_t rank, const int32_t *begin,
                        clef_graph **out, clef_error *err);

/** The rank that has output number i of the whole graph; the first one of its stage. */
clef_status clef__shard_home(const clef_graph *g, const clef_layout *layout, const int32_t *begin,
                             int32_t *homes, clef_error *err);

#endif
