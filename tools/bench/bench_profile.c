/* `clef bench --profile`: how a step's time is divided between ops and kernels. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/cli/terminal.h"

enum { NAME_BYTES = 64 };

/** A step's launches and their times, entry by entry. */
typedef struct profiled {
    const clef_launch_info *launches;
    const clef_launch_time *times;
    int32_t n;
} profiled;

/** Writes the name of launch i in a table. */
typedef void (*namer)(const profiled *s, int32_t i, char name[NAME_BYTES]);

/** A line of a table: all launches with one name. */
typedef struct group {
    char name[NAME_BYTES];
    int32_t n;
    double us, flops, bytes;
    double least_us; /* the least time that the device's limits allow */
    double idle_us;  /* the device's idle time before its launches */
} group;

static int by_time(const void *a, const void *b)
{
    const double x = ((const group *)a)->us, y = ((const group *)b)->us;
    return (x < y) - (x > y);
}

static void op_of(const profiled *s, int32_t i, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s", s->times[i].op);
}

static void layer_of(const profiled *s, int32_t i, char name[NAME_BYTES])
{
    const char *node = s->times[i].node;
    const int stack = strncmp(node, "encoder.", 8) == 0 || strncmp(node, "decoder.", 8) == 0 ? 8 : 0;
    int layer;
    if (sscanf(node + stack, "layer%d.", &layer) == 1 && layer >= 0)
        snprintf(name, NAME_BYTES, "%.*s%slayer %d", stack ? stack - 1 : 0, node, stack ? " " : "", layer);
    else
        snprintf(name, NAME_BYTES, "outside of layers");
}

/* The part of the model that a value of a role belongs to (docs/graph-format.md lists the names). */
static const char *module_of_name(const char *name)
{
    static const struct {
        const char *begins, *module;
    } roles[] = {
        {"attn", "attention"},      {"cross", "attention"}, {"mlp", "feed-forward"}, {"out", "feed-forward"},
        {"per_layer", "embedding"}, {"embed", "embedding"}, {"logits", "head"},      {"head.", "head"},
        {"hidden_last", "head"},    {"final_norm", "head"}, {"token", "sampling"},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strncmp(name, roles[i].begins, strlen(roles[i].begins)) == 0)
            return roles[i].module;
    return "other";
}

/* A node's name without its scopes: "attn.q" for "decoder.layer0.attn.q". */
static const char *role_of(const char *node)
{
    const char *at = strncmp(node, "encoder.", 8) == 0 || strncmp(node, "decoder.", 8) == 0 ? node + 8 : node;
    int layer, n = 0;
    return sscanf(at, "layer%d.%n", &layer, &n) == 1 && n > 0 ? at + n : at;
}

static void variant_of(const profiled *s, int32_t i, char name[NAME_BYTES])
{
    const clef_launch_info *l = &s->launches[i];
    if (l->variant)
        snprintf(name, NAME_BYTES, "%s %s", l->op, l->variant);
    else
        snprintf(name, NAME_BYTES, "without variants");
}

static void module_of(const profiled *s, int32_t i, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s", module_of_name(role_of(s->times[i].node)));
}

static void kernel_of(const profiled *s, int32_t i, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s", s->times[i].kernel);
}

double cli_bench_least_us(const bench *b, const clef_launch_time *t)
{
    const double limit = cli_bench_limit(b, &b->speed);
    const double reading = b->speed.read_gb_s > 0 ? t->bytes / b->speed.read_gb_s * 1e-3 : 0;
    const double computing = limit > 0 ? t->flops / limit * 1e-3 : 0;
    return reading > computing ? reading : computing;
}

/* The device's idle time before launch i. */
static double idle_before(const clef_launch_time *times, int32_t i)
{
    const double gap = i ? times[i].start_us - times[i - 1].start_us - times[i - 1].us : 0;
    return gap > 0 ? gap : 0;
}

/* Groups the launches by name, the longest group first. `groups` has room for the step's launches. Returns
 * their number. */
static int32_t group_by(const bench *b, const profiled *s, namer name_of, group *groups)
{
    int32_t n_groups = 0;
    for (int32_t i = 0; i < s->n; i++) {
        char name[NAME_BYTES];
        int32_t k = 0;
        name_of(s, i, name);
        while (k < n_groups && strcmp(groups[k].name, name) != 0)
            k++;
        if (k == n_groups) {
            groups[n_groups++] = (group){0};
            memcpy(groups[k].name, name, sizeof name);
        }
        groups[k].n++;
        groups[k].us += s->times[i].us;
        groups[k].flops += s->times[i].flops;
        groups[k].bytes += s->times[i].bytes;
        groups[k].least_us += cli_bench_least_us(b, &s->times[i]);
        groups[k].idle_us += idle_before(s->times, i);
    }
    qsort(groups, (size_t)n_groups, sizeof *groups, by_time);
    return n_groups;
}

static void print_groups(const bench *b, const char *title, const group *groups, int32_t n)
{
    const char *const row = b->o->md ? "| %s | %" PRId32 " | %.3f | %.1f | %.1f | %.1f | %.0f | %.3f |\n"
                                     : "%-24s %8" PRId32 " %10.3f %7.1f %10.1f %10.1f %9.0f %9.3f\n";
    double total = 0;
    for (int32_t i = 0; i < n; i++)
        total += groups[i].us;
    fprintf(b->to,
            b->o->md ? "\n| %s | %s | %s | %s | %s | %s | %s | %s |\n|---|---|---|---|---|---|---|---|\n"
                     : "%-24s %8s %10s %7s %10s %10s %9s %9s\n",
            title, "launches", "ms", "%", "GB/s", "Gop/s", "% limit", "idle ms");
    for (int32_t i = 0; i < n; i++) {
        const group *g = &groups[i];
        const double each = g->us > 0 ? 1 / g->us : 0; /* without a time there are no rates */
        fprintf(b->to, row, g->name, g->n, g->us * 1e-3, total > 0 ? 100 * g->us / total : 0,
                g->bytes * each * 1e-3, g->flops * each * 1e-3, 100 * g->least_us * each, g->idle_us * 1e-3);
    }
}

static void print_step(const bench *b, const char *what, double seconds, const profiled *s, group *groups)
{
    static const struct {
        const char *title;
        namer name_of;
    } tables[] = {{"module", module_of},
                  {"layer", layer_of},
                  {"op", op_of},
                  {"variant", variant_of},
                  {"kernel", kernel_of}};
    double us = 0, idle = 0;
    for (int32_t i = 0; i < s->n; i++) {
        us += s->times[i].us;
        idle += idle_before(s->times, i);
    }
    fprintf(b->to,
            "%s: %.3f ms, of it %.3f ms in %" PRId32 " launches on the device and %.3f ms between them\n",
            what, seconds * 1e3, us * 1e-3, s->n, idle * 1e-3);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        print_groups(b, tables[i].title, groups, group_by(b, s, tables[i].name_of, groups));
    fputc('\n', b->to);
}

int cli_profile_step(const bench *b, const char *title, double seconds)
{
    clef_error err = {0};
    const clef_plan *plan = clef_session_plan(b->session, 0);
    const int32_t capacity = clef_session_describe(b->session).n_launches;
    clef_launch_time *times = malloc(((size_t)capacity + 1) * sizeof *times);
    clef_launch_info *launches = calloc((size_t)capacity + 1, sizeof *launches);
    group *groups = malloc(((size_t)capacity + 1) * sizeof *groups);
    int rc = CLI_GO_ON;
    if (!times || !launches || !groups) {
        rc = cli_fail(CLI_FAILED, "--profile: out of host memory");
    } else {
        const int32_t all = clef_session_profile(b->session, times, capacity, &err),
                      n = all < capacity ? all : capacity;
        if (n && seconds <= 0)
            seconds = (times[n - 1].start_us + times[n - 1].us - times[0].queued_us) * 1e-6;
        clef_plan_launches(plan, launches, n);
        if (err.status)
            rc = cli_report(&err);
        else
            print_step(b, title, seconds, &(profiled){launches, times, n}, groups);
    }
    free(groups);
    free(launches);
    free(times);
    return rc;
}

int32_t cli_bench_step_tokens(const bench *b)
{
    return b->n_prompt < b->o->n_batch ? b->n_prompt : b->o->n_batch;
}

clef_status cli_bench_second_step(bench *b, int32_t n, int32_t depth, double *start, double *seconds,
                                  clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < 2 && status == CLEF_OK; i++) {
        status = clef_session_reset(b->session, err);
        if (status == CLEF_OK && depth)
            status = cli_bench_feed(b, depth, NULL, NULL, err);
        const double began = cli_terminal_seconds();
        if (status == CLEF_OK)
            status = cli_bench_feed(b, n, NULL, NULL, err);
        if (start)
            *start = began;
        if (seconds)
            *seconds = cli_terminal_seconds() - began;
    }
    return status;
}

static int profile_step(bench *b, const char *what, int32_t n_tokens, int32_t depth)
{
    clef_error err = {0};
    char title[96];
    double start = 0, seconds = 0;
    clef_status status = cli_bench_second_step(b, n_tokens, depth, &start, &seconds, &err);
    if (status == CLEF_OK)
        status = cli_trace_step(&b->trace, b->session, what, start, &err);
    cli_progress_finish(&b->progress);
    if (status != CLEF_OK)
        return cli_report(&err);
    snprintf(title, sizeof title, "%s of %" PRId32 " token%s after %" PRId32, what, n_tokens,
             n_tokens == 1 ? "" : "s", depth);
    return cli_profile_step(b, title, seconds);
}

void cli_profile_limits(const bench *b)
{
    fprintf(b->to,
            "limits of the device: %.1f GB/s read, %.1f Gop/s; %% limit: the least time that they allow, as "
            "a share of the time it took\n\n",
            b->speed.read_gb_s, cli_bench_limit(b, &b->speed));
}

int cli_bench_profile(bench *b)
{
    const int32_t step = cli_bench_step_tokens(b);
    int rc = CLI_GO_ON;
    clef_error err = {0};
    cli_profile_limits(b);
    if (cli_trace_begin(&b->trace, b->o->trace, clef_model_path(b->model),
                        clef_device_describe(b->device)->name, &err) != CLEF_OK)
        return cli_report(&err);
    if (step)
        rc = profile_step(b, "prefill", step, 0);
    if (rc == CLI_GO_ON && b->n_gen)
        rc = profile_step(b, "decode", 1, b->o->depth);
    if (cli_trace_end(&b->trace, &err) != CLEF_OK)
        return cli_report(&err);
    return rc == CLI_GO_ON ? CLI_OK : rc;
}
