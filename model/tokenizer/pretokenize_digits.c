/* Digits in groups of three from the right: "1234567" becomes 1 234 567. The regexes for this look ahead to
 * the number's end at every step, which takes quadratic time. They are recognised by their text and
 * replaced by a linear function. */
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/stages.h"
#include "model/tokenizer/unicode.h"

/* Cuts one text into pieces, in order. */
typedef struct cutter {
    clef__encoding *enc;
    size_t index, done;
    clef__fragment in;
} cutter;

static clef_status cut_at(cutter *c, size_t at)
{
    const clef__fragment piece = clef__fragment_part(c->in, c->done, at);
    c->done = at;
    return clef__pretokenize(c->enc, c->index + 1, piece);
}

/* The word characters of \b: Oniguruma leaves out the joiners and includes Latin-1's fractions and
 * superscripts. */
static int is_regex_word(uint32_t code)
{
    const int is_latin_number =
        code == 0xB2 || code == 0xB3 || code == 0xB9 || (code >= 0xBC && code <= 0xBE);
    return is_latin_number || (clef__is_word(code) && code != 0x200C && code != 0x200D);
}

/* Returns the end of the run of digits at `at`, with their count, and whether a word character follows. */
static size_t measure_run(clef__fragment in, size_t at, size_t *n_digits, int *word_follows)
{
    *word_follows = 0;
    for (*n_digits = 0; at < in.n; ++*n_digits) {
        uint32_t code = 0xFFFD;
        size_t size;
        clef__utf8_read(in.text + at, in.n - at, &code, &size);
        if (!clef__is_digit(code)) {
            *word_follows = is_regex_word(code);
            break;
        }
        at += size;
    }
    return at;
}

/* flags 1: a number is separated from the text around it, but a number that a word character follows is not
 * cut. */
static clef_status run_thousands(const clef__pretokenizer *self, clef__encoding *enc, size_t index,
                                 clef__fragment in)
{
    cutter c = {.enc = enc, .index = index, .in = in};
    const int bounded = (int)self->flags;
    clef_status st = CLEF_OK;
    for (size_t i = 0, end; i < in.n && st == CLEF_OK; i = end) {
        size_t n_digits;
        int word_follows;
        end = measure_run(in, i, &n_digits, &word_follows);
        if (n_digits == 0)
            end = i + clef__utf8_size(in.text[i]);
        if (bounded && word_follows)
            continue;
        for (size_t k = 0, at = i; k < n_digits && st == CLEF_OK; k++) {
            if ((n_digits - k) % 3 == 0 || (bounded && k == 0))
                st = cut_at(&c, at);
            at += clef__utf8_size(in.text[at]);
        }
        if (bounded && n_digits > 0 && st == CLEF_OK)
            st = cut_at(&c, end);
    }
    return st ? st : cut_at(&c, in.n);
}

int clef__pretokenizer_thousands(clef__stages *stages, const char *regex, clef__split_behavior behavior,
                                 clef_status *st, clef_error *err)
{
    static const char bounded[] = "\\d{1,3}(?=(?:\\d{3})*\\b)", unbounded[] = "(?=(\\d{3})+(?!\\d))";
    const int is_bounded = strcmp(regex, bounded) == 0;
    if (behavior != CLEF_SPLIT_ISOLATED || (!is_bounded && strcmp(regex, unbounded) != 0))
        return 0;
    *st = clef__pretokenizer_append(
        stages, &(clef__pretokenizer){.run = run_thousands, .flags = (uint32_t)is_bounded}, err);
    return 1;
}
