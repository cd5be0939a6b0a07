/* Filters of texts, numbers and single values. Those of lists are in filters_list.c. */
#include "text/template/filters.h"
#include "text/template/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

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

static int is_between_words(const clef__str *s, size_t at)
{
    const char c = s->p[at];
    return (c && strchr("-({[<", c)) || clef__tpl_is_space(clef__codepoint(s->p + at, s->n - at));
}

/* A word begins after white space, and after - ( { [ <. */
static clef__value f_title(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("title", "");
    const clef__str *s = clef__to_str(t, self);
    clef__out o = {0};
    for (size_t at = 0, to; at < s->n && !t->status; at = to) {
        const size_t first = clef__char_bytes(s->p + at, s->n - at);
        const int is_between = is_between_words(s, at);
        for (to = at; to < s->n && is_between_words(s, to) == is_between;)
            to += clef__char_bytes(s->p + to, s->n - to);
        clef__out_str(t, &o, clef__change_case(t, clef__str_part(t, s, at, at + first), 'u'));
        clef__out_str(t, &o, clef__change_case(t, clef__str_part(t, s, at + first, to), 'l'));
    }
    return clef__out_value(t, &o);
}

static clef__value f_capitalize(clef__tpl *t, clef__value self, const clef__args *args)
{
    return by_method(t, self, args, "capitalize");
}

static clef__value f_trim(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("trim", "chars");
    return by_method(t, self, &(clef__args){.at = a, .n = a[0].kind != CLEF__UNDEFINED}, "strip");
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

static clef__str *spaces(clef__tpl *t, int64_t n)
{
    clef__out o = {0};
    for (int64_t i = 0; i < n && clef__tpl_step(t, 1); i++)
        clef__out_add(t, &o, " ", 1, 0);
    return clef__out_value(t, &o).s;
}

static clef__value f_indent(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("indent", "width first blank");
    const clef__str key = {.p = "splitlines", .n = 10};
    const char *name;
    const clef__str *pad =
        a[0].kind == CLEF__STRING ? a[0].s : spaces(t, clef__int_arg(t, a[0], 4, "indent"));
    const int first = clef__is_true(a[1]), blank = clef__is_true(a[2]);
    clef__out o = {0};
    if (self.kind != CLEF__STRING)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "indent: expected a string, got '%s'", clef__kind_name(self));
    /* With a line end added, so that an empty text has a line. */
    const clef__value text = clef__str_value(clef__str_join(t, self.s, clef__str_of(t, "\n", 1, 0)));
    const clef__value lines = clef__find_method(CLEF__STRING, &key, &name)(t, text, &(clef__args){0});
    for (size_t i = 0; !t->status && i < lines.l->n; i++) {
        const clef__str *line = lines.l->at[i].s;
        if (i)
            clef__out_add(t, &o, "\n", 1, 0);
        if (i == 0 ? first : blank || line->n)
            clef__out_str(t, &o, pad);
        clef__out_str(t, &o, line);
    }
    return clef__out_value(t, &o);
}

static clef__value f_tojson(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("tojson", "ensure_ascii indent separators sort_keys");
    clef__json_style style = {.ensure_ascii = clef__is_true(a[0]), .sort_keys = clef__is_true(a[3])};
    clef__out o = {0};
    if (a[1].kind == CLEF__STRING)
        style.indent = a[1].s;
    else if (a[1].kind != CLEF__UNDEFINED && a[1].kind != CLEF__NONE) {
        style.indent = spaces(t, clef__int_arg(t, a[1], 0, "tojson: indent"));
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

/* in_query: a blank is a plus, and a slash is escaped. */
static void add_quoted(clef__tpl *t, clef__out *o, const clef__str *s, int in_query)
{
    for (size_t i = 0; i < s->n && !t->status; i++) {
        const unsigned char c = (unsigned char)s->p[i];
        char hex[4];
        if (in_query && c == ' ')
            clef__out_add(t, o, "+", 1, clef__mark_at(s, i));
        else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                 (c && strchr(in_query ? "_.-~" : "_.-~/", c)))
            clef__out_part(t, o, s, i, i + 1);
        else
            clef__out_add(t, o, hex, (size_t)snprintf(hex, sizeof hex, "%%%02X", c), clef__mark_at(s, i));
    }
}

static clef__value f_urlencode(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("urlencode", "");
    clef__out o = {0};
    const int is_plain = self.kind == CLEF__STRING || clef__is_number(self) || self.kind == CLEF__NONE ||
                         self.kind == CLEF__BIG;
    if (is_plain) {
        add_quoted(t, &o, clef__to_str(t, self), 0);
        return clef__out_value(t, &o);
    }
    const clef__list *pairs =
        clef__items(t, self.kind == CLEF__DICT ? clef__filter_items(t, self, &(clef__args){0}) : self);
    for (size_t i = 0; pairs && i < pairs->n && !t->status; i++) {
        const clef__list *pair = clef__items(t, pairs->at[i]);
        if (pair && pair->n != 2)
            return clef__tpl_fail(t, CLEF_E_FORMAT, "urlencode: expected pairs of key and value");
        if (i)
            clef__out_add(t, &o, "&", 1, 0);
        for (int k = 0; k < 2 && pair; k++) {
            if (k)
                clef__out_add(t, &o, "=", 1, 0);
            add_quoted(t, &o, clef__to_str(t, pair->at[k]), 1);
        }
    }
    return clef__out_value(t, &o);
}

static int is_in_word(int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) || clef__char_is_numeric(c);
}

static clef__value f_wordcount(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("wordcount", "");
    const clef__str *s = clef__to_str(t, self);
    int64_t n = 0;
    int within = 0;
    for (size_t at = 0; at < s->n; at += clef__char_bytes(s->p + at, s->n - at)) {
        const int now = is_in_word(clef__codepoint(s->p + at, s->n - at));
        n += now && !within;
        within = now;
    }
    return clef__int(n);
}

static clef__value f_truncate(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("truncate", "length killwords end leeway");
    const clef__value n_all = clef__filter_length(t, self, &(clef__args){0});
    const clef__str *end =
        a[2].kind == CLEF__UNDEFINED ? clef__str_of(t, "...", 3, 0) : clef__to_str(t, a[2]);
    const int64_t length = clef__int_arg(t, a[0], 255, "truncate"),
                  leeway = clef__int_arg(t, a[3], 5, "truncate"), keep = length - (int64_t)clef__n_chars(end);
    if (!t->status && (keep < 0 || leeway < 0))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "truncate: expected a length of %zu or more, got %lld",
                              clef__n_chars(end), (long long)length);
    if (t->status || n_all.i <= length + leeway)
        return self;
    if (self.kind != CLEF__STRING)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "truncate: expected a string, got '%s'",
                              clef__kind_name(self));
    const clef__str *s = self.s;
    size_t to = clef__char_at(s, (size_t)keep);
    if (!clef__is_true(a[1])) /* back to a space */
        for (size_t i = to; i > 0; i--)
            if (s->p[i - 1] == ' ') {
                to = i - 1;
                break;
            }
    return clef__str_value(clef__str_join(t, clef__str_part(t, s, 0, to), end));
}

/* ---- the table -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    clef__builtin *call;
} filters[] = {
    {"abs", clef__filter_abs},
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
    {"filesizeformat", clef__filter_filesizeformat},
    {"first", clef__filter_first},
    {"float", clef__filter_float},
    {"forceescape", f_forceescape},
    {"format", clef__filter_format},
    {"from_json", f_from_json},
    {"groupby", clef__filter_groupby},
    {"indent", f_indent},
    {"int", clef__filter_int},
    {"items", clef__filter_items},
    {"join", clef__filter_join},
    {"last", clef__filter_last},
    {"length", clef__filter_length},
    {"list", clef__filter_list},
    {"lower", f_lower},
    {"map", clef__filter_map},
    {"max", clef__filter_max},
    {"min", clef__filter_min},
    {"pprint", clef__filter_pprint},
    {"reject", clef__filter_reject},
    {"rejectattr", clef__filter_rejectattr},
    {"replace", f_replace},
    {"reverse", clef__filter_reverse},
    {"round", clef__filter_round},
    {"safe", f_safe},
    {"select", clef__filter_select},
    {"selectattr", clef__filter_selectattr},
    {"slice", clef__filter_slice},
    {"sort", clef__filter_sort},
    {"string", f_string},
    {"striptags", clef__filter_striptags},
    {"sum", clef__filter_sum},
    {"title", f_title},
    {"tojson", f_tojson},
    {"trim", f_trim},
    {"truncate", f_truncate},
    {"unique", clef__filter_unique},
    {"upper", f_upper},
    {"urlencode", f_urlencode},
    {"wordcount", f_wordcount},
    {"wordwrap", clef__filter_wordwrap},
    {"xmlattr", clef__filter_xmlattr},
};

int clef__is_refused_filter(const clef__str *name)
{
    static const char *const names[] = {"random", "urlize"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (clef__str_is(name, names[i]))
            return 1;
    return 0;
}

clef__builtin *clef__find_filter(const clef__str *name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (clef__str_is(name, filters[i].name))
            return filters[i].call;
    return NULL;
}
