/* Pre-tokenizers: cutting the text into pieces that no token crosses. */
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unicode.h"

const char clef__gpt2_regex[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Jais 2's. It takes spaces by 512 and less, and looks for a line's end behind them each time: see
 * run_by_512(). */
const char clef__jais2_regex[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                 "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
                                 "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!"
                                 "\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
                                 "\\s{1,2}(?!\\S)|\\s";

clef_status clef__pretokenizer_next(clef_tokenizer *tok, clef_pretokenizer **out, clef_error *err)
{
    if (tok->n_pretokenizers == CLEF_MAX_TOKEN_STAGES)
        return clef__fail(err, CLEF_E_LIMIT, "pre_tokenizer: more than %d steps", CLEF_MAX_TOKEN_STAGES);
    *out = &tok->pretokenizers[tok->n_pretokenizers++];
    return CLEF_OK;
}

clef_status clef__pretokenize(clef_encoding *enc, size_t index, clef_span in)
{
    const clef_tokenizer *tok = enc->tok;
    if (in.n == 0)
        return CLEF_OK;
    if (index < tok->n_pretokenizers)
        return tok->pretokenizers[index].run(&tok->pretokenizers[index], enc, index, in);
    return tok->model->encode(tok->model, enc, in.text, in.n);
}

/* ---- splitting at matches */

/* Pieces come in order, matches and what lies between them; one is held back until it is known whether the
 * next joins it. */
typedef struct splitter {
    clef_encoding *enc;
    size_t index;
    clef_span in;
    uint32_t behavior;
    int held, held_match;
    size_t start, end;
} splitter;

static int joins(uint32_t behavior, int held_match, int match)
{
    switch (behavior) {
    case CLEF_SPLIT_MERGED_WITH_PREVIOUS:
        return match && !held_match;
    case CLEF_SPLIT_MERGED_WITH_NEXT:
        return held_match && !match;
    case CLEF_SPLIT_CONTIGUOUS:
        return held_match == match;
    default:
        return 0;
    }
}

static clef_status send_held(splitter *s)
{
    if (!s->held || (s->behavior == CLEF_SPLIT_REMOVED && s->held_match))
        return CLEF_OK;
    return clef__pretokenize(
        s->enc, s->index + 1,
        (clef_span){s->in.text + s->start, s->end - s->start, s->in.first && s->start == 0});
}

static clef_status split_piece(splitter *s, size_t start, size_t end, int match)
{
    if (s->held && joins(s->behavior, s->held_match, match)) {
        s->end = end;
        s->held_match = match;
        return CLEF_OK;
    }
    const clef_status st = send_held(s);
    s->held = 1;
    s->held_match = match;
    s->start = start;
    s->end = end;
    return st;
}

static clef_status run_split(const clef_pretokenizer *self, clef_encoding *enc, size_t index, clef_span in)
{
    splitter s = {.enc = enc, .index = index, .in = in, .behavior = self->behavior};
    const int match = !(self->flags & CLEF_SPLIT_INVERT);
    clef_pattern_walk walk = {0};
    size_t done = 0;
    for (;;) {
        size_t start = 0, end = 0;
        int found;
        clef_status st = clef__pattern_next(&self->pattern, &enc->regex, in.text, in.n, &walk, &start, &end,
                                            &found, enc->err);
        if (st == CLEF_OK && !found) {
            if (done < in.n)
                st = split_piece(&s, done, in.n, !match);
            return st ? st : send_held(&s);
        }
        if (st == CLEF_OK && done < start)
            st = split_piece(&s, done, start, !match);
        if (st == CLEF_OK)
            st = split_piece(&s, start, end, match);
        if (st)
            return st;
        done = end;
    }
}

clef_status clef__pretokenizer_split(clef_tokenizer *tok, const clef_pattern *pattern,
                                     clef_split_behavior behavior, uint32_t flags, clef_error *err)
{
    clef_pretokenizer *self = NULL;
    const clef_status st = clef__pretokenizer_next(tok, &self, err);
    if (st) {
        clef__regex_destroy(pattern->regex);
        return st;
    }
    *self = (clef_pretokenizer){.run = run_split, .pattern = *pattern, .behavior = behavior, .flags = flags};
    if (pattern->regex || pattern->is)
        return CLEF_OK;
    self->pattern.text = clef__token_arena_copy(&tok->arena, pattern->text, pattern->n_text);
    if (!self->pattern.text)
        return clef__fail(err, CLEF_E_NOMEM, "pre_tokenizer: no memory for a string");
    return pattern->n_text ? CLEF_OK
                           : clef__fail(err, CLEF_E_FORMAT, "pre_tokenizer: Split at an empty string");
}

/* The end of the spaces at `at`; *from, *n: those behind the last line's end among them, where a match ends
 * in any case. */
static size_t spaces_end(clef_span in, size_t at, size_t *from, size_t *n)
{
    uint32_t code;
    *from = at;
    *n = 0;
    for (size_t size; at < in.n; at += size) {
        clef__utf8_read(in.text + at, in.n - at, &code, &size);
        if (!clef__is_space(code))
            break;
        ++*n;
        if (code == '\n' || code == '\r') {
            *from = at + size;
            *n = 0;
        }
    }
    return at;
}

/* The cutting of clef__jais2_regex, whose 512 spaces are counted where no line ends behind them, so that the
 * time is linear. */
static clef_status run_by_512(const clef_pretokenizer *self, clef_encoding *enc, size_t index, clef_span in)
{
    enum { CHUNK = 512 };
    size_t done = 0, from, n;
    clef_status st = CLEF_OK;
    for (size_t at = 0, end; at < in.n && st == CLEF_OK;
         at = end > at ? end : at + clef__utf8_size(in.text[at])) {
        end = spaces_end(in, at, &from, &n);
        if (n < CHUNK)
            continue;
        if (from > done)
            st = run_split(self, enc, index, (clef_span){in.text + done, from - done, in.first && done == 0});
        for (done = from; st == CLEF_OK && (n > CHUNK || (n == CHUNK && end == in.n)); n -= CHUNK) {
            const size_t start = done;
            for (int i = 0; i < CHUNK; i++)
                done += clef__utf8_size(in.text[done]);
            st = clef__pretokenize(enc, index + 1,
                                   (clef_span){in.text + start, done - start, in.first && start == 0});
        }
    }
    if (st == CLEF_OK && done < in.n)
        st = run_split(self, enc, index, (clef_span){in.text + done, in.n - done, in.first && done == 0});
    return st;
}

void clef__pretokenizer_counts_spaces(clef_tokenizer *tok, const char *regex)
{
    if (strcmp(regex, clef__jais2_regex) == 0)
        tok->pretokenizers[tok->n_pretokenizers - 1].run = run_by_512;
}

clef_status clef__pretokenizer_regex(clef_tokenizer *tok, const char *regex, clef_split_behavior behavior,
                                     clef_error *err)
{
    clef_pattern pattern = {0};
    clef_status st = CLEF_OK;
    if (clef__pretokenizer_thousands(tok, regex, behavior, &st, err))
        return st;
    st = clef__regex_create(regex, strlen(regex), &pattern.regex, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_split(tok, &pattern, behavior, 0, err);
    if (st == CLEF_OK && behavior == CLEF_SPLIT_ISOLATED)
        clef__pretokenizer_counts_spaces(tok, regex);
    return st;
}

clef_status clef__pretokenizer_chars(clef_tokenizer *tok, int (*is)(uint32_t code),
                                     clef_split_behavior behavior, clef_error *err)
{
    return clef__pretokenizer_split(tok, &(clef_pattern){.is = is}, behavior, 0, err);
}

static clef_status run_fixed(const clef_pretokenizer *self, clef_encoding *enc, size_t index, clef_span in)
{
    clef_status st = CLEF_OK;
    for (size_t i = 0, end = 0; i < in.n && st == CLEF_OK; i = end) {
        for (uint32_t k = 0; k < self->flags && end < in.n; k++)
            end += clef__utf8_size(in.text[end]);
        st = clef__pretokenize(enc, index + 1, (clef_span){in.text + i, end - i, in.first && i == 0});
    }
    return st;
}

clef_status clef__pretokenizer_fixed(clef_tokenizer *tok, uint32_t length, clef_error *err)
{
    clef_pretokenizer *self = NULL;
    const clef_status st = clef__pretokenizer_next(tok, &self, err);
    if (st == CLEF_OK)
        *self = (clef_pretokenizer){.run = run_fixed, .flags = length};
    return st;
}

/* ---- stages that change the text */

static clef_status run_byte_chars(const clef_pretokenizer *self, clef_encoding *enc, size_t index,
                                  clef_span in)
{
    clef_chars *out = &enc->pre[index];
    (void)self;
    out->n = 0;
    const clef_status st = clef__byte_chars(in.text, in.n, out, enc->err);
    return st ? st : clef__pretokenize(enc, index + 1, (clef_span){out->at, out->n, in.first});
}

clef_status clef__pretokenizer_byte_chars(clef_tokenizer *tok, clef_error *err)
{
    clef_pretokenizer *self = NULL;
    const clef_status st = clef__pretokenizer_next(tok, &self, err);
    if (st == CLEF_OK)
        *self = (clef_pretokenizer){.run = run_byte_chars};
    return st;
}

static clef_status run_prefix_space(const clef_pretokenizer *self, clef_encoding *enc, size_t index,
                                    clef_span in)
{
    clef_chars *out = &enc->pre[index];
    (void)self;
    if (in.text[0] == ' ')
        return clef__pretokenize(enc, index + 1, in);
    out->n = 0;
    clef_status st = clef__chars_append(out, " ", 1, enc->err);
    if (st == CLEF_OK)
        st = clef__chars_append(out, in.text, in.n, enc->err);
    return st ? st : clef__pretokenize(enc, index + 1, (clef_span){out->at, out->n, in.first});
}

clef_status clef__pretokenizer_prefix_space(clef_tokenizer *tok, clef_error *err)
{
    clef_pretokenizer *self = NULL;
    const clef_status st = clef__pretokenizer_next(tok, &self, err);
    if (st == CLEF_OK)
        *self = (clef_pretokenizer){.run = run_prefix_space};
    return st;
}

static int begins_with(const clef_pretokenizer *self, const char *text, size_t n)
{
    return n >= self->n_text && memcmp(text, self->text, self->n_text) == 0;
}

/* Spaces become the replacement, which then begins each piece. */
static clef_status run_metaspace(const clef_pretokenizer *self, clef_encoding *enc, size_t index,
                                 clef_span in)
{
    clef_chars *out = &enc->pre[index];
    clef_status st = CLEF_OK;
    out->n = 0;
    const int prepends =
        self->behavior == CLEF_PREPEND_ALWAYS || (self->behavior == CLEF_PREPEND_FIRST && in.first);
    if (prepends && in.text[0] != ' ' && !begins_with(self, in.text, in.n))
        st = clef__chars_append(out, self->text, self->n_text, enc->err);
    for (size_t i = 0, next; i < in.n && st == CLEF_OK; i = next) {
        if (in.text[i] == ' ') {
            next = i + 1;
            st = clef__chars_append(out, self->text, self->n_text, enc->err);
            continue;
        }
        const char *space = memchr(in.text + i, ' ', in.n - i);
        next = space ? (size_t)(space - in.text) : in.n;
        st = clef__chars_append(out, in.text + i, next - i, enc->err);
    }
    if (st || !(self->flags & CLEF_METASPACE_SPLITS))
        return st ? st : clef__pretokenize(enc, index + 1, (clef_span){out->at, out->n, in.first});
    const clef_pretokenizer split = {.pattern = {.text = self->text, .n_text = self->n_text},
                                     .behavior = CLEF_SPLIT_MERGED_WITH_NEXT};
    return run_split(&split, enc, index, (clef_span){out->at, out->n, in.first});
}

clef_status clef__pretokenizer_metaspace(clef_tokenizer *tok, const char *replacement, size_t n,
                                         clef_prepend_scheme scheme, uint32_t flags, clef_error *err)
{
    clef_pretokenizer *self = NULL;
    const clef_status st = clef__pretokenizer_next(tok, &self, err);
    if (st)
        return st;
    *self = (clef_pretokenizer){.run = run_metaspace,
                                .behavior = scheme,
                                .flags = flags,
                                .text = clef__token_arena_copy(&tok->arena, replacement, n),
                                .n_text = n};
    if (!self->text)
        return clef__fail(err, CLEF_E_NOMEM, "pre_tokenizer: no memory for a string");
    return n ? CLEF_OK : clef__fail(err, CLEF_E_FORMAT, "pre_tokenizer: Metaspace with an empty replacement");
}
