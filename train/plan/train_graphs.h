/* The graphs of a trainer, made from the graph of a loss. */
#ifndef CLEF_RUNTIME_TRAIN_GRAPHS_H
#define CLEF_RUNTIME_TRAIN_GRAPHS_H

#include "clef/train.h"
#include "graph/value.h"

/* Names of the inputs, outputs and states that training adds. */
#define CLEF__KEEP     "train.keep"     /* input [1]: 0 in the first part of a step, else 1 */
#define CLEF__SCALE    "train.scale"    /* input [1]: of the loss; absent if it is always 1 */
#define CLEF__NUMBERS  "train.numbers"  /* input: clef_adamw() */
#define CLEF__NORM     "train.norm"     /* output [64]: clef_sum_squares() of all gradients; on several
                                           ranks of this one's share, and an input of the update */
#define CLEF__LOSS     "train.loss"     /* output [] */
#define CLEF__LOSS_SUM "train.loss_sum" /* state [1] */

typedef struct clef__train_parameter {
    char      *name;
    clef_shape shape;
    int64_t    n;
    clef_dtype stored; /* of the weight */
    int32_t    decays;
    int64_t    start;         /* elements of the parameters after it in the list */
    int64_t    first, n_rows; /* the rows (of dim 0) that this rank updates: all, but for several ranks */
} clef__train_parameter;

typedef struct clef__train_graphs {
    clef_graph *gradients, *update, *evaluation;
    clef_graph *norm; /* on several ranks; else the update computes it */
    clef__train_parameter *parameters; /* those that have a gradient, in the order of the graph */
    int32_t n_parameters;
    int64_t n_frozen; /* elements of weights that are not trained */
} clef__train_graphs;

/** The name of the state that holds an array of the parameter. */
void clef__train_array_name(const char *parameter, clef_train_array which, char name[CLEF_NAME_BYTES]);

/** Elements of a row of dim 0. */
int64_t clef__train_row(const clef__train_parameter *p);
/** The first row of parameter i that belongs to rank `rank` or one after it: n_ranks divide the elements of
 *  all parameters, in the order of `start`, into equal ranges of whole rows. */
int64_t clef__train_cut(const clef__train_graphs *graphs, int32_t i, int32_t rank, int32_t n_ranks);

/** Makes the graphs, on several ranks (opts->ranks) those of this rank. CLEF_E_ARG: there are fewer rows than
 *  ranks. Call clef__train_graphs_free() after it in any case. */
clef_status clef__train_graphs_make(const clef_graph *graph, const char *loss, const clef_train_opts *opts,
                                    clef__train_graphs *out, clef_error *err);
void        clef__train_graphs_free(clef__train_graphs *graphs);

/** A copy of the graph in which every float that is computed is an output, in the order of execution. */
clef_status clef__train_graph_with_all(const clef_graph *graph, clef_graph **out, clef_error *err);

#endif
