/* Mamba 1 (arXiv:2312.00752), Falcon Mamba (2410.05355), which norms step, b and c, and Jamba (2403.19887),
 * in which some layers are attention without positions, and some feed-forwards have experts. */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias mamba_names[] = {
    {"mamba", "mamba", 0, 0}, {"falcon_mamba", NULL, 0, 0}, {NULL, NULL, 0, 0}};
static const clef_arch_alias jamba_names[] = {{"jamba", "jamba", 1, 2}, {NULL, NULL, 0, 0}};
static const char *const varied[] = {"attention.head_count_kv", NULL};
static const clef_gguf_name gguf_names[] = {{CLEF_W_LINEAR_RATES, "blk.%d.ssm_a/"}, {0, NULL}};

#define MIXER(mixer)                                                                                         \
    [CLEF_W_SCAN_IN] = "layers.%d." mixer ".in_proj", [CLEF_W_LINEAR_CONV] = "layers.%d." mixer ".conv1d",   \
    [CLEF_W_SCAN_X] = "layers.%d." mixer ".x_proj", [CLEF_W_SCAN_STEP] = "layers.%d." mixer ".dt_proj",      \
    [CLEF_W_LINEAR_RATES] = "layers.%d." mixer ".rates", [CLEF_W_SCAN_SKIP] = "layers.%d." mixer ".D",       \
    [CLEF_W_LINEAR_OUT] = "layers.%d." mixer ".out_proj"

static const char *const mamba_weights[CLEF_N_ROLES] = {
    MIXER("mixer"),
    [CLEF_W_EMBED] = "embeddings",
    [CLEF_W_OUT_NORM] = "norm_f",
    [CLEF_W_OUT] = "/lm_head",
    [CLEF_W_ATTN_NORM] = "layers.%d.norm",
};

static const char *const jamba_weights[CLEF_N_ROLES] = {
    MIXER("mamba"),
    [CLEF_W_SCAN_STEP_NORM] = "layers.%d.mamba.dt_layernorm",
    [CLEF_W_SCAN_B_NORM] = "layers.%d.mamba.b_layernorm",
    [CLEF_W_SCAN_C_NORM] = "layers.%d.mamba.c_layernorm",
    CLEF_HF_HYBRID,
    [CLEF_W_ROUTER] = "layers.%d.feed_forward.router",
    [CLEF_W_EXPERT_GATE] = "layers.%d.feed_forward.experts.*.gate_proj",
    [CLEF_W_EXPERT_UP] = "layers.%d.feed_forward.experts.*.up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.feed_forward.experts.*.down_proj",
};

/* ---- configuration ------------------------------------------------------------------------------ */

/* A rank, or "auto": a sixteenth of the width. */
static void read_sizes(clef_json_fields *f, clef_hparams *hp, const char *rank_key, int64_t inner)
{
    const json_t *rank = clef__json_get(f, rank_key);
    const int is_auto = !rank || (json_is_string(rank) && strcmp(json_string_value(rank), "auto") == 0);
    const int32_t missing = (hp->d_model + 15) / 16;
    const int64_t n = is_auto ? missing : clef__json_need_int(f, rank_key, 1, CLEF_MAX_WIDTH);
    if (f->status == CLEF_OK && inner > CLEF_MAX_HEAD_DIM)
        clef__json_refuse(f, "more than 16384 channels of the scan are not supported");
    clef__set_mamba1(hp, (int32_t)inner, (int32_t)n);
}

static void need_silu(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_activation(f, hp, "hidden_act", "silu");
    if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "hidden_act other than silu is not supported");
}

static void mamba_read_json(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS);
    hp->n_context = 1 << 20; /* it has no positions; llama.cpp's converter writes this, too */
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->linear_k_dim = (int32_t)clef__json_int(f, "state_size", 1, CLEF_MAX_HEAD_DIM, 16);
    hp->linear_taps = (int32_t)clef__json_int(f, "conv_kernel", 2, 16, 4);
    if (strcmp(hp->arch, "falcon_mamba") == 0)
        hp->scan_norm_eps = (float)clef__json_double(f, "mixer_rms_eps", 1e-30, 1, 1e-6);
    need_silu(f, hp);
    clef__json_refuse_flag(f, "rescale_prenorm_residual", 0, 0); /* transformers divides the loaded weights */
    const int64_t expanded = clef__json_int(f, "expand", 1, 1024, 2) * hp->d_model;
    read_sizes(f, hp, "time_step_rank", clef__json_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH, expanded));
    clef__all_linear(hp);
}

static void jamba_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = hp->scan_norm_eps = (float)clef__json_double(f, "rms_norm_eps", 1e-30, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    hp->linear_k_dim = (int32_t)clef__json_int(f, "mamba_d_state", 1, CLEF_MAX_HEAD_DIM, 16);
    hp->linear_taps = (int32_t)clef__json_int(f, "mamba_d_conv", 2, 16, 4);
    need_silu(f, hp);
    clef__json_experts(f, hp, "num_experts", 16, 2);
    hp->d_ff_expert = hp->d_ff;
    hp->rope = (clef_rope_params){0};
    read_sizes(f, hp, "mamba_dt_rank", clef__json_int(f, "mamba_expand", 1, 1024, 2) * hp->d_model);
    const int64_t period = clef__json_int(f, "attn_layer_period", 1, CLEF_MAX_LAYERS, 8),
                  offset = clef__json_int(f, "attn_layer_offset", 0, CLEF_MAX_LAYERS, 4);
    for (int32_t i = 0; i < hp->n_layers; i++)
        if (i % period != offset)
            clef__set_linear(hp, i);
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const int32_t inner = clef__key_int(k, "ssm.inner_size", 1, CLEF_MAX_HEAD_DIM, CLEF_KEY_NEEDED),
                  rank = clef__key_int(k, "ssm.time_step_rank", 1, CLEF_MAX_WIDTH, CLEF_KEY_NEEDED);
    hp->linear_taps = clef__key_int(k, "ssm.conv_kernel", 2, 16, CLEF_KEY_NEEDED);
    hp->linear_k_dim = clef__key_int(k, "ssm.state_size", 1, CLEF_MAX_HEAD_DIM, CLEF_KEY_NEEDED);
    clef__set_mamba1(hp, inner, rank);
}

static void mamba_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    read_gguf(k, hp);
    hp->scan_norm_eps = clef__key_int(k, "ssm.dt_b_c_rms", 0, 1, 0) ? hp->norm_eps : 0;
    clef__all_linear(hp);
}

static void jamba_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    read_gguf(k, hp);
    hp->scan_norm_eps = hp->norm_eps;
    hp->rope = (clef_rope_params){0};
    clef__key_linear_layers(k, hp);
}

/* ---- the families ------------------------------------------------------------------------------- */

static clef_value *mamba_layer(clef_builder *b, clef_value *x)
{
    return clef__one_block(b, x, clef__mamba);
}

const clef_arch clef__arch_mamba = {
    .names = mamba_names,
    .weights = {.hf = mamba_weights, .gguf = gguf_names},
    .hf_prefix = "backbone.",
    .joins = clef__mamba_joins,
    .read_json = mamba_read_json,
    .read_gguf = mamba_read_gguf,
    .layer = mamba_layer,
};

const clef_arch clef__arch_jamba = {
    .names = jamba_names,
    .weights = {.hf = jamba_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .gguf_varied = varied,
    .joins = clef__mamba_joins,
    .read_json = jamba_read_json,
    .read_gguf = jamba_read_gguf,
    .layer = clef__mamba_layer,
};
