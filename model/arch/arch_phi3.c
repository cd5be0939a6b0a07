/* Phi-3 and 4 (arXiv:2404.14219): Llama's block with q, k, v in one matrix and gate and up in another;
 * longrope for the long contexts. */
#include "model/arch/layers.h"

static const clef_arch_alias phi3_names[] = {{"phi3", "phi3", 1, 32000}, {NULL, NULL, 0, 0}};

static const char *const phi3_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_NORMS,
    [CLEF_W_ATTN_QKV] = "layers.%d.self_attn.qkv_proj",
    [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.o_proj",
    [CLEF_W_FFN_UP] = "layers.%d.mlp.gate_up_proj",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.down_proj",
};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__joint_gated_feed_forward);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_partial_rope(f, hp, 10000, 1);
    if (hp->rope.type != CLEF_ROPE_DEFAULT && hp->rope.type != CLEF_ROPE_LONGROPE)
        clef__json_refuse(f, "rope_type: expected default or longrope for phi3");
    clef__json_window_everywhere(f, hp, 0);
}

const clef_arch clef__arch_phi3 = {
    .names = phi3_names,
    .weights = {.hf = phi3_weights},
    .hf_prefix = "model.",
    .read_json = read_json,
    .layer = layer,
};
