/* Normalizers change the text before it is cut into pieces. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/stages.h"
#include "model/tokenizer/unicode.h"

/* ---- prepend and replace */

static clef_status run_prepend(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                               clef__chars *out)
{
    const clef_status st = in.n > 0 ? clef__chars_append(out, self->text, self->n_text, enc->err) : CLEF_OK;
    return st ? st : clef__chars_append(out, in.text, in.n, enc->err);
}

clef_status clef__normalizer_prepend(clef__stages *stages, const char *text, size_t n, clef_error *err)
{
    return clef__normalizer_append(stages, &(clef__normalizer){.run = run_prepend, .text = text, .n_text = n},
                                   err);
}

static clef_status run_replace(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                               clef__chars *out)
{
    clef__pattern_walk walk = {0};
    size_t done = 0, start, end;
    for (;;) {
        int found;
        clef_status st = clef__pattern_next(&self->pattern, &enc->regex, in.text, in.n, &walk, &start, &end,
                                            &found, enc->err);
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

clef_status clef__normalizer_replace(clef__stages *stages, const clef__pattern *pattern, const char *text,
                                     size_t n, clef_error *err)
{
    if (!pattern->regex && pattern->n_text == 0)
        return clef__fail(err, CLEF_E_FORMAT, "normalizer: Replace of an empty string");
    return clef__normalizer_append(
        stages, &(clef__normalizer){.run = run_replace, .pattern = *pattern, .text = text, .n_text = n}, err);
}

/* ---- Unicode's normalization forms (UAX 15). utf8proc decomposes single characters and composes pairs. The
 * canonical order and the composition of a text are implemented here, for two reasons. utf8proc's sort takes
 * quadratic time in a run of marks, and utf8proc knows newer marks than Hugging Face's normalizers do
 * (model/tokenizer/unicode.h). */

typedef struct code_points {
    int32_t *at;
    size_t n, capacity;
} code_points;

static clef_status decompose_text(clef__fragment in, utf8proc_option_t options, code_points *out,
                                  clef_error *err)
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
                n = utf8proc_decompose_char((utf8proc_int32_t)code, out->at + out->n, (utf8proc_ssize_t)room,
                                            options, &boundary);
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
    if (code < 0x300 || clef__unicode_is_newer_mark((uint32_t)code))
        return 0;
    return (uint32_t)utf8proc_get_property(code)->combining_class;
}

/* Sorts one run of combining marks by class, with a stable counting sort. `copy` has room for the run. */
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

/* Returns the composition of two characters, 0 if there is none. No character below 0x300 composes with one
 * before it. */
static int32_t compose_pair(int32_t first, int32_t second)
{
    utf8proc_int32_t pair[2] = {first, second};
    if (second < 0x300 || utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) != 1)
        return 0;
    return clef__unicode_decomposes((uint32_t)pair[0]) ? pair[0] : 0;
}

/* Composes the text in place (UAX 15). A character composes with the last starter (class 0), unless a
 * character of the same class or a higher one is between them. */
static void compose_text(code_points *codes)
{
    size_t n = 0, starter = SIZE_MAX;
    uint32_t class_before = 0;
    for (size_t i = 0; i < codes->n; i++) {
        const int32_t code = codes->at[i];
        const uint32_t class = combining_class(code);
        const int adjacent = starter != SIZE_MAX && starter + 1 == n;
        const int32_t both = adjacent || (starter != SIZE_MAX && class_before < class)
                                 ? compose_pair(codes->at[starter], code)
                                 : 0;
        if (both) {
            codes->at[starter] = both;
            continue;
        }
        if (class == 0)
            starter = n;
        class_before = class;
        codes->at[n++] = code;
    }
    codes->n = n;
}

enum { FORM_COMPOSES = 1, FORM_COMPAT = 2 };

static clef_status run_unicode(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                               clef__chars *out)
{
    size_t ascii = 0;
    while (ascii < in.n && (unsigned char)in.text[ascii] < 0x80)
        ascii++;
    if (ascii == in.n)
        return clef__chars_append(out, in.text, in.n, enc->err);
    const int composes = self->flags & FORM_COMPOSES;
    const utf8proc_option_t form = UTF8PROC_STABLE | (self->flags & FORM_COMPAT ? UTF8PROC_COMPAT : 0);
    code_points codes = {0};
    clef_status st = decompose_text(in, form | UTF8PROC_DECOMPOSE, &codes, enc->err);
    if (st == CLEF_OK)
        st = order_marks(&codes, enc->err);
    if (st == CLEF_OK && composes)
        compose_text(&codes);
    if (st == CLEF_OK)
        st = clef__chars_reserve(out, codes.n * 4, enc->err);
    for (size_t i = 0; i < codes.n && st == CLEF_OK; i++)
        out->n += clef__utf8_write((uint32_t)codes.at[i], out->at + out->n);
    free(codes.at);
    return st;
}

clef_status clef__normalizer_unicode(clef__stages *stages, clef__unicode_form form, clef_error *err)
{
    const uint32_t composes = form == CLEF_FORM_NFC || form == CLEF_FORM_NFKC ? FORM_COMPOSES : 0;
    const uint32_t compat = form == CLEF_FORM_NFKC || form == CLEF_FORM_NFKD ? FORM_COMPAT : 0;
    return clef__normalizer_append(stages,
                                   &(clef__normalizer){.run = run_unicode, .flags = composes | compat}, err);
}

/* ---- case and ends */

/* Lowercases each character by itself, without the rule for a final sigma. Only U+0130 becomes two
 * characters, as in Unicode's SpecialCasing. */
static clef_status run_lowercase(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                                 clef__chars *out)
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

clef_status clef__normalizer_lowercase(clef__stages *stages, clef_error *err)
{
    return clef__normalizer_append(stages, &(clef__normalizer){.run = run_lowercase}, err);
}

static clef_status run_strip(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                             clef__chars *out)
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

clef_status clef__normalizer_strip(clef__stages *stages, uint32_t sides, clef_error *err)
{
    return clef__normalizer_append(stages, &(clef__normalizer){.run = run_strip, .flags = sides}, err);
}
