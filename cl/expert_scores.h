/* How much each chosen expert of a token counts, for expert_sum.cl and expert_few_sum.cl: weights that are
 * given, or the softmax of their scores.
 *   -D CHOSEN   experts of a token
 *   -D SOFTMAX  1: `scores` has one of each expert; 0: it has the weights of the chosen ones
 * The function writes the weights of a token to local memory. Every work-item of the group calls it; `item`
 * numbers them, `items` is their number. It ends with a barrier. */
#ifndef CLEF_CL_EXPERT_SCORES_H
#define CLEF_CL_EXPERT_SCORES_H

#if !defined(CHOSEN) || !defined(SOFTMAX)
#  error "expert_scores.h needs CHOSEN and SOFTMAX"
#endif

/* An id outside the experts scores 0, as gather_elements has it. */
static inline void weights_of_token(local float *weights, const expert_sum_args *p,
                                    global const float *scores, global const int *ids, uint token, uint item,
                                    uint items)
{
#if SOFTMAX
    float most = -INFINITY, sum = 0;
    scores += p->scores + (size_t)token * p->a.experts;
    for (uint j = item; j < CHOSEN; j += items) {
        const int id = ids[p->a.ids + token * CHOSEN + j];
        weights[j] = id >= 0 && id < (int)p->a.experts ? scores[id] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < CHOSEN; j++)
        most = fmax(most, weights[j]);
    for (uint j = 0; j < CHOSEN; j++)
        sum += exp(weights[j] - most);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = item; j < CHOSEN; j += items)
        weights[j] = exp(weights[j] - most) / sum;
#else
    for (uint j = item; j < CHOSEN; j += items)
        weights[j] = scores[p->scores + (size_t)token * CHOSEN + j];
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
}

#endif
