/* The inside of a plan: the graph's memory on the device, and the list of launches with their arguments bound. */
#ifndef CLEF_RUNTIME_PLAN_H
#define CLEF_RUNTIME_PLAN_H

#include "clef/plan.h"
#include "graph/memory.h"
#include "runtime/device.h"

/** A kernel object with its arguments set. One for each node, place among the node's launches, and kernel that it ever needed, so that
 *  going back and forth between lengths (prefill, decode) makes nothing new and sets only what changed. */
typedef struct clef_bound {
    struct clef_bound *next;     /* of the same node */
    int32_t            ordinal;  /* the how-manieth launch of its node */
    const char        *source, *kernel;
    clef_def           defs[CLEF_MAX_DEFS];
    cl_kernel          object;
    uint32_t           args_bytes, n_bufs;
    cl_mem             bufs[CLEF_MAX_BUFS];
    unsigned char      args[CLEF_MAX_ARGS_BYTES];
    int32_t            is_new;   /* not enqueued yet */
} clef_bound;

typedef struct clef_io {
    clef_value *value;
    void       *staging;     /* where a write waits for the queue */
    int32_t     pending;     /* it may be waiting still */
} clef_io;

struct clef_plan {
    clef_device    *dev;
    clef_graph     *graph;   /* our own copy */
    clef_plan_opts  opts;
    clef_memory     memory;
    cl_mem         *mem;     /* by value id; NULL for views */
    cl_mem         *chunks;  /* buffers that mem[] are parts of: arena and uploaded weights */
    int32_t         n_chunks, cap_chunks;
    cl_mem          scratch;
    clef_io        *inputs;
    int32_t         n_inputs;
    clef_bound    **bound;   /* by node id */
    int64_t         symbols[CLEF_MAX_SYMBOLS];
    int32_t         stale;   /* symbols changed since the list was made */
    clef_launch    *launches;
    unsigned char  *args;
    clef_bound    **list;    /* of each launch; NULL: CLBlast */
    int32_t         n_launches, cap_launches;
    cl_event       *events;  /* of the last run, when profiling */
    int32_t         n_events;
    clef_plan_stats stats;
};

/** Puts weights, constants, inputs, states, arena and scratch on the device (runtime/plan_memory.c). */
clef_status clef__plan_allocate(clef_plan *plan, clef_error *err);
void        clef__plan_release_memory(clef_plan *plan);
clef_status clef__plan_zero_states(clef_plan *plan, clef_error *err);
/** Grows the scratch buffer; only while the plan is made. */
clef_status clef__plan_grow_scratch(clef_plan *plan, uint64_t n_bytes, clef_error *err);
/** The buffer that holds v (or what it is a view of). */
cl_mem      clef__plan_mem(const clef_plan *plan, const clef_value *v);

/** Lowers the graph at the present symbols and binds every launch (runtime/plan_bind.c). Allocates only for a kernel that a node
 *  never had before. */
clef_status clef__plan_lower(clef_plan *plan, clef_error *err);
clef_status clef__plan_bind_launches(clef_plan *plan, clef_error *err);
/** Enqueues every launch; with only_new, one group of each kernel that was never enqueued, so that drivers that compile at first
 *  use do it now. */
clef_status clef__plan_enqueue(clef_plan *plan, int only_new, clef_error *err);
void        clef__plan_release_bound(clef_plan *plan);

/** Calls the user's progress; CLEF_E_CANCELLED when they want to stop. */
clef_status clef__plan_progress(const clef_plan *plan, const char *what, uint64_t done, uint64_t total, clef_error *err);

#endif
