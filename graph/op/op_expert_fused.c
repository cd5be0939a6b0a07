/* expert_gated and expert_sum: products with chosen experts and what follows them, for GPUs. */
#include <math.h>
#include <stddef.h>

#include "graph/op/expert_fused.h"

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
    .lower = clef__lower_expert_gated,
    .in_place = 1 << GATED_GATE | 1 << GATED_UP,
    .proof = CLEF__PROOF_BY_CASES,
    .tol = 1e-5f, /* two products of 5e-6 each, where silu is at most as steep as 1.1 */
};

/* ---- expert_sum -------------------------------------------------------------------------------- */

static const clef_attr_def sum_attrs[] = {
    {"softmax", CLEF_ATTR_INT, offsetof(clef__expert_sum_opts, softmax), NULL},
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

static double score_of(const clef_ref_tensor *in, int64_t token, int64_t j)
{
    const int64_t chosen = in[SUM_IDS].n[3], experts = in[SUM_SCORES].n[3];
    const double id = in[SUM_IDS].x[token * chosen + j];
    return id >= 0 && id < (double)experts ? in[SUM_SCORES].x[token * experts + (int64_t)id] : 0;
}

static double weight_of(const clef_value *n, const clef_ref_tensor *in, int64_t token, int64_t j)
{
    const int64_t chosen = in[SUM_IDS].n[3];
    double most, sum = 0;
    if (!((const clef__expert_sum_opts *)(const void *)n->attr)->softmax)
        return in[SUM_SCORES].x[token * chosen + j];
    most = score_of(in, token, 0);
    for (int64_t i = 1; i < chosen; i++)
        most = fmax(most, score_of(in, token, i));
    for (int64_t i = 0; i < chosen; i++)
        sum += exp(score_of(in, token, i) - most);
    return exp(score_of(in, token, j) - most) / sum;
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

/* Work-items that read x or the scores may run after others that have written. */
static int sum_in_place_if(const clef_value *n)
{
    const clef_value *residual = n->in[SUM_RESIDUAL];
    return residual && clef__base(residual) != clef__base(n->in[SUM_X]) &&
           clef__base(residual) != clef__base(n->in[SUM_SCORES]);
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
    .lower = clef__lower_expert_sum,
    .in_place = 1 << SUM_RESIDUAL,
    .in_place_if = sum_in_place_if,
    .proof = CLEF__PROOF_BY_CASES,
    .tol = 1e-5f, /* a product of 5e-6, summed over a few experts with weights of about 1 */
};
