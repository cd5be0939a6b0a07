/* A step of a prompt in two halves. While ranks add up a value of one half, the device computes the other.
 * Each rank has a second plan for that: the same graph with the same weights and states, but with inputs and
 * working memory of its own. The first half waits until the second one is known. */
#ifndef CLEF_RUNTIME_HALVES_H
#define CLEF_RUNTIME_HALVES_H

#include "runtime/plan/plan.h"

/* ---- for callers of plans -------------------------------------------------------------------- */

/** Makes a plan ready for halves of `symbol`, the rows of a step, where sums leave a machine or devices have
 *  memory of their own; else it does nothing. If a rank has no memory for a second plan, steps run as a
 *  whole. $CLEF_RANK_HALVES: 0 never, 1 wherever several ranks add up. CLEF_E_ARG: it is something else. */
clef_status clef__plan_halve(clef_plan *plan, int32_t symbol, clef_error *err);
/** The rows of the first half of a step of n rows; 0: the step runs as a whole. Steps run both ways a few
 *  times, are measured, and then run the faster way. To be called before each step that may be halved. */
int32_t     clef__plan_half_rows(clef_plan *plan, int32_t n);
/** Like clef_plan_run() for the first half: what is bound and written next is for the second one, which
 *  clef_plan_run() runs together with it. Inputs that are not written stay as they are. Outputs are those of
 *  the second half. */
clef_status clef__plan_run_first(clef_plan *plan, clef_error *err);
/** Instead of the second half, after an error: the first one does not run. */
clef_status clef__plan_drop_first(clef_plan *plan, clef_error *err);

/* ---- on each rank ---------------------------------------------------------------------------- */

typedef struct clef__halves {
    clef_plan *first;      /* the rank's plan; borrowed */
    clef_plan *second;     /* NULL: every step runs as a whole */
    clef_plan *last;       /* of the two, the one that has the outputs of the last run */
    int32_t    waits;      /* 1: the first half waits for the second one */
    /* rank 0: what was measured */
    int32_t    is_decided; /* 1: steps run `in_halves`, or not, from now on */
    int32_t    in_halves;  /* this step does */
    int32_t    n_rows;     /* of the steps that are compared */
    int32_t    is_measured; /* this step is one of them */
    int32_t    n_runs[2];  /* as a whole, in halves */
    double     best[2];    /* seconds of the shortest; 0: none yet */
} clef__halves;

/** Without a second plan. Call clef__halves_finish() before the plan is destroyed. */
clef__halves clef__halves_of(clef_plan *plan);
void         clef__halves_finish(clef__halves *h); /* accepts a zeroed one */
/** Makes the second plan. */
clef_status  clef__halves_make(clef__halves *h, int32_t symbol, clef_error *err);
/** The plan that is bound and written now. */
clef_plan   *clef__halves_open(const clef__halves *h);
/** The run of the first half. */
clef_status  clef__halves_first(clef__halves *h, clef_error *err);
/** A run: of both halves if the first one waits. */
clef_status  clef__halves_run(clef__halves *h, clef_error *err);
/** Forgets a first half that waits. Inputs and symbols are then as they were last written and bound. */
clef_status  clef__halves_drop(clef__halves *h, clef_error *err);

/** Rank 0's choice: clef__plan_half_rows() for a plan with a second one. */
int32_t      clef__halves_choose(clef__halves *h, int32_t n);
/** Takes down how long the step took. */
void         clef__halves_measured(clef__halves *h, double seconds);

#endif
