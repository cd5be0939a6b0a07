/* Fused steps that a child builds and tries while the plan runs plain launches. The result is on disk: the
 * program in the cache, or a line among the device's proofs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/prove/trial.h"

enum { POLL_MS = 20 };
static const double LOOK_SECONDS = 0.1;

struct clef_fused_job {
    clef_fused_job *next;
    clef_cache_key key;
    clef_fused_build build;
    clef__trials *trials;
    double looked;
    int32_t n_steps; /* number of steps of the trial */
    char journal[CLEF__TRIAL_PATH];
};

/* ---- what is known --------------------------------------------------------------------------- */

static void tell_user(const clef_device *dev, const char *what, const char *then)
{
    char text[400];
    snprintf(text, sizeof text, "fused step %s on %s: %s", what, dev->info.name, then);
    if (dev->notice)
        dev->notice(dev->notice_user, text);
}

/* Moves the result from the journal, whose child may belong to another process, to the proofs. The process
 * that does so tells the user. */
static void settle_journal(clef_device *dev, clef_proofs *known, uint64_t print, const char *journal)
{
    const clef__trial_result r = clef__trial_read_journal(journal, 0);
    const clef_proof proof = {
        .print = print, .op = CLEF__FUSED_OP, .variant = "-", .verdict = r.verdict, .worst = r.worst};
    if (!r.is_known)
        return;
    clef__os_remove(journal);
    if (r.verdict == CLEF_PROOF_UNTRIED || clef__proofs_put(known, &proof, NULL))
        return;
    (void)clef__proofs_save(dev, known, NULL);
    if (r.verdict >= CLEF_PROOF_WRONG && clef__proofs_find(known, print)->n_hung <= 1)
        tell_user(dev, clef__proof_says(r.verdict), "set aside, its launches run one by one");
}

/* Returns 1 if the step is set aside. *n_hung: the number of starts on which it hung so far. */
static int is_set_aside(clef_device *dev, const clef_cache_key *key, const char *journal, int32_t *n_hung)
{
    clef_proofs *known = NULL;
    const uint64_t print = clef__fused_print(key);
    *n_hung = 0;
    if (clef__proofs_open(dev, &known, NULL))
        return 0;
    settle_journal(dev, known, print, journal);
    const clef_proof *proof = clef__proofs_find(known, print);
    *n_hung = proof ? proof->n_hung : 0;
    return proof && clef__proof_is_bad(proof);
}

/* ---- the child ------------------------------------------------------------------------------- */

static clef_status start_child(clef_plan *plan, const clef_fused_kinds *kinds, int32_t n_hung,
                               clef_fused_job *job, clef_error *err)
{
    char cases[CLEF__TRIAL_PATH];
    const int n = snprintf(cases, sizeof cases, "%.*s-%" PRIx64, (int)strlen(job->journal) - 4, job->journal,
                           clef__os_unique());
    if (n < 0 || (size_t)n + 32 > sizeof cases)
        return clef__fail(err, CLEF_E_IO, "fused step: the cache folder's name is too long");
    clef_status s = clef__fused_write(cases, plan, kinds, n_hung, &job->n_steps, err);
    if (!s)
        s = clef__trials_start(plan->dev, cases, job->journal, 1, 1, &job->trials, err);
    if (s)
        clef__os_remove(cases);
    return s;
}

/* Running children continue without this process. */
static void leave_jobs(clef_device *dev, void *first)
{
    (void)dev;
    for (clef_fused_job *job = first, *next; job; job = next) {
        next = job->next;
        clef__trials_leave(job->trials);
        free(job);
    }
}
static const clef__attachment jobs_slot = {.release = leave_jobs}; /* data: a list of clef_fused_job */

static clef_fused_job *find_job(const clef_device *dev, const clef_cache_key *key)
{
    clef_fused_job *job = clef__device_attached(dev, &jobs_slot);
    while (job && memcmp(&job->key, key, sizeof *key) != 0)
        job = job->next;
    return job;
}

static clef_status start_build(clef_plan *plan, const clef_fused_kinds *kinds, clef_fused_job **out,
                               clef_error *err)
{
    clef_device *dev = plan->dev;
    clef_cache_key key;
    int32_t n_hung = 0;
    clef_status s = clef__fused_key(dev, kinds, &key, err);
    *out = s ? NULL : find_job(dev, &key);
    if (s || *out)
        return s;
    clef_fused_job *job = calloc(1, sizeof *job);
    if (!job)
        return clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for its child");
    job->key = key;
    if (!clef__fused_journal(dev, &key, job->journal))
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", dev->cache_dir);
    else if (is_set_aside(dev, &key, job->journal, &n_hung))
        job->build = CLEF_FUSED_FAILED;
    else
        s = start_child(plan, kinds, n_hung, job, err);
    if (s) {
        free(job);
        return s;
    }
    job->next = clef__device_attached(dev, &jobs_slot);
    clef__device_attach(dev, &jobs_slot, *out = job);
    return CLEF_OK;
}

/* Concludes a job whose child has ended or is abandoned. */
static void conclude_job(clef_device *dev, clef_fused_job *job)
{
    int32_t n_hung;
    const int is_aside = is_set_aside(dev, &job->key, job->journal, &n_hung);
    clef__trials_destroy(job->trials);
    job->trials = NULL;
    job->build = !is_aside && clef__cache_has(dev, &job->key) ? CLEF_FUSED_BUILT : CLEF_FUSED_FAILED;
}

static clef_fused_build poll_child(clef_device *dev, clef_fused_job *job)
{
    const double now = job->build == CLEF_FUSED_BUILDING ? clef__os_seconds() : 0;
    if (job->build != CLEF_FUSED_BUILDING || now - job->looked < LOOK_SECONDS)
        return job->build;
    job->looked = now;
    if (clef__trials_poll(job->trials, NULL) || clef__trials_are_over(job->trials))
        conclude_job(dev, job);
    return job->build;
}

static clef_status wait_for_build(clef_plan *plan, clef_fused_job *job, clef_error *err)
{
    clef_status s = CLEF_OK;
    while (!s && poll_child(plan->dev, job) == CLEF_FUSED_BUILDING) {
        const int32_t n = clef__trials_n_steps(job->trials);
        s = clef__plan_progress(plan, "fused step", (uint64_t)(n < job->n_steps ? n : job->n_steps),
                                (uint64_t)job->n_steps, err);
        if (s)
            conclude_job(plan->dev, job);
        else
            clef__os_sleep(POLL_MS);
    }
    int32_t n_hung; /* if not set aside, another process ended the child, or it ran out of memory */
    if (!s && job->build == CLEF_FUSED_FAILED && !is_set_aside(plan->dev, &job->key, job->journal, &n_hung))
        tell_user(plan->dev, "could not be tried", "its launches run one by one");
    return s;
}

const clef__fused_builder clef__fused_by_child = {.uses_children = clef__proof_wanted,
                                                  .start = start_build,
                                                  .poll = poll_child,
                                                  .wait = wait_for_build,
                                                  .check = clef__fused_check};
