/* An OpenCL loader layer (CL/cl_layer.h) that shows reads of memory that nobody wrote: every buffer made without data is filled with bytes
 * of 0xff, NaN in every float format and -1 in integers, where most drivers give zeros. What a kernel reads of it spoils its result.
 * (Oclgrind's own search, --uninitialized, is of no use here: it takes what clEnqueueFillBuffer() filled, what was written through a
 * sub-buffer and the halves of a vector for unwritten.) */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <string.h>

static const cl_icd_dispatch *next;
static cl_icd_dispatch ours;
static cl_command_queue filling; /* the last queue made, which fills the buffers of its context */
static cl_context filled;

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device, cl_command_queue_properties how, cl_int *code)
{
    cl_command_queue queue = next->clCreateCommandQueue(context, device, how, code);
    if (queue) {
        filling = queue;
        filled = context;
    }
    return queue;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t n, void *host, cl_int *code)
{
    const cl_uchar spoiled = 0xff;
    cl_mem mem = next->clCreateBuffer(context, flags, n, host, code);
    if (mem && !host && context == filled)
        next->clEnqueueFillBuffer(filling, mem, &spoiled, sizeof spoiled, 0, n, 0, NULL, NULL);
    return mem;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    if (queue == filling)
        filled = NULL;
    return next->clReleaseCommandQueue(queue);
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t n, void *out, size_t *n_out)
{
    static const char name[] = "clef spoil layer";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *from = what == CL_LAYER_NAME ? (const void *)name : &version;
    const size_t n_from = what == CL_LAYER_NAME ? sizeof name : sizeof version;
    if ((what != CL_LAYER_NAME && what != CL_LAYER_API_VERSION) || (out && n < n_from))
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, from, n_from);
    if (n_out)
        *n_out = n_from;
    return CL_SUCCESS;
}

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint n, const cl_icd_dispatch *target, cl_uint *n_out, const cl_icd_dispatch **out)
{
    const cl_uint n_ours = sizeof ours / sizeof(void *);
    if (!target || !n_out || !out)
        return CL_INVALID_VALUE;
    memcpy(&ours, target, (n < n_ours ? n : n_ours) * sizeof(void *));
    next = target;
    ours.clCreateCommandQueue = create_queue;
    ours.clReleaseCommandQueue = release_queue;
    ours.clCreateBuffer = create_buffer;
    *n_out = n_ours;
    *out = &ours;
    return CL_SUCCESS;
}
