/* Commands that move bytes. */
#include "lab/gpu/device/objects.h"

#include <string.h>

#define WAITS cl_uint n_waits, const cl_event *waits, cl_event *event

static int is_inside(const struct _cl_mem *mem, size_t at, size_t n)
{
    return at <= mem->n && n <= mem->n - at;
}

static cl_int move(cl_command_queue queue, cl_command_type type, void *to, const void *from, size_t n,
                   cl_event *event)
{
    const cl_ulong start = gpu_now();
    memmove(to, from, n);
    return gpu_finish_command(queue, type, start, event);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t at,
                                      size_t n, void *to, WAITS)
{
    (void)blocking, (void)n_waits, (void)waits;
    const cl_int code = gpu_check(queue);
    if (code)
        return code;
    return to && n && is_inside(mem, at, n)
               ? move(queue, CL_COMMAND_READ_BUFFER, to, mem->memory + at, n, event)
               : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t at,
                                       size_t n, const void *from, WAITS)
{
    (void)blocking, (void)n_waits, (void)waits;
    const cl_int code = gpu_check(queue);
    if (code)
        return code;
    return from && n && is_inside(mem, at, n)
               ? move(queue, CL_COMMAND_WRITE_BUFFER, mem->memory + at, from, n, event)
               : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at,
                                      size_t to_at, size_t n, WAITS)
{
    (void)n_waits, (void)waits;
    const cl_int code = gpu_check(queue);
    if (code)
        return code;
    if (!n || !is_inside(from, from_at, n) || !is_inside(to, to_at, n))
        return CL_INVALID_VALUE;
    if (from->memory + from_at < to->memory + to_at + n && to->memory + to_at < from->memory + from_at + n)
        return CL_MEM_COPY_OVERLAP;
    return move(queue, CL_COMMAND_COPY_BUFFER, to->memory + to_at, from->memory + from_at, n, event);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                                      size_t n_pattern, size_t at, size_t n, WAITS)
{
    (void)n_waits, (void)waits;
    const cl_ulong start = gpu_now();
    const cl_int code = gpu_check(queue);
    if (code)
        return code;
    if (!pattern || !n_pattern || at % n_pattern || n % n_pattern || !is_inside(mem, at, n))
        return CL_INVALID_VALUE;
    for (size_t i = 0; i < n; i += n_pattern)
        memcpy(mem->memory + at + i, pattern, n_pattern);
    return gpu_finish_command(queue, CL_COMMAND_FILL_BUFFER, start, event);
}

/* ---- rectangles ------------------------------------------------------------------------------ */

typedef struct rect {
    const size_t *origin, *region;
    size_t row, slice;
} rect;

static size_t at_of(const rect *r, size_t y, size_t z)
{
    return (r->origin[2] + z) * r->slice + (r->origin[1] + y) * r->row + r->origin[0];
}

static void complete(rect *r)
{
    r->row = r->row ? r->row : r->region[0];
    r->slice = r->slice ? r->slice : r->region[1] * r->row;
}

static cl_int move_rect(cl_mem mem, rect in, unsigned char *host, rect out, int to_host)
{
    complete(&in);
    complete(&out);
    if (!host || !in.region[0] || !in.region[1] || !in.region[2] ||
        !is_inside(mem, at_of(&in, in.region[1] - 1, in.region[2] - 1), in.region[0]))
        return CL_INVALID_VALUE;
    for (size_t z = 0; z < in.region[2]; z++)
        for (size_t y = 0; y < in.region[1]; y++) {
            unsigned char *a = mem->memory + at_of(&in, y, z), *b = host + at_of(&out, y, z);
            memcpy(to_host ? b : a, to_host ? a : b, in.region[0]);
        }
    return CL_SUCCESS;
}

#define RECT                                                                                                 \
    const size_t *at, const size_t *host_at, const size_t *region, size_t row, size_t slice,                 \
        size_t host_row, size_t host_slice

static cl_int CL_API_CALL read_rect(cl_command_queue queue, cl_mem mem, cl_bool blocking, RECT, void *to,
                                    WAITS)
{
    (void)blocking, (void)n_waits, (void)waits;
    const cl_ulong start = gpu_now();
    cl_int code = gpu_check(queue);
    if (!code)
        code = move_rect(mem, (rect){at, region, row, slice}, to,
                         (rect){host_at, region, host_row, host_slice}, 1);
    return code ? code : gpu_finish_command(queue, CL_COMMAND_READ_BUFFER_RECT, start, event);
}

static cl_int CL_API_CALL write_rect(cl_command_queue queue, cl_mem mem, cl_bool blocking, RECT,
                                     const void *from, WAITS)
{
    (void)blocking, (void)n_waits, (void)waits;
    const cl_ulong start = gpu_now();
    unsigned char *host;
    memcpy(&host, &from, sizeof host); /* read alone */
    cl_int code = gpu_check(queue);
    if (!code)
        code = move_rect(mem, (rect){at, region, row, slice}, host,
                         (rect){host_at, region, host_row, host_slice}, 0);
    return code ? code : gpu_finish_command(queue, CL_COMMAND_WRITE_BUFFER_RECT, start, event);
}

/* ---- maps ------------------------------------------------------------------------------------ */

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, cl_map_flags flags,
                                    size_t at, size_t n, cl_uint n_waits, const cl_event *waits,
                                    cl_event *event, cl_int *out)
{
    (void)blocking, (void)flags, (void)n_waits, (void)waits;
    cl_int code = gpu_check(queue);
    if (!code && (!n || !is_inside(mem, at, n)))
        code = CL_INVALID_VALUE;
    if (!code)
        code = gpu_finish_command(queue, CL_COMMAND_MAP_BUFFER, gpu_now(), event);
    if (!code)
        atomic_fetch_add(&mem->maps, 1);
    if (out)
        *out = code;
    return code ? NULL : mem->memory + at;
}

static cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem mem, void *mapped, WAITS)
{
    (void)n_waits, (void)waits;
    const unsigned char *at = mapped;
    const cl_int code = gpu_check(queue);
    if (code)
        return code;
    if (at < mem->memory || at >= mem->memory + mem->n || atomic_fetch_sub(&mem->maps, 1) < 1)
        return CL_INVALID_VALUE;
    return gpu_finish_command(queue, CL_COMMAND_UNMAP_MEM_OBJECT, gpu_now(), event);
}

void gpu_fill_transfer(cl_icd_dispatch *to)
{
    to->clEnqueueReadBuffer = read_buffer;
    to->clEnqueueWriteBuffer = write_buffer;
    to->clEnqueueCopyBuffer = copy_buffer;
    to->clEnqueueFillBuffer = fill_buffer;
    to->clEnqueueReadBufferRect = read_rect;
    to->clEnqueueWriteBufferRect = write_rect;
    to->clEnqueueMapBuffer = map_buffer;
    to->clEnqueueUnmapMemObject = unmap;
}
