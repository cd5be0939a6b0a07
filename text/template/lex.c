/* From source to tokens, as Jinja does it with trim_blocks and lstrip_blocks: a line end behind a block is
 * dropped, and so are blanks between the start of a line and a block. "-" strips all white space on its
 * side, "+" keeps it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/template/engine.h"

typedef struct lexer {
    clef__tpl *t;
    const char *p;
    size_t n, at;
    int32_t line, line_starts; /* the last token ended with a line end */
    clef__tokens *out;
} lexer;

static void add_token(lexer *x, clef__token_kind kind, clef__value value, int32_t op)
{
    clef__tokens *tokens = x->out;
    if (x->t->status)
        return;
    if (tokens->n == tokens->cap) {
        const size_t cap = 2 * tokens->cap + 64;
        clef__token *at = clef__tpl_alloc(x->t, cap * sizeof *at);
        if (!at)
            return;
        if (tokens->n)
            memcpy(at, tokens->at, tokens->n * sizeof *at);
        tokens->at = at;
        tokens->cap = cap;
    }
    tokens->at[tokens->n++] = (clef__token){.kind = kind, .line = x->line, .op = op, .value = value};
}

static void fail(lexer *x, const char *what)
{
    x->t->line = x->line;
    clef__tpl_fail(x->t, CLEF_E_FORMAT, "%s", what);
}

static int looks_at(const lexer *x, const char *what)
{
    const size_t n = strlen(what);
    return x->n - x->at >= n && memcmp(x->p + x->at, what, n) == 0;
}

static void move(lexer *x, size_t n)
{
    for (; n; n--)
        x->line += x->p[x->at++] == '\n';
}

static size_t space_before(const char *p, size_t from, size_t to)
{
    clef__str s = {.p = p + from, .n = to - from};
    while (s.n) {
        size_t at = s.n - 1;
        while (at && ((unsigned char)s.p[at] & 0xC0) == 0x80)
            at--;
        if (!clef__tpl_is_space(clef__codepoint(s.p + at, s.n - at)))
            break;
        s.n = at;
    }
    return from + s.n;
}

static void skip_space(lexer *x)
{
    while (x->at < x->n && clef__tpl_is_space(clef__codepoint(x->p + x->at, x->n - x->at)))
        move(x, clef__char_bytes(x->p + x->at, x->n - x->at));
}

/* The text before a tag at x->at, which began at `from`; `sign` is the character behind the tag's
 * opening. */
static void add_text(lexer *x, size_t from, int is_output, char sign)
{
    size_t to = x->at;
    if (sign == '-') {
        to = space_before(x->p, from, to);
    } else if (sign != '+' && !is_output) {
        size_t begin = to;
        while (begin > from && x->p[begin - 1] != '\n')
            begin--;
        const int at_line_start = begin > from || x->line_starts;
        if (at_line_start && space_before(x->p, begin, to) == begin)
            to = begin;
    }
    if (to > from)
        add_token(x, CLEF__T_TEXT, clef__text_value(x->t, x->p + from, to - from, 0), 0);
}

/* ---- expressions ------------------------------------------------------------------------------ */

static int is_name_char(int c, int first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9') ||
           c >= 0x80;
}

static int hex_of(const char *p, int n, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        const char *digits = "0123456789abcdef", *d = p[i] ? strchr(digits, p[i] | 0x20) : NULL;
        if (!d || (p[i] < '0'))
            return 0;
        *out = *out * 16 + (unsigned)(d - digits);
    }
    return 1;
}

/* \N{NAME}: the character of this name. */
static size_t name_escape(lexer *x, const char *p, size_t left, char *out, size_t *n)
{
    const char *close = left > 2 && p[1] == '{' ? memchr(p, '}', left) : NULL;
    char why[120];
    if (!close) {
        fail(x, "'\\N' without '{NAME}'");
        return 0;
    }
    const int length = (int)(close - p) - 2;
    const int32_t c = clef__char_named(p + 2, (size_t)length);
    if (c < 0) {
        snprintf(why, sizeof why, "the character name '%.*s' is not known", length > 60 ? 60 : length, p + 2);
        fail(x, why);
        return 0;
    }
    *n = (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)out);
    return (size_t)(close - p) + 1;
}

/* One escape of Python's; `p` is behind the backslash. Returns the bytes read, 0 for none: the backslash
 * stays. */
static size_t escape(lexer *x, const char *p, size_t left, char *out, size_t *n)
{
    static const char from[] = "nrtabfv0\\'\"", to[] = "\n\r\t\a\b\f\v\0\\'\"";
    unsigned c = 0;
    size_t used = 1;
    if (*p == '\n') {
        *n = 0;
        return 1;
    }
    if (*p >= '0' && *p <= '7') {
        for (used = 0; used < 3 && used < left && p[used] >= '0' && p[used] <= '7'; used++)
            c = c * 8 + (unsigned)(p[used] - '0');
    } else if (*p == 'N') {
        return name_escape(x, p, left, out, n);
    } else if ((unsigned char)*p >= 0x80) { /* Jinja writes it as \\xe9 first, and the backslash stays */
        const unsigned code = (unsigned)clef__codepoint(p, left);
        *n = (size_t)sprintf(out, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
        return clef__char_bytes(p, left);
    } else if (*p == 'x' || *p == 'u' || *p == 'U') {
        const int digits = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;
        if (left <= (size_t)digits || !hex_of(p + 1, digits, &c) || c > 0x10FFFF ||
            (c >= 0xD800 && c < 0xE000)) {
            fail(x, "a string has an escape that is not a character");
            return 0;
        }
        used = (size_t)digits + 1;
    } else {
        const char *known = strchr(from, *p);
        if (!known || !*p)
            return 0;
        out[0] = to[known - from];
        *n = 1;
        return 1;
    }
    *n = (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
    return used;
}

static void lex_string(lexer *x)
{
    const char quote = x->p[x->at];
    const size_t from = x->at + 1;
    size_t to = from, n = 0;
    while (to < x->n && x->p[to] != quote)
        to += x->p[to] == '\\' ? 2 : 1;
    if (to >= x->n) {
        fail(x, "a string without its end");
        return;
    }
    char *text = clef__tpl_alloc(x->t, 3 * (to - from) + 16); /* \\e9 of two bytes is the longest to grow */
    for (size_t i = from; i < to && text && !x->t->status;) {
        size_t length, used;
        if (x->p[i] == '\\' && i + 1 < to &&
            (used = escape(x, x->p + i + 1, to - i - 1, text + n, &length)) > 0) {
            n += length;
            i += used + 1;
        } else {
            text[n++] = x->p[i++];
        }
    }
    add_token(x, CLEF__T_STRING, clef__text_value(x->t, text ? text : "", n, 0), 0);
    move(x, to + 1 - x->at);
}

static int is_digit_of(char c, int base)
{
    const char low = (char)(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 99;
    return digit < base;
}

/* Digits with single underscores between them, from `at` on; to out without them. Returns the place behind.
 */
static size_t read_digits(const lexer *x, size_t at, int base, char *out, size_t *n, size_t cap)
{
    for (; at < x->n && *n < cap; at++) {
        const int is_between = x->p[at] == '_' && *n && at + 1 < x->n && is_digit_of(x->p[at - 1], base) &&
                               is_digit_of(x->p[at + 1], base);
        if (is_between)
            continue;
        if (!is_digit_of(x->p[at], base))
            break;
        out[(*n)++] = x->p[at];
    }
    return at;
}

static void add_int(lexer *x, const char *digits, size_t n, int base)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(digits, &end, base);
    if (errno == 0 && value <= (unsigned long long)INT64_MAX) {
        add_token(x, CLEF__T_INT, clef__int((int64_t)value), 0);
        return;
    }
    if (base != 10) {
        fail(x, "an integer beyond 64 bits");
        return;
    }
    char *copy = clef__tpl_alloc(x->t, n);
    if (copy)
        add_token(x, CLEF__T_INT,
                  (clef__value){.kind = CLEF__BIG, .s = clef__str_of(x->t, memcpy(copy, digits, n), n, 0)},
                  0);
}

/* A fraction and an exponent. Returns the place behind, or `at` where there are none. */
static size_t read_fraction(const lexer *x, size_t at, char *out, size_t *n, size_t cap)
{
    size_t behind = at, kept = *n;
    if (at + 1 < x->n && x->p[at] == '.' && is_digit_of(x->p[at + 1], 10) && *n + 1 < cap) {
        out[(*n)++] = '.';
        at = behind = read_digits(x, at + 1, 10, out, n, cap);
        kept = *n;
    }
    if (at + 1 < x->n && (x->p[at] | 0x20) == 'e' && *n + 2 < cap) {
        size_t from = at + 1;
        out[(*n)++] = 'e';
        if (x->p[from] == '+' || x->p[from] == '-')
            out[(*n)++] = x->p[from++];
        if (from < x->n && is_digit_of(x->p[from], 10)) {
            behind = read_digits(x, from, 10, out, n, cap);
            kept = *n;
        }
    }
    *n = kept;
    return behind;
}

/* Jinja's numbers: 10, 0x1f, 1_000, 1.5e3. An integer with a zero before it is two numbers, which no
 * expression has; so is one with an underscore at its end. */
static void lex_number(lexer *x)
{
    char text[400];
    const char letter = (char)(x->at + 1 < x->n ? x->p[x->at + 1] | 0x20 : 0);
    int base = x->p[x->at] != '0' ? 10 : letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    size_t n = 0, at;
    if (base != 10) {
        const size_t from = x->at + 2 + (x->at + 2 < x->n && x->p[x->at + 2] == '_');
        at = read_digits(x, from, base, text, &n, sizeof text - 1);
        text[n] = '\0';
        if (n)
            add_int(x, text, n, base);
        else
            fail(x, "a number that is malformed or too long");
        x->at = at;
        return;
    }
    const int after_dot = x->at && x->p[x->at - 1] == '.'; /* a.0.1 has no floats */
    at = read_digits(x, x->at, 10, text, &n, sizeof text - 1);
    size_t behind = after_dot ? at : read_fraction(x, at, text, &n, sizeof text - 1);
    text[n] = '\0';
    if (n >= sizeof text - 1 || (behind < x->n && x->p[behind] == '_'))
        fail(x, "a number that is malformed or too long");
    else if (behind > at)
        add_token(x, CLEF__T_FLOAT, clef__float(strtod(text, NULL)), 0);
    else if (text[0] == '0' && strspn(text, "0") < n)
        fail(x, "an integer that begins with 0");
    else
        add_int(x, text, n, 10);
    x->at = behind;
}

static void lex_operator(lexer *x)
{
    static const char *const two[] = {"**", "//", "==", "!=", "<=", ">="};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (looks_at(x, two[i])) {
            add_token(x, CLEF__T_OP, clef__undefined, two[i][0] | two[i][1] << 8);
            x->at += 2;
            return;
        }
    if (!x->p[x->at] || !strchr("+-*/%~()[]{}<>=.:|,;", x->p[x->at])) {
        fail(x, "a character that no expression has");
        return;
    }
    add_token(x, CLEF__T_OP, clef__undefined, x->p[x->at]);
    x->at++;
}

/* Tokens up to the closing tag, "%}" or "}}". Brackets have to be closed first: "}}" may end two dicts. */
static void lex_inside(lexer *x, int is_output)
{
    const char *const close = is_output ? "}}" : "%}";
    int depth = 0;
    for (;;) {
        while (x->at < x->n && strchr(" \t\n\r\f\v", x->p[x->at]) && x->p[x->at])
            move(x, 1);
        if (x->t->status)
            return;
        if (x->at >= x->n) {
            fail(x, is_output ? "'{{' without '}}'" : "'{%' without '%}'");
            return;
        }
        const char c = x->p[x->at];
        const int has_sign = (c == '-' || (c == '+' && !is_output)) && x->n - x->at > 2 &&
                             memcmp(x->p + x->at + 1, close, 2) == 0;
        if (depth == 0 && (has_sign || looks_at(x, close))) {
            add_token(x, is_output ? CLEF__T_OUTPUT_END : CLEF__T_BLOCK_END, clef__undefined, 0);
            move(x, has_sign ? 3 : 2);
            x->line_starts = 0;
            if (has_sign && c == '-') {
                const size_t from = x->at;
                skip_space(x);
                x->line_starts = x->at > from && x->p[x->at - 1] == '\n';
            } else if (!has_sign && !is_output && x->at < x->n && x->p[x->at] == '\n') {
                move(x, 1);
                x->line_starts = 1;
            }
            return;
        }
        if (is_name_char((unsigned char)c, 1)) {
            const size_t from = x->at;
            while (x->at < x->n && is_name_char((unsigned char)x->p[x->at], 0))
                x->at++;
            add_token(x, CLEF__T_NAME, clef__text_value(x->t, x->p + from, x->at - from, 0), 0);
        } else if (c >= '0' && c <= '9') {
            lex_number(x);
        } else if (c == '"' || c == '\'') {
            lex_string(x);
        } else {
            depth += strchr("([{", c) ? 1 : strchr(")]}", c) ? -1 : 0;
            lex_operator(x);
        }
    }
}

/* ---- text ------------------------------------------------------------------------------------- */

/* Skips a comment, whose opening is at x->at. */
static void skip_comment(lexer *x)
{
    const int32_t line = x->line;
    move(x, 2);
    if (x->at < x->n && (x->p[x->at] == '-' || x->p[x->at] == '+'))
        move(x, 1);
    const size_t begin = x->at;
    while (x->at < x->n && !looks_at(x, "#}"))
        move(x, 1);
    if (x->at >= x->n) {
        x->line = line;
        fail(x, "'{#' without '#}'");
        return;
    }
    const char sign = (char)(x->at > begin ? x->p[x->at - 1] : 0);
    move(x, 2);
    x->line_starts = 0;
    if (sign == '-') {
        const size_t from = x->at;
        skip_space(x);
        x->line_starts = x->at > from && x->p[x->at - 1] == '\n';
    } else if (sign != '+' && x->at < x->n && x->p[x->at] == '\n') {
        move(x, 1);
        x->line_starts = 1;
    }
}

/* Whether `{% word %}` is at x->at, with any signs. Sets where it ends, and the signs at both ends. */
static int is_tag(const lexer *x, const char *word, size_t *end, char *first, char *last)
{
    size_t at = x->at + 2;
    const size_t n = strlen(word);
    if (!looks_at(x, "{%"))
        return 0;
    *first = at < x->n ? x->p[at] : 0;
    at += *first == '-' || *first == '+';
    while (at < x->n && strchr(" \t\n\r", x->p[at]) && x->p[at])
        at++;
    if (x->n - at < n || memcmp(x->p + at, word, n) != 0)
        return 0;
    at += n;
    while (at < x->n && strchr(" \t\n\r", x->p[at]) && x->p[at])
        at++;
    *last = at < x->n ? x->p[at] : 0;
    at += *last == '-' || *last == '+';
    if (x->n - at < 2 || memcmp(x->p + at, "%}", 2) != 0)
        return 0;
    *end = at + 2;
    return 1;
}

/* Text between {% raw %} and {% endraw %}. Returns 1 when it was there. */
static int lex_raw(lexer *x, size_t text_from)
{
    size_t end;
    char first, last;
    if (!is_tag(x, "raw", &end, &first, &last) || last == '+')
        return 0;
    add_text(x, text_from, 0, first);
    move(x, end - x->at);
    x->line_starts = 0;
    if (last == '-')
        skip_space(x);
    const size_t from = x->at;
    while (x->at < x->n && !is_tag(x, "endraw", &end, &first, &last))
        move(x, 1);
    if (x->at >= x->n) {
        if (from == x->n) /* with nothing behind it, Jinja lets it pass */
            return 1;
        fail(x, "'{% raw %}' without '{% endraw %}'");
        return 1;
    }
    add_text(x, from, 0, first);
    move(x, end - x->at);
    x->line_starts = 0;
    if (last == '-')
        skip_space(x);
    else if (last != '+' && x->at < x->n && x->p[x->at] == '\n') {
        move(x, 1);
        x->line_starts = 1;
    }
    return 1;
}

/* Line ends become "\n", and one at the end of the source is dropped. */
static char *with_plain_lines(clef__tpl *t, const char *source, size_t n, size_t *out_n)
{
    char *copy = clef__tpl_alloc(t, n + 1);
    *out_n = 0;
    for (size_t i = 0; i < n && copy; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n')
            continue;
        copy[(*out_n)++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (*out_n && copy[*out_n - 1] == '\n')
        --*out_n;
    return copy;
}

void clef__tpl_lex(clef__tpl *t, const char *source, size_t n, clef__tokens *out)
{
    lexer x = {.t = t, .line = 1, .line_starts = 1, .out = out};
    x.p = with_plain_lines(t, source, n, &x.n);
    size_t from = 0;
    while (x.at < x.n && !t->status) {
        if (x.p[x.at] != '{' || x.at + 1 >= x.n || !strchr("{%#", x.p[x.at + 1])) {
            move(&x, 1);
            continue;
        }
        if (lex_raw(&x, from)) {
            from = x.at;
            continue;
        }
        const char kind = x.p[x.at + 1], sign = x.at + 2 < x.n ? x.p[x.at + 2] : 0;
        add_text(&x, from, kind == '{', sign);
        if (kind == '#') {
            skip_comment(&x);
        } else {
            add_token(&x, kind == '{' ? CLEF__T_OUTPUT : CLEF__T_BLOCK, clef__undefined, 0);
            move(&x, sign == '-' || sign == '+' ? 3 : 2);
            lex_inside(&x, kind == '{');
        }
        from = x.at;
    }
    if (!t->status && x.at > from)
        add_token(&x, CLEF__T_TEXT, clef__text_value(t, x.p + from, x.at - from, 0), 0);
    add_token(&x, CLEF__T_END, clef__undefined, 0);
}
