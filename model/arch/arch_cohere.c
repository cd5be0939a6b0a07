/* Command R (Cohere 2024): one layer norm without bias for parallel attention and feed-forward, RoPE in
 * pairs, scaled logits. */
#include "model/arch/layers.h"

/* Command R7B and A (arXiv:2504.00698) have RoPE in the layers with a window alone. */
static const clef_arch_alias cohere2_names[] = {{"cohere2", "cohere2", 5, 255001}, {NULL, NULL, 0, 0}};
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

static void cohere2_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    clef__json_head_dim(f, hp); /* whatever head_dim says */
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->logit_scale = (float)clef__json_double(f, "logit_scale", 1e-6, 1e6, 0.0625);
    clef__json_activation(f, hp, "hidden_act", "silu");
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    clef__json_rope(f, hp, 10000);
    clef__json_window(f, hp, 4096);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_but(hp, -1, (int32_t)clef__json_int(f, "sliding_window_pattern", 1, CLEF_MAX_LAYERS, 4));
    clef__rope_in_windows(hp);
}

static void cohere2_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_windows(k, hp, -1, 4);
    clef__rope_in_windows(hp);
}

const clef_arch clef__arch_cohere2 = {
    .names = cohere2_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .layer_norms = 1,
    .read_json = cohere2_read_json,
    .read_gguf = cohere2_read_gguf,
    .layer = layer,
};
