/* Whether gradients are summed over the ranks while the backward pass still runs. That saves time where a
 * rank waits for a network; where summing needs the cores that compute, it may not. So the first steps are
 * made both ways in turn, and the ranks choose by their time. CLEF_DEBUG=rank_overlap=1
 * always overlaps, 0 never does. */
#ifndef CLEF_RUNTIME_TRAIN_OVERLAP_H
#define CLEF_RUNTIME_TRAIN_OVERLAP_H

#include "ranks/join/ranks.h"

typedef struct clef__train_overlap {
    int32_t is_on;      /* in the present step */
    int32_t is_decided; /* it stays so */
    int32_t is_fixed;   /* by the variable, or because this rank cannot overlap */
    int32_t n_steps;    /* so far, until it is decided */
    double  begin;      /* of the present step, in seconds */
    float   least[2];   /* seconds of the shortest step without and with it; 0: none yet */
} clef__train_overlap;

/** can: whether this rank can overlap. CLEF_E_ARG: the variable is neither 0 nor 1. */
clef_status clef__train_overlap_init(clef__train_overlap *o, int can, clef_error *err);
/** A step begins on this rank. */
void        clef__train_overlap_begin(clef__train_overlap *o);
/** The sums of a step have ended: sets is_on for the next one. All ranks call it. */
clef_status clef__train_overlap_end(clef__train_overlap *o, clef_ranks *ranks, clef_error *err);

#endif
