/* Softmax attention with an online softmax (arXiv:1805.02867): q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E], group = H / Hk;
 *   z[s] = cap(scale q . k[s]) + mask,  out[b, t, h, :] = sum_s exp(z[s] - max z) v[s] / sum_s exp(z[s] - max z).
 * The queries that meet the same keys, (t, h) for the heads h of one group, are counted together: query i has t = i / group.
 * Launch: ceil(group T / ROWS) Hk B groups, queries behind one another. Only keys that some query of the group may see are read.
 * A query that sees no key gives zeros.
 *   -D WG      work-items a group, a power of two; 1: no barriers, vectors instead
 *   -D ROWS    queries a group; 1 unless WG is 1
 *   -D D, E    last dims of k and v
 *   -D K_TYPE, V_TYPE  dtypes of k and v
 *   -D MASK    DTYPE_NONE (-1), DTYPE_F32: added, DTYPE_I32 or DTYPE_I8: kept where not 0
 *   -D POS     1: query t of sequence b stands at pos[b] + t, else at t */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(ROWS) || !defined(D) || !defined(E) || !defined(K_TYPE) || !defined(V_TYPE) || !defined(MASK) || !defined(POS)
#  error "attention.cl needs WG, ROWS, D, E, K_TYPE, V_TYPE, MASK and POS"
#endif

#if MASK < 0
typedef float mask_elem;
#else
typedef ELEM(MASK) mask_elem;
#endif
typedef ELEM(K_TYPE) k_elem;
typedef ELEM(V_TYPE) v_elem;

/* Of query i: where it begins in q, where its row of the mask begins, and its position. */
static size_t row_at(const attention_args *a, const view_args *view, uint b, uint hk, uint i)
{
    const uint t = i / a->group, h = hk * a->group + i % a->group;
    return view->offset + b * (size_t)view->stride[0] + h * (size_t)view->stride[1] + t * (size_t)view->stride[2];
}

static int position(const attention_args *a, global const int *pos, uint b, uint i)
{
#if POS
    return (int)(i / a->group) + pos[a->pos + b];
#else
    return (int)(i / a->group);
#endif
}

/* One past the last key, and the first, that a query at this position may see. */
static int keys_end(const attention_args *a, int at) { return a->causal ? clamp(at + 1, 0, (int)a->n[3]) : (int)a->n[3]; }
static int keys_begin(const attention_args *a, int at) { return a->window > 0 ? max(at - a->window + 1, 0) : 0; }

/* What the product q . k of key s weighs before the softmax; -INFINITY where the key is dropped. */
static float logit(const attention_args *a, int at, global const mask_elem *mask, size_t mask_row, int s, float product)
{
    if ((a->causal && s > at) || (a->window > 0 && s <= at - a->window))
        return -INFINITY;
    float z = a->scale * product;
    if (a->softcap > 0)
        z = a->softcap * tanh(z / a->softcap);
#if MASK == DTYPE_F32
    z += mask[mask_row + s * (size_t)a->mask.stride[3]];
#elif MASK >= 0
    if (!mask[mask_row + s * (size_t)a->mask.stride[3]])
        return -INFINITY;
#endif
    return z;
}

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

#define BEGIN_GROUP                                                                                                                    \
    const uint queries = a.group * a.n[2], tiles = (queries + ROWS - 1) / ROWS, heads = a.n[1] / a.group;                              \
    const uint first = get_group_id(0) % tiles * ROWS, hk = get_group_id(0) / tiles % heads, b = get_group_id(0) / tiles / heads;      \
    const size_t k0 = a.k.offset + b * (size_t)a.k.stride[0] + hk * (size_t)a.k.stride[1];                                             \
    const size_t v0 = a.v.offset + b * (size_t)a.v.stride[0] + hk * (size_t)a.v.stride[1]

static size_t out_at(const attention_args *a, uint b, uint hk, uint i)
{
    return (((size_t)b * a->n[2] + i / a->group) * a->n[1] + hk * a->group + i % a->group) * E;
}

#if WG == 1

enum { CHUNK = 16, WIDE = E / 16, REST = E % 16 };

GROUP_KERNEL
void attention(const attention_args a, global float *out, global const float *q, global const k_elem *k, global const v_elem *v,
               global const mask_elem *mask, global const int *pos)
{
    BEGIN_GROUP;
    /* Plain arrays: Mesa 22.3 loses the contents of an array of structs. */
    size_t q_row[ROWS], mask_row[ROWS];
    int at[ROWS];
    /* The running softmax of each query, and its sum of values: WIDE vectors and REST single elements. */
    float most[ROWS], sum[ROWS], rest[ROWS][REST ? REST : 1];
    float16 wide[ROWS][WIDE ? WIDE : 1];
#  pragma unroll
    for (uint i = 0; i < ROWS; i++) { /* queries beyond the end stand for the last one */
        const uint query = min(first + i, queries - 1);
        q_row[i] = row_at(&a, &a.q, b, hk, query);
        mask_row[i] = row_at(&a, &a.mask, b, hk, query);
        at[i] = position(&a, pos, b, query);
        most[i] = -INFINITY;
        sum[i] = 0;
#  pragma unroll
        for (uint j = 0; j < WIDE; j++)
            wide[i][j] = 0;
        for (uint j = 0; j < REST; j++)
            rest[i][j] = 0;
    }
    /* positions rise with the query */
    const int begin = keys_begin(&a, at[0]), end = keys_end(&a, at[ROWS - 1]);
    for (int s0 = begin; s0 < end; s0 += CHUNK) {
        const int n = min((int)CHUNK, end - s0);
        float z[ROWS][CHUNK]; /* scores, then weights */
        for (int s = 0; s < CHUNK; s++)
#  pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                const size_t key = k0 + (s0 + s) * (size_t)a.k.stride[2];
                z[i][s] = s < n ? logit(&a, at[i], mask, mask_row[i], s0 + s, dot(q + q_row[i], k, key)) : -INFINITY;
            }
#  pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            const float16 score = vload16(0, z[i]);
            const float new_most = fmax(most[i], max16(score)), base = new_most == -INFINITY ? 0.0f : new_most;
            const float keep = exp(most[i] - base);
            const float16 p = exp(score - base);
            vstore16(p, 0, z[i]);
            sum[i] = sum[i] * keep + sum16(p);
            most[i] = new_most;
#  pragma unroll
            for (uint j = 0; j < WIDE; j++)
                wide[i][j] *= keep;
            for (uint j = 0; j < REST; j++)
                rest[i][j] *= keep;
        }
        for (int s = 0; s < n; s++) {
            const size_t from = v0 + (s0 + s) * (size_t)a.v.stride[2];
#  pragma unroll
            for (uint j = 0; j < WIDE; j++) {
                const float16 x = LOAD16(V_TYPE, v, from + 16 * j);
#  pragma unroll
                for (uint i = 0; i < ROWS; i++)
                    wide[i][j] = fma((float16)z[i][s], x, wide[i][j]);
            }
            for (uint j = 0; j < REST; j++) {
                const float x = LOAD(V_TYPE, v, from + 16 * WIDE + j);
#  pragma unroll
                for (uint i = 0; i < ROWS; i++)
                    rest[i][j] = fma(z[i][s], x, rest[i][j]);
            }
        }
    }
#  pragma unroll
    for (uint i = 0; i < ROWS; i++)
        if (first + i < queries) {
            const float inverse = sum[i] > 0 ? 1.0f / sum[i] : 0.0f;
            global float *to = out + out_at(&a, b, hk, first + i);
#  pragma unroll
            for (uint j = 0; j < WIDE; j++)
                vstore16(wide[i][j] * inverse, 0, to + 16 * j);
            for (uint j = 0; j < REST; j++)
                to[16 * WIDE + j] = rest[i][j] * inverse;
        }
}

#else

enum { MINE = (E + WG - 1) / WG }; /* elements of the result that a work-item owns: lane, lane + WG .. */

GROUP_KERNEL
void attention(const attention_args a, global float *out, global const float *q, global const k_elem *k, global const v_elem *v,
               global const mask_elem *mask, global const int *pos)
{
    BEGIN_GROUP;
    GROUP_SCRATCH(scratch);
    local float weights[WG];
    const uint lane = get_local_id(0);
    const int at = position(&a, pos, b, first);
    const size_t mask_row = row_at(&a, &a.mask, b, hk, first);
    q += row_at(&a, &a.q, b, hk, first);
    out += out_at(&a, b, hk, first);
    float running_max = -INFINITY, sum = 0, acc[MINE];
    for (uint j = 0; j < MINE; j++)
        acc[j] = 0;
    const int begin = keys_begin(&a, at), end = keys_end(&a, at);
    for (int s0 = begin; s0 < end; s0 += WG) { /* a key each; the bounds are the same for the whole group */
        const int s = s0 + (int)lane, n = min((int)WG, end - s0);
        const float z = s < end ? logit(&a, at, mask, mask_row, s, dot(q, k, k0 + s * (size_t)a.k.stride[2])) : -INFINITY;
        const float most = fmax(running_max, group_max(z, scratch));
        const float p = most == -INFINITY ? 0.0f : exp(z - most);
        const float keep = most == -INFINITY ? 1.0f : exp(running_max - most);
        sum = sum * keep + group_sum(p, scratch);
        running_max = most;
        weights[lane] = p;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < MINE; j++) {
            const uint e = lane + j * WG;
            acc[j] *= keep;
            for (int i = 0; i < n && e < E; i++)
                acc[j] = fma(weights[i], LOAD(V_TYPE, v, v0 + (s0 + i) * (size_t)a.v.stride[2] + e), acc[j]);
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the weights are overwritten next */
    }
    for (uint j = 0; j < MINE; j++)
        if (lane + j * WG < E)
            out[lane + j * WG] = sum > 0 ? acc[j] / sum : 0.0f;
}

#endif
