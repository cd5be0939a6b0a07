/* Fields of a config.json that several families have (model/open/config.h). */
#include <inttypes.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/config.h"

static int has_failed(const clef_json_fields *f)
{
    return f->status != CLEF_OK;
}

void clef__json_refuse(clef_json_fields *f, const char *text)
{
    if (!has_failed(f))
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s", f->file, text);
}

void clef__json_refuse_flag(clef_json_fields *f, const char *key, int supported, int missing)
{
    if (clef__json_bool(f, key, missing) != supported && !has_failed(f))
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s %s is not supported", f->file, key,
                               supported ? "false" : "true");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

void clef__json_head_dim(clef_json_fields *f, clef_hparams *hp)
{
    if (has_failed(f))
        return;
    if (hp->d_model % hp->n_heads != 0)
        f->status = clef__fail(f->err, CLEF_E_FORMAT,
                               "%s: a width of %" PRId32 " is not a multiple of %" PRId32 " heads", f->file,
                               hp->d_model, hp->n_heads);
    hp->head_dim = hp->d_model / hp->n_heads;
}

/* Defaults of transformers' classes; 0: as many heads of k and v as of q, d_model / n_heads. */
static const struct {
    const char *model_type;
    int32_t n_kv_heads, head_dim;
    int null_heads; /* 1: null is as many heads of k and v as of q */
} class_sizes[] = {
    {"mistral", 8, 0, 0},         {"mixtral", 8, 0, 0},          {"qwen2", 32, 0, 1},
    {"qwen3", 32, 128, 1},        {"qwen3_moe", 4, 0, 0},        {"qwen3_5_text", 4, 256, 0},
    {"gpt_oss", 8, 64, 0},        {"smollm3", 4, 0, 1},          {"stablelm", 32, 0, 0},
    {"starcoder2", 2, 0, 0},      {"gemma", 16, 256, 0},         {"gemma2", 4, 256, 0},
    {"gemma3_text", 4, 256, 0},   {"gemma4_text", 4, 256, 0},    {"gemma3n_text", 2, 256, 0},
    {"qwen2_vl_text", 8, 0, 1},   {"qwen2_5_vl_text", 8, 0, 1},  {"qwen2_vl", 8, 0, 1},
    {"qwen2_5_vl", 8, 0, 1},      {"qwen3_vl_text", 32, 128, 1}, {"qwen3_vl_moe_text", 16, 0, 0},
    {"seed_oss", 8, 128, 1},      {"ernie4_5", 2, 128, 1},       {"glm", 2, 128, 1},
    {"glm4", 2, 128, 0},          {"helium", 20, 128, 0},        {"exaone4", 32, 0, 0},
    {"ministral3", 8, 128, 1},    {"qwen2_moe", 16, 0, 1},       {"vaultgemma", 4, 256, 0},
    {"phimoe", 8, 0, 1},          {"minicpm3", 40, 0, 1},        {"gemma3_bidirectional", 4, 256, 0},
    {"glm4_moe", 8, 0, 0},        {"solar_open", 8, 128, 0},     {"dots1", 32, 0, 1},
    {"minimax_m2", 8, 128, 0},    {"afmoe", 0, 128, 1},          {"hy_v3", 8, 128, 0},
    {"ernie4_5_moe", 4, 0, 1},    {"exaone_moe", 32, 0, 0},      {"deepseek_v3", 128, 0, 1},
    {"glm4_moe_lite", 20, 0, 0},  {"falcon_h1", 8, 0, 1},        {"jamba", 8, 0, 1},
    {"mimo_v2_flash", 4, 192, 0}, {"minimax", 8, 0, 1},          {"llama4_text", 8, 128, 1},
};

/* An integer; null is an error unless null_is is 1, and then `missing` as well. */
static int32_t read_size(clef_json_fields *f, const char *key, int32_t max, int null_is, int32_t missing)
{
    const int is_needed = clef__json_get(f, key) && !null_is;
    return (int32_t)(is_needed ? clef__json_need_int(f, key, 1, max)
                               : clef__json_int(f, key, 1, max, missing));
}

static void read_heads(clef_json_fields *f, clef_hparams *hp)
{
    int32_t n_kv_heads = 0, head_dim = 0, null_heads = 1;
    for (size_t i = 0; i < sizeof class_sizes / sizeof *class_sizes; i++)
        if (strcmp(class_sizes[i].model_type, hp->arch) == 0) {
            n_kv_heads = clef__json_get(f, "num_key_value_heads") ? 0 : class_sizes[i].n_kv_heads;
            head_dim = class_sizes[i].head_dim;
            null_heads = class_sizes[i].null_heads;
        }
    hp->n_kv_heads = read_size(f, "num_key_value_heads", CLEF_MAX_HEADS, null_heads,
                               n_kv_heads ? n_kv_heads : hp->n_heads);
    hp->head_dim = read_size(f, "head_dim", CLEF_MAX_HEAD_DIM, head_dim == 0, head_dim);
    if (!has_failed(f) && hp->head_dim == 0)
        clef__json_head_dim(f, hp);
}

void clef__json_sizes(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_widths(f, hp);
    hp->d_ff = (int32_t)clef__json_need_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH);
}

void clef__json_widths(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS);
    hp->n_context = (int32_t)clef__json_need_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    read_heads(f, hp);
}

void clef__json_gpt2_sizes(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_model = (int32_t)clef__json_need_int(f, "n_embd", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_int(f, "n_inner", 1, CLEF_MAX_WIDTH, 4 * (int64_t)hp->d_model);
    hp->n_layers = (int32_t)clef__json_need_int(f, "n_layer", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "n_head", 1, CLEF_MAX_HEADS);
    hp->n_context = (int32_t)clef__json_need_int(f, "n_positions", 1, CLEF_MAX_CONTEXT);
    hp->n_kv_heads = hp->n_heads;
    clef__json_head_dim(f, hp);
}

void clef__json_experts(clef_json_fields *f, clef_hparams *hp, const char *key, int32_t missing,
                        int32_t missing_used)
{
    hp->n_experts = (int32_t)clef__json_int(f, key, 1, CLEF_MAX_EXPERTS, missing);
    hp->n_experts_used =
        (int32_t)clef__json_int(f, "num_experts_per_tok", 1, CLEF_MAX_EXPERTS_USED, missing_used);
}

/* The groups of experts, of which a token uses those of the best. */
static void read_groups(clef_json_fields *f, clef_hparams *hp, const clef_routed_keys *keys)
{
    hp->n_expert_groups = (int32_t)clef__json_int(f, "n_group", 1, CLEF_MAX_EXPERTS, keys->n_groups);
    hp->n_groups_used =
        (int32_t)clef__json_int(f, "topk_group", 1, CLEF_MAX_EXPERTS_USED, keys->n_groups_used);
    const int32_t n = hp->n_expert_groups;
    if (has_failed(f) || n <= 1)
        return;
    if (hp->n_experts % n != 0 || hp->n_groups_used > n)
        f->status =
            clef__fail(f->err, CLEF_E_FORMAT,
                       "%s: %" PRId32 " experts in %" PRId32 " groups, of which a token uses %" PRId32,
                       f->file, hp->n_experts, n, hp->n_groups_used);
}

void clef__json_routed(clef_json_fields *f, clef_hparams *hp, const clef_routed_keys *keys)
{
    const char *experts = keys->experts ? keys->experts : "n_routed_experts",
               *used = keys->used ? keys->used : "num_experts_per_tok",
               *shared = keys->shared ? keys->shared : "n_shared_experts",
               *scale = keys->scale ? keys->scale : "routed_scaling_factor";
    const int normed = keys->is_normed < 0 || clef__json_bool(f, "norm_topk_prob", keys->is_normed);
    hp->n_experts = read_size(f, experts, CLEF_MAX_EXPERTS, 0, keys->n_experts);
    hp->n_experts_used = read_size(f, used, CLEF_MAX_EXPERTS_USED, 0, keys->n_used);
    hp->d_ff_expert =
        (int32_t)clef__json_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH, keys->d_ff_expert);
    hp->d_ff_shared = hp->d_ff_expert * (int32_t)clef__json_int(f, shared, 0, 256, keys->n_shared);
    hp->expert_scale = (float)clef__json_double(f, scale, 1e-6, 1e6, keys->expert_scale);
    hp->router = normed ? CLEF_ROUTER_SIGMOID_NORMED : CLEF_ROUTER_SIGMOID;
    if (keys->n_groups > 0)
        read_groups(f, hp, keys);
}

/* ---- names ----------------------------------------------------------------------------------- */

void clef__json_activation(clef_json_fields *f, clef_hparams *hp, const char *key, const char *missing)
{
    static const struct {
        const char *name;
        clef_activation is;
    } names[] = {
        {"silu", CLEF_SILU},          {"swish", CLEF_SILU},          {"gelu", CLEF_GELU},
        {"gelu_new", CLEF_GELU_TANH}, {"gelu_fast", CLEF_GELU_TANH}, {"gelu_pytorch_tanh", CLEF_GELU_TANH},
        {"relu", CLEF_RELU},          {"relu2", CLEF_RELU2},         {"quick_gelu", CLEF_GELU_QUICK},
    };
    const char *value = clef__json_string(f, key, missing);
    if (has_failed(f))
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(value, names[i].name) == 0) {
            hp->activation = names[i].is;
            return;
        }
    f->status =
        clef__fail(f->err, CLEF_E_UNSUPPORTED,
                   "%s: %s %.40s is not supported, known are: silu gelu gelu_new quick_gelu relu relu2",
                   f->file, key, value);
}

static int find_listed(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return 1;
    return 0;
}

void clef__json_window(clef_json_fields *f, clef_hparams *hp, int32_t missing)
{
    hp->sliding_window = (int32_t)clef__json_int(f, "sliding_window", 1, CLEF_MAX_CONTEXT,
                                                 clef__json_get(f, "sliding_window") ? 0 : missing);
}

void clef__json_window_everywhere(clef_json_fields *f, clef_hparams *hp, int32_t missing)
{
    clef__json_window(f, hp, missing);
    if (hp->sliding_window > 0)
        clef__slide_layers(hp, 0, 1);
}

int clef__json_layer_types(clef_json_fields *f, clef_hparams *hp, const char *const *others)
{
    const json_t *types = clef__json_get(f, "layer_types");
    if (has_failed(f) || !clef__json_has(f, "layer_types"))
        return 0;
    if (json_array_size(types) != (size_t)hp->n_layers) {
        f->status =
            clef__fail(f->err, CLEF_E_FORMAT,
                       "%s: layer_types is %s of %zu, expected an array of num_hidden_layers, %" PRId32,
                       f->file, clef__json_kind(types), json_array_size(types), hp->n_layers);
        return 0;
    }
    memset(hp->sliding_layers, 0, sizeof hp->sliding_layers);
    for (int32_t i = 0; i < hp->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (type && strcmp(type, "sliding_attention") == 0) {
            hp->sliding_layers[i / 32] |= 1u << (i % 32);
        } else if (!type || (strcmp(type, "full_attention") != 0 && !find_listed(others, type))) {
            f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                                   "%s: layer_types[%" PRId32
                                   "] %.40s is not supported, expected full_attention or sliding_attention",
                                   f->file, i, type ? type : "is not a string and");
            return 0;
        }
    }
    return 1;
}
