/* OLMo 2 (arXiv:2501.00656): norms after attention and feed-forward instead of before, and norms of all of q
 * and k. */
#include "model/arch/layers.h"

/* OLMo 3 (2025): a window in three of four layers, where RoPE is not scaled. OLMo 1 (arXiv:2402.00838): layer
 * norms without weights before the blocks. OLMoE (arXiv:2409.02060): norms as Llama's, and experts. */
static const clef_arch_alias olmo3_names[] = {{"olmo3", "olmo2", -1, 50279}, {NULL, NULL, 0, 0}};
static const clef_arch_alias olmo_names[] = {{"olmo", "olmo", -1, 50279}, {NULL, NULL, 0, 0}};
static const clef_arch_alias olmoe_names[] = {{"olmoe", "olmoe", -1, 50279}, {NULL, NULL, 0, 0}};
static const clef_arch_alias olmo2_names[] = {{"olmo2", "olmo2", -1, 50279}, {NULL, NULL, 0, 0}};

const char *const clef__olmo2_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_feedforward_layernorm"};

static const char *const olmo_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embed_tokens", [CLEF_W_OUT] = "lm_head", CLEF_HF_ATTENTION, CLEF_HF_GATED_MLP};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__gated_feed_forward);
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
    .weights = {.hf = clef__olmo2_weights},
    .hf_prefix = "model.",
    .qk_norms = CLEF_QK_NORM_ALL,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};

static void olmo3_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_layer_ropes keys = {
        .full_key = "rope_theta", .full_theta = 500000, .sliding_theta = 500000};
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_layer_ropes(f, hp, &keys);
    clef__json_window(f, hp, 4096);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_but(hp, -1, 4);
}

const clef_arch clef__arch_olmo3 = {
    .names = olmo3_names,
    .weights = {.hf = clef__olmo2_weights},
    .hf_prefix = "model.",
    .qk_norms = CLEF_QK_NORM_ALL,
    .read_json = olmo3_read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};

/* ---- OLMo 1 ---------------------------------------------------------------------------------- */

static clef_value *plain_norm(clef_builder *b, clef_value *x)
{
    return clef_layer_norm(b->g, x, NULL, NULL, &(clef_norm_opts){.eps = b->hp->norm_eps});
}

static clef_value *olmo_attention(clef_builder *b, clef_value *x)
{
    return clef__layer_attention(b, clef__name_value(b, plain_norm(b, x), "attn_norm"));
}

static clef_value *olmo_feed_forward(clef_builder *b, clef_value *x)
{
    return clef__gated_feed_forward(b, clef__name_value(b, plain_norm(b, x), "mlp_norm"));
}

static clef_value *olmo_layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, olmo_attention, olmo_feed_forward);
}

static clef_value *olmo_build(clef_builder *b)
{
    clef_value *x = clef__layers(b, clef__embed(b), b->hp->n_layers, olmo_layer);
    x = plain_norm(b, clef__wanted_positions(b, x));
    return clef__lm_head(b, clef__name_value(b, x, "/final_norm"));
}

/* Only its code has the epsilon. */
static void olmo_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = 1e-5f;
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_rope(f, hp, 10000);
    hp->clip_qkv = (float)clef__json_double(f, "clip_qkv", 1e-6, 1e6, 0);
}

static void olmo_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->clip_qkv = (float)clef__key_float(k, "attention.clamp_kqv", 0, 1e6, 0);
}

const clef_arch clef__arch_olmo = {
    .names = olmo_names,
    .weights = {.hf = olmo_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .layer_norms = 1,
    .read_json = olmo_read_json,
    .read_gguf = olmo_read_gguf,
    .build = olmo_build,
};

/* ---- OLMoE ----------------------------------------------------------------------------------- */

static void olmoe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
    hp->clip_qkv = (float)clef__json_double(f, "clip_qkv", 1e-6, 1e6, 0);
    clef__json_experts(f, hp, "num_experts", 64, 8);
    hp->d_ff_expert = hp->d_ff;
    hp->router = clef__json_bool(f, "norm_topk_prob", 0) ? CLEF_ROUTER_NORMED : CLEF_ROUTER_ALL;
}

static void olmoe_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    olmo_read_gguf(k, hp);
    hp->router = clef__key_router(k, CLEF_ROUTER_ALL);
}

const clef_arch clef__arch_olmoe = {
    .names = olmoe_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .qk_norms = CLEF_QK_NORM_ALL,
    .read_json = olmoe_read_json,
    .read_gguf = olmoe_read_gguf,
    .layer = clef__llama_layer,
};
