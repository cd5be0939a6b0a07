/* Hyperparameters from Hugging Face's config.json, and the checks that every source of hyperparameters goes through. */
#include "model/config.h"

#include <inttypes.h>
#include <string.h>

/* ---- checks ---------------------------------------------------------------------------------------------------------------------- */

clef_status clef__config_check_arch(const char *arch, const char *file, clef_error *err)
{
    char known[256] = "";
    for (int32_t i = 0; clef_arch_name(i); i++) {
        if (strcmp(clef_arch_name(i), arch) == 0)
            return CLEF_OK;
        if (strlen(known) + strlen(clef_arch_name(i)) + 2 < sizeof known) {
            strcat(known, " ");
            strcat(known, clef_arch_name(i));
        }
    }
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: architecture %.40s is not supported, known are:%s", file, arch[0] ? arch : "\"\"",
                      known);
}

clef_status clef__config_check(const clef_hparams *hp, const char *file, clef_error *err)
{
    if (hp->n_heads % hp->n_kv_heads != 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %" PRId32 " attention heads over %" PRId32 " key-value heads, wanted a multiple", file,
                          hp->n_heads, hp->n_kv_heads);
    if ((int64_t)hp->n_heads * hp->head_dim > CLEF_MAX_WIDTH)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %" PRId32 " heads of %" PRId32 " dims, wanted at most %d dims together", file,
                          hp->n_heads, hp->head_dim, CLEF_MAX_WIDTH);
    if (hp->rope_dims < 0 || hp->rope_dims % 2 != 0 || hp->rope_dims > hp->head_dim)
        return clef__fail(err, CLEF_E_FORMAT, "%s: rotates %" PRId32 " dims of a head of %" PRId32 ", wanted an even number within it",
                          file, hp->rope_dims, hp->head_dim);
    if (hp->rope_llama3_factor > 0 && !(hp->rope_high_freq_factor > hp->rope_low_freq_factor))
        return clef__fail(err, CLEF_E_FORMAT, "%s: rope high_freq_factor %g is not above low_freq_factor %g", file,
                          hp->rope_high_freq_factor, hp->rope_low_freq_factor);
    return CLEF_OK;
}

void clef__config_text(const char *text, char *out, size_t capacity)
{
    size_t n = strlen(text);
    if (n >= capacity) {
        n = capacity - 1;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) /* text[n] is the first byte left out */
            n--;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = text[i];
    out[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7F)
            out[i] = '?';
}

/* ---- fields that several families have ------------------------------------------------------------------------------------------- */

static int failed(const clef_json_fields *f)
{
    return f->status != CLEF_OK;
}

/* Refuses the feature that `key` turns on. */
static void refuse_flag(clef_json_fields *f, const char *key, int supported, int missing)
{
    if (clef__json_bool(f, key, missing) != supported && !failed(f))
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s %s is not supported", f->file, key, supported ? "false" : "true");
}

/* One of `allowed` (ends with NULL); `missing` when the key is absent. */
static void need_one_of(clef_json_fields *f, const char *key, const char *missing, const char *const *allowed)
{
    const char *value = clef__json_string(f, key, missing);
    for (int i = 0; allowed[i]; i++)
        if (failed(f) || strcmp(value, allowed[i]) == 0)
            return;
    f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s %.40s is not supported, wanted %s", f->file, key, value, allowed[0]);
}

/* A token id; -1 when it is null, absent or negative. */
static int32_t token_id(clef_json_fields *f, const char *key, int32_t missing)
{
    const int64_t id = clef__json_int(f, key, INT32_MIN, INT32_MAX, missing);
    return id < 0 ? -1 : (int32_t)id;
}

static void read_eos(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *eos = json_object_get(f->object, "eos_token_id");
    const size_t n = json_array_size(eos); /* 0 for no array */
    if (failed(f) || !clef__json_has(f, "eos_token_id"))
        return;
    hp->n_eos_more = 0;
    if (!json_is_array(eos)) {
        hp->eos = token_id(f, "eos_token_id", -1);
        return;
    }
    hp->eos = -1;
    if (n > 1 + sizeof hp->eos_more / sizeof *hp->eos_more) {
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: eos_token_id lists %zu ids, wanted at most %zu", f->file, n,
                               1 + sizeof hp->eos_more / sizeof *hp->eos_more);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(eos, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: eos_token_id[%zu] is no token id", f->file, i);
            return;
        }
        if (i == 0)
            hp->eos = (int32_t)json_integer_value(id);
        else
            hp->eos_more[hp->n_eos_more++] = (int32_t)json_integer_value(id);
    }
}

static void read_marks(clef_json_fields *f, clef_hparams *hp)
{
    hp->bos = token_id(f, "bos_token_id", hp->bos);
    read_eos(f, hp);
}

static void read_rope_scaling(clef_json_fields *f, clef_hparams *hp)
{
    const char *type = clef__json_string(f, "rope_type", clef__json_string(f, "type", "default"));
    if (failed(f) || strcmp(type, "default") == 0)
        return;
    if (strcmp(type, "linear") == 0) {
        hp->rope_linear_factor = clef__json_need_double(f, "factor", 1, 1e6);
    } else if (strcmp(type, "llama3") == 0) {
        hp->rope_llama3_factor = clef__json_need_double(f, "factor", 1, 1e6);
        hp->rope_low_freq_factor = clef__json_need_double(f, "low_freq_factor", 1e-6, 1e6);
        hp->rope_high_freq_factor = clef__json_need_double(f, "high_freq_factor", 1e-6, 1e6);
        hp->rope_original_context = (int32_t)clef__json_need_int(f, "original_max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    } else {
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s.rope_type %.40s is not supported, known are: default linear llama3",
                               f->file, f->within, type);
    }
}

/* transformers 5 keeps everything in rope_parameters; before, rope_theta stood beside rope_scaling. */
static void read_rope(clef_json_fields *f, clef_hparams *hp)
{
    const char *within = clef__json_has(f, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    double partial = clef__json_double(f, "partial_rotary_factor", 0, 1, 1);
    hp->rope_theta = clef__json_double(f, "rope_theta", 1, 1e12, 10000);
    if (failed(f))
        return;
    if (clef__json_has(f, within)) {
        clef_json_fields inner = {.object = json_object_get(f->object, within), .file = f->file, .within = within, .err = f->err};
        if (!json_is_object(inner.object)) {
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s is %s, wanted an object", f->file, within, clef__json_kind(inner.object));
            return;
        }
        if (clef__json_has(&inner, "full_attention") || clef__json_has(&inner, "sliding_attention")) {
            f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s by layer type is not supported", f->file, within);
            return;
        }
        hp->rope_theta = clef__json_double(&inner, "rope_theta", 1, 1e12, hp->rope_theta);
        partial = clef__json_double(&inner, "partial_rotary_factor", 0, 1, partial);
        read_rope_scaling(&inner, hp);
        f->status = inner.status;
    }
    if (!failed(f) && partial < 1)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: partial_rotary_factor %g is not supported, wanted 1", f->file, partial);
}

/* The layer from which on layer_types says "sliding_attention": n_layers when none does, -1 when the key is absent. */
static int32_t first_sliding_layer(clef_json_fields *f, int32_t n_layers)
{
    const json_t *types = json_object_get(f->object, "layer_types");
    if (failed(f) || !clef__json_has(f, "layer_types"))
        return -1;
    if (json_array_size(types) != (size_t)n_layers) {
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: layer_types is %s of %zu, wanted an array of num_hidden_layers, %" PRId32,
                               f->file, clef__json_kind(types), json_array_size(types), n_layers);
        return -1;
    }
    int32_t first = n_layers;
    for (int32_t i = 0; i < n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        const int sliding = type && strcmp(type, "sliding_attention") == 0;
        if (!sliding && (!type || strcmp(type, "full_attention") != 0)) {
            f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                                   "%s: layer_types[%" PRId32 "] %.40s is not supported, wanted full_attention or "
                                   "sliding_attention",
                                   f->file, i, type ? type : "is no string and");
            return -1;
        }
        if (sliding && first == n_layers)
            first = i;
        if (!sliding && first < n_layers) {
            f->status =
                clef__fail(f->err, CLEF_E_UNSUPPORTED,
                           "%s: layer_types has a full layer (%" PRId32 ") after a sliding one (%" PRId32 "), wanted full layers first",
                           f->file, i, first);
            return -1;
        }
    }
    return first;
}

/* Sliding-window attention: transformers' Qwen2Config has a switch and a first layer; Mistral's window holds for every layer; llama
 * has none. */
static void read_window(clef_json_fields *f, clef_hparams *hp)
{
    const int is_qwen = strncmp(hp->arch, "qwen", 4) == 0;
    int32_t window = 0, from = 0;
    const int32_t missing = json_object_get(f->object, "sliding_window") ? 0 : 4096; /* null is none; both classes' default is 4096 */
    if (is_qwen && clef__json_bool(f, "use_sliding_window", 0)) {
        window = (int32_t)clef__json_int(f, "sliding_window", 0, CLEF_MAX_CONTEXT, missing);
        from = (int32_t)clef__json_int(f, "max_window_layers", 0, INT32_MAX, 28);
    } else if (strcmp(hp->arch, "mistral") == 0) {
        window = (int32_t)clef__json_int(f, "sliding_window", 0, CLEF_MAX_CONTEXT, missing);
    }
    if (window == 0 || from > hp->n_layers)
        from = hp->n_layers;

    const int32_t listed = first_sliding_layer(f, hp->n_layers);
    if (failed(f))
        return;
    if (listed >= 0 && listed < hp->n_layers && window == 0)
        f->status = clef__fail(f->err, CLEF_E_FORMAT,
                               "%s: layer_types wants sliding_attention from layer %" PRId32 " on, but no "
                               "sliding_window is in use",
                               f->file, listed);
    else if (listed >= 0 && listed != from && !is_qwen)
        f->status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: layer_types of model_type %s mixes full and sliding layers", f->file, hp->arch);
    if (listed >= 0)
        from = listed;
    if (from < hp->n_layers) {
        hp->sliding_window = window;
        hp->sliding_from_layer = from;
    }
}

/* ---- families -------------------------------------------------------------------------------------------------------------------- */

static void read_gpt2(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
    hp->d_model = (int32_t)clef__json_need_int(f, "n_embd", 1, CLEF_MAX_WIDTH);
    hp->n_heads = (int32_t)clef__json_need_int(f, "n_head", 1, CLEF_MAX_HEADS);
    hp->n_layers = (int32_t)clef__json_need_int(f, "n_layer", 1, CLEF_MAX_LAYERS);
    hp->n_context = (int32_t)clef__json_need_int(f, "n_positions", 1, CLEF_MAX_CONTEXT);
    hp->d_ff = (int32_t)clef__json_int(f, "n_inner", 1, CLEF_MAX_WIDTH, 4 * (int64_t)hp->d_model);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_epsilon", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->n_kv_heads = hp->n_heads;
    need_one_of(f, "activation_function", "gelu_new", gelu);
    refuse_flag(f, "scale_attn_by_inverse_layer_idx", 0, 0);
    refuse_flag(f, "scale_attn_weights", 1, 1);
    refuse_flag(f, "add_cross_attention", 0, 0);
    if (failed(f))
        return;
    if (hp->d_model % hp->n_heads != 0)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: n_embd %" PRId32 " is no multiple of n_head %" PRId32, f->file, hp->d_model,
                               hp->n_heads);
    hp->head_dim = hp->d_model / hp->n_heads;
}

static void read_llama(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const silu[] = {"silu", "swish", NULL};
    hp->d_model = (int32_t)clef__json_need_int(f, "hidden_size", 1, CLEF_MAX_WIDTH);
    hp->d_ff = (int32_t)clef__json_need_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH);
    hp->n_layers = (int32_t)clef__json_need_int(f, "num_hidden_layers", 1, CLEF_MAX_LAYERS);
    hp->n_heads = (int32_t)clef__json_need_int(f, "num_attention_heads", 1, CLEF_MAX_HEADS);
    hp->n_kv_heads = (int32_t)clef__json_int(f, "num_key_value_heads", 1, CLEF_MAX_HEADS, hp->n_heads);
    hp->n_context = (int32_t)clef__json_need_int(f, "max_position_embeddings", 1, CLEF_MAX_CONTEXT);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->head_dim = (int32_t)clef__json_int(f, "head_dim", 1, CLEF_MAX_HEAD_DIM, 0);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    need_one_of(f, "hidden_act", "silu", silu);
    if (failed(f))
        return;
    if (hp->head_dim == 0 && hp->d_model % hp->n_heads != 0) {
        f->status =
            clef__fail(f->err, CLEF_E_FORMAT, "%s: no head_dim, and hidden_size %" PRId32 " is no multiple of num_attention_heads %" PRId32,
                       f->file, hp->d_model, hp->n_heads);
        return;
    }
    if (hp->head_dim == 0)
        hp->head_dim = hp->d_model / hp->n_heads;
    hp->rope_dims = hp->head_dim;
    hp->rope_pairing = CLEF_ROPE_HALVES;
    read_rope(f, hp);
    read_window(f, hp);
}

/* bos and eos: what transformers' config class takes when the file does not have the key at all. */
static const struct {
    const char *model_type;
    void (*read)(clef_json_fields *f, clef_hparams *hp);
    int32_t bos, eos;
} families[] = {
    {"gpt2", read_gpt2, 50256, 50256}, {"llama", read_llama, 1, 2},   {"mistral", read_llama, 1, 2},
    {"qwen2", read_llama, -1, -1},     {"qwen3", read_llama, -1, -1},
};

/* GPTQ, AWQ, bitsandbytes: the weights are packed in ways that the dtypes do not tell. */
static void refuse_quantized(clef_json_fields *f)
{
    const json_t *quantization = json_object_get(f->object, "quantization_config");
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    if (!failed(f) && clef__json_has(f, "quantization_config"))
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: quantization_config (%.40s) is not supported", f->file,
                               method ? method : "no quant_method");
}

clef_status clef__config_from_json(const json_t *config, const json_t *generation, const char *file, clef_hparams *hp, clef_error *err)
{
    clef_json_fields f = {.object = config, .file = file, .err = err};
    if (!json_is_object(config))
        return clef__fail(err, CLEF_E_FORMAT, "%s: is %s, wanted an object", file, clef__json_kind(config));
    clef__config_text(clef__json_string(&f, "model_type", ""), hp->arch, sizeof hp->arch);
    if (failed(&f))
        return f.status;
    clef_status status = clef__config_check_arch(hp->arch, file, err);
    if (status != CLEF_OK)
        return status;
    size_t i = 0;
    while (i < sizeof families / sizeof *families && strcmp(families[i].model_type, hp->arch) != 0)
        i++;
    if (i == sizeof families / sizeof *families)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: model_type %s is only supported as a GGUF file", file, hp->arch);

    hp->bos = json_object_get(config, "bos_token_id") ? -1 : families[i].bos;
    hp->eos = json_object_get(config, "eos_token_id") ? -1 : families[i].eos;
    hp->n_vocab = (int32_t)clef__json_need_int(&f, "vocab_size", 1, CLEF_MAX_VOCAB);
    families[i].read(&f, hp);
    read_marks(&f, hp);
    refuse_quantized(&f);
    if (failed(&f))
        return f.status;
    if (json_is_object(generation)) {
        clef_json_fields g = {.object = generation, .file = "generation_config.json", .err = err};
        read_marks(&g, hp);
        if (failed(&g))
            return g.status;
    }
    return clef__config_check(hp, file, err);
}
