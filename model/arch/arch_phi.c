/* Phi-1, 1.5 and 2 (arXiv:2306.11644, 2309.05463): one layer norm for parallel attention and feed-forward,
 * RoPE over a part of each head, biases everywhere. */
#include "model/arch/layers.h"

static const clef_arch_alias phi_names[] = {{"phi", "phi2", 1, 2}, {NULL, NULL, 0, 0}};

static const clef_gguf_name gguf_names[] = {{CLEF_W_ATTN_QKV, "blk.%d.attn_qkv"}, {0, NULL}};

static const char *const phi_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embed_tokens",
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj",
    [CLEF_W_ATTN_K] = "layers.%d.self_attn.k_proj",
    [CLEF_W_ATTN_V] = "layers.%d.self_attn.v_proj",
    [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.dense",
    [CLEF_W_FFN_UP] = "layers.%d.mlp.fc1",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.fc2",
    [CLEF_W_OUT_NORM] = "final_layernorm",
    [CLEF_W_OUT] = "lm_head",
};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__parallel_layer(b, x, clef__layer_attention, clef__feed_forward);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "gelu_new");
    clef__json_partial_rope(f, hp, 10000, 0.5);
    clef__json_refuse_flag(f, "qk_layernorm", 0, 0);
}

const clef_arch clef__arch_phi = {
    .names = phi_names,
    .weights = {.hf = phi_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .layer_norms = 1,
    .read_json = read_json,
    .gguf_activation = CLEF_GELU_TANH,
    .layer = layer,
};
