/* Contexts, queues and events, and what a fault does to them. */
#include "lab/gpu/device/objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- contexts -------------------------------------------------------------------------------- */

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code)
{
    (void)properties, (void)notify, (void)user;
    const int is_right = n == 1 && devices && devices[0] == &gpu_device;
    cl_context context = is_right ? gpu_object(sizeof *context) : NULL;
    if (code)
        *code = context ? CL_SUCCESS : is_right ? CL_OUT_OF_HOST_MEMORY : CL_INVALID_DEVICE;
    return context;
}

static cl_int CL_API_CALL retain_context(cl_context context)
{
    atomic_fetch_add(&context->refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_context(cl_context context)
{
    if (atomic_fetch_sub(&context->refs, 1) == 1)
        free(context);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL context_info(cl_context context, cl_context_info what, size_t n, void *out,
                                       size_t *n_out)
{
    switch (what) {
    case CL_CONTEXT_REFERENCE_COUNT:
        return GPU_ANSWER(cl_uint, (cl_uint)context->refs);
    case CL_CONTEXT_NUM_DEVICES:
        return GPU_ANSWER(cl_uint, 1);
    case CL_CONTEXT_DEVICES:
        return GPU_ANSWER(cl_device_id, &gpu_device);
    default:
        return CL_INVALID_VALUE;
    }
}

/* As NVIDIA's driver: the command that meets the fault first gets one code, all later ones another. */
cl_int gpu_check(cl_command_queue queue)
{
    int lost = 1;
    if (atomic_compare_exchange_strong(&queue->context->lost, &lost, 2))
        return CL_OUT_OF_RESOURCES;
    return lost ? CL_INVALID_COMMAND_QUEUE : CL_SUCCESS;
}

void gpu_report_fault(cl_context context, const char *why)
{
    const char *path = getenv("CLEF_GPU_FINDINGS");
    char line[GPU_MESSAGE + 32];
    const int n = snprintf(line, sizeof line, "lab/gpu: %s\n", why);
    atomic_store(&context->lost, 1);
    fputs(line, stderr);
    const int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0666) : -1;
    if (file >= 0) {
        if (write(file, line, (size_t)n) != n)
            perror(path);
        close(file);
    }
}

/* ---- queues ---------------------------------------------------------------------------------- */

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties, cl_int *code)
{
    (void)device;
    cl_command_queue queue = gpu_object(sizeof *queue);
    if (queue) {
        queue->context = context;
        queue->properties = properties;
        retain_context(context);
    }
    if (code)
        *code = queue ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return queue;
}

static cl_command_queue CL_API_CALL create_queue_with(cl_context context, cl_device_id device,
                                                      const cl_queue_properties *properties, cl_int *code)
{
    cl_command_queue_properties flags = 0;
    for (; properties && properties[0]; properties += 2)
        flags = properties[0] == CL_QUEUE_PROPERTIES ? properties[1] : flags;
    return create_queue(context, device, flags, code);
}

static cl_int CL_API_CALL retain_queue(cl_command_queue queue)
{
    atomic_fetch_add(&queue->refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    if (atomic_fetch_sub(&queue->refs, 1) == 1) {
        release_context(queue->context);
        free(queue);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL queue_info(cl_command_queue queue, cl_command_queue_info what, size_t n, void *out,
                                     size_t *n_out)
{
    switch (what) {
    case CL_QUEUE_CONTEXT:
        return GPU_ANSWER(cl_context, queue->context);
    case CL_QUEUE_DEVICE:
        return GPU_ANSWER(cl_device_id, &gpu_device);
    case CL_QUEUE_REFERENCE_COUNT:
        return GPU_ANSWER(cl_uint, (cl_uint)queue->refs);
    case CL_QUEUE_PROPERTIES:
        return GPU_ANSWER(cl_command_queue_properties, queue->properties);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    return queue->context->lost == 2 ? CL_INVALID_COMMAND_QUEUE : CL_SUCCESS;
}

/* ---- events ---------------------------------------------------------------------------------- */

cl_int gpu_finish_command(cl_command_queue queue, cl_command_type type, cl_ulong start, cl_event *out)
{
    if (!out)
        return CL_SUCCESS;
    cl_event event = gpu_object(sizeof *event);
    *out = event;
    if (!event)
        return CL_OUT_OF_HOST_MEMORY;
    event->queue = queue;
    event->type = type;
    for (int i = 0; i < 4; i++)
        event->times[i] = i < 3 ? start : gpu_now();
    retain_queue(queue);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL retain_event(cl_event event)
{
    atomic_fetch_add(&event->refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    if (atomic_fetch_sub(&event->refs, 1) == 1) {
        release_queue(event->queue);
        free(event);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t n, void *out, size_t *n_out)
{
    switch (what) {
    case CL_EVENT_COMMAND_QUEUE:
        return GPU_ANSWER(cl_command_queue, event->queue);
    case CL_EVENT_COMMAND_TYPE:
        return GPU_ANSWER(cl_command_type, event->type);
    case CL_EVENT_CONTEXT:
        return GPU_ANSWER(cl_context, event->queue->context);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        return GPU_ANSWER(cl_int, event->queue->context->lost ? CL_OUT_OF_RESOURCES : CL_COMPLETE);
    case CL_EVENT_REFERENCE_COUNT:
        return GPU_ANSWER(cl_uint, (cl_uint)event->refs);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL event_times(cl_event event, cl_profiling_info what, size_t n, void *out,
                                      size_t *n_out)
{
    if (!(event->queue->properties & CL_QUEUE_PROFILING_ENABLE))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    if (what < CL_PROFILING_COMMAND_QUEUED || what > CL_PROFILING_COMMAND_END)
        return CL_INVALID_VALUE;
    return GPU_ANSWER(cl_ulong, event->times[what - CL_PROFILING_COMMAND_QUEUED]);
}

static cl_int CL_API_CALL wait_events(cl_uint n, const cl_event *events)
{
    cl_int code = n && events ? CL_SUCCESS : CL_INVALID_VALUE;
    for (cl_uint i = 0; events && i < n; i++)
        if (gpu_check(events[i]->queue))
            code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    return code;
}

static cl_int CL_API_CALL marker(cl_command_queue queue, cl_uint n, const cl_event *events, cl_event *event)
{
    (void)n, (void)events;
    const cl_int code = gpu_check(queue);
    return code ? code : gpu_finish_command(queue, CL_COMMAND_MARKER, gpu_now(), event);
}

void gpu_fill_queue(cl_icd_dispatch *to)
{
    to->clCreateContext = create_context;
    to->clRetainContext = retain_context;
    to->clReleaseContext = release_context;
    to->clGetContextInfo = context_info;
    to->clCreateCommandQueue = create_queue;
    to->clCreateCommandQueueWithProperties = create_queue_with;
    to->clRetainCommandQueue = retain_queue;
    to->clReleaseCommandQueue = release_queue;
    to->clGetCommandQueueInfo = queue_info;
    to->clFlush = flush;
    to->clFinish = gpu_check;
    to->clRetainEvent = retain_event;
    to->clReleaseEvent = release_event;
    to->clGetEventInfo = event_info;
    to->clGetEventProfilingInfo = event_times;
    to->clWaitForEvents = wait_events;
    to->clEnqueueMarkerWithWaitList = marker;
    to->clEnqueueBarrierWithWaitList = marker;
}
