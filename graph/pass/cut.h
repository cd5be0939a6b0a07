/* Cuts a graph into a pipeline of stages, one for each device, between its layers. */
#ifndef CLEF_GRAPH_CUT_H
#define CLEF_GRAPH_CUT_H

#include "graph/op.h"

enum { CLEF_MAX_STAGES = 16 };

/** Where a graph is cut. A computed value belongs to the stage of its layer. A value outside the layers
 *  belongs to the latest stage of its inputs. Values that depend on weights alone, or only on inputs outside
 *  the layers (positions, masks), are computed in every stage that needs them. */
typedef struct clef_cut {
    const clef_graph *graph;    /* borrowed */
    int32_t           n_stages;
    int32_t           n_layers;
    int32_t          *layer;    /* by value id: index of its layer in the graph's order, -1: none */
    int32_t          *stage;    /* by value id; -1: every stage that needs it; set by clef__cut_at() */
    unsigned char    *may_begin; /* by layer: 1 if a stage may begin with it, because no state is used on
                                    both sides */
    unsigned char    *marks[CLEF_MAX_STAGES]; /* for each stage, by value id: what it needs and what
                                                 crosses (graph/pass/cut.c) */
    double           *bytes;    /* by layer: its weights and states. Values before the first or after the
                                   last layer are counted with these */
} clef_cut;

/** Finds the layers: the values' scopes say them. Accepts a graph before or after
 *  its passes. Call clef__cut_finish() even after an error. CLEF_E_NOMEM. */
clef_status clef__cut_init(clef_cut *cut, const clef_graph *g, clef_error *err);
void        clef__cut_finish(clef_cut *cut);

/** Chooses where stages begin: begin[s] is the first layer of stage s (begin[0] = 0). It follows the shares
 *  (any positive numbers) of the layers as closely as possible. CLEF_E_UNSUPPORTED: there are fewer places to
 *  cut than stages need. */
clef_status clef__cut_choose(const clef_cut *cut, const double *shares, int32_t n_stages, int32_t *begin,
                             clef_error *err);
/** Gives every value its stage. CLEF_E_UNSUPPORTED: two stages would use one state. */
clef_status clef__cut_at(clef_cut *cut, const int32_t *begin, int32_t n_stages, clef_error *err);

/** The other way to cut: the experts of mixtures apart from the rest of all layers. n_stages is 1 where the
 *  graph has none. Values cross in both directions, layer by layer, so the stages are made by
 *  clef__cut_exchanging(). CLEF_E_NOMEM. */
enum { CLEF__CUT_REST, CLEF__CUT_EXPERTS };
clef_status clef__cut_experts(clef_cut *cut, clef_error *err);

/** What a stage has to do with a value. */
enum {
    CLEF__CUT_WANTED = 1,   /* it needs the value */
    CLEF__CUT_IN = 2,       /* and gets it from the value's own stage */
    CLEF__CUT_OUT = 4       /* it computes the value for another stage */
};
/** Sets the marks of each stage from the values' stages; clef__cut_at() has done so. CLEF_E_NOMEM. */
clef_status clef__cut_mark(clef_cut *cut, clef_error *err);
/** The stage of a value; -1: every stage that needs it computes it. The stage of an output is that of its
 *  value, or 0 for -1. */
int32_t clef__cut_stage_of(const clef_cut *cut, const clef_value *v);

/** Makes stage s as a graph of its own, with all symbols. Stage 0 has all inputs, in their order; other
 *  stages have the inputs that they read. A value that an earlier stage computes is an input of its name. A
 *  value that a later stage reads is an output "cross:NAME", after this stage's outputs of the whole graph,
 *  which keep their order. */
clef_status clef__cut_stage(const clef_cut *cut, int32_t s, clef_graph **out, clef_error *err);
/** As clef__cut_stage(), for two stages between which values cross in both directions. A value that crosses
 *  is sent (send) and received (receive, graph/collective.h) in the order of the whole graph, to and from
 *  "rank" 1 - s. It is received before its first reader, and the stage has then sent what the other one needs
 *  for it. Received values are in inputs "received.N". Several values use one input in turn; between them the
 *  stage has sent something, so that the other one cannot be ahead. (graph/pass/cut_exchange.c) */
clef_status clef__cut_exchanging(const clef_cut *cut, int32_t s, clef_graph **out, clef_error *err);
/** The prefix of outputs that cross. */
#define CLEF_CROSS "cross:"

#endif
