/* Granite (IBM 2024) scales embeddings, scores, the blocks' results, and logits. */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias granite_moe_names[] = {
    {"granitemoe", "granitemoe", 1, 2}, {"granitemoeshared", NULL, 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias granite_names[] = {{"granite", "granite", 1, 2}, {NULL, NULL, 0, 0}};

static const clef_arch_alias granite_hybrid_names[] = {{"granitemoehybrid", "granitehybrid", 1, 2},
                                                       {NULL, NULL, 0, 0}};

static void granite_read_json(clef_json_fields *f, clef_hparams *hp)
{
    const double least = 1e-9, most = 1e9;
    clef__json_llama(f, hp, 10000);
    hp->embed_scale = (float)clef__json_double(f, "embedding_multiplier", least, most, 1);
    hp->residual_scale = (float)clef__json_double(f, "residual_multiplier", least, most, 1);
    hp->attention_scale = (float)clef__json_double(f, "attention_multiplier", least, most, 1);
    hp->logit_scale = (float)(1 / clef__json_double(f, "logits_scaling", least, most, 1));
}

static void granite_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    if (!clef__key_int(k, "rope.scaling.finetuned", 0, 1, 1)) /* Granite's switch for RoPE */
        hp->rope.dims = 0;
    clef__key_int(k, "ssm.conv_kernel", 0, 16, 0); /* Granite 4 without Mamba's layers has its keys, too */
    if (hp->logit_scale > 0)                       /* Granite's divides */
        hp->logit_scale = 1 / hp->logit_scale;
}

/* The feed-forward of Granite 4 without experts or Mamba's layers is its shared expert. */
static void granite_dense_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    granite_read_gguf(k, hp);
    hp->d_ff = clef__key_int(k, "expert_shared_feed_forward_length", 1, CLEF_MAX_WIDTH, hp->d_ff);
}

const clef_arch clef__arch_granite = {
    .names = granite_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .read_json = granite_read_json,
    .read_gguf = granite_dense_read_gguf,
    .layer = clef__llama_layer,
};

/* ---- with experts ---------------------------------------------------------------------------- */

#define EXPERTS                                                                                              \
    [CLEF_W_ROUTER] = "layers.%d.block_sparse_moe.router.layer",                                             \
    [CLEF_W_EXPERT_GATE] = "layers.%d.block_sparse_moe.gate_linear",                                         \
    [CLEF_W_EXPERT_UP] = "layers.%d.block_sparse_moe.up_linear",                                             \
    [CLEF_W_EXPERT_DOWN] = "layers.%d.block_sparse_moe.output_linear",                                       \
    [CLEF_W_SHARED_GATE] = "layers.%d.shared_mlp.gate_linear",                                               \
    [CLEF_W_SHARED_UP] = "layers.%d.shared_mlp.up_linear",                                                   \
    [CLEF_W_SHARED_DOWN] = "layers.%d.shared_mlp.output_linear"
static const char *const granite_moe_weights[CLEF_N_ROLES] = {CLEF_HF_DECODER, EXPERTS};

#define IN "block_sparse_moe.input_linear.weight"
#define OUT "block_sparse_moe.output_linear.weight"
#define EXPERT_JOINS                                                                                         \
    {&clef__join_half, IN, OUT, "block_sparse_moe.gate_linear.weight", 0, 2},                                \
        {&clef__join_half, IN, OUT, "block_sparse_moe.up_linear.weight", 1, 2},                              \
        {&clef__join_rows, "shared_mlp.input_linear.weight", NULL, "shared_mlp.gate_linear.weight", 0, 2},   \
    {                                                                                                        \
        &clef__join_rows, "shared_mlp.input_linear.weight", NULL, "shared_mlp.up_linear.weight", 1, 2        \
    }
static const clef_join_rule granite_moe_joins[] = {EXPERT_JOINS, {NULL, NULL, NULL, NULL, 0, 0}};

static void granite_moe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    granite_read_json(f, hp);
    clef__json_experts(f, hp, "num_local_experts", 8, 2);
    hp->d_ff_expert = hp->d_ff;
    hp->d_ff_shared = (int32_t)clef__json_int(f, "shared_intermediate_size", 0, CLEF_MAX_WIDTH, 0);
    hp->router = CLEF_ROUTER_CHOSEN;
    if (strcmp(hp->arch, "granitemoe") == 0)
        hp->d_ff_shared = 0;
}

static void granite_moe_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    granite_read_gguf(k, hp);
    hp->router = CLEF_ROUTER_CHOSEN;
    hp->d_ff_shared = clef__key_int(k, "expert_shared_feed_forward_length", 0, CLEF_MAX_WIDTH, 0);
}

const clef_arch clef__arch_granite_moe = {
    .names = granite_moe_names,
    .weights = {.hf = granite_moe_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .joins = granite_moe_joins,
    .read_json = granite_moe_read_json,
    .read_gguf = granite_moe_read_gguf,
    .layer = clef__llama_layer,
};

/* ---- Granite 4: most layers are Mamba 2's ------------------------------------------------------- */

static const clef_gguf_name granite_hybrid_gguf[] = {CLEF_GGUF_MAMBA, {0, NULL}};
static const char *const granite_varied[] = {"attention.head_count_kv", NULL};

/* Without experts the shared expert is the feed-forward. */
static const char *const granite_hybrid_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_MAMBA("mamba"),
    EXPERTS,
    [CLEF_W_FFN_GATE] = "layers.%d.shared_mlp.gate_linear",
    [CLEF_W_FFN_UP] = "layers.%d.shared_mlp.up_linear",
    [CLEF_W_FFN_DOWN] = "layers.%d.shared_mlp.output_linear"};

static const clef_join_rule granite_hybrid_joins[] = {
    EXPERT_JOINS, {&clef__join_rates, ".A_log", NULL, ".rates", 0, 1}, {NULL, NULL, NULL, NULL, 0, 0}};

static void granite_hybrid_read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const mambas[] = {"mamba", "linear_attention", NULL};
    const char *positions = clef__json_string(f, "position_embedding_type", "");
    granite_read_json(f, hp);
    hp->n_experts = (int32_t)clef__json_int(f, "num_local_experts", 0, CLEF_MAX_EXPERTS, 8);
    hp->n_experts_used = (int32_t)clef__json_int(f, "num_experts_per_tok", 0, CLEF_MAX_EXPERTS_USED, 2);
    hp->d_ff_shared = (int32_t)clef__json_int(f, "shared_intermediate_size", 1, CLEF_MAX_WIDTH, 1024);
    hp->d_ff_expert = hp->d_ff;
    hp->router = CLEF_ROUTER_CHOSEN;
    if (hp->n_experts == 0) {
        hp->d_ff = hp->d_ff_shared;
        hp->n_experts_used = hp->d_ff_shared = hp->d_ff_expert = 0;
    } else if (hp->n_experts_used == 0) {
        clef__json_refuse(f, "num_experts_per_tok 0 is not supported");
    }
    if (!positions || strcmp(positions, "rope") != 0)
        hp->rope.dims = 0;
    clef__json_mamba(f, hp, &clef__mamba_usual_keys);
    if (!clef__json_linear_layers(f, hp, mambas))
        for (int32_t i = 0; i < hp->n_layers; i++)
            clef__set_linear(hp, i);
    int32_t n_linear = 0;
    for (int32_t i = 0; i < hp->n_layers; i++)
        n_linear += clef__layer_is_linear(hp, i);
    if (n_linear == 0)
        hp->linear_taps = 0; /* no layer has a memory */
    else if (hp->activation != CLEF_SILU)
        clef__json_refuse(f, "hidden_act other than silu is not supported: Mamba's layers have it, too");
}

static void granite_hybrid_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    granite_moe_read_gguf(k, hp);
    clef__key_mamba(k, hp);
    clef__key_linear_layers(k, hp);
    if (hp->n_experts == 0)
        hp->d_ff_shared = 0;
}

const clef_arch clef__arch_granite_hybrid = {
    .names = granite_hybrid_names,
    .weights = {.hf = granite_hybrid_weights, .gguf = granite_hybrid_gguf},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .gguf_varied = granite_varied,
    .joins = granite_hybrid_joins,
    .read_json = granite_hybrid_read_json,
    .read_gguf = granite_hybrid_read_gguf,
    .layer = clef__mamba_layer,
};
