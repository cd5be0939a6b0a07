#include "text/tools/json_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/json.h"
#include "model/file/utf8.h"

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

size_t clef__json_blank(const char *text, size_t n, size_t at)
{
    while (at < n && is_blank(text[at]))
        at++;
    return at;
}

/* ---- values ----------------------------------------------------------------------------------- */

static int is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static uint32_t hex_unit(const char *digits)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++)
        unit = unit << 4 | (uint32_t)(digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 0x20) - 'a' + 10);
    return unit;
}

static size_t string_end(const char *t, size_t n, size_t at)
{
    for (at++; at < n && t[at] != '"'; at++) {
        if ((unsigned char)t[at] < 0x20)
            return 0;
        if (t[at] != '\\')
            continue;
        if (++at >= n || !strchr("\"\\/bfnrtu", t[at]) || !t[at])
            return 0;
        if (t[at] != 'u')
            continue;
        if (n - at < 5 || !is_hex(t[at + 1]) || !is_hex(t[at + 2]) || !is_hex(t[at + 3]) ||
            !is_hex(t[at + 4]))
            return 0;
        at += 4;
    }
    return at < n ? at + 1 : 0;
}

static size_t digits_end(const char *t, size_t n, size_t at)
{
    const size_t from = at;
    while (at < n && t[at] >= '0' && t[at] <= '9')
        at++;
    return at > from ? at : 0;
}

static size_t number_end(const char *t, size_t n, size_t at)
{
    at += t[at] == '-';
    if (at < n && t[at] == '0')
        at++;
    else if (!(at = digits_end(t, n, at)))
        return 0;
    if (at < n && t[at] == '.' && !(at = digits_end(t, n, at + 1)))
        return 0;
    if (at < n && (t[at] == 'e' || t[at] == 'E')) {
        at++;
        at += at < n && (t[at] == '+' || t[at] == '-');
        at = digits_end(t, n, at);
    }
    return at;
}

static size_t word_end(const char *t, size_t n, size_t at)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i]);
        if (n - at >= length && memcmp(t + at, words[i], length) == 0)
            return at + length;
    }
    return 0;
}

static size_t value_end(const char *t, size_t n, size_t at, int depth);

/* The name of a member, the colon, and white space after it. */
static size_t name_end(const char *t, size_t n, size_t at)
{
    if (at >= n || t[at] != '"' || !(at = string_end(t, n, at)))
        return 0;
    at = clef__json_blank(t, n, at);
    return at < n && t[at] == ':' ? clef__json_blank(t, n, at + 1) : 0;
}

static size_t list_end(const char *t, size_t n, size_t at, int depth)
{
    const char close = t[at] == '{' ? '}' : ']';
    at = clef__json_blank(t, n, at + 1);
    if (at < n && t[at] == close)
        return at + 1;
    for (;; at = clef__json_blank(t, n, at + 1)) {
        if (close == '}' && !(at = name_end(t, n, at)))
            return 0;
        if (!(at = value_end(t, n, at, depth)))
            return 0;
        at = clef__json_blank(t, n, at);
        if (at >= n || t[at] != ',')
            return at < n && t[at] == close ? at + 1 : 0;
    }
}

static size_t value_end(const char *t, size_t n, size_t at, int depth)
{
    if (at >= n)
        return 0;
    const char c = t[at];
    if (c == '{' || c == '[')
        return depth < CLEF_JSON_MAX_DEPTH ? list_end(t, n, at, depth + 1) : 0;
    if (c == '"')
        return string_end(t, n, at);
    return c == '-' || (c >= '0' && c <= '9') ? number_end(t, n, at) : word_end(t, n, at);
}

size_t clef__json_end(const char *text, size_t n, size_t at)
{
    return value_end(text, n, at, 0);
}

/* ---- parts of values -------------------------------------------------------------------------- */

/* From *at, or the start, to the next item: past the bracket or comma and white space. 0 at the end. */
static size_t next_item(clef__slice list, size_t at)
{
    at = clef__json_blank(list.at, list.n, at);
    if (at + 1 >= list.n)
        return 0;
    at = clef__json_blank(list.at, list.n, at + 1);
    return at + 1 < list.n ? at : 0;
}

int clef__json_item(clef__slice array, size_t *at, clef__slice *item)
{
    const size_t from = next_item(array, *at), to = from ? clef__json_end(array.at, array.n, from) : 0;
    if (!to)
        return 0;
    *item = (clef__slice){array.at + from, to - from};
    *at = to;
    return 1;
}

int clef__json_next(clef__slice object, size_t *at, clef__slice *name, clef__slice *value)
{
    const size_t from = next_item(object, *at), end = from ? string_end(object.at, object.n, from) : 0,
                 begin = end ? name_end(object.at, object.n, from) : 0,
                 to = begin ? clef__json_end(object.at, object.n, begin) : 0;
    if (!to)
        return 0;
    *name = (clef__slice){object.at + from, end - from};
    *value = (clef__slice){object.at + begin, to - begin};
    *at = to;
    return 1;
}

/* One character of a string's text at *at, as UTF-8; moves *at on. Half of a pair is U+FFFD. */
static size_t read_character(clef__slice text, size_t *at, char out[4])
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    uint32_t unit, low;
    if (text.at[*at] != '\\' || *at + 1 >= text.n) {
        *out = text.at[(*at)++];
        return 1;
    }
    const char kind = text.at[*at + 1];
    const char *known = strchr(from, kind);
    if (kind != 'u') {
        *out = known ? to[known - from] : kind;
        *at += 2;
        return 1;
    }
    unit = hex_unit(text.at + *at + 2);
    *at += 6;
    if (unit >= 0xD800 && unit < 0xDC00 && *at + 6 <= text.n && text.at[*at] == '\\' &&
        text.at[*at + 1] == 'u' && (low = hex_unit(text.at + *at + 2)) >= 0xDC00 && low < 0xE000) {
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        *at += 6;
    }
    return clef__utf8_write(unit >= 0xD800 && unit < 0xE000 ? 0xFFFD : unit, out);
}

int clef__json_string_is(clef__slice string, const char *text)
{
    const size_t length = strlen(text);
    size_t n = 0;
    if (string.n < 2 || string.at[0] != '"')
        return 0;
    const clef__slice inner = {string.at, string.n - 1};
    for (size_t at = 1; at < inner.n;) {
        char c[4];
        const size_t size = read_character(inner, &at, c);
        if (n + size > length || memcmp(text + n, c, size) != 0)
            return 0;
        n += size;
    }
    return n == length;
}

int clef__json_member(clef__slice object, const char *name, clef__slice *value)
{
    clef__slice key, each;
    int found = 0;
    for (size_t at = 0; object.n && object.at[0] == '{' && clef__json_next(object, &at, &key, &each);)
        if (clef__json_string_is(key, name)) {
            *value = each;
            found = 1;
        }
    return found;
}

clef_status clef__json_text_of(clef__slice value, char **out, clef_error *err)
{
    json_error_t why;
    *out = NULL;
    json_t *string =
        value.n && value.at[0] == '"' ? json_loadb(value.at, value.n, JSON_DECODE_ANY, &why) : NULL;
    if (!string && value.n && value.at[0] == '"' && json_error_code(&why) == json_error_out_of_memory)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a string of a tool call");
    if (!string)
        return CLEF_OK;
    const size_t n = json_string_length(string);
    *out = malloc(n + 1);
    if (*out)
        memcpy(*out, json_string_value(string), n + 1);
    json_decref(string);
    return *out ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for a string of a tool call");
}

/* ---- texts that grow -------------------------------------------------------------------------- */

int clef__json_scan_on(clef__json_scan *s, const char *text, size_t n)
{
    if (s->ended)
        return 1;
    if (!s->depth) {
        s->at = clef__json_blank(text, n, s->at);
        if (s->at < n && text[s->at] != '{' && text[s->at] != '[')
            return -1;
    }
    while (s->at < n) {
        const char c = text[s->at++];
        if (s->escaped)
            s->escaped = 0;
        else if (s->in_string && c == '\\')
            s->escaped = 1;
        else if (c == '"')
            s->in_string = !s->in_string;
        else if (!s->in_string && (c == '{' || c == '['))
            s->depth++;
        else if (!s->in_string && (c == '}' || c == ']') && --s->depth == 0) {
            s->ended = 1;
            return 1;
        }
    }
    return 0;
}
