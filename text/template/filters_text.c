/* Filters that lay out a text for people: sizes of files, lines, HTML. */
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "text/template/filters.h"

clef__value clef__filter_filesizeformat(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("filesizeformat", "binary");
    static const char *const units[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                            {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    const int binary = clef__is_true(a[0]);
    const clef__value number =
        clef__filter_float(t, self, &(clef__args){.at = &(clef__value){.kind = CLEF__NONE}, .n = 1});
    const double base = binary ? 1024 : 1000;
    char *text = clef__tpl_alloc(t, 400);
    if (!t->status && number.kind != CLEF__FLOAT)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "filesizeformat: expected a number, got '%s'",
                              clef__kind_name(self));
    if (!text)
        return clef__undefined;
    double unit = base * base;
    int i = 0;
    if (number.f == 1)
        return clef__string(t, "1 Byte");
    if (number.f < base)
        return clef__text_value(t, text, (size_t)snprintf(text, 400, "%.0f Bytes", (double)(int64_t)number.f),
                                0);
    for (; number.f >= unit && i < 7; i++)
        unit *= base;
    const int n = snprintf(text, 400, "%.1f %s", base * number.f / unit, units[binary][i]);
    return clef__text_value(t, text, (size_t)n, 0);
}

/* ---- lines ------------------------------------------------------------------------------------ */

typedef struct wrapping {
    int64_t width;
    int breaks_words;
    const clef__str *by;
} wrapping;

static int is_blank_at(const clef__str *s, size_t at)
{
    return s->p[at] && strchr("\t\n\v\f\r ", s->p[at]) != NULL;
}

static int64_t chars_of(const clef__str *s, size_t from, size_t to)
{
    const clef__str part = {.p = s->p + from, .n = to - from};
    return (int64_t)clef__n_chars(&part);
}

/* The end of the blanks or of the word at `at`. */
static size_t chunk_end(const clef__str *s, size_t at)
{
    const int blank = is_blank_at(s, at);
    while (at < s->n && is_blank_at(s, at) == blank)
        at++;
    return at;
}

/* As Python's textwrap: words that fit a line, without the blanks between two lines. */
static void wrap_line(clef__tpl *t, clef__out *o, const clef__str *s, const wrapping *w)
{
    int n_lines = 0;
    for (size_t at = 0; at < s->n && clef__tpl_step(t, 1);) {
        int64_t n = 0;
        if (n_lines && is_blank_at(s, at))
            at = chunk_end(s, at);
        const size_t from = at;
        size_t last = at; /* where the last piece of the line begins */
        while (at < s->n) {
            const size_t end = chunk_end(s, at);
            const int64_t length = chars_of(s, at, end);
            if (n + length > w->width) {
                if (length > w->width && w->breaks_words) {
                    const int64_t room = w->width < 1 ? 1 : w->width - n;
                    const clef__str rest = {.p = s->p + at, .n = s->n - at};
                    last = at;
                    at += clef__char_at(&rest, (size_t)(room > 0 ? room : 0));
                } else if (at == from) {
                    at = end; /* a word that is longer than a line */
                }
                break;
            }
            n += length;
            last = at;
            at = end;
        }
        const size_t to = last < at && is_blank_at(s, last) ? last : at;
        if (to > from) {
            if (n_lines++)
                clef__out_str(t, o, w->by);
            clef__out_part(t, o, s, from, to);
        }
    }
}

clef__value clef__filter_wordwrap(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("wordwrap", "width break_long_words wrapstring break_on_hyphens");
    const clef__str key = {.p = "splitlines", .n = 10};
    const char *name;
    const wrapping w = {.width = clef__int_arg(t, a[0], 79, "wordwrap"),
                        .breaks_words = a[1].kind == CLEF__UNDEFINED || clef__is_true(a[1]),
                        .by = clef__is_true(a[2]) ? clef__to_str(t, a[2]) : clef__str_of(t, "\n", 1, 0)};
    const int at_hyphens = a[3].kind == CLEF__UNDEFINED || clef__is_true(a[3]);
    clef__out o = {0};
    if (self.kind != CLEF__STRING || w.width < 1)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "wordwrap: expected a string and a width from 1 on, got '%s'",
                              clef__kind_name(self));
    if (at_hyphens && memchr(self.s->p, '-', self.s->n))
        return clef__tpl_fail(t, CLEF_E_UNSUPPORTED, "wordwrap: breaking at hyphens is not supported");
    const clef__value lines = clef__find_method(CLEF__STRING, &key, &name)(t, self, &(clef__args){0});
    for (size_t i = 0; !t->status && i < lines.l->n; i++) {
        if (i)
            clef__out_str(t, &o, w.by);
        wrap_line(t, &o, lines.l->at[i].s, &w);
    }
    return clef__out_value(t, &o);
}

/* ---- HTML ------------------------------------------------------------------------------------- */

clef__value clef__filter_xmlattr(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("xmlattr", "autospace");
    const int spaced = a[0].kind == CLEF__UNDEFINED || clef__is_true(a[0]);
    clef__out o = {0};
    if (self.kind != CLEF__DICT)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "xmlattr: expected a dict, got '%s'", clef__kind_name(self));
    for (size_t i = 0; i < self.d->n && !t->status; i++) {
        const clef__value key = self.d->keys[i], value = self.d->values[i];
        if (value.kind == CLEF__NONE || value.kind == CLEF__UNDEFINED)
            continue;
        if (key.kind != CLEF__STRING)
            return clef__tpl_fail(t, CLEF_E_FORMAT, "xmlattr: a name that is not a string");
        for (size_t at = 0; at < key.s->n; at += clef__char_bytes(key.s->p + at, key.s->n - at))
            if ((key.s->p[at] && strchr("/>=", key.s->p[at])) ||
                clef__tpl_is_space(clef__codepoint(key.s->p + at, key.s->n - at)))
                return clef__tpl_fail(t, CLEF_E_FORMAT, "xmlattr: a name with a blank, '/', '>' or '='");
        if (spaced || o.n)
            clef__out_add(t, &o, " ", 1, 0);
        clef__out_str(t, &o, clef__str_escape(t, key.s));
        clef__out_add(t, &o, "=\"", 2, 0);
        clef__out_str(t, &o, clef__str_escape(t, clef__to_str(t, value)));
        clef__out_add(t, &o, "\"", 1, 0);
    }
    return clef__out_value(t, &o);
}

/* Without what is between two marks. */
static clef__str *without(clef__tpl *t, const clef__str *s, const char *open, const char *close)
{
    const clef__str from = {.p = open, .n = strlen(open)}, to = {.p = close, .n = strlen(close)};
    clef__out o = {0};
    size_t at = 0;
    for (;;) {
        const int64_t begin = clef__find_bytes(s, &from, at),
                      end = begin < 0 ? -1 : clef__find_bytes(s, &to, (size_t)begin);
        if (end < 0 || t->status)
            break;
        clef__out_part(t, &o, s, at, (size_t)begin);
        at = (size_t)end + to.n;
    }
    clef__out_part(t, &o, s, at, s->n);
    return clef__out_value(t, &o).s;
}

/* The character of an entity, from its '&' on; 0: it is not known, or none. */
static int32_t entity(const char *p, size_t left, size_t *used)
{
    static const struct {
        const char *text;
        int32_t c;
    } known[] = {{"&amp;", '&'},  {"&lt;", '<'},  {"&gt;", '>'},    {"&quot;", '"'},
                 {"&#39;", '\''}, {"&#34;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xA0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *used = strlen(known[i].text);
        if (left >= *used && memcmp(p, known[i].text, *used) == 0)
            return known[i].c;
    }
    return 0;
}

clef__value clef__filter_striptags(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("striptags", "");
    const clef__str *s = without(t, without(t, clef__to_str(t, self), "<!--", "-->"), "<", ">");
    clef__out o = {0};
    int pending = 0;
    for (size_t at = 0, n; at < s->n && !t->status; at += n) {
        n = clef__char_bytes(s->p + at, s->n - at);
        if (clef__tpl_is_space(clef__codepoint(s->p + at, s->n - at))) {
            pending = o.n > 0;
            continue;
        }
        if (pending)
            clef__out_add(t, &o, " ", 1, 0);
        pending = 0;
        if (s->p[at] != '&') {
            clef__out_part(t, &o, s, at, at + n);
            continue;
        }
        char text[4];
        const int32_t c = entity(s->p + at, s->n - at, &n);
        if (c) {
            const size_t length = (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)text);
            clef__out_add(t, &o, text, length, clef__mark_at(s, at));
        } else if (at + 1 < s->n && s->p[at + 1] != ' ') {
            clef__tpl_fail(t, CLEF_E_UNSUPPORTED, "striptags: this entity is not supported");
        } else {
            n = 1;
            clef__out_part(t, &o, s, at, at + 1);
        }
    }
    return clef__out_value(t, &o);
}

/* ---- values ----------------------------------------------------------------------------------- */

/* The same value with the keys of its dicts in order. */
static clef__value with_sorted_keys(clef__tpl *t, clef__value v)
{
    if (!clef__tpl_step(t, 1))
        return v;
    if (v.kind == CLEF__LIST || v.kind == CLEF__TUPLE) {
        clef__value out = clef__list_new(t, v.kind, v.l->n);
        for (size_t i = 0; i < v.l->n && !t->status; i++)
            clef__list_add(t, out.l, with_sorted_keys(t, v.l->at[i]));
        return out;
    }
    if (v.kind != CLEF__DICT)
        return v;
    const clef__args with_case = {.at = &(clef__value){.kind = CLEF__BOOL, .i = 1}, .n = 1};
    const clef__value items = clef__filter_dictsort(t, v, &with_case);
    clef__value out = clef__dict_new(t, CLEF__DICT);
    for (size_t i = 0; !t->status && i < items.l->n; i++)
        clef__dict_set(t, out.d, items.l->at[i].l->at[0], with_sorted_keys(t, items.l->at[i].l->at[1]));
    return out;
}

clef__value clef__filter_pprint(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("pprint", "");
    clef__out o = {0};
    const clef__value sorted = with_sorted_keys(t, self);
    if (!t->status)
        clef__print_repr(t, &o, sorted);
    const clef__value out = clef__out_value(t, &o);
    return t->status || clef__n_chars(out.s) <= 80
               ? out
               : clef__tpl_fail(t, CLEF_E_UNSUPPORTED,
                                "pprint: values of more than one line are not supported");
}
