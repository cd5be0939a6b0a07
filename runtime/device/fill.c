/* Fills a buffer with one byte, also on drivers that have no clEnqueueFillBuffer() although they report
 * OpenCL 1.2 (docs/gpus.md). */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"

enum { BLOCK_BYTES = 1 << 20 };

/* Blocking writes, so that one block serves them all. */
static cl_int write_blocks(const clef_device *dev, cl_mem mem, cl_uchar byte, size_t n)
{
    const size_t n_block = n < BLOCK_BYTES ? n : BLOCK_BYTES;
    unsigned char *block = malloc(n_block + 1);
    cl_int code = block ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (block)
        memset(block, byte, n_block);
    for (size_t at = 0; at < n && !code; at += n_block)
        code = clEnqueueWriteBuffer(dev->queue, mem, CL_TRUE, at, n - at < n_block ? n - at : n_block, block,
                                    0, NULL, NULL);
    free(block);
    return code;
}

int32_t clef__device_fill(const clef_device *dev, cl_mem mem, unsigned char byte, size_t n)
{
    const cl_int code = clEnqueueFillBuffer(dev->queue, mem, &byte, sizeof byte, 0, n, 0, NULL, NULL);
    return code == CL_INVALID_OPERATION ? write_blocks(dev, mem, byte, n) : code;
}
