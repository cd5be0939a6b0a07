/* For attention_grad.cl: loads tiles of keys and queries, and computes their logits. Needs ROWS, KEYS, WG and
 * the lengths that attention_grad.cl defines. */
#ifndef CLEF_CL_ATTENTION_GRAD_TILE_H
#define CLEF_CL_ATTENTION_GRAD_TILE_H

/* Defines a function that loads the rows of keys s0 .. s0 + KEYS - 1 of the n keys; zeros beyond. */
#define DEFINE_LOAD_KEYS(name, type, N, pitch)                                                              \
    static void name(local float4 *to, global const ELEM(type) *x, size_t at, size_t stride, uint s0,       \
                     uint n)                                                                                \
    {                                                                                                       \
        local float *row = (local float *)to;                                                               \
        for (uint i = get_local_id(0); i < KEYS * 4 * pitch; i += WG) {                                     \
            const uint s = i / (4 * pitch), e = i % (4 * pitch);                                            \
            row[i] = s0 + s < n && e < N ? LOAD(type, x, at + (s0 + s) * stride + e) : 0.0f;                \
        }                                                                                                   \
    }
DEFINE_LOAD_KEYS(load_keys, K_TYPE, D, DP)
DEFINE_LOAD_KEYS(load_values, V_TYPE, E, EP)

/* A head of k in a sequence. */
typedef struct head_id {
    uint b, hk, queries;
} head_id;

/* Head n of all. (Oclgrind cannot run kernels that inline a function which returns a struct.) */
static void find_head(head_id *h, const attention_args *a, uint n)
{
    const uint heads = a->n[1] / a->group;
    h->b = n / heads;
    h->hk = n % heads;
    h->queries = a->group * a->n[2];
}

static int end_of(const attention_args *a, head_id h, global const int *pos, uint i)
{
    return keys_end(a, position(a, pos, h.b, i));
}

static int begin_of(const attention_args *a, head_id h, global const int *pos, global const int *first_keys,
                    uint i)
{
    return keys_begin(a, position(a, pos, h.b, i), first_key(a, first_keys, h.b, i));
}

/* Loads the queries i0 .. and their rows of dy, and the keys that each sees: none beyond the last query. */
static void load_queries(local float4 *q4, local float4 *dy4, local int *begin, local int *end,
                         const attention_grad_args *g, head_id h, uint i0, global const float *q,
                         global const float *dy, global const int *pos, global const int *first_keys)
{
    local float *qs = (local float *)q4, *dys = (local float *)dy4;
    for (uint i = get_local_id(0); i < ROWS * 4 * DP; i += WG) {
        const uint r = i0 + i / (4 * DP), d = i % (4 * DP);
        qs[i] = r < h.queries && d < D ? q[row_at(&g->a, &g->a.q, h.b, h.hk, r) + d] : 0.0f;
    }
    for (uint i = get_local_id(0); i < ROWS * 4 * EP; i += WG) {
        const uint r = i0 + i / (4 * EP), e = i % (4 * EP);
        dys[i] = r < h.queries && e < E ? dy[g->dy + out_at(&g->a, h.b, h.hk, r, E) + e] : 0.0f;
    }
    for (uint r = get_local_id(0); r < ROWS; r += WG) {
        const uint i = min(i0 + r, h.queries - 1);
        begin[r] = begin_of(&g->a, h, pos, first_keys, i);
        end[r] = i0 + r < h.queries ? end_of(&g->a, h, pos, i) : 0;
    }
}

static float dot_rows(local const float4 *x, local const float4 *y, uint n)
{
    float sum = 0;
#pragma unroll 4 /* if it is unrolled as a whole, compilers issue all loads first and spill registers */
    for (uint i = 0; i < n; i++)
        sum += dot(x[i], y[i]);
    return sum;
}

/* The logit of query i and key s; -INFINITY if the query does not see it. *slope: its derivative by the
 * scaled product. */
static float pair_logit(const attention_args *a, head_id h, global const mask_elem *mask, uint i, int s,
                        int begin, int end, float product, float *slope)
{
    float z = a->scale * product;
    *slope = 1;
    if (s < begin || s >= end)
        return -INFINITY;
#if CAPS
    const float bent = tanh(z / a->softcap);
    z = a->softcap * bent;
    *slope = 1 - bent * bent;
#endif
    return masked(a, mask, row_at(a, &a->mask, h.b, h.hk, i), s, z);
}

#endif
