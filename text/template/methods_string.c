/* Methods of strings: Python's, by its names. */
#include <string.h>
#include <utf8proc.h>

#include "text/template/format.h"
#include "text/template/methods.h"

static clef__str *want_str(clef__tpl *t, clef__value v, const char *what)
{
    if (v.kind == CLEF__STRING)
        return v.s;
    clef__tpl_fail(t, CLEF_E_FORMAT, "%s: expected a string, got '%s'", what, clef__kind_name(v));
    return NULL;
}

static clef__value str_upper(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("upper()", "");
    return clef__str_value(clef__change_case(t, self.s, 'u'));
}

static clef__value str_lower(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("lower()", "");
    return clef__str_value(clef__change_case(t, self.s, 'l'));
}

static clef__value str_title(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("title()", "");
    return clef__str_value(clef__change_case(t, self.s, 't'));
}

static clef__value str_capitalize(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("capitalize()", "");
    return clef__str_value(clef__change_case(t, self.s, 'c'));
}

static clef__value str_swapcase(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("swapcase()", "");
    return clef__str_value(clef__change_case(t, self.s, 's'));
}

static clef__value stripped(clef__tpl *t, clef__value self, const clef__args *args, int left, int right)
{
    ARGS("strip()", "/ chars");
    clef__str *chars =
        a[0].kind == CLEF__UNDEFINED || a[0].kind == CLEF__NONE ? NULL : want_str(t, a[0], "strip()");
    return t->status ? clef__undefined : clef__str_value(clef__strip(t, self.s, chars, left, right));
}

static clef__value str_strip(clef__tpl *t, clef__value self, const clef__args *args)
{
    return stripped(t, self, args, 1, 1);
}

static clef__value str_lstrip(clef__tpl *t, clef__value self, const clef__args *args)
{
    return stripped(t, self, args, 1, 0);
}

static clef__value str_rstrip(clef__tpl *t, clef__value self, const clef__args *args)
{
    return stripped(t, self, args, 0, 1);
}

static void add_part(clef__tpl *t, clef__value list, const clef__str *s, size_t from, size_t to)
{
    clef__list_add(t, list.l, clef__str_value(clef__str_part(t, s, from, to)));
}

/* Between white space: parts are never empty. What is left at the limit loses white space at its begin. */
static clef__value split_space(clef__tpl *t, const clef__str *s, int64_t most)
{
    clef__value out = clef__list_new(t, CLEF__LIST, 0);
    size_t at = 0;
    while (!t->status) {
        while (at < s->n && clef__tpl_is_space(clef__codepoint(s->p + at, s->n - at)))
            at += clef__char_bytes(s->p + at, s->n - at);
        if (at >= s->n)
            break;
        const size_t from = at;
        if (most == 0) {
            add_part(t, out, s, from, s->n);
            break;
        }
        while (at < s->n && !clef__tpl_is_space(clef__codepoint(s->p + at, s->n - at)))
            at += clef__char_bytes(s->p + at, s->n - at);
        add_part(t, out, s, from, at);
        most--;
    }
    return out;
}

static clef__value reversed(clef__tpl *t, clef__value list)
{
    clef__value out = clef__list_new(t, CLEF__LIST, 0);
    for (size_t i = t->status ? 0 : list.l->n; i > 0; i--)
        clef__list_add(t, out.l, list.l->at[i - 1]);
    return out;
}

/* The same from the end on. */
static clef__value split_space_from_right(clef__tpl *t, const clef__str *s, int64_t most)
{
    clef__value out = clef__list_new(t, CLEF__LIST, 0);
    clef__str *rest = clef__strip(t, s, NULL, 0, 1);
    while (!t->status && rest->n) {
        const size_t end = rest->n;
        size_t from = most == 0 ? 0 : end;
        while (from > 0) {
            size_t at = from - 1;
            while (at > 0 && ((unsigned char)rest->p[at] & 0xC0) == 0x80)
                at--;
            if (clef__tpl_is_space(clef__codepoint(rest->p + at, rest->n - at)))
                break;
            from = at;
        }
        add_part(t, out, rest, from, end);
        rest = clef__strip(t, clef__str_part(t, rest, 0, from), NULL, 0, 1);
        most--;
    }
    return reversed(t, out);
}

static int64_t find_last(const clef__str *s, const clef__str *what, size_t end)
{
    for (size_t at = end < what->n ? 0 : end - what->n + 1; at-- > 0;)
        if (memcmp(s->p + at, what->p, what->n) == 0)
            return (int64_t)at;
    return -1;
}

static clef__value split_from_right(clef__tpl *t, const clef__str *s, const clef__str *by, int64_t most)
{
    clef__value out = clef__list_new(t, CLEF__LIST, 0);
    size_t end = s->n;
    while (most-- != 0 && !t->status) {
        const int64_t at = find_last(s, by, end);
        if (at < 0)
            break;
        add_part(t, out, s, (size_t)at + by->n, end);
        end = (size_t)at;
    }
    add_part(t, out, s, 0, end);
    return reversed(t, out);
}

static clef__value split(clef__tpl *t, clef__value self, const clef__args *args, int from_right)
{
    ARGS("split()", "sep maxsplit");
    int64_t most = clef__int_arg(t, a[1], -1, "split()");
    clef__value out = clef__list_new(t, CLEF__LIST, 0);
    size_t at = 0;
    if (a[0].kind == CLEF__UNDEFINED || a[0].kind == CLEF__NONE)
        return from_right ? split_space_from_right(t, self.s, most) : split_space(t, self.s, most);
    const clef__str *by = want_str(t, a[0], "split()");
    if (by && by->n == 0)
        clef__tpl_fail(t, CLEF_E_FORMAT, "split(): the separator is empty");
    if (t->status)
        return out;
    if (from_right)
        return split_from_right(t, self.s, by, most);
    while (most-- != 0 && !t->status) {
        const int64_t found = clef__find_bytes(self.s, by, at);
        if (found < 0)
            break;
        add_part(t, out, self.s, at, (size_t)found);
        at = (size_t)found + by->n;
    }
    add_part(t, out, self.s, at, self.s->n);
    return out;
}

static clef__value str_split(clef__tpl *t, clef__value self, const clef__args *args)
{
    return split(t, self, args, 0);
}

static clef__value str_rsplit(clef__tpl *t, clef__value self, const clef__args *args)
{
    return split(t, self, args, 1);
}

static int is_line_end(int32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static clef__value str_splitlines(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("splitlines()", "keepends");
    const clef__str *s = self.s;
    const int keeps = clef__is_true(a[0]);
    clef__value out = clef__list_new(t, CLEF__LIST, 0);
    for (size_t at = 0, from = 0; at < s->n && !t->status;) {
        const int32_t c = clef__codepoint(s->p + at, s->n - at);
        const size_t end = at;
        at += clef__char_bytes(s->p + at, s->n - at);
        if (c == '\r' && at < s->n && s->p[at] == '\n')
            at++;
        if (is_line_end(c)) {
            add_part(t, out, s, from, keeps ? at : end);
            from = at;
        } else if (at >= s->n) {
            add_part(t, out, s, from, s->n);
        }
    }
    return out;
}

static clef__value str_replace(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("replace()", "/ old new count");
    const clef__str *from = want_str(t, a[0], "replace()"), *to = want_str(t, a[1], "replace()");
    const int64_t most = clef__int_arg(t, a[2], -1, "replace()");
    return t->status ? clef__undefined : clef__str_value(clef__replace(t, self.s, from, to, most));
}

static int has_at(const clef__str *s, const clef__str *part, int at_end)
{
    return part->n <= s->n && memcmp(s->p + (at_end ? s->n - part->n : 0), part->p, part->n) == 0;
}

static clef__value begins_or_ends(clef__tpl *t, clef__value self, const clef__args *args, int at_end)
{
    ARGS(at_end ? "endswith()" : "startswith()", "/ prefix start end");
    if (a[1].kind != CLEF__UNDEFINED)
        self = clef__slice_of(t, self, a[1], a[2], clef__undefined);
    if (a[0].kind == CLEF__TUPLE) {
        for (size_t i = 0; i < a[0].l->n && !t->status; i++) {
            const clef__str *part = want_str(t, a[0].l->at[i], "startswith()");
            if (part && has_at(self.s, part, at_end))
                return clef__bool(1);
        }
        return clef__bool(0);
    }
    const clef__str *part = want_str(t, a[0], at_end ? "endswith()" : "startswith()");
    return clef__bool(part && !t->status && has_at(self.s, part, at_end));
}

static clef__value str_startswith(clef__tpl *t, clef__value self, const clef__args *args)
{
    return begins_or_ends(t, self, args, 0);
}

static clef__value str_endswith(clef__tpl *t, clef__value self, const clef__args *args)
{
    return begins_or_ends(t, self, args, 1);
}

static clef__value str_join(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("join()", "/ iterable");
    const clef__list *items = clef__items(t, a[0]);
    clef__out o = {0};
    for (size_t i = 0; items && i < items->n && !t->status; i++) {
        const clef__str *part = want_str(t, items->at[i], "join()");
        if (i)
            clef__out_str(t, &o, self.s);
        if (part)
            clef__out_str(t, &o, part);
    }
    return clef__out_value(t, &o);
}

/* The number of the character at a byte. */
static int64_t char_number(const clef__str *s, int64_t byte)
{
    const clef__str before = {.p = s->p, .n = byte < 0 ? 0 : (size_t)byte};
    return byte < 0 ? -1 : (int64_t)clef__n_chars(&before);
}

static clef__value find(clef__tpl *t, clef__value self, const clef__args *args, int last, int must)
{
    ARGS("find()", "/ sub start end");
    const clef__str *what = want_str(t, a[0], "find()");
    clef__value in = self;
    int64_t skipped = 0;
    if (a[1].kind != CLEF__UNDEFINED) {
        in = clef__slice_of(t, self, a[1], a[2], clef__undefined);
        const int64_t n = (int64_t)clef__n_chars(self.s), from = clef__int_arg(t, a[1], 0, "find()");
        skipped = from < 0 ? (from + n < 0 ? 0 : from + n) : from > n ? n : from;
    }
    if (t->status)
        return clef__undefined;
    const int64_t at = last ? find_last(in.s, what, in.s->n) : clef__find_bytes(in.s, what, 0);
    if (at < 0 && must)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "index(): '%.*s' is not there",
                              what->n > 40 ? 40 : (int)what->n, what->p);
    return clef__int(at < 0 ? -1 : char_number(in.s, at) + skipped);
}

static clef__value str_find(clef__tpl *t, clef__value self, const clef__args *args)
{
    return find(t, self, args, 0, 0);
}

static clef__value str_rfind(clef__tpl *t, clef__value self, const clef__args *args)
{
    return find(t, self, args, 1, 0);
}

static clef__value str_index(clef__tpl *t, clef__value self, const clef__args *args)
{
    return find(t, self, args, 0, 1);
}

static clef__value str_rindex(clef__tpl *t, clef__value self, const clef__args *args)
{
    return find(t, self, args, 1, 1);
}

static clef__value str_count(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("count()", "/ sub start end");
    const clef__str *what = want_str(t, a[0], "count()");
    if (args->n > 1)
        self = clef__slice_of(t, self, a[1], a[2], clef__undefined);
    if (t->status)
        return clef__undefined;
    int64_t n = 0, at = 0;
    if (what && what->n == 0)
        return clef__int((int64_t)clef__n_chars(self.s) + 1);
    while (what && (at = clef__find_bytes(self.s, what, (size_t)at)) >= 0) {
        n++;
        at += (int64_t)what->n;
    }
    return clef__int(n);
}

/* 1 when there are characters and all have a property. */
static clef__value all_are(const clef__str *s, int (*is)(int32_t c))
{
    for (size_t at = 0; at < s->n; at += clef__char_bytes(s->p + at, s->n - at))
        if (!is(clef__codepoint(s->p + at, s->n - at)))
            return clef__bool(0);
    return clef__bool(s->n > 0);
}

static int is_decimal(int32_t c)
{
    return clef__char_decimal(c) >= 0;
}

static int is_alpha(int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

static int is_alnum(int32_t c)
{
    return is_alpha(c) || clef__char_is_numeric(c);
}

static int is_ascii(int32_t c)
{
    return c < 128;
}

static clef__value str_isdigit(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isdigit()", "");
    return all_are(self.s, clef__char_is_digit);
}

static clef__value str_isnumeric(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isnumeric()", "");
    return all_are(self.s, clef__char_is_numeric);
}

static clef__value str_isdecimal(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isdecimal()", "");
    return all_are(self.s, is_decimal);
}

static clef__value str_casefold(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("casefold()", "");
    return clef__str_value(clef__change_case(t, self.s, 'f'));
}

static clef__value str_isalpha(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isalpha()", "");
    return all_are(self.s, is_alpha);
}

static clef__value str_isalnum(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isalnum()", "");
    return all_are(self.s, is_alnum);
}

static clef__value str_isspace(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isspace()", "");
    return all_are(self.s, clef__tpl_is_space);
}

static clef__value str_isascii(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isascii()", "");
    return self.s->n ? all_are(self.s, is_ascii) : clef__bool(1);
}

/* Some character has a case, and none has the other. */
static clef__value has_case(const clef__str *s, int upper)
{
    int some = 0;
    for (size_t at = 0; at < s->n; at += clef__char_bytes(s->p + at, s->n - at)) {
        const int32_t c = clef__codepoint(s->p + at, s->n - at);
        if (utf8proc_category(c) == UTF8PROC_CATEGORY_LT ||
            (upper ? clef__char_is_lower(c) : clef__char_is_upper(c)))
            return clef__bool(0);
        some |= upper ? clef__char_is_upper(c) : clef__char_is_lower(c);
    }
    return clef__bool(some);
}

/* Words begin with a capital, and have no other. */
static clef__value str_istitle(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("istitle()", "");
    int some = 0, within = 0;
    for (size_t at = 0; at < self.s->n; at += clef__char_bytes(self.s->p + at, self.s->n - at)) {
        const int32_t c = clef__codepoint(self.s->p + at, self.s->n - at);
        const int is_lower = clef__char_is_lower(c),
                  is_capital = clef__char_is_upper(c) || utf8proc_category(c) == UTF8PROC_CATEGORY_LT;
        if (is_capital ? within : is_lower && !within)
            return clef__bool(0);
        within = is_capital || is_lower;
        some |= within;
    }
    return clef__bool(some);
}

static clef__value str_isprintable(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isprintable()", "");
    return self.s->n ? all_are(self.s, clef__char_is_printable) : clef__bool(1);
}

static int begins_name(int32_t c)
{
    return c == '_' || is_alpha(c) || utf8proc_category(c) == UTF8PROC_CATEGORY_NL;
}

static int continues_name(int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return begins_name(c) || clef__char_decimal(c) >= 0 || k == UTF8PROC_CATEGORY_MN ||
           k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC;
}

static clef__value str_isidentifier(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isidentifier()", "");
    return self.s->n && !begins_name(clef__codepoint(self.s->p, self.s->n)) ? clef__bool(0)
                                                                            : all_are(self.s, continues_name);
}

static clef__value str_expandtabs(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("expandtabs()", "tabsize");
    const int64_t size = clef__int_arg(t, a[0], 8, "expandtabs()");
    int64_t column = 0;
    clef__out o = {0};
    for (size_t at = 0, n; at < self.s->n && !t->status; at += n) {
        n = clef__char_bytes(self.s->p + at, self.s->n - at);
        const char c = self.s->p[at];
        if (c != '\t') {
            clef__out_part(t, &o, self.s, at, at + n);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
            continue;
        }
        for (int64_t pad = size > 0 ? size - column % size : 0; pad > 0 && clef__tpl_step(t, 1); pad--) {
            clef__out_add(t, &o, " ", 1, clef__mark_at(self.s, at));
            column++;
        }
    }
    return clef__out_value(t, &o);
}

static clef__value str_isupper(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("isupper()", "");
    return has_case(self.s, 1);
}

static clef__value str_islower(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("islower()", "");
    return has_case(self.s, 0);
}

static clef__value str_removeprefix(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("removeprefix()", "/ prefix");
    const clef__str *part = want_str(t, a[0], "removeprefix()");
    return part && has_at(self.s, part, 0) ? clef__str_value(clef__str_part(t, self.s, part->n, self.s->n))
                                           : self;
}

static clef__value str_removesuffix(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("removesuffix()", "/ suffix");
    const clef__str *part = want_str(t, a[0], "removesuffix()");
    return part && has_at(self.s, part, 1)
               ? clef__str_value(clef__str_part(t, self.s, 0, self.s->n - part->n))
               : self;
}

static clef__value partition(clef__tpl *t, clef__value self, const clef__args *args, int last)
{
    ARGS("partition()", "/ sep");
    const clef__str *by = want_str(t, a[0], "partition()"), *s = self.s;
    clef__value out = clef__list_new(t, CLEF__TUPLE, 3);
    if (by && by->n == 0)
        clef__tpl_fail(t, CLEF_E_FORMAT, "partition(): the separator is empty");
    if (t->status)
        return out;
    const int64_t at = last ? find_last(s, by, s->n) : clef__find_bytes(s, by, 0);
    const size_t from = at < 0 ? (last ? 0 : s->n) : (size_t)at, to = at < 0 ? from : from + by->n;
    add_part(t, out, s, 0, from);
    add_part(t, out, s, from, to);
    add_part(t, out, s, to, s->n);
    return out;
}

static clef__value str_partition(clef__tpl *t, clef__value self, const clef__args *args)
{
    return partition(t, self, args, 0);
}

static clef__value str_rpartition(clef__tpl *t, clef__value self, const clef__args *args)
{
    return partition(t, self, args, 1);
}

/* how: 'l' text at the left, 'r' at the right, 'c' in the middle, 'z' zeros behind the sign. */
static clef__value padded(clef__tpl *t, clef__value self, const clef__args *args, int how)
{
    ARGS("ljust()", how == 'z' ? "/ width" : "/ width fillchar");
    const clef__str *fill = a[1].kind == CLEF__UNDEFINED ? NULL : want_str(t, a[1], "ljust()");
    const int64_t width = clef__int_arg(t, a[0], 0, "ljust()"), n = (int64_t)clef__n_chars(self.s),
                  pad = width - n;
    if (fill && clef__n_chars(fill) != 1)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "ljust(): expected one character to fill with");
    if (args->n == 0)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "ljust(): expected a width");
    if (t->status || pad <= 0)
        return self;
    const int has_sign = how == 'z' && self.s->n && (self.s->p[0] == '-' || self.s->p[0] == '+');
    const int64_t left = how == 'l' ? 0 : how == 'c' ? pad / 2 + (pad & width & 1) : pad;
    clef__out o = {0};
    clef__out_part(t, &o, self.s, 0, (size_t)has_sign);
    for (int64_t i = 0; i < pad && clef__tpl_step(t, 1); i++) {
        if (i == left)
            clef__out_part(t, &o, self.s, (size_t)has_sign, self.s->n);
        clef__out_add(t, &o, fill ? fill->p : how == 'z' ? "0" : " ", fill ? fill->n : 1, 0);
    }
    if (left == pad)
        clef__out_part(t, &o, self.s, (size_t)has_sign, self.s->n);
    const clef__value out = clef__out_value(t, &o);
    if (!t->status)
        out.s->is_safe = self.s->is_safe;
    return out;
}

static clef__value str_ljust(clef__tpl *t, clef__value self, const clef__args *args)
{
    return padded(t, self, args, 'l');
}

static clef__value str_rjust(clef__tpl *t, clef__value self, const clef__args *args)
{
    return padded(t, self, args, 'r');
}

static clef__value str_center(clef__tpl *t, clef__value self, const clef__args *args)
{
    return padded(t, self, args, 'c');
}

static clef__value str_zfill(clef__tpl *t, clef__value self, const clef__args *args)
{
    return padded(t, self, args, 'z');
}

/* ---- the table -------------------------------------------------------------------------------- */

static const clef__method_row methods[] = {
    {"upper", str_upper},
    {"lower", str_lower},
    {"casefold", str_casefold},
    {"title", str_title},
    {"capitalize", str_capitalize},
    {"swapcase", str_swapcase},
    {"strip", str_strip},
    {"lstrip", str_lstrip},
    {"rstrip", str_rstrip},
    {"split", str_split},
    {"rsplit", str_rsplit},
    {"splitlines", str_splitlines},
    {"replace", str_replace},
    {"startswith", str_startswith},
    {"endswith", str_endswith},
    {"join", str_join},
    {"find", str_find},
    {"rfind", str_rfind},
    {"index", str_index},
    {"rindex", str_rindex},
    {"count", str_count},
    {"isdigit", str_isdigit},
    {"isnumeric", str_isnumeric},
    {"isdecimal", str_isdecimal},
    {"isalpha", str_isalpha},
    {"isalnum", str_isalnum},
    {"isspace", str_isspace},
    {"istitle", str_istitle},
    {"isprintable", str_isprintable},
    {"isidentifier", str_isidentifier},
    {"expandtabs", str_expandtabs},
    {"isascii", str_isascii},
    {"isupper", str_isupper},
    {"islower", str_islower},
    {"removeprefix", str_removeprefix},
    {"removesuffix", str_removesuffix},
    {"partition", str_partition},
    {"rpartition", str_rpartition},
    {"ljust", str_ljust},
    {"rjust", str_rjust},
    {"center", str_center},
    {"zfill", str_zfill},
    {"format", clef__format_braces},
};

clef__builtin *clef__find_string_method(const clef__str *name, const char **static_name)
{
    return clef__method_named(methods, sizeof methods / sizeof *methods, name, static_name);
}
