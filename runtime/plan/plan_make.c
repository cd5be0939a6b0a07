/* Makes a plan for one device: the passes that depend on the device, inputs, and kernels. */
#include "graph/pass/pass.h"
#include "runtime/os/debug.h"
#include "runtime/plan/fused.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- the graph ------------------------------------------------------------------------------- */

/* Outputs are read from their memory as it is, so each is made dense. */
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

static clef_status settle_gemm(clef_plan *plan, clef_error *err)
{
    const char *missing = clef__clblast_missing();
    if (plan->opts.compile.gemm == CLEF_GEMM_CLBLAST && missing)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "gemm clblast: %s", missing);
    if (plan->opts.compile.gemm == CLEF_GEMM_AUTO && missing)
        plan->opts.compile.gemm = CLEF_GEMM_OWN;
    return CLEF_OK;
}

static clef_status run_passes(clef_plan *plan, clef_error *err)
{
    const clef_caps *caps = &plan->dev->info.caps;
    clef_status s = clef__pass_split(plan->graph, caps->max_alloc_bytes, err);
    if (!s && !plan->opts.as_stored)
        s = clef__pass_choose(plan->graph, caps, plan->opts.compile.gemm, plan->opts.compile.exact, err);
    if (!s && plan->opts.batch_invariant)
        clef__pass_batch_invariant(plan->graph);
    return s ? s : make_outputs_dense(plan->graph, err);
}

clef_status clef__plan_begin(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                             clef_plan **out, clef_error *err)
{
    clef_plan *plan = NULL;
    *out = NULL;
    clef_status s = clef_graph_error(graph, err);
    if (!s)
        s = clef__device_ready(dev, err);
    if (!s)
        s = clef__plan_new(dev, graph, opts, &plan, err);
    if (s)
        return s;
    s = settle_gemm(plan, err);
    if (!s)
        s = clef__variants_force(plan->opts.variants ? plan->opts.variants : clef__debug("variant"),
                                 plan->forced, err);
    if (!s)
        s = run_passes(plan, err);
    if (s)
        clef_plan_destroy(plan);
    else
        *out = plan;
    return s;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

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
        if (!plan->storage->allocate_host((size_t)clef__bytes(v, NULL), &io->staging))
            return clef__fail(err, CLEF_E_NOMEM, "input %s: no memory for %" PRId64 " bytes", v->name,
                              clef__bytes(v, NULL));
    }
    return CLEF_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Lowers with every symbol at `most`, or at its bound if that is less. */
static clef_status lower_at(clef_plan *plan, int64_t most, clef_error *err)
{
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        plan->symbols[i] = plan->graph->symbols[i].bound < most ? plan->graph->symbols[i].bound : most;
    clef_status s = clef__plan_lower(plan, err);
    for (int32_t i = 0; i < plan->n_launches && !s; i++)
        s = clef__plan_grow_scratch(plan, plan->launches[i].scratch_bytes, err);
    return s;
}

static clef_status build_at(clef_plan *plan, int64_t most, uint64_t *done, uint64_t total, clef_error *err)
{
    clef_status s = lower_at(plan, most, err);
    if (!s)
        s = clef__plan_warm(plan, *done, total, err);
    *done += (uint64_t)plan->n_launches;
    return s;
}

/* Finds the size of the scratch buffer, before any launch is bound to it, and how many launches the steps
 * with symbols at 1 and at their bounds have. */
static clef_status measure_lists(clef_plan *plan, uint64_t *total, clef_error *err)
{
    static const int64_t lengths[] = {1, 2, INT64_MAX};
    clef_status s = CLEF_OK;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && !s; i++) {
        s = lower_at(plan, lengths[i], err);
        if (!s && plan->opts.compile.strict)
            s = clef__strict_check(plan, err);
        if (!s && lengths[i] == 1)
            plan->stats.fused_bytes = clef__fused_bytes(plan);
        *total += lengths[i] == 2 ? 0 : (uint64_t)plan->n_launches;
    }
    return s;
}

static clef_status prepare_executors(clef_plan *plan, clef_error *err)
{
    clef_status s = CLEF_OK;
    clef__plan_add_executor(plan, &clef__exec_fused);
    for (int32_t i = 0; i < plan->n_executors && !s; i++)
        if (plan->executors[i].by->prepare)
            s = plan->executors[i].by->prepare(plan, &plan->executors[i], err);
    return s;
}

/* Builds the kernels for the symbols at 1 and at the first run's values, and lets the driver finish
 * compiling. */
static clef_status build_now(clef_plan *plan, uint64_t total, clef_error *err)
{
    const int64_t first = plan->opts.expected_length > 0 ? plan->opts.expected_length : INT64_MAX;
    uint64_t done = 0;
    clef_status s = build_at(plan, 1, &done, total, err);
    if (!s && first > 1)
        s = build_at(plan, first, &done, total, err);
    if (!s && first != INT64_MAX) {
        s = lower_at(plan, INT64_MAX, err);
        plan->stale = 1; /* this list is not bound */
    }
    return s ? s : prepare_executors(plan, err);
}

/* Leaves each kernel to the first run that needs it. */
static clef_status build_at_use(clef_plan *plan, clef_error *err)
{
    plan->stale = 1; /* the list is not bound */
    return lower_at(plan, INT64_MAX, err);
}

clef_status clef__plan_finish(clef_plan *plan, clef__build when, clef_error *err)
{
    uint64_t total = 0;
    clef_status s = find_inputs(plan, err);
    if (!s)
        s = clef__plan_allocate(plan, err);
    if (s)
        return s;
    plan->bound = calloc((size_t)plan->graph->n_values + 1, sizeof(clef_bound *));
    if (!plan->bound)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for its launches");
    s = measure_lists(plan, &total, err);
    if (s || plan->kind == &clef__plan_described)
        return s;
    clef__plan_add_executor(plan, &clef__exec_launches);
    s = when == CLEF__BUILD_NOW ? build_now(plan, total, err) : build_at_use(plan, err);
    if (!s)
        s = clef__plan_zero_states(plan, err);
    return s ? s : clef__plan_progress(plan, "kernels", total, total, err);
}

clef_status clef__plan_make(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                            const clef__plan_hooks *hooks, clef_tuning *tuning, clef_plan **out,
                            clef_error *err)
{
    clef_plan *plan = NULL;
    clef_tuning known = tuning ? *tuning : (clef_tuning){0};
    if (tuning)
        *tuning = (clef_tuning){0};
    clef_status s = clef__plan_begin(dev, graph, opts, &plan, err);
    *out = NULL;
    if (s) {
        clef__tuning_finish(&known);
        return s;
    }
    plan->tuning = known;
    plan->hooks = hooks;
    s = clef__plan_finish(plan, CLEF__BUILD_AT_USE, err);
    if (s)
        clef_plan_destroy(plan);
    else
        *out = plan;
    return s;
}
