/* Bytes as text. GPT-2 writes bytes as printable characters (Radford et al. 2019, encoder.py,
 * bytes_to_unicode). The printable bytes of Latin-1 are written as themselves. The other 68 are written, in
 * order, as U+0100 and the characters after it. */
#include "model/tokenizer/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"

static int is_printable(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

/* The bytes that are not printable form three runs. */
enum { CONTROLS_END = 0x21, LATIN_CONTROLS = 0x7F, LATIN_CONTROLS_END = 0xA1, SOFT_HYPHEN = 0xAD };
enum {
    LATIN_CODES = 0x100 + CONTROLS_END,
    SOFT_HYPHEN_CODE = LATIN_CODES + LATIN_CONTROLS_END - LATIN_CONTROLS
};

uint32_t clef__byte_char(uint8_t byte)
{
    if (is_printable(byte))
        return byte;
    if (byte == SOFT_HYPHEN)
        return SOFT_HYPHEN_CODE;
    return byte < CONTROLS_END ? 0x100u + byte : LATIN_CODES + (uint32_t)byte - LATIN_CONTROLS;
}

int32_t clef__char_byte(uint32_t code)
{
    if (code < 0x100)
        return is_printable(code) ? (int32_t)code : -1;
    if (code >= SOFT_HYPHEN_CODE)
        return code == SOFT_HYPHEN_CODE ? SOFT_HYPHEN : -1;
    return (int32_t)code - (code < LATIN_CODES ? 0x100 : LATIN_CODES - LATIN_CONTROLS);
}

clef_status clef__byte_chars(const char *text, size_t n, clef__chars *out, clef_error *err)
{
    clef_status st = clef__chars_reserve(out, 2 * n, err); /* at most 2 bytes each: the last is U+0143 */
    for (size_t i = 0; i < n && st == CLEF_OK; i++)
        out->n += clef__utf8_write(clef__byte_char((uint8_t)text[i]), out->at + out->n);
    return st;
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

/* ---- base64 (RFC 4648, section 4) */

static int32_t base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

clef_status clef__base64(const char *text, size_t n, char **out, size_t *n_out, clef_error *err)
{
    uint32_t bits = 0;
    int n_bits = 0;
    *out = NULL;
    *n_out = 0;
    while (n > 0 && text[n - 1] == '=')
        n--;
    char *bytes = malloc(n / 4 * 3 + 4);
    if (!bytes)
        return clef__fail(err, CLEF_E_NOMEM, "base64: no memory for %zu characters", n);
    for (size_t i = 0; i < n; i++) {
        const int32_t value = base64_value(text[i]);
        if (value < 0 || n % 4 == 1) {
            free(bytes);
            return clef__fail(err, CLEF_E_FORMAT, "base64: %zu characters, of which number %zu is 0x%02X", n,
                              i, (unsigned)(uint8_t)text[i]);
        }
        bits = (bits << 6 | (uint32_t)value) & 0xFFFFFF;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[(*n_out)++] = (char)(bits >> n_bits & 0xFF);
        }
    }
    *out = bytes;
    return CLEF_OK;
}
