/* Decoders: from a token's text in the vocabulary to the bytes it stands for. They run once a token, when a tokenizer is opened. */
#include <string.h>

#include "model/tokenizer.h"
#include "model/utf8.h"

static clef_token_decoder *next_decoder(clef_tokenizer *tok)
{
    return tok->n_decoders < CLEF_MAX_TOKEN_STAGES ? &tok->decoders[tok->n_decoders++] : NULL;
}

static clef_status too_many(clef_error *err)
{
    return clef__fail(err, CLEF_E_LIMIT, "decoder: more than %d steps", CLEF_MAX_TOKEN_STAGES);
}

/* A text with a character that stands for no byte is taken as it is (an added token). */
static clef_status run_byte_level(const clef_token_decoder *self, const char *text, size_t n, clef_chars *out, clef_error *err)
{
    (void)self;
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

int32_t clef__fallback_byte(const char *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    int32_t byte = 0;
    for (int i = 3; i < 5; i++) {
        const char upper = text[i] >= 'a' && text[i] <= 'f' ? (char)(text[i] - 'a' + 'A') : text[i];
        const char *digit = upper ? strchr(digits, upper) : NULL;
        if (!digit)
            return -1;
        byte = byte * 16 + (int32_t)(digit - digits);
    }
    return byte;
}

static clef_status run_byte_fallback(const clef_token_decoder *self, const char *text, size_t n, clef_chars *out, clef_error *err)
{
    (void)self;
    const int32_t byte = clef__fallback_byte(text, n);
    const char c = (char)byte;
    return byte < 0 ? clef__chars_append(out, text, n, err) : clef__chars_append(out, &c, 1, err);
}

static clef_status run_replace(const clef_token_decoder *self, const char *text, size_t n, clef_chars *out, clef_error *err)
{
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < n && st == CLEF_OK;) {
        if (n - i >= self->n_from && memcmp(text + i, self->from, self->n_from) == 0) {
            st = clef__chars_append(out, self->to, self->n_to, err);
            i += self->n_from;
        } else {
            st = clef__chars_append(out, text + i++, 1, err);
        }
    }
    return st;
}

clef_status clef__decoder_byte_level(clef_tokenizer *tok, clef_error *err)
{
    clef_token_decoder *decoder = next_decoder(tok);
    if (!decoder)
        return too_many(err);
    decoder->run = run_byte_level;
    return CLEF_OK;
}

clef_status clef__decoder_byte_fallback(clef_tokenizer *tok, clef_error *err)
{
    clef_token_decoder *decoder = next_decoder(tok);
    if (!decoder)
        return too_many(err);
    decoder->run = run_byte_fallback;
    return CLEF_OK;
}

clef_status clef__decoder_replace(clef_tokenizer *tok, const char *from, size_t n_from, const char *to, size_t n_to, clef_error *err)
{
    clef_token_decoder *decoder = next_decoder(tok);
    if (!decoder)
        return too_many(err);
    if (n_from == 0)
        return clef__fail(err, CLEF_E_FORMAT, "decoder: Replace of an empty string");
    decoder->run = run_replace;
    decoder->from = clef__token_arena_copy(&tok->arena, from, n_from);
    decoder->n_from = n_from;
    decoder->to = clef__token_arena_copy(&tok->arena, to, n_to);
    decoder->n_to = n_to;
    return decoder->from && decoder->to ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "decoder: no memory for a string");
}

clef_status clef__decode_token(const clef_tokenizer *tok, const char *text, size_t n, clef_chars out[2], clef_error *err)
{
    out[0].n = 0;
    clef_status st = clef__chars_append(&out[0], text, n, err);
    for (size_t i = 0; i < tok->n_decoders && st == CLEF_OK; i++) {
        out[1].n = 0;
        st = tok->decoders[i].run(&tok->decoders[i], out[0].at, out[0].n, &out[1], err);
        const clef_chars swap = out[0];
        out[0] = out[1];
        out[1] = swap;
    }
    return st;
}
