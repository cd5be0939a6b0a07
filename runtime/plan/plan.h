/* The inside of a plan: the graph's memory on the device, and the list of launches with their arguments bound. */
#ifndef CLEF_RUNTIME_PLAN_H
#define CLEF_RUNTIME_PLAN_H

#include "clef/plan.h"
#include "graph/memory.h"
#include "graph/lower/variant.h"
#include "runtime/device/device.h"

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

/** 1 when both say the same constants in the same order. */
int clef__same_defs(const clef_def *a, const clef_def *b);

typedef struct clef_io {
    clef_value *value;
    void       *staging;     /* where a write waits for the queue */
    int32_t     pending;     /* it may be waiting still; 2: and the read under way comes after it */
} clef_io;

struct clef_plan {
    clef_device    *dev;
    struct clef_pipeline *pipeline; /* over several devices (runtime/plan/pipeline.h): then the plan has graph, symbols and inputs of its own alone */
    clef_graph     *graph;   /* our own copy */
    clef_plan_opts  opts;
    clef_memory     memory;
    cl_mem         *mem;     /* by value id; NULL for views */
    cl_mem         *chunks;  /* buffers that mem[] are parts of: arena and uploaded weights */
    int32_t         n_chunks, cap_chunks;
    cl_mem          scratch;
    unsigned char  *at_load; /* by value id: 1 for nodes of weights alone, which run once, when the plan is made */
    void           *packed;  /* host memory behind their results, on devices that share it */
    size_t          packed_bytes;
    clef_io        *inputs;
    int32_t         n_inputs;
    clef_bound    **bound;   /* by node id */
    int64_t         symbols[CLEF_MAX_SYMBOLS];
    int32_t         stale;   /* symbols changed since the list was made */
    const clef_variant *forced[CLEF_N_OPS]; /* by the user; NULL: free choice */
    clef_tuning     tuning;  /* our own copy of what the device's database says */
    clef_launch    *launches;
    unsigned char  *args;
    clef_bound    **list;    /* of each launch; NULL: CLBlast */
    int32_t         n_launches, cap_launches;
    int32_t         replays; /* 1: launches that stay the same are recorded (runtime/plan/replay.h) */
    int32_t         n_same;  /* runs of the present list */
    struct clef_fused *fused; /* runtime/plan/fused.h; NULL: none */
    struct _cl_command_buffer_khr *recording; /* of the present list; NULL: none */
    cl_event       *events;  /* of the last run, when profiling */
    int32_t         n_events;
    cl_event        reading; /* of the read under way, NULL: none */
    clef_plan_stats stats;
};

/** As clef_plan_create(), on this device alone, others that were opened with it or not. */
clef_status clef__plan_create_on(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts, clef_plan **out, clef_error *err);

/** As clef_plan_create(), but no kernel is built before the run that needs it. */
clef_status clef__plan_create_bare(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts, clef_plan **out, clef_error *err);

/** Puts weights, constants, inputs, states, arena and scratch on the device (runtime/plan/plan_memory.c). */
clef_status clef__plan_allocate(clef_plan *plan, clef_error *err);
void        clef__plan_release_memory(clef_plan *plan);
clef_status clef__plan_zero_states(clef_plan *plan, clef_error *err);
/** Grows the scratch buffer; only while the plan is made. */
clef_status clef__plan_grow_scratch(clef_plan *plan, uint64_t n_bytes, clef_error *err);
/** The buffer that holds v (or what it is a view of). */
cl_mem      clef__plan_mem(const clef_plan *plan, const clef_value *v);

/** A new buffer that parts are cut of; the plan owns it. `host`: NULL, or the memory that it is. *out is NULL in a description. */
clef_status clef__plan_add_chunk(clef_plan *plan, const char *subject, cl_mem_flags flags, uint64_t n_bytes, void *host, cl_mem *out,
                                 clef_error *err);
/** A part of it; of NULL, NULL. */
clef_status clef__plan_cut(cl_mem of, const char *subject, cl_mem_flags flags, uint64_t offset, uint64_t n_bytes, cl_mem *out,
                           clef_error *err);

/** The bytes of a weight from the plan's source. CLEF_E_NOT_FOUND. */
clef_status clef__plan_weight_data(const clef_plan *plan, const clef_value *v, const void **out, clef_error *err);
/** Nodes that run when the plan is made (runtime/plan/plan_load.c): finds them; runs them, one weight after the other in memory, and tells
 *  the source of each weight that is not needed again. */
clef_status clef__plan_find_load_nodes(clef_plan *plan, clef_error *err);
clef_status clef__plan_run_load_nodes(clef_plan *plan, clef_error *err);
/** 1 for a weight that runs read, not only nodes at load. */
int         clef__plan_runs_with(const clef_plan *plan, const clef_value *v);

/** Lowers the graph at the present symbols and binds every launch (runtime/plan/plan_bind.c). Allocates only for a kernel that a node
 *  never had before. */
clef_status clef__plan_lower(clef_plan *plan, clef_error *err);
clef_status clef__plan_bind_launches(clef_plan *plan, clef_error *err);
/** 1 when a launch needs a kernel object that its node does not have yet. */
int         clef__plan_wants_new(const clef_plan *plan);
/** Binds every launch and enqueues what was never enqueued, so that drivers that compile at first use do it now: one group of a kernel,
 *  and each CLBlast product of another size whole. Reports progress ("kernels") from `done` on, a launch each, of `total`. */
clef_status clef__plan_warm(clef_plan *plan, uint64_t done, uint64_t total, clef_error *err);
/** Enqueues launch i of the list. */
clef_status clef__plan_enqueue_launch(const clef_plan *plan, int32_t i, clef_error *err);
/** Enqueues every launch. */
clef_status clef__plan_enqueue(clef_plan *plan, clef_error *err);
void        clef__plan_release_bound(clef_plan *plan);

/** CLEF_E_UNSUPPORTED names the first node that would run otherwise than asked at the present symbols (runtime/plan/strict.c). */
clef_status clef__strict_check(const clef_plan *plan, clef_error *err);

/** No write waits any more: the queue has been waited for (runtime/plan/plan_read.c). */
void        clef__plan_is_idle(clef_plan *plan);
void        clef__plan_release_read(clef_plan *plan);

/** CLEF_E_ARG: the plan has describe_only. */
clef_status clef__plan_is_description(clef_error *err);

/** Calls the user's progress; CLEF_E_CANCELLED when they want to stop. */
clef_status clef__plan_progress(const clef_plan *plan, const char *what, uint64_t done, uint64_t total, clef_error *err);

#endif
