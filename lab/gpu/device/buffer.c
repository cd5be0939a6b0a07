/* Buffers. All are in a list, by which a kernel's argument is known to be one. New memory is zero. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "lab/gpu/device/objects.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cl_mem all;
static cl_ulong in_use; /* bytes */

int gpu_is_buffer(const void *handle)
{
    pthread_mutex_lock(&lock);
    cl_mem mem = all;
    while (mem && mem != handle)
        mem = mem->next;
    pthread_mutex_unlock(&lock);
    return mem != NULL;
}

/* Adds to the list, if the card has room. */
static int list_buffer(cl_mem mem, cl_ulong bytes)
{
    pthread_mutex_lock(&lock);
    const int has_room = in_use + bytes <= gpu_device.card->bytes;
    if (has_room) {
        in_use += bytes;
        mem->next = all;
        all = mem;
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

static void unlist_buffer(cl_mem mem, cl_ulong bytes)
{
    pthread_mutex_lock(&lock);
    cl_mem *at = &all;
    while (*at && *at != mem)
        at = &(*at)->next;
    if (*at)
        *at = mem->next;
    in_use -= bytes;
    pthread_mutex_unlock(&lock);
}

/* Pages of their own, so what is not touched costs nothing. */
static unsigned char *take_memory(size_t n)
{
    void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void gpu_buffers_retain(cl_mem mem)
{
    atomic_fetch_add(&mem->refs, 1);
}

void gpu_buffers_release(cl_mem mem)
{
    if (atomic_fetch_sub(&mem->refs, 1) > 1)
        return;
    unlist_buffer(mem, mem->parent ? 0 : mem->n);
    if (mem->parent)
        gpu_buffers_release(mem->parent);
    else if (mem->is_own)
        munmap(mem->memory, mem->n);
    free(mem);
}

static cl_int check_buffer(cl_mem_flags flags, size_t n, const void *host_ptr)
{
    const int wants_host = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
    if (!n || n > gpu_device.card->bytes / 4)
        return CL_INVALID_BUFFER_SIZE;
    return wants_host != (host_ptr != NULL) ? CL_INVALID_HOST_PTR : CL_SUCCESS;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t n, void *host_ptr,
                                        cl_int *out)
{
    cl_int code = check_buffer(flags, n, host_ptr);
    cl_mem mem = code ? NULL : gpu_object(sizeof *mem);
    if (mem) {
        mem->context = context;
        mem->flags = flags & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY)
                         ? flags
                         : flags | CL_MEM_READ_WRITE;
        mem->n = n;
        mem->is_own = !(flags & CL_MEM_USE_HOST_PTR);
        mem->host_ptr = flags & CL_MEM_USE_HOST_PTR ? host_ptr : NULL;
        mem->memory = mem->is_own ? take_memory(n) : host_ptr;
        if (!mem->memory || !list_buffer(mem, n)) {
            if (mem->is_own && mem->memory)
                munmap(mem->memory, n);
            free(mem);
            mem = NULL;
        }
    }
    if (mem && flags & CL_MEM_COPY_HOST_PTR)
        memcpy(mem->memory, host_ptr, n);
    if (!mem && !code)
        code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (out)
        *out = code;
    return mem;
}

static cl_mem CL_API_CALL create_sub_buffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type,
                                            const void *info, cl_int *out)
{
    enum { ALIGN = 4096 / 8 };
    const cl_buffer_region *region = info;
    cl_int code = CL_SUCCESS;
    cl_mem mem = NULL;
    if (parent->parent)
        code = CL_INVALID_MEM_OBJECT;
    else if (type != CL_BUFFER_CREATE_TYPE_REGION || !region || region->origin > parent->n ||
             region->size > parent->n - region->origin)
        code = CL_INVALID_VALUE;
    else if (!region->size)
        code = CL_INVALID_BUFFER_SIZE;
    else if (region->origin % ALIGN)
        code = CL_MISALIGNED_SUB_BUFFER_OFFSET;
    else if (!(mem = gpu_object(sizeof *mem)))
        code = CL_OUT_OF_HOST_MEMORY;
    if (mem) {
        mem->context = parent->context;
        mem->flags = flags ? flags : parent->flags;
        mem->parent = parent;
        mem->memory = parent->memory + region->origin;
        mem->origin = region->origin;
        mem->n = region->size;
        gpu_buffers_retain(parent);
        list_buffer(mem, 0);
    }
    if (out)
        *out = code;
    return mem;
}

static cl_int CL_API_CALL retain_mem(cl_mem mem)
{
    if (!gpu_is_buffer(mem))
        return CL_INVALID_MEM_OBJECT;
    gpu_buffers_retain(mem);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_mem(cl_mem mem)
{
    if (!gpu_is_buffer(mem))
        return CL_INVALID_MEM_OBJECT;
    gpu_buffers_release(mem);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL mem_info(cl_mem mem, cl_mem_info what, size_t n, void *out, size_t *n_out)
{
    switch (what) {
    case CL_MEM_TYPE:
        return GPU_ANSWER(cl_mem_object_type, CL_MEM_OBJECT_BUFFER);
    case CL_MEM_FLAGS:
        return GPU_ANSWER(cl_mem_flags, mem->flags);
    case CL_MEM_SIZE:
        return GPU_ANSWER(size_t, mem->n);
    case CL_MEM_HOST_PTR:
        return GPU_ANSWER(void *, mem->host_ptr);
    case CL_MEM_MAP_COUNT:
        return GPU_ANSWER(cl_uint, (cl_uint)mem->maps);
    case CL_MEM_REFERENCE_COUNT:
        return GPU_ANSWER(cl_uint, (cl_uint)mem->refs);
    case CL_MEM_CONTEXT:
        return GPU_ANSWER(cl_context, mem->context);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return GPU_ANSWER(cl_mem, mem->parent);
    case CL_MEM_OFFSET:
        return GPU_ANSWER(size_t, mem->origin);
    default:
        return CL_INVALID_VALUE;
    }
}

/* A card has memory of its own, for which clef asks for no callback. */
static cl_int CL_API_CALL set_destructor(cl_mem mem, void(CL_CALLBACK *then)(cl_mem, void *), void *data)
{
    (void)mem, (void)then, (void)data;
    return CL_INVALID_OPERATION;
}

void gpu_fill_buffer(cl_icd_dispatch *to)
{
    to->clCreateBuffer = create_buffer;
    to->clCreateSubBuffer = create_sub_buffer;
    to->clRetainMemObject = retain_mem;
    to->clReleaseMemObject = release_mem;
    to->clGetMemObjectInfo = mem_info;
    to->clSetMemObjectDestructorCallback = set_destructor;
}
