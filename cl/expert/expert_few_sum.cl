/* out[t, :] = sum over the CHOSEN experts j of token t of weights[t, j] x[t (, j), :] W[ids[t, j]]^T, +
 * residual[t, :], for W [experts, N, K]: what expert_few.cl and expert_sum.cl compute together. It needs what
 * expert_few.cl does of x and W. An id outside the experts adds 0.
 * Launch: {ceil(n / (COLUMNS WG / SPAN)), tokens} groups. SPAN work-items share COLUMNS columns: each
 * multiplies some of the chunks of 32 elements of k of all chosen experts by all of these columns.
 *   -D WG, SPAN, COLUMNS, W_TYPE  as in expert_few.cl
 *   -D RESIDUAL                   1 with a residual
 *   and those of expert_scores.h */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(SPAN) || !defined(COLUMNS) || !defined(W_TYPE) || !defined(RESIDUAL)
#  error "expert_few_sum.cl needs WG, SPAN, COLUMNS, W_TYPE, RESIDUAL, CHOSEN and SOFTMAX"
#endif
#define ALIGNED 1
#include "expert_chunks.h"
#include "expert_scores.h"
#include "expert_shares.h"

GROUP_KERNEL
void expert_few_sum(const expert_sum_args p, global float *out, global const float *x,
                    global const ELEM(W_TYPE) *w, global const int *ids, global const float *scores,
                    global const float *residual)
{
    local float parts[COLUMNS * WG], shares[WG], weights[CHOSEN];
    const expert_args a = p.a;
    const uint item = get_local_id(0), token = get_group_id(1), group_first = get_group_id(0) * SUMS,
               first = group_first + item / SPAN * COLUMNS, chunks = a.k / EXPERT_CHUNK;
    weights_of_token(weights, &p, scores, ids, token, item, WG);
    float sum[COLUMNS];
#pragma unroll
    for (uint c = 0; c < COLUMNS; c++)
        sum[c] = 0;
    for (uint n = item % SPAN; n < CHOSEN * chunks; n += SPAN) {
        const uint j = n / chunks, i = n % chunks, row = token * CHOSEN + j;
        const int id = ids[a.ids + row], inside = id >= 0 && id < (int)a.experts;
        const size_t w_row = a.w / a.k + (inside ? (size_t)id : 0) * a.n;
        const float weight = inside ? weights[j] : 0.0f;
        x_chunk v;
        x_chunk_load(&v, x + a.x + (size_t)(a.each ? row : token) * a.k, i);
#pragma unroll
        for (uint c = 0; c < COLUMNS; c++) {
            const float dot = chunk_dot(w, w_row + min(first + c, a.n - 1), a.k, i, &v);
            sum[c] = inside ? fma(dot, weight, sum[c]) : sum[c];
        }
    }
    add_shares(sum, parts, shares, item);
    const uint column = group_first + item;
    if (item < SUMS && column < a.n) {
        const size_t to = (size_t)token * a.n + column;
        out[to] = share_sum(shares, item) + (RESIDUAL ? residual[p.residual + to] : 0.0f);
    }
}
