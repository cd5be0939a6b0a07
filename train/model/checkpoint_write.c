/* Writing checkpoints, and removing old ones (train/model/checkpoint.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/tensor_index.h"
#include "runtime/os/sha256.h"
#include "train/model/checkpoint.h"
#include "train/model/checkpoint_form.h"

/* A file that is hashed while it is written. */
typedef struct hashed_file {
    clef_os_file *file;
    clef_sha256 sha;
    uint64_t at;
    clef_error *err;
} hashed_file;

static clef_status put(hashed_file *f, const void *data, size_t n)
{
    clef__sha256_add(&f->sha, data, n);
    f->at += n;
    return clef__os_file_write(f->file, data, n, f->err);
}

static clef_status put_filler(hashed_file *f, char byte)
{
    char filler[CLEF_CHECKPOINT_ALIGNMENT];
    memset(filler, byte, sizeof filler);
    return put(f, filler, (size_t)(clef__checkpoint_aligned(f->at) - f->at));
}

static void put_number(unsigned char *to, uint64_t x, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (unsigned char)(x >> (8 * i));
}

/* ---- the header */

static clef_status size_of(const char *path, const clef__checkpoint_tensor *t, uint64_t *n_bytes,
                           clef_error *err)
{
    int64_t n = 0;
    if (!t->name || !clef__name_is_plain(t->name, strlen(t->name)))
        return clef__fail(err, CLEF_E_ARG, "%s: a tensor has no name that can be printed", path);
    if (t->dtype != CLEF_F32 && t->dtype != CLEF_F16 && t->dtype != CLEF_BF16 && t->dtype != CLEF_I32 &&
        t->dtype != CLEF_I8)
        return clef__fail(err, CLEF_E_ARG, "%s: tensor %s is %s, expected f32, f16, bf16, i32 or i8", path,
                          t->name, clef_dtype_name(t->dtype));
    if (t->rank < 0 || t->rank > CLEF_MAX_DIMS || !clef__dims_product(t->dims, t->rank, &n) ||
        n > INT64_MAX / 8)
        return clef__fail(err, CLEF_E_ARG, "%s: tensor %s has a dim or rank out of range", path, t->name);
    if (!t->data && !t->fetch && n > 0)
        return clef__fail(err, CLEF_E_ARG, "%s: tensor %s has no data", path, t->name);
    *n_bytes = (uint64_t)n * (uint64_t)clef_dtype_block_bytes(t->dtype);
    return CLEF_OK;
}

static json_t *entry_of(const clef__checkpoint_tensor *t, uint64_t offset, uint64_t n_bytes)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < t->rank && shape; i++)
        if (json_array_append_new(shape, json_integer(t->dims[i])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    return json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", t->name, "dtype", clef_dtype_name(t->dtype),
                     "shape", shape, "offset", (json_int_t)offset, "bytes", (json_int_t)n_bytes);
}

/* The header with the tensors' places counted from `begin`. *end: where the last tensor ends. */
static clef_status header_of(const char *path, const clef__checkpoint_head *head,
                             const clef__checkpoint_tensor *tensors, int32_t n, uint64_t begin, uint64_t *end,
                             char **out, clef_error *err)
{
    char seed[24];
    json_t *list = json_array(), *header = NULL, *again = NULL;
    clef_status status = list ? CLEF_OK : CLEF_E_NOMEM;
    snprintf(seed, sizeof seed, "%" PRIu64, head->seed);
    *out = NULL;
    *end = begin;
    for (int32_t i = 0; i < n && !status; i++) {
        uint64_t n_bytes = 0;
        status = size_of(path, &tensors[i], &n_bytes, err);
        const uint64_t at = clef__checkpoint_aligned(*end);
        *end = at + n_bytes;
        if (!status && json_array_append_new(list, entry_of(&tensors[i], at, n_bytes)) != 0)
            status = CLEF_E_NOMEM;
    }
    if (!status)
        header = json_pack("{s:s, s:s, s:I, s:s, s:O?, s:O}", "model", head->model ? head->model : "",
                           "options", head->options ? head->options : "", "step", (json_int_t)head->step,
                           "seed", seed, "state", head->state, "tensors", list);
    if (header)
        *out = json_dumps(header, JSON_COMPACT);
    /* When memory runs out, jansson 2.14 may leave entries out. */
    if (!status && (!*out || clef__json_parse(*out, strlen(*out), path, &again, NULL) != CLEF_OK ||
                    !json_equal(header, again)))
        status = CLEF_E_NOMEM;
    json_decref(again);
    json_decref(header);
    json_decref(list);
    if (status == CLEF_E_NOMEM)
        clef__fail(err, status, "%s: no memory for its header", path);
    if (status) {
        free(*out);
        *out = NULL;
    }
    return status;
}

/* The header's length depends on the numbers in it, and they on its length. */
static clef_status settle_header(const char *path, const clef__checkpoint_head *head,
                                 const clef__checkpoint_tensor *tensors, int32_t n, uint64_t *begin,
                                 uint64_t *end, char **out, clef_error *err)
{
    *begin = clef__checkpoint_aligned(CLEF_CHECKPOINT_HEAD_BYTES);
    for (;;) {
        const clef_status status = header_of(path, head, tensors, n, *begin, end, out, err);
        if (status)
            return status;
        const uint64_t needed = clef__checkpoint_aligned(CLEF_CHECKPOINT_HEAD_BYTES + strlen(*out));
        if (needed <= *begin)
            return CLEF_OK;
        *begin = needed;
        free(*out);
    }
}

/* ---- the file */

static clef_status put_tensor(hashed_file *f, const clef__checkpoint_tensor *t)
{
    uint64_t n_bytes = 0;
    const void *data = t->data;
    clef_status status = size_of("", t, &n_bytes, f->err);
    if (!status)
        status = put_filler(f, 0);
    if (!status && !data && n_bytes > 0)
        status = t->fetch(t->user, t->name, &data, f->err);
    if (!status && !data && n_bytes > 0)
        status = clef__fail(f->err, CLEF_E_ARG, "tensor %s has no data", t->name);
    return status ? status : put(f, data, (size_t)n_bytes);
}

/* first: the place of the first tensor, up to which blanks follow the header. */
static clef_status put_all(hashed_file *f, const char *header, uint64_t first,
                           const clef__checkpoint_tensor *tensors, int32_t n, uint64_t n_file)
{
    unsigned char head[CLEF_CHECKPOINT_HEAD_BYTES] = {0}, digest[CLEF_SHA256_BYTES];
    memcpy(head, CLEF_CHECKPOINT_MAGIC, 8);
    put_number(head + 8, CLEF_CHECKPOINT_VERSION, 4);
    put_number(head + 16, first - CLEF_CHECKPOINT_HEAD_BYTES, 8);
    put_number(head + 24, n_file, 8);
    clef_status status = put(f, head, sizeof head);
    if (!status)
        status = put(f, header, strlen(header));
    while (!status && f->at < first)
        status = put(f, " ", 1);
    for (int32_t i = 0; i < n && !status; i++)
        status = put_tensor(f, &tensors[i]);
    if (status)
        return status;
    clef__sha256_finish(&f->sha, digest);
    return clef__os_file_write(f->file, digest, sizeof digest, f->err);
}

/* The folder that a file is in. */
static void folder_of(const char *path, char out[CLEF_CHECKPOINT_PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(out, CLEF_CHECKPOINT_PATH_BYTES, ".");
    else
        snprintf(out, CLEF_CHECKPOINT_PATH_BYTES, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

clef_status clef__checkpoint_write(const char *path, const clef__checkpoint_head *head,
                                   const clef__checkpoint_tensor *tensors, int32_t n, clef_error *err)
{
    char folder[CLEF_CHECKPOINT_PATH_BYTES], *header = NULL;
    uint64_t first = 0, end = 0;
    hashed_file f = {.err = err};
    if (!path || !head || n < 0 || (n > 0 && !tensors) || strlen(path) >= sizeof folder)
        return clef__fail(err, CLEF_E_ARG, "a checkpoint: expected a path, a head and tensors");
    clef_status status = settle_header(path, head, tensors, n, &first, &end, &header, err);
    if (!status)
        status = clef__os_file_begin(path, &f.file, err);
    if (!status) {
        clef__sha256_init(&f.sha);
        status = put_all(&f, header, first, tensors, n, end + CLEF_SHA256_BYTES);
    }
    if (status) {
        clef__os_file_abort(f.file);
    } else {
        status = clef__os_file_commit(f.file, err);
        folder_of(path, folder);
        if (!status)
            status = clef__os_sync_folder(folder, err);
    }
    free(header);
    return status;
}
