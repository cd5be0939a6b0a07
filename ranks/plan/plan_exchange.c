/* Launches at which ranks exchange values. The values lie in host memory meanwhile: in the device's own,
 * where that is the host's, else in a copy. */
#include <inttypes.h>
#include <string.h>

#include "graph/collective.h"
#include "ranks/join/copies.h"
#include "ranks/plan/ranked.h"

/* ---- values in host memory ------------------------------------------------------------------- */

/* A value's memory as the host sees it. */
typedef struct window {
    cl_mem mem;
    size_t offset, n_bytes;
    void *at;
    int is_mapped;
} window;

static clef_status open_window(const clef_plan *plan, const clef_value *v, cl_map_flags flags, void *copy,
                               window *w, clef_error *err)
{
    const cl_command_queue queue = plan->dev->queue;
    cl_int code = CL_SUCCESS;
    w->mem = clef__plan_mem(plan, v);
    w->is_mapped = plan->dev->info.caps.unified_memory;
    if (w->is_mapped) {
        w->at =
            clEnqueueMapBuffer(queue, w->mem, CL_TRUE, flags, w->offset, w->n_bytes, 0, NULL, NULL, &code);
        return code ? clef__cl_fail(err, "clEnqueueMapBuffer", v->name, code) : CLEF_OK;
    }
    w->at = copy;
    if (flags & CL_MAP_READ)
        code = clEnqueueReadBuffer(queue, w->mem, CL_TRUE, w->offset, w->n_bytes, w->at, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueReadBuffer", v->name, code) : CLEF_OK;
}

/* The copy is overwritten by the next exchange at the earliest. If that reads from the device, it waits for
 * this write first; if it only receives, exchange_values() waits. */
static clef_status close_window(const clef_plan *plan, const clef_value *v, int was_written, window *w,
                                clef_error *err)
{
    const cl_command_queue queue = plan->dev->queue;
    if (w->is_mapped) {
        const cl_int code = clEnqueueUnmapMemObject(queue, w->mem, w->at, 0, NULL, NULL);
        return code ? clef__cl_fail(err, "clEnqueueUnmapMemObject", v->name, code) : CLEF_OK;
    }
    if (!was_written)
        return CLEF_OK;
    const cl_int code =
        clEnqueueWriteBuffer(queue, w->mem, CL_FALSE, w->offset, w->n_bytes, w->at, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", v->name, code) : CLEF_OK;
}

/* ---- each kind ------------------------------------------------------------------------------- */

static clef_status add_up(const clef_plan *plan, char *x, size_t n_bytes, clef_error *err)
{
    clef_ranks *r = plan->dev->ranks;
    return r->transport->calls->all_reduce(r->stage, (float *)(void *)x, n_bytes / sizeof(float), r->wire,
                                           err);
}

/* The parts arrive one after the other. Where the value has several rows, they are put together afterwards.
 */
static clef_status join(const clef_plan *plan, const clef_exchange_call *c, window *in, window *out,
                        clef_error *err)
{
    clef_ranks *r = plan->dev->ranks;
    const int32_t n = r->layout.width;
    char *all = c->outer == 1 ? out->at : clef__ranks_staging(r, (size_t)c->n_bytes), *at = all;
    if (!all)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRIu64 " bytes of several ranks", c->n_bytes);
    for (int32_t i = 0; i < n; i++)
        r->counts[i] =
            (size_t)clef__part_of(c->size, c->grain, i, n).size * (size_t)c->inner_bytes * c->outer;
    const clef_status s = r->transport->calls->all_gather(r->stage, in->at, all, r->counts, err);
    for (int32_t i = 0; i < n && !s && c->outer > 1; i++) {
        clef__exchange_place(c, clef__part_of(c->size, c->grain, i, n), at, out->at);
        at += r->counts[i];
    }
    return s;
}

/* All but sums. */
static clef_status exchange(const clef_plan *plan, const clef_launch *l, window *in, window *out,
                            clef_error *err)
{
    const clef_exchange_call *c = l->args;
    clef_ranks *r = plan->dev->ranks;
    switch (c->kind) {
    case CLEF_EXCHANGE_GATHER:
        return join(plan, c, in, out, err);
    case CLEF_EXCHANGE_SEND:
        return r->transport->calls->send(r->transport, c->peer, in->at, (size_t)c->n_bytes, err);
    default:
        return r->transport->calls->receive(r->transport, c->peer, out->at, (size_t)c->n_bytes, err);
    }
}

/* Opens the windows that the exchange needs, exchanges, and closes them. copies: host memory for both values,
 * for a device with memory of its own. */
static clef_status exchange_values(const clef_plan *plan, const clef_launch *l, char *copies, clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const int reads = c->kind != CLEF_EXCHANGE_RECEIVE, writes = c->kind != CLEF_EXCHANGE_SEND;
    const size_t n_in = (size_t)clef__bytes(l->bufs[1], plan->symbols);
    window in = {.offset = (size_t)c->offset_bytes, .n_bytes = n_in},
           out = {.offset = (size_t)c->offset_bytes, .n_bytes = (size_t)c->n_bytes};
    clef_status s = CLEF_OK;
    if (!reads && copies) { /* the queue may still read the copy of an exchange before */
        const cl_int code = clFinish(plan->dev->queue);
        if (code)
            return clef__cl_fail(err, "clFinish", l->node->name, code);
    }
    if (reads)
        s = open_window(plan, l->bufs[1], CL_MAP_READ, copies, &in, err);
    if (!s && writes)
        s = open_window(plan, l->bufs[0], CL_MAP_WRITE, copies ? copies + n_in : NULL, &out, err);
    if (!s)
        s = exchange(plan, l, &in, &out, err);
    if (!s && reads)
        s = close_window(plan, l->bufs[1], 0, &in, err);
    if (!s && writes)
        s = close_window(plan, l->bufs[0], 1, &out, err);
    return s;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* 1 when the result lies where the input is. */
static int is_in_place(const clef_plan *plan, const clef_launch *l)
{
    const clef_value *out = clef__base(l->bufs[0]), *in = clef__base(l->bufs[1]);
    return plan->memory.places && plan->memory.places[out->id].bytes && plan->memory.places[in->id].bytes &&
           plan->memory.places[out->id].offset == plan->memory.places[in->id].offset;
}

/* In the device's own memory. It crosses in the pieces of ranks whose values are not in host memory. */
static clef_status add_up_here(const clef_plan *plan, const clef_launch *l, size_t piece, clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const int one = is_in_place(plan, l);
    const size_t offset = (size_t)c->offset_bytes, n = (size_t)c->n_bytes;
    window in = {.offset = offset, .n_bytes = n}, out = in;
    clef_status s = one ? CLEF_OK : open_window(plan, l->bufs[1], CL_MAP_READ, NULL, &in, err);
    if (!s)
        s = open_window(plan, l->bufs[0], one ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_WRITE, NULL, &out, err);
    if (!s && !one)
        memcpy(out.at, in.at, n);
    for (size_t at = 0; at < n && !s; at += piece)
        s = add_up(plan, (char *)out.at + at, n - at < piece ? n - at : piece, err);
    if (!s && !one)
        s = close_window(plan, l->bufs[1], 0, &in, err);
    return s ? s : close_window(plan, l->bufs[0], 1, &out, err);
}

/* A value of a device with memory of its own on its way through host memory. */
typedef struct copy {
    char *at;
    size_t piece;                        /* bytes that cross at once */
    cl_event arrived[CLEF__MOST_PIECES]; /* of each piece */
    int32_t n;
} copy;

/* Starts to copy it to the host, in the pieces in which it will cross. */
static clef_status copy_pieces(const clef_plan *plan, const clef_launch *l, copy *v, clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const size_t n = (size_t)c->n_bytes, offset = (size_t)c->offset_bytes;
    cl_mem from = clef__plan_mem(plan, l->bufs[1]);
    cl_int code = CL_SUCCESS;
    for (size_t at = 0; at < n && !code; at += v->piece) {
        code = clEnqueueReadBuffer(plan->dev->queue, from, CL_FALSE, offset + at,
                                   n - at < v->piece ? n - at : v->piece, v->at + at, 0, NULL,
                                   &v->arrived[v->n]);
        v->n += !code;
    }
    if (code)
        return clef__cl_fail(err, "clEnqueueReadBuffer", l->node->name, code);
    code = clFlush(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFlush", l->node->name, code) : CLEF_OK;
}

/* Sums a piece when it has arrived, and starts to copy it back. */
static clef_status add_up_piece(const clef_plan *plan, const clef_launch *l, const copy *v, int32_t i,
                                clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const size_t at = (size_t)i * v->piece, left = (size_t)c->n_bytes - at,
                 n = left < v->piece ? left : v->piece;
    cl_int code = clWaitForEvents(1, &v->arrived[i]);
    if (code)
        return clef__cl_fail(err, "clWaitForEvents", l->node->name, code);
    const clef_status s = add_up(plan, v->at + at, n, err);
    if (s)
        return s;
    code = clEnqueueWriteBuffer(plan->dev->queue, clef__plan_mem(plan, l->bufs[0]), CL_FALSE,
                                (size_t)c->offset_bytes + at, n, v->at + at, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", l->node->name, code) : CLEF_OK;
}

/* The device copies later pieces to the host, and earlier ones back, while the ranks sum one. */
static clef_status add_up_copies(const clef_plan *plan, const clef_launch *l, size_t piece, char *copies,
                                 clef_error *err)
{
    copy v = {.at = copies, .piece = piece};
    clef_status s = copy_pieces(plan, l, &v, err);
    for (int32_t i = 0; i < v.n && !s; i++)
        s = add_up_piece(plan, l, &v, i, err);
    while (v.n > 0)
        clReleaseEvent(v.arrived[--v.n]);
    return s;
}

/* copies: NULL, or on a device with memory of its own host memory for both values, which may be used again
 * when the queue has done what is enqueued now. */
static clef_status exchange_whole(const clef_plan *plan, const clef_launch *l, char *copies, clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const size_t piece = clef__ranks_piece(plan->dev->ranks, (size_t)c->n_bytes);
    if (c->kind != CLEF_EXCHANGE_SUM)
        return exchange_values(plan, l, copies, err);
    return copies ? add_up_copies(plan, l, piece, copies, err) : add_up_here(plan, l, piece, err);
}

clef_status clef__ranked_exchange(const clef_plan *plan, int32_t i, clef_error *err)
{
    const clef_launch *l = &plan->launches[i];
    const clef_exchange_call *c = l->args;
    if (plan->dev->info.caps.unified_memory)
        return exchange_whole(plan, l, NULL, err);
    const size_t n_bytes = (size_t)clef__bytes(l->bufs[1], plan->symbols) + (size_t)c->n_bytes;
    char *copies = clef__ranks_copies(plan->dev, n_bytes);
    return copies ? exchange_whole(plan, l, copies, err)
                  : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu bytes", l->node->name, n_bytes);
}
