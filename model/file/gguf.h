/* GGUF v2 and v3 files (ggml's docs/gguf.md): header, key-value pairs, tensor table. All of it is checked
 * against the file's size; nothing in a parsed file points outside the mapping. */
#ifndef CLEF_MODEL_GGUF_H
#define CLEF_MODEL_GGUF_H

#include "clef/model.h"
#include "graph/fail.h"
#include "runtime/os/os.h"

/** Value types, with the numbers of the file format. */
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
    uint64_t         n;         /* number of items; 1 if it is not an array */
    const void      *data;      /* numbers: their bytes in the file (unaligned, little-endian) */
    clef_gguf_string *strings;  /* STRING: n strings */
} clef_gguf_entry;

typedef struct clef_gguf {
    clef_mapping      file;
    clef_mapping     *more;     /* [n_more]: further parts of a split file */
    size_t            n_more;
    uint32_t          version;
    clef_gguf_entry  *entries;
    uint64_t          n_entries;
    unsigned char    *is_read;  /* [n_entries]: 1 for keys that the reader of hyperparameters looked up */
    /* dims outermost first (GGUF stores them innermost first); names are owned copies */
    clef_tensor_info *tensors;
    char            **tensor_names;
    uint64_t          n_tensors;
    void             *keys, *copy; /* NULL, or of another format: the entries' bytes; moved tensors */
} clef_gguf;

/** Opens and checks a file; or all parts of a split file (NAME-00001-of-00003.gguf), from any of them: the
 *  keys are the first part's, the tensors those of all. CLEF_E_IO, CLEF_E_FORMAT (offset and reason; a part
 *  of another file; a tensor in two parts), CLEF_E_NOT_FOUND (a part is missing), CLEF_E_UNSUPPORTED
 *  (version, big-endian, an unknown tensor type), CLEF_E_NOMEM. On failure nothing is allocated. */
clef_status clef__gguf_open(const char *path, clef_gguf *out, clef_error *err);
/** clef__gguf_open() for one file, which may be a part. A file of whisper.cpp is read as if it were one
 *  (model/file/ggml.h). */
clef_status clef__gguf_open_alone(const char *path, clef_gguf *out, clef_error *err);

typedef struct clef_gguf_part {
    const char *path; /* in messages */
    clef_gguf   gguf;
} clef_gguf_part;

/** Joins the parts of a split file, in order. They are closed or taken over. */
clef_status clef__gguf_join(clef_gguf_part *parts, int32_t n_parts, clef_gguf *out, clef_error *err);
/** clef__gguf_open() for bytes in memory (tests, fuzzing), which are borrowed until clef__gguf_close(). */
clef_status clef__gguf_parse(const void *data, size_t n_bytes, const char *name, clef_gguf *out,
                             clef_error *err);
void        clef__gguf_close(clef_gguf *gguf);
/** Moves tensors that are not at addresses for numbers: GGUF's always are. CLEF_E_NOMEM. */
clef_status clef__gguf_align(clef_gguf *gguf, clef_error *err);

/** Bytes of one value of a type; 0 if the size varies (STRING, ARRAY). */
size_t clef__gguf_type_bytes(clef_gguf_type type);

/** What clef's own keys begin with. Version 0.1 and before wrote "clef.", which is an architecture of
 *  llama.cpp now, and is read for one release. */
#define CLEF_GGUF_OWN "libclef."
#define CLEF_GGUF_OWN_OLD "clef."
/** The entry with that key, NULL if there is none. A key of clef's own is also found under its old name. */
const clef_gguf_entry *clef__gguf_find(const clef_gguf *gguf, const char *key);
/** Scalars, with a default for a missing key; and item i of a numeric array (any integer or float type,
 *  converted). */
int64_t clef__gguf_int(const clef_gguf *gguf, const char *key, int64_t missing);
double  clef__gguf_float(const clef_gguf *gguf, const char *key, double missing);
int64_t clef__gguf_item_int(const clef_gguf_entry *entry, uint64_t i);
double  clef__gguf_item_float(const clef_gguf_entry *entry, uint64_t i);
/** Copies a string value to `out`, cut at capacity - 1 bytes. Returns 0 and "" when the key is missing or not
 *  a string. */
int     clef__gguf_text(const clef_gguf *gguf, const char *key, char *out, size_t capacity);

#endif
