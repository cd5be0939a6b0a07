/* OLMo 2 (arXiv:2501.00656): norms behind attention and feed-forward instead of before, and of all of q and
 * k. */
#include "model/arch/layers.h"

static const clef_arch_alias olmo2_names[] = {{"olmo2", "olmo2", -1, 50279}, {NULL, NULL, 0, 0}};

static const clef_weight_name olmo2_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = {"embed_tokens", "token_embd"},
    [CLEF_W_ATTN_Q] = {"layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    [CLEF_W_ATTN_K] = {"layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    [CLEF_W_ATTN_V] = {"layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    [CLEF_W_ATTN_Q_NORM] = {"layers.%d.self_attn.q_norm", "blk.%d.attn_q_norm"},
    [CLEF_W_ATTN_K_NORM] = {"layers.%d.self_attn.k_norm", "blk.%d.attn_k_norm"},
    [CLEF_W_ATTN_OUT] = {"layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    [CLEF_W_ATTN_POST_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.post_attention_norm"},
    [CLEF_W_FFN_GATE] = {"layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"},
    [CLEF_W_FFN_UP] = {"layers.%d.mlp.up_proj", "blk.%d.ffn_up"},
    [CLEF_W_FFN_DOWN] = {"layers.%d.mlp.down_proj", "blk.%d.ffn_down"},
    [CLEF_W_FFN_POST_NORM] = {"layers.%d.post_feedforward_layernorm", "blk.%d.post_ffw_norm"},
    [CLEF_W_OUT_NORM] = {"norm", "output_norm"},
    [CLEF_W_OUT] = {"lm_head", "output"},
};

static clef_value *attention(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, D = b->hp->head_dim, H = b->hp->n_heads, Hk = b->hp->n_kv_heads;
    clef_value *q = clef__rms_norm(b, clef__linear(b, x, CLEF_W_ATTN_Q, d, H * D), CLEF_W_ATTN_Q_NORM);
    clef_value *k = clef__rms_norm(b, clef__linear(b, x, CLEF_W_ATTN_K, d, Hk * D), CLEF_W_ATTN_K_NORM);
    clef_value *v = clef__linear(b, x, CLEF_W_ATTN_V, d, Hk * D);
    x = clef__self_attention(b, clef__rope(b, clef__split_heads(b, q, H, D)),
                             clef__rope(b, clef__split_heads(b, k, Hk, D)), clef__split_heads(b, v, Hk, D));
    return clef__linear(b, x, CLEF_W_ATTN_OUT, H * D, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    x = clef_add(g, x, clef__rms_norm(b, attention(b, x), CLEF_W_ATTN_POST_NORM));
    return clef_add(g, x, clef__rms_norm(b, clef__gated_feed_forward(b, x), CLEF_W_FFN_POST_NORM));
}

static clef_value *build(clef_builder *b)
{
    return clef__decoder(b, clef__embed(b), layer);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_rope(f, hp, 10000, 1);
}

const clef_arch clef__arch_olmo2 = {
    .names = olmo2_names,
    .weights = olmo2_weights,
    .hf_prefix = "model.",
    .read_json = read_json,
    .build = build,
};
