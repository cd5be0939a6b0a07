/* clef_tokenizer_train(): counts the words of texts, learns merges, and writes a tokenizer's folder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/bpe_train.h"
#include "model/tokenizer/bytes.h"
#include "model/tokenizer/memory.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/stages.h"
#include "model/tokenizer/unicode.h"
#include "runtime/os/os.h"
#include "train/model/save.h"
#include "train/model/word_table.h"

/* A token that decodes to more than CLEF_MAX_PIECE bytes could not be read again. The bytes of characters
 * that are cut at its ends decode to three each. */
enum { N_BYTES = 256, MOST_BYTES = CLEF_MAX_PIECE - 24 };

typedef struct token_maker {
    const clef_tokenizer_train_opts *opts;
    int32_t n_special; /* special tokens, each once: the first ids */
    clef_mapping *files;
    uint64_t n_bytes, n_read; /* of all files */
    clef__word_table words;   /* by their bytes, with counts */
    clef__word_table tokens;  /* by their text, with ids */
    char **texts;             /* by id; owned */
    int32_t n_tokens, room;
    int32_t byte_ids[N_BYTES];
    clef__learned_merge *merges;
    size_t n_merges;
} token_maker;

/* ---- tokens ------------------------------------------------------------------------------------- */

/* Adds a token and takes its text, which malloc() made. Returns its id, -1 when out of memory. */
static int32_t add_token(token_maker *m, char *text)
{
    if (!text || m->n_tokens == m->room) {
        free(text);
        return -1;
    }
    clef__word *w = clef__word_of(&m->tokens, text, strlen(text));
    if (!w) {
        free(text);
        return -1;
    }
    w->number = m->n_tokens;
    m->texts[m->n_tokens] = text;
    return m->n_tokens++;
}

static char *copy_of(const char *a, const char *b)
{
    const size_t n = strlen(a), k = strlen(b);
    char *text = malloc(n + k + 1);
    if (text) {
        memcpy(text, a, n);
        memcpy(text + n, b, k + 1);
    }
    return text;
}

/* The id of a token, which is added if it is new; -1 when out of memory. */
static int32_t id_of(token_maker *m, const char *text)
{
    const clef__word *known = clef__word_find(&m->tokens, text, strlen(text));
    return known ? (int32_t)known->number : add_token(m, copy_of(text, ""));
}

/* Special tokens first, then the 256 bytes by the code points of their characters. A byte whose character is
 * a special token has that one's id. */
static clef_status add_first_tokens(token_maker *m, clef_error *err)
{
    static const char *const end_of_text[] = {"<|endoftext|>"};
    const clef_tokenizer_train_opts *o = m->opts;
    const char *const *special = o->n_special ? o->special : end_of_text;
    const int32_t n_special = o->n_special ? o->n_special : 1, least = N_BYTES + n_special;
    m->room = o->n_vocab > least ? o->n_vocab : least;
    m->texts = calloc((size_t)m->room + 1, sizeof *m->texts);
    int ok = m->texts != NULL;
    for (int32_t i = 0; i < n_special && ok; i++) {
        const size_t n = strlen(special[i]);
        if (n < 1 || n > MOST_BYTES || !clef__utf8_valid(special[i], n))
            return clef__fail(
                err, CLEF_E_ARG,
                "training a tokenizer: special token %d: expected UTF-8 of 1 to %d bytes, got %s (%zu bytes)",
                i + 1, MOST_BYTES, n < 1 || n > MOST_BYTES ? "another length" : "something else", n);
        ok = id_of(m, special[i]) >= 0;
    }
    m->n_special = m->n_tokens;
    for (uint32_t code = 0; code < 0x200 && ok; code++) {
        const int32_t byte = clef__char_byte(code);
        char text[8] = "";
        if (byte < 0)
            continue;
        text[clef__utf8_write(code, text)] = 0;
        m->byte_ids[byte] = id_of(m, text);
        ok = m->byte_ids[byte] >= 0;
    }
    if (!ok)
        return clef__fail(err, CLEF_E_NOMEM, "training a tokenizer: out of memory");
    if (m->n_tokens > o->n_vocab)
        return clef__fail(err, CLEF_E_ARG,
                          "training a tokenizer: %d tokens, expected at least %d: the 256 bytes and the "
                          "special tokens",
                          o->n_vocab, m->n_tokens);
    return CLEF_OK;
}

/* The bytes that a token stands for: its text has a character for each. */
static size_t bytes_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static int32_t join(void *user, int32_t left, int32_t right, int32_t next)
{
    token_maker *m = user;
    (void)next;
    if (bytes_of(m->texts[left]) + bytes_of(m->texts[right]) > MOST_BYTES)
        return CLEF_BPE_SKIP;
    char *text = copy_of(m->texts[left], m->texts[right]);
    const clef__word *known = text ? clef__word_find(&m->tokens, text, strlen(text)) : NULL;
    if (!known) {
        const int32_t id = add_token(m, text);
        return id < 0 ? CLEF_BPE_NO_MEMORY : id;
    }
    free(text);
    return (int32_t)known->number;
}

/* ---- words -------------------------------------------------------------------------------------- */

static clef_status count_line(token_maker *m, const clef__regex *regex, clef__regex_run *run,
                              const char *line, size_t n, clef_error *err)
{
    clef_status s = CLEF_OK;
    run->newer = clef__unicode_has_newer(line, n);
    for (size_t at = 0; at < n && !s;) {
        size_t start = 0, end = 0;
        int found = 0;
        s = clef__regex_find(regex, run, line, n, at, &start, &end, &found, err);
        if (s || !found)
            break;
        clef__word *w = clef__word_of(&m->words, line + start, end - start);
        if (!w)
            return clef__fail(err, CLEF_E_NOMEM, "training a tokenizer: no memory for its words");
        w->number++;
        at = end;
    }
    return s;
}

static clef_status check_text(const char *path, const clef_mapping *file, clef_error *err)
{
    const char *text = file->data;
    for (size_t at = 0, size; at < file->n_bytes; at += size) {
        uint32_t code;
        if (clef__utf8_read(text + at, file->n_bytes - at, &code, &size) != CLEF_UTF8_OK)
            return clef__fail(err, CLEF_E_FORMAT, "%s: byte %zu: expected UTF-8", path, at);
    }
    return CLEF_OK;
}

static clef_status count_file(token_maker *m, const clef_mapping *file, const clef__regex *regex,
                              clef_error *err)
{
    clef__regex_run run = {0};
    clef_status s = CLEF_OK;
    const char *text = file->data;
    for (size_t at = 0, n = 0; at < file->n_bytes && !s; at += n) { /* a line with its end */
        const char *end = memchr(text + at, '\n', file->n_bytes - at);
        n = end ? (size_t)(end - text) + 1 - at : file->n_bytes - at;
        s = count_line(m, regex, &run, text + at, n, err);
        m->n_read += n;
        if (!s && m->opts->progress &&
            m->opts->progress(m->opts->progress_user, "words", m->n_read, m->n_bytes))
            s = clef__fail(err, CLEF_E_CANCELLED, "training a tokenizer: cancelled");
    }
    clef__regex_run_finish(&run);
    return s;
}

static clef_status count_words(token_maker *m, clef_error *err)
{
    const clef_tokenizer_train_opts *o = m->opts;
    clef__regex *regex = NULL;
    clef_status s = clef__regex_create(clef__gpt2_regex, strlen(clef__gpt2_regex), &regex, err);
    m->files = calloc((size_t)o->n_files + 1, sizeof *m->files);
    if (!s && !m->files)
        s = clef__fail(err, CLEF_E_NOMEM, "training a tokenizer: out of memory");
    for (int32_t i = 0; i < o->n_files && !s; i++) {
        s = clef__os_map(o->files[i], &m->files[i], err);
        if (!s)
            s = check_text(o->files[i], &m->files[i], err);
        m->n_bytes += m->files[i].n_bytes;
    }
    for (int32_t i = 0; i < o->n_files && !s; i++)
        s = count_file(m, &m->files[i], regex, err);
    clef__regex_destroy(regex);
    return s;
}

/* ---- merges ------------------------------------------------------------------------------------- */

static clef_status learn_merges(token_maker *m, clef_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < m->words.n; i++)
        n += m->words.items[i].n;
    clef__bpe_words w = {.symbols = malloc((n + 1) * sizeof *w.symbols),
                         .first = calloc(m->words.n + 1, sizeof *w.first),
                         .counts = calloc(m->words.n + 1, sizeof *w.counts),
                         .n_words = m->words.n};
    clef_status s = w.symbols && w.first && w.counts
                        ? CLEF_OK
                        : clef__fail(err, CLEF_E_NOMEM, "training a tokenizer: no memory for its words");
    for (size_t i = 0, at = 0; i < w.n_words && !s; i++) {
        const clef__word *word = &m->words.items[i];
        w.counts[i] = word->number;
        w.first[i] = at;
        for (size_t k = 0; k < word->n; k++)
            w.symbols[at++] = m->byte_ids[(unsigned char)word->text[k]];
        w.first[i + 1] = at;
    }
    const clef__bpe_learn_opts opts = {.n_vocab = m->opts->n_vocab,
                                       .min_frequency = m->opts->min_frequency,
                                       .join = join,
                                       .user = m,
                                       .progress = m->opts->progress,
                                       .progress_user = m->opts->progress_user};
    if (!s)
        s = clef__bpe_learn(&w, m->n_tokens, &opts, &m->merges, &m->n_merges, err);
    free(w.symbols);
    free(w.first);
    free(w.counts);
    return s;
}

/* ---- files -------------------------------------------------------------------------------------- */

static json_t *byte_level(int add_prefix_space, int trim_offsets)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", add_prefix_space,
                     "trim_offsets", trim_offsets, "use_regex", 1);
}

/* These return NULL when out of memory, and json_pack() then does so too. */
static json_t *checked(json_t *value, int ok)
{
    if (ok)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *vocabulary(const token_maker *m)
{
    json_t *out = json_object();
    int ok = out != NULL;
    for (int32_t i = 0; i < m->n_tokens && ok; i++)
        ok = json_object_set_new(out, m->texts[i], json_integer(i)) == 0;
    return checked(out, ok);
}

static json_t *added_tokens(const token_maker *m)
{
    json_t *out = json_array();
    int ok = out != NULL;
    for (int32_t i = 0; i < m->n_special && ok; i++)
        ok = json_array_append_new(out, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", i, "content",
                                                  m->texts[i], "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                  "normalized", 0, "special", 1)) == 0;
    return checked(out, ok);
}

static json_t *merges(const token_maker *m)
{
    json_t *out = json_array();
    int ok = out != NULL;
    for (size_t i = 0; i < m->n_merges && ok; i++)
        ok = json_array_append_new(
                 out, json_pack("[s, s]", m->texts[m->merges[i].left], m->texts[m->merges[i].right])) == 0;
    return checked(out, ok);
}

static json_t *tokenizer_json(const token_maker *m)
{
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                  "ignore_merges", 0, "vocab", vocabulary(m), "merges", merges(m));
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation",
                     "padding", "added_tokens", added_tokens(m), "normalizer", "pre_tokenizer",
                     byte_level(0, 1), "post_processor", byte_level(1, 0), "decoder", byte_level(1, 1),
                     "model", model);
}

static json_t *config_json(const token_maker *m)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                     "bos_token", m->texts[0], "eos_token", m->texts[0], "unk_token", m->texts[0],
                     "add_prefix_space", 0, "clean_up_tokenization_spaces", 0);
}

/* merges.txt, as text in a JSON string's place. */
static clef_status write_merges(const token_maker *m, clef__save *save, clef_error *err)
{
    clef__chars text = {0};
    clef_status s = clef__chars_append(&text, "#version: 0.2\n", 14, err);
    for (size_t i = 0; i < m->n_merges && !s; i++) {
        const char *parts[] = {m->texts[m->merges[i].left], " ", m->texts[m->merges[i].right], "\n"};
        for (size_t k = 0; k < sizeof parts / sizeof *parts && !s; k++)
            s = clef__chars_append(&text, parts[k], strlen(parts[k]), err);
    }
    if (!s)
        s = clef__save_bytes(save, "merges.txt", text.at, text.n, err);
    clef__chars_finish(&text);
    return s;
}

static clef_status write_json(clef__save *save, const char *name, json_t *value, clef_error *err)
{
    const clef_status s = value ? clef__save_json(save, name, value, err)
                                : clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", name);
    json_decref(value);
    return s;
}

static clef_status write_folder(const token_maker *m, const char *folder, clef_error *err)
{
    clef__save save = {0};
    clef_status s = clef__save_begin(folder, &save, err);
    if (s)
        return s;
    s = write_json(&save, "tokenizer.json", tokenizer_json(m), err);
    if (!s)
        s = write_json(&save, "vocab.json", vocabulary(m), err);
    if (!s)
        s = write_json(&save, "tokenizer_config.json", config_json(m), err);
    if (!s)
        s = write_merges(m, &save, err);
    if (!s)
        return clef__save_commit(&save, err);
    clef__save_abort(&save);
    return s;
}

clef_status clef_tokenizer_train(const clef_tokenizer_train_opts *opts, const char *folder, clef_error *err)
{
    token_maker m = {.opts = opts};
    if (opts->n_files < 1)
        return clef__fail(err, CLEF_E_ARG, "training a tokenizer: expected a text file, got none");
    clef_status s = clef_train_check_folder(folder, err);
    if (!s)
        s = add_first_tokens(&m, err);
    if (!s)
        s = count_words(&m, err);
    if (!s)
        s = learn_merges(&m, err);
    if (!s)
        s = write_folder(&m, folder, err);
    for (int32_t i = 0; m.files && i < opts->n_files; i++)
        clef__os_unmap(&m.files[i]);
    for (int32_t i = 0; i < m.n_tokens; i++)
        free(m.texts[i]);
    free(m.texts);
    free(m.files);
    free(m.merges);
    clef__word_table_finish(&m.words);
    clef__word_table_finish(&m.tokens);
    return s;
}
