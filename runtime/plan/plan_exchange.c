/* Launches at which ranks exchange values. The values lie in host memory meanwhile: in the device's own,
 * where that is the host's, else in a copy. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op/collective.h"
#include "runtime/plan/plan.h"
#include "runtime/ranks/copies.h"
#include "runtime/ranks/ranks.h"

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

/* A sum of values that are in host memory already. It crosses in the pieces of ranks whose values are not. */
static clef_status add_up_here(const clef_plan *plan, const clef_exchange_call *c, window *in, window *out,
                               clef_error *err)
{
    const size_t n = (size_t)c->n_bytes;
    clef_status s = CLEF_OK;
    if (in->at != out->at)
        memcpy(out->at, in->at, n);
    if (!plan->exchanging) /* there may be no other ranks */
        return CLEF_OK;
    const size_t piece = clef__ranks_piece(plan->dev->ranks, n);
    for (size_t at = 0; at < n && !s; at += piece)
        s = add_up(plan, (char *)out->at + at, n - at < piece ? n - at : piece, err);
    return s;
}

/* A sum on a device with memory of its own, in `copy`. The device copies later pieces to the host, and
 * earlier ones back, while the ranks sum one. */
static clef_status add_up_copies(const clef_plan *plan, const clef_launch *l, char *copy, size_t piece,
                                 clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const cl_command_queue queue = plan->dev->queue;
    const size_t n = (size_t)c->n_bytes, offset = (size_t)c->offset_bytes;
    cl_mem from = clef__plan_mem(plan, l->bufs[1]), to = clef__plan_mem(plan, l->bufs[0]);
    cl_event arrived[CLEF__MOST_PIECES];
    cl_int code = CL_SUCCESS;
    clef_status s = CLEF_OK;
    int32_t n_pieces = 0, k = 0;
    for (size_t at = 0; at < n && !code; at += piece) {
        const size_t size = n - at < piece ? n - at : piece;
        code = clEnqueueReadBuffer(queue, from, CL_FALSE, offset + at, size, copy + at, 0, NULL,
                                   &arrived[n_pieces]);
        n_pieces += code == CL_SUCCESS;
    }
    if (!code)
        code = clFlush(queue);
    for (size_t at = 0; at < n && !code && !s; at += piece) {
        const size_t size = n - at < piece ? n - at : piece;
        code = clWaitForEvents(1, &arrived[k++]);
        if (!code)
            s = add_up(plan, copy + at, size, err);
        if (!code && !s)
            code = clEnqueueWriteBuffer(queue, to, CL_FALSE, offset + at, size, copy + at, 0, NULL, NULL);
    }
    while (n_pieces > 0)
        clReleaseEvent(arrived[--n_pieces]);
    return s || !code ? s : clef__cl_fail(err, "copying a sum's pieces", l->node->name, code);
}

/* Puts a rank's part, whose rows lie one after the other, to its place in each row. */
static void place_part(const clef_exchange_call *c, clef__range part, const char *from, char *to)
{
    const size_t n = (size_t)part.size * (size_t)c->inner_bytes,
                 row = (size_t)c->size * (size_t)c->inner_bytes;
    for (size_t i = 0; i < c->outer; i++)
        memcpy(to + i * row + (size_t)part.start * (size_t)c->inner_bytes, from + i * n, n);
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
        place_part(c, clef__part_of(c->size, c->grain, i, n), at, out->at);
        at += r->counts[i];
    }
    return s;
}

/* What the op's reference does: the other ranks' parts are 0. */
static void join_alone(const clef_value *node, const clef_exchange_call *c, const window *in,
                       const window *out)
{
    const clef__all_gather_opts *o = (const void *)node->attr;
    memset(out->at, 0, (size_t)c->n_bytes);
    place_part(c, clef__part_of(o->size, o->grain, o->part, o->parts), in->at, out->at);
}

static clef_status exchange(const clef_plan *plan, const clef_launch *l, window *in, window *out,
                            clef_error *err)
{
    const clef_exchange_call *c = l->args;
    clef_ranks *r = plan->dev->ranks;
    switch (c->kind) {
    case CLEF_EXCHANGE_SUM:
        return add_up_here(plan, c, in, out, err);
    case CLEF_EXCHANGE_GATHER:
        if (plan->exchanging)
            return join(plan, c, in, out, err);
        join_alone(l->node, c, in, out);
        return CLEF_OK;
    case CLEF_EXCHANGE_SEND:
        return r->transport->calls->send(r->transport, c->peer, in->at, (size_t)c->n_bytes, err);
    default:
        return r->transport->calls->receive(r->transport, c->peer, out->at, (size_t)c->n_bytes, err);
    }
}

/* 1 when the result lies where the input is. */
static int is_in_place(const clef_plan *plan, const clef_launch *l)
{
    const clef_value *out = clef__base(l->bufs[0]), *in = clef__base(l->bufs[1]);
    return plan->memory.places && plan->memory.places[out->id].bytes && plan->memory.places[in->id].bytes &&
           plan->memory.places[out->id].offset == plan->memory.places[in->id].offset;
}

/* Opens the windows that the exchange needs, exchanges, and closes them. copies: host memory for both values,
 * for a device with memory of its own. */
static clef_status exchange_values(const clef_plan *plan, const clef_launch *l, char *copies, clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const int reads = c->kind != CLEF_EXCHANGE_RECEIVE, writes = c->kind != CLEF_EXCHANGE_SEND;
    const int one = c->kind == CLEF_EXCHANGE_SUM && is_in_place(plan, l);
    const size_t n_in = (size_t)clef__bytes(l->bufs[1], plan->symbols);
    window in = {.offset = (size_t)c->offset_bytes, .n_bytes = n_in},
           out = {.offset = (size_t)c->offset_bytes, .n_bytes = (size_t)c->n_bytes};
    clef_status s = CLEF_OK;
    if (copies && c->kind == CLEF_EXCHANGE_SUM && plan->exchanging) {
        const size_t piece = clef__ranks_piece(plan->dev->ranks, (size_t)c->n_bytes);
        if (piece < (size_t)c->n_bytes)
            return add_up_copies(plan, l, copies, piece, err);
    }
    if (!reads && copies) { /* the queue may still read the copy of an exchange before */
        const cl_int code = clFinish(plan->dev->queue);
        if (code)
            return clef__cl_fail(err, "clFinish", l->node->name, code);
    }
    if (reads && !one)
        s = open_window(plan, l->bufs[1], CL_MAP_READ, copies, &in, err);
    if (!s && writes)
        s = open_window(plan, l->bufs[0], one ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_WRITE,
                        copies ? copies + n_in : NULL, &out, err);
    if (one)
        in.at = out.at;
    if (!s)
        s = exchange(plan, l, &in, &out, err);
    if (!s && reads && !one)
        s = close_window(plan, l->bufs[1], 0, &in, err);
    if (!s && writes)
        s = close_window(plan, l->bufs[0], 1, &out, err);
    return s;
}

/* In a trial, on a device with memory of its own. */
static clef_status exchange_alone(const clef_plan *plan, const clef_launch *l, size_t n_bytes,
                                  clef_error *err)
{
    char *copies = malloc(n_bytes);
    if (!copies)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu bytes", l->node->name, n_bytes);
    const clef_status s = exchange_values(plan, l, copies, err);
    const cl_int code = clFinish(plan->dev->queue); /* it may still read the copies */
    free(copies);
    return s || !code ? s : clef__cl_fail(err, "clFinish", l->node->name, code);
}

clef_status clef__plan_exchange(const clef_plan *plan, int32_t i, clef_error *err)
{
    const clef_launch *l = &plan->launches[i];
    const clef_exchange_call *c = l->args;
    const size_t n_bytes = (size_t)clef__bytes(l->bufs[1], plan->symbols) + (size_t)c->n_bytes;
    if (!plan->exchanging && c->kind >= CLEF_EXCHANGE_SEND)
        return CLEF_OK;
    if (plan->dev->info.caps.unified_memory)
        return exchange_values(plan, l, NULL, err);
    if (!plan->exchanging)
        return exchange_alone(plan, l, n_bytes, err);
    char *copies = clef__ranks_copies(plan->dev, n_bytes);
    return copies ? exchange_values(plan, l, copies, err)
                  : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu bytes", l->node->name, n_bytes);
}
