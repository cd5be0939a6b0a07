/* An OpenCL loader layer (CL/cl_layer.h) that makes a sound driver behave as other drivers were seen to.
 *
 *   OPENCL_LAYERS=$PWD/quirk_layer.so CLEF_QUIRK=align=4096,group=64 clef run ...
 *
 * CLEF_QUIRK_MET=FILE gets a line with the name of each quirk that a process met. CLEF_QUIRK is a list of
 * these. Behind each are drivers that show it, with the issue that says so; "reported": it is often said,
 * but was traced to no issue. docs/gpus.md has more of them.
 *
 * what the device says, and what it takes
 *   group=N         a launch of more than N work-items a group fails with CL_INVALID_WORK_GROUP_SIZE,
 *                   whatever device and kernel say: Apple's CPU driver says 1024 and refuses 256
 *                   (JuliaGPU/OpenCL.jl#9)
 *   kernel_group=N  the same, and CL_KERNEL_WORK_GROUP_SIZE says N. Any driver may: kernels with many
 *                   registers. Apple's CPU driver says 1 for kernels with barriers (kernel_tuner#38)
 *   resources=N     a launch of more than N work-items a group fails with CL_OUT_OF_RESOURCES: Mali T860
 *                   (opencv#13108)
 *   local=N         a launch whose kernel has more than N bytes of local memory fails with
 *                   CL_OUT_OF_RESOURCES, whatever CL_DEVICE_LOCAL_MEM_SIZE says: Oclgrind once added up all
 *                   kernels of a program (Oclgrind#162); Arc B570, with 1 KiB (chipStar#1438)
 *   align=N         a sub-buffer whose origin is not a multiple of N fails, with
 *                   CL_MISALIGNED_SUB_BUFFER_OFFSET. Which drivers check: Halide#8235. That one wants more
 *                   than it says: reported
 *   alloc=N         buffers hold at most N bytes, and the device says so: Adreno 740 (llama.cpp#25870)
 *   alloc_silent=N  the same, but the device does not say so: reported
 *   memory=N        all buffers together hold N bytes; one more fails with
 *                   CL_MEM_OBJECT_ALLOCATION_FAILURE: any driver whose memory others use
 *   memory_late=N   buffers beyond N bytes in all are made, and launches fail with
 *                   CL_MEM_OBJECT_ALLOCATION_FAILURE: NVIDIA (arrayfire#2650)
 *   memory_late=N:C the same with code C, such as -5, CL_OUT_OF_RESOURCES
 *   host_ptr=copy   a buffer in the host's memory (CL_MEM_USE_HOST_PTR) is a copy of it: Mali, Adreno
 *                   (llama.cpp#5965)
 *   host_ptr=refuse .. is refused where the host may only read: a driver that pins pages for writing
 *   units=N, mhz=N  what the device says of its units and clock: Mesa's driver says 9999 units and 0 MHz for
 *                   Adreno
 *   address_bits=N  CL_DEVICE_ADDRESS_BITS is N, memory 16 GiB all the same: reported of Adreno
 *   extension=NAME  the device lists an extension that it does not have: reported of Adreno (llama.cpp#25343)
 *   dot=slow        cl_khr_integer_dot_product says that it is not accelerated: Mesa on Adreno
 *   sticky=KERNEL   once the kernel was launched, every later command of the process fails with
 *                   CL_OUT_OF_RESOURCES: NVIDIA, after an access that is out of bounds (PPSTM#77, cuml#7906)
 *   reset=KERNEL    each launch of the kernel ends the contexts of all processes; new ones work: a driver
 *                   that resets the card, on Windows (TDR) and Linux (amdgpu, i915)
 *   flush=lazy      no launch begins before its queue is flushed, or waited for: Windows' drivers gather
 *                   commands (WDDM)
 *   null_arg        a buffer argument that is NULL fails with CL_INVALID_ARG_VALUE, although the standard
 *                   allows it: clvk, once
 *   no_fill         clEnqueueFillBuffer fails with CL_INVALID_OPERATION: NVIDIA up to 352.21, Apple (hashcat,
 *                   the comment in its function that sets buffers to zero)
 *
 * the compiler
 *   denormals       denormal numbers are flushed to zero, as the standard allows (OpenCL-Docs#276). PoCL
 *                   obeys -cl-denorms-are-zero by the processor's own flags
 *   fast_math       every program is built with -cl-fast-relaxed-math: reported
 *   compiler=crash:WORD   building a source that contains WORD ends the process by a signal: ROCm
 *                   (ROCm-OpenCL-Driver#71), Adreno (llama.cpp#22006), Intel (compute-runtime#213)
 *   compiler=exit:WORD    .. by exit(1), as LLVM does after a fatal error
 *   compiler=hang:WORD    .. never comes back: Apple (pytential#1)
 *   compiler=slow:N       each build takes N milliseconds longer: Adreno, minutes (llama.cpp#22642)
 *   binaries=refuse|build|kernel   a program's binary is of another driver: it is refused when the program is
 *                   made, when it is built, or its kernels are not found: Intel (compute-runtime#125)
 *
 * profiling
 *   times=reversed  a command ends before it starts: Intel, in other orders (compute-runtime#344,
 *                   chipStar#1549)
 *   times=untouched the query succeeds and writes nothing: ROCm 7.2 (darktable#21122)
 *   times=none      CL_PROFILING_INFO_NOT_AVAILABLE */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "tests/layers/layer.h"

#include "tests/layers/quirk.h"
#include <CL/cl_ext.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PROGRAMS = 4096 };

/* ---- programs -------------------------------------------------------------------------------- */

/* Programs that the quirk concerns: those from binaries, and those whose source has the word. */
static cl_program concerned[MAX_PROGRAMS];
static int n_concerned;

static void note_program(cl_program program)
{
    if (program && n_concerned < MAX_PROGRAMS)
        concerned[n_concerned++] = program;
}

static int is_concerned(cl_program program)
{
    for (int i = 0; i < n_concerned; i++)
        if (concerned[i] == program)
            return 1;
    return 0;
}

static void forget_program(cl_program program)
{
    for (int i = 0; i < n_concerned; i++)
        if (concerned[i] == program)
            concerned[i--] = concerned[--n_concerned];
}

static cl_program CL_API_CALL from_source(cl_context context, cl_uint n, const char **texts,
                                          const size_t *sizes, cl_int *code)
{
    char value[VALUE_BYTES];
    const char *how = find_quirk("compiler", value), *word = how ? strchr(how, ':') : NULL;
    cl_program made = next->clCreateProgramWithSource(context, n, texts, sizes, code);
    for (cl_uint i = 0; made && word && i < n; i++) {
        const size_t n_text = sizes && sizes[i] ? sizes[i] : strlen(texts[i]), n_word = strlen(word + 1);
        for (size_t k = 0; n_word && k + n_word <= n_text; k++)
            if (memcmp(texts[i] + k, word + 1, n_word) == 0) {
                note_program(made);
                return made;
            }
    }
    return made;
}

static cl_program CL_API_CALL from_binary(cl_context context, cl_uint n, const cl_device_id *devices,
                                          const size_t *sizes, const unsigned char **binaries, cl_int *codes,
                                          cl_int *code)
{
    if (has_quirk("binaries", "refuse")) {
        meet("binaries");
        for (cl_uint i = 0; codes && i < n; i++)
            codes[i] = CL_INVALID_BINARY;
        if (code)
            *code = CL_INVALID_BINARY;
        return NULL;
    }
    cl_program made = next->clCreateProgramWithBinary(context, n, devices, sizes, binaries, codes, code);
    if (has_quirk("binaries", NULL))
        note_program(made);
    return made;
}

static cl_int CL_API_CALL release_program(cl_program program)
{
    cl_uint n = 0;
    if (next->clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof n, &n, NULL) == CL_SUCCESS &&
        n == 1)
        forget_program(program);
    return next->clReleaseProgram(program);
}

static cl_int CL_API_CALL set_arg(cl_kernel kernel, cl_uint i, size_t n, const void *value)
{
    if (i > 0 && n == sizeof(cl_mem) && (!value || !*(const cl_mem *)value) && has_quirk("null_arg", NULL)) {
        meet("null_arg");
        return CL_INVALID_ARG_VALUE;
    }
    return next->clSetKernelArg(kernel, i, n, value);
}

static void sleep_ms(long ms)
{
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest)) {
    }
}

static void misbehave(const char *how)
{
    meet("compiler");
    if (strncmp(how, "crash:", 6) == 0)
        abort(); /* after which handlers cannot go on */
    if (strncmp(how, "exit:", 5) == 0)
        exit(1);
    while (strncmp(how, "hang:", 5) == 0)
        sleep_ms(1000);
}

static cl_int CL_API_CALL build(cl_program program, cl_uint n, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *done)(cl_program, void *), void *user)
{
    char value[VALUE_BYTES], all[4096];
    const char *how = find_quirk("compiler", value);
    if (how && strncmp(how, "slow:", 5) == 0) {
        meet("compiler");
        sleep_ms(strtol(how + 5, NULL, 10));
    } else if (how && is_concerned(program))
        misbehave(how);
    if (is_concerned(program) && has_quirk("binaries", "build")) {
        meet("binaries");
        return CL_BUILD_PROGRAM_FAILURE;
    }
    if (has_quirk("denormals", NULL))
        meet("denormals");
    if (has_quirk("fast_math", NULL))
        meet("fast_math");
    snprintf(all, sizeof all, "%s%s%s", options ? options : "",
             has_quirk("denormals", NULL) ? " -cl-denorms-are-zero" : "",
             has_quirk("fast_math", NULL) ? " -cl-fast-relaxed-math" : "");
    return next->clBuildProgram(program, n, devices, all, done, user);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code)
{
    if (!is_concerned(program) || !has_quirk("binaries", "kernel"))
        return next->clCreateKernel(program, name, code);
    meet("binaries");
    if (code)
        *code = CL_INVALID_KERNEL_NAME;
    return NULL;
}

/* ---- what the device says -------------------------------------------------------------------- */

static cl_int answer(const void *from, size_t n_from, size_t n, void *out, size_t *n_out)
{
    if (out && n < n_from)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, from, n_from);
    if (n_out)
        *n_out = n_from;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t n, void *out,
                                      size_t *n_out)
{
    char value[VALUE_BYTES], name[VALUE_BYTES], list[32768];
    size_t n_list = 0;
    const cl_uint bits = (cl_uint)number_of("address_bits");
    const cl_ulong alloc = number_of("alloc"), memory = (cl_ulong)16 << 30;
    const char *extension = find_quirk("extension", name);
    if (bits && (what == CL_DEVICE_ADDRESS_BITS || what == CL_DEVICE_GLOBAL_MEM_SIZE))
        meet("address_bits");
    if (extension && what == CL_DEVICE_EXTENSIONS)
        meet("extension");
    if (alloc && what == CL_DEVICE_MAX_MEM_ALLOC_SIZE)
        meet("alloc");
    for (int is_clock = 0; is_clock < 2; is_clock++)
        if (what == (is_clock ? CL_DEVICE_MAX_CLOCK_FREQUENCY : CL_DEVICE_MAX_COMPUTE_UNITS) &&
            find_quirk(is_clock ? "mhz" : "units", value)) {
            const cl_uint number = (cl_uint)number_of(is_clock ? "mhz" : "units");
            meet(is_clock ? "mhz" : "units");
            return answer(&number, sizeof number, n, out, n_out);
        }
    if (what == CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED_KHR &&
        has_quirk("dot", "slow")) {
        static const cl_device_integer_dot_product_acceleration_properties_khr slow;
        meet("dot");
        return answer(&slow, sizeof slow, n, out, n_out);
    }
    if (what == CL_DEVICE_ADDRESS_BITS && bits)
        return answer(&bits, sizeof bits, n, out, n_out);
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && alloc)
        return answer(&alloc, sizeof alloc, n, out, n_out);
    if ((what == CL_DEVICE_GLOBAL_MEM_SIZE || what == CL_DEVICE_MAX_MEM_ALLOC_SIZE) && bits)
        return answer(&memory, sizeof memory, n, out, n_out);
    if (what == CL_DEVICE_EXTENSIONS && extension &&
        next->clGetDeviceInfo(device, what, sizeof list, list, &n_list) == CL_SUCCESS) {
        list[n_list ? n_list - 1 : 0] = 0;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, " %s", extension);
        return answer(list, strlen(list) + 1, n, out, n_out);
    }
    return next->clGetDeviceInfo(device, what, n, out, n_out);
}

static cl_int CL_API_CALL kernel_group_info(cl_kernel kernel, cl_device_id device,
                                            cl_kernel_work_group_info what, size_t n, void *out,
                                            size_t *n_out)
{
    const size_t most = number_of("kernel_group");
    if (what == CL_KERNEL_WORK_GROUP_SIZE && most)
        return answer(&most, sizeof most, n, out, n_out);
    return next->clGetKernelWorkGroupInfo(kernel, device, what, n, out, n_out);
}

/* ---- a context that failed --------------------------------------------------------------------- */

static atomic_int is_lost;
static atomic_long n_resets_seen; /* before the process made its last context */

/* A reset concerns all processes, which count them by the bytes of a file. */
static const char *reset_file(char path[512])
{
    const char *met = getenv("CLEF_QUIRK_MET");
    snprintf(path, 512, "%s.resets", met ? met : "quirk");
    return path;
}

static long n_resets(void)
{
    char path[512];
    FILE *from = fopen(reset_file(path), "rb");
    if (!from)
        return 0;
    fseek(from, 0, SEEK_END);
    const long n = ftell(from);
    fclose(from);
    return n;
}

static int is_context_lost(void)
{
    return atomic_load(&is_lost) || (has_quirk("reset", NULL) && n_resets() > atomic_load(&n_resets_seen));
}

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code)
{
    if (has_quirk("reset", NULL))
        atomic_store(&n_resets_seen, n_resets());
    return next->clCreateContext(properties, n, devices, notify, user, code);
}

static void reset_device(void)
{
    char path[512];
    FILE *to = fopen(reset_file(path), "ab");
    if (to) {
        fputc('x', to);
        fclose(to);
    }
}

/* What runs is waited for: on a driver that lost its context nothing runs any more. */
static int is_kernel_of(const char *quirk, cl_kernel kernel)
{
    char value[VALUE_BYTES], name[VALUE_BYTES] = "";
    const char *word = find_quirk(quirk, value);
    return word && !next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL) &&
           strcmp(name, word) == 0;
}

static void lose_by(cl_command_queue queue, cl_kernel kernel)
{
    const int sticky = is_kernel_of("sticky", kernel), reset = is_kernel_of("reset", kernel);
    if (!sticky && !reset)
        return;
    meet(sticky ? "sticky" : "reset");
    next->clFinish(queue);
    if (sticky)
        atomic_store(&is_lost, 1);
    else
        reset_device();
}

/* ---- launches that wait for a flush ---------------------------------------------------------- */

enum { MAX_WAIT = 15 };
static pthread_mutex_t holding = PTHREAD_MUTEX_INITIALIZER;
static cl_event held; /* what launches of `held_in` wait for; NULL: there are none */
static cl_context held_in;

static void let_go_locked(void)
{
    if (!held)
        return;
    next->clSetUserEventStatus(held, CL_COMPLETE);
    next->clReleaseEvent(held);
    held = NULL;
}

static void let_go(void)
{
    pthread_mutex_lock(&holding);
    let_go_locked();
    pthread_mutex_unlock(&holding);
}

/* Adds to the n events of `wait` the one that the next flush completes. Returns their number. */
static cl_uint hold(cl_command_queue queue, cl_uint n, const cl_event *wait, cl_event out[MAX_WAIT + 1])
{
    cl_context context = NULL;
    next->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    pthread_mutex_lock(&holding);
    if (held_in != context)
        let_go_locked();
    held_in = context;
    if (!held)
        held = next->clCreateUserEvent(context, NULL);
    for (cl_uint i = 0; i < n; i++)
        out[i] = wait[i];
    out[n] = held;
    pthread_mutex_unlock(&holding);
    meet("flush");
    return n + (out[n] != NULL);
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    let_go();
    return is_context_lost() ? CL_OUT_OF_RESOURCES : next->clFinish(queue);
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    let_go();
    return is_context_lost() ? CL_OUT_OF_RESOURCES : next->clFlush(queue);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocks, size_t at, size_t n,
                                      void *to, cl_uint n_wait, const cl_event *wait, cl_event *event)
{
    if (blocks)
        let_go();
    return is_context_lost() ? CL_OUT_OF_RESOURCES
                             : next->clEnqueueReadBuffer(queue, mem, blocks, at, n, to, n_wait, wait, event);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocks, size_t at,
                                       size_t n, const void *from, cl_uint n_wait, const cl_event *wait,
                                       cl_event *event)
{
    if (blocks)
        let_go();
    return is_context_lost()
               ? CL_OUT_OF_RESOURCES
               : next->clEnqueueWriteBuffer(queue, mem, blocks, at, n, from, n_wait, wait, event);
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocks, cl_map_flags flags,
                                    size_t at, size_t n, cl_uint n_wait, const cl_event *wait,
                                    cl_event *event, cl_int *code)
{
    if (blocks)
        let_go();
    if (!is_context_lost())
        return next->clEnqueueMapBuffer(queue, mem, blocks, flags, at, n, n_wait, wait, event, code);
    if (code)
        *code = CL_OUT_OF_RESOURCES;
    return NULL;
}

static cl_int CL_API_CALL wait_for(cl_uint n, const cl_event *events)
{
    let_go();
    return is_context_lost() ? CL_OUT_OF_RESOURCES : next->clWaitForEvents(n, events);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static atomic_size_t live_bytes;

static void CL_CALLBACK forget_buffer(cl_mem mem, void *n_bytes)
{
    (void)mem;
    atomic_fetch_sub(&live_bytes, (size_t)(uintptr_t)n_bytes);
}

static cl_mem no_buffer(const char *quirk, cl_int why, cl_int *code)
{
    meet(quirk);
    if (code)
        *code = why;
    return NULL;
}

/* 0 for pages such as those of a file that is mapped for reading. */
static int is_writable(void *page)
{
    const char first = *(const char *)page;
    const int zeros = open("/dev/zero", O_RDONLY), is = read(zeros, page, 1) == 1;
    close(zeros);
    if (is)
        *(char *)page = first;
    return is;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t n, void *host,
                                        cl_int *code)
{
    const size_t said = number_of("alloc"), silent = number_of("alloc_silent"), all = number_of("memory");
    if ((said && n > said) || (silent && n > silent))
        return no_buffer(said ? "alloc" : "alloc_silent", CL_INVALID_BUFFER_SIZE, code);
    if (all && atomic_load(&live_bytes) + n > all)
        return no_buffer("memory", CL_MEM_OBJECT_ALLOCATION_FAILURE, code);
    if ((flags & CL_MEM_USE_HOST_PTR) && has_quirk("host_ptr", "refuse") && !is_writable(host))
        return no_buffer("host_ptr", CL_INVALID_HOST_PTR, code);
    if ((flags & CL_MEM_USE_HOST_PTR) && has_quirk("host_ptr", "copy")) {
        meet("host_ptr");
        flags = (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
    }
    cl_mem made = next->clCreateBuffer(context, flags, n, host, code);
    if (made &&
        next->clSetMemObjectDestructorCallback(made, forget_buffer, (void *)(uintptr_t)n) == CL_SUCCESS)
        atomic_fetch_add(&live_bytes, n);
    return made;
}

static cl_mem CL_API_CALL create_sub_buffer(cl_mem of, cl_mem_flags flags, cl_buffer_create_type type,
                                            const void *region, cl_int *code)
{
    const size_t align = number_of("align");
    if (align && ((const cl_buffer_region *)region)->origin % align)
        return no_buffer("align", CL_MISALIGNED_SUB_BUFFER_OFFSET, code);
    return next->clCreateSubBuffer(of, flags, type, region, code);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                                      size_t n_pattern, size_t at, size_t n, cl_uint n_wait,
                                      const cl_event *wait, cl_event *event)
{
    if (has_quirk("no_fill", NULL)) {
        meet("no_fill");
        return CL_INVALID_OPERATION;
    }
    if (is_context_lost())
        return CL_OUT_OF_RESOURCES;
    return next->clEnqueueFillBuffer(queue, mem, pattern, n_pattern, at, n, n_wait, wait, event);
}

/* ---- launches -------------------------------------------------------------------------------- */

static cl_int late_code(void)
{
    char value[VALUE_BYTES];
    const char *is = find_quirk("memory_late", value), *code = is ? strchr(is, ':') : NULL;
    return code ? (cl_int)strtol(code + 1, NULL, 10) : CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint n_wait,
                                 const cl_event *wait, cl_event *event)
{
    static const struct {
        const char *quirk;
        cl_int code;
    } limits[] = {{"group", CL_INVALID_WORK_GROUP_SIZE},
                  {"kernel_group", CL_INVALID_WORK_GROUP_SIZE},
                  {"resources", CL_OUT_OF_RESOURCES}};
    const size_t local_bytes = number_of("local"), late = number_of("memory_late");
    size_t items = 1;
    for (cl_uint i = 0; local && i < dims; i++)
        items *= local[i];
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (number_of(limits[i].quirk) && items > number_of(limits[i].quirk)) {
            meet(limits[i].quirk);
            return limits[i].code;
        }
    if (late && atomic_load(&live_bytes) > late) {
        meet("memory_late");
        return late_code();
    }
    if (local_bytes) {
        cl_device_id device = NULL;
        cl_ulong used = 0;
        next->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
        next->clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used, NULL);
        if (used > local_bytes) {
            meet("local");
            return CL_OUT_OF_RESOURCES;
        }
    }
    if (is_context_lost())
        return CL_OUT_OF_RESOURCES;
    cl_event all[MAX_WAIT + 1];
    const int is_held = has_quirk("flush", "lazy") && n_wait <= MAX_WAIT;
    const cl_uint n = is_held ? hold(queue, n_wait, wait, all) : n_wait;
    const cl_int code = next->clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n,
                                                     is_held ? all : wait, event);
    lose_by(queue, kernel);
    return code;
}

static cl_int CL_API_CALL event_times(cl_event event, cl_profiling_info what, size_t n, void *out,
                                      size_t *n_out)
{
    if (has_quirk("times", NULL))
        meet("times");
    if (has_quirk("times", "none"))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    if (has_quirk("times", "untouched"))
        return CL_SUCCESS;
    if (has_quirk("times", "reversed"))
        what = what == CL_PROFILING_COMMAND_START ? CL_PROFILING_COMMAND_END
               : what == CL_PROFILING_COMMAND_END ? CL_PROFILING_COMMAND_START
                                                  : what;
    return next->clGetEventProfilingInfo(event, what, n, out, n_out);
}

static const char *const layer_name = "clef quirk layer";

static void take_over(void)
{
    check_names();
    ours.clCreateContext = create_context;
    ours.clCreateProgramWithSource = from_source;
    ours.clCreateProgramWithBinary = from_binary;
    ours.clReleaseProgram = release_program;
    ours.clBuildProgram = build;
    ours.clCreateKernel = create_kernel;
    ours.clSetKernelArg = set_arg;
    ours.clGetDeviceInfo = device_info;
    ours.clGetKernelWorkGroupInfo = kernel_group_info;
    ours.clCreateBuffer = create_buffer;
    ours.clCreateSubBuffer = create_sub_buffer;
    ours.clEnqueueFillBuffer = fill_buffer;
    ours.clEnqueueNDRangeKernel = launch;
    ours.clFinish = finish;
    ours.clFlush = flush;
    ours.clEnqueueReadBuffer = read_buffer;
    ours.clEnqueueWriteBuffer = write_buffer;
    ours.clEnqueueMapBuffer = map_buffer;
    ours.clWaitForEvents = wait_for;
    ours.clGetEventProfilingInfo = event_times;
}
