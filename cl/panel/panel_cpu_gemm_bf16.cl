/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r], where x is rounded to bf16 and w is a panel
 * of bf16 (cl/panel/panel.h), by Arm's bfdot (cl/instruction/arm.h). Sums are f32. A token's sums do not
 * depend on the tokens beside it. k is a multiple of 8.
 *   panel_cpu_rows_bf16   x after its norm (panel_cpu_activations.h), in rows of k bf16. Launch: a group of
 *                         one work-item for each row
 *   panel_cpu_gemm_bf16   a group computes NT tokens (those beyond the last row are dropped) and 16 rows of
 *                         the result. Launch: {blocks of NT tokens, tiles of the result}, one work-item a
 *                         group; consecutive groups share tiles of w
 *   -D NT  tokens a group
 *   and those of panel_cpu_activations.h and panel_cpu_epilogue.h; with swiglu, two tiles of w give one tile
 *   of the result */
#define WG 1
#include "args.h"
#include "weights.h"

#if !defined(NT)
#  error "panel_cpu_gemm_bf16.cl needs NT"
#endif
#define ROWS_SPACE global
#define QUANTISE   0
#include "arm.h"
#include "panel_cpu_activations.h"
#include "panel_cpu_epilogue.h"

/* Rounds to bf16, to the nearest, ties to even. */
INLINED ushort16 bf16_of(float16 x)
{
    const uint16 bits = as_uint16(x), rounded = (bits + 0x7fffu + (bits >> 16u & 1u)) >> 16u;
    return convert_ushort16(select(rounded, (uint16)0x7fc0, isnan(x)));
}

kernel void panel_cpu_rows_bf16(const rows_args a, global ushort *out, global const float *x,
                                global const norm_weight_elem *weight, global const norm_bias_elem *bias)
{
    const uint row = get_group_id(0);
    const normed_row normed = row_at(&a, row, x, weight, bias), *r = &normed;
    uint i = 0;
    out += (size_t)row * a.k;
    for (; i + 16 <= a.k; i += 16)
        vstore16(bf16_of(normed16(r, i)), 0, out + i);
    for (; i < a.k; i++)
        out[i] = bf16_of((r->x[i] - r->mean) * r->scale * NORM_WEIGHT(i) + NORM_BIAS(i)).s0;
}

/* The products of a tile of w, whose columns have 16 rows each, with NT tokens. */
INLINED void tile_sums(int16 acc[NT], global const ushort *w, uint k, global const int *const x[NT])
{
#pragma unroll
    for (int t = 0; t < NT; t++)
        acc[t] = 0;
    for (uint i = 0; i < k; i += 8) {
        int16 pairs[4]; /* of two columns, row by row */
        int4 tokens[NT];
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const ushort16 even = vload16(i + 2 * p, w), odd = vload16(i + 2 * p + 1, w);
            ushort16 lo, hi;
            lo.even = even.lo;
            lo.odd = odd.lo;
            hi.even = even.hi;
            hi.odd = odd.hi;
            pairs[p] = (int16)(as_int8(lo), as_int8(hi));
        }
#pragma unroll
        for (int t = 0; t < NT; t++)
            tokens[t] = vload4(i / 8, x[t]);
#pragma unroll
        for (int t = 0; t < NT; t++) {
            ARM_DOT16(ARM_BFDOT + ARM_LANE(0), acc[t], pairs[0], tokens[t]);
            ARM_DOT16(ARM_BFDOT + ARM_LANE(1), acc[t], pairs[1], tokens[t]);
            ARM_DOT16(ARM_BFDOT + ARM_LANE(2), acc[t], pairs[2], tokens[t]);
            ARM_DOT16(ARM_BFDOT + ARM_LANE(3), acc[t], pairs[3], tokens[t]);
        }
    }
}

kernel void panel_cpu_gemm_bf16(const panel_args a, global float *out, global const int *x,
                                global const ushort *w, PANEL_OUT_BUFS)
{
    const uint tile = get_group_id(1), token = get_group_id(0) * NT;
    const size_t step = (size_t)PANEL_ROWS * a.k; /* from tile to tile */
    global const int *rows[NT];
    int16 acc[NT];
#pragma unroll
    for (uint t = 0; t < NT; t++)
        rows[t] = x + (size_t)min(token + t, a.m - 1) * (a.k / 2);
#if GATED
    int16 gate[NT];
    tile_sums(gate, w + 2 * tile * step, a.k, rows);
    tile_sums(acc, w + (2 * tile + 1) * step, a.k, rows);
#else
    tile_sums(acc, w + tile * step, a.k, rows);
#endif
#pragma unroll
    for (uint t = 0; t < NT; t++)
        if (token + t < a.m)
#if GATED
            finish_gated(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, as_float16(gate[t]),
                         as_float16(acc[t]));
#else
            finish(&a, out, PANEL_OUT, token + t, tile * PANEL_ROWS, as_float16(acc[t]));
#endif
}
