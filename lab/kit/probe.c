/* Asks an OpenCL device one question a process, since the answer may be a crash.
 *
 * usage: probe DEVICE NAME [FILE [OPTIONS]]
 *   DEVICE  PLATFORM:NUMBER, as `clef devices` writes it; "list" for a list of all
 *   NAME    a row of `probes` below. "binary" and "source" build FILE, whose kernel `probe` sets 32
 *           numbers to 42
 *
 * Each answer is a line "NAME: VALUE", which is written at once: what comes before a crash is kept. Codes are
 * OpenCL's; 0 is CL_SUCCESS. */
#define _POSIX_C_SOURCE 200809L
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 32, RIGHT = 42 };
static const size_t MIB = 1024 * 1024;

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static const char *name; /* of the probe */

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s: ", name);
    vprintf(format, args);
    va_end(args);
    puts("");
    fflush(stdout);
}

/* Ends the probe where a call that it needs fails. */
static void need(cl_int code, const char *call)
{
    if (code == CL_SUCCESS)
        return;
    answer("%s gives %d", call, code);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- devices --------------------------------------------------------------------------------- */

enum { MOST = 16 };

static cl_uint platforms_of(cl_platform_id out[MOST])
{
    cl_uint n = 0;
    const cl_int code = clGetPlatformIDs(MOST, out, &n);
    if (code)
        answer("clGetPlatformIDs gives %d", code);
    return code ? 0 : n < MOST ? n : MOST;
}

static cl_uint devices_of(cl_platform_id platform, cl_device_id out[MOST])
{
    cl_uint n = 0;
    return clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, out, &n) ? 0 : n < MOST ? n : MOST;
}

static int list_devices(void)
{
    cl_platform_id platforms[MOST];
    cl_device_id devices[MOST];
    char text[256];
    for (cl_uint p = 0, n = platforms_of(platforms); p < n; p++)
        for (cl_uint d = 0, n_devices = devices_of(platforms[p], devices); d < n_devices; d++) {
            cl_device_type type = 0;
            memset(text, 0, sizeof text);
            clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof text - 1, text, NULL);
            clGetDeviceInfo(devices[d], CL_DEVICE_TYPE, sizeof type, &type, NULL);
            printf("%u:%u %s %s\n", p, d, type & CL_DEVICE_TYPE_GPU ? "gpu" : "other", text);
        }
    return 0;
}

static int find_device(const char *at)
{
    cl_platform_id platforms[MOST];
    cl_device_id devices[MOST];
    unsigned p, d;
    if (sscanf(at, "%u:%u", &p, &d) != 2 || p >= platforms_of(platforms) ||
        d >= devices_of(platforms[p], devices))
        return 0;
    device = devices[d];
    return 1;
}

static void open_context(void)
{
    cl_int code;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    need(code, "clCreateContext");
    queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
    need(code, "clCreateCommandQueue");
}

/* ---- everything that the device says ------------------------------------------------------------ */

static int is_text(const unsigned char *x, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (!isprint(x[i]))
            return 0;
    return n > 1 && x[n - 1] == 0;
}

static void print_value(const unsigned char *x, size_t n)
{
    if (is_text(x, n))
        printf("%s\n", (const char *)x);
    else if (n == 4) {
        cl_uint one;
        memcpy(&one, x, sizeof one);
        printf("%u\n", one);
    } else if (n && n % 8 == 0 && n <= 64) {
        for (size_t i = 0; i < n; i += 8) {
            cl_ulong one;
            memcpy(&one, x + i, sizeof one);
            printf(i + 8 < n ? "%llu " : "%llu\n", (unsigned long long)one);
        }
    } else {
        for (size_t i = 0; i < n; i++)
            printf("%02x", x[i]);
        puts("");
    }
}

static void probe_info(void)
{
    static const struct {
        const char *name;
        cl_device_info what;
    } all[] = {
#define NAME(x) {#x, x},
#include "device_names.def"
#undef NAME
    };
    static unsigned char value[65536];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = 0;
        if (clGetDeviceInfo(device, all[i].what, sizeof value, value, &n) == CL_SUCCESS &&
            n <= sizeof value) {
            printf("%s ", all[i].name);
            print_value(value, n);
        }
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void print_log(cl_program program)
{
    static char log[4096];
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL) == 0 && *log)
        answer("log: %.2000s", log);
}

static cl_mem make_buffer(size_t bytes)
{
    cl_int code;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    need(code, "clCreateBuffer");
    return mem;
}

static cl_kernel kernel_of(cl_program program, const char *options)
{
    cl_int code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (code) {
        answer("clBuildProgram gives %d", code);
        print_log(program);
        return NULL;
    }
    cl_kernel kernel = clCreateKernel(program, "probe", &code);
    if (code)
        answer("clCreateKernel gives %d", code);
    return kernel;
}

static cl_kernel from_source(const char *text, const char *options)
{
    cl_int code;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &code);
    need(code, "clCreateProgramWithSource");
    return kernel_of(program, options);
}

/* Runs a kernel of 32 work-items, and says whether it wrote what it should. Returns 1 where it did. */
static int run_kernel(cl_kernel kernel, const char *what)
{
    static const size_t items = N;
    cl_uint out[N] = {0};
    int n_right = 0;
    cl_mem mem = make_buffer(sizeof out);
    clEnqueueWriteBuffer(queue, mem, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
    cl_int code = clSetKernelArg(kernel, 0, sizeof mem, &mem);
    if (code == CL_SUCCESS)
        code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
    const cl_int end = clFinish(queue);
    const cl_int read = clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
    for (int i = 0; i < N; i++)
        n_right += out[i] == RIGHT;
    if (code || end || read)
        answer("%s: launch %d, finish %d, read %d", what, code, end, read);
    else
        answer("%s: %d of %d right", what, n_right, N);
    clReleaseMemObject(mem);
    return n_right == N;
}

static char *text_of(const char *path, size_t *bytes)
{
    static char text[65536];
    FILE *file = fopen(path, "rb");
    if (!file) {
        answer("cannot open %s", path);
        exit(2);
    }
    *bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[*bytes] = 0;
    return text;
}

static const char *file = "", *file_options = "";

static void probe_source(void)
{
    size_t bytes;
    cl_kernel kernel = from_source(text_of(file, &bytes), file_options);
    if (kernel)
        run_kernel(kernel, "source");
}

static void probe_binary(void)
{
    size_t bytes;
    cl_int code, status = 0;
    const unsigned char *binary = (const unsigned char *)text_of(file, &bytes);
    cl_program program = clCreateProgramWithBinary(context, 1, &device, &bytes, &binary, &status, &code);
    if (code || status) {
        answer("clCreateProgramWithBinary gives %d, its status is %d", code, status);
        return;
    }
    cl_kernel kernel = kernel_of(program, file_options);
    if (kernel)
        run_kernel(kernel, "binary");
}

/* ---- halves ---------------------------------------------------------------------------------- */

static void probe_fp16_listed(void)
{
    static char all[32768];
    need(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof all - 1, all, NULL), "clGetDeviceInfo");
    answer("%s", strstr(all, "cl_khr_fp16") ? "yes" : "no");
}

static void probe_half(void)
{
    cl_kernel kernel = from_source("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
                                   "kernel void probe(global uint *out) {\n"
                                   "    const half x = (half)(get_global_id(0) + 1);\n"
                                   "    out[get_global_id(0)] = (uint)(x * (half)21 / x * (half)2);\n"
                                   "}\n",
                                   "");
    if (kernel)
        run_kernel(kernel, "arithmetic of halves");
}

/* ---- local memory ------------------------------------------------------------------------------ */

static void local_by_program(unsigned kib)
{
    char text[1024], what[40];
    snprintf(text, sizeof text,
             "kernel void probe(global uint *out) {\n"
             "    local uint all[%u];\n"
             "    const uint i = get_local_id(0), last = %u - 1;\n"
             "    all[i] = 40;\n    all[last - i] = i;\n"
             "    barrier(CLK_LOCAL_MEM_FENCE);\n"
             "    out[i] = all[i] + 2 + (all[last - i] - i);\n"
             "}\n",
             kib * 256, kib * 256);
    snprintf(what, sizeof what, "%u KiB of a program", kib);
    cl_kernel kernel = from_source(text, "");
    if (kernel)
        run_kernel(kernel, what);
}

static void local_by_argument(unsigned kib)
{
    char what[40];
    cl_kernel kernel = from_source("kernel void probe(global uint *out, local uint *all, uint n) {\n"
                                   "    const uint i = get_local_id(0);\n"
                                   "    all[i] = 40;\n    all[n - 1 - i] = i;\n"
                                   "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                                   "    out[i] = all[i] + 2 + (all[n - 1 - i] - i);\n"
                                   "}\n",
                                   "");
    const cl_uint n = kib * 256;
    if (!kernel)
        return;
    cl_int code = clSetKernelArg(kernel, 1, n * sizeof(cl_uint), NULL);
    code = code ? code : clSetKernelArg(kernel, 2, sizeof n, &n);
    snprintf(what, sizeof what, "%u KiB of an argument", kib);
    if (code)
        answer("%s: clSetKernelArg gives %d", what, code);
    else
        run_kernel(kernel, what);
}

static void probe_local_memory(void)
{
    static const unsigned kib[] = {32, 47, 48, 64, 96, 160, 226};
    for (size_t i = 0; i < sizeof kib / sizeof *kib; i++) {
        local_by_argument(kib[i]);
        local_by_program(kib[i]);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static void probe_null_argument(void)
{
    cl_kernel kernel = from_source("kernel void probe(global uint *out, global const uint *none) {\n"
                                   "    out[get_global_id(0)] = none ? 0 : 42;\n"
                                   "}\n",
                                   "");
    if (!kernel)
        return;
    answer("clSetKernelArg gives %d", clSetKernelArg(kernel, 1, sizeof(cl_mem), NULL));
    run_kernel(kernel, "a buffer that is NULL");
}

enum { LAUNCHES = 1000 };

static void time_launches(cl_kernel kernel, const char *what, int flush_each)
{
    static const size_t items = N;
    const double began = now();
    for (int i = 0; i < LAUNCHES; i++) {
        need(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL), "a launch");
        if (flush_each)
            clFlush(queue);
    }
    const double queued = now();
    need(clFinish(queue), "clFinish");
    answer("%s: %.2f us a launch, %.2f of them to enqueue", what, 1e6 * (now() - began) / LAUNCHES,
           1e6 * (queued - began) / LAUNCHES);
}

/* The time between the ends of two launches that follow each other, by the device's own clock. */
static void time_gap(cl_kernel kernel)
{
    static const size_t items = N;
    cl_event first, last;
    cl_ulong from = 0, to = 0;
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, &first);
    for (int i = 0; i < LAUNCHES; i++)
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL,
                               i + 1 < LAUNCHES ? NULL : &last);
    need(clFinish(queue), "clFinish");
    need(clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_END, sizeof from, &from, NULL), "a time");
    need(clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL), "a time");
    answer("on the device: %.2f us a launch", 1e-3 * (double)(to - from) / LAUNCHES);
}

static void probe_launch_gap(void)
{
    cl_kernel kernel = from_source("kernel void probe(global uint *out) { if (!out) out[0] = 0; }", "");
    cl_mem mem = make_buffer(N * sizeof(cl_uint));
    if (!kernel)
        return;
    need(clSetKernelArg(kernel, 0, sizeof mem, &mem), "clSetKernelArg");
    time_launches(kernel, "to warm up", 0);
    time_launches(kernel, "one flush", 0);
    time_launches(kernel, "a flush after each", 1);
    time_gap(kernel);
}

static void probe_groups(void)
{
    cl_kernel kernel = from_source("kernel void probe(global uint *out) { out[get_global_id(0)] = 42; }", "");
    size_t multiple = 0, most = 0;
    if (!kernel)
        return;
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof multiple,
                             &multiple, NULL);
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    answer("a multiple of %zu, at most %zu", multiple, most);
    run_kernel(kernel, "a kernel");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void rate(const char *what, size_t bytes, double began)
{
    answer("%s: %.2f GB/s", what, 1e-9 * (double)bytes / (now() - began));
}

static void copy_both_ways(cl_mem mem, void *host, size_t bytes, const char *kind)
{
    char what[40];
    double began = now();
    need(clEnqueueWriteBuffer(queue, mem, CL_TRUE, 0, bytes, host, 0, NULL, NULL), "clEnqueueWriteBuffer");
    snprintf(what, sizeof what, "to the device, %s", kind);
    rate(what, bytes, began);
    began = now();
    need(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, bytes, host, 0, NULL, NULL), "clEnqueueReadBuffer");
    snprintf(what, sizeof what, "from the device, %s", kind);
    rate(what, bytes, began);
}

static void probe_bandwidth(void)
{
    const size_t bytes = 256 * MIB;
    cl_int code;
    char *pageable = malloc(bytes);
    if (!pageable)
        return;
    memset(pageable, 1, bytes);
    cl_mem mem = make_buffer(bytes);
    copy_both_ways(mem, pageable, bytes, "pageable, at first");
    copy_both_ways(mem, pageable, bytes, "pageable");
    cl_mem staging = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &code);
    need(code, "clCreateBuffer");
    void *pinned = clEnqueueMapBuffer(queue, staging, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL,
                                      NULL, &code);
    need(code, "clEnqueueMapBuffer");
    memset(pinned, 1, bytes);
    copy_both_ways(mem, pinned, bytes, "pinned, at first");
    copy_both_ways(mem, pinned, bytes, "pinned");
    const double began = now();
    cl_mem copied = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes, pageable, &code);
    need(code, "clCreateBuffer");
    need(clFinish(queue), "clFinish");
    rate("CL_MEM_COPY_HOST_PTR", bytes, began);
    clReleaseMemObject(copied);
    clReleaseMemObject(mem);
    free(pageable);
}

/* Whether a buffer in the host's memory is that memory: then mapping it returns its address, and at once. */
static void probe_host_pointer(void)
{
    const size_t bytes = 64 * MIB;
    cl_int code;
    void *own = NULL;
    if (posix_memalign(&own, 4096, bytes))
        return;
    memset(own, 1, bytes);
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, own, &code);
    need(code, "clCreateBuffer");
    const cl_uchar two = 2;
    need(clEnqueueFillBuffer(queue, mem, &two, 1, 0, bytes, 0, NULL, NULL), "clEnqueueFillBuffer");
    need(clFinish(queue), "clFinish");
    answer("the host sees what the device wrote before it maps: %s", *(char *)own == 2 ? "yes" : "no");
    const double began = now();
    const void *mapped = clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ, 0, bytes, 0, NULL, NULL, &code);
    need(code, "clEnqueueMapBuffer");
    answer("mapping 64 MiB takes %.1f us", 1e6 * (now() - began));
    answer("mapping gives the host's own address: %s", mapped == own ? "yes" : "no");
}

/* Whether a buffer can be made, written at its end, and read there. */
static int try_largest(cl_ulong bytes)
{
    cl_int code;
    cl_uchar seven = 7, got = 0;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    cl_int fill = code, read = code;
    if (mem) {
        fill = clEnqueueWriteBuffer(queue, mem, CL_TRUE, (size_t)bytes - 1, 1, &seven, 0, NULL, NULL);
        read = clEnqueueReadBuffer(queue, mem, CL_TRUE, (size_t)bytes - 1, 1, &got, 0, NULL, NULL);
        clReleaseMemObject(mem);
    }
    answer("%llu MiB: make %d, write %d, read %d, %s", (unsigned long long)(bytes / MIB), code, fill, read,
           got == seven ? "right" : "wrong");
    return got == seven;
}

static void probe_largest(void)
{
    cl_ulong said = 0, all = 0;
    clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof said, &said, NULL);
    clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof all, &all, NULL);
    answer("the device says %llu MiB of %llu", (unsigned long long)(said / MIB),
           (unsigned long long)(all / MIB));
    for (int eighths = 1; eighths <= 7; eighths += 2)
        if (!try_largest(all / 8 * (cl_ulong)eighths))
            return;
    try_largest(all / 100 * 97);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* What calls give after a kernel has written where there is no memory, and whether a new context works. */
static void probe_illegal_address(void)
{
    static const size_t items = N;
    cl_kernel kernel = from_source("kernel void probe(global uint *out) {\n"
                                   "    out[((ulong)get_global_id(0) + 1) << 36] = 42;\n"
                                   "}\n",
                                   "");
    cl_uint word = 0;
    cl_int made;
    if (!kernel)
        return;
    cl_mem mem = make_buffer(4096);
    need(clSetKernelArg(kernel, 0, sizeof mem, &mem), "clSetKernelArg");
    answer("a launch that writes where there is no memory");
    answer("launch %d", clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL));
    answer("clFinish %d", clFinish(queue));
    answer("clFinish again %d", clFinish(queue));
    answer("launch after it %d",
           clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL));
    answer("read %d", clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL));
    cl_mem other = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &made);
    answer("a buffer %d", made);
    answer("its write %d",
           other ? clEnqueueWriteBuffer(queue, other, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL) : made);
    open_context();
    answer("a new context is made");
    probe_groups();
}

/* ---- the program ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} probes[] = {{"fp16_listed", probe_fp16_listed},
              {"half", probe_half},
              {"local_memory", probe_local_memory},
              {"null_argument", probe_null_argument},
              {"groups", probe_groups},
              {"launch_gap", probe_launch_gap},
              {"bandwidth", probe_bandwidth},
              {"host_pointer", probe_host_pointer},
              {"largest", probe_largest},
              {"illegal_address", probe_illegal_address},
              {"binary", probe_binary},
              {"source", probe_source}};

static int run_probe(void)
{
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (strcmp(probes[i].name, name) == 0) {
            open_context();
            probes[i].run();
            return 0;
        }
    fprintf(stderr, "probe: expected the name of a probe, got '%s'\n", name);
    return 2;
}

int main(int n, char **args)
{
    name = n > 2 ? args[2] : "list";
    if (n == 2 && strcmp(args[1], "list") == 0)
        return list_devices();
    if (n < 3 || n > 5 || !find_device(args[1])) {
        fprintf(stderr, "probe: expected list, or DEVICE NAME [FILE [OPTIONS]] with a device of the list\n");
        return 2;
    }
    file = n > 3 ? args[3] : file;
    file_options = n > 4 ? args[4] : file_options;
    if (strcmp(name, "info") != 0)
        return run_probe();
    probe_info();
    return 0;
}
