/* The executor of command buffers (cl_khr_command_buffer 0.9.0 and later): a plan's launches are recorded
 * once and enqueued as one, or as one up to each mark (marks.h). A trial of some 20 ms decides for each
 * device: its results must be right, and it must be faster than enqueueing the same launches one by one.
 * Without measurements (no_tune, CLEF_TUNE=0) command buffers are not used. CLEF_DEBUG=replay=1 uses them if
 * they are right, measured or not; CLEF_DEBUG=replay=0 never. */
#include "runtime/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/broken.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

#include <CL/cl_ext.h>

enum { TRIAL_LAUNCHES = 64, TRIAL_KERNELS = 4, TRIAL_ROUNDS = 12 };
static const double WORTH = 0.95; /* the most time, relative to plain enqueues: a smaller gain is noise */

typedef enum trial_result { NOT_USABLE, RIGHT, FASTER } trial_result;

/* The driver's entry points, and the trial's result. It is attached to the device. */
typedef struct command_buffers {
    trial_result result;
    clCreateCommandBufferKHR_fn create;
    clCommandNDRangeKernelKHR_fn add;
    clFinalizeCommandBufferKHR_fn finalize;
    clEnqueueCommandBufferKHR_fn enqueue;
    clReleaseCommandBufferKHR_fn release;
    char why[160];
} command_buffers;

static void release_api(clef_device *dev, void *data)
{
    (void)dev;
    free(data);
}
static const clef__attachment api_slot = {.release = release_api, .with_context = 1};

static cl_command_buffer_khr begin_buffer(const command_buffers *api, clef_device *dev, cl_int *code)
{
    const cl_command_buffer_properties_khr properties[] = {CL_COMMAND_BUFFER_FLAGS_KHR,
                                                           CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
    return api->create(1, &dev->queue, properties, code);
}

static int load_entry_points(clef_device *dev, command_buffers *r)
{
    cl_ulong able = 0;
#define LOAD(field, name)                                                                                    \
    do {                                                                                                     \
        void *found = clGetExtensionFunctionAddressForPlatform(dev->platform, name);                         \
        memcpy(&r->field, &found, sizeof r->field);                                                          \
    } while (0)
    LOAD(create, "clCreateCommandBufferKHR");
    LOAD(add, "clCommandNDRangeKernelKHR");
    LOAD(finalize, "clFinalizeCommandBufferKHR");
    LOAD(enqueue, "clEnqueueCommandBufferKHR");
    LOAD(release, "clReleaseCommandBufferKHR");
#undef LOAD
    if (!r->create || !r->add || !r->finalize || !r->enqueue || !r->release) {
        snprintf(r->why, sizeof r->why, "not used: the driver lacks their entry points");
        return 0;
    }
    if (clGetDeviceInfo(dev->id, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, sizeof able, &able, NULL) ||
        !(able & CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR)) {
        snprintf(r->why, sizeof r->why, "not used: one cannot be enqueued again while it runs");
        return 0;
    }
    return 1;
}

/* ---- the trial: launches that each read what the previous one wrote, of several kernel objects as in a
 * plan */

typedef struct trial {
    clef_device *dev;
    const command_buffers *api;
    cl_kernel kernels[TRIAL_KERNELS]; /* their arguments stay set, as those of a recorded plan do */
    cl_mem out;
    cl_command_buffer_khr buffer;
} trial;

static cl_int record_trial(trial *t)
{
    cl_int code;
    const size_t one = 1;
    t->buffer = begin_buffer(t->api, t->dev, &code);
    for (int i = 0; i < TRIAL_LAUNCHES && !code; i++)
        code = t->api->add(t->buffer, NULL, NULL, t->kernels[i % TRIAL_KERNELS], 1, NULL, &one, &one, 0, NULL,
                           NULL, NULL);
    return code ? code : t->api->finalize(t->buffer);
}

static cl_int run_plain(const trial *t)
{
    const size_t one = 1;
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < TRIAL_LAUNCHES && !code; i++)
        code = clEnqueueNDRangeKernel(t->dev->queue, t->kernels[i % TRIAL_KERNELS], 1, NULL, &one, &one, 0,
                                      NULL, NULL);
    return code;
}

static cl_int run_recorded(const trial *t)
{
    return t->api->enqueue(0, NULL, t->buffer, 0, NULL, NULL);
}

/* Runs twice from a known start, without waiting in between. Returns 1 when the sum is right. */
static int is_right(const trial *t, cl_int (*run)(const trial *))
{
    cl_uint got = 0, want = 1;
    const cl_uint start = 1;
    if (clEnqueueWriteBuffer(t->dev->queue, t->out, CL_TRUE, 0, sizeof start, &start, 0, NULL, NULL) ||
        run(t) || run(t) ||
        clEnqueueReadBuffer(t->dev->queue, t->out, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL))
        return 0;
    for (cl_uint i = 0; i < 2 * TRIAL_LAUNCHES; i++)
        want = want * 1664525u + i % TRIAL_KERNELS + 1013904223u;
    return got == want;
}

static double best_seconds(const trial *t, cl_int (*run)(const trial *))
{
    double best = 1e9;
    for (int i = 0; i < TRIAL_ROUNDS; i++) {
        const double start = clef__os_seconds();
        if (run(t) || clFinish(t->dev->queue))
            return 1e9;
        const double seconds = clef__os_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void judge_trial(trial *t, command_buffers *r)
{
    const cl_int code = record_trial(t);
    r->result = NOT_USABLE;
    if (code) {
        snprintf(r->why, sizeof r->why, "not used: recording: %s", clef__cl_name(code));
        return;
    }
    if (!is_right(t, run_plain) || !is_right(t, run_recorded)) {
        snprintf(r->why, sizeof r->why, "not used: a recording came out wrong");
        return;
    }
    const double plain = best_seconds(t, run_plain), recorded = best_seconds(t, run_recorded);
    r->result = recorded < plain * WORTH ? FASTER : RIGHT;
    snprintf(r->why, sizeof r->why, "%s: %d launches take %.1f us recorded, %.1f us enqueued",
             r->result == FASTER ? "used" : "not used", TRIAL_LAUNCHES, recorded * 1e6, plain * 1e6);
}

static int make_kernels(trial *t)
{
    const clef_launch launch = {.source = "probe", .kernel = "probe_step"};
    cl_int code;
    t->out = clCreateBuffer(t->dev->context, CL_MEM_READ_WRITE, sizeof(cl_uint), NULL, &code);
    for (cl_uint i = 0; i < TRIAL_KERNELS; i++)
        if (!t->out || clef__kernel_create(t->dev, &launch, &t->kernels[i], NULL) ||
            clSetKernelArg(t->kernels[i], 0, sizeof t->out, &t->out) ||
            clSetKernelArg(t->kernels[i], 1, sizeof i, &i))
            return 0;
    return 1;
}

static void run_trial(clef_device *dev, command_buffers *r)
{
    trial t = {.dev = dev, .api = r};
    r->result = NOT_USABLE;
    if (!load_entry_points(dev, r))
        return;
    if (make_kernels(&t))
        judge_trial(&t, r);
    else
        snprintf(r->why, sizeof r->why, "not used: the trial does not run");
    clFinish(dev->queue);
    if (t.buffer)
        r->release(t.buffer);
    for (int i = 0; i < TRIAL_KERNELS; i++)
        if (t.kernels[i])
            clReleaseKernel(t.kernels[i]);
    if (t.out)
        clReleaseMemObject(t.out);
}

/* Tries them once for each device. NULL when out of memory. */
static const command_buffers *device_trial(clef_device *dev)
{
    command_buffers *r = clef__device_attached(dev, &api_slot);
    if (r)
        return r;
    r = calloc(1, sizeof *r);
    if (r) {
        run_trial(dev, r);
        clef__device_attach(dev, &api_slot, r);
    }
    return r;
}

static int is_used(clef_device *dev, int no_tune)
{
    const char *replay = clef__debug("replay"), *tune = clef__os_env("CLEF_TUNE");
    const int forced = replay && strcmp(replay, "1") == 0;
    if (!dev->info.caps.command_buffer || dev->profile || (replay && strcmp(replay, "0") == 0))
        return 0;
    if (!forced && (no_tune || (tune && strcmp(tune, "0") == 0)))
        return 0;
    const command_buffers *r = device_trial(dev);
    return r && (r->result == FASTER || (forced && r->result == RIGHT));
}

const char *clef_device_command_buffers(clef_device *dev)
{
    if (!dev->info.caps.command_buffer)
        return "the device has none (cl_khr_command_buffer)";
    const command_buffers *r = device_trial(dev);
    return r ? r->why : "not tried: no memory";
}

/* ---- the executor ---------------------------------------------------------------------------- */

typedef struct recording {
    const command_buffers *api;
    cl_command_buffer_khr *buffers; /* of the current list: a buffer up to each mark, and one for the rest;
                                       NULL: none yet */
    int32_t n_buffers;
    int32_t n_same; /* runs of the current list */
} recording;

/* The trial decides for the device, so most plans have no recording. */
static clef_status prepare_recording(clef_plan *plan, clef__execution *e, clef_error *err)
{
    if (!is_used(plan->dev, plan->opts.compile.no_tune))
        return CLEF_OK;
    recording *r = e->state = calloc(1, sizeof *r);
    if (!r)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for a command buffer");
    r->api = clef__device_attached(plan->dev, &api_slot);
    return CLEF_OK;
}

/* Only kernels can be recorded. */
static int can_record(const clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_launches; i++)
        if (!plan->list[i] || clef__broken(&plan->launches[i]))
            return 0;
    return plan->n_launches > 1;
}

/* Records launches `from` to `to` - 1. */
static cl_int record_launches(const clef_plan *plan, const command_buffers *api, cl_command_buffer_khr buffer,
                              int32_t from, int32_t to)
{
    cl_int code = CL_SUCCESS;
    for (int32_t i = from; i < to && !code; i++) {
        const clef_launch *l = &plan->launches[i];
        size_t local[3], global[3];
        for (int k = 0; k < 3; k++) {
            local[k] = l->local[k];
            global[k] = local[k] * l->groups[k];
        }
        code =
            api->add(buffer, NULL, NULL, plan->list[i]->object, 3, NULL, global, local, 0, NULL, NULL, NULL);
    }
    return code ? code : api->finalize(buffer);
}

static void release_buffers(recording *r)
{
    for (int32_t i = 0; i < r->n_buffers; i++)
        if (r->buffers[i])
            r->api->release(r->buffers[i]);
    free(r->buffers);
    r->buffers = NULL;
    r->n_buffers = 0;
}

/* Leaves r->buffers NULL if the list cannot be recorded. */
static void make_buffers(const clef_plan *plan, recording *r)
{
    cl_int code = CL_SUCCESS;
    r->buffers = can_record(plan) ? calloc((size_t)plan->n_marks + 1, sizeof *r->buffers) : NULL;
    if (!r->buffers)
        return;
    for (int32_t k = 0, from = 0; k <= plan->n_marks && !code; k++) {
        const int32_t to = k < plan->n_marks ? plan->marks[k].launch + 1 : plan->n_launches;
        r->n_buffers++;
        if (from == to)
            continue;
        r->buffers[k] = begin_buffer(r->api, plan->dev, &code);
        if (!code)
            code = record_launches(plan, r->api, r->buffers[k], from, to);
        from = to;
    }
    if (code)
        release_buffers(r);
}

static clef_status enqueue_buffers(clef_plan *plan, const recording *r, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t k = 0; k < r->n_buffers && !s; k++) {
        cl_event ended = NULL;
        const cl_int code = r->buffers[k] ? r->api->enqueue(0, NULL, r->buffers[k], 0, NULL,
                                                            k < plan->n_marks ? &ended : NULL)
                                          : CL_SUCCESS;
        if (code)
            s = clef__cl_fail(err, "clEnqueueCommandBufferKHR", "the plan's launches", code);
        else if (k < plan->n_marks)
            s = clef__plan_mark(plan, &plan->marks[k], ended, 0, err);
    }
    return s;
}

static void invalidate_recording(clef_plan *plan, clef__execution *e)
{
    recording *r = e->state;
    if (!r)
        return;
    r->n_same = 0;
    if (!r->buffers)
        return;
    clFinish(plan->dev->queue); /* it may still run */
    release_buffers(r);
}

static void release_recording(clef_plan *plan, clef__execution *e)
{
    invalidate_recording(plan, e);
    free(e->state);
    e->state = NULL;
}

/* Records at the second run of the same list. A plan that cannot be recorded is not tried again. */
static int run_recording(clef_plan *plan, clef__execution *e, clef_status *status, clef_error *err)
{
    enum { SECOND = 2 };
    recording *r = e->state;
    if (!r || ++r->n_same < SECOND)
        return 0;
    if (!r->buffers)
        make_buffers(plan, r);
    if (!r->buffers) {
        release_recording(plan, e);
        return 0;
    }
    *status = enqueue_buffers(plan, r, err);
    return 1;
}

const clef__executor clef__exec_command_buffer = {.name = "command buffer",
                                                  .prepare = prepare_recording,
                                                  .run = run_recording,
                                                  .invalidate = invalidate_recording,
                                                  .release = release_recording};
