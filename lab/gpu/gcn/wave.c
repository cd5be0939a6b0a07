/* How a wave goes on: branches, barriers, and what its registers hold at the start. */
#include <stdlib.h>
#include <string.h>

#include "lab/gpu/gcn/gcn.h"

static const gcn_kernel *kernel_of(const gcn_wave *w)
{
    return (const gcn_kernel *)(const void *)w->base.group->launch->kernel;
}

/* ---- flow ------------------------------------------------------------------------------------ */

static void nothing(gcn_wave *w, const gcn_insn *i)
{
    (void)w, (void)i;
}

/* Conditions of branches. */
static void jump_if(gcn_wave *w, const gcn_insn *i, int is_taken)
{
    w->base.pc = is_taken ? i->target : w->base.pc + 1;
}

static uint64_t vcc_of(const gcn_wave *w)
{
    return w->lanes == 32 ? w->s[GCN_VCC] : w->s[GCN_VCC] | (uint64_t)w->s[GCN_VCC + 1] << 32;
}

static void jump(gcn_wave *w, const gcn_insn *i)
{
    jump_if(w, i, 1);
}

static void jump_scc0(gcn_wave *w, const gcn_insn *i)
{
    jump_if(w, i, !w->scc);
}

static void jump_scc1(gcn_wave *w, const gcn_insn *i)
{
    jump_if(w, i, w->scc != 0);
}

static void jump_vccz(gcn_wave *w, const gcn_insn *i)
{
    jump_if(w, i, !vcc_of(w));
}

static void jump_vccnz(gcn_wave *w, const gcn_insn *i)
{
    jump_if(w, i, vcc_of(w) != 0);
}

static void jump_execz(gcn_wave *w, const gcn_insn *i)
{
    jump_if(w, i, !gcn_exec(w));
}

static void jump_execnz(gcn_wave *w, const gcn_insn *i)
{
    jump_if(w, i, gcn_exec(w) != 0);
}

const gcn_row gcn_flow_rows[] = {{"s_branch", "", jump, GCN_BRANCH},
                                 {"s_cbranch_scc0", "", jump_scc0, GCN_BRANCH},
                                 {"s_cbranch_scc1", "", jump_scc1, GCN_BRANCH},
                                 {"s_cbranch_vccz", "", jump_vccz, GCN_BRANCH},
                                 {"s_cbranch_vccnz", "", jump_vccnz, GCN_BRANCH},
                                 {"s_cbranch_execz", "", jump_execz, GCN_BRANCH},
                                 {"s_cbranch_execnz", "", jump_execnz, GCN_BRANCH},
                                 {"s_endpgm", "", nothing, GCN_END},
                                 {"s_barrier", "", nothing, GCN_BARRIER},
                                 /* the order of accesses, caches and clocks: accesses happen at once here */
                                 {"s_waitcnt", "", nothing, GCN_PLAIN},
                                 {"s_waitcnt_vscnt", "", nothing, GCN_PLAIN},
                                 {"s_waitcnt_depctr", "", nothing, GCN_PLAIN},
                                 {"s_delay_alu", "", nothing, GCN_PLAIN},
                                 {"s_clause", "", nothing, GCN_PLAIN},
                                 {"s_nop", "", nothing, GCN_PLAIN},
                                 {"s_sleep", "", nothing, GCN_PLAIN},
                                 {"s_sendmsg", "", nothing, GCN_PLAIN},
                                 {"s_inst_prefetch", "", nothing, GCN_PLAIN},
                                 {"s_set_inst_prefetch_distance", "", nothing, GCN_PLAIN},
                                 {"s_dcache_wb", "", nothing, GCN_PLAIN},
                                 {"buffer_gl0_inv", "", nothing, GCN_PLAIN},
                                 {"buffer_gl1_inv", "", nothing, GCN_PLAIN},
                                 {"buffer_wbinvl1", "", nothing, GCN_PLAIN},
                                 {"buffer_wbinvl1_vol", "", nothing, GCN_PLAIN},
                                 {"buffer_wbl2", "", nothing, GCN_PLAIN},
                                 {"buffer_invl2", "", nothing, GCN_PLAIN},
                                 {"buffer_inv", "", nothing, GCN_PLAIN},
                                 {0}};

static void follow_exec(gcn_wave *w)
{
    w->exec = gcn_exec(w);
    w->full = w->exec == w->all;
    for (uint32_t l = 0; l < w->lanes; l++)
        w->on[l] = 0u - (uint32_t)(w->exec >> l & 1);
}

static int run_wave(gpu_warp *warp, uint32_t most)
{
    gcn_wave *w = (gcn_wave *)(void *)warp;
    const gcn_insn *code = kernel_of(w)->code;
    gpu_count *count = &warp->group->count;
    for (uint32_t n = 0; n < most; n++) {
        const gcn_insn *i = code + warp->pc;
        count->warps++;
        count->items += (uint64_t)__builtin_popcountll(w->exec);
        if (i->flow == GCN_END)
            return GPU_ENDED;
        if (i->flow == GCN_BARRIER)
            return GPU_AT_BARRIER;
        i->act(w, i);
        if (i->flow == GCN_PLAIN)
            warp->pc++;
        if (gcn_exec(w) != w->exec)
            follow_exec(w);
    }
    return GPU_GOES_ON;
}

/* ---- the start ------------------------------------------------------------------------------- */

static uint64_t address_of_params(uint64_t offset)
{
    return ((uint64_t)GPU_PARAM_SLOT << GPU_SLOT_BITS) + offset;
}

/* "User Guide for AMDGPU Backend", "Initial Kernel Execution State". */
static void set_scalars(gcn_wave *w)
{
    const gcn_kernel *k = kernel_of(w);
    const uint32_t *at = w->base.group->at;
    uint32_t n = k->buffer ? 4 : 0;
    const struct {
        int is_there;
        uint64_t value;
        uint32_t words;
    } user[] = {{k->packet, address_of_params(k->packet_at), 2},
                {k->queue, 0, 2},
                {k->arguments, address_of_params(0), 2},
                {k->id, 0, 2},
                {k->scratch_init, 0, 2},
                {k->private_size, k->base.private_bytes, 1}};
    memset(w->s, 0, sizeof w->s);
    for (size_t u = 0; u < sizeof user / sizeof *user; u++)
        if (user[u].is_there) {
            w->s[n] = (uint32_t)user[u].value;
            if (user[u].words > 1)
                w->s[n + 1] = (uint32_t)(user[u].value >> 32);
            n += user[u].words;
        }
    n = k->user_scalars;
    if (k->group_x)
        w->s[n++] = at[0];
    if (k->group_y)
        w->s[n++] = at[1];
    if (k->group_z)
        w->s[n++] = at[2];
}

/* gfx90a and gfx11 have the three numbers of a work-item in one register, 10 bits each. */
static void set_items(gcn_wave *w)
{
    const gcn_kernel *k = kernel_of(w);
    const gpu_launch *launch = w->base.group->launch;
    const int is_packed = k->version == 0x90a || k->version == 0x942 || k->version >= 0x1100;
    for (int d = 0; d <= k->item_ids; d++) {
        uint32_t *to = gcn_lanes_of(w, is_packed ? 0 : (uint32_t)d);
        for (uint32_t l = 0; l < w->lanes; l++) {
            const uint32_t id = gpu_item_id(launch, w->base.first + l, d);
            to[l] = is_packed && d ? to[l] | id << 10 * d : id;
        }
    }
}

static void start_wave(gpu_warp *warp)
{
    gcn_wave *w = (gcn_wave *)(void *)warp;
    const uint32_t left = warp->group->n_items - warp->first;
    w->lanes = warp->group->launch->kernel->lanes;
    w->all = w->lanes == 64 ? ~(uint64_t)0 : 0xFFFFFFFF;
    set_scalars(w);
    gcn_set_exec(w, left < w->lanes ? ((uint64_t)1 << left) - 1 : w->all);
    w->scc = w->index_mode = 0;
    follow_exec(w);
    set_items(w);
}

static void fill_wave(gpu_warp *warp)
{
    (void)warp;
}

/* The dispatch packet, from which work-items have their sizes. */
static void add_packet(const gpu_launch *launch, unsigned char *params)
{
    unsigned char *packet = params + ((const gcn_kernel *)(const void *)launch->kernel)->packet_at;
    for (int d = 0; d < 3; d++) {
        const uint16_t items = (uint16_t)launch->items[d];
        const uint32_t all = launch->items[d] * launch->groups[d];
        memcpy(packet + 4 + 2 * d, &items, sizeof items);
        memcpy(packet + 12 + 4 * d, &all, sizeof all);
    }
}

static void free_kernel(gpu_kernel *kernel)
{
    free(((gcn_kernel *)(void *)kernel)->code);
}

const gpu_isa gcn_isa = {.warp_bytes = sizeof(gcn_wave),
                         .decode = gcn_decode,
                         .free_kernel = free_kernel,
                         .fill = fill_wave,
                         .start = start_wave,
                         .turn = run_wave,
                         .add_params = add_packet};
