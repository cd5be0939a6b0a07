/* Adds up the sums of the work-items of a group that share columns, in local memory, in a fixed order.
 * SPAN adjacent work-items have sums of the same COLUMNS columns; both are powers of two, COLUMNS up to SPAN.
 * Needs WG.
 *   SUMS                    columns of all work-items of the group
 *   add_shares(sum, parts, shares, item)  all items of the group call it, with local memory of COLUMNS WG
 *                                         floats and of WG floats
 *   share_sum(shares, i)                  afterwards, the sum of column i of SUMS */
#ifndef CLEF_CL_EXPERT_EXPERT_SHARES_H
#define CLEF_CL_EXPERT_EXPERT_SHARES_H

#include "inline.h"

enum { SUMS = WG / SPAN * COLUMNS, SHARES = SPAN / COLUMNS };

INLINED void add_shares(const float sum[COLUMNS], local float *parts, local float *shares, uint item)
{
    const uint set = item / SPAN, lane = item % SPAN, column = item / SHARES, share = item % SHARES;
    float some = 0;
#pragma unroll
    for (uint c = 0; c < COLUMNS; c++)
        parts[(set * COLUMNS + c) * SPAN + lane] = sum[c];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < COLUMNS; i++)
        some += parts[column * SPAN + i * SHARES + share];
    shares[item] = some;
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline float share_sum(local const float *shares, uint column)
{
    float all = 0;
    for (uint i = 0; i < SHARES; i++)
        all += shares[column * SHARES + i];
    return all;
}

#endif
