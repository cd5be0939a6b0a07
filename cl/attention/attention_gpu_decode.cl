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

INLINED void store_piece(local float *to, unit_floats x)
{
#if UNIT == 8
    vstore8(x, 0, to);
#else
    vstore4(x, 0, to);
#endif
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
    const uint lane = p.slot, stream = p.first, from = lane * UNIT;
    const int2 keys = keys_of_part(&a, &p, pos, FIRST_KEYS);
    const bool is_idle = WG % LANES != 0 && stream >= STREAMS;
    unit_floats acc[ROWS];
    size_t mask_row[MINE];
    int begin[MINE], end[MINE];
    float most[MINE], sum[MINE];

#if NEW
    make_heads(&f, &p, keys, ready, sums, k, v, q, pos, own_pages, new_k, new_v, q_norm, k_norm, freqs);
#else
    for (uint i = p.item; i < ROWS * D; i += WG) {
        const uint query = min(p.tile * ROWS + i / D, p.queries - 1);
        ready[ready_at(i / D, i % D)] = q[row_at(&a, &a.q, p.b, p.hk, query) + i % D];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#pragma unroll
    for (uint r = 0; r < ROWS; r++)
        acc[r] = 0;
#pragma unroll
    for (uint m = 0; m < MINE; m++) { /* pairs beyond the last repeat its query */
        const uint query = min(p.tile * ROWS + (p.item + m * WG) / KEYS, p.queries - 1);
        const int at = position(&a, pos, p.b, query);
        mask_row[m] = row_at(&a, &a.mask, p.b, p.hk, query);
        begin[m] = keys_begin(&a, at, first_key(&a, FIRST_KEYS, p.b, query));
        end[m] = keys_end(&a, at);
        most[m] = -INFINITY;
        sum[m] = 0;
    }
    for (int s0 = keys.x; s0 < keys.y; s0 += KEYS) { /* the bounds are equal in the whole group */
        RAW(K_TYPE) key[EACH];
        RAW(V_TYPE) value[EACH];
        unit_floats x[EACH];
#pragma unroll
        for (uint j = 0; j < EACH; j++) {
            const int s = min(s0 + (int)(j * STREAMS + stream), keys.y - 1);
            key[j] = PIECE(K_TYPE)(k, key_at(&a.k, p.b, p.hk, s, own_pages) + from);
        }
#pragma unroll
        for (uint j = 0; j < EACH; j++)
            x[j] = DECODE(K_TYPE)(key[j]);
#pragma unroll 1
        for (uint r = 0; r < ROWS; r++) {
            const unit_floats y = query_piece(ready, r, lane);
#pragma unroll
            for (uint j = 0; j < EACH; j++) {
                const float part = product(y, x[j], 0.0f);
                if (!is_idle)
                    sums[(r * KEYS + j * STREAMS + stream) * PITCH + lane] = part;
            }
        }
#pragma unroll
        for (uint j = 0; j < EACH; j++) { /* on their way while the weights are computed */
            const int s = min(s0 + (int)(j * STREAMS + stream), keys.y - 1);
            value[j] = PIECE(V_TYPE)(v, key_at(&a.v, p.b, p.hk, s, own_pages) + from);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint m = 0; m < MINE; m++) {
            const uint pair = p.item + m * WG;
            if (pair < PAIRS) {
                const int s = s0 + (int)(pair % KEYS);
                float z = 0;
#pragma unroll
                for (uint l = 0; l < LANES; l++)
                    z += sums[pair * PITCH + l];
                logits[pair] = s >= begin[m] && s < min(end[m], keys.y) ? logit(&a, mask, mask_row[m], s, z)
                                                                        : -INFINITY;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint m = 0; m < MINE; m++) {
            const uint pair = p.item + m * WG;
            if (pair < PAIRS) {
                const uint r = pair / KEYS, c = pair % KEYS;
                float high = most[m];
#pragma unroll
                for (uint j = 0; j < EACH; j++)
                    high = fmax(high, logits[r * KEYS + j * STREAMS + c % STREAMS]);
                const float base = base_of(high);
                const float keep = weight_of(most[m], base), weight = weight_of(logits[pair], base);
                most[m] = high;
                sum[m] = sum[m] * keep + weight;
                weights[c * ROWS + r] = weight;
                if (c < STREAMS)
                    keeps[c * ROWS + r] = keep;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint own = is_idle ? 0 : stream;
#pragma unroll
        for (uint r = 0; r < ROWS; r++)
            acc[r] *= keeps[own * ROWS + r];
#pragma unroll
        for (uint j = 0; j < EACH; j++) {
            const unit_floats y = DECODE(V_TYPE)(value[j]);
#pragma unroll
            for (uint r = 0; r < ROWS; r++)
                acc[r] = fma((unit_floats)(weights[(j * STREAMS + own) * ROWS + r]), y, acc[r]);
        }
    }

    /* The maxima of the streams, in `sums`, and the sums of the weights of each pair, in `logits`. */
#pragma unroll
    for (uint m = 0; m < MINE; m++) {
        const uint pair = p.item + m * WG, c = pair % KEYS;
        if (pair < PAIRS) {
            logits[pair] = sum[m];
            if (c < STREAMS)
                sums[c * ROWS + pair / KEYS] = most[m];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* all items have read the last chunk's weights */
    for (uint i = p.item; i < STREAMS * ROWS; i += WG) {
        const uint r = i % ROWS, query = min(p.tile * ROWS + r, p.queries - 1);
        const float first = p.part + 1 == a.splits ? first_logit(&a, sinks, p.hk, query) : -INFINITY;
        float high = first, total = 0;
        for (uint c = 0; c < STREAMS; c++)
            high = fmax(high, sums[c * ROWS + r]);
        const float base = base_of(high), scale = weight_of(sums[i], base);
        for (uint j = 0; j < EACH; j++)
            total += logits[r * KEYS + j * STREAMS + i / ROWS];
        keeps[i] = scale;
        weights[i] = total * scale + (i < ROWS ? weight_of(first, base) : 0.0f);
        if (i < ROWS)
            tops[i] = high;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (p.item < ROWS) {
        float total = 0;
        for (uint c = 0; c < STREAMS; c++)
            total += weights[c * ROWS + p.item];
        totals[p.item] = total;
    }
    for (uint r = 0; r < ROWS; r++) {
#pragma unroll
        for (uint i = 0; i < ROWS; i++) /* an array that is indexed by r would be in memory */
            if (i == r && !is_idle)
                store_piece(sums + stream * E + from, acc[i] * keeps[stream * ROWS + i]);
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint query = p.tile * ROWS + r;
        if (query < p.queries) {
            const float total = totals[r], scale = a.splits > 1 ? 1.0f : total != 0 ? 1.0f / total : 0.0f;
            global float *row = out + out_at(&a, p.b, p.hk, query, E);
            if (a.splits > 1) {
                row = parts + f.parts + (out_at(&a, p.b, p.hk, query, 1) * a.splits + p.part) * RECORD;
                if (p.item == 0) {
                    row[0] = tops[r];
                    row[1] = total;
                }
                row += 4;
            }
            for (uint e = p.item; e < E; e += WG) {
                float x = 0;
                for (uint c = 0; c < STREAMS; c++)
                    x += sums[c * E + e];
                row[e] = x * scale;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums are overwritten next */
    }
}
