/* clef_plan_opts.compile.strict: refuses a plan whose nodes would run by other kernels than asked for. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/plan/plan.h"

/* The variant that the user asked for, for this op; NULL: any. */
static const clef_variant *asked_for(const clef_plan *plan, const clef_value *n)
{
    const clef_variant *variant = plan->forced[n->op];
    clef_op of = CLEF_OP_NONE;
    for (int32_t row = 0; !variant && plan->opts.compile.gemm == CLEF_GEMM_CLBLAST && row < CLEF_N_VARIANTS;
         row++) {
        const clef_variant *candidate = clef__variant_row(row, &of);
        variant = of == n->op && candidate->clblast ? candidate : NULL;
    }
    return variant;
}

/* A variant that the order of the table would use, but that is set aside on this device; NULL: none. */
static const clef_variant *set_aside(const clef_lowering *lo, const clef_value *n)
{
    const clef_variant *variant;
    clef_op of = CLEF_OP_NONE;
    for (int32_t row = 0; (variant = clef__variant_row(row, &of)); row++)
        if (of == n->op && lo->tuning->aside && lo->tuning->aside[row] &&
            clef__variant_fits(lo, n, variant) && (!variant->is_default || variant->is_default(lo, n)))
            return variant;
    return NULL;
}

static clef_status check_node(const clef_lowering *lo, const clef_plan *plan, const clef_value *n,
                              clef_error *err)
{
    const clef_variant *serving = clef__variant_of(lo, n, NULL), *asked = asked_for(plan, n),
                       *aside = set_aside(lo, n);
    const clef_device_info *d = &plan->dev->info;
    const char *op = clef__ops[n->op]->name;
    if (asked && asked != serving)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "strict: %s: %s was to run by %s on %" PRId32 ":%" PRId32
                          " %s, which %s there; it would run by %s",
                          n->name, op, asked->name, d->platform, d->index, d->name,
                          clef__variant_runs_on(lo->caps, asked) ? "does not take its shape"
                                                                 : "the device cannot",
                          serving->name);
    if (!asked && aside && aside != serving)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "strict: %s: %s was to run by %s on %" PRId32 ":%" PRId32
                          " %s, which was set aside there because it failed its "
                          "proof; it would run by %s (clef selftest -d %" PRId32 ":%" PRId32 " --op %s)",
                          n->name, op, aside->name, d->platform, d->index, d->name, serving->name,
                          d->platform, d->index, op);
    return CLEF_OK;
}

clef_status clef__strict_check(const clef_plan *plan, clef_error *err)
{
    const clef_lowering lo = clef__plan_lowering(plan);
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++) {
        const clef_value *n = plan->graph->values[i];
        if (n->op != CLEF_OP_NONE && clef__ops[n->op]->lower && !plan->at_load[i] &&
            clef__variant_of(&lo, n, NULL))
            s = check_node(&lo, plan, n, err);
    }
    return s;
}
