/* Relays: launches that follow one another, run as one (cl/relay.cl). Between two launches cores go to sleep, and waking one takes as long
 * as a product of a small model; a relay's groups stay and hand the stages on. */
#ifndef CLEF_RUNTIME_RELAY_H
#define CLEF_RUNTIME_RELAY_H

#include "runtime/device/cache.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/proof.h"

/** Makes a relay of the kernels that can be its stages, of those that the plan wants with every symbol at 1, for CPUs alone; without one
 *  the plan enqueues launch by launch. Devices opened for profiles have none, nor have graphs without states: no steps follow one another.
 *  Its program comes from the disk cache. Where it is not there and kernels are proven by children (clef__proof_wanted()), one builds it,
 *  tries it and keeps it, and the plan takes it over when that is done, at a later run; devices for the foreground wait for it here. Else
 *  it is built here, and held against the launches. The list is stale behind it.
 *  CLEF_RELAY=0 or CLEF_REPLAY=1: none; CLEF_RELAY=1: built here, and one that cannot be, or gives other results, is an error, which else
 *  is none. CLEF_E_CANCELLED. */
clef_status clef__relay_make(clef_plan *plan, clef_error *err);
/** Bytes of device memory that a relay of the present list would be told in; 0 where there will be none. */
uint64_t    clef__relay_bytes(const clef_plan *plan);
/** Enqueues the plan's launches, those of the relay as one. 0: it has none that serves the list, enqueue them. */
int  clef__relay_run(clef_plan *plan, clef_status *status, clef_error *err);
/** The list changes. */
void clef__relay_drop(clef_plan *plan);
/** With the plan, which is idle. */
void clef__relay_release(clef_plan *plan);

/** How it is held against its launches: the list is run `repeats` times in a row, by them and by the relay, from what begin() leaves. */
typedef struct clef_relay_trial {
    int32_t     repeats;
    clef_status (*begin)(void *user, clef_error *err);
    void       *user;
} clef_relay_trial;
/** CLEF_E_CL: outputs differ; CLEF_E_UNSUPPORTED: the list has no launches for the relay. (relay_check.c) */
clef_status clef__relay_check(clef_plan *plan, const clef_relay_trial *trial, clef_error *err);

/* ---- its program (runtime/plan/relay_program.c) ------------------------------------------------------------------------------------------ */

enum { CLEF_RELAY_KINDS = 24 };

/** A kernel that is a stage, as a launch names it. */
typedef struct clef_relay_kind {
    const char *source, *kernel, *args; /* args: the type of its argument block */
    clef_def    defs[CLEF_MAX_DEFS];
    uint32_t    n_bufs;
} clef_relay_kind;
typedef struct clef_relay_kinds {
    clef_relay_kind at[CLEF_RELAY_KINDS];
    int32_t         n;
} clef_relay_kinds;

/** 1 when the launch's kernel can be a stage: *out says which. */
int         clef__relay_kind_of(const clef_launch *l, clef_relay_kind *out);
int         clef__relay_same(const clef_relay_kind *a, const clef_relay_kind *b);
/** Kernels that another length wants where `kind` serves now: 1 when there is one. */
int         clef__relay_companion(const clef_relay_kind *kind, clef_relay_kind *out);
clef_status clef__relay_link(clef_device *dev, const clef_relay_kinds *kinds, clef_link how, cl_kernel *out, clef_error *err);
/** What its program is kept by. */
clef_status clef__relay_key(clef_device *dev, const clef_relay_kinds *kinds, clef_cache_key *out, clef_error *err);

/* ---- built by a child (runtime/prove/relay_child.c) ---------------------------------------------------------------------------------------- */

/** A child that builds and tries a relay's program; it belongs to the device, and plans that want the same program share it. */
typedef struct clef_relay_job clef_relay_job;
typedef enum clef_relay_news {
    CLEF_RELAY_WAITS,
    CLEF_RELAY_BUILT, /* the program is on disk */
    CLEF_RELAY_NONE   /* none will come: it failed, on this device, now or before; or the child was stopped */
} clef_relay_news;

/** The child for the kinds, which launches of the plan's present list are of; started, unless the record of the program (relay/ in the
 *  cache folder) says that it failed. CLEF_E_IO: none can be started. CLEF_E_NOMEM. */
clef_status clef__relay_have_built(clef_plan *plan, const clef_relay_kinds *kinds, clef_relay_job **out, clef_error *err);
/** How it stands; what is found to have failed is told once, by the device's notice. Looks at the child ten times a second at most. */
clef_relay_news clef__relay_news(clef_device *dev, clef_relay_job *job);
/** Waits for it, with progress "relay". CLEF_E_CANCELLED: and the child is ended. */
clef_status clef__relay_wait(clef_plan *plan, clef_relay_job *job, clef_error *err);
/** With the device. Children that are at work stay there. */
void        clef__relay_jobs_release(clef_device *dev);

/* The child: runtime/prove/relay_prove.c. */

/** 1 when the text, of a file for provers, is of a relay. */
int         clef__relay_is_case(const char *text);
/** Builds the relay, runs it on the file's cases against the launches, and puts its program to the disk cache; what fails is noted in the
 *  program's record. One process at a time: others wait, and find what was done. Removes the file. CLEF_E_IO, CLEF_E_FORMAT,
 *  CLEF_E_NOMEM. */
clef_status clef__relay_prove(clef_device *dev, const char *path, char *text, clef_error *err);
/** Gives the plan a relay of these kinds, which is linked, for lists that are run `repeats` times. */
clef_status clef__relay_give(clef_plan *plan, const clef_relay_kinds *kinds, int32_t repeats, clef_error *err);
/** Writes what a child is told: the kinds, and cases of the plan's nodes that launch them. *n_steps: that it will take. CLEF_E_IO,
 *  CLEF_E_NOMEM. */
clef_status clef__relay_write(const char *path, const clef_plan *plan, const clef_relay_kinds *kinds, int32_t *n_steps, clef_error *err);
/** The record of a program, in the cache folder; 0: its path does not fit. */
enum { CLEF_RELAY_PATH = 768 };
int         clef__relay_record(const clef_device *dev, const clef_cache_key *key, char out[CLEF_RELAY_PATH]);
/** What it says failed; CLEF_PROOF_RIGHT: nothing. */
clef_verdict clef__relay_verdict(const char *record);

#endif
