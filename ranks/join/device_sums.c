/* Which devices sum over ranks themselves: the trials. */
#include "ranks/join/device_sums.h"

#include <stdlib.h>
#include <string.h>

#include "ranks/join/ranks.h"
#include "runtime/os/debug.h"

/* Far more polls than it takes the ranks to arrive: they met just before. They take eight seconds or more, so
 * that a rank that the system stops meanwhile is still in time. */
enum { TRIAL_POLLS = 1 << 25, N_TRIALS = 6 };

static const clef_launch sum_launch = {.source = "exchange", .kernel = "exchange_sum"};

static void release(clef_device *dev, void *data)
{
    clef__device_sums *sums = data;
    (void)dev;
    if (sums && sums->memory)
        clReleaseMemObject(sums->memory);
    free(sums);
}
static const clef__attachment slot = {.release = release};

const clef__device_sums *clef__ranks_sums(const clef_device *dev)
{
    return clef__device_attached(dev, &slot);
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* What rank i contributes in a trial. Every rank can compute it. */
static float contribution(int32_t rank, int32_t trial, uint32_t i)
{
    const uint32_t h = ((uint32_t)rank * 0x9E3779B1u + (uint32_t)trial) * 0x85EBCA77u + i * 0xC2B2AE3Du;
    return (float)(int32_t)(h ^ h >> 13) / 65536.0f;
}

/* The kernel, and buffers for as many floats as a round has. */
typedef struct trial {
    cl_kernel kernel;
    cl_mem out, x, memory; /* memory: the segments for trials */
    float *values;
    uint32_t n_most;
} trial;

static void finish(trial *t)
{
    const cl_mem mems[] = {t->out, t->x, t->memory};
    for (size_t i = 0; i < sizeof mems / sizeof *mems; i++)
        if (mems[i])
            clReleaseMemObject(mems[i]);
    if (t->kernel)
        clReleaseKernel(t->kernel);
    free(t->values);
}

static int start(clef_device *dev, const clef__group_memory *layout, trial *t)
{
    cl_int code[3] = {CL_SUCCESS};
    t->n_most = (uint32_t)(layout->most_bytes / sizeof(float));
    t->values = malloc(layout->most_bytes);
    if (!t->values || clef__kernel_create(dev, &sum_launch, &t->kernel, NULL))
        return 0;
    t->out = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, layout->most_bytes, NULL, &code[0]);
    t->x = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, layout->most_bytes, NULL, &code[1]);
    t->memory = clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                               layout->n_bytes - layout->trial, layout->base + layout->trial, &code[2]);
    return t->out && t->x && t->memory && !code[0] && !code[1] && !code[2];
}

/* Runs the kernel on t->values[n]. */
static int run(clef_device *dev, trial *t, cl_mem memory, const exchange_args *a)
{
    const size_t one = 1, n_bytes = a->n * sizeof(float);
    return !clEnqueueWriteBuffer(dev->queue, t->x, CL_TRUE, 0, n_bytes, t->values, 0, NULL, NULL) &&
           !clSetKernelArg(t->kernel, 0, sizeof *a, a) &&
           !clSetKernelArg(t->kernel, 1, sizeof t->out, &t->out) &&
           !clSetKernelArg(t->kernel, 2, sizeof t->x, &t->x) &&
           !clSetKernelArg(t->kernel, 3, sizeof memory, &memory) &&
           !clEnqueueNDRangeKernel(dev->queue, t->kernel, 1, NULL, &one, &one, 0, NULL, NULL) &&
           !clEnqueueReadBuffer(dev->queue, t->out, CL_TRUE, 0, n_bytes, t->values, 0, NULL, NULL);
}

/* Whether the device works in the host's memory: this rank alone sums, and the host looks at its segment. */
static int works_in_place(clef_device *dev, trial *t, const clef__group_memory *layout,
                          const clef__device_sums *sums)
{
    const int32_t rank = (int32_t)sums->args.rank;
    const unsigned char *mine = layout->base + layout->trial + (size_t)rank * layout->segment_bytes;
    exchange_args a = clef__device_sum_args(sums, t->n_most);
    float first;
    uint64_t raised;
    cl_int code;
    cl_mem alone = clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                  layout->segment_bytes, (void *)(uintptr_t)mine, &code);
    if (!alone)
        return 0;
    a.n_ranks = 1;
    a.rank = 0;
    for (uint32_t i = 0; i < a.n; i++)
        t->values[i] = contribution(rank, -1, i);
    int works = run(dev, t, alone, &a);
    for (uint32_t i = 0; i < a.n && works; i++)
        works = t->values[i] == contribution(rank, -1, i);
    memcpy(&raised, mine, sizeof raised);
    memcpy(&first, mine + layout->slots + layout->slot_bytes, sizeof first); /* round 1: slot 1 */
    clReleaseMemObject(alone);
    return works && raised == 1 && first == contribution(rank, -1, 0);
}

/* Sums with the other ranks. */
static int sums_right(clef_device *dev, trial *t, const clef__device_sums *sums)
{
    const uint32_t lengths[N_TRIALS] = {1, 8, 77, 896, t->n_most / 2, t->n_most};
    int is_right = 1;
    for (int32_t k = 0; k < N_TRIALS && is_right; k++) {
        exchange_args a = clef__device_sum_args(sums, lengths[k]);
        a.polls = TRIAL_POLLS;
        for (uint32_t i = 0; i < a.n; i++)
            t->values[i] = contribution((int32_t)sums->args.rank, k, i);
        is_right = run(dev, t, t->memory, &a);
        for (uint32_t i = 0; i < a.n && is_right; i++) {
            float sum = contribution(0, k, i);
            for (int32_t rank = 1; rank < (int32_t)sums->args.n_ranks; rank++)
                sum += contribution(rank, k, i);
            is_right = t->values[i] == sum;
        }
    }
    return is_right;
}

/* ---- finding out ----------------------------------------------------------------------------- */

/* 1 if `mine` is 1 on every rank of the stage. */
static int all_say(const clef_ranks *r, int mine)
{
    float n_not = mine ? 0 : 1;
    return !r->transport->calls->all_reduce(r->stage, &n_not, 1, CLEF__WIRE_F32, NULL) && n_not == 0;
}

static clef__device_sums *attach(const clef_ranks *r, clef_device *dev)
{
    const clef__group_memory *layout = &r->memory;
    cl_int code;
    clef__device_sums *sums = calloc(1, sizeof *sums);
    if (!sums)
        return NULL;
    sums->most_bytes = layout->most_bytes;
    sums->args = (exchange_args){.rank = (args_uint)(r->rank % r->layout.width),
                                 .n_ranks = (args_uint)r->layout.width,
                                 .segment = (args_uint)layout->segment_bytes,
                                 .slots = (args_uint)layout->slots,
                                 .slot = (args_uint)layout->slot_bytes};
    sums->memory = clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, layout->trial,
                                  layout->base, &code);
    if (!sums->memory) {
        free(sums);
        return NULL;
    }
    return sums;
}

void clef__device_sums_find(clef_ranks *r, clef_device *dev)
{
    const clef_caps *caps = &dev->info.caps;
    if (r->apart || r->layout.width < 2 || !r->transport->calls->memory(r->stage, &r->memory))
        return;
    clef__device_sums *sums = caps->is_cpu && caps->unified_memory && r->wire == CLEF__WIRE_F32 &&
                                      !clef__debug_is("rank_fused", "0")
                                  ? attach(r, dev)
                                  : NULL;
    trial t = {0};
    int can = all_say(r, sums && start(dev, &r->memory, &t) && works_in_place(dev, &t, &r->memory, sums));
    if (can)
        can = all_say(r, sums_right(dev, &t, sums));
    finish(&t);
    if (!can) {
        release(dev, sums);
        return;
    }
    r->transport->calls->rounds(r->stage, 1);
    clef__device_attach(dev, &slot, sums);
    r->summing = dev->id;
}

void clef__device_sums_reattach(clef_ranks *r, clef_device *dev)
{
    clef__device_sums *sums = r->summing && r->summing == dev->id ? attach(r, dev) : NULL;
    if (sums)
        clef__device_attach(dev, &slot, sums);
}
