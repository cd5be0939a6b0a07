/* OpenCL's functions without a loader at link time (CLEF_DLOPEN_OPENCL): the loader is opened when the first
 * of them is called, so that a program starts on a machine without OpenCL, where it finds no device. Each
 * function here has the name and the parameters of the one in <CL/cl.h> and calls the loader's. */
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/library.h"

/* ---- the loader ------------------------------------------------------------------------------ */

/* Where the loader is. $CLEF_OPENCL names another one. Android's vendors have no common place. */
static const char *const places[] = {
#if defined(_WIN32)
    "OpenCL.dll",
#elif defined(__APPLE__)
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#else
    "libOpenCL.so.1",
    "libOpenCL.so",
#    if defined(__ANDROID__)
    "libOpenCL-pixel.so", /* Google's Pixel phones */
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/system/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so", /* Arm's driver is one library for all interfaces */
#    endif
#endif
    NULL};

/* The functions, in the order of the calls below. */
enum {
#define NAME(name) AT_##name,
#include "runtime/device/opencl_names.def"
#undef NAME
    N_FUNCTIONS
};

static const char *const function_names[N_FUNCTIONS] = {
#define NAME(name) #name,
#include "runtime/device/opencl_names.def"
#undef NAME
};
static void *functions[N_FUNCTIONS];
static clef__library loader = {.variable = "CLEF_OPENCL",
                               .places = places,
                               .names = function_names,
                               .functions = functions,
                               .n = N_FUNCTIONS};

static void *find(int i)
{
    return clef__library_open(&loader) ? functions[i] : NULL;
}

const char *clef__opencl_missing(void)
{
    return clef__library_open(&loader) ? NULL : loader.why;
}

/* ---- the functions --------------------------------------------------------------------------- */

/* A function that an old loader does not have fails with CL_INVALID_OPERATION. */
#define CALL(name, parameters, arguments)                                                                    \
    CL_API_ENTRY cl_int CL_API_CALL name parameters                                                          \
    {                                                                                                        \
        cl_int(CL_API_CALL *call) parameters;                                                                \
        void *found = find(AT_##name);                                                                       \
        memcpy(&call, &found, sizeof call);                                                                  \
        return call ? call arguments : CL_INVALID_OPERATION;                                                 \
    }
#define MAKE(type, name, parameters, arguments)                                                              \
    CL_API_ENTRY type CL_API_CALL name parameters                                                            \
    {                                                                                                        \
        type(CL_API_CALL *call) parameters;                                                                  \
        void *found = find(AT_##name);                                                                       \
        memcpy(&call, &found, sizeof call);                                                                  \
        if (call)                                                                                            \
            return call arguments;                                                                           \
        if (code)                                                                                            \
            *code = CL_INVALID_OPERATION;                                                                    \
        return NULL;                                                                                         \
    }

CALL(clBuildProgram,
     (cl_program p, cl_uint n, const cl_device_id *devices, const char *options,
      void(CL_CALLBACK *notify)(cl_program, void *), void *user),
     (p, n, devices, options, notify, user))
MAKE(cl_mem, clCreateBuffer, (cl_context c, cl_mem_flags flags, size_t size, void *data, cl_int *code),
     (c, flags, size, data, code))
MAKE(cl_command_queue, clCreateCommandQueue,
     (cl_context c, cl_device_id d, cl_command_queue_properties properties, cl_int *code),
     (c, d, properties, code))
MAKE(cl_context, clCreateContext,
     (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
      void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code),
     (properties, n, devices, notify, user, code))
MAKE(cl_kernel, clCreateKernel, (cl_program p, const char *name, cl_int *code), (p, name, code))
MAKE(cl_program, clCreateProgramWithBinary,
     (cl_context c, cl_uint n, const cl_device_id *devices, const size_t *lengths,
      const unsigned char **binaries, cl_int *statuses, cl_int *code),
     (c, n, devices, lengths, binaries, statuses, code))
MAKE(cl_program, clCreateProgramWithSource,
     (cl_context c, cl_uint count, const char **strings, const size_t *lengths, cl_int *code),
     (c, count, strings, lengths, code))
MAKE(cl_mem, clCreateSubBuffer,
     (cl_mem b, cl_mem_flags flags, cl_buffer_create_type type, const void *info, cl_int *code),
     (b, flags, type, info, code))
CALL(clEnqueueCopyBuffer,
     (cl_command_queue q, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size,
      cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, from, to, from_offset, to_offset, size, n_waits, waits, e))
CALL(clEnqueueFillBuffer,
     (cl_command_queue q, cl_mem b, const void *pattern, size_t n_pattern, size_t offset, size_t size,
      cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, b, pattern, n_pattern, offset, size, n_waits, waits, e))
MAKE(void *, clEnqueueMapBuffer,
     (cl_command_queue q, cl_mem b, cl_bool wait, cl_map_flags flags, size_t offset, size_t size,
      cl_uint n_waits, const cl_event *waits, cl_event *e, cl_int *code),
     (q, b, wait, flags, offset, size, n_waits, waits, e, code))
CALL(clEnqueueMarkerWithWaitList, (cl_command_queue q, cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, n_waits, waits, e))
CALL(clEnqueueNDRangeKernel,
     (cl_command_queue q, cl_kernel k, cl_uint n_dims, const size_t *offset, const size_t *global,
      const size_t *local, cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, k, n_dims, offset, global, local, n_waits, waits, e))
CALL(clEnqueueReadBuffer,
     (cl_command_queue q, cl_mem b, cl_bool wait, size_t offset, size_t size, void *data, cl_uint n_waits,
      const cl_event *waits, cl_event *e),
     (q, b, wait, offset, size, data, n_waits, waits, e))
CALL(clEnqueueReadBufferRect,
     (cl_command_queue q, cl_mem b, cl_bool wait, const size_t *b_origin, const size_t *h_origin,
      const size_t *region, size_t b_row, size_t b_slice, size_t h_row, size_t h_slice, void *data,
      cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, b, wait, b_origin, h_origin, region, b_row, b_slice, h_row, h_slice, data, n_waits, waits, e))
CALL(clEnqueueUnmapMemObject,
     (cl_command_queue q, cl_mem m, void *data, cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, m, data, n_waits, waits, e))
CALL(clEnqueueWriteBuffer,
     (cl_command_queue q, cl_mem b, cl_bool wait, size_t offset, size_t size, const void *data,
      cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, b, wait, offset, size, data, n_waits, waits, e))
CALL(clEnqueueWriteBufferRect,
     (cl_command_queue q, cl_mem b, cl_bool wait, const size_t *b_origin, const size_t *h_origin,
      const size_t *region, size_t b_row, size_t b_slice, size_t h_row, size_t h_slice, const void *data,
      cl_uint n_waits, const cl_event *waits, cl_event *e),
     (q, b, wait, b_origin, h_origin, region, b_row, b_slice, h_row, h_slice, data, n_waits, waits, e))
CALL(clFinish, (cl_command_queue q), (q))
CALL(clFlush, (cl_command_queue q), (q))
CALL(clGetCommandQueueInfo,
     (cl_command_queue q, cl_command_queue_info what, size_t room, void *out, size_t *size_out),
     (q, what, room, out, size_out))
CALL(clGetDeviceIDs,
     (cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices, cl_uint *n),
     (platform, type, room, devices, n))
CALL(clGetDeviceInfo, (cl_device_id d, cl_device_info what, size_t room, void *out, size_t *size_out),
     (d, what, room, out, size_out))
CALL(clGetEventProfilingInfo, (cl_event e, cl_profiling_info what, size_t room, void *out, size_t *size_out),
     (e, what, room, out, size_out))
CALL(clGetKernelInfo, (cl_kernel k, cl_kernel_info what, size_t room, void *out, size_t *size_out),
     (k, what, room, out, size_out))
CALL(clGetMemObjectInfo, (cl_mem m, cl_mem_info what, size_t room, void *out, size_t *size_out),
     (m, what, room, out, size_out))
CALL(clGetPlatformInfo,
     (cl_platform_id platform, cl_platform_info what, size_t room, void *out, size_t *size_out),
     (platform, what, room, out, size_out))
CALL(clGetProgramBuildInfo,
     (cl_program p, cl_device_id d, cl_program_build_info what, size_t room, void *out, size_t *size_out),
     (p, d, what, room, out, size_out))
CALL(clGetProgramInfo, (cl_program p, cl_program_info what, size_t room, void *out, size_t *size_out),
     (p, what, room, out, size_out))
CALL(clReleaseCommandQueue, (cl_command_queue q), (q))
CALL(clReleaseContext, (cl_context c), (c))
CALL(clReleaseEvent, (cl_event e), (e))
CALL(clReleaseKernel, (cl_kernel k), (k))
CALL(clReleaseMemObject, (cl_mem m), (m))
CALL(clReleaseProgram, (cl_program p), (p))
CALL(clRetainEvent, (cl_event e), (e))
CALL(clRetainMemObject, (cl_mem m), (m))
CALL(clSetKernelArg, (cl_kernel k, cl_uint i, size_t size, const void *value), (k, i, size, value))
CALL(clSetMemObjectDestructorCallback, (cl_mem m, void(CL_CALLBACK *then)(cl_mem, void *), void *data),
     (m, then, data))
CALL(clWaitForEvents, (cl_uint n, const cl_event *events), (n, events))

/* The first call of any program. */
CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *n)
{
    enum {
        NOT_FOUND = -1001
    }; /* CL_PLATFORM_NOT_FOUND_KHR of cl_khr_icd, as a loader without drivers says */
    cl_int(CL_API_CALL * call)(cl_uint, cl_platform_id *, cl_uint *);
    void *found = find(AT_clGetPlatformIDs);
    memcpy(&call, &found, sizeof call);
    return call ? call(room, platforms, n) : NOT_FOUND;
}

CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                                        const char *name)
{
    void *(CL_API_CALL * call)(cl_platform_id, const char *);
    void *found = find(AT_clGetExtensionFunctionAddressForPlatform);
    memcpy(&call, &found, sizeof call);
    return call ? call(platform, name) : NULL;
}
