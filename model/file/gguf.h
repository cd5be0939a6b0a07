/* GGUF v2 and v3 files (ggml's docs/gguf.md): header, key-value pairs, tensor table. Everything is checked
 * against the file's size before it is used; nothing in a parsed file points outside the mapping. */
#ifndef CLEF_MODEL_GGUF_H
#define CLEF_MODEL_GGUF_H

#include "clef/model.h"
#include "graph/fail.h"
#include "runtime/os/os.h"

/** Value types as the file numbers them. */
typedef enum clef_gguf_type {
    CLEF_GGUF_U8, CLEF_GGUF_I8, CLEF_GGUF_U16, CLEF_GGUF_I16, CLEF_GGUF_U32, CLEF_GGUF_I32, CLEF_GGUF_F32,
    CLEF_GGUF_BOOL,
    CLEF_GGUF_STRING, CLEF_GGUF_ARRAY, CLEF_GGUF_U64, CLEF_GGUF_I64, CLEF_GGUF_F64,
    CLEF_GGUF_N_TYPES
} clef_gguf_type;

/** A string in the file: not NUL-terminated. */
typedef struct clef_gguf_string {
    const char *text;
    size_t      n_bytes;
} clef_gguf_string;

typedef struct clef_gguf_entry {
    clef_gguf_string key;
    clef_gguf_type   type;      /* of the value, or of an array's items */
    int32_t          is_array;
    uint64_t         n;         /* items: 1 when no array */
    const void      *data;      /* numbers: as they lie in the file (unaligned, little-endian) */
    clef_gguf_string *strings;  /* STRING: n of them */
} clef_gguf_entry;

typedef struct clef_gguf {
    clef_mapping      file;
    uint32_t          version;
    clef_gguf_entry  *entries;
    uint64_t          n_entries;
    /* dims outermost first (GGUF stores them innermost first); names are owned copies */
    clef_tensor_info *tensors;
    char            **tensor_names;
    uint64_t          n_tensors;
} clef_gguf;

/** Opens and checks a file. CLEF_E_IO, CLEF_E_FORMAT (offset and reason), CLEF_E_UNSUPPORTED (version,
 *  big-endian, a tensor type that clef does not know, named), CLEF_E_NOMEM. On failure nothing is held. */
clef_status clef__gguf_open(const char *path, clef_gguf *out, clef_error *err);
/** The same over bytes that are in memory (tests, fuzzing): borrowed until clef__gguf_close(). */
clef_status clef__gguf_parse(const void *data, size_t n_bytes, const char *name, clef_gguf *out,
                             clef_error *err);
void        clef__gguf_close(clef_gguf *gguf);

/** Bytes of one value of a type, 0 where they are not fixed (STRING, ARRAY). */
size_t clef__gguf_type_bytes(clef_gguf_type type);

/** The entry of that key, NULL if none. */
const clef_gguf_entry *clef__gguf_find(const clef_gguf *gguf, const char *key);
/** Scalars with a fallback for a missing key; item i of a numeric array (any integer or float type,
 *  converted). */
int64_t clef__gguf_int(const clef_gguf *gguf, const char *key, int64_t missing);
double  clef__gguf_float(const clef_gguf *gguf, const char *key, double missing);
int64_t clef__gguf_item_int(const clef_gguf_entry *entry, uint64_t i);
double  clef__gguf_item_float(const clef_gguf_entry *entry, uint64_t i);
/** Copies a string value to out, cut at capacity - 1 bytes; 0 and "" when the key is missing or no string. */
int     clef__gguf_text(const clef_gguf *gguf, const char *key, char *out, size_t capacity);

#endif
