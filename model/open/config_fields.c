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

void clef__json_sizes(clef_json_fields *f, clef_hparams *hp)
{
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_need_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS);
    hp->n_kv_heads = (int32_t)clef__json_int(f, "num_key_value_heads", 1, CLEF_MAX_HEADS, hp->n_heads);
    hp->n_context = (int32_t)clef__json_need_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    hp->head_dim = (int32_t)clef__json_int(f, "head_dim", 1, CLEF_MAX_HEAD_DIM, 0);
    if (!has_failed(f) && hp->head_dim == 0)
        clef__json_head_dim(f, hp);
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

/* ---- names ----------------------------------------------------------------------------------- */

void clef__json_activation(clef_json_fields *f, clef_hparams *hp, const char *key, const char *missing)
{
    static const struct {
        const char *name;
        clef_activation is;
    } names[] = {
        {"silu", CLEF_SILU},          {"swish", CLEF_SILU},          {"gelu", CLEF_GELU},
        {"gelu_new", CLEF_GELU_TANH}, {"gelu_fast", CLEF_GELU_TANH}, {"gelu_pytorch_tanh", CLEF_GELU_TANH},
        {"relu", CLEF_RELU},
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
                   "%s: %s %.40s is not supported, known are: silu gelu gelu_new relu", f->file, key, value);
}

static int find_listed(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return 1;
    return 0;
}

int clef__json_layer_types(clef_json_fields *f, clef_hparams *hp, const char *const *others)
{
    const json_t *types = json_object_get(f->object, "layer_types");
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
