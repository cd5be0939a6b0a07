/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r] on GPUs, for up to NT rows of x. w is read
 * once. Launch: one work-group for each SHARING tiles of the result. For each of them it multiplies one tile
 * of w (cl/panel/panel.h), or with swiglu two. A work-item multiplies one row of a tile over a part of K;
 * sixteen work-items read adjacent data. The parts of a row are added by subgroups first, if there are any,
 * then in local memory.
 *   -D WG         work-items a group, a multiple of 16 SHARING
 *   -D SHARING    tiles of the result a group
 *   -D NT         rows of x; those beyond the last are computed and dropped
 *   -D AT_ONCE    columns of w in floats that a work-item reads before it multiplies them
 *   -D W_TYPE     dtype of w
 *   -D QUANTISE   1: x is in 8 bits (panel_gpu_activations.cl), w in blocks
 *   -D INT_DOT    as in dot.h; used with QUANTISE
 *   -D SUBGROUPS  as in subgroup.h, with subgroup_xor
 *   -D OWN        0: x was prepared. Else NT is 1, OWN is K, and each group prepares the row for itself, in
 *                 local memory; needs what panel_gpu_rows.h needs
 *   and those of panel_gpu_epilogue.h */
#include "args.h"
#include "dot.h"
#include "group.h"
#include "weights.h"
#include "panel_gpu_epilogue.h"

#if !defined(NT) || !defined(SHARING) || !defined(AT_ONCE) || !defined(W_TYPE) || !defined(QUANTISE) ||  \
    !defined(OWN)
#  error "panel_gpu_gemv.cl needs WG, SHARING, NT, AT_ONCE, W_TYPE, QUANTISE, INT_DOT and OWN"
#endif

enum {
    TILE_ITEMS = WG / SHARING,       /* work-items of a tile */
    TEAMS = TILE_ITEMS / PANEL_ROWS /* sixteen work-items each, which share a part of K */
};

#include "panel_gpu_gemv_rows.h"

#if !IS_BLOCKS(W_TYPE)

typedef uint blocks_ahead;

/* Computes this work-item's part of the products of a row with NT tokens. asked: not used. */
static inline void part_sums(float acc[NT], global const ELEM(W_TYPE) *w, const panel_args *a, uint tile,
                             uint row, uint team, const x_rows *x, const __private blocks_ahead *asked)
{
    X_SPACE const float *xs = (X_SPACE const float *)x->q;
    w += (size_t)tile * a->k * PANEL_ROWS + row;
#  pragma unroll
    for (uint t = 0; t < NT; t++)
        acc[t] = 0;
    uint k = team;
    for (; k + (AT_ONCE - 1) * TEAMS < a->k; k += AT_ONCE * TEAMS) {
        float v[AT_ONCE];
#  pragma unroll
        for (uint i = 0; i < AT_ONCE; i++)
            v[i] = LOAD(W_TYPE, w, (size_t)(k + i * TEAMS) * PANEL_ROWS);
#  pragma unroll
        for (uint t = 0; t < NT; t++) {
            X_SPACE const float *of = xs + min(t, x->m - 1) * (size_t)x->stride + k;
#  pragma unroll
            for (uint i = 0; i < AT_ONCE; i++)
                acc[t] = fma(v[i], of[i * TEAMS], acc[t]);
        }
    }
    for (; k < a->k; k += TEAMS) {
        const float v = LOAD(W_TYPE, w, (size_t)k * PANEL_ROWS);
#  pragma unroll
        for (uint t = 0; t < NT; t++)
            acc[t] = fma(v, xs[min(t, x->m - 1) * (size_t)x->stride + k], acc[t]);
    }
}

#endif

/* Adds up the parts of all work-items of a tile; its first team gets the sums of the rows. Every work-item of
 * the group must call it. item: of the tile; parts: the tile's. */
static inline void add_parts(float acc[NT], local float *parts, uint item)
{
    uint n = TEAMS, part = item / PANEL_ROWS, writes = 1;
#if SUBGROUPS
    const uint width = subgroup_width(), lane = subgroup_lane();
    if (width % PANEL_ROWS == 0 && TILE_ITEMS % width == 0) { /* all work-items take the same branch */
        for (uint step = PANEL_ROWS; step < width; step *= 2)
#  pragma unroll
            for (uint t = 0; t < NT; t++)
                acc[t] += subgroup_xor(acc[t], step);
        n = TILE_ITEMS / width;
        part = subgroup_index() % n;
        writes = lane < PANEL_ROWS;
    }
#endif
    if (n == 1)
        return;
    if (writes)
#pragma unroll
        for (uint t = 0; t < NT; t++)
            parts[(part * NT + t) * PANEL_ROWS + item % PANEL_ROWS] = acc[t];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item >= PANEL_ROWS)
        return;
#pragma unroll
    for (uint t = 0; t < NT; t++)
        acc[t] = 0;
    for (uint i = 0; i < n; i++)
#pragma unroll
        for (uint t = 0; t < NT; t++)
            acc[t] += parts[(i * NT + t) * PANEL_ROWS + item];
}

#if OWN
GROUP_KERNEL
void panel_gpu_gemv(const panel_gemv_args g, global float *out, global const float *x,
                    global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS, global const norm_weight_elem *norm_weight,
                    global const norm_bias_elem *norm_bias)
#else
GROUP_KERNEL
void panel_gpu_gemv(const panel_args a, global float *out, global const uchar *x,
                    global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
#endif
{
    local float parts[GATED + 1][WG * NT];
    const uint of_group = SHARING == 1 ? 0 : group_item() / TILE_ITEMS,
               item = SHARING == 1 ? group_item() : group_item() % TILE_ITEMS,
               tile = get_group_id(0) * SHARING + of_group, row = item % PANEL_ROWS, team = item / PANEL_ROWS;
    x_rows xs;
#if OWN
    const panel_args a = g.p;
#endif
    const uint from = SHARING == 1 ? tile : min(tile, (a.n - 1) / PANEL_ROWS); /* the last may be too many */
    const __private blocks_ahead *asked = 0;
#if OWN && IS_BLOCKS(W_TYPE) && SUBGROUPS == 2 /* elsewhere registers are short, and it is not faster */
    blocks_ahead first_blocks;                 /* on their way while the row is prepared */
    ask_for_first(&first_blocks, w, &a, (GATED + 1) * from, row, team);
    asked = &first_blocks;
#endif
#if OWN
    ROOM(room);
    own_row(&xs, room, g.rows, x, norm_weight, norm_bias, parts[0]);
#else
    x_at(&xs, &a, x);
#endif
    float acc[NT], gate[NT];
    const uint first = of_group * TILE_ITEMS * NT; /* of the tile's parts */
#if GATED
    part_sums(gate, w, &a, 2 * from, row, team, &xs, asked);
    add_parts(gate, parts[0] + first, item);
    part_sums(acc, w, &a, 2 * from + 1, row, team, &xs, 0);
    add_parts(acc, parts[GATED] + first, item);
#else
    part_sums(acc, w, &a, from, row, team, &xs, asked);
    add_parts(acc, parts[0] + first, item);
#endif
    if (item < PANEL_ROWS && tile * PANEL_ROWS + row < a.n)
#pragma unroll
        for (uint t = 0; t < NT; t++)
            if (t < xs.m)
#if GATED
                finish(&a, out, PANEL_OUT, a.first + t, tile * PANEL_ROWS + row, gate[t], acc[t]);
#else
                finish(&a, out, PANEL_OUT, a.first + t, tile * PANEL_ROWS + row, 0.0f, acc[t]);
#endif
}
