/* Assembles a program's source: drivers see one text and need no include path. */
#include "runtime/device/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

enum { MAX_FILES = 32, MAX_NAME = 64, MAX_BYTES = 1 << 20 };

typedef struct assembly {
    char *text;
    size_t n, capacity;
    int in_comment;
    char files[MAX_FILES][MAX_NAME]; /* names of files that are in the text already */
    int n_files;
    clef_sha256 *sum; /* NULL, or no text is made: the sums of the files are added here */
} assembly;

static clef_status append_text(assembly *a, const char *text, size_t n, clef_error *err)
{
    if (n > MAX_BYTES - a->n)
        return clef__fail(err, CLEF_E_LIMIT, "cl/%s: over %d bytes with its headers", a->files[0], MAX_BYTES);
    if (a->capacity - a->n <= n) { /* one more byte for the NUL */
        const size_t capacity = 2 * (a->n + n) + 4096;
        char *grown = realloc(a->text, capacity);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "cl/%s: no memory for %zu bytes of source", a->files[0],
                              capacity);
        a->text = grown;
        a->capacity = capacity;
    }
    memcpy(a->text + a->n, text, n);
    a->n += n;
    a->text[a->n] = 0;
    return CLEF_OK;
}

/* Appends a line without its comments, which drivers would read once more for each program. Where a comment
 * goes on, the line does too: it may be a part of a macro. */
static clef_status append_line(assembly *a, const char *p, const char *end, clef_error *err)
{
    clef_status s = CLEF_OK;
    char quote = 0;
    const char *start = p;
    for (; p < end && !s; p++) {
        const int is_pair =
            p + 1 < end && (a->in_comment ? p[0] == '*' && p[1] == '/' : p[0] == '/' && p[1] == '*');
        if (!quote && !a->in_comment && p + 1 < end && p[0] == '/' && p[1] == '/') {
            end = p;
        } else if (!quote && is_pair) {
            if (!a->in_comment)
                s = append_text(a, start, (size_t)(p - start), err);
            if (!a->in_comment && !s)
                s = append_text(a, " ", 1, err); /* a comment parts two words */
            a->in_comment = !a->in_comment;
            start = ++p + 1;
        } else if (!a->in_comment && p[0] == '\\') {
            p++; /* what follows does not end a text */
        } else if (!a->in_comment && (p[0] == '"' || p[0] == '\'') && (!quote || quote == p[0])) {
            quote = quote ? 0 : p[0];
        }
    }
    if (!s && !a->in_comment && start < end)
        s = append_text(a, start, (size_t)(end - start), err);
    const char *stop = a->in_comment ? "\\\n" : "\n";
    return s ? s : append_text(a, stop, strlen(stop), err);
}

/* Tells the compiler that the next line is line `line` of `name`. */
static clef_status append_mark(assembly *a, int line, const char *name, clef_error *err)
{
    char mark[MAX_NAME + 32];
    const int n = snprintf(mark, sizeof mark, "#line %d \"%s\"\n", line, name);
    return append_text(a, mark, (size_t)n, err);
}

/* The path below cl/ of the embedded file with this name, in whatever folder: names are unique. NULL if there
 * is none. */
static const char *path_below_cl(const char *name)
{
    for (const clef_embedded *e = clef__embedded_cl; e->name; e++) {
        const char *slash = strrchr(e->name, '/');
        if (strcmp(slash ? slash + 1 : e->name, name) == 0)
            return e->name;
    }
    return NULL;
}

clef_status clef__source_find(const char *name, const char **text, size_t *n, char **owned, clef_error *err)
{
    const char *dir = clef__debug("cl_dir");
    const char *below = path_below_cl(name);
    *owned = NULL;
    if (dir) {
        char path[1024];
        if (snprintf(path, sizeof path, "%s/%s", dir, below ? below : name) >= (int)sizeof path)
            return clef__fail(err, CLEF_E_LIMIT,
                              "CLEF_DEBUG: cl_dir: a path of %zu bytes, expected under %zu", strlen(dir),
                              sizeof path - MAX_NAME);
        const clef_status status = clef__os_read(path, MAX_BYTES, owned, n, err);
        *text = *owned;
        return status;
    }
    for (const clef_embedded *e = clef__embedded_cl; e->name; e++)
        if (e->name == below) {
            *text = (const char *)e->text;
            *n = e->n_bytes;
            return CLEF_OK;
        }
    return clef__fail(err, CLEF_E_NOT_FOUND, "no kernel source cl/%s in this build", name);
}

void clef__source_text_sum(const char *text, size_t n, unsigned char out[CLEF_SHA256_BYTES])
{
    clef_sha256 s;
    for (const clef_embedded *e = clef__embedded_cl; e->name; e++)
        if ((const char *)e->text == text) {
            memcpy(out, e->sum, CLEF_SHA256_BYTES);
            return;
        }
    clef__sha256_init(&s);
    clef__sha256_add(&s, text, n);
    clef__sha256_finish(&s, out);
}

/* Returns 1 if the line [p, end) is #include "NAME" with a plain file name, and copies it to `name`. */
static int parse_include(const char *p, const char *end, char name[MAX_NAME])
{
    static const char word[] = "include";
    size_t n = 0;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (p == end || *p++ != '#')
        return 0;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if ((size_t)(end - p) < sizeof word || memcmp(p, word, sizeof word - 1) != 0)
        return 0;
    p += sizeof word - 1;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (p == end || *p++ != '"')
        return 0;
    while (p < end && *p != '"' && *p != '/' && *p != '\\' && n + 1 < MAX_NAME)
        name[n++] = *p++;
    name[n] = 0;
    return n > 0 && p < end && *p == '"';
}

/* Tells the compiler that a file begins. */
static clef_status begin_file(assembly *a, const char *name, const char *text, size_t n, clef_error *err)
{
    unsigned char sum[CLEF_SHA256_BYTES];
    if (!a->sum)
        return append_mark(a, 1, name, err);
    clef__source_text_sum(text, n, sum);
    clef__sha256_add(a->sum, sum, sizeof sum);
    return CLEF_OK;
}

static clef_status append_file(assembly *a, const char *name, clef_error *err)
{
    const char *text = NULL;
    char *owned = NULL;
    size_t n = 0;
    for (int i = 0; i < a->n_files; i++)
        if (strcmp(a->files[i], name) == 0)
            return CLEF_OK;
    if (a->n_files == MAX_FILES || strlen(name) >= MAX_NAME)
        return clef__fail(err, CLEF_E_LIMIT, "cl/%s: more than %d headers, or a name of over %d bytes", name,
                          MAX_FILES - 1, MAX_NAME - 1);
    strcpy(a->files[a->n_files++], name);

    clef_status status = clef__source_find(name, &text, &n, &owned, err);
    if (status == CLEF_OK)
        status = begin_file(a, name, text, n, err);
    int line = 1;
    for (const char *p = text, *end = text ? text + n : NULL; status == CLEF_OK && p < end; line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        char header[MAX_NAME];
        if (parse_include(p, stop, header)) {
            status = append_file(a, header, err); /* the recursion is at most as deep as there are files,
                                                     because each is included once */
            if (status == CLEF_OK && !a->sum)
                status = append_mark(a, line + 1, name, err);
        } else if (!a->sum) {
            status = append_line(a, p, stop, err);
        }
        p = newline ? newline + 1 : end;
    }
    free(owned);
    return status;
}

static clef_status assemble(assembly *a, const char *stem, clef_error *err)
{
    char name[MAX_NAME];
    if (snprintf(name, sizeof name, "%s.cl", stem) >= (int)sizeof name)
        return clef__fail(err, CLEF_E_LIMIT, "cl/%s.cl: a name of over %d bytes", stem, MAX_NAME - 1);
    return append_file(a, name, err);
}

clef_status clef__source_sum(const char *stem, unsigned char out[CLEF_SHA256_BYTES], clef_error *err)
{
    clef_sha256 sum;
    assembly a = {.sum = &sum};
    clef__sha256_init(&sum);
    const clef_status status = assemble(&a, stem, err);
    clef__sha256_finish(&sum, out);
    return status;
}

clef_status clef__source_assemble(const char *stem, char **out, size_t *n_bytes, clef_error *err)
{
    assembly a = {0};
    *out = NULL;
    *n_bytes = 0;
    const clef_status status = assemble(&a, stem, err);
    if (status != CLEF_OK) {
        free(a.text);
        return status;
    }
    *out = a.text;
    *n_bytes = a.n;
    return CLEF_OK;
}
