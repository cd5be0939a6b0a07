/* StableLM 2 (arXiv:2402.17834): Llama's block with layer norms, RoPE over a quarter of each head. */
#include "model/arch/layers.h"

static const clef_arch_alias stablelm_names[] = {{"stablelm", "stablelm", 0, 0}, {NULL, NULL, 0, 0}};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_block *const attention = clef__layer_attention, *const mlp = clef__gated_feed_forward;
    return (b->hp->parallel_residual ? clef__parallel_layer : clef__sequential_layer)(b, x, attention, mlp);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    hp->parallel_residual = clef__json_bool(f, "use_parallel_residual", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_partial_rope(f, hp, 10000, 0.25);
    clef__json_refuse_flag(f, "qk_layernorm", 0, 0);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->parallel_residual = clef__key_int(k, "use_parallel_residual", 0, 1, 0);
}

const clef_arch clef__arch_stablelm = {
    .names = stablelm_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};
