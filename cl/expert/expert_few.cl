/* out[r, :] = x[r or r / chosen, :] W[ids[r]]^T + bias[ids[r]] for rows r = (sequence, token, choice), as
 * expert.cl computes it for W [experts, N, K], on GPUs: each work-item has several loads of 16 bytes in
 * flight. With GATED there are two such products, out = silu(gate) up.
 * K is a multiple of 32. Rows of x begin at multiples of 16 bytes, and so do those of W in floats, Q4_K and
 * Q5_K.
 * Launch: {ceil(n / (COLUMNS WG / SPAN)), rows} groups, twice as many with GATED. SPAN work-items share
 * COLUMNS columns: each multiplies some chunks of 32 elements of k by all of them.
 *   -D WG         work-items in a group, a power of two
 *   -D SPAN       those that share columns, a power of two up to WG
 *   -D COLUMNS    columns of a work-item, a power of two up to SPAN; with GATED half of them are of either
 *                 product
 *   -D W_TYPE     dtype of W
 *   -D BIAS_TYPE  dtype of bias, DTYPE_NONE (-1) without, and with GATED
 *   -D GATED      1 or 0 */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(SPAN) || !defined(COLUMNS) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(GATED)
#  error "expert_few.cl needs WG, SPAN, COLUMNS, W_TYPE, BIAS_TYPE and GATED"
#endif
#define ALIGNED 1
#include "expert_chunks.h"
#include "expert_shares.h"

#include "bias.h"
#define BIAS(i) BIAS_OF(bias, a.bias + (i))
typedef ELEM(W_TYPE) w_elem;

enum { OF_EITHER = COLUMNS / (GATED + 1), GROUP_COLUMNS = SUMS / (GATED + 1) };

#if GATED
GROUP_KERNEL
void expert_few(const expert_gated_args g, global float *out, global const float *x, global const w_elem *w,
                global const int *ids, global const w_elem *up)
#else
GROUP_KERNEL
void expert_few(const expert_args a, global float *out, global const float *x, global const w_elem *w,
                global const int *ids, global const bias_elem *bias)
#endif
{
    local float parts[COLUMNS * WG], shares[WG];
#if GATED
    const expert_args a = g.a;
#endif
    const uint item = get_local_id(0), row = get_group_id(1), group_first = get_group_id(0) * GROUP_COLUMNS,
               first = group_first + item / SPAN * OF_EITHER, chunks = a.k / EXPERT_CHUNK;
    const int id = ids[a.ids + row], inside = id >= 0 && id < (int)a.experts;
    const size_t expert = inside ? (size_t)id : 0, w_row = a.w / a.k + expert * a.n;
    x += a.x + (size_t)(a.each ? row : row / a.chosen) * a.k;
    float sum[COLUMNS];
#pragma unroll
    for (uint c = 0; c < COLUMNS; c++)
        sum[c] = 0;
    for (uint i = item % SPAN; i < chunks; i += SPAN) {
        x_chunk v;
        x_chunk_load(&v, x, i);
#pragma unroll
        for (uint c = 0; c < OF_EITHER; c++) {
            const uint column = min(first + c, a.n - 1);
            sum[c] += chunk_dot(w, w_row + column, a.k, i, &v);
#if GATED
            sum[OF_EITHER + c] += chunk_dot(up, g.up / a.k + expert * a.n + column, a.k, i, &v);
#endif
        }
    }
    add_shares(sum, parts, shares, item);
    const uint to = group_first + item;
    if (item < GROUP_COLUMNS && to < a.n) {
#if GATED
        const uint at = item / OF_EITHER * COLUMNS + item % OF_EITHER;
        const float gate = share_sum(shares, at),
                    v = gate / (1 + exp(-gate)) * share_sum(shares, at + OF_EITHER);
#else
        const float v = share_sum(shares, item) + BIAS(expert * a.n + to);
#endif
        out[(size_t)row * a.n + to] = inside ? v : 0.0f;
    }
}
