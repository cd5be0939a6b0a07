/* gpt-oss (arXiv:2508.10925): experts with a clamped SwiGLU, attention sinks, a sliding window in every
 * second layer, YaRN. The experts' matrices are MXFP4 as blocks and scales, or [experts, in, out]; rows of
 * gate and up alternate in one matrix. */
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias gpt_oss_names[] = {{"gpt_oss", "gpt-oss", -1, -1}, {NULL, NULL, 0, 0}};

static const clef_gguf_name gguf_names[] = {{CLEF_W_FFN_NORM, "blk.%d.post_attention_norm"}, {0, NULL}};

static const char *const gpt_oss_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    [CLEF_W_ATTN_SINKS] = "layers.%d.self_attn.sinks",
    [CLEF_W_ROUTER] = "layers.%d.mlp.router",
    [CLEF_W_EXPERT_GATE] = "layers.%d.mlp.experts.*.gate_proj",
    [CLEF_W_EXPERT_UP] = "layers.%d.mlp.experts.*.up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.mlp.experts.*.down_proj"};

static const clef_join_rule gpt_oss_joins[] = {
    {&clef__join_mxfp4, ".gate_up_proj_blocks", ".gate_up_proj_scales", ".*.gate_proj.weight", 0, 2},
    {&clef__join_mxfp4, ".gate_up_proj_blocks", ".gate_up_proj_scales", ".*.up_proj.weight", 1, 2},
    {&clef__join_mxfp4, ".down_proj_blocks", ".down_proj_scales", ".*.down_proj.weight", 0, 1},
    {&clef__join_columns, ".experts.gate_up_proj", NULL, ".experts.*.gate_proj.weight", 0, 2},
    {&clef__join_columns, ".experts.gate_up_proj", NULL, ".experts.*.up_proj.weight", 1, 2},
    {&clef__join_columns, ".experts.down_proj", NULL, ".experts.*.down_proj.weight", 0, 1},
    {&clef__join_elements, ".gate_up_proj_bias", NULL, ".*.gate_proj.bias", 0, 2},
    {&clef__join_elements, ".gate_up_proj_bias", NULL, ".*.up_proj.bias", 1, 2},
    {&clef__join_elements, ".down_proj_bias", NULL, ".*.down_proj.bias", 0, 1},
    {NULL, NULL, NULL, NULL, 0, 0},
};

static clef_value *gated(clef_builder *b, clef_value *gate, clef_value *up)
{
    return clef_clamped_swiglu(
        b->g, gate, up, &(clef_clamped_swiglu_opts){.alpha = b->hp->glu_alpha, .limit = b->hp->glu_limit});
}

static clef_value *experts(clef_builder *b, clef_value *x)
{
    return clef__expert_sum(b, clef__linear(b, x, CLEF_W_ROUTER, b->hp->d_model, b->hp->n_experts), x, gated);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, experts);
}

/* The class scales by YaRN if the file says nothing. */
static void read_rope(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_rope(f, hp, 150000);
    if (clef__json_has(f, "rope_parameters") || json_object_size(clef__json_get(f, "rope_scaling")) > 0)
        return;
    hp->rope.type = CLEF_ROPE_YARN;
    hp->rope.factor = 32;
    hp->rope.beta_fast = 32;
    hp->rope.beta_slow = 1;
    hp->rope.original_context =
        (int32_t)clef__json_int(f, "original_max_position_embeddings", 1, CLEF_MAX_CONTEXT, 4096);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    const double most = 1e6;
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    read_rope(f, hp);
    clef__json_experts(f, hp, clef__json_has(f, "num_local_experts") ? "num_local_experts" : "num_experts",
                       128, 4);
    hp->d_ff_expert = hp->d_ff;
    hp->router = CLEF_ROUTER_CHOSEN;
    hp->glu_alpha = (float)clef__json_double(f, "swiglu_alpha", 0, most, 1.702);
    hp->glu_limit = (float)clef__json_double(f, "swiglu_limit", 0, most, 7);
    clef__json_window(f, hp, 128);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_layers(hp, 0, 2);
}

/* GGUF has no key for the fact that YaRN's range of dims is not rounded here. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->router = CLEF_ROUTER_CHOSEN;
    hp->glu_alpha = 1.702f;
    hp->glu_limit = 7;
    hp->rope.truncate = 0;
    clef__key_windows(k, hp, -1, 2);
    clef__key_int(k, "expert_gating_func", 3, 3, 3); /* a softmax over the chosen ones */
}

const clef_arch clef__arch_gpt_oss = {
    .names = gpt_oss_names,
    .weights = {.hf = gpt_oss_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .joins = gpt_oss_joins,
    .packed = "mxfp4",
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};
