/* Softmax attention as attention_gpu_flash_mma.cl computes it, on units of eight work-items (matrix.h, MATRIX
 * 3). A unit has eight queries. Its sums of a query are all of one work-item, and so are the logits: each
 * work-item turns those of its query into weights by itself, and they are at once its part of the next
 * product's operand. So local memory holds inputs alone.
 *
 * Launch: as attention_gpu_flash.cl, with groups of UNITS units. Of each chunk of KEYS keys the group holds
 * keys and transposed values in local memory, as fragments (panel_gpu_fragments_8.h).
 *   -D UNITS      units of a group, which has ROWS = 8 UNITS queries
 *   -D KEYS       32
 *   -D EXACT      0, 1: as in attention_gpu_flash_mma.cl
 *   -D D, E       64 or 128, equal; rows of k and v begin at multiples of 8 elements
 *   -D K_TYPE, V_TYPE  DTYPE_F16
 *   -D MASK, POS, SINKS, PAGED, FIRST  as in attention_gpu_flash.cl
 *   and those of matrix.h */
#include "matrix.h"
#if !defined(UNITS) || !defined(EXACT) || !defined(D) || !defined(E) || KEYS != 32 || D != E
#  error "attention_gpu_flash_dpas.cl needs UNITS, EXACT, KEYS 32, D = E, and the constants of attention.h"
#endif
#define WG (UNITS * MATRIX_LANES)
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_halves.h"
#include "attention_logit.h"
#include "panel_gpu_fragments_8.h"

enum {
    ROWS = UNITS * MATRIX_ROWS,
    TALL = 1,
    SLOTS = 1,
    D_SLICES = D / 16,
    E_PARTS = E / MATRIX_TOKENS,
    PIECES = D / 16,
    WORDS = D / 2 / MATRIX_LANES /* of a query, that a work-item has */
};

#include "attention_gpu_parts.h"
#include "attention_gpu_dpas_chunk.h"

/* Stores the unit's queries, of which `first` is the first. Each is divided by a power of two; returns that
 * of the work-item's. */
INLINED float load_queries(local uint *high, local uint *low, const attention_args *a, const place *p,
                           global const float *q, uint first, uint lane)
{
    float power = 0;
#pragma unroll 2
    for (uint r = 0; r < MATRIX_ROWS; r++) {
        global const float *row = q + row_at(a, &a->q, p->b, p->hk, min(first + r, p->queries - 1));
        float2 x[WORDS];
        float most = 0;
#pragma unroll
        for (uint i = 0; i < WORDS; i++)
            x[i] = vload2(i * MATRIX_LANES + lane, row);
#if MATRIX_PLAIN
        for (uint d = 0; d < D; d++)
            most = fmax(most, fabs(row[d]));
#else
#  pragma unroll
        for (uint i = 0; i < WORDS; i++)
            most = fmax(most, fmax(fabs(x[i].x), fabs(x[i].y)));
        most = subgroup_max(most);
#endif
        const float2 powers = powers_of(most);
#pragma unroll
        for (uint i = 0; i < WORDS; i++) {
            const uint2 pair = half_words(x[i].x * powers.y, x[i].y * powers.y);
            high[(i * MATRIX_LANES + lane) * MATRIX_ROWS + r] = pair.x;
            if (EXACT)
                low[(i * MATRIX_LANES + lane) * MATRIX_ROWS + r] = pair.y;
        }
        power = r == lane ? powers.x : power;
    }
    return power;
}

/* z[j] = q . k for eight keys each. keys: of the first. */
UNIT_INLINED void score(matrix_floats *z, local const uint *high, local const uint *low,
                        local const uint *keys, uint lane, matrix_scratch scratch)
{
    z[0] = z[1] = 0;
#pragma unroll 1
    for (uint d = 0; d < D_SLICES; d++) {
        const matrix_w h = fragment_load(high + d * FRAGMENT, lane),
                       l = EXACT ? fragment_load(low + d * FRAGMENT, lane) : h;
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            const matrix_x x = fragment_load(keys + (j * D_SLICES + d) * FRAGMENT, lane);
            if (EXACT)
                z[j] = matrix_halves(l, x, z[j], scratch);
            z[j] = matrix_halves(h, x, z[j], scratch);
        }
    }
}

INLINED void cap(matrix_floats *z, float softcap)
{
#pragma unroll 1
    for (uint j = 0; j < 2; j++) { /* one copy of tanh's code for all of z */
        const matrix_floats x = z[0];
        z[0] = z[1];
        z[1] = softcap * tanh(x / softcap);
    }
}

#include "attention_gpu_dpas_logits.h"

/* Scales the unit's sums by `kept` and adds the values of sixteen keys, times their weights x and y. values:
 * of the first key. */
UNIT_INLINED void accumulate(matrix_floats *acc, float kept, float8 x, float8 y, local const uint *values,
                             uint lane, matrix_scratch scratch)
{
    const uint2 w0 = half_words(x.s0, x.s1), w1 = half_words(x.s2, x.s3), w2 = half_words(x.s4, x.s5),
                w3 = half_words(x.s6, x.s7), w4 = half_words(y.s0, y.s1), w5 = half_words(y.s2, y.s3),
                w6 = half_words(y.s4, y.s5), w7 = half_words(y.s6, y.s7);
    const matrix_w h = (uint8)(w0.x, w1.x, w2.x, w3.x, w4.x, w5.x, w6.x, w7.x),
                   l = (uint8)(w0.y, w1.y, w2.y, w3.y, w4.y, w5.y, w6.y, w7.y);
    if (kept != 1.0f)
#pragma unroll
        for (uint j = 0; j < E_PARTS; j++)
            acc[j] *= kept;
#pragma unroll
    for (uint j = 0; j < E_PARTS; j++) {
        const matrix_x v = fragment_load(values + j * FRAGMENT, lane);
        if (EXACT)
            acc[j] = matrix_halves(l, v, acc[j], scratch);
        acc[j] = matrix_halves(h, v, acc[j], scratch);
    }
}

/* Writes the result of query `own`, or, if the keys are cut, a record for the merge. */
INLINED void store(global float *out, global float *parts, const attention_args *a, const place *p, uint own,
                   float most, float sum, const matrix_floats *acc)
{
    if (own >= p->queries)
        return;
    global float *to = out + out_at(a, p->b, p->hk, own, E);
    const float scale = (a->splits > 1 ? 1.0f : sum != 0 ? 1.0f / sum : 0.0f) / LARGEST;
    if (a->splits > 1) {
        to = parts + (out_at(a, p->b, p->hk, own, 1) * a->splits + p->part) * RECORD;
        to[0] = most;
        to[1] = sum;
        to += 4;
    }
#pragma unroll
    for (uint j = 0; j < E_PARTS; j++)
        vstore8(acc[j] * scale, j, to);
}

GROUP_KERNEL
void attention_gpu_flash_dpas(const attention_flash_args f, global float *out, global float *parts,
                              global const float *q, global const k_elem *k, global const v_elem *v,
                              global const mask_elem *mask, global const int *pos,
                              global const sink_elem *sinks FIRST_PARAM PAGING_PARAMS)
{
    const attention_args a = f.a;
    FIND_PLACE(p, own_pages, a);
    local uint query_high[ROWS * D / 2] __attribute__((aligned(16))),
        query_low[EXACT ? ROWS * D / 2 : 4] __attribute__((aligned(16))),
        keys[KEYS * D / 2] __attribute__((aligned(16))),
        values[KEYS * E / 2] __attribute__((aligned(16)));
    MATRIX_SCRATCH(scratch, WG);
    const uint lane = matrix_lane(), unit = matrix_unit(), own = p.tile * ROWS + unit * MATRIX_ROWS + lane,
               query = min(own, p.queries - 1);
    local uint *high = query_high + unit * MATRIX_ROWS * D / 2,
               *low = query_low + EXACT * unit * MATRIX_ROWS * D / 2;
    const int at = position(&a, pos, p.b, query);
    const int2 of_part = keys_of_part(&a, &p, pos, FIRST_KEYS);
    const sight see = {row_at(&a, &a.mask, p.b, p.hk, query),
                       keys_begin(&a, at, first_key(&a, FIRST_KEYS, p.b, query)),
                       min(keys_end(&a, at), of_part.y)};
    const float power = load_queries(high, low, &a, &p, q, own - lane, lane);
    float most = p.part + 1 == a.splits ? first_logit(&a, sinks, p.hk, query) : -INFINITY;
    float sum = most >= -FLT_MAX ? 1.0f : 0.0f;
    matrix_floats acc[E_PARTS];
#pragma unroll
    for (uint j = 0; j < E_PARTS; j++)
        acc[j] = 0;
    for (int s0 = of_part.x; s0 < of_part.y; s0 += KEYS) { /* the bounds are equal in the whole group */
        const int n = min((int)KEYS, of_part.y - s0);
        global const ushort *from_k = (global const ushort *)k + key_at(&a.k, p.b, p.hk, s0, own_pages),
                            *from_v = (global const ushort *)v + key_at(&a.v, p.b, p.hk, s0, own_pages);
#pragma unroll 1
        for (uint first = 0; first < PIECES; first += UNITS) {
            chunk_piece piece;
            fetch_piece(&piece, from_k, a.k.stride[2], from_v, a.v.stride[2], n,
                        min(first + unit, (uint)PIECES - 1), lane);
            barrier(CLK_LOCAL_MEM_FENCE); /* all units have multiplied the last chunk */
            if (PIECES % UNITS == 0 || first + unit < PIECES)
                store_piece(&piece, keys, values, first + unit, lane);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint c = 0; c < KEYS / 16; c++) { /* sixteen keys at a time, for want of registers */
            matrix_floats z[2];
            score(z, high, low, keys + 2 * c * D_SLICES * FRAGMENT, lane, scratch);
            z[0] *= power * a.scale;
            z[1] *= power * a.scale;
            if (a.softcap > 0)
                cap(z, a.softcap);
            z[0] = seen_eight(&a, &see, mask, s0 + (int)c * 16, z[0]);
            z[1] = seen_eight(&a, &see, mask, s0 + (int)c * 16 + 8, z[1]);
            const float top = max_eight(z[1], max_eight(z[0], most)), base = base_of(top),
                        kept = weight_of(most, base);
            z[0] = weights_of(z[0], base);
            z[1] = weights_of(z[1], base);
            most = top;
            sum *= kept;
            sum += sum_eight(z[0]);
            sum += sum_eight(z[1]);
            accumulate(acc, kept, z[0] * LARGEST, z[1] * LARGEST, values + c * E_PARTS * FRAGMENT, lane,
                       scratch);
        }
    }
    store(out, parts + f.parts, &a, &p, own, most, sum, acc);
}
