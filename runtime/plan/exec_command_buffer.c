/* cl_khr_command_buffer, as of its versions 0.9.0 on (entry points by
 * clGetExtensionFunctionAddressForPlatform). */
#include "runtime/plan/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/broken.h"
#include "runtime/os/os.h"

#include <CL/cl_ext.h>

enum { TRIAL_LAUNCHES = 64, TRIAL_KERNELS = 4, TRIAL_ROUNDS = 12 };
static const double WORTH = 0.95; /* of the time of plain enqueues: less gain than that is noise */

typedef enum replay_state { REPLAY_UNTRIED, REPLAY_NO, REPLAY_RIGHT, REPLAY_FASTER } replay_state;

struct clef_replay {
    replay_state state;
    clCreateCommandBufferKHR_fn create;
    clCommandNDRangeKernelKHR_fn add;
    clFinalizeCommandBufferKHR_fn finalize;
    clEnqueueCommandBufferKHR_fn enqueue;
    clReleaseCommandBufferKHR_fn release;
    char why[160];
};

/* ---- a buffer
 * ----------------------------------------------------------------------------------------------------------------------
 */

static cl_command_buffer_khr begin(clef_device *dev, cl_int *code)
{
    const cl_command_buffer_properties_khr properties[] = {CL_COMMAND_BUFFER_FLAGS_KHR,
                                                           CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
    return dev->replay->create(1, &dev->queue, properties, code);
}

static int load(clef_device *dev, struct clef_replay *r)
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

/* ---- the trial: launches that each read what the one before wrote, of several kernel objects as in a plan
 * -------------------------------------------------------------------- */

typedef struct trial {
    clef_device *dev;
    cl_kernel kernels[TRIAL_KERNELS]; /* their arguments stay, as a plan's do while its recording lives */
    cl_mem out;
    cl_command_buffer_khr buffer;
} trial;

static cl_int record_trial(trial *t)
{
    cl_int code;
    const size_t one = 1;
    t->buffer = begin(t->dev, &code);
    for (int i = 0; i < TRIAL_LAUNCHES && !code; i++)
        code = t->dev->replay->add(t->buffer, NULL, NULL, t->kernels[i % TRIAL_KERNELS], 1, NULL, &one, &one,
                                   0, NULL, NULL, NULL);
    return code ? code : t->dev->replay->finalize(t->buffer);
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
    return t->dev->replay->enqueue(0, NULL, t->buffer, 0, NULL, NULL);
}

/* Two runs behind one another from a known start, without waiting between: 1 when the sum is right. */
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

static void judge(trial *t, struct clef_replay *r)
{
    const cl_int code = record_trial(t);
    r->state = REPLAY_NO;
    if (code) {
        snprintf(r->why, sizeof r->why, "not used: recording: %s", clef__cl_name(code));
        return;
    }
    if (!is_right(t, run_plain) || !is_right(t, run_recorded)) {
        snprintf(r->why, sizeof r->why, "not used: a recording came out wrong");
        return;
    }
    const double plain = best_seconds(t, run_plain), recorded = best_seconds(t, run_recorded);
    r->state = recorded < plain * WORTH ? REPLAY_FASTER : REPLAY_RIGHT;
    snprintf(r->why, sizeof r->why, "%s: %d launches take %.1f us recorded, %.1f us enqueued",
             r->state == REPLAY_FASTER ? "used" : "not used", TRIAL_LAUNCHES, recorded * 1e6, plain * 1e6);
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

static void try_them(clef_device *dev, struct clef_replay *r)
{
    trial t = {.dev = dev};
    r->state = REPLAY_NO;
    if (!load(dev, r))
        return;
    if (make_kernels(&t))
        judge(&t, r);
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

static const struct clef_replay *tried(clef_device *dev)
{
    if (!dev->replay) {
        dev->replay = calloc(1, sizeof *dev->replay);
        if (dev->replay)
            try_them(dev, dev->replay);
    }
    return dev->replay;
}

int clef__replay_serves(clef_device *dev, int no_tune)
{
    const char *replay = clef__os_env("CLEF_REPLAY"), *tune = clef__os_env("CLEF_TUNE");
    const int forced = replay && strcmp(replay, "1") == 0;
    if (!dev->info.caps.command_buffer || dev->profile || (replay && strcmp(replay, "0") == 0))
        return 0;
    if (!forced && (no_tune || (tune && strcmp(tune, "0") == 0)))
        return 0;
    const struct clef_replay *r = tried(dev);
    return r && (r->state == REPLAY_FASTER || (forced && r->state == REPLAY_RIGHT));
}

const char *clef_device_command_buffers(clef_device *dev)
{
    if (!dev->info.caps.command_buffer)
        return "the device has none (cl_khr_command_buffer)";
    const struct clef_replay *r = tried(dev);
    return r ? r->why : "not tried: no memory";
}

void clef__replay_close(clef_device *dev)
{
    free(dev->replay);
    dev->replay = NULL;
}

/* ---- plans
 * -------------------------------------------------------------------------------------------------------------------------
 */

/* Kernels alone can be recorded. */
static int can_record(const clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_launches; i++)
        if (!plan->list[i] || clef__broken(&plan->launches[i]))
            return 0;
    return plan->n_launches > 1;
}

static cl_int record(const clef_plan *plan, cl_command_buffer_khr buffer)
{
    cl_int code = CL_SUCCESS;
    for (int32_t i = 0; i < plan->n_launches && !code; i++) {
        const clef_launch *l = &plan->launches[i];
        size_t local[3], global[3];
        for (int k = 0; k < 3; k++) {
            local[k] = l->local[k];
            global[k] = local[k] * l->groups[k];
        }
        code = plan->dev->replay->add(buffer, NULL, NULL, plan->list[i]->object, 3, NULL, global, local, 0,
                                      NULL, NULL, NULL);
    }
    return code ? code : plan->dev->replay->finalize(buffer);
}

/* What cannot be recorded is enqueued as ever: the plan tries it once. */
static void make_recording(clef_plan *plan)
{
    cl_int code = CL_SUCCESS;
    cl_command_buffer_khr buffer = can_record(plan) ? begin(plan->dev, &code) : NULL;
    if (buffer && (code || record(plan, buffer))) {
        plan->dev->replay->release(buffer);
        buffer = NULL;
    }
    plan->recording = buffer;
    plan->replays = plan->replays && buffer;
}

int clef__replay_run(clef_plan *plan, clef_status *status, clef_error *err)
{
    enum { SECOND = 2 };
    if (!plan->replays || ++plan->n_same < SECOND)
        return 0;
    if (!plan->recording)
        make_recording(plan);
    if (!plan->recording)
        return 0;
    const cl_int code = plan->dev->replay->enqueue(0, NULL, plan->recording, 0, NULL, NULL);
    *status = code ? clef__cl_fail(err, "clEnqueueCommandBufferKHR", "the plan's launches", code) : CLEF_OK;
    return 1;
}

void clef__replay_drop(clef_plan *plan)
{
    plan->n_same = 0;
    if (!plan->recording)
        return;
    clFinish(plan->dev->queue); /* it may run still */
    plan->dev->replay->release(plan->recording);
    plan->recording = NULL;
}
