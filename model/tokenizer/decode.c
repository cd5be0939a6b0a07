/* Decoders turn a token's text in the vocabulary into the bytes it stands for. They run when a tokenizer is
 * opened, twice for each token: as a text's first token and as a later one. */
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/bytes.h"
#include "model/tokenizer/stages.h"

/* ---- bytes */

/* A text with a character that stands for no byte is an added token and stays as it is. */
static clef_status run_byte_level(const clef__token_decoder *self, int first, const char *text, size_t n,
                                  clef__chars *out, clef_error *err)
{
    (void)self;
    (void)first;
    clef_status st = clef__chars_reserve(out, n, err);
    if (st)
        return st;
    const size_t start = out->n;
    for (size_t i = 0, size; i < n; i += size) {
        uint32_t code;
        const int whole = clef__utf8_read(text + i, n - i, &code, &size) == CLEF_UTF8_OK;
        const int32_t byte = whole ? clef__char_byte(code) : -1;
        if (byte < 0) {
            out->n = start;
            return clef__chars_append(out, text, n, err);
        }
        out->at[out->n++] = (char)byte;
    }
    return CLEF_OK;
}

static clef_status run_byte_fallback(const clef__token_decoder *self, int first, const char *text, size_t n,
                                     clef__chars *out, clef_error *err)
{
    (void)self;
    (void)first;
    const int32_t byte = clef__fallback_byte(text, n);
    const char c = (char)byte;
    return byte < 0 ? clef__chars_append(out, text, n, err) : clef__chars_append(out, &c, 1, err);
}

clef_status clef__decoder_byte_level(clef__stages *stages, clef_error *err)
{
    return clef__decoder_append(stages, &(clef__token_decoder){.run = run_byte_level}, err);
}

clef_status clef__decoder_byte_fallback(clef__stages *stages, clef_error *err)
{
    return clef__decoder_append(stages, &(clef__token_decoder){.run = run_byte_fallback}, err);
}

/* ---- replacing */

static clef_status replace_all(const clef__pattern *pattern, const char *text, size_t n, const char *to,
                               size_t n_to, clef__chars *out, clef_error *err)
{
    clef__regex_run run = {0};
    clef__pattern_walk walk = {0};
    clef_status st = CLEF_OK;
    size_t done = 0;
    if (!text) /* an empty clef__chars */
        text = "";
    for (int found = 1; found && st == CLEF_OK;) {
        size_t start = n, end = n;
        st = clef__pattern_next(pattern, &run, text, n, &walk, &start, &end, &found, err);
        if (st == CLEF_OK)
            st = clef__chars_append(out, text + done, (found ? start : n) - done, err);
        if (st == CLEF_OK && found)
            st = clef__chars_append(out, to, n_to, err);
        done = found ? end : n;
    }
    clef__regex_run_finish(&run);
    return st;
}

static clef_status run_replace(const clef__token_decoder *self, int first, const char *text, size_t n,
                               clef__chars *out, clef_error *err)
{
    const int drops = first && self->start;
    return replace_all(&self->pattern, text, n, drops ? "" : self->to, drops ? 0 : self->n_to, out, err);
}

clef_status clef__decoder_replace(clef__stages *stages, const clef__pattern *pattern, const char *to,
                                  size_t n_to, clef_error *err)
{
    if (!pattern->regex && pattern->n_text == 0)
        return clef__fail(err, CLEF_E_FORMAT, "decoder: Replace of an empty string");
    return clef__decoder_append(
        stages, &(clef__token_decoder){.run = run_replace, .pattern = *pattern, .to = to, .n_to = n_to}, err);
}

clef_status clef__decoder_metaspace(clef__stages *stages, const char *mark, size_t n, int drops_first,
                                    clef_error *err)
{
    const clef__pattern pattern = {.text = mark, .n_text = n};
    if (n == 0)
        return clef__fail(err, CLEF_E_FORMAT, "decoder: Metaspace with an empty replacement");
    return clef__decoder_append(
        stages,
        &(clef__token_decoder){
            .run = run_replace, .pattern = pattern, .to = " ", .n_to = 1, .start = drops_first},
        err);
}

/* Whether a token has the suffix elsewhere than at its end: the last token of a text loses these, too. */
static int has_before_end(const clef__token *token, const char *suffix, size_t n)
{
    for (size_t i = 0; i + n < token->n_text; i++)
        if (memcmp(token->text + i, suffix, n) == 0)
            return 1;
    return 0;
}

clef_status clef__decoder_bpe(clef__stages *stages, clef__vocab *vocab, const char *suffix, size_t n,
                              clef_error *err)
{
    const clef__pattern pattern = {.text = suffix, .n_text = n};
    if (n == 0)
        return clef__fail(err, CLEF_E_FORMAT, "decoder: BPEDecoder with an empty suffix");
    for (int32_t id = 0; id < vocab->n_tokens; id++) {
        clef__token *token = &vocab->tokens[id];
        if (has_before_end(token, suffix, n))
            return clef__fail(
                err, CLEF_E_UNSUPPORTED,
                "decoder: BPEDecoder with a suffix that token %d has within its text is not supported",
                (int)id);
        if (token->n_text >= n && memcmp(token->text + token->n_text - n, suffix, n) == 0)
            token->flags |= CLEF_TOKEN_ENDS_WORD;
    }
    return clef__decoder_append(
        stages, &(clef__token_decoder){.run = run_replace, .pattern = pattern, .to = " ", .n_to = 1}, err);
}

/* ---- words */

static clef_status append_clean(const char *text, size_t n, clef__chars *out, clef_error *err)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    clef__chars work[2] = {{0}};
    clef_status st = clef__chars_append(&work[0], text, n, err);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && st == CLEF_OK; i++) {
        const clef__pattern pattern = {.text = pairs[i][0], .n_text = strlen(pairs[i][0])};
        work[1].n = 0;
        st = replace_all(&pattern, work[0].at, work[0].n, pairs[i][1], strlen(pairs[i][1]), &work[1], err);
        const clef__chars swap = work[0];
        work[0] = work[1];
        work[1] = swap;
    }
    if (st == CLEF_OK)
        st = clef__chars_append(out, work[0].at, work[0].n, err);
    clef__chars_finish(&work[0]);
    clef__chars_finish(&work[1]);
    return st;
}

static clef_status run_wordpiece(const clef__token_decoder *self, int first, const char *text, size_t n,
                                 clef__chars *out, clef_error *err)
{
    clef__chars word = {0};
    const size_t n_prefix = self->pattern.n_text;
    const int inner = n >= n_prefix && memcmp(text, self->pattern.text, n_prefix) == 0;
    clef_status st = first || inner ? CLEF_OK : clef__chars_append(&word, " ", 1, err);
    const size_t skip = !first && inner ? n_prefix : 0;
    if (st == CLEF_OK)
        st = clef__chars_append(&word, text + skip, n - skip, err);
    if (st == CLEF_OK && self->start)
        st = append_clean(word.at, word.n, out, err);
    else if (st == CLEF_OK)
        st = clef__chars_append(out, word.at, word.n, err);
    clef__chars_finish(&word);
    return st;
}

clef_status clef__decoder_wordpiece(clef__stages *stages, const char *prefix, size_t n, int cleanup,
                                    clef_error *err)
{
    return clef__decoder_append(stages,
                                &(clef__token_decoder){.run = run_wordpiece,
                                                       .pattern = {.text = prefix, .n_text = n},
                                                       .start = cleanup},
                                err);
}

/* Drops the blank token's text. With `start` (cleanup), also runs append_clean() and writes the delimiter as
 * a space. */
static clef_status run_ctc(const clef__token_decoder *self, int first, const char *text, size_t n,
                           clef__chars *out, clef_error *err)
{
    clef__chars bare = {0}, clean = {0};
    const clef__pattern delimiter = {.text = self->to, .n_text = self->n_to};
    (void)first;
    clef_status st = self->pattern.n_text ? replace_all(&self->pattern, text, n, "", 0, &bare, err)
                                          : clef__chars_append(&bare, text, n, err);
    if (st == CLEF_OK && self->start)
        st = append_clean(bare.at, bare.n, &clean, err);
    if (st == CLEF_OK && self->start && self->n_to)
        st = replace_all(&delimiter, clean.at ? clean.at : "", clean.n, " ", 1, out, err);
    else if (st == CLEF_OK)
        st = clef__chars_append(out, self->start ? clean.at : bare.at, self->start ? clean.n : bare.n, err);
    clef__chars_finish(&bare);
    clef__chars_finish(&clean);
    return st;
}

clef_status clef__decoder_ctc(clef__stages *stages, const char *pad, const char *delimiter, int cleanup,
                              clef_error *err)
{
    stages->joins_repeats = 1;
    return clef__decoder_append(stages,
                                &(clef__token_decoder){.run = run_ctc,
                                                       .pattern = {.text = pad, .n_text = strlen(pad)},
                                                       .to = delimiter,
                                                       .n_to = strlen(delimiter),
                                                       .start = cleanup},
                                err);
}

static clef_status run_strip(const clef__token_decoder *self, int first, const char *text, size_t n,
                             clef__chars *out, clef_error *err)
{
    const char *what = self->pattern.text;
    const size_t size = self->pattern.n_text;
    (void)first;
    for (int32_t i = 0; i < self->start && n >= size && memcmp(text, what, size) == 0; i++) {
        text += size;
        n -= size;
    }
    for (int32_t i = 0; i < self->stop && n >= size && memcmp(text + n - size, what, size) == 0; i++)
        n -= size;
    return clef__chars_append(out, text, n, err);
}

clef_status clef__decoder_strip(clef__stages *stages, const char *content, size_t n, int32_t start,
                                int32_t stop, clef_error *err)
{
    if (n == 0)
        return clef__fail(err, CLEF_E_FORMAT, "decoder: Strip of an empty string");
    return clef__decoder_append(
        stages,
        &(clef__token_decoder){
            .run = run_strip, .pattern = {.text = content, .n_text = n}, .start = start, .stop = stop},
        err);
}
