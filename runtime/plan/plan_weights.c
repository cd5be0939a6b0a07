/* The bytes of weights: from the plan's source, or gathered from it, where a weight is a part that lies
 * scattered in the file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/plan/plan.h"

int clef__plan_is_gathered(const clef_value *v)
{
    return v->part && v->part->n_runs > 1;
}

static clef_status gather(const clef_plan *plan, const clef_value *v, const char *whole, const void **out,
                          clef_error *err)
{
    const clef_weight_part *p = v->part;
    const size_t n_bytes = (size_t)clef__bytes(v, NULL);
    char *to = plan->gathered[v->id].data;
    *out = to;
    if (to)
        return CLEF_OK;
    to = plan->gathered[v->id].data = clef__os_alloc_large(n_bytes);
    *out = to;
    if (!to)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu bytes", v->name, n_bytes);
    for (uint64_t i = 0; i < p->n_runs; i++)
        memcpy(to + i * p->run_bytes, whole + p->offset + i * p->stride, (size_t)p->run_bytes);
    return CLEF_OK;
}

clef_status clef__plan_weight_data(const clef_plan *plan, const clef_value *v, const void **out,
                                   clef_error *err)
{
    const uint64_t n_bytes = v->part ? v->part->whole_bytes : (uint64_t)clef__bytes(v, NULL);
    char shape[96];
    *out = plan->opts.weights ? plan->opts.weights(plan->opts.weights_user,
                                                   v->part ? v->part->whole : v->name, v->dtype, n_bytes)
                              : NULL;
    if (*out && v->part && v->part->n_runs > 1)
        return gather(plan, v, *out, out, err);
    if (*out && v->part)
        *out = (const char *)*out + v->part->offset;
    return *out ? CLEF_OK
                : clef__fail(err, CLEF_E_NOT_FOUND,
                             "weight %s: expected %s %s (%" PRIu64 " bytes), the source does not have it",
                             v->name, clef_dtype_name(v->dtype),
                             clef__shape_text(plan->graph, &v->shape, shape), n_bytes);
}

void clef__plan_weight_ahead(const clef_plan *plan, const clef_value *v)
{
    const void *data;
    if (!clef__plan_is_gathered(v) && !clef__plan_weight_data(plan, v, &data, NULL))
        clef__os_read_ahead(data, (size_t)clef__bytes(v, NULL));
}

static void free_gathered(const clef_plan *plan, const clef_value *v)
{
    if (plan->gathered[v->id].data)
        clef__os_free_large(plan->gathered[v->id].data, (size_t)clef__bytes(v, NULL));
    plan->gathered[v->id] = (clef_gathered){0};
}

void clef__plan_weight_done(const clef_plan *plan, const clef_value *v)
{
    if (!plan->gathered[v->id].stays)
        free_gathered(plan, v);
}

void clef__plan_weight_stays(const clef_plan *plan, const clef_value *v)
{
    plan->gathered[v->id].stays = 1;
}

void clef__plan_free_gathered(clef_plan *plan)
{
    for (int32_t i = 0; plan->gathered && i < plan->graph->n_values; i++)
        free_gathered(plan, plan->graph->values[i]);
    free(plan->gathered);
    plan->gathered = NULL;
}
