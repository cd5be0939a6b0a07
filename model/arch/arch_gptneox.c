/* GPT-NeoX (arXiv:2204.06745) and Pythia (arXiv:2304.01373): layer norms, RoPE over a quarter of each head,
 * parallel attention and feed-forward. */
#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias gptneox_names[] = {{"gpt_neox", "gptneox", 0, 2}, {NULL, NULL, 0, 0}};

static const char *const gptneox_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embed_in",
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_ATTN_QKV] = "layers.%d.attention.query_key_value",
    [CLEF_W_ATTN_OUT] = "layers.%d.attention.dense",
    [CLEF_W_FFN_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_UP] = "layers.%d.mlp.dense_h_to_4h",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.dense_4h_to_h",
    [CLEF_W_OUT_NORM] = "final_layer_norm",
    [CLEF_W_OUT] = "embed_out",
};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_value *y = clef__layer_attention(b, clef__norm(b, x, CLEF_W_ATTN_NORM));
    y = clef__add_residual(b, x, y, "attn_residual");
    x = clef__norm(b, b->hp->parallel_residual ? x : y, CLEF_W_FFN_NORM);
    return clef__add_residual(b, y, clef__feed_forward(b, x), "mlp_residual");
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    hp->parallel_residual = clef__json_bool(f, "use_parallel_residual", 1);
    clef__json_activation(f, hp, "hidden_act", "gelu");
    clef__json_neox_rope(f, hp, 10000, 0.25);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->parallel_residual = clef__key_int(k, "use_parallel_residual", 0, 1, 1);
}

const clef_arch clef__arch_gptneox = {
    .names = gptneox_names,
    .weights = {.hf = gptneox_weights},
    .hf_prefix = "gpt_neox.",
    .hf_grouped = 1,
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .gguf_activation = CLEF_GELU,
    .layer = layer,
};
