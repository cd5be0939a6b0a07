/* A plan over several devices: a pipeline of plans, one for each device, and the values that cross between
 * them through the host. Where the second device has the experts of all layers (clef_device_opts.experts_on),
 * the two plans exchange values while both run. */
#ifndef CLEF_RUNTIME_PIPELINE_H
#define CLEF_RUNTIME_PIPELINE_H

#include "graph/pass/cut.h"
#include "runtime/plan/plan.h"

/** A value that one stage computes and a later one reads. */
typedef struct clef_wire {
    int32_t from, output; /* a stage, and the number of its output */
    int32_t to, input;
} clef_wire;

/** An input of the whole graph, in the stages that have it. Nodes of one stage may write to it (sample writes
 *  the ids and the position of the next step). The other stages get that value before the next run, unless
 *  the caller writes the input. */
typedef struct clef_shared_input {
    int32_t number[CLEF_MAX_STAGES]; /* -1: the stage does not have it */
    int32_t writer;                  /* a stage that others read from, -1: none */
    int32_t changed;                 /* 1: the writer changed it after the caller's last write */
} clef_shared_input;

typedef struct clef_pipeline {
    int32_t            n;
    clef_plan         *stages[CLEF_MAX_STAGES];
    clef_wire         *wires; /* in the order of their readers */
    int32_t            n_wires;
    clef_shared_input *inputs; /* of the whole graph, in order */
    void              *copy;   /* of a value that crosses between devices */
    size_t             copy_bytes;
    int32_t            reading; /* the stage of the pending read, -1: none */
    struct clef_offload *offload; /* NULL: each stage runs after the one before */
} clef_pipeline;

/** Prepares two plans, of the stages of clef__cut_exchanging(), to run together (runtime/plan/offload.c). The
 *  plans outlive it. CLEF_E_NOMEM. */
clef_status clef__offload_create(clef_plan *rest, clef_plan *experts, struct clef_offload **out,
                                 clef_error *err);
/** Runs both: each enqueues what needs nothing more from the other. */
clef_status clef__offload_run(struct clef_offload *o, clef_error *err);
/** Accepts NULL. */
void        clef__offload_destroy(struct clef_offload *o);

/** Makes the plan of one stage. A pipeline only uses the functions of clef/plan.h and of the plan's kind on
 *  it, so the work can be done anywhere. */
typedef clef_status (*clef__make_stage)(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                        clef_plan **out, clef_error *err);
/** Cuts the graph over the devices that were opened with `dev`, and makes a plan for each part. */
clef_status clef__pipeline_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                  clef__make_stage make, clef_plan **out, clef_error *err);

/** Each device's share of the layers: as it was opened with, else by measured speed, within its memory
 *  (runtime/plan/shares.c). shares: room for each device. */
clef_status clef__shares(clef_device *first, const clef_cut *cut, double *shares, clef_error *err);
/** The rule for measured speeds: time depends on bytes read, so layers are divided by bandwidth (in any
 *  unit). A device whose room (bytes; 0: no limit) is full passes the rest to the devices after it. What
 *  these cannot hold goes back to the first ones. If the model does not fit at all, the shares add up to less
 *  than it, and the plan of the device that is too small fails with the reason. */
void        clef__shares_by_speed(const clef_cut *cut, const double *speeds, const double *rooms, int32_t n,
                                  double *shares);

#endif
