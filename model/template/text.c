/* Text as characters: where they begin, white space, case, searching. */
#include <string.h>
#include <utf8proc.h>

#include "model/template/engine.h"

size_t clef__char_bytes(const char *p, size_t left)
{
    const unsigned char c = (unsigned char)*p;
    const size_t n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    return n < left ? n : left;
}

int32_t clef__codepoint(const char *p, size_t left)
{
    utf8proc_int32_t c = 0xFFFD;
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)left, &c);
    return n > 0 ? c : 0xFFFD;
}

size_t clef__n_chars(const clef__str *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += ((unsigned char)s->p[i] & 0xC0) != 0x80;
    return n;
}

size_t clef__char_at(const clef__str *s, size_t i)
{
    size_t at = 0;
    while (at < s->n) {
        if (((unsigned char)s->p[at] & 0xC0) != 0x80 && i-- == 0)
            return at;
        at++;
    }
    return at;
}

int clef__tpl_is_space(int32_t c)
{
    if ((c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85)
        return 1;
    return c >= 0x80 && (utf8proc_category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029);
}

int64_t clef__find_bytes(const clef__str *in, const clef__str *what, size_t from)
{
    if (what->n == 0)
        return from <= in->n ? (int64_t)from : -1;
    while (from + what->n <= in->n) {
        const char *next = memchr(in->p + from, what->p[0], in->n - what->n - from + 1);
        if (!next)
            return -1;
        from = (size_t)(next - in->p);
        if (memcmp(next, what->p, what->n) == 0)
            return (int64_t)from;
        from++;
    }
    return -1;
}

static int is_among(const clef__str *s, size_t at, size_t n, const clef__str *chars)
{
    if (!chars)
        return clef__tpl_is_space(clef__codepoint(s->p + at, n));
    for (size_t i = 0, m; i < chars->n; i += m) {
        m = clef__char_bytes(chars->p + i, chars->n - i);
        if (m == n && memcmp(chars->p + i, s->p + at, n) == 0)
            return 1;
    }
    return 0;
}

clef__str *clef__strip(clef__tpl *t, const clef__str *s, const clef__str *chars, int left, int right)
{
    size_t from = 0, to = s->n, n;
    while (left && from < to && is_among(s, from, n = clef__char_bytes(s->p + from, to - from), chars))
        from += n;
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)s->p[at] & 0xC0) == 0x80)
            at--;
        if (!is_among(s, at, to - at, chars))
            break;
        to = at;
    }
    return clef__str_part(t, s, from, to);
}

clef__str *clef__change_case(clef__tpl *t, const clef__str *s, int how)
{
    clef__out o = {0};
    int is_first = 1;
    for (size_t at = 0, n; at < s->n && !t->status; at += n) {
        char text[4];
        n = clef__char_bytes(s->p + at, s->n - at);
        const int32_t c = clef__codepoint(s->p + at, s->n - at);
        const utf8proc_int32_t upper = utf8proc_toupper(c), lower = utf8proc_tolower(c);
        int32_t to = how == 'u' || ((how == 'c' || how == 't') && is_first) ? upper : lower;
        if (how == 's')
            to = c == lower ? upper : lower;
        is_first = how == 't' && upper == lower; /* title: after what has no case */
        if (c == 0xDF && to != c) {              /* the German sharp s becomes two letters */
            clef__out_add(t, &o, how == 'u' || how == 's' ? "SS" : "Ss", 2, clef__mark_at(s, at));
            continue;
        }
        if (c == 0x130 && to != c) { /* I with a dot becomes i and a dot above */
            clef__out_add(t, &o, "i\xCC\x87", 3, clef__mark_at(s, at));
            continue;
        }
        const size_t length = (size_t)utf8proc_encode_char(to, (utf8proc_uint8_t *)text);
        clef__out_add(t, &o, text, length, clef__mark_at(s, at));
    }
    return clef__out_value(t, &o).s;
}

clef__str *clef__replace(clef__tpl *t, const clef__str *s, const clef__str *from, const clef__str *to,
                         int64_t most)
{
    clef__out o = {0};
    size_t at = 0;
    while (most != 0 && at <= s->n && !t->status) {
        const int64_t found = clef__find_bytes(s, from, at);
        if (found < 0)
            break;
        clef__out_part(t, &o, s, at, (size_t)found);
        clef__out_str(t, &o, to);
        at = (size_t)found + from->n;
        most--;
        if (from->n == 0) { /* between all characters */
            const size_t n = at < s->n ? clef__char_bytes(s->p + at, s->n - at) : 0;
            clef__out_part(t, &o, s, at, at + n);
            at += n;
            if (n == 0)
                break;
        }
    }
    if (at < s->n)
        clef__out_part(t, &o, s, at, s->n);
    return clef__out_value(t, &o).s;
}
