/* Lowers the graph and sets the arguments of its launches. */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/plan.h"

enum { FIRST_LAUNCHES = 64 };

/* ---- lowering -------------------------------------------------------------------------------- */

static clef_status grow_list(clef_plan *plan, int32_t cap, clef_error *err)
{
    clef_launch *launches = realloc(plan->launches, (size_t)cap * sizeof *launches);
    if (launches)
        plan->launches = launches;
    unsigned char *args = realloc(plan->args, (size_t)cap * CLEF_MAX_ARGS_BYTES);
    if (args)
        plan->args = args;
    clef_bound **list = realloc(plan->list, (size_t)cap * sizeof *list);
    if (list)
        plan->list = list;
    if (!launches || !args || !list)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for %d launches", cap);
    plan->cap_launches = cap;
    return CLEF_OK;
}

clef_lowering clef__plan_lowering(const clef_plan *plan)
{
    return (clef_lowering){.graph = plan->graph,
                           .caps = &plan->dev->info.caps,
                           .symbols = plan->symbols,
                           .gemm = plan->opts.compile.gemm,
                           .tuning = &plan->tuning,
                           .forced = plan->forced};
}

static clef_status lower_all(clef_plan *plan, clef_error *err)
{
    clef_lowering lo = clef__plan_lowering(plan);
    lo.launches = plan->launches;
    lo.cap = plan->cap_launches;
    lo.args = plan->args;
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++) {
        const clef_value *n = plan->graph->values[i];
        if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->lower || plan->at_load[i])
            continue;
        lo.node = n;
        s = clef__ops[n->op]->lower(&lo, n, err);
    }
    plan->n_launches = lo.n;
    return s;
}

/* The list has room for the longest lowering so far. If it is too short, the room is doubled and the graph
 * lowered again. */
clef_status clef__plan_lower(clef_plan *plan, clef_error *err)
{
    clef_status s = plan->cap_launches ? CLEF_OK : grow_list(plan, FIRST_LAUNCHES, err);
    while (!s) {
        s = lower_all(plan, err);
        if (s != CLEF_E_LIMIT || plan->n_launches < plan->cap_launches)
            break;
        s = grow_list(plan, plan->cap_launches * 2, err);
        if (!s && err)
            *err = (clef_error){0}; /* the failure was handled */
    }
    return s;
}

/* ---- binding --------------------------------------------------------------------------------- */

int clef__same_defs(const clef_def *a, const clef_def *b)
{
    for (int32_t i = 0; i < CLEF_MAX_DEFS; i++) {
        if (!a[i].name || !b[i].name)
            return a[i].name == b[i].name;
        if (a[i].value != b[i].value || strcmp(a[i].name, b[i].name) != 0)
            return 0;
    }
    return 1;
}

static clef_bound *find_bound(const clef_plan *plan, const clef_launch *l, int32_t launch_index)
{
    for (clef_bound *b = plan->bound[l->node->id]; b; b = b->next)
        if (b->launch_index == launch_index && strcmp(b->kernel, l->kernel) == 0 &&
            strcmp(b->source, l->source) == 0 && clef__same_defs(b->defs, l->defs) &&
            b->registers == l->registers)
            return b;
    return NULL;
}

static clef_status new_bound(clef_plan *plan, const clef_launch *l, int32_t launch_index, clef_bound **out,
                             clef_error *err)
{
    clef_bound *b = calloc(1, sizeof *b);
    if (!b)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a launch", l->node->name);
    const clef_status s = clef__kernel_create(plan->dev, l, &b->object, err);
    if (s) {
        free(b);
        return s;
    }
    b->launch_index = launch_index;
    b->source = l->source;
    b->kernel = l->kernel;
    memcpy(b->defs, l->defs, sizeof b->defs);
    b->registers = l->registers;
    b->is_new = 1;
    b->next = plan->bound[l->node->id];
    plan->bound[l->node->id] = b;
    *out = b;
    return CLEF_OK;
}

cl_mem clef__plan_buffer_of(const clef_plan *plan, const clef_value *v)
{
    return v == CLEF__SCRATCH ? plan->scratch : v ? clef__plan_mem(plan, v) : NULL;
}

/* The buffer of an argument. One that the kernel does not use is the first that it does: some drivers refuse
 * NULL (docs/gpus.md). */
static cl_mem argument(const clef_plan *plan, const clef_launch *l, uint32_t i)
{
    cl_mem mem = clef__plan_buffer_of(plan, l->bufs[i]);
    for (uint32_t k = 0; !mem && k < l->n_bufs; k++)
        mem = clef__plan_buffer_of(plan, l->bufs[k]);
    return mem;
}

/* Sets the arguments that have changed since they were last set. Those that fail count as never set. */
static clef_status set_args(const clef_plan *plan, clef_bound *b, const clef_launch *l, clef_error *err)
{
    cl_int code = CL_SUCCESS;
    if (b->args_bytes != l->args_bytes || memcmp(b->args, l->args, l->args_bytes) != 0) {
        code = clSetKernelArg(b->object, 0, l->args_bytes, l->args);
        b->args_bytes = code ? 0 : l->args_bytes;
        memcpy(b->args, l->args, b->args_bytes);
    }
    uint32_t n_set = 0;
    for (; n_set < l->n_bufs && !code; n_set += !code) {
        const cl_mem mem = argument(plan, l, n_set);
        if (n_set < b->n_bufs && b->bufs[n_set] == mem)
            continue;
        code = clSetKernelArg(b->object, n_set + 1, sizeof mem, &mem);
        b->bufs[n_set] = mem;
    }
    b->n_bufs = n_set;
    if (code)
        return clef__fail_cl(err, CLEF_E_CL, code, "%s: clSetKernelArg(%s): %s (%d)", l->node->name,
                             l->kernel, clef__cl_name(code), code);
    return CLEF_OK;
}

/* The index of launch i among its node's launches. */
static int32_t launch_index_of(const clef_plan *plan, int32_t i)
{
    int32_t launch_index = 0;
    while (launch_index < i && plan->launches[i - launch_index - 1].node == plan->launches[i].node)
        launch_index++;
    return launch_index;
}

int clef__plan_wants_new(const clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_launches; i++)
        if (plan->launches[i].call != CLEF_CALL_KERNEL ||
            !find_bound(plan, &plan->launches[i], launch_index_of(plan, i)))
            return 1;
    return 0;
}

clef_status clef__plan_bind_launch(clef_plan *plan, int32_t i, clef_error *err)
{
    const clef_launch *l = &plan->launches[i];
    const int32_t launch_index = launch_index_of(plan, i);
    plan->list[i] = NULL;
    if (l->call != CLEF_CALL_KERNEL)
        return CLEF_OK;
    clef_bound *b = find_bound(plan, l, launch_index);
    clef_status s = b ? CLEF_OK : new_bound(plan, l, launch_index, &b, err);
    if (!s)
        s = set_args(plan, b, l, err);
    plan->list[i] = b;
    return s;
}

clef_status clef__plan_bind_launches(clef_plan *plan, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < plan->n_launches && !s; i++)
        s = clef__plan_bind_launch(plan, i, err);
    return s;
}

void clef__plan_release_bound(clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_events; i++)
        clReleaseEvent(plan->events[i]);
    for (int32_t i = 0; plan->bound && i < plan->graph->n_values; i++)
        for (clef_bound *b = plan->bound[i], *next; b; b = next) {
            next = b->next;
            clReleaseKernel(b->object);
            free(b);
        }
    free(plan->bound);
    free(plan->events);
    free(plan->launches);
    free(plan->args);
    free(plan->list);
}
