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

/* A query: where it begins, where its mask row does, its position, its head and token. */
typedef struct query {
    global const float *q;
    size_t mask;
    int    at;
    uint   h, t;
} query;

static query query_of(const attention_args *a, global const float *q, global const int *pos, uint b, uint hk, uint i)
{
    query r;
    r.t = i / a->group;
    r.h = hk * a->group + i % a->group;
    r.q = q + a->q.offset + b * (size_t)a->q.stride[0] + r.h * (size_t)a->q.stride[1] + r.t * (size_t)a->q.stride[2];
    r.mask = a->mask.offset + b * (size_t)a->mask.stride[0] + r.h * (size_t)a->mask.stride[1] + r.t * (size_t)a->mask.stride[2];
    r.at = (int)r.t;
#if POS
    r.at += pos[a->pos + b];
#endif
    return r;
}

/* One past the last key, and the first, that a query at this position may see. */
static int keys_end(const attention_args *a, int at) { return a->causal ? clamp(at + 1, 0, (int)a->n[3]) : (int)a->n[3]; }
static int keys_begin(const attention_args *a, int at) { return a->window > 0 ? max(at - a->window + 1, 0) : 0; }

/* What the product q . k of key s weighs before the softmax; -INFINITY where the key is dropped. */
static float logit(const attention_args *a, const query *r, global const mask_elem *mask, int s, float product)
{
    if ((a->causal && s > r->at) || (a->window > 0 && s <= r->at - a->window))
        return -INFINITY;
    float z = a->scale * product;
    if (a->softcap > 0)
        z = a->softcap * tanh(z / a->softcap);
#if MASK == DTYPE_F32
    z += mask[r->mask + s * (size_t)a->mask.stride[3]];
#elif MASK >= 0
    if (!mask[r->mask + s * (size_t)a->mask.stride[3]])
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

static size_t out_at(const attention_args *a, const query *r, uint b)
{
    return (((size_t)b * a->n[2] + r->t) * a->n[1] + r->h) * E;
}

#if WG == 1

enum { CHUNK = 16, WIDE = E / 16, REST = E % 16 };

/* The running state of a query's softmax, and its sum of values: WIDE vectors and REST single elements. */
typedef struct state {
    float   max, sum;
    float16 wide[WIDE ? WIDE : 1];
    float   rest[REST ? REST : 1];
} state;

/* Takes CHUNK scores (-INFINITY where there is none) into the state; gives their weights, and 0 when all of them are 0. */
static int weigh(state *st, float16 z, float weights[CHUNK])
{
    const float most = fmax(st->max, max16(z));
    if (most == -INFINITY)
        return 0;
    const float keep = exp(st->max - most);
    const float16 p = exp(z - most);
    if (keep != 1.0f) {
        for (uint i = 0; i < WIDE; i++)
            st->wide[i] *= keep;
        for (uint i = 0; i < REST; i++)
            st->rest[i] *= keep;
    }
    st->sum = st->sum * keep + sum16(p);
    st->max = most;
    vstore16(p, 0, weights);
    return 1;
}

GROUP_KERNEL
void attention(const attention_args a, global float *out, global const float *q, global const k_elem *k, global const v_elem *v,
               global const mask_elem *mask, global const int *pos)
{
    BEGIN_GROUP;
    query r[ROWS];
    state st[ROWS];
    for (uint i = 0; i < ROWS; i++) { /* queries beyond the end stand for the last one */
        r[i] = query_of(&a, q, pos, b, hk, min(first + i, queries - 1));
        st[i].max = -INFINITY;
        st[i].sum = 0;
        for (uint j = 0; j < WIDE; j++)
            st[i].wide[j] = 0;
        for (uint j = 0; j < REST; j++)
            st[i].rest[j] = 0;
    }
    /* positions rise with the query */
    const int begin = keys_begin(&a, r[0].at), end = keys_end(&a, r[ROWS - 1].at);
    for (int s0 = begin; s0 < end; s0 += CHUNK) {
        const int n = min((int)CHUNK, end - s0);
        float z[ROWS][CHUNK];
        int any = 0;
        for (int s = 0; s < CHUNK; s++)
            for (uint i = 0; i < ROWS; i++)
                z[i][s] = s < n ? logit(&a, &r[i], mask, s0 + s, dot(r[i].q, k, k0 + (s0 + s) * (size_t)a.k.stride[2])) : -INFINITY;
        for (uint i = 0; i < ROWS; i++)
            if (weigh(&st[i], vload16(0, z[i]), z[i]))
                any = 1;
            else
                vstore16((float16)(0.0f), 0, z[i]);
        for (int s = 0; s < n && any; s++) {
            const size_t from = v0 + (s0 + s) * (size_t)a.v.stride[2];
            for (uint j = 0; j < WIDE; j++) {
                const float16 x = LOAD16(V_TYPE, v, from + 16 * j);
                for (uint i = 0; i < ROWS; i++)
                    st[i].wide[j] = fma((float16)z[i][s], x, st[i].wide[j]);
            }
            for (uint j = 0; j < REST; j++) {
                const float x = LOAD(V_TYPE, v, from + 16 * WIDE + j);
                for (uint i = 0; i < ROWS; i++)
                    st[i].rest[j] = fma(z[i][s], x, st[i].rest[j]);
            }
        }
    }
    for (uint i = 0; i < ROWS && first + i < queries; i++) {
        const float inverse = st[i].sum > 0 ? 1.0f / st[i].sum : 0.0f;
        global float *to = out + out_at(&a, &r[i], b);
        for (uint j = 0; j < WIDE; j++)
            vstore16(st[i].wide[j] * inverse, 0, to + 16 * j);
        for (uint j = 0; j < REST; j++)
            to[16 * WIDE + j] = st[i].rest[j] * inverse;
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
    const query r = query_of(&a, q, pos, b, hk, first);
    float running_max = -INFINITY, sum = 0, acc[MINE];
    for (uint j = 0; j < MINE; j++)
        acc[j] = 0;
    const int begin = keys_begin(&a, r.at), end = keys_end(&a, r.at);
    for (int s0 = begin; s0 < end; s0 += WG) { /* a key each; the bounds are the same for the whole group */
        const int s = s0 + (int)lane, n = min((int)WG, end - s0);
        const float z = s < end ? logit(&a, &r, mask, s, dot(r.q, k, k0 + s * (size_t)a.k.stride[2])) : -INFINITY;
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
            out[out_at(&a, &r, b) + lane + j * WG] = sum > 0 ? acc[j] / sum : 0.0f;
}

#endif
