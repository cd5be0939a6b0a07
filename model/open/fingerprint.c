/* The fingerprint of a model. */
#include "model/open/fingerprint.h"

#include <string.h>

#include "model/open/quantised.h"

enum { SAMPLE_BYTES = 64 << 10, QUICK_TENSORS = 8 };

static void add_text(clef_sha256 *s, const char *text)
{
    clef__sha256_add(s, text, strlen(text) + 1); /* the NUL tells texts apart */
}

static void add_number(clef_sha256 *s, uint64_t x)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(x >> 8 * i);
    clef__sha256_add(s, bytes, sizeof bytes);
}

static void add_entry(void *user, const char *key, const char *value)
{
    add_text(user, key);
    add_text(user, value);
}

static void add_tensor(clef_sha256 *s, const clef_tensor_info *t)
{
    const unsigned char *data = t->data;
    const size_t n = (size_t)t->n_bytes, first = n < SAMPLE_BYTES ? n : SAMPLE_BYTES,
                 last = n - first < SAMPLE_BYTES ? n - first : SAMPLE_BYTES;
    add_text(s, t->name);
    add_text(s, clef_dtype_name(t->dtype));
    add_number(s, (uint64_t)t->rank);
    for (int32_t i = 0; i < t->rank; i++)
        add_number(s, (uint64_t)t->dims[i]);
    add_number(s, t->n_bytes);
    if (!data)
        return;
    clef__sha256_add(s, data, first);
    clef__sha256_add(s, data + (n - last), last);
}

/* With the data of every `step`th tensor. */
static void digest(const clef_model *model, int32_t step, unsigned char out[CLEF_SHA256_BYTES])
{
    clef_sha256 s;
    clef__sha256_init(&s);
    add_text(&s, clef_model_hparams(model)->arch);
    clef_model_metadata(model, add_entry, &s);
    for (int32_t i = 0; i < clef_model_n_tensors(model); i++) {
        clef_tensor_info t = clef_model_tensor(model, i);
        const clef__packed *packed = clef__packed_of(model, &t);
        if (packed)
            t = *packed->parts[CLEF__PACKED_CODES].info;
        if (i % step)
            t.data = NULL;
        add_tensor(&s, &t);
    }
    clef__sha256_finish(&s, out);
}

void clef__model_fingerprint(const clef_model *model, unsigned char out[CLEF_SHA256_BYTES])
{
    digest(model, 1, out);
}

void clef__model_quick_fingerprint(const clef_model *model, unsigned char out[CLEF_SHA256_BYTES])
{
    const int32_t step = clef_model_n_tensors(model) / QUICK_TENSORS;
    digest(model, step > 0 ? step : 1, out);
}
