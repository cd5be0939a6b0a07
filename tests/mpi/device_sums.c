/* Sums over ranks in which some ranks take part by their device and others by the host, in turn: every rank
 * gets the bits of the sum in the order of ranks. usage: mpirun -n N device_sums */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "ranks/join/device_sums.h"
#include "ranks/join/ranks.h"

enum { N_ROUNDS = 400, MOST = 5000 };

static void must(clef_status s, const clef_error *err)
{
    if (s == CLEF_OK)
        return;
    fprintf(stderr, "FAIL %s\n", err->text);
    exit(1);
}

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 0x9E3779B1u ^ b * 0x85EBCA77u ^ c * 0xC2B2AE3Du;
    h = (h ^ h >> 15) * 0x2C1B3C6Du;
    return h ^ h >> 13;
}

static float value(int32_t rank, uint32_t round, uint32_t i)
{
    return (float)(int32_t)hash((uint32_t)rank, round, i) / 1024.0f;
}

static void sum_on_device(clef_device *dev, cl_kernel kernel, cl_mem x, float *values, uint32_t n)
{
    const clef__device_sums *sums = clef__ranks_sums(dev);
    const exchange_args a = clef__device_sum_args(sums, n);
    const size_t one = 1;
    if (clEnqueueWriteBuffer(dev->queue, x, CL_TRUE, 0, n * sizeof *values, values, 0, NULL, NULL) ||
        clSetKernelArg(kernel, 0, sizeof a, &a) || clSetKernelArg(kernel, 1, sizeof x, &x) ||
        clSetKernelArg(kernel, 2, sizeof x, &x) ||
        clSetKernelArg(kernel, 3, sizeof sums->memory, &sums->memory) ||
        clEnqueueNDRangeKernel(dev->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) ||
        clEnqueueReadBuffer(dev->queue, x, CL_TRUE, 0, n * sizeof *values, values, 0, NULL, NULL)) {
        fprintf(stderr, "FAIL the kernel does not run\n");
        exit(1);
    }
}

int main(void)
{
    static float values[MOST];
    static const clef_launch launch = {.source = "exchange", .kernel = "exchange_sum"};
    clef_error err = {0};
    clef_ranks *r;
    clef_device *dev;
    clef_ranks_info info;
    cl_kernel kernel;
    cl_int code;
    int32_t n_wrong = 0, n_by_device = 0;
    must(clef_ranks_open(NULL, &r, &err), &err);
    clef_ranks_describe(r, &info);
    must(clef_device_open(NULL, &(clef_device_opts){.cache_dir = ""}, &dev, &err), &err);
    clef__device_sums_find(r, dev);
    if (!clef__ranks_sums(dev)) {
        if (info.rank == 0)
            printf("none\n");
        goto out;
    }
    must(clef__kernel_create(dev, &launch, &kernel, &err), &err);
    cl_mem x = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, sizeof values, NULL, &code);
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        const uint32_t n = 1 + hash(99, round, 0) % MOST;
        for (uint32_t i = 0; i < n; i++)
            values[i] = value(info.rank, round, i);
        if (hash((uint32_t)info.rank, round, 7) & 8) {
            sum_on_device(dev, kernel, x, values, n);
            n_by_device++;
        } else {
            must(r->transport->calls->all_reduce(r->stage, values, n, CLEF__WIRE_F32, &err), &err);
        }
        for (uint32_t i = 0; i < n; i++) {
            float sum = value(0, round, i);
            for (int32_t rank = 1; rank < info.n; rank++)
                sum += value(rank, round, i);
            n_wrong += values[i] != sum;
        }
    }
    clReleaseMemObject(x);
    clReleaseKernel(kernel);
    printf("rank %d: %d wrong, %d of %d by the device\n", (int)info.rank, (int)n_wrong, (int)n_by_device,
           N_ROUNDS);
out:
    clef_device_close(dev);
    r->n_plans = -1; /* nobody follows */
    clef_ranks_close(r);
    return n_wrong > 0;
}
