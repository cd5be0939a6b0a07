/* Softmax attention as attention_gpu_flash.cl computes it, for caches in halves, on units that multiply
 * matrices (cl/panel/matrix.h). A unit has MATRIX_ROWS queries. Queries and weights are sums of two halves
 * each (attention_halves.h).
 *
 * Launch: as attention_gpu_flash.cl, with groups of UNITS units. Of each chunk of KEYS keys, the group holds
 * the keys in local memory, and the values transposed, so that two keys are a word. Work-items SLOTS r to
 * SLOTS r + SLOTS - 1 turn the logits of row r into weights.
 *   -D UNITS      units of a group, which has ROWS = UNITS MATRIX_ROWS queries
 *   -D KEYS       keys of a chunk, a multiple of 16
 *   -D D, E       multiples of 16; rows of k and v begin at multiples of 8 elements
 *   -D K_TYPE, V_TYPE  DTYPE_F16
 *   -D MASK, POS, SINKS, PAGED, FIRST  as in attention_gpu_flash.cl
 *   and those of matrix.h */
#include "matrix.h"
#if !defined(UNITS) || !defined(KEYS) || !defined(D) || !defined(E)
#  error "attention_gpu_flash_mma.cl needs UNITS, KEYS, D, E and the constants of attention.h"
#endif
#define WG (UNITS * MATRIX_LANES)
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_halves.h"
#include "attention_logit.h"

enum {
    ROWS = UNITS * MATRIX_ROWS,
    TALL = 1,
    SLOTS = WG / ROWS,
    PAIRS = KEYS / 2 / SLOTS, /* pairs of keys of a row that a work-item has */
    KEY_PARTS = KEYS / MATRIX_TOKENS,
    VALUE_PARTS = E / MATRIX_TOKENS,
    /* words from one row to the next in local memory: rows that a unit reads are in different banks */
    K_WORDS = D / 2 + 4,
    V_WORDS = KEYS / 2 + 4,
    LOGITS = KEYS + 4,
    /* keys, which weights overwrite */
    SHARED = KEYS * K_WORDS > 2 * ROWS * V_WORDS ? KEYS * K_WORDS : 2 * ROWS * V_WORDS
};

/* Slices of 16 columns whose loads may be on their way at once: AMD's WMMA has no registers for two. */
#define SLICES_AT_ONCE (MATRIX == 2 ? 1 : 2)

#include "attention_gpu_parts.h"
#include "attention_gpu_mma_load.h"

/* logits[row][key] = q . k for the unit's rows. high, low, logits: of its first row. */
UNIT_INLINED void score(local float *logits, local const uint *high, local const uint *low,
                        local const uint *keys, uint lane, matrix_scratch scratch)
{
    matrix_floats z[KEY_PARTS];
#pragma unroll
    for (uint j = 0; j < KEY_PARTS; j++)
        z[j] = 0;
#pragma unroll SLICES_AT_ONCE
    for (uint d = 0; d < D / 16; d++) {
        const matrix_w h = matrix_load_w(high + d * 8, K_WORDS, lane),
                       l = matrix_load_w(low + d * 8, K_WORDS, lane);
#pragma unroll
        for (uint j = 0; j < KEY_PARTS; j++) {
            const matrix_x x = matrix_load_x(keys + j * MATRIX_TOKENS * K_WORDS + d * 8, K_WORDS, lane);
            z[j] = matrix_halves(h, x, matrix_halves(l, x, z[j], scratch), scratch);
        }
    }
#pragma unroll
    for (uint j = 0; j < KEY_PARTS; j++) {
        float each[MATRIX_SUMS];
        MATRIX_STORE(z[j], 0, each);
#pragma unroll
        for (uint i = 0; i < MATRIX_SUMS; i++)
            logits[matrix_row(i, lane) * LOGITS + j * MATRIX_TOKENS + matrix_token(i, lane)] = each[i];
    }
}

/* Scales the unit's sums by keep[row] and adds the chunk's values, times their weights. high, low, keep: of
 * its first row. */
UNIT_INLINED void accumulate(matrix_floats *acc, local const uint *high, local const uint *low,
                             local const float *keep, local const uint *values, uint lane,
                             matrix_scratch scratch)
{
    float factors[MATRIX_SUMS];
#pragma unroll
    for (uint i = 0; i < MATRIX_SUMS; i++)
        factors[i] = keep[matrix_row(i, lane)];
    const matrix_floats factor = MATRIX_LOAD(0, factors);
#pragma unroll
    for (uint j = 0; j < VALUE_PARTS; j++)
        acc[j] *= factor;
#pragma unroll SLICES_AT_ONCE
    for (uint s = 0; s < KEYS / 16; s++) {
        const matrix_w h = matrix_load_w(high + s * 8, V_WORDS, lane),
                       l = matrix_load_w(low + s * 8, V_WORDS, lane);
#pragma unroll
        for (uint j = 0; j < VALUE_PARTS; j++) {
            const matrix_x x = matrix_load_x(values + j * MATRIX_TOKENS * V_WORDS + s * 8, V_WORDS, lane);
            acc[j] = matrix_halves(h, x, matrix_halves(l, x, acc[j], scratch), scratch);
        }
    }
}

/* Writes the unit's rows: results, or, if the keys are cut, records for the merge. most: of each row; sums:
 * of each work-item's keys. */
INLINED void store(global float *out, global float *parts, const attention_args *a, const place *p,
                   local const float *most, local const float *sums, const matrix_floats *acc, uint unit_row,
                   uint lane)
{
#pragma unroll
    for (uint i = 0; i < MATRIX_SUMS; i++) {
        const uint row = unit_row + matrix_row(i, lane), query = p->tile * ROWS + row;
        if (query >= p->queries)
            continue;
        float sum = 0;
        for (uint slot = 0; slot < SLOTS; slot++)
            sum += sums[row * SLOTS + slot];
        global float *to = out + out_at(a, p->b, p->hk, query, E);
        if (a->splits > 1) {
            to = parts + (out_at(a, p->b, p->hk, query, 1) * a->splits + p->part) * RECORD;
            if (matrix_token(i, lane) == 0) {
                to[0] = most[row];
                to[1] = sum;
            }
            to += 4;
        }
        const float scale = (a->splits > 1 ? 1.0f : sum != 0 ? 1.0f / sum : 0.0f) / LARGEST;
#pragma unroll
        for (uint j = 0; j < VALUE_PARTS; j++) {
            float each[MATRIX_SUMS];
            MATRIX_STORE(acc[j], 0, each);
            to[j * MATRIX_TOKENS + matrix_token(i, lane)] = each[i] * scale;
        }
    }
}

GROUP_KERNEL
void attention_gpu_flash_mma(const attention_flash_args f, global float *out, global float *parts,
                             global const float *q, global const k_elem *k, global const v_elem *v,
                             global const mask_elem *mask, global const int *pos,
                             global const sink_elem *sinks FIRST_PARAM PAGING_PARAMS)
{
    const attention_args a = f.a;
    FIND_PLACE(p, own_pages, a);
    local uint query_high[ROWS * K_WORDS], query_low[ROWS * K_WORDS], keys[SHARED], values[E * V_WORDS];
    local float logits[ROWS * LOGITS], keep[ROWS], of_slots[WG];
    MATRIX_SCRATCH(scratch, WG);
    const uint lane = matrix_lane(), unit_row = matrix_unit() * MATRIX_ROWS, row = p.first;
    const uint query = min(p.tile * ROWS + row, p.queries - 1);
    const int at = position(&a, pos, p.b, query);
    const size_t mask_row = row_at(&a, &a.mask, p.b, p.hk, query);
    const int begin = keys_begin(&a, at, first_key(&a, FIRST_KEYS, p.b, query)), end = keys_end(&a, at);
    const float power = load_query(query_high + row * K_WORDS, query_low + row * K_WORDS,
                                   q + row_at(&a, &a.q, p.b, p.hk, query), p.slot);
    float most = p.part + 1 == a.splits ? first_logit(&a, sinks, p.hk, query) : -INFINITY;
    float sum = most >= -FLT_MAX && p.slot == 0 ? 1.0f : 0.0f; /* of the item's keys */
    matrix_floats acc[VALUE_PARTS];
#pragma unroll
    for (uint j = 0; j < VALUE_PARTS; j++)
        acc[j] = 0;
    const int2 of_part = keys_of_part(&a, &p, pos, FIRST_KEYS);
    for (int s0 = of_part.x; s0 < of_part.y; s0 += KEYS) { /* the bounds are equal in the whole group */
        const int n = min((int)KEYS, of_part.y - s0);
        float z[2 * PAIRS];
        load_keys(keys, (global const half *)k, key_at(&a.k, p.b, p.hk, s0, own_pages), a.k.stride[2], n,
                  p.item);
        load_values(values, (global const half *)v, key_at(&a.v, p.b, p.hk, s0, own_pages), a.v.stride[2], n,
                    p.item);
        barrier(CLK_LOCAL_MEM_FENCE);
        score(logits + unit_row * LOGITS, query_high + unit_row * K_WORDS, query_low + unit_row * K_WORDS,
              keys, lane, scratch);
        barrier(CLK_LOCAL_MEM_FENCE);
        float high = -INFINITY;
#pragma unroll
        for (uint i = 0; i < 2 * PAIRS; i++) {
            const uint key = 2 * (p.slot + i / 2 * SLOTS) + i % 2;
            const int s = s0 + (int)key;
            z[i] = s >= begin && s < min(end, of_part.y)
                       ? logit(&a, mask, mask_row, s, power * logits[row * LOGITS + key])
                       : -INFINITY;
            high = fmax(high, z[i]);
        }
        of_slots[p.item] = high;
        barrier(CLK_LOCAL_MEM_FENCE);
        high = most;
        for (uint i = 0; i < SLOTS; i++)
            high = fmax(high, of_slots[row * SLOTS + i]);
        const float base = base_of(high), kept = weight_of(most, base);
        most = high;
        sum *= kept;
#pragma unroll
        for (uint i = 0; i < PAIRS; i++) {
            const float first = weight_of(z[2 * i], base), second = weight_of(z[2 * i + 1], base);
            const uint to = row * V_WORDS + p.slot + i * SLOTS;
            put_pair(keys + to, keys + ROWS * V_WORDS + to, first * LARGEST, second * LARGEST);
            sum += first + second;
        }
        if (p.slot == 0)
            keep[row] = kept;
        barrier(CLK_LOCAL_MEM_FENCE);
        accumulate(acc, keys + unit_row * V_WORDS, keys + (ROWS + unit_row) * V_WORDS, keep + unit_row,
                   values, lane, scratch);
        barrier(CLK_LOCAL_MEM_FENCE); /* local memory is overwritten next */
    }
    of_slots[p.item] = sum;
    if (p.slot == 0)
        keep[row] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    store(out, parts + f.parts, &a, &p, keep, of_slots, acc, unit_row, lane);
}
