/* Fused steps: launches that follow one another, run as one (cl/fused_step.cl). Between two launches cores go to sleep, and waking one takes as long
 * as a product of a small model; a fused step's groups stay and hand the stages on. */
#ifndef CLEF_RUNTIME_FUSED_H
#define CLEF_RUNTIME_FUSED_H

#include "runtime/device/cache.h"
#include "runtime/plan/plan.h"

/** Makes a fused step of the kernels that can be its stages, of those that the plan wants with every symbol at 1, for CPUs alone; without one
 *  the plan enqueues launch by launch. Devices opened for profiles have none, nor have graphs without states: no steps follow one another.
 *  Its program comes from the disk cache. Where it is not there and kernels are proven by children (clef__proof_wanted()), one builds it,
 *  tries it and keeps it, and the plan takes it over when that is done, at a later run; devices for the foreground wait for it here. Else
 *  it is built here, and held against the launches. The list is stale behind it.
 *  CLEF_FUSED=0 or CLEF_REPLAY=1: none; CLEF_FUSED=1: built here, and one that cannot be, or gives other results, is an error, which else
 *  is none. CLEF_E_CANCELLED. */
clef_status clef__fused_make(clef_plan *plan, clef_error *err);
/** Bytes of device memory that a fused step of the present list would be told in; 0 where there will be none. */
uint64_t    clef__fused_bytes(const clef_plan *plan);
/** Enqueues the plan's launches, those of the fused step as one. 0: it has none that serves the list, enqueue them. */
int  clef__fused_run(clef_plan *plan, clef_status *status, clef_error *err);
/** The list changes. */
void clef__fused_drop(clef_plan *plan);
/** With the plan, which is idle. */
void clef__fused_release(clef_plan *plan);

/** How it is held against its launches: the list is run `repeats` times in a row, by them and by the fused step, from what begin() leaves. */
typedef struct clef_fused_trial {
    int32_t     repeats;
    clef_status (*begin)(void *user, clef_error *err);
    void       *user;
} clef_fused_trial;
/** CLEF_E_CL: outputs differ; CLEF_E_UNSUPPORTED: the list has no launches for the fused step. (fused_check.c) */
clef_status clef__fused_check(clef_plan *plan, const clef_fused_trial *trial, clef_error *err);

/* ---- its program (runtime/plan/fused_program.c) ------------------------------------------------------------------------------------------ */

enum { CLEF_FUSED_KINDS = 24 };

/** A kernel that is a stage, as a launch names it. */
typedef struct clef_fused_kind {
    const char *source, *kernel, *args; /* args: the type of its argument block */
    clef_def    defs[CLEF_MAX_DEFS];
    uint32_t    n_bufs;
} clef_fused_kind;
typedef struct clef_fused_kinds {
    clef_fused_kind at[CLEF_FUSED_KINDS];
    int32_t         n;
} clef_fused_kinds;

/** 1 when the launch's kernel can be a stage: *out says which. */
int         clef__fused_kind_of(const clef_launch *l, clef_fused_kind *out);
int         clef__fused_same(const clef_fused_kind *a, const clef_fused_kind *b);
/** Kernels that another length wants where `kind` serves now: 1 when there is one. */
int         clef__fused_companion(const clef_fused_kind *kind, clef_fused_kind *out);
clef_status clef__fused_link(clef_device *dev, const clef_fused_kinds *kinds, clef_link how, cl_kernel *out, clef_error *err);
/** What its program is kept by. */
clef_status clef__fused_key(clef_device *dev, const clef_fused_kinds *kinds, clef_cache_key *out, clef_error *err);

/* ---- built by a child (runtime/prove/fused_child.c) ---------------------------------------------------------------------------------------- */

/** A child that builds and tries a fused step's program; it belongs to the device, and plans that want the same program share it. */
typedef struct clef_fused_job clef_fused_job;
typedef enum clef_fused_news {
    CLEF_FUSED_WAITS,
    CLEF_FUSED_BUILT, /* the program is on disk */
    CLEF_FUSED_NONE   /* none will come: it failed, on this device, now or before; or the child was stopped */
} clef_fused_news;

/** The child for the kinds, which launches of the plan's present list are of; started, unless the program is known to fail. CLEF_E_IO: none can be started. CLEF_E_NOMEM. */
clef_status clef__fused_have_built(clef_plan *plan, const clef_fused_kinds *kinds, clef_fused_job **out, clef_error *err);
/** How it stands; what is found to have failed is told once, by the device's notice. Looks at the child ten times a second at most. */
clef_fused_news clef__fused_news(clef_device *dev, clef_fused_job *job);
/** Waits for it, with progress "fused step". CLEF_E_CANCELLED: and the child is ended. */
clef_status clef__fused_wait(clef_plan *plan, clef_fused_job *job, clef_error *err);
/** With the device. Children that are at work stay there. */
void        clef__fused_jobs_release(clef_device *dev);

/** Gives the plan a fused step of these kinds, which is linked, for lists that are run `repeats` times. */
clef_status clef__fused_give(clef_plan *plan, const clef_fused_kinds *kinds, int32_t repeats, clef_error *err);

#endif
