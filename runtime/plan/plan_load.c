/* Nodes that depend on weights alone (packing) run once, when the plan is made. Only one source weight is in
 * memory at a time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/lower/panel/panel.h"
#include "runtime/device/broken.h"
#include "runtime/os/os.h"
#include "runtime/plan/plan.h"

enum { MAX_LOAD_LAUNCHES = 4 * PACK_MAX_PIECES, PACKED_ALIGN = 128 };

/* Its inputs are weights, or results of such nodes. */
static int is_load_node(const clef_plan *plan, const clef_value *n)
{
    int32_t i = 0;
    while (n->op != CLEF_OP_NONE && clef__ops[n->op]->at_load && i < n->n_in &&
           (n->in[i]->kind == CLEF_WEIGHT || plan->at_load[n->in[i]->id]))
        i++;
    return i > 0 && i == n->n_in;
}

clef_status clef__plan_find_load_nodes(clef_plan *plan, clef_error *err)
{
    const clef_graph *g = plan->graph;
    plan->at_load = calloc((size_t)g->n_values + 1, 1);
    if (!plan->at_load)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for %d values", g->n_values);
    for (int32_t i = 0; i < g->n_values; i++)
        plan->at_load[i] = is_load_node(plan, g->values[i]) ? 1 : 0;
    return CLEF_OK;
}

int clef__plan_runs_with(const clef_plan *plan, const clef_value *v)
{
    const clef_graph *g = plan->graph;
    if (v->kind != CLEF_WEIGHT)
        return 0;
    for (int32_t i = v->id + 1; i < g->n_values; i++)
        for (int32_t k = 0; k < g->values[i]->n_in; k++)
            if (g->values[i]->in[k] == v && !plan->at_load[i])
                return 1;
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == v)
            return 1;
    return 0;
}

static uint64_t packed_room(const clef_value *v)
{
    return ((uint64_t)clef__bytes(v, NULL) + PACKED_ALIGN - 1) / PACKED_ALIGN * PACKED_ALIGN;
}

/* Where a launch reads the part of a weight that it packs. */
typedef struct load_source {
    cl_mem mem;
    uint64_t size;
} load_source;

static uint64_t part_bytes(const clef_launch *l, const clef_value *w)
{
    return l->part_bytes ? l->part_bytes : (uint64_t)clef__bytes(w, NULL);
}

/* The host's memory as a buffer, or a copy if it is not aligned or the driver refuses it. The buffer serves
 * one launch. */
static clef_status use_in_place(const clef_plan *plan, const clef_launch *l, const clef_value *w,
                                load_source *from, clef_error *err)
{
    const uintptr_t of_blocks = plan->dev->info.caps.is_cpu ? 2 : 4, /* pack_gpu.cl reads words */
        align =
            clef_dtype_block_elems(w->dtype) > 1 ? of_blocks : (uintptr_t)clef_dtype_block_bytes(w->dtype);
    const void *data;
    cl_int code;
    const clef_status s = clef__plan_weight_data(plan, w, &data, err);
    if (s)
        return s;
    const size_t n_bytes = (size_t)part_bytes(l, w);
    char *host = (char *)(uintptr_t)data + l->part_at;
    if ((uintptr_t)data % align == 0)
        from->mem =
            clCreateBuffer(plan->dev->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, n_bytes, host, &code);
    if (!from->mem)
        from->mem =
            clCreateBuffer(plan->dev->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, n_bytes, host, &code);
    return from->mem ? CLEF_OK : clef__cl_fail(err, "clCreateBuffer", w->name, code);
}

/* On a device with memory of its own one buffer serves all launches. It grows to the largest part. */
static clef_status make_room(const clef_plan *plan, const clef_value *w, uint64_t n_bytes, load_source *from,
                             clef_error *err)
{
    cl_int code;
    if (n_bytes <= from->size)
        return CLEF_OK;
    if (from->mem)
        clReleaseMemObject(from->mem);
    from->size = from->size ? from->size : 1 << 20;
    while (from->size < n_bytes)
        from->size *= 2;
    if (from->size > plan->dev->info.caps.max_alloc_bytes)
        from->size = n_bytes;
    from->mem = clCreateBuffer(plan->dev->context, CL_MEM_READ_WRITE, (size_t)from->size, NULL, &code);
    return from->mem ? CLEF_OK : clef__cl_fail(err, "clCreateBuffer", w->name, code);
}

/* A weight that runs read is there already; any other crosses once, part by part. */
static clef_status bring(clef_plan *plan, const clef_launch *l, const clef_value *w, load_source *from,
                         clef_error *err)
{
    const uint64_t n_bytes = part_bytes(l, w);
    const void *data;
    clef_status s = make_room(plan, w, n_bytes, from, err);
    if (s)
        return s;
    if (plan->mem[w->id]) {
        const cl_int code = clEnqueueCopyBuffer(plan->dev->queue, plan->mem[w->id], from->mem,
                                                (size_t)l->part_at, 0, (size_t)n_bytes, 0, NULL, NULL);
        return code ? clef__cl_fail(err, "clEnqueueCopyBuffer", w->name, code) : CLEF_OK;
    }
    s = clef__plan_weight_data(plan, w, &data, err);
    return s ? s
             : clef__stage_write(plan->dev, &plan->stage, from->mem, 0, (const char *)data + l->part_at,
                                 n_bytes, w->name, err);
}

/* A part of `whole`, where one buffer holds all results. */
static clef_status result_buffer(clef_plan *plan, const clef_value *n, cl_mem whole, uint64_t at,
                                 clef_error *err)
{
    cl_int code;
    const size_t n_bytes = (size_t)clef__bytes(n, NULL);
    char *host = plan->packed ? (char *)plan->packed + at : NULL;
    if (whole) {
        plan->stats.weight_bytes += n_bytes;
        return clef__plan_cut(whole, n->name, CL_MEM_READ_WRITE, at, n_bytes, &plan->mem[n->id], err);
    }
    plan->mem[n->id] = clCreateBuffer(
        plan->dev->context, CL_MEM_READ_WRITE | (host ? CL_MEM_USE_HOST_PTR : 0), n_bytes, host, &code);
    plan->stats.weight_bytes += n_bytes;
    return plan->mem[n->id] ? CLEF_OK : clef__cl_fail(err, "clCreateBuffer", n->name, code);
}

static clef_status enqueue(clef_plan *plan, const clef_launch *l, cl_mem source, clef_error *err)
{
    cl_kernel kernel;
    clef_status s = clef__kernel_create(plan->dev, l, &kernel, err);
    if (s)
        return s;
    cl_int code = clSetKernelArg(kernel, 0, l->args_bytes, l->args);
    for (uint32_t i = 0; i < l->n_bufs && !code; i++) {
        const clef_value *v = l->bufs[i];
        const cl_mem mem =
            v && v->kind == CLEF_WEIGHT ? source : plan->mem[v ? v->id : l->node->id]; /* as in plan_bind.c */
        code = clSetKernelArg(kernel, i + 1, sizeof mem, &mem);
    }
    const size_t local[3] = {l->local[0], l->local[1], l->local[2]},
                 global[3] = {local[0] * l->groups[0], local[1] * l->groups[1], local[2] * l->groups[2]};
    if (!code && !clef__broken(l)) /* for tests: as if the kernel wrote nothing */
        code = clEnqueueNDRangeKernel(plan->dev->queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    clReleaseKernel(kernel);
    return code ? clef__cl_fail(err, "clEnqueueNDRangeKernel", l->node->name, code) : CLEF_OK;
}

/* The weight that a launch reads; NULL: none. */
static const clef_value *weight_of(const clef_launch *l)
{
    const clef_value *w = NULL;
    for (uint32_t i = 0; i < l->n_bufs; i++)
        w = l->bufs[i] && l->bufs[i]->kind == CLEF_WEIGHT ? l->bufs[i] : w;
    return w;
}

static const char *source_name(const clef_value *w)
{
    return w->part ? w->part->whole : w->name;
}

/* Runs read the weight, or another part of it, in the host's memory. */
static int is_in_place(const clef_plan *plan, const clef_value *w)
{
    const clef_graph *g = plan->graph;
    int32_t i = 0;
    while (i < g->n_values &&
           !(g->values[i]->kind == CLEF_WEIGHT && strcmp(source_name(g->values[i]), source_name(w)) == 0 &&
             clef__plan_runs_with(plan, g->values[i])))
        i++;
    return i < g->n_values;
}

/* What was read is not needed in the host's memory, unless runs read it there; what was not is read from the
 * file again. */
static void forget(const clef_plan *plan, const clef_value *w)
{
    clef__plan_weight_done(plan, w);
    if (plan->opts.release && !is_in_place(plan, w))
        plan->opts.release(plan->opts.weights_user, source_name(w));
}

/* On a device that shares the host's memory. */
static clef_status launch_in_place(clef_plan *plan, const clef_launch *l, clef_error *err)
{
    const clef_value *w = weight_of(l);
    load_source from = {0};
    clef_status s = w ? use_in_place(plan, l, w, &from, err) : CLEF_OK;
    if (!s)
        s = enqueue(plan, l, from.mem, err);
    const cl_int code = clFinish(plan->dev->queue); /* the source goes now */
    if (!s && code)
        s = clef__cl_fail(err, "clFinish", l->node->name, code);
    if (from.mem)
        clReleaseMemObject(from.mem);
    if (w)
        forget(plan, w);
    return s;
}

/* On a device with memory of its own. */
static clef_status launch_apart(clef_plan *plan, const clef_launch *l, int is_last_of_weight,
                                load_source *from, clef_error *err)
{
    const clef_value *w = weight_of(l);
    clef_status s = w ? bring(plan, l, w, from, err) : CLEF_OK;
    if (!s)
        s = enqueue(plan, l, from->mem, err);
    if (w && is_last_of_weight)
        forget(plan, w);
    return s;
}

static clef_status run_node(clef_plan *plan, const clef_value *n, load_source *from, clef_error *err)
{
    clef_launch launches[MAX_LOAD_LAUNCHES];
    unsigned char args[MAX_LOAD_LAUNCHES * CLEF_MAX_ARGS_BYTES];
    clef_lowering lo = clef__plan_lowering(plan);
    lo.node = n;
    lo.launches = launches;
    lo.cap = MAX_LOAD_LAUNCHES;
    lo.args = args;
    clef_status s = clef__ops[n->op]->lower(&lo, n, err);
    for (int32_t i = 0; i < lo.n && !s; i++)
        s = plan->dev->info.caps.unified_memory
                ? launch_in_place(plan, &launches[i], err)
                : launch_apart(plan, &launches[i],
                               i + 1 == lo.n || weight_of(&launches[i + 1]) != weight_of(&launches[i]), from,
                               err);
    return s;
}

/* Starts reading the weights of the next load node from `id` on. */
static void read_ahead(const clef_plan *plan, int32_t id)
{
    const clef_graph *g = plan->graph;
    while (id < g->n_values && !plan->at_load[id])
        id++;
    for (int32_t k = 0; id < g->n_values && k < g->values[id]->n_in; k++)
        if (g->values[id]->in[k]->kind == CLEF_WEIGHT)
            clef__plan_weight_ahead(plan, g->values[id]->in[k]);
}

clef_status clef__plan_run_load_nodes(clef_plan *plan, clef_error *err)
{
    const clef_graph *g = plan->graph;
    const clef_caps *caps = &plan->dev->info.caps;
    uint64_t total = 0, at = 0;
    cl_mem whole = NULL;
    load_source from = {0};
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < g->n_values; i++)
        total += plan->at_load[i] ? packed_room(g->values[i]) : 0;
    if (total && plan->dev->info.caps.unified_memory) {
        plan->packed = clef__os_alloc_large((size_t)total);
        plan->packed_bytes = (size_t)total;
        if (!plan->packed)
            return clef__fail(err, CLEF_E_NOMEM, "packed weights: no memory for %" PRIu64 " bytes", total);
        if (total <= caps->max_alloc_bytes && PACKED_ALIGN % caps->base_align == 0)
            s = clef__plan_add_chunk(plan, "packed weights", CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, total,
                                     plan->packed, &whole, err);
    }
    read_ahead(plan, 0);
    for (int32_t i = 0; i < g->n_values && !s; i++) {
        const clef_value *n = g->values[i];
        if (!plan->at_load[i])
            continue;
        read_ahead(plan, i + 1);
        s = result_buffer(plan, n, whole, at, err);
        if (!s)
            s = run_node(plan, n, &from, err);
        at += packed_room(n);
        if (!s)
            s = clef__plan_progress(plan, "weights", at, total, err);
    }
    if (from.mem)
        clReleaseMemObject(from.mem);
    return s;
}
