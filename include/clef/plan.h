/* A plan: a graph compiled for one device, ready to be replayed. */
#ifndef CLEF_PLAN_H
#define CLEF_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "clef/device.h"
#include "clef/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which implementation multiplies dense matrices. */
typedef enum clef_gemm {
    CLEF_GEMM_AUTO,   /* the faster one by measurement; where nothing was measured, CLBlast for large
                         products on GPUs, else clef's own */
    CLEF_GEMM_OWN,    /* clef's own kernels */
    CLEF_GEMM_CLBLAST /* CLBlast; clef_plan_create() fails with CLEF_E_UNSUPPORTED where the library has
                         none */
} clef_gemm;

/** How a graph is compiled for a device. Every call that makes a plan takes these options; zero fields are
 *  the defaults. */
typedef struct clef_compile_opts {
    clef_gemm gemm;
    int32_t exact;          /* 1: activations stay f32. 0: products with quantised weights may round them to
                               8 bits, where that is faster */
    int32_t strict;         /* 1: CLEF_E_UNSUPPORTED where an op would run by another kernel than `gemm` or
                               clef_plan_opts.variants name, or by the next one because the first failed its
                               proof on this device. The error names the node, both kernels and the device.
                               (An op never runs on another device than the plan's, nor on the host.) */
    int32_t no_tune;        /* 1: no kernels are measured when the plan is made. Earlier measurements still
                               count. */
    int32_t no_proof;       /* 1: kernels that this device never ran before are used without a proof: a child
                               process does not first compare their results with the op's reference */
    clef_progress progress; /* NULL, or called while the plan is made and while long calls run */
    void *progress_user;
} clef_compile_opts;

/** Returns the bytes of the weight `name`: dense, exactly `n_bytes`, valid until the plan is destroyed.
 *  Returns NULL when there is no weight of that name, dtype and size; the plan then fails with
 *  CLEF_E_NOT_FOUND. */
typedef const void *(*clef_weight_source)(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes);

/** Called when the plan has copied a weight, or a part of it, into its own order, and does not use it in
 *  place. The physical memory behind the weight may then be given back to the system; the plan asks the
 *  source again before it reads other parts. Called once for each part of a weight. */
typedef void (*clef_weight_release)(void *user, const char *name);

typedef struct clef_plan_opts {
    clef_compile_opts compile;
    int32_t as_stored;           /* 1: weights keep the order of the file; none is repacked into
                                    panels */
    const char *variants;        /* "OP=NAME[,OP=NAME]": kernels to use wherever they fit, before
                                    measured ones and defaults. `clef devices --variants` lists the
                                    names. NULL: variant of $CLEF_DEBUG */
    int32_t describe_only;       /* 1: nothing is allocated, read or built. clef_plan_describe() and
                                    clef_plan_tensors() say what the plan would use; writing, running
                                    and reading it are CLEF_E_ARG */
    int32_t batch_invariant;     /* 1: a row's result is bit-identical whatever other rows are in the
                                    batch */
    int32_t expected_length;     /* length of the first run (of the graph's longest symbol), if
                                    known. It decides which kernels are built in advance and never
                                    affects results. 0: the symbol's bound */
    int32_t no_fused_step;       /* 1: launches are not fused to one persistent kernel; for graphs
                                    whose steps are long */
    struct clef_plan *states_of; /* NULL, or a plan on the same device: a state that its graph has,
                                    too (same name, dtype and shape), is one state of both plans. Runs
                                    of the two see each other's writes in the order of the calls. It
                                    must outlive this plan */
    clef_weight_source weights;
    clef_weight_release release; /* NULL: not called */
    void *weights_user;
    const char *weights_name; /* for several ranks (clef/ranks.h): what the others open to have the
                                 same weights; NULL: the graph has none */
} clef_plan_opts;

typedef struct clef_plan clef_plan;

/** Compiles `graph` for one device into a list of launches that can be replayed.
 *
 *  dev    borrowed; must outlive the plan. Several devices that were opened as one
 *         (clef_device_opts.several) each run a stage of the graph: some of its layers (scopes called
 *         layerN) with their weights and states. Values that pass from one stage to the next go through the
 *         host. All functions below work on such a plan too.
 *  graph  borrowed for this call only, and not changed; it may be destroyed afterwards. Any valid graph
 *         works; call clef_graph_optimize() on it first to make it fast.
 *  opts   NULL, or a struct whose zero fields mean "default".
 *  out    set to the new plan, or to NULL on failure. Free with clef_plan_destroy().
 *  err    NULL, or filled on failure with the node, the kernel and the OpenCL code.
 *
 *  Allocates all the device memory that the plan will ever need; clef_plan_run() allocates none. Builds the
 *  kernels for each symbol at 1 and at its bound (or at opts->expected_length) and keeps them in the disk
 *  cache. The first call for a device takes seconds, later ones little. If another length needs another
 *  kernel, the first run at that length proves and builds it. Calls that share a `dev` must not overlap.
 *
 *  CLEF_OK, CLEF_E_SHAPE, CLEF_E_UNSUPPORTED (no kernel fits this device), CLEF_E_NOT_FOUND (a weight),
 *  CLEF_E_NOMEM, CLEF_E_LIMIT (a buffer larger than the device allows), CLEF_E_BUILD, CLEF_E_CL,
 *  CLEF_E_CANCELLED. */
CLEF_API clef_status clef_plan_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                      clef_plan **out, clef_error *err);
CLEF_API void clef_plan_destroy(clef_plan *plan);

/** Index of the graph's input or output `name`, -1 if there is none. Look it up once, not per run. */
CLEF_API int32_t clef_plan_input(const clef_plan *plan, const char *name);
CLEF_API int32_t clef_plan_output(const clef_plan *plan, const char *name);
/** Number of the symbol `name`, 0 if there is none. */
CLEF_API int32_t clef_plan_symbol(const clef_plan *plan, const char *name);

/** Sets the value of a symbol for the next runs. A symbol that was never bound has its bound as its value.
 *  CLEF_E_ARG outside 1..bound. */
CLEF_API clef_status clef_plan_bind(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err);

/** Enqueues a copy of `data` to an input. `n_bytes` must be the size of the dense input at the current
 *  symbols (CLEF_E_ARG otherwise). `data` may be reused when the call returns. */
CLEF_API clef_status clef_plan_write(clef_plan *plan, int32_t input, const void *data, size_t n_bytes,
                                     clef_error *err);

/** Enqueues every launch and flushes the queue; does not wait for the device. It only takes time when a new
 *  length needs kernels that were not built yet: seconds on a device that never ran them. CLEF_E_CL,
 *  CLEF_E_BUILD, CLEF_E_DEVICE (a kernel failed its proof, and its op has no other kernel),
 *  CLEF_E_CANCELLED, CLEF_E_NOMEM. */
CLEF_API clef_status clef_plan_run(clef_plan *plan, clef_error *err);

/** Waits for all runs so far and copies an output, dense, to `data`. `n_bytes` must be its size at the
 *  current symbols (CLEF_E_ARG otherwise). */
CLEF_API clef_status clef_plan_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes,
                                    clef_error *err);

/** clef_plan_read() in two halves, so that more runs can be enqueued while the copy waits for earlier ones.
 *  _start() enqueues the copy; _wait() returns when `data` is complete, and until then `data` must stay in
 *  place. Only one copy may be pending: a second _start(), or a _wait() without one, is CLEF_E_ARG. */
CLEF_API clef_status clef_plan_read_start(clef_plan *plan, int32_t output, void *data, size_t n_bytes,
                                          clef_error *err);
CLEF_API clef_status clef_plan_read_wait(clef_plan *plan, clef_error *err);

/** Size in bytes of output or input `i` at the current symbols, 0 for none. *rank and dims[0..rank-1] get its
 *  shape; dims may be NULL. */
CLEF_API size_t clef_plan_output_bytes(const clef_plan *plan, int32_t output, int32_t *rank,
                                       int64_t dims[CLEF_MAX_DIMS]);
CLEF_API size_t clef_plan_input_bytes(const clef_plan *plan, int32_t input, int32_t *rank,
                                      int64_t dims[CLEF_MAX_DIMS]);

/** Zeroes every state, for example to start a new conversation. */
CLEF_API clef_status clef_plan_reset(clef_plan *plan, clef_error *err);

/** Device memory that the plan holds, in bytes, and the work of one run at the current symbols. */
typedef struct clef_plan_stats {
    uint64_t weight_bytes; /* weights in device buffers of the plan */
    uint64_t mapped_bytes; /* weights used in place, in the host's memory */
    uint64_t state_bytes, arena_bytes, scratch_bytes, io_bytes;
    uint64_t fused_bytes;    /* argument lists of a fused step */
    uint64_t packed_bytes;   /* part of weight_bytes: repacked weights. In host memory if the device shares
                                it */
    uint64_t staging_bytes;  /* host memory that holds inputs until the queue has copied them */
    uint64_t unshared_bytes; /* size of the arena if its values did not share memory */
    int32_t n_launches, n_kernels_built, n_kernels_cached;
    double run_flops; /* operations of one run */
    double run_bytes; /* bytes that the ops of one run read and write */
} clef_plan_stats;
CLEF_API clef_plan_stats clef_plan_describe(const clef_plan *plan);

/** Device times of the last run's launches, on a device that was opened with .profile. Waits for the run.
 *  Writes at most `capacity` entries and returns how many launches there are; 0 on failure, which err then
 *  describes. The operations and bytes of a node (at the current symbols) are given with its longest launch
 *  among those written; its other launches have 0. The texts live as long as the plan. */
typedef struct clef_launch_time {
    const char *node, *op, *kernel;
    double us, flops, bytes;
    double queued_us, start_us; /* when it was enqueued and when it started, on the device's clock */
} clef_launch_time;
CLEF_API int32_t clef_plan_profile(clef_plan *plan, clef_launch_time *times, int32_t capacity,
                                   clef_error *err);

/** A value in the arena: its place, and its lifetime as the numbers of the first and last value of
 *  clef_plan_graph() between which it is needed. A value that overwrites another (in_place_of, else NULL)
 *  shares its memory, and the first value of such a chain lives as long as the whole chain. Writes at most
 *  `capacity` entries and returns how many there are. The names live as long as the plan. */
typedef struct clef_plan_tensor {
    const char *name, *in_place_of;
    uint64_t offset, bytes;
    int32_t first, last;
} clef_plan_tensor;
CLEF_API int32_t clef_plan_tensors(const clef_plan *plan, clef_plan_tensor *out, int32_t capacity);

/** The stage of a plan on device i (clef_device_part()), NULL beyond the last. The only stage of a plan for
 *  one device is the plan itself. Borrowed: only read from it. clef_plan_launches() and clef_plan_profile()
 *  of a plan over several devices list its stages one after the other, each by the clock of its device.
 *  clef_plan_tensors() works on stages only. */
CLEF_API const clef_plan *clef_plan_stage(const clef_plan *plan, int32_t i);
/** The device of the plan, or its first device. Borrowed. */
CLEF_API const clef_device *clef_plan_device(const clef_plan *plan);

/** The graph as the plan runs it, after the passes that depend on the device; for several devices, the graph
 *  that was passed in. Borrowed from the plan. */
CLEF_API const clef_graph *clef_plan_graph(const clef_plan *plan);

/** The launches of the last run, or of the next run if symbols were bound since. Writes at most `capacity`
 *  entries and returns how many there are. variant: NULL for ops without variants. source: the kernel's
 *  file, NULL for CLBlast. The texts live as long as the plan. */
typedef struct clef_launch_info {
    const char *node, *op, *variant, *source, *kernel;
    uint32_t groups[3], local[3]; /* work-groups, and work-items of each */
} clef_launch_info;
CLEF_API int32_t clef_plan_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity);

#ifdef __cplusplus
}
#endif
#endif
