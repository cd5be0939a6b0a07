/* Executes launches: groups in random order, shared by threads, and the warps of a group in turns of random
 * length. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/gpu/run/group.h"
#include "lab/gpu/run/races.h"

/* ---- faults ---------------------------------------------------------------------------------- */

static void describe(gpu_warp *w, uint32_t item, const char *what)
{
    gpu_group *g = w->group;
    const gpu_line *i = gpu_line_at(g->launch->kernel, w->pc);
    const gpu_launch *launch = g->launch;
    snprintf(g->why, sizeof g->why, "kernel %s, group %u,%u,%u, work-item %u,%u,%u, line %u, %.*s: %s",
             launch->kernel->name, g->at[0], g->at[1], g->at[2], gpu_item_id(launch, item, 0),
             gpu_item_id(launch, item, 1), gpu_item_id(launch, item, 2), i->line,
             i->n_text < 90 ? i->n_text : 90, i->text, what);
    for (char *c = g->why; *c; c++)
        *c = *c == '\n' || *c == '\t' ? ' ' : *c;
}

void gpu_fault(gpu_warp *w, uint32_t lane, const char *format, ...)
{
    char what[GPU_MESSAGE / 2];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    describe(w, w->first + lane, what);
    longjmp(w->group->failed, 1);
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

static gpu_warp *warp_at(const gpu_group *g, uint32_t k)
{
    return (gpu_warp *)(void *)(g->warps + k * g->launch->kernel->isa->warp_bytes);
}

/* No warp goes on: all have to be at the same barrier. A new epoch begins. */
static void pass_barrier(gpu_group *g)
{
    gpu_warp *here = NULL;
    for (uint32_t k = 0; !here || here->state != GPU_AT_BARRIER; k++)
        here = warp_at(g, k);
    for (uint32_t k = 0; k < g->n_warps; k++) {
        const gpu_warp *w = warp_at(g, k);
        if (w->state == GPU_ENDED || w->pc != here->pc)
            gpu_fault(here, 0, "barrier in divergent flow: work-item %u %s", w->first,
                      w->state == GPU_ENDED ? "has returned" : "waits at another one");
    }
    for (uint32_t k = 0; k < g->n_warps; k++) {
        warp_at(g, k)->state = GPU_GOES_ON;
        warp_at(g, k)->pc++;
    }
    g->epoch++;
}

static void run_warps(gpu_group *g)
{
    uint32_t going = g->n_warps, waiting = 0;
    while (going) {
        uint32_t k = draw(&g->random, g->n_warps);
        while (warp_at(g, k)->state != GPU_GOES_ON)
            k = (k + 1) % g->n_warps;
        gpu_warp *w = warp_at(g, k);
        w->state = g->launch->kernel->isa->turn(w, 1 + draw(&g->random, 2000));
        going -= w->state != GPU_GOES_ON;
        waiting += w->state == GPU_AT_BARRIER;
        if (!going && waiting) {
            pass_barrier(g);
            going = g->n_warps;
            waiting = 0;
        }
    }
}

static void start_warp(gpu_group *g, uint32_t k)
{
    gpu_warp *w = warp_at(g, k);
    w->group = g;
    w->first = k * g->launch->kernel->lanes;
    w->pc = 0;
    w->state = GPU_GOES_ON;
    g->launch->kernel->isa->start(w);
}

/* Returns 1 after a fault. */
static int run_group(gpu_group *g)
{
    if (g->epoch > GPU_MAX_EPOCH) {
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
    const gpu_launch *launch;
    gpu_slot slots[GPU_MAX_SLOTS];
    unsigned char *params, *is_array;
    size_t local_bytes;
    uint64_t n_groups, step;
    atomic_uint_fast64_t next;
    atomic_int failed, no_memory;
    gpu_count count;
    char *why;
    pthread_mutex_t lock;
} work;

static void free_group(gpu_group *g)
{
    for (uint32_t k = 0; g->warps && k < g->n_warps; k++)
        free(warp_at(g, k)->file);
    free(g->warps);
    free(g->local);
    free(g->privates);
    free(g->shadow);
    gpu_races_destroy(g->races);
    free(g);
}

static gpu_group *make_group(work *job)
{
    const gpu_launch *launch = job->launch;
    const gpu_kernel *kernel = launch->kernel;
    gpu_group *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->launch = launch;
    g->slots = job->slots;
    g->params = job->params;
    g->is_array = job->is_array;
    g->local_bytes = job->local_bytes;
    g->n_items = launch->items[0] * launch->items[1] * launch->items[2];
    g->n_warps = (g->n_items + kernel->lanes - 1) / kernel->lanes;
    g->warps = calloc(g->n_warps, kernel->isa->warp_bytes);
    const size_t n_private = kernel->private_bytes * g->n_warps * kernel->lanes;
    g->local = aligned_alloc(64, (job->local_bytes + 64) / 64 * 64);
    g->shadow = calloc(job->local_bytes + 1, sizeof *g->shadow);
    g->privates = malloc(n_private + 1);
    if (launch->finds_races)
        g->races = gpu_races_create(kernel->global_granule);
    int whole = g->warps && g->local && g->shadow && g->privates && (g->races || !launch->finds_races);
    for (uint32_t k = 0; whole && k < g->n_warps; k++) {
        gpu_warp *w = warp_at(g, k);
        w->group = g;
        w->file = aligned_alloc(64, (kernel->file_bytes + 63) / 64 * 64);
        whole = w->file != NULL;
        if (whole) {
            memset(w->file, 0xFF, kernel->file_bytes); /* registers that nobody wrote */
            kernel->isa->fill(w);
        }
    }
    if (whole) {
        memset(g->local, 0xFF, job->local_bytes);
        memset(g->privates, 0xFF, n_private);
        return g;
    }
    free_group(g);
    return NULL;
}

static void place_group(gpu_group *g, const work *job, uint64_t index)
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
    gpu_group *g = make_group(job);
    uint64_t index;
    if (!g) {
        atomic_store(&job->no_memory, 1);
        return NULL;
    }
    while (!atomic_load(&job->failed) && (index = atomic_fetch_add(&job->next, 1)) < job->n_groups) {
        place_group(g, job, index);
        if (run_group(g) && !atomic_exchange(&job->failed, 1))
            memcpy(job->why, g->why, GPU_MESSAGE);
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
    const gpu_launch *launch = job->launch;
    const gpu_kernel *k = launch->kernel;
    job->local_bytes = k->local_bytes;
    for (int i = 0; i < k->n_params; i++)
        job->local_bytes += launch->args[i].kind == GPU_LOCAL ? (launch->args[i].n + 127) / 64 * 64 : 0;
    job->params = calloc(1, k->param_bytes + 16);
    job->is_array = calloc(1, job->local_bytes + 1);
    if (!job->params || !job->is_array)
        return 0;
    for (int i = 0; i < k->n_locals; i++)
        memset(job->is_array + k->locals[i].value / k->granule, 1,
               (k->locals[i].bytes + k->granule - 1) / k->granule);
    size_t local = k->local_bytes;
    for (int i = 0; i < k->n_params; i++) {
        const gpu_arg *a = &launch->args[i];
        uint64_t value = a->kind == GPU_LOCAL ? local : a->memory ? (uint64_t)(i + 1) << GPU_SLOT_BITS : 0;
        if (a->kind == GPU_LOCAL) {
            memset(job->is_array + local / k->granule, 1, (a->n + k->granule - 1) / k->granule);
            local += (a->n + 127) / 64 * 64;
        }
        job->slots[i + 1] = (gpu_slot){a->memory, a->kind == GPU_MEMORY && a->memory ? a->n : 0};
        memcpy(job->params + k->params[i].value, a->kind == GPU_BYTES ? a->bytes : &value,
               a->kind == GPU_BYTES || k->params[i].bytes < sizeof value ? k->params[i].bytes : sizeof value);
    }
    for (int i = 0; i < k->module->n_arrays; i++)
        job->slots[k->module->arrays[i].symbol.value >> GPU_SLOT_BITS] =
            (gpu_slot){k->module->arrays[i].data, k->module->arrays[i].symbol.bytes};
    job->slots[GPU_PARAM_SLOT] = (gpu_slot){job->params, k->param_bytes};
    if (k->isa->add_params)
        k->isa->add_params(launch, job->params);
    return 1;
}

int gpu_run_launch(const gpu_launch *launch, gpu_count *count, char why[GPU_MESSAGE])
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
        snprintf(why, GPU_MESSAGE, "kernel %s: no memory to execute it", launch->kernel->name);
    count->items += job.count.items;
    count->warps += job.count.warps;
    return job.failed || job.no_memory;
}
