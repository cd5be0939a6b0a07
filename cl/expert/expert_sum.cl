/* out[t, :] = sum of weights[t, j] y[t, j, :] over the CHOSEN experts j of token t, + residual[t, :]. All
 * tensors are dense.
 * Launch: {ceil(n / WG), tokens} groups; a work-item has a column.
 *   -D WG        work-items in a group
 *   -D RESIDUAL  1 with a residual
 *   and those of expert_scores.h */
#include "args.h"
#include "group.h"

#ifndef RESIDUAL
#  error "expert_sum.cl needs WG, RESIDUAL, CHOSEN and SOFTMAX"
#endif
#include "expert_scores.h"

GROUP_KERNEL
void expert_sum(const expert_sum_args p, global float *out, global const float *y, global const float *scores,
                global const int *ids, global const float *residual)
{
    local float weights[CHOSEN];
    const uint token = get_group_id(1), c = get_group_id(0) * WG + get_local_id(0);
    weights_of_token(weights, &p, scores, ids, token, get_local_id(0), WG);
    if (c < p.a.n) {
        float sum = 0;
        for (uint j = 0; j < CHOSEN; j++)
            sum = fma(weights[j], y[p.y + ((size_t)token * CHOSEN + j) * p.a.n + c], sum);
        const size_t to = (size_t)token * p.a.n + c;
        out[to] = RESIDUAL ? sum + residual[p.residual + to] : sum;
    }
}
