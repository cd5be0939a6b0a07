/* Fused steps: several launches run as one (cl/fused_step.cl). Between two launches the cores of a CPU go to
 * sleep, and waking one takes as long as a matrix product of a small model. The work-groups of a fused step
 * stay awake and go from substep to substep; a substep is the work of one launch. */
#ifndef CLEF_RUNTIME_FUSED_H
#define CLEF_RUNTIME_FUSED_H

#include "runtime/device/cache.h"
#include "runtime/plan/plan.h"

/* The executor clef__exec_fused (exec_fused.c) makes a fused step of the kernels that can be substeps and
 * that the plan launches with every symbol at 1. It is for CPUs only, and not for devices opened for profiles
 * or graphs without states.
 *
 * The program comes from the disk cache. If it is not there, a child process builds and tries it
 * (clef__fused_builder below), and the plan uses it from a later run on; with no_background the plan waits
 * for it. If no child can be started, the plan's own process builds the program and compares its results with
 * those of the launches.
 *
 * CLEF_DEBUG=fused=0: no fused steps. fused=1: the program is built in this process, and a
 * failed build or differing results, which are ignored otherwise, are errors. CLEF_E_CANCELLED. */

/** Bytes of device memory that describe a fused step of the current list; 0 if there will be none. */
uint64_t clef__fused_bytes(const clef_plan *plan);

/* ---- its program: fused_program.c ------------------------------------------------------------ */

enum { CLEF_FUSED_KINDS = 24 };

/** A kernel that is a substep, with the names of its launch. */
typedef struct clef_fused_kind {
    const char *source, *kernel, *args; /* args: the type of its argument block */
    clef_def defs[CLEF_MAX_DEFS];
    uint32_t n_bufs;
} clef_fused_kind;
typedef struct clef_fused_kinds {
    clef_fused_kind at[CLEF_FUSED_KINDS];
    int32_t n;
} clef_fused_kinds;

/** Returns 1 when the launch's kernel can be a substep, and describes it in *out. */
int clef__fused_kind_of(const clef_launch *l, clef_fused_kind *out);
/** The same for a launch at which ranks exchange values, if the plan's device does that by itself. */
int clef__fused_exchange_kind(const clef_plan *plan, const clef_launch *l, clef_fused_kind *out);
int clef__fused_same(const clef_fused_kind *a, const clef_fused_kind *b);
/** Returns 1 when `kind` needs another kernel at other lengths, and describes it in *out. */
int clef__fused_companion(const clef_fused_kind *kind, clef_fused_kind *out);
clef_status clef__fused_create(clef_device *dev, const clef_fused_kinds *kinds, clef_joining how,
                               cl_kernel *out, clef_error *err);
/** The key of the program in the disk cache. */
clef_status clef__fused_key(clef_device *dev, const clef_fused_kinds *kinds, clef_cache_key *out,
                            clef_error *err);

/* ---- building a fused step and trying it ----------------------------------------------------- */

/** A child process that builds and tries a fused step's program. It is attached to the device, and plans that
 *  need the same program share it. */
typedef struct clef_fused_job clef_fused_job;
typedef enum clef_fused_build {
    CLEF_FUSED_BUILDING,
    CLEF_FUSED_BUILT, /* the program is on disk */
    CLEF_FUSED_FAILED /* there will be none: it failed on this device, now or earlier, or was stopped */
} clef_fused_build;

/** How a fused step is compared with its launches: both run the list `repeats` times in a row, after
 *  begin(). */
typedef struct clef_fused_trial {
    int32_t repeats;
    clef_status (*begin)(void *user, clef_error *err);
    void *user;
} clef_fused_trial;

/** What builds and tries fused steps. The layer above provides it (clef__plan_hooks.fused). */
typedef struct clef__fused_builder {
    /** 1 when programs of this plan are built and tried in a child. */
    int (*uses_children)(const clef_plan *plan);
    /** The child for the kinds of the current list's launches. It is started, unless the program is known to
     *  fail. CLEF_E_IO: no child can be started. CLEF_E_NOMEM. */
    clef_status (*start)(clef_plan *plan, const clef_fused_kinds *kinds, clef_fused_job **out,
                         clef_error *err);
    /** The child's state. Asks the system at most ten times a second. */
    clef_fused_build (*poll)(clef_device *dev, clef_fused_job *job);
    /** Waits for the child, with progress "fused step". CLEF_E_CANCELLED: the child was ended. */
    clef_status (*wait)(clef_plan *plan, clef_fused_job *job, clef_error *err);
    /** CLEF_E_CL: outputs differ. CLEF_E_UNSUPPORTED: the list has no launches for the fused step. */
    clef_status (*check)(clef_plan *plan, const clef_fused_trial *trial, clef_error *err);
} clef__fused_builder;

/** Gives the plan a fused step of these kinds, whose program is built, for lists that run `repeats` times.
 *  clef__fused_detach() removes it again; the plan must be idle. */
clef_status clef__fused_attach(clef_plan *plan, const clef_fused_kinds *kinds, int32_t repeats,
                               clef_error *err);
void clef__fused_detach(clef_plan *plan);
/** Enqueues the launches as the plan's fused step. Returns 0 when it has none for the current list. */
int clef__fused_run(clef_plan *plan, clef_status *status, clef_error *err);

#endif
