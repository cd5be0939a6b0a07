#include "runtime/plan/fused.h"

#include <stdlib.h>
#include <string.h>

#include "cl/args.h"
#include "runtime/device/broken.h"
#include "runtime/os/os.h"
#include "runtime/plan/replay.h"
#include "runtime/prove/proof.h"

enum {
    LINE_BYTES = 64,
    SHORTEST = 2 /* launches that are worth one */,
    STAGE_BYTES = sizeof(fused_stage) + CLEF_MAX_ARGS_BYTES
};

/* Part of the list, in order: launches that the fused step takes as one, or one that it does not take. */
typedef struct part {
    uint32_t first, n;
    int32_t is_fused;
} part;

struct clef_fused {
    clef_fused_kinds kinds;
    cl_kernel kernel;    /* NULL: a child builds it */
    clef_fused_job *job; /* which; the device's */
    int32_t repeats;     /* how often the list is run in a row */
    cl_mem sync, list;   /* for `room` launches */
    int32_t room;
    fused_args set; /* the kernel's argument */
    cl_mem bases[FUSED_BASES];
    uint32_t n_bases;
    fused_stage *table; /* the list: `room` stages, then as many blocks of arguments */
    part *parts;
    int32_t n_parts;
    enum { NOT_LAID, LAID, UNFIT } state; /* of the list */
};

/* ---- making
 * ----------------------------------------------------------------------------------------------------------------------
 */

static int32_t find_kind(const struct clef_fused *r, const clef_fused_kind *kind)
{
    for (int32_t i = 0; i < r->kinds.n; i++)
        if (clef__fused_same(&r->kinds.at[i], kind))
            return i;
    return -1;
}

static void add_kind(struct clef_fused *r, const clef_fused_kind *kind)
{
    if (find_kind(r, kind) < 0 && r->kinds.n < CLEF_FUSED_KINDS)
        r->kinds.at[r->kinds.n++] = *kind;
}

static void find_kinds(const clef_plan *plan, struct clef_fused *r)
{
    for (int32_t i = 0; i < plan->n_launches; i++) {
        clef_fused_kind kind, other;
        if (!clef__fused_kind_of(&plan->launches[i], &kind))
            continue;
        add_kind(r, &kind);
        if (clef__fused_companion(&kind, &other))
            add_kind(r, &other);
    }
}

static int is_asked(const char *variable, const char *answer)
{
    const char *text = clef__os_env(variable);
    return text && strcmp(text, answer) == 0;
}

static int has_states(const clef_graph *g)
{
    int32_t i = 0;
    while (i < g->n_values && g->values[i]->kind != CLEF_STATE)
        i++;
    return i < g->n_values;
}

/* What is asked for by name goes first: recordings (runtime/plan/replay.h). */
static int serves(const clef_plan *plan)
{
    const clef_caps *caps = &plan->dev->info.caps;
    return caps->is_cpu && caps->unified_memory && !plan->dev->profile && !is_asked("CLEF_FUSED", "0") &&
           !is_asked("CLEF_REPLAY", "1") && has_states(plan->graph);
}

uint64_t clef__fused_bytes(const clef_plan *plan)
{
    struct clef_fused r = {0};
    if (!serves(plan))
        return 0;
    find_kinds(plan, &r);
    return r.kinds.n < SHORTEST ? 0 : (uint64_t)plan->n_launches * (2 * LINE_BYTES + STAGE_BYTES);
}

/* A launch of no stages: drivers that compile at first use do it now. */
static clef_status run_once(const clef_plan *plan, struct clef_fused *r, clef_error *err)
{
    const fused_args none = {0};
    const size_t one = 1;
    const cl_mem no_mem = NULL;
    cl_int code = clSetKernelArg(r->kernel, 0, sizeof none, &none);
    for (cl_uint i = 0; i < FUSED_BASES + 2 && !code; i++)
        code = clSetKernelArg(r->kernel, i + 1, sizeof no_mem, NULL);
    if (!code)
        code = clSetKernelArg(r->kernel, 1, sizeof r->sync, &r->sync);
    if (!code)
        code = clEnqueueNDRangeKernel(plan->dev->queue, r->kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    if (!code)
        code = clFinish(plan->dev->queue);
    return code ? clef__cl_fail(err, "clFinish", "the fused step's first run", code) : CLEF_OK;
}

static void release(struct clef_fused *r)
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
static int make_room(const clef_plan *plan, struct clef_fused *r, int32_t n)
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
        filled =
            clEnqueueFillBuffer(plan->dev->queue, r->sync, &zero, sizeof zero, 0, sync_bytes, 0, NULL, NULL);
    const int made = r->table && r->parts && r->sync && r->list && !filled;
    if (made)
        r->room = n;
    else
        release(r);
    return made;
}

/* Buffers, for n launches. */
static clef_status make_empty(clef_plan *plan, int32_t n, struct clef_fused **out, clef_error *err)
{
    struct clef_fused *r = plan->fused = *out = calloc(1, sizeof *r);
    if (!r || !make_room(plan, r, n))
        return clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for %d stages", (int)n);
    r->repeats = 1;
    return CLEF_OK;
}

/* Its program, from memory or disk, or built here. */
static clef_status take(clef_plan *plan, clef_link how, clef_error *err)
{
    struct clef_fused *r = plan->fused;
    const clef_status s = clef__fused_link(plan->dev, &r->kinds, how, &r->kernel, err);
    return s ? s : run_once(plan, r, err);
}

static clef_status zero_states(void *user, clef_error *err)
{
    return clef__plan_zero_states(user, err);
}

/* A program that was built now is checked; one that does not pass is not kept. */
static clef_status build_here(clef_plan *plan, clef_error *err)
{
    const clef_fused_trial step = {1, zero_states, plan};
    const int32_t built = plan->dev->n_built;
    clef_status s = take(plan, CLEF_LINK_BUILD, err);
    if (!s && plan->dev->n_built > built)
        s = clef__fused_check(plan, &step, err);
    if (s && plan->fused->kernel)
        clef__program_forget(plan->dev, plan->fused->kernel);
    return s;
}

/* A child builds it. Who measures waits. */
static clef_status build_beside(clef_plan *plan, clef_error *err)
{
    struct clef_fused *r = plan->fused;
    clef_status s = clef__fused_have_built(plan, &r->kinds, &r->job, err);
    if (!s && !clef__programs_go_behind(plan->dev))
        s = clef__fused_wait(plan, r->job, err);
    if (s)
        return s;
    const clef_fused_news news = clef__fused_news(plan->dev, r->job);
    return news == CLEF_FUSED_WAITS ? CLEF_OK
           : news == CLEF_FUSED_BUILT
               ? take(plan, CLEF_LINK_FOUND, err)
               : clef__fail(err, CLEF_E_UNSUPPORTED, "fused step: set aside on %s", plan->dev->info.name);
}

/* Of the present list. */
static clef_status make(clef_plan *plan, clef_error *err)
{
    struct clef_fused *r = NULL, found = {0};
    find_kinds(plan, &found);
    if (found.kinds.n < SHORTEST)
        return CLEF_OK;
    clef_status s = make_empty(plan, plan->n_launches, &r, err);
    if (s)
        return s;
    r->kinds = found.kinds;
    if (!clef__proof_wanted(plan) || is_asked("CLEF_FUSED", "1"))
        return build_here(plan, err);
    s = take(plan, CLEF_LINK_FOUND, err);
    if (s == CLEF_E_NOT_FOUND)
        s = build_beside(plan, err);
    return s == CLEF_E_NOT_FOUND || s == CLEF_E_IO /* no child can be started */ ? build_here(plan, err) : s;
}

clef_status clef__fused_give(clef_plan *plan, const clef_fused_kinds *kinds, int32_t repeats, clef_error *err)
{
    struct clef_fused *r = NULL;
    const clef_status s = make_empty(plan, plan->n_launches * repeats, &r, err);
    if (s)
        return s;
    r->kinds = *kinds;
    r->repeats = repeats;
    return take(plan, CLEF_LINK_FOUND, err);
}

clef_status clef__fused_make(clef_plan *plan, clef_error *err)
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
    clef__fused_drop(plan);
    if (s)
        clef__fused_release(plan);
    if (!s || (s != CLEF_E_CANCELLED && !is_asked("CLEF_FUSED", "1")))
        return CLEF_OK;
    if (err)
        *err = why;
    return s;
}

void clef__fused_drop(clef_plan *plan)
{
    if (plan->fused)
        plan->fused->state = NOT_LAID;
}

void clef__fused_release(clef_plan *plan)
{
    struct clef_fused *r = plan->fused;
    if (!r)
        return;
    release(r);
    if (r->kernel)
        clReleaseKernel(r->kernel);
    free(r);
    plan->fused = NULL;
}

/* ---- laying out a list
 * -------------------------------------------------------------------------------------------------------------
 */

/* Where mem lies: a base, and how far into it in units. 0: it cannot be said. */
static int place(struct clef_fused *r, cl_mem mem, args_uint *base, args_uint *at)
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
    if (i == FUSED_BASES || offset % FUSED_UNIT || offset / FUSED_UNIT > UINT32_MAX)
        return 0;
    if (i == r->n_bases)
        r->bases[r->n_bases++] = whole;
    *base = i;
    *at = (args_uint)(offset / FUSED_UNIT);
    return 1;
}

/* Row i of the table. 0: the launch is no stage of this fused step. */
static int lay_stage(const clef_plan *plan, struct clef_fused *r, int32_t i)
{
    const int32_t number_of_launch = i % plan->n_launches;
    const clef_launch *l = &plan->launches[number_of_launch];
    fused_stage *stage = &r->table[i];
    clef_fused_kind kind;
    const int32_t number = clef__fused_kind_of(l, &kind) && !clef__broken(l) ? find_kind(r, &kind) : -1;
    if (number < 0)
        return 0;
    const uint32_t before = r->n_bases;
    unsigned char *at = (unsigned char *)(r->table + r->room) + (size_t)i * CLEF_MAX_ARGS_BYTES;
    *stage = (fused_stage){.number = (args_uint)number,
                           .n_groups = l->groups[0] * l->groups[1] * l->groups[2],
                           .groups = {l->groups[0], l->groups[1]},
                           .args = (args_uint)((size_t)(at - (unsigned char *)r->table) / sizeof(args_uint))};
    memcpy(at, l->args, l->args_bytes);
    for (uint32_t k = 0; k < FUSED_BUFS; k++) {
        const cl_mem mem = k < l->n_bufs ? plan->list[number_of_launch]->bufs[k] : NULL;
        stage->base[k] = FUSED_NONE;
        if (mem && !place(r, mem, &stage->base[k], &stage->at[k])) {
            r->n_bases = before;
            return 0;
        }
    }
    return 1;
}

static void find_parts(const clef_plan *plan, struct clef_fused *r)
{
    r->n_parts = 0;
    r->n_bases = 0;
    for (int32_t i = 0; i < plan->n_launches * r->repeats; i++) {
        const int is_fused = lay_stage(plan, r, i);
        part *last = r->n_parts ? &r->parts[r->n_parts - 1] : NULL;
        if (is_fused && last && last->is_fused)
            last->n++;
        else
            r->parts[r->n_parts++] = (part){(uint32_t)i, 1, is_fused};
    }
}

static cl_int write_list(const clef_plan *plan, struct clef_fused *r)
{
    const size_t n_bytes = (size_t)r->room * STAGE_BYTES;
    const cl_mem heads[] = {r->sync, r->list};
    cl_int code =
        clEnqueueWriteBuffer(plan->dev->queue, r->list, CL_TRUE, 0, n_bytes, r->table, 0, NULL, NULL);
    for (cl_uint i = 0; i < 2 && !code; i++)
        code = clSetKernelArg(r->kernel, i + 1, sizeof heads[i], &heads[i]);
    for (cl_uint i = 0; i < FUSED_BASES && !code; i++)
        code = clSetKernelArg(r->kernel, i + 3, sizeof *r->bases, i < r->n_bases ? &r->bases[i] : NULL);
    return code;
}

/* What the fused step takes of the present list: most of it, or nothing. */
static void lay(const clef_plan *plan, struct clef_fused *r)
{
    uint32_t is_fused = 0;
    r->state = UNFIT;
    const int32_t n = plan->n_launches * r->repeats;
    if (r->room < n) /* a longer list than that of one row: launch by launch, as it was planned */
        return;
    find_parts(plan, r);
    for (int32_t i = 0; i < r->n_parts; i++)
        is_fused += r->parts[i].is_fused && r->parts[i].n >= SHORTEST ? r->parts[i].n : 0;
    if (2 * is_fused >= (uint32_t)n && !write_list(plan, r))
        r->state = LAID;
}

/* ---- running
 * ---------------------------------------------------------------------------------------------------------------------
 */

static clef_status enqueue_part(const clef_plan *plan, struct clef_fused *r, const part *p, clef_error *err)
{
    if (!p->is_fused)
        return clef__plan_enqueue_launch(plan, (int32_t)p->first % plan->n_launches, err);
    const fused_args args = {p->first, p->n};
    const size_t groups = plan->dev->info.caps.n_units > 1 ? (size_t)plan->dev->info.caps.n_units : 1,
                 one = 1;
    cl_int code = CL_SUCCESS;
    if (clef__broken_at("fused")) /* tests: as if it wrote nothing */
        return CLEF_OK;
    if (r->set.first != args.first || r->set.n != args.n)
        code = clSetKernelArg(r->kernel, 0, sizeof args, &args);
    r->set = args;
    if (!code)
        code = clEnqueueNDRangeKernel(plan->dev->queue, r->kernel, 1, NULL, &groups, &one, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueNDRangeKernel", "the plan's fused step", code) : CLEF_OK;
}

/* What the child has come to. */
static void look(clef_plan *plan, struct clef_fused *r)
{
    const clef_fused_news news = clef__fused_news(plan->dev, r->job);
    if (news == CLEF_FUSED_WAITS)
        return;
    if (news == CLEF_FUSED_NONE || take(plan, CLEF_LINK_FOUND, NULL))
        clef__fused_release(plan);
    else
        clef__replay_drop(plan);
}

int clef__fused_run(clef_plan *plan, clef_status *status, clef_error *err)
{
    if (plan->fused && !plan->fused->kernel)
        look(plan, plan->fused);
    struct clef_fused *r = plan->fused;
    if (!r || !r->kernel)
        return 0;
    if (r->state == NOT_LAID)
        lay(plan, r);
    if (r->state != LAID)
        return 0;
    *status = CLEF_OK;
    for (int32_t i = 0; i < r->n_parts && !*status; i++)
        *status = enqueue_part(plan, r, &r->parts[i], err);
    return 1;
}
