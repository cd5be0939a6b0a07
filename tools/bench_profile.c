/* `clef bench --profile`: which ops and which kernels a step's time goes to. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/terminal.h"

/** A line of a table: the launches of one name. */
typedef struct group {
    const char *name;
    int32_t n;
    double us, flops, bytes;
    double least_us; /* what the device's limits allow */
    double idle_us;  /* before its launches */
} group;

static int by_time(const void *a, const void *b)
{
    const double x = ((const group *)a)->us, y = ((const group *)b)->us;
    return (x < y) - (x > y);
}

static const char *op_of(const clef_launch_time *t)
{
    return t->op;
}

/* What follows needs the plan's graph: a node's part of the model. */
static const clef_graph *of_graph;

static const char *layer_of(const clef_launch_time *t)
{
    static char names[CLEF_MAX_LAYERS][20];
    int layer;
    const char *name = strncmp(t->node, "encoder.", 8) == 0 || strncmp(t->node, "decoder.", 8) == 0 ? t->node + 8 : t->node;
    if (sscanf(name, "layer%d.", &layer) != 1 || layer < 0 || layer >= CLEF_MAX_LAYERS)
        return "outside of layers";
    snprintf(names[layer], sizeof names[layer], "layer %d", layer);
    return names[layer];
}

/* What a weight's name tells, in folders and in GGUF files. */
static const char *module_of_weight(const char *name)
{
    static const struct {
        const char *part, *module;
    } parts[] = {
        {"ffn", "feed-forward"},
        {"mlp", "feed-forward"},
        {"feed_forward", "feed-forward"},
        {"fc1", "feed-forward"},
        {"fc2", "feed-forward"},
        {"DenseReluDense", "feed-forward"},
        {"intermediate", "feed-forward"},
        {"experts", "feed-forward"},
        {"attn", "attention"},
        {"attention", "attention"},
        {"Attention", "attention"},
        {"q_proj", "attention"},
        {"embed", "embedding"},
        {"wte", "embedding"},
        {"wpe", "embedding"},
        {"lm_head", "head"},
        {"output", "head"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i].part))
            return parts[i].module;
    return NULL;
}

/* By the weights that a node reads, packed ones too; attention has none. */
static const char *find_module(const clef_value *v, int depth)
{
    int32_t n = 0;
    const clef_value_info info = clef_value_describe(v);
    const char *module = info.kind == CLEF_WEIGHT ? module_of_weight(info.name) : NULL;
    if (info.op && strstr(info.op, "attention"))
        return "attention";
    clef_value_input(v, 0, &n);
    for (int32_t i = n - 1; i >= 0 && !module && (depth == 0 || (info.op && strcmp(info.op, "pack") == 0)); i--)
        if (clef_value_input(v, i, NULL))
            module = find_module(clef_value_input(v, i, NULL), depth + 1);
    return module;
}

/* What was launched, entry by entry as the times. */
static const clef_launch_info *of_launches;
static const clef_launch_time *of_times;

static const char *variant_of(const clef_launch_time *t)
{
    static char names[64][64]; /* op and variant; more than there are variants */
    static int32_t n_names;
    char name[sizeof *names];
    const clef_launch_info *l = &of_launches[t - of_times];
    int32_t i = 0;
    if (!l->variant)
        return "without variants";
    snprintf(name, sizeof name, "%s %s", l->op, l->variant);
    while (i < n_names && strcmp(names[i], name) != 0)
        i++;
    if (i == n_names && n_names < (int32_t)(sizeof names / sizeof *names))
        strcpy(names[n_names++], name);
    return i < n_names ? names[i] : "further variants";
}

static const char *module_of(const clef_launch_time *t)
{
    const clef_value *v = clef_graph_find(of_graph, t->node);
    const char *module = v ? find_module(v, 0) : NULL;
    if (strcmp(t->node, "logits") == 0)
        return "head";
    return module ? module : strcmp(t->op, "sample") == 0 ? "sampling" : "other";
}

static const char *kernel_of(const clef_launch_time *t)
{
    return t->kernel;
}

/* Memory must be read and operations done; the slower of both. */
static double least_us(const bench *b, const clef_launch_time *t)
{
    const double limit = clef__bench_limit(b, &b->speed);
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

/* `groups` has room for n. Returns how many there are, the longest first. */
static int32_t group_by(const bench *b, const clef_launch_time *times, int32_t n, const char *(*name_of)(const clef_launch_time *),
                        group *groups)
{
    int32_t n_groups = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t k = 0;
        while (k < n_groups && strcmp(groups[k].name, name_of(&times[i])) != 0)
            k++;
        if (k == n_groups)
            groups[n_groups++] = (group){.name = name_of(&times[i])};
        groups[k].n++;
        groups[k].us += times[i].us;
        groups[k].flops += times[i].flops;
        groups[k].bytes += times[i].bytes;
        groups[k].least_us += least_us(b, &times[i]);
        groups[k].idle_us += idle_before(times, i);
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
        const double us = g->us > 0 ? g->us : 1e-3;
        fprintf(b->to, row, g->name, g->n, g->us * 1e-3, total > 0 ? 100 * g->us / total : 0, g->bytes / us * 1e-3, g->flops / us * 1e-3,
                100 * g->least_us / us, g->idle_us * 1e-3);
    }
}

static int print_step(const bench *b, const char *what, double seconds, const clef_launch_time *times, int32_t n)
{
    double us = 0, idle = 0;
    group *groups = malloc(((size_t)n + 1) * sizeof *groups);
    if (!groups)
        return clef__cli_fail(CLI_FAILED, "--profile: out of host memory");
    for (int32_t i = 0; i < n; i++) {
        us += times[i].us;
        idle += idle_before(times, i);
    }
    fprintf(b->to, "%s: %.3f ms, of it %.3f ms in %" PRId32 " launches on the device and %.3f ms between them\n", what, seconds * 1e3,
            us * 1e-3, n, idle * 1e-3);
    clef_launch_info *launches = calloc((size_t)n + 1, sizeof *launches);
    if (!launches) {
        free(groups);
        return clef__cli_fail(CLI_FAILED, "--profile: out of host memory");
    }
    clef_plan_launches(clef_session_plan(b->session, 0), launches, n);
    of_graph = clef_plan_graph(clef_session_plan(b->session, 0));
    of_launches = launches;
    of_times = times;
    print_groups(b, "module", groups, group_by(b, times, n, module_of, groups));
    print_groups(b, "layer", groups, group_by(b, times, n, layer_of, groups));
    print_groups(b, "op", groups, group_by(b, times, n, op_of, groups));
    print_groups(b, "variant", groups, group_by(b, times, n, variant_of, groups));
    print_groups(b, "kernel", groups, group_by(b, times, n, kernel_of, groups));
    fputc('\n', b->to);
    free(launches);
    free(groups);
    return CLI_GO_ON;
}

int clef__profile_step(const bench *b, const char *title, double seconds)
{
    clef_error err = {0};
    const int32_t capacity = clef_session_describe(b->session).n_launches;
    clef_launch_time *times = malloc(((size_t)capacity + 1) * sizeof *times);
    if (!times)
        return clef__cli_fail(CLI_FAILED, "--profile: out of host memory");
    const int32_t n = clef_session_profile(b->session, times, capacity, &err);
    if (n && seconds <= 0)
        seconds = (times[n - 1].start_us + times[n - 1].us - times[0].queued_us) * 1e-6;
    const int rc = err.status ? clef__cli_report(&err) : print_step(b, title, seconds, times, n);
    free(times);
    return rc;
}

/* One step after one that does not count, from a cache of `depth` tokens. */
static int profile_step(bench *b, const char *what, int32_t n_tokens, int32_t depth)
{
    clef_error err = {0};
    char title[96];
    double seconds = 0;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < 2 && status == CLEF_OK; i++) {
        status = clef_session_reset(b->session, &err);
        if (status == CLEF_OK && depth)
            status = clef__bench_feed(b, depth, NULL, NULL, &err);
        const double start = clef__terminal_seconds();
        if (status == CLEF_OK)
            status = clef__bench_feed(b, n_tokens, NULL, NULL, &err);
        seconds = clef__terminal_seconds() - start;
        if (status == CLEF_OK && i == 1)
            status = clef__trace_step(&b->trace, b->session, what, start, &err);
    }
    clef__progress_finish(&b->progress);
    if (status != CLEF_OK)
        return clef__cli_report(&err);
    snprintf(title, sizeof title, "%s of %" PRId32 " token%s after %" PRId32, what, n_tokens, n_tokens == 1 ? "" : "s", depth);
    return clef__profile_step(b, title, seconds);
}

void clef__profile_limits(const bench *b)
{
    fprintf(
        b->to,
        "limits of the device: %.1f GB/s read, %.1f Gop/s; %% limit: the least time that they allow, as a share of the time it took\n\n",
        b->speed.read_gb_s, clef__bench_limit(b, &b->speed));
}

int clef__bench_profile(bench *b)
{
    const int32_t step = b->n_prompt < b->o->n_batch ? b->n_prompt : b->o->n_batch;
    int rc = CLI_GO_ON;
    clef_error err = {0};
    clef__profile_limits(b);
    if (clef__trace_begin(&b->trace, b->o->trace, clef_model_path(b->model), clef_device_describe(b->device)->name, &err) != CLEF_OK)
        return clef__cli_report(&err);
    if (step)
        rc = profile_step(b, "prefill", step, 0);
    if (rc == CLI_GO_ON && b->n_gen)
        rc = profile_step(b, "decode", 1, b->o->depth);
    if (clef__trace_end(&b->trace, &err) != CLEF_OK)
        return clef__cli_report(&err);
    return rc == CLI_GO_ON ? CLI_OK : rc;
}
