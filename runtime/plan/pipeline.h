/* A plan over several devices: a pipeline of plans, one for each device, and the values that cross between
 * them through the host. */
#ifndef CLEF_RUNTIME_PIPELINE_H
#define CLEF_RUNTIME_PIPELINE_H

#include "graph/pass/cut.h"
#include "runtime/plan/plan.h"

/** A value that one stage computes and a later one reads. */
typedef struct clef_wire {
    int32_t from, output; /* a stage, and the number of its output */
    int32_t to, input;
} clef_wire;

/** An input of the whole graph, in the stages that have it. The nodes of a stage may write to it (sample
 *  writes the ids and the position of the next step). The other stages get it from there before the next run,
 *  unless the caller writes it. */
typedef struct clef_shared_input {
    int32_t number[CLEF_MAX_STAGES]; /* -1: the stage does not have it */
    int32_t writer;                  /* a stage, -1: none */
    int32_t changed;                 /* by the writer, since the caller wrote it */
} clef_shared_input;

typedef struct clef_pipeline {
    int32_t            n;
    clef_plan         *stages[CLEF_MAX_STAGES];
    clef_wire         *wires; /* in the order of their readers */
    int32_t            n_wires;
    clef_shared_input *inputs; /* of the whole graph, in order */
    void              *cargo;  /* what is on its way from one device to another */
    size_t             cargo_bytes;
    int32_t            reading; /* the stage of the read under way, -1: none */
} clef_pipeline;

/** Makes the plan of one stage. A pipeline asks only the functions of clef/plan.h and of its kind of a
 *  stage's plan, so the work may be done anywhere. */
typedef clef_status (*clef__make_stage)(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                        clef_plan **out, clef_error *err);
/** Cuts the graph over the devices that were opened with `dev`, and has a plan made for each part. */
clef_status clef__pipeline_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                  clef__make_stage make, clef_plan **out, clef_error *err);

/** How much of the layers each of the devices gets: as it was opened with, else by measured speed, as far as
 *  memory allows (runtime/plan/shares.c). shares: room for each device. */
clef_status clef__shares(clef_device *first, const clef_cut *cut, double *shares, clef_error *err);
/** The rule for measured speeds: time goes by bytes read, so layers go by bandwidth (any unit). A device
 *  whose room (bytes; 0: no limit) is full passes what it cannot hold to the devices after it, and what these
 *  cannot hold goes back to the first ones. Where the model does not fit at all the shares add up to less
 *  than it, and the plan of the device that is too small fails with the reason. */
void        clef__shares_by_speed(const clef_cut *cut, const double *speeds, const double *rooms, int32_t n,
                                  double *shares);

#endif
