/* An OpenCL loader layer (CL/cl_layer.h) that counts calls, counts live objects, and makes a chosen call
 * fail.
 *
 * Build it as a shared object; the ICD loader (ocl-icd 2.3 or Khronos's) puts it between program and driver:
 *   OPENCL_LAYERS=$PWD/libcount_layer.so CLEF_LAYER_OUT=counts.txt clef run ...
 *
 * Environment, read once when the loader starts:
 *
 * CLEF_LAYER_OUT=FILE: at exit, writes a line "NAME COUNT" for each API called, "live KIND COUNT" for each
 * kind of object, "peak_bytes N", the most that buffers held at once, but those in memory of the host's own
 * and sub-buffers, and "device_bytes N", which buffers were filled with when they were made, or later by
 * clEnqueueWriteBuffer. Child processes write nothing.
 *
 * CLEF_LAYER_FAIL=N: call N (from 1) of all fails and does not reach the driver; "N+": N and every later one
 * (a lost device); "N-M": those from N to M.
 *
 * CLEF_LAYER_FAIL_API=A: counts only the calls of API A for CLEF_LAYER_FAIL.
 *
 * CLEF_LAYER_CODE=C: what a failed call returns; default -5, CL_OUT_OF_RESOURCES.
 *
 * A clFinish that fails has waited. Retain and release never fail and are not numbered. A live count is
 * creations and retains less releases: references held by the program; an event counts when an enqueue hands
 * it out. What a driver calls inside itself is not seen.
 *
 * A test in the same process finds these functions by tests/layers/count.h, by linking with the layer, or by
 * dlopen(getenv("OPENCL_LAYERS"), RTLD_NOW | RTLD_NOLOAD) and dlsym(). The loader must have started: call any
 * cl function first.
 *
 * long clef_layer_count(const char *api): calls of one API since the last reset; NULL: of those numbered for
 * failing; -1: unknown.
 *
 * long clef_layer_live(const char *kind): "context" "queue" "mem" "program" "kernel" "event" "sampler"; NULL:
 * all together.
 *
 * void clef_layer_fail(const char *api, long n, int sticky): resets the counts and makes call n of `api`
 * (NULL: of all) from now on fail (sticky: and all later ones); 0: none.
 *
 * long clef_layer_flushed(long i): the number of launches enqueued before flush i (from 0), since the last
 * reset; -1: there was no such flush, or it was beyond the first 64.
 *
 * void clef_layer_reset(void): sets the call counts to 0; live counts stay. */
#define _POSIX_C_SOURCE 200809L /* unsetenv, strdup */

#include "tests/layers/layer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define APIS(X) \
    X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo) X(clCreateContext) \
    X(clRetainContext) X(clReleaseContext) X(clGetContextInfo) X(clCreateCommandQueue) \
    X(clCreateCommandQueueWithProperties) X(clRetainCommandQueue) X(clReleaseCommandQueue) \
    X(clGetCommandQueueInfo) X(clCreateBuffer) X(clCreateSubBuffer) X(clRetainMemObject) \
    X(clReleaseMemObject) X(clGetMemObjectInfo) X(clCreateSampler) X(clRetainSampler) \
    X(clReleaseSampler) X(clCreateProgramWithSource) X(clCreateProgramWithBinary) \
    X(clCreateProgramWithIL) X(clRetainProgram) X(clReleaseProgram) X(clBuildProgram) \
    X(clGetProgramInfo) X(clGetProgramBuildInfo) \
    X(clCreateKernel) X(clRetainKernel) X(clReleaseKernel) X(clSetKernelArg) X(clGetKernelInfo) \
    X(clGetKernelWorkGroupInfo) X(clWaitForEvents) X(clGetEventInfo) X(clGetEventProfilingInfo) \
    X(clCreateUserEvent) X(clRetainEvent) X(clReleaseEvent) X(clFlush) X(clFinish) \
    X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer) X(clEnqueueCopyBuffer) X(clEnqueueFillBuffer) \
    X(clEnqueueMapBuffer) X(clEnqueueUnmapMemObject) X(clEnqueueNDRangeKernel) \
    X(clEnqueueMarkerWithWaitList) X(clEnqueueBarrierWithWaitList) X(clEnqueueReadBufferRect) \
    X(clEnqueueWriteBufferRect)
#define KINDS(X) X(context) X(queue) X(mem) X(program) X(kernel) X(event) X(sampler)
/* clang-format on */

enum {
#define ID(name) API_##name,
    APIS(ID)
#undef ID
        N_APIS
};
enum {
#define ID(name) LIVE_##name,
    KINDS(ID)
#undef ID
        N_KINDS
};
enum { MOST_FLUSHES = 64 };
#define TEXT(name) #name,
static const char *const api_names[N_APIS] = {APIS(TEXT)};
static const char *const kind_names[N_KINDS] = {KINDS(TEXT)};
#undef TEXT

static atomic_long n_calls[N_APIS], n_live[N_KINDS], n_numbered;
static atomic_long fail_at, fail_last; /* the last one where it is beyond fail_at */
static int fail_sticky, fail_api = -1; /* -1: any */
static cl_int fail_code = CL_OUT_OF_RESOURCES;

static atomic_long live_bytes, peak_bytes;

static atomic_long device_bytes; /* that the host has sent to the device */

/* The bytes of a buffer that is not part of another and has memory from the driver. */
static long own_bytes(cl_mem mem)
{
    size_t n = 0;
    cl_mem_flags flags = 0;
    cl_mem of = NULL;
    next->clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof n, &n, NULL);
    next->clGetMemObjectInfo(mem, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
    next->clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof of, &of, NULL);
    return of || (flags & CL_MEM_USE_HOST_PTR) ? 0 : (long)n;
}

static void count_bytes(long change)
{
    const long now = atomic_fetch_add(&live_bytes, change) + change;
    if (now > atomic_load(&peak_bytes))
        atomic_store(&peak_bytes, now);
}

/* Counts a call; 1 when it is to fail. */
static int fails(int api)
{
    atomic_fetch_add(&n_calls[api], 1);
    if (fail_api >= 0 && api != fail_api)
        return 0;
    const long number = atomic_fetch_add(&n_numbered, 1) + 1, at = atomic_load(&fail_at);
    return at > 0 && (number == at || (number > at && (fail_sticky || number <= atomic_load(&fail_last))));
}

static void *no_object(cl_int *code)
{
    if (code)
        *code = fail_code;
    return NULL;
}

/* ---- the wrappers, by what a call does to objects -------------------------------------------- */
#define PLAIN(name, params, args)                                                                            \
    static cl_int CL_API_CALL my_##name params                                                               \
    {                                                                                                        \
        return fails(API_##name) ? fail_code : next->name args;                                              \
    }
#define MAKE(type, name, kind, params, args)                                                                 \
    static type CL_API_CALL my_##name params                                                                 \
    {                                                                                                        \
        if (fails(API_##name))                                                                               \
            return no_object(code);                                                                          \
        type made = next->name args;                                                                         \
        if (made)                                                                                            \
            atomic_fetch_add(&n_live[LIVE_##kind], 1);                                                       \
        return made;                                                                                         \
    }
#define REFER(type, name, kind, change)                                                                      \
    static cl_int CL_API_CALL my_##name(type object)                                                         \
    {                                                                                                        \
        atomic_fetch_add(&n_calls[API_##name], 1);                                                           \
        const cl_int code = next->name(object);                                                              \
        if (code == CL_SUCCESS)                                                                              \
            atomic_fetch_add(&n_live[LIVE_##kind], change);                                                  \
        return code;                                                                                         \
    }
#define ENQUEUE(name, params, args)                                                                          \
    static cl_int CL_API_CALL my_##name params                                                               \
    {                                                                                                        \
        if (fails(API_##name))                                                                               \
            return fail_code;                                                                                \
        const cl_int code = next->name args;                                                                 \
        if (code == CL_SUCCESS && event)                                                                     \
            atomic_fetch_add(&n_live[LIVE_event], 1);                                                        \
        return code;                                                                                         \
    }
#define WAIT cl_uint n_wait, const cl_event *wait, cl_event *event

PLAIN(clGetPlatformIDs, (cl_uint n, cl_platform_id *out, cl_uint *n_out), (n, out, n_out))
PLAIN(clGetPlatformInfo, (cl_platform_id x, cl_platform_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetDeviceIDs, (cl_platform_id x, cl_device_type type, cl_uint n, cl_device_id *out, cl_uint *n_out),
      (x, type, n, out, n_out))
PLAIN(clGetDeviceInfo, (cl_device_id x, cl_device_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetContextInfo, (cl_context x, cl_context_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetCommandQueueInfo,
      (cl_command_queue x, cl_command_queue_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetMemObjectInfo, (cl_mem x, cl_mem_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetProgramInfo, (cl_program x, cl_program_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetProgramBuildInfo,
      (cl_program x, cl_device_id dev, cl_program_build_info what, size_t n, void *out, size_t *n_out),
      (x, dev, what, n, out, n_out))
PLAIN(clGetKernelInfo, (cl_kernel x, cl_kernel_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetKernelWorkGroupInfo,
      (cl_kernel x, cl_device_id dev, cl_kernel_work_group_info what, size_t n, void *out, size_t *n_out),
      (x, dev, what, n, out, n_out))
PLAIN(clGetEventInfo, (cl_event x, cl_event_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clGetEventProfilingInfo, (cl_event x, cl_profiling_info what, size_t n, void *out, size_t *n_out),
      (x, what, n, out, n_out))
PLAIN(clBuildProgram,
      (cl_program x, cl_uint n, const cl_device_id *devs, const char *options,
       void(CL_CALLBACK *done)(cl_program, void *), void *user),
      (x, n, devs, options, done, user))
PLAIN(clSetKernelArg, (cl_kernel x, cl_uint i, size_t n, const void *value), (x, i, n, value))
PLAIN(clWaitForEvents, (cl_uint n, const cl_event *events), (n, events))

static atomic_long n_flushes, flushed[MOST_FLUSHES];

static cl_int CL_API_CALL my_clFlush(cl_command_queue x)
{
    const long i = atomic_fetch_add(&n_flushes, 1);
    if (i < MOST_FLUSHES)
        atomic_store(&flushed[i], atomic_load(&n_calls[API_clEnqueueNDRangeKernel]));
    return fails(API_clFlush) ? fail_code : next->clFlush(x);
}

/* One that fails has waited all the same: a device that is lost runs nothing any more, and memory may be
 * freed. */
static cl_int CL_API_CALL my_clFinish(cl_command_queue x)
{
    const int to_fail = fails(API_clFinish);
    const cl_int code = next->clFinish(x);
    return to_fail ? fail_code : code;
}

MAKE(cl_context, clCreateContext, context,
     (const cl_context_properties *properties, cl_uint n, const cl_device_id *devs,
      void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code),
     (properties, n, devs, notify, user, code))
MAKE(cl_command_queue, clCreateCommandQueue, queue,
     (cl_context x, cl_device_id dev, cl_command_queue_properties properties, cl_int *code),
     (x, dev, properties, code))
MAKE(cl_command_queue, clCreateCommandQueueWithProperties, queue,
     (cl_context x, cl_device_id dev, const cl_queue_properties *properties, cl_int *code),
     (x, dev, properties, code))
static cl_mem CL_API_CALL my_clCreateBuffer(cl_context x, cl_mem_flags flags, size_t n, void *host,
                                            cl_int *code)
{
    if (fails(API_clCreateBuffer))
        return no_object(code);
    const cl_mem made = next->clCreateBuffer(x, flags, n, host, code);
    if (made) {
        atomic_fetch_add(&n_live[LIVE_mem], 1);
        count_bytes(own_bytes(made));
        atomic_fetch_add(&device_bytes, flags & CL_MEM_COPY_HOST_PTR ? (long)n : 0);
    }
    return made;
}
MAKE(cl_mem, clCreateSubBuffer, mem,
     (cl_mem x, cl_mem_flags flags, cl_buffer_create_type type, const void *region, cl_int *code),
     (x, flags, type, region, code))
MAKE(cl_sampler, clCreateSampler, sampler,
     (cl_context x, cl_bool normalized, cl_addressing_mode mode, cl_filter_mode filter, cl_int *code),
     (x, normalized, mode, filter, code))
MAKE(cl_program, clCreateProgramWithSource, program,
     (cl_context x, cl_uint n, const char **texts, const size_t *sizes, cl_int *code),
     (x, n, texts, sizes, code))
MAKE(cl_program, clCreateProgramWithBinary, program,
     (cl_context x, cl_uint n, const cl_device_id *devs, const size_t *sizes, const unsigned char **binaries,
      cl_int *codes, cl_int *code),
     (x, n, devs, sizes, binaries, codes, code))
MAKE(cl_program, clCreateProgramWithIL, program, (cl_context x, const void *il, size_t n, cl_int *code),
     (x, il, n, code))
MAKE(cl_kernel, clCreateKernel, kernel, (cl_program x, const char *name, cl_int *code), (x, name, code))
MAKE(cl_event, clCreateUserEvent, event, (cl_context x, cl_int *code), (x, code))

REFER(cl_context, clRetainContext, context, 1)
REFER(cl_context, clReleaseContext, context, -1)
REFER(cl_command_queue, clRetainCommandQueue, queue, 1)
REFER(cl_command_queue, clReleaseCommandQueue, queue, -1)
REFER(cl_mem, clRetainMemObject, mem, 1)
/* Nothing here retains a buffer, so a release ends it. */
static cl_int CL_API_CALL my_clReleaseMemObject(cl_mem x)
{
    const long n = own_bytes(x);
    atomic_fetch_add(&n_calls[API_clReleaseMemObject], 1);
    const cl_int code = next->clReleaseMemObject(x);
    if (code == CL_SUCCESS) {
        atomic_fetch_add(&n_live[LIVE_mem], -1);
        count_bytes(-n);
    }
    return code;
}
REFER(cl_sampler, clRetainSampler, sampler, 1)
REFER(cl_sampler, clReleaseSampler, sampler, -1)
REFER(cl_program, clRetainProgram, program, 1)
REFER(cl_program, clReleaseProgram, program, -1)
REFER(cl_kernel, clRetainKernel, kernel, 1)
REFER(cl_kernel, clReleaseKernel, kernel, -1)
REFER(cl_event, clRetainEvent, event, 1)
REFER(cl_event, clReleaseEvent, event, -1)

ENQUEUE(clEnqueueReadBuffer,
        (cl_command_queue x, cl_mem mem, cl_bool blocking, size_t at, size_t n, void *to, WAIT),
        (x, mem, blocking, at, n, to, n_wait, wait, event))
static cl_int CL_API_CALL my_clEnqueueWriteBuffer(cl_command_queue x, cl_mem mem, cl_bool blocking, size_t at,
                                                  size_t n, const void *from, WAIT)
{
    if (fails(API_clEnqueueWriteBuffer))
        return fail_code;
    const cl_int code = next->clEnqueueWriteBuffer(x, mem, blocking, at, n, from, n_wait, wait, event);
    if (code == CL_SUCCESS) {
        atomic_fetch_add(&n_live[LIVE_event], event ? 1 : 0);
        atomic_fetch_add(&device_bytes, (long)n);
    }
    return code;
}
ENQUEUE(clEnqueueCopyBuffer,
        (cl_command_queue x, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t n, WAIT),
        (x, from, to, from_at, to_at, n, n_wait, wait, event))
ENQUEUE(clEnqueueReadBufferRect,
        (cl_command_queue x, cl_mem mem, cl_bool blocking, const size_t *at, const size_t *host_at,
         const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice, void *to, WAIT),
        (x, mem, blocking, at, host_at, region, row, slice, host_row, host_slice, to, n_wait, wait, event))
ENQUEUE(clEnqueueWriteBufferRect,
        (cl_command_queue x, cl_mem mem, cl_bool blocking, const size_t *at, const size_t *host_at,
         const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice, const void *from,
         WAIT),
        (x, mem, blocking, at, host_at, region, row, slice, host_row, host_slice, from, n_wait, wait, event))
ENQUEUE(clEnqueueFillBuffer,
        (cl_command_queue x, cl_mem mem, const void *pattern, size_t n_pattern, size_t at, size_t n, WAIT),
        (x, mem, pattern, n_pattern, at, n, n_wait, wait, event))
ENQUEUE(clEnqueueUnmapMemObject, (cl_command_queue x, cl_mem mem, void *mapped, WAIT),
        (x, mem, mapped, n_wait, wait, event))
ENQUEUE(clEnqueueNDRangeKernel,
        (cl_command_queue x, cl_kernel kernel, cl_uint dims, const size_t *offset, const size_t *global,
         const size_t *local, WAIT),
        (x, kernel, dims, offset, global, local, n_wait, wait, event))
ENQUEUE(clEnqueueMarkerWithWaitList, (cl_command_queue x, WAIT), (x, n_wait, wait, event))
ENQUEUE(clEnqueueBarrierWithWaitList, (cl_command_queue x, WAIT), (x, n_wait, wait, event))

static void *CL_API_CALL my_clEnqueueMapBuffer(cl_command_queue x, cl_mem mem, cl_bool blocking,
                                               cl_map_flags flags, size_t at, size_t n, WAIT, cl_int *code)
{
    if (fails(API_clEnqueueMapBuffer))
        return no_object(code);
    void *mapped = next->clEnqueueMapBuffer(x, mem, blocking, flags, at, n, n_wait, wait, event, code);
    if (mapped && event)
        atomic_fetch_add(&n_live[LIVE_event], 1);
    return mapped;
}

/* ---- what a test reads ----------------------------------------------------------------------- */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED long clef_layer_count(const char *api);
EXPORTED long clef_layer_live(const char *kind);
EXPORTED void clef_layer_fail(const char *api, long n, int sticky);
EXPORTED long clef_layer_flushed(long i);
EXPORTED void clef_layer_reset(void);

static int find_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

long clef_layer_count(const char *api)
{
    if (!api)
        return atomic_load(&n_numbered);
    const int i = find_name(api_names, N_APIS, api);
    return i < 0 ? -1 : atomic_load(&n_calls[i]);
}

long clef_layer_live(const char *kind)
{
    long sum = 0;
    for (int i = 0; i < N_KINDS; i++)
        if (!kind || strcmp(kind, kind_names[i]) == 0)
            sum += atomic_load(&n_live[i]);
    return sum;
}

long clef_layer_flushed(long i)
{
    return i >= 0 && i < MOST_FLUSHES && i < atomic_load(&n_flushes) ? atomic_load(&flushed[i]) : -1;
}

void clef_layer_reset(void)
{
    for (int i = 0; i < N_APIS; i++)
        atomic_store(&n_calls[i], 0);
    atomic_store(&n_numbered, 0);
    atomic_store(&n_flushes, 0);
}

void clef_layer_fail(const char *api, long n, int sticky)
{
    clef_layer_reset();
    fail_api = api ? find_name(api_names, N_APIS, api) : -1;
    fail_sticky = sticky;
    atomic_store(&fail_at, n);
}

/* ---- what the loader calls ------------------------------------------------------------------- */
static char *out_path;

static void write_counts(void)
{
    FILE *to = fopen(out_path, "w");
    if (!to)
        return;
    for (int i = 0; i < N_APIS; i++)
        if (atomic_load(&n_calls[i]) > 0)
            fprintf(to, "%s %ld\n", api_names[i], atomic_load(&n_calls[i]));
    for (int i = 0; i < N_KINDS; i++)
        fprintf(to, "live %s %ld\n", kind_names[i], atomic_load(&n_live[i]));
    fprintf(to, "peak_bytes %ld\ndevice_bytes %ld\n", atomic_load(&peak_bytes), atomic_load(&device_bytes));
    fclose(to);
}

static void read_environment(void)
{
    const char *fail = getenv("CLEF_LAYER_FAIL"), *api = getenv("CLEF_LAYER_FAIL_API"),
               *code = getenv("CLEF_LAYER_CODE");
    if (fail) {
        char *end;
        atomic_store(&fail_at, strtol(fail, &end, 10));
        fail_sticky = *end == '+';
        atomic_store(&fail_last, *end == '-' ? strtol(end + 1, NULL, 10) : 0);
    }
    if (api)
        fail_api = find_name(api_names, N_APIS, api);
    if (code)
        fail_code = (cl_int)strtol(code, NULL, 10);
    if (getenv("CLEF_LAYER_OUT")) {
        out_path = strdup(getenv("CLEF_LAYER_OUT"));
        unsetenv("CLEF_LAYER_OUT"); /* children would write to the same file */
        if (out_path)
            atexit(write_counts);
    }
}

static const char *const layer_name = "clef count layer";

static void take_over(void)
{
#define SET(name) ours.name = my_##name;
    APIS(SET)
#undef SET
    read_environment();
}
