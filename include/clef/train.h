/* Training: a graph with a loss, its gradients and an optimiser, replayed step by step on one device.
 *
 * A step has one or more parts (micro-batches). Each part runs the graph forwards and backwards and adds its
 * gradients to those of the parts before it; the update then changes the parameters. The parameters, their
 * gradients and the optimiser's moments stay on the device, in F32. The same inputs give the same bits on
 * the same device.
 *
 *   clef_trainer_create(dev, graph, "loss", &opts, &t, &err);
 *   for each step:
 *       clef_trainer_write(t, "x", x, sizeof x, &err); ...
 *       clef_trainer_add(t, &err);
 *       clef_trainer_update(t, &result, &err);
 *   clef_trainer_read(t, "w", CLEF_TRAIN_WEIGHT, w, n, &err);
 *
 * examples/train.c is a whole program. */
#ifndef CLEF_TRAIN_H
#define CLEF_TRAIN_H

#include "clef/device.h"
#include "clef/gradient.h"
#include "clef/plan.h"
#include "clef/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clef_optimizer { CLEF_ADAMW, CLEF_SGD } clef_optimizer;

/** How the learning rate changes after the warm-up, in which it rises linearly to `rate`: not at all; along
 *  half a cosine, or linearly, to rate * final_rate at the last step. */
typedef enum clef_schedule { CLEF_SCHEDULE_CONSTANT, CLEF_SCHEDULE_COSINE, CLEF_SCHEDULE_LINEAR }
        clef_schedule;

typedef struct clef_train_opts {
    clef_compile_opts compile;     /* products are always exact */
    clef_optimizer    optimizer;
    double            rate;        /* the learning rate */
    double            beta1, beta2, eps; /* clef_adamw(); beta1 is the momentum of SGD */
    double            decay;       /* weight decay, of parameters with two dims or more */
    double            clip;        /* the largest norm of all gradients; 0: any */
    clef_schedule     schedule;
    int64_t           n_warmup, n_steps; /* steps of the warm-up, and in all (for the schedule) */
    double            final_rate;
    /* What is rounded before it is multiplied, forwards and backwards: CLEF_F32 (nothing), CLEF_F16 or
     * CLEF_BF16 (arXiv:1710.03740): the operands of matrix products and of attention, and what the gradients
     * of activations read. The backward pass keeps these in 16 bits. Parameters, moments, sums of gradients,
     * sums within products, norms, softmax and losses stay F32. Products with weights that are not trained
     * stay as they are, and so does evaluation. */
    clef_dtype        compute;
    /* Gradients are those of loss_scale times the loss, divided by it; 0: 65536 with CLEF_F16, else 1. With
     * CLEF_F16 the scale is halved where gradients are not finite, and doubled after 2000 updates in a row
     * (the numbers of PyTorch's GradScaler). */
    double            loss_scale;
    int32_t           recompute;   /* clef_gradient_opts.recompute */
    int32_t           describe_only; /* 1: nothing is allocated or run; clef_trainer_describe() says what
                                        training would use */
    const char *const *taps; /* names of values, such as "layer0.attn.q" or "layer0.attn.q.grad", that
                                clef_trainer_tap() reads */
    int32_t            n_taps;
    /* NULL, or ranks that train one model together (clef_ranks_opts.apart): borrowed. Each has a trainer of
     * the same graph, adds parts of its own, and calls the functions that say so at the same time as the
     * others. An update sums loss and gradients over the ranks; each rank updates its share of the
     * parameters, and has the moments of these alone (ZeRO, stage 1: arXiv:1910.02054). All ranks end with
     * the same bits in the weights. */
    clef_ranks *ranks;
    /** Whether the weight `name` is trained. NULL: all are. Others are read as they are. */
    int (*trains)(void *user, const char *name);
    void *trains_user;
    /** The starting values: as of clef_plan_opts. Trained weights in a block format are decoded. */
    clef_weight_source weights;
    void *weights_user;
} clef_train_opts;

/** AdamW with rate 1e-3, betas 0.9 and 0.95, eps 1e-8, decay 0.1, clip 1, a constant schedule, products in
 *  F32. */
CLEF_API clef_train_opts clef_train_defaults(void);

/** The learning rate of step `step` (from 1 on). */
CLEF_API double clef_train_rate(const clef_train_opts *opts, int64_t step);

typedef struct clef_trainer clef_trainer;

/** Makes a trainer for a graph.
 *
 *  dev    borrowed; one device, which must outlive the trainer.
 *  graph  borrowed for this call, and not changed. Symbols are replaced by their bounds.
 *  loss   the name of a value or output: F32, one element.
 *
 *  CLEF_E_NOT_FOUND: there is no such value. CLEF_E_UNSUPPORTED: an op has no gradient, or dev is several
 *  devices. Else as clef_plan_create(). Free with clef_trainer_destroy(), which accepts NULL. */
CLEF_API clef_status clef_trainer_create(clef_device *dev, const clef_graph *graph, const char *loss,
                                         const clef_train_opts *opts, clef_trainer **out, clef_error *err);
CLEF_API void        clef_trainer_destroy(clef_trainer *t);

/** Sets an input of the graph for the next part and for the next evaluations. CLEF_E_NOT_FOUND, CLEF_E_ARG
 *  (the size). Inputs that were not written are 0. */
CLEF_API clef_status clef_trainer_write(clef_trainer *t, const char *input, const void *data, size_t n_bytes,
                                        clef_error *err);
/** Enqueues a part: the loss and the gradients of the present inputs are added to those of the step. */
CLEF_API clef_status clef_trainer_add(clef_trainer *t, clef_error *err);

typedef struct clef_train_result {
    int64_t step;      /* of this update, from 1 on */
    double  loss;      /* the sum of the parts' losses */
    double  grad_norm; /* the 2-norm of all gradients, before clipping */
    double  rate;
    double  loss_scale; /* of this step */
    int32_t is_finite; /* 0: loss or gradients were not finite, and nothing changed but the loss scale */
    int32_t is_scaled; /* 1: they may be finite at the loss scale that the trainer has now, half of this
                          step's: the step is to be made again. Never below a scale of 2^-14 */
} clef_train_result;
/** Ends the step: updates the parameters and waits for the result. All ranks call it, and get the same
 *  result. After a failure on one of them the others wait for it, until it ends them: clef_ranks_abort().
 *  CLEF_E_ARG: the step has no part. */
CLEF_API clef_status clef_trainer_update(clef_trainer *t, clef_train_result *out, clef_error *err);

/** The loss of this rank's present inputs, without gradients and dropout. Waits for it. */
CLEF_API clef_status clef_trainer_evaluate(clef_trainer *t, double *loss, clef_error *err);

/** Runs the present inputs once more and writes the name of the first value of the graph that has an element
 *  that is not finite, or "" if all are finite. Needs memory for all values at once. Ends the step without
 *  an update. */
CLEF_API clef_status clef_trainer_find_not_finite(clef_trainer *t, char *name, size_t n_bytes,
                                                  clef_error *err);

/** The values of tap i in the last part: n floats. Waits for it. CLEF_E_ARG: no such tap, or another
 *  size. */
CLEF_API clef_status clef_trainer_tap(clef_trainer *t, int32_t i, float *data, int64_t n, clef_error *err);

/* ---- the parameters --------------------------------------------------------------------------- */

typedef struct clef_train_parameter {
    const char *name;
    clef_shape  shape;
    int64_t     n;      /* elements */
    int32_t     decays; /* whether weight decay applies */
} clef_train_parameter;
CLEF_API int32_t              clef_trainer_n_parameters(const clef_trainer *t);
CLEF_API clef_train_parameter clef_trainer_parameter(const clef_trainer *t, int32_t i);

/** What is kept of a parameter. The gradient is that of the loss times its scale; on several ranks it is
 *  their sum after an update. SGD has no second moment. */
typedef enum clef_train_array {
    CLEF_TRAIN_WEIGHT, CLEF_TRAIN_GRADIENT, CLEF_TRAIN_MOMENT1, CLEF_TRAIN_MOMENT2
} clef_train_array;
/** Reads or writes one array of parameter i: n floats, dense. Waits for all steps so far. On several ranks
 *  all of them read a moment together, and each gets all of it; whoever sets one, sets its own share.
 *  CLEF_E_ARG. */
CLEF_API clef_status clef_trainer_read(clef_trainer *t, int32_t i, clef_train_array which, float *data,
                                       int64_t n, clef_error *err);
CLEF_API clef_status clef_trainer_set(clef_trainer *t, int32_t i, clef_train_array which, const float *data,
                                      int64_t n, clef_error *err);
/** Steps that were made; setting it resumes a run. */
CLEF_API int64_t clef_trainer_step(const clef_trainer *t);
CLEF_API void    clef_trainer_set_step(clef_trainer *t, int64_t step);
/** The loss scale, and the number of updates since it last changed: what a run that is resumed with CLEF_F16
 *  needs beside the step. CLEF_E_ARG: the scale is not a positive number. */
typedef struct clef_train_scale { double scale; int64_t n_updates; } clef_train_scale;
CLEF_API clef_train_scale clef_trainer_scale(const clef_trainer *t);
CLEF_API clef_status      clef_trainer_set_scale(clef_trainer *t, clef_train_scale scale, clef_error *err);
/** Changes the learning rate, the schedule and the other numbers of the optimiser for the next steps. The
 *  kind of optimiser, what products are rounded to, and the loss scale stay. */
CLEF_API void    clef_trainer_set_opts(clef_trainer *t, const clef_train_opts *opts);

/* ---- without a device ------------------------------------------------------------------------- */

/** The graph of a part as the trainer makes it: loss, gradients, and the states that sum them up. The
 *  gradient of a value has its name and ".grad". *out is the caller's. Errors as of
 *  clef_trainer_create(). */
CLEF_API clef_status clef_train_graph(const clef_graph *graph, const char *loss, const clef_train_opts *opts,
                                      clef_graph **out, clef_error *err);

/* ---- looking at it ---------------------------------------------------------------------------- */

typedef struct clef_train_stats {
    int64_t  n_parameters, n_trained; /* elements of all weights, and of those that are trained */
    uint64_t weight_bytes;     /* parameters and other weights */
    uint64_t gradient_bytes, moment_bytes; /* on several ranks the moments of this one's share */
    uint64_t activation_bytes; /* intermediate values, forwards and backwards */
    uint64_t other_bytes;      /* inputs and scratch */
    double   flops;            /* of a part and of an update */
    int32_t  n_launches;       /* of both */
} clef_train_stats;
CLEF_API clef_train_stats clef_trainer_describe(const clef_trainer *t);
/** The graph that computes loss and gradients, as its plan runs it. Borrowed. */
CLEF_API const clef_graph *clef_trainer_graph(const clef_trainer *t);
/** Its plan, for profiles. Borrowed. */
CLEF_API clef_plan        *clef_trainer_plan(const clef_trainer *t);

#ifdef __cplusplus
}
#endif
#endif
