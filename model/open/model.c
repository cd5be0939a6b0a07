/* Opens models: finds their files, their tensors by name, and their metadata. */
#include "model/open/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/tensor_index.h"
#include "model/open/arch.h"
#include "model/open/config.h"
#include "model/open/declared.h"
#include "model/open/end_tokens.h"
#include "model/open/joined.h"
#include "model/open/published.h"
#include "model/open/quantised.h"
#include "model/sight/sight.h"
#include "runtime/os/os.h"

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_INDEX_BYTES = 256 << 20, MAX_SHARDS = 4096 };

static clef_status no_memory(const char *path, clef_error *err)
{
    return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
}

/* "folder/file" in new memory; NULL when there is none. */
static char *join_path(const char *folder, const char *file)
{
    const size_t n = strlen(folder), m = strlen(file);
    char *path = malloc(n + m + 2);
    if (!path)
        return NULL;
    memcpy(path, folder, n);
    path[n] = '/';
    memcpy(path + n + 1, file, m + 1);
    return path;
}

/* The last part of a path: "stories" for "models/stories/". */
static void set_name_from_path(clef_model *m)
{
    char part[sizeof m->hparams.name + 8];
    size_t end = strlen(m->path);
    while (end > 1 && m->path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && m->path[begin - 1] != '/')
        begin--;
    const size_t n = end - begin < sizeof part - 1 ? end - begin : sizeof part - 1;
    memcpy(part, m->path + begin, n);
    part[n] = '\0';
    clef__config_text(part, m->hparams.name, sizeof m->hparams.name);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* What llama.cpp's converter has kept of a folder's generation_config.json. */
static clef_status open_suppressed(clef_model *m, clef_error *err)
{
    const clef_gguf_entry *e = clef__gguf_find(&m->gguf, "tokenizer.ggml.suppress_tokens");
    if (!e || !e->is_array)
        return CLEF_OK;
    json_t *ids = json_array(), *generation = json_pack("{s:o}", "suppress_tokens", ids);
    for (uint64_t i = 0; i < e->n; i++) {
        const int64_t id = clef__gguf_item_int(e, i);
        if (id >= 0 && id < m->hparams.n_vocab)
            json_array_append_new(ids, json_integer(id));
    }
    const clef_status status = clef__rules_read(generation, &m->hparams, &m->rules, err);
    json_decref(generation);
    return status;
}

/* What clef convert has kept of it. */
static clef_status open_generation(clef_model *m, clef_error *err)
{
    const clef_gguf_entry *e = clef__gguf_find(&m->gguf, CLEF_GENERATION_KEY);
    if (!e || e->is_array || e->type != CLEF_GGUF_STRING)
        return open_suppressed(m, err);
    clef_status status =
        clef__json_parse(e->strings->text, e->strings->n_bytes, CLEF_GENERATION_KEY, &m->generation, err);
    if (status == CLEF_OK)
        status = clef__rules_read(m->generation, &m->hparams, &m->rules, err);
    if (status == CLEF_OK)
        clef__sampling_from_json(m);
    return status;
}

static clef_status take_tensors(clef_model *m, clef_error *err)
{
    const size_t n = (size_t)m->gguf.n_tensors;
    const clef_status status = clef__gguf_align(&m->gguf, err);
    m->tensors = status ? NULL : calloc(n, sizeof *m->tensors);
    if (!m->tensors)
        return status ? status : no_memory(m->path, err);
    memcpy(m->tensors, m->gguf.tensors, n * sizeof *m->tensors);
    m->n_tensors = (int32_t)n;
    return CLEF_OK;
}

static clef_status open_gguf(clef_model *m, clef_error *err)
{
    m->is_gguf = 1;
    clef_status status = clef__gguf_open(m->path, &m->gguf, err);
    if (status == CLEF_OK && m->gguf.n_tensors == 0)
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: has no tensors: it holds only a vocabulary", m->path);
    if (status == CLEF_OK)
        status = clef__config_from_gguf(&m->gguf, m->path, &m->hparams, err);
    if (status != CLEF_OK)
        return status;
    if (m->gguf.n_tensors > INT32_MAX)
        return clef__fail(err, CLEF_E_LIMIT, "%s: has %" PRIu64 " tensors", m->path, m->gguf.n_tensors);
    clef__sampling_from_gguf(m);
    status = open_generation(m, err);
    if (status == CLEF_OK)
        status = clef__classifier_of_gguf(m, err);
    if (status != CLEF_OK)
        return status;
    return take_tensors(m, err);
}

/* ---- Hugging Face folder --------------------------------------------------------------------- */

/* An integer of a dtype that clef does not have is a buffer (position_ids); a float would be a weight. */
static int is_buffer(clef_st_dtype dtype)
{
    return dtype == CLEF_ST_I64 || dtype == CLEF_ST_U64 || dtype == CLEF_ST_U32 || dtype == CLEF_ST_I16 ||
           dtype == CLEF_ST_U16;
}

/* Appends those tensors of a shard that `map` (name -> file; NULL: any) assigns to `file`. */
static clef_status add_tensors(clef_model *m, const clef_safetensors *st, const json_t *map, const char *file,
                               size_t *n_mapped, clef_error *err)
{
    if (st->n_tensors > INT32_MAX - m->n_tensors)
        return clef__fail(err, CLEF_E_LIMIT, "%s: has too many tensors", m->path);
    clef_tensor_info *grown =
        realloc(m->tensors, ((size_t)m->n_tensors + (size_t)st->n_tensors + 1) * sizeof *grown);
    if (!grown)
        return no_memory(m->path, err);
    m->tensors = grown;
    for (int32_t i = 0; i < st->n_tensors; i++) {
        const clef_tensor_info *t = &st->tensors[i];
        const char *mapped = map ? json_string_value(json_object_get(map, t->name)) : file;
        if (!mapped || strcmp(mapped, file) != 0)
            continue;
        ++*n_mapped;
        if (is_buffer(st->stored[i]))
            continue;
        if (t->dtype == CLEF_N_DTYPES && !clef__is_quantised(m))
            return clef__fail(err, CLEF_E_UNSUPPORTED, "%s/%s: tensor %s is %s, expected F32, F16 or BF16",
                              m->path, file, t->name, clef__st_dtype_name(st->stored[i]));
        m->tensors[m->n_tensors++] = *t;
    }
    return CLEF_OK;
}

static clef_status open_shard(clef_model *m, const char *file, const json_t *map, size_t *n_mapped,
                              clef_error *err)
{
    clef_safetensors *grown = realloc(m->shards, (m->n_shards + 1) * sizeof *grown);
    if (!grown)
        return no_memory(m->path, err);
    m->shards = grown;
    char *path = join_path(m->path, file);
    if (!path)
        return no_memory(m->path, err);
    clef_status status = clef__safetensors_open(path, &m->shards[m->n_shards], err);
    free(path);
    if (status != CLEF_OK)
        return status;
    m->n_shards++;
    return add_tensors(m, &m->shards[m->n_shards - 1], map, file, n_mapped, err);
}

/* A shard is in the folder itself: the index must not lead elsewhere. */
static int is_shard_name(const char *name)
{
    const size_t n = name ? strlen(name) : 0;
    return n > 12 && n < 256 && name[0] != '.' && !strpbrk(name, "/\\:") && clef__name_is_plain(name, n) &&
           strcmp(name + n - 12, ".safetensors") == 0;
}

/* Names a tensor of the index that its shard does not have. */
static clef_status missing_tensor(const clef_model *m, const char *index, json_t *map, clef_error *err)
{
    const char *key, *missing = "?", *file = "?";
    json_t *value;
    json_object_foreach(map, key, value) {
        int found = 0;
        for (size_t i = 0; i < m->n_shards && !found; i++)
            found = clef__safetensors_find(&m->shards[i], key) >= 0;
        if (!found) {
            missing = key;
            file = json_string_value(value);
            break;
        }
    }
    return clef__fail(err, CLEF_E_NOT_FOUND, "%s: weight_map places %.200s in %s, which has no such tensor",
                      index, missing, file);
}

static clef_status open_shards(clef_model *m, const char *index, json_t *root, clef_error *err)
{
    json_t *map = json_object_get(root, "weight_map"), *value;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: weight_map is %s, expected an object with entries", index,
                          clef__json_kind(map));

    clef_status status = CLEF_OK;
    const char *key;
    size_t n_mapped = 0;
    json_t *seen = json_object();
    if (!seen)
        return no_memory(m->path, err);
    json_object_foreach(map, key, value) {
        const char *file = json_string_value(value);
        if (!is_shard_name(file)) {
            status = clef__fail(
                err, CLEF_E_FORMAT,
                "%s: weight_map.%.80s is %.80s, expected the name of a .safetensors file beside it", index,
                key, file ? file : clef__json_kind(value));
            goto out;
        }
        if (json_object_get(seen, file))
            continue;
        if (json_object_size(seen) == MAX_SHARDS) {
            status = clef__fail(err, CLEF_E_LIMIT, "%s: names more than %d files", index, MAX_SHARDS);
            goto out;
        }
        if (json_object_set_new(seen, file, json_true()) != 0) {
            status = no_memory(m->path, err);
            goto out;
        }
        status = open_shard(m, file, map, &n_mapped, err);
        if (status != CLEF_OK)
            goto out;
    }
    if (n_mapped != json_object_size(map))
        status = missing_tensor(m, index, map, err);
out:
    json_decref(seen);
    return status;
}

static clef_status open_weights(clef_model *m, clef_error *err)
{
    clef_status status;
    char *single = join_path(m->path, "model.safetensors"),
         *index = join_path(m->path, "model.safetensors.index.json");
    json_t *root = NULL;
    size_t n_mapped = 0;
    if (!single || !index) {
        status = no_memory(m->path, err);
    } else if (clef__os_is_file(single)) {
        status = open_shard(m, "model.safetensors", NULL, &n_mapped, err);
    } else if (clef__os_is_file(index)) {
        status = clef__json_load(index, MAX_INDEX_BYTES, &root, err);
        if (status == CLEF_OK)
            status = open_shards(m, index, root, err);
    } else {
        status =
            clef__no_weights(m->path, "has neither model.safetensors nor model.safetensors.index.json", err);
    }
    json_decref(root);
    free(single);
    free(index);
    return status;
}

static clef_status open_configs(clef_model *m, clef_error *err)
{
    clef_status status = CLEF_OK;
    char *config = join_path(m->path, "config.json"), *beside = join_path(m->path, "generation_config.json");
    if (!config || !beside)
        status = no_memory(m->path, err);
    else if (!clef__os_is_file(config))
        status = clef__no_weights(m->path, "has no config.json", err);
    else
        status = clef__json_load(config, MAX_CONFIG_BYTES, &m->config, err);
    m->outer = json_incref(m->config);
    if (status == CLEF_OK)
        status = clef__read_vision_config(m, m->config, config, err);
    if (status == CLEF_OK)
        status = clef__unwrap_config(&m->config, config, err);
    m->classifier = json_incref(m->config);
    if (status == CLEF_OK)
        status = clef__quantised_beside(m, err);
    if (status == CLEF_OK && clef__os_is_file(beside))
        status = clef__json_load(beside, MAX_CONFIG_BYTES, &m->generation, err);
    if (status == CLEF_OK)
        status = clef__config_from_json(m->config, m->generation, config, &m->hparams, err);
    if (status == CLEF_OK && !m->generation) /* transformers takes config.json in its place */
        m->generation = clef__generation_of_config(m->config);
    if (status == CLEF_OK)
        status = clef__rules_read(m->generation, &m->hparams, &m->rules, err);
    if (status == CLEF_OK)
        status = clef__sight_read(m->outer, m->config, &m->hparams, m->path, &m->sight, err);
    clef__sampling_from_json(m);
    free(config);
    free(beside);
    return status;
}

/* ---- the output matrix ----------------------------------------------------------------------- */

static const clef_tensor_info *find_exactly(const clef_model *m, const char *name)
{
    const clef_tensor_info *t = clef__tensor_lookup(m->by_name, (size_t)m->n_tensors, name);
    return t ? t : clef__joined_lookup(m, name);
}

static const clef_tensor_info *find_stored(const clef_model *m, const char *name)
{
    static const char *const prefixes[] = {"transformer.", "model.", "nomic_bert."};
    char wrapped[CLEF_WEIGHT_NAME_BYTES + 32];
    const clef_tensor_info *t = find_exactly(m, name);
    if (!t && clef__text_name(m, name, wrapped, sizeof wrapped))
        t = find_exactly(m, wrapped);
    if (!t && !m->is_gguf && clef__further_name(m, name, wrapped, sizeof wrapped))
        t = find_exactly(m, wrapped);
    for (size_t i = 0; !t && !m->is_gguf && i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0)
            t = find_exactly(m, name + n);
    }
    return t;
}

static const clef_tensor_info *find_role(const clef_model *m, const clef_arch *arch, clef_role role,
                                         const char *suffix)
{
    const clef_weight_names *names = arch->kind == CLEF_SEQ2SEQ ? &arch->decoder_weights : &arch->weights;
    char name[CLEF_WEIGHT_NAME_BYTES];
    const size_t n = strlen(arch->hf_prefix);
    if (!clef__weight_name(arch, names, role, 0, -1, suffix, name))
        return NULL;
    const clef_tensor_info *t = find_stored(m, name);
    return t || strncmp(name, arch->hf_prefix, n) != 0 ? t : find_stored(m, name + n);
}

int clef__tensors_equal(const clef_tensor_info *a, const clef_tensor_info *b)
{
    if (!a->data || !b->data) /* made of several tensors */
        return a == b;
    return a->dtype == b->dtype && a->n_bytes == b->n_bytes &&
           (a->data == b->data || memcmp(a->data, b->data, (size_t)a->n_bytes) == 0);
}

/* A file may say that the output matrix is the embedding, and have another one: the stored one counts, as in
 * transformers 5. */
static clef_status settle_head(clef_model *m, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, 0);
    const int is_encoder = arch->kind == CLEF_ENCODER;
    const clef_tensor_info *embed = find_role(m, arch, CLEF_W_EMBED, "weight"),
                           *bias = find_role(m, arch, CLEF_W_OUT, "bias"),
                           *head = find_role(m, arch, CLEF_W_OUT, is_encoder ? "decoder.weight" : "weight"),
                           *other = is_encoder ? find_role(m, arch, CLEF_W_OUT, "decoder.bias") : NULL;
    if (is_encoder && !head)
        head = find_role(m, arch, CLEF_W_OUT, "weight");
    if (bias && other && !clef__tensors_equal(bias, other))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: the tensors %s and %s differ, expected the same values", m->path, bias->name,
                          other->name);
    const size_t n_name = strlen(m->hparams.arch);
    if (!head && n_name >= 2 &&
        strcmp(m->hparams.arch + n_name - 2, "t5") == 0) /* these classes always tie them */
        m->hparams.tied_embeddings = 1;
    if (!m->hparams.tied_embeddings || !embed || !head)
        return CLEF_OK;
    if (clef__tensors_equal(embed, head)) {
        if (head != embed)
            clef_model_release(m, head->name); /* nothing else reads it */
        return CLEF_OK;
    }
    if (is_encoder)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: the output matrix %s differs from the embedding %s, expected the same values",
                          m->path, head->name, embed->name);
    m->hparams.tied_embeddings = 0;
    return CLEF_OK;
}

/* ---- open, close, ask ------------------------------------------------------------------------ */

static clef_status open_model(clef_model *m, clef_error *err)
{
    clef_status status;
    set_name_from_path(m);
    if (clef__os_is_dir(m->path)) {
        status = open_configs(m, err);
        if (status == CLEF_OK)
            status = open_weights(m, err);
        if (status == CLEF_OK)
            status = clef__quantised_find(m, err);
    } else {
        status = open_gguf(m, err);
    }
    if (status != CLEF_OK)
        return status;
    const clef_tensor_info *twice = NULL;
    m->by_name = clef__tensor_index(m->tensors, (size_t)m->n_tensors, &twice);
    if (!m->by_name)
        return no_memory(m->path, err);
    if (twice)
        return clef__fail(err, CLEF_E_FORMAT, "%s: tensor %s occurs twice", m->path, twice->name);
    if (!m->is_gguf)
        clef__find_text_prefix(m);
    status = clef__find_tower(m, err);
    if (status == CLEF_OK)
        status = clef__joined_find(m, err);
    if (status == CLEF_OK && !m->is_gguf)
        status = settle_head(m, err);
    return status == CLEF_OK ? clef__check_unread_tensors(m, err) : status;
}

/* Makes a model, which `how` fills. */
static clef_status open_by(const char *path, clef_status (*how)(clef_model *m, clef_error *err),
                           clef_model **out, clef_error *err)
{
    if (!out)
        return clef__fail(err, CLEF_E_ARG, "clef_model_open: out is NULL");
    *out = NULL;
    if (!path || !path[0])
        return clef__fail(err, CLEF_E_ARG, "clef_model_open: path is NULL or empty");
    const size_t n = strlen(path);
    clef_model *m = calloc(1, sizeof *m);
    if (m)
        m->path = malloc(n + 1);
    if (!m || !m->path) {
        free(m);
        return no_memory(path, err);
    }
    memcpy(m->path, path, n + 1);
    const clef_status status = how(m, err);
    if (status == CLEF_OK)
        *out = m;
    else
        clef_model_close(m);
    return status;
}

/* A folder's config.json as it is, and all tensors. */
static clef_status look_at_folder(clef_model *m, clef_error *err)
{
    char *config = join_path(m->path, "config.json");
    clef_status status = config ? CLEF_OK : no_memory(m->path, err);
    if (!status && clef__os_is_file(config))
        status = clef__json_load(config, MAX_CONFIG_BYTES, &m->config, err);
    const char *type = json_string_value(json_object_get(m->config, "model_type"));
    clef__config_text(type ? type : "", m->hparams.arch, sizeof m->hparams.arch);
    free(config);
    return status ? status : open_weights(m, err);
}

static clef_status look_at_gguf(clef_model *m, clef_error *err)
{
    m->is_gguf = 1;
    const clef_status status = clef__gguf_open(m->path, &m->gguf, err);
    if (status || m->gguf.n_tensors > INT32_MAX)
        return status ? status : clef__fail(err, CLEF_E_LIMIT, "%s: has too many tensors", m->path);
    const clef_gguf_entry *e = clef__gguf_find(&m->gguf, "general.architecture");
    if (e && e->type == CLEF_GGUF_STRING && e->n == 1)
        snprintf(m->hparams.arch, sizeof m->hparams.arch, "%.*s",
                 (int)(e->strings[0].n_bytes < 30 ? e->strings[0].n_bytes : 30), e->strings[0].text);
    return take_tensors(m, err);
}

static clef_status look(clef_model *m, clef_error *err)
{
    const clef_tensor_info *twice = NULL;
    set_name_from_path(m);
    const clef_status status = clef__os_is_dir(m->path) ? look_at_folder(m, err) : look_at_gguf(m, err);
    if (status)
        return status;
    m->by_name = clef__tensor_index(m->tensors, (size_t)m->n_tensors, &twice);
    if (m->by_name && !m->is_gguf)
        clef__find_text_prefix(m);
    return m->by_name ? CLEF_OK : no_memory(m->path, err);
}

clef_status clef_model_look(const char *path, clef_model **out, char near[512], clef_error *err)
{
    const clef_status status = open_by(path, look, out, err);
    if (near)
        near[0] = 0;
    if (!status && near)
        clef__nearest_arch(*out, near, 512);
    return status;
}

clef_status clef_model_open(const char *path, clef_model **out, clef_error *err)
{
    return open_by(path, open_model, out, err);
}

void clef_model_close(clef_model *model)
{
    if (!model)
        return;
    clef_tokenizer_close(model->tokenizer);
    clef__dense_finish(model);
    clef__published_finish(model);
    clef__joined_finish(model);
    clef__packed_finish(model);
    if (model->declared)
        clef__declared_finish(model->declared);
    free(model->declared);
    free(model->by_name);
    free(model->tensors);
    free(model->tensors_before);
    clef__gguf_close(&model->gguf);
    for (size_t i = 0; i < model->n_shards; i++)
        clef__safetensors_close(&model->shards[i]);
    free(model->shards);
    json_decref(model->config);
    json_decref(model->outer);
    clef_model_close(model->pictures);
    free(model->picture_names);
    free(model->picture_config);
    free(model->sight);
    json_decref(model->classifier);
    json_decref(model->generation);
    json_decref(model->embedding);
    clef__rules_finish(&model->rules);
    clef__vision_finish(model);
    free(model->path);
    free(model->weights_name);
    free(model);
}

const clef_hparams *clef_model_hparams(const clef_model *model)
{
    return &model->hparams;
}

const char *clef_model_path(const clef_model *model)
{
    return model->path;
}

const clef_tokenizer *clef_model_tokenizer(clef_model *model, clef_error *err)
{
    if (model->tokenizer || clef_tokenizer_open(model->path, &model->tokenizer, err) != CLEF_OK)
        return model->tokenizer;
    /* where the files name one end token or none; GGUF's own list of tokens was looked through before */
    if (model->hparams.n_eos_more == 0)
        clef__end_tokens_of_tokenizer(model->tokenizer, &model->hparams);
    return model->tokenizer;
}

int32_t clef_model_n_tensors(const clef_model *model)
{
    return model->n_tensors;
}

clef_tensor_info clef_model_tensor(const clef_model *model, int32_t i)
{
    return i >= 0 && i < model->n_tensors ? model->tensors[i] : (clef_tensor_info){0};
}

const clef_tensor_info *clef__model_find(const clef_model *model, const char *name)
{
    static const char *const embeddings[] = {"model.embed_tokens.weight", "transformer.wte.weight"};
    const clef_tensor_info *t = find_stored(model, name);
    if (!t)
        t = clef__dense_find(model, name);
    if (t || model->is_gguf || !model->hparams.tied_embeddings)
        return t;
    for (size_t i = 0; !t && i < sizeof embeddings / sizeof *embeddings; i++) {
        if (strcmp(name, embeddings[i]) == 0)
            t = find_stored(model, "lm_head.weight");
        else if (strcmp(name, "lm_head.weight") == 0)
            t = find_stored(model, embeddings[i]);
    }
    return t;
}

/* A plan that packs a matrix in pieces asks for it before each. What it has read is not needed in memory,
 * also where runs read rows of the matrix in place (embeddings that are the output matrix, too). */
static const void *stored_data(clef_model *m, const clef_tensor_info *t)
{
    if (m->last_asked == t)
        clef__forget_data(m, t);
    m->last_asked = t;
    return t->data;
}

const void *clef_model_weight(void *model, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    const clef_tensor_info *t = clef__model_find(model, name);
    if (!t || t->dtype != dtype || t->n_bytes != n_bytes)
        return NULL;
    clef__packed *packed = clef__packed_of(model, t);
    if (t->data)
        return stored_data(model, t);
    return packed ? clef__packed_data(model, packed) : clef__joined_data(model, t);
}

/* The file that contains p; its data is NULL if there is none. */
static clef_mapping mapping_of(const clef_model *m, const char *p)
{
    const size_t n = m->n_shards + m->gguf.n_more;
    for (size_t i = 0; i <= n; i++) {
        const clef_mapping file = i < m->n_shards ? m->shards[i].file
                                  : i < n         ? m->gguf.more[i - m->n_shards]
                                                  : m->gguf.file;
        if (file.data && (uintptr_t)p - (uintptr_t)file.data < file.n_bytes)
            return file;
    }
    return (clef_mapping){0};
}

/* A page fault also maps the pages around it in the page cache (Linux: 64 KiB). So the ends of neighbouring
 * tensors are released too. */
void clef__forget_data(const clef_model *m, const clef_tensor_info *t)
{
    enum { AROUND = 128 << 10 };
    const clef_mapping file = mapping_of(m, t->data);
    if (!file.data)
        return;
    const size_t at = (size_t)((uintptr_t)t->data - (uintptr_t)file.data), end = at + (size_t)t->n_bytes;
    const size_t from = at > AROUND ? at - AROUND : 0,
                 to = file.n_bytes - end > AROUND ? end + AROUND : file.n_bytes;
    clef__os_forget((const char *)file.data + from, to - from);
}

void clef_model_release(void *model, const char *name)
{
    const clef_tensor_info *t = clef__model_find(model, name);
    clef__packed *packed = t ? clef__packed_of(model, t) : NULL;
    if (packed)
        clef__packed_done(model, packed);
    else if (t)
        clef__forget_data(model, t);
}
