/* Writes and reads bundles; the header has their form. */
#include "runtime/prove/cache_bundle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

#ifndef CLEF_VERSION
#    error "CMakeLists.txt defines CLEF_VERSION"
#endif

static const char magic[] = "clef cache 1\n";
const char *const clef__part_names[CLEF__N_PART_KINDS] = {"proof", "tuning", "probe", "measure", "program"};

enum { LINE_BYTES = CLEF__BOUND_BYTES + 32, MAX_PARTS = 1 << 20 };

/* ---- what it is bound to ----------------------------------------------------------------------- */

static const char *const bound_names[CLEF__N_BOUND] = {"device", "vendor",    "platform", "driver",
                                                       "OpenCL", "processor", "caps",     "kernels"};
enum { PROCESSOR = 5, KERNELS = 7 };

/* Drivers' texts may have anything in them; a value is one line. */
static void take_value(char out[CLEF__BOUND_BYTES], const char *text)
{
    snprintf(out, CLEF__BOUND_BYTES, "%s", text);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

static clef_status take_kernels(char out[CLEF__BOUND_BYTES], clef_error *err)
{
    enum { BYTES = 16 };
    unsigned char sum[CLEF_SHA256_BYTES];
    clef_sha256 hash;
    clef__sha256_init(&hash);
    const clef_status s = clef__cache_add_kernels(&hash, err);
    clef__sha256_finish(&hash, sum);
    for (size_t i = 0; i < BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    return s;
}

clef_status clef__bound_of(const clef_device_info *info, clef__bound *out, clef_error *err)
{
    char processor[CLEF__BOUND_BYTES] = "";
    const char *const mask = clef__debug("caps");
    *out = (clef__bound){.n_units = info->caps.n_units};
    if (info->caps.is_cpu)
        clef__processor_text(processor, sizeof processor);
    const char *const values[KERNELS] = {info->name,    info->vendor, info->platform_name, info->driver,
                                         info->version, processor,    mask ? mask : ""};
    for (int i = 0; i < KERNELS; i++)
        take_value(out->value[i], values[i]);
    snprintf(out->version, sizeof out->version, "%s", CLEF_VERSION);
    return take_kernels(out->value[KERNELS], err);
}

clef_status clef__bound_check(const char *path, const clef__bound *expected, const clef__bound *got,
                              clef_error *err)
{
    int i = 0;
    while (i < CLEF__N_BOUND && strcmp(expected->value[i], got->value[i]) == 0)
        i++;
    if (i == CLEF__N_BOUND)
        return CLEF_OK;
    const int is_kernels = i == KERNELS;
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%.200s: expected a cache of the %s '%.130s'%s%s, got '%.130s'%s%s", path,
                      bound_names[i], expected->value[i], is_kernels ? " of clef " : "",
                      is_kernels ? expected->version : "", got->value[i], is_kernels ? " of clef " : "",
                      is_kernels ? got->version : "");
}

/* ---- writing ----------------------------------------------------------------------------------- */

clef_status clef__bundle_add(clef__bundle *b, const clef__bundle_part *part, clef_error *err)
{
    if (b->n == b->cap) {
        const int32_t cap = 2 * b->cap + 64;
        clef__bundle_part *grown = realloc(b->parts, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %d parts of a cache", (int)cap);
        b->parts = grown;
        b->cap = cap;
    }
    b->parts[b->n++] = *part;
    return CLEF_OK;
}

typedef struct writer {
    clef_os_file *file;
    clef_sha256 sum;
    uint64_t n_bytes;
    clef_status status;
    clef_error *err;
} writer;

static void put(writer *w, const void *data, size_t n)
{
    if (w->status || !n)
        return;
    clef__sha256_add(&w->sum, data, n);
    w->n_bytes += n;
    w->status = clef__os_file_write(w->file, data, n, w->err);
}

static void put_line(writer *w, const char *name, const char *value)
{
    char line[LINE_BYTES];
    const int n = snprintf(line, sizeof line, "%s %s\n", name, value);
    put(w, line, (size_t)n);
}

static void put_number(writer *w, const char *name, uint64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, x);
    put_line(w, name, text);
}

static void put_head(writer *w, const clef__bundle *b)
{
    put(w, magic, sizeof magic - 1);
    put_line(w, "clef", b->bound.version);
    for (int i = 0; i < CLEF__N_BOUND; i++)
        put_line(w, bound_names[i], b->bound.value[i]);
    put_number(w, "units", (uint64_t)b->bound.n_units);
    for (int32_t i = 0; i < b->n; i++)
        put_number(w, clef__part_names[b->parts[i].kind], b->parts[i].n_bytes);
    put(w, "\n", 1);
}

clef_status clef__bundle_write(const clef__bundle *b, const char *path, uint64_t *n_bytes, clef_error *err)
{
    unsigned char sum[CLEF_SHA256_BYTES];
    writer w = {.err = err};
    clef__sha256_init(&w.sum);
    w.status = clef__os_file_begin(path, &w.file, err);
    put_head(&w, b);
    for (int32_t i = 0; i < b->n; i++)
        put(&w, b->parts[i].data, b->parts[i].n_bytes);
    clef__sha256_finish(&w.sum, sum);
    if (!w.status)
        w.status = clef__os_file_write(w.file, sum, sizeof sum, err);
    if (w.status)
        clef__os_file_abort(w.file);
    else
        w.status = clef__os_file_commit(w.file, err);
    *n_bytes = w.n_bytes + sizeof sum;
    return w.status;
}

/* ---- reading ----------------------------------------------------------------------------------- */

typedef struct reader {
    const char *path;
    const char *at, *end; /* end: of the contents, where the checksum begins */
} reader;

static clef_status fail_form(const reader *r, const char *expected, clef_error *err)
{
    return clef__fail(err, CLEF_E_FORMAT, "%.200s: expected %s, got something else", r->path, expected);
}

/* Copies the next line, without its end. Returns 0 when there is none that fits. */
static int next_line(reader *r, char line[LINE_BYTES])
{
    const size_t left = (size_t)(r->end - r->at);
    const char *end = memchr(r->at, '\n', left < LINE_BYTES ? left : LINE_BYTES);
    if (!end || memchr(r->at, 0, (size_t)(end - r->at)))
        return 0;
    memcpy(line, r->at, (size_t)(end - r->at));
    line[end - r->at] = 0;
    r->at = end + 1;
    return 1;
}

/* The value of a line "NAME VALUE"; NULL for another line. */
static const char *value_of(const char *line, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(line, name, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

/* Digits alone. */
static int read_number(const char *text, uint64_t most, uint64_t *out)
{
    enum { DIGITS = 18 };
    const size_t n = strlen(text);
    if (n == 0 || n > DIGITS || strspn(text, "0123456789") != n)
        return 0;
    *out = strtoull(text, NULL, 10);
    return *out <= most;
}

static clef_status read_bound(reader *r, clef__bound *out, clef_error *err)
{
    char line[LINE_BYTES];
    const char *value = next_line(r, line) ? value_of(line, "clef") : NULL;
    uint64_t n = 0;
    if (!value)
        return fail_form(r, "the line 'clef VERSION'", err);
    snprintf(out->version, sizeof out->version, "%.31s", value);
    for (int i = 0; i < CLEF__N_BOUND; i++) {
        value = next_line(r, line) ? value_of(line, bound_names[i]) : NULL;
        if (!value || strlen(value) >= CLEF__BOUND_BYTES)
            return fail_form(r, "lines of what the cache is bound to", err);
        strcpy(out->value[i], value);
    }
    value = next_line(r, line) ? value_of(line, "units") : NULL;
    if (!value || !read_number(value, INT32_MAX, &n))
        return fail_form(r, "the line 'units N'", err);
    out->n_units = (int32_t)n;
    return CLEF_OK;
}

static int read_part(const char *line, clef__bundle_part *out)
{
    const char *value = NULL;
    uint64_t n = 0;
    for (int k = 0; k < CLEF__N_PART_KINDS && !value; k++) {
        value = value_of(line, clef__part_names[k]);
        out->kind = (clef__part_kind)k;
    }
    if (!value || !read_number(value, SIZE_MAX / 2, &n))
        return 0;
    out->n_bytes = (size_t)n;
    return out->kind == CLEF__PART_PROGRAM || n <= CLEF__PART_TEXT_BYTES;
}

static clef_status read_parts(reader *r, clef__bundle *b, clef_error *err)
{
    char line[LINE_BYTES];
    clef_status s = CLEF_OK;
    while (!s) {
        clef__bundle_part part = {0};
        if (!next_line(r, line) || (line[0] && !read_part(line, &part)) || b->n >= MAX_PARTS)
            return fail_form(r, "lines with the sizes of its parts", err);
        if (!line[0])
            break;
        s = clef__bundle_add(b, &part, err);
    }
    for (int32_t i = 0; i < b->n && !s; i++) {
        if (b->parts[i].n_bytes > (size_t)(r->end - r->at))
            return fail_form(r, "all of its parts", err);
        b->parts[i].data = (const unsigned char *)r->at;
        r->at += b->parts[i].n_bytes;
    }
    return s || r->at == r->end ? s : fail_form(r, "the end of its parts", err);
}

clef_status clef__bundle_read(const char *path, const clef_mapping *file, clef__bundle *b, clef_error *err)
{
    const size_t n_magic = sizeof magic - 1, n_word = sizeof "clef cache " - 1;
    *b = (clef__bundle){0};
    if (file->n_bytes < n_magic || memcmp(file->data, magic, n_word) != 0)
        return clef__fail(err, CLEF_E_FORMAT, "%.200s: expected a file of `clef cache export`, got another",
                          path);
    if (memcmp(file->data, magic, n_magic) != 0)
        return clef__fail(err, CLEF_E_FORMAT, "%.200s: expected a cache of form 1, got '%.1s'", path,
                          (const char *)file->data + n_word);
    if (file->n_bytes < n_magic + CLEF_SHA256_BYTES || !clef__sha256_is_sealed(file->data, file->n_bytes))
        return clef__fail(err, CLEF_E_FORMAT,
                          "%.200s: expected the checksum of its bytes, got another: the file is damaged",
                          path);
    reader r = {.path = path,
                .at = (const char *)file->data + n_magic,
                .end = (const char *)file->data + file->n_bytes - CLEF_SHA256_BYTES};
    const clef_status s = read_bound(&r, &b->bound, err);
    return s ? s : read_parts(&r, b, err);
}
