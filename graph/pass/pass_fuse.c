/* fuse: several nodes that one kernel can compute become one. An output is never fused away: if an
 * attention's weights are tapped, that layer keeps its softmax. */
#include "graph/pass/pass.h"

enum { MAX_HEAD_DIM = 512 };

/* 1 if v is a node of `op` that has only one use, and may be removed. */
static int is_removable(const clef_value *v, clef_op op)
{
    return v && v->op == op && clef__only_use(v);
}

/* The fused node reads v at the place of the later node, so no write may have changed v by then. */
static int still_reads(const clef_value *v)
{
    return !v || !clef__overwritten_by(v);
}

static int head_dim_fits(const clef_value *v)
{
    const clef_dim d = clef__dim_right(&v->shape, 0);
    const int dtype_fits = v->dtype == CLEF_F32 || v->dtype == CLEF_F16 || v->dtype == CLEF_BF16;
    return v->shape.rank == 4 && dtype_fits && !d.symbol && d.n <= MAX_HEAD_DIM;
}

/* 1 if v is a float computed from a state, as a bias is that is made from weights in training. */
static int is_trained(const clef_value *v)
{
    if (!v || v->dtype != CLEF_F32 || v->kind == CLEF_STATE)
        return v && v->kind == CLEF_STATE && v->dtype == CLEF_F32;
    for (int32_t i = 0; i < v->n_in; i++)
        if (is_trained(v->in[i]))
            return 1;
    return 0;
}

/* matmul(softmax(matmul(q, k^T)), v)  ->  permute(attention(q, k, v)) */
static clef_value *fuse_attention(clef_value *n)
{
    clef_value *p = n->in[0], *v = n->in[1];
    const clef_matmul_opts *pv = (const void *)n->attr;
    if (!is_removable(p, CLEF_OP_softmax) || !is_removable(p->in[0], CLEF_OP_matmul))
        return n;
    clef_value *s = p->in[0], *q = s->in[0], *k = s->in[1];
    const clef_matmul_opts *qk = (const void *)s->attr;
    const clef_softmax_opts *o = (const void *)p->attr;
    const int plain = !pv->transpose_a && !pv->transpose_b && !qk->transpose_a &&
                      (pv->alpha == 0 || pv->alpha == 1) && n->n_in == 2 && s->n_in == 2 && qk->transpose_b &&
                      !o->log && q->dtype == CLEF_F32;
    if (!plain || !head_dim_fits(q) || !head_dim_fits(k) || !head_dim_fits(v) || n->shape.rank != 4)
        return n;
    if (is_trained(p->in[1]) || is_trained(p->in[3]))
        return n; /* the gradient of a bias or of sinks is that of softmax */
    if (q->shape.dim[1].symbol || k->shape.dim[1].symbol || q->shape.dim[1].n % k->shape.dim[1].n)
        return n; /* matmul broadcasts heads either way, attention only those of k and v */
    if (!still_reads(q) || !still_reads(k) || !still_reads(p->in[1]) || !still_reads(p->in[2]) ||
        !still_reads(p->in[3]))
        return n;
    if (!clef__dim_equal(q->shape.dim[0], k->shape.dim[0]) ||
        !clef__dim_equal(k->shape.dim[0], v->shape.dim[0]) ||
        !clef__dim_equal(k->shape.dim[1], v->shape.dim[1]))
        return n;
    const clef_attention_opts opts = {.scale =
                                          (o->scale != 0 ? o->scale : 1) * (qk->alpha != 0 ? qk->alpha : 1),
                                      .softcap = o->softcap,
                                      .causal = o->causal,
                                      .window = o->window};
    if (opts.scale == 0) /* the product is too small for a float, and 0 would mean 1 */
        return n;
    clef_value *a = clef_attention_with_sinks(n->graph, q, k, v, p->in[1], p->in[2], p->in[3], &opts);
    return clef_permute(n->graph, a, &(clef_permute_opts){{0, 2, 1, 3}});
}

/* matmul(a, b) + bias  ->  matmul(a, b, bias) */
static clef_value *fuse_bias(clef_value *n)
{
    for (int32_t i = 0; i < 2; i++) {
        clef_value *m = n->in[i], *bias = n->in[1 - i];
        if (is_removable(m, CLEF_OP_matmul) && m->n_in == 2 && bias->shape.rank == 1 &&
            clef__dim_equal(bias->shape.dim[0], clef__dim_right(&m->shape, 0)) &&
            bias->kind != CLEF_COMPUTED && still_reads(m->in[0]) && still_reads(m->in[1]))
            return clef_matmul(n->graph, m->in[0], m->in[1], bias, (const void *)m->attr);
    }
    return n;
}

/* silu(gate) * up  ->  swiglu(gate, up) */
static clef_value *fuse_swiglu(clef_value *n)
{
    for (int32_t i = 0; i < 2; i++) {
        clef_value *gate = n->in[i], *up = n->in[1 - i];
        if (is_removable(gate, CLEF_OP_silu) && up->dtype == CLEF_F32 &&
            clef__shape_equal(&gate->shape, &up->shape) && still_reads(gate->in[0]))
            return clef_swiglu(n->graph, gate->in[0], up);
    }
    return n;
}

/* Indexed by the last op of a group of nodes that can be fused. */
static clef_value *(*const fusions[CLEF_N_OPS])(clef_value *) = {
    [CLEF_OP_matmul] = fuse_attention, [CLEF_OP_add] = fuse_bias, [CLEF_OP_mul] = fuse_swiglu};

static clef_value *fuse_value(clef_value *v, const void *user)
{
    (void)user;
    return v->op != CLEF_OP_NONE && fusions[v->op] ? fusions[v->op](v) : v;
}

clef_status clef__pass_fuse(clef_graph *g, clef_error *err)
{
    clef_status s = clef__rewrite(g, fuse_value, NULL, err);
    if (!s) /* attention ends with a permute, which cancels the one after it */
        s = clef__pass_fold(g, err);
    if (!s)
        s = clef__pass_drop(g, err);
    if (!s)
        s = clef__fuse_cache(g, err);
    return s ? s : clef__pass_drop(g, err);
}
