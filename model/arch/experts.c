/* Mixture of experts (arXiv:1701.06538, 2401.04088): a router chooses experts for a token, and adds their
 * outputs by weight. Only chosen experts are computed. */
#include "model/arch/layers.h"

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
    x = clef_expert_matmul(b->g, x, w, ids, bias, &(clef_expert_matmul_opts){.transpose_b = 1});
    return clef__name_value(b, x, clef__role_value_name(role));
}

/* scales [experts] of the chosen experts: [B, T, k]. */
static clef_value *own_scales(clef_builder *b, clef_value *scales, clef_value *ids)
{
    const clef_dim experts = clef_n(b->hp->n_experts), k = clef_n(b->hp->n_experts_used);
    clef_value *x =
        clef_gather(b->g, clef_reshape(b->g, scales, clef_shape_2(experts, clef_n(1))), ids, NULL);
    return clef_reshape(b->g, x, clef_shape_3(b->B, b->T, k));
}

/* The weight of each chosen expert [B, T, k], from the router's logits. */
static clef_value *weights_of(clef_builder *b, clef_value *logits, clef_value *ids)
{
    clef_graph *g = b->g;
    clef_value *x;
    if (b->hp->router == CLEF_ROUTER_CHOSEN)
        x = clef_softmax(g, clef_gather_elements(g, logits, ids), NULL, NULL, NULL);
    else
        x = clef_gather_elements(g, clef_softmax(g, logits, NULL, NULL, NULL), ids);
    if (b->hp->router == CLEF_ROUTER_NORMED)
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
    clef_value *ids = clef_topk(g, logits, &(clef_topk_opts){.k = k}); /* [B, T, k] */
    clef__name_value(b, ids, "mlp.experts.chosen");
    clef_value *weights = clef__name_value(b, weights_of(b, logits, ids), "mlp.experts.weights");
    clef_value *y = gated_chosen(b, x, ids, gated);
    y = multiply_chosen(b, y, ids, CLEF_W_EXPERT_DOWN, n, d); /* [B, T, k, d] */
    y = clef_matmul(g, clef_reshape(g, weights, clef_shape_4(b->B, b->T, clef_n(1), clef_n(k))), y, NULL,
                    NULL);
    return clef__name_value(b, clef_reshape(g, y, clef_shape_3(b->B, b->T, clef_n(d))), "mlp.experts.out");
}

static clef_value *sum_with_shared(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t d = hp->d_model, n = hp->d_ff_shared;
    clef_value *y = clef__expert_sum(b, clef__linear(b, x, CLEF_W_ROUTER, d, hp->n_experts), x, NULL);
    if (n == 0)
        return y;
    clef_value *shared = gate_values(b, clef__linear(b, x, CLEF_W_SHARED_GATE, d, n),
                                     clef__linear(b, x, CLEF_W_SHARED_UP, d, n));
    shared = clef__linear(b, clef__name_value(b, shared, "mlp.shared.act"), CLEF_W_SHARED_DOWN, n, d);
    return clef__name_value(b, clef_add(b->g, y, shared), "mlp.out");
}

clef_value *clef__experts_or_gated(clef_builder *b, clef_value *x)
{
    const int has_router = b->hp->n_experts > 0 && clef__has_weight(b, CLEF_W_ROUTER, "weight");
    return has_router ? sum_with_shared(b, x) : clef__gated_feed_forward(b, x);
}
