/* Compiles a graph into a plan: proves and measures the device's kernels as needed, then allocates memory and
 * builds them. */
#include "runtime/compile.h"

#include "runtime/plan/pipeline.h"
#include "runtime/plan/together.h"
#include "runtime/prove/trial.h"
#include "runtime/tune/tune.h"

static const clef__plan_hooks hooks = {.before_new_kernels = clef__proof_at_use,
                                       .fused = &clef__fused_by_child};
static const clef__trust trust = {
    .has_failed = clef__proof_failed, .is_proven = clef__proof_trusts, .hooks = &hooks};

/* Measures the graph's products that the device's database does not know, and copies its choices into the
 * plan. */
static clef_status add_tuning(clef_plan *plan, clef_error *err)
{
    const clef_status s = plan->opts.describe_only
                              ? CLEF_OK
                              : clef__tune_at_load(plan->dev, plan->graph, &plan->opts, &trust, err);
    return s ? s : clef__tuning_of(plan->dev, &plan->tuning, err);
}

/* Proves twice, since measurements may prefer other kernels. */
static clef_status choose_kernels(clef_plan *plan, clef_error *err)
{
    clef_status s = clef__proof_at_load(plan, err);
    if (!s)
        s = add_tuning(plan, err);
    if (!s)
        s = clef__proof_at_load(plan, err);
    return s ? s : clef__proof_apply(plan, err);
}

clef_status clef__compile_for_one(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                  clef_plan **out, clef_error *err)
{
    const int32_t built = dev->n_built, cached = dev->n_cached;
    clef_plan *plan = NULL;
    *out = NULL;
    clef_status s = clef__proof_begin(dev, opts, err);
    if (!s)
        s = clef__plan_begin(dev, graph, opts, &plan, err);
    if (s)
        return s;
    plan->hooks = &hooks;
    s = choose_kernels(plan, err);
    if (!s)
        s = clef__plan_finish(plan, CLEF__BUILD_NOW, err);
    if (s) {
        clef_plan_destroy(plan);
        return s;
    }
    plan->stats.n_kernels_built = dev->n_built - built;
    plan->stats.n_kernels_cached = dev->n_cached - cached;
    *out = plan;
    return CLEF_OK;
}

clef_status clef_plan_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                             clef_plan **out, clef_error *err)
{
    if (dev->together)
        return dev->together->create(dev, graph, opts, out, err);
    return dev->others ? clef__pipeline_create(dev, graph, opts, clef__compile_for_one, out, err)
                       : clef__compile_for_one(dev, graph, opts, out, err);
}

/* ---- the tuner, which only runs proven kernels ----------------------------------------------- */

clef_status clef_tune(clef_device *dev, const clef_graph *graph, const clef_plan_opts *plan_opts,
                      const clef_tune_opts *opts, clef_error *err)
{
    return clef__tune(dev, graph, plan_opts, opts, &trust, err);
}

clef_status clef_variants_list(clef_device *dev, clef_variant_info **out, int32_t *n, clef_error *err)
{
    return clef__variants_list(dev, &trust, out, n, err);
}
