/* Parsing GGUF files (model/file/gguf.h). ggml's docs/gguf.md describes the format. gguf_value.c reads the
 * values of a parsed file, gguf_split.c opens files in parts. */
#include "model/file/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/blocks.h"
#include "model/file/foreign.h"
#include "model/file/ggml.h"
#include "model/file/tensor_index.h"

enum {
    MAX_KEY_BYTES = 65535,                /* gguf.md: "at most 2^16-1 bytes" */
    MAX_TENSOR_NAME_BYTES = 64,           /* gguf.md: "at most 64 bytes" */
    MIN_ENTRY_BYTES = 8 + 1 + 4 + 1,      /* key length, one byte of key, type, the smallest value */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, /* name length, one byte of name, n_dims, type, offset */
    DEFAULT_ALIGNMENT = 32,
    LEAST_ALIGNMENT = 8 /* gguf.md: a multiple of 8; numbers are read in place */
};

/* A reader over the bytes. at <= n always; the first failure is kept and every later read returns zero. */
typedef struct cursor {
    const unsigned char *data;
    size_t n, at;
    const char *name;
    clef_error *err;
    clef_status status;
} cursor;

/* Returns how many bytes of a string of n bytes a message shows. */
static int shown_bytes(size_t n)
{
    return n < 80 ? (int)n : 80;
}

size_t clef__gguf_type_bytes(clef_gguf_type type)
{
    static const unsigned char bytes[CLEF_GGUF_N_TYPES] = {
        [CLEF_GGUF_U8] = 1,  [CLEF_GGUF_I8] = 1,  [CLEF_GGUF_U16] = 2, [CLEF_GGUF_I16] = 2,
        [CLEF_GGUF_U32] = 4, [CLEF_GGUF_I32] = 4, [CLEF_GGUF_F32] = 4, [CLEF_GGUF_BOOL] = 1,
        [CLEF_GGUF_U64] = 8, [CLEF_GGUF_I64] = 8, [CLEF_GGUF_F64] = 8,
    };
    return bytes[type];
}

/* Returns the `n` bytes at the cursor and moves past them; NULL if fewer remain or a read failed before. */
static const unsigned char *take_bytes(cursor *c, uint64_t n, const char *what)
{
    if (c->status != CLEF_OK)
        return NULL;
    if (n > c->n - c->at) {
        c->status =
            clef__fail(c->err, CLEF_E_FORMAT, "%s: offset %zu: %s takes %" PRIu64 " bytes, %zu remain",
                       c->name, c->at, what, n, c->n - c->at);
        return NULL;
    }
    const unsigned char *p = c->data + c->at;
    c->at += (size_t)n;
    return p;
}

static uint32_t take_u32(cursor *c, const char *what)
{
    const unsigned char *p = take_bytes(c, 4, what);
    return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}

static uint64_t take_u64(cursor *c, const char *what)
{
    const uint64_t low = take_u32(c, what), high = take_u32(c, what);
    return c->status == CLEF_OK ? low | high << 32 : 0;
}

static clef_gguf_string take_string(cursor *c, const char *what)
{
    const uint64_t n = take_u64(c, what);
    const unsigned char *text = take_bytes(c, n, what);
    return text ? (clef_gguf_string){.text = (const char *)text, .n_bytes = (size_t)n}
                : (clef_gguf_string){0};
}

/* Fails if `count` items of at least `min_bytes` each cannot fit in the remaining bytes. */
static void check_count(cursor *c, uint64_t count, uint64_t min_bytes, const char *what)
{
    if (c->status == CLEF_OK && count > (c->n - c->at) / min_bytes)
        c->status =
            clef__fail(c->err, CLEF_E_FORMAT,
                       "%s: offset %zu: %" PRIu64 " %s of at least %" PRIu64 " bytes each, %zu bytes remain",
                       c->name, c->at, count, what, min_bytes, c->n - c->at);
}

static void *allocate_table(cursor *c, uint64_t count, size_t item_bytes)
{
    if (c->status != CLEF_OK)
        return NULL;
    void *memory = count < SIZE_MAX / item_bytes ? calloc((size_t)count + 1, item_bytes) : NULL;
    if (!memory)
        c->status = clef__fail(c->err, CLEF_E_NOMEM, "%s: no memory for %" PRIu64 " items of its tables",
                               c->name, count);
    return memory;
}

/* ---- keys and values ------------------------------------------------------------------------- */

static clef_gguf_type take_type(cursor *c, const clef_gguf_string *key)
{
    const size_t at = c->at;
    const uint32_t type = take_u32(c, "a value type");
    if (c->status == CLEF_OK && type >= CLEF_GGUF_N_TYPES) {
        c->status = clef__fail(c->err, CLEF_E_FORMAT,
                               "%s: offset %zu: %.*s has value type %" PRIu32 ", expected 0 to %d", c->name,
                               at, shown_bytes(key->n_bytes), key->text, type, CLEF_GGUF_N_TYPES - 1);
        return CLEF_GGUF_U8;
    }
    return (clef_gguf_type)type;
}

static void take_strings(cursor *c, clef_gguf_entry *e)
{
    check_count(c, e->n, 8, "strings");
    e->strings = allocate_table(c, e->n, sizeof *e->strings);
    for (uint64_t i = 0; c->status == CLEF_OK && i < e->n; i++)
        e->strings[i] = take_string(c, "a string");
}

static void take_numbers(cursor *c, clef_gguf_entry *e)
{
    const size_t item = clef__gguf_type_bytes(e->type), at = c->at;
    if (e->is_array)
        check_count(c, e->n, item, "array items");
    if (c->status != CLEF_OK)
        return;
    const unsigned char *p = take_bytes(c, e->n * item, "a value");
    e->data = p;
    for (uint64_t i = 0; p && e->type == CLEF_GGUF_BOOL && i < e->n; i++)
        if (p[i] > 1) {
            c->status =
                clef__fail(c->err, CLEF_E_FORMAT, "%s: offset %zu: %.*s is the bool %d, expected 0 or 1",
                           c->name, at, shown_bytes(e->key.n_bytes), e->key.text, p[i]);
            return;
        }
}

static void take_entry(cursor *c, clef_gguf_entry *e)
{
    const size_t at = c->at;
    e->key = take_string(c, "a key");
    if (c->status == CLEF_OK &&
        (e->key.n_bytes > MAX_KEY_BYTES || !clef__name_is_plain(e->key.text, e->key.n_bytes))) {
        c->status =
            clef__fail(c->err, CLEF_E_FORMAT,
                       "%s: offset %zu: key of %zu bytes, expected 1 to %d without control characters",
                       c->name, at, e->key.n_bytes, MAX_KEY_BYTES);
        return;
    }
    e->n = 1;
    e->type = take_type(c, &e->key);
    if (c->status == CLEF_OK && e->type == CLEF_GGUF_ARRAY) {
        e->is_array = 1;
        e->type = take_type(c, &e->key);
        e->n = take_u64(c, "an array's length");
        if (c->status == CLEF_OK && e->type == CLEF_GGUF_ARRAY)
            c->status = clef__fail(c->err, CLEF_E_UNSUPPORTED, "%s: offset %zu: %.*s is an array of arrays",
                                   c->name, at, shown_bytes(e->key.n_bytes), e->key.text);
    }
    if (c->status != CLEF_OK)
        return;
    if (e->type == CLEF_GGUF_STRING)
        take_strings(c, e);
    else
        take_numbers(c, e);
}

static int by_key(const void *a, const void *b)
{
    const clef_gguf_string *x = a, *y = b;
    const size_t n = x->n_bytes < y->n_bytes ? x->n_bytes : y->n_bytes;
    const int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static void check_keys_differ(cursor *c, const clef_gguf *g)
{
    clef_gguf_string *keys = allocate_table(c, g->n_entries, sizeof *keys);
    if (!keys)
        return;
    for (uint64_t i = 0; i < g->n_entries; i++)
        keys[i] = g->entries[i].key;
    qsort(keys, (size_t)g->n_entries, sizeof *keys, by_key);
    for (uint64_t i = 1; c->status == CLEF_OK && i < g->n_entries; i++)
        if (by_key(&keys[i - 1], &keys[i]) == 0)
            c->status = clef__fail(c->err, CLEF_E_FORMAT, "%s: key %.*s occurs twice", c->name,
                                   shown_bytes(keys[i].n_bytes), keys[i].text);
    free(keys);
}

static void take_entries(cursor *c, clef_gguf *g, uint64_t n)
{
    check_count(c, n, MIN_ENTRY_BYTES, "keys");
    g->entries = allocate_table(c, n, sizeof *g->entries);
    g->is_read = allocate_table(c, n, 1);
    for (uint64_t i = 0; c->status == CLEF_OK && i < n; i++) {
        g->n_entries = i + 1; /* counted first, so that close() frees a partly read entry */
        take_entry(c, &g->entries[i]);
    }
    check_keys_differ(c, g);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Names ggml's types that clef cannot decode, for the message. */
static const char *undecoded_name(uint32_t type)
{
    static const char *const names[] = {
        [9] = "q8_1", [15] = "q8_K", [25] = "i16", [27] = "i64", [28] = "f64"};
    return type < sizeof names / sizeof *names && names[type] ? names[type] : "unknown to ggml";
}

static void unknown_type(cursor *c, const char *tensor, uint32_t type)
{
    char known[320] = "";
    for (clef_dtype t = 0; t < CLEF_N_DTYPES; t++)
        if (strlen(known) + strlen(clef_dtype_name(t)) + 2 < sizeof known) {
            strcat(known, " ");
            strcat(known, clef_dtype_name(t));
        }
    c->status =
        clef__fail(c->err, CLEF_E_UNSUPPORTED, "%s: tensor %s has type %" PRIu32 " (%s), supported are:%s",
                   c->name, tensor, type, undecoded_name(type), known);
}

static void take_dims(cursor *c, clef_tensor_info *t)
{
    const uint32_t rank = take_u32(c, "a tensor's rank");
    if (c->status == CLEF_OK && rank > CLEF_MAX_DIMS)
        c->status =
            clef__fail(c->err, CLEF_E_FORMAT, "%s: tensor %s has %" PRIu32 " dims, expected at most %d",
                       c->name, t->name, rank, CLEF_MAX_DIMS);
    if (c->status != CLEF_OK)
        return;
    t->rank = (int32_t)rank;
    for (uint32_t i = 0; i < rank; i++) {
        const uint64_t dim = take_u64(c, "a tensor's dim");
        if (c->status == CLEF_OK && (dim == 0 || dim > INT64_MAX))
            c->status = clef__fail(c->err, CLEF_E_FORMAT, "%s: tensor %s has a dim of %" PRIu64, c->name,
                                   t->name, dim);
        t->dims[rank - 1 - i] = (int64_t)dim;
    }
}

static void set_size(cursor *c, clef_tensor_info *t, uint32_t type)
{
    if (c->status != CLEF_OK)
        return;
    t->dtype = clef__dtype_of_ggml(type);
    if (t->dtype == CLEF_N_DTYPES) {
        unknown_type(c, t->name, type);
        return;
    }
    const int64_t elems = clef_dtype_block_elems(t->dtype), bytes = clef_dtype_block_bytes(t->dtype);
    const int64_t row = t->rank > 0 ? t->dims[t->rank - 1] : 1;
    int64_t n = 0;
    if (row % elems != 0)
        c->status =
            clef__fail(c->err, CLEF_E_FORMAT,
                       "%s: tensor %s has rows of %" PRId64 ", expected a multiple of %" PRId64 " for %s",
                       c->name, t->name, row, elems, clef_dtype_name(t->dtype));
    else if (!clef__dims_product(t->dims, t->rank, &n) || n / elems > INT64_MAX / bytes)
        c->status = clef__fail(c->err, CLEF_E_FORMAT, "%s: tensor %s: the product of its dims overflows",
                               c->name, t->name);
    else
        t->n_bytes = (uint64_t)(n / elems) * (uint64_t)bytes;
}

/* Reads one row of the table and writes its offset to *offset. place_tensors() resolves the offset when the
 * table's end is known. */
static void take_tensor(cursor *c, clef_tensor_info *t, char **name, uint64_t *offset)
{
    const size_t at = c->at;
    const clef_gguf_string s = take_string(c, "a tensor's name");
    if (c->status == CLEF_OK &&
        (s.n_bytes > MAX_TENSOR_NAME_BYTES || !clef__name_is_plain(s.text, s.n_bytes)))
        c->status = clef__fail(
            c->err, CLEF_E_FORMAT,
            "%s: offset %zu: tensor name of %zu bytes, expected 1 to %d without control characters", c->name,
            at, s.n_bytes, MAX_TENSOR_NAME_BYTES);
    *name = allocate_table(c, s.n_bytes, 1);
    if (!*name)
        return;
    memcpy(*name, s.text, s.n_bytes);
    t->name = *name;
    take_dims(c, t);
    set_size(c, t, take_u32(c, "a tensor's type"));
    *offset = take_u64(c, "a tensor's offset");
}

static uint64_t alignment_of(cursor *c, const clef_gguf *g)
{
    const clef_gguf_entry *e = clef__gguf_find(g, "general.alignment");
    const int64_t alignment = e && e->type != CLEF_GGUF_STRING && !e->is_array ? clef__gguf_item_int(e, 0)
                              : e                                              ? 0
                                                                               : DEFAULT_ALIGNMENT;
    if (c->status == CLEF_OK && (alignment < LEAST_ALIGNMENT || (alignment & (alignment - 1)) != 0))
        c->status = clef__fail(c->err, CLEF_E_FORMAT,
                               "%s: general.alignment is %" PRId64 ", expected a power of two from %d",
                               c->name, alignment, LEAST_ALIGNMENT);
    return (uint64_t)alignment;
}

/* Turns offsets into pointers: the data begin at the next multiple of the alignment after the table. */
static void place_tensors(cursor *c, clef_gguf *g, const uint64_t *offsets)
{
    const uint64_t alignment = alignment_of(c, g);
    if (c->status != CLEF_OK || g->n_tensors == 0)
        return;
    const uint64_t padding = (alignment - c->at % alignment) % alignment;
    if (padding > c->n - c->at) {
        c->status = clef__fail(c->err, CLEF_E_FORMAT, "%s: ends at byte %zu, before its tensors' data",
                               c->name, c->n);
        return;
    }
    const uint64_t start = c->at + padding, n_bytes = c->n - start;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        clef_tensor_info *t = &g->tensors[i];
        if (offsets[i] % alignment != 0)
            c->status = clef__fail(c->err, CLEF_E_FORMAT,
                                   "%s: tensor %s is at offset %" PRIu64 ", expected a multiple of %" PRIu64,
                                   c->name, t->name, offsets[i], alignment);
        else if (offsets[i] > n_bytes || t->n_bytes > n_bytes - offsets[i])
            c->status = clef__fail(c->err, CLEF_E_FORMAT,
                                   "%s: tensor %s has %" PRIu64 " bytes at offset %" PRIu64
                                   " of the data, which has %" PRIu64 " bytes",
                                   c->name, t->name, t->n_bytes, offsets[i], n_bytes);
        if (c->status != CLEF_OK)
            return;
        t->data = c->data + start + offsets[i];
    }
}

static void take_tensors(cursor *c, clef_gguf *g, uint64_t n)
{
    check_count(c, n, MIN_TENSOR_BYTES, "tensors");
    g->tensors = allocate_table(c, n, sizeof *g->tensors);
    g->tensor_names = allocate_table(c, n, sizeof *g->tensor_names);
    uint64_t *offsets = allocate_table(c, n, sizeof *offsets);
    for (uint64_t i = 0; c->status == CLEF_OK && i < n; i++) {
        g->n_tensors = i + 1; /* counted first, so that close() frees a partly read tensor */
        take_tensor(c, &g->tensors[i], &g->tensor_names[i], &offsets[i]);
    }
    if (c->status == CLEF_OK)
        place_tensors(c, g, offsets);
    free(offsets);
    if (c->status != CLEF_OK)
        return;

    const clef_tensor_info *twice = NULL;
    const clef_tensor_info **index = clef__tensor_index(g->tensors, (size_t)n, &twice);
    if (!index)
        c->status = clef__fail(c->err, CLEF_E_NOMEM, "%s: no memory for the index of its tensors", c->name);
    else if (twice)
        c->status = clef__fail(c->err, CLEF_E_FORMAT, "%s: tensor %s occurs twice", c->name, twice->name);
    free(index);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void take_header(cursor *c, clef_gguf *g)
{
    const unsigned char *magic = take_bytes(c, 4, "the magic");
    if (magic && memcmp(magic, "GGUF", 4) != 0)
        c->status = clef__foreign(c->data, c->n, c->name, "a GGUF file", c->err);
    if (c->status == CLEF_OK && magic && memcmp(magic, "GGUF", 4) != 0)
        c->status =
            clef__fail(c->err, CLEF_E_FORMAT, "%s: begins with bytes %02x %02x %02x %02x, expected \"GGUF\"",
                       c->name, magic[0], magic[1], magic[2], magic[3]);
    g->version = take_u32(c, "the version");
    if (c->status != CLEF_OK || g->version == 2 || g->version == 3)
        return;
    if (g->version != 0 && (g->version & 0xFFFF) == 0)
        c->status = clef__fail(c->err, CLEF_E_UNSUPPORTED,
                               "%s: is a big-endian GGUF file, expected a little-endian one", c->name);
    else
        c->status = clef__fail(c->err, CLEF_E_UNSUPPORTED, "%s: is GGUF version %" PRIu32 ", expected 2 or 3",
                               c->name, g->version);
}

clef_status clef__gguf_parse(const void *data, size_t n_bytes, const char *name, clef_gguf *out,
                             clef_error *err)
{
    *out = (clef_gguf){0};
    cursor c = {.data = data, .n = n_bytes, .name = name, .err = err};
    take_header(&c, out);
    const uint64_t n_tensors = take_u64(&c, "the tensor count"), n_entries = take_u64(&c, "the key count");
    take_entries(&c, out, n_entries);
    take_tensors(&c, out, n_tensors);
    if (c.status != CLEF_OK)
        clef__gguf_close(out);
    return c.status;
}

clef_status clef__gguf_open_alone(const char *path, clef_gguf *out, clef_error *err)
{
    clef_mapping file;
    *out = (clef_gguf){0};
    clef_status status = clef__os_map(path, &file, err);
    if (status != CLEF_OK)
        return status;
    status = clef__is_ggml(file.data, file.n_bytes)
                 ? clef__ggml_parse(file.data, file.n_bytes, path, out, err)
                 : clef__gguf_parse(file.data, file.n_bytes, path, out, err);
    if (status == CLEF_OK)
        out->file = file;
    else
        clef__os_unmap(&file);
    return status;
}

clef_status clef__gguf_align(clef_gguf *g, clef_error *err)
{
    enum { ALIGNMENT = 64 };
    size_t n = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if ((uintptr_t)g->tensors[i].data % LEAST_ALIGNMENT != 0)
            n += (size_t)g->tensors[i].n_bytes + ALIGNMENT;
    if (!n)
        return CLEF_OK;
    g->copy = malloc(n + ALIGNMENT);
    if (!g->copy)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu bytes of tensors", n);
    unsigned char *to = (unsigned char *)g->copy + (ALIGNMENT - (uintptr_t)g->copy % ALIGNMENT);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        clef_tensor_info *t = &g->tensors[i];
        if ((uintptr_t)t->data % LEAST_ALIGNMENT == 0)
            continue;
        memcpy(to, t->data, (size_t)t->n_bytes);
        t->data = to;
        to += (t->n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return CLEF_OK;
}

void clef__gguf_close(clef_gguf *gguf)
{
    for (uint64_t i = 0; i < gguf->n_entries; i++)
        free(gguf->entries[i].strings);
    for (uint64_t i = 0; i < gguf->n_tensors; i++)
        free(gguf->tensor_names[i]);
    free(gguf->entries);
    free(gguf->is_read);
    free(gguf->tensors);
    free(gguf->tensor_names);
    clef__os_unmap(&gguf->file);
    for (size_t i = 0; i < gguf->n_more; i++)
        clef__os_unmap(&gguf->more[i]);
    free(gguf->more);
    free(gguf->keys);
    free(gguf->copy);
    *gguf = (clef_gguf){0};
}
