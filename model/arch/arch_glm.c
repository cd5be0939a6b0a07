/* GLM 4 (arXiv:2406.12793): RoPE of neighbouring dims in a half of each head, gate and up in one matrix.
 * GLM-4 0414 (Zhipu 2025) has norms of the blocks' results, too. */
#include "model/arch/layers.h"

static const clef_arch_alias glm_names[] = {{"glm", "chatglm", -1, 151329}, {NULL, NULL, 0, 0}};
static const clef_arch_alias glm4_names[] = {{"glm4", "glm4", -1, 151329}, {NULL, NULL, 0, 0}};

static const char *const glm_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER, [CLEF_W_FFN_UP] = "layers.%d.mlp.gate_up_proj",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.down_proj"};

static const char *const glm4_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER, [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_self_attn_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_mlp_layernorm", [CLEF_W_FFN_UP] = "layers.%d.mlp.gate_up_proj",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.down_proj"};

static const clef_gguf_name gguf_names[] = {{CLEF_W_ATTN_QKV, "blk.%d.attn_qkv"}, {0, NULL}};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__joint_gated_feed_forward);
}

/* null is the class's three ends, as is an absent key. */
static void read_ends(clef_json_fields *f, clef_hparams *hp)
{
    if (clef__json_has(f, "eos_token_id"))
        return;
    hp->eos = 151329;
    hp->eos_more[0] = 151336;
    hp->eos_more[1] = 151338;
    hp->n_eos_more = 2;
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    clef__json_llama_with(f, hp, 10000, 1.5625e-7, 0.5);
    read_ends(f, hp);
}

const clef_arch clef__arch_glm = {
    .names = glm_names,
    .weights = {.hf = glm_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .read_json = read_json,
    .layer = layer,
};

const clef_arch clef__arch_glm4 = {
    .names = glm4_names,
    .weights = {.hf = glm4_weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .read_json = read_json,
    .layer = layer,
};
