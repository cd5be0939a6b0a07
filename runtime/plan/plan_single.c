/* A plan for one device: writes, runs, reads, and describes. A described plan has the same parts, except
 * those that need memory. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/plan/plan.h"

static clef_status bind_symbol(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err)
{
    (void)err;
    plan->stale |= plan->symbols[symbol - 1] != value;
    plan->symbols[symbol - 1] = value;
    return CLEF_OK;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

/* Called after waiting for the queue, so no write still uses its staging memory. */
static void mark_writes_done(clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_inputs; i++)
        plan->inputs[i].write = CLEF__WRITE_DONE;
}

static clef_status write_input(clef_plan *plan, int32_t input, const void *data, size_t n_bytes,
                               clef_error *err)
{
    clef_io *io = &plan->inputs[input];
    const size_t wanted = (size_t)clef__bytes(io->value, plan->symbols);
    if (n_bytes != wanted)
        return clef__fail(err, CLEF_E_ARG, "input %s: expected %zu bytes, got %zu", io->value->name, wanted,
                          n_bytes);
    const cl_bool wait = io->write != CLEF__WRITE_DONE ? CL_TRUE : CL_FALSE;
    const void *from = wait ? data : memcpy(io->staging, data, n_bytes);
    const cl_int code = clEnqueueWriteBuffer(plan->dev->queue, plan->mem[io->value->id], wait, 0, n_bytes,
                                             from, 0, NULL, NULL);
    io->write = CLEF__WRITE_PENDING;
    return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", io->value->name, code) : CLEF_OK;
}

static clef_status read_input(clef_plan *plan, int32_t input, void *data, size_t n_bytes, clef_error *err)
{
    const clef_value *v = plan->inputs[input].value;
    const cl_int code =
        clEnqueueReadBuffer(plan->dev->queue, plan->mem[v->id], CL_TRUE, 0, n_bytes, data, 0, NULL, NULL);
    if (code)
        return clef__cl_fail(err, "clEnqueueReadBuffer", v->name, code);
    mark_writes_done(plan);
    return CLEF_OK;
}

static clef_status enqueue_read(const clef_plan *plan, int32_t output, void *data, size_t n_bytes,
                                cl_event *event, clef_error *err)
{
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

static clef_status read_output(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    const clef_status s = enqueue_read(plan, output, data, n_bytes, NULL, err);
    if (!s)
        mark_writes_done(plan);
    return s;
}

static clef_status start_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    if (plan->reading)
        return clef__fail(err, CLEF_E_ARG, "output number %d: another read is pending", output);
    const clef_status s = enqueue_read(plan, output, data, n_bytes, &plan->reading, err);
    for (int32_t i = 0; i < plan->n_inputs && !s; i++)
        if (plan->inputs[i].write == CLEF__WRITE_PENDING)
            plan->inputs[i].write = CLEF__WRITE_BEFORE_READ;
    return s;
}

static void release_read(clef_plan *plan)
{
    if (plan->reading)
        clReleaseEvent(plan->reading);
    plan->reading = NULL;
}

static clef_status wait_for_read(clef_plan *plan, clef_error *err)
{
    if (!plan->reading)
        return clef__fail(err, CLEF_E_ARG, "no read is pending");
    const cl_int code = clWaitForEvents(1, &plan->reading);
    release_read(plan);
    if (code)
        return clef__cl_fail(err, "clWaitForEvents", "a read", code);
    for (int32_t i = 0; i < plan->n_inputs; i++) /* writes enqueued before the read are done too */
        if (plan->inputs[i].write == CLEF__WRITE_BEFORE_READ)
            plan->inputs[i].write = CLEF__WRITE_DONE;
    return CLEF_OK;
}

/* ---- executors ------------------------------------------------------------------------------- */

clef__execution *clef__plan_executor(clef_plan *plan, const clef__executor *by)
{
    for (int32_t i = 0; i < plan->n_executors; i++)
        if (plan->executors[i].by == by)
            return &plan->executors[i];
    return NULL;
}

clef__execution *clef__plan_add_executor(clef_plan *plan, const clef__executor *by)
{
    assert(plan->n_executors < CLEF_MAX_EXECUTORS);
    memmove(plan->executors + 1, plan->executors, (size_t)plan->n_executors * sizeof *plan->executors);
    plan->executors[0] = (clef__execution){.by = by};
    plan->n_executors++;
    return &plan->executors[0];
}

void clef__plan_invalidate_executors(clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_executors; i++)
        if (plan->executors[i].by->invalidate)
            plan->executors[i].by->invalidate(plan, &plan->executors[i]);
}

static clef_status execute_list(clef_plan *plan, clef_error *err)
{
    clef_status s = CLEF_OK;
    clef__plan_clear_marks(plan);
    for (int32_t i = 0; i < plan->n_executors; i++)
        if (plan->executors[i].by->run(plan, &plan->executors[i], &s, err))
            break;
    return s;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Proves kernels that no earlier run needed before this run uses them. */
static clef_status lower_proven(clef_plan *plan, clef_error *err)
{
    int again = 0;
    clef_status s = clef__plan_lower(plan, err);
    if (!s && plan->hooks && clef__plan_wants_new(plan))
        s = plan->hooks->before_new_kernels(plan, &again, err);
    return !s && again ? clef__plan_lower(plan, err) : s;
}

/* Makes a new list for the current values of the symbols. */
static clef_status renew_list(clef_plan *plan, clef_error *err)
{
    clef__plan_drop_marks(plan);
    clef__plan_invalidate_executors(plan);
    clef_status s = lower_proven(plan, err);
    for (int32_t i = 0; i < plan->n_launches && !s; i++)
        if (plan->launches[i].scratch_bytes > plan->stats.scratch_bytes)
            s = clef__fail(
                err, CLEF_E_LIMIT,
                "%s: needs %" PRIu64 " bytes of scratch, more than at the symbols' bounds (%" PRIu64 ")",
                plan->launches[i].node->name, plan->launches[i].scratch_bytes, plan->stats.scratch_bytes);
    if (!s)
        s = clef__plan_bind_launches(plan, err);
    plan->stale = s != CLEF_OK;
    return s;
}

/* Makes the list of launches for the current symbols, unless there is one. */
static clef_status plan_ready(clef_plan *plan, clef_error *err)
{
    return plan->stale ? renew_list(plan, err) : CLEF_OK;
}

static clef_status run_plan(clef_plan *plan, clef_error *err)
{
    clef_status s = plan_ready(plan, err);
    if (!s)
        s = execute_list(plan, err);
    if (s)
        return s;
    const cl_int code = clFlush(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFlush", "the plan's launches", code) : CLEF_OK;
}

/* ---- describing ------------------------------------------------------------------------------- */

static clef_cost cost_of(const clef_plan *plan, const clef_value *n)
{
    const clef_op_def *def = n->op == CLEF_OP_NONE ? NULL : clef__ops[n->op];
    return def && def->lower ? clef__launched_cost(n, plan->launches, plan->n_launches, plan->symbols)
                             : (clef_cost){0};
}

static clef_plan_stats describe_plan(const clef_plan *plan)
{
    clef_plan_stats stats = plan->stats;
    stats.n_launches = plan->n_launches;
    for (int32_t i = 0; i < plan->n_launches; i++) { /* the launches of a node are adjacent */
        if (i && plan->launches[i].node == plan->launches[i - 1].node)
            continue;
        const clef_cost cost = cost_of(plan, plan->launches[i].node);
        stats.run_flops += cost.flops;
        stats.run_bytes += cost.bytes;
    }
    return stats;
}

static const char *kernel_name(const clef_launch *l)
{
    return l->call == CLEF_CALL_KERNEL ? l->kernel : l->call == CLEF_CALL_EXCHANGE ? "exchange" : "clblast";
}

/* Adds each node's cost to its longest launch. */
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

typedef struct span {
    cl_ulong queued, start, end; /* ns on the device's clock */
} span;

/* Returns 0 when the driver gives no times for the event, or a command that ends before it starts; all are
 * then at `before`. */
static int read_span(cl_event event, cl_ulong before, span *out)
{
    *out = (span){0}; /* some drivers report success and write nothing */
    const int got =
        !clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED, sizeof out->queued, &out->queued,
                                 NULL) &&
        !clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof out->start, &out->start, NULL) &&
        !clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof out->end, &out->end, NULL) &&
        out->end > 0 && out->end >= out->start;
    if (!got)
        *out = (span){before, before, before};
    if (out->queued > out->start)
        out->queued = out->start;
    return got;
}

static void tell_lost_times(const clef_device *dev, int32_t n_lost, int32_t n)
{
    char text[256];
    snprintf(text, sizeof text,
             "the driver of %s gives no times, or impossible ones, for %d of %d launches: they count as 0",
             dev->info.name, (int)n_lost, (int)n);
    if (n_lost && dev->notice)
        dev->notice(dev->notice_user, text);
}

static int32_t profile_plan(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    const cl_int code = clFinish(plan->dev->queue);
    mark_writes_done(plan);
    if (code) {
        clef__cl_fail(err, "clFinish", "profile", code);
        return 0;
    }
    const int32_t n = plan->n_events < capacity ? plan->n_events : capacity > 0 ? capacity : 0;
    span at = {0};
    int32_t n_lost = 0;
    for (int32_t i = 0; i < n; i++) {
        n_lost += !read_span(plan->events[i], at.end, &at);
        const clef_launch *l = &plan->launches[i];
        times[i] = (clef_launch_time){.node = l->node->name,
                                      .op = clef__ops[l->node->op]->name,
                                      .kernel = kernel_name(l),
                                      .us = (double)(at.end - at.start) / 1e3,
                                      .queued_us = (double)at.queued / 1e3,
                                      .start_us = (double)at.start / 1e3};
    }
    tell_lost_times(plan->dev, n_lost, n);
    add_costs(plan, times, n);
    return plan->n_events;
}

static int has_variants(clef_op op)
{
    clef_op of;
    for (int32_t i = 0; clef__variant_row(i, &of); i++)
        if (of == op)
            return 1;
    return 0;
}

static int32_t list_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity)
{
    const clef_lowering lo = clef__plan_lowering(plan);
    const int32_t n = plan->n_launches < capacity ? plan->n_launches : capacity;
    for (int32_t i = 0; i < n; i++) {
        const clef_launch *l = &plan->launches[i];
        const clef_variant *variant = has_variants(l->node->op) ? clef__variant_of(&lo, l->node, NULL) : NULL;
        out[i] = (clef_launch_info){.node = l->node->name,
                                    .op = clef__ops[l->node->op]->name,
                                    .variant = variant ? variant->name : NULL,
                                    .source = l->call == CLEF_CALL_KERNEL ? l->source : NULL,
                                    .kernel = kernel_name(l)};
        for (int k = 0; k < 3; k++) {
            out[i].groups[k] = l->groups[k] ? l->groups[k] : 1;
            out[i].local[k] = l->local[k] ? l->local[k] : 1;
        }
    }
    return plan->n_launches;
}

static const clef_plan *stage_of(const clef_plan *plan, int32_t i)
{
    return i == 0 ? plan : NULL;
}

static void release_plan(clef_plan *plan)
{
    clFinish(plan->dev->queue); /* no command may still use what is released next */
    release_read(plan);
    clef__plan_drop_marks(plan);
    for (int32_t i = 0; i < plan->n_executors; i++)
        if (plan->executors[i].by->release)
            plan->executors[i].by->release(plan, &plan->executors[i]);
    clef__plan_release_bound(plan);
    clef__plan_release_memory(plan);
}

const clef__plan_kind clef__plan_single = {.bind = bind_symbol,
                                           .write = write_input,
                                           .run = run_plan,
                                           .read = read_output,
                                           .read_start = start_read,
                                           .read_wait = wait_for_read,
                                           .read_input = read_input,
                                           .reset = clef__plan_zero_states,
                                           .describe = describe_plan,
                                           .profile = profile_plan,
                                           .launches = list_launches,
                                           .stage = stage_of,
                                           .release = release_plan};

/* ---- described plans ------------------------------------------------------------------------- */

static clef_status refuse_described(clef_error *err)
{
    return clef__fail(err, CLEF_E_ARG, "the plan was made with describe_only: it has no memory");
}

static clef_status refuse_write(clef_plan *plan, int32_t input, const void *data, size_t n_bytes,
                                clef_error *err)
{
    (void)plan, (void)input, (void)data, (void)n_bytes;
    return refuse_described(err);
}

static clef_status refuse_run(clef_plan *plan, clef_error *err)
{
    (void)plan;
    return refuse_described(err);
}

static clef_status refuse_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    (void)plan, (void)output, (void)data, (void)n_bytes;
    return refuse_described(err);
}

const clef__plan_kind clef__plan_described = {.bind = bind_symbol,
                                              .write = refuse_write,
                                              .run = refuse_run,
                                              .read = refuse_read,
                                              .read_start = refuse_read,
                                              .read_wait = wait_for_read,
                                              .read_input = refuse_read,
                                              .reset = clef__plan_zero_states,
                                              .describe = describe_plan,
                                              .profile = profile_plan,
                                              .launches = list_launches,
                                              .stage = stage_of,
                                              .release = release_plan};
