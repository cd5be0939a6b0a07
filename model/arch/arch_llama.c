/* Llama (arXiv:2302.13971, 2307.09288, 2407.21783) and models like it: RMS norm, rotary positions,
 * grouped-query attention, SwiGLU. Mistral (arXiv:2310.06825) adds a sliding window, Mixtral
 * (arXiv:2401.04088) experts. What a file has decides. */
#include <inttypes.h>
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias llama_names[] = {
    {"llama", "llama", 1, 2},
    {"mistral", NULL, 1, 2},
    {NULL, NULL, 0, 0},
};
static const clef_arch_alias mixtral_names[] = {{"mixtral", NULL, 1, 2},
                                                {NULL, NULL, 0, 0}}; /* GGUF's llama */

/* SmolLM3 (Hugging Face 2025) has no positions in every fourth layer. */
static const clef_arch_alias smollm3_names[] = {{"smollm3", "smollm3", 128000, 128001}, {NULL, NULL, 0, 0}};

const char *const clef__llama_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ROUTER] = "layers.%d.mlp.gate",
    [CLEF_W_EXPERT_GATE] = "layers.%d.mlp.experts.*.gate_proj",
    [CLEF_W_EXPERT_UP] = "layers.%d.mlp.experts.*.up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.mlp.experts.*.down_proj"};

const char *const clef__mixtral_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER, [CLEF_W_ROUTER] = "layers.%d.block_sparse_moe.gate",
    [CLEF_W_EXPERT_GATE] = "layers.%d.block_sparse_moe.experts.*.w1",
    [CLEF_W_EXPERT_UP] = "layers.%d.block_sparse_moe.experts.*.w3",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.block_sparse_moe.experts.*.w2"};

clef_value *clef__llama_layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__experts_or_gated);
}

void clef__json_llama_with(clef_json_fields *f, clef_hparams *hp, double theta, double eps, double partial)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, eps);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    if (partial > 0)
        clef__json_partial_rope(f, hp, theta, partial);
    else
        clef__json_rope(f, hp, theta);
}

void clef__json_llama(clef_json_fields *f, clef_hparams *hp, double theta)
{
    clef__json_llama_with(f, hp, theta, 1e-6, 0);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 10000);
    if (strcmp(hp->arch, "mistral") != 0)
        return;
    clef__json_layer_types(f, hp, NULL);
    for (int32_t i = 0; i < hp->n_layers && clef__json_has(f, "layer_types"); i++)
        if (!clef__layer_slides(hp, i) && clef__json_has(f, "sliding_window"))
            clef__json_refuse(f, "layer_types: a mistral has the sliding window in every layer");
    memset(hp->sliding_layers, 0, sizeof hp->sliding_layers);
    clef__json_window_everywhere(f, hp, 4096);
}

static void mixtral_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 1000000);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    clef__json_window_everywhere(f, hp, 0);
    clef__json_experts(f, hp, "num_local_experts", 8, 2);
    hp->d_ff_expert = hp->d_ff;
    hp->router = CLEF_ROUTER_NORMED;
}

/* A llama file with experts is a Mixtral; Qwen's experts are weighted in the same way. */
void clef__llama_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->router = CLEF_ROUTER_NORMED;
}

const clef_arch clef__arch_llama = {
    .names = llama_names,
    .written_as = "llama",
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .read_json = read_json,
    .read_gguf = clef__llama_read_gguf,
    .layer = clef__llama_layer,
};

const clef_arch clef__arch_mixtral = {
    .names = mixtral_names,
    .written_as = "llama",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .weights = {.hf = clef__mixtral_weights},
    .hf_prefix = "model.",
    .read_json = mixtral_read_json,
    .layer = clef__llama_layer,
};

enum { NO_ROPE_STEP = 4 };

void clef__leave_rope(clef_hparams *hp, int32_t step)
{
    for (int32_t i = step - 1; i < hp->n_layers; i += step)
        hp->no_rope_layers[i / 32] |= 1u << (i % 32);
}

/* no_rope_layers: 1 with RoPE, 0 without. */
void clef__json_rope_layers(clef_json_fields *f, clef_hparams *hp)
{
    const int32_t step =
        (int32_t)clef__json_int(f, "no_rope_layer_interval", 1, CLEF_MAX_LAYERS, NO_ROPE_STEP);
    const json_t *list = clef__json_get(f, "no_rope_layers");
    if (!list || json_is_null(list) ||
        (json_is_array(list) && !json_array_size(list) && strcmp(hp->arch, "smollm3") != 0)) {
        clef__leave_rope(hp, step);
        return;
    }
    if (f->status == CLEF_OK && (int64_t)json_array_size(list) < hp->n_layers)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: no_rope_layers: expected %" PRId32 " numbers",
                               f->file, hp->n_layers);
    for (int32_t i = 0; i < hp->n_layers && f->status == CLEF_OK; i++) {
        const json_t *is = json_array_get(list, (size_t)i);
        if (!json_is_integer(is))
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: no_rope_layers has no number for layer %d",
                                   f->file, i);
        else if (json_integer_value(is) == 0)
            hp->no_rope_layers[i / 32] |= 1u << (i % 32);
    }
}

/* Unless the file lists types of layers, those without RoPE have the window. */
static void smollm3_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 2000000);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_rope_layers(f, hp);
    clef__json_window(f, hp, 0);
    if (clef__json_layer_types(f, hp, NULL))
        return;
    if (clef__json_bool(f, "use_sliding_window", 0) && hp->sliding_window > 0)
        memcpy(hp->sliding_layers, hp->no_rope_layers, sizeof hp->sliding_layers);
}

static void smollm3_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    clef__leave_rope(hp, NO_ROPE_STEP);
}

const clef_arch clef__arch_smollm3 = {
    .names = smollm3_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .read_json = smollm3_read_json,
    .read_gguf = smollm3_read_gguf,
    .layer = clef__llama_layer,
};
