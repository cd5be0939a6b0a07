#include "runtime/relay.h"

#include <stdlib.h>
#include <string.h>

#include "cl/args.h"
#include "runtime/broken.h"
#include "runtime/os.h"

enum { LINE_BYTES = 64, SHORTEST = 2 /* launches that are worth one */, STAGE_BYTES = sizeof(relay_stage) + CLEF_MAX_ARGS_BYTES };

/* Part of the list, in order: launches that the relay takes as one, or one that it does not take. */
typedef struct part {
    uint32_t first, n;
    int32_t relayed;
} part;

struct clef_relay {
    clef_relay_kind kinds[CLEF_RELAY_KINDS];
    int32_t n_kinds;
    cl_kernel kernel;
    cl_mem sync, list; /* for `room` launches */
    int32_t room;
    relay_args set; /* the kernel's argument */
    cl_mem bases[RELAY_BASES];
    uint32_t n_bases;
    relay_stage *table; /* the list: `room` stages, then as many blocks of arguments */
    part *parts;
    int32_t n_parts;
    enum { NOT_LAID, LAID, UNFIT } state; /* of the list */
};

/* ---- making ---------------------------------------------------------------------------------------------------------------------- */

static int32_t find_kind(const struct clef_relay *r, const clef_relay_kind *kind)
{
    for (int32_t i = 0; i < r->n_kinds; i++)
        if (clef__relay_same(&r->kinds[i], kind))
            return i;
    return -1;
}

static void add_kind(struct clef_relay *r, const clef_relay_kind *kind)
{
    if (find_kind(r, kind) < 0 && r->n_kinds < CLEF_RELAY_KINDS)
        r->kinds[r->n_kinds++] = *kind;
}

static void find_kinds(const clef_plan *plan, struct clef_relay *r)
{
    for (int32_t i = 0; i < plan->n_launches; i++) {
        clef_relay_kind kind, other;
        if (!clef__relay_kind_of(&plan->launches[i], &kind))
            continue;
        add_kind(r, &kind);
        if (clef__relay_companion(&kind, &other))
            add_kind(r, &other);
    }
}

static int is_asked(const char *variable, const char *answer)
{
    const char *text = clef__os_env(variable);
    return text && strcmp(text, answer) == 0;
}

/* What is asked for by name goes first: recordings (runtime/replay.h). */
static int serves(const clef_plan *plan)
{
    const clef_caps *caps = &plan->dev->info.caps;
    return caps->is_cpu && caps->unified_memory && !plan->dev->profile && !is_asked("CLEF_RELAY", "0") && !is_asked("CLEF_REPLAY", "1");
}

uint64_t clef__relay_bytes(const clef_plan *plan)
{
    struct clef_relay r = {0};
    if (!serves(plan))
        return 0;
    find_kinds(plan, &r);
    return r.n_kinds < SHORTEST ? 0 : (uint64_t)plan->n_launches * (2 * LINE_BYTES + STAGE_BYTES);
}

/* A launch of no stages: drivers that compile at first use do it now. */
static clef_status run_once(const clef_plan *plan, struct clef_relay *r, clef_error *err)
{
    const relay_args none = {0};
    const size_t one = 1;
    const cl_mem no_mem = NULL;
    cl_int code = clSetKernelArg(r->kernel, 0, sizeof none, &none);
    for (cl_uint i = 0; i < RELAY_BASES + 2 && !code; i++)
        code = clSetKernelArg(r->kernel, i + 1, sizeof no_mem, NULL);
    if (!code)
        code = clSetKernelArg(r->kernel, 1, sizeof r->sync, &r->sync);
    if (!code)
        code = clEnqueueNDRangeKernel(plan->dev->queue, r->kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    if (!code)
        code = clFinish(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFinish", "the relay's first run", code) : CLEF_OK;
}

static void release(struct clef_relay *r)
{
    const cl_mem mems[] = {r->sync, r->list};
    for (size_t i = 0; i < sizeof mems / sizeof *mems; i++)
        if (mems[i])
            clReleaseMemObject(mems[i]);
    r->sync = r->list = NULL;
    free(r->table);
    free(r->parts);
    r->table = NULL;
    r->parts = NULL;
    r->room = 0;
}

/* Room for a list of n launches. The device is idle. 0: there is none. */
static int make_room(const clef_plan *plan, struct clef_relay *r, int32_t n)
{
    const size_t count = (size_t)n, sync_bytes = count * 2 * LINE_BYTES;
    const cl_context context = plan->dev->context;
    const cl_uchar zero = 0;
    cl_int code[2], filled = CL_SUCCESS;
    release(r);
    r->table = calloc(count, STAGE_BYTES);
    r->parts = calloc(count, sizeof *r->parts);
    r->sync = clCreateBuffer(context, CL_MEM_READ_WRITE, sync_bytes, NULL, &code[0]);
    r->list = clCreateBuffer(context, CL_MEM_READ_ONLY, count * STAGE_BYTES, NULL, &code[1]);
    if (r->sync)
        filled = clEnqueueFillBuffer(plan->dev->queue, r->sync, &zero, sizeof zero, 0, sync_bytes, 0, NULL, NULL);
    const int made = r->table && r->parts && r->sync && r->list && !filled;
    if (made)
        r->room = n;
    else
        release(r);
    return made;
}

/* Of the present list. A program that was built now is checked; one that does not pass is not kept on disk. */
static clef_status make(clef_plan *plan, clef_error *err)
{
    struct clef_relay *r = calloc(1, sizeof *r);
    if (!r)
        return clef__fail(err, CLEF_E_NOMEM, "relay: no memory");
    plan->relay = r;
    find_kinds(plan, r);
    if (r->n_kinds < SHORTEST) {
        clef__relay_release(plan);
        return CLEF_OK;
    }
    if (!make_room(plan, r, plan->n_launches))
        return clef__fail(err, CLEF_E_NOMEM, "relay: no memory for %d stages", (int)plan->n_launches);
    const int32_t built = plan->dev->n_built;
    clef_status s = clef__relay_link(plan->dev, r->kinds, r->n_kinds, &r->kernel, err);
    if (!s)
        s = run_once(plan, r, err);
    if (!s && plan->dev->n_built > built) {
        s = clef__relay_check(plan, err);
        if (s)
            clef__program_forget(plan->dev, r->kernel);
    }
    return s;
}

clef_status clef__relay_make(clef_plan *plan, clef_error *err)
{
    if (!serves(plan))
        return CLEF_OK;
    int64_t symbols[CLEF_MAX_SYMBOLS];
    clef_error why = {0};
    memcpy(symbols, plan->symbols, sizeof symbols);
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        plan->symbols[i] = 1;
    clef_status s = clef__plan_lower(plan, &why);
    if (!s)
        s = clef__plan_bind_launches(plan, &why);
    if (!s)
        s = make(plan, &why);
    memcpy(plan->symbols, symbols, sizeof symbols);
    plan->stale = 1;
    clef__relay_drop(plan);
    if (s)
        clef__relay_release(plan);
    if (!s || !is_asked("CLEF_RELAY", "1"))
        return CLEF_OK;
    if (err)
        *err = why;
    return s;
}

void clef__relay_drop(clef_plan *plan)
{
    if (plan->relay)
        plan->relay->state = NOT_LAID;
}

void clef__relay_release(clef_plan *plan)
{
    struct clef_relay *r = plan->relay;
    if (!r)
        return;
    release(r);
    if (r->kernel)
        clReleaseKernel(r->kernel);
    free(r);
    plan->relay = NULL;
}

/* ---- laying out a list ------------------------------------------------------------------------------------------------------------- */

/* Where mem lies: a base, and how far into it in units. 0: it cannot be said. */
static int place(struct clef_relay *r, cl_mem mem, args_uint *base, args_uint *at)
{
    cl_mem whole = NULL;
    size_t offset = 0;
    if (clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL) ||
        clGetMemObjectInfo(mem, CL_MEM_OFFSET, sizeof offset, &offset, NULL))
        return 0;
    if (!whole)
        whole = mem;
    uint32_t i = 0;
    while (i < r->n_bases && r->bases[i] != whole)
        i++;
    if (i == RELAY_BASES || offset % RELAY_UNIT || offset / RELAY_UNIT > UINT32_MAX)
        return 0;
    if (i == r->n_bases)
        r->bases[r->n_bases++] = whole;
    *base = i;
    *at = (args_uint)(offset / RELAY_UNIT);
    return 1;
}

/* Row i of the table. 0: the launch is no stage of this relay. */
static int lay_stage(const clef_plan *plan, struct clef_relay *r, int32_t i)
{
    const clef_launch *l = &plan->launches[i];
    relay_stage *stage = &r->table[i];
    clef_relay_kind kind;
    const int32_t number = clef__relay_kind_of(l, &kind) && !clef__broken(l) ? find_kind(r, &kind) : -1;
    if (number < 0)
        return 0;
    const uint32_t before = r->n_bases;
    unsigned char *at = (unsigned char *)(r->table + r->room) + (size_t)i * CLEF_MAX_ARGS_BYTES;
    *stage = (relay_stage){.number = (args_uint)number,
                           .n_groups = l->groups[0] * l->groups[1] * l->groups[2],
                           .groups = {l->groups[0], l->groups[1]},
                           .args = (args_uint)((size_t)(at - (unsigned char *)r->table) / sizeof(args_uint))};
    memcpy(at, l->args, l->args_bytes);
    for (uint32_t k = 0; k < RELAY_BUFS; k++) {
        const cl_mem mem = k < l->n_bufs ? plan->list[i]->bufs[k] : NULL;
        stage->base[k] = RELAY_NONE;
        if (mem && !place(r, mem, &stage->base[k], &stage->at[k])) {
            r->n_bases = before;
            return 0;
        }
    }
    return 1;
}

static void find_parts(const clef_plan *plan, struct clef_relay *r)
{
    r->n_parts = 0;
    r->n_bases = 0;
    for (int32_t i = 0; i < plan->n_launches; i++) {
        const int relayed = lay_stage(plan, r, i);
        part *last = r->n_parts ? &r->parts[r->n_parts - 1] : NULL;
        if (relayed && last && last->relayed)
            last->n++;
        else
            r->parts[r->n_parts++] = (part){(uint32_t)i, 1, relayed};
    }
}

static cl_int write_list(const clef_plan *plan, struct clef_relay *r)
{
    const size_t n_bytes = (size_t)r->room * STAGE_BYTES;
    const cl_mem heads[] = {r->sync, r->list};
    cl_int code = clEnqueueWriteBuffer(plan->dev->queue, r->list, CL_TRUE, 0, n_bytes, r->table, 0, NULL, NULL);
    for (cl_uint i = 0; i < 2 && !code; i++)
        code = clSetKernelArg(r->kernel, i + 1, sizeof heads[i], &heads[i]);
    for (cl_uint i = 0; i < RELAY_BASES && !code; i++)
        code = clSetKernelArg(r->kernel, i + 3, sizeof *r->bases, i < r->n_bases ? &r->bases[i] : NULL);
    return code;
}

/* What the relay takes of the present list: most of it, or nothing. */
static void lay(const clef_plan *plan, struct clef_relay *r)
{
    uint32_t relayed = 0;
    r->state = UNFIT;
    if (r->room < plan->n_launches) /* a longer list than that of one row: launch by launch, as it was planned */
        return;
    find_parts(plan, r);
    for (int32_t i = 0; i < r->n_parts; i++)
        relayed += r->parts[i].relayed && r->parts[i].n >= SHORTEST ? r->parts[i].n : 0;
    if (2 * relayed >= (uint32_t)plan->n_launches && !write_list(plan, r))
        r->state = LAID;
}

/* ---- running --------------------------------------------------------------------------------------------------------------------- */

static clef_status enqueue_part(const clef_plan *plan, struct clef_relay *r, const part *p, clef_error *err)
{
    if (!p->relayed)
        return clef__plan_enqueue_launch(plan, (int32_t)p->first, err);
    const relay_args args = {p->first, p->n};
    const size_t groups = plan->dev->info.caps.n_units > 1 ? (size_t)plan->dev->info.caps.n_units : 1, one = 1;
    cl_int code = CL_SUCCESS;
    if (r->set.first != args.first || r->set.n != args.n)
        code = clSetKernelArg(r->kernel, 0, sizeof args, &args);
    r->set = args;
    if (!code)
        code = clEnqueueNDRangeKernel(plan->dev->queue, r->kernel, 1, NULL, &groups, &one, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueNDRangeKernel", "the plan's relay", code) : CLEF_OK;
}

int clef__relay_run(clef_plan *plan, clef_status *status, clef_error *err)
{
    struct clef_relay *r = plan->relay;
    if (r && r->state == NOT_LAID)
        lay(plan, r);
    if (!r || r->state != LAID)
        return 0;
    *status = CLEF_OK;
    for (int32_t i = 0; i < r->n_parts && !*status; i++)
        *status = enqueue_part(plan, r, &r->parts[i], err);
    return 1;
}
