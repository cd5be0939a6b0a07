/* Models with experts whose attention is a Llama's: GLM 4.5 (arXiv:2508.06471) and Solar Open, dots.llm1
 * (arXiv:2506.05767), MiniMax-M2, AFMoE (Arcee 2025), Hunyuan (arXiv:2411.02265) and HY 3, ERNIE 4.5 (Baidu
 * 2025) and EXAONE (LG 2025). Most choose experts by sigmoids, to which a bias is added for the choice alone.
 */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"

/* ---- names ------------------------------------------------------------------------------------ */

static const clef_arch_alias glm4_moe_names[] = {
    {"glm4_moe", "glm4moe", -1, -1}, {"solar_open", NULL, -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias dots1_names[] = {{"dots1", "dots1", -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias minimax_names[] = {{"minimax_m2", "minimax-m2", 200034, 200020},
                                                {NULL, NULL, 0, 0}};
static const clef_arch_alias afmoe_names[] = {{"afmoe", "afmoe", -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias hunyuan_moe_names[] = {{"hunyuan_v1_moe", "hunyuan-moe", 1, 2},
                                                    {NULL, NULL, 0, 0}};
static const clef_arch_alias hy3_names[] = {{"hy_v3", "hy_v3", -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias ernie_moe_names[] = {{"ernie4_5_moe", "ernie4_5-moe", 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias mimo2_names[] = {{"mimo_v2_flash", "mimo2", 1, -1}, {NULL, NULL, 0, 0}};
static const char *const mimo2_varied[] = {"attention.head_count_kv", NULL};
static const clef_arch_alias phimoe_names[] = {{"phimoe", "phimoe", 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias llama4_names[] = {{"llama4_text", "llama4", 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias exaone_moe_names[] = {{"exaone_moe", "exaone-moe", 1, 53}, {NULL, NULL, 0, 0}};

static const char *const deepseek_like[CLEF_N_ROLES] = {CLEF_HF_DECODER,
                                                        CLEF_HF_FURTHER,
                                                        CLEF_HF_QK_NORMS,
                                                        CLEF_HF_GATED_MLP,
                                                        CLEF_HF_EXPERTS,
                                                        CLEF_HF_SHARED_EXPERT("shared_experts"),
                                                        [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
                                                        [CLEF_W_ROUTER_BIAS] =
                                                            "layers.%d.mlp.gate.e_score_correction_bias"};

static const char *const exaone_weights[CLEF_N_ROLES] = {CLEF_HF_DECODER,
                                                         CLEF_HF_QK_NORMS,
                                                         CLEF_HF_GATED_MLP,
                                                         CLEF_HF_EXPERTS,
                                                         CLEF_HF_SHARED_EXPERT("shared_experts"),
                                                         [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
                                                         [CLEF_W_ROUTER_BIAS] =
                                                             "layers.%d.mlp.e_score_correction_bias"};

static const char *const ernie_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_GATED_MLP,
    CLEF_HF_EXPERTS,
    CLEF_HF_SHARED_EXPERT("shared_experts"),
    [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
    [CLEF_W_ROUTER_BIAS] = "layers.%d.mlp.moe_statics.e_score_correction_bias"};

static const char *const minimax_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_QK_NORMS,
    [CLEF_W_ROUTER] = "layers.%d.block_sparse_moe.gate",
    [CLEF_W_ROUTER_BIAS] = "layers.%d.block_sparse_moe.e_score_correction_bias",
    [CLEF_W_EXPERT_GATE] = "layers.%d.block_sparse_moe.experts.*.w1",
    [CLEF_W_EXPERT_UP] = "layers.%d.block_sparse_moe.experts.*.w3",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.block_sparse_moe.experts.*.w2"};

static const char *const afmoe_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    CLEF_HF_EXPERTS,
    CLEF_HF_SHARED_EXPERT("shared_experts"),
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_NORM] = "layers.%d.pre_mlp_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_mlp_layernorm",
    [CLEF_W_ATTN_GATE] = "layers.%d.self_attn.gate_proj",
    [CLEF_W_ROUTER] = "layers.%d.mlp.router.gate",
    [CLEF_W_ROUTER_BIAS] = "layers.%d.mlp.expert_bias"};

static const char *const hunyuan_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_EXPERTS,
    CLEF_HF_SHARED_EXPERT("shared_mlp"),
    [CLEF_W_ATTN_Q_NORM] = "layers.%d.self_attn.query_layernorm",
    [CLEF_W_ATTN_K_NORM] = "layers.%d.self_attn.key_layernorm",
    [CLEF_W_ROUTER] = "layers.%d.mlp.gate.wg"};

static const char *const hy3_weights[CLEF_N_ROLES] = {CLEF_HF_DECODER,
                                                      CLEF_HF_QK_NORMS,
                                                      CLEF_HF_GATED_MLP,
                                                      CLEF_HF_EXPERTS,
                                                      CLEF_HF_SHARED_EXPERT("shared_mlp"),
                                                      [CLEF_W_ROUTER] = "layers.%d.mlp.router.gate",
                                                      [CLEF_W_ROUTER_BIAS] = "layers.%d.mlp.expert_bias"};

static const char *const mimo2_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_GATED_MLP,
    CLEF_HF_EXPERTS,
    [CLEF_W_ATTN_SINKS] = "layers.%d.self_attn.attention_sink_bias",
    [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
    [CLEF_W_ROUTER_BIAS] = "layers.%d.mlp.gate.e_score_correction_bias"};

static const char *const llama4_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    [CLEF_W_FFN_GATE] = "layers.%d.feed_forward.gate_proj",
    [CLEF_W_FFN_UP] = "layers.%d.feed_forward.up_proj",
    [CLEF_W_FFN_DOWN] = "layers.%d.feed_forward.down_proj",
    [CLEF_W_ROUTER] = "layers.%d.feed_forward.router",
    [CLEF_W_EXPERT_GATE] = "layers.%d.feed_forward.experts.gate_proj",
    [CLEF_W_EXPERT_UP] = "layers.%d.feed_forward.experts.up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.feed_forward.experts.out_proj",
    [CLEF_W_SHARED_GATE] = "layers.%d.feed_forward.shared_expert.gate_proj",
    [CLEF_W_SHARED_UP] = "layers.%d.feed_forward.shared_expert.up_proj",
    [CLEF_W_SHARED_DOWN] = "layers.%d.feed_forward.shared_expert.down_proj"};

static const clef_join_rule llama4_joins[] = {
    {&clef__join_half, ".experts.gate_up_proj", ".experts.down_proj", ".experts.gate_proj.weight", 0, 2},
    {&clef__join_half, ".experts.gate_up_proj", ".experts.down_proj", ".experts.up_proj.weight", 1, 2},
    {&clef__join_down, ".experts.down_proj", ".experts.gate_up_proj", ".experts.out_proj.weight", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0}};

static const clef_gguf_name hy3_gguf_names[] = {{CLEF_W_ROUTER_BIAS, "blk.%d.exp_probs_b/"}, {0, NULL}};
static const clef_gguf_name glm_gguf_names[] = {{CLEF_W_FFN_NORM, "blk.%d.post_attention_norm"}, {0, NULL}};

/* ---- configuration ---------------------------------------------------------------------------- */

static void sigmoid_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_routed(k, hp, CLEF_ROUTER_SIGMOID_NORMED);
}

static void glm4_moe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    const int is_glm = strcmp(hp->arch, "glm4_moe") == 0;
    clef__json_llama_with(f, hp, is_glm ? 10000 : 1000000, 1e-5, is_glm ? 0.5 : 0);
    const clef_routed_keys keys = {.n_experts = 128,
                                   .n_used = 8,
                                   .n_shared = 1,
                                   .d_ff_expert = is_glm ? 1408 : 1280,
                                   .expert_scale = 1,
                                   .is_normed = 1,
                                   .n_groups = 1,
                                   .n_groups_used = 1};
    clef__json_routed(f, hp, &keys);
}

static void dots1_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys keys = {
        .d_ff_expert = 1408, .expert_scale = 1, .n_groups = 1, .n_groups_used = 1};
    const int32_t first = (int32_t)clef__json_int(f, "max_window_layers", 0, INT32_MAX, 62);
    clef__json_llama(f, hp, 10000);
    clef__json_routed(f, hp, &keys);
    if (f->status == CLEF_OK && (hp->n_experts == 0 || hp->n_experts_used == 0))
        clef__json_refuse(f, "n_routed_experts and num_experts_per_tok: expected both");
    clef__json_window(f, hp, 4096);
    if (!clef__json_layer_types(f, hp, NULL) && hp->sliding_window > 0)
        clef__slide_layers(hp, first, 1);
    int32_t n = 0;
    for (int32_t i = 0; i < hp->n_layers; i++)
        n += clef__layer_slides(hp, i);
    if (n == 0)
        hp->sliding_window = 0;
}

/* rotary_dim, of each head, is a part of it. */
static void minimax_read_json(clef_json_fields *f, clef_hparams *hp)
{
    const int32_t rotated = (int32_t)clef__json_int(f, "rotary_dim", 2, CLEF_MAX_HEAD_DIM, 0);
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    if (f->status == CLEF_OK)
        clef__json_partial_rope(f, hp, 5000000, rotated ? (double)rotated / hp->head_dim : 1);
    clef__json_experts(f, hp, "num_local_experts", 256, 8);
    hp->d_ff_expert = hp->d_ff;
    hp->router = CLEF_ROUTER_SIGMOID_NORMED;
}

static void afmoe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys keys = {.experts = "num_experts",
                                          .shared = "num_shared_experts",
                                          .scale = "route_scale",
                                          .n_experts = 64,
                                          .n_used = 6,
                                          .n_shared = 2,
                                          .d_ff_expert = 1408,
                                          .expert_scale = 1,
                                          .is_normed = -1};
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
    clef__json_routed(f, hp, &keys);
    hp->embed_scale = clef__json_bool(f, "mup_enabled", 0) ? (float)sqrt(hp->d_model) : 1;
    clef__json_window(f, hp, 1024);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_but(hp, -1,
                        (int32_t)clef__json_int(f, "global_attn_every_n_layers", 1, CLEF_MAX_LAYERS, 4));
    clef__rope_in_windows(hp);
}

static void afmoe_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    sigmoid_read_gguf(k, hp);
    hp->embed_scale = (float)sqrt(hp->d_model);
    if (hp->sliding_window > 0)
        clef__key_windows(k, hp, -1, 4);
    clef__rope_in_windows(hp);
}

/* A number, or a list with one for each layer, which must be equal. */
static int32_t read_listed(clef_json_fields *f, const char *key, int32_t max)
{
    const json_t *value = clef__json_get(f, key);
    if (!json_is_array(value))
        return (int32_t)clef__json_int(f, key, 1, max, 1);
    const json_t *first = json_array_get(value, 0);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_equal((json_t *)(uintptr_t)first, json_array_get(value, i)))
            clef__json_refuse(f,
                              "num_experts and moe_topk that differ from layer to layer are not supported");
    const json_int_t n = json_integer_value(first);
    if (n < 1 || n > max)
        clef__json_refuse(f, "num_experts and moe_topk: expected numbers of experts");
    return n >= 1 && n <= max ? (int32_t)n : 1;
}

static void hunyuan_moe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_hunyuan(f, hp);
    hp->n_experts = read_listed(f, "num_experts", CLEF_MAX_EXPERTS);
    hp->n_experts_used = read_listed(f, "moe_topk", CLEF_MAX_EXPERTS_USED);
    hp->d_ff_expert = hp->d_ff_shared = hp->d_ff;
    hp->router = CLEF_ROUTER_NORMED;
}

static void hunyuan_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_routed(k, hp, CLEF_ROUTER_NORMED);
}

static void hy3_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys keys = {.experts = "num_experts",
                                          .shared = "num_shared_experts",
                                          .scale = "router_scaling_factor",
                                          .n_experts = 192,
                                          .n_used = 8,
                                          .n_shared = 1,
                                          .d_ff_expert = 1536,
                                          .expert_scale = 2.826,
                                          .is_normed = -1};
    clef__json_llama_with(f, hp, 11158840, 1e-5, 0);
    clef__json_routed(f, hp, &keys);
}

/* Experts are chosen by a softmax, and a bias. */
static void ernie_moe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys keys = {.experts = "moe_num_experts",
                                          .used = "moe_k",
                                          .shared = "moe_num_shared_experts",
                                          .n_experts = 64,
                                          .n_used = 6,
                                          .n_shared = 2,
                                          .d_ff_expert = 1536,
                                          .expert_scale = 1,
                                          .is_normed = -1};
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    clef__json_llama_with(f, hp, 500000, 1e-5, 0);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_routed(f, hp, &keys);
    hp->router = CLEF_ROUTER_NORMED;
}

static void exaone_moe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys keys = {.experts = "num_experts",
                                          .shared = "num_shared_experts",
                                          .n_experts = 64,
                                          .n_used = 8,
                                          .n_shared = 1,
                                          .d_ff_expert = 1024,
                                          .expert_scale = 2.5,
                                          .is_normed = 1,
                                          .n_groups = 1,
                                          .n_groups_used = 1};
    clef__json_exaone4(f, hp);
    clef__json_routed(f, hp, &keys);
}

/* Full layers have half as many heads of k and v. */
static void mimo2_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_routed_keys keys = {.n_experts = 256,
                                          .n_used = 8,
                                          .d_ff_expert = 2048,
                                          .expert_scale = 1,
                                          .is_normed = 1,
                                          .n_groups = 1,
                                          .n_groups_used = 1};
    const clef_layer_ropes ropes = {.full_theta = clef__json_has(f, "rope_parameters") ? 0 : 5000000,
                                    .sliding_theta = clef__json_has(f, "rope_parameters") ? 0 : 10000,
                                    .partial = 0.334,
                                    .needs_both = clef__json_has(f, "rope_parameters")};
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_routed(f, hp, &keys);
    hp->d_ff_shared = 0;
    hp->v_head_dim = (int32_t)clef__json_int(f, "v_head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->value_scale = (float)clef__json_double(f, "attention_value_scale", 1e-6, 1e6,
                                               clef__json_get(f, "attention_value_scale") ? 1 : 0.707);
    hp->full_n_kv_heads = hp->n_kv_heads;
    hp->n_kv_heads *= 2;
    clef__json_window(f, hp, 129);
    if (clef__json_has(f, "sliding_window_size"))
        hp->sliding_window = 1 + (int32_t)clef__json_int(f, "sliding_window_size", 0, CLEF_MAX_CONTEXT, 0);
    if (!clef__json_layer_types(f, hp, NULL))
        for (int32_t i = 1; i < hp->n_layers; i++)
            if ((i + 1) % 6)
                clef__slide_layers(hp, i, hp->n_layers);
    clef__json_layer_ropes(f, hp, &ropes);
}

static void mimo2_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    sigmoid_read_gguf(k, hp);
    clef__key_windows(k, hp, -1, 6);
    hp->value_scale = (float)clef__key_float(k, "attention.value_scale", 1e-6, 1e6, 1);
    for (int32_t i = 0; i < hp->n_layers && k->status == CLEF_OK; i++) {
        const int32_t n = clef__key_of_layer(k, "attention.head_count_kv", i, 1, CLEF_MAX_HEADS);
        *(clef__layer_slides(hp, i) ? &hp->n_kv_heads : &hp->full_n_kv_heads) = n ? n : hp->n_heads;
    }
}

static clef_value *mimo2_attention(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t E = hp->v_head_dim ? hp->v_head_dim : hp->head_dim,
                  Hk = clef__layer_slides(hp, b->layer) || !hp->full_n_kv_heads ? hp->n_kv_heads
                                                                                : hp->full_n_kv_heads;
    clef_value *q = clef__heads(b, x, CLEF_W_ATTN_Q, CLEF_N_ROLES, hp->n_heads),
               *k = clef__heads(b, x, CLEF_W_ATTN_K, CLEF_N_ROLES, Hk),
               *v = clef__linear(b, x, CLEF_W_ATTN_V, hp->d_model, Hk * E);
    v = clef__split_heads(b, clef__scaled(b, v, hp->value_scale), Hk, E);
    x = clef__self_attention(b, clef__layer_rope(b, q, "attn.q_rope"), clef__layer_rope(b, k, "attn.k_rope"),
                             v);
    return clef__linear(b, x, CLEF_W_ATTN_OUT, hp->n_heads * E, hp->d_model);
}

static clef_value *mimo2_layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, mimo2_attention, clef__experts_or_gated);
}

/* longrope's two factors of the rotated dims, beside its lists. */
static void read_factors(clef_json_fields *f, clef_hparams *hp)
{
    const char *within;
    const json_t *rope = clef__rope_object(f->object, &within);
    clef_json_fields own = {
        .object = rope, .file = f->file, .within = within, .err = f->err, .status = f->status};
    if (hp->rope.type == CLEF_ROPE_DEFAULT)
        return;
    hp->rope.short_factor = clef__json_need_double(&own, "short_mscale", 1e-6, 1e6);
    hp->rope.long_factor = clef__json_need_double(&own, "long_mscale", 1e-6, 1e6);
    f->status = own.status;
    if (hp->rope.type != CLEF_ROPE_LONGROPE)
        clef__json_refuse(f, "rope_type: expected default or longrope for phimoe");
}

static void phimoe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama_with(f, hp, 1000000, 1e-5, 0);
    clef__json_window_everywhere(f, hp, 0);
    clef__json_experts(f, hp, "num_local_experts", 16, 2);
    hp->d_ff_expert = hp->d_ff;
    hp->router = CLEF_ROUTER_NEAR;
    hp->router_noise = (float)clef__json_double(f, "router_jitter_noise", 0, 1, 0.01);
    if (hp->n_experts_used != 2)
        clef__json_refuse(f, "num_experts_per_tok: expected 2 for phimoe");
    read_factors(f, hp);
}

/* llama.cpp has no key for the noise, and weighs the two experts by a plain softmax. */
static void phimoe_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->router = CLEF_ROUTER_NEAR;
    hp->router_noise = 0.01f;
}

/* The scale of queries at later positions, in layers without RoPE. */
static void llama4_scale(clef_hparams *hp, double beta, int32_t length)
{
    hp->attention_beta = (float)beta;
    hp->attention_beta_first = 1;
    hp->attention_beta_length = length;
    hp->beta_without_rope = 1;
}

/* layer_types by "chunked_attention". */
static void read_chunks(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *types = clef__json_get(f, "layer_types");
    for (int32_t i = 0; i < hp->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (clef__layer_slides(hp, i))
            clef__json_refuse(f, "layer_types with sliding_attention is not supported for llama4");
        if (type && strcmp(type, "chunked_attention") == 0)
            clef__slide_layers(hp, i, hp->n_layers);
        if (clef__layer_slides(hp, i) && hp->sliding_window == 0)
            clef__json_refuse(f, "layer_types has chunked_attention, but there is no attention_chunk_size");
    }
}

static void llama4_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const chunks[] = {"chunked_attention", NULL};
    clef__json_llama_with(f, hp, 500000, 1e-5, 0);
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    clef__json_experts(f, hp, "num_local_experts", 16, 1);
    hp->d_ff_expert = hp->d_ff_shared = hp->d_ff;
    hp->d_ff = (int32_t)clef__json_int(f, "intermediate_size_mlp", 1, CLEF_MAX_WIDTH, 16384);
    hp->router = CLEF_ROUTER_SIGMOID;
    hp->expert_inputs = 1;
    hp->unit_qk = clef__json_bool(f, "use_qk_norm", 1);
    const int is_scaled = clef__json_bool(f, "attn_temperature_tuning", 1);
    const double beta = clef__json_double(f, "attn_scale", 0, 1e6, 0.1);
    const int32_t length = (int32_t)clef__json_int(f, "floor_scale", 1, CLEF_MAX_CONTEXT, 8192);
    llama4_scale(hp, is_scaled ? beta : 0, length);
    clef__json_rope_layers(f, hp);
    hp->has_chunks = 1;
    const int is_null =
        clef__json_get(f, "attention_chunk_size") && !clef__json_has(f, "attention_chunk_size");
    hp->sliding_window =
        (int32_t)clef__json_int(f, "attention_chunk_size", 1, CLEF_MAX_CONTEXT, is_null ? 0 : 8192);
    if (clef__json_layer_types(f, hp, chunks)) {
        read_chunks(f, hp);
    } else if (!is_null) {
        for (int32_t i = 0; i < hp->n_layers; i++)
            if (!(hp->no_rope_layers[i / 32] >> (i % 32) & 1))
                hp->sliding_layers[i / 32] |= 1u << (i % 32);
    }
}

/* 8192 and 0.1 are not in the files of llama.cpp's converter. */
static void llama4_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const int has_window = clef__key_has(k, "attention.sliding_window");
    clef__key_int(k, "interleave_moe_layer_step", 0, CLEF_MAX_LAYERS, 0); /* the tensors say both, too */
    clef__key_int(k, "expert_shared_count", 0, 256, 1);
    hp->router = CLEF_ROUTER_SIGMOID;
    hp->expert_inputs = hp->has_chunks = 1;
    hp->d_ff_shared = hp->d_ff_expert;
    hp->unit_qk = hp->n_experts != 128; /* as llama.cpp tells Scout from Maverick */
    if (has_window && hp->sliding_window == 0)
        return;
    hp->sliding_window = hp->sliding_window ? hp->sliding_window : 8192;
    clef__key_windows(k, hp, -1, 4);
    clef__leave_rope(hp, 4);
    llama4_scale(hp, clef__key_float(k, "attention.temperature_scale", 0, 1e6, 0.1), 8192);
}

static void exaone_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    sigmoid_read_gguf(k, hp);
    clef__exaone4_read_gguf(k, hp);
}

/* ---- the families ----------------------------------------------------------------------------- */

#define MIXTURE(family, table, ...)                                                                          \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .hf_prefix = "model.",                                            \
                                           .read_json = family##_read_json,                                  \
                                           .layer = clef__llama_layer,                                       \
                                           .weights.hf = table,                                              \
                                           __VA_ARGS__};

MIXTURE(glm4_moe, deepseek_like, .weights.gguf = glm_gguf_names, .read_gguf = sigmoid_read_gguf)
MIXTURE(hy3, hy3_weights, .weights.gguf = hy3_gguf_names, .read_gguf = sigmoid_read_gguf)
MIXTURE(dots1, deepseek_like, .read_gguf = sigmoid_read_gguf)
MIXTURE(minimax, minimax_weights, .read_gguf = sigmoid_read_gguf, .qk_norms = CLEF_QK_NORM_ALL)
MIXTURE(afmoe, afmoe_weights, .read_gguf = afmoe_read_gguf)
MIXTURE(hunyuan_moe, hunyuan_weights, .read_gguf = hunyuan_read_gguf, .qk_norms = CLEF_QK_NORM_ROTATED)
MIXTURE(ernie_moe, ernie_weights, .read_gguf = hunyuan_read_gguf, .gguf_pairing = CLEF_ROPE_INTERLEAVED)
const clef_arch clef__arch_mimo2 = {
    .names = mimo2_names,
    .weights = {.hf = mimo2_weights},
    .hf_prefix = "model.",
    .v_widths = 1,
    .gguf_varied = mimo2_varied,
    .read_json = mimo2_read_json,
    .read_gguf = mimo2_read_gguf,
    .layer = mimo2_layer,
};

MIXTURE(phimoe, clef__mixtral_weights, .read_gguf = phimoe_read_gguf, .layer_norms = 1)
MIXTURE(llama4, llama4_weights, .read_gguf = llama4_read_gguf, .gguf_pairing = CLEF_ROPE_INTERLEAVED,
        .joins = llama4_joins)
MIXTURE(exaone_moe, exaone_weights, .read_gguf = exaone_read_gguf)
