/* out[r, :] = x[r or r / chosen, :] W[ids[r]] + bias[ids[r]] for rows r = (sequence, token, choice). An id
 * outside the experts gives 0. All tensors are dense.
 * Launch: {ceil(n / COLUMNS), rows} groups.
 * expert_nk reads W [experts, N, K]: the WG work-items of a group share the dot products of COLUMNS columns,
 * 16 elements of k at a time.
 * expert_kn reads W [experts, K, N]: with WG 1 the group walks down k with COLUMNS / 16 vectors of columns;
 * else COLUMNS is WG and each work-item has its own column.
 *   -D WG          work-items in a group
 *   -D COLUMNS     columns of a group; expert_kn with WG 1: a multiple of 16
 *   -D W_TYPE      dtype of W
 *   -D BIAS_TYPE   dtype of bias, DTYPE_NONE (-1) without
 *   -D TRANSPOSED  1: builds expert_nk, 0: expert_kn */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(COLUMNS) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(TRANSPOSED)
#  error "expert.cl needs WG, COLUMNS, W_TYPE, BIAS_TYPE and TRANSPOSED"
#endif

#include "bias.h"
#define BIAS(i) BIAS_OF(bias, a.bias + (i))
typedef ELEM(W_TYPE) w_elem;

#define BEGIN_ROW                                                                                \
    const uint row = group_id(1), first = group_id(0) * COLUMNS, lane = local_id(0);             \
    const int id = ids[a.ids + row];                                                             \
    const int inside = id >= 0 && id < (int)a.experts;                                           \
    const size_t expert = inside ? (size_t)id : 0, w0 = a.w + expert * a.n * a.k;                \
    x += a.x + (size_t)(a.each ? row : row / a.chosen) * a.k;                                    \
    out += (size_t)row * a.n

#if TRANSPOSED

GROUP_KERNEL
void expert_nk(STAGE_GROUP const expert_args a, global float *out, global const float *x,
               global const w_elem *w, global const int *ids, global const bias_elem *bias)
{
    BEGIN_ROW;
    GROUP_SCRATCH(scratch);
    const uint whole = a.k / 16 * 16;
    float16 sum[COLUMNS];
    float tail[COLUMNS];
    size_t at[COLUMNS];
#  pragma unroll
    for (uint c = 0; c < COLUMNS; c++) {
        at[c] = w0 + min(first + c, a.n - 1) * (size_t)a.k;
        sum[c] = 0;
        tail[c] = 0;
    }
    for (uint k = lane * 16; k < whole; k += WG * 16) {
        const float16 xk = vload16(0, x + k);
#  pragma unroll
        for (uint c = 0; c < COLUMNS; c++)
            sum[c] = fma(LOAD16(W_TYPE, w, at[c] + k), xk, sum[c]);
    }
    for (uint k = whole + lane; k < a.k; k += WG)
#  pragma unroll
        for (uint c = 0; c < COLUMNS; c++)
            tail[c] = fma(LOAD(W_TYPE, w, at[c] + k), x[k], tail[c]);
#  pragma unroll
    for (uint c = 0; c < COLUMNS; c++) {
        const float all = group_sum(sum16(sum[c]) + tail[c], scratch);
        if (lane == 0 && first + c < a.n)
            out[first + c] = inside ? all + BIAS(expert * a.n + first + c) : 0.0f;
    }
}

#else

GROUP_KERNEL
void expert_kn(STAGE_GROUP const expert_args a, global float *out, global const float *x,
               global const w_elem *w, global const int *ids, global const bias_elem *bias)
{
    BEGIN_ROW;
    uint c = first + lane;
#  if WG == 1
    const uint end = min(first + COLUMNS, a.n);
    for (; c + 16 <= end; c += 16) {
        float16 sum = 0;
        for (uint k = 0; k < a.k; k++)
            sum = fma(LOAD16(W_TYPE, w, w0 + (size_t)k * a.n + c), (float16)x[k], sum);
        float lanes[16];
        vstore16(sum, 0, lanes);
        for (uint i = 0; i < 16; i++)
            out[c + i] = inside ? lanes[i] + BIAS(expert * a.n + c + i) : 0.0f;
    }
    for (; c < end; c++) {
#  else
    if (c < a.n) {
#  endif
        float sum = 0;
        for (uint k = 0; k < a.k; k++)
            sum = fma(LOAD(W_TYPE, w, w0 + (size_t)k * a.n + c), x[k], sum);
        out[c] = inside ? sum + BIAS(expert * a.n + c) : 0.0f;
    }
}

#endif
