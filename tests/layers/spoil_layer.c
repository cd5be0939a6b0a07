/* An OpenCL loader layer (CL/cl_layer.h) that shows reads of memory that nobody wrote: every buffer made
 * without data is filled with bytes of 0xff, NaN in every float format and -1 in integers, where most drivers
 * give zeros. What a kernel reads of it spoils its result. (Oclgrind's own search, --uninitialized, is of no
 * use here: it takes what clEnqueueFillBuffer() filled, what was written through a sub-buffer and the halves
 * of a vector for unwritten.) */
#include "tests/layers/layer.h"

#include <string.h>

static cl_command_queue filling; /* the last queue made, which fills the buffers of its context */
static cl_context filled;

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties how, cl_int *code)
{
    cl_command_queue queue = next->clCreateCommandQueue(context, device, how, code);
    if (queue) {
        filling = queue;
        filled = context;
    }
    return queue;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t n, void *host,
                                        cl_int *code)
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

static const char *const layer_name = "clef spoil layer";

static void take_over(void)
{
    ours.clCreateCommandQueue = create_queue;
    ours.clReleaseCommandQueue = release_queue;
    ours.clCreateBuffer = create_buffer;
}
