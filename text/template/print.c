/* Values as text: str(), repr(), and JSON both ways. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "model/file/json.h"
#include "text/template/engine.h"
#include "text/tools/json_text.h"

/* The shortest text that reads back as the same number, in the form that Python's repr() gives it. */
int clef__print_float(char out[40], double x)
{
    char text[40], digits[24];
    int n = 0, precision = 1;
    if (isnan(x) || isinf(x))
        return sprintf(out, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    do
        snprintf(text, sizeof text, "%.*e", precision - 1, x);
    while (strtod(text, NULL) != x && ++precision <= 17);
    const char *e = strchr(text, 'e');
    const int exponent = atoi(e + 1);
    for (const char *c = text; c < e; c++)
        if (*c >= '0' && *c <= '9')
            digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    char *to = out;
    if (text[0] == '-')
        *to++ = '-';
    if (exponent < -4 || exponent >= 16) {
        *to++ = digits[0];
        if (n > 1)
            *to++ = '.';
        memcpy(to, digits + 1, (size_t)n - 1);
        to += n - 1;
        to += sprintf(to, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        to += sprintf(to, "0.%.*s", -exponent - 1, "0000");
        memcpy(to, digits, (size_t)n);
        to += n;
    } else {
        for (int i = 0; i <= exponent || i < n; i++) {
            if (i == exponent + 1)
                *to++ = '.';
            *to++ = i < n ? digits[i] : '0';
        }
        if (n <= exponent + 1)
            to += sprintf(to, ".0");
    }
    *to = '\0';
    return (int)(to - out);
}

/* ---- str() and repr() ------------------------------------------------------------------------- */

int clef__char_is_printable(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 0;
    case UTF8PROC_CATEGORY_ZS:
        return c == ' ';
    default:
        return 1;
    }
}

static void repr_string(clef__tpl *t, clef__out *o, const clef__str *s)
{
    const char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    if (s->is_safe)
        clef__out_add(t, o, "Markup(", 7, 0);
    clef__out_add(t, o, &quote, 1, 0);
    for (size_t at = 0, n; at < s->n && !t->status; at += n) {
        char text[16];
        int length = 0;
        n = clef__char_bytes(s->p + at, s->n - at);
        const int32_t c = clef__codepoint(s->p + at, s->n - at);
        if (c == '\n' || c == '\r' || c == '\t')
            length = sprintf(text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c == '\\' || c == quote)
            length = sprintf(text, "\\%c", (char)c);
        else if (!clef__char_is_printable(c))
            length = sprintf(text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
        if (length)
            clef__out_add(t, o, text, (size_t)length, clef__mark_at(s, at));
        else
            clef__out_part(t, o, s, at, at + n);
    }
    clef__out_add(t, o, &quote, 1, 0);
    if (s->is_safe)
        clef__out_add(t, o, ")", 1, 0);
}

static void add_text(clef__tpl *t, clef__out *o, const char *text)
{
    clef__out_add(t, o, text, strlen(text), 0);
}

static void repr_list(clef__tpl *t, clef__out *o, const clef__list *l, const char *open, const char *close)
{
    add_text(t, o, open);
    for (size_t i = 0; i < l->n && !t->status; i++) {
        if (i)
            add_text(t, o, ", ");
        clef__print_repr(t, o, l->at[i]);
    }
    add_text(t, o, close);
}

static void repr_dict(clef__tpl *t, clef__out *o, const clef__dict *d)
{
    add_text(t, o, "{");
    for (size_t i = 0; i < d->n && !t->status; i++) {
        if (i)
            add_text(t, o, ", ");
        clef__print_repr(t, o, d->keys[i]);
        add_text(t, o, ": ");
        clef__print_repr(t, o, d->values[i]);
    }
    add_text(t, o, "}");
}

static void print_number(clef__tpl *t, clef__out *o, clef__value v)
{
    char text[40];
    const int n = v.kind == CLEF__FLOAT ? clef__print_float(text, v.f)
                                        : snprintf(text, sizeof text, "%lld", (long long)v.i);
    clef__out_add(t, o, text, (size_t)n, 0);
}

static void print_range(clef__tpl *t, clef__out *o, const int64_t *range)
{
    add_text(t, o, "range(");
    for (int i = 0; i < (range[2] == 1 ? 2 : 3); i++) {
        add_text(t, o, i ? ", " : "");
        print_number(t, o, clef__int(range[i]));
    }
    add_text(t, o, ")");
}

void clef__print_repr(clef__tpl *t, clef__out *o, clef__value v)
{
    if (!clef__tpl_step(t, 1) || ++t->depth > CLEF__TPL_MAX_DEPTH) {
        clef__tpl_fail(t, CLEF_E_LIMIT, "values nest deeper than %d", CLEF__TPL_MAX_DEPTH);
        return;
    }
    switch (v.kind) {
    case CLEF__NONE:
        add_text(t, o, "None");
        break;
    case CLEF__BOOL:
        add_text(t, o, v.i ? "True" : "False");
        break;
    case CLEF__INT:
    case CLEF__FLOAT:
        print_number(t, o, v);
        break;
    case CLEF__BIG:
        clef__out_str(t, o, v.s);
        break;
    case CLEF__STRING:
        repr_string(t, o, v.s);
        break;
    case CLEF__LIST:
        repr_list(t, o, v.l, "[", "]");
        break;
    case CLEF__VIEW:
        add_text(t, o, v.l->name);
        repr_list(t, o, v.l, "([", "])");
        break;
    case CLEF__TUPLE:
        repr_list(t, o, v.l, "(", v.l->n == 1 ? ",)" : ")");
        break;
    case CLEF__DICT:
        repr_dict(t, o, v.d);
        break;
    case CLEF__NAMESPACE:
        add_text(t, o, "<Namespace ");
        repr_dict(t, o, v.d);
        add_text(t, o, ">");
        break;
    case CLEF__UNDEFINED:
        add_text(t, o, "Undefined");
        break;
    case CLEF__RANGE:
        print_range(t, o, v.l->range);
        break;
    case CLEF__LOOP:
        add_text(t, o, "<LoopContext ");
        print_number(t, o, clef__int((int64_t)v.loop->at + 1));
        add_text(t, o, "/");
        print_number(t, o, clef__int((int64_t)v.loop->items->n));
        add_text(t, o, ">");
        break;
    default:
        add_text(t, o, "<");
        add_text(t, o, clef__kind_name(v));
        add_text(t, o, ">");
    }
    t->depth--;
}

clef__str *clef__to_str(clef__tpl *t, clef__value v)
{
    clef__out o = {0};
    if (v.kind == CLEF__STRING)
        return v.s;
    if (v.kind != CLEF__UNDEFINED)
        clef__print_repr(t, &o, v);
    return clef__out_value(t, &o).s;
}

/* ---- JSON ------------------------------------------------------------------------------------------------
 */

static void print_json_string(clef__tpl *t, clef__out *o, const clef__str *s, int ensure_ascii)
{
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    clef__out_add(t, o, "\"", 1, 0);
    for (size_t at = 0, n, from = 0; at <= s->n && !t->status; at += n) {
        char text[16];
        int length = 0;
        n = at < s->n ? clef__char_bytes(s->p + at, s->n - at) : 1;
        const int32_t c = at < s->n ? clef__codepoint(s->p + at, s->n - at) : -1;
        const char *known = c > 0 && c < 128 ? strchr(special, (char)c) : NULL;
        if (known)
            length = sprintf(text, "\\%c", letters[known - special]);
        else if (c >= 0 && (c < 0x20 || (ensure_ascii && c > 0x7E && c < 0x10000)))
            length = sprintf(text, "\\u%04x", (unsigned)c);
        else if (ensure_ascii && c >= 0x10000)
            length = sprintf(text, "\\u%04x\\u%04x", 0xD7C0u + ((unsigned)c >> 10),
                             0xDC00u + ((unsigned)c & 0x3FFu));
        if (!length && c >= 0)
            continue;
        clef__out_part(t, o, s, from, at);
        if (c >= 0)
            clef__out_add(t, o, text, (size_t)length, clef__mark_at(s, at));
        from = at + n;
    }
    clef__out_add(t, o, "\"", 1, 0);
}

static void json_break(clef__tpl *t, clef__out *o, const clef__json_style *style, int level)
{
    if (!style->indent)
        return;
    add_text(t, o, "\n");
    for (int i = 0; i < level; i++)
        clef__out_str(t, o, style->indent);
}

static void json_separator(clef__tpl *t, clef__out *o, const clef__str *own, const char *usual)
{
    if (own)
        clef__out_str(t, o, own);
    else
        add_text(t, o, usual);
}

static void print_json(clef__tpl *t, clef__out *o, clef__value v, const clef__json_style *style, int level);

static void json_key(clef__tpl *t, clef__out *o, clef__value key, const clef__json_style *style)
{
    if (key.kind == CLEF__STRING) {
        print_json_string(t, o, key.s, style->ensure_ascii);
        return;
    }
    if (key.kind != CLEF__NONE && key.kind != CLEF__BIG && !clef__is_number(key)) {
        clef__tpl_fail(t, CLEF_E_FORMAT, "a key of a JSON object cannot be '%s'", clef__kind_name(key));
        return;
    }
    add_text(t, o, "\"");
    print_json(t, o, key, style, 0);
    add_text(t, o, "\"");
}

/* The order of keys: as they are, or sorted. */
static size_t *key_order(clef__tpl *t, const clef__dict *d, int sorted)
{
    size_t *order = clef__tpl_alloc(t, (d->n + 1) * sizeof *order);
    for (size_t i = 0; i < d->n && order; i++) {
        size_t at = i;
        for (; sorted && at > 0 && clef__tpl_step(t, 1) &&
               clef__order(t, d->keys[order[at - 1]], d->keys[i]) > 0;
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return t->status ? NULL : order;
}

static void json_items(clef__tpl *t, clef__out *o, clef__value v, const clef__json_style *style, int level)
{
    const int is_dict = v.kind == CLEF__DICT;
    const size_t n = is_dict ? v.d->n : v.l->n;
    const size_t *order = is_dict ? key_order(t, v.d, style->sort_keys) : NULL;
    add_text(t, o, is_dict ? "{" : "[");
    for (size_t i = 0; i < n && !t->status; i++) {
        if (i)
            json_separator(t, o, style->item, style->indent ? "," : ", ");
        json_break(t, o, style, level + 1);
        if (is_dict) {
            json_key(t, o, v.d->keys[order[i]], style);
            json_separator(t, o, style->key, ": ");
        }
        print_json(t, o, is_dict ? v.d->values[order[i]] : v.l->at[i], style, level + 1);
    }
    if (n)
        json_break(t, o, style, level);
    add_text(t, o, is_dict ? "}" : "]");
}

static void print_json(clef__tpl *t, clef__out *o, clef__value v, const clef__json_style *style, int level)
{
    if (!clef__tpl_step(t, 1) || ++t->depth > CLEF__TPL_MAX_DEPTH) {
        clef__tpl_fail(t, CLEF_E_LIMIT, "values nest deeper than %d", CLEF__TPL_MAX_DEPTH);
        return;
    }
    if (v.kind == CLEF__NONE)
        add_text(t, o, "null");
    else if (v.kind == CLEF__BOOL)
        add_text(t, o, v.i ? "true" : "false");
    else if (v.kind == CLEF__FLOAT && !isfinite(v.f))
        add_text(t, o, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity");
    else if (v.kind == CLEF__INT || v.kind == CLEF__FLOAT)
        print_number(t, o, v);
    else if (v.kind == CLEF__BIG)
        clef__out_str(t, o, v.s);
    else if (v.kind == CLEF__STRING)
        print_json_string(t, o, v.s, style->ensure_ascii);
    else if (v.kind == CLEF__LIST || v.kind == CLEF__TUPLE || v.kind == CLEF__DICT)
        json_items(t, o, v, style, level);
    else
        clef__tpl_fail(t, CLEF_E_FORMAT, "'%s' cannot be written as JSON", clef__kind_name(v));
    t->depth--;
}

void clef__print_json(clef__tpl *t, clef__out *o, clef__value v, const clef__json_style *style)
{
    print_json(t, o, v, style, 0);
}

/* ---- reading JSON ----------------------------------------------------------------------------- */

static clef__value read_string(clef__tpl *t, clef__slice text, int mark)
{
    char *out = clef__tpl_alloc(t, text.n);
    size_t n = 0;
    for (size_t i = 1; out && i + 1 < text.n; i++) {
        unsigned c = (unsigned char)text.at[i];
        if (c != '\\') {
            out[n++] = (char)c;
            continue;
        }
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *known = strchr(from, text.at[++i]);
        if (text.at[i] != 'u') {
            out[n++] = known ? to[known - from] : text.at[i];
            continue;
        }
        char hex[5] = {text.at[i + 1], text.at[i + 2], text.at[i + 3], text.at[i + 4], 0};
        c = (unsigned)strtoul(hex, NULL, 16);
        i += 4;
        if (c >= 0xD800 && c < 0xDC00 && i + 6 < text.n && text.at[i + 1] == '\\' && text.at[i + 2] == 'u') {
            memcpy(hex, text.at + i + 3, 4);
            const unsigned low = (unsigned)strtoul(hex, NULL, 16);
            if (low >= 0xDC00 && low < 0xE000) {
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                i += 6;
            }
        }
        if (c >= 0xD800 && c < 0xE000)
            c = 0xFFFD; /* half of a pair is not a character */
        n += (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out + n);
    }
    return out ? clef__text_value(t, out, n, mark) : clef__undefined;
}

static clef__value read_number(clef__tpl *t, clef__slice text)
{
    char copy[400];
    char *end;
    if (memchr(text.at, '.', text.n) || memchr(text.at, 'e', text.n) || memchr(text.at, 'E', text.n)) {
        if (text.n >= sizeof copy)
            return clef__tpl_fail(t, CLEF_E_LIMIT, "a number of %zu characters", text.n);
        memcpy(copy, text.at, text.n);
        copy[text.n] = '\0';
        return clef__float(strtod(copy, &end));
    }
    const size_t digits = text.n - (text.at[0] == '-');
    if (digits > 18)
        return (clef__value){.kind = CLEF__BIG, .s = clef__str_of(t, text.at, text.n, 0)};
    memcpy(copy, text.at, text.n);
    copy[text.n] = '\0';
    return clef__int(strtoll(copy, &end, 10));
}

static clef__value read_json(clef__tpl *t, clef__slice text, int mark)
{
    clef__slice key, item;
    size_t at = 0;
    clef__value out;
    if (!clef__tpl_step(t, 1))
        return clef__undefined;
    switch (text.at[0]) {
    case '{':
        out = clef__dict_new(t, CLEF__DICT);
        while (!t->status && clef__json_next(text, &at, &key, &item))
            clef__dict_set(t, out.d, read_string(t, key, mark), read_json(t, item, mark));
        return out;
    case '[':
        out = clef__list_new(t, CLEF__LIST, 0);
        while (!t->status && clef__json_item(text, &at, &item))
            clef__list_add(t, out.l, read_json(t, item, mark));
        return out;
    case '"':
        return read_string(t, text, mark);
    case 't':
        return clef__bool(1);
    case 'f':
        return clef__bool(0);
    case 'n':
        return clef__none;
    default:
        return read_number(t, text);
    }
}

clef__value clef__value_of_json(clef__tpl *t, const char *text, size_t n, const char *what, int mark)
{
    const size_t from = clef__json_blank(text, n, 0), end = clef__json_end(text, n, from);
    if (!end || clef__json_blank(text, n, end) != n)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "%s: expected JSON of at most %d levels", what,
                              CLEF_JSON_MAX_DEPTH);
    char *copy = clef__tpl_alloc(t, end - from);
    if (!copy)
        return clef__undefined;
    memcpy(copy, text + from, end - from);
    return read_json(t, (clef__slice){copy, end - from}, mark);
}
