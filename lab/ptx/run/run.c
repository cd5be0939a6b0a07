/* Executes launches. Each work-item has its place in the code; of a warp, the work-items at the lowest
 * place go on, until others are as low. What a whole warp or group does together waits until all have
 * come, and a fault is reported if some cannot. Warps of a group take turns of random length, groups
 * are in random order. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/ptx/run/group.h"
#include "lab/ptx/run/races.h"

enum { GOES_ON, AT_BARRIER, ENDED };
enum { NOWHERE = 0xFFFFFFFF };

/* ---- faults ---------------------------------------------------------------------------------- */

static void describe(ptx_warp *w, uint32_t item, const char *what)
{
    ptx_group *g = w->group;
    const ptx_insn *i = &g->launch->kernel->code[w->pc];
    const uint32_t *n = g->launch->items;
    snprintf(g->why, sizeof g->why, "kernel %s, group %u,%u,%u, work-item %u,%u,%u, line %u, %.*s: %s",
             g->launch->kernel->name, g->at[0], g->at[1], g->at[2], item % n[0], item / n[0] % n[1],
             item / n[0] / n[1], i->line, i->n_text < 90 ? i->n_text : 90, i->text, what);
    for (char *c = g->why; *c; c++)
        *c = *c == '\n' || *c == '\t' ? ' ' : *c;
}

void ptx_fault(ptx_warp *w, int lane, const char *format, ...)
{
    char what[PTX_MESSAGE / 2];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    describe(w, w->first + (uint32_t)lane, what);
    longjmp(w->group->failed, 1);
}

static int first_lane(uint32_t mask)
{
    return __builtin_ctz(mask);
}

/* ---- the work-items of a warp ------------------------------------------------------------------ */

static void set_mask(ptx_warp *w, uint32_t mask)
{
    w->mask = mask;
    w->partly = (~mask & w->live) != 0;
    if (w->partly)
        LANES_FREE w->on[l] = 0u - (mask >> l & 1u);
}

static void leave(ptx_warp *w, uint32_t lanes, uint32_t pc)
{
    LANES if (lanes >> l & 1) w->pcs[l] = pc;
}

/* All that wait are at one place, or never will be. */
static void gather(ptx_warp *w)
{
    const int lane = first_lane(w->waiting);
    w->pc = w->pcs[lane];
    LANES if (w->waiting >> l & 1 && w->pcs[l] != w->pc)
    {
        const ptx_insn *other = &w->group->launch->kernel->code[w->pcs[l]];
        const int is_barrier = w->group->launch->kernel->code[w->pc].flow == PTX_BARRIER;
        ptx_fault(w, lane, "%s in divergent flow: work-item %u of the warp waits in line %u, %.*s",
                  is_barrier ? "barrier" : "instruction of a whole warp", w->first + (uint32_t)l, other->line,
                  other->n_text < 60 ? other->n_text : 60, other->text);
    }
    w->active = w->waiting;
    w->waiting = 0;
    w->other_pc = NOWHERE;
}

/* Goes on with the work-items at the lowest place. pcs is right of all that are not active; of active
 * ones, after leave(). */
static void reschedule(ptx_warp *w)
{
    const uint32_t ready = w->live & ~w->waiting;
    uint32_t lowest = NOWHERE, next = NOWHERE, active = 0;
    if (!ready) {
        if (w->waiting)
            gather(w);
        return;
    }
    LANES if (ready >> l & 1 && w->pcs[l] < lowest) lowest = w->pcs[l];
    LANES if (ready >> l & 1)
    {
        if (w->pcs[l] == lowest)
            active |= 1u << l;
        else if (w->pcs[l] < next)
            next = w->pcs[l];
    }
    w->active = active;
    w->pc = lowest;
    w->other_pc = next;
}

static void go_to(ptx_warp *w, uint32_t pc)
{
    w->pc = pc;
    if (pc >= w->other_pc) {
        leave(w, w->active, pc);
        reschedule(w);
    }
}

/* Returns 1 when the active work-items are all of the warp. Else they wait. */
static int all_here(ptx_warp *w)
{
    uint32_t here = w->active;
    LANES if (w->waiting >> l & 1 && w->pcs[l] == w->pc) here |= 1u << l;
    if (here == w->live) {
        w->active = here;
        w->waiting = 0;
        return 1;
    }
    leave(w, w->active, w->pc);
    w->waiting |= w->active;
    reschedule(w);
    return 0;
}

static void branch(ptx_warp *w, const ptx_insn *i, uint32_t taken)
{
    if (taken == w->active) {
        go_to(w, i->target);
    } else if (!taken) {
        go_to(w, w->pc + 1);
    } else {
        leave(w, taken, i->target);
        leave(w, w->active & ~taken, w->pc + 1);
        reschedule(w);
    }
}

static int return_lanes(ptx_warp *w, uint32_t lanes)
{
    leave(w, w->active & ~lanes, w->pc + 1);
    w->live &= ~lanes;
    if (!w->live)
        return ENDED;
    reschedule(w);
    return GOES_ON;
}

static int at_barrier(ptx_warp *w)
{
    if (!all_here(w))
        return GOES_ON;
    if (w->live != w->born)
        ptx_fault(w, first_lane(w->live), "barrier in divergent flow: work-item %u has returned",
                  w->first + (uint32_t)first_lane(w->born & ~w->live));
    return AT_BARRIER;
}

static int do_flow(ptx_warp *w, const ptx_insn *i, uint32_t mask)
{
    switch (i->flow) {
    case PTX_BRANCH:
        branch(w, i, mask);
        return GOES_ON;
    case PTX_RETURN:
        return return_lanes(w, mask);
    case PTX_BARRIER:
        return at_barrier(w);
    default:
        if (all_here(w)) {
            set_mask(w, w->active);
            i->act(w, i);
            w->group->count.items += (uint64_t)__builtin_popcount(w->active);
            w->pc++;
        }
        return GOES_ON;
    }
}

/* One turn of at most `most` instructions. */
static int run_warp(ptx_warp *w, uint32_t most)
{
    const ptx_insn *code = w->group->launch->kernel->code;
    int state = GOES_ON;
    for (uint32_t n = 0; n < most && state == GOES_ON; n++) {
        const ptx_insn *i = code + w->pc;
        uint32_t mask = w->active;
        if (i->guard) {
            const uint32_t p = *(const uint32_t *)(const void *)(w->file + i->guard);
            mask &= i->guard_not ? ~p : p;
        }
        w->group->count.warps++;
        if (i->flow != PTX_PLAIN) {
            w->group->count.items += (uint64_t)__builtin_popcount(w->active);
            state = do_flow(w, i, mask);
            continue;
        }
        if (mask) {
            if (mask != w->mask || (~mask & w->live) != 0)
                set_mask(w, mask);
            i->act(w, i);
            w->group->count.items += (uint64_t)__builtin_popcount(mask);
        }
        if (++w->pc >= w->other_pc)
            go_to(w, w->pc);
    }
    return state;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint32_t draw(uint64_t *state, uint32_t n)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return (uint32_t)((x >> 20) * 0x9E3779B97F4A7C15u >> 33) % n;
}

static void set_lanes(ptx_warp *w, uint32_t at, uint32_t value)
{
    LANES((uint32_t *)(void *)(w->file + at))[l] = value;
}

static void start_warp(ptx_group *g, uint32_t index)
{
    ptx_warp *w = &g->warps[index];
    const uint32_t *n = g->launch->items, left = g->n_items - index * PTX_LANES;
    w->group = g;
    w->first = index * PTX_LANES;
    w->born = w->live = w->active = left < PTX_LANES ? (1u << left) - 1 : ~0u;
    w->waiting = w->pc = 0;
    w->other_pc = NOWHERE;
    w->state = GOES_ON;
    set_mask(w, w->live);
    for (uint32_t d = 0; d < 3; d++) {
        set_lanes(w, PTX_AT_CTAID + d * 128, g->at[d]);
        LANES
        {
            const uint32_t item = w->first + (uint32_t)l;
            const uint32_t id[3] = {item % n[0], item / n[0] % n[1], item / n[0] / n[1]};
            ((uint32_t *)(void *)(w->file + PTX_AT_TID + d * 128))[l] = id[d];
        }
    }
}

/* No warp goes on: all have to be at the same barrier. A new epoch begins. */
static void pass_barrier(ptx_group *g)
{
    ptx_warp *here = g->warps;
    while (here->state != AT_BARRIER)
        here++;
    for (uint32_t k = 0; k < g->n_warps; k++) {
        const ptx_warp *w = &g->warps[k];
        if (w->state == ENDED || w->pc != here->pc)
            ptx_fault(here, 0, "barrier in divergent flow: work-item %u %s", w->first,
                      w->state == ENDED ? "has returned" : "waits at another one");
    }
    for (uint32_t k = 0; k < g->n_warps; k++) {
        g->warps[k].state = GOES_ON;
        g->warps[k].pc++;
    }
    g->epoch++;
}

static void run_warps(ptx_group *g)
{
    uint32_t going = g->n_warps, waiting = 0;
    while (going) {
        uint32_t k = draw(&g->random, g->n_warps);
        while (g->warps[k].state != GOES_ON)
            k = (k + 1) % g->n_warps;
        ptx_warp *w = &g->warps[k];
        w->state = run_warp(w, 1 + draw(&g->random, 2000));
        going -= w->state != GOES_ON;
        waiting += w->state == AT_BARRIER;
        if (!going && waiting) {
            pass_barrier(g);
            going = g->n_warps;
            waiting = 0;
        }
    }
}

/* Returns 1 after a fault. */
static int run_group(ptx_group *g)
{
    if (g->epoch > PTX_MAX_EPOCH) {
        memset(g->shadow, 0, (g->local_bytes + 1) * sizeof *g->shadow);
        g->epoch = 0;
    }
    g->first_epoch = ++g->epoch;
    for (uint32_t k = 0; k < g->n_warps; k++)
        start_warp(g, k);
    if (setjmp(g->failed))
        return 1;
    run_warps(g);
    return 0;
}

/* ---- workers --------------------------------------------------------------------------------- */

typedef struct work {
    const ptx_launch *launch;
    ptx_slot slots[PTX_MAX_SLOTS];
    unsigned char *params, *is_array;
    size_t local_bytes;
    uint64_t n_groups, step;
    atomic_uint_fast64_t next;
    atomic_int failed, no_memory;
    ptx_count count;
    char *why;
    pthread_mutex_t lock;
} work;

static void fill_file(ptx_warp *w, const ptx_launch *launch)
{
    const ptx_kernel *k = launch->kernel;
    memset(w->file, 0xFF, k->file_bytes); /* registers that nobody wrote */
    for (uint32_t d = 0; d < 3; d++) {
        set_lanes(w, PTX_AT_NTID + d * 128, launch->items[d]);
        set_lanes(w, PTX_AT_NCTAID + d * 128, launch->groups[d]);
    }
    set_lanes(w, PTX_AT_NWARP, launch->resident_warps);
    LANES((uint32_t *)(void *)(w->file + PTX_AT_LANE))[l] = (uint32_t)l;
    for (uint32_t c = 0; c < k->n_constants; c++)
        LANES
        {
            const ptx_constant *it = &k->constants[c];
            if (it->wide)
                ((uint64_t *)(void *)(w->file + it->at))[l] = it->value;
            else
                ((uint32_t *)(void *)(w->file + it->at))[l] = (uint32_t)it->value;
        }
}

static void free_group(ptx_group *g)
{
    for (uint32_t k = 0; g->warps && k < g->n_warps; k++)
        free(g->warps[k].file);
    free(g->warps);
    free(g->local);
    free(g->privates);
    free(g->shadow);
    ptx_races_destroy(g->races);
    free(g);
}

static ptx_group *make_group(work *job)
{
    const ptx_launch *launch = job->launch;
    ptx_group *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->launch = launch;
    g->slots = job->slots;
    g->params = job->params;
    g->is_array = job->is_array;
    g->local_bytes = job->local_bytes;
    g->n_items = launch->items[0] * launch->items[1] * launch->items[2];
    g->n_warps = (g->n_items + PTX_LANES - 1) / PTX_LANES;
    g->warps = calloc(g->n_warps, sizeof *g->warps);
    g->local = aligned_alloc(64, (job->local_bytes + 64) / 64 * 64);
    g->shadow = calloc(job->local_bytes + 1, sizeof *g->shadow);
    g->privates = malloc(launch->kernel->private_bytes * g->n_warps * PTX_LANES + 1);
    if (launch->finds_races)
        g->races = ptx_races_create(launch->kernel->global_granule);
    int whole = g->warps && g->local && g->shadow && g->privates && (g->races || !launch->finds_races);
    for (uint32_t k = 0; whole && k < g->n_warps; k++) {
        g->warps[k].file = aligned_alloc(64, (launch->kernel->file_bytes + 63) / 64 * 64);
        whole = g->warps[k].file != NULL;
        if (whole)
            fill_file(&g->warps[k], launch);
    }
    if (whole) {
        memset(g->local, 0xFF, job->local_bytes);
        memset(g->privates, 0xFF, launch->kernel->private_bytes * g->n_warps * PTX_LANES);
        return g;
    }
    free_group(g);
    return NULL;
}

static void place_group(ptx_group *g, const work *job, uint64_t index)
{
    const uint32_t *n = g->launch->groups;
    const uint64_t at = index * job->step % job->n_groups;
    g->at[0] = (uint32_t)(at % n[0]);
    g->at[1] = (uint32_t)(at / n[0] % n[1]);
    g->at[2] = (uint32_t)(at / n[0] / n[1]);
    g->random = (job->launch->seed + at) * 0x9E3779B97F4A7C15u | 1;
}

static void *work_on(void *of)
{
    work *job = of;
    ptx_group *g = make_group(job);
    uint64_t index;
    if (!g) {
        atomic_store(&job->no_memory, 1);
        return NULL;
    }
    while (!atomic_load(&job->failed) && (index = atomic_fetch_add(&job->next, 1)) < job->n_groups) {
        place_group(g, job, index);
        if (run_group(g) && !atomic_exchange(&job->failed, 1))
            memcpy(job->why, g->why, PTX_MESSAGE);
    }
    pthread_mutex_lock(&job->lock);
    job->count.items += g->count.items;
    job->count.warps += g->count.warps;
    pthread_mutex_unlock(&job->lock);
    free_group(g);
    return NULL;
}

/* Groups in an order that visits all: a step that has no factor in common with their number. */
static uint64_t step_of(uint64_t n_groups, uint64_t seed)
{
    uint64_t step = n_groups > 2 ? 1 + seed * 0x9E3779B97F4A7C15u % n_groups : 1;
    for (;; step++) {
        uint64_t a = step, b = n_groups;
        while (b) {
            const uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

/* Parameters, and where the kernel's arrays and the arguments in local memory are. */
static int lay_out(work *job)
{
    const ptx_launch *launch = job->launch;
    const ptx_kernel *k = launch->kernel;
    job->local_bytes = k->local_bytes;
    for (int i = 0; i < k->n_params; i++)
        job->local_bytes += launch->args[i].kind == PTX_LOCAL ? (launch->args[i].n + 127) / 64 * 64 : 0;
    job->params = calloc(1, k->param_bytes + 16);
    job->is_array = calloc(1, job->local_bytes + 1);
    if (!job->params || !job->is_array)
        return 0;
    for (int i = 0; i < k->n_locals; i++)
        memset(job->is_array + k->locals[i].value / k->granule, 1,
               (k->locals[i].bytes + k->granule - 1) / k->granule);
    size_t local = k->local_bytes;
    for (int i = 0; i < k->n_params; i++) {
        const ptx_arg *a = &launch->args[i];
        uint64_t value = a->kind == PTX_LOCAL ? local : a->memory ? (uint64_t)(i + 1) << PTX_SLOT_BITS : 0;
        if (a->kind == PTX_LOCAL) {
            memset(job->is_array + local / k->granule, 1, (a->n + k->granule - 1) / k->granule);
            local += (a->n + 127) / 64 * 64;
        }
        job->slots[i + 1] = (ptx_slot){a->memory, a->kind == PTX_MEMORY && a->memory ? a->n : 0};
        memcpy(job->params + k->params[i].value, a->kind == PTX_BYTES ? a->bytes : &value,
               a->kind == PTX_BYTES || k->params[i].bytes < sizeof value ? k->params[i].bytes : sizeof value);
    }
    for (int i = 0; i < k->module->n_arrays; i++)
        job->slots[k->module->arrays[i].symbol.value >> PTX_SLOT_BITS] =
            (ptx_slot){k->module->arrays[i].data, k->module->arrays[i].symbol.bytes};
    return 1;
}

int ptx_run_launch(const ptx_launch *launch, ptx_count *count, char why[PTX_MESSAGE])
{
    enum { MOST_WORKERS = 64 };
    pthread_t threads[MOST_WORKERS];
    work job = {.launch = launch, .why = why, .lock = PTHREAD_MUTEX_INITIALIZER};
    int n = 0;
    why[0] = 0;
    job.n_groups = (uint64_t)launch->groups[0] * launch->groups[1] * launch->groups[2];
    job.step = step_of(job.n_groups, launch->seed);
    if (lay_out(&job)) {
        while (!launch->finds_races && n + 1 < launch->workers && n < MOST_WORKERS &&
               (uint64_t)n + 1 < job.n_groups && pthread_create(&threads[n], NULL, work_on, &job) == 0)
            n++;
        work_on(&job);
        while (n)
            pthread_join(threads[--n], NULL);
    } else {
        job.no_memory = 1;
    }
    free(job.params);
    free(job.is_array);
    if (job.no_memory && !job.failed)
        snprintf(why, PTX_MESSAGE, "kernel %s: no memory to execute it", launch->kernel->name);
    count->items += job.count.items;
    count->warps += job.count.warps;
    return job.failed || job.no_memory;
}
