/* Cutting text files into documents (train/model/dataset_text.h). */
#include "train/model/dataset_text.h"

#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/json.h"
#include "model/file/utf8.h"

int clef__is_jsonl(const char *path)
{
    static const char end[] = ".jsonl";
    const size_t n = strlen(path), n_end = sizeof end - 1;
    return n >= n_end && strcmp(path + n - n_end, end) == 0;
}

/* ---- the file as a whole --------------------------------------------------------------------- */

static clef_status refuse_byte(const clef__text_reader *r, size_t at, const char *what, clef_error *err)
{
    size_t line = 1;
    for (size_t i = 0; i < at; i++)
        line += r->text[i] == '\n';
    return clef__fail(err, CLEF_E_FORMAT, "%s: expected UTF-8 text, got %s at byte %zu (line %zu)", r->path,
                      what, at, line);
}

static clef_status check_text(const clef__text_reader *r, clef_error *err)
{
    for (size_t i = 0, size; i < r->n_bytes; i += size) {
        uint32_t code;
        if (clef__utf8_read(r->text + i, r->n_bytes - i, &code, &size) != CLEF_UTF8_OK)
            return refuse_byte(r, i, "an invalid byte", err);
        if (code == 0)
            return refuse_byte(r, i, "a NUL", err);
    }
    return CLEF_OK;
}

clef_status clef__text_begin(clef__text_reader *r, const char *path, const clef_mapping *file,
                             const clef_dataset_opts *opts, clef_error *err)
{
    static const char mark[] = "\xEF\xBB\xBF";
    *r = (clef__text_reader){.path = path,
                             .text = file->data,
                             .n_bytes = file->n_bytes,
                             .is_jsonl = clef__is_jsonl(path),
                             .is_pairs = opts->objective == CLEF_TEXT_PAIRS,
                             .rule = opts->documents,
                             .separator = opts->separator ? opts->separator : "<|endoftext|>"};
    r->n_separator = strlen(r->separator);
    if (r->is_pairs && !r->is_jsonl)
        return clef__fail(err, CLEF_E_ARG, "%s: pairs of texts need a file whose name ends with .jsonl",
                          path);
    if (r->n_bytes == 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: expected text, got an empty file", path);
    const clef_status st = check_text(r, err);
    if (!st && r->n_bytes >= sizeof mark - 1 && memcmp(r->text, mark, sizeof mark - 1) == 0)
        r->at = sizeof mark - 1;
    return st;
}

void clef__text_finish(clef__text_reader *r)
{
    json_decref(r->record);
    *r = (clef__text_reader){0};
}

/* ---- documents ------------------------------------------------------------------------------- */

/* The text is valid UTF-8. */
static int is_blank(const char *text, size_t n)
{
    for (size_t i = 0, size; i < n; i += size) {
        uint32_t code;
        if (clef__utf8_read(text + i, n - i, &code, &size) != CLEF_UTF8_OK || !clef__is_space(code))
            return 0;
    }
    return 1;
}

/* The length of a text without the line end at its end. */
static size_t without_line_end(const char *text, size_t n)
{
    if (n > 0 && text[n - 1] == '\n')
        n--;
    return n > 0 && text[n - 1] == '\r' ? n - 1 : n;
}

/* The length of the line at `text`, with its line end. */
static size_t line_bytes(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);
    return end ? (size_t)(end - text) + 1 : n;
}

static int separates(const clef__text_reader *r, const char *line, size_t n)
{
    if (r->rule == CLEF_DOCUMENTS_BLANK_LINES)
        return is_blank(line, n);
    return without_line_end(line, n) == r->n_separator && memcmp(line, r->separator, r->n_separator) == 0;
}

/* Reads to the next separator or to the end, and past the separator. */
static size_t document_bytes(clef__text_reader *r)
{
    const char *text = r->text + r->at;
    const size_t left = r->n_bytes - r->at;
    size_t n = 0;
    if (r->rule == CLEF_DOCUMENTS_FILES) {
        r->at = r->n_bytes;
        return left;
    }
    if (r->rule == CLEF_DOCUMENTS_LINES) {
        n = line_bytes(text, left);
        r->at += n;
        return without_line_end(text, n);
    }
    while (n < left) {
        const size_t line = line_bytes(text + n, left - n);
        if (separates(r, text + n, line)) {
            r->at += n + line;
            return without_line_end(text, n);
        }
        n += line;
    }
    r->at = r->n_bytes;
    return n;
}

/* ---- records --------------------------------------------------------------------------------- */

static clef_status read_record(clef__text_reader *r, const char *line, size_t n, clef_error *err)
{
    static const char *const keys[2][2] = {{"text", NULL}, {"source", "target"}};
    char name[512];
    snprintf(name, sizeof name, "%.400s, line %lld", r->path, (long long)r->line);
    json_decref(r->record);
    r->record = NULL;
    const clef_status st = clef__json_parse(line, n, name, &r->record, err);
    if (st)
        return st;
    if (!json_is_object(r->record))
        return clef__fail(err, CLEF_E_FORMAT, "%s: expected an object, got %s", name,
                          clef__json_kind(r->record));
    clef_json_fields fields = {.object = r->record, .file = name, .err = err};
    for (int32_t i = 0; i <= r->is_pairs; i++) {
        const char *key = keys[r->is_pairs][i];
        r->parts[i] = clef__json_string(&fields, key, NULL);
        if (fields.status)
            return fields.status;
        if (!r->parts[i])
            return clef__fail(err, CLEF_E_FORMAT, "%s: expected a string '%s', got none", name, key);
        r->n_part[i] = strlen(r->parts[i]); /* jansson refuses NULs in strings */
    }
    return CLEF_OK;
}

clef_status clef__text_next(clef__text_reader *r, int *found, clef_error *err)
{
    for (*found = 0; r->at < r->n_bytes;) {
        if (!r->is_jsonl) {
            r->parts[0] = r->text + r->at;
            r->n_part[0] = document_bytes(r);
        } else {
            const char *line = r->text + r->at;
            const size_t n = line_bytes(line, r->n_bytes - r->at);
            r->at += n;
            r->line++;
            if (is_blank(line, n))
                continue;
            const clef_status st = read_record(r, line, n, err);
            if (st)
                return st;
        }
        *found =
            !is_blank(r->parts[0], r->n_part[0]) && (!r->is_pairs || !is_blank(r->parts[1], r->n_part[1]));
        if (*found)
            return CLEF_OK;
        /* Lines between documents are not documents. */
        r->n_empty += r->is_jsonl || r->rule == CLEF_DOCUMENTS_MARKED;
    }
    return CLEF_OK;
}
