/* The gradient of softmax attention on any device, by recomputation (FlashAttention-2, arXiv:2307.08691):
 * attention_grad_cpu.cl has the formula. Tiles of queries and of keys are in local memory; each element of a
 * result is added up by one work-item, in one order, so the result is the same in every run.
 *   attention_grad_queries  ceil(group T / ROWS) Hk B groups: dq of a tile of queries. It walks over the keys
 *                           twice, first for the sum of each row's weights. It leaves log sum exp z and
 *                           sum_e dy out of each row of [B, T, H] in `stats`.
 *   attention_grad_keys     ceil(S / KEYS) Hk B groups: dk and dv of a tile of keys, from stats
 *   -D WG      work-items in a group, a power of two
 *   -D ROWS    queries of a tile
 *   -D KEYS    keys of a tile
 *   -D D, E    last dims of k and v
 *   -D K_TYPE, V_TYPE, MASK, POS, FIRST  as in attention_gpu_query.cl; SINKS, PAGED: none
 *   -D CAPS    1: a.softcap is not 0 */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_logit.h"

#if !defined(ROWS) || !defined(KEYS)
#  error "attention_grad.cl needs WG, ROWS, KEYS, D, E, K_TYPE, V_TYPE, MASK, POS, FIRST and CAPS"
#endif
#include "attention_grad.h"

/* Loops over an item's sums have at most 16 rounds on GPUs: unrolled, the sums are in registers.
 * Rows in local memory are of vectors of four, one more than needed, so that neighbours are in different
 * banks. */
enum {
    D4 = (D + 3) / 4,
    E4 = (E + 3) / 4,
    DP = D4 + 1,
    EP = E4 + 1,
    PAIRS = (ROWS * KEYS + WG - 1) / WG, /* of a query and a key, for each item */
    DQ = (ROWS * D4 + WG - 1) / WG,      /* vectors of dq, dk and dv that an item adds up */
    DK = (KEYS * D4 + WG - 1) / WG,
    DV = (KEYS * E4 + WG - 1) / WG
};

#include "attention_grad_tile.h"

/* Joins the sums of weights that are relative to two largest logits. */
static void join_weights(float *most, float *sum, float other_most, float other_sum)
{
    const float high = fmax(*most, other_most), base = high == -INFINITY ? 0.0f : high;
    *sum = *sum * exp(*most - base) + other_sum * exp(other_most - base);
    *most = high;
}

/* Writes log sum exp z and sum_e dy out of the tile's rows, from the items' largest logits and sums. */
static void put_stats(local float *lse, local float *mean, local const float *most, local const float *sum,
                      const attention_grad_args *g, head_id h, uint i0, local const float4 *dy4,
                      global const float *y, global float *stats)
{
    local const float *dys = (local const float *)dy4;
    for (uint r = get_local_id(0); r < ROWS; r += WG) {
        const uint i = min(i0 + r, h.queries - 1);
        const size_t from = g->y + out_at(&g->a, h.b, h.hk, i, E);
        float high = -INFINITY, total = 0, m = 0;
        for (uint c = 0; c < KEYS; c++)
            join_weights(&high, &total, most[r * KEYS + c], sum[r * KEYS + c]);
        for (uint e = 0; e < E; e++)
            m += dys[r * 4 * EP + e] * y[from + e];
        lse[r] = total != 0 ? high + log(total) : 0.0f; /* 0: no key is seen, all weights are 0 */
        mean[r] = m;
        if (i0 + r < h.queries) {
            stats[2 * out_at(&g->a, h.b, h.hk, i, 1)] = lse[r];
            stats[2 * out_at(&g->a, h.b, h.hk, i, 1) + 1] = m;
        }
    }
}

/* The weight of each pair of the tiles, and ds. p may be 0. */
static void put_pairs(local float *p, local float *ds, const attention_grad_args *g, head_id h, uint i0,
                      int s0, local const float4 *q4, local const float4 *dy4, local const float4 *k4,
                      local const float4 *v4, local const int *begin, local const int *end,
                      local const float *lse, local const float *mean, global const mask_elem *mask)
{
    for (uint n = get_local_id(0); n < ROWS * KEYS; n += WG) {
        const uint r = n / KEYS, c = n % KEYS;
        float slope;
        const float z = pair_logit(&g->a, h, mask, i0 + r, s0 + (int)c, begin[r], end[r],
                                   dot_rows(q4 + r * DP, k4 + c * DP, D4), &slope);
        const float weight = exp(z - lse[r]);
        ds[n] = weight * (dot_rows(dy4 + r * EP, v4 + c * EP, E4) - mean[r]) * slope;
        if (p)
            p[n] = weight;
    }
}

GROUP_KERNEL
void attention_grad_queries(const attention_grad_args g, global float *out, global float *stats,
                            global const float *q, global const k_elem *k, global const v_elem *v,
                            global const float *y, global const float *dy, global const mask_elem *mask,
                            global const int *pos FIRST_PARAM)
{
    const attention_args a = g.a;
    local float4 q4[ROWS * DP], dy4[ROWS * EP], k4[KEYS * DP], v4[KEYS * EP];
    local float ds[ROWS * KEYS], sums[ROWS * KEYS], lse[ROWS], mean[ROWS];
    local int begins[ROWS], ends[ROWS];
    float most[PAIRS], sum[PAIRS];
    float4 acc[DQ];
    const uint tiles = (a.group * a.n[2] + ROWS - 1) / ROWS, item = get_local_id(0);
    head_id h;
    find_head(&h, &a, get_group_id(0) / tiles);
    const uint i0 = get_group_id(0) % tiles * ROWS;
    const int begin = begin_of(&a, h, pos, FIRST_KEYS, i0),
              end = end_of(&a, h, pos, min(i0 + ROWS, h.queries) - 1);
    const size_t k_from = key_at(&a.k, h.b, h.hk, 0, 0), v_from = key_at(&a.v, h.b, h.hk, 0, 0);
    load_queries(q4, dy4, begins, ends, &g, h, i0, q, dy, pos, FIRST_KEYS);
    for (uint j = 0; j < PAIRS; j++) {
        most[j] = -INFINITY;
        sum[j] = 0;
    }
    for (int s0 = begin; s0 < end; s0 += KEYS) { /* the bounds are equal in the whole group */
        load_keys(k4, k, k_from, a.k.stride[2], (uint)s0, a.n[3]);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 16
        for (uint j = 0; j < PAIRS; j++) {
            const uint n = item + j * WG, r = n / KEYS % ROWS, c = n % KEYS;
            float slope;
            join_weights(&most[j], &sum[j],
                         pair_logit(&a, h, mask, i0 + r, s0 + (int)c, begins[r], ends[r],
                                    dot_rows(q4 + r * DP, k4 + c * DP, D4), &slope),
                         1.0f);
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the keys are overwritten next */
    }
#pragma unroll 16
    for (uint j = 0; j < PAIRS; j++)
        if (item + j * WG < ROWS * KEYS) {
            ds[item + j * WG] = most[j];
            sums[item + j * WG] = sum[j];
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    put_stats(lse, mean, ds, sums, &g, h, i0, dy4, y, stats);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < DQ; j++)
        acc[j] = 0;
    for (int s0 = begin; s0 < end; s0 += KEYS) {
        load_keys(k4, k, k_from, a.k.stride[2], (uint)s0, a.n[3]);
        load_values(v4, v, v_from, a.v.stride[2], (uint)s0, a.n[3]);
        barrier(CLK_LOCAL_MEM_FENCE);
        put_pairs(0, ds, &g, h, i0, s0, q4, dy4, k4, v4, begins, ends, lse, mean, mask);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint c = 0; c < KEYS; c++)
#pragma unroll 16
            for (uint j = 0; j < DQ; j++) {
                const uint n = item + j * WG, r = n / D4 % ROWS, d = n % D4;
                acc[j] += ds[r * KEYS + c] * k4[c * DP + d];
            }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint j = 0; j < DQ; j++) {
        const uint n = item + j * WG, i = i0 + n / D4;
        if (n < ROWS * D4 && i < h.queries)
            store_vector(out + dq_at(&g, h.b, h.hk, i), acc[j] * a.scale, n % D4 * 4, D);
    }
}

/* The tiles of queries [x, y) that see any of the keys s0 .. s0 + KEYS - 1: they follow each other. */
static uint2 tiles_of_keys(const attention_args *a, head_id h, global const int *pos,
                           global const int *first_keys, int s0)
{
    const uint tiles = (h.queries + ROWS - 1) / ROWS;
    uint2 seen = (uint2)(0, tiles);
    while (seen.x < tiles && end_of(a, h, pos, min(seen.x * ROWS + ROWS, h.queries) - 1) <= s0)
        seen.x++;
    while (seen.y > seen.x && begin_of(a, h, pos, first_keys, seen.y * ROWS - ROWS) >= s0 + KEYS)
        seen.y--;
    return seen;
}

GROUP_KERNEL
void attention_grad_keys(const attention_grad_args g, global float *out, global const float *stats,
                         global const float *q, global const k_elem *k, global const v_elem *v,
                         global const float *y, global const float *dy, global const mask_elem *mask,
                         global const int *pos FIRST_PARAM)
{
    const attention_args a = g.a;
    local float4 q4[ROWS * DP], dy4[ROWS * EP], k4[KEYS * DP], v4[KEYS * EP];
    local float p[ROWS * KEYS], ds[ROWS * KEYS], lse[ROWS], mean[ROWS];
    local int begins[ROWS], ends[ROWS];
    float4 dk[DK], dv[DV];
    const uint tiles = (a.n[3] + KEYS - 1) / KEYS, item = get_local_id(0);
    head_id h;
    find_head(&h, &a, get_group_id(0) / tiles);
    const int s0 = (int)(get_group_id(0) % tiles * KEYS);
    const uint2 seen = tiles_of_keys(&a, h, pos, FIRST_KEYS, s0);
    load_keys(k4, k, key_at(&a.k, h.b, h.hk, 0, 0), a.k.stride[2], (uint)s0, a.n[3]);
    load_values(v4, v, key_at(&a.v, h.b, h.hk, 0, 0), a.v.stride[2], (uint)s0, a.n[3]);
    for (uint j = 0; j < DK; j++)
        dk[j] = 0;
    for (uint j = 0; j < DV; j++)
        dv[j] = 0;
    for (uint tile = seen.x; tile < seen.y; tile++) { /* the bounds are equal in the whole group */
        const uint i0 = tile * ROWS;
        load_queries(q4, dy4, begins, ends, &g, h, i0, q, dy, pos, FIRST_KEYS);
        for (uint r = item; r < ROWS; r += WG) {
            const size_t at = 2 * out_at(&a, h.b, h.hk, min(i0 + r, h.queries - 1), 1);
            lse[r] = stats[at];
            mean[r] = stats[at + 1];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        put_pairs(p, ds, &g, h, i0, s0, q4, dy4, k4, v4, begins, ends, lse, mean, mask);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint r = 0; r < ROWS; r++) {
#pragma unroll 16
            for (uint j = 0; j < DK; j++) {
                const uint n = item + j * WG, c = n / D4 % KEYS, d = n % D4;
                dk[j] += ds[r * KEYS + c] * q4[r * DP + d];
            }
#pragma unroll 16
            for (uint j = 0; j < DV; j++) {
                const uint n = item + j * WG, c = n / E4 % KEYS, e = n % E4;
                dv[j] += p[r * KEYS + c] * dy4[r * EP + e];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the queries are overwritten next */
    }
    for (uint j = 0; j < DK; j++) {
        const uint n = item + j * WG, s = (uint)s0 + n / D4;
        if (n < KEYS * D4 && s < a.n[3])
            store_vector(out + dk_at(&g, h.b, h.hk, s), dk[j] * a.scale, n % D4 * 4, D);
    }
    for (uint j = 0; j < DV; j++) {
        const uint n = item + j * WG, s = (uint)s0 + n / E4;
        if (n < KEYS * E4 && s < a.n[3])
            store_vector(out + dv_at(&g, h.b, h.hk, s), dv[j], n % E4 * 4, E);
    }
}
