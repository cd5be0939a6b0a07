/* Falcon (arXiv:2311.16867): parallel attention and feed-forward, few heads of k and v. The first layout has
 * one norm for both; the second may have one for each. */
#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias falcon_names[] = {{"falcon", "falcon", 11, 11}, {NULL, NULL, 0, 0}};

static const clef_gguf_name gguf_names[] = {{CLEF_W_FFN_NORM, "blk.%d.attn_norm"}, {0, NULL}};

static const char *const falcon_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "word_embeddings",
    [CLEF_W_ATTN_NORM] = "h.%d.input_layernorm",
    [CLEF_W_ATTN_NORM_2] = "h.%d.ln_attn",
    [CLEF_W_ATTN_QKV] = "h.%d.self_attention.query_key_value",
    [CLEF_W_ATTN_OUT] = "h.%d.self_attention.dense",
    [CLEF_W_FFN_NORM] = "h.%d.ln_mlp",
    [CLEF_W_FFN_UP] = "h.%d.mlp.dense_h_to_4h",
    [CLEF_W_FFN_DOWN] = "h.%d.mlp.dense_4h_to_h",
    [CLEF_W_OUT_NORM] = "ln_f",
    [CLEF_W_OUT] = "lm_head",
};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    const int two_norms = clef__has_weight(b, CLEF_W_ATTN_NORM_2, "weight");
    clef_value *for_attention = clef__norm(b, x, two_norms ? CLEF_W_ATTN_NORM_2 : CLEF_W_ATTN_NORM);
    clef_value *for_feed_forward = two_norms ? clef__norm(b, x, CLEF_W_FFN_NORM) : for_attention;
    x = clef__add_residual(b, x, clef__layer_attention(b, for_attention), "attn_residual");
    return clef__add_residual(b, x, clef__feed_forward(b, for_feed_forward), "mlp_residual");
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    enum { TRAINED_ON = 2048 };
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS,
                                           clef__json_int(f, "n_layer", 1, CLEF_MAX_LAYERS, 32));
    hp->n_heads = (int32_t)clef__json_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS,
                                          clef__json_int(f, "n_head", 1, CLEF_MAX_HEADS, 71));
    hp->n_context = (int32_t)clef__json_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT, TRAINED_ON);
    hp->d_ff = (int32_t)clef__json_int(f, "ffn_hidden_size", 1, CLEF_MAX_WIDTH, 4 * (int64_t)hp->d_model);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->n_kv_heads = hp->n_heads;
    if (clef__json_bool(f, "new_decoder_architecture", 0))
        hp->n_kv_heads = (int32_t)clef__json_int(f, "num_kv_heads", 1, CLEF_MAX_HEADS, hp->n_heads);
    else if (clef__json_bool(f, "multi_query", 1))
        hp->n_kv_heads = 1;
    clef__json_activation(f, hp, "activation", "gelu");
    clef__json_refuse_flag(f, "alibi", 0, 0);
    if (clef__json_has(f, "head_dim"))
        clef__json_refuse(f, "head_dim is not a key of a falcon");
    if (!clef__json_bool(f, "new_decoder_architecture", 0))
        clef__json_refuse_flag(f, "parallel_attn", 1, 1);
    clef__json_head_dim(f, hp);
    clef__json_rope(f, hp, 10000);
}

const clef_arch clef__arch_falcon = {
    .names = falcon_names,
    .weights = {.hf = falcon_weights, .gguf = gguf_names},
    .hf_prefix = "transformer.",
    .hf_grouped = 1,
    .layer_norms = 1,
    .read_json = read_json,
    .gguf_activation = CLEF_GELU,
    .layer = layer,
};
