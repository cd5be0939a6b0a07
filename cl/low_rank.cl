/* out[r, :] = y[r, :] + (x[r, :] down[i]^T) up[i] for rows r = (sequence, token) and i = ids[sequence] - 1.
 * An id of 0, or outside the pairs, gives y. All tensors are dense; out may be y.
 * Launch: {ceil(n / columns), rows} groups. Each computes the RANK numbers in the middle for itself.
 *   -D WG    work-items in a group, a power of two
 *   -D RANK  rows of each matrix of down and up */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(RANK)
#  error "low_rank.cl needs WG and RANK"
#endif

enum { AT_ONCE = 4 }; /* rows of down that share a read of x */

/* This work-item's parts of the products of x with rows j .. j + AT_ONCE - 1 of down. */
static void dot_rows(global const float *x, global const float *down, uint k, uint j, float parts[AT_ONCE])
{
    const uint whole = k / 16 * 16, lane = local_id(0);
    float16 sum[AT_ONCE];
    float tail[AT_ONCE];
    size_t at[AT_ONCE];
#pragma unroll
    for (uint i = 0; i < AT_ONCE; i++) {
        at[i] = min(j + i, (uint)RANK - 1) * (size_t)k;
        sum[i] = 0;
        tail[i] = 0;
    }
    for (uint c = lane * 16; c < whole; c += WG * 16) {
        const float16 xc = vload16(0, x + c);
#pragma unroll
        for (uint i = 0; i < AT_ONCE; i++)
            sum[i] = fma(vload16(0, down + at[i] + c), xc, sum[i]);
    }
    for (uint c = whole + lane; c < k; c += WG)
#pragma unroll
        for (uint i = 0; i < AT_ONCE; i++)
            tail[i] = fma(down[at[i] + c], x[c], tail[i]);
#pragma unroll
    for (uint i = 0; i < AT_ONCE; i++)
        parts[i] = sum16(sum[i]) + tail[i];
}

GROUP_KERNEL
void low_rank_add(STAGE_GROUP const low_rank_args a, global float *out, global const float *y,
                  global const float *x, global const float *down, global const float *up,
                  global const int *ids)
{
    const uint row = group_id(1), first = group_id(0) * a.columns, lane = local_id(0);
    const uint end = min(first + a.columns, a.n);
    const int i = ids[a.ids + row / a.each] - 1;
    const uint rank = i >= 0 && i < (int)a.pairs ? RANK : 0; /* the same in the whole group */
    const size_t pair = rank ? (size_t)i : 0;
    GROUP_SCRATCH(scratch);
    float middle[RANK];
    y += a.y + (size_t)row * a.n;
    x += a.x + (size_t)row * a.k;
    down += a.down + pair * RANK * a.k;
    up += a.up + pair * RANK * a.n;
    out += (size_t)row * a.n;
    if (rank == 0 && out == y)
        return;
    for (uint j = 0; j < rank; j += AT_ONCE) {
        float parts[AT_ONCE];
        dot_rows(x, down, a.k, j, parts);
        for (uint l = 0; l < AT_ONCE; l++) {
            const float sum = group_sum(parts[l], scratch);
            if (j + l < RANK)
                middle[j + l] = sum;
        }
    }
    uint c = first + lane;
#if WG == 1
    for (; c + 16 <= end; c += 16) {
        float16 sum = vload16(0, y + c);
        for (uint j = 0; j < rank; j++)
            sum = fma(vload16(0, up + (size_t)j * a.n + c), (float16)middle[j], sum);
        vstore16(sum, 0, out + c);
    }
#endif
    for (; c < end; c += WG) {
        float sum = y[c];
        for (uint j = 0; j < rank; j++)
            sum = fma(up[(size_t)j * a.n + c], middle[j], sum);
        out[c] = sum;
    }
}
