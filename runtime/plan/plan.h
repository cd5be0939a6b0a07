/* The fields of a plan: the graph's memory on the device, the list of launches with their arguments set, and
 * the executors that can enqueue that list. */
#ifndef CLEF_RUNTIME_PLAN_H
#define CLEF_RUNTIME_PLAN_H

#include "clef/plan.h"
#include "graph/memory.h"
#include "graph/lower/variant.h"
#include "runtime/device/device.h"
#include "runtime/plan/exec.h"
#include "runtime/plan/marks.h"
#include "runtime/plan/stage.h"

/* ---- kinds of plans -------------------------------------------------------------------------- */

/** The functions of clef/plan.h for one kind of plan. The caller has checked the indices of inputs and
 *  symbols. */
typedef struct clef__plan_kind {
    clef_status (*bind)(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err);
    clef_status (*write)(clef_plan *plan, int32_t input, const void *data, size_t n_bytes, clef_error *err);
    clef_status (*run)(clef_plan *plan, clef_error *err);
    clef_status (*read)(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err);
    clef_status (*read_start)(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err);
    clef_status (*read_wait)(clef_plan *plan, clef_error *err);
    /** Reads an input that the plan's own nodes write to (the next token), and waits for it. */
    clef_status (*read_input)(clef_plan *plan, int32_t input, void *data, size_t n_bytes, clef_error *err);
    clef_status (*reset)(clef_plan *plan, clef_error *err);
    clef_plan_stats (*describe)(const clef_plan *plan);
    int32_t (*profile)(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err);
    int32_t (*launches)(const clef_plan *plan, clef_launch_info *out, int32_t capacity);
    const clef_plan *(*stage)(const clef_plan *plan, int32_t i);
    int32_t whole_states; /* 1: its own states are whole, as the graph has them; else those of its stages */
    /** Releases what this kind allocated; the plan's graph, inputs and tuning are released afterwards. */
    void (*release)(clef_plan *plan);
} clef__plan_kind;
extern const clef__plan_kind clef__plan_single;    /* one device: plan_single.c */
extern const clef__plan_kind clef__plan_described; /* one device, whose memory is not touched: plan_single.c
                                                      */
extern const clef__plan_kind clef__plan_pipeline;  /* several devices: plan_pipeline.c */

/** Where a plan's memory comes from: a device, or nothing for a plan that is only described
 *  (plan_storage.c). */
typedef struct clef__storage {
    /** Makes a buffer. `host`: NULL, or the memory that the buffer uses. */
    clef_status (*create)(const clef_plan *plan, const char *subject, cl_mem_flags flags, uint64_t n_bytes,
                          void *host,
                          cl_mem *out, clef_error *err);
    clef_status (*zero)(const clef_plan *plan, cl_mem mem, const char *subject, uint64_t n_bytes,
                        clef_error *err);
    clef_status (*upload)(clef_plan *plan, cl_mem mem, const char *subject, uint64_t n_bytes,
                          const void *data,
                          clef_error *err);
    /** Allocates host memory, to be freed with free(). Returns 0 when out of memory. */
    int (*allocate_host)(size_t n_bytes, void **out);
    /** Runs the nodes that depend on weights alone. */
    clef_status (*run_load_nodes)(clef_plan *plan, clef_error *err);
} clef__storage;
extern const clef__storage clef__storage_device, clef__storage_none;

/** What the layers above do for a plan. Without them nothing is proven and there is no fused step. */
typedef struct clef__plan_hooks {
    /** Called before a run builds kernels that no earlier run needed. *lower_again is set to 1 when it set a
     *  variant aside. */
    clef_status (*before_new_kernels)(clef_plan *plan, int *lower_again, clef_error *err);
    const struct clef__fused_builder *fused; /* runtime/plan/fused.h */
} clef__plan_hooks;

/* ---- the plan -------------------------------------------------------------------------------- */

/** A kernel object with its arguments set. There is one for each node, index among the node's launches, and
 *  kernel that was ever needed. So switching between lengths (prefill, decode) creates nothing, and only sets
 *  what changed. */
typedef struct clef_bound {
    struct clef_bound *next;         /* the next one of the same node */
    int32_t            launch_index; /* index of this launch among its node's launches */
    const char        *source, *kernel;
    clef_def           defs[CLEF_MAX_DEFS];
    int32_t            registers;
    cl_kernel          object;
    uint32_t           args_bytes, n_bufs;
    cl_mem             bufs[CLEF_MAX_BUFS];
    unsigned char      args[CLEF_MAX_ARGS_BYTES];
    int32_t            is_new; /* not enqueued yet */
} clef_bound;

/** 1 when both lists have the same constants in the same order. */
int clef__same_defs(const clef_def *a, const clef_def *b);

/** State of a write from staging memory to an input. */
typedef enum clef__write_state {
    CLEF__WRITE_DONE,
    CLEF__WRITE_PENDING,     /* the queue may still read the staging memory */
    CLEF__WRITE_BEFORE_READ  /* pending, but enqueued before the pending read */
} clef__write_state;

typedef struct clef_io {
    clef_value       *value;
    void             *staging; /* holds the data of a write until the queue has copied it */
    clef__write_state write;
} clef_io;

/* A weight that was gathered in memory of the plan; data is NULL where it was not. */
typedef struct clef_gathered {
    char *data;
    int   stays; /* 1: a buffer uses it */
} clef_gathered;

struct clef_plan {
    const clef__plan_kind *kind;
    clef_device    *dev;
    struct clef_ranked *ranked; /* only for a plan on several ranks, and for the plans that it consists of */
    clef_status   (*exchange)(const clef_plan *plan, int32_t i, clef_error *err); /* launch i of a run in
                                   which plans exchange values; NULL: each node sees its own plan alone, as
                                   in trials */
    int32_t         begin;   /* the launch with which a run begins: 0, or where `exchange` stopped the last */
    int32_t         stopped; /* 1: `exchange` has stopped the run before launch `begin` */
    struct clef_offload *offload; /* only for a plan whose experts are on another device, and for theirs */
    struct clef_pipeline *pipeline; /* only for clef__plan_pipeline, which otherwise uses graph, symbols
                                       and inputs alone */
    clef_graph     *graph;   /* the plan's own copy */
    clef_plan_opts  opts;
    const clef__plan_hooks *hooks;  /* NULL: none */
    const clef__storage *storage;
    clef_memory     memory;
    cl_mem         *mem;     /* by value id; NULL for views */
    cl_mem         *chunks;  /* buffers that are cut into the parts of mem[]: arena and uploaded weights */
    int32_t         n_chunks, cap_chunks;
    cl_mem          scratch;
    unsigned char  *at_load; /* by value id: 1 for nodes of weights alone, which run once, when the plan is
                                made */
    clef_gathered  *gathered; /* by value id */
    clef__stage     stage;   /* while weights are loaded */
    void           *packed;  /* host memory of their results, on devices that share host memory */
    size_t          packed_bytes;
    clef_io        *inputs;
    int32_t         n_inputs;
    clef_bound    **bound;   /* by node id */
    int64_t         symbols[CLEF_MAX_SYMBOLS];
    int32_t         stale;   /* 1: symbols changed since the list was made */
    const clef_variant *forced[CLEF_N_OPS]; /* forced by the user; NULL: free choice */
    clef_tuning     tuning;  /* a copy of the device's database */
    clef_launch    *launches;
    unsigned char  *args;
    clef_bound    **list;    /* for each launch; NULL: CLBlast */
    int32_t         n_launches, cap_launches;
    clef__execution executors[CLEF_MAX_EXECUTORS]; /* in order of preference */
    int32_t         n_executors;
    cl_event       *events;  /* for each launch of the last run, when profiling */
    int32_t         n_events;
    cl_event        reading; /* of the pending read, NULL: none */
    clef__mark     *marks;   /* launches whose end a caller waits for, in their order (marks.h) */
    int32_t         n_marks;
    clef_plan_stats stats;
};

/* ---- making one: plan_make.c ----------------------------------------------------------------- */

/** Makes a plan with its own copy of the graph and nothing else: no memory, no kernels (plan.c). */
clef_status clef__plan_new(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                           clef_plan **out,
                           clef_error *err);
/** The first half of making a plan for one device: runs the passes that depend on the device, and reads the
 *  variants that the user forces. The caller then adds what is known about the device's kernels
 *  (plan->tuning, plan->hooks). */
clef_status clef__plan_begin(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                             clef_plan **out,
                             clef_error *err);
/** The second half: allocates memory and builds kernels. */
typedef enum clef__build { CLEF__BUILD_NOW, CLEF__BUILD_AT_USE } clef__build;
clef_status clef__plan_finish(clef_plan *plan, clef__build when, clef_error *err);
/** Both halves. Kernels are built by the run that needs them; none is measured or proven first. `tuning`
 *  (NULL: none) moves into the plan and is empty afterwards, on failure too. */
clef_status clef__plan_make(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                            const clef__plan_hooks *hooks, clef_tuning *tuning, clef_plan **out,
                            clef_error *err);
/** Frees the choices; accepts a zeroed one. */
void        clef__tuning_finish(clef_tuning *tuning);

/* ---- memory: plan_memory.c ------------------------------------------------------------------- */

/** Puts weights, constants, inputs, states and arena on the device. */
clef_status clef__plan_allocate(clef_plan *plan, clef_error *err);
void        clef__plan_release_memory(clef_plan *plan);
clef_status clef__plan_zero_states(clef_plan *plan, clef_error *err);
/** Grows the scratch buffer; only while the plan is made. */
clef_status clef__plan_grow_scratch(clef_plan *plan, uint64_t n_bytes, clef_error *err);
/** What lowering needs to know of the plan: its device, the current symbols, the choice of variants. */
clef_lowering clef__plan_lowering(const clef_plan *plan);
/** The buffer of v, or of the base of v if v is a view. */
cl_mem      clef__plan_mem(const clef_plan *plan, const clef_value *v);

/** Makes a buffer that parts are cut from; the plan owns it. `host`: NULL, or the memory that the buffer
 *  uses. */
clef_status clef__plan_add_chunk(clef_plan *plan, const char *subject, cl_mem_flags flags, uint64_t n_bytes,
                                 void *host,
                                 cl_mem *out, clef_error *err);
/** A part of a buffer. A part of NULL is NULL. */
clef_status clef__plan_cut(cl_mem of, const char *subject, cl_mem_flags flags, uint64_t offset,
                           uint64_t n_bytes,
                           cl_mem *out, clef_error *err);

/* The bytes of weights: plan_weights.c. */

/** The bytes of a weight from the plan's source. A weight that is scattered in the file is
 *  gathered in memory, until clef__plan_weight_done() or the plan's end.
 *  CLEF_E_NOT_FOUND, CLEF_E_NOMEM. */
clef_status clef__plan_weight_data(const clef_plan *plan, const clef_value *v, const void **out,
                                   clef_error *err);
/** 1 for a weight that is gathered. */
int         clef__plan_is_gathered(const clef_value *v);
/** Starts to read a weight that will be needed soon. */
void        clef__plan_weight_ahead(const clef_plan *plan, const clef_value *v);
/** A gathered weight is not needed any more; or a buffer uses its memory, which stays to the plan's end. */
void        clef__plan_weight_done(const clef_plan *plan, const clef_value *v);
void        clef__plan_weight_stays(const clef_plan *plan, const clef_value *v);
void        clef__plan_free_gathered(clef_plan *plan);

/* Nodes that run when the plan is made: plan_load.c. */

/** Finds them. */
clef_status clef__plan_find_load_nodes(clef_plan *plan, clef_error *err);
/** Runs them, with one weight at a time in memory. Tells the source about each weight that is not needed
 *  again. */
clef_status clef__plan_run_load_nodes(clef_plan *plan, clef_error *err);
/** 1 for a weight that runs read, not only load nodes. */
int         clef__plan_runs_with(const clef_plan *plan, const clef_value *v);

/* ---- launches: plan_bind.c, exec_launches.c -------------------------------------------------- */

/** Lowers the graph at the current symbols. Allocates only if the list is longer than any before. */
clef_status clef__plan_lower(clef_plan *plan, clef_error *err);
/** Creates the missing kernel objects of launch i, and sets its arguments. */
clef_status clef__plan_bind_launch(clef_plan *plan, int32_t i, clef_error *err);
clef_status clef__plan_bind_launches(clef_plan *plan, clef_error *err);
/** 1 when a launch needs a kernel object that its node does not have yet. */
int         clef__plan_wants_new(const clef_plan *plan);
/** The buffer of a launch's argument; NULL: a null pointer is passed. */
cl_mem      clef__plan_buffer_of(const clef_plan *plan, const clef_value *v);
void        clef__plan_release_bound(clef_plan *plan);

/** Binds every launch and enqueues those that were never enqueued, because some drivers compile at the first
 *  launch: one work-group of each kernel, and one whole CLBlast product of each size. Reports progress
 *  ("kernels") from `done` on, one step for each launch, of `total`. */
clef_status clef__plan_warm(clef_plan *plan, uint64_t done, uint64_t total, clef_error *err);
/** Enqueues launch i of the list. */
clef_status clef__plan_enqueue_launch(const clef_plan *plan, int32_t i, clef_error *err);
/** Enqueues every launch, one by one. */
clef_status clef__plan_enqueue(clef_plan *plan, clef_error *err);

/** CLEF_E_UNSUPPORTED names the first node that would run by another kernel than asked for at the current
 *  symbols (strict.c). */
clef_status clef__strict_check(const clef_plan *plan, clef_error *err);

/** Calls the user's progress function. CLEF_E_CANCELLED if it asks to stop. */
clef_status clef__plan_progress(const clef_plan *plan, const char *what, uint64_t done, uint64_t total,
                                clef_error *err);

#endif
