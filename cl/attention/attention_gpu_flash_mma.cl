/* Softmax attention as attention_gpu_flash.cl computes it, for caches in halves, on units that multiply
 * matrices (cl/instruction/matrix.h). A unit has MATRIX_ROWS queries, as fragments in registers. So are the
 * logits, which become weights there and are at once an operand of the next product (FlashAttention-2,
 * arXiv:2307.08691). Queries and weights are rounded to halves, or with EXACT are sums of two halves each
 * (attention_halves.h).
 *
 * Launch: as attention_gpu_flash.cl, with groups of UNITS units. Local memory has a chunk of KEYS keys and
 * one of values. While the unit multiplies one of them, the other's next chunk is read to registers.
 *   -D UNITS      units of a group, which has ROWS = UNITS MATRIX_ROWS queries
 *   -D KEYS       64
 *   -D EXACT      0, 1
 *   -D SOFTCAP    whether the argument block has one
 *   -D D, E       multiples of 16; rows of k and v begin at multiples of 8 elements
 *   -D K_TYPE, V_TYPE  DTYPE_F16
 *   -D MASK, POS, SINKS, PAGED, FIRST  as in attention_gpu_flash.cl
 *   and those of matrix.h */
#include "matrix.h"
#if !defined(UNITS) || KEYS != 64 || !defined(EXACT) || !defined(SOFTCAP) || !defined(D) || !defined(E)
#  error "attention_gpu_flash_mma.cl needs UNITS, KEYS 64, EXACT, SOFTCAP, D, E and those of attention.h"
#endif
#define WG (UNITS * MATRIX_LANES)
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_halves.h"
#include "attention_logit.h"
#include "attention_gpu_mma_load.h"
#include "attention_gpu_mma_fragments.h"

enum {
    ROWS = UNITS * MATRIX_ROWS,
    TALL = 1,
    SLOTS = 1,
    N_LOGITS = KEY_PARTS * MATRIX_SUMS, /* of a chunk, that a work-item has */
    OF_SLICE = N_LOGITS / (KEYS / 16)   /* of them for 16 keys */
};

#include "attention_gpu_parts.h"
#include "attention_gpu_mma_softmax.h"

/* The chunk of keys and values from s on, of which a part of all ends at `end`. */
INLINED chunk chunk_at(const attention_args *a, const place *p, global const k_elem *k,
                       global const v_elem *v, int s, int end, global const int *pages)
{
    chunk c;
    c.n = min((int)KEYS, end - s);
    c.keys = (global const half *)k + key_at(&a->k, p->b, p->hk, s, pages);
    c.values = (global const half *)v + key_at(&a->v, p->b, p->hk, s, pages);
    return c;
}

/* The factor of each of the work-item's sums of a part. */
INLINED matrix_floats factors_of(const own_query *own)
{
#if MATRIX == 1
    return (float4)(own[0].kept, own[0].kept, own[1].kept, own[1].kept);
#else
    return own[0].kept;
#endif
}

/* Scales the unit's sums and adds a chunk's values, times their weights. */
UNIT_INLINED void accumulate(matrix_floats *acc, const float *weights, const own_query *own,
                             local const uint *values, uint lane, matrix_scratch scratch)
{
    const matrix_floats factor = factors_of(own);
#pragma unroll
    for (uint j = 0; j < VALUE_PARTS; j++)
        acc[j] *= factor;
#pragma unroll PRODUCTS_AT_ONCE
    for (uint s = 0; s < KEYS / 16; s++) {
        uint high[OF_SLICE / 2], low[OF_SLICE / 2];
#pragma unroll
        for (uint i = 0; i < OF_SLICE / 2; i++) {
            const float x = weights[s * OF_SLICE + 2 * i], y = weights[s * OF_SLICE + 2 * i + 1];
            const uint2 pair = half_words(x, y);
            high[i] = pair.x;
            low[i] = pair.y;
        }
        const matrix_w h = weight_fragment(high, lane, scratch);
        add_values(acc, h, EXACT ? weight_fragment(low, lane, scratch) : h, values, s, lane, scratch);
    }
}

#include "attention_gpu_mma_store.h"

/* The unit's queries: fragments, and what the work-item has of each. first: the first of them. */
UNIT_INLINED void begin_queries(own_query *own, matrix_w *high, matrix_w *low, const attention_args *a,
                                const place *p, global const float *q, global const int *pos,
                                global const sink_elem *sinks, global const int *first_keys, int end,
                                uint first, uint lane, matrix_scratch scratch)
{
    global const float *rows[OWN];
    float by[OWN];
#pragma unroll
    for (uint r = 0; r < OWN; r++) {
        const uint query = min(first + own_row(r, lane), p->queries - 1);
        const int at = position(a, pos, p->b, query);
        rows[r] = q + row_at(a, &a->q, p->b, p->hk, query);
        const float2 powers = powers_of(largest_of(rows[r], lane, scratch));
        by[r] = powers.y;
        own[r].factor = powers.x * a->scale;
        own[r].mask_row = row_at(a, &a->mask, p->b, p->hk, query);
        own[r].begin = keys_begin(a, at, first_key(a, first_keys, p->b, query));
        own[r].end = min(keys_end(a, at), end);
        own[r].most = p->part + 1 == a->splits ? first_logit(a, sinks, p->hk, query) : -INFINITY;
        own[r].sum = own[r].most >= -FLT_MAX && is_first_of_row(lane) ? LARGEST : 0.0f;
    }
    load_queries(high, low, rows, by, lane);
}

/* The logits of a chunk of keys, of which s is the first. */
UNIT_INLINED void logits_of(float *z, const attention_args *a, const own_query *own, const matrix_w *high,
                            const matrix_w *low, local const uint *keys, global const mask_elem *mask, int s,
                            uint lane, matrix_scratch scratch)
{
    matrix_floats products[KEY_PARTS];
    score(products, high, low, keys, lane, scratch);
#pragma unroll
    for (uint j = 0; j < KEY_PARTS; j++)
        MATRIX_STORE(products[j], j, z);
#pragma unroll
    for (uint i = 0; i < N_LOGITS; i++)
        z[i] *= own[SUM_ROW(i % MATRIX_SUMS)].factor;
#if SOFTCAP
#  pragma unroll
    for (uint i = 0; i < N_LOGITS; i++)
        z[i] = capped(z[i], a->softcap);
#endif
    mask_logits(z, a, own, mask, s, lane);
}

/* AMD's compiler would give each wave so many registers that fewer waves fit than local memory has room for.
 * More than three would have too few registers. */
#if MATRIX == 4 && !MATRIX_PLAIN
enum { ROOM = 65536 / (4 * (K_ALL + V_ALL)) * UNITS / 4 };
#  define WAVES __attribute__((amdgpu_waves_per_eu(ROOM < 1 ? 1 : ROOM > 3 ? 3 : ROOM)))
#else
#  define WAVES
#endif

GROUP_KERNEL WAVES
void attention_gpu_flash_mma(const attention_flash_args f, global float *out, global float *parts,
                             global const float *q, global const k_elem *k, global const v_elem *v,
                             global const mask_elem *mask, global const int *pos,
                             global const sink_elem *sinks FIRST_PARAM PAGING_PARAMS)
{
    const attention_args a = f.a;
    FIND_PLACE(p, own_pages, a);
    local uint keys[K_ALL] __attribute__((aligned(16))), values[V_ALL] __attribute__((aligned(16)));
    MATRIX_SCRATCH(scratch, WG);
    const uint lane = matrix_lane(), first = p.tile * ROWS + matrix_unit() * MATRIX_ROWS;
    const int2 of_part = keys_of_part(&a, &p, pos, FIRST_KEYS);
    own_query own[OWN];
    matrix_w high[SLICES], low[SLICES];
    matrix_floats acc[VALUE_PARTS];
    begin_queries(own, high, low, &a, &p, q, pos, sinks, FIRST_KEYS, of_part.y, first, lane, scratch);
#pragma unroll
    for (uint j = 0; j < VALUE_PARTS; j++)
        acc[j] = 0;
    chunk now = {0};
    if (of_part.x < of_part.y) {
        now = chunk_at(&a, &p, k, v, of_part.x, of_part.y, own_pages);
        fetch_keys(&now, a.k.stride[2], p.item);
        store_keys(keys, &now, a.k.stride[2], p.item);
    }
    for (int s0 = of_part.x; s0 < of_part.y; s0 += KEYS) { /* the bounds are equal in the whole group */
        float z[N_LOGITS];
        fetch_values(&now, a.v.stride[2], p.item);
        barrier(CLK_LOCAL_MEM_FENCE);
        logits_of(z, &a, own, high, low, keys, mask, s0, lane, scratch);
        store_values(values, &now, a.v.stride[2], p.item);
        const int goes_on = s0 + KEYS < of_part.y;
        if (goes_on) {
            now = chunk_at(&a, &p, k, v, s0 + KEYS, of_part.y, own_pages);
            fetch_keys(&now, a.k.stride[2], p.item);
        }
        weigh(z, own, scratch);
        barrier(CLK_LOCAL_MEM_FENCE);
        accumulate(acc, z, own, values, lane, scratch);
        if (goes_on)
            store_keys(keys, &now, a.k.stride[2], p.item);
    }
#pragma unroll
    for (uint r = 0; r < OWN; r++) {
        own[r].sum = row_sum(own[r].sum, scratch);
        store(out, parts + f.parts, &a, &p, &own[r], acc, first + own_row(r, lane), r, lane);
    }
}
