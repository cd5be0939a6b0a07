/* Has a plan's units proven in child processes. There is one for each processor, up to MAX_CHILDREN
 * (trial_watch.c), because drivers compile one kernel at a time in a process. On a GPU there are two, since a
 * context takes up to 500 MB of its memory. Meanwhile the plan builds the kernels that are proven already. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/os/os.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/trial.h"

enum { POLL_MS = 3, CHILDREN_ON_GPU = 2, PATH_BYTES = CLEF__TRIAL_PATH - 64 };

/* Builds the programs of one more proven unit, while children prove others. The driver's cache, or clef's,
 * has these programs by now. */
static void build_one(clef_plan *plan, clef_proof_units *units)
{
    const clef_variant *forced[CLEF_N_OPS] = {0};
    int32_t i = 0;
    while (i < units->n &&
           (!units->at[i].known || units->at[i].built || units->at[i].verdict != CLEF_PROOF_RIGHT))
        i++;
    if (i == units->n)
        return;
    clef_proof_unit *u = &units->at[i];
    const clef_lowering lo = {.caps = &plan->dev->info.caps,
                              .symbols = u->symbols,
                              .gemm = plan->opts.compile.gemm,
                              .forced = forced};
    forced[u->node->op] = u->kernels.variant;
    clef__proof_build(plan->dev, &lo, u->node);
    u->built = 1;
}

/* Returns how many units are known now. */
static int32_t take_results(const clef__trials *t, clef_proof_units *units)
{
    int32_t n = 0;
    for (int32_t i = 0; i < units->n; i++) {
        const clef__trial_result *r = clef__trials_result(t, i);
        units->at[i].known = r->is_known;
        units->at[i].verdict = r->verdict;
        units->at[i].worst = r->worst;
        units->at[i].cl_code = r->cl_code;
        n += r->is_known;
    }
    return n;
}

static clef_status wait_for(clef_plan *plan, clef__trials *t, clef_proof_units *units, clef_error *err)
{
    clef_status s = CLEF_OK;
    int32_t n_reported = 0;
    while (!s && !clef__trials_are_over(t)) {
        clef__os_sleep(POLL_MS);
        s = clef__trials_poll(t, err);
        const int32_t n = take_results(t, units);
        build_one(plan, units);
        if (!s && (n != n_reported || clef__trials_were_interrupted(t)))
            s = clef__plan_progress(plan, "proof", (uint64_t)n, (uint64_t)units->n, err);
        n_reported = n;
    }
    return s;
}

static clef_status run_children(clef_plan *plan, clef_proof_units *units, int32_t n_children, clef_error *err)
{
    char path[PATH_BYTES];
    clef__trials *t = NULL;
    clef_device *dev = plan->dev;
    snprintf(path, sizeof path, "%s/proof", dev->cache_dir);
    if (clef__os_make_dirs(path, NULL))
        return CLEF_E_IO;
    snprintf(path, sizeof path, "%s/proof/cases-%" PRIx64, dev->cache_dir, clef__os_unique());
    clef_status s = clef__proof_write(path, plan, units, NULL);
    clef__programs_save_cheap(dev); /* learns whether writing is cheap, for all programs */
    if (!s)
        s = clef__trials_start(dev, path, NULL, units->n, n_children, &t, err);
    if (!s) {
        s = wait_for(plan, t, units, err);
        if (clef__background_allowed(dev))
            dev->cache_policy = CLEF__SAVE_CHEAP; /* the children write the rest */
    }
    clef__trials_destroy(t);
    clef__os_remove(path);
    return s;
}

/* A driver that resets the device ends the contexts of all processes. So what failed in a context that was
 * lost is tried again by one child alone. */
static clef_status try_alone(clef_plan *plan, clef_proof_units *units, clef_error *err)
{
    clef_proof_units few = {.at = malloc((size_t)units->n * sizeof *few.at + 1)};
    clef_status s = CLEF_OK;
    if (!few.at)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d proofs", (int)units->n);
    for (int32_t i = 0; i < units->n; i++)
        if (units->at[i].verdict == CLEF_PROOF_FAULTED)
            few.at[few.n++] = units->at[i];
    if (few.n > 0)
        s = run_children(plan, &few, 1, err);
    for (int32_t i = 0, k = 0; i < units->n && few.n > 0; i++)
        if (units->at[i].verdict == CLEF_PROOF_FAULTED)
            units->at[i] = few.at[k++];
    free(few.at);
    return s;
}

/* This process's context may be lost with that of a child. */
static clef_status restore_context(clef_plan *plan, const clef_proof_units *units, clef_error *err)
{
    int32_t i = 0;
    while (i < units->n && units->at[i].verdict < CLEF_PROOF_REFUSED)
        i++;
    return i == units->n || plan->mem || clef__device_works(plan->dev)
               ? CLEF_OK
               : clef__device_reopen(plan->dev, 1, err);
}

clef_status clef__proof_by_children(clef_plan *plan, clef_proof_units *units, clef_error *err)
{
    const int32_t n = plan->dev->info.caps.is_cpu ? clef__os_n_cpus() : CHILDREN_ON_GPU;
    clef_status s = run_children(plan, units, n, err);
    if (!s && units->n > 1)
        s = try_alone(plan, units, err);
    return s ? s : restore_context(plan, units, err);
}
