/* Looking at a plan: its graph, its launches. */
#include "runtime/plan/pipeline.h"

const clef_graph *clef_plan_graph(const clef_plan *plan)
{
    return plan->graph;
}

const clef_plan *clef_plan_stage(const clef_plan *plan, int32_t i)
{
    if (plan->pipeline)
        return i >= 0 && i < plan->pipeline->n ? plan->pipeline->stages[i] : NULL;
    return i == 0 ? plan : NULL;
}

const clef_device *clef_plan_device(const clef_plan *plan)
{
    return plan->dev;
}

int32_t clef_plan_tensors(const clef_plan *plan, clef_plan_tensor *out, int32_t capacity)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->memory.n_places; i++) {
        const clef_place *p = &plan->memory.places[i];
        if (!p->bytes)
            continue;
        if (n < capacity)
            out[n] = (clef_plan_tensor){
                .name = plan->graph->values[i]->name,
                .in_place_of = p->in_place_of >= 0 ? plan->graph->values[p->in_place_of]->name : NULL,
                .offset = p->offset,
                .bytes = p->bytes,
                .first = p->first,
                .last = p->last};
        n++;
    }
    return n;
}

static int has_variants(clef_op op)
{
    clef_op of;
    for (int32_t i = 0; clef__variant_row(i, &of); i++)
        if (of == op)
            return 1;
    return 0;
}

int32_t clef_plan_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity)
{
    if (plan->pipeline)
        return clef__pipeline_launches(plan, out, capacity);
    const clef_lowering lo = {.graph = plan->graph,
                              .caps = &plan->dev->info.caps,
                              .symbols = plan->symbols,
                              .gemm = plan->opts.compile.gemm,
                              .tuning = &plan->tuning,
                              .forced = plan->forced};
    const int32_t n = plan->n_launches < capacity ? plan->n_launches : capacity;
    for (int32_t i = 0; i < n; i++) {
        const clef_launch *l = &plan->launches[i];
        const clef_variant *variant = has_variants(l->node->op) ? clef__variant_of(&lo, l->node, NULL) : NULL;
        out[i] = (clef_launch_info){.node = l->node->name,
                                    .op = clef__ops[l->node->op]->name,
                                    .variant = variant ? variant->name : NULL,
                                    .source = l->call == CLEF_CALL_KERNEL ? l->source : NULL,
                                    .kernel = l->call == CLEF_CALL_KERNEL ? l->kernel : "clblast"};
        for (int k = 0; k < 3; k++) {
            out[i].groups[k] = l->groups[k] ? l->groups[k] : 1;
            out[i].local[k] = l->local[k] ? l->local[k] : 1;
        }
    }
    return plan->n_launches;
}
