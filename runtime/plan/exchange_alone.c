#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/together.h"

void clef__exchange_place(const clef_exchange_call *c, clef__range part, const char *from, char *to)
{
    const size_t n = (size_t)part.size * (size_t)c->inner_bytes,
                 row = (size_t)c->size * (size_t)c->inner_bytes;
    for (size_t i = 0; i < c->outer; i++)
        memcpy(to + i * row + (size_t)part.start * (size_t)c->inner_bytes, from + i * n, n);
}

/* in, out: host memory of the values; out is zeroed. */
static clef_status move(const clef_plan *plan, const clef_launch *l, size_t n_in, char *in, char *out,
                        clef_error *err)
{
    const clef_exchange_call *c = l->args;
    const clef__all_gather_opts *o = (const void *)l->node->attr;
    const cl_command_queue queue = plan->dev->queue;
    const size_t offset = (size_t)c->offset_bytes, n = (size_t)c->n_bytes;
    cl_int code = clEnqueueReadBuffer(queue, clef__plan_mem(plan, l->bufs[1]), CL_TRUE, offset, n_in, in, 0,
                                      NULL, NULL);
    if (code)
        return clef__cl_fail(err, "clEnqueueReadBuffer", l->bufs[1]->name, code);
    if (c->kind == CLEF_EXCHANGE_SUM)
        memcpy(out, in, n);
    else
        clef__exchange_place(c, clef__part_of(o->size, o->grain, o->part, o->parts), in, out);
    code =
        clEnqueueWriteBuffer(queue, clef__plan_mem(plan, l->bufs[0]), CL_TRUE, offset, n, out, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", l->bufs[0]->name, code) : CLEF_OK;
}

clef_status clef__exchange_alone(const clef_plan *plan, int32_t i, clef_error *err)
{
    const clef_launch *l = &plan->launches[i];
    const clef_exchange_call *c = l->args;
    if (c->kind >= CLEF_EXCHANGE_SEND)
        return CLEF_OK;
    const size_t n_in =
        c->kind == CLEF_EXCHANGE_SUM ? (size_t)c->n_bytes : (size_t)clef__bytes(l->bufs[1], plan->symbols);
    char *in = malloc(n_in ? n_in : 1), *out = calloc((size_t)c->n_bytes + 1, 1);
    const clef_status s = in && out ? move(plan, l, n_in, in, out, err)
                                    : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %" PRIu64 " bytes",
                                                 l->node->name, c->n_bytes);
    free(in);
    free(out);
    return s;
}
