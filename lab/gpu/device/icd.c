/* What a loader of OpenCL drivers asks for (cl_khr_icd). */
#include "lab/gpu/device/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

cl_icd_dispatch gpu_dispatch;

static void absent(void)
{
    fprintf(stderr, "lab/gpu: an OpenCL function that this device does not have was called\n");
    abort();
}

static void fill_dispatch(void)
{
    void (*const nothing)(void) = absent;
    for (size_t at = 0; at < sizeof gpu_dispatch; at += sizeof nothing)
        memcpy((char *)&gpu_dispatch + at, &nothing, sizeof nothing);
    gpu_fill_platform(&gpu_dispatch);
    gpu_fill_queue(&gpu_dispatch);
    gpu_fill_buffer(&gpu_dispatch);
    gpu_fill_transfer(&gpu_dispatch);
    gpu_fill_program(&gpu_dispatch);
    gpu_fill_kernel(&gpu_dispatch);
}

static cl_int CL_API_CALL icd_platforms(cl_uint n, cl_platform_id *out, cl_uint *n_out)
{
    if (!gpu_dispatch.clGetPlatformIDs)
        fill_dispatch();
    return gpu_dispatch.clGetPlatformIDs(n, out, n_out);
}

static void *find_extension(const char *name)
{
    cl_int(CL_API_CALL *const function)(cl_uint, cl_platform_id *, cl_uint *) = icd_platforms;
    void *address = NULL;
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        memcpy(&address, &function, sizeof address);
    return address;
}

EXPORTED CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    return find_extension(name);
}

static void *CL_API_CALL extension_function(cl_platform_id platform, const char *name)
{
    (void)platform;
    return find_extension(name);
}

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what,
                                                           size_t n, void *out, size_t *n_out)
{
    return gpu_dispatch.clGetPlatformInfo(platform, what, n, out, n_out);
}

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *out,
                                                                cl_uint *n_out)
{
    const cl_int code = icd_platforms(n, out, n_out);
    gpu_dispatch.clGetExtensionFunctionAddressForPlatform = extension_function;
    return code;
}
