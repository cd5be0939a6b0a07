/* BERT's vocab.txt: a token a line, its number the id. How text is prepared stands in tokenizer_config.json,
 * if that is there. */
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unicode.h"
#include "runtime/os/os.h"

/* A vocabulary with capitals is cased: lowering the text would make those tokens unreachable. */
static int has_capitals(const clef_tokenizer *tok)
{
    for (int32_t id = 0; id < tok->n_tokens; id++) {
        const clef_token *token = &tok->tokens[id];
        const int bracketed = token->n_text > 0 && (token->text[0] == '[' || token->text[0] == '<');
        for (uint32_t i = 0; !bracketed && i < token->n_text; i++)
            if (token->text[i] >= 'A' && token->text[i] <= 'Z')
                return 1;
    }
    return 0;
}

static clef_status add_specials(clef_tokenizer *tok, clef_error *err)
{
    const int32_t ids[] = {tok->unk, tok->sep, tok->pad, tok->cls, tok->mask};
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && st == CLEF_OK; i++) {
        if (ids[i] < 0 || (tok->tokens[ids[i]].flags & CLEF_TOKEN_SPECIAL))
            continue;
        const clef_added_token added = {
            .id = ids[i], .text = tok->tokens[ids[i]].text, .n = tok->tokens[ids[i]].n_text};
        st = clef__tokens_add(tok, &added, 1, err);
    }
    return st;
}

clef_status clef__bert_stages(clef_tokenizer *tok, const clef_bert_stages *opts, const char *name,
                              clef_error *err)
{
    const int32_t lowercase = opts->lowercase < 0 ? !has_capitals(tok) : opts->lowercase;
    const clef_bert_opts bert = {.clean = 1,
                                 .space_cjk = opts->space_cjk != 0,
                                 .strip_accents = opts->strip_accents < 0 ? lowercase : opts->strip_accents,
                                 .lowercase = lowercase};
    if (tok->unk < 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: a WordPiece vocabulary without [UNK]", name);
    clef_status st = clef__normalizer_bert(tok, &bert, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_chars(tok, clef__is_space, CLEF_SPLIT_REMOVED, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_chars(tok, clef__is_punctuation, CLEF_SPLIT_ISOLATED, err);
    if (st == CLEF_OK)
        st = clef__wordpiece_create(
            tok, &(clef_wordpiece_opts){.prefix = "##", .n_prefix = 2, .max_chars = 100, .unk = tok->unk},
            err);
    if (st == CLEF_OK)
        st = clef__decoder_wordpiece(tok, "##", 2, 1, err);
    if (st == CLEF_OK)
        st = add_specials(tok, err);
    if (st == CLEF_OK && tok->cls >= 0 && tok->sep >= 0)
        st = clef__tokens_mark_pair(tok, tok->cls, tok->sep, err);
    return st ? st : clef__tokenizer_seal(tok, err);
}

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
    clef_status st = clef__tokens_reserve(tok, (int64_t)n_tokens, err);
    int64_t id = 0;
    for (size_t at = 0, next; at < n && st == CLEF_OK; at = next) {
        next = next_line(text, n, at, &n_line);
        st = clef__tokens_set(tok, id++, text + at, n_line, err);
    }
    return st ? st : clef__tokens_prefer_last(tok, err);
}

clef_status clef__tokenizer_read_txt(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    clef_token_marks marks;
    clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &text, &n, err);
    if (st == CLEF_OK)
        st = read_lines(tok, text, n, path, err);
    free(text);
    if (st == CLEF_OK)
        st = clef__tokenizer_read_marks(tok, path, &marks, err);
    if (st)
        return st;
    return clef__bert_stages(tok, &(clef_bert_stages){marks.lowercase, marks.strip_accents, marks.space_cjk},
                             path, err);
}
