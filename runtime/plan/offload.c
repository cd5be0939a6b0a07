/* Runs a plan and the plan of its experts, which another device has. The rest reads what it sends, and then
 * the experts' launches are enqueued as far as they need nothing more: that run stops, and goes on after the
 * next values. So both devices work at once where the rest does not have to wait. One thread does all of it.
 * clef__cut_exchanging() has seen to it that neither side is ahead of the other in the memory of values that
 * cross. */
#include <stdlib.h>

#include "graph/pass/cut.h"
#include "runtime/plan/pipeline.h"

/* A value on its way. */
typedef struct message {
    void *memory;     /* of this process: the receiver's, for writes to its input */
    cl_event arrived; /* to the rest: the memory has the value. NULL: not in this run */
} message;

typedef struct clef_offload {
    clef_plan *plans[2];     /* by clef__cut_experts() */
    message *to[2];          /* the messages to each plan, in their order */
    int32_t n[2];            /* their number */
    int32_t n_sent, n_taken; /* in this run: messages that the rest has sent, and the experts have received */
    int32_t n_back, n_received; /* that the experts have sent, and the rest has received */
} clef_offload;

/* ---- making ---------------------------------------------------------------------------------- */

static void *staging_of(const clef_plan *plan, const clef_value *input)
{
    int32_t i = 0;
    while (plan->inputs[i].value != input)
        i++;
    return plan->inputs[i].staging;
}

/* Lists what a plan receives. */
static clef_status list_messages(clef_offload *o, int32_t side, clef_error *err)
{
    const clef_plan *plan = o->plans[side];
    const clef_graph *g = plan->graph;
    o->to[side] = calloc((size_t)g->n_values + 1, sizeof *o->to[side]);
    if (!o->to[side])
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for values between devices");
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->op == CLEF_OP_receive)
            o->to[side][o->n[side]++].memory = staging_of(plan, g->values[i]->in[0]);
    return CLEF_OK;
}

clef_status clef__offload_create(clef_plan *rest, clef_plan *experts, clef_offload **out, clef_error *err)
{
    clef_offload *o = *out = calloc(1, sizeof *o);
    if (!o)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for values between devices");
    o->plans[CLEF__CUT_REST] = rest;
    o->plans[CLEF__CUT_EXPERTS] = experts;
    rest->offload = experts->offload = o;
    const clef_status s = list_messages(o, CLEF__CUT_REST, err);
    return s ? s : list_messages(o, CLEF__CUT_EXPERTS, err);
}

void clef__offload_destroy(clef_offload *o)
{
    if (!o)
        return;
    free(o->to[CLEF__CUT_REST]);
    free(o->to[CLEF__CUT_EXPERTS]);
    free(o);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* What a launch exchanges. */
typedef struct crossing {
    cl_command_queue queue;
    cl_mem mem;
    size_t offset, n_bytes;
    int sends;
    const char *name;
} crossing;

static crossing crossing_at(const clef_plan *plan, int32_t i)
{
    const clef_launch *l = &plan->launches[i];
    const clef_exchange_call *call = l->args;
    return (crossing){.queue = plan->dev->queue,
                      .mem = clef__plan_mem(plan, l->bufs[0]),
                      .offset = (size_t)call->offset_bytes,
                      .n_bytes = (size_t)call->n_bytes,
                      .sends = call->kind == CLEF_EXCHANGE_SEND,
                      .name = l->node->name};
}

static clef_status read(const crossing *c, const message *m, cl_event *event, clef_error *err)
{
    const cl_int code = clEnqueueReadBuffer(c->queue, c->mem, event ? CL_FALSE : CL_TRUE, c->offset,
                                            c->n_bytes, m->memory, 0, NULL, event);
    return code ? clef__cl_fail(err, "clEnqueueReadBuffer", c->name, code) : CLEF_OK;
}

static clef_status write(const crossing *c, const message *m, clef_error *err)
{
    const cl_int code =
        clEnqueueWriteBuffer(c->queue, c->mem, CL_FALSE, c->offset, c->n_bytes, m->memory, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", c->name, code) : CLEF_OK;
}

/* Launch i of the experts. What has not been sent yet stops the run. */
static clef_status exchange_of_experts(const clef_plan *plan, int32_t i, clef_error *err)
{
    clef_offload *o = plan->offload;
    const crossing c = crossing_at(plan, i);
    if (c.sends) {
        message *m = &o->to[CLEF__CUT_REST][o->n_back++];
        return read(&c, m, &m->arrived, err);
    }
    if (o->n_taken < o->n_sent)
        return write(&c, &o->to[CLEF__CUT_EXPERTS][o->n_taken++], err);
    o->plans[CLEF__CUT_EXPERTS]->begin = i;
    o->plans[CLEF__CUT_EXPERTS]->stopped = 1;
    return CLEF_OK;
}

static clef_status go_on(clef_offload *o, clef_error *err)
{
    clef_plan *experts = o->plans[CLEF__CUT_EXPERTS];
    experts->stopped = 0;
    return clef_plan_run(experts, err);
}

/* Launch i of the rest. After the last of several values in turn the experts go on. */
static clef_status exchange_of_rest(const clef_plan *plan, int32_t i, clef_error *err)
{
    clef_offload *o = plan->offload;
    const crossing c = crossing_at(plan, i);
    if (!c.sends) {
        const message *m = &o->to[CLEF__CUT_REST][o->n_received++];
        const cl_int code = clWaitForEvents(1, &m->arrived);
        return code ? clef__cl_fail(err, "clWaitForEvents", c.name, code) : write(&c, m, err);
    }
    const clef_status s = read(&c, &o->to[CLEF__CUT_EXPERTS][o->n_sent], NULL, err);
    o->n_sent += !s;
    const int is_last = i + 1 == plan->n_launches || plan->launches[i + 1].call != CLEF_CALL_EXCHANGE ||
                        !crossing_at(plan, i + 1).sends;
    return s || !is_last ? s : go_on(o, err);
}

/* ---- running --------------------------------------------------------------------------------- */

static void begin(clef_offload *o)
{
    (void)clFinish(
        o->plans[CLEF__CUT_EXPERTS]->dev->queue); /* an earlier run may still read memory of values */
    o->n_sent = o->n_taken = o->n_back = o->n_received = 0;
    o->plans[CLEF__CUT_REST]->exchange = exchange_of_rest;
    o->plans[CLEF__CUT_EXPERTS]->exchange = exchange_of_experts;
}

static void end(clef_offload *o)
{
    for (int32_t i = 0; i < 2; i++) {
        o->plans[i]->exchange = NULL;
        o->plans[i]->begin = o->plans[i]->stopped = 0;
    }
    for (int32_t i = 0; i < o->n_back; i++) {
        if (o->to[CLEF__CUT_REST][i].arrived)
            clReleaseEvent(o->to[CLEF__CUT_REST][i].arrived);
        o->to[CLEF__CUT_REST][i].arrived = NULL;
    }
}

clef_status clef__offload_run(clef_offload *o, clef_error *err)
{
    begin(o);
    clef_status s = clef_plan_run(o->plans[CLEF__CUT_REST], err);
    if (s)
        (void)clFinish(o->plans[CLEF__CUT_EXPERTS]->dev->queue); /* it may still write to memory of values */
    end(o);
    return s;
}
