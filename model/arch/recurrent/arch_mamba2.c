/* Mamba 2 (arXiv:2405.21060), and models in which some layers are attention: Bamba (IBM 2024) and Nemotron-H
 * (arXiv:2504.03624), whose layers are one block each. Granite 4 is in arch_granite.c. */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias mamba2_names[] = {{"mamba2", "mamba2", 0, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias bamba_names[] = {{"bamba", NULL, 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias nemotron_names[] = {
    {"nemotron_h", "nemotron_h", 1, 2}, {NULL, "nemotron_h_moe", 1, 2}, {NULL, NULL, 0, 0}};
static const char *const varied[] = {"attention.head_count_kv", "feed_forward_length", NULL};

static const clef_gguf_name gguf_names[] = {CLEF_GGUF_MAMBA, {0, NULL}};

static const char *const mamba2_weights[CLEF_N_ROLES] = {
    CLEF_HF_MAMBA("mixer"),    [CLEF_W_EMBED] = "embeddings",         [CLEF_W_OUT_NORM] = "norm_f",
    [CLEF_W_OUT] = "/lm_head", [CLEF_W_ATTN_NORM] = "layers.%d.norm",
};

static const char *const bamba_weights[CLEF_N_ROLES] = {
    CLEF_HF_MAMBA("mamba"),
    CLEF_HF_HYBRID,
};

static const char *const nemotron_weights[CLEF_N_ROLES] = {
    CLEF_HF_MAMBA("mixer"),
    [CLEF_W_EMBED] = "embeddings",
    [CLEF_W_OUT_NORM] = "norm_f",
    [CLEF_W_OUT] = "/lm_head",
    [CLEF_W_ATTN_NORM] = "layers.%d.norm",
    [CLEF_W_ATTN_Q] = "layers.%d.mixer.q_proj",
    [CLEF_W_ATTN_K] = "layers.%d.mixer.k_proj",
    [CLEF_W_ATTN_V] = "layers.%d.mixer.v_proj",
    [CLEF_W_ATTN_OUT] = "layers.%d.mixer.o_proj",
    [CLEF_W_FFN_UP] = "layers.%d.mixer.up_proj",
    [CLEF_W_FFN_DOWN] = "layers.%d.mixer.down_proj",
    [CLEF_W_ROUTER] = "layers.%d.mixer.gate",
    [CLEF_W_ROUTER_BIAS] = "layers.%d.mixer.gate.e_score_correction_bias",
    [CLEF_W_EXPERT_UP] = "layers.%d.mixer.experts.*.up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.mixer.experts.*.down_proj",
    [CLEF_W_SHARED_UP] = "layers.%d.mixer.shared_experts.up_proj",
    [CLEF_W_SHARED_DOWN] = "layers.%d.mixer.shared_experts.down_proj",
};

const clef_join_rule clef__mamba_joins[] = {
    {&clef__join_rates, ".A_log", NULL, ".rates", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0},
};

/* ---- Mamba 2 ------------------------------------------------------------------------------------ */

clef_value *clef__one_block(clef_builder *b, clef_value *x, clef_block *block)
{
    return clef__add_residual(b, x, block(b, clef__norm(b, x, CLEF_W_ATTN_NORM)), "attn_residual");
}

static clef_value *mamba2_layer(clef_builder *b, clef_value *x)
{
    return clef__one_block(b, x, clef__mamba);
}

void clef__all_linear(clef_hparams *hp)
{
    hp->n_heads = hp->n_kv_heads = hp->head_dim = 1; /* it has none */
    hp->rope = (clef_rope_params){0};
    for (int32_t i = 0; i < hp->n_layers; i++)
        clef__set_linear(hp, i);
}

static void mamba2_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_mamba_keys keys = {"num_heads", "head_dim", "n_groups", "state_size", "conv_kernel",
                                         "expand",    64,         8,          128};
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS);
    hp->n_context = 1 << 20; /* it has no positions; llama.cpp's converter writes this, too */
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "hidden_act other than silu is not supported");
    clef__json_mamba(f, hp, &keys);
    clef__json_refuse_flag(f, "rescale_prenorm_residual", 0, 0); /* transformers divides the loaded weights */
    if (f->status == CLEF_OK && clef__json_int(f, "expand", 1, 1024, 2) * hp->d_model !=
                                    (int64_t)hp->linear_n_v_heads * hp->linear_v_dim)
        clef__json_refuse(f, "num_heads times head_dim is not hidden_size times expand");
    clef__all_linear(hp);
}

static void mamba2_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_mamba(k, hp);
    clef__all_linear(hp);
}

const clef_arch clef__arch_mamba2 = {
    .names = mamba2_names,
    .weights = {.hf = mamba2_weights, .gguf = gguf_names},
    .hf_prefix = "backbone.",
    .joins = clef__mamba_joins,
    .read_json = mamba2_read_json,
    .read_gguf = mamba2_read_gguf,
    .layer = mamba2_layer,
};

/* ---- Bamba -------------------------------------------------------------------------------------- */

static void bamba_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "hidden_act other than silu is not supported");
    clef__json_partial_rope(f, hp, 10000, 0.5);
    clef__json_mamba(f, hp, &clef__mamba_usual_keys);
    clef__linear_but(hp, clef__json_get(f, "attn_layer_indices"));
}

const clef_arch clef__arch_bamba = {
    .names = bamba_names,
    .written_as = "granitehybrid",
    .weights = {.hf = bamba_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .gguf_varied = varied,
    .joins = clef__mamba_joins,
    .read_json = bamba_read_json,
    .layer = clef__mamba_layer,
};

/* ---- Nemotron-H --------------------------------------------------------------------------------- */

/* The least step of a scan, for which GGUF has no key. */
static const double NEMOTRON_LEAST_STEP = 1e-3;

/* What a layer is follows from its weights. */
static clef_value *nemotron_layer(clef_builder *b, clef_value *x)
{
    if (clef__layer_is_linear(b->hp, b->layer))
        return clef__one_block(b, x, clef__mamba);
    if (clef__has_weight(b, CLEF_W_ATTN_Q, "weight"))
        return clef__one_block(b, x, clef__layer_attention);
    return clef__one_block(b, x,
                           b->hp->n_experts > 0 && clef__has_weight(b, CLEF_W_ROUTER, "weight")
                               ? clef__experts_or_gated
                               : clef__feed_forward);
}

/* layers_block_type (layer_types), or the older pattern with a letter for each layer. */
static void nemotron_read_layers(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *types = clef__json_get(f, "layers_block_type");
    const char *pattern = clef__json_string(f, "hybrid_override_pattern", "");
    if (!json_is_array(types))
        types = clef__json_get(f, "layer_types");
    const size_t n = json_is_array(types) ? json_array_size(types) : strlen(pattern);
    clef__json_get(f, "num_hidden_layers");
    if (n < 1 || n > CLEF_MAX_LAYERS) {
        clef__json_refuse(f, "layers_block_type or hybrid_override_pattern is needed, for 1 to 1024 layers");
        return;
    }
    hp->n_layers = (int32_t)n;
    for (int32_t i = 0; i < hp->n_layers; i++) {
        const char *type = json_is_array(types) ? json_string_value(json_array_get(types, (size_t)i)) : NULL;
        if (type ? strcmp(type, "mamba") == 0 || strcmp(type, "linear_attention") == 0
                 : !json_is_array(types) && pattern[i] == 'M')
            clef__set_linear(hp, i);
    }
}

static void nemotron_read_experts(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_experts(f, hp, "n_routed_experts", 8, 2);
    hp->d_ff_expert = (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, 7688);
    hp->d_ff_shared =
        (int32_t)clef__json_int(f, "moe_shared_expert_intermediate_size", 1, CLEF_MAX_WIDTH, 7688);
    hp->expert_scale = (float)clef__json_double(f, "routed_scaling_factor", 1e-6, 1e6, 1);
    hp->n_expert_groups = (int32_t)clef__json_int(f, "n_group", 1, CLEF_MAX_EXPERTS, 1);
    hp->n_groups_used = (int32_t)clef__json_int(f, "topk_group", 1, CLEF_MAX_EXPERTS, 1);
    hp->router = clef__json_bool(f, "norm_topk_prob", 1) ? CLEF_ROUTER_SIGMOID_NORMED : CLEF_ROUTER_SIGMOID;
    if (clef__json_has(f, "moe_latent_size"))
        clef__json_refuse(f, "moe_latent_size is not supported");
}

static void nemotron_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_mamba_keys keys = {"mamba_num_heads",
                                         "mamba_head_dim",
                                         "n_groups",
                                         "ssm_state_size",
                                         "conv_kernel",
                                         "expand",
                                         64,
                                         8,
                                         128};
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH, 21504);
    hp->n_heads = (int32_t)clef__json_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS, 32);
    hp->n_kv_heads = (int32_t)clef__json_int(f, "num_key_value_heads", 1, CLEF_MAX_HEADS, 8);
    hp->head_dim = (int32_t)clef__json_int(f, "head_dim", 1, CLEF_MAX_HEAD_DIM, 128);
    hp->n_context = (int32_t)clef__json_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT, 4096);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "mamba_hidden_act", "silu");
    if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "mamba_hidden_act other than silu is not supported");
    clef__json_activation(f, hp, "mlp_hidden_act", "relu2");
    nemotron_read_layers(f, hp);
    nemotron_read_experts(f, hp);
    clef__json_mamba(f, hp, &keys);
    /* Its class bounds the steps by this key alone. */
    const char *least = clef__json_get(f, "mamba_dt_min") ? "mamba_dt_min" : "time_step_min";
    hp->scan_min = (float)clef__json_double(f, least, 0, 1e6, NEMOTRON_LEAST_STEP);
    hp->scan_max = 0;
}

static void nemotron_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_mamba(k, hp);
    for (int32_t i = 0; i < hp->n_layers && k->status == CLEF_OK; i++) {
        const int32_t heads = clef__key_of_layer(k, "attention.head_count_kv", i, 0, CLEF_MAX_HEADS),
                      width = clef__key_of_layer(k, "feed_forward_length", i, 0, CLEF_MAX_WIDTH);
        hp->n_kv_heads = heads ? heads : hp->n_kv_heads;
        hp->d_ff = width ? width : hp->d_ff;
        if (!heads && !width)
            clef__set_linear(hp, i);
    }
    hp->scan_min = (float)NEMOTRON_LEAST_STEP;
    hp->rope = (clef_rope_params){0};
    hp->router = clef__key_router(k, CLEF_ROUTER_SIGMOID_NORMED);
    hp->d_ff_shared = clef__key_int(k, "expert_shared_feed_forward_length", 0, CLEF_MAX_WIDTH, 0);
    clef__key_int(k, "expert_shared_count", 0, CLEF_MAX_EXPERTS, 1); /* that width is of all together */
}

const clef_arch clef__arch_nemotron_h = {
    .names = nemotron_names,
    .weights = {.hf = nemotron_weights, .gguf = gguf_names},
    .hf_prefix = "backbone.",
    .gguf_varied = varied,
    .gguf_activation = CLEF_RELU2,
    .joins = clef__mamba_joins,
    .read_json = nemotron_read_json,
    .read_gguf = nemotron_read_gguf,
    .layer = nemotron_layer,
};
