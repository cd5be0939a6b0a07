#include "runtime/plan/stage.h"

#include <string.h>

enum { STAGE_BYTES = 4 << 20 };

/* A driver that has no such memory reads the data where they are. */
static void make_half(clef_device *dev, clef__stage *stage, int i)
{
    cl_int code;
    stage->mem[i] =
        clCreateBuffer(dev->context, CL_MEM_READ_ONLY | CL_MEM_ALLOC_HOST_PTR, STAGE_BYTES, NULL, &code);
    if (stage->mem[i])
        stage->host[i] = clEnqueueMapBuffer(dev->queue, stage->mem[i], CL_TRUE, CL_MAP_WRITE, 0, STAGE_BYTES,
                                            0, NULL, NULL, &code);
}

/* Waits until the device has read the half that is filled next. */
static clef_status next_half(clef_device *dev, clef__stage *stage, const char *subject, clef_error *err)
{
    cl_event *taken = &stage->taken[stage->next];
    if (!stage->mem[stage->next])
        make_half(dev, stage, stage->next);
    const cl_int code = *taken ? clWaitForEvents(1, taken) : CL_SUCCESS;
    if (*taken)
        clReleaseEvent(*taken);
    *taken = NULL;
    return code ? clef__cl_fail(err, "clWaitForEvents", subject, code) : CLEF_OK;
}

clef_status clef__stage_write(clef_device *dev, clef__stage *stage, cl_mem to, uint64_t at, const void *data,
                              uint64_t n_bytes, const char *subject, clef_error *err)
{
    for (uint64_t done = 0, n; done < n_bytes; done += n) {
        const int i = stage->next;
        const char *from = (const char *)data + done;
        n = n_bytes - done < STAGE_BYTES ? n_bytes - done : STAGE_BYTES;
        const clef_status s = next_half(dev, stage, subject, err);
        if (s)
            return s;
        if (stage->host[i])
            from = memcpy(stage->host[i], from, (size_t)n);
        cl_int code = clEnqueueWriteBuffer(dev->queue, to, stage->host[i] ? CL_FALSE : CL_TRUE,
                                           (size_t)(at + done), (size_t)n, from, 0, NULL, &stage->taken[i]);
        if (!code)
            code = clFlush(dev->queue);
        if (code)
            return clef__cl_fail(err, "clEnqueueWriteBuffer", subject, code);
        stage->next = !i;
    }
    return CLEF_OK;
}

clef_status clef__stage_finish(clef_device *dev, clef__stage *stage, clef_error *err)
{
    const cl_int code = stage->taken[0] ? clFinish(dev->queue) : CL_SUCCESS;
    for (int i = 0; i < 2; i++) {
        if (stage->taken[i])
            clReleaseEvent(stage->taken[i]);
        if (stage->host[i])
            clEnqueueUnmapMemObject(dev->queue, stage->mem[i], stage->host[i], 0, NULL, NULL);
        if (stage->mem[i])
            clReleaseMemObject(stage->mem[i]);
    }
    *stage = (clef__stage){0};
    return code ? clef__cl_fail(err, "clFinish", "the weights", code) : CLEF_OK;
}
