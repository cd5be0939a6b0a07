/* What cached attention does to the heads of a step before it looks at the caches, in one launch: norm and
 * RoPE of q, which goes to `ready` [B, T, H, D]; norm and RoPE of k, which goes to its cache, as v does.
 * norm.cl, rope.cl and cache.cl have the formulas.
 * Launch: one group for each head of q, k and v of each token, in this order.
 *   -D WG               work-items in a group
 *   -D D, E             last dims of k and v
 *   -D K_TYPE, V_TYPE   dtypes of the caches, as in cache.cl
 *   -D NORM_TYPE        dtype of the norms' weights, DTYPE_NONE without norms
 *   -D PAIRING          as in rope.cl, 0 to 2; -1: no RoPE
 *   -D POS, PAGED       as in cache.cl */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "cache_row.h"

#if !defined(D) || !defined(E) || !defined(K_TYPE) || !defined(V_TYPE) || !defined(NORM_TYPE) || \
    !defined(PAIRING) || !defined(POS) || !defined(PAGED)
#  error "heads.cl needs WG, D, E, K_TYPE, V_TYPE, NORM_TYPE, PAIRING, POS and PAGED"
#endif
#include "norm_elem.h"
#include "paging.h"

typedef ELEM(K_TYPE) k_elem;
typedef ELEM(V_TYPE) v_elem;

enum { MOST = D > E ? D : E };

static size_t head_at(const view_args *view, uint b, uint h, uint t)
{
    return view->offset + b * (size_t)view->stride[0] + h * (size_t)view->stride[1] +
           t * (size_t)view->stride[2];
}

GROUP_KERNEL
void attention_heads(const heads_args a, global float *ready, global k_elem *k_cache, global v_elem *v_cache,
                     global const float *q, global const float *k, global const float *v,
                     global const norm_elem *q_norm, global const norm_elem *k_norm,
                     global const float *freqs, global const int *pos PAGING_PARAMS)
{
    const uint T = a.n[1], Hk = a.n[2], of_token = a.heads + 2 * Hk;
    const uint token = get_group_id(0) / of_token, b = token / T, t = token % T, lane = get_local_id(0);
    const uint number = get_group_id(0) % of_token; /* of the head, the same in the whole group */
    const int is_q = number < a.heads, is_v = number >= a.heads + Hk;
    const uint h = is_q ? number : is_v ? number - a.heads - Hk : number - a.heads;
    const uint n = is_v ? E : D;
    local float head[MOST], turned[MOST];
    GROUP_SCRATCH(scratch);
#if POS
    const int at = pos[a.pos + b] + (int)t;
#else
    const int at = (int)t;
#endif
    global const float *x = is_q   ? q + head_at(&a.q, b, h, t)
                            : is_v ? v + head_at(&a.v, b, h, t)
                                   : k + head_at(&a.k, b, h, t);
#if NORM_TYPE >= 0
    float squares = 0;
    for (uint i = lane; i < n; i += WG)
        squares = fma(x[i], x[i], squares);
    const float scale = 1.0f / sqrt(group_sum(squares, scratch) / D + a.eps);
    for (uint i = lane; i < n; i += WG)
        head[i] = is_v ? x[i]
                       : x[i] * scale *
                             (is_q ? LOAD(NORM_TYPE, q_norm, a.q_norm + i)
                                   : LOAD(NORM_TYPE, k_norm, a.k_norm + i));
#else
    for (uint i = lane; i < n; i += WG)
        head[i] = x[i];
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    uint passed = 0; /* elements that were turned */
#if PAIRING >= 0
    const uint half_n = is_v ? 0 : a.half_n;
    for (uint i = lane; i < half_n; i += WG) {
        const float angle = (float)at * freqs[a.freqs + i];
        const float c = cos(angle) * a.scale, s = sin(angle) * a.scale;
        const uint i0 = PAIRING == 0 ? i : 2 * i, i1 = PAIRING == 0 ? i + half_n : 2 * i + 1;
        const uint to0 = PAIRING == 1 ? 2 * i : i, to1 = PAIRING == 1 ? 2 * i + 1 : i + half_n;
        turned[to0] = head[i0] * c - head[i1] * s;
        turned[to1] = head[i1] * c + head[i0] * s;
    }
    passed = 2 * half_n;
#endif
    for (uint i = passed + lane; i < n; i += WG)
        turned[i] = head[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_q) {
        ready += ((size_t)token * a.heads + h) * D;
        for (uint i = lane; i < D; i += WG)
            ready[i] = turned[i];
        return;
    }
    if (at < 0 || at >= (int)a.capacity)
        return;
#if PAGED
    const run_of run = run_with(&a.paging, b, runs, pages);
    if (!run.rows)
        return;
    const size_t row = page_at(is_v ? &a.v_cache : &a.k_cache, h, at, run.pages);
#else
    const size_t row = head_at(is_v ? &a.v_cache : &a.k_cache, b, h, (uint)at);
#endif
#define TURNED_AT(i) turned[i]
    if (is_v)
        KEEP_ROW(V_TYPE, v_cache, row, TURNED_AT, E, lane);
    else
        KEEP_ROW(K_TYPE, k_cache, row, TURNED_AT, D, lane);
}
