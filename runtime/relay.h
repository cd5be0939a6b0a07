/* Relays: launches that follow one another, run as one (cl/relay.cl). Between two launches cores go to sleep, and waking one takes as long
 * as a product of a small model; a relay's groups stay and hand the stages on. */
#ifndef CLEF_RUNTIME_RELAY_H
#define CLEF_RUNTIME_RELAY_H

#include "runtime/plan.h"

/** Makes a relay of the kernels that can be its stages, of those that the plan wants with every symbol at 1, for CPUs alone; without one
 *  the plan enqueues launch by launch. Devices opened for profiles have none: a profile is of launches. The list is stale behind it.
 *  CLEF_RELAY=0 or CLEF_REPLAY=1: none; CLEF_RELAY=1: one that cannot be built, or gives other results, is an error, which else is none. */
clef_status clef__relay_make(clef_plan *plan, clef_error *err);
/** Bytes of device memory that a relay of the present list would be told in; 0 where there will be none. */
uint64_t    clef__relay_bytes(const clef_plan *plan);
/** Enqueues the plan's launches, those of the relay as one. 0: it has none that serves the list, enqueue them. */
int  clef__relay_run(clef_plan *plan, clef_status *status, clef_error *err);
/** The list changes. */
void clef__relay_drop(clef_plan *plan);
/** With the plan, which is idle. */
void clef__relay_release(clef_plan *plan);

/** One step from zeroed states by the relay, and one launch by launch, of the present list. CLEF_E_CL: they differ. (relay_check.c) */
clef_status clef__relay_check(clef_plan *plan, clef_error *err);

/* ---- its program (runtime/relay_program.c) ------------------------------------------------------------------------------------------ */

enum { CLEF_RELAY_KINDS = 24 };

/** A kernel that is a stage, as a launch names it. */
typedef struct clef_relay_kind {
    const char *source, *kernel, *args; /* args: the type of its argument block */
    clef_def    defs[CLEF_MAX_DEFS];
    uint32_t    n_bufs;
} clef_relay_kind;

/** 1 when the launch's kernel can be a stage: *out says which. */
int         clef__relay_kind_of(const clef_launch *l, clef_relay_kind *out);
int         clef__relay_same(const clef_relay_kind *a, const clef_relay_kind *b);
/** Kernels that another length wants where `kind` serves now: 1 when there is one. */
int         clef__relay_companion(const clef_relay_kind *kind, clef_relay_kind *out);
clef_status clef__relay_link(clef_device *dev, const clef_relay_kind *kinds, int32_t n, cl_kernel *out, clef_error *err);

#endif
