/* StarCoder2 (arXiv:2402.19173): GPT-2's feed-forward and layer norms, RoPE, few heads of k and v, a sliding
 * window. */
#include "model/arch/layers.h"

static const clef_arch_alias starcoder2_names[] = {{"starcoder2", "starcoder2", 50256, 50256},
                                                   {NULL, NULL, 0, 0}};

static const char *const starcoder2_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    [CLEF_W_FFN_UP] = "layers.%d.mlp.c_fc",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.c_proj",
};

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "hidden_act", "gelu_pytorch_tanh");
    clef__json_rope(f, hp, 10000);
    clef__json_window_everywhere(f, hp, 0);
}

const clef_arch clef__arch_starcoder2 = {
    .names = starcoder2_names,
    .weights = {.hf = starcoder2_weights},
    .hf_prefix = "model.",
    .layer_norms = 1,
    .read_json = read_json,
    .gguf_activation = CLEF_GELU_TANH,
    .layer = clef__plain_layer,
};
