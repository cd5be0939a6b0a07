/* Parsing .safetensors files (model/file/safetensors.h). */
#include "model/file/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/foreign.h"
#include "model/file/json.h"
#include "model/file/tensor_index.h"

enum { MOST_DIMS = 8, MAX_HEADER_BYTES = 100000000 }; /* the reference implementation's MAX_HEADER_SIZE */

static const struct {
    const char *name;
    int64_t bytes;
    clef_dtype dtype;
} st_dtypes[] = {
#define CLEF_X(name, bytes, dtype) {#name, bytes, dtype},
    CLEF_ST_DTYPES(CLEF_X)
#undef CLEF_X
};

const char *clef__st_dtype_name(clef_st_dtype dtype)
{
    return (unsigned)dtype < CLEF_ST_N_DTYPES ? st_dtypes[dtype].name : "?";
}

/* One tensor's entry in the header while it is read. */
typedef struct row {
    clef_tensor_info info; /* data is set at the end */
    clef_st_dtype stored;
    uint64_t begin;
} row;

typedef struct parse {
    const unsigned char *data; /* the bytes after the header */
    uint64_t n_data;
    const char *name;
    clef_error *err;
} parse;

static clef_status read_dtype(const parse *p, const json_t *tensor, row *r)
{
    const json_t *dtype = json_object_get(tensor, "dtype");
    if (!json_is_string(dtype))
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: tensor %s: dtype is %s, expected a string", p->name,
                          r->info.name, clef__json_kind(dtype));
    for (int i = 0; i < CLEF_ST_N_DTYPES; i++)
        if (strcmp(json_string_value(dtype), st_dtypes[i].name) == 0) {
            r->stored = (clef_st_dtype)i;
            r->info.dtype = st_dtypes[i].dtype;
            return CLEF_OK;
        }
    return clef__fail(p->err, CLEF_E_UNSUPPORTED,
                      "%s: tensor %s has dtype %.40s, expected one of the format's (F32, F16, BF16, I64 ...)",
                      p->name, r->info.name, json_string_value(dtype));
}

/* Dims beyond the last that clef has, as kernels of video convolutions have, are one with it. */
static clef_status fold_dim(const parse *p, row *r, int64_t dim)
{
    int64_t *last = &r->info.dims[CLEF_MAX_DIMS - 1];
    if (dim > 0 && *last > INT64_MAX / dim)
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: tensor %s: the product of its dims is too large",
                          p->name, r->info.name);
    *last *= dim;
    return CLEF_OK;
}

static clef_status read_shape(const parse *p, const json_t *tensor, row *r)
{
    const json_t *shape = json_object_get(tensor, "shape");
    if (!json_is_array(shape))
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: tensor %s: shape is %s, expected an array", p->name,
                          r->info.name, clef__json_kind(shape));
    const size_t rank = json_array_size(shape);
    if (rank > MOST_DIMS)
        return clef__fail(p->err, CLEF_E_UNSUPPORTED, "%s: tensor %s has %zu dims, expected at most %d",
                          p->name, r->info.name, rank, MOST_DIMS);
    clef_status status = CLEF_OK;
    r->info.rank = (int32_t)(rank < CLEF_MAX_DIMS ? rank : CLEF_MAX_DIMS);
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return clef__fail(p->err, CLEF_E_FORMAT,
                              "%s: tensor %s: dim %zu is %s, expected an integer of at least 0", p->name,
                              r->info.name, i, json_is_integer(dim) ? "negative" : clef__json_kind(dim));
        if (i < CLEF_MAX_DIMS)
            r->info.dims[i] = json_integer_value(dim);
        else if (!status)
            status = fold_dim(p, r, json_integer_value(dim));
    }
    return status;
}

static clef_status read_offsets(const parse *p, const json_t *tensor, row *r)
{
    const json_t *offsets = json_object_get(tensor, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: tensor %s: data_offsets is %s, expected two integers",
                          p->name, r->info.name,
                          json_is_array(offsets) ? "another array" : clef__json_kind(offsets));
    const int64_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > p->n_data)
        return clef__fail(p->err, CLEF_E_FORMAT,
                          "%s: tensor %s: data_offsets are %" PRId64 " to %" PRId64 ", the data has %" PRIu64
                          " bytes",
                          p->name, r->info.name, from, to, p->n_data);
    int64_t n = 0;
    if (!clef__dims_product(r->info.dims, r->info.rank, &n) || n > INT64_MAX / st_dtypes[r->stored].bytes)
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: tensor %s: the product of its dims overflows", p->name,
                          r->info.name);
    if (n * st_dtypes[r->stored].bytes != to - from)
        return clef__fail(p->err, CLEF_E_FORMAT,
                          "%s: tensor %s: data_offsets span %" PRId64 " bytes, its shape needs %" PRId64,
                          p->name, r->info.name, to - from, n * st_dtypes[r->stored].bytes);
    r->begin = (uint64_t)from;
    r->info.n_bytes = (uint64_t)(to - from);
    return CLEF_OK;
}

static clef_status read_row(const parse *p, const char *name, const json_t *tensor, row *r)
{
    r->info.name = name;
    if (!clef__name_is_plain(name, strlen(name)))
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: a tensor's name is empty or has control characters",
                          p->name);
    if (!json_is_object(tensor))
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: tensor %s is %s, expected an object", p->name, name,
                          clef__json_kind(tensor));
    clef_status status = read_dtype(p, tensor, r);
    if (status == CLEF_OK)
        status = read_shape(p, tensor, r);
    if (status == CLEF_OK)
        status = read_offsets(p, tensor, r);
    return status;
}

static clef_status check_metadata(const parse *p, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: __metadata__ is %s, expected an object", p->name,
                          clef__json_kind(metadata));
    json_object_foreach(metadata, key, value)
        if (!json_is_string(value))
            return clef__fail(p->err, CLEF_E_FORMAT, "%s: __metadata__.%.80s is %s, expected a string",
                              p->name, key, clef__json_kind(value));
    return CLEF_OK;
}

static int by_offset(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->info.n_bytes != y->info.n_bytes)
        return x->info.n_bytes < y->info.n_bytes ? -1 : 1;
    return strcmp(x->info.name, y->info.name);
}

/* Checks that each byte of the data belongs to exactly one tensor. */
static clef_status check_cover(const parse *p, const row *rows, size_t n)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].begin != at)
            return clef__fail(
                p->err, CLEF_E_FORMAT,
                "%s: tensor %s begins at %" PRIu64 " of the data, expected %" PRIu64 ", where %s ends",
                p->name, rows[i].info.name, rows[i].begin, at, i > 0 ? rows[i - 1].info.name : "the header");
        at += rows[i].info.n_bytes;
    }
    if (at != p->n_data)
        return clef__fail(p->err, CLEF_E_FORMAT,
                          "%s: its tensors cover %" PRIu64 " of the %" PRIu64 " bytes of data", p->name, at,
                          p->n_data);
    return CLEF_OK;
}

/* Copies the rows and their names into `out`. */
static clef_status copy_rows(const parse *p, const row *rows, size_t n, clef_safetensors *out)
{
    size_t names_bytes = 0;
    for (size_t i = 0; i < n; i++)
        names_bytes += strlen(rows[i].info.name) + 1;
    out->tensors = calloc(n + 1, sizeof *out->tensors);
    out->stored = calloc(n + 1, sizeof *out->stored);
    out->names = malloc(names_bytes + 1);
    if (!out->tensors || !out->stored || !out->names)
        return clef__fail(p->err, CLEF_E_NOMEM, "%s: no memory for the table of its tensors", p->name);
    char *name = out->names;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = strlen(rows[i].info.name) + 1;
        memcpy(name, rows[i].info.name, bytes);
        out->tensors[i] = rows[i].info;
        out->tensors[i].name = name;
        out->tensors[i].data = p->data + rows[i].begin;
        out->stored[i] = rows[i].stored;
        name += bytes;
    }
    out->n_tensors = (int32_t)n;
    out->by_name =
        clef__tensor_index(out->tensors, n, NULL); /* the JSON parser has rejected duplicate names */
    return out->by_name
               ? CLEF_OK
               : clef__fail(p->err, CLEF_E_NOMEM, "%s: no memory for the index of its tensors", p->name);
}

static clef_status read_rows(const parse *p, json_t *header, clef_safetensors *out)
{
    if (!json_is_object(header))
        return clef__fail(p->err, CLEF_E_FORMAT, "%s: its header is %s, expected an object", p->name,
                          clef__json_kind(header));
    const size_t n_keys = json_object_size(header);
    row *rows = n_keys < INT32_MAX ? calloc(n_keys + 1, sizeof *rows) : NULL;
    if (!rows)
        return clef__fail(p->err, CLEF_E_NOMEM, "%s: no memory for its %zu tensors", p->name, n_keys);

    clef_status status = CLEF_OK;
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach(header, key, value) {
        status =
            strcmp(key, "__metadata__") == 0 ? check_metadata(p, value) : read_row(p, key, value, &rows[n++]);
        if (status != CLEF_OK)
            goto out;
    }
    qsort(rows, n, sizeof *rows, by_offset);
    status = check_cover(p, rows, n);
    if (status == CLEF_OK)
        status = copy_rows(p, rows, n, out);
out:
    free(rows);
    return status;
}

clef_status clef__safetensors_parse(const void *data, size_t n_bytes, const char *name, clef_safetensors *out,
                                    clef_error *err)
{
    const unsigned char *bytes = data;
    *out = (clef_safetensors){0};
    if (n_bytes < 8)
        return clef__fail(
            err, CLEF_E_FORMAT,
            "%s: has %zu bytes, expected a .safetensors file, which begins with 8 of header length", name,
            n_bytes);
    uint64_t n_header = 0;
    for (int i = 0; i < 8; i++)
        n_header |= (uint64_t)bytes[i] << (8 * i);
    if (n_header > MAX_HEADER_BYTES && clef__foreign(data, n_bytes, name, "a .safetensors file", err))
        return CLEF_E_FORMAT;
    if (n_header > MAX_HEADER_BYTES)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: says that its header has %" PRIu64 " bytes, expected at most %d", name,
                          n_header, MAX_HEADER_BYTES);
    if (n_header > n_bytes - 8)
        return clef__fail(err, CLEF_E_FORMAT, "%s: says that its header has %" PRIu64 " bytes, %zu remain",
                          name, n_header, n_bytes - 8);
    if (n_header < 2 || bytes[8] != '{')
        return clef__fail(err, CLEF_E_FORMAT, "%s: its header does not begin with '{'", name);

    const parse p = {
        .data = bytes + 8 + n_header, .n_data = n_bytes - 8 - n_header, .name = name, .err = err};
    json_t *header = NULL;
    clef_status status = clef__json_parse((const char *)bytes + 8, (size_t)n_header, name, &header, err);
    if (status == CLEF_OK)
        status = read_rows(&p, header, out);
    json_decref(header);
    if (status != CLEF_OK)
        clef__safetensors_close(out);
    return status;
}

clef_status clef__safetensors_open(const char *path, clef_safetensors *out, clef_error *err)
{
    clef_mapping file;
    *out = (clef_safetensors){0};
    clef_status status = clef__os_map(path, &file, err);
    if (status != CLEF_OK)
        return status;
    status = clef__safetensors_parse(file.data, file.n_bytes, path, out, err);
    if (status == CLEF_OK)
        out->file = file;
    else
        clef__os_unmap(&file);
    return status;
}

void clef__safetensors_close(clef_safetensors *st)
{
    free(st->tensors);
    free(st->stored);
    free(st->by_name);
    free(st->names);
    clef__os_unmap(&st->file);
    *st = (clef_safetensors){0};
}

int32_t clef__safetensors_find(const clef_safetensors *st, const char *name)
{
    const clef_tensor_info *found = clef__tensor_lookup(st->by_name, (size_t)st->n_tensors, name);
    return found ? (int32_t)(found - st->tensors) : -1;
}
