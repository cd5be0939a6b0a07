/* BLOOM (arXiv:2211.05100): a norm of the embeddings, ALiBi instead of positions. */
#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias bloom_names[] = {{"bloom", "bloom", 1, 2}, {NULL, NULL, 0, 0}};

static const char *const bloom_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "word_embeddings",
    [CLEF_W_EMBED_NORM] = "word_embeddings_layernorm",
    [CLEF_W_ATTN_NORM] = "h.%d.input_layernorm",
    [CLEF_W_ATTN_QKV] = "h.%d.self_attention.query_key_value",
    [CLEF_W_ATTN_OUT] = "h.%d.self_attention.dense",
    [CLEF_W_FFN_NORM] = "h.%d.post_attention_layernorm",
    [CLEF_W_FFN_UP] = "h.%d.mlp.dense_h_to_4h",
    [CLEF_W_FFN_DOWN] = "h.%d.mlp.dense_4h_to_h",
    [CLEF_W_OUT_NORM] = "ln_f",
    [CLEF_W_OUT] = "lm_head",
};

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef__norm(b, clef__embed(b), CLEF_W_EMBED_NORM);
    clef__alibi(b);
    return clef__decoder(b, x, clef__plain_layer);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    enum { TRAINED_ON = 2048 };
    hp->d_model = (int32_t)clef__json_int(f, "hidden_size", 1, CLEF_MAX_WIDTH,
                                          clef__json_int(f, "n_embed", 1, CLEF_MAX_WIDTH, 64));
    hp->n_layers = (int32_t)clef__json_need_int(f, "n_layer", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_int(f, "n_head", 1, CLEF_MAX_HEADS,
                                          clef__json_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS, 8));
    hp->n_context = (int32_t)clef__json_int(f, "seq_length", 1, CLEF_MAX_CONTEXT, TRAINED_ON);
    hp->d_ff = 4 * hp->d_model;
    hp->n_kv_heads = hp->n_heads;
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->activation = CLEF_GELU_TANH;
    clef__json_refuse_flag(f, "apply_residual_connection_post_layernorm", 0, 0);
    clef__json_head_dim(f, hp);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    enum { BIAS = 8 }; /* the only one that Bloom has */
    clef__key_float(k, "attention.max_alibi_bias", BIAS, BIAS, BIAS);
    hp->rope.dims = 0;
}

const clef_arch clef__arch_bloom = {
    .names = bloom_names,
    .weights = {.hf = bloom_weights},
    .hf_prefix = "transformer.",
    .hf_grouped = 1,
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .gguf_activation = CLEF_GELU_TANH,
    .build = build,
};
