/* Reading checkpoints (train/model/checkpoint.h). Nothing of a file is used before all of it was checked. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/tensor_index.h"
#include "runtime/os/sha256.h"
#include "train/model/checkpoint.h"
#include "train/model/checkpoint_form.h"

struct clef__checkpoint {
    char *path;
    clef_mapping file;
    json_t *json;
    clef__checkpoint_head head;
    clef_tensor_info *tensors;
    int32_t n_tensors;
    const clef_tensor_info **by_name;
};

static uint64_t number_at(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static clef_status damaged(const char *path, const char *how, clef_error *err)
{
    return clef__fail(err, CLEF_E_FORMAT, "%s: the checkpoint is damaged: %s", path, how);
}

static clef_status check_bytes(const char *path, const clef_mapping *file, clef_error *err)
{
    const unsigned char *p = file->data;
    const uint64_t n = file->n_bytes;
    unsigned char digest[CLEF_SHA256_BYTES];
    clef_sha256 sha;
    if (n < 8 || memcmp(p, CLEF_CHECKPOINT_MAGIC, 8) != 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: is not a checkpoint: expected it to begin with %s", path,
                          CLEF_CHECKPOINT_MAGIC);
    if (n < CLEF_CHECKPOINT_HEAD_BYTES + sizeof digest)
        return damaged(path, "it is cut short", err);
    if (number_at(p + 8, 4) != CLEF_CHECKPOINT_VERSION)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a checkpoint of version %" PRIu64 ", expected %d",
                          path, number_at(p + 8, 4), CLEF_CHECKPOINT_VERSION);
    if (number_at(p + 24, 8) != n)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: the checkpoint is damaged: it has %" PRIu64 " bytes, its begin says %" PRIu64,
                          path, n, number_at(p + 24, 8));
    clef__sha256_init(&sha);
    clef__sha256_add(&sha, p, (size_t)(n - sizeof digest));
    clef__sha256_finish(&sha, digest);
    if (memcmp(digest, p + n - sizeof digest, sizeof digest) != 0)
        return damaged(path, "its bytes have changed (the SHA-256 at its end differs)", err);
    if (number_at(p + 16, 8) > n - sizeof digest - CLEF_CHECKPOINT_HEAD_BYTES)
        return damaged(path, "its header is longer than the file", err);
    return CLEF_OK;
}

/* ---- the header */

static int read_dtype(const char *name, clef_dtype *out)
{
    static const clef_dtype dtypes[] = {CLEF_F32, CLEF_F16, CLEF_BF16, CLEF_I32, CLEF_I8};
    for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(name, clef_dtype_name(dtypes[i])) == 0) {
            *out = dtypes[i];
            return 1;
        }
    return 0;
}

static clef_status read_tensor(const clef__checkpoint *c, const json_t *entry, clef_tensor_info *t,
                               clef_error *err)
{
    clef_json_fields f = {.object = entry, .file = c->path, .within = "tensors", .err = err};
    const json_t *shape = json_object_get(entry, "shape");
    const uint64_t end = c->file.n_bytes - CLEF_SHA256_BYTES;
    int64_t n = 0;
    t->name = clef__json_string(&f, "name", "");
    const char *dtype = clef__json_string(&f, "dtype", "");
    const uint64_t offset = (uint64_t)clef__json_need_int(&f, "offset", 0, INT64_MAX);
    t->n_bytes = (uint64_t)clef__json_need_int(&f, "bytes", 0, INT64_MAX);
    t->rank = (int32_t)json_array_size(shape);
    if (f.status)
        return f.status;
    if (!t->name[0] || !read_dtype(dtype, &t->dtype) || !json_is_array(shape) ||
        json_array_size(shape) > CLEF_MAX_DIMS)
        return damaged(c->path, "a tensor has no name, dtype or shape", err);
    for (int32_t i = 0; i < t->rank; i++)
        t->dims[i] = (int64_t)json_integer_value(json_array_get(shape, (size_t)i));
    if (!clef__dims_product(t->dims, t->rank, &n) || n > INT64_MAX / 8 ||
        (uint64_t)n * (uint64_t)clef_dtype_block_bytes(t->dtype) != t->n_bytes || offset > end ||
        t->n_bytes > end - offset || offset % CLEF_CHECKPOINT_ALIGNMENT)
        return damaged(c->path, "a tensor is not where its header says", err);
    t->data = (const unsigned char *)c->file.data + offset;
    return CLEF_OK;
}

static clef_status read_tensors(clef__checkpoint *c, clef_error *err)
{
    const json_t *list = json_object_get(c->json, "tensors");
    const clef_tensor_info *twice = NULL;
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > INT32_MAX)
        return damaged(c->path, "its header has no list of tensors", err);
    c->tensors = calloc(n + 1, sizeof *c->tensors);
    if (!c->tensors)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", c->path);
    c->n_tensors = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        const clef_status status = read_tensor(c, json_array_get(list, i), &c->tensors[i], err);
        if (status)
            return status;
    }
    c->by_name = clef__tensor_index(c->tensors, n, &twice);
    if (!c->by_name)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", c->path);
    return twice ? damaged(c->path, "a tensor occurs twice", err) : CLEF_OK;
}

static clef_status read_header(clef__checkpoint *c, clef_error *err)
{
    const char *p = c->file.data, *text = p + CLEF_CHECKPOINT_HEAD_BYTES;
    const size_t n = (size_t)number_at((const unsigned char *)p + 16, 8);
    clef_status status = clef__json_parse(text, n, c->path, &c->json, err);
    if (status)
        return status;
    clef_json_fields f = {.object = c->json, .file = c->path, .err = err};
    c->head.model = clef__json_string(&f, "model", "");
    c->head.options = clef__json_string(&f, "options", "");
    c->head.step = (uint64_t)clef__json_need_int(&f, "step", 0, INT64_MAX);
    c->head.seed = strtoull(clef__json_string(&f, "seed", "0"), NULL, 10);
    const json_t *state = json_object_get(c->json, "state");
    c->head.state = json_is_object(state) ? state : NULL;
    return f.status ? f.status : read_tensors(c, err);
}

/* ---- opening, asking */

clef_status clef__checkpoint_open(const char *path, clef__checkpoint **out, clef_error *err)
{
    *out = NULL;
    if (!path || !path[0])
        return clef__fail(err, CLEF_E_ARG, "a checkpoint: expected a path, got none");
    clef__checkpoint *c = calloc(1, sizeof *c);
    if (c)
        c->path = malloc(strlen(path) + 1);
    if (!c || !c->path) {
        free(c);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    }
    strcpy(c->path, path);
    clef_status status = clef__os_map(path, &c->file, err);
    if (!status)
        status = check_bytes(path, &c->file, err);
    if (!status)
        status = read_header(c, err);
    if (status)
        clef__checkpoint_close(c);
    else
        *out = c;
    return status;
}

void clef__checkpoint_close(clef__checkpoint *c)
{
    if (!c)
        return;
    free(c->by_name);
    free(c->tensors);
    json_decref(c->json);
    clef__os_unmap(&c->file);
    free(c->path);
    free(c);
}

/* One of the options in a text "key value key value ..". */
typedef struct option {
    const char *text; /* "key value" */
    int n_key, n;     /* bytes of the key, and of all */
} option;

static option next_option(const char **at)
{
    const char *text = *at;
    const size_t n_key = strcspn(text, " "),
                 n = text[n_key] ? n_key + 1 + strcspn(text + n_key + 1, " ") : n_key;
    *at += n + (text[n] == ' ');
    return (option){text, (int)n_key, (int)n};
}

static option option_with_key_of(const char *options, option o)
{
    while (*options) {
        const option found = next_option(&options);
        if (found.n_key == o.n_key && memcmp(found.text, o.text, (size_t)o.n_key) == 0)
            return found;
    }
    return (option){"none", 4, 4};
}

/* Finds an option of `a` that `b` does not have so. */
static int find_difference(const char *a, const char *b, option *in_a, option *in_b)
{
    while (*a) {
        *in_a = next_option(&a);
        *in_b = option_with_key_of(b, *in_a);
        if (in_a->n != in_b->n || memcmp(in_a->text, in_b->text, (size_t)in_a->n) != 0)
            return 1;
    }
    return 0;
}

clef_status clef__checkpoint_check(const clef__checkpoint *c, const char *model, const char *options,
                                   clef_error *err)
{
    if (model && strcmp(model, c->head.model) != 0)
        return clef__fail(err, CLEF_E_ARG, "%s: is a checkpoint of another model (%.80s), expected %.80s",
                          c->path, c->head.model, model);
    if (options && strcmp(options, c->head.options) != 0) {
        option is = {"", 0, 0}, wanted = {"", 0, 0};
        if (!find_difference(c->head.options, options, &is, &wanted))
            find_difference(options, c->head.options, &wanted, &is);
        return clef__fail(err, CLEF_E_ARG,
                          "%s: is a checkpoint of a training with other options: %.*s, expected %.*s",
                          c->path, is.n, is.text, wanted.n, wanted.text);
    }
    return CLEF_OK;
}

const clef__checkpoint_head *clef__checkpoint_head_of(const clef__checkpoint *c)
{
    return &c->head;
}

const char *clef__checkpoint_path(const clef__checkpoint *c)
{
    return c->path;
}

int32_t clef__checkpoint_n_tensors(const clef__checkpoint *c)
{
    return c->n_tensors;
}

const clef_tensor_info *clef__checkpoint_tensor_at(const clef__checkpoint *c, int32_t i)
{
    return i >= 0 && i < c->n_tensors ? &c->tensors[i] : NULL;
}

const clef_tensor_info *clef__checkpoint_find(const clef__checkpoint *c, const char *name)
{
    return clef__tensor_lookup(c->by_name, (size_t)c->n_tensors, name);
}

clef_status clef__checkpoint_data(const clef__checkpoint *c, const char *name, clef_dtype dtype,
                                  uint64_t n_bytes, const void **out, clef_error *err)
{
    const clef_tensor_info *t = clef__checkpoint_find(c, name);
    *out = NULL;
    if (!t)
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: has no tensor %s", c->path, name);
    if (t->dtype != dtype || t->n_bytes != n_bytes)
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: tensor %s has %" PRIu64 " bytes of %s, expected %" PRIu64 " of %s", c->path,
                          name, t->n_bytes, clef_dtype_name(t->dtype), n_bytes, clef_dtype_name(dtype));
    *out = t->data;
    return CLEF_OK;
}
