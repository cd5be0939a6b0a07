/* Pre-tokenizers cut the text into pieces that no token crosses. */
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/bytes.h"
#include "model/tokenizer/stages.h"
#include "model/tokenizer/unicode.h"

const char clef__gpt2_regex[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Jais 2's regex. It matches up to 512 spaces at a time and searches for a line end after them each time,
 * which takes quadratic time. run_by_512() counts the spaces instead. */
const char clef__jais2_regex[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                 "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
                                 "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!"
                                 "\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
                                 "\\s{1,2}(?!\\S)|\\s";

/* ---- splitting at matches */

/* Passes on the matches and the text between them, in order. One piece is held back until it is known
 * whether the next one is merged with it. */
typedef struct splitter {
    clef__encoding *enc;
    size_t index;
    clef__fragment in;
    uint32_t behavior;
    int held, held_match;
    size_t start, end;
} splitter;

static int joins_held_piece(uint32_t behavior, int held_match, int match)
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
    return clef__pretokenize(s->enc, s->index + 1, clef__fragment_part(s->in, s->start, s->end));
}

static clef_status split_piece(splitter *s, size_t start, size_t end, int match)
{
    if (s->held && joins_held_piece(s->behavior, s->held_match, match)) {
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

static clef_status run_split(const clef__pretokenizer *self, clef__encoding *enc, size_t index,
                             clef__fragment in)
{
    splitter s = {.enc = enc, .index = index, .in = in, .behavior = self->behavior};
    const int match = !(self->flags & CLEF_SPLIT_INVERT);
    clef__pattern_walk walk = {0};
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

clef_status clef__pretokenizer_split(clef__stages *stages, const clef__pattern *pattern,
                                     clef__split_behavior behavior, uint32_t flags, clef_error *err)
{
    if (!pattern->regex && !pattern->is && pattern->n_text == 0)
        return clef__fail(err, CLEF_E_FORMAT, "pre_tokenizer: Split at an empty string");
    return clef__pretokenizer_append(
        stages,
        &(clef__pretokenizer){.run = run_split, .pattern = *pattern, .behavior = behavior, .flags = flags},
        err);
}

/* Returns the end of the run of spaces at `at`. *from and *n are the start and the number of the spaces after
 * the run's last line end. A match always ends at that line end. */
static size_t spaces_end(clef__fragment in, size_t at, size_t *from, size_t *n)
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

/* Cuts as clef__jais2_regex does, but in linear time. In a run of spaces, it counts off 512 at a time after
 * the run's last line end. */
static clef_status run_by_512(const clef__pretokenizer *self, clef__encoding *enc, size_t index,
                              clef__fragment in)
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
            st = run_split(self, enc, index, clef__fragment_part(in, done, from));
        for (done = from; st == CLEF_OK && (n > CHUNK || (n == CHUNK && end == in.n)); n -= CHUNK) {
            const size_t start = done;
            for (int i = 0; i < CHUNK; i++)
                done += clef__utf8_size(in.text[done]);
            st = clef__pretokenize(enc, index + 1, clef__fragment_part(in, start, done));
        }
    }
    if (st == CLEF_OK && done < in.n)
        st = run_split(self, enc, index, clef__fragment_part(in, done, in.n));
    return st;
}

clef_status clef__pretokenizer_regex(clef__stages *stages, const char *regex, clef__split_behavior behavior,
                                     clef_error *err)
{
    clef__pattern pattern = {0};
    clef_status st = CLEF_OK;
    if (clef__pretokenizer_thousands(stages, regex, behavior, &st, err))
        return st;
    st = clef__regex_create(regex, strlen(regex), &pattern.regex, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_split(stages, &pattern, behavior, 0, err);
    if (st == CLEF_OK && behavior == CLEF_SPLIT_ISOLATED && strcmp(regex, clef__jais2_regex) == 0)
        stages->pretokenizers[stages->n_pretokenizers - 1].run = run_by_512;
    return st;
}

clef_status clef__pretokenizer_chars(clef__stages *stages, int (*is)(uint32_t code),
                                     clef__split_behavior behavior, clef_error *err)
{
    return clef__pretokenizer_split(stages, &(clef__pattern){.is = is}, behavior, 0, err);
}

static clef_status run_fixed(const clef__pretokenizer *self, clef__encoding *enc, size_t index,
                             clef__fragment in)
{
    clef_status st = CLEF_OK;
    for (size_t i = 0, end = 0; i < in.n && st == CLEF_OK; i = end) {
        for (uint32_t k = 0; k < self->flags && end < in.n; k++)
            end += clef__utf8_size(in.text[end]);
        st = clef__pretokenize(enc, index + 1, clef__fragment_part(in, i, end));
    }
    return st;
}

clef_status clef__pretokenizer_fixed(clef__stages *stages, uint32_t length, clef_error *err)
{
    return clef__pretokenizer_append(stages, &(clef__pretokenizer){.run = run_fixed, .flags = length}, err);
}

/* ---- stages that change the text */

static clef_status run_byte_chars(const clef__pretokenizer *self, clef__encoding *enc, size_t index,
                                  clef__fragment in)
{
    clef__chars *out = &enc->pre[index];
    (void)self;
    out->n = 0;
    clef_status st = clef__byte_chars(in.text, in.first, out, enc->err);
    const size_t first = out->n;
    if (st == CLEF_OK)
        st = clef__byte_chars(in.text + in.first, in.n - in.first, out, enc->err);
    return st ? st : clef__pretokenize(enc, index + 1, (clef__fragment){out->at, out->n, first});
}

clef_status clef__pretokenizer_byte_chars(clef__stages *stages, clef_error *err)
{
    return clef__pretokenizer_append(stages, &(clef__pretokenizer){.run = run_byte_chars}, err);
}

static clef_status run_prefix_space(const clef__pretokenizer *self, clef__encoding *enc, size_t index,
                                    clef__fragment in)
{
    clef__chars *out = &enc->pre[index];
    (void)self;
    if (in.text[0] == ' ')
        return clef__pretokenize(enc, index + 1, in);
    out->n = 0;
    clef_status st = clef__chars_append(out, " ", 1, enc->err);
    if (st == CLEF_OK)
        st = clef__chars_append(out, in.text, in.n, enc->err);
    return st ? st
              : clef__pretokenize(enc, index + 1,
                                  (clef__fragment){out->at, out->n, in.first ? in.first + 1 : 0});
}

clef_status clef__pretokenizer_prefix_space(clef__stages *stages, clef_error *err)
{
    return clef__pretokenizer_append(stages, &(clef__pretokenizer){.run = run_prefix_space}, err);
}

static int begins_with(const clef__pretokenizer *self, const char *text, size_t n)
{
    return n >= self->n_text && memcmp(text, self->text, self->n_text) == 0;
}

/* Writes each space as the replacement, and puts one before the text if the scheme asks for it. With
 * CLEF_METASPACE_SPLITS, then splits the text before each replacement. */
static clef_status run_metaspace(const clef__pretokenizer *self, clef__encoding *enc, size_t index,
                                 clef__fragment in)
{
    clef__chars *out = &enc->pre[index];
    clef_status st = CLEF_OK;
    size_t first = 0;
    out->n = 0;
    const int prepends =
        self->behavior == CLEF_PREPEND_ALWAYS || (self->behavior == CLEF_PREPEND_FIRST && in.first);
    if (prepends && in.text[0] != ' ' && !begins_with(self, in.text, in.n))
        st = clef__chars_append(out, self->text, self->n_text, enc->err);
    for (size_t i = 0, next; i < in.n && st == CLEF_OK; i = next) {
        if (i < in.first)
            first = out->n + (in.text[i] == ' ' ? self->n_text : in.first - i);
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
        return st ? st : clef__pretokenize(enc, index + 1, (clef__fragment){out->at, out->n, first});
    const clef__pretokenizer split = {.pattern = {.text = self->text, .n_text = self->n_text},
                                      .behavior = CLEF_SPLIT_MERGED_WITH_NEXT};
    return run_split(&split, enc, index, (clef__fragment){out->at, out->n, first});
}

clef_status clef__pretokenizer_metaspace(clef__stages *stages, const char *replacement, size_t n,
                                         clef__prepend_scheme scheme, uint32_t flags, clef_error *err)
{
    const clef__pretokenizer like = {
        .run = run_metaspace, .behavior = scheme, .flags = flags, .text = replacement, .n_text = n};
    stages->uses_first |= scheme == CLEF_PREPEND_FIRST;
    if (n == 0)
        return clef__fail(err, CLEF_E_FORMAT, "pre_tokenizer: Metaspace with an empty replacement");
    return clef__pretokenizer_append(stages, &like, err);
}
