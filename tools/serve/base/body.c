/* Reads the body of a request. */
#include "tools/serve/base/body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"

/* What values take in memory, about: jansson's structs, and what malloc() adds. */
enum {
    NUMBER_BYTES = 32,
    STRING_BYTES = 96,
    LIST_BYTES = 144,
    ITEM_BYTES = 16,
    OBJECT_BYTES = 288,
    MEMBER_BYTES = 128
};

enum { MOST_DEPTH = 1024, MOST_NAME = 128 };

typedef struct reader {
    char *text;
    size_t n, at;
    const serve_body_opts *opts;
    serve_error *error;
    int builds; /* 0: checks and counts only */
    int drops;  /* within a member that is not wanted */
    int32_t depth;
    size_t n_bytes; /* of memory, so far */
    /* The last string without its escapes: where it is in the text when values are made, and before as
     * much as a name has */
    char *string, name[MOST_NAME];
    size_t n_string, room;
    serve_body *out;
} reader;

/* ---- errors ---------------------------------------------------------------------------------- */

static int bad(reader *r, const char *what)
{
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < r->at && i < r->n; i++)
        if (r->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    return serve_fail(r->error, SERVE_E_INVALID_JSON, NULL, "the body is not JSON: line %zu, column %zu: %s",
                      line, r->at - begin + 1, what);
}

static int no_memory(reader *r)
{
    return serve_fail(r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

static void count(reader *r, size_t n_bytes)
{
    if (!r->drops)
        r->n_bytes += n_bytes;
}

static int makes(const reader *r)
{
    return r->builds && !r->drops;
}

/* 1 if there was memory for the value. */
static int made(reader *r, json_t *value)
{
    return !makes(r) || value ? 1 : no_memory(r);
}

/* ---- strings --------------------------------------------------------------------------------- */

static void skip_blanks(reader *r)
{
    while (r->at < r->n && strchr(" \t\r\n", r->text[r->at]) && r->text[r->at])
        r->at++;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The four digits at `at`; -1: there are none. */
static int32_t read_hex(const reader *r, size_t at)
{
    int32_t code = 0;
    for (size_t i = at; i < at + 4; i++) {
        const int digit = i < r->n ? hex_digit(r->text[i]) : -1;
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

static void put_bytes(reader *r, const char *bytes, size_t n)
{
    if (r->n_string + n < r->room)
        memmove(r->string + r->n_string, bytes, n);
    r->n_string += n;
}

static void put(reader *r, uint32_t code)
{
    char to[4];
    size_t n = 0;
    if (code < 0x80)
        to[n++] = (char)code;
    else if (code < 0x800)
        to[n++] = (char)(0xC0 | code >> 6);
    else if (code < 0x10000)
        to[n++] = (char)(0xE0 | code >> 12);
    else
        to[n++] = (char)(0xF0 | code >> 18);
    if (code >= 0x10000)
        to[n++] = (char)(0x80 | (code >> 12 & 63));
    if (code >= 0x800)
        to[n++] = (char)(0x80 | (code >> 6 & 63));
    if (code >= 0x80)
        to[n++] = (char)(0x80 | (code & 63));
    put_bytes(r, to, n);
}

/* \uXXXX, or two of them that are one character. Clients cut texts within a pair: a half is U+FFFD. */
static int read_unicode(reader *r)
{
    const int32_t first = read_hex(r, r->at + 2);
    if (first < 0)
        return bad(r, "\\u without four hexadecimal digits");
    r->at += 6;
    if (first < 0xD800 || first > 0xDFFF) {
        put(r, (uint32_t)first);
        return 1;
    }
    const int is_pair =
        first < 0xDC00 && r->at + 1 < r->n && r->text[r->at] == '\\' && r->text[r->at + 1] == 'u';
    const int32_t second = is_pair ? read_hex(r, r->at + 2) : -1;
    if (second >= 0xDC00 && second <= 0xDFFF) {
        r->at += 6;
        put(r, 0x10000 + ((uint32_t)(first - 0xD800) << 10) + (uint32_t)(second - 0xDC00));
    } else
        put(r, 0xFFFD);
    return 1;
}

static int read_escape(reader *r)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char c = r->at + 1 < r->n ? r->text[r->at + 1] : '\0';
    const char *found = c ? strchr(letters, c) : NULL;
    if (c == 'u')
        return read_unicode(r);
    if (!found)
        return bad(r, "an escape that JSON does not have");
    put(r, (unsigned char)meanings[found - letters]);
    r->at += 2;
    return 1;
}

/* The string at the reader, into r->string. It never grows, so that it can take the place of what was read.
 */
static int read_string(reader *r)
{
    r->string = r->builds ? r->text + r->at + 1 : r->name;
    r->room = r->builds ? SIZE_MAX : sizeof r->name;
    r->n_string = 0;
    for (r->at++; r->at < r->n && r->text[r->at] != '"';) {
        const unsigned char c = (unsigned char)r->text[r->at];
        if (c == '\\') {
            if (!read_escape(r))
                return 0;
        } else if (c < 0x20)
            return bad(r, "a control character in a string, which JSON writes as an escape");
        else {
            const size_t n = c < 0x80 ? 1 : (size_t)cli_utf8_length(r->text + r->at);
            if (!n)
                return bad(r, "a byte that is not UTF-8");
            put_bytes(r, r->text + r->at, n);
            r->at += n;
        }
    }
    if (r->at >= r->n)
        return bad(r, "a string without an end");
    r->at++;
    return 1;
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static size_t skip_digits(reader *r)
{
    const size_t from = r->at;
    while (r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9')
        r->at++;
    return r->at - from;
}

static int is_at(const reader *r, const char *letters)
{
    return r->at < r->n && r->text[r->at] && strchr(letters, r->text[r->at]);
}

/* Checks a number's form; *is_integer: it has neither fraction nor exponent. */
static int skip_number(reader *r, int *is_integer)
{
    *is_integer = 1;
    r->at += (size_t)is_at(r, "-");
    const int zero = is_at(r, "0");
    const size_t n = skip_digits(r);
    if (!n || (zero && n > 1))
        return bad(r, "expected a value");
    if (is_at(r, ".")) {
        *is_integer = 0;
        r->at++;
        if (!skip_digits(r))
            return bad(r, "a fraction without digits");
    }
    if (is_at(r, "eE")) {
        *is_integer = 0;
        r->at++;
        r->at += (size_t)is_at(r, "+-");
        if (!skip_digits(r))
            return bad(r, "an exponent without digits");
    }
    return 1;
}

static json_t *make_number(reader *r, const char *text, int is_integer)
{
    char *end;
    errno = 0;
    const long long small = is_integer ? strtoll(text, &end, 10) : 0;
    if (is_integer && !errno)
        return json_integer(small);
    errno = 0;
    const unsigned long long large = is_integer && *text != '-' ? strtoull(text, &end, 10) : 0;
    json_t *value = json_real(strtod(text, NULL));
    if (value == r->out->large) /* the memory of a value that a later one of the same name replaced */
        r->out->large = NULL;
    if (large && !errno && r->depth == 1) {
        r->out->large = value;
        r->out->large_value = large;
    }
    return value;
}

static int read_number(reader *r, json_t **out)
{
    const size_t from = r->at;
    int is_integer;
    if (!skip_number(r, &is_integer))
        return 0;
    if (strtod(r->text + from, NULL) - strtod(r->text + from, NULL) != 0) { /* infinite */
        r->at = from;
        return bad(r, "a number beyond the range of 64-bit floating point");
    }
    count(r, NUMBER_BYTES);
    *out = makes(r) ? make_number(r, r->text + from, is_integer) : NULL;
    return made(r, *out);
}

static int read_word(reader *r, json_t **out)
{
    static const char *const words[] = {"true", "false", "null"};
    json_t *const values[] = {json_true(), json_false(), json_null()};
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if (r->n - r->at < n || memcmp(r->text + r->at, words[i], n) != 0)
            continue;
        r->at += n;
        *out = values[i];
        return 1;
    }
    return bad(r, r->at >= r->n ? "it ends within a value" : "expected a value");
}

/* ---- lists and objects ----------------------------------------------------------------------- */

static int read_value(reader *r, json_t **out);

/* After an item: 1 for a comma, 0 for the end, -1 after an error. */
static int read_comma(reader *r, char end)
{
    skip_blanks(r);
    const char c = r->at < r->n ? r->text[r->at] : '\0';
    if (c != ',' && c != end)
        return bad(r, end == ']' ? "expected , or ]" : "expected , or }") - 1;
    r->at++;
    return c == ',';
}

/* Past the bracket; 1 if the other one follows at once. */
static int is_empty(reader *r, char end)
{
    r->at++;
    skip_blanks(r);
    const int empty = r->at < r->n && r->text[r->at] == end;
    r->at += (size_t)empty;
    return empty;
}

static int read_list(reader *r, json_t **out)
{
    int more = !is_empty(r, ']');
    count(r, LIST_BYTES);
    *out = makes(r) ? json_array() : NULL;
    if (!made(r, *out))
        return 0;
    while (more > 0) {
        json_t *item = NULL;
        if (!read_value(r, &item))
            return 0;
        count(r, ITEM_BYTES);
        if (makes(r) && json_array_append_new(*out, item) != 0)
            return no_memory(r);
        more = read_comma(r, ']');
    }
    return more == 0;
}

/* The name of a member, and its colon. One that is too long is nobody's. */
static int read_name(reader *r)
{
    skip_blanks(r);
    if (!is_at(r, "\""))
        return bad(r, "expected the name of a member");
    if (!read_string(r))
        return 0;
    const size_t n = r->n_string < r->room ? r->n_string : 0;
    if (memchr(r->string, '\0', n))
        return bad(r, "the name of a member has \\u0000");
    r->string[n] = '\0';
    skip_blanks(r);
    if (!is_at(r, ":"))
        return bad(r, "expected :");
    r->at++;
    return 1;
}

static int read_member(reader *r, json_t *object)
{
    json_t *value = NULL;
    if (!read_name(r))
        return 0;
    const char *name = r->string; /* while values are made: it is in the text */
    const int leaves = r->depth == 1 && r->opts->wants && !r->opts->wants(r->opts->user, name);
    r->drops += leaves;
    count(r, MEMBER_BYTES + r->n_string);
    const int ok = read_value(r, &value);
    r->drops -= leaves;
    if (!ok || !makes(r))
        return ok;
    if (!leaves)
        return json_object_set_new_nocheck(object, name, value) == 0 ? 1 : no_memory(r);
    if (!json_is_null(value))
        r->opts->leaves(r->opts->user, name);
    return 1;
}

static int read_object(reader *r, json_t **out)
{
    int more = !is_empty(r, '}');
    count(r, OBJECT_BYTES);
    *out = makes(r) ? json_object() : NULL;
    if (!made(r, *out))
        return 0;
    while (more > 0)
        more = read_member(r, *out) ? read_comma(r, '}') : -1;
    return more == 0;
}

/* After an error *out is what was made so far; the list or object that it is in has not got it yet. */
static int read_nested(reader *r, json_t **out)
{
    if (r->depth == MOST_DEPTH)
        return bad(r, "brackets nest deeper than 1024");
    r->depth++;
    const int ok = r->text[r->at] == '{' ? read_object(r, out) : read_list(r, out);
    r->depth--;
    if (!ok) {
        json_decref(*out);
        *out = NULL;
    }
    return ok;
}

static int read_value(reader *r, json_t **out)
{
    skip_blanks(r);
    const char c = r->at < r->n ? r->text[r->at] : '\0';
    if (c == '{' || c == '[')
        return read_nested(r, out);
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r, out);
    if (c != '"')
        return read_word(r, out);
    if (!read_string(r))
        return 0;
    count(r, STRING_BYTES + r->n_string);
    *out = makes(r) ? json_stringn_nocheck(r->string, r->n_string) : NULL;
    return made(r, *out);
}

static int read_all(reader *r, json_t **out)
{
    skip_blanks(r);
    const char first = r->at < r->n ? r->text[r->at] : ' ', wanted = r->opts->is_list ? '[' : '{';
    if (first != wanted && strchr("{[\"-0123456789tfn", first))
        return serve_fail(r->error, SERVE_E_INVALID_JSON, NULL, "the body: expected a JSON %s",
                          r->opts->is_list ? "list" : "object");
    if (!read_value(r, out))
        return 0;
    skip_blanks(r);
    return r->at == r->n
               ? 1
               : bad(r, r->opts->is_list ? "more after the list's end" : "more after the object's end");
}

int serve_body_read(char *text, size_t n, const serve_body_opts *opts, serve_body *out, serve_error *error)
{
    reader r = {.text = text, .n = n, .opts = opts, .error = error, .out = out};
    json_t *none = NULL;
    *out = (serve_body){.root = NULL};
    if (!read_all(&r, &none) || !opts->hold(opts->user, r.n_bytes))
        return 0;
    r.at = 0;
    r.builds = 1;
    return read_all(&r, &out->root);
}

static int hold_all(void *user, size_t n_bytes)
{
    (void)user;
    (void)n_bytes;
    return 1;
}

json_t *serve_body_object(const char *text, size_t n)
{
    const serve_body_opts opts = {.hold = hold_all};
    char *own = malloc(n + 1);
    serve_body body = {.root = NULL};
    serve_error none = {.id = SERVE_OK};
    if (own) {
        memcpy(own, text, n);
        own[n] = '\0';
        if (!serve_body_read(own, n, &opts, &body, &none)) {
            json_decref(body.root);
            body.root = NULL;
        }
    }
    free(own);
    return body.root;
}

/* ---- one member ------------------------------------------------------------------------------ */

/* The end of a string that begins at `at`: after its closing quote, or n. */
static size_t end_of_string(const char *text, size_t n, size_t at)
{
    for (at++; at < n && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < n ? at + 1 : n;
}

static void copy_text(const char *text, size_t n, char *out, size_t room)
{
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY, NULL);
    const size_t size = json_string_length(value);
    const int fits =
        size < room && !memchr(json_string_value(value) ? json_string_value(value) : "", 0, size);
    memcpy(out, fits && size ? json_string_value(value) : "", fits ? size : 0);
    out[fits ? size : 0] = '\0';
    json_decref(value);
}

void serve_body_text(const char *text, size_t n, const char *name, char *out, size_t room)
{
    const size_t n_name = strlen(name);
    int depth = 0, is_key = 0, is_wanted = 0; /* is_key: a string here is the name of a member of the body */
    out[0] = '\0';
    for (size_t at = 0; at < n;) {
        const char c = text[at];
        if (c != '"') {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            is_key = depth == 1 && (c == '{' || c == ',' || (is_key && c != ':'));
            is_wanted &= c == ':' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
            at++;
            continue;
        }
        const size_t end = end_of_string(text, n, at);
        if (is_wanted)
            copy_text(text + at, end - at, out, room);
        is_wanted = is_key && end - at == n_name + 2 && !memcmp(text + at + 1, name, n_name);
        is_key = 0;
        at = end;
    }
}
