/* The executor that runs any list: it enqueues the launches one by one. */
#include <stdlib.h>

#include "runtime/device/broken.h"
#include "runtime/plan/together.h"

typedef enum extent { WHOLE, ONE_GROUP } extent;

static clef_status exchange(const clef_plan *plan, int32_t i, clef_error *err)
{
    return plan->exchange ? plan->exchange(plan, i, err) : clef__exchange_alone(plan, i, err);
}

static clef_status enqueue_launch(const clef_plan *plan, int32_t i, extent how, cl_event *event,
                                  clef_error *err)
{
    const clef_launch *l = &plan->launches[i];
    clef_bound *b = plan->list[i];
    if (l->call == CLEF_CALL_EXCHANGE) {
        const clef_status s = how == ONE_GROUP ? CLEF_OK : exchange(plan, i, err);
        const cl_int marked = !s && event && !plan->stopped
                                  ? clEnqueueMarkerWithWaitList(plan->dev->queue, 0, NULL, event)
                                  : CL_SUCCESS;
        return marked ? clef__cl_fail(err, "clEnqueueMarkerWithWaitList", l->node->name, marked) : s;
    }
    if (!b)
        return clef__clblast_gemm(plan->dev, l->args, clef__plan_buffer_of(plan, l->bufs[0]),
                                  clef__plan_buffer_of(plan, l->bufs[1]),
                                  clef__plan_buffer_of(plan, l->bufs[2]), event, err);
    size_t local[3], global[3];
    for (int32_t k = 0; k < 3; k++) {
        local[k] = l->local[k];
        global[k] = how == ONE_GROUP ? local[k] : local[k] * l->groups[k];
    }
    b->is_new = 0;
    if (clef__broken(l)) /* for tests: as if the kernel wrote nothing */
        return CLEF_OK;
    const cl_int code =
        clEnqueueNDRangeKernel(plan->dev->queue, b->object, 3, NULL, global, local, 0, NULL, event);
    if (code)
        return clef__fail_cl(err, CLEF_E_CL, code, "%s: clEnqueueNDRangeKernel(%s): %s (%d)", l->node->name,
                             l->kernel, clef__cl_name(code), code);
    return CLEF_OK;
}

clef_status clef__plan_enqueue_launch(const clef_plan *plan, int32_t i, clef_error *err)
{
    return enqueue_launch(plan, i, WHOLE, NULL, err);
}

/* 1 when no earlier launch is a product of the same size: CLBlast chooses its kernels by size. */
static int is_new_gemm(const clef_plan *plan, int32_t i)
{
    const clef_gemm_call *a = plan->launches[i].args;
    for (int32_t k = 0; k < i; k++) {
        const clef_gemm_call *b = plan->launches[k].args;
        if (plan->launches[k].call == CLEF_CALL_CLBLAST_GEMM && a->m == b->m && a->n == b->n &&
            a->k == b->k && a->batch == b->batch && a->transpose_a == b->transpose_a &&
            a->transpose_b == b->transpose_b)
            return 0;
    }
    return 1;
}

clef_status clef__plan_warm(clef_plan *plan, uint64_t done, uint64_t total, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < plan->n_launches && !s; i++) {
        s = clef__plan_progress(plan, "kernels", done + (uint64_t)i, total, err);
        if (!s)
            s = clef__plan_bind_launch(plan, i, err);
        if (s || plan->launches[i].call == CLEF_CALL_EXCHANGE ||
            !(plan->list[i] ? plan->list[i]->is_new : is_new_gemm(plan, i)))
            continue;
        s = enqueue_launch(plan, i, ONE_GROUP, NULL, err);
        const cl_int code = !s && plan->opts.compile.progress ? clFinish(plan->dev->queue)
                                                              /* so that the reported progress is true */
                                                              : CL_SUCCESS;
        if (code)
            s = clef__cl_fail(err, "clFinish", plan->launches[i].node->name, code);
    }
    const cl_int code = s ? CL_SUCCESS : clFinish(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFinish", "the first run of the kernels", code) : s;
}

/* A GPU's driver may keep commands until the queue is flushed. So the first launches are flushed while the
 * host sets up the rest, and then each quarter of the rest. A run ends with a flush of its own. */
static int is_flushed_after(const clef_plan *plan, int32_t n_enqueued)
{
    enum { FIRST = 16, PARTS = 4 };
    const int32_t rest = plan->n_launches - FIRST,
                  part = rest > FIRST * PARTS ? (rest + PARTS - 1) / PARTS : FIRST;
    return !plan->dev->info.caps.is_cpu && n_enqueued >= FIRST && n_enqueued < plan->n_launches &&
           (n_enqueued - FIRST) % part == 0;
}

static clef_status flush(const clef_plan *plan, clef_error *err)
{
    const cl_int code = clFlush(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFlush", "the first launches", code) : CLEF_OK;
}

clef_status clef__plan_enqueue(clef_plan *plan, clef_error *err)
{
    clef_status s = CLEF_OK;
    const int profile = plan->dev->profile;
    clef__mark *mark = plan->marks, *end = mark + plan->n_marks;
    for (int32_t i = 0; i < plan->n_events && !plan->begin; i++)
        clReleaseEvent(plan->events[i]);
    plan->n_events = plan->begin ? plan->n_events : 0;
    if (profile) {
        cl_event *events = realloc(plan->events, (size_t)plan->n_launches * sizeof *events + 1);
        if (!events)
            return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for %d events", plan->n_launches);
        plan->events = events;
    }
    for (int32_t i = plan->begin; i < plan->n_launches && !s && !plan->stopped; i++) {
        cl_event *event = profile ? &plan->events[i] : NULL, ended = NULL;
        const int is_marked = mark < end && mark->launch == i;
        s = enqueue_launch(plan, i, WHOLE, is_marked && !event ? &ended : event, err);
        plan->n_events = profile && !s && !plan->stopped ? i + 1 : plan->n_events;
        if (is_marked && !s)
            s = clef__plan_mark(plan, mark++, event ? *event : ended, event != NULL, err);
        if (!s && is_flushed_after(plan, i + 1))
            s = flush(plan, err);
    }
    return s;
}

static int run_launches(clef_plan *plan, clef__execution *e, clef_status *status, clef_error *err)
{
    (void)e;
    *status = clef__plan_enqueue(plan, err);
    return 1;
}

const clef__executor clef__exec_launches = {.name = "launches", .run = run_launches};
