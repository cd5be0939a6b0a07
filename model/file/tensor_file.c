/* The public view of .safetensors files: reading with conversion, and writing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/model.h"
#include "graph/fail.h"
#include "model/file/json.h"
#include "model/file/safetensors.h"
#include "model/file/tensor_index.h"
#include "model/file/utf8.h"
#include "runtime/os/os.h"

struct clef_tensor_file {
    clef_safetensors st;
};

clef_status clef_tensor_file_open(const char *path, clef_tensor_file **out, clef_error *err)
{
    if (!out)
        return clef__fail(err, CLEF_E_ARG, "clef_tensor_file_open: out is NULL");
    *out = NULL;
    if (!path)
        return clef__fail(err, CLEF_E_ARG, "clef_tensor_file_open: path is NULL");
    clef_tensor_file *file = calloc(1, sizeof *file);
    if (!file)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    const clef_status status = clef__safetensors_open(path, &file->st, err);
    if (status == CLEF_OK)
        *out = file;
    else
        free(file);
    return status;
}

void clef_tensor_file_close(clef_tensor_file *file)
{
    if (!file)
        return;
    clef__safetensors_close(&file->st);
    free(file);
}

int32_t clef_tensor_file_count(const clef_tensor_file *file)
{
    return file->st.n_tensors;
}

clef_tensor_info clef_tensor_file_get(const clef_tensor_file *file, int32_t i)
{
    return i >= 0 && i < file->st.n_tensors ? file->st.tensors[i] : (clef_tensor_info){0};
}

int32_t clef_tensor_file_find(const clef_tensor_file *file, const char *name)
{
    return clef__safetensors_find(&file->st, name);
}

clef_status clef_tensor_file_read(const clef_tensor_file *file, int32_t i, clef_dtype as, void *out, size_t n,
                                  clef_error *err)
{
    return clef__safetensors_read(&file->st, i, as, out, n, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t load_number(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

/* Reads element i as an integer. Returns 0 for a dtype that is not an integer type. A U64 above INT64_MAX
 * becomes INT64_MAX. */
static int load_int(clef_st_dtype dtype, const unsigned char *p, size_t i, int64_t *x)
{
    switch (dtype) {
    case CLEF_ST_BOOL:
    case CLEF_ST_U8:
        *x = p[i];
        return 1;
    case CLEF_ST_I8:
        *x = (int8_t)p[i];
        return 1;
    case CLEF_ST_I16:
        *x = (int16_t)load_number(p + 2 * i, 2);
        return 1;
    case CLEF_ST_U16:
        *x = (int64_t)load_number(p + 2 * i, 2);
        return 1;
    case CLEF_ST_I32:
        *x = (int32_t)load_number(p + 4 * i, 4);
        return 1;
    case CLEF_ST_U32:
        *x = (int64_t)load_number(p + 4 * i, 4);
        return 1;
    case CLEF_ST_I64:
        *x = (int64_t)load_number(p + 8 * i, 8);
        return 1;
    case CLEF_ST_U64: {
        const uint64_t u = load_number(p + 8 * i, 8);
        *x = u > INT64_MAX ? INT64_MAX : (int64_t)u;
        return 1;
    }
    default:
        return 0;
    }
}

static clef_status read_i32(const clef_safetensors *st, int32_t i, int32_t *out, size_t n, clef_error *err)
{
    const clef_tensor_info *t = &st->tensors[i];
    for (size_t k = 0; k < n; k++) {
        int64_t x = 0;
        if (!load_int(st->stored[i], t->data, k, &x))
            return clef__fail(err, CLEF_E_UNSUPPORTED, "tensor %s: cannot read %s as i32", t->name,
                              clef__st_dtype_name(st->stored[i]));
        if (x < INT32_MIN || x > INT32_MAX)
            return clef__fail(err, CLEF_E_LIMIT,
                              "tensor %s: element %zu is %" PRId64 ", which does not fit i32", t->name, k, x);
        out[k] = (int32_t)x;
    }
    return CLEF_OK;
}

/* Decodes F16 and BF16 from an aligned copy, because a tensor in the file need not be aligned. */
static void read_halves(const clef_tensor_info *t, float *out, size_t n)
{
    enum { STEP = 256 };
    uint16_t aligned[STEP];
    for (size_t k = 0; k < n; k += STEP) {
        const size_t m = n - k < STEP ? n - k : STEP;
        memcpy(aligned, (const char *)t->data + 2 * k, 2 * m);
        clef_dtype_decode(t->dtype, aligned, m, out + k);
    }
}

static clef_status read_f32(const clef_safetensors *st, int32_t i, float *out, size_t n, clef_error *err)
{
    const clef_tensor_info *t = &st->tensors[i];
    switch (st->stored[i]) {
    case CLEF_ST_F32:
        if (n > 0)
            memcpy(out, t->data, 4 * n);
        return CLEF_OK;
    case CLEF_ST_F16:
    case CLEF_ST_BF16:
        read_halves(t, out, n);
        return CLEF_OK;
    case CLEF_ST_F64:
        for (size_t k = 0; k < n; k++) {
            const uint64_t bits = load_number((const unsigned char *)t->data + 8 * k, 8);
            double x;
            memcpy(&x, &bits, sizeof x);
            out[k] = (float)x;
        }
        return CLEF_OK;
    case CLEF_ST_U64:
        for (size_t k = 0; k < n; k++)
            out[k] = (float)load_number((const unsigned char *)t->data + 8 * k, 8);
        return CLEF_OK;
    default:
        for (size_t k = 0; k < n; k++) {
            int64_t x = 0;
            if (!load_int(st->stored[i], t->data, k, &x))
                return clef__fail(err, CLEF_E_UNSUPPORTED, "tensor %s: cannot read %s as f32", t->name,
                                  clef__st_dtype_name(st->stored[i]));
            out[k] = (float)x;
        }
        return CLEF_OK;
    }
}

clef_status clef__safetensors_read(const clef_safetensors *st, int32_t i, clef_dtype as, void *out, size_t n,
                                   clef_error *err)
{
    if (i < 0 || i >= st->n_tensors)
        return clef__fail(err, CLEF_E_ARG, "tensor number %" PRId32 ", expected 0 to %" PRId32, i,
                          st->n_tensors - 1);
    const clef_tensor_info *t = &st->tensors[i];
    int64_t elements = 0;
    clef__dims_product(t->dims, t->rank, &elements); /* parsing has checked that it does not overflow */
    if ((uint64_t)elements != n)
        return clef__fail(err, CLEF_E_ARG, "tensor %s has %" PRId64 " elements, expected %zu", t->name,
                          elements, n);
    if (as == CLEF_F32)
        return read_f32(st, i, out, n, err);
    if (as == CLEF_I32)
        return read_i32(st, i, out, n, err);
    return clef__fail(err, CLEF_E_ARG, "tensor %s: cannot read as %s, expected f32 or i32", t->name,
                      clef_dtype_name(as));
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *written_name(clef_dtype dtype)
{
    switch (dtype) {
    case CLEF_F32:
        return "F32";
    case CLEF_F16:
        return "F16";
    case CLEF_BF16:
        return "BF16";
    case CLEF_I32:
        return "I32";
    case CLEF_I8:
        return "I8";
    default:
        return NULL;
    }
}

static clef_status check_tensor(const char *path, const clef_tensor_info *t, clef_error *err)
{
    if (!t->name || !clef__name_is_plain(t->name, strlen(t->name)) ||
        !clef__utf8_valid(t->name, strlen(t->name)) || strcmp(t->name, "__metadata__") == 0)
        return clef__fail(
            err, CLEF_E_ARG,
            "%s: a tensor's name is NULL, empty, __metadata__, no UTF-8 or has control characters", path);
    if (!written_name(t->dtype))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s is %s, expected f32, f16, bf16, i32 or i8",
                          path, t->name, clef_dtype_name(t->dtype));
    int64_t n = 0;
    if (t->rank < 0 || t->rank > CLEF_MAX_DIMS || !clef__dims_product(t->dims, t->rank, &n) ||
        n > INT64_MAX / clef_dtype_block_bytes(t->dtype))
        return clef__fail(err, CLEF_E_ARG, "%s: tensor %s has a dim or rank out of range", path, t->name);
    if (t->n_bytes != (uint64_t)(n * clef_dtype_block_bytes(t->dtype)))
        return clef__fail(err, CLEF_E_ARG, "%s: tensor %s has %" PRIu64 " bytes, its shape needs %" PRId64,
                          path, t->name, t->n_bytes, n * clef_dtype_block_bytes(t->dtype));
    return CLEF_OK;
}

/* Adds one tensor's line to the header. */
static clef_status describe_tensor(const char *path, json_t *header, const clef_tensor_info *t,
                                   uint64_t begin, clef_error *err)
{
    if (t->n_bytes > INT64_MAX - begin)
        return clef__fail(err, CLEF_E_ARG, "%s: its tensors have more bytes than a file can", path);
    if (json_object_get(header, t->name))
        return clef__fail(err, CLEF_E_ARG, "%s: two tensors have the name %s", path, t->name);
    json_t *shape = json_array();
    for (int32_t i = 0; i < t->rank; i++)
        if (json_array_append_new(shape, json_integer(t->dims[i])) != 0) {
            json_decref(shape);
            return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its header", path);
        }
    json_t *line = json_pack("{s:s, s:o, s:[I, I]}", "dtype", written_name(t->dtype), "shape", shape,
                             "data_offsets", (json_int_t)begin, (json_int_t)(begin + t->n_bytes));
    if (json_object_set_new(header, t->name, line) != 0)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its header", path);
    return CLEF_OK;
}

/* Returns the header as text, padded with spaces so that the data begin at a multiple of 8. The caller frees
 * it. Returns NULL when out of memory. */
static char *header_text(json_t *header, size_t *n_bytes)
{
    char *text = json_dumps(header, JSON_COMPACT), *out = NULL;
    json_t *again = NULL;
    if (!text)
        return NULL;
    const size_t n = strlen(text), padded = (n + 7) / 8 * 8;
    /* json_dumps() of jansson 2.14 may drop entries when memory runs out, so the text is parsed again and
     * compared. */
    if (clef__json_parse(text, n, "header", &again, NULL) == CLEF_OK && json_equal(header, again))
        out = malloc(padded + 1);
    json_decref(again);
    if (out) {
        memcpy(out, text, n);
        memset(out + n, ' ', padded - n);
        *n_bytes = padded;
    }
    free(text);
    return out;
}

static clef_status write_all(clef_os_file *file, const char *header, size_t n_header,
                             const clef_tensor_info *const *order, int32_t n, const clef__tensor_put *put,
                             clef_error *err)
{
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)n_header >> (8 * i));
    clef_status status = clef__os_file_write(file, length, sizeof length, err);
    if (status == CLEF_OK)
        status = clef__os_file_write(file, header, n_header, err);
    for (int32_t i = 0; i < n && status == CLEF_OK; i++)
        status = put->write(put->user, order[i], file, err);
    return status;
}

clef_status clef__safetensors_write(const char *path, const clef_tensor_info *tensors, int32_t n,
                                    const clef__tensor_put *put, clef_error *err)
{
    clef_status status = CLEF_OK;
    clef_os_file *file = NULL;
    char *text = NULL;
    size_t n_text = 0;
    uint64_t at = 0;
    int32_t n_ordered = 0;
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format",
                               "pt"); /* "pt": without it transformers refuses the file */
    const clef_tensor_info **order = calloc((size_t)n + 1, sizeof *order);
    if (!header || !order) {
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its header", path);
        goto out;
    }
    for (int32_t i = 0; i < n; i++)
        if ((status = check_tensor(path, &tensors[i], err)) != CLEF_OK)
            goto out;
    for (int32_t bytes = 4; bytes > 0;
         bytes /= 2) /* wide elements first, so that each tensor is aligned to its elements */
        for (int32_t i = 0; i < n; i++) {
            if (clef_dtype_block_bytes(tensors[i].dtype) != bytes)
                continue;
            if ((status = describe_tensor(path, header, &tensors[i], at, err)) != CLEF_OK)
                goto out;
            at += tensors[i].n_bytes;
            order[n_ordered++] = &tensors[i];
        }
    text = header_text(header, &n_text);
    if (!text) {
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its header", path);
        goto out;
    }
    status = clef__os_file_begin(path, &file, err);
    if (status != CLEF_OK)
        goto out;
    status = write_all(file, text, n_text, order, n_ordered, put, err);
    if (status == CLEF_OK) {
        status = clef__os_file_commit(file, err);
        file = NULL;
    }
out:
    clef__os_file_abort(file);
    free(text);
    free(order);
    json_decref(header);
    return status;
}

static clef_status write_data(void *user, const clef_tensor_info *t, clef_os_file *file, clef_error *err)
{
    (void)user;
    return clef__os_file_write(file, t->data, (size_t)t->n_bytes, err);
}

clef_status clef_tensor_file_write(const char *path, const clef_tensor_info *tensors, int32_t n,
                                   clef_error *err)
{
    if (!path || n < 0 || (n > 0 && !tensors))
        return clef__fail(err, CLEF_E_ARG,
                          "clef_tensor_file_write: path is NULL, or %" PRId32 " tensors without a list", n);
    for (int32_t i = 0; i < n; i++)
        if (!tensors[i].data && tensors[i].n_bytes > 0)
            return clef__fail(err, CLEF_E_ARG, "%s: tensor %s has no data", path,
                              tensors[i].name ? tensors[i].name : "NULL");
    return clef__safetensors_write(path, tensors, n, &(clef__tensor_put){.write = write_data}, err);
}
