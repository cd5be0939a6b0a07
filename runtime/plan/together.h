/* What the core asks of the room ranks/, where plans on a device run on several ranks. The device carries the
 * table while it leads other ranks or follows them (clef_device.together). */
#ifndef CLEF_RUNTIME_PLAN_TOGETHER_H
#define CLEF_RUNTIME_PLAN_TOGETHER_H

#include "cl/args.h"
#include "graph/collective.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_state.h"

/** What a device needs to sum over ranks itself (cl/exchange.cl). */
typedef struct clef__device_sums {
    cl_mem        memory;     /* of the ranks, used in place */
    exchange_args args;       /* but for n, the number of floats */
    uint64_t      most_bytes; /* of a sum */
} clef__device_sums;

typedef struct clef__together {
    /** clef_plan_create() on a device that leads. */
    clef_status (*create)(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                          clef_plan **out, clef_error *err);
    /** NULL: the host sums. */
    const clef__device_sums *(*sums)(const clef_device *dev);
    /** The device has begun sums, which send n_bytes to other ranks. */
    void        (*sums_began)(clef_device *dev, uint64_t n_bytes);
    /** The state of a plan whose kind has whole states: its rows are gathered from the ranks, or each rank
     *  gets its part. */
    clef_status (*read_state)(const clef__plan_state *state, const clef__state_rows *rows, void *data,
                              clef_error *err);
    clef_status (*write_state)(const clef__plan_state *state, const clef__state_rows *rows, const void *data,
                               clef_error *err);
    /** Copies within a state on all ranks that have a part of it. */
    clef_status (*copy_state)(const clef__plan_state *state, uint64_t to, uint64_t from, uint64_t n_bytes,
                              clef_error *err);
} clef__together;

static inline const clef__device_sums *clef__device_sums_of(const clef_device *dev)
{
    return dev->together ? dev->together->sums(dev) : NULL;
}
/** The arguments of a sum of n floats. */
static inline exchange_args clef__device_sum_args(const clef__device_sums *sums, uint32_t n)
{
    exchange_args a = sums->args;
    a.n = n;
    return a;
}

/** Launch i, an exchange, outside of runs of all ranks, such as in trials: what the reference of the op does,
 *  for which the other ranks' parts are 0 (exchange_alone.c). CLEF_E_NOMEM, CLEF_E_CL. */
clef_status clef__exchange_alone(const clef_plan *plan, int32_t i, clef_error *err);
/** Puts a rank's part, whose rows lie one after the other, to its place in each row. */
void        clef__exchange_place(const clef_exchange_call *c, clef__range part, const char *from, char *to);

#endif
