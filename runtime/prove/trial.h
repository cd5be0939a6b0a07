/* The trial service: child processes try what may be wrong, crash or hang, so that no other process is at
 * risk.
 *
 * A case file holds units: the kernels of a node, or a whole fused step. Children work through the file; each
 * claims units that no other has claimed. A child notes in its journal which unit it begins and how that
 * ends, even its own crash or hang. The caller reads the journals. When a child dies, the caller starts it
 * again for the units that are left. */
#ifndef CLEF_RUNTIME_TRIAL_H
#define CLEF_RUNTIME_TRIAL_H

#include <stdio.h>

#include "runtime/device/cache.h"
#include "runtime/plan/fused.h"
#include "runtime/prove/proof.h"

enum { CLEF__TRIAL_PATH = 768 };

/* ---- the case file: proof_file.c ------------------------------------------------------------- */

extern const char clef__trial_head[];

/** A parsed case: its graph is a text of n bytes after its first line. */
typedef struct clef_proof_entry {
    clef_proof_case c; /* without its graph */
    int32_t n_hung;    /* on how many starts it hung */
    char op[32], variant[32], forced[80];
    const char *text;
    size_t n;
} clef_proof_entry;

/** Writes the case that proves a unit. If a few rows launch the same kernels as many, only a few are tried.
 *  CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__trial_write_case(FILE *to, const struct clef_plan *plan, const clef_proof_unit *u,
                                   clef_error *err);
/** Finds the starts of at most `most` units in a file's text. Returns how many there are; -1: it is not a
 *  case file. */
int32_t clef__trial_units(const char *text, const char **starts, int32_t most);
/** The text after the case that begins at `at`; NULL: there is no case. */
const char *clef__trial_skip_case(const char *at);
/** Parses a case. Returns 0 when it is malformed. */
int clef__trial_read_case(const char *start, clef_proof_entry *out);

/* ---- the child: trial_child.c ---------------------------------------------------------------- */

/** Seconds of its own time (os_clock.h) that a unit may take: proof_seconds of $CLEF_DEBUG, else 60, doubled
 * for each start on which it hung. A fused step may take so long for each of its kinds, together, to be
 * built, and for each of its cases. */
double clef__trial_seconds(int32_t n_hung);

/* ---- the caller: trial_watch.c --------------------------------------------------------------- */

typedef struct clef__trial_result {
    clef_verdict verdict;
    double worst;
    int32_t cl_code; /* why it was refused */
    int32_t is_known;
} clef__trial_result;

/** A case file and the children that work on it. */
typedef struct clef__trials clef__trials;

/** Starts children on a file of units.
 *
 *  journal  path of the journal of a single child, which removes the case file. NULL: each child has a
 *           journal next to the file, and a child that dies is started again for the units that are left.
 *
 *  CLEF_E_IO: no child can be started. CLEF_E_NOMEM. */
clef_status clef__trials_start(clef_device *dev, const char *cases, const char *journal, int32_t n_units,
                               int32_t n_children, clef__trials **out, clef_error *err);
/** Checks on each child once, and does not wait. CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__trials_poll(clef__trials *t, clef_error *err);
/** 1 when all children have ended. */
int clef__trials_are_over(const clef__trials *t);
/** 1 when a child was interrupted from the terminal. */
int clef__trials_were_interrupted(const clef__trials *t);
const clef__trial_result *clef__trials_result(const clef__trials *t, int32_t unit);
/** Finished steps of a unit, of all children. */
int32_t clef__trials_n_steps(const clef__trials *t);
/** Ends the children that still work, and removes the files. Accepts NULL. */
void clef__trials_destroy(clef__trials *t);
/** Frees the trials; running children continue by themselves. */
void clef__trials_leave(clef__trials *t);
/** The result of a unit in a journal that was not read yet; is_known is 0 if it has none. */
clef__trial_result clef__trial_read_journal(const char *journal, int32_t unit);

/* ---- fused steps: fused_child.c, fused_check.c ----------------------------------------------- */

/** Builds and tries fused steps, for the hooks of plans. */
extern const clef__fused_builder clef__fused_by_child;

/** CLEF_E_CL: outputs differ. CLEF_E_UNSUPPORTED: the list has no launches for the fused step. */
clef_status clef__fused_check(struct clef_plan *plan, const clef_fused_trial *trial, clef_error *err);

/* ---- a fused step as a unit: fused_trial.c --------------------------------------------------- */

#define CLEF__FUSED_OP "fused_step" /* its name among the proofs */

/** Writes a case file with one unit: the fused step of these kinds, tried on the plan's own nodes. *n_steps:
 *  the number of steps of its trial. CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__fused_write(const char *path, const struct clef_plan *plan, const clef_fused_kinds *kinds,
                              int32_t n_hung, int32_t *n_steps, clef_error *err);
/** 1 when the unit is a fused step. */
int clef__fused_is_unit(const char *unit);
/** The text after such a unit; NULL: it is malformed. */
const char *clef__fused_skip_unit(const char *unit);
/** A parsed unit of a fused step; `kinds` and `cases` point into the unit's text. */
typedef struct clef__fused_unit {
    clef_fused_kinds kinds;
    clef_cache_key key;
    char journal[CLEF__TRIAL_PATH];
    const char *cases;
    int32_t n_cases, n_hung;
} clef__fused_unit;
/** Puts NULs into the text. CLEF_E_FORMAT, CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__fused_read_unit(clef_device *dev, char *text, clef__fused_unit *out, clef_error *err);
/** The child's part: builds the step, compares its results with those of its launches, and stores its program
 *  in the disk cache. CLEF_E_CL without an OpenCL code: the results differ. */
clef_status clef__fused_try_unit(clef_device *dev, const clef__fused_unit *u, clef_error *err);
/** The path of the step's journal in the cache folder (returns 0 if it does not fit), and the step's
 *  fingerprint. */
int clef__fused_journal(const clef_device *dev, const clef_cache_key *key, char out[CLEF__TRIAL_PATH]);
uint64_t clef__fused_print(const clef_cache_key *key);

#endif
