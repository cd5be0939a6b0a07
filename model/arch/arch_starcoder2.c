/* StarCoder2 (arXiv:2402.19173): GPT-2's feed-forward and layer norms, RoPE, few heads of k and v, a sliding
 * window. */
#include "model/arch/layers.h"

static const clef_arch_alias starcoder2_names[] = {{"starcoder2", "starcoder2", 50256, 50256},
                                                   {NULL, NULL, 0, 0}};

static const clef_weight_name starcoder2_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = {"embed_tokens", "token_embd"},
    [CLEF_W_ATTN_NORM] = {"layers.%d.input_layernorm", "blk.%d.attn_norm"},
    [CLEF_W_ATTN_Q] = {"layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    [CLEF_W_ATTN_K] = {"layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    [CLEF_W_ATTN_V] = {"layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    [CLEF_W_ATTN_OUT] = {"layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    [CLEF_W_FFN_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.ffn_norm"},
    [CLEF_W_FFN_UP] = {"layers.%d.mlp.c_fc", "blk.%d.ffn_up"},
    [CLEF_W_FFN_DOWN] = {"layers.%d.mlp.c_proj", "blk.%d.ffn_down"},
    [CLEF_W_OUT_NORM] = {"norm", "output_norm"},
    [CLEF_W_OUT] = {"lm_head", "output"},
};

static clef_value *build(clef_builder *b)
{
    return clef__decoder(b, clef__embed(b), clef__sequential_layer);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "hidden_act", "gelu_pytorch_tanh");
    clef__json_rope(f, hp, 10000, 1);
    hp->sliding_window = (int32_t)clef__json_int(f, "sliding_window", 0, CLEF_MAX_CONTEXT, 0);
    if (hp->sliding_window > 0)
        clef__slide_layers(hp, 0, 1);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->activation = CLEF_GELU_TANH;
}

const clef_arch clef__arch_starcoder2 = {
    .names = starcoder2_names,
    .weights = starcoder2_weights,
    .hf_prefix = "model.",
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = build,
};
