/* For attention_gpu_decode.cl with NEW > 0: a group takes its queries and the new keys of its sequence from
 * the product that made them, and applies norm and RoPE to them (norm.cl and rope.cl have the formulas). The
 * group whose part of the keys has the position of a new token writes the token's rows to the caches, and
 * then reads them there as it reads all others. No other group reads these rows, because the queries of a
 * head of k are one tile.
 *   -D TURNED           pairs of a head that RoPE turns; 0: no RoPE
 *   -D PAIRING          as in rope.cl, 0 to 2
 *   -D NORM_TYPE        dtype of the norms' weights, DTYPE_NONE without norms; with norms PAIRING is 0 or 1
 * Include it after attention_gpu_parts.h, with LANES, STREAMS and PITCH, and ready_at(). */
#ifndef CLEF_CL_ATTENTION_GPU_HEADS_H
#define CLEF_CL_ATTENTION_GPU_HEADS_H

#if !defined(TURNED) || !defined(PAIRING) || !defined(NORM_TYPE)
#  error "attention_gpu_heads.h needs TURNED, PAIRING and NORM_TYPE"
#endif
#include "cache_row.h"
#include "norm_elem.h"

/* Head i is query i for i < ROWS, else the key of new token i - ROWS. In the group's sums, SQUARES floats
 * from the beginning are cosines and sines, which sums of squares follow. */
enum {
    HEADS = ROWS + NEW,
    ROUNDS = (HEADS + STREAMS - 1) / STREAMS, /* a stream has a head in each */
    SQUARES = NEW * 2 * TURNED,
    HEAD_SUMS = SQUARES + HEADS * PITCH
};

#define HEADS_PARAMS                                                                                      \
    , global const float *new_k, global const float *new_v, global const norm_elem *q_norm,               \
        global const norm_elem *k_norm, global const float *freqs

INLINED size_t new_at(const view_args *view, const place *p, uint t)
{
    return view->offset + p->b * (size_t)view->stride[0] + p->hk * (size_t)view->stride[1] +
           t * (size_t)view->stride[PAGED ? 0 : 2];
}

/* The query of head i; queries beyond the last repeat it. */
INLINED uint query_of(const place *p, uint i) { return min(i, p->queries - 1); }

/* Leaves the cosines and sines of the angles by which the pairs of new tokens turn. */
INLINED void find_turns(const attention_flash_args *f, const place *p, local float *sums,
                        global const float *freqs, global const int *pos)
{
#if TURNED
    for (uint i = p->item; i < NEW * TURNED; i += WG) {
        const int at = position(&f->a, pos, p->b, i / TURNED * f->a.group);
        const float angle = (float)at * freqs[f->heads.freqs + i % TURNED];
        sums[2 * i] = cos(angle) * f->heads.turn_scale;
        sums[2 * i + 1] = sin(angle) * f->heads.turn_scale;
    }
#endif
}

/* Copies heads to local memory, and leaves each item's part of their sums of squares. */
INLINED void load_heads(const attention_flash_args *f, const place *p, local float *ready, local float *sums,
                        global const float *q, global const float *new_k)
{
#pragma unroll
    for (uint m = 0; m < ROUNDS; m++) {
        const uint own = p->first + m * STREAMS, i = min(own, (uint)HEADS - 1);
        const size_t q_row = row_at(&f->a, &f->a.q, p->b, p->hk, query_of(p, i)),
                     k_row = new_at(&f->heads.new_k, p, max(i, (uint)ROWS) - ROWS);
        global const float *from = i < ROWS ? q + q_row : new_k + k_row;
        float x[UNIT], squares = 0;
#pragma unroll
        for (uint j = 0; j < UNIT; j++)
            x[j] = from[p->slot + j * LANES];
#pragma unroll
        for (uint j = 0; j < UNIT; j++) {
            const uint d = p->slot + j * LANES;
            squares = fma(x[j], x[j], squares);
            if (p->first < STREAMS && own < HEADS)
                ready[ready_at(i, PAIRING == 2 && d < 2 * TURNED ? d / 2 + d % 2 * TURNED : d)] = x[j];
        }
        if (NORM_TYPE >= 0 && p->first < STREAMS && own < HEADS)
            sums[SQUARES + i * PITCH + p->slot] = squares;
    }
}

/* Turns the sums of squares of a head into the factor of its norm. */
INLINED void find_factors(const attention_flash_args *f, const place *p, local float *sums)
{
    if (p->item < HEADS) {
        float squares = 0;
#pragma unroll
        for (uint l = 0; l < LANES; l++)
            squares += sums[SQUARES + p->item * PITCH + l];
        sums[SQUARES + p->item * PITCH] = 1.0f / sqrt(squares / D + f->heads.eps);
    }
}

/* Applies norm and RoPE to the lane's pairs of head i, in place. */
INLINED void turn_head(const attention_flash_args *f, const place *p, uint i, local float *ready,
                       local const float *sums, global const norm_elem *q_norm,
                       global const norm_elem *k_norm)
{
    const uint t = i < ROWS ? query_of(p, i) / f->a.group : i - ROWS;
#pragma unroll
    for (uint j = 0; j < UNIT / 2; j++) {
        const uint pair = p->slot + j * LANES;
        const bool is_turned = pair < TURNED, is_wide = is_turned && PAIRING != 1;
        const uint d0 = is_wide ? pair : 2 * pair, d1 = is_wide ? pair + TURNED : 2 * pair + 1;
        float x0 = ready[ready_at(i, d0)], x1 = ready[ready_at(i, d1)];
#if NORM_TYPE >= 0
        const float factor = sums[SQUARES + i * PITCH];
        x0 *= factor * (i < ROWS ? LOAD(NORM_TYPE, q_norm, f->heads.q_norm + d0)
                                 : LOAD(NORM_TYPE, k_norm, f->heads.k_norm + d0));
        x1 *= factor * (i < ROWS ? LOAD(NORM_TYPE, q_norm, f->heads.q_norm + d1)
                                 : LOAD(NORM_TYPE, k_norm, f->heads.k_norm + d1));
#endif
        const uint turn = is_turned ? 2 * (t * TURNED + pair) : 0;
        const float c = is_turned ? sums[turn] : 1.0f, s = is_turned ? sums[turn + 1] : 0.0f;
        ready[ready_at(i, d0)] = x0 * c - x1 * s;
        ready[ready_at(i, d1)] = x1 * c + x0 * s;
    }
}

/* The same for all heads. */
INLINED void turn_heads(const attention_flash_args *f, const place *p, local float *ready,
                        local const float *sums, global const norm_elem *q_norm,
                        global const norm_elem *k_norm)
{
#pragma unroll
    for (uint m = 0; m < ROUNDS; m++) {
        const uint i = p->first + m * STREAMS;
        if (p->first < STREAMS && i < HEADS)
            turn_head(f, p, i, ready, sums, q_norm, k_norm);
    }
}

/* Whether position s is the part's to write: those before the first part, and after the last, are theirs. */
INLINED bool part_has(const attention_flash_args *f, const place *p, int2 keys, int s)
{
    return (p->part == 0 || s >= keys.x) && (p->part + 1 == f->a.splits || s < keys.y);
}

/* Writes the rows of the new tokens whose positions the group's part has. */
INLINED void write_rows(const attention_flash_args *f, const place *p, int2 keys, local const float *ready,
                        global k_elem *k, global v_elem *v, global const float *new_v,
                        global const int *pos, global const int *own_pages)
{
#define NEW_KEY(d)   ready[ready_at(ROWS + t, d)]
#define NEW_VALUE(d) value[d]
    for (uint t = 0; t < NEW; t++) {
        const int s = position(&f->a, pos, p->b, t * f->a.group);
        if (part_has(f, p, keys, s) && s >= 0 && s < (int)f->heads.capacity) {
            global const float *value = new_v + new_at(&f->heads.new_v, p, t);
            KEEP_ROW(K_TYPE, k, key_at(&f->a.k, p->b, p->hk, s, own_pages), NEW_KEY, D, p->item);
            KEEP_ROW(V_TYPE, v, key_at(&f->a.v, p->b, p->hk, s, own_pages), NEW_VALUE, E, WG - 1 - p->item);
        }
    }
}

/* All of the above, for all items of the group. */
INLINED void make_heads(const attention_flash_args *f, const place *p, int2 keys, local float *ready,
                        local float *sums, global k_elem *k, global v_elem *v, global const float *q,
                        global const int *pos, global const int *own_pages HEADS_PARAMS)
{
    find_turns(f, p, sums, freqs, pos);
    load_heads(f, p, ready, sums, q, new_k);
    barrier(CLK_LOCAL_MEM_FENCE);
#if NORM_TYPE >= 0
    find_factors(f, p, sums);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if TURNED || NORM_TYPE >= 0
    turn_heads(f, p, ready, sums, q_norm, k_norm);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    write_rows(f, p, keys, ready, k, v, new_v, pos, own_pages);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

#endif
