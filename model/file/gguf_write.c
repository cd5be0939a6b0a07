/* Writing GGUF files (model/file/gguf_write.h). */
#include "model/file/gguf_write.h"

#include <stdlib.h>
#include <string.h>

#include "graph/blocks.h"

static void append_bytes(clef_gguf_writer *w, clef_gguf_bytes *to, const void *data, size_t n)
{
    if (w->failed)
        return;
    if (n > to->capacity - to->n) {
        const size_t capacity =
            n < SIZE_MAX / 4 && to->capacity < SIZE_MAX / 4 ? 2 * to->capacity + n + 4096 : 0;
        unsigned char *grown = capacity ? realloc(to->at, capacity) : NULL;
        if (!grown) {
            w->failed = 1;
            return;
        }
        to->at = grown;
        to->capacity = capacity;
    }
    if (n > 0)
        memcpy(to->at + to->n, data, n);
    to->n += n;
}

static void append_int(clef_gguf_writer *w, clef_gguf_bytes *to, uint64_t x, size_t n_bytes)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (unsigned char)(x >> (8 * i));
    append_bytes(w, to, bytes, n_bytes);
}

static void append_text(clef_gguf_writer *w, clef_gguf_bytes *to, const char *text, size_t n)
{
    append_int(w, to, n, 8);
    append_bytes(w, to, text, n);
}

static void put_key(clef_gguf_writer *w, const char *key, size_t n, clef_gguf_type type)
{
    append_text(w, &w->entries, key, n);
    append_int(w, &w->entries, (uint64_t)type, 4);
    w->n_entries++;
}

void clef__gguf_put_u32(clef_gguf_writer *w, const char *key, uint32_t x)
{
    put_key(w, key, strlen(key), CLEF_GGUF_U32);
    append_int(w, &w->entries, x, 4);
}

void clef__gguf_put_i32(clef_gguf_writer *w, const char *key, int32_t x)
{
    put_key(w, key, strlen(key), CLEF_GGUF_I32);
    append_int(w, &w->entries, (uint32_t)x, 4);
}

void clef__gguf_put_f64(clef_gguf_writer *w, const char *key, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(w, key, strlen(key), CLEF_GGUF_F64);
    append_int(w, &w->entries, bits, 8);
}

void clef__gguf_put_f32(clef_gguf_writer *w, const char *key, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(w, key, strlen(key), CLEF_GGUF_F32);
    append_int(w, &w->entries, bits, 4);
}

void clef__gguf_put_bool(clef_gguf_writer *w, const char *key, int x)
{
    put_key(w, key, strlen(key), CLEF_GGUF_BOOL);
    append_int(w, &w->entries, x != 0, 1);
}

void clef__gguf_put_text(clef_gguf_writer *w, const char *key, const char *text)
{
    put_key(w, key, strlen(key), CLEF_GGUF_STRING);
    append_text(w, &w->entries, text, strlen(text));
}

void clef__gguf_put_bytes(clef_gguf_writer *w, const char *key, const char *text, size_t n)
{
    put_key(w, key, strlen(key), CLEF_GGUF_STRING);
    append_text(w, &w->entries, text, n);
}

void clef__gguf_put_array(clef_gguf_writer *w, const char *key, clef_gguf_type type, uint64_t n)
{
    put_key(w, key, strlen(key), CLEF_GGUF_ARRAY);
    append_int(w, &w->entries, (uint64_t)type, 4);
    append_int(w, &w->entries, n, 8);
}

void clef__gguf_add_text(clef_gguf_writer *w, const char *text, size_t n)
{
    append_text(w, &w->entries, text, n);
}

void clef__gguf_add_i32(clef_gguf_writer *w, int32_t x)
{
    append_int(w, &w->entries, (uint32_t)x, 4);
}

void clef__gguf_add_f32(clef_gguf_writer *w, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    append_int(w, &w->entries, bits, 4);
}

void clef__gguf_add_bytes(clef_gguf_writer *w, const void *bytes, size_t n)
{
    append_bytes(w, &w->entries, bytes, n);
}

void clef__gguf_put_entry(clef_gguf_writer *w, const clef_gguf_entry *e)
{
    put_key(w, e->key.text, e->key.n_bytes, e->is_array ? CLEF_GGUF_ARRAY : e->type);
    if (e->is_array) {
        append_int(w, &w->entries, (uint64_t)e->type, 4);
        append_int(w, &w->entries, e->n, 8);
    }
    if (e->type == CLEF_GGUF_STRING)
        for (uint64_t i = 0; i < e->n; i++)
            append_text(w, &w->entries, e->strings[i].text, e->strings[i].n_bytes);
    else
        append_bytes(w, &w->entries, e->data, (size_t)e->n * clef__gguf_type_bytes(e->type));
}

static uint64_t padding_of(uint64_t n_bytes)
{
    return (CLEF_GGUF_ALIGNMENT - n_bytes % CLEF_GGUF_ALIGNMENT) % CLEF_GGUF_ALIGNMENT;
}

void clef__gguf_put_tensor(clef_gguf_writer *w, const clef_tensor_info *t)
{
    append_text(w, &w->tensors, t->name, strlen(t->name));
    append_int(w, &w->tensors, (uint64_t)t->rank, 4);
    for (int32_t i = t->rank; i > 0; i--) /* innermost first */
        append_int(w, &w->tensors, (uint64_t)t->dims[i - 1], 8);
    append_int(w, &w->tensors, (uint64_t)clef__dtype_ggml(t->dtype), 4);
    append_int(w, &w->tensors, w->n_data, 8);
    w->n_tensors++;
    w->n_data += t->n_bytes + padding_of(t->n_bytes);
}

/* Header and keys. */
static void append_head(clef_gguf_writer *to, const clef_gguf_writer *w, uint64_t n_tensors)
{
    append_bytes(to, &to->entries, "GGUF", 4);
    append_int(to, &to->entries, 3, 4);
    append_int(to, &to->entries, n_tensors, 8);
    append_int(to, &to->entries, w->n_entries, 8);
    append_bytes(to, &to->entries, w->entries.at, w->entries.n);
}

clef_status clef__gguf_keys_of(const clef_gguf_writer *w, clef_gguf_writer *bytes, clef_gguf *keys,
                               const char *file, clef_error *err)
{
    *bytes = (clef_gguf_writer){.failed = w->failed};
    append_head(bytes, w, 0);
    if (bytes->failed)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the keys of a GGUF file", file);
    return clef__gguf_parse(bytes->entries.at, bytes->entries.n, file, keys, err);
}

clef_status clef__gguf_write_head(const clef_gguf_writer *w, clef_os_file *file, clef_error *err)
{
    clef_gguf_writer head = {.failed = w->failed};
    append_head(&head, w, w->n_tensors);
    append_bytes(&head, &head.entries, w->tensors.at, w->tensors.n);
    clef_status status = head.failed ? clef__fail(err, CLEF_E_NOMEM, "no memory for the keys of a GGUF file")
                                     : clef__os_file_write(file, head.entries.at, head.entries.n, err);
    if (status == CLEF_OK)
        status = clef__gguf_write_padding(file, head.entries.n, err);
    clef__gguf_writer_finish(&head);
    return status;
}

clef_status clef__gguf_write_padding(clef_os_file *file, uint64_t n_bytes, clef_error *err)
{
    static const unsigned char zeros[CLEF_GGUF_ALIGNMENT];
    return clef__os_file_write(file, zeros, (size_t)padding_of(n_bytes), err);
}

void clef__gguf_writer_finish(clef_gguf_writer *w)
{
    free(w->entries.at);
    free(w->tensors.at);
    *w = (clef_gguf_writer){0};
}
