/* Kernels and their launches. CLEF_GPU_WORKERS: threads (2); CLEF_GPU_SEED: the order of warps and
 * groups; CLEF_GPU_COUNTS: a file that gets, for each kernel of the process, its launches, instructions
 * and seconds. */
#include "lab/gpu/device/objects.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- kernels --------------------------------------------------------------------------------- */

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code)
{
    const gpu_kernel *found = program->module ? gpu_module_kernel(program->module, name) : NULL;
    cl_kernel kernel = found ? gpu_object(sizeof *kernel) : NULL;
    if (kernel) {
        kernel->program = program;
        kernel->kernel = found;
        program->dispatch->clRetainProgram(program);
    }
    if (code)
        *code = kernel            ? CL_SUCCESS
                : found           ? CL_OUT_OF_HOST_MEMORY
                : program->module ? CL_INVALID_KERNEL_NAME
                                  : CL_INVALID_PROGRAM_EXECUTABLE;
    return kernel;
}

static cl_int CL_API_CALL retain_kernel(cl_kernel kernel)
{
    atomic_fetch_add(&kernel->refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    if (atomic_fetch_sub(&kernel->refs, 1) > 1)
        return CL_SUCCESS;
    for (int i = 0; i < GPU_MAX_PARAMS; i++)
        free(kernel->args[i].bytes);
    kernel->program->dispatch->clReleaseProgram(kernel->program);
    free(kernel);
    return CL_SUCCESS;
}

/* The code need not say which parameters are addresses: a handle of a buffer is one. */
static cl_int CL_API_CALL set_arg(cl_kernel kernel, cl_uint index, size_t n, const void *value)
{
    const int is_there = index < (cl_uint)gpu_kernel_params(kernel->kernel);
    const size_t wanted = is_there ? gpu_param_bytes(kernel->kernel, (int)index) : 0;
    void *handle = NULL;
    if (!is_there)
        return CL_INVALID_ARG_INDEX;
    kernel_arg *arg = &kernel->args[index];
    if (value && n == sizeof handle)
        memcpy(&handle, value, sizeof handle);
    if (n && !value && wanted && wanted <= sizeof handle) {
        *arg = (kernel_arg){.kind = GPU_LOCAL, .is_set = 1, .n = n, .bytes = arg->bytes};
        return CL_SUCCESS;
    }
    if (n != wanted)
        return CL_INVALID_ARG_SIZE;
    if (n == sizeof handle && (!handle || gpu_is_buffer(handle))) {
        *arg = (kernel_arg){.kind = GPU_MEMORY, .is_set = 1, .memory = handle, .bytes = arg->bytes};
        return CL_SUCCESS;
    }
    unsigned char *bytes = value ? realloc(arg->bytes, n) : NULL;
    if (!bytes)
        return value ? CL_OUT_OF_HOST_MEMORY : CL_INVALID_ARG_VALUE;
    memcpy(bytes, value, n);
    *arg = (kernel_arg){.kind = GPU_BYTES, .is_set = 1, .bytes = bytes};
    return CL_SUCCESS;
}

static cl_int CL_API_CALL kernel_info(cl_kernel kernel, cl_kernel_info what, size_t n, void *out,
                                      size_t *n_out)
{
    switch (what) {
    case CL_KERNEL_FUNCTION_NAME:
        return gpu_answer_text(gpu_kernel_name(kernel->kernel), n, out, n_out);
    case CL_KERNEL_NUM_ARGS:
        return GPU_ANSWER(cl_uint, (cl_uint)gpu_kernel_params(kernel->kernel));
    case CL_KERNEL_REFERENCE_COUNT:
        return GPU_ANSWER(cl_uint, (cl_uint)kernel->refs);
    case CL_KERNEL_CONTEXT:
        return GPU_ANSWER(cl_context, kernel->program->context);
    case CL_KERNEL_PROGRAM:
        return GPU_ANSWER(cl_program, kernel->program);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                     size_t n, void *out, size_t *n_out)
{
    static const size_t none[3] = {0, 0, 0};
    (void)device;
    switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return GPU_ANSWER(size_t, gpu_device.card->vendor->most_group);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return gpu_answer(none, sizeof none, n, out, n_out);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return GPU_ANSWER(size_t, gpu_kernel_lanes(kernel->kernel));
    case CL_KERNEL_LOCAL_MEM_SIZE:
        return GPU_ANSWER(cl_ulong, gpu_kernel_local_bytes(kernel->kernel));
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        return GPU_ANSWER(cl_ulong, gpu_kernel_private_bytes(kernel->kernel));
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

enum { MAX_COUNTED = 1024 };
static struct counted {
    char name[GPU_NAME];
    uint64_t launches, items, warps, ns;
} counted[MAX_COUNTED];
static int n_counted;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void write_counts(void)
{
    const char *path = getenv("CLEF_GPU_COUNTS");
    FILE *to = path ? fopen(path, "a") : NULL;
    for (int i = 0; to && i < n_counted; i++)
        fprintf(to, "%s %llu launches %llu instructions of work-items %llu of warps %.3f s\n",
                counted[i].name, (unsigned long long)counted[i].launches,
                (unsigned long long)counted[i].items, (unsigned long long)counted[i].warps,
                (double)counted[i].ns * 1e-9);
    if (to)
        fclose(to);
}

/* Of the processor: a busy machine changes nothing. */
static cl_ulong spent(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (cl_ulong)t.tv_sec * 1000000000u + (cl_ulong)t.tv_nsec;
}

static void count_launch(const char *name, const gpu_count *count, cl_ulong ns)
{
    int i = 0;
    pthread_mutex_lock(&counting);
    if (!n_counted)
        atexit(write_counts);
    while (i < n_counted && strcmp(counted[i].name, name) != 0)
        i++;
    if (i < MAX_COUNTED) {
        n_counted = i == n_counted ? i + 1 : n_counted;
        strcpy(counted[i].name, name);
        counted[i].launches++;
        counted[i].items += count->items;
        counted[i].warps += count->warps;
        counted[i].ns += ns;
    }
    pthread_mutex_unlock(&counting);
}

/* ---- launches -------------------------------------------------------------------------------- */

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

/* Sizes as the vendor's driver takes them. */
static cl_int take_sizes(cl_uint dims, const size_t *global, const size_t *local, gpu_launch *launch)
{
    const gpu_vendor *vendor = gpu_device.card->vendor;
    size_t items = 1;
    if (dims < 1 || dims > 3)
        return CL_INVALID_WORK_DIMENSION;
    for (cl_uint d = 0; d < 3; d++) {
        const size_t all = d < dims ? global[d] : 1;
        size_t mine = d < dims && local ? local[d] : 1;
        if (!local && d == 0) /* the driver may choose */
            while (mine < 256 && all % (2 * mine) == 0)
                mine *= 2;
        if (!all || all / (mine ? mine : 1) > (d ? 65535u : 0x7FFFFFFFu))
            return CL_INVALID_GLOBAL_WORK_SIZE;
        if (!mine || all % mine)
            return CL_INVALID_WORK_GROUP_SIZE;
        if (mine > vendor->most_items[d])
            return CL_INVALID_WORK_ITEM_SIZE;
        launch->groups[d] = (uint32_t)(all / mine);
        launch->items[d] = (uint32_t)mine;
        items *= mine;
    }
    return items > vendor->most_group ? CL_INVALID_WORK_GROUP_SIZE : CL_SUCCESS;
}

static cl_int take_args(cl_kernel kernel, gpu_arg args[GPU_MAX_PARAMS])
{
    size_t local = gpu_kernel_local_bytes(kernel->kernel);
    for (int i = 0; i < gpu_kernel_params(kernel->kernel); i++) {
        const kernel_arg *a = &kernel->args[i];
        if (!a->is_set || (a->memory && !gpu_is_buffer(a->memory)))
            return CL_INVALID_KERNEL_ARGS;
        args[i] = (gpu_arg){a->kind, a->bytes, a->memory ? a->memory->memory : NULL, a->n};
        if (a->memory)
            args[i].n = a->memory->n;
        local += a->kind == GPU_LOCAL ? a->n : 0;
    }
    return local > gpu_device.card->vendor->local_bytes ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                  const size_t *offset, const size_t *global, const size_t *local,
                                  cl_uint n_waits, const cl_event *waits, cl_event *event)
{
    static atomic_ullong n_launches;
    char why[GPU_MESSAGE];
    gpu_arg args[GPU_MAX_PARAMS];
    gpu_count count = {0};
    gpu_launch launch = {.kernel = kernel->kernel, .args = args, .resident_warps = gpu_device.card->warps};
    (void)n_waits, (void)waits;
    cl_int code = gpu_check(queue);
    for (cl_uint d = 0; !code && offset && d < dims; d++)
        code = offset[d] ? CL_INVALID_GLOBAL_OFFSET : CL_SUCCESS; /* not here */
    if (!code)
        code = take_sizes(dims, global, local, &launch);
    if (!code)
        code = take_args(kernel, args);
    if (code)
        return code;
    launch.workers = (int)number_of("CLEF_GPU_WORKERS", 2);
    launch.finds_races = number_of("CLEF_GPU_RACES", 0) != 0;
    launch.seed = (uint64_t)number_of("CLEF_GPU_SEED", 1) + atomic_fetch_add(&n_launches, 1);
    const cl_ulong start = gpu_now(), spent_before = spent();
    if (gpu_run_launch(&launch, &count, why))
        gpu_report_fault(queue->context, why);
    count_launch(gpu_kernel_name(kernel->kernel), &count, spent() - spent_before);
    return gpu_finish_command(queue, CL_COMMAND_NDRANGE_KERNEL, start, event);
}

void gpu_fill_kernel(cl_icd_dispatch *to)
{
    to->clCreateKernel = create_kernel;
    to->clRetainKernel = retain_kernel;
    to->clReleaseKernel = release_kernel;
    to->clSetKernelArg = set_arg;
    to->clGetKernelInfo = kernel_info;
    to->clGetKernelWorkGroupInfo = group_info;
    to->clEnqueueNDRangeKernel = enqueue;
}
