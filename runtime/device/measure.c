/* Measures the limits of a device: memory, arithmetic, launches (clef_device_measure). */
#include <stdlib.h>

#include "cl/args.h"
#include "graph/lower/panel/panel.h"
#include "runtime/device/device.h"
#include "runtime/device/probe_child.h"
#include "runtime/os/os.h"

enum { MIN_ROUNDS = 3, MAX_ROUNDS = 20, N_LAUNCHES = 256, N_TRIPS = 64, MAD_CHAINS = 10, DOT_LANES = 16 };
static const double ROUNDS_SECONDS = 0.4;  /* time for the rounds of one figure, after MIN_ROUNDS */
static const double LAUNCH_SECONDS = 0.02; /* shortest launch of an arithmetic kernel */
static const uint64_t LEAST_BYTES = 512u << 20;

typedef struct measure {
    clef_device *dev;
    size_t group;        /* work-items in a group */
    size_t n_groups;     /* of arithmetic kernels: enough to fill every unit */
    int32_t width;       /* floats of a native vector */
    size_t vector_bytes; /* bytes that a work-item of the memory kernels reads at once */
    size_t n_bytes;      /* of the buffer, a multiple of span_bytes */
    size_t span_bytes;   /* of a group */
    void *pages;         /* NULL: memory that the driver allocated */
    cl_mem buffer, second_half, results;
    size_t results_bytes;
} measure;

/* ---- launching ------------------------------------------------------------------------------- */

static clef_status create_kernel(const measure *m, const clef_launch *launch, cl_kernel *out, clef_error *err)
{
    *out = NULL;
    if (!clef__probe_begin(m->dev, launch))
        return clef__fail(
            err, CLEF_E_BUILD,
            "measure: building cl/%s.cl crashed or hung the driver of %s: it cannot be measured "
            "(`clef cache clear aside` lets clef try again)",
            launch->source, m->dev->info.name);
    const clef_status s = clef__kernel_create(m->dev, launch, out, err);
    clef__probe_end();
    return s;
}

static clef_status make_kernel(const measure *m, const char *name, int32_t fused, cl_kernel *out,
                               clef_error *err)
{
    const clef_launch launch = {.source = "measure",
                                .kernel = name,
                                .defs = {{"WG", (int32_t)m->group}, {"WIDTH", m->width}, {"FUSED", fused}}};
    return create_kernel(m, &launch, out, err);
}

static clef_status set_args(cl_kernel kernel, const measure_args *args, cl_mem first, cl_mem second,
                            clef_error *err)
{
    cl_int code = clSetKernelArg(kernel, 0, sizeof *args, args);
    if (!code)
        code = clSetKernelArg(kernel, 1, sizeof first, &first);
    if (!code && second)
        code = clSetKernelArg(kernel, 2, sizeof second, &second);
    return code ? clef__cl_fail(err, "clSetKernelArg", "measure", code) : CLEF_OK;
}

/* Enqueues `kernel` n times and waits for all. */
static clef_status run_kernel(const measure *m, cl_kernel kernel, size_t n_groups, int n, double *seconds,
                              clef_error *err)
{
    const size_t local = m->group, global = n_groups * m->group;
    const double start = clef__os_seconds();
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < n && !code; i++)
        code = clEnqueueNDRangeKernel(m->dev->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    if (code)
        return clef__cl_fail(err, "clEnqueueNDRangeKernel", "measure", code);
    code = clFinish(m->dev->queue);
    *seconds = clef__os_seconds() - start;
    return code ? clef__cl_fail(err, "clFinish", "measure", code) : CLEF_OK;
}

/* The shortest of several runs; the first does not count, since drivers compile in it. */
static clef_status best_run(const measure *m, cl_kernel kernel, size_t n_groups, int n, double *best,
                            clef_error *err)
{
    double spent = 0, seconds = 0;
    clef_status s = run_kernel(m, kernel, n_groups, n, &seconds, err);
    for (int i = 0; i < MAX_ROUNDS && !s && (i < MIN_ROUNDS || spent < ROUNDS_SECONDS); i++) {
        s = run_kernel(m, kernel, n_groups, n, &seconds, err);
        spent += seconds;
        if (i == 0 || seconds < *best)
            *best = seconds;
    }
    return s;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static uint64_t at_most(uint64_t x, uint64_t limit)
{
    return x < limit ? x : limit;
}

/* Chooses a size far beyond the last cache, within the device's memory. */
static void choose_sizes(measure *m)
{
    const clef_caps *caps = &m->dev->info.caps;
    cl_ulong cache = 0;
    if (clGetDeviceInfo(m->dev->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL) !=
        CL_SUCCESS)
        cache = 0;
    const uint64_t limit = at_most(at_most(caps->max_alloc_bytes, caps->global_bytes / 4), SIZE_MAX / 4);
    uint64_t wanted = 2 * at_most(cache, UINT32_MAX); /* read in order, a buffer of this size leaves nothing
                                                         in the cache for the next round */
    wanted = at_most(wanted > LEAST_BYTES ? wanted : LEAST_BYTES, limit);

    const size_t n_units = (size_t)clef__device_units(caps);
    m->group = 1;
    while (!caps->is_cpu && m->group < 256 && m->group * 2 <= (size_t)caps->max_group)
        m->group *= 2;
    m->width = 1;
    while (m->width < 16 && m->width * 2 <= caps->float_width)
        m->width *= 2;
    m->n_groups = n_units * (caps->is_cpu ? 4 : 32);
    m->vector_bytes = m->group == 1 ? 64 : 16;
    m->span_bytes = (size_t)1 << 20;
    while (m->span_bytes > 4096 && m->span_bytes * m->n_groups * 2 > wanted)
        m->span_bytes /= 2;
    /* so that each half is a multiple of span_bytes */
    m->n_bytes = (size_t)wanted / (2 * m->span_bytes) * (2 * m->span_bytes);
}

static cl_int make_buffer(measure *m)
{
    cl_int code = CL_SUCCESS;
    if (m->dev->info.caps.is_cpu) /* as for weights: huge pages, if the system has them */
        m->pages = clef__os_alloc_large(m->n_bytes);
    m->buffer = clCreateBuffer(m->dev->context, m->pages ? CL_MEM_USE_HOST_PTR : CL_MEM_READ_WRITE,
                               m->n_bytes, m->pages, &code);
    if (!m->buffer && m->pages) {
        clef__os_free_large(m->pages, m->n_bytes);
        m->pages = NULL;
    }
    return code;
}

static clef_status make_buffers(measure *m, clef_error *err)
{
    cl_int code = make_buffer(m);
    while (!m->buffer && m->n_bytes >= LEAST_BYTES / 4) { /* others may have taken what the driver reports */
        m->n_bytes = m->n_bytes / (4 * m->span_bytes) * (2 * m->span_bytes);
        code = make_buffer(m);
    }
    if (!m->buffer)
        return clef__cl_fail(err, "clCreateBuffer", "memory to measure", code);
    const cl_buffer_region half = {.origin = m->n_bytes / 2, .size = m->n_bytes / 2};
    m->second_half = clCreateSubBuffer(m->buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code);
    if (!m->second_half)
        return clef__cl_fail(err, "clCreateSubBuffer", "memory to measure", code);
    const size_t sums = m->n_bytes / m->span_bytes * m->group * sizeof(cl_uint);
    const size_t wide = (size_t)(m->width > DOT_LANES ? m->width : DOT_LANES);
    const size_t lanes = m->n_groups * m->group * wide * sizeof(cl_float);
    m->results_bytes = sums > lanes ? sums : lanes;
    m->results = clCreateBuffer(m->dev->context, CL_MEM_READ_WRITE, m->results_bytes, NULL, &code);
    return m->results ? CLEF_OK : clef__cl_fail(err, "clCreateBuffer", "results", code);
}

static void release_buffers(measure *m)
{
    clFinish(m->dev->queue);
    const cl_mem all[] = {m->second_half, m->buffer, m->results};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            clReleaseMemObject(all[i]);
    clef__os_free_large(m->pages, m->n_bytes);
}

/* ---- the figures ----------------------------------------------------------------------------- */

static measure_args memory_args(const measure *m, size_t n_bytes)
{
    return (measure_args){.n = (args_uint)(n_bytes / m->vector_bytes),
                          .span = (args_uint)(m->span_bytes / m->vector_bytes)};
}

/* Times one kernel over n_bytes. */
static clef_status time_memory(const measure *m, const char *name, cl_mem first, cl_mem second,
                               size_t n_bytes, double *best, clef_error *err)
{
    const measure_args args = memory_args(m, n_bytes);
    cl_kernel kernel = NULL;
    clef_status s = make_kernel(m, name, 0, &kernel, err);
    if (!s)
        s = set_args(kernel, &args, first, second, err);
    if (!s)
        s = best_run(m, kernel, n_bytes / m->span_bytes, 1, best, err);
    if (kernel)
        clReleaseKernel(kernel);
    return s;
}

static clef_status fill_buffer(const measure *m, clef_error *err)
{
    const measure_args args = memory_args(m, m->n_bytes);
    double seconds;
    cl_kernel kernel = NULL;
    clef_status s = make_kernel(m, "measure_fill", 0, &kernel, err);
    if (!s)
        s = set_args(kernel, &args, m->buffer, NULL, err);
    if (!s)
        s = run_kernel(m, kernel, m->n_bytes / m->span_bytes, 1, &seconds, err);
    if (kernel)
        clReleaseKernel(kernel);
    return s;
}

/* The buffer holds the words 0 .. n-1, so their sum proves that all of them were read. */
static clef_status check_sums(const measure *m, clef_error *err)
{
    const size_t n = m->n_bytes / m->span_bytes * m->group;
    const uint64_t n_words = m->n_bytes / 4;
    const cl_uint want = (cl_uint)(n_words % 2 ? (n_words - 1) / 2 * n_words : n_words / 2 * (n_words - 1));
    cl_uint *sums = malloc(n * sizeof *sums), sum = 0;
    if (!sums)
        return clef__fail(err, CLEF_E_NOMEM, "measure: no memory for %zu sums", n);
    const cl_int code =
        clEnqueueReadBuffer(m->dev->queue, m->results, CL_TRUE, 0, n * sizeof *sums, sums, 0, NULL, NULL);
    for (size_t i = 0; i < n && !code; i++)
        sum += sums[i];
    free(sums);
    if (code)
        return clef__cl_fail(err, "clEnqueueReadBuffer", "sums", code);
    return sum == want ? CLEF_OK
                       : clef__fail(err, CLEF_E_CL, "measure: the sum of %zu bytes is %u on %s, expected %u",
                                    m->n_bytes, sum, m->dev->info.name, want);
}

/* The fastest of several ways to read. */
static clef_status measure_read(const measure *m, clef_device_speed *out, clef_error *err)
{
    static const char *const ways[] = {"measure_read", "measure_read_ahead", "measure_read_streams"};
    const size_t n_ways = m->group == 1 ? sizeof ways / sizeof *ways : 1;
    clef_status s = CLEF_OK;
    for (size_t i = 0; i < n_ways && !s; i++) {
        double seconds = 0;
        s = time_memory(m, ways[i], m->results, m->buffer, m->n_bytes, &seconds, err);
        if (!s)
            s = check_sums(m, err);
        if (!s && (double)m->n_bytes / seconds * 1e-9 > out->read_gb_s)
            out->read_gb_s = (double)m->n_bytes / seconds * 1e-9;
    }
    return s;
}

static clef_status measure_memory(const measure *m, clef_device_speed *out, clef_error *err)
{
    double seconds = 0;
    clef_status s = fill_buffer(m, err);
    if (!s)
        s = measure_read(m, out, err);
    if (s)
        return s;
    out->buffer_bytes = m->n_bytes;
    s = time_memory(m, "measure_copy", m->second_half, m->buffer, m->n_bytes / 2, &seconds, err);
    out->copy_gb_s = s ? 0 : (double)m->n_bytes / seconds * 1e-9; /* half of the buffer is read, half
                                                                     written */
    return s;
}

/* Operations per second of a kernel in which a work-item does `ops` of them in a round. */
static clef_status time_rounds(const measure *m, cl_kernel kernel, cl_mem second, double ops, double *gop_s,
                               clef_error *err)
{
    measure_args args = {.rounds = 1000,
                         .scale = 0.75f,
                         .shift = 0.25f}; /* values tend to 1, so none is slow to compute with */
    double seconds = 0;
    clef_status s = CLEF_OK;
    for (int i = 0; i < 16 && !s && seconds < LAUNCH_SECONDS; i++) {
        args.rounds *= 2;
        s = set_args(kernel, &args, m->results, second, err);
        if (!s)
            s = run_kernel(m, kernel, m->n_groups, 1, &seconds, err);
    }
    if (!s)
        s = best_run(m, kernel, m->n_groups, 1, &seconds, err);
    const double all = ops * (double)args.rounds * (double)(m->n_groups * m->group);
    if (!s && all / seconds * 1e-9 > *gop_s)
        *gop_s = all / seconds * 1e-9;
    return s;
}

static clef_status measure_mad(const measure *m, int32_t fused, clef_device_speed *out, clef_error *err)
{
    cl_kernel kernel = NULL;
    clef_status s = make_kernel(m, "measure_mad", fused, &kernel, err);
    if (!s)
        s = time_rounds(m, kernel, NULL, 2.0 * (double)MAD_CHAINS * m->width, &out->mad_gflop_s, err);
    if (kernel)
        clReleaseKernel(kernel);
    return s;
}

/* clef's products of bytes are for CPUs. The instruction follows from the capabilities, as in lowering. */
static clef_status make_dot(const measure *m, int32_t *chains, cl_kernel *out, clef_error *err)
{
    const clef_caps *caps = &m->dev->info.caps;
    const clef_dot dot = caps->x86_vnni      ? CLEF_DOT_VNNI
                         : caps->x86_avxvnni ? CLEF_DOT_AVXVNNI
                         : caps->x86_avx2    ? CLEF_DOT_AVX2
                         : caps->arm64_i8mm  ? CLEF_DOT_I8MM
                         : caps->arm64_sdot  ? CLEF_DOT_SDOT
                                             : CLEF_DOT_PORTABLE;
    *chains = caps->x86_vnni ? 12 : 4; /* there are 32 registers of 64 bytes, or few and small ones */
    const clef_launch launch = {
        .source = "measure_dot",
        .kernel = "measure_dot",
        .defs = {{"DOT", (int32_t)dot}, {"CHAINS", *chains}, {"WHOLE_BODY", caps->whole_body}}};
    *out = NULL;
    return m->group > 1 ? CLEF_OK : create_kernel(m, &launch, out, err);
}

static clef_status measure_dot(const measure *m, clef_device_speed *out, clef_error *err)
{
    cl_kernel kernel;
    int32_t chains;
    clef_status s = make_dot(m, &chains, &kernel, err);
    if (kernel) {
        s = time_rounds(m, kernel, m->buffer, 2.0 * 4 * (double)DOT_LANES * chains, &out->dot_gop_s, err);
        clReleaseKernel(kernel);
    }
    return s;
}

static clef_status make_tiles(const measure *m, cl_kernel *out, clef_error *err)
{
    const clef_launch launch = {.source = "measure_amx", .kernel = "measure_amx"};
    *out = NULL;
    return m->group > 1 || !m->dev->info.caps.x86_amx ? CLEF_OK : create_kernel(m, &launch, out, err);
}

static clef_status measure_tiles(const measure *m, clef_device_speed *out, clef_error *err)
{
    cl_kernel kernel;
    clef_status s = make_tiles(m, &kernel, err);
    if (kernel) { /* four products of 16 x 32 by 32 x 16 in each round */
        s = time_rounds(m, kernel, NULL, 4 * 2.0 * 16 * 32 * 16, &out->tile_gop_s, err);
        clReleaseKernel(kernel);
    }
    return s;
}

static clef_status time_trips(const measure *m, cl_kernel kernel, double *best, clef_error *err)
{
    *best = 1e9;
    for (int i = 0; i < N_TRIPS; i++) {
        double seconds;
        cl_uint word;
        const size_t local = m->group;
        const double start = clef__os_seconds();
        cl_int code = clEnqueueNDRangeKernel(m->dev->queue, kernel, 1, NULL, &local, &local, 0, NULL, NULL);
        if (!code)
            code =
                clEnqueueReadBuffer(m->dev->queue, m->results, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL);
        if (code)
            return clef__cl_fail(err, "a launch and a read", "measure", code);
        seconds = clef__os_seconds() - start;
        if (seconds < *best)
            *best = seconds;
    }
    return CLEF_OK;
}

static clef_status measure_launches(const measure *m, clef_device_speed *out, clef_error *err)
{
    const measure_args args = {.n = 1};
    double seconds = 0, trip = 0;
    cl_kernel kernel = NULL;
    clef_status s = make_kernel(m, "measure_nothing", 0, &kernel, err);
    if (!s)
        s = set_args(kernel, &args, m->results, NULL, err);
    if (!s)
        s = best_run(m, kernel, m->n_groups, N_LAUNCHES, &seconds, err);
    if (!s)
        s = time_trips(m, kernel, &trip, err);
    out->launch_us = seconds / (double)N_LAUNCHES * 1e6;
    out->round_trip_us = trip * 1e6;
    if (kernel)
        clReleaseKernel(kernel);
    return s;
}

void clef__measure_build(clef_device *dev)
{
    measure m = {.dev = dev};
    cl_kernel kernels[4] = {NULL};
    int32_t chains;
    choose_sizes(&m);
    (void)make_kernel(&m, "measure_read", 0, &kernels[0], NULL); /* measuring reports what fails */
    (void)make_kernel(&m, "measure_mad", 1, &kernels[1], NULL);
    (void)make_dot(&m, &chains, &kernels[2], NULL);
    (void)make_tiles(&m, &kernels[3], NULL);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i])
            clReleaseKernel(kernels[i]);
}

clef_status clef_device_measure(clef_device *dev, clef_device_speed *out, clef_error *err)
{
    measure m = {.dev = dev};
    *out = (clef_device_speed){0};
    clef__probes_load(dev, CLEF__PROBES_OF_MEASURE);
    choose_sizes(&m);
    clef_status s = make_buffers(&m, err);
    if (!s)
        s = measure_memory(&m, out, err);
    for (int32_t fused = 0; fused <= 1 && !s; fused++)
        s = measure_mad(&m, fused, out, err);
    if (!s)
        s = measure_dot(&m, out, err);
    if (!s)
        s = measure_tiles(&m, out, err);
    if (!s)
        s = measure_launches(&m, out, err);
    release_buffers(&m);
    if (s)
        *out = (clef_device_speed){0};
    else
        clef__speed_keep(dev, out);
    return s;
}
