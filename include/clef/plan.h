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
    CLEF_GEMM_AUTO,   /* what was measured to be faster; unmeasured: CLBlast for large products on GPUs, else OWN */
    CLEF_GEMM_OWN,    /* clef's own kernels */
    CLEF_GEMM_CLBLAST /* CLBlast; clef_plan_create() fails with CLEF_E_UNSUPPORTED where the library has none */
} clef_gemm;

/** How a graph is compiled for a device. Every call that makes a plan takes these options; zero fields are the defaults. */
typedef struct clef_compile_opts {
    clef_gemm     gemm;
    int32_t       exact;    /* 1: activations stay f32. 0: products with quantised weights may round them to 8 bits,
                               where that is faster */
    int32_t       strict;   /* 1: CLEF_E_UNSUPPORTED where an op would run by another kernel than `gemm` or
                               clef_plan_opts.variants name, or by the next one because the first failed its proof
                               on this device. The error names the node, both kernels and the device. (An op never
                               runs on another device than the plan's, nor on the host.) */
    int32_t       no_tune;  /* 1: no kernels are measured when the plan is made. Earlier measurements still count. */
    int32_t       no_proof; /* 1: kernels that this device never ran before are used without a proof: a child process
                               does not first compare their results with the op's reference */
    clef_progress progress; /* NULL, or called while the plan is made and while long calls run */
    void         *progress_user;
} clef_compile_opts;

/** Finds the bytes of a weight by its name in the graph: dense, exactly `n_bytes`, and valid until the plan is destroyed.
 *  Returns NULL when there is none of that dtype and size (CLEF_E_NOT_FOUND then). */
typedef const void *(*clef_weight_source)(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes);

/** Told when the plan has read a weight or a part of it (it keeps a copy in another order): its physical memory may be let go, but it must
 *  stay readable. Called for each part, so several times a weight. */
typedef void (*clef_weight_release)(void *user, const char *name);

typedef struct clef_plan_opts {
    clef_compile_opts   compile;
    int32_t             as_stored;       /* 1: weights keep the order of the file; none is repacked into panels */
    const char         *variants;        /* "OP=NAME[,OP=NAME]": kernels to use wherever they fit, before measured
                                            ones and defaults. `clef devices --variants` lists the names.
                                            NULL: $CLEF_VARIANT */
    int32_t             describe_only;   /* 1: nothing is allocated, read or built. clef_plan_describe() and
                                            clef_plan_tensors() say what the plan would use; writing, running and
                                            reading it are CLEF_E_ARG */
    int32_t             batch_invariant; /* 1: a row's result is bit-identical whatever other rows are in the batch */
    int32_t             expected_length; /* length of the first run (of the graph's longest symbol), if known. It
                                            decides which kernels are built in advance and never affects results.
                                            0: the symbol's bound */
    clef_weight_source  weights;
    clef_weight_release release;         /* NULL: not called */
    void               *weights_user;
} clef_plan_opts;

typedef struct clef_plan clef_plan;

/** Compiles `graph` for one device into a list of launches that can be replayed.
 *
 *  dev    borrowed; must outlive the plan. Several devices opened as one (clef_device_opts.several): each gets a stage of the graph, some
 *         of its layers (scopes called layerN), with their weights and states, and what one computes and another reads goes through the
 *         host. All functions below take such a plan.
 *  graph  borrowed for this call only, and not changed; it may be destroyed afterwards. Run clef_graph_optimize() on it first
 *         if it should be fast; any valid graph works.
 *  opts   NULL, or a struct whose zero fields mean "default".
 *  out    set to the new plan, or to NULL on failure. Free with clef_plan_destroy().
 *  err    NULL, or filled on failure with the node, the kernel and the OpenCL code.
 *
 *  Takes all the device memory that the plan will ever need; clef_plan_run() takes no more. Builds the kernels for every symbol at
 *  1 and at its bound (or at opts->first), lets the driver finish them, and keeps them in the disk cache: seconds at the first call for a
 *  device, little at later ones. Where other lengths want another kernel than these, the first run at such a length proves and makes it.
 *  Calls sharing a `dev` must not overlap.
 *
 *  CLEF_OK, CLEF_E_SHAPE, CLEF_E_UNSUPPORTED (no kernel fits this device), CLEF_E_NOT_FOUND (a weight), CLEF_E_NOMEM,
 *  CLEF_E_LIMIT (a buffer larger than the device allows), CLEF_E_BUILD, CLEF_E_CL, CLEF_E_CANCELLED. */
CLEF_API clef_status clef_plan_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts, clef_plan **out,
                                      clef_error *err);
CLEF_API void        clef_plan_destroy(clef_plan *plan);

/** Number of an input or output of the graph by name, -1 if there is none: look it up once, not per run. */
CLEF_API int32_t clef_plan_input(const clef_plan *plan, const char *name);
CLEF_API int32_t clef_plan_output(const clef_plan *plan, const char *name);
/** Number of a symbol by name, 0 if there is none. */
CLEF_API int32_t clef_plan_symbol(const clef_plan *plan, const char *name);

/** Binds a symbol for the runs to come. A symbol never bound stands at its bound. CLEF_E_ARG outside 1..bound. */
CLEF_API clef_status clef_plan_bind(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err);

/** Copies `n_bytes` (the dense input at the symbols' present values) to an input, in the queue's order; `data` may be reused at
 *  once. CLEF_E_ARG for a wrong size. */
CLEF_API clef_status clef_plan_write(clef_plan *plan, int32_t input, const void *data, size_t n_bytes, clef_error *err);

/** Enqueues every launch and flushes; does not wait, but for kernels that no run wanted so far (seconds on a device that never had them).
 *  CLEF_E_CL, CLEF_E_BUILD, CLEF_E_DEVICE (a kernel failed its proof, and its op has no other), CLEF_E_CANCELLED, CLEF_E_NOMEM. */
CLEF_API clef_status clef_plan_run(clef_plan *plan, clef_error *err);

/** Waits for the runs so far and copies an output, dense, to `data`: exactly `n_bytes`, which is its size at the present symbols.
 *  CLEF_E_ARG for a wrong size. */
CLEF_API clef_status clef_plan_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err);

/** The same in two halves, so that more runs can be enqueued while the copy waits for the ones before it: start enqueues it, wait returns
 *  when `data` holds it; until then `data` stays where it is. One is under way at most (CLEF_E_ARG for a second, or a wait for none). */
CLEF_API clef_status clef_plan_read_start(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err);
CLEF_API clef_status clef_plan_read_wait(clef_plan *plan, clef_error *err);

/** The bytes of output or input number i at the present symbols; its shape in numbers in dims[0..rank-1] (dims may be NULL). */
CLEF_API size_t clef_plan_output_bytes(const clef_plan *plan, int32_t output, int32_t *rank, int64_t dims[CLEF_MAX_DIMS]);
CLEF_API size_t clef_plan_input_bytes(const clef_plan *plan, int32_t input, int32_t *rank, int64_t dims[CLEF_MAX_DIMS]);

/** Zeroes every state (a new conversation). */
CLEF_API clef_status clef_plan_reset(clef_plan *plan, clef_error *err);

/** Device memory that the plan holds, in bytes, and what it would launch at the present symbols. */
typedef struct clef_plan_stats {
    uint64_t weight_bytes;   /* in device buffers of our own */
    uint64_t mapped_bytes;   /* weights used where the host has them */
    uint64_t state_bytes, arena_bytes, scratch_bytes, io_bytes;
    uint64_t fused_bytes;    /* what a step's launches are told in where they are enqueued as one */
    uint64_t packed_bytes;   /* of weight_bytes: in another order than the file's; memory of the host's on devices that share it */
    uint64_t staging_bytes;  /* of the host: where inputs wait for the queue */
    uint64_t unshared_bytes; /* what the arena's values take together: without sharing it would be that large */
    int32_t  n_launches, n_kernels_built, n_kernels_cached;
    double   run_flops, run_bytes; /* of one run at the present symbols: operations, and bytes that its ops read and write */
} clef_plan_stats;
CLEF_API clef_plan_stats clef_plan_describe(const clef_plan *plan);

/** Device time of the last run, per launch, on a device opened with .profile: entry i in 0 .. n-1; returns n. Waits.
 *  What a node does (its op's operations and bytes at the present symbols) is told with the longest of its launches; the others have 0.
 *  The texts live as long as the plan. */
typedef struct clef_launch_time {
    const char *node, *op, *kernel;
    double      us, flops, bytes;
    double      queued_us, start_us; /* when it was enqueued and when it began, on the device's clock */
} clef_launch_time;
CLEF_API int32_t clef_plan_profile(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err);

/** A value of the arena: where it lies, and between which values of clef_plan_graph() it lives (by number). One that took the place of
 *  another (in_place_of, else NULL) has its memory, and the first of such a chain lives as long as all of it. Entry i in 0 .. n-1 of at
 *  most `capacity`; returns how many there are. The names live as long as the plan. */
typedef struct clef_plan_tensor {
    const char *name, *in_place_of;
    uint64_t    offset, bytes;
    int32_t     first, last;
} clef_plan_tensor;
CLEF_API int32_t clef_plan_tensors(const clef_plan *plan, clef_plan_tensor *out, int32_t capacity);

/** Of a plan over several devices, the stage on device i (clef_device_part()); NULL beyond the last. Of any other the plan itself is stage
 *  0. Borrowed from the plan: look at it only. clef_plan_launches() and clef_plan_profile() of the whole are those of its stages, one after
 *  the other (each by its device's own clock); clef_plan_tensors() are asked of the stages, the whole has none. */
CLEF_API const clef_plan   *clef_plan_stage(const clef_plan *plan, int32_t i);
/** What it was made for; of a plan over several devices the first. Borrowed. */
CLEF_API const clef_device *clef_plan_device(const clef_plan *plan);

/** The graph that the plan runs (over several devices: the whole, as it was given): what it was made of, as the passes that know the device
 *  left it. Borrowed from the plan. */
CLEF_API const clef_graph *clef_plan_graph(const clef_plan *plan);

/** What the last run launched, or the next one will where no symbol was bound since: entry i in 0 .. n-1 of at most `capacity`; returns how
 *  many there are. variant: NULL where the op has none; source: the file in cl/, NULL for CLBlast. The texts live as long as the plan. */
typedef struct clef_launch_info {
    const char *node, *op, *variant, *source, *kernel;
    uint32_t    groups[3], local[3]; /* work-groups, and work-items of each */
} clef_launch_info;
CLEF_API int32_t clef_plan_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity);

#ifdef __cplusplus
}
#endif
#endif
