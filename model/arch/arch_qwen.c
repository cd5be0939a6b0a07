/* Qwen2 (arXiv:2407.10671) is a Llama with biases of q, k and v; Qwen3 (arXiv:2505.09388) has norms of each
 * head's q and k. The larger ones have experts. */
#include <string.h>

#include "model/arch/layers.h"

/* GGUF does not reorder the halves of Qwen's heads. */
static const clef_arch_alias qwen_names[] = {
    {"qwen2", "qwen2", -1, -1},
    {"qwen3", "qwen3", -1, -1},
    {"qwen3_moe", "qwen3moe", -1, -1},
    {NULL, NULL, 0, 0},
};

/* An expert of all tokens, with a weight of its own. */
static const clef_arch_alias qwen2_moe_names[] = {{"qwen2_moe", "qwen2moe", -1, -1}, {NULL, NULL, 0, 0}};

/* The text models of those that see pictures. In texts all parts of their RoPE have the token's position. */
static const clef_arch_alias qwen2_vl_names[] = {
    {"qwen2_vl_text", "qwen2vl", 151643, 151645},
    {"qwen2_5_vl_text", NULL, 151643, 151645},
    {"qwen2_vl", NULL, 151643, 151645},
    {"qwen2_5_vl", NULL, 151643, 151645},
    {NULL, NULL, 0, 0},
};
static const clef_arch_alias qwen3_vl_names[] = {{"qwen3_vl_text", "qwen3vl", -1, -1}, {NULL, NULL, 0, 0}};
static const clef_arch_alias qwen3_vl_moe_names[] = {{"qwen3_vl_moe_text", "qwen3vlmoe", -1, -1},
                                                     {NULL, NULL, 0, 0}};

static const char *const qwen2_moe_weights[CLEF_N_ROLES] = {CLEF_HF_DECODER,
                                                            CLEF_HF_GATED_MLP,
                                                            [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
                                                            CLEF_HF_EXPERTS,
                                                            CLEF_HF_SHARED_EXPERT("shared_expert"),
                                                            [CLEF_W_SHARED_ROUTER] =
                                                                "layers.%d.mlp.shared_expert_gate"};

static const char *const qwen3_vl_moe_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
    [CLEF_W_EXPERT_GATE] = "layers.%d.mlp.experts.gate_proj",
    [CLEF_W_EXPERT_UP] = "layers.%d.mlp.experts.up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.mlp.experts.down_proj"};

/* Gate and up are one tensor for all experts. */
static const clef_join_rule qwen3_vl_moe_joins[] = {
    {&clef__join_half, ".experts.gate_up_proj", ".experts.down_proj", ".experts.gate_proj.weight", 0, 2},
    {&clef__join_half, ".experts.gate_up_proj", ".experts.down_proj", ".experts.up_proj.weight", 1, 2},
    {&clef__join_down, ".experts.down_proj", ".experts.gate_up_proj", ".experts.down_proj.weight", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0}};

/* Qwen 2 and 3: a switch, and the first layer with the window unless the file lists the types of layers. */
static void qwen_read_window(clef_json_fields *f, clef_hparams *hp, int32_t missing)
{
    const int32_t first = (int32_t)clef__json_int(f, "max_window_layers", 0, INT32_MAX, missing);
    if (clef__json_bool(f, "use_sliding_window", 0))
        clef__json_window(f, hp, 4096);
    if (!clef__json_layer_types(f, hp, NULL) && hp->sliding_window > 0)
        clef__slide_layers(hp, first, 1);
}

static void refuse_dense_layers(clef_json_fields *f)
{
    if (clef__json_int(f, "decoder_sparse_step", 1, CLEF_MAX_LAYERS, 1) != 1)
        clef__json_refuse(f, "decoder_sparse_step other than 1 is not supported");
    if (json_array_size(clef__json_get(f, "mlp_only_layers")) > 0)
        clef__json_refuse(f, "mlp_only_layers is not supported");
}

static void qwen_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 10000);
    if (strcmp(hp->arch, "qwen3_moe") != 0) {
        qwen_read_window(f, hp, 28);
        return;
    }
    if (clef__json_bool(f, "use_sliding_window", 0))
        clef__json_window_everywhere(f, hp, 4096);
    clef__json_experts(f, hp, "num_experts", 128, 8);
    hp->d_ff_expert = (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, 768);
    hp->router = clef__json_bool(f, "norm_topk_prob", 0) ? CLEF_ROUTER_NORMED : CLEF_ROUTER_ALL;
    refuse_dense_layers(f);
}

static void qwen2_vl_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 1000000);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    qwen_read_window(f, hp, 80);
}

static void qwen3_vl_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 500000);
}

static void qwen3_vl_moe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 500000);
    clef__json_experts(f, hp, "num_experts", 60, 4);
    hp->d_ff_expert = (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, 1408);
    hp->router = CLEF_ROUTER_NORMED;
    refuse_dense_layers(f);
}

const clef_arch clef__arch_qwen = {
    .names = qwen_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .read_json = qwen_read_json,
    .read_gguf = clef__llama_read_gguf,
    .layer = clef__llama_layer,
};

const clef_arch clef__arch_qwen2_vl = {
    .names = qwen2_vl_names,
    .written_as = "qwen2vl",
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .read_json = qwen2_vl_read_json,
    .layer = clef__llama_layer,
};

const clef_arch clef__arch_qwen3_vl = {
    .names = qwen3_vl_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .read_json = qwen3_vl_read_json,
    .layer = clef__llama_layer,
};

const clef_arch clef__arch_qwen3_vl_moe = {
    .names = qwen3_vl_moe_names,
    .weights = {.hf = qwen3_vl_moe_weights},
    .hf_prefix = "model.",
    .joins = qwen3_vl_moe_joins,
    .read_json = qwen3_vl_moe_read_json,
    .read_gguf = clef__llama_read_gguf,
    .layer = clef__llama_layer,
};

/* Unless the file lists the types of layers, every second one of the first has the window. */
static void qwen2_moe_read_json(clef_json_fields *f, clef_hparams *hp)
{
    const int32_t first = (int32_t)clef__json_int(f, "max_window_layers", 0, INT32_MAX, 28);
    const int slides = clef__json_bool(f, "use_sliding_window", 0);
    clef__json_llama(f, hp, 10000);
    if (slides)
        clef__json_window(f, hp, 4096);
    if (!clef__json_layer_types(f, hp, NULL))
        for (int32_t i = 0; slides && i < hp->n_layers && i < first; i += 2)
            hp->sliding_layers[i / 32] |= 1u << (i % 32);
    clef__json_experts(f, hp, "num_experts", 60, 4);
    hp->d_ff_expert = (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, 1408);
    hp->d_ff_shared = (int32_t)clef__json_int(f, "shared_expert_intermediate_size", 1, CLEF_MAX_WIDTH, 5632);
    hp->router = clef__json_bool(f, "norm_topk_prob", 0) ? CLEF_ROUTER_NORMED : CLEF_ROUTER_ALL;
    refuse_dense_layers(f);
}

static void qwen2_moe_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->router = clef__key_router(k, CLEF_ROUTER_ALL);
    hp->d_ff_shared = clef__key_int(k, "expert_shared_feed_forward_length", 1, CLEF_MAX_WIDTH, hp->d_ff);
}

const clef_arch clef__arch_qwen2_moe = {
    .names = qwen2_moe_names,
    .weights = {.hf = qwen2_moe_weights},
    .hf_prefix = "model.",
    .read_json = qwen2_moe_read_json,
    .read_gguf = qwen2_moe_read_gguf,
    .layer = clef__llama_layer,
};
