/* Outputs back to the host: at once, or while further runs are enqueued. */
#include <inttypes.h>

#include "runtime/plan/pipeline.h"

void clef__plan_is_idle(clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_inputs; i++)
        plan->inputs[i].pending = 0;
}

void clef__plan_release_read(clef_plan *plan)
{
    if (plan->reading)
        clReleaseEvent(plan->reading);
    plan->reading = NULL;
}

static clef_status enqueue_read(const clef_plan *plan, int32_t output, void *data, size_t n_bytes,
                                cl_event *event, clef_error *err)
{
    if (plan->opts.describe_only)
        return clef__plan_is_description(err);
    if (output < 0 || output >= plan->graph->n_outputs)
        return clef__fail(err, CLEF_E_ARG, "output number %d: the graph has %d", output,
                          plan->graph->n_outputs);
    const clef_output_def *def = &plan->graph->outputs[output];
    const size_t wanted = (size_t)clef__bytes(def->value, plan->symbols);
    if (n_bytes != wanted)
        return clef__fail(err, CLEF_E_ARG, "output %s: it has %zu bytes, got room for %zu", def->name, wanted,
                          n_bytes);
    const clef_lowering lo = {.graph = plan->graph, .symbols = plan->symbols};
    const size_t offset = (size_t)clef__view(&lo, def->value).offset /
                          (size_t)clef_dtype_block_elems(def->value->dtype) *
                          (size_t)clef_dtype_block_bytes(def->value->dtype);
    const cl_int code =
        clEnqueueReadBuffer(plan->dev->queue, clef__plan_mem(plan, def->value), event ? CL_FALSE : CL_TRUE,
                            offset, n_bytes, data, 0, NULL, event);
    return code ? clef__cl_fail(err, "clEnqueueReadBuffer", def->name, code) : CLEF_OK;
}

clef_status clef_plan_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    if (plan->pipeline)
        return clef__pipeline_read(plan, output, data, n_bytes, err);
    const clef_status s = enqueue_read(plan, output, data, n_bytes, NULL, err);
    if (!s)
        clef__plan_is_idle(plan);
    return s;
}

clef_status clef_plan_read_start(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    if (plan->pipeline)
        return clef__pipeline_read_start(plan, output, data, n_bytes, err);
    if (plan->reading)
        return clef__fail(err, CLEF_E_ARG, "output number %d: another read is under way", output);
    const clef_status s = enqueue_read(plan, output, data, n_bytes, &plan->reading, err);
    for (int32_t i = 0; i < plan->n_inputs && !s; i++)
        plan->inputs[i].pending = plan->inputs[i].pending ? 2 : 0;
    return s;
}

clef_status clef_plan_read_wait(clef_plan *plan, clef_error *err)
{
    if (plan->pipeline)
        return clef__pipeline_read_wait(plan, err);
    if (!plan->reading)
        return clef__fail(err, CLEF_E_ARG, "no read is under way");
    const cl_int code = clWaitForEvents(1, &plan->reading);
    clef__plan_release_read(plan);
    if (code)
        return clef__cl_fail(err, "clWaitForEvents", "a read", code);
    for (int32_t i = 0; i < plan->n_inputs; i++) /* what was written before the read is read */
        plan->inputs[i].pending = plan->inputs[i].pending == 1;
    return CLEF_OK;
}
