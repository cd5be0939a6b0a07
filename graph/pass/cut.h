/* A graph as a pipeline of stages, each for a device of its own: layers behind layers. */
#ifndef CLEF_GRAPH_CUT_H
#define CLEF_GRAPH_CUT_H

#include "graph/op.h"

enum { CLEF_MAX_STAGES = 16 };

/** Where a graph is cut. Values that the graph computes stand in the stage of their layer, others in the
 *  latest stage of what they read. What comes of weights alone, or of inputs without a layer of its own
 *  (positions, masks), stands wherever it is wanted. */
typedef struct clef_cut {
    const clef_graph *graph;    /* borrowed */
    int32_t           n_stages;
    int32_t           n_layers;
    int32_t          *layer;    /* by value id: number of its layer in the order of the graph, -1: none */
    int32_t          *stage;    /* by value id; -1: wherever it is wanted; set by clef__cut_at() */
    unsigned char    *may_begin; /* by layer: 1 where a stage may begin with it: no state is used on both
                                    sides */
    unsigned char    *marks[CLEF_MAX_STAGES]; /* of each stage, by value id: what it needs and what crosses
                                                 (graph/pass/cut.c) */
    double           *bytes;    /* by layer: its weights and states; what stands before the first and behind
                                   the last counts to these */
} clef_cut;

/** Finds the layers: scopes called layerN, behind encoder. or decoder. too. Takes a graph before or after its
 *  passes. Finish it in any state. CLEF_E_NOMEM. */
clef_status clef__cut_init(clef_cut *cut, const clef_graph *g, clef_error *err);
void        clef__cut_finish(clef_cut *cut);

/** Chooses where stages begin: begin[s] is the first layer of stage s (begin[0] = 0), as near to the shares
 *  (any positive numbers) of the layers as may be. CLEF_E_UNSUPPORTED: fewer places to cut than that. */
clef_status clef__cut_choose(const clef_cut *cut, const double *shares, int32_t n_stages, int32_t *begin,
                             clef_error *err);
/** Gives every value its stage. CLEF_E_UNSUPPORTED: two stages would use one state. */
clef_status clef__cut_at(clef_cut *cut, const int32_t *begin, int32_t n_stages, clef_error *err);

/** Stage s as a graph of its own, with the symbols of the whole. Stage 0 has all inputs of the whole, in
 *  their order; others those that they read. A value that an earlier stage computes is an input of its name;
 *  one that a later stage reads is an output "cross:NAME" behind the whole's outputs of this stage, which
 *  keep their order. */
clef_status clef__cut_stage(const clef_cut *cut, int32_t s, clef_graph **out, clef_error *err);
/** What begins the names of outputs that cross. */
#define CLEF_CROSS "cross:"

#endif
