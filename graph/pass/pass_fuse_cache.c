/* The second half of fuse: attention over caches that this step writes becomes cached_attention, together
 * with the writes, the ropes and the heads' norms before it. A write, and each value between it and the
 * attention, must have no other use. */
#include <stdlib.h>
#include <string.h>

#include "graph/pass/pass.h"

static int swaps_heads(const clef_value *v)
{
    const clef_permute_opts *o = (const void *)v->attr;
    return v->op == CLEF_OP_permute && v->shape.rank == 4 && o->axes[0] == 0 && o->axes[1] == 2 &&
           o->axes[2] == 1 && o->axes[3] == 3;
}

/* The fused node reads v at the place of the attention, so v must not show a state that is written before. */
static int in_no_state(const clef_value *v)
{
    return !v || clef__base(v)->kind != CLEF_STATE;
}

/* The cache_write whose first rows `cache`, an input of the attention a, shows; NULL if it cannot be moved to
 * a. */
static clef_value *moved_write(const clef_value *a, clef_value *cache)
{
    const clef_value *shown = cache, *pages = a->in[7];
    for (; cache->op == CLEF_OP_slice; cache = cache->in[0]) {
        const clef_slice_opts *o = (const void *)cache->attr;
        if (!clef__only_use(cache) || o->start || o->axis % 2)
            return NULL;
    }
    if (cache->op != CLEF_OP_cache_write || !clef__only_use(cache) || cache->in[2] != a->in[4])
        return NULL;
    const clef_value *x = cache->in[1];
    const int fits = swaps_heads(x) && in_no_state(x) && cache->in[3] == a->in[6] && cache->in[4] == pages &&
                     (pages || clef__dim_equal(x->shape.dim[0], shown->shape.dim[0])) &&
                     clef__dim_equal(x->shape.dim[2], a->in[0]->shape.dim[2]);
    return fits ? cache : NULL;
}

/* Results of the first walk for the second: by id, the two writes of an attention, and the writes that are
 * removed. */
typedef struct matches {
    clef_value **writes;
    unsigned char *gone;
} matches;

static void match_attention(const clef_value *a, matches *m)
{
    if (a->op != CLEF_OP_attention || a->in[5] || a->in[8] || !swaps_heads(a->in[0]) ||
        !in_no_state(a->in[0]) || !in_no_state(a->in[3]) || !in_no_state(a->in[4]))
        return;
    clef_value *k = moved_write(a, a->in[1]), *v = moved_write(a, a->in[2]);
    if (!k || !v || clef__base(k) == clef__base(v))
        return;
    m->writes[2 * a->id] = k;
    m->writes[2 * a->id + 1] = v;
    m->gone[k->id] = m->gone[v->id] = 1;
}

/* Absorbs the ropes of q and k, if both are alike. */
static void take_ropes(const clef_value *a, clef_cached_attention_in *in, clef_cached_attention_opts *opts)
{
    const clef_value *q = in->q, *k = in->k;
    if (q->op != CLEF_OP_rope || k->op != CLEF_OP_rope || !clef__only_use(q) || !clef__only_use(k) ||
        q->in[1] != k->in[1] || q->in[2] != a->in[4] || k->in[2] != a->in[4] ||
        memcmp(q->attr, k->attr, sizeof(clef_rope_opts)) != 0 || !in_no_state(q->in[0]) ||
        !in_no_state(k->in[0]) || !in_no_state(q->in[1]))
        return;
    const clef_rope_opts *o = (const void *)q->attr;
    in->q = q->in[0];
    in->k = k->in[0];
    in->freqs = q->in[1];
    opts->pairing = o->pairing;
    opts->rope_scale = o->scale;
}

/* Absorbs the norms of q and k, likewise. */
static void take_norms(clef_cached_attention_in *in, clef_cached_attention_opts *opts)
{
    const clef_value *q = in->q, *k = in->k;
    if (opts->pairing == CLEF_ROPE_INTERLEAVED_TO_HALVES || q->op != CLEF_OP_rms_norm ||
        k->op != CLEF_OP_rms_norm || !clef__only_use(q) || !clef__only_use(k) || !q->in[1] || !k->in[1] ||
        q->in[1]->dtype != k->in[1]->dtype || memcmp(q->attr, k->attr, sizeof(clef_norm_opts)) != 0 ||
        !in_no_state(q->in[0]) || !in_no_state(k->in[0]) || !in_no_state(q->in[1]) ||
        !in_no_state(k->in[1]) || !clef__is_dense(q->in[1]) || !clef__is_dense(k->in[1]))
        return;
    in->q = q->in[0];
    in->k = k->in[0];
    in->q_norm = q->in[1];
    in->k_norm = k->in[1];
    opts->eps = ((const clef_norm_opts *)(const void *)q->attr)->eps;
}

static clef_value *fuse_cache(clef_value *v, const void *user)
{
    const matches *m = user;
    if (v->op == CLEF_OP_cache_write && m->gone[v->id])
        return v->in[0]; /* only the attention reads the result, and the attention will write */
    if (v->op != CLEF_OP_attention || !m->writes[2 * v->id])
        return v;
    const clef_attention_opts *o = (const void *)v->attr;
    clef_cached_attention_opts opts = {.scale = o->scale,
                                       .softcap = o->softcap,
                                       .causal = o->causal,
                                       .window = o->window,
                                       .batch_invariant = o->batch_invariant};
    clef_cached_attention_in in = {.q = v->in[0]->in[0],
                                   .k = m->writes[2 * v->id]->in[1]->in[0],
                                   .v = m->writes[2 * v->id + 1]->in[1]->in[0],
                                   .k_cache = v->in[1],
                                   .v_cache = v->in[2],
                                   .pos = v->in[4],
                                   .mask = v->in[3],
                                   .runs = v->in[6],
                                   .pages = v->in[7]};
    take_ropes(v, &in, &opts);
    take_norms(&in, &opts);
    return clef_cached_attention(v->graph, &in, &opts);
}

clef_status clef__fuse_cache(clef_graph *g, clef_error *err)
{
    const size_t n = (size_t)g->n_values;
    matches m = {calloc(2 * n + 1, sizeof *m.writes), calloc(n + 1, 1)};
    clef_status s = CLEF_OK;
    if (!m.writes || !m.gone) {
        s = clef__fail(err, CLEF_E_NOMEM, "graph: no memory for a pass over %zu values", n);
        goto out;
    }
    clef__count_uses(g);
    for (size_t i = 0; i < n; i++)
        match_attention(g->values[i], &m);
    s = clef__rewrite(g, fuse_cache, &m, err);
out:
    free(m.writes);
    free(m.gone);
    return s;
}
