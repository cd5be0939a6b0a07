/* Falcon (arXiv:2311.16867): attention and feed-forward side by side, few heads of k and v; the first layout
 * has one norm for both, the second may have one for each. */
#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias falcon_names[] = {{"falcon", "falcon", 11, 11}, {NULL, NULL, 0, 0}};

static const clef_weight_name falcon_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = {"word_embeddings", "token_embd"},
    [CLEF_W_ATTN_NORM] = {"h.%d.input_layernorm", "blk.%d.attn_norm"},
    [CLEF_W_ATTN_NORM_2] = {"h.%d.ln_attn", "blk.%d.attn_norm_2"},
    [CLEF_W_ATTN_QKV] = {"h.%d.self_attention.query_key_value", "blk.%d.attn_qkv"},
    [CLEF_W_ATTN_OUT] = {"h.%d.self_attention.dense", "blk.%d.attn_output"},
    [CLEF_W_FFN_NORM] = {"h.%d.ln_mlp", "blk.%d.attn_norm"},
    [CLEF_W_FFN_UP] = {"h.%d.mlp.dense_h_to_4h", "blk.%d.ffn_up"},
    [CLEF_W_FFN_DOWN] = {"h.%d.mlp.dense_4h_to_h", "blk.%d.ffn_down"},
    [CLEF_W_OUT_NORM] = {"ln_f", "output_norm"},
    [CLEF_W_OUT] = {"lm_head", "output"},
};

/* A folder has the heads of q that share one of k before that k and its v; GGUF all of q first. With one head
 * of k both are the same. */
static clef_value *attention(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t d = hp->d_model, H = hp->n_heads, Hk = hp->n_kv_heads;
    clef_value *qkv = clef__linear(b, x, CLEF_W_ATTN_QKV, d, (H + 2 * Hk) * hp->head_dim);
    const clef_qkv h =
        clef__split_qkv(b, qkv, b->model->is_gguf || Hk == 1 ? CLEF_QKV_PARTS : CLEF_QKV_GROUPS);
    return clef__linear(b, clef__self_attention(b, clef__rope(b, h.q), clef__rope(b, h.k), h.v),
                        CLEF_W_ATTN_OUT, H * hp->head_dim, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const int two_norms = clef__weight_optional(b, CLEF_W_ATTN_NORM_2, "weight") != NULL;
    clef_value *for_attention = clef__layer_norm(b, x, two_norms ? CLEF_W_ATTN_NORM_2 : CLEF_W_ATTN_NORM);
    clef_value *for_feed_forward = two_norms ? clef__layer_norm(b, x, CLEF_W_FFN_NORM) : for_attention;
    return clef_add(g, clef_add(g, x, attention(b, for_attention)), clef__feed_forward(b, for_feed_forward));
}

static clef_value *build(clef_builder *b)
{
    return clef__decoder(b, clef__embed(b), layer);
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
    if (!clef__json_bool(f, "new_decoder_architecture", 0))
        clef__json_refuse_flag(f, "parallel_attn", 1, 1);
    clef__json_head_dim(f, hp);
    clef__json_rope(f, hp, 10000, 1);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->activation = CLEF_GELU;
}

const clef_arch clef__arch_falcon = {
    .names = falcon_names,
    .weights = falcon_weights,
    .hf_prefix = "transformer.",
    .hf_grouped = 1,
    .layer_norms = 1,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = build,
};
