/* Turns a text file into a file of tokens (train/model/dataset_tokens.h). */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "train/model/dataset_text.h"
#include "train/model/dataset_tokens.h"

enum {
    PART_BYTES = 4 << 20,     /* of a document, at most, go to the tokenizer at once */
    MOST_PARTS = 4096,        /* are encoded together, */
    MOST_LONG_PARTS = 16,     /* or so many of PART_BYTES each */
    REPORT_BYTES = 256 << 10, /* of text between two calls of the progress */
    BUFFER_BYTES = 64 << 10
};

/* A file of tokens that is being written. */
typedef struct sink {
    clef_os_file *file; /* NULL: to memory */
    clef__chars *memory;
    clef_sha256 sum;
    uint64_t n_written, n_ids;
    uint64_t *starts;
    uint64_t n_starts, cap_starts;
    int32_t is_wide;
    clef_error *err;
} sink;

static clef_status put(sink *s, const void *data, size_t n)
{
    clef__sha256_add(&s->sum, data, n);
    s->n_written += n;
    return s->file ? clef__os_file_write(s->file, data, n, s->err)
                   : clef__chars_append(s->memory, data, n, s->err);
}

static clef_status put_header(sink *s, const unsigned char key[CLEF_SHA256_BYTES])
{
    char header[CLEF__TOKENS_HEADER] = "cleftoks";
    const uint32_t numbers[2] = {CLEF__TOKENS_FORMAT, s->is_wide ? 4 : 2};
    memcpy(header + CLEF__TOKENS_KEY_AT - sizeof numbers, numbers, sizeof numbers);
    memcpy(header + CLEF__TOKENS_KEY_AT, key, CLEF_SHA256_BYTES);
    return put(s, header, sizeof header);
}

static clef_status put_ids(sink *s, const int32_t *ids, int32_t n)
{
    uint16_t narrow[BUFFER_BYTES / 2];
    clef_status st = CLEF_OK;
    s->n_ids += (uint64_t)n;
    if (s->is_wide && n > 0)
        return put(s, ids, (size_t)n * sizeof *ids);
    for (int32_t at = 0, part; at < n && !st; at += part) {
        part = n - at < BUFFER_BYTES / 2 ? n - at : BUFFER_BYTES / 2;
        for (int32_t i = 0; i < part; i++)
            narrow[i] = (uint16_t)ids[at + i];
        st = put(s, narrow, (size_t)part * sizeof *narrow);
    }
    return st;
}

static clef_status begin_text(sink *s)
{
    if (s->n_starts == s->cap_starts) {
        const uint64_t cap = 2 * s->cap_starts + 64;
        uint64_t *grown = realloc(s->starts, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(s->err, CLEF_E_NOMEM, "dataset: no memory for %llu documents",
                              (unsigned long long)cap);
        s->starts = grown;
        s->cap_starts = cap;
    }
    s->starts[s->n_starts++] = s->n_ids;
    return CLEF_OK;
}

static clef_status put_end(sink *s, int64_t n_empty)
{
    static const char zeros[8];
    unsigned char sum[CLEF_SHA256_BYTES];
    clef_status st = begin_text(s); /* the end of the last */
    if (st == CLEF_OK)
        st = put(s, zeros, (size_t)(8 - s->n_written % 8) % 8);
    if (st == CLEF_OK)
        st = put(s, s->starts, (size_t)s->n_starts * sizeof *s->starts);
    const uint64_t counts[2] = {s->n_starts - 1, (uint64_t)n_empty};
    if (st == CLEF_OK)
        st = put(s, counts, sizeof counts);
    if (st)
        return st;
    clef__sha256_finish(&s->sum, sum);
    return put(s, sum, sizeof sum);
}

/* ---- texts, some at a time, on all processors ------------------------------------------------- */

/* A text, or a part of a long one, and its ids. */
typedef struct part {
    const char *text;
    size_t n;
    json_t *record; /* holds the text; NULL: the mapped file does */
    int32_t *ids;
    int32_t n_ids, begins; /* begins: 1 for the first part of a text */
    clef_status status;
} part;

typedef struct batch {
    sink *to;
    const clef__tokens_maker *m;
    clef__text_reader *r;
    part *parts; /* [MOST_PARTS] */
    int32_t n;
    size_t n_bytes, most_bytes; /* of the parts */
} batch;

static void encode_part(void *user, int32_t i)
{
    const batch *b = user;
    part *p = &b->parts[i];
    p->status = clef_tokenizer_encode(b->m->tok, p->text, p->n, CLEF_SPECIAL_NONE, &p->ids, &p->n_ids, NULL);
}

/* Encodes a part once more, for the message. */
static clef_status explain(const batch *b, const part *p)
{
    clef_error why = {0};
    int32_t *ids, n;
    const clef_status st = clef_tokenizer_encode(b->m->tok, p->text, p->n, CLEF_SPECIAL_NONE, &ids, &n, &why);
    if (st == CLEF_OK)
        clef_tokens_free(ids);
    return clef__fail(b->to->err, p->status, "%s: document %llu: %.800s", b->r->path,
                      (unsigned long long)b->to->n_starts, st ? why.text : "no memory");
}

static void forget(batch *b)
{
    for (int32_t i = 0; i < b->n; i++) {
        clef_tokens_free(b->parts[i].ids);
        json_decref(b->parts[i].record);
    }
    b->n = 0;
    b->n_bytes = 0;
}

static clef_status flush(batch *b)
{
    clef_status st = CLEF_OK;
    clef__os_parallel(b->n, encode_part, b);
    for (int32_t i = 0; i < b->n && !st; i++) {
        const part *p = &b->parts[i];
        if (p->begins)
            st = begin_text(b->to);
        if (st == CLEF_OK)
            st = p->status ? explain(b, p) : put_ids(b->to, p->ids, p->n_ids);
    }
    forget(b);
    return st;
}

/* The length of the next part of a text: up to the last line end within PART_BYTES, else the last space, else
 * the last character. */
static size_t part_bytes(const char *text, size_t n)
{
    static const char ends[] = "\n ";
    if (n <= PART_BYTES)
        return n;
    for (const char *end = ends; *end; end++)
        for (size_t i = PART_BYTES; i > PART_BYTES / 2; i--)
            if (text[i - 1] == *end)
                return i;
    size_t end = PART_BYTES;
    while (((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    return end;
}

static clef_status add_text(batch *b, const char *text, size_t n)
{
    clef_status st = CLEF_OK;
    for (size_t at = 0, n_part; at < n && !st; at += n_part) {
        n_part = part_bytes(text + at, n - at);
        b->parts[b->n++] =
            (part){.text = text + at, .n = n_part, .record = json_incref(b->r->record), .begins = at == 0};
        b->n_bytes += n_part;
        if (b->n == MOST_PARTS || b->n_bytes >= b->most_bytes)
            st = flush(b);
    }
    return st;
}

static clef_status report(const batch *b, size_t at)
{
    const clef_dataset_opts *o = b->m->opts;
    if (!o->progress || !o->progress(o->progress_user, "tokens", b->m->done + at, b->m->total))
        return CLEF_OK;
    return clef__fail(b->to->err, CLEF_E_CANCELLED, "dataset: cancelled");
}

static clef_status put_documents(batch *b)
{
    size_t reported = 0;
    int found;
    clef_status st = report(b, 0);
    while (st == CLEF_OK) {
        st = clef__text_next(b->r, &found, b->to->err);
        if (st || !found)
            break;
        for (int32_t i = 0; i <= b->r->is_pairs && !st; i++)
            st = add_text(b, b->r->parts[i], b->r->n_part[i]);
        if (st == CLEF_OK && b->r->at - reported >= REPORT_BYTES)
            st = report(b, reported = b->r->at);
    }
    if (st == CLEF_OK)
        st = flush(b);
    return st ? st : report(b, b->r->n_bytes);
}

clef_status clef__tokens_write(clef__tokens_maker *m, const char *text_path, const clef_mapping *text,
                               const unsigned char key[CLEF_SHA256_BYTES], const char *path,
                               clef__chars *memory, clef_error *err)
{
    sink s = {.memory = memory, .is_wide = clef_tokenizer_n_tokens(m->tok) > UINT16_MAX + 1, .err = err};
    clef__text_reader r = {0};
    const int32_t n_cpus = clef__os_n_cpus();
    batch b = {.most_bytes =
                   (size_t)PART_BYTES * (size_t)(n_cpus < MOST_LONG_PARTS ? n_cpus : MOST_LONG_PARTS),
               .to = &s,
               .m = m,
               .r = &r,
               .parts = malloc(MOST_PARTS * sizeof *b.parts)};
    clef__sha256_init(&s.sum);
    clef_status st = path ? clef__os_file_begin(path, &s.file, err) : CLEF_OK;
    if (st == CLEF_OK)
        st = put_header(&s, key);
    if (st == CLEF_OK)
        st = clef__text_begin(&r, text_path, text, m->opts, err);
    if (st == CLEF_OK)
        st = b.parts ? put_documents(&b)
                     : clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", text_path);
    if (st == CLEF_OK)
        st = put_end(&s, r.n_empty);
    if (st == CLEF_OK && s.file) {
        clef_os_file *file = s.file;
        s.file = NULL;
        st = clef__os_file_commit(file, err);
    }
    clef__os_file_abort(s.file);
    clef__text_finish(&r);
    if (b.parts)
        forget(&b);
    free(b.parts);
    free(s.starts);
    return st;
}
