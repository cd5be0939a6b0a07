/* Numbers out of text, as Python's int() and float() read them, and the filters of numbers. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/checked.h"
#include "text/template/filters.h"

enum { MOST_TEXT = 4300 }; /* as Python limits the digits of an integer */

/* The same text without blanks around it, and with ASCII's digits for those of all scripts. NULL: it is too
 * long. */
static char *plain_number(clef__tpl *t, const clef__str *s)
{
    const clef__str *inner = clef__strip(t, s, NULL, 1, 1);
    char *out = inner->n <= MOST_TEXT ? clef__tpl_alloc(t, inner->n + 1) : NULL;
    size_t n = 0;
    for (size_t at = 0, used; out && at < inner->n; at += used) {
        used = clef__char_bytes(inner->p + at, inner->n - at);
        const int digit = clef__char_decimal(clef__codepoint(inner->p + at, inner->n - at));
        out[n++] = digit >= 0 ? (char)('0' + digit) : used == 1 && inner->p[at] ? inner->p[at] : '?';
    }
    return out;
}

/* Drops underscores, which are between two digits. Returns 0 where one is elsewhere. */
static int drop_underscores(char *text, int after_base)
{
    char *to = text;
    for (const char *c = text; *c; c++) {
        const char before = c == text ? (char)(after_base ? '0' : 0) : c[-1];
        if (*c != '_')
            *to++ = *c;
        else if (!c[1] || before == '_' || before == 0 || before == '.' || c[1] == '.' || before == '+' ||
                 before == '-')
            return 0;
    }
    *to = '\0';
    return 1;
}

/* The base that a prefix such as "0x" names; 0: there is none. */
static int base_of(const char *text)
{
    const char letter = (char)(text[0] == '0' ? text[1] | 0x20 : 0);
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

/* An integer in a base of 2 to 36, or 0: as its prefix says. Undefined: it is none. */
static clef__value read_int(clef__tpl *t, char *text, int64_t base)
{
    const int is_negative = *text == '-';
    char *end;
    text += *text == '-' || *text == '+';
    const int named = base_of(text), has_prefix = named && (base == 0 || base == named);
    if (base != 0 && (base < 2 || base > 36))
        return clef__undefined;
    text += has_prefix ? 2 : 0;
    if (!drop_underscores(text, has_prefix) || !*text || *text == '+' || *text == '-' || *text == ' ')
        return clef__undefined;
    if (base == 0 && !has_prefix && *text == '0' && strspn(text, "0") != strlen(text))
        return clef__undefined; /* "012" is not an integer in Python */
    for (const char *c = text; *c; c++)
        if (!((*c >= '0' && *c <= '9') || ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z')))
            return clef__undefined;
    errno = 0;
    const int in_base = has_prefix ? named : base ? (int)base : 10;
    const unsigned long long m = strtoull(text, &end, in_base);
    if (*end)
        return clef__undefined;
    if (errno == 0 && m <= (unsigned long long)INT64_MAX)
        return clef__int(is_negative ? -(int64_t)m : (int64_t)m);
    if (in_base != 10)
        return clef__tpl_fail(t, CLEF_E_LIMIT, "int: an integer beyond 64 bits");
    while (*text == '0' && text[1])
        text++;
    if (is_negative)
        *--text = '-';
    return (clef__value){.kind = CLEF__BIG, .s = clef__str_of(t, text, strlen(text), 0)};
}

/* A float; undefined: it is none. */
static clef__value read_float(char *text)
{
    const char *c = text + (*text == '-' || *text == '+');
    char *end;
    const int is_word = (*c | 0x20) == 'i' || (*c | 0x20) == 'n';
    if (!drop_underscores(text, 0) || !*c || (*c | 0x20) > 'n' || *c == '(')
        return clef__undefined;
    if (!is_word && (strspn(c, "0123456789.eE+-") != strlen(c) || !strpbrk(c, "0123456789")))
        return clef__undefined;
    if (strchr(c, '(')) /* C reads nan(..) */
        return clef__undefined;
    const double x = strtod(text, &end);
    return *end ? clef__undefined : clef__float(x);
}

clef__value clef__float_to_int(clef__tpl *t, double x)
{
    char text[400];
    if (fabs(x) < 9e18)
        return clef__int((int64_t)x);
    const int n = snprintf(text, sizeof text, "%.0f", trunc(x));
    char *copy = clef__tpl_alloc(t, (size_t)n);
    return copy ? (clef__value){.kind = CLEF__BIG,
                                .s = clef__str_of(t, memcpy(copy, text, (size_t)n), (size_t)n, 0)}
                : clef__undefined;
}

clef__value clef__filter_int(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("int", "default base");
    const clef__value usual = args->n + args->n_named && a[0].kind != CLEF__UNDEFINED ? a[0] : clef__int(0);
    const int64_t base = clef__int_arg(t, a[1], 10, "int: base");
    clef__value x = self;
    if (self.kind == CLEF__UNDEFINED)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "int: the value is undefined");
    if (self.kind == CLEF__INT || self.kind == CLEF__BOOL)
        return clef__int(self.i);
    if (self.kind == CLEF__BIG)
        return self;
    if (self.kind == CLEF__STRING) {
        char *text = plain_number(t, self.s);
        const clef__value i = text ? read_int(t, text, base) : clef__undefined;
        if (t->status || i.kind != CLEF__UNDEFINED)
            return i;
        text = text ? plain_number(t, self.s) : NULL; /* reading changed it */
        x = text ? read_float(text) : clef__undefined;
    }
    return x.kind == CLEF__FLOAT && isfinite(x.f) ? clef__float_to_int(t, x.f) : usual;
}

clef__value clef__filter_float(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("float", "default");
    const clef__value usual = a[0].kind == CLEF__UNDEFINED ? clef__float(0) : a[0];
    char *text = NULL;
    if (self.kind == CLEF__UNDEFINED)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "float: the value is undefined");
    if (clef__is_number(self))
        return clef__float(clef__number(self));
    if (self.kind == CLEF__STRING || self.kind == CLEF__BIG)
        text = plain_number(t, self.s);
    const clef__value x = text ? read_float(text) : clef__undefined;
    return x.kind == CLEF__FLOAT ? x : usual;
}

clef__value clef__filter_abs(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("abs", "");
    if (!clef__is_number(self))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "abs: expected a number, got '%s'", clef__kind_name(self));
    if (self.kind != CLEF__FLOAT && self.i == INT64_MIN)
        return clef__tpl_fail(t, CLEF_E_LIMIT, "an integer beyond 64 bits");
    return self.kind == CLEF__FLOAT ? clef__float(fabs(self.f)) : clef__int(self.i < 0 ? -self.i : self.i);
}

/* An integer to a power of ten; the even one of two that are as near. */
static clef__value round_int(clef__tpl *t, int64_t x, int64_t digits)
{
    int64_t unit = 1;
    if (digits < -18)
        return clef__int(0);
    for (; digits < 0; digits++)
        unit *= 10;
    int64_t rest = x % unit, out;
    if (rest < 0)
        rest += unit;
    int64_t below;
    if (clef__subtract_checked(x, rest, &below))
        return clef__tpl_fail(t, CLEF_E_LIMIT, "an integer beyond 64 bits");
    const int up = rest > unit - rest || (unit > 1 && rest == unit - rest && (below / unit) % 2 != 0);
    if (!up)
        return clef__int(below);
    return clef__add_checked(below, unit, &out) ? clef__tpl_fail(t, CLEF_E_LIMIT, "an integer beyond 64 bits")
                                                : clef__int(out);
}

clef__value clef__filter_round(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("round", "precision method");
    const int64_t digits = clef__int_arg(t, a[0], 0, "round");
    const int is_ceil = a[1].kind == CLEF__STRING && clef__str_is(a[1].s, "ceil"),
              is_floor = a[1].kind == CLEF__STRING && clef__str_is(a[1].s, "floor");
    if (!clef__is_number(self) || digits < -300 || digits > 300)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "round: expected a number, and a precision from -300 to 300");
    const double x = clef__number(self), scale = pow(10, (double)digits);
    if (is_ceil || is_floor) /* through an integer, which has no -0 */
        return clef__float(((is_ceil ? ceil(x * scale) : floor(x * scale)) + 0.0) / scale);
    if (a[1].kind != CLEF__UNDEFINED && (a[1].kind != CLEF__STRING || !clef__str_is(a[1].s, "common")))
        return clef__tpl_fail(t, CLEF_E_FORMAT, "round: expected the method common, ceil or floor");
    if (self.kind != CLEF__FLOAT)
        return digits >= 0 ? clef__int(self.i) : round_int(t, self.i, digits);
    char text[700];
    if (digits < 0)
        return clef__float(rint(x * pow(10, (double)digits)) * pow(10, (double)-digits));
    snprintf(text, sizeof text, "%.*f", (int)digits, x);
    return clef__float(strtod(text, NULL));
}
