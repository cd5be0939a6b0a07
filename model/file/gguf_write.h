/* Writes GGUF v3 files (ggml's docs/gguf.md). Keys and the tensor table are collected in memory and written
 * before the data. */
#ifndef CLEF_MODEL_GGUF_WRITE_H
#define CLEF_MODEL_GGUF_WRITE_H

#include "model/file/gguf.h"

enum { CLEF_GGUF_ALIGNMENT = 32 };

typedef struct clef_gguf_bytes {
    unsigned char *at;
    size_t         n, capacity;
} clef_gguf_bytes;

/** An empty writer is zeroed. When memory runs out, later entries are dropped and clef__gguf_write_head()
 *  fails. */
typedef struct clef_gguf_writer {
    clef_gguf_bytes entries, tensors;
    uint64_t        n_entries, n_tensors;
    uint64_t        n_data; /* bytes of the tensors so far, each padded to the alignment */
    int             failed;
} clef_gguf_writer;

void clef__gguf_put_u32(clef_gguf_writer *w, const char *key, uint32_t x);
void clef__gguf_put_i32(clef_gguf_writer *w, const char *key, int32_t x);
void clef__gguf_put_f64(clef_gguf_writer *w, const char *key, double x);
void clef__gguf_put_f32(clef_gguf_writer *w, const char *key, float x);
void clef__gguf_put_bool(clef_gguf_writer *w, const char *key, int x);
void clef__gguf_put_text(clef_gguf_writer *w, const char *key, const char *text);
/** Adds a string of n bytes. */
void clef__gguf_put_bytes(clef_gguf_writer *w, const char *key, const char *text, size_t n);
/** Adds the head of an array. n items must follow by clef__gguf_add_...(). */
void clef__gguf_put_array(clef_gguf_writer *w, const char *key, clef_gguf_type type, uint64_t n);
void clef__gguf_add_text(clef_gguf_writer *w, const char *text, size_t n);
void clef__gguf_add_i32(clef_gguf_writer *w, int32_t x);
void clef__gguf_add_f32(clef_gguf_writer *w, float x);
/** Adds n items of one byte each. */
void clef__gguf_add_bytes(clef_gguf_writer *w, const void *bytes, size_t n);
/** Copies an entry of another file. */
void clef__gguf_put_entry(clef_gguf_writer *w, const clef_gguf_entry *entry);
/** Adds a tensor of t->n_bytes of data. t->data is not read. */
void clef__gguf_put_tensor(clef_gguf_writer *w, const clef_tensor_info *t);

/** Parses the keys that w has so far into `keys`, which borrows from `bytes`: close one, then finish the
 *  other. `file` names them in messages. CLEF_E_NOMEM. */
clef_status clef__gguf_keys_of(const clef_gguf_writer *w, clef_gguf_writer *bytes, clef_gguf *keys,
                               const char *file, clef_error *err);
/** Writes header, keys and table, padded. The tensors' data must follow, in order, each padded by
 *  clef__gguf_write_padding(). */
clef_status clef__gguf_write_head(const clef_gguf_writer *w, clef_os_file *file, clef_error *err);
clef_status clef__gguf_write_padding(clef_os_file *file, uint64_t n_bytes, clef_error *err);
void        clef__gguf_writer_finish(clef_gguf_writer *w);

#endif
