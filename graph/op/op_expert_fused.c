/* expert_gated and expert_sum: products with chosen experts and what follows them, for GPUs. */
#include <math.h>
#include <stddef.h>

#include "graph/lower/variant.h"
#include "graph/op/expert_fused.h"
#include "graph/shrink.h"

/* ---- proofs ------------------------------------------------------------------------------------- */

/* A weight [experts, N, K] with fewer experts, and so many rows that a graph with two of them is small. */
static clef_value *shrink_weight(clef__shrinker *s, const clef_value *w)
{
    enum { EXPERTS = 4, MOST = 8 << 20, ROWS = 64 };
    const int64_t experts = clef__shrink_rows(w, 0, EXPERTS), K = w->shape.dim[2].n,
                  rows = MOST / (experts * K) / ROWS * ROWS;
    const clef_shape shape =
        clef_shape_3(clef_n(experts), clef_n(clef__shrink_rows(w, 1, rows > ROWS ? rows : ROWS)), clef_n(K));
    return clef__shrink_to(s, w, &shape);
}

/* The product y with such a weight; NULL if y is something else. */
static clef_value *shrink_product(clef__shrinker *s, const clef_value *y)
{
    if (y->op != CLEF_OP_expert_matmul || y->in[3] || !clef__expert_attrs_of(y)->opts.transpose_b)
        return NULL;
    clef_value *in[4] = {clef__shrink_copy(s, y->in[0]), shrink_weight(s, y->in[1]),
                         clef__shrink_copy(s, y->in[2])};
    return clef__node(clef__shrink_graph(s), y->op, in, 4, y->attr);
}

/* Two errors of a product: of gate and up, where silu is at most as steep as 1.1; or of one, summed over a
 * few experts with weights of about 1. */
static float fused_tol(const clef_value *n)
{
    const clef_value *y = n->in[0];
    return 2 * (y->op == CLEF_OP_expert_matmul ? clef__expert_tol(y) : clef__op_expert_matmul.tol);
}

/* ---- expert_gated ------------------------------------------------------------------------------ */

clef_value *clef__expert_gated(clef_graph *g, clef_value *gate, clef_value *up)
{
    if (!gate || !up)
        return NULL;
    return clef__node(
        g, CLEF_OP_expert_gated,
        (clef_value *[GATED_INPUTS]){gate, up, gate->in[0], gate->in[1], up->in[1], gate->in[2]},
        GATED_INPUTS, NULL);
}

static void gated_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++)
        out->x[i] = in[GATED_GATE].x[i] / (1 + exp(-in[GATED_GATE].x[i])) * in[GATED_UP].x[i];
}

static clef_cost gated_cost(const clef_value *n, const int64_t *symbols)
{
    return (clef_cost){.flops = 5.0 * (double)clef__elements(n, symbols),
                       .bytes = (double)clef__bytes(n, symbols)};
}

static clef_value *gated_shrink(clef__shrinker *s, const clef_value *n)
{
    clef_value *gate = shrink_product(s, n->in[GATED_GATE]);
    return gate ? clef__expert_gated(clef__shrink_graph(s), gate, shrink_product(s, n->in[GATED_UP])) : NULL;
}

const clef_op_def clef__op_expert_gated = {
    .name = "expert_gated",
    .formula = "out = silu(gate) up, of two expert_matmul with x, w and ids",
    .n_min = GATED_INPUTS,
    .n_max = GATED_INPUTS,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE,
           CLEF_IN_WEIGHT | CLEF_IN_DENSE, CLEF_IN_WEIGHT | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .infer = clef__infer_gate,
    .ref = gated_ref,
    .cost = gated_cost,
    .absorbs = 1 << GATED_GATE | 1 << GATED_UP,
    .lower = clef__lower_variant,
    .in_place = 1 << GATED_GATE | 1 << GATED_UP,
    .shrink = gated_shrink,
    .tol_of = fused_tol,
    .tol = 1e-5f,
};

/* ---- expert_sum -------------------------------------------------------------------------------- */

static const char *const softmax_names[] = {"none", "chosen", "all", NULL};
static const clef_attr_def sum_attrs[] = {
    {"softmax", CLEF_ATTR_ENUM, offsetof(clef__expert_sum_opts, softmax), softmax_names},
    {NULL, 0, 0, NULL},
};

clef_value *clef__expert_sum_of(clef_graph *g, clef_value *y, clef_value *scores, clef_value *residual,
                                const clef__expert_sum_opts *opts)
{
    if (!y)
        return NULL;
    return clef__node(g, CLEF_OP_expert_sum,
                      (clef_value *[SUM_INPUTS]){y, scores, y->in[2], y->in[0], y->in[1], residual},
                      SUM_INPUTS, opts);
}

static clef_status sum_infer(clef_value *n, clef_error *err)
{
    const clef_shape *y = &n->in[SUM_Y]->shape, *scores = &n->in[SUM_SCORES]->shape,
                     *ids = &n->in[SUM_IDS]->shape, *w = &n->in[SUM_W]->shape;
    const clef_value *residual = n->in[SUM_RESIDUAL];
    const int softmax = ((const clef__expert_sum_opts *)(const void *)n->attr)->softmax;
    char a[96], b[96];
    int fits = y->rank == 4 && scores->rank == 3 && ids->rank == 3 && w->rank == 3 && !y->dim[2].symbol;
    for (int32_t i = 0; fits && i < 3; i++)
        fits = clef__dim_equal(y->dim[i], ids->dim[i]) &&
               clef__dim_equal(scores->dim[i], i == 2 && softmax ? w->dim[0] : y->dim[i]);
    if (!fits)
        return clef__fail(err, CLEF_E_SHAPE, "y %s and scores %s, expected [B, T, k, N] and [B, T, %s]",
                          clef__shape_text(n->graph, y, a), clef__shape_text(n->graph, scores, b),
                          softmax ? "experts" : "k");
    n->dtype = CLEF_F32;
    n->shape = clef_shape_3(y->dim[0], y->dim[1], y->dim[3]);
    if (residual && !clef__shape_equal(&residual->shape, &n->shape))
        return clef__fail(err, CLEF_E_SHAPE, "residual %s, expected %s",
                          clef__shape_text(n->graph, &residual->shape, a),
                          clef__shape_text(n->graph, &n->shape, b));
    return CLEF_OK;
}

/* The score of choice j of a token: of an id outside the experts as gather_elements gives it, before or after
 * the softmax. */
static double score_of(const clef_ref_tensor *in, int softmax, int64_t token, int64_t j)
{
    const int64_t chosen = in[SUM_IDS].n[3], experts = in[SUM_SCORES].n[3];
    const double id = in[SUM_IDS].x[token * chosen + j];
    return id >= 0 && id < (double)experts   ? in[SUM_SCORES].x[token * experts + (int64_t)id]
           : softmax == CLEF__SOFTMAX_CHOSEN ? 0
                                             : -INFINITY;
}

static double weight_of(const clef_value *n, const clef_ref_tensor *in, int64_t token, int64_t j)
{
    const int64_t chosen = in[SUM_IDS].n[3];
    const int softmax = ((const clef__expert_sum_opts *)(const void *)n->attr)->softmax;
    double most = -INFINITY, sum = 0;
    if (!softmax)
        return in[SUM_SCORES].x[token * chosen + j];
    for (int64_t i = 0; i < chosen; i++)
        most = fmax(most, score_of(in, softmax, token, i));
    most = most == -INFINITY ? 0 : most;
    for (int64_t i = 0; i < chosen; i++)
        sum += exp(score_of(in, softmax, token, i) - most);
    return softmax == CLEF__SOFTMAX_CHOSEN && sum == 0 ? 0
                                                       : exp(score_of(in, softmax, token, j) - most) / sum;
}

static void sum_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t chosen = in[SUM_IDS].n[3], N = out->n[3];
    for (int64_t t = 0; t < out->n[1] * out->n[2]; t++) {
        double *to = out->x + t * N;
        for (int64_t c = 0; c < N; c++)
            to[c] = in[SUM_RESIDUAL].x ? in[SUM_RESIDUAL].x[t * N + c] : 0;
        for (int64_t j = 0; j < chosen; j++) {
            const double weight = weight_of(n, in, t, j);
            for (int64_t c = 0; c < N; c++)
                to[c] += weight * in[SUM_Y].x[(t * chosen + j) * N + c];
        }
    }
}

static clef_cost sum_cost(const clef_value *n, const int64_t *symbols)
{
    return (clef_cost){.flops = 2.0 * (double)clef__elements(n->in[SUM_Y], symbols),
                       .bytes = 2.0 * (double)clef__bytes(n, symbols)};
}

static clef_value *sum_shrink(clef__shrinker *s, const clef_value *n)
{
    const clef__expert_sum_opts *o = (const void *)n->attr;
    const clef_value *scores = n->in[SUM_SCORES], *residual = n->in[SUM_RESIDUAL];
    clef_value *y = shrink_product(s, n->in[SUM_Y]);
    if (!y)
        return NULL;
    clef_value *of_scores =
        o->softmax ? clef__shrink_cut(s, scores, 2, y->in[1]->shape.dim[0].n) : clef__shrink_copy(s, scores);
    clef_value *of_residual = residual ? clef__shrink_cut(s, residual, 2, y->in[1]->shape.dim[1].n) : NULL;
    return clef__expert_sum_of(clef__shrink_graph(s), y, of_scores, of_residual, o);
}

const clef_op_def clef__op_expert_sum = {
    .name = "expert_sum",
    .formula =
        "out[b, t, :] = sum_j weight_j y[b, t, j, :] (+ residual), of an expert_matmul y with x, w and "
        "ids; weight_j = scores[b, t, j], or softmax_j(scores[b, t, ids[b, t, j]])",
    .n_min = SUM_INPUTS - 1,
    .n_max = SUM_INPUTS,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE,
           CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_WEIGHT | CLEF_IN_DENSE,
           CLEF_IN_F32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = sum_attrs,
    .attr_bytes = sizeof(clef__expert_sum_opts),
    .infer = sum_infer,
    .ref = sum_ref,
    .cost = sum_cost,
    .absorbs = 1 << SUM_Y,
    .lower = clef__lower_variant,
    .in_place = 1 << SUM_RESIDUAL,
    .shrink = sum_shrink,
    .tol_of = fused_tol,
    .tol = 1e-5f,
};
