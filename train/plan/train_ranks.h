/* What a trainer exchanges with the trainers of other ranks, beside gradients (train_buckets.h). Each rank
 * updates a range of the elements of all parameters (train_pieces.h), whole rows (of dim 0), and has the
 * moments of these alone (ZeRO, stage 1: arXiv:1910.02054). */
#ifndef CLEF_RUNTIME_TRAIN_RANKS_H
#define CLEF_RUNTIME_TRAIN_RANKS_H

#include "ranks/join/ranks.h"
#include "train/plan/train_pieces.h"

typedef struct clef__train_ranks {
    clef_ranks *ranks;
    const clef__train_graphs *graphs;
    int64_t *begins;  /* [n + 1]: where the range of each rank begins */
    size_t  *counts;  /* [n]: for all_gather */
    clef__train_piece *pieces; /* room for one of each parameter */
    float   *staging; /* host memory for a bucket */
    int32_t  n;
} clef__train_ranks;

/** graphs: borrowed. CLEF_E_NOMEM. Call clef__train_ranks_finish() after it in any case. */
clef_status clef__train_ranks_init(clef__train_ranks *r, clef_ranks *ranks, const clef__train_graphs *graphs,
                                   clef_error *err);
void        clef__train_ranks_finish(clef__train_ranks *r); /* accepts a zeroed one */

/** Tells the others which step this rank is at, for the message if it is lost. */
void        clef__train_ranks_at(clef__train_ranks *r, int64_t step);
/** x[i] becomes its sum over the ranks. */
clef_status clef__train_ranks_sum_few(clef__train_ranks *r, float *x, size_t n, clef_error *err);
/** weights [n_parameters], after all runs so far: each rank gets the ranges of the others. */
clef_status clef__train_ranks_gather(clef__train_ranks *r, const clef__plan_state *weights, clef_error *err);
/** All of an array of parameter i, of which this rank's rows are in their place in `data`. */
clef_status clef__train_ranks_join(clef__train_ranks *r, int32_t i, float *data, clef_error *err);

#endif
