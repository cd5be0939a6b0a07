/* Softmax attention with an online softmax (arXiv:1805.02867), for any device: q [B, H, T, D], k [B, Hk, S,
 * D], v [B, Hk, S, E], group = H / Hk;
 *   z[s] = cap(scale q . k[s]) + mask
 *   out[b, t, h, :] = sum_s exp(z[s] - max z) v[s] / sum_s exp(z[s] - max z)
 * The queries that share keys, (t, h) for the heads h of one group, are numbered together: query i has t = i
 * / group. Only keys that the query may see are read. A query that sees no key gives zeros.
 * Launch: group T Hk B groups, one for each query.
 *   -D WG      work-items in a group, a power of two
 *   -D D, E    last dims of k and v
 *   -D K_TYPE, V_TYPE  dtypes of k and v
 *   -D MASK    DTYPE_NONE (-1), DTYPE_F32: added, DTYPE_I32 or DTYPE_I8: kept where not 0
 *   -D POS     1: query t of sequence b is at position pos[b] + t, else at t
 *   -D SINKS   dtype of sinks [H], DTYPE_NONE without: each query of head h has one more key, with logit
 *              sinks[h] and no value
 *   -D FIRST   1: query t of sequence b sees no key before first_keys[b, t], which does not decrease with t
 *   -D PAGED   1: the batch is the rows of several sequences (paging.h) */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_logit.h"

#if !defined(D) || !defined(E)
#  error "attention.cl needs WG, D, E, K_TYPE, V_TYPE, MASK, POS, SINKS and FIRST"
#endif

static float dot(global const float *q, global const k_elem *k, size_t k0)
{
    float16 wide = 0;
    float sum = 0;
    uint d = 0;
    for (; d + 16 <= D; d += 16)
        wide = fma(vload16(0, q + d), LOAD16(K_TYPE, k, k0 + d), wide);
    for (; d < D; d++)
        sum = fma(q[d], LOAD(K_TYPE, k, k0 + d), sum);
    return D < 16 ? sum : sum16(wide) + sum;
}

enum { MINE = (E + WG - 1) / WG }; /* elements of the result that a work-item computes: lane, lane + WG .. */

GROUP_KERNEL
void attention_gpu_query(const attention_args a, global float *out, global const float *q,
                         global const k_elem *k, global const v_elem *v, global const mask_elem *mask,
                         global const int *pos, global const sink_elem *sinks FIRST_PARAM
                             PAGING_PARAMS)
{
    const uint queries = a.group * a.n[2], heads = a.n[1] / a.group;
    const uint query = get_group_id(0) % queries, hk = get_group_id(0) / queries % heads,
               b = get_group_id(0) / queries / heads;
    global const int *own_pages = 0;
#if PAGED
    own_pages = run_with(&a.paging, b, runs, pages).pages;
#endif
    GROUP_SCRATCH(scratch);
    local float weights[WG];
    const uint lane = get_local_id(0);
    const int at = position(&a, pos, b, query);
    const size_t mask_row = row_at(&a, &a.mask, b, hk, query);
    q += row_at(&a, &a.q, b, hk, query);
    out += out_at(&a, b, hk, query, E);
    float running_max = first_logit(&a, sinks, hk, query), sum = running_max > -INFINITY ? 1.0f : 0.0f,
          acc[MINE];
    for (uint j = 0; j < MINE; j++)
        acc[j] = 0;
    const int begin = keys_begin(&a, at, first_key(&a, FIRST_KEYS, b, query)), end = keys_end(&a, at);
    for (int s0 = begin; s0 < end; s0 += WG) { /* one key for each work-item; the bounds are equal in the
                                                  whole group */
        const int s = s0 + (int)lane, n = min((int)WG, end - s0);
        const float z =
            s < end ? logit(&a, mask, mask_row, s, dot(q, k, key_at(&a.k, b, hk, s, own_pages))) : -INFINITY;
        const float most = fmax(running_max, group_max(z, scratch));
        const float base =
            most == -INFINITY ? 0.0f : most; /* nothing is kept yet, or only NaNs, which fmax ignores */
        const float p = exp(z - base), keep = exp(running_max - base);
        sum = sum * keep + group_sum(p, scratch);
        running_max = most;
        weights[lane] = p;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < MINE; j++) {
            const uint e = lane + j * WG;
            acc[j] *= keep;
            for (int i = 0; i < n && e < E; i++)
                acc[j] = fma(weights[i], LOAD(V_TYPE, v, key_at(&a.v, b, hk, s0 + i, own_pages) + e), acc[j]);
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the weights are overwritten next */
    }
    for (uint j = 0; j < MINE; j++)
        if (lane + j * WG < E)
            out[lane + j * WG] = sum != 0 ? acc[j] / sum : 0.0f;
}
