/* BERT's vocab.txt: one token a line, whose number is the id. tokenizer_config.json, if it exists, says how
 * text is normalised. */
#include <stdlib.h>
#include <string.h>

#include "model/file/foreign.h"
#include "model/tokenizer/read/formats.h"
#include "runtime/os/os.h"

static size_t next_line(const char *text, size_t n, size_t at, size_t *n_line)
{
    const char *end = memchr(text + at, '\n', n - at);
    const size_t next = end ? (size_t)(end - text) + 1 : n;
    *n_line = (end ? next - 1 : n) - at;
    if (*n_line > 0 && text[at + *n_line - 1] == '\r')
        (*n_line)--;
    return next;
}

static clef_status read_lines(clef_tokenizer *tok, const char *text, size_t n, const char *path,
                              clef_error *err)
{
    size_t n_tokens = 0, n_line;
    for (size_t at = 0; at < n; n_tokens++)
        at = next_line(text, n, at, &n_line);
    if (n_tokens == 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: an empty vocabulary", path);
    clef_status st = clef__vocab_reserve(&tok->vocab, (int64_t)n_tokens, err);
    int64_t id = 0;
    for (size_t at = 0, next; at < n && st == CLEF_OK; at = next) {
        next = next_line(text, n, at, &n_line);
        st = clef__vocab_set(&tok->vocab, id++, text + at, n_line, err);
    }
    return st ? st : clef__vocab_prefer_last(&tok->vocab, err);
}

clef_status clef__tokenizer_read_txt(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    clef__token_config config;
    clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &text, &n, err);
    if (st == CLEF_OK)
        st = clef__foreign_text(text, n, path, "a vocabulary", err);
    if (st == CLEF_OK)
        st = read_lines(tok, text, n, path, err);
    free(text);
    if (st == CLEF_OK)
        st = clef__tokenizer_read_config(tok, path, &config, err);
    return st ? st : clef__bert_parts(tok, &config, path, err);
}
