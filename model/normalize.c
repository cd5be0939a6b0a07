/* Normalizers: what happens to the text before it is cut into pieces. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "model/tokenizer.h"
#include "model/unicode.h"
#include "model/utf8.h"

clef_status clef__normalizer_next(clef_tokenizer *tok, clef_normalizer **out, clef_error *err)
{
    if (tok->n_normalizers == CLEF_MAX_TOKEN_STAGES)
        return clef__fail(err, CLEF_E_LIMIT, "normalizer: more than %d steps", CLEF_MAX_TOKEN_STAGES);
    *out = &tok->normalizers[tok->n_normalizers++];
    return CLEF_OK;
}

/* ---- prepend and replace */

static clef_status run_prepend(const clef_normalizer *self, clef_encoding *enc, clef_span in, clef_chars *out)
{
    const clef_status st = in.n > 0 ? clef__chars_append(out, self->text, self->n_text, enc->err) : CLEF_OK;
    return st ? st : clef__chars_append(out, in.text, in.n, enc->err);
}

clef_status clef__normalizer_prepend(clef_tokenizer *tok, const char *text, size_t n, clef_error *err)
{
    clef_normalizer *self = NULL;
    const clef_status st = clef__normalizer_next(tok, &self, err);
    if (st)
        return st;
    *self = (clef_normalizer){.run = run_prepend, .text = clef__token_arena_copy(&tok->arena, text, n), .n_text = n};
    return self->text ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "normalizer: no memory for a string");
}

static clef_status run_replace(const clef_normalizer *self, clef_encoding *enc, clef_span in, clef_chars *out)
{
    clef_pattern_walk walk = {0};
    size_t done = 0, start, end;
    for (;;) {
        int found;
        clef_status st = clef__pattern_next(&self->pattern, &enc->regex, in.text, in.n, &walk, &start, &end, &found, enc->err);
        if (st || !found)
            return st ? st : clef__chars_append(out, in.text + done, in.n - done, enc->err);
        st = clef__chars_append(out, in.text + done, start - done, enc->err);
        if (st == CLEF_OK)
            st = clef__chars_append(out, self->text, self->n_text, enc->err);
        if (st)
            return st;
        done = end;
    }
}

clef_status clef__normalizer_replace(clef_tokenizer *tok, const clef_pattern *pattern, const char *text, size_t n, clef_error *err)
{
    clef_normalizer *self = NULL;
    const clef_status st = clef__normalizer_next(tok, &self, err);
    if (st) {
        clef__regex_destroy(pattern->regex);
        return st;
    }
    *self = (clef_normalizer){.run = run_replace, .pattern = *pattern, .text = clef__token_arena_copy(&tok->arena, text, n), .n_text = n};
    if (!pattern->regex)
        self->pattern.text = clef__token_arena_copy(&tok->arena, pattern->text, pattern->n_text);
    if (!self->text || (!pattern->regex && !self->pattern.text))
        return clef__fail(err, CLEF_E_NOMEM, "normalizer: no memory for a string");
    if (!pattern->regex && pattern->n_text == 0)
        return clef__fail(err, CLEF_E_FORMAT, "normalizer: Replace of an empty string");
    return CLEF_OK;
}

/* ---- Unicode's forms (UAX 15). utf8proc decomposes and composes; the canonical order is ours, because utf8proc's sort is quadratic in a
 *      run of marks and the text is not ours. */

typedef struct code_points {
    int32_t *at;
    size_t n, capacity;
} code_points;

static clef_status decompose(clef_span in, utf8proc_option_t options, code_points *out, clef_error *err)
{
    for (size_t i = 0, size; i < in.n; i += size) {
        uint32_t code = 0xFFFD;
        clef__utf8_read(in.text + i, in.n - i, &code, &size);
        const int decomposes = clef__unicode_decomposes(code);
        for (;;) {
            int boundary = 0;
            const size_t room = out->capacity - out->n;
            utf8proc_ssize_t n = 0;
            if (room > 0 && !decomposes) {
                out->at[out->n++] = (int32_t)code;
                break;
            }
            if (room > 0)
                n = utf8proc_decompose_char((utf8proc_int32_t)code, out->at + out->n, (utf8proc_ssize_t)room, options, &boundary);
            if (room > 0 && n >= 0 && (size_t)n <= room) {
                out->n += (size_t)n;
                break;
            }
            const size_t capacity = out->capacity + (n > 0 ? (size_t)n : 0) + out->capacity / 2 + 64;
            int32_t *at = n >= 0 ? realloc(out->at, capacity * sizeof *at) : NULL;
            if (!at)
                return clef__fail(err, CLEF_E_NOMEM, "normalizer: no memory for %zu characters", capacity);
            out->at = at;
            out->capacity = capacity;
        }
    }
    return CLEF_OK;
}

static uint32_t combining_class(int32_t code)
{
    return code < 0x300 ? 0 : (uint32_t)utf8proc_get_property(code)->combining_class;
}

/* Stable counting sort of one run of marks; `copy` has its length. */
static void order_run(int32_t *run, size_t n, int32_t *copy)
{
    size_t start[257] = {0};
    memcpy(copy, run, n * sizeof *run);
    for (size_t i = 0; i < n; i++)
        start[(combining_class(copy[i]) & 255) + 1]++;
    for (size_t c = 0; c < 256; c++)
        start[c + 1] += start[c];
    for (size_t i = 0; i < n; i++)
        run[start[combining_class(copy[i]) & 255]++] = copy[i];
}

static clef_status order_marks(code_points *codes, clef_error *err)
{
    int32_t *copy = NULL;
    for (size_t i = 0, end; i < codes->n; i = end) {
        int sorted = 1;
        for (end = i; end < codes->n && combining_class(codes->at[end]) > 0; end++)
            sorted &= end == i || combining_class(codes->at[end - 1]) <= combining_class(codes->at[end]);
        if (!sorted && !copy)
            copy = malloc(codes->n * sizeof *copy);
        if (!sorted && !copy)
            return clef__fail(err, CLEF_E_NOMEM, "normalizer: no memory for %zu characters", codes->n);
        if (!sorted)
            order_run(codes->at + i, end - i, copy);
        end += end == i;
    }
    free(copy);
    return CLEF_OK;
}

enum { FORM_COMPOSES = 1, FORM_COMPAT = 2 };

static clef_status run_unicode(const clef_normalizer *self, clef_encoding *enc, clef_span in, clef_chars *out)
{
    size_t ascii = 0;
    while (ascii < in.n && (unsigned char)in.text[ascii] < 0x80)
        ascii++;
    if (ascii == in.n)
        return clef__chars_append(out, in.text, in.n, enc->err);
    const int composes = self->flags & FORM_COMPOSES;
    const utf8proc_option_t form = UTF8PROC_STABLE | (self->flags & FORM_COMPAT ? UTF8PROC_COMPAT : 0);
    code_points codes = {0};
    clef_status st = decompose(in, form | UTF8PROC_DECOMPOSE, &codes, enc->err);
    if (st == CLEF_OK)
        st = order_marks(&codes, enc->err);
    if (st == CLEF_OK && composes) {
        const utf8proc_ssize_t n = utf8proc_normalize_utf32(codes.at, (utf8proc_ssize_t)codes.n, form | UTF8PROC_COMPOSE);
        codes.n = n > 0 ? (size_t)n : 0;
    }
    if (st == CLEF_OK)
        st = clef__chars_reserve(out, codes.n * 4, enc->err);
    for (size_t i = 0; i < codes.n && st == CLEF_OK; i++)
        out->n += clef__utf8_write((uint32_t)codes.at[i], out->at + out->n);
    free(codes.at);
    return st;
}

clef_status clef__normalizer_unicode(clef_tokenizer *tok, clef_unicode_form form, clef_error *err)
{
    clef_normalizer *self = NULL;
    const clef_status st = clef__normalizer_next(tok, &self, err);
    if (st)
        return st;
    const int composes = form == CLEF_FORM_NFC || form == CLEF_FORM_NFKC, compat = form == CLEF_FORM_NFKC || form == CLEF_FORM_NFKD;
    *self = (clef_normalizer){.run = run_unicode, .flags = (composes ? FORM_COMPOSES : 0u) | (compat ? FORM_COMPAT : 0u)};
    return CLEF_OK;
}

/* ---- case and ends */

/* Character by character, so without the rule for final sigma; of Unicode's SpecialCasing only U+0130 lowers to two characters. */
static clef_status run_lowercase(const clef_normalizer *self, clef_encoding *enc, clef_span in, clef_chars *out)
{
    (void)self;
    for (size_t i = 0, size; i < in.n; i += size) {
        uint32_t code = 0xFFFD;
        clef__utf8_read(in.text + i, in.n - i, &code, &size);
        const clef_status st = clef__chars_reserve(out, 4, enc->err);
        if (st)
            return st;
        if (code == 0x130) {
            memcpy(out->at + out->n, "i\xCC\x87", 3);
            out->n += 3;
        } else {
            out->n += clef__utf8_write(clef__to_lower(code), out->at + out->n);
        }
    }
    return CLEF_OK;
}

clef_status clef__normalizer_lowercase(clef_tokenizer *tok, clef_error *err)
{
    clef_normalizer *self = NULL;
    const clef_status st = clef__normalizer_next(tok, &self, err);
    if (st == CLEF_OK)
        *self = (clef_normalizer){.run = run_lowercase};
    return st;
}

static clef_status run_strip(const clef_normalizer *self, clef_encoding *enc, clef_span in, clef_chars *out)
{
    size_t start = 0, end = 0;
    for (size_t i = 0, size; i < in.n; i += size) {
        uint32_t code = 0xFFFD;
        clef__utf8_read(in.text + i, in.n - i, &code, &size);
        if (!clef__is_space(code))
            end = i + size;
        else if (start == i)
            start = i + size;
    }
    if (!(self->flags & CLEF_STRIP_LEFT))
        start = 0;
    if (!(self->flags & CLEF_STRIP_RIGHT))
        end = in.n;
    return end > start ? clef__chars_append(out, in.text + start, end - start, enc->err) : CLEF_OK;
}

clef_status clef__normalizer_strip(clef_tokenizer *tok, uint32_t sides, clef_error *err)
{
    clef_normalizer *self = NULL;
    const clef_status st = clef__normalizer_next(tok, &self, err);
    if (st == CLEF_OK)
        *self = (clef_normalizer){.run = run_strip, .flags = sides};
    return st;
}

clef_status clef__normalize(clef_encoding *enc, clef_span in, clef_span *out)
{
    const clef_tokenizer *tok = enc->tok;
    for (size_t i = 0; i < tok->n_normalizers; i++) {
        clef_chars *to = &enc->normal[i % 2];
        to->n = 0;
        const clef_status st = tok->normalizers[i].run(&tok->normalizers[i], enc, in, to);
        if (st)
            return st;
        in.text = to->at ? to->at : "";
        in.n = to->n;
    }
    *out = in;
    return CLEF_OK;
}
