/* Relatives of GPT-2: StarCoder (arXiv:2305.06161; one head of k and v), GPT-Neo (Black et al. 2021; a window
 * in every second layer, unscaled scores), BioGPT (arXiv:2210.10341), XGLM (arXiv:2112.10668; sinusoids),
 * Persimmon (Adept 2023; RoPE), CodeGen (arXiv:2203.13474; GPT-J's block) and MPT (MosaicML 2023; ALiBi). */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"

static const clef_arch_alias bigcode_names[] = {{"gpt_bigcode", "starcoder", 50256, 50256},
                                                {NULL, NULL, 0, 0}};
static const clef_arch_alias neo_names[] = {{"gpt_neo", "gpt_neo", 50256, 50256}, {NULL, NULL, 0, 0}};
static const clef_arch_alias biogpt_names[] = {{"biogpt", "biogpt", 0, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias xglm_names[] = {{"xglm", "xglm", 0, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias persimmon_names[] = {{"persimmon", "persimmon", 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias codegen_names[] = {{"codegen", NULL, 50256, 50256}, {NULL, NULL, 0, 0}};

static const clef_arch_alias mpt_names[] = {{"mpt", "mpt", 0, 0}, {NULL, NULL, 0, 0}};

#define GPT2_NAMES                                                                                           \
    [CLEF_W_EMBED] = "wte", [CLEF_W_POSITIONS] = "wpe", [CLEF_W_ATTN_NORM] = "h.%d.ln_1",                    \
    [CLEF_W_FFN_NORM] = "h.%d.ln_2", [CLEF_W_FFN_UP] = "h.%d.mlp.c_fc",                                      \
    [CLEF_W_FFN_DOWN] = "h.%d.mlp.c_proj", [CLEF_W_OUT_NORM] = "ln_f", [CLEF_W_OUT] = "lm_head"

static const char *const bigcode_weights[CLEF_N_ROLES] = {
    GPT2_NAMES, [CLEF_W_ATTN_QKV] = "h.%d.attn.c_attn", [CLEF_W_ATTN_OUT] = "h.%d.attn.c_proj"};

static const char *const neo_weights[CLEF_N_ROLES] = {
    GPT2_NAMES, [CLEF_W_ATTN_Q] = "h.%d.attn.attention.q_proj",
    [CLEF_W_ATTN_K] = "h.%d.attn.attention.k_proj", [CLEF_W_ATTN_V] = "h.%d.attn.attention.v_proj",
    [CLEF_W_ATTN_OUT] = "h.%d.attn.attention.out_proj"};

#define FAIRSEQ_NAMES                                                                                        \
    [CLEF_W_EMBED] = "embed_tokens", [CLEF_W_ATTN_NORM] = "layers.%d.self_attn_layer_norm",                  \
    [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj", [CLEF_W_ATTN_K] = "layers.%d.self_attn.k_proj",          \
    [CLEF_W_ATTN_V] = "layers.%d.self_attn.v_proj", [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.out_proj",      \
    [CLEF_W_FFN_NORM] = "layers.%d.final_layer_norm", [CLEF_W_FFN_UP] = "layers.%d.fc1",                     \
    [CLEF_W_FFN_DOWN] = "layers.%d.fc2", [CLEF_W_OUT_NORM] = "layer_norm"

static const char *const biogpt_weights[CLEF_N_ROLES] = {
    FAIRSEQ_NAMES, [CLEF_W_POSITIONS] = "embed_positions", [CLEF_W_OUT] = "output_projection"};
static const char *const xglm_weights[CLEF_N_ROLES] = {FAIRSEQ_NAMES, [CLEF_W_OUT] = "lm_head"};

static const char *const persimmon_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embed_tokens",
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_ATTN_QKV] = "layers.%d.self_attn.query_key_value",
    [CLEF_W_ATTN_Q_NORM] = "layers.%d.self_attn.q_layernorm",
    [CLEF_W_ATTN_K_NORM] = "layers.%d.self_attn.k_layernorm",
    [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.dense",
    [CLEF_W_FFN_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_UP] = "layers.%d.mlp.dense_h_to_4h",
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.dense_4h_to_h",
    [CLEF_W_OUT_NORM] = "final_layernorm",
    [CLEF_W_OUT] = "lm_head"};

static const char *const mpt_weights[CLEF_N_ROLES] = {[CLEF_W_EMBED] = "wte",
                                                      [CLEF_W_ATTN_NORM] = "blocks.%d.norm_1",
                                                      [CLEF_W_ATTN_QKV] = "blocks.%d.attn.Wqkv",
                                                      [CLEF_W_ATTN_OUT] = "blocks.%d.attn.out_proj",
                                                      [CLEF_W_FFN_NORM] = "blocks.%d.norm_2",
                                                      [CLEF_W_FFN_UP] = "blocks.%d.ffn.up_proj",
                                                      [CLEF_W_FFN_DOWN] = "blocks.%d.ffn.down_proj",
                                                      [CLEF_W_OUT_NORM] = "norm_f",
                                                      [CLEF_W_OUT] = "lm_head"};

static const clef_join_rule codegen_joins[] = {
    {&clef__join_shares, ".attn.qkv_proj.weight", NULL, ".attn.q_proj.weight", 0, 3},
    {&clef__join_shares, ".attn.qkv_proj.weight", NULL, ".attn.v_proj.weight", 1, 3},
    {&clef__join_shares, ".attn.qkv_proj.weight", NULL, ".attn.k_proj.weight", 2, 3},
    {NULL, NULL, NULL, NULL, 0, 0}};

/* ---- graphs ----------------------------------------------------------------------------------- */

static clef_value *learned_build(clef_builder *b)
{
    clef_value *x = clef_add(b->g, clef__embed(b), clef__learned_positions(b));
    return clef__decoder(b, clef__name_value(b, x, "embed.sum"), clef__plain_layer);
}

static clef_value *xglm_build(clef_builder *b)
{
    clef_value *x = clef_add(b->g, clef__embed(b), clef__sinusoidal_positions(b, b->hp->position_offset));
    return clef__decoder(b, clef__name_value(b, x, "embed.sum"), clef__plain_layer);
}

static clef_value *mpt_build(clef_builder *b)
{
    clef_value *x = clef__embed(b);
    clef__alibi(b);
    return clef__decoder(b, x, clef__plain_layer);
}

static clef_value *parallel_layer(clef_builder *b, clef_value *x)
{
    return clef__parallel_layer(b, x, clef__layer_attention, clef__feed_forward);
}

/* ---- configuration ---------------------------------------------------------------------------- */

static void without_rope(clef_gguf_keys *k, clef_hparams *hp)
{
    (void)k;
    hp->rope.dims = 0;
}

static void bigcode_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_gpt2_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "activation_function", "gelu_pytorch_tanh");
    clef__json_refuse_flag(f, "scale_attn_weights", 1, 1);
    clef__json_refuse_flag(f, "add_cross_attention", 0, 0);
    if (clef__json_bool(f, "multi_query", 1))
        hp->n_kv_heads = 1;
}

/* The sizes under keys of the family's own. */
static void read_sizes(clef_json_fields *f, clef_hparams *hp, const char *width, const char *ffn,
                       const char *layers, const char *heads)
{
    hp->d_model = (int32_t)clef__json_need_int(f, width, 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_int(f, ffn, 1, CLEF_MAX_WIDTH, 4 * (int64_t)hp->d_model);
    hp->n_layers = (int32_t)clef__json_need_int(f, layers, 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, heads, 1, CLEF_MAX_HEADS);
    hp->n_context = (int32_t)clef__json_need_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    hp->n_kv_heads = hp->n_heads;
    clef__json_head_dim(f, hp);
}

/* attention_types: [[[a, b], n], ..]: the types a, b, repeated n times, and so on. */
static void read_types(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *groups = clef__json_get(f, "attention_types");
    int32_t layer = 0;
    for (size_t g = 0; g < json_array_size(groups); g++) {
        const json_t *types = json_array_get(json_array_get(groups, g), 0);
        const json_t *count = json_array_get(json_array_get(groups, g), 1);
        const json_int_t n = json_array_size(types) ? json_integer_value(count) : 0;
        for (json_int_t i = 0; i < n && layer < hp->n_layers; i++)
            for (size_t t = 0; t < json_array_size(types) && layer < hp->n_layers; t++, layer++) {
                const char *type = json_string_value(json_array_get(types, t));
                if (type && strcmp(type, "local") == 0)
                    hp->sliding_layers[layer / 32] |= 1u << (layer % 32);
                else if (!type || strcmp(type, "global") != 0)
                    clef__json_refuse(f, "attention_types: expected global and local");
            }
    }
    if (groups && layer != hp->n_layers)
        clef__json_refuse(f, "attention_types: expected a type for each layer");
    if (!groups)
        clef__slide_layers(hp, 1, 2);
}

static void neo_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_sizes(f, hp, "hidden_size", "intermediate_size", "num_layers", "num_heads");
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->attention_scale = 1;
    hp->sliding_window = (int32_t)clef__json_int(f, "window_size", 1, CLEF_MAX_CONTEXT, 256);
    clef__json_activation(f, hp, "activation_function", "gelu_new");
    read_types(f, hp);
}

static void neo_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    without_rope(k, hp);
    clef__key_windows(k, hp, 0, 2);
}

static void scale_embeddings(clef_json_fields *f, clef_hparams *hp)
{
    if (clef__json_bool(f, "scale_embedding", 1))
        hp->embed_scale = (float)sqrt(hp->d_model);
    hp->position_offset = 2;
}

static void biogpt_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_sizes(f, hp, "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads");
    hp->norm_eps = 1e-5f; /* PyTorch's LayerNorm, whatever layer_norm_eps says */
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "hidden_act", "gelu");
    scale_embeddings(f, hp);
}

static void xglm_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_sizes(f, hp, "d_model", "ffn_dim", "num_layers", "attention_heads");
    hp->norm_eps = 1e-5f;
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    clef__json_activation(f, hp, "activation_function", "gelu");
    clef__json_refuse_flag(f, "add_cross_attention", 0, 0);
    scale_embeddings(f, hp);
    if (clef__json_int(f, "pad_token_id", 0, INT32_MAX, 1) >= hp->position_offset)
        clef__json_refuse(f, "pad_token_id other than 0 and 1 is not supported: its position is zero");
}

static void fairseq_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    without_rope(k, hp);
    hp->position_offset = 2;
}

static void persimmon_read_json(clef_json_fields *f, clef_hparams *hp)
{
    read_sizes(f, hp, "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads");
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "relu2");
    clef__json_partial_rope(f, hp, 10000, 0.5);
}

static void codegen_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_gpt2_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "activation_function", "gelu_new");
    if (f->status == CLEF_OK && hp->n_heads % 4 != 0)
        clef__json_refuse(f, "n_head: expected a multiple of 4");
    hp->rope = (clef_rope_params){.dims = (int32_t)clef__json_int(f, "rotary_dim", 0, CLEF_MAX_HEAD_DIM, 64),
                                  .pairing = CLEF_ROPE_INTERLEAVED,
                                  .theta = 10000};
}

static void mpt_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef_json_fields own = {.object = clef__json_get(f, "attn_config"), .file = f->file, .err = f->err};
    hp->d_model = (int32_t)clef__json_need_int(f, "d_model", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "n_layers", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "n_heads", 1, CLEF_MAX_HEADS);
    hp->n_context = (int32_t)clef__json_int(f, "max_seq_len", 1, CLEF_MAX_CONTEXT, 2048);
    hp->d_ff = 4 * hp->d_model; /* whatever expansion_ratio says */
    hp->n_kv_heads = hp->n_heads;
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->activation = CLEF_GELU;
    clef__json_head_dim(f, hp);
    if (!json_is_object(own.object))
        return;
    hp->clip_qkv = (float)clef__json_double(&own, "clip_qkv", 0, 1e6, 0);
    hp->attention_scale = (float)clef__json_double(&own, "softmax_scale", 1e-9, 1e6, 0);
    if (f->status == CLEF_OK)
        f->status = own.status;
}

static void mpt_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    enum { BIAS = 8 };
    clef__key_float(k, "attention.max_alibi_bias", BIAS, BIAS, BIAS);
    hp->clip_qkv = (float)clef__key_float(k, "attention.clamp_kqv", 0, 1e6, 0);
    hp->rope.dims = 0;
}

/* ---- the families ----------------------------------------------------------------------------- */

#define KIN_OF(family, table, ...)                                                                           \
    const clef_arch clef__arch_##family = {.names = family##_names,                                          \
                                           .weights = {.hf = table},                                         \
                                           .layer_norms = 1,                                                 \
                                           .read_json = family##_read_json,                                  \
                                           __VA_ARGS__};
#define KIN(family, ...) KIN_OF(family, family##_weights, __VA_ARGS__)

KIN(bigcode, .hf_prefix = "transformer.", .hf_grouped = 1, .build = learned_build, .read_gguf = without_rope,
    .gguf_activation = CLEF_GELU_TANH)
KIN(neo, .hf_prefix = "transformer.", .build = learned_build, .read_gguf = neo_read_gguf,
    .gguf_activation = CLEF_GELU_TANH)
KIN(biogpt, .hf_prefix = "biogpt.", .build = learned_build, .read_gguf = fairseq_read_gguf,
    .gguf_activation = CLEF_GELU)
KIN(xglm, .hf_prefix = "model.", .build = xglm_build, .read_gguf = fairseq_read_gguf,
    .gguf_activation = CLEF_GELU)
KIN(persimmon, .hf_prefix = "model.", .hf_grouped = 1, .layer = clef__plain_layer,
    .gguf_activation = CLEF_RELU2)
KIN(mpt, .hf_prefix = "transformer.", .build = mpt_build, .read_gguf = mpt_read_gguf,
    .gguf_activation = CLEF_GELU)
KIN_OF(codegen, clef__gptj_weights, .hf_prefix = "transformer.", .written_as = "gptj", .joins = codegen_joins,
       .layer = parallel_layer, .gguf_pairing = CLEF_ROPE_INTERLEAVED, .gguf_activation = CLEF_GELU_TANH)
