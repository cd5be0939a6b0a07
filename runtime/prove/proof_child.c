/* Having units proven in child processes: as many as there are processors, since drivers compile one kernel
 * at a time in a process. One that crashes or hangs costs its case and is started again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/proof.h"

enum {
    MAX_CHILDREN = 8,
    DEFAULT_SECONDS = 60,
    PATH_BYTES = 640,
    RESULTS_BYTES = 64 << 20,
    POLL_MS = 3,
    EXIT_INTERRUPTED = 130
};

typedef struct child {
    int64_t process;
    char results[PATH_BYTES + 64];
    char first[16]; /* the case that it begins with: its name too */
    int32_t runs;
    int32_t at, n_done; /* the case under way (-1: none), and how many it has ended */
    int32_t ended;      /* it says that no case is left */
    double since;       /* when one of these changed */
} child;

typedef struct crew {
    clef_plan *plan;
    clef_proof_units *units;
    char path[PATH_BYTES + 32];
    child children[MAX_CHILDREN];
    int32_t n, n_told;
    double seconds; /* that a case may take */
    int interrupted;
} crew;

double clef__proof_seconds(void)
{
    const char *text = clef__os_env("CLEF_PROOF_SECONDS");
    const double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : DEFAULT_SECONDS;
}

clef_status clef__proof_spawn(clef_device *dev, const char *path, const char *first, int64_t *process,
                              clef_error *err)
{
    const char *environment[CLEF_OS_MAX_SET + 1] = {
        "POCL_AFFINITY=0"}; /* bound, the first threads of all would share a processor */
    char device[32], cache[sizeof dev->cache_dir + 16];
    int n = 1;
    snprintf(cache, sizeof cache, "CLEF_CACHE_DIR=%s", dev->cache_dir); /* which the program may have named */
    environment[n++] = cache;
    if (dev->dear_binaries)
        environment[n++] = CLEF_DEAR "=1";
    if (!clef__programs_go_behind(dev))
        environment[n++] = "CLEF_BACKGROUND=0";
    snprintf(device, sizeof device, "%d:%d", (int)dev->info.platform, (int)dev->info.index);
    const char *const argv[] = {dev->prover, "selftest", "--prove", path, "--first",
                                first,       "-d",       device,    NULL};
    return clef__os_spawn(argv, environment, process, err);
}

static clef_status start(crew *c, child *w, clef_error *err)
{
    const clef_status s = clef__proof_spawn(c->plan->dev, c->path, w->first, &w->process, err);
    w->runs = !s;
    w->at = -1;
    w->since = clef__os_seconds();
    return s;
}

static void know(crew *c, int32_t number, clef_verdict verdict, double worst)
{
    clef_proof_unit *u = &c->units->at[number];
    u->known = 1;
    u->verdict = verdict;
    u->worst = worst;
}

static void take_line(crew *c, child *w, const char *line)
{
    char word[8], verdict[16];
    int number = -1;
    double worst = 0;
    const int fields = sscanf(line, "%7s %d %15s %lf", word, &number, verdict, &worst);
    w->ended |= fields == 1 && strcmp(word, "end") == 0;
    if (fields < 2 || number < 0 || number >= c->units->n)
        return;
    w->at = fields == 2 ? number : -1;
    for (int v = 0; fields == 4 && clef__verdict_names[v]; v++)
        if (strcmp(verdict, clef__verdict_names[v]) == 0) {
            know(c, number, (clef_verdict)v, worst);
            w->n_done++;
        }
}

/* All that it has said so far, from the start. */
static void read_results(crew *c, child *w)
{
    const int32_t at = w->at, n_done = w->n_done;
    char *text = NULL;
    size_t n = 0;
    if (!clef__os_is_file(w->results) || clef__os_read(w->results, RESULTS_BYTES, &text, &n, NULL))
        return;
    w->at = -1;
    w->n_done = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        take_line(c, w, line);
    }
    if (w->at != at || w->n_done != n_done)
        w->since = clef__os_seconds();
    free(text);
}

/* A case that was under way when its child ended, or ends now. Nothing under way is no fault of the kernels.
 */
static clef_status blame(crew *c, child *w, clef_verdict verdict, clef_error *err)
{
    const int32_t at = w->at;
    w->runs = 0;
    if (at < 0 || c->units->at[at].known)
        return CLEF_OK;
    know(c, at, verdict, 0);
    FILE *results = fopen(w->results, "a"); /* so that it is under way no more */
    if (results) {
        fprintf(results, "done %d %s 0\n", (int)at, clef__verdict_names[verdict]);
        fclose(results);
    }
    return start(c, w, err);
}

static clef_status watch(crew *c, child *w, clef_error *err)
{
    int code = 0;
    const int over = clef__os_ended(w->process, &code);
    read_results(c, w);
    if (w->ended) {
        if (!over)
            clef__os_leave(w->process);
        w->runs = 0;
        return CLEF_OK;
    }
    if (over) {
        c->interrupted |=
            code == EXIT_INTERRUPTED || clef__os_ended_from_outside(code); /* Ctrl-C comes to all processes */
        if (!c->interrupted)
            return blame(c, w, CLEF_PROOF_CRASHED, err);
        w->runs = 0;
    } else if (clef__os_seconds() - w->since > c->seconds) {
        clef__os_kill(w->process);
        if (w->at >= 0)
            return blame(c, w, CLEF_PROOF_HUNG, err);
        w->runs = 0; /* its device does not open */
    }
    return CLEF_OK;
}

/* One more program, of a unit that was proven, while others are: the driver's cache, or ours, has it now. */
static void build_one(const crew *c)
{
    const clef_variant *forced[CLEF_N_OPS] = {0};
    int32_t i = 0;
    while (i < c->units->n &&
           (!c->units->at[i].known || c->units->at[i].built || c->units->at[i].verdict != CLEF_PROOF_RIGHT))
        i++;
    if (i == c->units->n)
        return;
    clef_proof_unit *u = &c->units->at[i];
    const clef_lowering lo = {.caps = &c->plan->dev->info.caps,
                              .symbols = u->symbols,
                              .gemm = c->plan->opts.compile.gemm,
                              .forced = forced};
    forced[u->node->op] = u->kernels.variant;
    clef__proof_build(c->plan->dev, &lo, u->node);
    u->built = 1;
}

static int32_t n_running(const crew *c)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->n; i++)
        n += c->children[i].runs;
    return n;
}

static clef_status tell_progress(crew *c, clef_error *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->units->n; i++)
        n += c->units->at[i].known;
    const int news = n != c->n_told || c->interrupted;
    c->n_told = n;
    return news ? clef__plan_progress(c->plan, "proof", (uint64_t)n, (uint64_t)c->units->n, err) : CLEF_OK;
}

static clef_status run(crew *c, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < c->n && !s; i++) {
        child *w = &c->children[i];
        snprintf(w->first, sizeof w->first, "%d", (int)((int64_t)i * c->units->n / c->n));
        snprintf(w->results, sizeof w->results, "%s.%s.out", c->path, w->first);
        clef__os_remove(w->results);
        s = start(c, w, err);
    }
    while (!s && n_running(c) && !c->interrupted) {
        clef__os_sleep(POLL_MS);
        for (int32_t i = 0; i < c->n && !s; i++)
            if (c->children[i].runs)
                s = watch(c, &c->children[i], err);
        build_one(c);
        if (!s)
            s = tell_progress(c, err);
    }
    for (int32_t i = 0; i < c->n; i++)
        if (c->children[i].runs)
            clef__os_kill(c->children[i].process);
    return s;
}

static void remove_files(const crew *c)
{
    char name[PATH_BYTES + 64];
    for (int32_t i = 0; i < c->units->n; i++) {
        snprintf(name, sizeof name, "%s.%d", c->path, (int)i);
        clef__os_remove(name);
    }
    for (int32_t i = 0; i < c->n; i++)
        clef__os_remove(c->children[i].results);
    clef__os_remove(c->path);
}

clef_status clef__proof_by_children(clef_plan *plan, clef_proof_units *units, clef_error *err)
{
    char dir[PATH_BYTES];
    crew *c = calloc(1, sizeof *c);
    if (!c)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a proof");
    c->plan = plan;
    c->units = units;
    c->seconds = clef__proof_seconds();
    c->n = clef__os_n_cpus() < units->n ? clef__os_n_cpus() : units->n;
    c->n = c->n > MAX_CHILDREN ? MAX_CHILDREN : c->n;
    snprintf(dir, sizeof dir, "%s/proof", plan->dev->cache_dir);
    snprintf(c->path, sizeof c->path, "%s/cases-%lld", dir, (long long)clef__os_pid());
    clef_status s = clef__os_make_dirs(dir, NULL) ? CLEF_E_IO : clef__proof_write(c->path, plan, units, NULL);
    clef__programs_save_cheap(plan->dev); /* finds out for all whether it is cheap */
    if (!s) {
        s = run(c, err);
        plan->dev->saved_behind |= clef__programs_go_behind(plan->dev);
    }
    remove_files(c);
    free(c);
    return s;
}
