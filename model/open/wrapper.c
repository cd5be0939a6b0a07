/* Folders of models that also read pictures or sound ("Gemma3ForConditionalGeneration"): the text model in
 * them is opened, and the encoder of pictures found; the other parts are left out. */
#include "model/open/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/arch.h"

/* Outer classes that tie the output matrix to the embedding where neither level has the key. */
static const char *const tied[] = {"gemma3", "gemma3n", "gemma4", "mistral3", NULL};

/* Outer keys that hold for the text model. */
static const char *const outer_keys[] = {
    "architectures", "quantization_config", "quantization", "compression_config", "dtype",
    "torch_dtype",   "bos_token_id",        "eos_token_id", "pad_token_id",       "id2label",
    "problem_type"};

/* Sizes of the text models' classes in transformers, which an inner configuration leaves out where it has
 * them (gemma-3-4b-it has no number of heads, llava-1.5 no width). 0: the class has no default of its own. */
static const struct {
    const char *type;
    int32_t sizes[8];
} class_sizes[] = {
    {"clip_text_model", {512, 2048, 12, 8, 0, 0, 49408, 77}},
    {"siglip_text_model", {768, 3072, 12, 12, 0, 0, 32000, 64}},
    {"siglip2_text_model", {768, 3072, 12, 12, 0, 0, 32000, 64}},
    {"gemma", {3072, 24576, 28, 16, 16, 256, 256000, 8192}},
    {"gemma2", {2304, 9216, 26, 8, 4, 256, 256000, 8192}},
    {"gemma3_text", {2304, 9216, 26, 8, 4, 256, 262208, 131072}},
    {"gemma3n_text", {2048, 16384, 35, 8, 2, 256, 262400, 32768}},
    {"llama", {4096, 11008, 32, 32, 0, 0, 32000, 2048}},
    {"ministral3", {4096, 14336, 34, 32, 8, 128, 131072, 262144}},
    {"mistral", {4096, 14336, 32, 32, 8, 0, 32000, 131072}},
    {"phi", {2048, 8192, 24, 32, 0, 0, 51200, 2048}},
    {"phi3", {3072, 8192, 32, 32, 0, 0, 32064, 4096}},
    {"qwen2", {4096, 22016, 32, 32, 32, 0, 151936, 32768}},
    {"qwen2_vl_text", {8192, 29568, 80, 64, 8, 0, 152064, 32768}},
    {"qwen2_5_vl_text", {8192, 29568, 80, 64, 8, 0, 152064, 32768}},
    {"qwen3", {4096, 22016, 32, 32, 32, 128, 151936, 32768}},
    {"qwen3_vl_text", {4096, 22016, 32, 32, 32, 128, 151936, 128000}},
    {"qwen3_vl_moe_text", {2048, 5632, 24, 16, 16, 0, 151936, 128000}},
    {"qwen3_5_text", {4096, 12288, 32, 16, 4, 256, 248320, 32768}},
    {"qwen3_5_moe_text", {2048, 0, 40, 16, 2, 256, 248320, 32768}},
};

/* The keys of class_sizes, in their order. */
static const char *const size_keys[] = {"hidden_size",         "intermediate_size",      "num_hidden_layers",
                                        "num_attention_heads", "num_key_value_heads",    "head_dim",
                                        "vocab_size",          "max_position_embeddings"};

static void add_class_sizes(json_t *text)
{
    const char *type = json_string_value(json_object_get(text, "model_type"));
    for (size_t i = 0; i < sizeof class_sizes / sizeof *class_sizes; i++)
        for (size_t k = 0; k < 8 && strcmp(class_sizes[i].type, type) == 0; k++)
            if (class_sizes[i].sizes[k] && !json_object_get(text, size_keys[k]))
                json_object_set_new(text, size_keys[k], json_integer(class_sizes[i].sizes[k]));
}

static int is_listed(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* Either level may say that the matrices are tied. A stored output matrix counts in any case. */
static int is_tied(const json_t *outer, const json_t *inner)
{
    static const char key[] = "tie_word_embeddings";
    const char *type = json_string_value(json_object_get(outer, "model_type"));
    const json_t *out = json_object_get(outer, key), *in = json_object_get(inner, key);
    return out || in ? json_is_true(out) || json_is_true(in) : type && is_listed(tied, type);
}

static int is_of_type(const json_t *config, const char *name)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type && strcmp(type, name) == 0;
}

/* A Gemma 3 whose tokens see each other has the same model_type; here it is a family of its own. */
static void name_bidirectional(json_t *config)
{
    if (is_of_type(config, "gemma3_text") &&
        json_is_true(json_object_get(config, "use_bidirectional_attention")))
        json_object_set_new(config, "model_type", json_string("gemma3_bidirectional"));
}

clef_status clef__unwrap_config(json_t **config, const char *file, clef_error *err)
{
    name_bidirectional(*config);
    const json_t *inner = json_object_get(*config, "text_config");
    if (!json_is_object(inner) || !json_string_value(json_object_get(inner, "model_type")))
        return CLEF_OK;
    json_t *text = json_copy((json_t *)(uintptr_t)inner);
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file);
    for (size_t i = 0; i < sizeof outer_keys / sizeof *outer_keys; i++) {
        json_t *value = json_object_get(*config, outer_keys[i]);
        if (value && !json_is_null(value))
            json_object_set(text, outer_keys[i], value);
    }
    if (is_of_type(*config, "paligemma")) /* whose prompts see themselves: model/sight/ */
        json_object_del(text, "use_bidirectional_attention");
    add_class_sizes(text);
    json_object_set_new(text, "tie_word_embeddings", json_boolean(is_tied(*config, inner)));
    json_decref(*config);
    *config = text;
    return CLEF_OK;
}

static const char *const text_prefixes[] = {"model.language_model.", "language_model.model.",
                                            "model.text_model.", "language_model.", "text_model."};
enum { N_TEXT_PREFIXES = sizeof text_prefixes / sizeof *text_prefixes };

void clef__find_text_prefix(clef_model *m)
{
    for (int32_t t = 0; t < m->n_tensors; t++)
        for (int32_t i = 0; i < N_TEXT_PREFIXES; i++) {
            const size_t n = strlen(text_prefixes[i]);
            if (strncmp(m->tensors[t].name, text_prefixes[i], n) == 0 &&
                strcmp(m->tensors[t].name + n, "embed_tokens.weight") == 0)
                m->text_prefix = text_prefixes[i];
        }
}

int clef__plain_text_name(const char *name, char *out, size_t capacity)
{
    int32_t i = 0;
    while (i < N_TEXT_PREFIXES && strncmp(name, text_prefixes[i], strlen(text_prefixes[i])) != 0)
        i++;
    const int n =
        i < N_TEXT_PREFIXES ? snprintf(out, capacity, "model.%s", name + strlen(text_prefixes[i])) : 0;
    return n > 0 && (size_t)n < capacity;
}

int clef__text_name(const clef_model *m, const char *name, char *out, size_t capacity)
{
    static const char model[] = "model.", head[] = "lm_head.";
    int n = -1;
    if (m->text_prefix && strncmp(name, model, strlen(model)) == 0)
        n = snprintf(out, capacity, "%s%s", m->text_prefix, name + strlen(model));
    else if (m->text_prefix && strncmp(name, head, strlen(head)) == 0)
        n = snprintf(out, capacity, "language_model.%s", name);
    return n > 0 && (size_t)n < capacity;
}

int clef__further_name(const clef_model *m, const char *name, char *out, size_t capacity)
{
    static const char *const of_layer[][2] = {{"eh_proj.", "mtp.fc."},
                                              {"enorm.", "mtp.pre_fc_norm_embedding."},
                                              {"hnorm.", "mtp.pre_fc_norm_hidden."},
                                              {"shared_head.norm.", "mtp.norm."},
                                              {"", "mtp.layers.0."}};
    char layer[40];
    size_t i = 0;
    const int n = snprintf(layer, sizeof layer, "model.layers.%d.", m->hparams.n_layers);
    if (strncmp(name, layer, (size_t)n) != 0)
        return 0;
    while (strncmp(name + n, of_layer[i][0], strlen(of_layer[i][0])) != 0)
        i++;
    const int all = snprintf(out, capacity, "%s%s", of_layer[i][1], name + n + strlen(of_layer[i][0]));
    return all > 0 && (size_t)all < capacity;
}

int clef__is_left_out(const clef_model *m, const char *name)
{
    return m->text_prefix && strncmp(name, m->text_prefix, strlen(m->text_prefix)) != 0 &&
           strncmp(name, "lm_head.", strlen("lm_head.")) != 0 &&
           strncmp(name, "language_model.lm_head.", strlen("language_model.lm_head.")) != 0;
}

/* ---- the encoder of pictures: alone, or beside a model of texts -------------------------------------- */

clef_status clef__read_vision_config(clef_model *m, const json_t *config, const char *file, clef_error *err)
{
    const json_t *inner = json_object_get(config, "vision_config");
    char name[600];
    if (!json_is_object(inner))
        return CLEF_OK;
    m->vision = calloc(1, sizeof *m->vision);
    m->vision_error = calloc(1, sizeof *m->vision_error);
    if (!m->vision || !m->vision_error)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file);
    snprintf(name, sizeof name, "%.500s: vision_config", file);
    clef_status status = clef__config_from_json(inner, NULL, name, m->vision, m->vision_error);
    const clef_arch *arch = clef__arch_find(m->vision->arch, 0);
    if (status == CLEF_OK && !arch->pictures)
        status = clef__fail(m->vision_error, CLEF_E_UNSUPPORTED, "%s: %s is not an encoder of pictures", name,
                            m->vision->arch);
    if (status != CLEF_OK) {
        free(m->vision);
        m->vision = NULL;
    }
    return CLEF_OK;
}

clef_status clef__find_tower(clef_model *m, clef_error *err)
{
    char end[CLEF_WEIGHT_NAME_BYTES];
    if (!m->vision)
        return CLEF_OK;
    const clef_arch *arch = clef__arch_find(m->vision->arch, 0);
    const size_t n_prefix = strlen(arch->hf_prefix);
    clef__weight_name(arch, &arch->weights, CLEF_W_PATCHES, 0, -1, "weight", end);
    const char *own = end + (strncmp(end, arch->hf_prefix, n_prefix) == 0 ? n_prefix : 0);
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const char *name = m->tensors[i].name;
        const size_t n = strlen(name), n_own = strlen(own);
        if (n < n_own || strcmp(name + n - n_own, own) != 0)
            continue;
        m->tower_prefix = calloc(1, n - n_own + 1);
        if (!m->tower_prefix)
            return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", m->path);
        memcpy(m->tower_prefix, name, n - n_own);
        return CLEF_OK;
    }
    clef__fail(m->vision_error, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", m->path, end);
    free(m->vision);
    m->vision = NULL;
    return CLEF_OK;
}

void clef__vision_finish(clef_model *m)
{
    free(m->vision);
    free(m->vision_error);
    free(m->tower_prefix);
}

const clef_hparams *clef_model_pictures(const clef_model *model, const char **why)
{
    const clef_arch *arch = clef__arch_find(model->hparams.arch, model->is_gguf);
    if (why)
        *why = model->vision_error && model->vision_error->text[0] ? model->vision_error->text
                                                                   : "it has no encoder of pictures";
    return arch && arch->pictures ? &model->hparams : model->vision;
}

clef_status clef__check_reads_texts(const clef_model *m, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, m->is_gguf);
    return arch && arch->pictures
               ? clef__fail(err, CLEF_E_UNSUPPORTED,
                            "%s: %s reads pictures, expected a model that reads texts (clef: --image FILE)",
                            m->path, m->hparams.arch)
               : CLEF_OK;
}
