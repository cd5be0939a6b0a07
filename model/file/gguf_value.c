/* Reading values out of a parsed GGUF file (model/file/gguf.h). */
#include <math.h>
#include <string.h>

#include "model/file/gguf.h"

static const clef_gguf_entry *find_entry(const clef_gguf *gguf, const char *key)
{
    const size_t n = strlen(key);
    for (uint64_t i = 0; i < gguf->n_entries; i++)
        if (gguf->entries[i].key.n_bytes == n && memcmp(gguf->entries[i].key.text, key, n) == 0)
            return &gguf->entries[i];
    return NULL;
}

const clef_gguf_entry *clef__gguf_find(const clef_gguf *gguf, const char *key)
{
    const clef_gguf_entry *e = find_entry(gguf, key);
    const int is_own = strncmp(key, CLEF_GGUF_OWN, sizeof CLEF_GGUF_OWN - 1) == 0;
    return e || !is_own ? e : find_entry(gguf, key + sizeof CLEF_GGUF_OWN - sizeof CLEF_GGUF_OWN_OLD);
}

/* Reads `n` little-endian bytes, which need not be aligned. */
static uint64_t load_number(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static double load_float(const unsigned char *p, clef_gguf_type type)
{
    if (type == CLEF_GGUF_F64) {
        const uint64_t bits = load_number(p, 8);
        double x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    const uint32_t bits = (uint32_t)load_number(p, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* Converts a float to an integer: truncates towards zero and saturates at both ends. NaN becomes 0. */
static int64_t to_int(double x)
{
    if (isnan(x))
        return 0;
    if (x >= 9223372036854775808.0)
        return INT64_MAX;
    return x <= -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

int64_t clef__gguf_item_int(const clef_gguf_entry *entry, uint64_t i)
{
    const unsigned char *p = entry->data;
    if (!p || i >= entry->n)
        return 0;
    switch (entry->type) {
    case CLEF_GGUF_U8:
    case CLEF_GGUF_BOOL:
        return p[i];
    case CLEF_GGUF_I8:
        return (int8_t)p[i];
    case CLEF_GGUF_U16:
        return (uint16_t)load_number(p + 2 * i, 2);
    case CLEF_GGUF_I16:
        return (int16_t)load_number(p + 2 * i, 2);
    case CLEF_GGUF_U32:
        return (uint32_t)load_number(p + 4 * i, 4);
    case CLEF_GGUF_I32:
        return (int32_t)load_number(p + 4 * i, 4);
    case CLEF_GGUF_U64: {
        const uint64_t x = load_number(p + 8 * i, 8);
        return x > INT64_MAX ? INT64_MAX : (int64_t)x;
    }
    case CLEF_GGUF_I64:
        return (int64_t)load_number(p + 8 * i, 8);
    case CLEF_GGUF_F32:
        return to_int(load_float(p + 4 * i, CLEF_GGUF_F32));
    case CLEF_GGUF_F64:
        return to_int(load_float(p + 8 * i, CLEF_GGUF_F64));
    case CLEF_GGUF_STRING:
    case CLEF_GGUF_ARRAY:
    case CLEF_GGUF_N_TYPES:
        break;
    }
    return 0;
}

double clef__gguf_item_float(const clef_gguf_entry *entry, uint64_t i)
{
    const unsigned char *p = entry->data;
    if (!p || i >= entry->n)
        return 0;
    if (entry->type == CLEF_GGUF_F32)
        return load_float(p + 4 * i, CLEF_GGUF_F32);
    if (entry->type == CLEF_GGUF_F64)
        return load_float(p + 8 * i, CLEF_GGUF_F64);
    return (double)clef__gguf_item_int(entry, i);
}

int64_t clef__gguf_int(const clef_gguf *gguf, const char *key, int64_t missing)
{
    const clef_gguf_entry *entry = clef__gguf_find(gguf, key);
    return entry && !entry->is_array && entry->type != CLEF_GGUF_STRING ? clef__gguf_item_int(entry, 0)
                                                                        : missing;
}

double clef__gguf_float(const clef_gguf *gguf, const char *key, double missing)
{
    const clef_gguf_entry *entry = clef__gguf_find(gguf, key);
    return entry && !entry->is_array && entry->type != CLEF_GGUF_STRING ? clef__gguf_item_float(entry, 0)
                                                                        : missing;
}

int clef__gguf_text(const clef_gguf *gguf, const char *key, char *out, size_t capacity)
{
    const clef_gguf_entry *entry = clef__gguf_find(gguf, key);
    if (capacity == 0)
        return 0;
    out[0] = '\0';
    if (!entry || entry->is_array || entry->type != CLEF_GGUF_STRING)
        return 0;
    const size_t n = entry->strings[0].n_bytes < capacity ? entry->strings[0].n_bytes : capacity - 1;
    memcpy(out, entry->strings[0].text, n);
    out[n] = '\0';
    return 1;
}
