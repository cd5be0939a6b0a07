/* clef_lora_save(): an adapter as PEFT's folder. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/convert/quantize.h"
#include "model/open/arch.h"
#include "train/model/save.h"

/* A module of the model, under the name that transformers gives it. */
typedef struct module {
    char name[CLEF_WEIGHT_NAME_BYTES];
    const clef_tensor_info *weight; /* of the model */
    clef_role role;
    int32_t is_trained;
} module;

typedef struct adapter {
    const clef_model *model;
    const clef_arch *arch;
    const char *path;
    const clef_lora_save_opts *opts;
    const clef_lora_matrices *matrices;
    int32_t n; /* of them */
    module *modules;
    size_t n_modules, capacity;
    int32_t *of;               /* the module of each matrix */
    clef_tensor_info *tensors; /* A and B of each */
    char *names;               /* of the tensors */
    clef_error *err;
} adapter;

static clef_status no_memory(const adapter *a)
{
    return clef__fail(a->err, CLEF_E_NOMEM, "%s: no memory to write it", a->path);
}

/* ---- modules */

/* The model's tensor of a role. A folder of the base model has names without the prefix. */
static const clef_tensor_info *find_tensor(const adapter *a, const clef_weight_names *table, clef_role role,
                                           int32_t layer)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    const size_t n = strlen(a->arch->hf_prefix);
    if (!clef__weight_name(a->arch, table, role, a->model->is_gguf, layer, "weight", name))
        return NULL;
    const clef_tensor_info *t = clef__model_find(a->model, name);
    return !t && !a->model->is_gguf && strncmp(name, a->arch->hf_prefix, n) == 0
               ? clef__model_find(a->model, name + n)
               : t;
}

static clef_status add_module(adapter *a, const clef_weight_names *table, clef_role role, int32_t layer)
{
    module m = {.role = role, .weight = find_tensor(a, table, role, layer)};
    /* two names in a folder, one in GGUF */
    if (table->hf[CLEF_W_FFN_UP_GATED] &&
        role == (a->model->hparams.gated ? CLEF_W_FFN_UP : CLEF_W_FFN_UP_GATED))
        return CLEF_OK;
    if (!m.weight || !clef__weight_name(a->arch, table, role, 0, layer, "", m.name))
        return CLEF_OK;
    if (a->n_modules == a->capacity) {
        const size_t capacity = 2 * a->capacity + 64;
        module *grown = realloc(a->modules, capacity * sizeof *grown);
        if (!grown)
            return no_memory(a);
        a->modules = grown;
        a->capacity = capacity;
    }
    a->modules[a->n_modules++] = m;
    return CLEF_OK;
}

static clef_status list_modules(adapter *a)
{
    const clef_weight_names *tables[] = {&a->arch->weights, &a->arch->decoder_weights};
    const int32_t n_layers[] = {a->model->hparams.n_layers, a->model->hparams.n_decoder_layers};
    clef_status status = CLEF_OK;
    for (int k = 0; k < 2; k++)
        for (int role = 0; role < CLEF_N_ROLES && tables[k]->hf && !status; role++) {
            const char *form = tables[k]->hf[role];
            const int in_layers = form && strstr(form, "%d");
            for (int32_t i = 0; i < (!form ? 0 : in_layers ? n_layers[k] : 1) && !status; i++)
                status = add_module(a, tables[k], (clef_role)role, in_layers ? i : -1);
        }
    return status;
}

static int is_projection(clef_role role)
{
    return role != CLEF_W_EMBED && role != CLEF_W_OUT && role != CLEF_W_POSITIONS &&
           role != CLEF_W_EMBED_TYPES && role != CLEF_W_RELATIVE;
}

static clef_status find_module(adapter *a, int32_t i)
{
    const char *weight = a->matrices[i].weight;
    for (size_t k = 0; weight && k < a->n_modules; k++) {
        module *m = &a->modules[k];
        if (strcmp(m->weight->name, weight) != 0)
            continue;
        if (!is_projection(m->role))
            return clef__fail(
                a->err, CLEF_E_UNSUPPORTED,
                "%s: an adapter of %s: expected projections of attention and feed-forwards alone", a->path,
                weight);
        if (m->weight->rank != 2)
            return clef__fail(a->err, CLEF_E_SHAPE,
                              "%s: an adapter of %s, which has %d dims: expected a matrix", a->path, weight,
                              m->weight->rank);
        if (m->is_trained)
            return clef__fail(a->err, CLEF_E_ARG, "%s: two adapters of %s", a->path, weight);
        m->is_trained = 1;
        a->of[i] = (int32_t)k;
        return CLEF_OK;
    }
    return clef__fail(a->err, CLEF_E_NOT_FOUND, "%s: an adapter of %s: %s has no such matrix", a->path,
                      weight ? weight : "NULL", clef_model_path(a->model));
}

/* ---- the configuration */

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* 1 when all modules whose names end alike are trained: then the end names them. */
static int are_all_trained(const adapter *a, const char *end)
{
    for (size_t i = 0; i < a->n_modules; i++)
        if (!a->modules[i].is_trained && strcmp(last_part(a->modules[i].name), end) == 0)
            return 0;
    return 1;
}

static int has_text(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
            return 1;
    return 0;
}

/* PEFT changes the modules that have one of these names, or end with "." and one of them. */
static json_t *target_modules(const adapter *a)
{
    json_t *list = json_array();
    for (size_t i = 0; i < a->n_modules && list; i++) {
        const char *end = last_part(a->modules[i].name),
                   *name = are_all_trained(a, end) ? end : a->modules[i].name;
        if (a->modules[i].is_trained && !has_text(list, name) &&
            json_array_append_new(list, json_string(name)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *number(double x)
{
    return x == floor(x) && fabs(x) < 1e9 ? json_integer((json_int_t)x) : json_real(x);
}

static clef_status write_config(const adapter *a, clef__save *save)
{
    const clef_lora_save_opts *o = a->opts;
    const char *task = a->arch->kind == CLEF_DECODER   ? "CAUSAL_LM"
                       : a->arch->kind == CLEF_SEQ2SEQ ? "SEQ_2_SEQ_LM"
                                                       : NULL;
    json_t *targets = target_modules(a), *alpha = number(o->alpha != 0 ? (double)o->alpha : o->rank);
    json_t *config =
        json_pack("{s:s, s:s?, s:s, s:i, s:o, s:f, s:o, s:s, s:b, s:b, s:b, s:b, s:n}", "peft_type", "LORA",
                  "task_type", task, "base_model_name_or_path", o->base ? o->base : clef_model_path(a->model),
                  "r", (int)o->rank, "lora_alpha", alpha, "lora_dropout", 0.0, "target_modules", targets,
                  "bias", "none", "fan_in_fan_out", a->arch->hf_conv1d, "inference_mode", 1, "use_rslora", 0,
                  "init_lora_weights", 1, "modules_to_save");
    const clef_status status =
        config ? clef__save_json(save, "adapter_config.json", config, a->err) : no_memory(a);
    json_decref(config);
    return status;
}

/* ---- the matrices */

static int64_t width_in(const adapter *a, const clef_tensor_info *w)
{
    return w->dims[a->arch->hf_conv1d && !a->model->is_gguf ? 0 : 1];
}

static int64_t width_out(const adapter *a, const clef_tensor_info *w)
{
    return w->dims[a->arch->hf_conv1d && !a->model->is_gguf ? 1 : 0];
}

static clef_status list_tensors(adapter *a)
{
    enum { NAME = CLEF_WEIGHT_NAME_BYTES + 64 };
    const uint64_t size = (uint64_t)clef_dtype_block_bytes(a->opts->dtype);
    a->tensors = calloc(2 * (size_t)a->n, sizeof *a->tensors);
    a->names = malloc(2 * (size_t)a->n * NAME);
    if (!a->tensors || !a->names)
        return no_memory(a);
    for (int32_t i = 0; i < 2 * a->n; i++) {
        const module *m = &a->modules[a->of[i / 2]];
        clef_tensor_info *t = &a->tensors[i];
        char *name = a->names + (size_t)i * NAME;
        snprintf(name, NAME, "base_model.model.%s.lora_%c.weight", m->name, i % 2 ? 'B' : 'A');
        *t = (clef_tensor_info){.name = name, .dtype = a->opts->dtype, .rank = 2};
        t->dims[0] = i % 2 ? width_out(a, m->weight) : a->opts->rank;
        t->dims[1] = i % 2 ? a->opts->rank : width_in(a, m->weight);
        t->n_bytes = (uint64_t)t->dims[0] * (uint64_t)t->dims[1] * size;
    }
    return CLEF_OK;
}

/* Writes B with its rows in a folder's order; the model is a GGUF file with another. */
static clef_status write_reordered(const adapter *a, const clef_tensor_info *t,
                                   const clef__quantize_item *rows, const float *b, clef_os_file *file)
{
    const size_t n = (size_t)t->dims[0], r = (size_t)t->dims[1];
    const clef_hparams *hp = &a->model->hparams;
    if (rows->map)
        return clef__fail(a->err, CLEF_E_UNSUPPORTED,
                          "%s: GGUF has its numbers in another order: expected a model in a folder", t->name);
    const int64_t heads = rows->order == CLEF_ROWS_PAIRED ? 1 : hp->n_heads + 2 * hp->n_kv_heads;
    if (rows->head_dim % 2 != 0 || t->dims[0] % (heads * rows->head_dim) != 0)
        return clef__fail(a->err, CLEF_E_SHAPE, "%s: %lld rows are not whole heads of %d", t->name,
                          (long long)t->dims[0], rows->head_dim);
    float *x = malloc(n * r * sizeof *x);
    if (!x)
        return no_memory(a);
    for (size_t i = 0; i < n; i++)
        memcpy(x + clef__quantize_source_row(rows, i) * r, b + i * r, r * sizeof *x);
    const clef_status status = clef__write_floats(file, t->name, t->dtype, x, n * r, a->err);
    free(x);
    return status;
}

static clef_status write_tensor(void *user, const clef_tensor_info *t, clef_os_file *file, clef_error *err)
{
    const adapter *a = user;
    const int32_t i = (int32_t)(t - a->tensors);
    const clef_lora_matrices *m = &a->matrices[i / 2];
    clef__quantize_item rows = {.order = CLEF_ROWS_SAME};
    clef__quantize_set_rows(a->model, a->arch, a->modules[a->of[i / 2]].role, &rows);
    if (i % 2 && a->model->is_gguf && rows.order != CLEF_ROWS_SAME)
        return write_reordered(a, t, &rows, m->b, file);
    return clef__write_floats(file, t->name, t->dtype, i % 2 ? m->b : m->a,
                              (size_t)t->dims[0] * (size_t)t->dims[1], err);
}

static clef_status check(const adapter *a)
{
    if (!a->path || !a->path[0] || a->n < 1 || !a->matrices)
        return clef__fail(a->err, CLEF_E_ARG, "an adapter: expected a folder and matrices, got %d of them",
                          a->n);
    if (a->opts->rank < 1 || a->opts->rank > CLEF_MAX_LOW_RANK)
        return clef__fail(a->err, CLEF_E_ARG, "%s: rank %d, expected 1 to %d", a->path, a->opts->rank,
                          CLEF_MAX_LOW_RANK);
    if (!clef__save_dtype_name(a->opts->dtype) || !isfinite(a->opts->alpha))
        return clef__fail(a->err, CLEF_E_ARG,
                          "%s: dtype %s, alpha %g: expected f32, f16 or bf16, and a number", a->path,
                          clef_dtype_name(a->opts->dtype), (double)a->opts->alpha);
    return CLEF_OK;
}

static clef_status check_values(const adapter *a)
{
    for (int32_t i = 0; i < a->n; i++)
        if (!a->matrices[i].a || !a->matrices[i].b)
            return clef__fail(a->err, CLEF_E_ARG, "%s: matrix %d has no values", a->path, i);
    return CLEF_OK;
}

static clef_status write_folder(adapter *a)
{
    clef__save save;
    clef_status status = clef__save_begin(a->path, &save, a->err);
    char path[CLEF_SAVE_PATH_BYTES];
    if (status)
        return status;
    status = write_config(a, &save);
    if (!status && snprintf(path, sizeof path, "%s/adapter_model.safetensors",
                            clef__os_folder_path(save.folder)) >= (int)sizeof path)
        status = clef__fail(a->err, CLEF_E_LIMIT, "%.80s...: the path is too long", a->path);
    if (!status)
        status = clef__safetensors_write(path, a->tensors, 2 * a->n,
                                         &(clef__tensor_put){.write = write_tensor, .user = a}, a->err);
    if (!status && json_array_append_new(save.files, json_string("adapter_model.safetensors")) != 0)
        status = no_memory(a);
    if (!status)
        return clef__save_commit(&save, a->err);
    clef__save_abort(&save);
    return status;
}

/* Finds the modules of the matrices. */
static clef_status find_modules(adapter *a)
{
    clef_status status = check(a);
    if (!status) {
        a->of = malloc((size_t)a->n * sizeof *a->of);
        status = a->of ? list_modules(a) : no_memory(a);
    }
    for (int32_t i = 0; i < a->n && !status; i++)
        status = find_module(a, i);
    return status;
}

static void finish(adapter *a)
{
    free(a->modules);
    free(a->of);
    free(a->tensors);
    free(a->names);
}

static clef_status begin(adapter *a, const clef_model *model, const char *path,
                         const clef_lora_save_opts *opts, const clef_lora_matrices *matrices, int32_t n,
                         clef_error *err)
{
    *a = (adapter){.path = path, .opts = opts, .matrices = matrices, .n = n, .err = err};
    if (!model || !opts)
        return clef__fail(err, CLEF_E_ARG, "an adapter: expected a model and options, got no %s",
                          model ? "options" : "model");
    a->model = model;
    a->arch = clef__arch_find(model->hparams.arch, model->is_gguf);
    return find_modules(a);
}

clef_status clef_lora_save(const clef_model *model, const char *path, const clef_lora_save_opts *opts,
                           const clef_lora_matrices *matrices, int32_t n, clef_error *err)
{
    adapter a;
    clef_status status = begin(&a, model, path, opts, matrices, n, err);
    if (!status)
        status = check_values(&a);
    if (!status)
        status = list_tensors(&a);
    if (!status)
        status = write_folder(&a);
    finish(&a);
    return status;
}

clef_status clef__save_check_lora(const clef_model *model, const char *path, const clef_lora_save_opts *opts,
                                  const clef_lora_matrices *matrices, int32_t n, clef_error *err)
{
    adapter a;
    const clef_status status = begin(&a, model, path, opts, matrices, n, err);
    finish(&a);
    return status ? status : clef_train_check_folder(path, err);
}
