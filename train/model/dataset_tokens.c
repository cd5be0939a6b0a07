/* Opening the tokens of a text file (train/model/dataset_tokens.h). */
#include "train/model/dataset_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "graph/fail.h"
#include "train/model/dataset_text.h"

enum { LEAST_CACHED = 64 << 10 }; /* bytes of text whose tokens are kept in the cache */

void clef__tokens_close(clef__tokens *t)
{
    clef__os_unmap(&t->file);
    free(t->memory);
    *t = (clef__tokens){0};
}

/* ---- a file of tokens ------------------------------------------------------------------------ */

/* Sets the pointers into the bytes of a file of tokens. 0: they are not one (dataset_tokens.c). */
static int tokens_bind(clef__tokens *t, const char *bytes, size_t n)
{
    uint32_t numbers[2];
    uint64_t counts[2];
    const size_t n_end = CLEF__TOKENS_COUNTS + CLEF_SHA256_BYTES;
    if (n < CLEF__TOKENS_HEADER + sizeof *t->starts + n_end || n % 8 || memcmp(bytes, "cleftoks", 8) != 0)
        return 0;
    memcpy(numbers, bytes + CLEF__TOKENS_KEY_AT - sizeof numbers, sizeof numbers);
    memcpy(counts, bytes + n - n_end, sizeof counts);
    const size_t room = (n - CLEF__TOKENS_HEADER - n_end) / sizeof *t->starts; /* of ids and starts */
    if (numbers[0] != CLEF__TOKENS_FORMAT || (numbers[1] != 2 && numbers[1] != 4) || counts[0] >= room)
        return 0;
    t->ids = bytes + CLEF__TOKENS_HEADER;
    t->is_wide = numbers[1] == 4;
    t->starts = (const uint64_t *)(const void *)(bytes + n - n_end) - (counts[0] + 1);
    t->n_texts = (int64_t)counts[0];
    t->n_empty = (int64_t)counts[1];
    const uint64_t most = (room - (size_t)counts[0] - 1) * sizeof *t->starts / numbers[1];
    for (int64_t i = 0; i < t->n_texts; i++)
        if (t->starts[i] > t->starts[i + 1])
            return 0;
    return t->starts[0] == 0 && t->starts[t->n_texts] <= most;
}

/* Ids that the tokenizer lacks would make later reads leave the embeddings. */
static int has_sound_ids(const clef__tokens *t, int32_t n_vocab)
{
    const int64_t n = (int64_t)t->starts[t->n_texts];
    for (int64_t i = 0; i < n; i++) {
        const int32_t id = clef__token_at(t, i);
        if (id < 0 || id >= n_vocab)
            return 0;
    }
    return 1;
}

/* Maps a file of the cache. 0: there is none, or it is damaged. */
static int load(const clef__tokens_maker *m, const char *path, const unsigned char key[CLEF_SHA256_BYTES],
                clef__tokens *t)
{
    if (!clef__os_is_file(path) || clef__os_map(path, &t->file, NULL))
        return 0;
    const char *bytes = t->file.data;
    const size_t n = t->file.n_bytes;
    if (n > CLEF__TOKENS_HEADER && memcmp(bytes + CLEF__TOKENS_KEY_AT, key, CLEF_SHA256_BYTES) == 0 &&
        tokens_bind(t, bytes, n) && clef__sha256_is_sealed(bytes, n) &&
        has_sound_ids(t, clef_tokenizer_n_tokens(m->tok)))
        return 1;
    clef__os_unmap(&t->file);
    return 0;
}

/* ---- the key and the path -------------------------------------------------------------------- */

static void add_text(clef_sha256 *s, const char *text)
{
    clef__sha256_add(s, text, strlen(text) + 1);
}

static void make_key(const clef__tokens_maker *m, const char *path, const clef__tokens *t,
                     unsigned char key[CLEF_SHA256_BYTES])
{
    const int is_jsonl = clef__is_jsonl(path);
    const uint32_t numbers[] = {CLEF__TOKENS_FORMAT, (uint32_t)is_jsonl,
                                is_jsonl ? 0 : (uint32_t)m->opts->documents,
                                m->opts->objective == CLEF_TEXT_PAIRS};
    clef_sha256 s;
    clef__sha256_init(&s);
    add_text(&s, clef_version());
    clef__sha256_add(&s, numbers, sizeof numbers);
    add_text(&s, m->opts->separator ? m->opts->separator : "");
    clef__sha256_add(&s, m->tokenizer, sizeof m->tokenizer);
    clef__sha256_add(&s, t->digest, sizeof t->digest);
    clef__sha256_finish(&s, key);
}

static int make_path(const clef__tokens_maker *m, const unsigned char key[CLEF_SHA256_BYTES],
                     char path[CLEF__TOKENS_PATH])
{
    int n = snprintf(path, CLEF__TOKENS_PATH, "%s/", m->dir);
    if (!m->dir[0] || n < 0 || n + 2 * CLEF_SHA256_BYTES + 8 > CLEF__TOKENS_PATH)
        return 0;
    for (int i = 0; i < CLEF_SHA256_BYTES; i++, n += 2)
        snprintf(path + n, 3, "%02x", key[i]);
    strcpy(path + n, ".tokens");
    return 1;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void note_failure(const clef__tokens_maker *m, const clef_error *why)
{
    char text[sizeof why->text + 64];
    if (!m->opts->note)
        return;
    snprintf(text, sizeof text, "%s; tokens are kept in memory", why->text);
    m->opts->note(m->opts->note_user, text);
}

static clef_status make(clef__tokens_maker *m, const char *path, const clef_mapping *text,
                        const unsigned char key[CLEF_SHA256_BYTES], clef__tokens *t, clef_error *err)
{
    char file[CLEF__TOKENS_PATH];
    clef_error why = {0};
    clef__chars memory = {0};
    clef_status st = CLEF_E_IO;
    if (text->n_bytes >= LEAST_CACHED && make_path(m, key, file)) {
        if (load(m, file, key, t)) {
            clef__os_touch(file);
            t->is_cached = 1;
            return CLEF_OK;
        }
        st = clef__os_make_dirs(m->dir, &why);
        if (st == CLEF_OK)
            st = clef__tokens_write(m, path, text, key, file, NULL, &why);
        if (st == CLEF_OK && load(m, file, key, t))
            return CLEF_OK;
        if (st && st != CLEF_E_IO)
            return clef__fail(err, st, "%s", why.text);
        if (st)
            note_failure(m, &why);
    }
    st = clef__tokens_write(m, path, text, key, NULL, &memory, err);
    t->memory = memory.at;
    if (st == CLEF_OK && !tokens_bind(t, memory.at, memory.n))
        st = clef__fail(err, CLEF_E_LIMIT, "%s: too many tokens", path);
    return st;
}

clef_status clef__tokens_open(clef__tokens_maker *m, const char *path, clef__tokens *out, clef_error *err)
{
    clef_mapping text;
    unsigned char key[CLEF_SHA256_BYTES];
    clef_sha256 s;
    *out = (clef__tokens){0};
    clef_status st = clef__os_map(path, &text, err);
    if (st)
        return st;
    clef__sha256_init(&s);
    clef__sha256_add(&s, text.data, text.n_bytes);
    clef__sha256_finish(&s, out->digest);
    make_key(m, path, out, key);
    st = make(m, path, &text, key, out, err);
    m->done += text.n_bytes;
    clef__os_unmap(&text);
    if (st)
        clef__tokens_close(out);
    return st;
}
