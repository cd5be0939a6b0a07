/* clef_model_quantize(): decodes a model's tensors, reorders their rows, encodes and writes them. */
#include "model/convert/quantize.h"
#include "graph/blocks.h"
#include "model/file/floats.h"
#include "model/open/joined.h"
#include "model/open/quantised.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const clef__quantize_type types[] = {
    {"f32", CLEF_F32, 0, 0},        {"f16", CLEF_F16, 1, 0},        {"bf16", CLEF_BF16, 32, 0},
    {"q8_0", CLEF_Q8_0, 7, 0},      {"q4_0", CLEF_Q4_0, 2, 0},      {"q4_1", CLEF_Q4_1, 3, 0},
    {"q5_0", CLEF_Q5_0, 8, 0},      {"q5_1", CLEF_Q5_1, 9, 0},      {"q3_k", CLEF_Q3_K, 11, 0},
    {"q4_k", CLEF_Q4_K, 14, 0},     {"q5_k", CLEF_Q5_K, 16, 0},     {"q6_k", CLEF_Q6_K, 18, 0},
    {"iq4_nl", CLEF_IQ4_NL, 25, 0}, {"mxfp4", CLEF_MXFP4, 38, 0},   {"nvfp4", CLEF_NVFP4, 39, 0},
    {"q1_0", CLEF_Q1_0, 40, 0},     {"q2_0", CLEF_Q2_0, 41, 0},     {"q2_k", CLEF_Q2_K, 10, 1},
    {"q3_k_m", CLEF_Q3_K, 12, 1},   {"q4_k_m", CLEF_Q4_K, 15, 1},   {"q5_k_m", CLEF_Q5_K, 17, 1},
    {"iq3_s", CLEF_IQ3_S, 26, 1},   {"iq4_xs", CLEF_IQ4_XS, 30, 1}, {"stored", CLEF_N_DTYPES, 0, 0},
};

enum { N_TYPES = sizeof types / sizeof *types, PIECE_ELEMENTS = 1 << 16 };

const char *clef_quantize_type(int32_t i)
{
    return i >= 0 && i < N_TYPES ? types[i].name : NULL;
}

/* The state of one call. */
typedef struct coding {
    const clef_quantize_opts *opts;
    const clef_weight_values *values; /* NULL, or values that replace the model's */
    clef_os_file *file;
    int32_t keeps;        /* tensors keep their types: copies are exact, whatever they hold */
    uint64_t done, total; /* bytes of tensors */
    size_t n_threads;
    clef_error *err;
} coding;

static size_t row_bytes(clef_dtype dtype, size_t n)
{
    return n / (size_t)clef_dtype_block_elems(dtype) * (size_t)clef_dtype_block_bytes(dtype);
}

/* The row of head i, counted over q, then k, then v, within the groups. */
static size_t ungrouped_row(const clef__quantize_item *item, size_t i)
{
    const size_t H = (size_t)item->n_heads, Hk = (size_t)item->n_kv_heads, each = H / Hk;
    if (i < H)
        return i / each * (each + 2) + i % each;
    return (i - H) % Hk * (each + 2) + each + (i - H) / Hk;
}

/* The row of the old tensor for row `row` of the new one. */
size_t clef__quantize_source_row(const clef__quantize_item *item, size_t row)
{
    const size_t dim = (size_t)item->head_dim;
    if (item->order == CLEF_ROWS_FROM)
        return row + (size_t)item->first;
    if (item->order == CLEF_ROWS_MAPPED)
        return (size_t)item->map->source(item->hp, (int64_t)row);
    if (item->order == CLEF_ROWS_UNGROUPED)
        return ungrouped_row(item, row / dim) * dim + row % dim;
    if (item->order != CLEF_ROWS_PAIRED)
        return row;
    const size_t turned = item->hp && item->hp->rope.dims > 0 ? (size_t)item->hp->rope.dims : dim,
                 at = row % dim;
    return at >= turned ? row : row / dim * dim + at % 2 * (turned / 2) + at / 2;
}

/* The number in the old tensor for number i of the new one. */
static size_t source_index(const clef__quantize_item *item, size_t i, size_t width)
{
    if (item->order == CLEF_ROWS_TRANSPOSED)
        return i % width * (size_t)item->from->dims[1] + i / width;
    if (item->order == CLEF_COLUMNS_MAPPED)
        return i / width * width + (size_t)item->map->source(item->hp, (int64_t)(i % width));
    return clef__quantize_source_row(item, i / width) * width + i % width;
}

/* Adds what adapters change. Their rows are the old tensor's; of one that is stored as columns, its
 * columns. */
static void merge_rows(const clef__quantize_item *item, size_t first, size_t n, size_t width, float *x)
{
    for (int32_t i = 0; i < item->n_loras && item->order != CLEF_COLUMNS_MAPPED; i++)
        for (size_t r = 0; r < n; r++)
            clef__lora_add_row(item->loras[i], (int64_t)clef__quantize_source_row(item, first + r),
                               x + r * width);
}

/* Multiplies rows by what a folder's keys say and GGUF's matrices contain. */
static void scale_rows(const clef__quantize_item *item, size_t first, size_t n, size_t width, float *x)
{
    for (size_t r = 0; item->scaled_by && r < n; r++) {
        const int64_t row = (int64_t)clef__quantize_source_row(item, first + r);
        const float scale = item->scaled_by->hf_scale(item->hp, item->role, item->is_bias, row);
        for (size_t i = 0; i < width; i++)
            x[r * width + i] *= scale;
    }
}

/* 1 where rows of the new tensor are made of the whole old one. */
static int needs_whole(const clef__quantize_item *item)
{
    return item->order == CLEF_ROWS_TRANSPOSED || item->order == CLEF_COLUMNS_MAPPED;
}

/* Row `row` of the old tensor as floats. */
static void decode_row(const clef__quantize_item *item, size_t row, size_t width, float *x)
{
    const clef_tensor_info *from = item->from;
    const clef__packed *packed = item->packed;
    if (!packed) {
        clef_dtype_decode(from->dtype,
                          (const unsigned char *)item->data + row * row_bytes(from->dtype, width), width, x);
        return;
    }
    if (item->stack)
        packed =
            clef__packed_of(item->stack, clef__joined_part(item->stack, from, (int64_t)row / packed->n_rows));
    if (!clef__packed_decode_row(packed, (int64_t)row % packed->n_rows, x))
        x[0] = NAN; /* out of memory; it is reported as not finite */
}

/* The old tensor as floats. Adapters that change columns in another order are merged here. */
static void decode_whole(const clef__quantize_item *item, size_t n_rows, size_t width, float *whole)
{
    if (item->packed)
        for (size_t r = 0; r < n_rows; r++)
            decode_row(item, r, width, whole + r * width);
    else
        clef_dtype_decode(item->from->dtype, item->data, n_rows * width, whole);
    for (int32_t i = 0; i < item->n_loras && item->order == CLEF_COLUMNS_MAPPED; i++)
        for (size_t r = 0; r < n_rows; r++)
            clef__lora_add_row(item->loras[i], (int64_t)r, whole + r * width);
}

/* Reads rows first .. first + n - 1 of the new tensor as floats. `whole` is the old tensor as floats, if
 * needs_whole(). */
static void decode_rows(const clef__quantize_item *item, const float *whole, size_t first, size_t n,
                        size_t width, float *x)
{
    if (whole) {
        for (size_t i = 0; i < n * width; i++)
            x[i] = whole[source_index(item, first * width + i, width)];
        return;
    }
    for (size_t r = 0; r < n; r++)
        decode_row(item, clef__quantize_source_row(item, first + r), width, x + r * width);
    for (size_t i = 0; item->shift != 0 && i < n * width; i++)
        x[i] += item->shift;
}

static clef_status report_progress(coding *c, uint64_t n_bytes)
{
    c->done += n_bytes;
    if (c->opts->progress && c->opts->progress(c->opts->progress_user, "quantising", c->done, c->total))
        return clef__fail(c->err, CLEF_E_CANCELLED, "quantising was interrupted");
    return CLEF_OK;
}

/* A number that the file shall not have: it is not finite, or not held by the new type. */
typedef struct fault {
    int32_t found, finite;
    size_t at;
    float x;
} fault;

/* A part of a tensor for each thread: `rows` rows from `first` on are decoded to `x` and encoded to
 * `blocks`. */
typedef struct wave {
    const clef__quantize_item *item;
    const float *whole; /* the old tensor, if needs_whole(); else NULL */
    size_t width, first, rows, n_rows;
    float *x;
    unsigned char *blocks;
    fault *faults; /* of each part; NULL: they may have any numbers */
} wave;

static fault find_fault(const float *x, size_t n, clef_dtype to, const void *blocks)
{
    fault f = {.at = clef__find_not_finite(x, n)};
    f.finite = f.at == n;
    if (f.finite)
        f.at = clef__find_not_held(to, x, blocks, n);
    f.found = f.at < n;
    f.x = f.found ? x[f.at] : 0;
    return f;
}

/* Rows first .. first + n - 1 of the new tensor: their importance, where there is one, is that of the matrix
 * that each belongs to. */
static void encode_rows(const wave *w, size_t first, size_t n, const float *x, unsigned char *blocks)
{
    const clef__quantize_item *item = w->item;
    const clef_dtype to = item->to.dtype;
    clef_weighted_encoder *encode = item->importance ? clef__weighted_encoder((int)to) : NULL;
    if (!encode) {
        clef_dtype_encode(to, x, n * w->width, blocks);
        return;
    }
    const size_t each = (size_t)item->to.dims[item->to.rank - 2], bytes = row_bytes(to, w->width),
                 elems = (size_t)clef_dtype_block_elems(to), block = (size_t)clef_dtype_block_bytes(to);
    for (size_t r = 0; r < n; r++) {
        const float *importance = item->importance + (first + r) / each * w->width;
        for (size_t k = 0; k < w->width; k += elems)
            encode(x + r * w->width + k, importance + k, blocks + r * bytes + k / elems * block);
    }
}

static void code_piece(void *user, int32_t i)
{
    const wave *w = user;
    const clef_dtype to = w->item->to.dtype;
    const size_t skip = (size_t)i * w->rows, left = w->n_rows - w->first - skip,
                 n = left < w->rows ? left : w->rows;
    float *x = w->x + skip * w->width;
    decode_rows(w->item, w->whole, w->first + skip, n, w->width, x);
    merge_rows(w->item, w->first + skip, n, w->width, x);
    scale_rows(w->item, w->first + skip, n, w->width, x);
    encode_rows(w, w->first + skip, n, x, w->blocks + skip * row_bytes(to, w->width));
    if (w->faults)
        w->faults[i] = find_fault(x, n * w->width, to, w->blocks + skip * row_bytes(to, w->width));
}

static clef_status report_faults(const coding *c, const wave *w, size_t n_parts)
{
    const clef__quantize_item *item = w->item;
    for (size_t i = 0; w->faults && i < n_parts; i++) {
        const fault *f = &w->faults[i];
        const size_t at = source_index(item, (w->first + i * w->rows) * w->width + f->at, w->width);
        if (f->found)
            return f->finite ? clef__not_held(item->from->name, at, f->x, item->to.dtype, c->err)
                             : clef__not_finite(item->from->name, at, f->x, c->err);
    }
    return CLEF_OK;
}

static clef_status code_rows(coding *c, const clef__quantize_item *item, size_t n_rows, size_t width)
{
    const size_t out_row = row_bytes(item->to.dtype, width), n_elements = n_rows * width;
    wave w = {.item = item,
              .width = width,
              .rows = width < PIECE_ELEMENTS ? PIECE_ELEMENTS / width : 1,
              .n_rows = n_rows};
    const size_t pieces = (n_rows + w.rows - 1) / w.rows,
                 at_once = pieces < c->n_threads ? pieces : c->n_threads;
    const size_t room = at_once * w.rows < n_rows ? at_once * w.rows : n_rows;
    float *whole = needs_whole(item) ? malloc(n_elements * sizeof *whole) : NULL;
    clef_status status = CLEF_OK;
    w.x = malloc(room * width * sizeof *w.x);
    w.blocks = malloc(room * out_row);
    const int checks = !c->keeps || item->n_loras; /* else nothing is narrowed */
    w.faults = checks ? calloc(at_once, sizeof *w.faults) : NULL;
    w.whole = whole;
    if (!w.x || !w.blocks || (checks && !w.faults) || (needs_whole(item) && !whole)) {
        status = clef__fail(c->err, CLEF_E_NOMEM, "no memory to code tensor %s", item->to.name);
        goto out;
    }
    if (whole)
        decode_whole(item, n_rows, width, whole);
    for (; w.first < n_rows && status == CLEF_OK; w.first += room) {
        const size_t n = n_rows - w.first < room ? n_rows - w.first : room,
                     n_parts = (n + w.rows - 1) / w.rows;
        clef__os_parallel((int32_t)n_parts, code_piece, &w);
        status = report_faults(c, &w, n_parts);
        if (status == CLEF_OK)
            status = clef__os_file_write(c->file, w.blocks, n * out_row, c->err);
        if (status == CLEF_OK)
            status = report_progress(c, n * out_row);
    }
out:
    free(w.x);
    free(whole);
    free(w.blocks);
    free(w.faults);
    return status;
}

/* Writes a tensor's bytes as they are. With a type that the caller named, its numbers must be finite. */
static clef_status copy_item(coding *c, const clef__quantize_item *item, size_t n_elements)
{
    const clef_tensor_info *to = &item->to;
    const size_t elems = (size_t)clef_dtype_block_elems(to->dtype),
                 bytes = (size_t)clef_dtype_block_bytes(to->dtype);
    float *x = c->keeps ? NULL : malloc(PIECE_ELEMENTS * sizeof *x);
    clef_status status =
        c->keeps || x ? CLEF_OK : clef__fail(c->err, CLEF_E_NOMEM, "no memory to check tensor %s", to->name);
    for (size_t at = 0; x && at < n_elements && status == CLEF_OK; at += PIECE_ELEMENTS) {
        const size_t n = n_elements - at < PIECE_ELEMENTS ? n_elements - at : PIECE_ELEMENTS;
        clef_dtype_decode(to->dtype, (const unsigned char *)item->data + at / elems * bytes, n, x);
        const size_t bad = clef__find_not_finite(x, n);
        if (bad < n)
            status = clef__not_finite(item->from->name, at + bad, x[bad], c->err);
    }
    free(x);
    if (status == CLEF_OK)
        status = clef__os_file_write(c->file, item->data, (size_t)to->n_bytes, c->err);
    return status == CLEF_OK ? report_progress(c, to->n_bytes) : status;
}

static clef_status code_item(coding *c, const clef__quantize_item *item)
{
    const clef_tensor_info *to = &item->to;
    const size_t blocks = (size_t)to->n_bytes / (size_t)clef_dtype_block_bytes(to->dtype);
    const size_t n_elements = blocks * (size_t)clef_dtype_block_elems(to->dtype);
    const int is_column =
        to->rank == 1 && (item->scaled_by || item->order == CLEF_ROWS_PAIRED ||
                          item->order == CLEF_ROWS_UNGROUPED || item->order == CLEF_ROWS_MAPPED); /* a bias */
    clef_status status = CLEF_OK;
    if (item->from->dtype == to->dtype && item->order == CLEF_ROWS_SAME && item->shift == 0 &&
        !item->scaled_by && item->n_loras == 0 && !item->is_apart) {
        status = copy_item(c, item, n_elements);
    } else if (n_elements > 0) {
        const size_t width = is_column || to->rank == 0 ? 1 : (size_t)to->dims[to->rank - 1];
        status = code_rows(c, item, n_elements / width, width);
    }
    return status == CLEF_OK ? clef__gguf_write_padding(c->file, to->n_bytes, c->err) : status;
}

/* Codes values that replace the model's, if there are any; *done is 1 then. */
static clef_status write_values(coding *c, clef__quantize_item *item, int *done)
{
    const clef_tensor_info *from = item->from;
    const uint64_t n = from->n_bytes / (uint64_t)clef_dtype_block_bytes(from->dtype) *
                       (uint64_t)clef_dtype_block_elems(from->dtype);
    const float *x = NULL;
    clef_status status = c->values ? c->values->read(c->values->user, from->name, n, &x, c->err) : CLEF_OK;
    *done = x != NULL;
    if (status || !x)
        return status;
    clef_tensor_info trained = *from;
    trained.dtype = CLEF_F32;
    trained.n_bytes = n * sizeof *x;
    trained.data = x;
    const clef__packed *packed = item->packed;
    item->from = &trained;
    item->packed = NULL;
    item->data = x;
    status = code_item(c, item);
    item->from = from;
    item->packed = packed;
    return status;
}

/* Frees weights that were joined in memory only for this tensor. */
static clef_status write_item(coding *c, clef_model *m, clef__quantize_item *item)
{
    int done = 0;
    const clef_status trained = write_values(c, item, &done);
    if (trained || done)
        return trained;
    item->data = item->from->data;
    if (!item->data && item->from->n_bytes > 0)
        item->data = clef_model_weight(m, item->from->name, item->from->dtype, item->from->n_bytes);
    if (!item->data && item->from->n_bytes > 0)
        return clef__fail(c->err, CLEF_E_NOMEM, "no memory for tensor %s", item->to.name);
    const clef_status status = code_item(c, item);
    clef__joined_drop(m, item->from);
    return status;
}

/* 1 if b equals a except for upper and lower case: Q4_K_M is q4_k_m. */
static int same_type(const char *a, const char *b)
{
    while (*a && *a == tolower((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

const clef__quantize_type *clef__quantize_find_type(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (name && same_type(types[i].name, name))
            return &types[i];
    return NULL;
}

clef_dtype clef__quantize_find_dtype(const char *name)
{
    clef_dtype t = CLEF_F32;
    while (t < CLEF_N_DTYPES && !(name && t != CLEF_I32 && t != CLEF_I8 && clef__dtype_ggml(t) >= 0 &&
                                  clef_dtype_encodes(t) && same_type(clef_dtype_name(t), name)))
        t++;
    return t;
}

int32_t clef_quantize_knows(const char *type)
{
    return clef__quantize_find_type(type) != NULL;
}

static clef_status unknown_type(const char *name, clef_error *err)
{
    char known[200] = "";
    for (int i = 0; i < N_TYPES; i++) {
        strcat(known, " ");
        strcat(known, types[i].name);
    }
    return clef__fail(err, CLEF_E_ARG, "type %.40s is unknown, known are:%s", name ? name : "NULL", known);
}

/* Finds what the adapters change among the tensors of the new file. */
static clef_status plan_merge(const clef_quantize_opts *opts, const clef_model *model,
                              clef__quantize_plan *plan, clef_error *err)
{
    if (opts->n_loras < 0 || opts->n_loras > CLEF_QUANTIZE_LORAS)
        return clef__fail(err, CLEF_E_LIMIT, "%d adapters to merge, expected 0 to %d", opts->n_loras,
                          CLEF_QUANTIZE_LORAS);
    for (int32_t i = 0; i < opts->n_loras; i++) {
        int32_t n_found = 0;
        if (opts->loras[i]->model != model)
            return clef__fail(err, CLEF_E_ARG, "%s: the adapter was opened for another model",
                              clef_lora_path(opts->loras[i]));
        for (size_t k = 0; k < plan->n_items; k++) {
            clef__quantize_item *item = &plan->items[k];
            const clef_lora_target_info *t = clef__lora_find(opts->loras[i], item->from->name);
            if (t)
                item->loras[item->n_loras++] = t;
            n_found += t != NULL;
        }
        if (n_found != clef_lora_n_targets(opts->loras[i]))
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "%s: changes %d matrices, the new file would have %d of them",
                              clef_lora_path(opts->loras[i]), clef_lora_n_targets(opts->loras[i]), n_found);
    }
    return CLEF_OK;
}

clef_status clef__quantize_check(const clef_model *model, const char *type, clef_error *err)
{
    clef__quantize_plan plan = {0};
    if (!clef__quantize_find_type(type))
        return unknown_type(type, err);
    const clef_status status = clef__quantize_plan_init(model, clef__quantize_find_type(type), &plan, err);
    clef__quantize_plan_finish(&plan);
    return status;
}

clef_status clef_model_quantize(const clef_model *model, const char *path, const clef_quantize_opts *opts,
                                clef_error *err)
{
    return clef__quantize_values(model, path, opts, NULL, err);
}

clef_status clef__quantize_values(const clef_model *model, const char *path, const clef_quantize_opts *opts,
                                  const clef_weight_values *values, clef_error *err)
{
    const clef__quantize_type *type = clef__quantize_find_type(opts ? opts->type : NULL);
    clef_gguf_writer w = {0};
    clef__quantize_plan plan = {0};
    coding c = {.opts = opts, .values = values, .n_threads = (size_t)clef__os_n_cpus(), .err = err};
    if (!type)
        return unknown_type(opts ? opts->type : NULL, err);
    c.keeps = type->dtype == CLEF_N_DTYPES && !values && !opts->n_rules;
    clef_status status = clef__quantize_plan_init(model, type, &plan, err);
    if (status == CLEF_OK)
        status = clef__quantize_choose(model, opts, &plan, err);
    if (status == CLEF_OK)
        status = plan_merge(opts, model, &plan, err);
    if (status == CLEF_OK)
        status = clef__quantize_keys(model, type, &plan, opts, &w, err);
    if (status == CLEF_OK && values && !clef__gguf_find(&model->gguf, CLEF_TRAINED_KEY))
        clef__gguf_put_bool(&w, CLEF_TRAINED_KEY, 1);
    if (status != CLEF_OK)
        goto out;
    for (size_t i = 0; i < plan.n_items; i++) {
        clef__gguf_put_tensor(&w, &plan.items[i].to);
        c.total += plan.items[i].to.n_bytes;
    }
    status = clef__os_file_begin(path, &c.file, err);
    if (status == CLEF_OK)
        status = clef__gguf_write_head(&w, c.file, err);
    for (size_t i = 0; i < plan.n_items && status == CLEF_OK; i++)
        status = write_item(&c, (clef_model *)(uintptr_t)model, &plan.items[i]);
    if (status == CLEF_OK) {
        status = clef__os_file_commit(c.file, err);
        c.file = NULL;
    }
out:
    clef__os_file_abort(c.file);
    clef__gguf_writer_finish(&w);
    clef__quantize_plan_finish(&plan);
    return status;
}
