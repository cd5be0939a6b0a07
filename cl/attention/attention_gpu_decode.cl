/* Softmax attention of few queries for each head of k, as in decode, on GPUs: rows of k and v pass from
 * memory to registers, and local memory holds sums alone. attention_gpu_query.cl has the formula and the
 * numbering of the queries of a head of k, attention_gpu_flash.cl the parts of the keys.
 *
 * A work-item (stream, lane) of WG / LANES streams by LANES = D / UNIT lanes has UNIT elements of each row.
 * Of a chunk of EACH keys for each stream it
 *   1. loads its elements of EACH rows of k, leaves its part of the products q . k, and loads those of v;
 *   2. adds up the parts of one product, or of a few, and leaves a logit;
 *   3. turns that logit into a weight relative to the largest one of its query in its stream;
 *   4. adds the values of its stream, times their weights, to its sums of all ROWS queries.
 * At the end the sums of all streams are added up.
 *
 * Launch: splits ceil(group T / ROWS) Hk B groups of WG work-items.
 *   -D WG, ROWS        ROWS: queries of a tile
 *   -D UNIT            4 or 8; divides D. Rows of floats are aligned to UNIT elements
 *   -D EACH            keys of a chunk for each stream
 *   -D D, E            last dims of k and v; equal, and at most WG UNIT
 *   -D K_TYPE, V_TYPE  f32, f16, bf16 or q8_0
 *   -D MASK, POS, SINKS, FIRST  as in attention_gpu_query.cl
 *   -D PAGED           1: the batch is the rows of several sequences (paging.h). A tile's queries are of one
 *                      run, and there are splits a.tiles Hk groups
 *   -D NEW             0: q is ready, and the caches have all rows. Else T, of cached attention whose queries
 *                      of a head of k are one tile and whose runs are of one row: the kernel prepares the
 *                      heads of the step, too (attention_gpu_heads.h) */
#include "args.h"
#include "group.h"
#include "inline.h"
#include "weights.h"
#include "attention.h"
#include "attention_logit.h"

#if !defined(D) || !defined(E) || !defined(ROWS) || !defined(UNIT) || !defined(EACH) || !defined(NEW)
#  error "attention_gpu_decode.cl needs WG, ROWS, UNIT, EACH, NEW, D, E, K_TYPE, V_TYPE, MASK, POS, SINKS"
#endif
#include "attention_gpu_row.h"

enum {
    LANES = D / UNIT,
    STREAMS = WG / LANES, /* work-items beyond the last stream repeat loads, and leave nothing */
    KEYS = STREAMS * EACH,
    PAIRS = KEYS * ROWS, /* of a query and a key of the chunk; pair r KEYS + c is query r and key c */
    MINE = (PAIRS + WG - 1) / WG,
    PITCH = LANES | 1, /* floats between neighbouring pairs: odd, so that they are in different banks */
    SLOTS = LANES,
    TALL = 1
};
#include "attention_gpu_parts.h"
#include "attention_gpu_streams.h"

/* Where element d of query r is in local memory: vectors of four, those of neighbouring lanes beside each
 * other, so that they are in different banks. */
INLINED uint ready_at(uint r, uint d)
{
    return ((r * (UNIT / 4) + d % UNIT / 4) * LANES + d / UNIT) * 4 + d % 4;
}

#if NEW
#  include "attention_gpu_heads.h"
#  define CACHE global
#else
enum { HEADS = ROWS, HEAD_SUMS = 0 };
#  define HEADS_PARAMS
#  define CACHE global const
#endif
#define MOST(x, y) ((x) > (y) ? (x) : (y))
enum { SUMS = MOST(MOST(PAIRS * PITCH, STREAMS * E), HEAD_SUMS) };

/* The lane's elements of query r. */
INLINED unit_floats query_piece(local const float *ready, uint r, uint lane)
{
#if UNIT == 8
    const uint at = lane * UNIT;
    return (float8)(vload4(0, ready + ready_at(r, at)), vload4(0, ready + ready_at(r, at + 4)));
#else
    return vload4(0, ready + ready_at(r, lane * UNIT));
#endif
}

INLINED void start_pairs(own_pair *own, const attention_args *a, const place *p, global const int *pos,
                         global const int *first_keys)
{
#pragma unroll
    for (uint m = 0; m < MINE; m++) {
        const uint query = min(p->tile * ROWS + (p->item + m * WG) / KEYS, p->queries - 1);
        const int at = position(a, pos, p->b, query);
        own[m].mask_row = row_at(a, &a->mask, p->b, p->hk, query);
        own[m].begin = keys_begin(a, at, first_key(a, first_keys, p->b, query));
        own[m].end = keys_end(a, at);
        own[m].most = -INFINITY;
        own[m].sum = 0;
    }
}

INLINED void copy_queries(local float *ready, const attention_args *a, const place *p, global const float *q)
{
    for (uint i = p->item; i < ROWS * D; i += WG) {
        const uint query = min(p->tile * ROWS + i / D, p->queries - 1);
        ready[ready_at(i / D, i % D)] = q[row_at(a, &a->q, p->b, p->hk, query) + i % D];
    }
}

/* Where the item has its elements of key j of its stream, in the chunk from s0 on. Keys from `end` on repeat
 * the last. */
INLINED size_t own_piece(const view_args *view, const place *p, uint j, int s0, int end,
                         global const int *own_pages)
{
    const int s = min(s0 + (int)(j * STREAMS + p->first), end - 1);
    return key_at(view, p->b, p->hk, s, own_pages) + p->slot * UNIT;
}

/* Leaves the item's parts of the products q . k. */
INLINED void multiply(local float *sums, local const float *ready, const RAW(K_TYPE) *key, const place *p)
{
    unit_floats x[EACH];
#pragma unroll
    for (uint j = 0; j < EACH; j++)
        x[j] = DECODE(K_TYPE)(key[j]);
#pragma unroll 1
    for (uint r = 0; r < ROWS; r++) {
        const unit_floats y = query_piece(ready, r, p->slot);
#pragma unroll
        for (uint j = 0; j < EACH; j++) {
            const float part = product(y, x[j], 0.0f);
            if (!is_idle(p))
                sums[(r * KEYS + j * STREAMS + p->first) * PITCH + p->slot] = part;
        }
    }
}

/* Adds up the products of the item's pairs, and leaves their logits. */
INLINED void score(local float *logits, local const float *sums, const own_pair *own, const attention_args *a,
                   global const mask_elem *mask, uint item, int s0, int end)
{
#pragma unroll
    for (uint m = 0; m < MINE; m++) {
        const uint pair = item + m * WG;
        if (pair < PAIRS) {
            const int s = s0 + (int)(pair % KEYS);
            float z = 0;
#pragma unroll
            for (uint l = 0; l < LANES; l++)
                z += sums[pair * PITCH + l];
            logits[pair] = s >= own[m].begin && s < min(own[m].end, end)
                               ? logit(a, mask, own[m].mask_row, s, z)
                               : -INFINITY;
        }
    }
}

/* Leaves the weights of the item's pairs, and the factors of the sums so far of each stream. */
INLINED void weigh(local float *weights, local float *keeps, local const float *logits, own_pair *own,
                   uint item)
{
#pragma unroll
    for (uint m = 0; m < MINE; m++) {
        const uint pair = item + m * WG;
        if (pair < PAIRS) {
            const uint r = pair / KEYS, c = pair % KEYS;
            float high = own[m].most;
#pragma unroll
            for (uint j = 0; j < EACH; j++)
                high = fmax(high, logits[r * KEYS + j * STREAMS + c % STREAMS]);
            const float base = base_of(high);
            const float keep = weight_of(own[m].most, base), weight = weight_of(logits[pair], base);
            own[m].most = high;
            own[m].sum = own[m].sum * keep + weight;
            weights[c * ROWS + r] = weight;
            if (c < STREAMS)
                keeps[c * ROWS + r] = keep;
        }
    }
}

/* Adds the item's elements of its stream's values, times their weights. */
INLINED void add(unit_floats *acc, const RAW(V_TYPE) *value, local const float *weights,
                 local const float *keeps, const place *p)
{
    const uint stream = is_idle(p) ? 0 : p->first;
#pragma unroll
    for (uint r = 0; r < ROWS; r++)
        acc[r] *= keeps[stream * ROWS + r];
#pragma unroll
    for (uint j = 0; j < EACH; j++) {
        const unit_floats y = DECODE(V_TYPE)(value[j]);
#pragma unroll
        for (uint r = 0; r < ROWS; r++)
            acc[r] = fma((unit_floats)(weights[(j * STREAMS + stream) * ROWS + r]), y, acc[r]);
    }
}

GROUP_KERNEL
void attention_gpu_decode(const attention_flash_args f, global float *out, global float *parts,
                          global const float *q, CACHE k_elem *k, CACHE v_elem *v,
                          global const mask_elem *mask, global const int *pos,
                          global const sink_elem *sinks HEADS_PARAMS FIRST_PARAM PAGING_PARAMS)
{
    const attention_args a = f.a;
    FIND_PLACE(p, own_pages, a);
    local float sums[SUMS] __attribute__((aligned(16)));
    local float logits[PAIRS], weights[KEYS * ROWS] __attribute__((aligned(16))),
        keeps[STREAMS * ROWS] __attribute__((aligned(16)));
    local float ready[HEADS * D] __attribute__((aligned(16))), tops[ROWS], totals[ROWS];
    const int2 keys = keys_of_part(&a, &p, pos, FIRST_KEYS);
    unit_floats acc[ROWS];
    own_pair own[MINE];

#if NEW
    make_heads(&f, &p, keys, ready, sums, k, v, q, pos, own_pages, new_k, new_v, q_norm, k_norm, freqs);
#else
    copy_queries(ready, &a, &p, q);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#pragma unroll
    for (uint r = 0; r < ROWS; r++)
        acc[r] = 0;
    start_pairs(own, &a, &p, pos, FIRST_KEYS);
    for (int s0 = keys.x; s0 < keys.y; s0 += KEYS) { /* the bounds are equal in the whole group */
        RAW(K_TYPE) key[EACH];
        RAW(V_TYPE) value[EACH];
#pragma unroll
        for (uint j = 0; j < EACH; j++)
            key[j] = PIECE(K_TYPE)(k, own_piece(&a.k, &p, j, s0, keys.y, own_pages));
        multiply(sums, ready, key, &p);
#pragma unroll
        for (uint j = 0; j < EACH; j++) /* on their way while the weights are computed */
            value[j] = PIECE(V_TYPE)(v, own_piece(&a.v, &p, j, s0, keys.y, own_pages));
        barrier(CLK_LOCAL_MEM_FENCE);
        score(logits, sums, own, &a, mask, p.item, s0, keys.y);
        barrier(CLK_LOCAL_MEM_FENCE);
        weigh(weights, keeps, logits, own, p.item);
        barrier(CLK_LOCAL_MEM_FENCE);
        add(acc, value, weights, keeps, &p);
    }

    leave_pairs(sums, logits, own, p.item);
    barrier(CLK_LOCAL_MEM_FENCE); /* all items have read the last chunk's weights */
    scale_streams(tops, keeps, weights, sums, logits, &a, &p, sinks);
    barrier(CLK_LOCAL_MEM_FENCE);
    add_weights(totals, weights, p.item);
    for (uint r = 0; r < ROWS; r++) {
        leave_sums(sums, acc, keeps, &p, r);
        barrier(CLK_LOCAL_MEM_FENCE);
        write_row(out, parts + f.parts, sums, tops, totals, &a, &p, r);
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums are overwritten next */
    }
}
