/* LFM2 (Liquid AI 2025; arXiv:2511.23404), dense and with experts: most layers are a short convolution
 * between two gates, the others attention. */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias lfm2_names[] = {
    {"lfm2", "lfm2", 1, 2}, {"lfm2_moe", "lfm2moe", 1, 2}, {NULL, NULL, 0, 0}};
static const clef_gguf_name gguf_names[] = {{CLEF_W_OUT_NORM, "token_embd_norm"}, {0, NULL}};
static const char *const varied[] = {"attention.head_count_kv", NULL};

static const char *const lfm2_weights[CLEF_N_ROLES] = {
    [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj",
    [CLEF_W_ATTN_K] = "layers.%d.self_attn.k_proj",
    [CLEF_W_ATTN_V] = "layers.%d.self_attn.v_proj",
    [CLEF_W_EMBED] = "embed_tokens",
    [CLEF_W_OUT] = "lm_head",
    [CLEF_W_OUT_NORM] = "embedding_norm",
    [CLEF_W_ATTN_NORM] = "layers.%d.operator_norm",
    [CLEF_W_FFN_NORM] = "layers.%d.ffn_norm",
    [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.out_proj",
    [CLEF_W_ATTN_Q_NORM] = "layers.%d.self_attn.q_layernorm",
    [CLEF_W_ATTN_K_NORM] = "layers.%d.self_attn.k_layernorm",
    [CLEF_W_CONV_IN] = "layers.%d.conv.in_proj",
    [CLEF_W_CONV] = "layers.%d.conv.conv",
    [CLEF_W_CONV_OUT] = "layers.%d.conv.out_proj",
    [CLEF_W_FFN_GATE] = "layers.%d.feed_forward.w1",
    [CLEF_W_FFN_UP] = "layers.%d.feed_forward.w3",
    [CLEF_W_FFN_DOWN] = "layers.%d.feed_forward.w2",
    [CLEF_W_ROUTER] = "layers.%d.feed_forward.gate",
    [CLEF_W_ROUTER_BIAS] = "layers.%d.feed_forward.expert_bias",
    [CLEF_W_EXPERT_GATE] = "layers.%d.feed_forward.experts.*.w1",
    [CLEF_W_EXPERT_UP] = "layers.%d.feed_forward.experts.*.w3",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.feed_forward.experts.*.w2",
};

/* out(c conv(b x)) with b, c and x by one projection. */
static clef_value *gated_conv(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model;
    if (clef__refuses_padding(b))
        return NULL;
    clef_value *all = clef__linear(b, x, CLEF_W_CONV_IN, d, 3 * d);
    x = clef_mul(b->g, clef__part(b, all, 2, 0, d), clef__part(b, all, 2, 2 * d, d));
    x = clef__name_value(b, clef__short_conv(b, x, CLEF_W_CONV, d), "conv.mixed");
    x = clef__name_value(b, clef_mul(b->g, clef__part(b, all, 2, d, d), x), "conv.gated");
    return clef__linear(b, x, CLEF_W_CONV_OUT, d, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x,
                                  clef__layer_is_linear(b->hp, b->layer) ? gated_conv : clef__layer_attention,
                                  clef__experts_or_gated);
}

/* The width of the dense feed-forward: two thirds of the key's, times a factor, rounded up to a multiple. */
static void read_width(clef_json_fields *f, clef_hparams *hp)
{
    const char *key = clef__json_get(f, "block_ff_dim") ? "block_ff_dim" : "intermediate_size";
    int64_t n = clef__json_int(f, key, 1, CLEF_MAX_WIDTH, 12288);
    const int64_t multiple = clef__json_int(f, "block_multiple_of", 1, CLEF_MAX_WIDTH, 256);
    const double factor = clef__json_double(f, "block_ffn_dim_multiplier", 1e-6, 1e6, 1);
    clef__json_get(f, "intermediate_size");
    if (clef__json_bool(f, "block_auto_adjust_ff_dim", 1)) {
        n = 2 * n / 3;
        if (!json_is_null(clef__json_get(f, "block_ffn_dim_multiplier")))
            n = multiple * (((int64_t)(factor * (double)n) + multiple - 1) / multiple);
    }
    if (f->status == CLEF_OK && (n < 1 || n > CLEF_MAX_WIDTH))
        clef__json_refuse(f, "block_ffn_dim_multiplier makes the feed-forward too wide, or of no width");
    hp->d_ff = (int32_t)n;
}

static void read_experts(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_ff = (int32_t)clef__json_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH, 7168);
    clef__json_experts(f, hp, "num_experts", 32, 4);
    hp->d_ff_expert = (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, 1792);
    hp->expert_scale = (float)clef__json_double(f, "routed_scaling_factor", 1e-6, 1e6, 1);
    hp->router = clef__json_bool(f, "norm_topk_prob", 1) ? CLEF_ROUTER_SIGMOID_NORMED : CLEF_ROUTER_SIGMOID;
    clef__json_int(f, "num_dense_layers", 0, CLEF_MAX_LAYERS, 2); /* a layer has experts if it has a router */
    clef__json_refuse_flag(f, "use_expert_bias", 1, 1);
}

/* Without layer_types all layers have attention, or those of the older key. */
static void read_older_types(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *list = clef__json_get(f, "full_attn_idxs");
    if (json_is_array(list))
        clef__linear_but(hp, list);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const convs[] = {"conv", NULL};
    clef__json_widths(f, hp);
    if (strcmp(hp->arch, "lfm2_moe") == 0)
        read_experts(f, hp);
    else
        read_width(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->tied_embeddings = clef__json_bool(f, "tie_embedding", hp->tied_embeddings);
    hp->linear_taps = (int32_t)clef__json_int(f, "conv_L_cache", 2, 16, 3);
    clef__json_rope(f, hp, 1000000);
    if (!clef__json_linear_layers(f, hp, convs))
        read_older_types(f, hp);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->linear_taps = clef__key_int(k, "shortconv.l_cache", 2, 16, CLEF_KEY_NEEDED);
    hp->router = clef__key_router(k, CLEF_ROUTER_SIGMOID_NORMED);
    clef__key_linear_layers(k, hp);
}

const clef_arch clef__arch_lfm2 = {
    .names = lfm2_names,
    .weights = {.hf = lfm2_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .gguf_varied = varied,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};
