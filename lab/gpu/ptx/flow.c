/* How a warp goes on. Each work-item has its place in the code; the work-items at the lowest place go on,
 * until others are as low. What a whole warp or group does together waits until all have come, and a fault
 * is reported if some cannot. */
#include <stdlib.h>

#include "lab/gpu/ptx/warp.h"

enum { NOWHERE = 0xFFFFFFFF };

static const ptx_kernel *kernel_of(const ptx_warp *w)
{
    return (const ptx_kernel *)(const void *)w->base.group->launch->kernel;
}

static int first_lane(uint32_t mask)
{
    return __builtin_ctz(mask);
}

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
    w->base.pc = w->pcs[lane];
    LANES if (w->waiting >> l & 1 && w->pcs[l] != w->base.pc)
    {
        const ptx_insn *code = kernel_of(w)->code;
        const gpu_line *other = &code[w->pcs[l]].line;
        const int is_barrier = code[w->base.pc].flow == PTX_BARRIER;
        gpu_fault(&w->base, (uint32_t)lane,
                  "%s in divergent flow: work-item %u of the warp waits in line %u, %.*s",
                  is_barrier ? "barrier" : "instruction of a whole warp", w->base.first + (uint32_t)l,
                  other->line, other->n_text < 60 ? other->n_text : 60, other->text);
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
    w->base.pc = lowest;
    w->other_pc = next;
}

static void go_to(ptx_warp *w, uint32_t pc)
{
    w->base.pc = pc;
    if (pc >= w->other_pc) {
        leave(w, w->active, pc);
        reschedule(w);
    }
}

/* Returns 1 when the active work-items are all of the warp. Else they wait. */
static int all_here(ptx_warp *w)
{
    uint32_t here = w->active;
    LANES if (w->waiting >> l & 1 && w->pcs[l] == w->base.pc) here |= 1u << l;
    if (here == w->live) {
        w->active = here;
        w->waiting = 0;
        return 1;
    }
    leave(w, w->active, w->base.pc);
    w->waiting |= w->active;
    reschedule(w);
    return 0;
}

static void branch(ptx_warp *w, const ptx_insn *i, uint32_t taken)
{
    if (taken == w->active) {
        go_to(w, i->target);
    } else if (!taken) {
        go_to(w, w->base.pc + 1);
    } else {
        leave(w, taken, i->target);
        leave(w, w->active & ~taken, w->base.pc + 1);
        reschedule(w);
    }
}

static int return_lanes(ptx_warp *w, uint32_t lanes)
{
    leave(w, w->active & ~lanes, w->base.pc + 1);
    w->live &= ~lanes;
    if (!w->live)
        return GPU_ENDED;
    reschedule(w);
    return GPU_GOES_ON;
}

static int at_barrier(ptx_warp *w)
{
    if (!all_here(w))
        return GPU_GOES_ON;
    if (w->live != w->born)
        gpu_fault(&w->base, (uint32_t)first_lane(w->live),
                  "barrier in divergent flow: work-item %u has returned",
                  w->base.first + (uint32_t)first_lane(w->born & ~w->live));
    return GPU_AT_BARRIER;
}

static int do_flow(ptx_warp *w, const ptx_insn *i, uint32_t mask)
{
    switch (i->flow) {
    case PTX_BRANCH:
        branch(w, i, mask);
        return GPU_GOES_ON;
    case PTX_RETURN:
        return return_lanes(w, mask);
    case PTX_BARRIER:
        return at_barrier(w);
    default:
        if (all_here(w)) {
            set_mask(w, w->active);
            i->act(w, i);
            w->base.group->count.items += (uint64_t)__builtin_popcount(w->active);
            w->base.pc++;
        }
        return GPU_GOES_ON;
    }
}

/* One turn of at most `most` instructions. */
static int run_warp(gpu_warp *warp, uint32_t most)
{
    ptx_warp *w = (ptx_warp *)(void *)warp;
    const ptx_insn *code = kernel_of(w)->code;
    int state = GPU_GOES_ON;
    for (uint32_t n = 0; n < most && state == GPU_GOES_ON; n++) {
        const ptx_insn *i = code + w->base.pc;
        uint32_t mask = w->active;
        if (i->guard) {
            const uint32_t p = *(const uint32_t *)(const void *)(w->base.file + i->guard);
            mask &= i->guard_not ? ~p : p;
        }
        w->base.group->count.warps++;
        if (i->flow != PTX_PLAIN) {
            w->base.group->count.items += (uint64_t)__builtin_popcount(w->active);
            state = do_flow(w, i, mask);
            continue;
        }
        if (mask) {
            if (mask != w->mask || (~mask & w->live) != 0)
                set_mask(w, mask);
            i->act(w, i);
            w->base.group->count.items += (uint64_t)__builtin_popcount(mask);
        }
        if (++w->base.pc >= w->other_pc)
            go_to(w, w->base.pc);
    }
    return state;
}

/* ---- the start ------------------------------------------------------------------------------- */

static void set_lanes(ptx_warp *w, uint32_t at, uint32_t value)
{
    LANES((uint32_t *)(void *)(w->base.file + at))[l] = value;
}

static void start_warp(gpu_warp *warp)
{
    ptx_warp *w = (ptx_warp *)(void *)warp;
    const gpu_group *g = warp->group;
    const uint32_t left = g->n_items - warp->first;
    w->born = w->live = w->active = left < PTX_LANES ? (1u << left) - 1 : ~0u;
    w->waiting = 0;
    w->other_pc = NOWHERE;
    set_mask(w, w->live);
    for (int d = 0; d < 3; d++) {
        set_lanes(w, PTX_AT_CTAID + (uint32_t)d * 128, g->at[d]);
        LANES((uint32_t *)(void *)(warp->file + PTX_AT_TID + d * 128))
        [l] = gpu_item_id(g->launch, warp->first + (uint32_t)l, d);
    }
}

static void fill_warp(gpu_warp *warp)
{
    ptx_warp *w = (ptx_warp *)(void *)warp;
    const gpu_launch *launch = warp->group->launch;
    const ptx_kernel *k = kernel_of(w);
    for (uint32_t d = 0; d < 3; d++) {
        set_lanes(w, PTX_AT_NTID + d * 128, launch->items[d]);
        set_lanes(w, PTX_AT_NCTAID + d * 128, launch->groups[d]);
    }
    set_lanes(w, PTX_AT_NWARP, launch->resident_warps);
    LANES((uint32_t *)(void *)(warp->file + PTX_AT_LANE))[l] = (uint32_t)l;
    for (uint32_t c = 0; c < k->n_constants; c++)
        LANES
        {
            const ptx_constant *it = &k->constants[c];
            if (it->wide)
                ((uint64_t *)(void *)(warp->file + it->at))[l] = it->value;
            else
                ((uint32_t *)(void *)(warp->file + it->at))[l] = (uint32_t)it->value;
        }
}

static void free_kernel(gpu_kernel *kernel)
{
    ptx_kernel *k = (ptx_kernel *)(void *)kernel;
    free(k->code);
    free(k->constants);
}

const gpu_isa ptx_isa = {.warp_bytes = sizeof(ptx_warp),
                         .decode = ptx_decode,
                         .free_kernel = free_kernel,
                         .fill = fill_warp,
                         .start = start_warp,
                         .turn = run_warp};
