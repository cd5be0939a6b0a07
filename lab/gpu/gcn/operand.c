/* Reading sources and writing results of vector instructions, with their modifiers. */
#include "lab/gpu/gcn/gcn.h"
#include "lab/gpu/run/bits.h"

#include <string.h>

uint32_t *gcn_lanes_of(gcn_wave *w, uint32_t reg)
{
    return (uint32_t *)(void *)w->base.file + (size_t)reg * w->lanes;
}

/* ---- scalars --------------------------------------------------------------------------------- */

uint64_t gcn_exec(const gcn_wave *w)
{
    return w->lanes == 32 ? w->s[GCN_EXEC] : w->s[GCN_EXEC] | (uint64_t)w->s[GCN_EXEC + 1] << 32;
}

uint64_t gcn_scalar(const gcn_wave *w, const gcn_operand *o)
{
    if (o->kind == GCN_CONSTANT)
        return o->value;
    if (o->at == GCN_NULL)
        return 0;
    return o->n < 2 ? w->s[o->at] : w->s[o->at] | (uint64_t)w->s[o->at + 1] << 32;
}

void gcn_set_scalar(gcn_wave *w, const gcn_operand *o, uint64_t value)
{
    if (o->at == GCN_NULL)
        return;
    w->s[o->at] = (uint32_t)value;
    if (o->n > 1)
        w->s[o->at + 1] = (uint32_t)(value >> 32);
}

void gcn_set_exec(gcn_wave *w, uint64_t mask)
{
    w->s[GCN_EXEC] = (uint32_t)mask;
    if (w->lanes > 32)
        w->s[GCN_EXEC + 1] = (uint32_t)(mask >> 32);
}

/* For a register whose number is changed by m0. */
void gcn_check_register(gcn_wave *w, uint32_t reg)
{
    const gcn_kernel *k = (const gcn_kernel *)(const void *)w->base.group->launch->kernel;
    if (reg >= k->n_vectors)
        gpu_fault(&w->base, 0, "register v%u, of %u", reg, k->n_vectors);
}

/* ---- sources --------------------------------------------------------------------------------- */

static int row_lane_from(const gcn_insn *i, int lane)
{
    const int row = lane & ~15, at = lane & 15, by = i->move_by;
    switch (i->move) {
    case GCN_ROW_SHL:
        return at + by < 16 ? lane + by : -1;
    case GCN_ROW_SHR:
        return at >= by ? lane - by : -1;
    case GCN_ROW_ROR:
        return row | ((at - by) & 15);
    case GCN_ROW_MIRROR:
        return row | (15 - at);
    case GCN_ROW_HALF_MIRROR:
        return lane ^ 7;
    case GCN_ROW_SHARE:
        return row | by;
    default: /* GCN_ROW_XMASK */
        return lane ^ by;
    }
}

int gcn_lane_from(const gcn_insn *i, int lane, int lanes)
{
    const int row = lane >> 4;
    switch (i->move) {
    case GCN_STAYS:
        return lane;
    case GCN_QUAD:
        return (lane & ~3) | (int)(i->move_lanes >> 2 * (lane & 3) & 3);
    case GCN_DPP8:
        return (lane & ~7) | (int)(i->move_lanes >> 3 * (lane & 7) & 7);
    case GCN_WAVE_SHL:
        return lane + 1 < lanes ? lane + 1 : -1;
    case GCN_WAVE_SHR:
        return lane - 1;
    case GCN_BCAST_15:
        return row ? row * 16 - 1 : -1;
    case GCN_BCAST_31:
        return row >= 2 ? 31 : -1;
    default:
        return row_lane_from(i, lane);
    }
}

/* A lane whose source is not there, or does not take part, gets 0 or keeps what it has. */
static void move_lanes(gcn_wave *w, const gcn_insn *i, const uint32_t *from, uint32_t *to)
{
    const uint64_t exec = gcn_exec(w);
    for (uint32_t l = 0; l < w->lanes; l++) {
        const int source = gcn_lane_from(i, (int)l, (int)w->lanes);
        const int is_there = source >= 0 && (i->fetches_inactive || (exec >> source & 1));
        const int is_asked = (i->row_mask >> (l >> 4 & 3) & 1) && (i->bank_mask >> (l >> 2 & 3) & 1);
        to[l] = is_there ? from[source] : 0;
        w->moved_on[l] = is_asked && (is_there || i->bound_zero) ? w->on[l] : 0;
    }
}

static uint32_t take_part(uint32_t x, int part, int is_signed)
{
    if (part == GCN_WORD)
        return x;
    if (part >= GCN_HALF_0) {
        x = x >> 16 * (part - GCN_HALF_0) & 0xFFFF;
        return is_signed ? (uint32_t)(int16_t)x : x;
    }
    x = x >> 8 * (part - GCN_BYTE_0) & 0xFF;
    return is_signed ? (uint32_t)(int8_t)x : x;
}

const uint32_t *gcn_read(gcn_wave *w, const gcn_insn *i, int k, int word)
{
    const gcn_operand *o = &i->s[k];
    uint32_t *to = w->in[k][word];
    const uint32_t lanes = w->lanes;
    if (o->kind == GCN_VECTOR) {
        uint32_t at = o->at + (uint32_t)word;
        if (w->index_mode >> k & 1) {
            at += w->s[GCN_M0];
            gcn_check_register(w, at);
        }
        const uint32_t *from = gcn_lanes_of(w, at);
        if (!o->part && !o->neg && !o->abs && !(k == 0 && i->move))
            return from;
        if (k == 0 && i->move)
            move_lanes(w, i, from, to);
        else
            memcpy(to, from, lanes * sizeof *to);
    } else {
        const uint32_t x = (uint32_t)(gcn_scalar(w, o) >> 32 * word);
        for (uint32_t l = 0; l < lanes; l++)
            to[l] = x;
    }
    const uint32_t sign = o->abs || o->neg ? (i->halves >> k & 1 ? 0x8000u : 0x80000000u) : 0;
    if (o->part || sign)
        for (uint32_t l = 0; l < lanes; l++) {
            uint32_t x = take_part(to[l], o->part, o->extend);
            x = o->abs ? x & ~sign : x;
            to[l] = o->neg ? x ^ sign : x;
        }
    return to;
}

/* ---- results --------------------------------------------------------------------------------- */

uint32_t *gcn_result(gcn_wave *w, const gcn_insn *i, int k, int word)
{
    if (w->full && !i->special && i->d[k].kind == GCN_VECTOR)
        return gcn_lanes_of(w, i->d[k].at + (uint32_t)word);
    return w->out[k][word];
}

static float scaled(uint32_t bits, const gcn_insn *i)
{
    static const float factors[] = {1, 2, 4, 0.5f};
    const float x = gpu_float_of(bits) * factors[i->scale];
    return !i->clamp ? x : x > 0 ? (x < 1 ? x : 1) : 0; /* NaN: 0 */
}

static void put_part(const gcn_insn *i, uint32_t *x, uint32_t old)
{
    const int part = i->part;
    const uint32_t at = part >= GCN_HALF_0 ? 16u * (uint32_t)(part - GCN_HALF_0)
                                           : 8u * (uint32_t)(part - GCN_BYTE_0),
                   mask = part >= GCN_HALF_0 ? 0xFFFFu : 0xFFu;
    *x = (*x & mask) << at | (i->keeps_rest ? old & ~(mask << at) : 0);
}

/* Puts results into registers, in the lanes that take part. */
void gcn_written(gcn_wave *w, const gcn_insn *i)
{
    if (w->full && !i->special)
        return;
    const uint32_t *on = i->move ? w->moved_on : w->on, lanes = w->lanes;
    for (int k = 0; k < i->n_d; k++)
        for (int word = 0; i->d[k].kind == GCN_VECTOR && word < i->d[k].n; word++) {
            uint32_t *to = gcn_lanes_of(w, i->d[k].at + (uint32_t)word), *from = w->out[k][word];
            if (i->clamp || i->scale)
                for (uint32_t l = 0; l < lanes; l++)
                    from[l] = gpu_float_bits(scaled(from[l], i));
            if (i->part)
                for (uint32_t l = 0; l < lanes; l++)
                    put_part(i, &from[l], to[l]);
            for (uint32_t l = 0; l < lanes; l++)
                to[l] = on[l] ? from[l] : to[l];
        }
}
