/* Plans: making one, binding symbols, writing, running, reading. */
#include "runtime/plan/plan.h"
#include "graph/pass/pass.h"
#include "runtime/os/os.h"
#include "runtime/plan/fused.h"
#include "runtime/plan/pipeline.h"
#include "runtime/plan/replay.h"
#include "runtime/prove/proof.h"
#include "runtime/tune/tune.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making
 * ----------------------------------------------------------------------------------------------------------------------
 */

/* Outputs are read as they lie, so each is made dense. */
static clef_status make_outputs_dense(clef_graph *g, clef_error *err)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (!clef__is_dense(g->outputs[i].value)) {
            clef_value *copy = clef_copy(g, g->outputs[i].value);
            if (copy)
                g->outputs[i].value = copy;
        }
    return clef_graph_error(g, err);
}

static clef_status find_inputs(clef_plan *plan, clef_error *err)
{
    plan->inputs = calloc((size_t)plan->graph->n_values + 1, sizeof *plan->inputs);
    if (!plan->inputs)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for its inputs");
    for (int32_t i = 0; i < plan->graph->n_values; i++) {
        clef_value *v = plan->graph->values[i];
        if (v->kind != CLEF_INPUT)
            continue;
        clef_io *io = &plan->inputs[plan->n_inputs++];
        io->value = v;
        plan->stats.staging_bytes += (uint64_t)clef__bytes(v, NULL);
        if (plan->opts.describe_only)
            continue;
        io->staging = malloc((size_t)clef__bytes(v, NULL));
        if (!io->staging)
            return clef__fail(err, CLEF_E_NOMEM, "input %s: no memory for %" PRId64 " bytes", v->name,
                              clef__bytes(v, NULL));
    }
    return CLEF_OK;
}

static clef_status lower_at(clef_plan *plan, int64_t most, clef_error *err)
{
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        plan->symbols[i] = plan->graph->symbols[i].bound < most ? plan->graph->symbols[i].bound : most;
    clef_status s = clef__plan_lower(plan, err);
    for (int32_t i = 0; i < plan->n_launches && !s; i++)
        s = clef__plan_grow_scratch(plan, plan->launches[i].scratch_bytes, err);
    return s;
}

typedef enum build { BUILD_NOW, BUILD_AT_USE } build;

static clef_status build_at(clef_plan *plan, int64_t most, uint64_t *done, uint64_t total, clef_error *err)
{
    clef_status s = lower_at(plan, most, err);
    if (!s)
        s = clef__plan_warm(plan, *done, total, err);
    *done += (uint64_t)plan->n_launches;
    return s;
}

/* Makes the kernels for the symbols at 1 and at the first run's values, and lets the driver finish compiling
 * them; or leaves each to the run that needs it. */
static clef_status build_kernels(clef_plan *plan, build when, clef_error *err)
{
    static const int64_t counted[] = {1, 2, INT64_MAX};
    const int64_t first = plan->opts.expected_length > 0 ? plan->opts.expected_length : INT64_MAX;
    plan->bound = calloc((size_t)plan->graph->n_values + 1, sizeof(clef_bound *));
    if (!plan->bound)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for its launches");
    clef_status s = CLEF_OK;
    uint64_t done = 0, total = 0;
    for (size_t i = 0; i < sizeof counted / sizeof *counted && !s;
         i++) { /* before any buffer is bound: the scratch may grow */
        s = lower_at(plan, counted[i], err);
        if (!s && plan->opts.compile.strict)
            s = clef__strict_check(plan, err);
        if (!s && counted[i] == 1)
            plan->stats.fused_bytes = clef__fused_bytes(plan);
        total = counted[i] == 2 ? total : total + (uint64_t)plan->n_launches;
    }
    if (s || plan->opts.describe_only)
        return s;
    if (when == BUILD_NOW)
        s = build_at(plan, 1, &done, total, err);
    if (!s && when == BUILD_NOW && first > 1)
        s = build_at(plan, first, &done, total, err);
    if (!s && (when == BUILD_AT_USE || first != INT64_MAX)) {
        s = lower_at(plan, INT64_MAX, err);
        plan->stale = 1; /* nothing of it is bound */
    }
    if (!s && when == BUILD_NOW)
        s = clef__fused_make(plan, err);
    if (!s)
        s = clef__plan_zero_states(plan, err);
    return s ? s : clef__plan_progress(plan, "kernels", total, total, err);
}

/* What is known of this device's variants, measured now where the database does not know the graph's
 * products. */
static clef_status take_tuning(clef_plan *plan, clef_error *err)
{
    clef_tune_db *db = NULL;
    clef_status s =
        plan->opts.describe_only ? CLEF_OK : clef__tune_at_load(plan->dev, plan->graph, &plan->opts, err);
    if (!s)
        s = clef__tune_db_open(plan->dev, &db, err);
    return s ? s : clef__tuning_make(db, &plan->tuning, err);
}

static clef_status create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts, build when,
                          clef_plan **out, clef_error *err)
{
    *out = NULL;
    clef_status s = clef_graph_error(graph, err);
    if (!s)
        s = clef__device_ready(dev, err);
    if (s)
        return s;
    clef_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a plan");
    plan->dev = dev;
    dev->n_plans++;
    if (opts)
        plan->opts = *opts;
    if (plan->opts.compile.gemm == CLEF_GEMM_CLBLAST && !clef__clblast_present())
        s = clef__fail(err, CLEF_E_UNSUPPORTED, "gemm clblast: this clef was built without CLBlast");
    if (plan->opts.compile.gemm == CLEF_GEMM_AUTO && !clef__clblast_present())
        plan->opts.compile.gemm = CLEF_GEMM_OWN;
    if (!s)
        s = clef__variants_force(plan->opts.variants ? plan->opts.variants : clef__os_env("CLEF_VARIANT"),
                                 plan->forced, err);
    plan->graph = s ? NULL : clef_graph_clone(graph);
    if (!s && !plan->graph)
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for a copy of the graph");
    const int32_t built = dev->n_built, cached = dev->n_cached;
    if (!s)
        s = clef__pass_split(plan->graph, dev->info.caps.max_alloc_bytes, err);
    if (!s && !plan->opts.as_stored)
        s = clef__pass_choose(plan->graph, &dev->info.caps, plan->opts.compile.gemm, plan->opts.compile.exact,
                              err);
    if (!s && plan->opts.batch_invariant)
        clef__pass_batch_invariant(plan->graph);
    if (!s)
        s = make_outputs_dense(plan->graph, err);
    if (!s && when == BUILD_NOW)
        s = clef__proof_at_load(plan, err);
    if (!s)
        s = take_tuning(plan, err);
    if (!s && when == BUILD_NOW) /* what was measured may prefer others */
        s = clef__proof_at_load(plan, err);
    if (!s)
        s = clef__proof_apply(plan, err);
    if (!s)
        s = find_inputs(plan, err);
    if (!s)
        s = clef__plan_allocate(plan, err);
    if (!s)
        s = build_kernels(plan, when, err);
    plan->replays = !s && !plan->opts.describe_only && when == BUILD_NOW &&
                    clef__replay_serves(dev, plan->opts.compile.no_tune);
    if (s) {
        clef_plan_destroy(plan);
        return s;
    }
    plan->stats.n_kernels_built = dev->n_built - built;
    plan->stats.n_kernels_cached = dev->n_cached - cached;
    *out = plan;
    return CLEF_OK;
}

clef_status clef__plan_create_on(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                 clef_plan **out, clef_error *err)
{
    return create(dev, graph, opts, BUILD_NOW, out, err);
}

/* Over several devices. */
static clef_status create_pipeline(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                   clef_plan **out, clef_error *err)
{
    clef_status s = clef_graph_error(graph, err);
    clef_plan *plan = s ? NULL : calloc(1, sizeof *plan);
    if (!s && !plan)
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for a plan");
    if (s)
        return s;
    plan->dev = dev;
    dev->n_plans++;
    if (opts)
        plan->opts = *opts;
    plan->graph = clef_graph_clone(graph);
    s = plan->graph ? clef__pipeline_create(plan, err)
                    : clef__fail(err, CLEF_E_NOMEM, "no memory for a copy of the graph");
    if (s)
        clef_plan_destroy(plan);
    else
        *out = plan;
    return s;
}

clef_status clef_plan_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                             clef_plan **out, clef_error *err)
{
    *out = NULL;
    return dev->others ? create_pipeline(dev, graph, opts, out, err)
                       : create(dev, graph, opts, BUILD_NOW, out, err);
}

clef_status clef__plan_create_bare(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                   clef_plan **out, clef_error *err)
{
    return create(dev, graph, opts, BUILD_AT_USE, out, err);
}

void clef_plan_destroy(clef_plan *plan)
{
    if (!plan)
        return;
    if (plan->graph && !plan->pipeline) {
        clFinish(plan->dev->queue); /* nothing may still read what goes now */
        clef__plan_release_read(plan);
        clef__replay_drop(plan);
        clef__fused_release(plan);
        clef__plan_release_bound(plan);
        clef__plan_release_memory(plan);
    }
    clef__pipeline_destroy(plan->pipeline);
    plan->dev->n_plans--;
    for (int32_t i = 0; i < plan->n_inputs; i++)
        free(plan->inputs[i].staging);
    free(plan->inputs);
    clef__tuning_finish(&plan->tuning);
    clef_graph_destroy(plan->graph);
    free(plan);
}

/* ---- names
 * -----------------------------------------------------------------------------------------------------------------------
 */

int32_t clef_plan_input(const clef_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->n_inputs; i++)
        if (strcmp(plan->inputs[i].value->name, name) == 0)
            return i;
    return -1;
}

int32_t clef_plan_output(const clef_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->graph->n_outputs; i++)
        if (strcmp(plan->graph->outputs[i].name, name) == 0)
            return i;
    return -1;
}

int32_t clef_plan_symbol(const clef_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        if (strcmp(plan->graph->symbols[i].name, name) == 0)
            return i + 1;
    return 0;
}

static size_t bytes_of(const clef_plan *plan, const clef_value *v, int32_t *rank, int64_t dims[CLEF_MAX_DIMS])
{
    if (rank)
        *rank = v->shape.rank;
    for (int32_t i = 0; dims && i < v->shape.rank; i++)
        dims[i] = clef__dim_at(plan->graph, v->shape.dim[i], plan->symbols);
    return (size_t)clef__bytes(v, plan->symbols);
}

size_t clef_plan_output_bytes(const clef_plan *plan, int32_t output, int32_t *rank,
                              int64_t dims[CLEF_MAX_DIMS])
{
    if (output < 0 || output >= plan->graph->n_outputs)
        return 0;
    return bytes_of(plan, plan->graph->outputs[output].value, rank, dims);
}

size_t clef_plan_input_bytes(const clef_plan *plan, int32_t input, int32_t *rank, int64_t dims[CLEF_MAX_DIMS])
{
    return input < 0 || input >= plan->n_inputs ? 0 : bytes_of(plan, plan->inputs[input].value, rank, dims);
}

clef_status clef__plan_is_description(clef_error *err)
{
    return clef__fail(err, CLEF_E_ARG,
                      "the plan was made to be described (describe_only): it holds no memory");
}

/* ---- running
 * ---------------------------------------------------------------------------------------------------------------------
 */

clef_status clef_plan_bind(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err)
{
    if (symbol < 1 || symbol > plan->graph->n_symbols)
        return clef__fail(err, CLEF_E_ARG, "symbol number %d: the graph has %d", symbol,
                          plan->graph->n_symbols);
    const clef_symbol_def *def = &plan->graph->symbols[symbol - 1];
    if (value < 1 || value > def->bound)
        return clef__fail(err, CLEF_E_ARG, "symbol %s: %" PRId64 ", expected 1 to %" PRId64, def->name, value,
                          def->bound);
    if (plan->pipeline)
        return clef__pipeline_bind(plan, symbol, value, err);
    plan->stale |= plan->symbols[symbol - 1] != value;
    plan->symbols[symbol - 1] = value;
    return CLEF_OK;
}

clef_status clef_plan_write(clef_plan *plan, int32_t input, const void *data, size_t n_bytes, clef_error *err)
{
    if (input < 0 || input >= plan->n_inputs)
        return clef__fail(err, CLEF_E_ARG, "input number %d: the graph has %d", input, plan->n_inputs);
    clef_io *io = &plan->inputs[input];
    if (plan->opts.describe_only)
        return clef__plan_is_description(err);
    if (plan->pipeline)
        return clef__pipeline_write(plan, input, data, n_bytes, err);
    const size_t wanted = (size_t)clef__bytes(io->value, plan->symbols);
    if (n_bytes != wanted)
        return clef__fail(err, CLEF_E_ARG, "input %s: expected %zu bytes, got %zu", io->value->name, wanted,
                          n_bytes);
    const cl_bool wait = io->pending ? CL_TRUE : CL_FALSE;
    const void *from = wait ? data : memcpy(io->staging, data, n_bytes);
    const cl_int code = clEnqueueWriteBuffer(plan->dev->queue, plan->mem[io->value->id], wait, 0, n_bytes,
                                             from, 0, NULL, NULL);
    io->pending = 1;
    return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", io->value->name, code) : CLEF_OK;
}

/* Kernels that no run wanted so far are proven before this one. */
static clef_status lower_proven(clef_plan *plan, clef_error *err)
{
    int again = 0;
    clef_status s = clef__plan_lower(plan, err);
    if (!s && clef__plan_wants_new(plan))
        s = clef__proof_at_use(plan, &again, err);
    return !s && again ? clef__plan_lower(plan, err) : s;
}

clef_status clef_plan_run(clef_plan *plan, clef_error *err)
{
    if (plan->pipeline)
        return clef__pipeline_run(plan, err);
    clef_status s = plan->opts.describe_only ? clef__plan_is_description(err) : CLEF_OK;
    if (plan->stale && !s) {
        clef__replay_drop(plan);
        clef__fused_drop(plan);
        s = lower_proven(plan, err);
        for (int32_t i = 0; i < plan->n_launches && !s; i++)
            if (plan->launches[i].scratch_bytes > plan->stats.scratch_bytes)
                s = clef__fail(
                    err, CLEF_E_LIMIT,
                    "%s: wants %" PRIu64 " bytes of scratch, more than at the symbols' bounds (%" PRIu64 ")",
                    plan->launches[i].node->name, plan->launches[i].scratch_bytes, plan->stats.scratch_bytes);
        if (!s)
            s = clef__plan_bind_launches(plan, err);
        plan->stale = s != CLEF_OK;
    }
    if (!s && !clef__fused_run(plan, &s, err) && !clef__replay_run(plan, &s, err))
        s = clef__plan_enqueue(plan, err);
    if (s)
        return s;
    const cl_int code = clFlush(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFlush", "the plan's launches", code) : CLEF_OK;
}

clef_status clef_plan_reset(clef_plan *plan, clef_error *err)
{
    return plan->pipeline ? clef__pipeline_reset(plan, err) : clef__plan_zero_states(plan, err);
}

static clef_cost cost_of(const clef_plan *plan, const clef_value *n)
{
    const clef_op_def *def = n->op == CLEF_OP_NONE ? NULL : clef__ops[n->op];
    return def && def->lower && def->cost ? def->cost(n, plan->symbols) : (clef_cost){0};
}

clef_plan_stats clef_plan_describe(const clef_plan *plan)
{
    if (plan->pipeline)
        return clef__pipeline_describe(plan);
    clef_plan_stats stats = plan->stats;
    stats.n_launches = plan->n_launches;
    for (int32_t i = 0; i < plan->n_launches; i++) { /* one behind the other where a node has several */
        if (i && plan->launches[i].node == plan->launches[i - 1].node)
            continue;
        const clef_cost cost = cost_of(plan, plan->launches[i].node);
        stats.run_flops += cost.flops;
        stats.run_bytes += cost.bytes;
    }
    return stats;
}

/* Gives each node's cost to its longest launch. */
static void add_costs(const clef_plan *plan, clef_launch_time *times, int32_t n)
{
    for (int32_t i = 0, next; i < n; i = next) {
        const clef_value *node = plan->launches[i].node;
        int32_t longest = i;
        for (next = i + 1; next < n && plan->launches[next].node == node; next++)
            if (times[next].us > times[longest].us)
                longest = next;
        const clef_cost cost = cost_of(plan, node);
        times[longest].flops = cost.flops;
        times[longest].bytes = cost.bytes;
    }
}

int32_t clef_plan_profile(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    if (plan->pipeline)
        return clef__pipeline_profile(plan, times, capacity, err);
    const cl_int code = clFinish(plan->dev->queue);
    clef__plan_is_idle(plan);
    if (code) {
        clef__cl_fail(err, "clFinish", "profile", code);
        return 0;
    }
    const int32_t n = plan->n_events < capacity ? plan->n_events : capacity;
    for (int32_t i = 0; i < n; i++) {
        cl_ulong queued = 0, start = 0, end = 0;
        clGetEventProfilingInfo(plan->events[i], CL_PROFILING_COMMAND_QUEUED, sizeof queued, &queued, NULL);
        clGetEventProfilingInfo(plan->events[i], CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
        clGetEventProfilingInfo(plan->events[i], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        const clef_launch *l = &plan->launches[i];
        times[i] = (clef_launch_time){.node = l->node->name,
                                      .op = clef__ops[l->node->op]->name,
                                      .kernel = plan->list[i] ? l->kernel : "clblast",
                                      .us = (double)(end - start) / 1e3,
                                      .queued_us = (double)queued / 1e3,
                                      .start_us = (double)start / 1e3};
    }
    add_costs(plan, times, n);
    return n;
}
