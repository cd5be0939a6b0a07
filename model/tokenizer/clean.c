/* transformers' clean_up_tokenization(): a decoded text without the spaces that WordPiece puts before
 * punctuation and in contractions. Each rule is one replacement over the whole text, in this order. */
#include <string.h>

#include "model/tokenizer/tokenizer.h"

static const struct {
    const char *from, *to;
} rules[] = {{" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
             {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
enum { N_RULES = sizeof rules / sizeof *rules };

/* How much of a rule's text was seen last: 2 bits of the state. */
static size_t seen_of(uint32_t state, size_t rule)
{
    return state >> (2 * rule) & 3;
}

static void set_seen(uint32_t *state, size_t rule, size_t n)
{
    *state = (*state & ~(UINT32_C(3) << (2 * rule))) | (uint32_t)n << (2 * rule);
}

/* Sends n bytes of `from` through one rule. A rule's text has spaces at its ends alone, so that it can begin
 * anew only there. */
static size_t apply_rule(uint32_t *state, size_t rule, const char *from, size_t n, char *to)
{
    const char *text = rules[rule].from;
    size_t seen = seen_of(*state, rule), written = 0;
    for (size_t i = 0; i < n; i++) {
        if (from[i] == text[seen]) {
            if (text[++seen])
                continue;
            memcpy(to + written, rules[rule].to, strlen(rules[rule].to));
            written += strlen(rules[rule].to);
            seen = 0;
            continue;
        }
        memcpy(to + written, text, seen);
        written += seen;
        seen = from[i] == ' ';
        if (!seen)
            to[written++] = from[i];
    }
    set_seen(state, rule, seen);
    return written;
}

size_t clef__clean_spaces(uint32_t *state, char *text, size_t n, char *work)
{
    for (size_t rule = 0; rule < N_RULES; rule++) {
        n = apply_rule(state, rule, text, n, work);
        memcpy(text, work, n);
    }
    return n;
}

size_t clef__clean_finish(uint32_t *state, char *text, size_t n, char *work)
{
    for (size_t rule = 0; rule < N_RULES; rule++) {
        n = apply_rule(state, rule, text, n, work);
        memcpy(text, work, n);
        const size_t seen = seen_of(*state, rule);
        memcpy(text + n, rules[rule].from, seen);
        n += seen;
        set_seen(state, rule, 0);
    }
    return n;
}
