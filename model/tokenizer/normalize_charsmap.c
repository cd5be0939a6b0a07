/* SentencePiece's precompiled charsmap: a double-array trie (Aoe 1989, in the units of the Darts-clone
 * library) maps strings to offsets into a block of NUL-terminated replacements. Layout, all little-endian:
 * u32 size of the trie in bytes, its u32 units, the replacements. */
#include <string.h>
#include <utf8proc.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/stages.h"
#include "model/tokenizer/unicode.h"

static uint32_t read_u32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* A unit's bits are: 0-7 label, 8 "has a value", 9 "offset times 256", 10-30 offset. A unit with
 * bit 31 set is a value. */
static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & 0x200) >> 6);
}

/* Finds the shortest or the longest key that text begins with. Returns its length in bytes, 0 for none.
 * *value is the offset of its replacement. */
static size_t find_prefix(const clef__charsmap *map, const char *text, size_t n, int longest, uint32_t *value)
{
    size_t found = 0, node;
    if (map->n_units == 0)
        return 0;
    node = unit_offset(read_u32(map->units));
    for (size_t i = 0; i < n && text[i]; i++) {
        node ^= (unsigned char)text[i];
        if (node >= map->n_units)
            break;
        const uint32_t unit = read_u32(map->units + 4 * node);
        if ((unit & 0x800000FFu) != (unsigned char)text[i])
            break;
        node ^= unit_offset(unit);
        if (!(unit >> 8 & 1))
            continue;
        if (node >= map->n_units)
            break;
        *value = read_u32(map->units + 4 * node) & 0x7FFFFFFFu;
        found = i + 1;
        if (!longest)
            break;
    }
    return found;
}

static clef_status append_text(const clef__charsmap *map, uint32_t at, clef__chars *out, clef_error *err)
{
    return at < map->n_texts ? clef__chars_append(out, map->texts + at, strlen(map->texts + at), err)
                             : CLEF_OK;
}

/* ---- as SentencePiece does it: the longest key at each place */

static clef_status run_longest(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                               clef__chars *out)
{
    clef_status st = CLEF_OK;
    for (size_t i = 0, size; i < in.n && st == CLEF_OK; i += size) {
        uint32_t value = 0;
        size = find_prefix(&self->map, in.text + i, in.n - i, 1, &value);
        if (size > 0) {
            st = append_text(&self->map, value, out, enc->err);
        } else {
            size = clef__utf8_size(in.text[i]);
            st = clef__chars_append(out, in.text + i, size, enc->err);
        }
    }
    return st;
}

/* ---- as Hugging Face's tokenizers does it: if a key begins a grapheme of less than 6 bytes, the shortest
 * key's replacement replaces the whole grapheme; otherwise each character is looked up alone */

static size_t grapheme_size(const char *text, size_t n)
{
    uint32_t before = 0, code = 0;
    utf8proc_int32_t state = 0;
    size_t size, at = 0;
    clef__utf8_read(text, n, &before, &at);
    before = clef__unicode_grapheme_class(before);
    while (at < n) {
        clef__utf8_read(text + at, n - at, &code, &size);
        code = clef__unicode_grapheme_class(code);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)code, &state))
            break;
        before = code;
        at += size;
    }
    return at;
}

static clef_status run_graphemes(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                                 clef__chars *out)
{
    clef_status st = CLEF_OK;
    uint32_t value = 0;
    for (size_t i = 0, size; i < in.n && st == CLEF_OK; i += size) {
        size = grapheme_size(in.text + i, in.n - i);
        if (size < 6 && find_prefix(&self->map, in.text + i, size, 0, &value)) {
            st = append_text(&self->map, value, out, enc->err);
            continue;
        }
        for (size_t k = i, n_char; k < i + size && st == CLEF_OK; k += n_char) {
            n_char = clef__utf8_size(in.text[k]);
            if (find_prefix(&self->map, in.text + k, n_char, 0, &value))
                st = append_text(&self->map, value, out, enc->err);
            else
                st = clef__chars_append(out, in.text + k, n_char, enc->err);
        }
    }
    return st;
}

clef_status clef__normalizer_charsmap(clef__stages *stages, const char *data, size_t n,
                                      clef__charsmap_use use, clef_error *err)
{
    if (n == 0)
        return CLEF_OK;
    const size_t n_trie = n >= 4 ? read_u32(data) : 0;
    if (n < 4 || n_trie > n - 4 || n_trie % 4)
        return clef__fail(
            err, CLEF_E_FORMAT,
            "normalizer: a charsmap of %zu bytes has a trie of %zu, expected 4 bytes less or fewer", n,
            n_trie);
    const char *copy = clef__text_arena_copy(&stages->texts, data + 4, n - 4); /* the copy ends with a NUL */
    if (!copy)
        return clef__fail(err, CLEF_E_NOMEM, "normalizer: no memory for a charsmap of %zu bytes", n);
    const clef__charsmap map = {
        .units = copy, .n_units = n_trie / 4, .texts = copy + n_trie, .n_texts = n - 4 - n_trie};
    return clef__normalizer_append(
        stages,
        &(clef__normalizer){.run = use == CLEF_CHARSMAP_LONGEST ? run_longest : run_graphemes, .map = map},
        err);
}
