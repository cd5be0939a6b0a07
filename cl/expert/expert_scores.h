/* How much each chosen expert of a token counts, for expert_sum.cl and expert_few_sum.cl: weights that are
 * given, or the softmax of their scores.
 *   -D CHOSEN   experts of a token
 *   -D SOFTMAX  0: `scores` has the weights of the chosen ones; 1: one of each expert, of which the softmax
 *               over the chosen ones is taken; 2: one of each expert, of which the softmax over all is
 *               divided by its sum over the chosen ones
 * The function writes the weights of a token to local memory. Every work-item of the group calls it; `item`
 * numbers them, `items` is their number. It ends with a barrier. */
#ifndef CLEF_CL_EXPERT_EXPERT_SCORES_H
#define CLEF_CL_EXPERT_EXPERT_SCORES_H

#include "inline.h"

#if !defined(CHOSEN) || !defined(SOFTMAX)
#  error "expert_scores.h needs CHOSEN and SOFTMAX"
#endif

/* gather_elements gives 0 for an id outside the experts: as a score with SOFTMAX 1, as a weight with 2.
 * Scores that are all -INFINITY give weights of 0 with 1, as softmax does, and NaN with 2. */
INLINED void weights_of_token(local float *weights, const expert_sum_args *p,
                                    global const float *scores, global const int *ids, uint token, uint item,
                                    uint items)
{
#if SOFTMAX
    float most = -INFINITY, sum = 0;
    scores += p->scores + (size_t)token * p->a.experts;
    for (uint j = item; j < CHOSEN; j += items) {
        const int id = ids[p->a.ids + token * CHOSEN + j];
        weights[j] = id >= 0 && id < (int)p->a.experts ? scores[id] : SOFTMAX == 1 ? 0.0f : -INFINITY;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < CHOSEN; j++)
        most = fmax(most, weights[j]);
    most = fmax(most, -FLT_MAX);
    for (uint j = 0; j < CHOSEN; j++)
        sum += weights[j] < -FLT_MAX ? 0.0f : exp(weights[j] - most);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = item; j < CHOSEN; j += items)
        weights[j] = SOFTMAX == 1 && sum == 0            ? 0.0f
                     : weights[j] < -FLT_MAX && sum != 0 ? 0.0f
                                                         : exp(weights[j] - most) / sum;
#else
    for (uint j = item; j < CHOSEN; j += items)
        weights[j] = scores[p->scores + (size_t)token * CHOSEN + j];
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
}

#endif
