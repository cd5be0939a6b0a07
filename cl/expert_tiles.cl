/* out[p, :] = x[p or p / chosen, :] W[ids[p]] + bias[ids[p]] for pairs p = (sequence, token, choice), as
 * expert.cl computes it, for many pairs: those of one expert share what is read of it. A group multiplies a
 * tile of ROWS pairs of one expert, as expert_order.cl sorted them, by COLUMNS columns of its matrix. It
 * holds STEP elements of k of both in local memory at a time, as floats. Pairs whose id is outside get 0.
 * Launch: {ceil(n / COLUMNS), tiles} groups of 4 ROWS work-items. Work-item (c, t) of 16 x ROWS / 4 computes
 * the columns 4 c .. 4 c + 3 and 64 + 4 c .. of the rows 4 t .. 4 t + 3.
 *   -D ROWS        pairs of a tile: 16, 32 or 64
 *   -D W_TYPE      dtype of W
 *   -D BIAS_TYPE   dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED  1: W is [experts, N, K], 0: [experts, K, N]
 *   -D ALIGNED     1: rows of x and, if TRANSPOSED, of W begin at multiples of 16 bytes */
#define WG (4 * ROWS)
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(ROWS) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED) || !defined(ALIGNED)
#  error "expert_tiles.cl needs ROWS, W_TYPE, BIAS_TYPE, TRANSPOSED and ALIGNED"
#endif

#include "expert_load.h"

enum { STEP = 32, COLUMNS = 128, X_STRIDE = ROWS + 4 };

#if BIAS_TYPE < 0
typedef float bias_elem;
#  define BIAS(i) 0.0f
#else
typedef ELEM(BIAS_TYPE) bias_elem;
#  define BIAS(i) LOAD(BIAS_TYPE, bias, a.bias + (i))
#endif
typedef ELEM(W_TYPE) w_elem;

/* Columns first .. first + COLUMNS - 1 of W from element k0 of k on, as [STEP][COLUMNS]. What is beyond n is
 * some column again, what is beyond k 0. */
static inline void load_w(local float *to, const expert_args *a, global const w_elem *w, size_t w0,
                          uint first, uint k0)
{
#if TRANSPOSED
    for (uint i = get_local_id(0); i < STEP / 16 * COLUMNS; i += WG) {
        const uint column = i % COLUMNS, k = k0 + i / COLUMNS * 16;
        const size_t at = w0 + (size_t)min(first + column, a->n - 1) * a->k + k;
        float v[16];
        vstore16(expert_load16(w, at, k, a->k), 0, v);
#  pragma unroll
        for (uint j = 0; j < 16; j++)
            to[(i / COLUMNS * 16 + j) * COLUMNS + column] = v[j];
    }
#else
    for (uint i = get_local_id(0); i < STEP * COLUMNS; i += WG) {
        const uint k = k0 + i / COLUMNS, column = min(first + i % COLUMNS, a->n - 1);
        to[i] = k < a->k ? LOAD(W_TYPE, w, w0 + (size_t)k * a->n + column) : 0.0f;
    }
#endif
}

GROUP_KERNEL
void expert_tiles(const expert_tiles_args p, global float *out, global const float *x, global const w_elem *w,
                  global const int *order, global const bias_elem *bias)
{
    local float4 w_tile[STEP * COLUMNS / 4], x_tile[STEP * X_STRIDE / 4];
    const expert_args a = p.a;
    const uint item = get_local_id(0), c = item % 16, t = item / 16, first = get_group_id(0) * COLUMNS;
    global const int *tile = order + p.pairs + (size_t)get_group_id(1) * EXPERT_TILE_WORDS;
    const uint id = (uint)tile[0], n_rows = (uint)tile[2];
    if (n_rows == 0)
        return;
    const uint inside = id < a.experts, expert = inside ? id : 0;
    const size_t w0 = a.w + (size_t)expert * a.n * a.k;
    order += tile[1];
    size_t from[2]; /* the rows of x of which this item loads four elements each step */
#pragma unroll
    for (uint i = 0; i < 2; i++) {
        const uint pair = (uint)order[min(item / 8 + i * (ROWS / 2), n_rows - 1)];
        from[i] = a.x + (size_t)(a.each ? pair : pair / a.chosen) * a.k;
    }
    float4 sum[4][2];
#pragma unroll
    for (uint r = 0; r < 4; r++)
        sum[r][0] = sum[r][1] = 0;
    for (uint k0 = 0; k0 < a.k; k0 += STEP) {
        load_w((local float *)w_tile, &a, w, w0, first, k0);
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            const uint k = item % 8 * 4;
            const float4 v = expert_load4(x, from[i] + k0 + k, k0 + k, a.k);
            local float *to = (local float *)x_tile + k * X_STRIDE + item / 8 + i * (ROWS / 2);
            to[0] = v.x;
            to[X_STRIDE] = v.y;
            to[2 * X_STRIDE] = v.z;
            to[3 * X_STRIDE] = v.w;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
        for (uint k = 0; k < STEP; k++) {
            const float4 w0_3 = w_tile[k * (COLUMNS / 4) + c], w64_67 = w_tile[k * (COLUMNS / 4) + 16 + c];
            const float4 v = x_tile[k * (X_STRIDE / 4) + t];
            sum[0][0] = fma(w0_3, (float4)v.x, sum[0][0]);
            sum[0][1] = fma(w64_67, (float4)v.x, sum[0][1]);
            sum[1][0] = fma(w0_3, (float4)v.y, sum[1][0]);
            sum[1][1] = fma(w64_67, (float4)v.y, sum[1][1]);
            sum[2][0] = fma(w0_3, (float4)v.z, sum[2][0]);
            sum[2][1] = fma(w64_67, (float4)v.z, sum[2][1]);
            sum[3][0] = fma(w0_3, (float4)v.w, sum[3][0]);
            sum[3][1] = fma(w64_67, (float4)v.w, sum[3][1]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
        if (4 * t + r >= n_rows)
            continue;
        const size_t to = (size_t)order[4 * t + r] * a.n;
#pragma unroll
        for (uint half_n = 0; half_n < 2; half_n++) {
            float v[4];
            vstore4(sum[r][half_n], 0, v);
            for (uint j = 0; j < 4; j++) {
                const uint column = first + half_n * 64 + 4 * c + j;
                if (column < a.n)
                    out[to + column] = inside ? v[j] + BIAS((size_t)expert * a.n + column) : 0.0f;
            }
        }
    }
}
