/* A fused step's program is built and tried by a child, as a prover is; the plan goes on launch by launch.
 * What the child has come to is found on disk: the program, or a word in its record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/plan/fused.h"
#include "runtime/prove/proof.h"

enum {
    MAX_RECORD_BYTES = 4096,
    POLL_MS = 20,
    PATIENCE = 4 /* of the seconds that a step may take: a child that says nothing */
};
static const double LOOK_SECONDS = 0.1;
static const char told[] = "told\n";

struct clef_fused_job {
    clef_fused_job *next;
    clef_cache_key key;
    clef_fused_news news;
    int64_t process;
    double looked;
    int32_t n_steps;                                      /* that the child will take */
    char record[CLEF_FUSED_PATH], cases[CLEF_FUSED_PATH]; /* the file that the child is told by */
};

/* ---- records
 * ------------------------------------------------------------------------------------------------------------------------
 */

int clef__fused_record(const clef_device *dev, const clef_cache_key *key, char out[CLEF_FUSED_PATH])
{
    enum { NAME_BYTES = 12 };
    int n = snprintf(out, CLEF_FUSED_PATH, "%s/fused step", dev->cache_dir);
    if (n < 0 || n + 2 * NAME_BYTES + 40 > CLEF_FUSED_PATH || clef__os_make_dirs(out, NULL))
        return 0;
    n += snprintf(out + n, CLEF_FUSED_PATH - (size_t)n, "/");
    for (int32_t i = 0; i < NAME_BYTES; i++)
        n += snprintf(out + n, CLEF_FUSED_PATH - (size_t)n, "%02x", key->bytes[i]);
    strcpy(out + n, ".txt");
    return 1;
}

/* The worst that it says; *is_told: somebody was told; *n_steps: taken by the last who tried. */
static clef_verdict read_record(const char *path, int *is_told, int32_t *n_steps)
{
    char *text = NULL;
    size_t n = 0;
    clef_verdict verdict = CLEF_PROOF_RIGHT;
    *is_told = 0;
    *n_steps = 0;
    if (!clef__os_is_file(path) || clef__os_read(path, MAX_RECORD_BYTES, &text, &n, NULL))
        return verdict;
    for (int v = CLEF_PROOF_WRONG; clef__verdict_names[v]; v++)
        verdict = strstr(text, clef__verdict_names[v]) ? (clef_verdict)v : verdict;
    for (const char *at = text; *at; at++)
        *n_steps += *at == '.';
    *is_told = strstr(text, told) != NULL;
    free(text);
    return verdict;
}

clef_verdict clef__fused_verdict(const char *record)
{
    int is_told;
    int32_t n_steps;
    return read_record(record, &is_told, &n_steps);
}

/* The first who sees it tells the user. */
static int has_failed(const clef_device *dev, const char *record)
{
    int is_told;
    int32_t n_steps;
    char text[400];
    const clef_verdict verdict = read_record(record, &is_told, &n_steps);
    if (verdict < CLEF_PROOF_WRONG)
        return 0;
    FILE *to = is_told || !dev->notice ? NULL : fopen(record, "a");
    if (!to)
        return 1;
    fputs(told, to);
    fclose(to);
    snprintf(text, sizeof text, "a step as one launch %s on %s: set aside, its launches serve one by one",
             clef__proof_says(verdict), dev->info.name);
    dev->notice(dev->notice_user, text);
    return 1;
}

/* ---- the child
 * ------------------------------------------------------------------------------------------------------------------------
 */

static clef_status start(clef_plan *plan, const clef_fused_kinds *kinds, clef_fused_job *job, clef_error *err)
{
    static int32_t n_started; /* two plans of a process may want one each */
    const int n = snprintf(job->cases, sizeof job->cases, "%.*s-%lld-%d", (int)strlen(job->record) - 4,
                           job->record, (long long)clef__os_pid(), (int)n_started++);
    if (n < 0 || (size_t)n >= sizeof job->cases)
        return clef__fail(err, CLEF_E_IO, "fused step: the cache folder's name is too long");
    clef_status s = clef__fused_write(job->cases, plan, kinds, &job->n_steps, err);
    if (!s)
        s = clef__proof_spawn(plan->dev, job->cases, "0", &job->process, err);
    if (s)
        clef__os_remove(job->cases);
    return s;
}

static clef_fused_job *find_job(const clef_device *dev, const clef_cache_key *key)
{
    clef_fused_job *job = dev->fused_jobs;
    while (job && memcmp(&job->key, key, sizeof *key) != 0)
        job = job->next;
    return job;
}

clef_status clef__fused_have_built(clef_plan *plan, const clef_fused_kinds *kinds, clef_fused_job **out,
                                   clef_error *err)
{
    clef_device *dev = plan->dev;
    clef_cache_key key;
    clef_status s = clef__fused_key(dev, kinds, &key, err);
    *out = s ? NULL : find_job(dev, &key);
    if (s || *out)
        return s;
    clef_fused_job *job = calloc(1, sizeof *job);
    if (!job)
        return clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for its child");
    job->key = key;
    if (!clef__fused_record(dev, &key, job->record))
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", dev->cache_dir);
    else if (has_failed(dev, job->record))
        job->news = CLEF_FUSED_NONE;
    else
        s = start(plan, kinds, job, err);
    if (s) {
        free(job);
        return s;
    }
    job->next = dev->fused_jobs;
    dev->fused_jobs = *out = job;
    return CLEF_OK;
}

/* Its child has ended, or is given up. */
static void conclude(clef_device *dev, clef_fused_job *job)
{
    job->process = 0;
    clef__os_remove(job->cases);
    job->news =
        !has_failed(dev, job->record) && clef__cache_has(dev, &job->key) ? CLEF_FUSED_BUILT : CLEF_FUSED_NONE;
}

static void give_up(clef_device *dev, clef_fused_job *job)
{
    clef__os_kill(job->process);
    conclude(dev, job);
}

clef_fused_news clef__fused_news(clef_device *dev, clef_fused_job *job)
{
    const double now = job->news == CLEF_FUSED_WAITS ? clef__os_seconds() : 0;
    int code;
    if (job->news != CLEF_FUSED_WAITS || now - job->looked < LOOK_SECONDS)
        return job->news;
    job->looked = now;
    if (clef__os_ended(job->process, &code))
        conclude(dev, job);
    return job->news;
}

/* Who waited knows what serves: the child was ended by somebody else, or had no memory. */
static void tell_missing(const clef_device *dev, const clef_fused_job *job)
{
    char text[400];
    snprintf(text, sizeof text,
             "a step as one launch could not be tried on %s: its launches serve one by one", dev->info.name);
    if (clef__fused_verdict(job->record) < CLEF_PROOF_WRONG && dev->notice)
        dev->notice(dev->notice_user, text);
}

/* In steps, as the record counts them. One that says nothing for long is none: its device does not open, or
 * who holds the record is stuck.
 */
clef_status clef__fused_wait(clef_plan *plan, clef_fused_job *job, clef_error *err)
{
    const double seconds = PATIENCE * clef__proof_seconds();
    double since = clef__os_seconds();
    int32_t seen = -1, n_steps = 0;
    int is_told;
    clef_status s = CLEF_OK;
    while (!s && clef__fused_news(plan->dev, job) == CLEF_FUSED_WAITS) {
        read_record(job->record, &is_told, &n_steps);
        n_steps = n_steps < job->n_steps ? n_steps : job->n_steps;
        since = n_steps != seen ? clef__os_seconds() : since;
        seen = n_steps;
        s = clef__plan_progress(plan, "fused step", (uint64_t)n_steps, (uint64_t)job->n_steps, err);
        if (s || clef__os_seconds() - since > seconds)
            give_up(plan->dev, job);
        else
            clef__os_sleep(POLL_MS);
    }
    if (!s && job->news == CLEF_FUSED_NONE)
        tell_missing(plan->dev, job);
    return s;
}

void clef__fused_jobs_release(clef_device *dev)
{
    while (dev->fused_jobs) {
        clef_fused_job *job = dev->fused_jobs;
        dev->fused_jobs = job->next;
        if (job->process)
            clef__os_leave(job->process);
        free(job);
    }
}
