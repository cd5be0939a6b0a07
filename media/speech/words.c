/* Divides a segment's tokens into words as transformers does (tokenization_whisper.py,
 * _combine_tokens_into_words): at spaces, with punctuation beside its word; in languages without spaces at
 * characters. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "media/speech/speech.h"

static const char before_words[] = "\"'“¡¿([{-", after_words[] = "\"'.。,，!！?？:：”)]}、",
                  punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/* Tokens of a segment and their text; text NULL: it was joined to another. */
typedef struct piece {
    int32_t from, to;
    char *text;
} piece;

static char *joined(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    char *out = malloc(n + m + 1);
    if (out) {
        memcpy(out, a, n);
        memcpy(out + n, b, m + 1);
    }
    return out;
}

/* Joins b, which follows a, to it. Returns 0 without memory. */
static int join(piece *a, piece *b, piece *into)
{
    char *text = joined(a->text, b->text);
    const int32_t from = a->from, to = b->to;
    if (!text)
        return 0;
    free(a->text);
    free(b->text);
    a->text = b->text = NULL;
    *into = (piece){from, to, text};
    return 1;
}

/* 1 if the text without the spaces around it is a part of `set`. */
static int is_in(const char *text, const char *set)
{
    char inner[16];
    while (*text == ' ')
        text++;
    size_t n = strlen(text);
    while (n && text[n - 1] == ' ')
        n--;
    if (n >= sizeof inner)
        return 0;
    memcpy(inner, text, n);
    inner[n] = 0;
    return strstr(set, inner) != NULL;
}

/* How many bytes the last character of a text lacks after further bytes; it lacked `lacks` before. */
static int lacks_after(int lacks, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        const int continues = c >= 0x80 && c < 0xc0;
        lacks = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : continues && lacks ? lacks - 1 : 0;
    }
    return lacks;
}

/* ---- pieces ------------------------------------------------------------------------------------- */

static int is_text(const clef_transcriber *t, int32_t id)
{
    return id < t->tokens.end;
}

/* The tokens of whole characters, as many pieces as there are. Returns -1 on an error. */
static int32_t characters(const clef_transcriber *t, const clef_segment *g, piece *out, clef_error *err)
{
    int32_t n = 0, from = -1;
    int lacks = 0;
    for (int32_t i = 0; i < g->n_ids; i++) {
        size_t n_bytes = 0;
        const char *bytes = is_text(t, g->ids[i]) ? clef_tokenizer_bytes(t->tok, g->ids[i], &n_bytes) : NULL;
        if (from < 0 && is_text(t, g->ids[i]))
            from = i;
        const int is_last = i + 1 == g->n_ids || !is_text(t, g->ids[i + 1]);
        if (bytes)
            lacks = lacks_after(lacks, bytes, n_bytes);
        if (from < 0 || (!is_last && lacks))
            continue;
        out[n] = (piece){from, i + 1, NULL};
        if (clef__speech_text(t, g->ids + from, i + 1 - from, &out[n].text, err))
            return -1;
        n++;
        from = -1;
        lacks = 0;
    }
    return n;
}

/* Joins pieces that continue a word. */
static int join_words(piece *p, int32_t n)
{
    int32_t word = -1;
    for (int32_t i = 0; i < n; i++) {
        if (word < 0 || p[i].text[0] == ' ' || is_in(p[i].text, punctuation))
            word = i;
        else if (!join(&p[word], &p[i], &p[word]))
            return 0;
    }
    return 1;
}

static int32_t next(const piece *p, int32_t n, int32_t i, int32_t step)
{
    for (i += step; i >= 0 && i < n; i += step)
        if (p[i].text)
            return i;
    return -1;
}

static int join_punctuation(piece *p, int32_t n)
{
    int32_t word = next(p, n, n, -1);
    for (int32_t i = next(p, n, word, -1); i >= 0; i = next(p, n, i, -1)) {
        if (p[i].text[0] != ' ' || !is_in(p[i].text, before_words))
            word = i;
        else if (!join(&p[i], &p[word], &p[word]))
            return 0;
    }
    word = next(p, n, -1, 1);
    for (int32_t i = word < 0 ? -1 : next(p, n, word, 1); i >= 0; i = next(p, n, i, 1)) {
        const size_t length = strlen(p[word].text);
        const int ends_in_space = length && p[word].text[length - 1] == ' ';
        if (ends_in_space || !strstr(after_words, p[i].text))
            word = i;
        else if (!join(&p[word], &p[i], &p[word]))
            return 0;
    }
    return 1;
}

static int has_spaces(const char *language)
{
    static const char *const without[] = {"zh", "ja", "th", "lo", "my", "yue"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strcmp(without[i], language) == 0)
            return 0;
    return 1;
}

clef_status clef__segment_words(const clef_transcriber *t, const char *language, const double *times,
                                double offset, clef_segment *g, clef_error *err)
{
    piece *p = calloc((size_t)g->n_ids + 1, sizeof *p);
    g->words = calloc((size_t)g->n_ids + 1, sizeof *g->words);
    clef_status s =
        p && g->words ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for %d words", (int)g->n_ids);
    const int32_t n = s ? 0 : characters(t, g, p, err);
    if (n < 0)
        s = err ? err->status : CLEF_E_NOMEM;
    if (!s && ((has_spaces(language) && !join_words(p, n)) || !join_punctuation(p, n)))
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for %d words", (int)n);
    for (int32_t i = 0; i < n && !s; i++)
        if (p[i].text) {
            const int32_t before = p[i].from ? p[i].from - 1 : 0; /* a timestamp, or the word before */
            g->words[g->n_words++] =
                (clef_word){p[i].text, offset + times[before], offset + times[p[i].to - 1]};
            p[i].text = NULL;
        }
    for (int32_t i = 0; p && i < g->n_ids; i++)
        free(p[i].text);
    free(p);
    return s;
}
