/* OLMo 2 (arXiv:2501.00656): norms after attention and feed-forward instead of before, and norms of all of q
 * and k. */
#include "model/arch/layers.h"

static const clef_arch_alias olmo2_names[] = {{"olmo2", "olmo2", -1, 50279}, {NULL, NULL, 0, 0}};

static const char *const olmo2_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_feedforward_layernorm"};

static clef_value *attention(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, D = b->hp->head_dim, H = b->hp->n_heads, Hk = b->hp->n_kv_heads;
    clef_value *q = clef__norm(b, clef__linear(b, x, CLEF_W_ATTN_Q, d, H * D), CLEF_W_ATTN_Q_NORM);
    clef_value *k = clef__norm(b, clef__linear(b, x, CLEF_W_ATTN_K, d, Hk * D), CLEF_W_ATTN_K_NORM);
    clef_value *v = clef__linear(b, x, CLEF_W_ATTN_V, d, Hk * D);
    q = clef__layer_rope(b, clef__split_heads(b, q, H, D), "attn.q_rope");
    k = clef__layer_rope(b, clef__split_heads(b, k, Hk, D), "attn.k_rope");
    x = clef__self_attention(b, q, k, clef__split_heads(b, v, Hk, D));
    return clef__linear(b, x, CLEF_W_ATTN_OUT, H * D, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    x = clef__add_residual(b, x, clef__norm(b, attention(b, x), CLEF_W_ATTN_POST_NORM), "attn_residual");
    clef_value *y = clef__norm(b, clef__gated_feed_forward(b, x), CLEF_W_FFN_POST_NORM);
    return clef__add_residual(b, x, y, "mlp_residual");
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_rope(f, hp, 10000);
}

/* OLMo 3 has this name too: a window in three of four layers, where RoPE is not scaled. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const clef_rope_params *r = &hp->rope;
    if (hp->sliding_window == 0)
        return;
    clef__key_windows(k, hp, -1, 4);
    if (hp->rope_sliding.dims == 0 && r->type != CLEF_ROPE_DEFAULT)
        hp->rope_sliding = (clef_rope_params){.dims = r->dims, .pairing = r->pairing, .theta = r->theta};
}

const clef_arch clef__arch_olmo2 = {
    .names = olmo2_names,
    .weights = {.hf = olmo2_weights},
    .hf_prefix = "model.",
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};
