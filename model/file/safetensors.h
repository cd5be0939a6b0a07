/* One .safetensors file (https://github.com/huggingface/safetensors, "Format"): 8 bytes of header length, a
 * JSON header, the data. All of it is checked against the file's size. As in the reference implementation,
 * the tensors must cover the data without gap or overlap. */
#ifndef CLEF_MODEL_SAFETENSORS_H
#define CLEF_MODEL_SAFETENSORS_H

#include "clef/model.h"
#include "runtime/os/os.h"

/** The dtypes of the format: name, bytes per element, clef's dtype (CLEF_N_DTYPES: none). */
#define CLEF_ST_DTYPES(X)                                                                                    \
    X(BOOL, 1, CLEF_I8)                                                                                      \
    X(U8, 1, CLEF_I8)                                                                                        \
    X(I8, 1, CLEF_I8)                                                                                        \
    X(F8_E5M2, 1, CLEF_N_DTYPES)                                                                             \
    X(F8_E4M3, 1, CLEF_N_DTYPES)                                                                             \
    X(F8_E8M0, 1, CLEF_N_DTYPES)                                                                             \
    X(I16, 2, CLEF_N_DTYPES)                                                                                 \
    X(U16, 2, CLEF_N_DTYPES)                                                                                 \
    X(F16, 2, CLEF_F16)                                                                                      \
    X(BF16, 2, CLEF_BF16)                                                                                    \
    X(I32, 4, CLEF_I32)                                                                                      \
    X(U32, 4, CLEF_N_DTYPES)                                                                                 \
    X(F32, 4, CLEF_F32)                                                                                      \
    X(F64, 8, CLEF_N_DTYPES)                                                                                 \
    X(I64, 8, CLEF_N_DTYPES)                                                                                 \
    X(U64, 8, CLEF_N_DTYPES)

typedef enum clef_st_dtype {
#define CLEF_X(name, bytes, dtype) CLEF_ST_##name,
    CLEF_ST_DTYPES(CLEF_X)
#undef CLEF_X
    CLEF_ST_N_DTYPES
} clef_st_dtype;

typedef struct clef_safetensors {
    clef_mapping             file;    /* zero when parsed from memory */
    clef_tensor_info        *tensors; /* by offset */
    clef_st_dtype           *stored;  /* of each */
    int32_t                  n_tensors;
    const clef_tensor_info **by_name;
    char                    *names;   /* one block, NUL after each */
} clef_safetensors;

/** Opens and checks a file. CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED (a dtype that is newer than this
 *  code, a rank over 4), CLEF_E_NOMEM. On failure nothing is allocated. */
clef_status clef__safetensors_open(const char *path, clef_safetensors *out, clef_error *err);
/** clef__safetensors_open() for bytes in memory, which are borrowed until clef__safetensors_close(). */
clef_status clef__safetensors_parse(const void *data, size_t n_bytes, const char *name,
                                    clef_safetensors *out, clef_error *err);
void        clef__safetensors_close(clef_safetensors *st);

/** "F32"; static. */
const char *clef__st_dtype_name(clef_st_dtype dtype);
/** Index of the tensor with that name, -1 if there is none. */
int32_t clef__safetensors_find(const clef_safetensors *st, const char *name);
/** Copies tensor i as F32 or I32, as clef_tensor_file_read() does. */
clef_status clef__safetensors_read(const clef_safetensors *st, int32_t i, clef_dtype as, void *out,
                                   size_t n, clef_error *err);

/** Where the bytes of tensors come from, for clef__safetensors_write(). */
typedef struct clef__tensor_put {
    /** Writes exactly t->n_bytes. t is one of the caller's list. */
    clef_status (*write)(void *user, const clef_tensor_info *t, clef_os_file *file, clef_error *err);
    void *user;
} clef__tensor_put;
/** clef_tensor_file_write() without the data in memory: t->data is not read. */
clef_status clef__safetensors_write(const char *path, const clef_tensor_info *tensors, int32_t n,
                                    const clef__tensor_put *put, clef_error *err);

#endif
