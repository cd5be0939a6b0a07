/* clef_model_create_new(): a model folder from a configuration and a tokenizer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/declared.h"
#include "model/open/families.h"
#include "model/tokenizer/read/formats.h"
#include "train/model/new_values.h"
#include "train/model/save.h"

enum { MAX_CONFIG_BYTES = 16 << 20, PIECE = 1 << 20 };

/* A new model while it is made. */
typedef struct new_model {
    char config_path[CLEF_SAVE_PATH_BYTES], tokenizer_folder[CLEF_SAVE_PATH_BYTES];
    int32_t is_one_file; /* 1: the tokenizer is its tokenizer.json alone */
    json_t *config;
    const clef__new_family *family;
    clef_tokenizer *tok;
    clef_hparams hp;
    uint64_t seed;
    clef__declared declared;
} new_model;

/* ---- what is given */

static clef_status unknown_type(const new_model *n, const char *type, clef_error *err)
{
    char known[256] = "";
    for (int32_t i = 0; clef_model_new_type(i); i++)
        strcat(strcat(known, " "), clef_model_new_type(i));
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: a new model of model_type %.40s is not supported, known are:%s", n->config_path,
                      type, known);
}

static clef_status read_config(new_model *n, const char *path, clef_error *err)
{
    snprintf(n->config_path, sizeof n->config_path, clef__os_is_dir(path) ? "%s/config.json" : "%s", path);
    clef_status status = clef__json_load(n->config_path, MAX_CONFIG_BYTES, &n->config, err);
    if (status)
        return status;
    clef_json_fields f = {.object = n->config, .file = n->config_path, .err = err};
    if (!json_is_object(n->config))
        return clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", n->config_path,
                          clef__json_kind(n->config));
    const char *type = clef__json_string(&f, "model_type", NULL);
    if (f.status)
        return f.status;
    if (!type)
        return clef__fail(err, CLEF_E_FORMAT, "%s: has no model_type, expected the name of a family",
                          n->config_path);
    n->family = clef__new_family_find(type);
    return n->family ? CLEF_OK : unknown_type(n, type, err);
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static clef_status read_tokenizer(new_model *n, const char *path, clef_error *err)
{
    snprintf(n->tokenizer_folder, sizeof n->tokenizer_folder, "%s", path);
    if (!clef__os_is_dir(path)) {
        if (clef__os_is_file(path) && !ends_with(path, ".json"))
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "%s: a tokenizer for a new model: expected a folder or a tokenizer.json", path);
        n->is_one_file = 1;
    }
    return clef_tokenizer_open(path, &n->tok, err);
}

/* ---- the configuration */

static clef_status set_key(new_model *n, const char *key, json_t *value, clef_error *err)
{
    return json_object_set_new(n->config, key, value) == 0
               ? CLEF_OK
               : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for it", n->config_path);
}

static clef_status complete_vocabulary(new_model *n, clef_error *err)
{
    const int32_t n_tokens = clef_tokenizer_n_tokens(n->tok);
    clef_json_fields f = {.object = n->config, .file = n->config_path, .err = err};
    const int64_t given = clef__json_int(&f, "vocab_size", 1, CLEF_MAX_VOCAB, 0);
    if (f.status)
        return f.status;
    if (given > 0 && given < n_tokens)
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: vocab_size is %" PRId64 ", the tokenizer %s has %" PRId32
                          " tokens: expected at least as many (without the key it is the tokenizer's number)",
                          n->config_path, given, n->tokenizer_folder, n_tokens);
    return given > 0 ? CLEF_OK : set_key(n, "vocab_size", json_integer(n_tokens), err);
}

/* 1 when a key's value, an id or a list of them, contains `id`. */
static int has_id(const json_t *value, int32_t id)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_integer_value(json_array_get(value, i)) == id)
            return 1;
    return json_is_integer(value) && json_integer_value(value) == id;
}

/* The id of a special token: the configuration's, which must be the tokenizer's if both have one, or else the
 * tokenizer's. */
static clef_status complete_id(new_model *n, const char *key, int32_t id, int must_agree, clef_error *err)
{
    const json_t *value = json_object_get(n->config, key);
    if (!value)
        return set_key(n, key, id >= 0 ? json_integer(id) : json_null(), err);
    if (must_agree && id >= 0 && !json_is_null(value) && !has_id(value, id))
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: %s is not %" PRId32
                          ", the id in the tokenizer %s (without the key it is the tokenizer's)",
                          n->config_path, key, id, n->tokenizer_folder);
    const int64_t n_vocab = json_integer_value(json_object_get(n->config, "vocab_size"));
    for (size_t i = 0; i < (json_is_array(value) ? json_array_size(value) : 1); i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_null(item) && (!json_is_integer(item) || json_integer_value(item) >= n_vocab))
            return clef__fail(err, CLEF_E_SHAPE, "%s: %s: expected an id below vocab_size, %" PRId64,
                              n->config_path, key, n_vocab);
    }
    return CLEF_OK;
}

static clef_status complete_ids(new_model *n, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(n->family->model_type, 0);
    const int32_t pad = clef_tokenizer_role(n->tok, CLEF_ROLE_PAD), eos = clef_tokenizer_eos(n->tok);
    const int is_bart = strcmp(n->family->model_type, "bart") == 0;
    clef_status status = CLEF_OK;
    if (pad >= 0 || json_object_get(n->config, "pad_token_id") || arch->kind == CLEF_DECODER)
        status = complete_id(n, "pad_token_id", pad, 0, err);
    if (!status && arch->kind != CLEF_ENCODER)
        status = complete_id(n, "eos_token_id", eos, 1, err);
    if (!status && (arch->kind == CLEF_DECODER || is_bart))
        status = complete_id(n, "bos_token_id", clef_tokenizer_bos(n->tok), 1, err);
    /* T5 begins a target with the padding token, BART with the end of text. */
    if (!status && arch->kind == CLEF_SEQ2SEQ)
        status = complete_id(n, "decoder_start_token_id", is_bart ? eos : pad < 0 ? 0 : pad, 0, err);
    if (!status && is_bart)
        status = complete_id(n, "forced_eos_token_id", eos, 0, err);
    return status;
}

static clef_status complete_config(new_model *n, clef_error *err)
{
    clef_status status = set_key(n, "architectures", json_pack("[s]", n->family->architecture), err);
    if (!status)
        status = clef__save_set_dtype(n->config, CLEF_F32, err);
    if (!status)
        status = complete_vocabulary(n, err);
    if (!status)
        status = complete_ids(n, err);
    return status ? status : clef__config_from_json(n->config, NULL, n->config_path, &n->hp, err);
}

/* ---- the weights */

static int has_weight(const void *user, clef_role role, const char *suffix)
{
    const new_model *n = user;
    return n->family->has(n->config, role, suffix);
}

/* Builds the family's graph, which declares the weights. Their shapes do not depend on the lengths. */
static clef_status declare_weights(new_model *n, const char *out, clef_error *err)
{
    n->declared = (clef__declared){.has = has_weight, .user = n};
    const clef_model model = {
        .hparams = n->hp, .path = (char *)(uintptr_t)out, .config = n->config, .declared = &n->declared};
    clef_graph *g = NULL;
    const clef_status status =
        clef_model_build(&model, &(clef_build_opts){.n_context = 1, .n_batch = 1}, &g, err);
    clef_graph_destroy(g);
    return status;
}

/* The row of the embedding that is zero; -1: none. */
static int64_t zero_row(const new_model *n, const clef__declared_weight *w)
{
    const json_t *pad = json_object_get(n->config, "pad_token_id");
    if (w->role != CLEF_W_EMBED || n->family->pad < -1)
        return -1;
    return !pad ? n->family->pad : json_is_integer(pad) ? (int64_t)json_integer_value(pad) : -1;
}

/* Fills n numbers of a weight from number `first` on. */
static void fill(const new_model *n, const clef__declared_weight *w, double range, uint64_t first,
                 size_t count, float *x)
{
    const int is_t5 = strcmp(n->family->model_type, "t5") == 0;
    const int is_weight = strcmp(w->suffix, "weight") == 0;
    if (is_weight && w->info.rank > 1) {
        const double d = n->family->deviation ? n->family->deviation(&n->hp, w->role, range) : range;
        clef__new_normal(n->seed, w->name, d, first, count, x);
    } else {
        for (size_t i = 0; i < count; i++)
            x[i] = !is_weight ? 0 : is_t5 ? (float)range : 1;
    }
    const int64_t row = zero_row(n, w), width = row >= 0 ? w->info.dims[1] : 0;
    for (int64_t i = row * width; i < (row + 1) * width; i++)
        if ((uint64_t)i >= first && (uint64_t)i - first < count)
            x[(uint64_t)i - first] = 0;
}

typedef struct writing {
    const new_model *model;
    const clef_tensor_info *tensors; /* of model->declared, in its order */
    double range;
    float *x;
} writing;

static clef_status write_weight(void *user, const clef_tensor_info *t, clef_os_file *file, clef_error *err)
{
    const writing *w = user;
    const clef__declared_weight *weight = w->model->declared.weights[t - w->tensors];
    const uint64_t n = t->n_bytes / sizeof *w->x;
    clef_status status = CLEF_OK;
    for (uint64_t first = 0; first < n && !status; first += PIECE) {
        const size_t count = n - first < PIECE ? (size_t)(n - first) : PIECE;
        fill(w->model, weight, w->range, first, count, w->x);
        status = clef__os_file_write(file, w->x, count * sizeof *w->x, err);
    }
    return status;
}

static clef_status write_weights(const new_model *n, clef__save *save, clef_error *err)
{
    const int32_t count = n->declared.n;
    clef_json_fields f = {.object = n->config, .file = n->config_path, .err = err};
    writing w = {.model = n, .x = malloc(PIECE * sizeof *w.x)};
    clef_tensor_info *tensors = malloc(((size_t)count + 1) * sizeof *tensors);
    w.tensors = tensors;
    w.range = clef__json_double(&f, n->family->range_key, 0, 1e6, n->family->range);
    clef_status status = f.status;
    if (!status && (!w.x || !tensors))
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its weights", save->path);
    for (int32_t i = 0; i < count && !status; i++)
        tensors[i] = n->declared.weights[i]->info;
    if (!status)
        status = clef__save_tensors(save, tensors, count, 0,
                                    &(clef__tensor_put){.write = write_weight, .user = &w}, err);
    free(tensors);
    free(w.x);
    return status;
}

/* ---- the folder */

/* The special tokens and the class that transformers shall use, for a tokenizer.json that has no such file
 * beside it. */
static clef_status write_tokenizer_config(const new_model *n, clef__save *save, clef_error *err)
{
    const struct {
        const char *key;
        int32_t id;
    } tokens[] = {{"bos_token", clef_tokenizer_bos(n->tok)},
                  {"eos_token", clef_tokenizer_eos(n->tok)},
                  {"unk_token", clef_tokenizer_role(n->tok, CLEF_ROLE_UNK)},
                  {"sep_token", clef_tokenizer_role(n->tok, CLEF_ROLE_SEP)},
                  {"pad_token", clef_tokenizer_role(n->tok, CLEF_ROLE_PAD)},
                  {"cls_token", clef_tokenizer_role(n->tok, CLEF_ROLE_CLS)},
                  {"mask_token", clef_tokenizer_role(n->tok, CLEF_ROLE_MASK)}};
    json_t *config = json_pack("{s:s, s:i}", "tokenizer_class", "PreTrainedTokenizerFast", "model_max_length",
                               (int)n->hp.n_context);
    int failed = !config;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens && !failed; i++)
        if (tokens[i].id >= 0) {
            const clef__token *t = &n->tok->vocab.tokens[tokens[i].id];
            failed = json_object_set_new(config, tokens[i].key, json_stringn(t->text, t->n_text)) != 0;
        }
    const clef_status status = failed ? clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", save->path)
                                      : clef__save_json(save, "tokenizer_config.json", config, err);
    json_decref(config);
    return status;
}

static clef_status write_tokenizer(const new_model *n, clef__save *save, clef_error *err)
{
    char path[CLEF_SAVE_PATH_BYTES];
    json_t *whole = NULL;
    clef_status status = CLEF_OK;
    if (n->is_one_file) {
        status = clef__json_load(n->tokenizer_folder, CLEF_TOKENIZER_FILE_BYTES, &whole, err);
        if (!status)
            status = clef__save_json(save, "tokenizer.json", whole, err);
        json_decref(whole);
    } else {
        status = clef__save_tokenizer(save, n->tokenizer_folder, err);
    }
    if (status)
        return status;
    const char *const folder = clef__os_folder_path(save->folder);
    status = clef__beside(folder, "tokenizer_config.json", path, sizeof path, err);
    if (status || clef__os_is_file(path))
        return status;
    status = clef__beside(folder, "tokenizer.json", path, sizeof path, err);
    return status || !clef__os_is_file(path) ? status : write_tokenizer_config(n, save, err);
}

static clef_status write_generation(const new_model *n, clef__save *save, clef_error *err)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id",
                                       "decoder_start_token_id", "forced_eos_token_id"};
    if (clef__arch_find(n->family->model_type, 0)->kind == CLEF_ENCODER)
        return CLEF_OK;
    json_t *generation = json_pack("{s:b}", "_from_model_config", 1);
    int failed = !generation;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !failed; i++) {
        json_t *value = json_object_get(n->config, keys[i]);
        if (value && !json_is_null(value))
            failed = json_object_set(generation, keys[i], value) != 0;
    }
    const clef_status status = failed ? clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", save->path)
                                      : clef__save_json(save, "generation_config.json", generation, err);
    json_decref(generation);
    return status;
}

static clef_status write_folder(const new_model *n, const char *out, clef_error *err)
{
    clef__save save;
    clef_status status = clef__save_begin(out, &save, err);
    if (status)
        return status;
    status = clef__save_json(&save, "config.json", n->config, err);
    if (!status)
        status = write_generation(n, &save, err);
    if (!status)
        status = write_tokenizer(n, &save, err);
    if (!status)
        status = write_weights(n, &save, err);
    if (!status)
        return clef__save_commit(&save, err);
    clef__save_abort(&save);
    return status;
}

clef_status clef_model_create_new(const char *config, const char *tokenizer, const char *out, uint64_t seed,
                                  clef_error *err)
{
    if (!config || !tokenizer || !out)
        return clef__fail(err, CLEF_E_ARG,
                          "a new model: expected a configuration, a tokenizer and a folder, got %s",
                          !config      ? "no configuration"
                          : !tokenizer ? "no tokenizer"
                                       : "no folder");
    if (strlen(config) + 16 > CLEF_SAVE_PATH_BYTES || strlen(tokenizer) + 16 > CLEF_SAVE_PATH_BYTES)
        return clef__fail(err, CLEF_E_LIMIT, "%s: a path of more than %d bytes", out, CLEF_SAVE_PATH_BYTES);
    new_model *n = calloc(1, sizeof *n);
    if (!n)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to make it", out);
    n->seed = seed;
    clef_status status = clef_train_check_folder(out, err);
    if (!status)
        status = read_config(n, config, err);
    if (!status)
        status = read_tokenizer(n, tokenizer, err);
    if (!status)
        status = complete_config(n, err);
    if (!status)
        status = declare_weights(n, out, err);
    if (!status)
        status = write_folder(n, out, err);
    clef__declared_finish(&n->declared);
    clef_tokenizer_close(n->tok);
    json_decref(n->config);
    free(n);
    return status;
}
