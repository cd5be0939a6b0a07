/* A random tiny Qwen 3.5 (a layer of linear attention, one of full attention, and a layer that predicts
 * further tokens), written as a folder. The residual stream is mostly the token's embedding, so that the
 * further layer often predicts what the model says. */
#ifndef CLEF_TESTS_HYBRID_H
#define CLEF_TESTS_HYBRID_H

#include "clef/model.h"
#include "graph/cases/oracle.h"
#include "tests/files.h"

enum { HYBRID_VOCAB = 40, HYBRID_WIDTH = 32, HYBRID_MOST = 64 };

static const char hybrid_config[] =
    "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5_text\",\"vocab_size\":40,"
    "\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"head_dim\":16,\"max_position_embeddings\":512,\"hidden_act\":\"silu\","
    "\"layer_types\":[\"linear_attention\",\"full_attention\"],\"linear_conv_kernel_dim\":4,"
    "\"linear_key_head_dim\":8,\"linear_value_head_dim\":8,\"linear_num_key_heads\":2,"
    "\"linear_num_value_heads\":4,\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":false,"
    "\"bos_token_id\":1,\"eos_token_id\":2,\"mtp_num_hidden_layers\":1,"
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000.0,\"partial_rotary_factor\":0.5}}";

/* scale: of the random numbers. */
typedef struct hybrid_weight {
    const char *name;
    int64_t     dims[3];
    float       scale;
} hybrid_weight;

#define HYBRID_MLP(layer)                                                                                    \
    {layer "input_layernorm.weight", {32}, 0.1f}, {layer "post_attention_layernorm.weight", {32}, 0.1f},     \
        {layer "mlp.gate_proj.weight", {48, 32}, 0.3f}, {layer "mlp.up_proj.weight", {48, 32}, 0.3f},        \
        {layer "mlp.down_proj.weight", {32, 48}, 0.2f}
#define HYBRID_ATTENTION(layer)                                                                              \
    HYBRID_MLP(layer), {layer "self_attn.q_proj.weight", {64, 32}, 0.3f},                                    \
        {layer "self_attn.k_proj.weight", {16, 32}, 0.3f},                                                   \
        {layer "self_attn.v_proj.weight", {16, 32}, 0.3f},                                                   \
        {layer "self_attn.o_proj.weight", {32, 32}, 0.2f}, {layer "self_attn.q_norm.weight", {16}, 0.1f},    \
        {layer "self_attn.k_norm.weight", {16}, 0.1f}

static const hybrid_weight hybrid_weights[] = {
    {"model.embed_tokens.weight", {HYBRID_VOCAB, 32}, 1},
    {"model.norm.weight", {32}, 0.1f},
    {"lm_head.weight", {HYBRID_VOCAB, 32}, 1},
    HYBRID_MLP("model.layers.0."),
    {"model.layers.0.linear_attn.in_proj_qkv.weight", {64, 32}, 0.4f},
    {"model.layers.0.linear_attn.in_proj_z.weight", {32, 32}, 0.4f},
    {"model.layers.0.linear_attn.in_proj_a.weight", {4, 32}, 0.4f},
    {"model.layers.0.linear_attn.in_proj_b.weight", {4, 32}, 0.4f},
    {"model.layers.0.linear_attn.conv1d.weight", {64, 1, 4}, 0.5f},
    {"model.layers.0.linear_attn.A_log", {4}, 0.5f},
    {"model.layers.0.linear_attn.dt_bias", {4}, 0.5f},
    {"model.layers.0.linear_attn.norm.weight", {8}, 1},
    {"model.layers.0.linear_attn.out_proj.weight", {32, 32}, 0.3f},
    HYBRID_ATTENTION("model.layers.1."),
    {"mtp.fc.weight", {32, 64}, 0.1f},
    {"mtp.norm.weight", {32}, 0.1f},
    {"mtp.pre_fc_norm_embedding.weight", {32}, 0.1f},
    {"mtp.pre_fc_norm_hidden.weight", {32}, 0.1f},
    HYBRID_ATTENTION("mtp.layers.0."),
};

/* Fills one weight. The projection of the further layer is near the identity of the embedding's part. */
static inline void fill_hybrid(const hybrid_weight *w, uint64_t *random, float *out, int64_t n)
{
    const int is_projection = strcmp(w->name, "mtp.fc.weight") == 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = i / 64, column = i % 64;
        out[i] = w->scale * (2 * (float)clef__random_uniform(random) - 1) +
                 (is_projection && row == column ? 1.0f : 0.0f);
    }
}

/* Writes the folder; without_further 1: without the layer that predicts further tokens. */
static inline void write_hybrid(const char *folder, uint64_t seed, int without_further)
{
    static float numbers[32 * 1024];
    clef_tensor_info tensors[HYBRID_MOST];
    clef_error err = {0};
    char path[700];
    size_t used = 0;
    int32_t n_tensors = 0;
    for (size_t i = 0; i < sizeof hybrid_weights / sizeof *hybrid_weights; i++) {
        const hybrid_weight *w = &hybrid_weights[i];
        clef_tensor_info t = {.name = w->name, .dtype = CLEF_F32, .data = numbers + used};
        int64_t n = 1;
        for (; t.rank < 3 && w->dims[t.rank]; t.rank++)
            n *= t.dims[t.rank] = w->dims[t.rank];
        assert_true(used + (size_t)n <= sizeof numbers / sizeof *numbers);
        fill_hybrid(w, &seed, numbers + used, n);
        used += (size_t)n;
        t.n_bytes = (uint64_t)n * sizeof *numbers;
        if (!without_further || strncmp(w->name, "mtp.", 4) != 0)
            tensors[n_tensors++] = t;
    }
    ok(clef__os_make_dirs(folder, &err), &err);
    snprintf(path, sizeof path, "%s/config.json", folder);
    write_text(path, hybrid_config);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ok(clef_tensor_file_write(path, tensors, n_tensors, &err), &err);
}

static inline void remove_hybrid(const char *folder)
{
    char path[700];
    snprintf(path, sizeof path, "%s/config.json", folder);
    remove(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    remove(path);
    remove(folder);
}

#endif
