/* Filters of texts, numbers and single values. Those of lists are in filters_list.c. */
#include "model/template/filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS(function, names)                                                                                \
    clef__value a[CLEF__TPL_MAX_ARGS];                                                                       \
    clef__read_args(t, args, function, names, a);                                                            \
    if (t->status)                                                                                           \
    return clef__undefined

/* Calls a string's method of the same name on str(self). */
static clef__value by_method(clef__tpl *t, clef__value self, const clef__args *args, const char *name)
{
    const char *static_name;
    const clef__str key = {.p = name, .n = strlen(name)};
    return clef__find_method(CLEF__STRING, &key, &static_name)(t, clef__str_value(clef__to_str(t, self)),
                                                               args);
}

static clef__value f_upper(clef__tpl *t, clef__value self, const clef__args *args)
{
    return by_method(t, self, args, "upper");
}

static clef__value f_lower(clef__tpl *t, clef__value self, const clef__args *args)
{
    return by_method(t, self, args, "lower");
}

/* A word begins after white space, and after - ( { [ <. */
static clef__value f_title(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("title", "");
    const clef__str *s = clef__to_str(t, self);
    clef__out o = {0};
    int begins = 1;
    for (size_t at = 0, n; at < s->n && !t->status; at += n) {
        n = clef__char_bytes(s->p + at, s->n - at);
        const int32_t c = clef__codepoint(s->p + at, s->n - at);
        clef__out_str(t, &o, clef__change_case(t, clef__str_part(t, s, at, at + n), begins ? 'u' : 'l'));
        begins = clef__tpl_is_space(c) || (c < 128 && strchr("-({[<", c));
    }
    return clef__out_value(t, &o);
}

static clef__value f_capitalize(clef__tpl *t, clef__value self, const clef__args *args)
{
    return by_method(t, self, args, "capitalize");
}

static clef__value f_trim(clef__tpl *t, clef__value self, const clef__args *args)
{
    return by_method(t, self, args, "strip");
}

static clef__value f_center(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("center", "width");
    const clef__value width = a[0].kind == CLEF__UNDEFINED ? clef__int(80) : a[0];
    return by_method(t, self, &(clef__args){.at = &width, .n = 1}, "center");
}

static clef__value f_replace(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("replace", "old new count");
    const clef__str *s = clef__to_str(t, self), *from = clef__to_str(t, a[0]), *to = clef__to_str(t, a[1]);
    const int64_t most = clef__int_arg(t, a[2], -1, "replace");
    return t->status ? clef__undefined : clef__str_value(clef__replace(t, s, from, to, most));
}

static clef__value f_string(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("string", "");
    return clef__str_value(clef__to_str(t, self));
}

static clef__value f_default(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("default", "default_value boolean");
    const clef__value usual =
        args->n + args->n_named && a[0].kind != CLEF__UNDEFINED ? a[0] : clef__string(t, "");
    return self.kind == CLEF__UNDEFINED || (clef__is_true(a[1]) && !clef__is_true(self)) ? usual : self;
}

static clef__value f_safe(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("safe", "");
    return clef__str_value(clef__str_safe(t, clef__to_str(t, self)));
}

static clef__value f_escape(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("escape", "");
    return clef__str_value(clef__str_escape(t, clef__to_str(t, self)));
}

static clef__value f_forceescape(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("forceescape", "");
    const clef__str *s = clef__to_str(t, self);
    clef__str *plain = clef__str_part(t, s, 0, s->n);
    if (!t->status)
        plain->is_safe = 0;
    return clef__str_value(clef__str_escape(t, plain));
}

static clef__value f_indent(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("indent", "width first blank");
    const clef__str *s = clef__to_str(t, self);
    const int64_t width = a[0].kind == CLEF__STRING ? 0 : clef__int_arg(t, a[0], 4, "indent");
    const int first = clef__is_true(a[1]), blank = clef__is_true(a[2]);
    clef__out pad = {0}, o = {0};
    for (int64_t i = 0; i < width && clef__tpl_step(t, 1); i++)
        clef__out_add(t, &pad, " ", 1, 0);
    const clef__str *space = a[0].kind == CLEF__STRING ? a[0].s : clef__out_value(t, &pad).s;
    for (size_t from = 0, line = 0; from <= s->n && !t->status; line++) {
        const char *end = from < s->n ? memchr(s->p + from, '\n', s->n - from) : NULL;
        const size_t to = end ? (size_t)(end - s->p) : s->n;
        if (line == 0 ? first : blank || to > from)
            clef__out_str(t, &o, space);
        clef__out_part(t, &o, s, from, end ? to + 1 : to);
        from = end ? to + 1 : s->n + 1;
    }
    return clef__out_value(t, &o);
}

static clef__value f_tojson(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("tojson", "ensure_ascii indent separators sort_keys");
    clef__json_style style = {.ensure_ascii = clef__is_true(a[0]), .sort_keys = clef__is_true(a[3])};
    clef__out o = {0}, spaces = {0};
    if (a[1].kind == CLEF__STRING)
        style.indent = a[1].s;
    else if (a[1].kind != CLEF__UNDEFINED && a[1].kind != CLEF__NONE) {
        const int64_t n = clef__int_arg(t, a[1], 0, "tojson: indent");
        for (int64_t i = 0; i < n && clef__tpl_step(t, 1); i++)
            clef__out_add(t, &spaces, " ", 1, 0);
        style.indent = clef__out_value(t, &spaces).s;
    }
    if (a[2].kind == CLEF__TUPLE || a[2].kind == CLEF__LIST) {
        if (a[2].l->n != 2)
            return clef__tpl_fail(t, CLEF_E_FORMAT, "tojson: expected 2 separators, got %zu", a[2].l->n);
        style.item = clef__to_str(t, a[2].l->at[0]);
        style.key = clef__to_str(t, a[2].l->at[1]);
    }
    if (!t->status)
        clef__print_json(t, &o, self, &style);
    return clef__out_value(t, &o);
}

static clef__value f_from_json(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("from_json", "");
    if (self.kind != CLEF__STRING)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "from_json: expected a string, got '%s'",
                              clef__kind_name(self));
    return clef__value_of_json(t, self.s->p, self.s->n, "from_json", self.s->n && clef__mark_at(self.s, 0));
}

static clef__value f_urlencode(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("urlencode", "");
    const clef__str *s = clef__to_str(t, self);
    clef__out o = {0};
    for (size_t i = 0; i < s->n && !t->status; i++) {
        const unsigned char c = (unsigned char)s->p[i];
        char hex[4];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c && strchr("_.-~/", c)))
            clef__out_part(t, &o, s, i, i + 1);
        else
            clef__out_add(t, &o, hex, (size_t)snprintf(hex, sizeof hex, "%%%02X", c), clef__mark_at(s, i));
    }
    return clef__out_value(t, &o);
}

static clef__value f_wordcount(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("wordcount", "");
    const clef__str *s = clef__to_str(t, self);
    int64_t n = 0;
    int within = 0;
    for (size_t at = 0; at < s->n; at += clef__char_bytes(s->p + at, s->n - at)) {
        const int is_space = clef__tpl_is_space(clef__codepoint(s->p + at, s->n - at));
        n += !is_space && !within;
        within = !is_space;
    }
    return clef__int(n);
}

static clef__value f_truncate(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("truncate", "length killwords end leeway");
    const clef__str *s = clef__to_str(t, self), *end = a[2].kind == CLEF__UNDEFINED
                                                           ? clef__str_of(t, "...", 3, 0)
                                                           : clef__to_str(t, a[2]);
    const int64_t length = clef__int_arg(t, a[0], 255, "truncate"),
                  leeway = clef__int_arg(t, a[3], 5, "truncate"), n = (int64_t)clef__n_chars(s),
                  keep = length - (int64_t)clef__n_chars(end);
    if (t->status || n <= length + leeway || keep < 0)
        return clef__str_value((clef__str *)s);
    size_t to = clef__char_at(s, (size_t)keep);
    if (!clef__is_true(a[1])) /* back to a space */
        for (size_t i = to; i > 0; i--)
            if (s->p[i - 1] == ' ') {
                to = i - 1;
                break;
            }
    return clef__str_value(clef__str_join(t, clef__str_part(t, s, 0, to), end));
}

/* ---- numbers ---------------------------------------------------------------------------------- */

/* A text as a number: Python's int() and float() accept blanks around it and underscores between digits. */
static int read_text(const clef__str *s, char out[80])
{
    size_t n = 0;
    for (size_t i = 0; i < s->n && n < 79; i++)
        if (s->p[i] != '_')
            out[n++] = s->p[i];
    while (n && strchr(" \t\n\r\f\v", out[n - 1]))
        n--;
    out[n] = '\0';
    return n > 0 && n < 79;
}

static clef__value f_int(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("int", "default base");
    const clef__value usual = a[0].kind == CLEF__UNDEFINED ? clef__int(0) : a[0];
    char text[80], *end;
    if (self.kind == CLEF__UNDEFINED)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "int: the value is undefined");
    if (self.kind == CLEF__INT || self.kind == CLEF__BOOL)
        return clef__int(self.i);
    if (self.kind == CLEF__BIG)
        return self;
    if (self.kind == CLEF__FLOAT)
        return fabs(self.f) < 9e18 ? clef__int((int64_t)self.f) : usual;
    if (self.kind != CLEF__STRING || !read_text(self.s, text))
        return usual;
    const long long i = strtoll(text, &end, (int)clef__int_arg(t, a[1], 10, "int"));
    if (*end == '\0')
        return clef__int(i);
    const double x = strtod(text, &end);
    return *end == '\0' && fabs(x) < 9e18 ? clef__int((int64_t)x) : usual;
}

static clef__value f_float(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("float", "default");
    const clef__value usual = a[0].kind == CLEF__UNDEFINED ? clef__float(0) : a[0];
    char text[80], *end;
    if (self.kind == CLEF__UNDEFINED)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "float: the value is undefined");
    if (clef__is_number(self))
        return clef__float(clef__number(self));
    if (self.kind != CLEF__STRING || !read_text(self.s, text))
        return usual;
    const double x = strtod(text, &end);
    return *end == '\0' ? clef__float(x) : usual;
}

static clef__value f_abs(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("abs", "");
    if (!clef__is_number(self))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "abs: expected a number, got '%s'", clef__kind_name(self));
    return self.kind == CLEF__FLOAT ? clef__float(fabs(self.f))
                                    : clef__int(self.i < 0 && self.i > INT64_MIN ? -self.i : self.i);
}

static clef__value f_round(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("round", "precision method");
    const int64_t digits = clef__int_arg(t, a[0], 0, "round");
    if (!clef__is_number(self) || digits < -15 || digits > 15)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "round: expected a number, and a precision from -15 to 15");
    const double x = clef__number(self), scale = pow(10, (double)digits);
    if (a[1].kind == CLEF__STRING && clef__str_is(a[1].s, "ceil"))
        return clef__float(ceil(x * scale) / scale);
    if (a[1].kind == CLEF__STRING && clef__str_is(a[1].s, "floor"))
        return clef__float(floor(x * scale) / scale);
    if (a[1].kind != CLEF__UNDEFINED && (a[1].kind != CLEF__STRING || !clef__str_is(a[1].s, "common")))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "round: expected the method common, ceil or floor");
    if (self.kind != CLEF__FLOAT && digits >= 0)
        return clef__int(self.i);
    char text[400];
    snprintf(text, sizeof text, "%.*f", digits < 0 ? 0 : (int)digits,
             digits < 0 ? rint(x * scale) / scale : x);
    return self.kind == CLEF__FLOAT ? clef__float(strtod(text, NULL))
                                    : clef__int((int64_t)strtod(text, NULL));
}

/* ---- "%s" % x --------------------------------------------------------------------------------- */

/* One field from '%' at s->p[at]: flags, width, precision, kind. Returns the byte behind it. */
static size_t print_field(clef__tpl *t, clef__out *o, const clef__str *s, size_t at, clef__value v)
{
    char format[32] = "%", text[512];
    size_t n = 1;
    for (at++; at < s->n && s->p[at] && strchr("-+ #0123456789.", s->p[at]) && n < 16; at++)
        format[n++] = s->p[at];
    const char kind = at < s->n ? s->p[at] : 0;
    const int width = atoi(format + 1 + strspn(format + 1, "-+ #0"));
    if (width > 200 || !kind || !strchr("srdiouxXfeEgGc", kind)) {
        clef__tpl_fail(t, CLEF_E_FORMAT, "a format has a field that is not known, or wider than 200");
        return s->n;
    }
    if (strchr("src", kind)) {
        clef__out part = {0};
        if (kind == 'r')
            clef__print_repr(t, &part, v);
        else
            clef__out_str(t, &part, clef__to_str(t, v));
        if (n == 1) {
            clef__out_str(t, o, clef__out_value(t, &part).s);
            return at + 1;
        }
        const int pad = width - (int)clef__n_chars(clef__out_value(t, &part).s);
        for (int i = 0; i < pad && !strchr(format, '-'); i++)
            clef__out_add(t, o, " ", 1, 0);
        clef__out_str(t, o, clef__out_value(t, &part).s);
        for (int i = 0; i < pad && strchr(format, '-'); i++)
            clef__out_add(t, o, " ", 1, 0);
        return at + 1;
    }
    if (!clef__is_number(v)) {
        clef__tpl_fail(t, CLEF_E_FORMAT, "'%%%c' wants a number, got '%s'", kind, clef__kind_name(v));
        return s->n;
    }
    if (strchr("feEgG", kind)) {
        format[n++] = kind;
        snprintf(text, sizeof text, format, clef__number(v));
    } else {
        memcpy(format + n, "ll", 2);
        format[n + 2] = kind == 'u' ? 'd' : kind;
        snprintf(text, sizeof text, format, (long long)(v.kind == CLEF__FLOAT ? (int64_t)v.f : v.i));
    }
    clef__out_add(t, o, text, strlen(text), 0);
    return at + 1;
}

static clef__value f_format(clef__tpl *t, clef__value self, const clef__args *args)
{
    const clef__str *s = clef__to_str(t, self);
    clef__out o = {0};
    int32_t next = 0;
    for (size_t at = 0; at < s->n && !t->status;) {
        clef__value v = clef__undefined;
        if (s->p[at] != '%') {
            clef__out_part(t, &o, s, at, at + 1);
            at++;
            continue;
        }
        if (at + 1 < s->n && s->p[at + 1] == '%') {
            clef__out_part(t, &o, s, at, at + 1);
            at += 2;
            continue;
        }
        if (at + 1 < s->n && s->p[at + 1] == '(') { /* %(name)s */
            const char *close = memchr(s->p + at, ')', s->n - at);
            const size_t from = at + 2, to = close ? (size_t)(close - s->p) : s->n;
            int32_t i = 0;
            while (i < args->n_named &&
                   (args->names[i]->n != to - from || memcmp(args->names[i]->p, s->p + from, to - from)))
                i++;
            if (!close || i == args->n_named)
                return clef__tpl_fail(t, CLEF_E_FORMAT, "format: no value for a name");
            v = args->named[i];
            at = to;
        } else if (next < args->n) {
            v = args->at[next++];
        } else {
            return clef__tpl_fail(t, CLEF_E_FORMAT, "format: more fields than the %d values", (int)args->n);
        }
        at = print_field(t, &o, s, at, v);
    }
    if (next < args->n)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "format: %d values for %d fields", (int)args->n, (int)next);
    return clef__out_value(t, &o);
}

/* ---- the table -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    clef__builtin *call;
} filters[] = {
    {"abs", f_abs},
    {"attr", clef__filter_attr},
    {"batch", clef__filter_batch},
    {"capitalize", f_capitalize},
    {"center", f_center},
    {"count", clef__filter_length},
    {"d", f_default},
    {"default", f_default},
    {"dictsort", clef__filter_dictsort},
    {"e", f_escape},
    {"escape", f_escape},
    {"first", clef__filter_first},
    {"float", f_float},
    {"forceescape", f_forceescape},
    {"format", f_format},
    {"from_json", f_from_json},
    {"groupby", clef__filter_groupby},
    {"indent", f_indent},
    {"int", f_int},
    {"items", clef__filter_items},
    {"join", clef__filter_join},
    {"last", clef__filter_last},
    {"length", clef__filter_length},
    {"list", clef__filter_list},
    {"lower", f_lower},
    {"map", clef__filter_map},
    {"max", clef__filter_max},
    {"min", clef__filter_min},
    {"reject", clef__filter_reject},
    {"rejectattr", clef__filter_rejectattr},
    {"replace", f_replace},
    {"reverse", clef__filter_reverse},
    {"round", f_round},
    {"safe", f_safe},
    {"select", clef__filter_select},
    {"selectattr", clef__filter_selectattr},
    {"slice", clef__filter_slice},
    {"sort", clef__filter_sort},
    {"string", f_string},
    {"sum", clef__filter_sum},
    {"title", f_title},
    {"tojson", f_tojson},
    {"trim", f_trim},
    {"truncate", f_truncate},
    {"unique", clef__filter_unique},
    {"upper", f_upper},
    {"urlencode", f_urlencode},
    {"wordcount", f_wordcount},
};

clef__builtin *clef__find_filter(const clef__str *name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (clef__str_is(name, filters[i].name))
            return filters[i].call;
    return NULL;
}
