/* GPT-J (Wang and Komatsuzaki 2021, mesh-transformer-jax): one layer norm for parallel attention and
 * feed-forward, RoPE in pairs over the first dims of each head, a bias of the output matrix. */
#include "model/arch/layers.h"

static const clef_arch_alias gptj_names[] = {{"gptj", "gptj", 50256, 50256}, {NULL, NULL, 0, 0}};

const char *const clef__gptj_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "wte",
    [CLEF_W_ATTN_NORM] = "h.%d.ln_1",
    [CLEF_W_ATTN_Q] = "h.%d.attn.q_proj",
    [CLEF_W_ATTN_K] = "h.%d.attn.k_proj",
    [CLEF_W_ATTN_V] = "h.%d.attn.v_proj",
    [CLEF_W_ATTN_OUT] = "h.%d.attn.out_proj",
    [CLEF_W_FFN_UP] = "h.%d.mlp.fc_in",
    [CLEF_W_FFN_DOWN] = "h.%d.mlp.fc_out",
    [CLEF_W_OUT_NORM] = "ln_f",
    [CLEF_W_OUT] = "lm_head",
};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__parallel_layer(b, x, clef__layer_attention, clef__feed_forward);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_gpt2_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "activation_function", "gelu_new");
    hp->rope = (clef_rope_params){
        .dims = (int32_t)clef__json_int(f, "rotary_dim", 0, CLEF_MAX_HEAD_DIM, hp->head_dim),
        .pairing = CLEF_ROPE_INTERLEAVED,
        .theta = 10000};
}

const clef_arch clef__arch_gptj = {
    .names = gptj_names,
    .weights = {.hf = clef__gptj_weights},
    .hf_prefix = "transformer.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .layer_norms = 1,
    .read_json = read_json,
    .gguf_activation = CLEF_GELU_TANH,
    .layer = layer,
};
