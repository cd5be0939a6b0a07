/* Stop strings: a search for all of them at once, in a text that comes in pieces. */
#include "clef/stop.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"

typedef struct stop_text {
    char *text;
    size_t n;
    size_t *border;   /* [n + 1]: of the first i bytes, the longest proper suffix that is also a prefix */
    size_t n_matched; /* bytes at the start of `text` that the text so far ends with */
} stop_text;

struct clef_stop {
    stop_text *texts;
    int32_t n_texts, found;
    char cut[4]; /* bytes of an incomplete character */
    size_t n_cut;
    char *text; /* [capacity]: n_given bytes that the last call gave, then those held back */
    size_t n_text, n_given, capacity;
};

/* ---- making ------------------------------------------------------------------------------------ */

static void find_borders(stop_text *t)
{
    t->border[0] = t->border[1] = 0;
    for (size_t i = 1, k = 0; i < t->n; i++) {
        while (k && t->text[i] != t->text[k])
            k = t->border[k];
        k += t->text[i] == t->text[k];
        t->border[i + 1] = k;
    }
}

static clef_status copy_text(stop_text *t, const char *text, int32_t number, clef_error *err)
{
    const size_t n = text ? strlen(text) : 0;
    if (n == 0)
        return clef__fail(err, CLEF_E_ARG, "stop string %d is empty, expected a text", number);
    if (n > CLEF_MOST_STOP_BYTES)
        return clef__fail(err, CLEF_E_LIMIT, "stop string %d has %zu bytes, expected at most %d", number, n,
                          CLEF_MOST_STOP_BYTES);
    if (!clef__utf8_valid(text, n))
        return clef__fail(err, CLEF_E_ARG, "stop string %d is not UTF-8", number);
    t->text = malloc(n);
    t->border = malloc((n + 1) * sizeof *t->border);
    if (!t->text || !t->border)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for stop string %d", number);
    memcpy(t->text, text, n);
    t->n = n;
    find_borders(t);
    return CLEF_OK;
}

clef_status clef_stop_create(const char *const *texts, int32_t n, clef_stop **out, clef_error *err)
{
    *out = NULL;
    if (n < 0 || (n > 0 && !texts))
        return clef__fail(err, CLEF_E_ARG, "stop strings: expected an array of %d texts", n);
    if (n > CLEF_MOST_STOPS)
        return clef__fail(err, CLEF_E_LIMIT, "%d stop strings, expected at most %d", n, CLEF_MOST_STOPS);
    clef_stop *stop = calloc(1, sizeof *stop);
    stop_text *copies = calloc((size_t)n + 1, sizeof *copies);
    if (!stop || !copies) {
        free(stop);
        free(copies);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d stop strings", n);
    }
    stop->texts = copies;
    stop->n_texts = n;
    stop->found = -1;
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n && !s; i++)
        s = copy_text(&copies[i], texts[i], i + 1, err);
    if (s)
        clef_stop_destroy(stop);
    else
        *out = stop;
    return s;
}

void clef_stop_destroy(clef_stop *stop)
{
    if (!stop)
        return;
    for (int32_t i = 0; i < stop->n_texts; i++) {
        free(stop->texts[i].text);
        free(stop->texts[i].border);
    }
    free(stop->texts);
    free(stop->text);
    free(stop);
}

void clef_stop_reset(clef_stop *stop)
{
    for (int32_t i = 0; i < stop->n_texts; i++)
        stop->texts[i].n_matched = 0;
    stop->found = -1;
    stop->n_cut = stop->n_text = stop->n_given = 0;
}

int32_t clef_stop_found(const clef_stop *stop)
{
    return stop->found;
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* The text so far ends with `byte`. Returns 1 if it ends with all of t. */
static int match_byte(stop_text *t, char byte)
{
    size_t k = t->n_matched == t->n ? t->border[t->n] : t->n_matched;
    while (k && t->text[k] != byte)
        k = t->border[k];
    t->n_matched = k + (t->text[k] == byte);
    return t->n_matched == t->n;
}

/* Searches the bytes from `from` on. At a stop string the text ends before it. */
static void search(clef_stop *stop, size_t from)
{
    for (size_t at = from; at < stop->n_text && stop->found < 0; at++) {
        size_t longest = 0;
        for (int32_t i = 0; i < stop->n_texts; i++) {
            stop_text *t = &stop->texts[i];
            if (match_byte(t, stop->text[at]) && t->n > longest) {
                longest = t->n;
                stop->found = i;
            }
        }
        if (longest)
            stop->n_text = at + 1 - longest;
    }
}

/* The bytes at the end of the text that may begin a stop string. */
static size_t n_held(const clef_stop *stop)
{
    size_t most = 0;
    for (int32_t i = 0; i < stop->n_texts && stop->found < 0; i++)
        most = stop->texts[i].n_matched > most ? stop->texts[i].n_matched : most;
    return most;
}

/* Drops what was given, and makes room for n more bytes. */
static clef_status make_room(clef_stop *stop, size_t n, clef_error *err)
{
    const size_t held = stop->n_text - stop->n_given;
    if (n > (SIZE_MAX - held) / 2)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu bytes of text", n);
    if (held + n > stop->capacity) {
        char *text = realloc(stop->text, 2 * (held + n));
        if (!text)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu bytes of text", held + n);
        stop->text = text;
        stop->capacity = 2 * (held + n);
    }
    if (held)
        memmove(stop->text, stop->text + stop->n_given, held);
    stop->n_text = held;
    stop->n_given = 0;
    return CLEF_OK;
}

/* Appends the bytes as whole characters. The incomplete one of the last call is completed first, byte by
 * byte. */
static void append(clef_stop *stop, const char *bytes, size_t n)
{
    size_t used = 0, n_left = 0;
    while (stop->n_cut && used < n) {
        stop->cut[stop->n_cut++] = bytes[used++];
        stop->n_text += clef__utf8_repair(stop->cut, stop->n_cut, stop->text + stop->n_text, &n_left);
        memmove(stop->cut, stop->cut + stop->n_cut - n_left, n_left);
        stop->n_cut = n_left;
    }
    if (used == n)
        return;
    stop->n_text += clef__utf8_repair(bytes + used, n - used, stop->text + stop->n_text, &n_left);
    memcpy(stop->cut, bytes + n - n_left, n_left);
    stop->n_cut = n_left;
}

static clef_status begin(clef_stop *stop, size_t n, const char **text, size_t *n_text, clef_error *err)
{
    *text = "";
    *n_text = 0;
    if (n > SIZE_MAX / 8)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu bytes of text", n);
    return make_room(stop, 3 * (n + sizeof stop->cut), err); /* a byte becomes U+FFFD: three */
}

clef_status clef_stop_push(clef_stop *stop, const char *bytes, size_t n, const char **text, size_t *n_text,
                           clef_error *err)
{
    const clef_status s = begin(stop, n, text, n_text, err);
    if (s || stop->found >= 0)
        return s;
    const size_t from = stop->n_text;
    if (n)
        append(stop, bytes, n);
    search(stop, from);
    *text = stop->text;
    *n_text = stop->n_given = stop->n_text - n_held(stop);
    return CLEF_OK;
}

clef_status clef_stop_finish(clef_stop *stop, const char **text, size_t *n_text, clef_error *err)
{
    const clef_status s = begin(stop, 0, text, n_text, err);
    if (s || stop->found >= 0)
        return s;
    const size_t from = stop->n_text;
    stop->n_text += clef__utf8_repair(stop->cut, stop->n_cut, stop->text + from, NULL);
    stop->n_cut = 0;
    search(stop, from);
    *text = stop->text;
    *n_text = stop->n_given = stop->n_text;
    return CLEF_OK;
}
