/* Gemma (arXiv:2403.08295): scaled embeddings, norms by 1 + weight, GELU gates. Gemma 2 (arXiv:2408.00118):
 * norms before and after blocks, capped scores and logits, a sliding window in every second layer. Gemma 3
 * (arXiv:2503.19786): norms of q and k, a sliding window in five of six layers, RoPE of its own for each kind
 * of layer. */
#include "model/arch/layers.h"
#include <math.h>
#include <string.h>

static const clef_arch_alias gemma_names[] = {{"gemma", "gemma", 2, 1}, {NULL, NULL, 0, 0}};
/* VaultGemma (arXiv:2510.15001): Gemma 2 without the norms of the blocks' results. */
static const clef_arch_alias vault_names[] = {{"vaultgemma", "vaultgemma", 2, 1}, {NULL, NULL, 0, 0}};
/* EmbeddingGemma (arXiv:2509.20354): Gemma 3 whose tokens see each other. The name is what its config.json
 * gets (model/open/wrapper.c). */
static const clef_arch_alias embedding_names[] = {{"gemma3_bidirectional", "gemma-embedding", 2, 1},
                                                  {NULL, NULL, 0, 0}};
static const clef_arch_alias gemma2_names[] = {
    {"gemma2", "gemma2", 2, 1}, {"gemma3_text", "gemma3", 2, 1}, {NULL, NULL, 0, 0}};

static const char *const gemma2_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_NORM] = "layers.%d.pre_feedforward_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_feedforward_layernorm"};

static const char *const vault_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD, CLEF_HF_ATTENTION,
    CLEF_HF_GATED_MLP, [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_FFN_NORM] = "layers.%d.pre_feedforward_layernorm"};

static clef_value *gemma_layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__gated_feed_forward);
}

/* Gemma 2 has the window in even layers, Gemma 3 in all but every sixth. */
static void default_windows(clef_hparams *hp)
{
    if (strncmp(hp->arch, "gemma3_", strlen("gemma3_")) != 0)
        clef__slide_layers(hp, 0, 2);
    else
        clef__slide_but(hp, -1, 6);
}

/* The first files of Gemma say "gelu" and mean its tanh form. */
static void read_activation(clef_json_fields *f, clef_hparams *hp)
{
    const int is_1 = strcmp(hp->arch, "gemma") == 0;
    const char *key = is_1 ? "hidden_act" : "hidden_activation";
    clef__json_activation(f, hp, key, "gelu_pytorch_tanh");
    if (is_1 && hp->activation == CLEF_GELU && strcmp(clef__json_string(f, key, ""), "gelu") == 0)
        hp->activation = CLEF_GELU_TANH;
}

/* A cap; null means none, and `missing` is the class's default. */
static float read_cap(clef_json_fields *f, const char *key, double missing)
{
    return clef__json_get(f, key) ? (float)clef__json_double(f, key, 1e-6, 1e6, 0) : (float)missing;
}

/* Gemma 3's list of layers, or every n-th layer with full attention before transformers 5. */
static void gemma3_read_layers(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_layer_ropes keys = {.full_key = "rope_theta",
                                          .sliding_key = "rope_local_base_freq",
                                          .full_theta = 1000000,
                                          .sliding_theta = 10000};
    const int32_t step = (int32_t)clef__json_int(f, "sliding_window_pattern", 1, CLEF_MAX_LAYERS, 6);
    clef__json_layer_ropes(f, hp, &keys);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_but(hp, -1, step);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    const int is_2 = strncmp(hp->arch, "gemma3_", strlen("gemma3_")) != 0;
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->embed_scale = (float)sqrt(hp->d_model);
    read_activation(f, hp);
    if (strcmp(hp->arch, "gemma3_bidirectional") != 0)
        clef__json_refuse_flag(f, "use_bidirectional_attention", 0, 0);
    if (strcmp(hp->arch, "gemma") == 0) {
        clef__json_rope(f, hp, 10000);
        return;
    }
    hp->attention_scale = (float)(1 / sqrt(clef__json_double(f, "query_pre_attn_scalar", 1e-6, 1e6, 256)));
    hp->attention_softcap = read_cap(f, "attn_logit_softcapping", is_2 ? 50 : 0);
    hp->logit_softcap = read_cap(f, "final_logit_softcapping", is_2 ? 30 : 0);
    clef__json_window(f, hp, 4096);
    if (!is_2) {
        if (hp->attention_softcap > 0)
            clef__json_refuse(f, "attn_logit_softcapping is not supported for gemma3_text");
        gemma3_read_layers(f, hp);
        return;
    }
    clef__json_rope(f, hp, 10000);
    if (!clef__json_layer_types(f, hp, NULL))
        default_windows(hp);
}

/* Before transformers 5, Gemma 3 had rope_local_base_freq, which GGUF files leave at its default too. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    enum { LAYERS_OF_27B = 46, LAYERS_OF_3_27B = 62, WINDOW_OF_2 = 4096 };
    const double local_theta = 10000;
    hp->embed_scale = (float)sqrt(hp->d_model);
    if (strcmp(hp->arch, "gemma") == 0)
        return;
    const int is_3 = strcmp(hp->arch, "gemma3") == 0 || strcmp(hp->arch, "gemma-embedding") == 0;
    if (!is_3 && !clef__key_has(k, "attention.sliding_window"))
        hp->sliding_window = WINDOW_OF_2;
    if (hp->sliding_window > 0)
        clef__key_windows(k, hp, -1, is_3 ? 6 : 2);
    if (hp->attention_scale == 0 &&
        hp->n_layers == (is_3 ? LAYERS_OF_3_27B : LAYERS_OF_27B)) /* the largest model scales by d / heads */
        hp->attention_scale = (float)(1 / sqrt((double)hp->d_model / hp->n_heads));
    if (is_3 && hp->sliding_window > 0)
        hp->rope_sliding =
            (clef_rope_params){.dims = hp->rope.dims,
                               .pairing = hp->rope.pairing,
                               .theta = clef__key_float(k, "rope.freq_base_swa", 1, 1e12, local_theta)};
}

#define GEMMA(family, list, table)                                                                           \
    const clef_arch clef__arch_##family = {.names = list,                                                    \
                                           .weights = {.hf = table},                                         \
                                           .hf_prefix = "model.",                                            \
                                           .hf_norm_offset = 1,                                              \
                                           .read_json = read_json,                                           \
                                           .read_gguf = read_gguf,                                           \
                                           .gguf_activation = CLEF_GELU_TANH,                                \
                                           .layer = gemma_layer};

GEMMA(gemma, gemma_names, clef__llama_weights)
GEMMA(gemma2, gemma2_names, gemma2_weights)
GEMMA(vaultgemma, vault_names, vault_weights)

/* ---- EmbeddingGemma --------------------------------------------------------------------------- */

static clef_value *embedding_build(clef_builder *b)
{
    clef_value *x = clef__layers(b, clef__embed(b), b->hp->n_layers, gemma_layer);
    x = clef_named(clef__norm(b, x, CLEF_W_OUT_NORM), "/hidden_last");
    return b->no_head ? x : clef__lm_head(b, x);
}

/* Both files state the whole window with its middle: a token sees half of it on each side. */
static void embedding_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_json(f, hp);
    hp->sliding_window = hp->sliding_window / 2 + 1;
}

static void embedding_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    read_gguf(k, hp);
    hp->sliding_window = hp->sliding_window > 0 ? hp->sliding_window / 2 + 1 : 0;
}

const clef_arch clef__arch_embedding_gemma = {
    .names = embedding_names,
    .kind = CLEF_ENCODER,
    .weights = {.hf = gemma2_weights},
    .hf_prefix = "model.",
    .hf_norm_offset = 1,
    .read_json = embedding_read_json,
    .read_gguf = embedding_read_gguf,
    .gguf_activation = CLEF_GELU_TANH,
    .build = embedding_build,
};
