/* DRY: how long a repetition each token would continue. */
#include <string.h>

#include "model/session/sampler_chain.h"

static int has_bit(const uint32_t *bits, int32_t i)
{
    return bits && bits[i / 32] >> (i % 32) & 1;
}

/* Whether a breaker ends with the last of n tokens. */
static int is_broken(const clef__dry_breakers *b, const int32_t *text, int32_t n)
{
    const int32_t last = text[n - 1];
    if (has_bit(b->singly, last))
        return 1;
    if (!has_bit(b->ends, last))
        return 0;
    for (int32_t i = 0, length; i < b->n_many; i += length + 1) {
        const int32_t *ids = b->many + i;
        for (length = 0; ids[length] >= 0;)
            length++;
        if (length <= n && memcmp(ids, text + n - length, (size_t)length * sizeof *ids) == 0)
            return 1;
    }
    return 0;
}

void clef__dry_lengths(clef__sampler_chain *c)
{
    const int32_t last_n = c->opts->dry_last_n, n = last_n > 0 && last_n < c->n_text ? last_n : c->n_text;
    const int32_t *text = c->text + c->n_text - n;
    int32_t *z = c->lengths, limit = 0;
    memset(c->room, 0, (size_t)c->n_vocab * sizeof *c->room);
    while (limit < n && !is_broken(c->breakers, text, n - limit))
        limit++;
    if (limit < c->opts->dry_allowed_length)
        return;
    /* The Z algorithm (Gusfield 1997) on the reversed text: z[k] tokens before the k last ones are the same
     * as the last. [left, right) is the match that reaches farthest back */
    for (int32_t k = 1, left = 0, right = 0; k < n; k++) {
        int32_t m = 0;
        if (k < right)
            m = z[k - left] < right - k ? z[k - left] : right - k;
        while (k + m < n && text[n - 1 - m] == text[n - 1 - k - m])
            m++;
        z[k] = m;
        if (k + m > right) {
            left = k;
            right = k + m;
        }
        const int32_t follows = text[n - k], length = m < limit ? m : limit;
        if (length > c->room[follows])
            c->room[follows] = length;
    }
}
