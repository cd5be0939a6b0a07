/* UTF-8: reading, repairing, and classes of characters. */
#include "model/file/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* Well-formed sequences by first byte: size, and the range of the second byte (Unicode 15, table 3-7). */
static size_t sequence_size(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    if (first < 0xE0)
        return 2;
    if (first == 0xE0)
        *low = 0xA0;
    if (first == 0xED)
        *high = 0x9F;
    if (first == 0xF0)
        *low = 0x90;
    if (first == 0xF4)
        *high = 0x8F;
    return first < 0xF0 ? 3 : 4;
}

clef__utf8 clef__utf8_read(const char *text, size_t n, uint32_t *code, size_t *n_bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char low, high;
    const size_t size = sequence_size(at[0], &low, &high);
    *n_bytes = 1;
    if (size == 0)
        return CLEF_UTF8_BAD;
    if (size == 1) {
        *code = at[0];
        return CLEF_UTF8_OK;
    }
    uint32_t value = at[0] & (0xFFu >> (size + 1));
    for (size_t i = 1; i < size; i++, low = 0x80, high = 0xBF) {
        *n_bytes = i;
        if (i == n)
            return CLEF_UTF8_CUT;
        if (at[i] < low || at[i] > high)
            return CLEF_UTF8_BAD;
        value = value << 6 | (at[i] & 0x3Fu);
    }
    *n_bytes = size;
    *code = value;
    return CLEF_UTF8_OK;
}

size_t clef__utf8_size(char first)
{
    const unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

size_t clef__utf8_write(uint32_t code, char *out)
{
    const utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
    return n > 0 ? (size_t)n : 0;
}

size_t clef__utf8_repair(const char *text, size_t n, char *out, size_t *n_left)
{
    size_t written = 0;
    if (n_left)
        *n_left = 0;
    for (size_t i = 0, size; i < n; i += size) {
        uint32_t code;
        const clef__utf8 what = clef__utf8_read(text + i, n - i, &code, &size);
        if (what == CLEF_UTF8_CUT && n_left) {
            *n_left = size;
            break;
        }
        const size_t n_out = what == CLEF_UTF8_OK ? size : 3;
        if (out)
            memcpy(out + written, what == CLEF_UTF8_OK ? text + i : "\xEF\xBF\xBD", n_out);
        written += n_out;
    }
    return written;
}

int clef__utf8_valid(const char *text, size_t n)
{
    for (size_t i = 0, size; i < n; i += size) {
        uint32_t code;
        if (clef__utf8_read(text + i, n - i, &code, &size) != CLEF_UTF8_OK)
            return 0;
    }
    return 1;
}

int clef__is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= 9 && code <= 13);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}
