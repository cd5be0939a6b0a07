/* DiffLlama (arXiv:2410.05258): a Llama with differential attention. The second half of the heads, times a
 * learned factor, is taken from the first. A head weighs two heads of v at once. */
#include <math.h>

#include "model/arch/layers.h"

static const clef_arch_alias names[] = {{"diffllama", "diffllama", 1, 2}, {NULL, NULL, 0, 0}};

static const char *const weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_GATED_MLP,
    [CLEF_W_LAMBDA_Q1] = "layers.%d.self_attn.lambda_q1",
    [CLEF_W_LAMBDA_K1] = "layers.%d.self_attn.lambda_k1",
    [CLEF_W_LAMBDA_Q2] = "layers.%d.self_attn.lambda_q2",
    [CLEF_W_LAMBDA_K2] = "layers.%d.self_attn.lambda_k2",
};

/* exp(q k) of two vectors: [1]. */
static clef_value *factor(clef_builder *b, clef_role q, clef_role k)
{
    const clef_shape shape = clef_shape_1(clef_n(b->hp->head_dim));
    const char *suffix = clef__bare_suffix(b);
    clef_value *x = clef_mul(b->g, clef_copy(b->g, clef__role_weight_shaped(b, q, suffix, shape)),
                             clef__role_weight_shaped(b, k, suffix, shape));
    return clef_exp(b->g, clef_reduce(b->g, x, &(clef_reduce_opts){.kind = CLEF_REDUCE_SUM}));
}

/* v [B, T, Hk, D] -> [B, T, Hk, 2 D]: head i of each half, then head i of the other, for both halves. */
static clef_value *paired(clef_builder *b, clef_value *v)
{
    const int32_t half = b->hp->n_kv_heads / 2;
    v = clef_concat(b->g, clef__part(b, v, 2, 0, half), clef__part(b, v, 2, half, half),
                    &(clef_concat_opts){.axis = 3});
    return clef_concat(b->g, v, v, &(clef_concat_opts){.axis = 2});
}

static clef_value *attention(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->n_heads, Hk = hp->n_kv_heads, D = hp->head_dim;
    const float first = (float)(0.8 - 0.6 * exp(-0.3 * b->layer));
    clef_value *q = clef__layer_rope(b, clef__heads(b, x, CLEF_W_ATTN_Q, CLEF_N_ROLES, H), "attn.q_rope"),
               *k = clef__layer_rope(b, clef__heads(b, x, CLEF_W_ATTN_K, CLEF_N_ROLES, Hk), "attn.k_rope"),
               *v = clef__heads(b, x, CLEF_W_ATTN_V, CLEF_N_ROLES, Hk);
    clef_value *by = clef_sub(g, factor(b, CLEF_W_LAMBDA_Q1, CLEF_W_LAMBDA_K1),
                              factor(b, CLEF_W_LAMBDA_Q2, CLEF_W_LAMBDA_K2));
    by = clef__name_value(b, clef_affine(g, by, &(clef_affine_opts){.scale = 1, .shift = first}),
                          "attn.lambda");
    x = clef__split_heads(b, clef__self_attention(b, q, k, paired(b, v)), H, 2 * D);
    x = clef_sub(g, clef__part(b, x, 2, 0, H / 2), clef_mul(g, clef__part(b, x, 2, H / 2, H / 2), by));
    x = clef_rms_norm(g, x, NULL, &(clef_norm_opts){.eps = hp->norm_eps});
    x = clef_reshape(g, clef__scaled(b, x, 1 - first), clef_shape_3(b->B, b->T, clef_n(H * D)));
    return clef__linear(b, clef__name_value(b, x, "attn.difference"), CLEF_W_ATTN_OUT, H * D, hp->d_model);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, attention, clef__gated_feed_forward);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
    if (f->status == CLEF_OK && (hp->n_kv_heads % 2 != 0 || hp->n_heads % 2 != 0))
        clef__json_refuse(f, "num_key_value_heads: expected an even number for diffllama");
    if (clef__json_double(f, "attention_dropout", 0, 1, 0) > 0)
        clef__json_refuse(f, "attention_dropout above 0 is not supported: transformers refuses it, too");
}

const clef_arch clef__arch_diffllama = {
    .names = names,
    .weights = {.hf = weights},
    .hf_prefix = "model.",
    .read_json = read_json,
    .layer = layer,
};
