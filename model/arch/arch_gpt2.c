/* GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"): learned positions,
 * pre-norm blocks, biases everywhere, GELU (tanh), tied embeddings. */
#include "model/arch/layers.h"

static const clef_arch_alias gpt2_names[] = {{"gpt2", "gpt2", 50256, 50256}, {NULL, NULL, 0, 0}};

static const char *const gpt2_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "wte",
    [CLEF_W_POSITIONS] = "wpe",
    [CLEF_W_ATTN_NORM] = "h.%d.ln_1",
    [CLEF_W_ATTN_QKV] = "h.%d.attn.c_attn",
    [CLEF_W_ATTN_OUT] = "h.%d.attn.c_proj",
    [CLEF_W_FFN_NORM] = "h.%d.ln_2",
    [CLEF_W_FFN_UP] = "h.%d.mlp.c_fc",
    [CLEF_W_FFN_DOWN] = "h.%d.mlp.c_proj",
    [CLEF_W_OUT_NORM] = "ln_f",
    [CLEF_W_OUT] = "lm_head",
};

static clef_value *gpt2_build(clef_builder *b)
{
    clef_value *x = clef_add(b->g, clef__embed(b), clef__learned_positions(b));
    return clef__decoder(b, clef__name_value(b, x, "embed.sum"), clef__plain_layer);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_gpt2_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "activation_function", "gelu_new");
    clef__json_refuse_flag(f, "scale_attn_by_inverse_layer_idx", 0, 0);
    clef__json_refuse_flag(f, "scale_attn_weights", 1, 1);
    clef__json_refuse_flag(f, "add_cross_attention", 0, 0);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->rope.dims = 0;
}

const clef_arch clef__arch_gpt2 = {
    .names = gpt2_names,
    .weights = {.hf = gpt2_weights},
    .hf_prefix = "transformer.",
    .hf_conv1d = 1,
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .gguf_activation = CLEF_GELU_TANH,
    .build = gpt2_build,
};
