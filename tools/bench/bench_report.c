/* `clef bench --report`: measures the device, the bundled model and a given one, and gathers what is known of
 * the device's kernels, for a file that can be attached to an issue. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/cache.h"
#include "tools/bench/bench_report.h"
#include "tools/cli/output.h"
#include "tools/cli/terminal.h"

enum { PATH_BYTES = 768 };

/* ---- names ----------------------------------------------------------------------------------- */

static const char *last_part(const char *path, int *n)
{
    size_t end = strlen(path), from;
    while (end > 0 && (path[end - 1] == '/' || path[end - 1] == '\\'))
        end--;
    for (from = end; from > 0 && path[from - 1] != '/' && path[from - 1] != '\\'; from--)
        continue;
    *n = (int)(end - from);
    return path + from;
}

/* A home folder is usually called as its user is. */
static int is_home(const char *name, int n)
{
    static const char *const variables[] = {"HOME", "USERPROFILE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *home = getenv(variables[i]);
        int n_home = 0;
        const char *user = home ? last_part(home, &n_home) : NULL;
        if (n_home == n && strncmp(user, name, (size_t)n) == 0)
            return 1;
    }
    return 0;
}

/* The last part of a path. Of the rest nothing goes into the report, and of ".", ".." or the user's own
 * folder neither. */
static void name_model(const char *path, char *out, size_t capacity)
{
    int n = 0;
    const char *name = last_part(path, &n);
    if (n == 0 || name[0] == '.' || name[0] == '~' || is_home(name, n)) {
        name = "a model";
        n = (int)strlen(name);
    }
    snprintf(out, capacity, "%.*s", n, name);
}

/* ---- launches -------------------------------------------------------------------------------- */

static int is_same(const report_launch *a, const report_launch *b)
{
    return strcmp(a->step, b->step) == 0 && strcmp(a->kernel, b->kernel) == 0 && strcmp(a->op, b->op) == 0 &&
           strcmp(a->variant, b->variant) == 0 && memcmp(a->groups, b->groups, sizeof a->groups) == 0 &&
           memcmp(a->local, b->local, sizeof a->local) == 0 && !(a->flops < b->flops) &&
           !(a->flops > b->flops) && !(a->bytes < b->bytes) && !(a->bytes > b->bytes);
}

static clef_status add_launch(report_model *m, const report_launch *l, clef_error *err)
{
    for (int32_t i = 0; i < m->n_launches; i++) {
        report_launch *at = &m->launches[i];
        if (!is_same(at, l))
            continue;
        at->us = (at->us * at->count + l->us) / (at->count + 1);
        at->count++;
        return CLEF_OK;
    }
    if (m->n_launches == m->cap_launches) {
        const int32_t cap = 2 * m->cap_launches + 64;
        report_launch *grown = realloc(m->launches, (size_t)cap * sizeof *grown);
        if (!grown)
            return cli_error(err, CLEF_E_NOMEM, "bench: no memory for %" PRId32 " launches", cap);
        m->launches = grown;
        m->cap_launches = cap;
    }
    m->launches[m->n_launches++] = *l;
    return CLEF_OK;
}

static clef_status add_launches(const bench *b, report_model *m, const char *step, clef_error *err)
{
    const int32_t capacity = clef_session_describe(b->session).n_launches;
    clef_launch_time *times = malloc(((size_t)capacity + 1) * sizeof *times);
    clef_launch_info *launches = calloc((size_t)capacity + 1, sizeof *launches);
    clef_error why = {0};
    clef_status s = times && launches ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "bench: out of host memory");
    const int32_t all = s ? 0 : clef_session_profile(b->session, times, capacity, &why),
                  n = all < capacity ? all : capacity;
    if (!s && why.status) {
        *err = why;
        s = why.status;
    }
    if (!s)
        clef_plan_launches(clef_session_plan(b->session, 0), launches, n);
    for (int32_t i = 0; i < n && !s; i++) {
        report_launch l = {.count = 1,
                           .flops = times[i].flops,
                           .bytes = times[i].bytes,
                           .us = times[i].us,
                           .least_us = cli_bench_least_us(b, &times[i])};
        snprintf(l.step, sizeof l.step, "%s", step);
        snprintf(l.kernel, sizeof l.kernel, "%s", times[i].kernel);
        snprintf(l.op, sizeof l.op, "%s", times[i].op);
        snprintf(l.node, sizeof l.node, "%s", times[i].node);
        snprintf(l.variant, sizeof l.variant, "%s", launches[i].variant ? launches[i].variant : "");
        memcpy(l.groups, launches[i].groups, sizeof l.groups);
        memcpy(l.local, launches[i].local, sizeof l.local);
        s = add_launch(m, &l, err);
    }
    free(launches);
    free(times);
    return s;
}

static clef_status profile_step(bench *b, report_model *m, const char *what, int32_t n_tokens, int32_t depth,
                                clef_error *err)
{
    char step[32];
    const clef_status s = cli_bench_second_step(b, n_tokens, depth, NULL, NULL, err);
    snprintf(step, sizeof step, "%s %" PRId32 " after %" PRId32, what, n_tokens, depth);
    return s ? s : add_launches(b, m, step, err);
}

/* ---- what is known of kernels ---------------------------------------------------------------- */

static void note_aside(void *user, const clef_cache_aside *a)
{
    report *r = user;
    if (r->n_aside == REPORT_MAX_ASIDE || strcmp(a->device, r->device.name) != 0)
        return;
    report_aside *to = &r->aside[r->n_aside++];
    snprintf(to->op, sizeof to->op, "%s", a->op);
    snprintf(to->variant, sizeof to->variant, "%s", a->variant);
    snprintf(to->why, sizeof to->why, "%s", a->why);
}

static clef_status list_kernels(bench *b, report *r, clef_error *err)
{
    char dir[PATH_BYTES];
    clef_status s = clef_variants_list(b->device, &r->variants, &r->n_variants, err);
    if (!s && clef_cache_dir(dir, sizeof dir))
        s = clef_cache_list(dir, &(clef_cache_report){.aside = note_aside, .user = r}, err);
    return s;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void close_all(bench *b)
{
    cli_bench_close_model(b);
    clef_device_close(b->device);
    b->device = NULL;
}

static int measure_device(bench *b, report *r)
{
    clef_error err = {0};
    int rc = cli_bench_open_device(b);
    if (rc == CLI_GO_ON) {
        r->device = *clef_device_describe(b->device);
        if (clef_device_measure(b->device, &b->speed, &err) != CLEF_OK)
            rc = cli_report(&err);
        r->speed = b->speed;
    }
    return rc;
}

/* What tells which model it is, whatever its name. */
static void describe_model(const clef_model *model, report_model *m)
{
    const clef_hparams *hp = clef_model_hparams(model);
    uint64_t bytes[CLEF_N_DTYPES] = {0};
    int32_t most = 0;
    for (int32_t i = 0; i < clef_model_n_tensors(model); i++) {
        const clef_tensor_info t = clef_model_tensor(model, i);
        m->n_bytes += t.n_bytes;
        if ((int32_t)t.dtype < CLEF_N_DTYPES)
            bytes[t.dtype] += t.n_bytes;
    }
    for (int32_t i = 1; i < CLEF_N_DTYPES; i++)
        most = bytes[i] > bytes[most] ? i : most;
    m->dtype = clef_dtype_name((clef_dtype)most);
    m->n_layers = hp->n_layers;
    m->d_model = hp->d_model;
    m->n_vocab = hp->n_vocab;
    snprintf(m->arch, sizeof m->arch, "%s", hp->arch);
}

/* Without profiling, which slows some devices. */
static int measure_rates(bench *b, const char *path, report_model *m)
{
    b->n_rates = 0;
    const int rc = cli_bench_open(b, path);
    if (rc != CLI_GO_ON)
        return rc;
    describe_model(b->model, m);
    m->limit = cli_bench_limit(b, &b->speed);
    m->load_seconds = b->load_seconds;
    m->first_seconds = b->first_seconds;
    const int measured = cli_bench_measure(b);
    memcpy(m->rates, b->rates, sizeof m->rates);
    m->n_rates = b->n_rates;
    return measured;
}

static int measure_launches(bench *b, const char *path, report_model *m)
{
    clef_error err = {0};
    const int rc = cli_bench_open(b, path);
    if (rc != CLI_GO_ON)
        return rc;
    const int32_t step = cli_bench_step_tokens(b);
    clef_status s = step ? profile_step(b, m, "prefill", step, 0, &err) : CLEF_OK;
    if (!s && b->n_gen)
        s = profile_step(b, m, "decode", 1, b->o->depth, &err);
    return s ? cli_report(&err) : CLI_GO_ON;
}

static int measure_models(bench *b, report *r, const char *const paths[REPORT_MAX_MODELS])
{
    int rc = CLI_GO_ON;
    for (int32_t i = 0; i < r->n_models && rc == CLI_GO_ON; i++) {
        rc = measure_rates(b, paths[i], &r->models[i]);
        cli_bench_close_model(b);
    }
    clef_error err = {0};
    if (b->device && list_kernels(b, r, &err) != CLEF_OK && rc == CLI_GO_ON)
        rc = cli_report(&err);
    close_all(b);
    b->is_profiled = 1;
    for (int32_t i = 0; i < r->n_models && rc == CLI_GO_ON; i++) {
        rc = measure_launches(b, paths[i], &r->models[i]);
        cli_bench_close_model(b);
    }
    return rc;
}

/* What failed was reported on stderr, with the driver's words; the report says only that it failed. */
int cli_bench_report(bench *b, const char *given)
{
    const char *paths[REPORT_MAX_MODELS] = {clef_demo_model(), given};
    clef_error err = {0};
    report *r = calloc(1, sizeof *r);
    if (!r)
        return cli_fail(CLI_FAILED, "bench: out of host memory");
    if (cli_output_check(b->o->report, &err) != CLEF_OK) {
        free(r);
        return cli_report(&err);
    }
    r->n_models = given && strcmp(given, paths[0]) != 0 ? 2 : 1;
    for (int32_t i = 0; i < r->n_models; i++)
        name_model(paths[i], r->models[i].name, sizeof r->models[i].name);
    int rc = measure_device(b, r);
    if (rc == CLI_GO_ON)
        rc = measure_models(b, r, paths);
    if (rc != CLI_GO_ON)
        snprintf(r->failure, sizeof r->failure, "stopped before the end");
    if (r->device.name[0] && cli_output(b->o->report, cli_report_write, r, &err) != CLEF_OK)
        rc = cli_report(&err);
    cli_progress_finish(&b->progress);
    if (rc == CLI_GO_ON && !b->o->quiet)
        printf("The report is in %s. Read it before you attach it to an issue.\n", b->o->report);
    for (int32_t i = 0; i < r->n_models; i++)
        free(r->models[i].launches);
    clef_variants_free(r->variants);
    free(r);
    return rc == CLI_GO_ON ? CLI_OK : rc;
}
