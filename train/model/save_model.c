/* clef_model_save(): a model with trained weights, as a folder or as a GGUF file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/convert/quantize.h"
#include "model/open/arch.h"
#include "model/open/joined.h"
#include "train/model/save.h"

enum { PIECE = 1 << 16 };

/* What one call has. */
typedef struct saving {
    clef_model *model;
    const clef_save_opts *opts;
    const clef_weight_values *values;
    clef_tensor_info *tensors; /* of the new folder, in the model's order */
} saving;

/* ---- a folder */

static uint64_t n_elements(const clef_tensor_info *t)
{
    return t->n_bytes / (uint64_t)clef_dtype_block_bytes(t->dtype) *
           (uint64_t)clef_dtype_block_elems(t->dtype);
}

/* Codes what the model has. Its data need not be aligned to its elements. */
static clef_status write_stored(const clef_tensor_info *from, const clef_tensor_info *to, clef_os_file *file,
                                clef_error *err)
{
    const size_t size = (size_t)clef_dtype_block_bytes(from->dtype), n = (size_t)n_elements(from);
    const unsigned char *data = from->data;
    clef_status status = CLEF_OK;
    if (from->dtype == to->dtype)
        return clef__os_file_write(file, data, (size_t)from->n_bytes, err);
    unsigned char *aligned = malloc(PIECE * size);
    float *x = malloc(PIECE * sizeof *x);
    if (!aligned || !x)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", from->name);
    for (size_t i = 0; i < n && !status; i += PIECE) {
        const size_t m = n - i < PIECE ? n - i : PIECE;
        memcpy(aligned, data + i * size, m * size);
        clef_dtype_decode(from->dtype, aligned, m, x);
        status = clef__write_floats(file, from->name, to->dtype, x, m, err);
    }
    free(aligned);
    free(x);
    return status;
}

/* The values of an expert's matrix "x.experts.3.y", which the graph reads as a part of "x.experts.*.y"; NULL
 * if it is none, or was not trained. */
static clef_status read_expert(const saving *s, const clef_tensor_info *from, const float **out,
                               clef_error *err)
{
    static const char key[] = ".experts.";
    const char *at = strstr(from->name, key);
    char name[CLEF_WEIGHT_NAME_BYTES + 8], *end = NULL;
    *out = NULL;
    if (!at)
        return CLEF_OK;
    at += sizeof key - 1;
    const long i = strtol(at, &end, 10);
    if (end == at || *end != '.' ||
        snprintf(name, sizeof name, "%.*s*%s", (int)(at - from->name), from->name, end) >= (int)sizeof name)
        return CLEF_OK;
    const clef_tensor_info *all = clef__joined_lookup(s->model, name);
    if (!all || i < 0 || i >= all->dims[0])
        return CLEF_OK;
    const clef_status status = s->values->read(s->values->user, name, n_elements(all), out, err);
    *out = !status && *out ? *out + (uint64_t)i * n_elements(from) : NULL;
    return status;
}

static clef_status write_tensor(void *user, const clef_tensor_info *t, clef_os_file *file, clef_error *err)
{
    const saving *s = user;
    const clef_tensor_info *from = &s->model->tensors[t - s->tensors];
    const float *x = NULL;
    clef_status status = CLEF_OK;
    if (clef__save_dtype_name(from->dtype))
        status = s->values->read(s->values->user, from->name, n_elements(from), &x, err);
    if (!status && !x)
        status = read_expert(s, from, &x, err);
    if (status)
        return status;
    return x ? clef__write_floats(file, from->name, t->dtype, x, (size_t)n_elements(from), err)
             : write_stored(from, t, file, err);
}

/* Weights that the graph reads as one and the folder has in parts have no place for their values. */
static clef_status check_joined(const saving *s, clef_error *err)
{
    if (s->model->n_packed > 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: the folder is quantised: expected a .gguf file to write", s->model->path);
    for (size_t i = 0; i < s->model->n_joined; i++) {
        const clef_tensor_info *t = &s->model->joined_infos[i];
        const float *x = NULL;
        if (strstr(t->name, ".experts.*.")) /* read_expert() */
            continue;
        const clef_status status = s->values->read(s->values->user, t->name, n_elements(t), &x, err);
        if (status)
            return status;
        if (x)
            return clef__fail(
                err, CLEF_E_UNSUPPORTED,
                "%s: %s was trained, but the folder has it in parts: expected a .gguf file to write",
                s->model->path, t->name);
    }
    return CLEF_OK;
}

/* Floats get the new dtype, integers keep theirs. */
static clef_status list_tensors(saving *s, clef_error *err)
{
    const int32_t n = s->model->n_tensors;
    s->tensors = malloc(((size_t)n + 1) * sizeof *s->tensors);
    if (!s->tensors)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", s->model->path);
    for (int32_t i = 0; i < n; i++) {
        clef_tensor_info *t = &s->tensors[i];
        *t = s->model->tensors[i];
        if (!clef__save_dtype_name(t->dtype))
            continue;
        t->n_bytes = n_elements(t) * (uint64_t)clef_dtype_block_bytes(s->opts->dtype);
        t->dtype = s->opts->dtype;
    }
    return CLEF_OK;
}

static clef_status write_config(const saving *s, clef__save *save, clef_error *err)
{
    json_t *config = json_copy(s->model->config);
    clef_status status = config ? clef__save_set_dtype(config, s->opts->dtype, err)
                                : clef__fail(err, CLEF_E_NOMEM, "config.json: no memory for it");
    if (!status)
        status = clef__save_json(save, "config.json", config, err);
    json_decref(config);
    return status;
}

static clef_status check_folder(const saving *s, const char *path, clef_error *err)
{
    return s->model->is_gguf
               ? clef__fail(err, CLEF_E_UNSUPPORTED,
                            "%s: a folder of a GGUF model (%s): expected a name that ends with .gguf", path,
                            s->model->path)
               : check_joined(s, err);
}

static clef_status save_folder(saving *s, const char *path, clef_error *err)
{
    const char *from = s->model->path;
    clef__save save = {0};
    clef_status status = check_folder(s, path, err);
    if (!status)
        status = list_tensors(s, err);
    if (!status)
        status = clef__save_begin(path, &save, err);
    if (!status)
        status = write_config(s, &save, err);
    if (!status)
        status = clef__save_copy(&save, from, "generation_config.json", err);
    if (!status)
        status = clef__save_tokenizer(&save, from, err);
    if (!status)
        status = clef__save_tensors(&save, s->tensors, s->model->n_tensors, s->opts->shard_bytes,
                                    &(clef__tensor_put){.write = write_tensor, .user = s}, err);
    if (!status)
        status = clef__save_commit(&save, err);
    clef__save_abort(&save);
    free(s->tensors);
    return status;
}

/* ---- a GGUF file */

static clef_status check_old(const char *path, clef_error *err)
{
    clef_gguf old = {0};
    if (clef__os_is_dir(path))
        return clef__fail(err, CLEF_E_IO, "%s: is a folder, expected nothing there, or a file of clef train",
                          path);
    if (!clef__os_is_file(path))
        return CLEF_OK;
    const int is_own =
        clef__gguf_open(path, &old, NULL) == CLEF_OK && clef__gguf_find(&old, CLEF_TRAINED_KEY) != NULL;
    clef__gguf_close(&old);
    return is_own ? CLEF_OK
                  : clef__fail(err, CLEF_E_IO,
                               "%s: is there already, and clef train did not write it: expected another name",
                               path);
}

static clef_status save_gguf(const saving *s, const char *path, clef_error *err)
{
    const clef_quantize_opts opts = {
        .type = clef_dtype_name(s->opts->dtype), .note = s->opts->note, .note_user = s->opts->note_user};
    const clef_status status = check_old(path, err);
    return status ? status : clef__quantize_values(s->model, path, &opts, s->values, err);
}

static clef_status no_values(void *user, const char *name, uint64_t n, const float **out, clef_error *err)
{
    (void)user;
    (void)name;
    (void)n;
    (void)err;
    *out = NULL;
    return CLEF_OK;
}

/* Checks the arguments. *is_gguf: what is to be written. */
static clef_status check_arguments(const saving *s, const char *path, int *is_gguf, clef_error *err)
{
    const size_t n = path ? strlen(path) : 0;
    if (!s->model || n == 0)
        return clef__fail(err, CLEF_E_ARG, "saving a model: expected a model and a name, got no %s",
                          s->model ? "name" : "model");
    if (!clef__save_dtype_name(s->opts->dtype))
        return clef__fail(err, CLEF_E_ARG, "%s: weights of %s: expected f32, f16 or bf16", path,
                          clef_dtype_name(s->opts->dtype));
    *is_gguf = n > 5 && strcmp(path + n - 5, ".gguf") == 0;
    return CLEF_OK;
}

static const clef_save_opts default_opts;
static const clef_weight_values no_new_values = {.read = no_values};

clef_status clef_model_save(clef_model *model, const char *path, const clef_save_opts *opts,
                            const clef_weight_values *values, clef_error *err)
{
    saving s = {
        .model = model, .opts = opts ? opts : &default_opts, .values = values ? values : &no_new_values};
    int is_gguf = 0;
    const clef_status status = check_arguments(&s, path, &is_gguf, err);
    return status ? status : is_gguf ? save_gguf(&s, path, err) : save_folder(&s, path, err);
}

clef_status clef__save_check_model(clef_model *model, const char *path, const clef_save_opts *opts,
                                   const clef_weight_values *values, clef_error *err)
{
    const saving s = {
        .model = model, .opts = opts ? opts : &default_opts, .values = values ? values : &no_new_values};
    int is_gguf = 0;
    clef_status status = check_arguments(&s, path, &is_gguf, err);
    if (status)
        return status;
    if (is_gguf) {
        status = check_old(path, err);
        return status ? status : clef__quantize_check(model, clef_dtype_name(s.opts->dtype), err);
    }
    status = check_folder(&s, path, err);
    return status ? status : clef_train_check_folder(path, err);
}
