/* The last part of choose: products with chosen experts and what follows them become expert_gated and
 * expert_sum, for GPUs. */
#include "graph/lower/variant.h"
#include "graph/op/expert_fused.h"
#include "graph/pass/pass.h"

/* The fused node reads the product's inputs at its own place, so no write may have changed them by then. */
static int is_fusable(const clef_value *y)
{
    return y->op == CLEF_OP_expert_matmul && clef__only_use(y) && !y->in[3] &&
           clef__expert_attrs_of(y)->opts.transpose_b && y->in[1]->kind == CLEF_WEIGHT &&
           !clef__overwritten_by(y->in[0]) && !clef__overwritten_by(y->in[2]);
}

static clef_value *fuse_gated(clef_value *n, const void *user)
{
    (void)user;
    if (n->op != CLEF_OP_swiglu)
        return n;
    clef_value *gate = n->in[0], *up = n->in[1];
    if (gate == up || !is_fusable(gate) || !is_fusable(up) || gate->in[0] != up->in[0] ||
        gate->in[2] != up->in[2] || gate->in[1]->dtype != up->in[1]->dtype)
        return n;
    return clef__expert_gated(n->graph, gate, up);
}

/* ---- weights of the chosen experts --------------------------------------------------------------- */

static int is_plain_softmax(const clef_value *v)
{
    const clef_softmax_opts *o = (const void *)v->attr;
    if (v->op != CLEF_OP_softmax || (o->scale != 0 && o->scale != 1) || o->softcap != 0 || o->causal ||
        o->window || o->log)
        return 0;
    for (int32_t i = 1; i < v->n_in; i++)
        if (v->in[i])
            return 0;
    return 1;
}

/* The scores of all experts, if `weights` is a softmax of them; else NULL. */
static clef_value *scores_of(const clef_value *weights, const clef_value *ids, int32_t *softmax)
{
    const clef_value *gathered = weights->in[0];
    clef_value *scores = NULL;
    if (is_plain_softmax(weights) && gathered->op == CLEF_OP_gather_elements) {
        scores = gathered->in[0];
        *softmax = CLEF__SOFTMAX_CHOSEN;
    } else if (weights->op == CLEF_OP_div && weights->in[1]->op == CLEF_OP_reduce &&
               weights->in[1]->in[0] == gathered && gathered->op == CLEF_OP_gather_elements &&
               ((const clef_reduce_opts *)(const void *)weights->in[1]->attr)->kind == CLEF_REDUCE_SUM &&
               is_plain_softmax(gathered->in[0])) {
        scores = gathered->in[0]->in[0];
        *softmax = CLEF__SOFTMAX_ALL;
    }
    return scores && gathered->in[1] == ids && scores->dtype == CLEF_F32 && scores->shape.rank == 3 &&
                   clef__is_dense(scores) && !clef__overwritten_by(scores)
               ? scores
               : NULL;
}

/* ---- the weighted sum ---------------------------------------------------------------------------- */

static int is_plain_product(const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    return n->op == CLEF_OP_matmul && !n->in[2] && !o->transpose_a && !o->transpose_b &&
           (o->alpha == 0 || o->alpha == 1);
}

/* matmul(weights [B, T, 1, k], y [B, T, k, N]) */
static clef_value *fuse_sum(clef_value *n, const void *user)
{
    (void)user;
    if (!is_plain_product(n) || n->in[0]->op != CLEF_OP_reshape || !is_fusable(n->in[1]))
        return n;
    clef_value *y = n->in[1], *weights = n->in[0]->in[0], *ids = y->in[2];
    const clef_shape *row = &n->in[0]->shape;
    clef__expert_sum_opts opts = {CLEF__SOFTMAX_NONE};
    if (row->rank != 4 || weights->dtype != CLEF_F32 || !clef__shape_equal(&weights->shape, &ids->shape) ||
        !clef__dim_equal(row->dim[0], ids->shape.dim[0]) ||
        !clef__dim_equal(row->dim[1], ids->shape.dim[1]) || !clef__dim_equal(row->dim[2], clef_n(1)) ||
        !clef__dim_equal(row->dim[3], ids->shape.dim[2]) || ids->shape.dim[2].symbol ||
        clef__overwritten_by(weights))
        return n;
    clef_value *scores = scores_of(weights, ids, &opts.softmax);
    if (scores && !clef__dim_equal(scores->shape.dim[2], y->in[1]->shape.dim[0]))
        scores = NULL;
    if (!scores)
        opts.softmax = CLEF__SOFTMAX_NONE;
    clef_value *sum = clef__expert_sum_of(n->graph, y, scores ? scores : weights, NULL, &opts);
    return clef_reshape(n->graph, sum, n->shape);
}

/* The expert_sum that v only reshapes; NULL if it is something else. */
static clef_value *sum_behind(clef_value *v)
{
    while (v->op == CLEF_OP_reshape && clef__only_use(v))
        v = v->in[0];
    return v->op == CLEF_OP_expert_sum && clef__only_use(v) && !v->in[SUM_RESIDUAL] ? v : NULL;
}

static clef_value *fuse_residual(clef_value *n, const void *user)
{
    (void)user;
    for (int32_t i = 0; i < 2 && n->op == CLEF_OP_add; i++) {
        clef_value *sum = sum_behind(n->in[i]), *residual = n->in[1 - i];
        if (sum && residual->dtype == CLEF_F32 && clef__shape_equal(&residual->shape, &sum->shape) &&
            clef__shape_equal(&n->shape, &sum->shape) && clef__is_dense(residual) &&
            !clef__overwritten_by(residual) && !clef__overwritten_by(sum->in[SUM_X]) &&
            !clef__overwritten_by(sum->in[SUM_IDS]) && !clef__overwritten_by(sum->in[SUM_SCORES]))
            return clef__expert_sum_of(n->graph, sum->in[SUM_Y], sum->in[SUM_SCORES], residual,
                                       (const void *)sum->attr);
    }
    return n;
}

clef_status clef__fuse_experts(clef_graph *g, const clef_caps *caps, clef_error *err)
{
    if (!clef__variant_runs_on(caps, &clef__expert_matmul_few))
        return CLEF_OK;
    clef_status s = clef__rewrite(g, fuse_gated, NULL, err);
    if (!s)
        s = clef__rewrite(g, fuse_sum, NULL, err);
    if (!s)
        s = clef__pass_drop(g, err);
    if (!s)
        s = clef__rewrite(g, fuse_residual, NULL, err);
    return s ? s : clef__pass_drop(g, err);
}
