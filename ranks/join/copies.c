#include "ranks/join/copies.h"

#include <stdlib.h>

#include "runtime/device/cache_folder.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct copies {
    cl_mem mem; /* NULL: malloc() has it */
    char *at;
    size_t n_bytes;
} copies;

static void clear(clef_device *dev, copies *c)
{
    if (c->mem) {
        clEnqueueUnmapMemObject(dev->queue, c->mem, c->at, 0, NULL, NULL);
        clReleaseMemObject(c->mem);
    } else {
        free(c->at);
    }
    *c = (copies){0};
}

static void release(clef_device *dev, void *data)
{
    clear(dev, data);
    free(data);
}

static const clef__attachment slot = {.release = release, .with_context = 1};

static void allocate(clef_device *dev, copies *c, size_t n_bytes)
{
    cl_int code;
    c->mem = clCreateBuffer(dev->context, CL_MEM_ALLOC_HOST_PTR | CL_MEM_READ_WRITE, n_bytes, NULL, &code);
    c->at = c->mem ? clEnqueueMapBuffer(dev->queue, c->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, n_bytes,
                                        0, NULL, NULL, &code)
                   : NULL;
    if (!c->at) {
        if (c->mem)
            clReleaseMemObject(c->mem);
        c->mem = NULL;
        c->at = malloc(n_bytes);
    }
    c->n_bytes = c->at ? n_bytes : 0;
}

char *clef__ranks_copies(clef_device *dev, size_t n_bytes)
{
    copies *c = clef__device_attached(dev, &slot);
    if (!c) {
        c = calloc(1, sizeof *c);
        if (!c)
            return NULL;
        clef__device_attach(dev, &slot, c);
    }
    if (n_bytes > c->n_bytes) {
        if (c->at && clFinish(dev->queue))
            return NULL;
        clear(dev, c);
        allocate(dev, c, n_bytes);
    }
    return c->at;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* A piece is worth its own exchange if it takes long beside the 20 to 200 us that an exchange takes at least:
 * 1 MiB is 0.8 ms at 10 Gbit/s. */
static const size_t usual_piece = (size_t)1 << 20;
enum { GRAIN = 32 * sizeof(float) };

clef_status clef__ranks_choose_piece(clef_ranks *r, const clef_device *dev, clef_error *err)
{
    const clef__transport_calls *calls = r->transport->calls;
    float n_own = dev->info.caps.unified_memory ? 0 : 1;
    uint64_t size = usual_piece;
    r->piece_bytes = 0;
    if (r->apart || r->layout.width < 2)
        return CLEF_OK;
    const int is_first = r->rank % r->layout.width == 0;
    const clef_status read =
        is_first ? clef__parse_size("CLEF_DEBUG: rank_piece", clef__debug("rank_piece"), &size, err)
                 : CLEF_OK;
    clef_status s = calls->all_reduce(r->stage, &n_own, 1, CLEF__WIRE_F32, err);
    if (!s)
        s = calls->broadcast(r->stage, 0, &size, sizeof size, err);
    if (!s && n_own > 0)
        r->piece_bytes = (size_t)size;
    return s ? s : read;
}

size_t clef__ranks_piece(const clef_ranks *r, size_t n_bytes)
{
    if (!r->piece_bytes || r->piece_bytes >= n_bytes)
        return n_bytes;
    const size_t least = (n_bytes / CLEF__MOST_PIECES / GRAIN + 1) * GRAIN;
    const size_t piece = (r->piece_bytes + GRAIN - 1) / GRAIN * GRAIN;
    return piece > least ? piece : least;
}
