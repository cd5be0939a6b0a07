/* Proof before use: a kernel's results are compared with its op's reference in double, on this device, before
 * any result depends on them. docs/drivers.md describes the rules. */
#ifndef CLEF_RUNTIME_PROOF_H
#define CLEF_RUNTIME_PROOF_H

#include <stdio.h>

#include "clef/plan.h"

#include "graph/lower/variant.h"
#include "runtime/device/device.h"

/* ---- a case: runtime/prove/proof_case.c ------------------------------------------------------ */

enum { CLEF_PROOF_MAX_RUNS = 8 };

/** A graph and how to run it. Inputs and weights are random: I32 and I8 in [int_lo, int_hi), floats from N(0,
 *  1) times spread (0: 1). */
typedef struct clef_proof_case {
    const clef_graph *graph;
    const char *variants; /* "op=name" or "" */
    clef_gemm gemm;
    int32_t int_lo, int_hi;
    float spread;
    double tol;     /* |x - ref| <= tol * (max |ref| + 1e-6) */
    int32_t n_runs; /* 0: all symbols at their bounds, then all at 1 */
    int64_t symbols[CLEF_PROOF_MAX_RUNS][CLEF_MAX_SYMBOLS];
} clef_proof_case;

/** Runs the case. worst: the largest error over outputs and runs, divided by the tolerance. It is infinite if
 *  only one of result and reference is a number. CLEF_E_NOMEM, and the errors of making and running a
 *  plan. */
clef_status clef__proof_run(clef_device *dev, const clef_proof_case *c, double *worst, clef_error *err);

struct clef_plan;
/** visit() is called for each run of a case, after its plan has run once. begin(run) zeroes the states and
 *  writes the inputs, so that the plan can run again from the same start. */
typedef struct clef_proof_visit {
    clef_status (*visit)(void *user, struct clef_plan *plan, clef_status (*begin)(void *run, clef_error *err),
                         void *run, clef_error *err);
    void *user;
} clef_proof_visit;
/** Runs the case without a comparison. Returns the errors of clef__proof_run() and of visit(). */
clef_status clef__proof_visit(clef_device *dev, const clef_proof_case *c, const clef_proof_visit *visit,
                              clef_error *err);

/* ---- verdicts on a device: runtime/prove/proof_db.c ------------------------------------------ */

typedef enum clef_verdict {
    CLEF_PROOF_RIGHT,
    CLEF_PROOF_UNTRIED, /* the case does not fit into the device's memory, which is not the kernel's fault */
    CLEF_PROOF_WRONG,   /* this verdict and those after it set a kernel aside */
    CLEF_PROOF_REFUSED,
    CLEF_PROOF_FAULTED, /* after it all commands of its context failed */
    CLEF_PROOF_CRASHED,
    CLEF_PROOF_HUNG
} clef_verdict;
extern const char *const clef__verdict_names[];

/** The verdict on a kernel with its constants, or on a fused step. */
typedef struct clef_proof {
    uint64_t print;           /* its fingerprint (clef_proof_kernels) */
    char op[32], variant[32]; /* variant "-": the op has one implementation */
    clef_verdict verdict;
    double worst;            /* the largest error, divided by the tolerance */
    int32_t n_hung;          /* on how many starts of a program it hung */
    int64_t when;            /* when it was found, in seconds since 1970 */
    int32_t cl_code;         /* why a kernel was refused, or faulted; 0: none, or by clef itself */
    int32_t items;           /* work-items in the largest group that was launched */
    int32_t is_new, is_reported; /* 1: this process found it; 1: the user was notified. Not on disk */
} clef_proof;
typedef struct clef_proofs {
    clef_proof *at;
    int32_t n, cap;
    int32_t driver_group; /* the largest group by what the driver says */
    int32_t tried_group;  /* the largest that is launched while a smaller one is tried; 0: none is. Not on
                             disk */
} clef_proofs;

/** A hang may be the machine's fault, so the first hangs are a suspicion: the next start tries again, with
 *  twice the time. At occasion number CLEF_PROOF_OCCASIONS it becomes a verdict. Both are forgotten after a
 *  week, and by another version of clef. */
enum { CLEF_PROOF_OCCASIONS = 3 };
int clef__proof_is_suspicion(const clef_proof *p);
/** 1 when this process need not try again: `p` is not a suspicion from an earlier start. 0 for NULL. */
int clef__proof_is_settled(const clef_proof *p);
/** 1 when the kernel is set aside in this process. */
int clef__proof_is_bad(const clef_proof *p);
/** "crashes the driver" */
const char *clef__proof_says(clef_verdict verdict);

/** The device's proofs, read at the first call and attached to the device. A missing or damaged file counts
 *  as empty. CLEF_E_NOMEM. */
clef_status clef__proofs_open(clef_device *dev, clef_proofs **out, clef_error *err);
/** Adds what other processes have found since. CLEF_E_NOMEM. */
clef_status clef__proofs_read_again(clef_device *dev, clef_proofs *proofs, clef_error *err);
void clef__proofs_free(clef_proofs *proofs); /* takes NULL */
/** Adds what this process found. Settled verdicts stay. A suspicion is replaced, or gains an occasion.
 *  CLEF_E_NOMEM. */
clef_status clef__proofs_put(clef_proofs *proofs, const clef_proof *proof, clef_error *err);
const clef_proof *clef__proofs_find(const clef_proofs *proofs, uint64_t print); /* NULL: none */
/** A proof that sets the op's variant aside; NULL if there is none. */
const clef_proof *clef__proofs_find_bad(const clef_proofs *proofs, const char *op, const char *variant);
/** Sets all such variants aside in a tuning that clef__tuning_make() made. */
void clef__proofs_set_aside(const clef_proofs *known, clef_tuning *tuning);
/** Writes the proofs, merged with what other processes wrote meanwhile. Failing to write is not an error.
 *  CLEF_E_NOMEM. */
clef_status clef__proofs_save(clef_device *dev, clef_proofs *proofs, clef_error *err);
/** Adds the proofs of another machine's file, whose text it changes, and saves them. What is known here
 *  stays. CLEF_E_NOMEM. */
clef_status clef__proofs_take(clef_device *dev, char *text, int32_t *n_new, clef_error *err);
/** Parses a line of the file. Returns 0 when it is damaged. */
int clef__proof_parse(const char *line, clef_proof *out);

/* ---- the largest group: runtime/prove/proof_group.c ------------------------------------------ */

#define CLEF__GROUP_OP "largest_group" /* the limit's name among the proofs */

/** 1 when the driver refused the kernel because its group was too large; 1 when it may have been that. */
int clef__proof_limits_groups(const clef_proof *p);
int clef__proof_may_limit_groups(const clef_proof *p);
/** Notes that groups as large as those of the refused kernel are too large for the device. CLEF_E_NOMEM. */
clef_status clef__proofs_note_group(clef_proofs *proofs, const clef_proof *refused, clef_error *err);
/** The largest group that clef launches, also while it is tried; 0: what the driver says. */
int32_t clef__proofs_max_group(const clef_proofs *proofs);
/** Tries groups smaller than those of a kernel that may have been refused for them. Returns 0 if clef
 *  launches no larger ones anyway. */
int clef__proofs_try_group(clef_proofs *proofs, const clef_proof *refused);
/** Ends that: notes the limit, and saves the proofs, if it has helped; else takes it back. CLEF_E_NOMEM. */
clef_status clef__proofs_end_try(clef_device *dev, clef_proofs *proofs, int has_helped, clef_error *err);
/** 1 when a kernel was refused for lack of resources in a larger group than clef launches now. */
int clef__proof_is_outgrown(const clef_proofs *proofs, const clef_proof *p);
/** Puts the limit in force: sets the device's max_group. */
void clef__proofs_limit_groups(clef_device *dev, const clef_proofs *proofs);
/** Calls the device's notice if the limit is another one than `before`. */
void clef__proofs_tell_groups(const clef_device *dev, const clef_proofs *proofs, int32_t before);

/* ---- kernels: runtime/prove/proof_kernels.c -------------------------------------------------- */

enum { CLEF_PROOF_MAX_KERNELS = 64 }; /* launches of a node */

/** Fingerprints of the kernels that a node launches at some values of the symbols: the keys under which
 *  proofs are stored. Each is a hash of op, variant, dtypes, kernel, constants and local size, and is listed
 *  once. */
typedef struct clef_proof_kernels {
    uint64_t prints[CLEF_PROOF_MAX_KERNELS];
    int32_t n;
    int32_t items;               /* work-items in the largest group */
    const clef_variant *variant; /* the variant that lowers the node; NULL: the op has one implementation */
} clef_proof_kernels;

/** `lo` gives caps, gemm, symbols, tuning and forced; its node and launches are not read. n is 0 if the node
 *  launches nothing or cannot be lowered. */
void clef__proof_kernels(const clef_lowering *lo, const clef_value *n, clef_proof_kernels *out);
/** Builds the programs of the node's kernels, so that a plan finds them. The plan reports failures later. */
void clef__proof_build(clef_device *dev, const clef_lowering *lo, const clef_value *n);
/** 1 when a and b have the same kernels. */
int clef__proof_same_kernels(const clef_proof_kernels *a, const clef_proof_kernels *b);

/* ---- before a plan: runtime/prove/proof.c, runtime/prove/proof_child.c ----------------------- */

/** Kernels of a node that are to be proven. */
typedef struct clef_proof_unit {
    const clef_value *node;
    int64_t symbols[CLEF_MAX_SYMBOLS]; /* symbol values at which the plan launches them */
    clef_proof_kernels kernels;        /* all kernels of the node at these values */
    clef_verdict verdict;              /* of the trial, like `worst` */
    double worst;
    int32_t cl_code; /* why it was refused */
    int32_t known;   /* 1: the trial has ended */
    int32_t n_hung;  /* on how many starts one of its kernels hung */
    int32_t built;   /* 1: the plan's process has built its programs too */
} clef_proof_unit;
typedef struct clef_proof_units {
    clef_proof_unit *at;
    int32_t n, cap;
} clef_proof_units;

/** 1 when this plan's kernels are proven in children before use. */
int clef__proof_wanted(const struct clef_plan *plan);
/** Puts limits in force that earlier proofs found for the device. Does nothing where nothing is proven.
 *  CLEF_E_NOMEM. */
clef_status clef__proof_begin(clef_device *dev, const clef_plan_opts *opts, clef_error *err);
/** Writes the case file of the units (proof_file.c). CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__proof_write(const char *path, const struct clef_plan *plan, const clef_proof_units *units,
                              clef_error *err);
/** Has the units proven by one child for each processor, eight at most (proof_child.c). Units that no child
 *  could try stay unknown. CLEF_E_IO, CLEF_E_NOMEM, CLEF_E_CANCELLED. */
clef_status clef__proof_by_children(struct clef_plan *plan, clef_proof_units *units, clef_error *err);
/** Proves the kernels that the plan's graph launches and that the device has never run: with the symbols at
 *  1, and at their bounds or the first run's values. The device's notice is called for each that fails. Does
 *  nothing without a prover or a cache folder, or with no_proof. CLEF_E_NOMEM, CLEF_E_CANCELLED;
 *  CLEF_E_DEVICE: a kernel fails and its op has no other. */
clef_status clef__proof_at_load(struct clef_plan *plan, clef_error *err);
/** Proves what the plan is about to launch at the current values of its symbols, after it was lowered. Failed
 *  kernels are set aside in the plan's tuning. *again is set to 1 when the plan must be lowered again. */
clef_status clef__proof_at_use(struct clef_plan *plan, int *again, clef_error *err);
/** Sets aside in the plan's tuning whatever failed on this device. CLEF_E_NOMEM. */
clef_status clef__proof_apply(struct clef_plan *plan, clef_error *err);
/** 1 when the row of the table of variants failed on this device. */
int clef__proof_failed(clef_device *dev, int32_t row);
/** 1 when nothing is proven on this device, or when a kernel of the row was proven right. */
int clef__proof_trusts(clef_device *dev, int32_t row);

#endif
