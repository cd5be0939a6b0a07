/* The gradients of all parameters in buckets, which are summed over the ranks one after the other, in the
 * order of train_pieces.h: about the order in which the backward pass completes them. So one bucket can be
 * summed while the device computes the gradients of the next ones. */
#ifndef CLEF_RUNTIME_TRAIN_BUCKETS_H
#define CLEF_RUNTIME_TRAIN_BUCKETS_H

#include "train/plan/train_overlap.h"
#include "train/plan/train_pieces.h"

/** Floats that are exchanged at once. Messages of some MiB use a network well, and a bucket still fits into a
 *  processor's cache. */
enum { CLEF__TRAIN_BUCKET = 1 << 20 };

typedef struct clef__train_buckets {
    clef_ranks *ranks;
    clef_plan  *plan; /* that computes the gradients */
    struct clef__train_bucket *buckets;
    int32_t     n;
    clef__train_piece *pieces; /* of all buckets */
    cl_command_queue   copies; /* beside the device's queue, so that a bucket's way to the host is not behind
                                  what that has still to compute; NULL: the driver has none */
    float      *staging[2];    /* host memory for a bucket each; the second only where pieces are copied */
    cl_event    arrived[2];    /* of the bucket with this number modulo 2: it is in host memory */
    cl_event    all_ended;     /* of all that the device's queue has; NULL: each bucket has a mark */
    clef__train_overlap overlap;
} clef__train_buckets;

/** plan: the one whose runs complete `gradients` [n_parameters]. graphs, plan and gradients are borrowed.
 *  Marks launches of the plan. CLEF_E_NOMEM, CLEF_E_ARG (rank_overlap of CLEF_DEBUG). Call
 *  clef__train_buckets_finish() after it in any case, and before the plan is destroyed. */
clef_status clef__train_buckets_init(clef__train_buckets *b, clef_ranks *ranks,
                                     const clef__train_graphs *graphs, clef_plan *plan,
                                     const clef__plan_state *gradients, clef_error *err);
void        clef__train_buckets_finish(clef__train_buckets *b); /* accepts a zeroed one */

/** The launch of the plan's list after which these pieces do not change any more in a run; -1: no launch
 *  writes them. */
int32_t     clef__train_completed_by(const clef_plan *plan, const clef__train_piece *pieces, int32_t n);

/** After the runs of a step were enqueued: each gradient becomes its sum over the ranks, the same bits on
 *  all. What is enqueued next sees the sums. */
clef_status clef__train_buckets_sum(clef__train_buckets *b, clef_error *err);
/** A step begins, or all of its sums have ended: the first steps measure whether to overlap. */
void        clef__train_buckets_begin(clef__train_buckets *b);
clef_status clef__train_buckets_end(clef__train_buckets *b, clef_error *err);

#endif
