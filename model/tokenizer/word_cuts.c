/* Records which characters are adjacent in a vocabulary's tokens. */
#include "model/tokenizer/word_cuts.h"

#include <stdlib.h>

#include "graph/fail.h"
#include "model/file/utf8.h"

enum { HASH_BITS = 10 };

static size_t bit_of(const char *text, size_t n, size_t at)
{
    uint32_t code = 0xFFFD;
    size_t size;
    clef__utf8_read(text + at, n - at, &code, &size);
    return (size_t)(uint8_t)text[at - 1] << HASH_BITS | (code * 0x9E3779B1u) >> (32 - HASH_BITS);
}

clef_status clef__word_cuts_start(clef__word_cuts *cuts, clef_error *err)
{
    cuts->bits = calloc((size_t)256 << HASH_BITS >> 3, 1);
    return cuts->bits ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "BPE: no memory for the cuts of long words");
}

void clef__word_cuts_learn(clef__word_cuts *cuts, const char *text, size_t n)
{
    for (size_t at = n > 0 ? clef__utf8_size(text[0]) : 0; at < n; at += clef__utf8_size(text[at])) {
        const size_t bit = bit_of(text, n, at);
        cuts->bits[bit >> 3] |= (uint8_t)(1u << (bit & 7));
    }
}

int clef__word_cuts_at(const clef__word_cuts *cuts, const char *text, size_t n, size_t at)
{
    const size_t bit = bit_of(text, n, at);
    return !(cuts->bits[bit >> 3] >> (bit & 7) & 1);
}

void clef__word_cuts_finish(clef__word_cuts *cuts)
{
    free(cuts->bits);
    *cuts = (clef__word_cuts){0};
}
