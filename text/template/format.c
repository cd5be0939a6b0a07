/* Text with fields: "%5.2f" % x and "{:>8}".format(x), as Python fills them. */
#include "text/template/format.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MOST_WIDTH = 1000, NUMBER_TEXT = 2 * MOST_WIDTH + 400 };

/* How a field is written. */
typedef struct spec {
    clef__str *fill;        /* one character; NULL: a space */
    char align, sign, kind; /* '<' '>' '=' '^', '+' '-' ' ', the last letter; 0: none */
    char group;             /* ',' or '_' between digits */
    int is_alternate, no_negative_zero;
    int width, precision; /* precision -1: none */
} spec;

/* ---- padding ---------------------------------------------------------------------------------- */

static void add(clef__tpl *t, clef__out *o, const char *text)
{
    clef__out_add(t, o, text, strlen(text), 0);
}

static void fill(clef__tpl *t, clef__out *o, const spec *f, int64_t n)
{
    for (; n > 0 && clef__tpl_step(t, 1); n--)
        clef__out_add(t, o, f->fill ? f->fill->p : " ", f->fill ? f->fill->n : 1, 0);
}

/* A text within its width; `prefix` is a sign or "0x", which is before the padding of '='. */
static void add_padded(clef__tpl *t, clef__out *o, const spec *f, const char *prefix, const clef__str *text)
{
    const int64_t pad = f->width - (int64_t)(strlen(prefix) + clef__n_chars(text));
    const int64_t left = pad <= 0 || f->align == '<' ? 0 : f->align == '^' ? pad / 2 : pad;
    if (f->align != '=')
        fill(t, o, f, left);
    add(t, o, prefix);
    if (f->align == '=')
        fill(t, o, f, left);
    clef__out_str(t, o, text);
    fill(t, o, f, pad - left);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

/* Digits before a point, and what follows them, with separators; zeros are added up to `width`. */
static void group_digits(char out[NUMBER_TEXT], const char *text, size_t n_digits, const spec *f, int width)
{
    const size_t size = f->kind && strchr("boxX", f->kind) ? 4 : 3, n_tail = strlen(text) - n_digits;
    const int with_zeros = f->align == '=' && f->fill && clef__str_is(f->fill, "0");
    size_t n = n_digits;
    while (with_zeros && n + (n - 1) / size + n_tail < (size_t)width)
        n++;
    char *to = out;
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % size == 0)
            *to++ = f->group;
        *to++ = i < n - n_digits ? '0' : text[i - (n - n_digits)];
    }
    memcpy(to, text + n_digits, n_tail + 1);
}

static void add_number(clef__tpl *t, clef__out *o, const spec *f, int is_negative, const char *base,
                       const char *text, size_t n_digits)
{
    char prefix[4] = "", grouped[NUMBER_TEXT];
    snprintf(prefix, sizeof prefix, "%s%s",
             is_negative                        ? "-"
             : f->sign == '+' || f->sign == ' ' ? (const char[]){f->sign, 0}
                                                : "",
             base);
    if (f->group && n_digits) {
        group_digits(grouped, text, n_digits, f, f->width - (int)strlen(prefix));
        text = grouped;
    }
    spec right = *f;
    right.align = f->align ? f->align : '>';
    clef__str whole = {.p = text, .n = strlen(text)};
    add_padded(t, o, &right, prefix, &whole);
}

/* The digits of an integer without its sign. Returns 1 where there is no such text: an integer beyond 64 bits
 * in another base than 10. */
static int int_digits(clef__value v, int base, int upper, char out[NUMBER_TEXT], int *is_negative)
{
    const char *const letters = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[80];
    int n = 0;
    if (v.kind == CLEF__BIG) {
        *is_negative = v.s->n && v.s->p[0] == '-';
        if (base != 10 || v.s->n >= NUMBER_TEXT - MOST_WIDTH)
            return 1;
        memcpy(out, v.s->p + *is_negative, v.s->n - (size_t)*is_negative);
        out[v.s->n - (size_t)*is_negative] = '\0';
        return 0;
    }
    *is_negative = v.i < 0;
    uint64_t m = v.i < 0 ? 0 - (uint64_t)v.i : (uint64_t)v.i;
    do
        reversed[n++] = letters[m % (unsigned)base];
    while (m /= (unsigned)base);
    for (int i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    out[n] = '\0';
    return 0;
}

static void add_int(clef__tpl *t, clef__out *o, const spec *f, clef__value v)
{
    const int base = f->kind == 'x' || f->kind == 'X' ? 16 : f->kind == 'o' ? 8 : f->kind == 'b' ? 2 : 10;
    char text[NUMBER_TEXT], padded[NUMBER_TEXT], prefix[3] = "";
    int is_negative;
    if (int_digits(v, base, f->kind == 'X', text, &is_negative)) {
        clef__tpl_fail(t, CLEF_E_UNSUPPORTED, "an integer beyond 64 bits in base %d", base);
        return;
    }
    const int missing = f->precision - (int)strlen(text);
    memset(padded, '0', sizeof padded);
    strcpy(padded + (missing > 0 ? missing : 0), text);
    if (f->is_alternate && base != 10)
        snprintf(prefix, sizeof prefix, "0%c", f->kind);
    add_number(t, o, f, is_negative, prefix, padded, strlen(padded));
}

/* A float in C's form of this kind: 'e', 'f', 'g', 'r' (as repr() has it) or 'n' (no kind, but a precision).
 */
static void float_text(char out[NUMBER_TEXT], double x, const spec *f)
{
    const char kind = f->kind == '%' ? 'f' : f->kind == 'n' ? 'g' : f->kind;
    char form[16];
    if (!kind && f->precision < 0) {
        clef__print_float(out, x);
        return;
    }
    if (!kind) { /* as %g, but "1.0" instead of "1", and one digit less before an exponent is written */
        const int digits = f->precision ? f->precision : 1;
        snprintf(out, NUMBER_TEXT, "%.*e", digits - 1, x);
        const char *e = strchr(out, 'e');
        if (e && atoi(e + 1) >= digits - 1 && digits > 0) {
            char shorter[NUMBER_TEXT];
            size_t n = (size_t)(e - out);
            while (memchr(out, '.', n) && (out[n - 1] == '0' || out[n - 1] == '.'))
                if (out[--n] == '.')
                    break;
            snprintf(shorter, sizeof shorter, "%.*s%s", (int)n, out, e);
            strcpy(out, shorter);
            return;
        }
        snprintf(out, NUMBER_TEXT, "%.*g", digits, x);
        if (!strpbrk(out, ".en"))
            strcat(out, ".0");
        return;
    }
    snprintf(form, sizeof form, "%%%s.*%c", f->is_alternate ? "#" : "", kind);
    snprintf(out, NUMBER_TEXT - 1, form, f->precision < 0 ? 6 : f->precision, x);
    if (f->kind == '%')
        strcat(out, "%");
}

static void add_float(clef__tpl *t, clef__out *o, const spec *f, double x)
{
    char text[NUMBER_TEXT];
    float_text(text, fabs(f->kind == '%' ? 100 * x : x), f);
    if (isnan(x) || isinf(x))
        for (char *c = text; *c && f->kind >= 'A' && f->kind <= 'Z'; c++)
            *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
    const int is_zero = strspn(text, "0.%") == strlen(text);
    add_number(t, o, f, signbit(x) && !isnan(x) && !(is_zero && f->no_negative_zero), "", text,
               strspn(text, "0123456789"));
}

static double float_of(clef__value v)
{
    char text[400];
    if (v.kind != CLEF__BIG)
        return clef__number(v);
    snprintf(text, sizeof text, "%.*s", (int)v.s->n, v.s->p);
    return strtod(text, NULL);
}

/* The character of a number; NULL and an error: there is none. */
static clef__str *char_of(clef__tpl *t, clef__value v)
{
    char *text = clef__tpl_alloc(t, 4);
    if (!text)
        return NULL;
    if (v.kind == CLEF__BIG || v.i < 0 || v.i > 0x10FFFF || (v.i >= 0xD800 && v.i < 0xE000)) {
        clef__tpl_fail(t, CLEF_E_FORMAT, "'%%c': the number is not a character");
        return NULL;
    }
    return clef__str_of(t, text, (size_t)utf8proc_encode_char((int32_t)v.i, (utf8proc_uint8_t *)text), 0);
}

/* ---- texts ------------------------------------------------------------------------------------ */

static clef__str *ascii_of(clef__tpl *t, const clef__str *s)
{
    clef__out o = {0};
    for (size_t at = 0, n; at < s->n && !t->status; at += n) {
        char text[16];
        n = clef__char_bytes(s->p + at, s->n - at);
        const unsigned c = (unsigned)clef__codepoint(s->p + at, s->n - at);
        if (c < 0x80)
            clef__out_part(t, &o, s, at, at + n);
        else
            clef__out_add(t, &o, text,
                          (size_t)sprintf(text,
                                          c < 0x100     ? "\\x%02x"
                                          : c < 0x10000 ? "\\u%04x"
                                                        : "\\U%08x",
                                          c),
                          clef__mark_at(s, at));
    }
    return clef__out_value(t, &o).s;
}

static clef__str *repr_of(clef__tpl *t, clef__value v)
{
    clef__out o = {0};
    clef__print_repr(t, &o, v);
    return clef__out_value(t, &o).s;
}

static void add_string(clef__tpl *t, clef__out *o, const spec *f, clef__str *s, char usual_align)
{
    spec own = *f;
    own.align = f->align ? f->align : usual_align;
    if (f->precision >= 0)
        s = clef__str_part(t, s, 0, clef__char_at(s, (size_t)f->precision));
    add_padded(t, o, &own, "", s);
}

/* ---- "%..." % values -------------------------------------------------------------------------- */

typedef struct percent {
    clef__tpl *t;
    const clef__str *s;
    size_t at;
    const clef__value *values;
    int32_t n, next;
    clef__value mapping; /* what names are looked up in; undefined: nothing */
    clef__out out;
} percent;

static clef__value next_value(percent *p)
{
    if (p->next < p->n)
        return p->values[p->next++];
    return clef__tpl_fail(p->t, CLEF_E_FORMAT, "format: more fields than the %d values", (int)p->n);
}

/* A width or precision: digits, or '*' for the next value. */
static int read_width(percent *p)
{
    int n = 0;
    if (p->at < p->s->n && p->s->p[p->at] == '*') {
        p->at++;
        const int64_t width = clef__int_arg(p->t, next_value(p), 0, "format: a width");
        n = width > MOST_WIDTH || width < -MOST_WIDTH ? INT_MAX : (int)width;
    } else {
        for (; p->at < p->s->n && p->s->p[p->at] >= '0' && p->s->p[p->at] <= '9' && n <= MOST_WIDTH; p->at++)
            n = 10 * n + p->s->p[p->at] - '0';
    }
    if (n > MOST_WIDTH)
        clef__tpl_fail(p->t, CLEF_E_LIMIT, "format: a field wider than %d", MOST_WIDTH);
    return n;
}

/* The name of %(name)s is looked up. */
static clef__value named_value(percent *p)
{
    const size_t from = ++p->at;
    int depth = 1;
    for (; p->at < p->s->n; p->at++) {
        depth += p->s->p[p->at] == '(' ? 1 : p->s->p[p->at] == ')' ? -1 : 0;
        if (depth == 0)
            break;
    }
    if (p->at >= p->s->n || p->mapping.kind != CLEF__DICT)
        return clef__tpl_fail(p->t, CLEF_E_FORMAT, "format: a field with a name needs ')' and a dict");
    const clef__value name = clef__str_value(clef__str_part(p->t, p->s, from, p->at));
    const clef__value *found = clef__dict_find(p->mapping.d, name);
    p->at++;
    return found ? *found
                 : clef__tpl_fail(p->t, CLEF_E_FORMAT, "format: no value for '%.*s'", (int)name.s->n,
                                  name.s->p);
}

static void add_percent_int(percent *p, const spec *f, clef__value v)
{
    if (v.kind == CLEF__FLOAT && isfinite(v.f) && strchr("diu", f->kind))
        v = clef__float_to_int(p->t, v.f);
    if (v.kind != CLEF__INT && v.kind != CLEF__BOOL && v.kind != CLEF__BIG)
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "'%%%c': expected an integer, got '%s'", f->kind,
                       clef__kind_name(v));
    else
        add_int(p->t, &p->out, f, v);
}

static void add_percent_char(percent *p, const spec *f, clef__value v)
{
    clef__str *s = NULL;
    if (v.kind == CLEF__STRING && clef__n_chars(v.s) == 1)
        s = v.s;
    else if (v.kind == CLEF__INT || v.kind == CLEF__BOOL || v.kind == CLEF__BIG)
        s = char_of(p->t, v);
    else
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "'%%c': expected an integer or one character, got '%s'",
                       clef__kind_name(v));
    if (s)
        add_string(p->t, &p->out, &(spec){.width = f->width, .align = f->align, .precision = -1}, s, '>');
}

static void add_percent_value(percent *p, spec *f, clef__value v)
{
    clef__str zero = {.p = "0", .n = 1};
    const int is_number = strchr("diouxXeEfFgG", f->kind) != NULL;
    if (is_number && f->align == '=')
        f->fill = &zero;
    else if (f->align == '=')
        f->align = 0;
    if (strchr("sra", f->kind)) {
        clef__str *s = f->kind == 's' ? clef__to_str(p->t, v) : repr_of(p->t, v);
        if (f->kind == 'a')
            s = ascii_of(p->t, s);
        if (p->s->is_safe)
            s = clef__str_escape(p->t, s);
        add_string(p->t, &p->out, f, s, '>');
    } else if (f->kind == 'c') {
        add_percent_char(p, f, v);
    } else if (strchr("diouxX", f->kind)) {
        add_percent_int(p, f, v);
    } else if (!clef__is_number(v) && v.kind != CLEF__BIG) {
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "'%%%c': expected a number, got '%s'", f->kind,
                       clef__kind_name(v));
    } else {
        add_float(p->t, &p->out, f, float_of(v));
    }
}

/* One field, from behind its '%' on. */
static void add_percent_field(percent *p)
{
    const clef__str *s = p->s;
    spec f = {.precision = -1};
    clef__value v = clef__undefined;
    const int is_named = p->at < s->n && s->p[p->at] == '(';
    if (is_named)
        v = named_value(p);
    for (; p->at < s->n && s->p[p->at] && strchr("-+ #0", s->p[p->at]); p->at++) {
        const char c = s->p[p->at];
        if (c == '-' || (c == '0' && f.align != '<'))
            f.align = c == '-' ? '<' : '=';
        else if (c == '+' || (c == ' ' && !f.sign))
            f.sign = c;
        f.is_alternate |= c == '#';
    }
    f.width = read_width(p);
    if (f.width < 0) {
        f.align = '<';
        f.width = -f.width;
    }
    if (p->at < s->n && s->p[p->at] == '.') {
        p->at++;
        f.precision = read_width(p);
        f.precision = f.precision < 0 ? 0 : f.precision;
    }
    p->at += p->at < s->n && s->p[p->at] && strchr("hlL", s->p[p->at]);
    f.kind = p->at < s->n ? s->p[p->at++] : '\0';
    if (p->t->status)
        return;
    if (f.kind == '%')
        clef__out_add(p->t, &p->out, "%", 1, clef__mark_at(s, p->at - 1));
    else if (!f.kind || !strchr("srdiouxXeEfFgGca", f.kind))
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "format: a field of a kind that is not known");
    else
        add_percent_value(p, &f, is_named ? v : next_value(p));
}

static clef__value fill_percent(percent *p, int all_are_used)
{
    while (p->at < p->s->n && !p->t->status) {
        const char *next = memchr(p->s->p + p->at, '%', p->s->n - p->at);
        const size_t to = next ? (size_t)(next - p->s->p) : p->s->n;
        clef__out_part(p->t, &p->out, p->s, p->at, to);
        p->at = to + 1;
        if (next)
            add_percent_field(p);
    }
    if (p->next < p->n && all_are_used)
        clef__tpl_fail(p->t, CLEF_E_FORMAT, "format: %d values for %d fields", (int)p->n, (int)p->next);
    const clef__value out = clef__out_value(p->t, &p->out);
    if (!p->t->status)
        out.s->is_safe = p->s->is_safe;
    return out;
}

clef__value clef__format_percent(clef__tpl *t, const clef__str *s, clef__value values)
{
    percent p = {.t = t, .s = s, .values = &values, .n = 1, .mapping = values};
    const int is_mapping = values.kind == CLEF__DICT || values.kind == CLEF__LIST ||
                           values.kind == CLEF__UNDEFINED || values.kind == CLEF__RANGE ||
                           values.kind == CLEF__NAMESPACE;
    if (values.kind == CLEF__TUPLE) {
        p.values = values.l->at;
        p.n = (int32_t)values.l->n;
    }
    return fill_percent(&p, !is_mapping);
}

clef__value clef__filter_format(clef__tpl *t, clef__value self, const clef__args *args)
{
    percent p = {.t = t, .s = clef__to_str(t, self), .values = args->at, .n = args->n};
    if (args->n && args->n_named)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "format: values by position and by name");
    if (args->n_named)
        p.mapping = clef__dict_new(t, CLEF__DICT);
    for (int32_t i = 0; i < args->n_named && !t->status; i++)
        clef__dict_set(t, p.mapping.d, clef__str_value(args->names[i]), args->named[i]);
    if (args->n_named) {
        p.values = &p.mapping;
        p.n = 1;
    }
    return t->status ? clef__undefined : fill_percent(&p, !args->n_named);
}

/* ---- "{}".format(values) ---------------------------------------------------------------------- */

typedef struct braces {
    clef__tpl *t;
    const clef__args *args;
    int next, counts; /* counts: 1 fields are counted, 2 they have numbers */
} braces;

static int number_of(const char *p, size_t n)
{
    int out = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || i >= 6)
            return -1;
        else
            out = 10 * out + p[i] - '0';
    return n ? out : -1;
}

/* The value that a field begins with: by number, by name, or the next one. */
static clef__value first_value(braces *b, const clef__str *name)
{
    const clef__args *args = b->args;
    int i = number_of(name->p, name->n);
    const int counts = name->n == 0 ? 1 : i >= 0 ? 2 : 0;
    if (counts && b->counts && counts != b->counts)
        return clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): fields with and without numbers");
    b->counts = counts ? counts : b->counts;
    if (name->n == 0)
        i = b->next++;
    if (i >= 0 && i < args->n)
        return args->at[i];
    for (int32_t k = 0; i < 0 && k < args->n_named; k++)
        if (args->names[k]->n == name->n && memcmp(args->names[k]->p, name->p, name->n) == 0)
            return args->named[k];
    return clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): no value for '{%.*s}'", (int)name->n, name->p);
}

/* A field's value: "0.name[key]". */
static clef__value field_value(braces *b, const clef__str *name)
{
    size_t at = 0;
    while (at < name->n && name->p[at] != '.' && name->p[at] != '[')
        at++;
    clef__value v = first_value(b, clef__str_part(b->t, name, 0, at));
    while (at < name->n && !b->t->status) {
        const int is_item = name->p[at++] == '[';
        const size_t from = at;
        while (at < name->n && (is_item ? name->p[at] != ']' : name->p[at] != '.' && name->p[at] != '['))
            at++;
        clef__str *part = clef__str_part(b->t, name, from, at);
        if (part->n == 0 || (is_item && at == name->n))
            return clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): '{%.*s}' is malformed", (int)name->n,
                                  name->p);
        const int i = number_of(part->p, part->n);
        v = !is_item ? clef__attribute(b->t, v, part)
                     : clef__item(b->t, v, i >= 0 ? clef__int(i) : clef__str_value(part));
        at += (size_t)is_item;
        if (is_item && at < name->n && name->p[at] != '.' && name->p[at] != '[')
            return clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): '{%.*s}' is malformed", (int)name->n,
                                  name->p);
    }
    return v;
}

static int is_align(char c)
{
    return c == '<' || c == '>' || c == '=' || c == '^';
}

static int spec_number(clef__tpl *t, const clef__str *s, size_t *at)
{
    const size_t from = *at;
    while (*at < s->n && s->p[*at] >= '0' && s->p[*at] <= '9')
        ++*at;
    const int n = number_of(s->p + from, *at - from);
    if (n > MOST_WIDTH || *at - from > 6)
        clef__tpl_fail(t, CLEF_E_LIMIT, "format(): a field wider than %d", MOST_WIDTH);
    return n;
}

/* [[fill]align][sign][z][#][0][width][group][.precision][kind]. Returns 1 when all was read. */
static int read_spec(clef__tpl *t, clef__str *s, int is_number, spec *f)
{
    static clef__str zero = {.p = "0", .n = 1};
    size_t at = 0;
    const size_t n = s->n ? clef__char_bytes(s->p, s->n) : 0;
    *f = (spec){.precision = -1};
    if (s->n > n && is_align(s->p[n])) {
        f->fill = clef__str_part(t, s, 0, n);
        f->align = s->p[n];
        at = n + 1;
    } else if (s->n && is_align(s->p[0])) {
        f->align = s->p[at++];
    }
    if (at < s->n && s->p[at] && strchr("+- ", s->p[at]))
        f->sign = s->p[at++];
    if (at < s->n && s->p[at] == 'z')
        f->no_negative_zero = 1, at++;
    if (at < s->n && s->p[at] == '#')
        f->is_alternate = 1, at++;
    if (at < s->n && s->p[at] == '0' && !f->fill) {
        f->fill = &zero;
        f->align = f->align ? f->align : is_number ? '=' : '<';
        at++;
    }
    f->width = spec_number(t, s, &at);
    f->width = f->width < 0 ? 0 : f->width;
    if (at < s->n && (s->p[at] == ',' || s->p[at] == '_'))
        f->group = s->p[at++];
    if (at < s->n && s->p[at] == '.') {
        at++;
        f->precision = spec_number(t, s, &at);
        if (f->precision < 0)
            return 0;
    }
    if (at < s->n)
        f->kind = s->p[at++];
    return at == s->n;
}

static int spec_of_text(const spec *f)
{
    return (!f->kind || f->kind == 's') && f->align != '=' && !f->sign && !f->group && !f->is_alternate &&
           !f->no_negative_zero;
}

/* Whether a spec is one of an integer, of a character, or of a float ('f'); 0: of none. */
static char spec_of_number(const spec *f, int is_int)
{
    const int groups = f->group == ',' ? f->kind && !strchr("deEfFgG%", f->kind)
                                       : f->group && f->kind && !strchr("dboxXeEfFgG%", f->kind);
    if (groups)
        return 0;
    if (is_int && (!f->kind || strchr("dboxXn", f->kind)))
        return f->precision < 0 && !f->no_negative_zero ? 'd' : 0;
    if (is_int && f->kind == 'c')
        return f->precision < 0 && !f->sign && !f->is_alternate ? 'c' : 0;
    return !f->kind || strchr("eEfFgGn%", f->kind) ? 'f' : 0;
}

static void add_value(clef__tpl *t, clef__out *o, clef__value v, clef__str *text)
{
    const int is_int = v.kind == CLEF__INT || v.kind == CLEF__BOOL || v.kind == CLEF__BIG,
              is_number = is_int || v.kind == CLEF__FLOAT;
    spec f;
    if (text->n == 0) {
        clef__out_str(t, o, clef__to_str(t, v));
        return;
    }
    const int is_read = read_spec(t, text, is_number, &f);
    const char of_number = is_number && is_read ? spec_of_number(&f, is_int) : 0;
    if (v.kind == CLEF__STRING && is_read && spec_of_text(&f))
        add_string(t, o, &f, v.s, '<');
    else if (of_number == 'd')
        add_int(t, o, &f, v);
    else if (of_number == 'c' && char_of(t, v))
        add_string(t, o, &f, char_of(t, v), '<');
    else if (of_number == 'f')
        add_float(t, o, &f, float_of(v));
    else
        clef__tpl_fail(t, CLEF_E_FORMAT, "format(): '%.*s' does not go with '%s'",
                       text->n > 40 ? 40 : (int)text->n, text->p, clef__kind_name(v));
}

static clef__str *fill_braces(braces *b, const clef__str *s, int depth);

/* A field's text, between its braces: name, !conversion, :spec. */
static void add_field(braces *b, clef__out *o, const clef__str *s, size_t from, size_t to, int depth)
{
    size_t at = from;
    int in_item = 0;
    for (; at < to && (in_item || (s->p[at] != '!' && s->p[at] != ':')); at++)
        in_item = s->p[at] == '[' || (in_item && s->p[at] != ']');
    clef__value v = field_value(b, clef__str_part(b->t, s, from, at));
    if (at < to && s->p[at] == '!') {
        const char how = at + 1 < to ? s->p[at + 1] : 0;
        if (!how || !strchr("rsa", how) || (at + 2 < to && s->p[at + 2] != ':'))
            clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): expected !r, !s or !a");
        else
            v = clef__str_value(how == 's'   ? clef__to_str(b->t, v)
                                : how == 'r' ? repr_of(b->t, v)
                                             : ascii_of(b->t, repr_of(b->t, v)));
        at += 2;
    }
    if (b->t->status)
        return;
    clef__str *spec_text = clef__str_part(b->t, s, at < to ? at + 1 : to, to);
    if (memchr(spec_text->p, '{', spec_text->n))
        spec_text = fill_braces(b, spec_text, depth + 1);
    if (b->t->status)
        return;
    if (!s->is_safe) {
        add_value(b->t, o, v, spec_text);
        return;
    }
    clef__out field = {0};
    if (spec_text->n == 0)
        clef__out_str(b->t, &field, clef__str_escape(b->t, clef__to_str(b->t, v)));
    else
        add_value(b->t, &field, v, spec_text);
    clef__out_str(b->t, o, clef__out_value(b->t, &field).s);
}

static clef__str *fill_braces(braces *b, const clef__str *s, int depth)
{
    clef__out o = {0};
    if (depth > 1)
        clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): fields nest deeper than 2");
    for (size_t at = 0; at < s->n && !b->t->status; at++) {
        const char c = s->p[at];
        if (c != '{' && c != '}') {
            clef__out_part(b->t, &o, s, at, at + 1);
        } else if (depth == 0 && at + 1 < s->n && s->p[at + 1] == c) {
            clef__out_part(b->t, &o, s, at, at + 1);
            at++;
        } else if (c == '{') {
            size_t to = at + 1;
            int open = 1, in_item = 0;
            for (; to < s->n; to++) {
                in_item = (in_item || s->p[to] == '[') && s->p[to] != ']';
                open += in_item ? 0 : s->p[to] == '{' ? 1 : s->p[to] == '}' ? -1 : 0;
                if (open == 0)
                    break;
            }
            if (to == s->n)
                clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): '{' without '}'");
            else
                add_field(b, &o, s, at + 1, to, depth);
            at = to;
        } else {
            clef__tpl_fail(b->t, CLEF_E_FORMAT, "format(): '}' without '{'");
        }
    }
    return clef__out_value(b->t, &o).s;
}

clef__value clef__format_braces(clef__tpl *t, clef__value self, const clef__args *args)
{
    braces b = {.t = t, .args = args};
    clef__str *out = fill_braces(&b, self.s, 0);
    if (t->status)
        return clef__undefined;
    out->is_safe = self.s->is_safe;
    return clef__str_value(out);
}
