/* Dense layers behind the pooling: the modules Dense of sentence-transformers, each in a folder of its own,
 * and GGUF's dense_2, dense_3 ... */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/model.h"
#include "runtime/os/os.h"

enum { MAX_JSON_BYTES = 1 << 20 };

/* PyTorch's names, without their module. */
static const struct {
    const char *name;
    clef_value *(*act)(clef_graph *g, clef_value *x);
} activations[] = {{"Identity", NULL},  {"Tanh", clef_tanh}, {"ReLU", clef_relu},
                   {"GELU", clef_gelu}, {"SiLU", clef_silu}, {"Sigmoid", clef_sigmoid}};
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

static clef_status set_activation(clef__dense *d, const char *name, size_t n, const char *file,
                                  clef_error *err)
{
    for (int i = 0; i < N_ACTIVATIONS; i++)
        if (strlen(activations[i].name) == n && strncmp(name, activations[i].name, n) == 0) {
            d->act_name = activations[i].name;
            d->act = activations[i].act;
            return CLEF_OK;
        }
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: the activation %.*s is not supported, known are: Identity Tanh ReLU GELU SiLU "
                      "Sigmoid",
                      file, (int)(n < 80 ? n : 80), name);
}

static clef_status check_shapes(const clef_model *m, const clef__dense *d, clef_error *err);

/* Fails unless the layer reads what the one before it gives, and its tensors have their shapes. */
static clef_status check_layer(const clef_model *m, const clef__dense *d, clef_error *err)
{
    const int32_t n_in = m->n_dense ? m->dense[m->n_dense - 1].n_out : m->hparams.d_model;
    if (d->n_in != n_in)
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: the layer %s reads %" PRId32 " numbers, it would get %" PRId32, m->path,
                          d->name, d->n_in, n_in);
    return check_shapes(m, d, err);
}

static clef_status check_shapes(const clef_model *m, const clef__dense *d, clef_error *err)
{
    if (d->weight.rank != 2 || d->weight.dims[0] != d->n_out || d->weight.dims[1] != d->n_in)
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: the weight %s.weight: expected [%" PRId32 ", %" PRId32 "], got another shape",
                          m->path, d->name, d->n_out, d->n_in);
    if (d->bias.data && (d->bias.rank != 1 || d->bias.dims[0] != d->n_out))
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: the bias %s.bias: expected [%" PRId32 "], got another shape", m->path, d->name,
                          d->n_out);
    return CLEF_OK;
}

static clef_status too_many(const clef_model *m, clef_error *err)
{
    return clef__fail(err, CLEF_E_LIMIT, "%s: more than %d dense layers behind the pooling", m->path,
                      CLEF_MAX_DENSE);
}

/* ---- folders --------------------------------------------------------------------------------- */

static char *path_of(const clef_model *m, const char *part, const char *file)
{
    const size_t n = strlen(m->path) + strlen(part) + strlen(file) + 3;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s%s%s", m->path, part, *part && *file ? "/" : "", file);
    return path;
}

static clef_status no_memory(const clef_model *m, clef_error *err)
{
    return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its dense layers", m->path);
}

/* What the file stores under `stored`, as the model's tensor `d->name`.`kind`. */
static clef_status take_tensor(clef__dense *d, const char *file, const char *stored, const char *kind,
                               char *name, clef_tensor_info *out, clef_error *err)
{
    const int32_t i = clef__safetensors_find(&d->file, stored);
    if (i < 0)
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: the tensor %s is missing", file, stored);
    *out = d->file.tensors[i];
    if (out->dtype != CLEF_F32 && out->dtype != CLEF_F16 && out->dtype != CLEF_BF16)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s is %s, expected F32, F16 or BF16", file,
                          stored, clef__st_dtype_name(d->file.stored[i]));
    snprintf(name, CLEF_DENSE_NAME, "%s.%s", d->name, kind);
    out->name = name;
    return CLEF_OK;
}

static clef_status open_weights(const clef_model *m, const char *part, int has_bias, clef__dense *d,
                                clef_error *err)
{
    char *path = path_of(m, part, "model.safetensors"), *folder = path_of(m, part, "");
    clef_status status = path && folder ? CLEF_OK : no_memory(m, err);
    if (status == CLEF_OK && !clef__os_is_file(path))
        status = clef__no_weights(folder, "has no model.safetensors", err);
    if (status == CLEF_OK)
        status = clef__safetensors_open(path, &d->file, err);
    if (status == CLEF_OK)
        status = take_tensor(d, path, "linear.weight", "weight", d->names[0], &d->weight, err);
    if (status == CLEF_OK && has_bias)
        status = take_tensor(d, path, "linear.bias", "bias", d->names[1], &d->bias, err);
    free(path);
    free(folder);
    return status;
}

/* Refuses what makes another layer of it. */
static void check_config(clef_json_fields *f)
{
    static const char *const places[] = {"module_input_name", "module_output_name"};
    for (size_t i = 0; i < 2; i++) {
        const char *place = clef__json_string(f, places[i], "sentence_embedding");
        if (f->status == CLEF_OK && strcmp(place, "sentence_embedding") != 0)
            f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s is %.60s, expected sentence_embedding",
                                   f->file, places[i], place);
    }
    if (clef__json_bool(f, "use_residual", 0) && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: use_residual true is not supported", f->file);
}

static clef_status read_config(const char *path, const json_t *root, clef__dense *d, int *has_bias,
                               clef_error *err)
{
    clef_json_fields f = {.object = root, .file = path, .err = err};
    if (!json_is_object(root))
        return clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", path, clef__json_kind(root));
    d->n_in = (int32_t)clef__json_need_int(&f, "in_features", 1, INT32_MAX);
    d->n_out = (int32_t)clef__json_need_int(&f, "out_features", 1, 1 << 20);
    *has_bias = clef__json_bool(&f, "bias", 1);
    check_config(&f);
    const char *act = clef__json_string(&f, "activation_function", "torch.nn.modules.activation.Tanh");
    if (f.status != CLEF_OK)
        return f.status;
    const char *dot = strrchr(act, '.'), *name = dot && strncmp(act, "torch.nn.", 9) == 0 ? dot + 1 : act;
    return set_activation(d, name, strlen(name), path, err);
}

static clef_status open_layer(clef_model *m, const char *part, clef_error *err)
{
    if (m->n_dense == CLEF_MAX_DENSE)
        return too_many(m, err);
    clef__dense *d = &m->dense[m->n_dense];
    char *path = path_of(m, part, "config.json");
    json_t *root = NULL;
    int has_bias = 0;
    if (!path)
        return no_memory(m, err);
    *d = (clef__dense){0};
    clef_status status = strlen(part) + sizeof ".linear.weight" > CLEF_DENSE_NAME
                             ? clef__fail(err, CLEF_E_LIMIT, "%s: the name of the folder is too long", path)
                         : clef__os_is_file(path) ? clef__json_load(path, MAX_JSON_BYTES, &root, err)
                                                  : clef__fail(err, CLEF_E_NOT_FOUND, "%s: is missing", path);
    if (status == CLEF_OK) {
        snprintf(d->name, sizeof d->name, "%.*s.linear", CLEF_DENSE_NAME - 20, part);
        status = read_config(path, root, d, &has_bias, err);
    }
    if (status == CLEF_OK)
        status = open_weights(m, part, has_bias, d, err);
    if (status == CLEF_OK)
        status = check_layer(m, d, err);
    if (status == CLEF_OK)
        m->n_dense++;
    else
        clef__safetensors_close(&d->file);
    json_decref(root);
    free(path);
    return status;
}

static int is_dense_module(const char *type)
{
    const char *dot = type ? strrchr(type, '.') : NULL;
    return type && strcmp(dot ? dot + 1 : type, "Dense") == 0;
}

int clef__is_plain_folder(const char *name)
{
    return name && name[0] != '.' && !strpbrk(name, "/\\:");
}

/* Modules of other kinds are read, or refused, where an embedder is made. */
static clef_status open_folder(clef_model *m, clef_error *err)
{
    char *path = path_of(m, "", "modules.json");
    json_t *root = NULL;
    clef_status status = !path                    ? no_memory(m, err)
                         : clef__os_is_file(path) ? clef__json_load(path, MAX_JSON_BYTES, &root, err)
                                                  : CLEF_OK;
    for (size_t i = 0; status == CLEF_OK && i < json_array_size(root); i++) {
        const json_t *module = json_array_get(root, i);
        const char *part = json_string_value(json_object_get(module, "path"));
        if (is_dense_module(json_string_value(json_object_get(module, "type"))) &&
            clef__is_plain_folder(part))
            status = open_layer(m, part, err);
    }
    json_decref(root);
    free(path);
    return status;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* The k-th word of a text of words; its length is 0 behind the last. */
static size_t word_of(const char *text, int32_t k, const char **word)
{
    for (*word = text + strspn(text, " "); k > 0; k--) {
        *word += strcspn(*word, " ");
        *word += strspn(*word, " ");
    }
    return strcspn(*word, " ");
}

static clef_status open_stored(clef_model *m, const clef_tensor_info *weight, clef_error *err)
{
    clef__dense *d = &m->dense[m->n_dense];
    char names[160], bias[CLEF_DENSE_NAME];
    const char *word = "Identity";
    *d = (clef__dense){.weight = *weight};
    snprintf(d->name, sizeof d->name, "dense_%" PRId32, m->n_dense + 2);
    snprintf(bias, sizeof bias, "%.60s.bias", d->name);
    const clef_tensor_info *b = clef__model_find(m, bias);
    if (b)
        d->bias = *b;
    d->n_out = weight->rank == 2 && weight->dims[0] <= 1 << 20 ? (int32_t)weight->dims[0] : 0;
    d->n_in = weight->rank == 2 && weight->dims[1] <= INT32_MAX ? (int32_t)weight->dims[1] : 0;
    size_t n = strlen(word);
    if (clef__gguf_text(&m->gguf, CLEF_KEY_DENSE, names, sizeof names))
        n = word_of(names, m->n_dense, &word);
    clef_status status = set_activation(d, word, n, m->path, err);
    if (status == CLEF_OK)
        status = check_layer(m, d, err);
    m->n_dense += status == CLEF_OK;
    return status;
}

static clef_status open_gguf(clef_model *m, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; status == CLEF_OK; i++) {
        char name[CLEF_DENSE_NAME];
        snprintf(name, sizeof name, "dense_%" PRId32 ".weight", i + 2);
        const clef_tensor_info *t = clef__model_find(m, name);
        if (!t)
            return CLEF_OK;
        status = i == CLEF_MAX_DENSE ? too_many(m, err) : open_stored(m, t, err);
    }
    return status;
}

/* ---- layers for each token ------------------------------------------------------------------- */

static clef_status no_head(const clef_model *m, const char *name, clef_error *err)
{
    char file[40];
    snprintf(file, sizeof file, "%.30s.pt", name);
    char *path = path_of(m, "", file);
    const int is_there = path && clef__os_is_file(path);
    free(path);
    if (is_there)
        return clef__fail(err, CLEF_E_NOT_FOUND,
                          "%s: has %s, but no %s.safetensors: clef reads no pickles; torch.load() and "
                          "safetensors.torch.save_file() make one of it",
                          m->path, file, name);
    return clef__fail(err, CLEF_E_NOT_FOUND,
                      "%s: has no %s.safetensors: the model gives no such vectors, or is a GGUF file",
                      m->path, name);
}

clef_status clef__token_head_open(clef_model *m, clef_token_head head, clef_error *err)
{
    static const char *const names[] = {"sparse_linear", "colbert_linear"};
    clef__dense *d = &m->token_heads[head - CLEF_TOKENS_SPARSE];
    char file[40];
    if (d->n_out)
        return CLEF_OK;
    const char *name = names[head - CLEF_TOKENS_SPARSE];
    snprintf(file, sizeof file, "%s.safetensors", name);
    char *path = path_of(m, "", file);
    if (!path)
        return no_memory(m, err);
    *d = (clef__dense){0};
    snprintf(d->name, sizeof d->name, "%s", name);
    clef_status status =
        clef__os_is_file(path) ? clef__safetensors_open(path, &d->file, err) : no_head(m, name, err);
    if (status == CLEF_OK)
        status = take_tensor(d, path, "weight", "weight", d->names[0], &d->weight, err);
    if (status == CLEF_OK)
        status = take_tensor(d, path, "bias", "bias", d->names[1], &d->bias, err);
    d->n_in = m->hparams.d_model;
    d->n_out = status == CLEF_OK && d->weight.rank == 2 && d->weight.dims[0] <= 1 << 20
                   ? (int32_t)d->weight.dims[0]
                   : 0;
    if (status == CLEF_OK && head == CLEF_TOKENS_SPARSE && d->n_out != 1)
        status =
            clef__fail(err, CLEF_E_SHAPE, "%s: expected a weight with 1 row, got %" PRId32, path, d->n_out);
    if (status == CLEF_OK)
        status = check_shapes(m, d, err);
    if (status != CLEF_OK) {
        clef__safetensors_close(&d->file);
        *d = (clef__dense){0};
    }
    free(path);
    return status;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Of the layers behind the pooling. */
static void close_layers(clef_model *m)
{
    for (int32_t i = 0; i < m->n_dense; i++)
        clef__safetensors_close(&m->dense[i].file);
    m->n_dense = m->has_dense = 0;
}

void clef__dense_finish(clef_model *m)
{
    close_layers(m);
    for (int i = 0; i < 2; i++)
        clef__safetensors_close(&m->token_heads[i].file);
}

clef_status clef__dense_open(clef_model *m, clef_error *err)
{
    if (m->has_dense)
        return CLEF_OK;
    const clef_status status = m->is_gguf ? open_gguf(m, err) : open_folder(m, err);
    if (status == CLEF_OK)
        m->has_dense = 1;
    else
        close_layers(m);
    return status;
}

const clef_tensor_info *clef__dense_find(const clef_model *m, const char *name)
{
    for (int32_t i = 0; i < m->n_dense + 2; i++) {
        const clef__dense *d = i < m->n_dense ? &m->dense[i] : &m->token_heads[i - m->n_dense];
        if (d->weight.name && strcmp(d->weight.name, name) == 0)
            return &d->weight;
        if (d->bias.name && strcmp(d->bias.name, name) == 0)
            return &d->bias;
    }
    return NULL;
}
