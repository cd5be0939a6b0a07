/* Files of importance matrices: llama.cpp's GGUF form, and the form that it had before. */
#include "model/convert/imatrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/gguf_write.h"

#define SUMS ".in_sum2"
#define COUNTS ".counts"

enum { MAX_NAME = 256, MAX_ENTRIES = 1 << 20 };

static const size_t max_bytes = (size_t)1 << 32;

static clef_status no_memory(const char *path, clef_error *err)
{
    return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for an importance matrix", path);
}

clef_imatrix_entry *clef__imatrix_add(clef_imatrix *im, const char *name, size_t n_name, int32_t n_matrices,
                                      size_t n)
{
    if (im->n == im->capacity) {
        const int32_t capacity = 2 * im->capacity + 64;
        clef_imatrix_entry *grown = realloc(im->entries, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        im->entries = grown;
        im->capacity = capacity;
    }
    char *own = calloc(n_name + 1, 1);
    float *numbers = calloc(n + (size_t)n_matrices, sizeof *numbers);
    if (!own || !numbers) {
        free(own);
        free(numbers);
        return NULL;
    }
    memcpy(own, name, n_name);
    clef_imatrix_entry *e = &im->entries[im->n++];
    *e = (clef_imatrix_entry){
        .name = own, .n_matrices = n_matrices, .n = n, .sums = numbers, .counts = numbers + n};
    return e;
}

void clef_imatrix_close(clef_imatrix *im)
{
    if (!im)
        return;
    for (int32_t i = 0; i < im->n; i++) {
        free((void *)(uintptr_t)im->entries[i].name);
        free((void *)(uintptr_t)im->entries[i].sums);
    }
    free(im->entries);
    free(im->path);
    free(im);
}

int32_t clef_imatrix_n(const clef_imatrix *im)
{
    return im->n;
}

clef_imatrix_entry clef_imatrix_get(const clef_imatrix *im, int32_t i)
{
    return i >= 0 && i < im->n ? im->entries[i] : (clef_imatrix_entry){0};
}

int32_t clef_imatrix_find(const clef_imatrix *im, const char *name)
{
    for (int32_t i = 0; i < im->n; i++)
        if (strcmp(im->entries[i].name, name) == 0)
            return i;
    return -1;
}

int32_t clef_imatrix_chunks(const clef_imatrix *im)
{
    return im->n_chunks;
}

const char *clef_imatrix_path(const clef_imatrix *im)
{
    return im->path ? im->path : "";
}

void clef__imatrix_means(const clef_imatrix_entry *e, float *out)
{
    const size_t each = e->n / (size_t)e->n_matrices;
    for (size_t i = 0; i < e->n; i++) {
        const float count = e->counts[i / each];
        out[i] = count > 0 ? e->sums[i] / count : 1;
    }
}

static clef_status check_entry(const char *path, const clef_imatrix_entry *e, clef_error *err)
{
    for (size_t i = 0; i < e->n + (size_t)e->n_matrices; i++) {
        const float x = i < e->n ? e->sums[i] : e->counts[i - e->n];
        if (!(isfinite(x) && x >= 0))
            return clef__fail(err, CLEF_E_FORMAT, "%s: %s: number %zu of %s is %g, expected 0 or more", path,
                              e->name, i < e->n ? i : i - e->n, i < e->n ? "the sums" : "the counts",
                              (double)x);
    }
    return CLEF_OK;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static const clef_tensor_info *find_tensor(const clef_gguf *g, const char *name, size_t n, const char *end)
{
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (strncmp(g->tensors[i].name, name, n) == 0 && strcmp(g->tensors[i].name + n, end) == 0)
            return &g->tensors[i];
    return NULL;
}

static int64_t count_of(const clef_tensor_info *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* The entry of a tensor NAME.in_sum2 and the NAME.counts beside it. */
static clef_status take_tensors(clef_imatrix *im, const clef_gguf *g, const clef_tensor_info *sums,
                                size_t n_name, clef_error *err)
{
    const clef_tensor_info *counts = find_tensor(g, sums->name, n_name, COUNTS);
    const int64_t n = count_of(sums), n_matrices = counts ? count_of(counts) : 0;
    if (!counts)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %s has no tensor %.*s%s beside it", im->path, sums->name,
                          (int)n_name, sums->name, COUNTS);
    if (sums->dtype != CLEF_F32 || counts->dtype != CLEF_F32)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %s and its counts: expected f32, got %s and %s", im->path,
                          sums->name, clef_dtype_name(sums->dtype), clef_dtype_name(counts->dtype));
    if (n_matrices < 1 || n_matrices > INT32_MAX || n < n_matrices || n % n_matrices)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: %s has %" PRId64 " numbers and %" PRId64 " counts, expected as many for each "
                          "count",
                          im->path, sums->name, n, n_matrices);
    clef_imatrix_entry *e = clef__imatrix_add(im, sums->name, n_name, (int32_t)n_matrices, (size_t)n);
    if (!e)
        return no_memory(im->path, err);
    memcpy((float *)(uintptr_t)e->sums, sums->data, (size_t)n * sizeof(float));
    memcpy((float *)(uintptr_t)e->counts, counts->data, (size_t)n_matrices * sizeof(float));
    return check_entry(im->path, e, err);
}

static clef_status parse_gguf(clef_imatrix *im, const char *data, size_t n_bytes, clef_error *err)
{
    clef_gguf g = {0};
    char type[16] = "";
    clef_status status = clef__gguf_parse(data, n_bytes, im->path, &g, err);
    if (status == CLEF_OK &&
        !(clef__gguf_text(&g, "general.type", type, sizeof type) && !strcmp(type, "imatrix")))
        status = clef__fail(err, CLEF_E_FORMAT, "%s: expected an importance matrix, general.type is '%s'",
                            im->path, type);
    for (uint64_t i = 0; status == CLEF_OK && i < g.n_tensors; i++) {
        const size_t n = strlen(g.tensors[i].name), m = strlen(SUMS);
        if (n > m && strcmp(g.tensors[i].name + n - m, SUMS) == 0)
            status = take_tensors(im, &g, &g.tensors[i], n - m, err);
    }
    if (status == CLEF_OK) {
        const int64_t chunks = clef__gguf_int(&g, "imatrix.chunk_count", 0);
        im->n_chunks = chunks > 0 && chunks < INT32_MAX ? (int32_t)chunks : 0;
    }
    clef__gguf_close(&g);
    return status;
}

/* ---- the old form ---------------------------------------------------------------------------- */

/* int32 n, then n of: int32 length and name, int32 calls, int32 count and floats (the mean times the calls);
 * then int32 chunks, and the text's name. */
typedef struct cursor {
    const char *at, *end;
    int failed;
} cursor;

static int32_t take_int(cursor *c)
{
    int32_t x = 0;
    c->failed |= c->end - c->at < 4;
    if (!c->failed) {
        memcpy(&x, c->at, 4);
        c->at += 4;
    }
    return x;
}

static const char *take_bytes(cursor *c, size_t n)
{
    const char *at = c->at;
    c->failed |= (size_t)(c->end - c->at) < n;
    if (!c->failed)
        c->at += n;
    return at;
}

static clef_status take_old(clef_imatrix *im, cursor *c, clef_error *err)
{
    const int32_t n_name = take_int(c);
    c->failed |= n_name < 1 || n_name > MAX_NAME;
    const char *name = c->failed ? "" : take_bytes(c, (size_t)n_name);
    const int32_t calls = take_int(c), n = take_int(c);
    c->failed |= n < 1 || calls < 0;
    const char *numbers = c->failed ? NULL : take_bytes(c, (size_t)n * sizeof(float));
    if (c->failed || memchr(name, 0, (size_t)n_name))
        return clef__fail(err, CLEF_E_FORMAT, "%s: entry %" PRId32 " is not sound", im->path, im->n);
    clef_imatrix_entry *e = clef__imatrix_add(im, name, (size_t)n_name, 1, (size_t)n);
    if (!e)
        return no_memory(im->path, err);
    memcpy((float *)(uintptr_t)e->sums, numbers, (size_t)n * sizeof(float));
    *(float *)(uintptr_t)e->counts = (float)(calls > 0 ? calls : 1);
    return check_entry(im->path, e, err);
}

static clef_status parse_old(clef_imatrix *im, const char *data, size_t n_bytes, clef_error *err)
{
    cursor c = {data, data + n_bytes, 0};
    clef_status status = CLEF_OK;
    const int32_t n = take_int(&c);
    if (c.failed || n < 1 || n > MAX_ENTRIES)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: expected an importance matrix as llama-imatrix writes it, as GGUF or .dat",
                          im->path);
    for (int32_t i = 0; i < n && status == CLEF_OK; i++)
        status = take_old(im, &c, err);
    if (status == CLEF_OK && c.end - c.at >= 4) { /* the first files end here */
        const int32_t chunks = take_int(&c);
        im->n_chunks = chunks > 0 ? chunks : 0;
    }
    return status;
}

clef_status clef__imatrix_parse(const char *path, const char *data, size_t n, clef_imatrix **out,
                                clef_error *err)
{
    clef_imatrix *im = calloc(1, sizeof *im);
    *out = NULL;
    if (im)
        im->path = malloc(strlen(path) + 1);
    if (!im || !im->path) {
        free(im);
        return no_memory(path, err);
    }
    strcpy(im->path, path);
    clef_status status =
        n >= 4 && memcmp(data, "GGUF", 4) == 0 ? parse_gguf(im, data, n, err) : parse_old(im, data, n, err);
    if (status == CLEF_OK && im->n == 0)
        status = clef__fail(err, CLEF_E_FORMAT, "%s: has no entries", path);
    if (status == CLEF_OK)
        *out = im;
    else
        clef_imatrix_close(im);
    return status;
}

clef_status clef_imatrix_open(const char *path, clef_imatrix **out, clef_error *err)
{
    char *data = NULL;
    size_t n = 0;
    *out = NULL;
    clef_status status = clef__os_read(path, max_bytes, &data, &n, err);
    if (status == CLEF_OK)
        status = clef__imatrix_parse(path, data, n, out, err);
    free(data);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct pair {
    clef_tensor_info sums, counts;
    char names[2][MAX_NAME + 16];
} pair;

static void set_pair(pair *p, const clef_imatrix_entry *e)
{
    snprintf(p->names[0], sizeof p->names[0], "%.*s" SUMS, MAX_NAME, e->name);
    snprintf(p->names[1], sizeof p->names[1], "%.*s" COUNTS, MAX_NAME, e->name);
    p->sums = (clef_tensor_info){.name = p->names[0],
                                 .rank = 2,
                                 .dims = {e->n_matrices, (int64_t)e->n / e->n_matrices},
                                 .n_bytes = e->n * sizeof(float),
                                 .data = e->sums};
    p->counts = (clef_tensor_info){.name = p->names[1],
                                   .rank = 2,
                                   .dims = {e->n_matrices, 1},
                                   .n_bytes = (uint64_t)e->n_matrices * sizeof(float),
                                   .data = e->counts};
}

static void put_keys(clef_gguf_writer *w, const clef_imatrix *im)
{
    clef__gguf_put_text(w, "general.type", "imatrix");
    clef__gguf_put_array(w, "imatrix.datasets", CLEF_GGUF_STRING, im->dataset[0] != 0);
    if (im->dataset[0])
        clef__gguf_add_text(w, im->dataset, strlen(im->dataset));
    clef__gguf_put_u32(w, "imatrix.chunk_count", (uint32_t)im->n_chunks);
    clef__gguf_put_u32(w, "imatrix.chunk_size", (uint32_t)im->chunk_size);
}

static clef_status write_tensor(clef_os_file *file, const clef_tensor_info *t, clef_error *err)
{
    const clef_status status = clef__os_file_write(file, t->data, (size_t)t->n_bytes, err);
    return status == CLEF_OK ? clef__gguf_write_padding(file, t->n_bytes, err) : status;
}

clef_status clef_imatrix_write(const clef_imatrix *im, const char *path, clef_error *err)
{
    clef_gguf_writer w = {0};
    clef_os_file *file = NULL;
    pair p;
    put_keys(&w, im);
    for (int32_t i = 0; i < im->n; i++) {
        set_pair(&p, &im->entries[i]);
        clef__gguf_put_tensor(&w, &p.sums);
        clef__gguf_put_tensor(&w, &p.counts);
    }
    clef_status status = clef__os_file_begin(path, &file, err);
    if (status == CLEF_OK)
        status = clef__gguf_write_head(&w, file, err);
    for (int32_t i = 0; i < im->n && status == CLEF_OK; i++) {
        set_pair(&p, &im->entries[i]);
        status = write_tensor(file, &p.sums, err);
        if (status == CLEF_OK)
            status = write_tensor(file, &p.counts, err);
    }
    if (status == CLEF_OK)
        status = clef__os_file_commit(file, err);
    else
        clef__os_file_abort(file);
    clef__gguf_writer_finish(&w);
    return status;
}
