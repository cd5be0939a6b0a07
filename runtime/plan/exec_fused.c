/* The executor of fused steps: it decides which launches a step contains, lays out the list of substeps, and
 * gets the program. */
#include "runtime/plan/fused.h"

#include <stdlib.h>
#include <string.h>

#include "cl/args.h"
#include "runtime/device/broken.h"
#include "runtime/os/debug.h"
#include "runtime/plan/together.h"

enum {
    LINE_BYTES = 64,
    SHORTEST = 2 /* the fewest launches that are worth a fused step */,
    SUBSTEP_BYTES = sizeof(fused_stage) + CLEF_MAX_ARGS_BYTES
};

/* A segment of the list: launches that the fused step runs together, or one launch that it cannot run. */
typedef struct segment {
    uint32_t first, n;
    int32_t is_fused;
} segment;

typedef struct fused_step {
    clef_fused_kinds kinds;
    cl_kernel kernel;    /* NULL: a child is building it */
    clef_fused_job *job; /* that child; attached to the device */
    int32_t repeats;     /* how often the list runs in a row */
    cl_mem sync, list;   /* for `room` launches */
    int32_t room;
    fused_args set; /* the kernel's argument */
    cl_mem bases[FUSED_BASES];
    uint32_t n_bases;
    fused_stage *table; /* the list: `room` substeps, then as many blocks of arguments */
    segment *segments;
    int32_t n_segments;
    enum { NOT_LAID_OUT, LAID_OUT, UNFIT } layout; /* state of the current list */
    int32_t is_exchanging;                         /* 1: of that layout; plan->exchange */
    int32_t n_sums;                                /* over ranks in it, */
    uint64_t sum_bytes;                            /* and what they send to others */
} fused_step;

/* ---- making ---------------------------------------------------------------------------------- */

static int32_t find_kind(const fused_step *r, const clef_fused_kind *kind)
{
    for (int32_t i = 0; i < r->kinds.n; i++)
        if (clef__fused_same(&r->kinds.at[i], kind))
            return i;
    return -1;
}

static void add_kind(fused_step *r, const clef_fused_kind *kind)
{
    if (find_kind(r, kind) < 0 && r->kinds.n < CLEF_FUSED_KINDS)
        r->kinds.at[r->kinds.n++] = *kind;
}

/* The substep that takes the place of launch i. Returns 0 if none does. */
static int kind_of(const clef_plan *plan, int32_t i, clef_fused_kind *out)
{
    const clef_launch *l = &plan->launches[i];
    return l->call == CLEF_CALL_EXCHANGE ? clef__fused_exchange_kind(plan, l, out)
                                         : clef__fused_kind_of(l, out);
}

static void find_kinds(const clef_plan *plan, fused_step *r)
{
    for (int32_t i = 0; i < plan->n_launches; i++) {
        clef_fused_kind kind, other;
        if (!kind_of(plan, i, &kind))
            continue;
        add_kind(r, &kind);
        if (clef__fused_companion(&kind, &other))
            add_kind(r, &other);
    }
}

static int has_states(const clef_graph *g)
{
    int32_t i = 0;
    while (i < g->n_values && g->values[i]->kind != CLEF_STATE)
        i++;
    return i < g->n_values;
}

static int can_serve(const clef_plan *plan)
{
    const clef_caps *caps = &plan->dev->info.caps;
    return plan->hooks && !plan->opts.no_fused_step && !plan->opts.states_of && caps->is_cpu &&
           caps->unified_memory && !plan->dev->profile && !clef__debug_is("fused", "0") &&
           has_states(plan->graph);
}

uint64_t clef__fused_bytes(const clef_plan *plan)
{
    fused_step r = {0};
    if (!can_serve(plan))
        return 0;
    find_kinds(plan, &r);
    return r.kinds.n < SHORTEST ? 0 : (uint64_t)plan->n_launches * (2 * LINE_BYTES + SUBSTEP_BYTES);
}

/* A launch without substeps, for drivers that compile at the first launch. */
static clef_status run_once(const clef_plan *plan, fused_step *r, clef_error *err)
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

static void release_lists(fused_step *r)
{
    const cl_mem mems[] = {r->sync, r->list};
    for (size_t i = 0; i < sizeof mems / sizeof *mems; i++)
        if (mems[i])
            clReleaseMemObject(mems[i]);
    r->sync = r->list = NULL;
    free(r->table);
    free(r->segments);
    r->table = NULL;
    r->segments = NULL;
    r->room = 0;
}

/* Makes room for a list of n launches. The device is idle. Returns 0 when out of memory. */
static int make_room(const clef_plan *plan, fused_step *r, int32_t n)
{
    const size_t count = (size_t)n, sync_bytes = count * 2 * LINE_BYTES;
    const cl_context context = plan->dev->context;
    cl_int code[2], filled = CL_SUCCESS;
    release_lists(r);
    r->table = calloc(count, SUBSTEP_BYTES);
    r->segments = calloc(count, sizeof *r->segments);
    r->sync = clCreateBuffer(context, CL_MEM_READ_WRITE, sync_bytes, NULL, &code[0]);
    r->list = clCreateBuffer(context, CL_MEM_READ_ONLY, count * SUBSTEP_BYTES, NULL, &code[1]);
    if (r->sync)
        filled = clef__device_fill(plan->dev, r->sync, 0, sync_bytes);
    const int made = r->table && r->segments && r->sync && r->list && !filled;
    if (made)
        r->room = n;
    else
        release_lists(r);
    return made;
}

/* Makes a fused step without a program, with buffers for n launches. */
static clef_status make_empty(clef_plan *plan, int32_t n, clef__execution *e, clef_error *err)
{
    fused_step *r = e->state = calloc(1, sizeof *r);
    if (!r || !make_room(plan, r, n))
        return clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for %d substeps", (int)n);
    r->repeats = 1;
    return CLEF_OK;
}

/* Gets the program: from memory or disk, or by building it here. */
static clef_status load_program(clef_plan *plan, fused_step *r, clef_joining how, clef_error *err)
{
    const clef_status s = clef__fused_create(plan->dev, &r->kinds, how, &r->kernel, err);
    return s ? s : run_once(plan, r, err);
}

static clef_status zero_states(void *user, clef_error *err)
{
    return clef__plan_zero_states(user, err);
}

/* Checks a program that was built here. One that fails is not saved. */
static clef_status build_here(clef_plan *plan, fused_step *r, clef_error *err)
{
    const clef_fused_trial step = {1, zero_states, plan};
    const int32_t built = plan->dev->n_built;
    clef_status s = load_program(plan, r, CLEF_JOIN_BUILD, err);
    if (!s && plan->dev->n_built > built)
        s = plan->hooks->fused->check(plan, &step, err);
    if (s && r->kernel)
        clef__program_forget(plan->dev, r->kernel);
    return s;
}

/* Lets a child build it. A caller that measures waits for the child. */
static clef_status build_in_child(clef_plan *plan, fused_step *r, clef_error *err)
{
    const clef__fused_builder *by = plan->hooks->fused;
    clef_status s = by->start(plan, &r->kinds, &r->job, err);
    if (!s && !clef__background_allowed(plan->dev))
        s = by->wait(plan, r->job, err);
    if (s)
        return s;
    const clef_fused_build build = by->poll(plan->dev, r->job);
    return build == CLEF_FUSED_BUILDING ? CLEF_OK
           : build == CLEF_FUSED_BUILT
               ? load_program(plan, r, CLEF_JOIN_FOUND, err)
               : clef__fail(err, CLEF_E_UNSUPPORTED, "fused step: set aside on %s", plan->dev->info.name);
}

/* Makes a fused step for the current list. */
static clef_status make_step(clef_plan *plan, clef__execution *e, clef_error *err)
{
    fused_step found = {0};
    find_kinds(plan, &found);
    if (found.kinds.n < SHORTEST)
        return CLEF_OK;
    clef_status s = make_empty(plan, plan->n_launches, e, err);
    fused_step *r = e->state;
    if (s)
        return s;
    r->kinds = found.kinds;
    if (!plan->hooks->fused->uses_children(plan) || clef__debug_is("fused", "1"))
        return build_here(plan, r, err);
    s = load_program(plan, r, CLEF_JOIN_FOUND, err);
    if (s == CLEF_E_NOT_FOUND)
        s = build_in_child(plan, r, err);
    return s == CLEF_E_NOT_FOUND || s == CLEF_E_IO /* no child can be started */ ? build_here(plan, r, err)
                                                                                 : s;
}

static void invalidate_layout(clef_plan *plan, clef__execution *e)
{
    (void)plan;
    if (e->state)
        ((fused_step *)e->state)->layout = NOT_LAID_OUT;
}

static void release_step(clef_plan *plan, clef__execution *e)
{
    fused_step *r = e->state;
    (void)plan;
    if (!r)
        return;
    release_lists(r);
    if (r->kernel)
        clReleaseKernel(r->kernel);
    free(r);
    e->state = NULL;
}

/* Lowers the plan with every symbol at 1, so that the list must be made again afterwards. */
static clef_status prepare_step(clef_plan *plan, clef__execution *e, clef_error *err)
{
    int64_t symbols[CLEF_MAX_SYMBOLS];
    clef_error why = {0};
    if (!can_serve(plan))
        return CLEF_OK;
    memcpy(symbols, plan->symbols, sizeof symbols);
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        plan->symbols[i] = 1;
    clef_status s = clef__plan_lower(plan, &why);
    if (!s)
        s = clef__plan_bind_launches(plan, &why);
    if (!s)
        s = make_step(plan, e, &why);
    memcpy(plan->symbols, symbols, sizeof symbols);
    plan->stale = 1;
    invalidate_layout(plan, e);
    if (s)
        release_step(plan, e);
    if (!s || (s != CLEF_E_CANCELLED && !clef__debug_is("fused", "1")))
        return CLEF_OK;
    if (err)
        *err = why;
    return s;
}

/* ---- laying out a list ----------------------------------------------------------------------- */

/* Finds the place of `mem`: a base, and the offset from it in units. Returns 0 when it cannot be expressed
 * so. */
static int locate_buffer(fused_step *r, cl_mem mem, args_uint *base, args_uint *at)
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

/* Fills what differs in a sum over ranks: it has arguments and a buffer that its launch has not. Outside of
 * runs of all ranks the host does the exchange, with this rank alone. */
static int fill_exchange(const clef_plan *plan, fused_step *r, const clef_launch *l, fused_stage *substep,
                         unsigned char *args)
{
    const clef__device_sums *sums = clef__device_sums_of(plan->dev);
    const clef_exchange_call *call = l->args;
    const exchange_args a = clef__device_sum_args(sums, (uint32_t)(call->n_bytes / sizeof(float)));
    if (!plan->exchange ||
        !locate_buffer(r, sums->memory, &substep->base[l->n_bufs], &substep->at[l->n_bufs]))
        return 0;
    memcpy(args, &a, sizeof a);
    substep->n_groups = substep->groups[0] = substep->groups[1] = 1;
    r->n_sums++;
    r->sum_bytes += call->n_bytes * (uint64_t)(sums->args.n_ranks - 1);
    return 1;
}

/* Fills row i of the table. Returns 0 when the launch cannot be a substep of this fused step. */
static int fill_substep(const clef_plan *plan, fused_step *r, int32_t i)
{
    const int32_t launch_index = i % plan->n_launches;
    const clef_launch *l = &plan->launches[launch_index];
    fused_stage *substep = &r->table[i];
    clef_fused_kind kind;
    const int32_t number = kind_of(plan, launch_index, &kind) && !clef__broken(l) ? find_kind(r, &kind) : -1;
    if (number < 0)
        return 0;
    const uint32_t before = r->n_bases;
    unsigned char *at = (unsigned char *)(r->table + r->room) + (size_t)i * CLEF_MAX_ARGS_BYTES;
    *substep =
        (fused_stage){.number = (args_uint)number,
                      .n_groups = l->groups[0] * l->groups[1] * l->groups[2],
                      .groups = {l->groups[0], l->groups[1]},
                      .args = (args_uint)((size_t)(at - (unsigned char *)r->table) / sizeof(args_uint))};
    if (l->call == CLEF_CALL_KERNEL)
        memcpy(at, l->args, l->args_bytes);
    for (uint32_t k = 0; k < FUSED_BUFS; k++) {
        const cl_mem mem = k < l->n_bufs ? clef__plan_buffer_of(plan, l->bufs[k]) : NULL;
        substep->base[k] = FUSED_NONE;
        if (mem && !locate_buffer(r, mem, &substep->base[k], &substep->at[k])) {
            r->n_bases = before;
            return 0;
        }
    }
    if (l->call != CLEF_CALL_EXCHANGE || fill_exchange(plan, r, l, substep, at))
        return 1;
    r->n_bases = before;
    return 0;
}

static void split_list(const clef_plan *plan, fused_step *r)
{
    r->n_segments = r->n_sums = 0;
    r->n_bases = 0;
    r->sum_bytes = 0;
    r->is_exchanging = plan->exchange != NULL;
    for (int32_t i = 0; i < plan->n_launches * r->repeats; i++) {
        const int is_fused = fill_substep(plan, r, i);
        segment *last = r->n_segments ? &r->segments[r->n_segments - 1] : NULL;
        if (is_fused && last && last->is_fused)
            last->n++;
        else
            r->segments[r->n_segments++] = (segment){(uint32_t)i, 1, is_fused};
    }
}

static cl_int write_list(const clef_plan *plan, fused_step *r)
{
    const size_t n_bytes = (size_t)r->room * SUBSTEP_BYTES;
    const cl_mem heads[] = {r->sync, r->list};
    cl_int code =
        clEnqueueWriteBuffer(plan->dev->queue, r->list, CL_TRUE, 0, n_bytes, r->table, 0, NULL, NULL);
    for (cl_uint i = 0; i < 2 && !code; i++)
        code = clSetKernelArg(r->kernel, i + 1, sizeof heads[i], &heads[i]);
    for (cl_uint i = 0; i < FUSED_BASES && !code; i++)
        code = clSetKernelArg(r->kernel, i + 3, sizeof *r->bases, i < r->n_bases ? &r->bases[i] : NULL);
    return code;
}

/* Decides whether the fused step runs most of the current list, or none of it. */
static void lay_out_list(const clef_plan *plan, fused_step *r)
{
    uint32_t is_fused = 0;
    r->layout = UNFIT;
    const int32_t n = plan->n_launches * r->repeats;
    if (r->room < n) /* the list is longer than that of one row: use plain launches */
        return;
    split_list(plan, r);
    for (int32_t i = 0; i < r->n_segments; i++)
        is_fused += r->segments[i].is_fused && r->segments[i].n >= SHORTEST ? r->segments[i].n : 0;
    if (2 * is_fused >= (uint32_t)n && !write_list(plan, r))
        r->layout = LAID_OUT;
}

/* ---- running --------------------------------------------------------------------------------- */

static clef_status enqueue_segment(const clef_plan *plan, fused_step *r, const segment *p, clef_error *err)
{
    if (!p->is_fused)
        return clef__plan_enqueue_launch(plan, (int32_t)p->first % plan->n_launches, err);
    const fused_args args = {p->first, p->n};
    const size_t groups = plan->dev->info.caps.n_units > 1 ? (size_t)plan->dev->info.caps.n_units : 1,
                 one = 1;
    cl_int code = CL_SUCCESS;
    if (clef__broken_at("fused")) /* for tests: as if it wrote nothing */
        return CLEF_OK;
    if (r->set.first != args.first || r->set.n != args.n)
        code = clSetKernelArg(r->kernel, 0, sizeof args, &args);
    r->set = args;
    if (!code)
        code = clEnqueueNDRangeKernel(plan->dev->queue, r->kernel, 1, NULL, &groups, &one, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueNDRangeKernel", "the plan's fused step", code) : CLEF_OK;
}

/* Loads the program when the child has built it. A recording of the same launches is then released. */
static void poll_child(clef_plan *plan, clef__execution *e)
{
    fused_step *r = e->state;
    const clef_fused_build build = plan->hooks->fused->poll(plan->dev, r->job);
    if (build == CLEF_FUSED_BUILDING)
        return;
    if (build == CLEF_FUSED_FAILED || load_program(plan, r, CLEF_JOIN_FOUND, NULL))
        release_step(plan, e);
    else
        clef__plan_invalidate_executors(plan);
}

static int run_step(clef_plan *plan, clef__execution *e, clef_status *status, clef_error *err)
{
    if (e->state && !((fused_step *)e->state)->kernel)
        poll_child(plan, e);
    fused_step *r = e->state;
    if (!r || !r->kernel || plan->n_marks) /* a fused step has no events within it */
        return 0;
    if (r->layout == NOT_LAID_OUT || r->is_exchanging != (plan->exchange != NULL))
        lay_out_list(plan, r);
    if (r->layout != LAID_OUT)
        return 0;
    *status = CLEF_OK;
    if (r->n_sums)
        plan->dev->together->sums_began(plan->dev, r->sum_bytes);
    for (int32_t i = 0; i < r->n_segments && !*status && !plan->stopped; i++)
        if ((int32_t)r->segments[i].first >= plan->begin) /* a run stops between segments */
            *status = enqueue_segment(plan, r, &r->segments[i], err);
    return 1;
}

const clef__executor clef__exec_fused = {.name = "fused step",
                                         .prepare = prepare_step,
                                         .run = run_step,
                                         .invalidate = invalidate_layout,
                                         .release = release_step};

/* ---- for the trial of a fused step ------------------------------------------------------------ */

clef_status clef__fused_attach(clef_plan *plan, const clef_fused_kinds *kinds, int32_t repeats,
                               clef_error *err)
{
    clef__execution *e = clef__plan_executor(plan, &clef__exec_fused);
    if (!e)
        e = clef__plan_add_executor(plan, &clef__exec_fused);
    const clef_status s = make_empty(plan, plan->n_launches * repeats, e, err);
    fused_step *r = e->state;
    if (s)
        return s;
    r->kinds = *kinds;
    r->repeats = repeats;
    return load_program(plan, r, CLEF_JOIN_FOUND, err);
}

void clef__fused_detach(clef_plan *plan)
{
    clef__execution *e = clef__plan_executor(plan, &clef__exec_fused);
    if (e)
        release_step(plan, e);
}

int clef__fused_run(clef_plan *plan, clef_status *status, clef_error *err)
{
    clef__execution *e = clef__plan_executor(plan, &clef__exec_fused);
    return e && run_step(plan, e, status, err);
}
