/* Command R (Cohere 2024): one layer norm without bias for parallel attention and feed-forward, RoPE in
 * pairs, scaled logits. */
#include "model/arch/layers.h"

static const clef_arch_alias cohere_names[] = {{"cohere", "command-r", 5, 255001}, {NULL, NULL, 0, 0}};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__parallel_layer(b, x, clef__layer_attention, clef__gated_feed_forward);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->logit_scale = (float)clef__json_double(f, "logit_scale", 1e-6, 1e6, 0.0625);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_refuse_flag(f, "use_qk_norm", 0, 0);
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    clef__json_rope(f, hp, 500000);
}

const clef_arch clef__arch_cohere = {
    .names = cohere_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .layer_norms = 1,
    .read_json = read_json,
    .layer = layer,
};
