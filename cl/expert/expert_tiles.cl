/* out[p, :] = x[p or p / chosen, :] W[ids[p]] + bias[ids[p]] for pairs p = (sequence, token, choice), as
 * expert.cl computes it, for many pairs: those of one expert share what is read of it. A group multiplies a
 * tile of ROWS pairs of one expert, as expert_order.cl sorted them, by COLUMNS columns of its matrix. It
 * holds STEP elements of k of both in local memory at a time. Pairs whose id is outside get 0.
 * Launch: {ceil(n / COLUMNS), tiles} groups of 4 ROWS work-items. Work-item (c, t) of 16 x ROWS / 4 computes
 * the columns 4 c .. 4 c + 3 and 64 + 4 c .. 64 + 4 c + 3 of the rows 4 t .. 4 t + 3.
 *   -D ROWS        pairs of a tile: 16, 32 or 64
 *   -D W_TYPE      dtype of W
 *   -D BIAS_TYPE   dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED  1: W is [experts, N, K], 0: [experts, K, N]
 *   -D QUANTISE    0: floats are multiplied; 1: bytes. Then x is in 8 bits (panel_gpu_activations.cl), W is
 *                  TRANSPOSED and in a format of expert_codes.h, and k is a multiple of 32
 *   -D ALIGNED     used without QUANTISE; 1: rows of x and, if TRANSPOSED, of W begin at multiples of 16
 *                  bytes
 *   -D INT_DOT     as in dot.h; used with QUANTISE */
#define WG (4 * ROWS)
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(ROWS) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED) ||                     \
    !defined(QUANTISE) || !defined(ALIGNED)
#  error "expert_tiles.cl needs ROWS, W_TYPE, BIAS_TYPE, TRANSPOSED, QUANTISE, ALIGNED and INT_DOT"
#endif

enum { STEP = EXPERT_STEP, COLUMNS = EXPERT_COLUMNS, X_STRIDE = ROWS + 4 /* fewer items meet in a bank */ };

#include "expert_codes.h"
#if QUANTISE
#  include "expert_step_bytes.h"
#else
#  include "expert_step_floats.h"
#endif

#include "bias.h"
#include "expert_pairs.h"
#define BIAS(i) BIAS_OF(bias, a.bias + (i))
typedef ELEM(W_TYPE) w_elem;

GROUP_KERNEL
void expert_tiles(const expert_tiles_args p, global float *out, global const x_elem *x,
                  global const w_elem *w, global const int *order, global const bias_elem *bias)
{
    STEP_DATA(s);
    const expert_args a = p.a;
    const uint item = get_local_id(0), c = item % 16, t = item / 16, first = get_group_id(0) * COLUMNS;
    order += p.order;
    global const int *tile = order + p.pairs + (size_t)get_group_id(1) * EXPERT_TILE_WORDS;
    const uint id = (uint)tile[0], entry = (uint)tile[1], n_rows = min((uint)tile[2], (uint)ROWS);
    if (n_rows == 0) /* in all items of the group */
        return;
    const uint inside = id < a.experts, expert = inside ? id : 0;
    const size_t w0 = a.w + (size_t)expert * a.n * a.k;
    const uint rows[2] = {row_of(&a, pair_at(&p, order, entry, item / 8, n_rows)),
                          row_of(&a, pair_at(&p, order, entry, item / 8 + ROWS / 2, n_rows))};
    const uint own_row = row_of(&a, pair_at(&p, order, entry, item, n_rows));
    float4 sum[4][2];
#pragma unroll
    for (uint r = 0; r < 4; r++)
        sum[r][0] = sum[r][1] = 0;
    for (uint k0 = 0; k0 < a.k; k0 += STEP) {
        load_w(&s, &a, w, w0, first, k0);
        load_x(&s, &p, x, rows, own_row, k0);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(&s, sum, c, t);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
        if (4 * t + r >= n_rows)
            continue;
        const size_t to = (size_t)pair_at(&p, order, entry, 4 * t + r, n_rows) * a.n;
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            const float v[4] = {sum[r][i].x, sum[r][i].y, sum[r][i].z, sum[r][i].w};
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                const uint column = first + i * 64 + 4 * c + j;
                if (column < a.n)
                    out[to + column] = inside ? v[j] + BIAS((size_t)expert * a.n + column) : 0.0f;
            }
        }
    }
}
