/* A plan over several devices: a pipeline of plans, one for each device, and the values that cross between them through the host. */
#ifndef CLEF_RUNTIME_PIPELINE_H
#define CLEF_RUNTIME_PIPELINE_H

#include "graph/pass/cut.h"
#include "runtime/plan/plan.h"

/** A value that one stage computes and a later one reads. */
typedef struct clef_wire {
    int32_t from, output; /* a stage, and the number of its output */
    int32_t to, input;
} clef_wire;

/** An input of the whole, in the stages that have it. A stage may write to it (sample: the ids and the position of the next step); the
 *  others get it from there before the next run, unless the caller writes it. */
typedef struct clef_shared_input {
    int32_t number[CLEF_MAX_STAGES]; /* -1: the stage does without */
    int32_t writer;                  /* a stage, -1: none */
    int32_t changed;                 /* by the writer, since the caller wrote it */
} clef_shared_input;

typedef struct clef_pipeline {
    int32_t            n;
    clef_plan         *stages[CLEF_MAX_STAGES];
    clef_wire         *wires; /* in the order of their readers */
    int32_t            n_wires;
    clef_shared_input *inputs; /* of the whole, in order */
    void              *cargo;  /* on the way from one device to another */
    size_t             cargo_bytes;
    int32_t            reading; /* the stage of the read under way */
} clef_pipeline;

/** Makes plan->pipeline and a plan for each device of plan->dev's list; plan->graph is the whole. */
clef_status clef__pipeline_create(clef_plan *plan, clef_error *err);
void        clef__pipeline_destroy(clef_pipeline *pipeline);

/* What the functions of clef/plan.h do for a pipeline. */
clef_status clef__pipeline_bind(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err);
clef_status clef__pipeline_write(clef_plan *plan, int32_t input, const void *data, size_t n_bytes, clef_error *err);
clef_status clef__pipeline_run(clef_plan *plan, clef_error *err);
clef_status clef__pipeline_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err);
clef_status clef__pipeline_read_start(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err);
clef_status clef__pipeline_read_wait(clef_plan *plan, clef_error *err);
clef_status clef__pipeline_reset(clef_plan *plan, clef_error *err);
clef_plan_stats clef__pipeline_describe(const clef_plan *plan);
int32_t     clef__pipeline_profile(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err);
int32_t     clef__pipeline_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity);

/** How much of the layers each of the devices gets: as it was opened with, else by measured speed, as far as memory allows
 *  (runtime/plan/shares.c). shares: room for each device. */
clef_status clef__shares(clef_device *first, const clef_cut *cut, double *shares, clef_error *err);
/** The second of these: time goes by bytes read, so layers go by bandwidth (any unit). A device whose room (bytes; 0: no limit) is full
 *  gives what it cannot hold to those behind it, and what these cannot hold goes back to the front. Where it does not fit at all the shares
 *  fall short of it, and the plan of the device that is too small says so. */
void        clef__shares_by_speed(const clef_cut *cut, const double *speeds, const double *rooms, int32_t n, double *shares);

#endif
