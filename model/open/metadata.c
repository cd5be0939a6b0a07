/* A model's metadata, as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/config.h"
#include "model/open/config_keys.h"
#include "model/open/model.h"

enum { SHOWN_ITEMS = 6 }; /* of a long array */

typedef void entry_callback(void *user, const char *key, const char *value);

/* A growing text. When memory runs out, failed is set and all later text is dropped. */
typedef struct text {
    char *bytes;
    size_t n, capacity;
    int failed;
} text;

static void append_text(text *t, const char *bytes, size_t n)
{
    if (t->failed)
        return;
    if (n >= t->capacity - t->n) { /* one byte is kept for the NUL */
        const size_t capacity = 2 * t->capacity + n + 64;
        char *grown = capacity > n ? realloc(t->bytes, capacity) : NULL;
        if (!grown) {
            t->failed = 1;
            return;
        }
        t->bytes = grown;
        t->capacity = capacity;
    }
    if (n > 0)
        memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = '\0';
}

static void append_item(text *t, const clef_gguf_entry *e, uint64_t i)
{
    char number[40];
    switch (e->type) {
    case CLEF_GGUF_STRING:
        append_text(t, e->strings[i].text, e->strings[i].n_bytes);
        return;
    case CLEF_GGUF_BOOL:
        append_text(t, clef__gguf_item_int(e, i) ? "true" : "false", clef__gguf_item_int(e, i) ? 4 : 5);
        return;
    case CLEF_GGUF_F32:
    case CLEF_GGUF_F64:
        snprintf(number, sizeof number, "%.9g", clef__gguf_item_float(e, i));
        break;
    default:
        snprintf(number, sizeof number, "%" PRId64, clef__gguf_item_int(e, i));
        break;
    }
    append_text(t, number, strlen(number));
}

static void append_array(text *t, const clef_gguf_entry *e)
{
    append_text(t, "[", 1);
    for (uint64_t i = 0; i < e->n && i < SHOWN_ITEMS; i++) {
        if (i > 0)
            append_text(t, ", ", 2);
        append_item(t, e, i);
    }
    if (e->n > SHOWN_ITEMS) {
        char more[48];
        snprintf(more, sizeof more, ", ... %" PRIu64 " in all", e->n);
        append_text(t, more, strlen(more));
    }
    append_text(t, "]", 1);
}

static void gguf_entry(const clef_gguf_entry *e, entry_callback *callback, void *user)
{
    text key = {0}, value = {0};
    append_text(&key, e->key.text, e->key.n_bytes);
    append_text(&value, "", 0);
    if (e->is_array)
        append_array(&value, e);
    else
        append_item(&value, e, 0);
    if (!key.failed && !value.failed)
        callback(user, key.bytes, value.bytes);
    free(key.bytes);
    free(value.bytes);
}

clef_status clef_gguf_metadata(const char *path,
                               void (*entry)(void *user, const char *key, const char *value), void *user,
                               uint64_t *n_tensors, clef_error *err)
{
    clef_gguf gguf;
    if (!path)
        return clef__fail(err, CLEF_E_ARG, "clef_gguf_metadata: path is NULL");
    const clef_status status = clef__gguf_open(path, &gguf, err);
    if (status)
        return status;
    for (uint64_t i = 0; entry && i < gguf.n_entries; i++)
        gguf_entry(&gguf.entries[i], entry, user);
    if (n_tensors)
        *n_tensors = gguf.n_tensors;
    clef__gguf_close(&gguf);
    return CLEF_OK;
}

void clef_model_metadata(const clef_model *model,
                         void (*entry)(void *user, const char *key, const char *value), void *user)
{
    for (uint64_t i = 0; i < model->gguf.n_entries; i++)
        gguf_entry(&model->gguf.entries[i], entry, user);

    const char *key;
    json_t *value;
    json_object_foreach(model->config, key, value) {
        char *dumped = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
        if (dumped || json_is_string(value))
            entry(user, key, dumped ? dumped : json_string_value(value));
        free(dumped);
    }
}

void clef_model_unread(const clef_model *model, void (*entry)(void *user, const char *key), void *user)
{
    if (model->is_gguf)
        clef__gguf_unread(&model->gguf, model->hparams.arch, entry, user);
    else
        clef__config_unread(model->config, "config.json", entry, user);
}
