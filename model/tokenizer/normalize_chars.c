/* Normalizers that treat each character by itself: BERT's, StripAccents, Nmt, ByteLevel, and the one that
 * squeezes spaces. */
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/bytes.h"
#include "model/tokenizer/stages.h"
#include "model/tokenizer/unicode.h"

/* ---- rules for one character: append it, or nothing, or a replacement */

typedef clef_status (*char_rule)(uint32_t code, const char *text, size_t n, clef__chars *out,
                                 clef_error *err);

static clef_status each_char(char_rule rule, clef__fragment in, clef__chars *out, clef_error *err)
{
    clef_status st = CLEF_OK;
    for (size_t i = 0, size; i < in.n && st == CLEF_OK; i += size) {
        uint32_t code = 0xFFFD;
        clef__utf8_read(in.text + i, in.n - i, &code, &size);
        st = rule(code, in.text + i, size, out, err);
    }
    return st;
}

static clef_status clean_char(uint32_t code, const char *text, size_t n, clef__chars *out, clef_error *err)
{
    if (code == 0 || code == 0xFFFD || clef__is_bert_control(code))
        return CLEF_OK;
    return clef__is_space(code) ? clef__chars_append(out, " ", 1, err)
                                : clef__chars_append(out, text, n, err);
}

static clef_status space_out_cjk(uint32_t code, const char *text, size_t n, clef__chars *out, clef_error *err)
{
    if (!clef__is_bert_cjk(code))
        return clef__chars_append(out, text, n, err);
    clef_status st = clef__chars_append(out, " ", 1, err);
    if (st == CLEF_OK)
        st = clef__chars_append(out, text, n, err);
    return st ? st : clef__chars_append(out, " ", 1, err);
}

static clef_status drop_nonspacing(uint32_t code, const char *text, size_t n, clef__chars *out,
                                   clef_error *err)
{
    return clef__is_nonspacing_mark(code) ? CLEF_OK : clef__chars_append(out, text, n, err);
}

static clef_status drop_marks(uint32_t code, const char *text, size_t n, clef__chars *out, clef_error *err)
{
    return clef__is_mark(code) ? CLEF_OK : clef__chars_append(out, text, n, err);
}

/* The rules of SentencePiece's "nmt" set, as in Hugging Face's tokenizers. */
static clef_status nmt_char(uint32_t code, const char *text, size_t n, clef__chars *out, clef_error *err)
{
    if ((code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
        code == 0x8F || code == 0x9F)
        return CLEF_OK;
    const int space = code == 9 || code == 10 || code == 12 || code == 13 || code == 0x1680 ||
                      (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 ||
                      code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    return space ? clef__chars_append(out, " ", 1, err) : clef__chars_append(out, text, n, err);
}

/* ---- the rules as stages */

#define STAGE(name, rule)                                                                                    \
    static clef_status name(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,            \
                            clef__chars *out)                                                                \
    {                                                                                                        \
        (void)self;                                                                                          \
        return each_char(rule, in, out, enc->err);                                                           \
    }

STAGE(run_clean, clean_char)
STAGE(run_cjk, space_out_cjk)
STAGE(run_drop_nonspacing, drop_nonspacing)
STAGE(run_drop_marks, drop_marks)
STAGE(run_nmt, nmt_char)

static clef_status run_byte_level(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                                  clef__chars *out)
{
    (void)self;
    return clef__byte_chars(in.text, in.n, out, enc->err);
}

/* Returns the length in bytes of the space that ends a text, 0 if there is none. If spaces are written as
 * U+2581 (flags), SentencePiece counts that character as a space. */
static size_t space_at_end(const clef__normalizer *self, const clef__chars *text)
{
    if (text->n > 0 && text->at[text->n - 1] == ' ')
        return 1;
    return self->flags && text->n > 2 && memcmp(text->at + text->n - 3, CLEF_META_SPACE, 3) == 0 ? 3 : 0;
}

/* Drops spaces at both ends and replaces a run of spaces by one: SentencePiece's remove_extra_whitespaces. */
static clef_status run_squeeze(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                               clef__chars *out)
{
    clef_status st = clef__chars_reserve(out, in.n, enc->err);
    for (size_t i = 0; i < in.n && st == CLEF_OK; i++)
        if (in.text[i] != ' ' || (out->n > 0 && out->at[out->n - 1] != ' '))
            out->at[out->n++] = in.text[i];
    for (size_t n; st == CLEF_OK && (n = space_at_end(self, out)) > 0;)
        out->n -= n;
    return st;
}

clef_status clef__normalizer_bert(clef__stages *stages, const clef__bert_opts *opts, clef_error *err)
{
    stages->bert = *opts;
    clef_status st =
        opts->clean ? clef__normalizer_append(stages, &(clef__normalizer){.run = run_clean}, err) : CLEF_OK;
    if (st == CLEF_OK && opts->space_cjk)
        st = clef__normalizer_append(stages, &(clef__normalizer){.run = run_cjk}, err);
    if (st == CLEF_OK && opts->strip_accents)
        st = clef__normalizer_unicode(stages, CLEF_FORM_NFD, err);
    if (st == CLEF_OK && opts->strip_accents)
        st = clef__normalizer_append(stages, &(clef__normalizer){.run = run_drop_nonspacing}, err);
    return st || !opts->lowercase ? st : clef__normalizer_lowercase(stages, err);
}

clef_status clef__normalizer_strip_accents(clef__stages *stages, clef_error *err)
{
    return clef__normalizer_append(stages, &(clef__normalizer){.run = run_drop_marks}, err);
}

clef_status clef__normalizer_nmt(clef__stages *stages, clef_error *err)
{
    return clef__normalizer_append(stages, &(clef__normalizer){.run = run_nmt}, err);
}

clef_status clef__normalizer_byte_level(clef__stages *stages, clef_error *err)
{
    return clef__normalizer_append(stages, &(clef__normalizer){.run = run_byte_level}, err);
}

clef_status clef__normalizer_squeeze(clef__stages *stages, int32_t escape, clef_error *err)
{
    return clef__normalizer_append(stages, &(clef__normalizer){.run = run_squeeze, .flags = escape != 0},
                                   err);
}
