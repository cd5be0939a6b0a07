/* A plan's memory on the device: weights, in the host's memory or in as many buffers as the device's limits
 * require; one arena, cut into parts; states, inputs and scratch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/lower/variant.h"
#include "graph/names.h"
#include "runtime/os/os.h"
#include "runtime/plan/plan.h"

cl_mem clef__plan_mem(const clef_plan *plan, const clef_value *v)
{
    return plan->mem[clef__base(v)->id];
}

static uint64_t round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

/* A CPU's kernels read the driver's own memory. With small pages, reading a long row would need a lookup for
 * each page. */
static clef_status prefer_large_pages(const clef_plan *plan, cl_mem mem, uint64_t n_bytes, clef_error *err)
{
    const clef_caps *caps = &plan->dev->info.caps;
    cl_int code;
    if (!caps->is_cpu || !caps->unified_memory)
        return CLEF_OK;
    void *at = clEnqueueMapBuffer(plan->dev->queue, mem, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                  (size_t)n_bytes, 0, NULL, NULL, &code);
    if (!at)
        return clef__cl_fail(err, "clEnqueueMapBuffer", "the plan's memory", code);
    clef__os_prefer_large(at, (size_t)n_bytes);
    code = clEnqueueUnmapMemObject(plan->dev->queue, mem, at, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueUnmapMemObject", "the plan's memory", code) : CLEF_OK;
}

clef_status clef__plan_add_chunk(clef_plan *plan, const char *subject, cl_mem_flags flags, uint64_t n_bytes,
                                 void *host, cl_mem *out, clef_error *err)
{
    if (plan->n_chunks == plan->cap_chunks) {
        const int32_t cap = plan->cap_chunks ? plan->cap_chunks * 2 : 8;
        cl_mem *bigger = realloc(plan->chunks, (size_t)cap * sizeof *bigger);
        if (!bigger)
            return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for %d buffers", cap);
        plan->chunks = bigger;
        plan->cap_chunks = cap;
    }
    const clef_status s = plan->storage->create(plan, subject, flags, n_bytes, host, out, err);
    if (s)
        return s;
    plan->chunks[plan->n_chunks++] = *out;
    return host || !*out ? CLEF_OK : prefer_large_pages(plan, *out, n_bytes, err);
}

clef_status clef__plan_cut(cl_mem of, const char *subject, cl_mem_flags flags, uint64_t offset,
                           uint64_t n_bytes, cl_mem *out, clef_error *err)
{
    cl_int code;
    const cl_buffer_region region = {(size_t)offset, (size_t)n_bytes};
    *out = NULL;
    if (!of)
        return CLEF_OK;
    *out = clCreateSubBuffer(of, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    return *out ? CLEF_OK : clef__cl_fail(err, "clCreateSubBuffer", subject, code);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* clef's kernels load single elements (vload); CLBlast's load whole vectors of f32. */
static int is_aligned(const clef_plan *plan, const clef_value *v, const void *data)
{
    uintptr_t to = clef_dtype_block_elems(v->dtype) > 1 ? 2 : (uintptr_t)clef_dtype_block_bytes(v->dtype);
    if (v->dtype == CLEF_F32 && clef__clblast_may_serve(&plan->dev->info.caps, plan->opts.compile.gemm))
        to = 64;
    return (uintptr_t)data % to == 0;
}

typedef struct upload {
    cl_mem chunk;
    uint64_t used, size; /* of the current chunk */
    uint64_t left;       /* bytes of weights that still have to be copied */
    uint64_t done, total;
} upload;

static clef_status upload_weight(clef_plan *plan, const clef_value *v, const void *data, upload *up,
                                 clef_error *err)
{
    const clef_caps *caps = &plan->dev->info.caps;
    const uint64_t n_bytes = (uint64_t)clef__bytes(v, NULL),
                   room = round_up(n_bytes, (uint64_t)caps->base_align);
    clef_status s = CLEF_OK;
    if (!up->size || up->used + room > up->size) {
        up->size = up->left < caps->max_alloc_bytes ? up->left : caps->max_alloc_bytes;
        if (up->size < n_bytes)
            up->size = n_bytes; /* creating the buffer then fails with the reason */
        up->used = 0;
        s = clef__plan_add_chunk(plan, v->name, CL_MEM_READ_ONLY, up->size, NULL, &up->chunk, err);
        plan->stats.weight_bytes += s ? 0 : up->size;
    }
    if (!s)
        s = clef__plan_cut(up->chunk, v->name, CL_MEM_READ_ONLY, up->used, n_bytes, &plan->mem[v->id], err);
    if (s)
        return s;
    up->used += room;
    up->left -= room;
    s = plan->storage->upload(plan, plan->mem[v->id], v->name, n_bytes, data, err);
    clef__plan_weight_done(plan, v);
    if (plan->opts.release && !caps->unified_memory) /* nothing reads weights in place there */
        plan->opts.release(plan->opts.weights_user, v->part ? v->part->whole : v->name);
    return s;
}

/* On a device that shares the host's memory, the mapped file is the buffer. Small weights are copied: reading
 * one loads the pages around it (64 KiB on Linux) into memory, and a model has hundreds. */
static int can_map(const clef_plan *plan, const clef_value *v, const void *data)
{
    enum { SMALL_BYTES = 64 << 10 };
    return plan->dev->info.caps.unified_memory && clef__bytes(v, NULL) > SMALL_BYTES &&
           is_aligned(plan, v, data);
}

static clef_status map_weight(clef_plan *plan, const clef_value *v, const void *data, clef_error *err)
{
    const uint64_t n_bytes = (uint64_t)clef__bytes(v, NULL);
    const clef_status s = plan->storage->create(plan, v->name, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR,
                                                n_bytes, (void *)(uintptr_t)data, &plan->mem[v->id], err);
    if (s)
        return s;
    /* formats that no file has were made in memory, for this plan */
    *(v->dtype >= CLEF_I4_32 ? &plan->stats.weight_bytes : &plan->stats.mapped_bytes) += n_bytes;
    clef__plan_weight_stays(plan, v);
    return CLEF_OK;
}

static clef_status place_weights(clef_plan *plan, clef_error *err)
{
    const uint64_t align = (uint64_t)plan->dev->info.caps.base_align;
    upload up = {0};
    clef_status s = CLEF_OK;
    const void *data;
    for (int32_t i = 0; i < plan->graph->n_values && !s;
         i++) { /* the total first, so that few buffers hold the copies */
        const clef_value *v = plan->graph->values[i];
        if (!clef__plan_runs_with(plan, v))
            continue;
        data = NULL; /* a weight that is gathered will be aligned */
        if (plan->dev->info.caps.unified_memory && !clef__plan_is_gathered(v))
            s = clef__plan_weight_data(plan, v, &data, err);
        const uint64_t room = round_up((uint64_t)clef__bytes(v, NULL), align);
        up.total += room;
        up.left += !s && !can_map(plan, v, data) ? room : 0;
    }
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++) {
        const clef_value *v = plan->graph->values[i];
        if (!clef__plan_runs_with(plan, v))
            continue;
        s = clef__plan_weight_data(plan, v, &data, err);
        if (s)
            break;
        /* a driver may refuse pages of a file that is mapped read-only */
        const int may_map = can_map(plan, v, data), is_mapped = may_map && !map_weight(plan, v, data, NULL);
        if (may_map && !is_mapped)
            up.left += round_up((uint64_t)clef__bytes(v, NULL), align);
        s = is_mapped ? CLEF_OK : upload_weight(plan, v, data, &up, err);
        up.done += round_up((uint64_t)clef__bytes(v, NULL), align);
        if (!s)
            s = clef__plan_progress(plan, "weights", up.done, up.total, err);
    }
    return s;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* The same state in the plan that this one shares states with; NULL if it has none. */
static const clef_value *same_state(const clef_plan *plan, const clef_value *v)
{
    const clef_plan *other = plan->opts.states_of;
    const clef_value *same =
        other && v->kind == CLEF_STATE ? clef__names_find(other->graph->names, v->name) : NULL;
    return same && same->kind == CLEF_STATE && same->dtype == v->dtype &&
                   clef__shape_equal(&same->shape, &v->shape)
               ? same
               : NULL;
}

/* Its memory. */
static cl_mem shared_state(const clef_plan *plan, const clef_value *v)
{
    const clef_value *same = same_state(plan, v);
    return same ? plan->opts.states_of->mem[same->id] : NULL;
}

clef_status clef__plan_zero_states(clef_plan *plan, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++) {
        const clef_value *v = plan->graph->values[i];
        if (v->kind == CLEF_STATE && !shared_state(plan, v))
            s = plan->storage->zero(plan, plan->mem[i], v->name, (uint64_t)clef__bytes(v, NULL), err);
    }
    return s;
}

/* States and inputs: parts of one buffer on devices that share the host's memory, as a fused step requires
 * (runtime/plan/fused.h). On other devices, or if that buffer would be too large, each has its own buffer. */
typedef struct pool {
    cl_mem chunk; /* NULL: a buffer for each */
    uint64_t used;
    int aligned; /* parts of one buffer begin at multiples of the device's alignment */
} pool;

static int is_pooled(const clef_value *v)
{
    return v->kind == CLEF_STATE || v->kind == CLEF_INPUT;
}

static clef_status make_pool(clef_plan *plan, pool *p, clef_error *err)
{
    const clef_caps *caps = &plan->dev->info.caps;
    uint64_t total = 0;
    for (int32_t i = 0; i < plan->graph->n_values; i++)
        if (is_pooled(plan->graph->values[i]) && !shared_state(plan, plan->graph->values[i]))
            total +=
                round_up((uint64_t)clef__bytes(plan->graph->values[i], NULL), (uint64_t)caps->base_align);
    if (!total || !caps->unified_memory || total > caps->max_alloc_bytes)
        return CLEF_OK;
    p->aligned = 1;
    return clef__plan_add_chunk(plan, "states and inputs", CL_MEM_READ_WRITE, total, NULL, &p->chunk, err);
}

static clef_status place_leaf(clef_plan *plan, const clef_value *v, pool *p, clef_error *err)
{
    const uint64_t n_bytes = (uint64_t)clef__bytes(v, NULL);
    cl_mem *mem = &plan->mem[v->id];
    if (v->kind == CLEF_CONSTANT) {
        plan->stats.weight_bytes += n_bytes;
        return plan->storage->create(plan, v->name, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, n_bytes,
                                     (void *)(uintptr_t)v->data, mem, err);
    }
    *mem = shared_state(plan, v);
    if (*mem) {
        const cl_int code = clRetainMemObject(*mem);
        return code ? clef__cl_fail(err, "clRetainMemObject", v->name, code) : CLEF_OK;
    }
    const uint64_t room = round_up(n_bytes, (uint64_t)plan->dev->info.caps.base_align);
    *(v->kind == CLEF_STATE ? &plan->stats.state_bytes : &plan->stats.io_bytes) +=
        p->aligned ? room : n_bytes;
    clef_status s = p->chunk
                        ? clef__plan_cut(p->chunk, v->name, CL_MEM_READ_WRITE, p->used, n_bytes, mem, err)
                        : plan->storage->create(plan, v->name, CL_MEM_READ_WRITE, n_bytes, NULL, mem, err);
    p->used += room;
    return s || v->kind == CLEF_STATE ? s : plan->storage->zero(plan, *mem, v->name, n_bytes, err);
}

static uint64_t arena_chunk(const clef_plan *plan)
{
    const clef_caps *caps = &plan->dev->info.caps;
    return caps->max_alloc_bytes / (uint64_t)caps->base_align * (uint64_t)caps->base_align;
}

static clef_status place_arena(clef_plan *plan, clef_error *err)
{
    const uint64_t chunk = arena_chunk(plan);
    const int32_t first = plan->n_chunks;
    clef_status s = CLEF_OK;
    cl_mem mem;
    plan->stats.arena_bytes = plan->memory.arena_bytes;
    plan->stats.unshared_bytes = plan->memory.sum_bytes;
    for (uint64_t at = 0; at < plan->memory.arena_bytes && !s; at += chunk) {
        const uint64_t left = plan->memory.arena_bytes - at;
        s = clef__plan_add_chunk(plan, "arena", CL_MEM_READ_WRITE, left < chunk ? left : chunk, NULL, &mem,
                                 err);
    }
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++) {
        const clef_place *p = &plan->memory.places[i];
        if (p->bytes)
            s = clef__plan_cut(plan->chunks[first + (int32_t)(p->offset / chunk)],
                               plan->graph->values[i]->name, CL_MEM_READ_WRITE, p->offset % chunk, p->bytes,
                               &plan->mem[i], err);
    }
    return s;
}

/* ---- checking, before anything is loaded, that it fits ------------------------------------------ */

/* How many positions of a KV cache [B, H, C, D] fit into n_bytes. */
static uint64_t positions_in(const clef_value *state, uint64_t n_bytes)
{
    const uint64_t all = (uint64_t)clef__bytes(state, NULL);
    const uint64_t positions =
        state->shape.rank == 4 ? (uint64_t)clef__dim_at(state->graph, state->shape.dim[2], NULL) : 1;
    return positions ? n_bytes / (all / positions ? all / positions : 1) : 0;
}

static clef_status check_buffer(const clef_plan *plan, const clef_value *v, clef_error *err)
{
    const uint64_t most = plan->dev->info.caps.max_alloc_bytes, n_bytes = (uint64_t)clef__bytes(v, NULL);
    const char *device = plan->dev->info.name;
    if (n_bytes <= most ||
        (v->kind == CLEF_COMPUTED && !plan->at_load[v->id])) /* the arena's plan reports the other values */
        return CLEF_OK;
    if (v->kind == CLEF_STATE && positions_in(v, most) > 0)
        return clef__fail(err, CLEF_E_LIMIT,
                          "%s: %" PRIu64 " bytes, a buffer of %s holds at most %" PRIu64
                          ": a context of at most %" PRIu64
                          " positions fits (clef run -c), or a type of fewer bytes (--kv-type f16, q8_0)",
                          v->name, n_bytes, device, most, positions_in(v, most));
    return clef__fail(err, CLEF_E_LIMIT, "%s: %" PRIu64 " bytes, a buffer of %s holds at most %" PRIu64 "%s",
                      v->name, n_bytes, device, most,
                      v->kind == CLEF_WEIGHT || v->kind == CLEF_COMPUTED ? ", and it cannot be cut into parts"
                                                                         : "");
}

/* What the plan has taken that this one shares states with. */
static uint64_t bytes_beside(const clef_plan *plan)
{
    const clef_plan *other = plan->opts.states_of;
    return other ? other->stats.weight_bytes + other->stats.state_bytes + other->stats.arena_bytes +
                       other->stats.io_bytes + other->stats.scratch_bytes
                 : 0;
}

/* Weights that are used in the host's memory are not counted. */
static clef_status check_total(const clef_plan *plan, clef_error *err)
{
    const clef_caps *caps = &plan->dev->info.caps;
    uint64_t weights = 0, states = 0, positions = 0, rest = plan->memory.arena_bytes;
    for (int32_t i = 0; i < plan->graph->n_values; i++) {
        const clef_value *v = plan->graph->values[i];
        const uint64_t n_bytes = (uint64_t)clef__bytes(v, NULL);
        if (plan->at_load[i] || (!caps->unified_memory && clef__plan_runs_with(plan, v)))
            weights += n_bytes;
        else if (v->kind == CLEF_STATE)
            states += same_state(plan, v) ? 0 : n_bytes;
        else if (v->kind == CLEF_INPUT || v->kind == CLEF_CONSTANT)
            rest += n_bytes;
        if (v->kind == CLEF_STATE && v->shape.rank == 4 && !same_state(plan, v) &&
            positions_in(v, n_bytes) > positions)
            positions = positions_in(v, n_bytes);
    }
    const uint64_t beside = bytes_beside(plan), all = weights + states + rest + beside;
    if (all <= caps->global_bytes || !caps->global_bytes)
        return CLEF_OK;
    char fits[128] = "", other[64] = "";
    if (beside)
        snprintf(other, sizeof other, ", another plan %.1f", (double)beside / 1048576);
    if (all - states < caps->global_bytes && positions)
        snprintf(
            fits, sizeof fits,
            ": a context of about %" PRIu64
            " positions fits (clef run -c), or a type of fewer bytes (--kv-type)",
            (uint64_t)((double)positions * (double)(caps->global_bytes - (all - states)) / (double)states));
    return clef__fail(
        err, CLEF_E_LIMIT,
        "%.1f MiB of device memory are needed (weights %.1f, %s %.1f, working memory %.1f%s), %s has "
        "%.1f%s%s",
        (double)all / 1048576, (double)weights / 1048576, positions ? "KV cache" : "states",
        (double)states / 1048576, (double)rest / 1048576, other, plan->dev->info.name,
        (double)caps->global_bytes / 1048576, fits,
        positions ? "; further devices can take some of the layers (-d A,B)" : "");
}

static clef_status check_room(clef_plan *plan, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++) {
        const clef_value *v = plan->graph->values[i];
        if (v->kind != CLEF_WEIGHT || clef__plan_runs_with(plan, v))
            s = check_buffer(plan, v, err);
    }
    if (!s)
        s = clef__memory_plan(plan->graph, plan->at_load, (uint64_t)plan->dev->info.caps.base_align,
                              arena_chunk(plan), &plan->memory, err);
    return s ? s : check_total(plan, err);
}

clef_status clef__plan_allocate(clef_plan *plan, clef_error *err)
{
    pool states = {0};
    plan->mem = calloc((size_t)plan->graph->n_values + 1, sizeof *plan->mem);
    plan->gathered = calloc((size_t)plan->graph->n_values + 1, sizeof *plan->gathered);
    if (!plan->mem || !plan->gathered)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for %d buffers", plan->graph->n_values);
    clef_status s = clef__plan_find_load_nodes(plan, err);
    if (!s)
        s = check_room(plan, err);
    if (!s)
        s = place_weights(plan, err);
    if (!s)
        s = make_pool(plan, &states, err);
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++) {
        const clef_value *v = plan->graph->values[i];
        if (v->kind != CLEF_WEIGHT && v->kind != CLEF_COMPUTED)
            s = place_leaf(plan, v, &states, err);
    }
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++)
        plan->stats.packed_bytes +=
            plan->at_load[i] ? (uint64_t)clef__bytes(plan->graph->values[i], NULL) : 0;
    if (!s)
        s = plan->storage->run_load_nodes(plan, err);
    if (!s)
        s = clef__stage_finish(plan->dev, &plan->stage, err);
    if (!s)
        s = place_arena(plan, err);
    return s ? s : clef__plan_zero_states(plan, err);
}

clef_status clef__plan_grow_scratch(clef_plan *plan, uint64_t n_bytes, clef_error *err)
{
    const uint64_t most = plan->dev->info.caps.max_alloc_bytes;
    if (n_bytes <= plan->stats.scratch_bytes)
        return CLEF_OK;
    if (n_bytes > most)
        return clef__fail(err, CLEF_E_LIMIT,
                          "scratch: %" PRIu64 " bytes, a buffer of %s holds at most %" PRIu64
                          ": fewer rows at a time (clef run -b) make it smaller",
                          n_bytes, plan->dev->info.name, most);
    if (plan->scratch)
        clReleaseMemObject(plan->scratch);
    plan->scratch = NULL;
    plan->stats.scratch_bytes = 0;
    const clef_status s =
        plan->storage->create(plan, "scratch", CL_MEM_READ_WRITE, n_bytes, NULL, &plan->scratch, err);
    if (!s)
        plan->stats.scratch_bytes = n_bytes;
    return s;
}

void clef__plan_release_memory(clef_plan *plan)
{
    for (int32_t i = 0; plan->mem && i < plan->graph->n_values; i++)
        if (plan->mem[i])
            clReleaseMemObject(plan->mem[i]);
    for (int32_t i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i])
            clReleaseMemObject(plan->chunks[i]);
    if (plan->scratch)
        clReleaseMemObject(plan->scratch);
    clef__stage_finish(plan->dev, &plan->stage, NULL);
    clef__os_free_large(plan->packed, plan->packed_bytes);
    clef__plan_free_gathered(plan);
    free(plan->at_load);
    free(plan->mem);
    free(plan->chunks);
    clef__memory_finish(&plan->memory);
}
