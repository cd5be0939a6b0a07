/* How a token is sampled from the maxima of a row's blocks, for the kernels that sample. Needs WG.
 * Most rows are decided by few blocks: the k-th largest maximum of a block bounds the k-th largest logit from
 * below, and blocks under it are skipped. Limits are found by bisection of distances. */
#ifndef CLEF_CL_SAMPLE_PICK_H
#define CLEF_CL_SAMPLE_PICK_H

#include "sample_limits.h"

/* What a row samples whose logits are not finite: one is NaN or +inf, or all are -inf. */
#define NO_TOKEN ((uint)-1)

/* The lowest id with the largest logit. */
static uint first_of(const sample_args *a, row_memory m, global const float *z, float most, sum_scratch s)
{
    uint best = a->n_vocab;
    for (uint b = local_id(0); b < a->blocks; b += WG)
        if (m.maxima[b] == most && b * BLOCK < best)
            for (uint i = b * BLOCK; i < min((b + 1) * BLOCK, a->n_vocab); i++)
                if (z[i] == most)
                    best = min(best, i);
    best = min_all(best, s);
    return isinf(most) ? NO_TOKEN : best;
}

/* Lists the blocks that may hold the sampled token, in rising order. Returns their number. */
static uint list_blocks(const sample_args *a, global const sample_options *o, row_memory m, float most,
                        sum_scratch s)
{
    const uint n = a->blocks, lane = local_id(0);
    for (uint i = lane; i < n / WIDE; i += WG)
        STORE_WIDE(distance_below(most, LOAD_WIDE(i, m.maxima), o->scale), i, m.nearest);
    GROUP_SYNC();
    int reach = (int)o->reach;
    /* runs even if it is off: a branch around barriers costs compilers more than this costs a device */
    const bool cuts = o->top_k > 0 && (uint)o->top_k <= n;
    reach = min(reach, kth_nearest(m.nearest, n, cuts ? (uint)o->top_k : n, s));
    const uint share = (n + WG - 1) / WG, from = min(lane * share, n), to = min(from + share, n);
    uint mine = 0;
    for (uint b = from; b < to; b++)
        mine += m.nearest[b] <= reach;
    uint at = (uint)sum_before(mine, s);
    const uint all = (uint)sum_all(mine, s);
    for (uint b = from; b < to; b++)
        if (m.nearest[b] <= reach)
            m.list[at++] = b;
    GROUP_SYNC();
    return all;
}

/* The logits of vector i of the examined blocks. */
static wide_float logits_at(const sample_args *a, row_memory m, uint i, global const float *z)
{
    return load_logits(z, m.list[i * WIDE / BLOCK] * BLOCK + i * WIDE % BLOCK, a->n_vocab);
}

/* Leaves the weights that all limits keep, at the scale of the draw. */
static void cut(const sample_args *a, global const sample_options *o, row_memory m, limit in, uint n,
                float most, global const float *z)
{
    const ulong least = max((ulong)o->min_weight_hi << 32 | o->min_weight_lo, 1UL);
    for (uint i = local_id(0); i < n / WIDE; i += WG) {
        wide_ulong w = LOAD_WIDE(i, m.weights);
        const wide_ulong mask =
            as_mask(is_in(LOAD_WIDE(i, m.distances), i, in)) & MASK_LONG(w >= (wide_ulong)least);
        if (o->draw_scale > 0)
            w = weight(distance_below(most, logits_at(a, m, i, z), o->draw_scale));
        STORE_WIDE(w & mask, i, m.weights);
    }
    GROUP_SYNC();
}

/* The id at which the sum of weights exceeds floor(random sum / 2^64). */
static uint draw(const sample_args *a, row_memory m, uint n, ulong random, sum_scratch s)
{
    const uint lane = local_id(0), share = (n / WIDE + WG - 1) / WG;
    const uint from = min(lane * share, n / WIDE), to = min(from + share, n / WIDE);
    ulong mine = 0;
    for (uint i = from; i < to; i++)
        mine += sum_wide(LOAD_WIDE(i, m.weights));
    const ulong before = sum_before(mine, s), all = sum_all(mine, s), at = mul_hi(random, all);
    uint best = a->n_vocab;
    if (at >= before && at - before < mine) {
        ulong left = at - before;
        for (uint i = from; i < to && best == a->n_vocab; i++) {
            const wide_ulong w = LOAD_WIDE(i, m.weights);
            const ulong sum = sum_wide(w);
            if (left >= sum) {
                left -= sum;
                continue;
            }
            ulong one[WIDE];
            STORE_WIDE(w, 0, one);
            uint k = 0;
            for (; k < WIDE - 1 && left >= one[k]; k++)
                left -= one[k];
            best = m.list[(i * WIDE + k) / BLOCK] * BLOCK + (i * WIDE + k) % BLOCK;
        }
    }
    return min_all(best, s);
}

/* Draw `number`, from 1, of a stream. z: the row's logits, after penalties. */
static uint pick(const sample_args *a, global const sample_options *o, row_memory m, uint stream, uint number,
                 global const float *z, group_scratch floats, sum_scratch s)
{
    const uint lane = local_id(0);
    wide_float wide = -INFINITY;
    for (uint i = lane; i < a->blocks / WIDE; i += WG)
        wide = fmax(wide, LOAD_WIDE(i, m.maxima));
    const float most = group_max(max_wide(wide), floats);
    if (o->mode != SAMPLE_DRAW || isinf(most))
        return first_of(a, m, z, most, s);
    const uint n = list_blocks(a, o, m, most, s) * BLOCK;
    for (uint i = lane; i < n / WIDE; i += WG) {
        const wide_int far = distance_below(most, logits_at(a, m, i, z), o->scale);
        STORE_WIDE(far, i, m.distances);
        STORE_WIDE(weight(far), i, m.weights);
    }
    GROUP_SYNC();
    const limit in = limit_of(o, m, n, s);
    cut(a, o, m, in, n, most, z);
    const ulong seed = (ulong)o->seed_hi << 32 | o->seed_lo;
    return draw(a, m, n, mix_bits(seed + mix_bits(stream) + number * 0x9e3779b97f4a7c15UL), s);
}

#endif
