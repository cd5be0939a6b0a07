/* Mixture of experts (arXiv:1701.06538, 2401.04088): a router chooses experts for a token, and adds their
 * outputs by weight. Only chosen experts are computed. */
#include "model/arch/layers.h"
#include "model/open/model.h"

/* scales [experts] of the chosen experts: [B, T, k]. */
static clef_value *own_scales(clef_builder *b, clef_value *scales, clef_value *ids)
{
    const clef_dim experts = clef_n(b->hp->n_experts), k = clef_n(b->hp->n_experts_used);
    clef_value *x =
        clef_gather(b->g, clef_reshape(b->g, scales, clef_shape_2(experts, clef_n(1))), ids, NULL);
    return clef_reshape(b->g, x, clef_shape_3(b->B, b->T, k));
}

/* What a file has beside quantised matrices: a factor of each expert, [B, T, k, 1]. NULL: none. In some
 * families those of the down projection have a role of their own. */
static clef_value *stored_scales(clef_builder *b, clef_role role, clef_value *ids)
{
    const int is_other = role == CLEF_W_EXPERT_DOWN && b->weights->hf[CLEF_W_EXPERT_SCALE];
    const int may_have = (b->is_gguf || b->model->n_packed > 0) && !is_other;
    clef_value *scales = may_have ? clef__role_weight_optional(b, role, "scale") : NULL;
    return scales ? clef_reshape(b->g, own_scales(b, scales, ids),
                                 clef_shape_4(b->B, b->T, clef_n(b->hp->n_experts_used), clef_n(1)))
                  : NULL;
}

/* Multiplies x, with a row for each token or for each of its choices, by the chosen experts' matrices
 * [experts, n_out, n_in]. */
static clef_value *multiply_chosen(clef_builder *b, clef_value *x, clef_value *ids, clef_role role,
                                   int32_t n_in, int32_t n_out)
{
    const clef_shape shape = clef_shape_3(clef_n(b->hp->n_experts), clef_n(n_out), clef_n(n_in));
    const char *suffix = clef__has_weight(b, role, "weight") ? "weight" : clef__bare_suffix(b);
    clef_value *w = clef__role_weight_shaped(b, role, suffix, shape);
    clef_value *bias = clef__role_weight_optional(b, role, "bias");
    if (bias)
        bias = clef__role_weight_shaped(b, role, "bias", clef_shape_2(shape.dim[0], shape.dim[1]));
    clef_value *scales = stored_scales(b, role, ids);
    if (scales && bias)
        clef__graph_fail(b->g, CLEF_E_UNSUPPORTED,
                         "%s: experts with both biases and scales are not supported",
                         clef_model_path(b->model));
    x = clef_expert_matmul(b->g, x, w, ids, bias, &(clef_expert_matmul_opts){.transpose_b = 1});
    x = scales ? clef_mul(b->g, x, scales) : x;
    return clef__name_value(b, x, clef__role_value_name(role));
}

/* The score of each expert [B, T, experts], of which those of the chosen ones become their weights. */
static clef_value *scores_of(clef_builder *b, clef_value *logits)
{
    const clef_router router = b->hp->router;
    if (router == CLEF_ROUTER_SIGMOID || router == CLEF_ROUTER_SIGMOID_NORMED)
        return clef_sigmoid(b->g, logits);
    return router == CLEF_ROUTER_CHOSEN || router == CLEF_ROUTER_NEAR
               ? logits
               : clef_softmax(b->g, logits, NULL, NULL, NULL);
}

/* 0 for the groups of experts with the best scores [B, T, groups], else less than any score. */
static clef_value *group_penalties(clef_builder *b, clef_value *scores)
{
    clef_graph *g = b->g;
    const int32_t k = b->hp->n_groups_used;
    clef_value *best = clef_gather_elements(g, scores, clef_topk(g, scores, &(clef_topk_opts){.k = k}));
    clef_value *least = clef_slice(g, best, &(clef_slice_opts){.axis = 2, .start = k - 1, .size = clef_n(1)});
    return clef_affine(g, clef_relu(g, clef_sub(g, least, scores)), &(clef_affine_opts){.scale = -1e30f});
}

/* Scores without the experts of all but the best groups. A group has the score of its best expert; where
 * scores are sigmoids, of its best two (DeepSeek-V3). */
static clef_value *best_groups(clef_builder *b, clef_value *scores)
{
    clef_graph *g = b->g;
    const int32_t n = b->hp->n_expert_groups, each = b->hp->n_experts / n;
    const int two = b->hp->router == CLEF_ROUTER_SIGMOID || b->hp->router == CLEF_ROUTER_SIGMOID_NORMED;
    scores = clef_reshape(g, scores, clef_shape_4(b->B, b->T, clef_n(n), clef_n(each)));
    clef_value *top = clef_topk(g, scores, &(clef_topk_opts){.k = two && each > 1 ? 2 : 1});
    clef_value *of_groups =
        clef_reduce(g, clef_gather_elements(g, scores, top), &(clef_reduce_opts){.kind = CLEF_REDUCE_SUM});
    of_groups = clef_reshape(g, of_groups, clef_shape_3(b->B, b->T, clef_n(n)));
    clef_value *penalties =
        clef_reshape(g, group_penalties(b, of_groups), clef_shape_4(b->B, b->T, clef_n(n), clef_n(1)));
    return clef_reshape(g, clef_add(g, scores, penalties),
                        clef_shape_3(b->B, b->T, clef_n(b->hp->n_experts)));
}

/* The experts that a token uses [B, T, k], by their scores and the bias of each. */
static clef_value *chosen(clef_builder *b, clef_value *logits, clef_value *scores)
{
    const clef_dim experts = clef_n(b->hp->n_experts);
    const int has_groups = b->hp->n_expert_groups > 1 && b->hp->n_groups_used < b->hp->n_expert_groups;
    clef_value *bias = clef__role_weight_optional(b, CLEF_W_ROUTER_BIAS, clef__bare_suffix(b));
    if (bias) /* some folders have it as a row */
        logits = clef_add(b->g, scores, clef_reshape(b->g, bias, clef_shape_1(experts)));
    if (has_groups)
        logits = best_groups(b, bias ? logits : scores);
    return clef_topk(b->g, logits, &(clef_topk_opts){.k = b->hp->n_experts_used});
}

/* The softmax of choice i over the logits [B, T, experts] that are not above its own, and below it by at most
 * a share of the larger of the two. */
static clef_value *near_weight(clef_builder *b, clef_value *logits, clef_value *ids, int32_t i)
{
    clef_graph *g = b->g;
    const float most = 2 * b->hp->router_noise;
    ids = clef__part(b, ids, 2, i, 1);
    clef_value *own = clef_gather_elements(g, logits, ids), *below = clef_sub(g, own, logits);
    clef_value *size = clef_add(g, clef_relu(g, logits), clef_relu(g, clef_neg(g, logits)));
    size = clef_add(g, clef_relu(g, clef_sub(g, size, own)), own);
    clef_value *far = clef_relu(
        g, clef_affine(g, clef_div(g, below, size), &(clef_affine_opts){.scale = 1, .shift = -most}));
    far = clef_add(g, far, clef_relu(g, clef_neg(g, below)));
    logits = clef_add(g, logits, clef_affine(g, far, &(clef_affine_opts){.scale = -1e30f}));
    return clef_gather_elements(g, clef_softmax(g, logits, NULL, NULL, NULL), ids);
}

static clef_value *near_weights(clef_builder *b, clef_value *logits, clef_value *ids)
{
    clef_value *all = near_weight(b, logits, ids, 0);
    for (int32_t i = 1; i < b->hp->n_experts_used; i++)
        all = clef_concat(b->g, all, near_weight(b, logits, ids, i), &(clef_concat_opts){.axis = 2});
    return all;
}

/* The weight of each chosen expert [B, T, k]. */
static clef_value *weights_of(clef_builder *b, clef_value *scores, clef_value *ids)
{
    clef_graph *g = b->g;
    const clef_router router = b->hp->router;
    clef_value *x =
        router == CLEF_ROUTER_NEAR ? near_weights(b, scores, ids) : clef_gather_elements(g, scores, ids);
    if (router == CLEF_ROUTER_CHOSEN)
        x = clef_softmax(g, x, NULL, NULL, NULL);
    if (router == CLEF_ROUTER_NORMED || router == CLEF_ROUTER_SIGMOID_NORMED)
        x = clef_div(g, x, clef_reduce(g, x, &(clef_reduce_opts){.kind = CLEF_REDUCE_SUM}));
    clef_value *scales = clef__role_weight_optional(b, CLEF_W_EXPERT_SCALE, clef__bare_suffix(b));
    if (scales) /* a factor of each expert: [experts] -> [B, T, k] */
        x = clef_mul(g, x, own_scales(b, scales, ids));
    return clef__scaled(b, x, b->hp->expert_scale);
}

static clef_value *gate_values(clef_builder *b, clef_value *gate, clef_value *up)
{
    return clef_mul(b->g, clef__activation(b, gate), up);
}

/* gated(gate, up) of the chosen experts [B, T, k, n]: by two products, or by one with both matrices. */
static clef_value *gated_chosen(clef_builder *b, clef_value *x, clef_value *ids, clef_gating *gated)
{
    const int32_t d = b->hp->d_model, n = b->hp->d_ff_expert;
    clef_value *gate, *up;
    if (!b->weights->hf[CLEF_W_EXPERT_GATE] && !b->weights->hf[CLEF_W_EXPERT_GATE_UP])
        return clef__name_value(b, clef__activation(b, multiply_chosen(b, x, ids, CLEF_W_EXPERT_UP, d, n)),
                                "mlp.experts.act");
    if (clef__has_weight(b, CLEF_W_EXPERT_GATE_UP, clef__bare_suffix(b))) {
        x = multiply_chosen(b, x, ids, CLEF_W_EXPERT_GATE_UP, d, 2 * n);
        gate = clef_slice(b->g, x, &(clef_slice_opts){.axis = 3, .size = clef_n(n)});
        up = clef_slice(b->g, x, &(clef_slice_opts){.axis = 3, .start = n, .size = clef_n(n)});
    } else {
        gate = multiply_chosen(b, x, ids, CLEF_W_EXPERT_GATE, d, n);
        up = multiply_chosen(b, x, ids, CLEF_W_EXPERT_UP, d, n);
    }
    return clef__name_value(b, (gated ? gated : gate_values)(b, gate, up), "mlp.experts.act");
}

clef_value *clef__expert_sum(clef_builder *b, clef_value *logits, clef_value *x, clef_gating *gated)
{
    clef_graph *g = b->g;
    const int32_t d = b->hp->d_model, n = b->hp->d_ff_expert, k = b->hp->n_experts_used;
    clef_value *scores = scores_of(b, logits);
    clef_value *ids = clef__name_value(b, chosen(b, logits, scores), "mlp.experts.chosen");
    clef_value *weights = clef__name_value(b, weights_of(b, scores, ids), "mlp.experts.weights");
    if (b->hp->expert_inputs) {
        x = clef_mul(g, clef_reshape(g, x, clef_shape_4(b->B, b->T, clef_n(1), clef_n(d))),
                     clef_reshape(g, weights, clef_shape_4(b->B, b->T, clef_n(k), clef_n(1))));
        weights = clef_affine(g, weights, &(clef_affine_opts){.scale = 0, .shift = 1});
    }
    clef_value *y = gated_chosen(b, x, ids, gated);
    y = multiply_chosen(b, y, ids, CLEF_W_EXPERT_DOWN, n, d); /* [B, T, k, d] */
    y = clef_matmul(g, clef_reshape(g, weights, clef_shape_4(b->B, b->T, clef_n(1), clef_n(k))), y, NULL,
                    NULL);
    return clef__name_value(b, clef_reshape(g, y, clef_shape_3(b->B, b->T, clef_n(d))), "mlp.experts.out");
}

/* What the output of the expert of all tokens is multiplied by [B, T, 1]. */
static clef_value *shared_share(clef_builder *b, clef_value *x)
{
    clef_value *w = clef__role_weight(b, CLEF_W_SHARED_ROUTER, "weight"); /* [1, d]; [d] in GGUF */
    w = clef_reshape(b->g, w, clef_shape_2(clef_n(1), clef_n(b->hp->d_model)));
    x = clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1});
    return clef__name_value(b, clef_sigmoid(b->g, x), "mlp.shared.share");
}

static clef_value *sum_with_shared(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t d = hp->d_model, n = hp->d_ff_shared;
    clef_value *y = clef__expert_sum(b, clef__linear(b, x, CLEF_W_ROUTER, d, hp->n_experts), x, NULL);
    if (n == 0)
        return y;
    clef_value *shared = b->weights->hf[CLEF_W_SHARED_GATE]
                             ? gate_values(b, clef__linear(b, x, CLEF_W_SHARED_GATE, d, n),
                                           clef__linear(b, x, CLEF_W_SHARED_UP, d, n))
                             : clef__activation(b, clef__linear(b, x, CLEF_W_SHARED_UP, d, n));
    shared = clef__linear(b, clef__name_value(b, shared, "mlp.shared.act"), CLEF_W_SHARED_DOWN, n, d);
    if (clef__has_weight(b, CLEF_W_SHARED_ROUTER, "weight"))
        shared = clef_mul(b->g, shared, shared_share(b, x));
    return clef__name_value(b, clef_add(b->g, y, shared), "mlp.out");
}

clef_value *clef__experts_or_gated(clef_builder *b, clef_value *x)
{
    const int has_router = b->hp->n_experts > 0 && clef__has_weight(b, CLEF_W_ROUTER, "weight");
    return has_router ? sum_with_shared(b, x) : clef__gated_feed_forward(b, x);
}
