/* Text as characters: where they begin, white space, case, searching. */
#include <string.h>
#include <utf8proc.h>

#include "text/template/engine.h"

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

/* ---- what characters are ---------------------------------------------------------------------- */

typedef struct range {
    int32_t first, last;
} range;

static int is_within(const range *ranges, size_t n, int32_t c)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return 1;
    return 0;
}
#define IS_WITHIN(ranges, c) is_within(ranges, sizeof ranges / sizeof *(ranges), c)

int clef__char_decimal(int32_t c)
{
    const int low = c & 15;
    if (utf8proc_category(c) != UTF8PROC_CATEGORY_ND)
        return -1;
    if (c >= 0x1D7CE && c <= 0x1D7FF) /* mathematical digits: five rows behind each other */
        return (c - 0x1D7CE) % 10;
    /* All other rows begin at xxx0 or xxx6. */
    return low < 6 || (low < 10 && utf8proc_category(c & ~15) == UTF8PROC_CATEGORY_ND) ? low : low - 6;
}

int clef__char_is_digit(int32_t c)
{
    /* Numeric_Type=Digit: in circles, parentheses, as powers. */
    static const range digits[] = {
        {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
        {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
        {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
        {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
    return clef__char_decimal(c) >= 0 || IS_WITHIN(digits, c);
}

int clef__char_is_numeric(int32_t c)
{
    /* Ideographs that are numbers (Numeric_Value in Unihan). */
    static const range ideographs[] = {
        {0x3405, 0x3405},   {0x3483, 0x3483},   {0x382A, 0x382A},   {0x3B4D, 0x3B4D},   {0x4E00, 0x4E00},
        {0x4E03, 0x4E03},   {0x4E07, 0x4E07},   {0x4E09, 0x4E09},   {0x4E5D, 0x4E5D},   {0x4E8C, 0x4E8C},
        {0x4E94, 0x4E94},   {0x4E96, 0x4E96},   {0x4EBF, 0x4EC0},   {0x4EDF, 0x4EDF},   {0x4EE8, 0x4EE8},
        {0x4F0D, 0x4F0D},   {0x4F70, 0x4F70},   {0x5104, 0x5104},   {0x5146, 0x5146},   {0x5169, 0x5169},
        {0x516B, 0x516B},   {0x516D, 0x516D},   {0x5341, 0x5341},   {0x5343, 0x5345},   {0x534C, 0x534C},
        {0x53C1, 0x53C4},   {0x56DB, 0x56DB},   {0x58F1, 0x58F1},   {0x58F9, 0x58F9},   {0x5E7A, 0x5E7A},
        {0x5EFE, 0x5EFF},   {0x5F0C, 0x5F0E},   {0x5F10, 0x5F10},   {0x62FE, 0x62FE},   {0x634C, 0x634C},
        {0x67D2, 0x67D2},   {0x6F06, 0x6F06},   {0x7396, 0x7396},   {0x767E, 0x767E},   {0x8086, 0x8086},
        {0x842C, 0x842C},   {0x8CAE, 0x8CAE},   {0x8CB3, 0x8CB3},   {0x8D30, 0x8D30},   {0x9621, 0x9621},
        {0x9646, 0x9646},   {0x964C, 0x964C},   {0x9678, 0x9678},   {0x96F6, 0x96F6},   {0xF96B, 0xF96B},
        {0xF973, 0xF973},   {0xF978, 0xF978},   {0xF9B2, 0xF9B2},   {0xF9D1, 0xF9D1},   {0xF9D3, 0xF9D3},
        {0xF9FD, 0xF9FD},   {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200E2, 0x200E2}, {0x20121, 0x20121},
        {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C}, {0x2099C, 0x2099C}, {0x20AEA, 0x20AEA},
        {0x20AFD, 0x20AFD}, {0x20B19, 0x20B19}, {0x22390, 0x22390}, {0x22998, 0x22998}, {0x23B1B, 0x23B1B},
        {0x2626D, 0x2626D}, {0x2F890, 0x2F890}};
    const utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO ||
           IS_WITHIN(ideographs, c);
}

int clef__char_is_upper(int32_t c)
{
    static const range others[] = {
        {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    return utf8proc_category(c) == UTF8PROC_CATEGORY_LU || IS_WITHIN(others, c);
}

int clef__char_is_lower(int32_t c)
{
    static const range others[] = {
        {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},    {0x2E0, 0x2E4},
        {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},  {0x1D9B, 0x1DBF},
        {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2170, 0x217F},  {0x24D0, 0x24E9},
        {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},  {0xAB5C, 0xAB5F},
        {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}};
    return utf8proc_category(c) == UTF8PROC_CATEGORY_LL || IS_WITHIN(others, c);
}

static int has_case(int32_t c)
{
    return clef__char_is_upper(c) || clef__char_is_lower(c) || utf8proc_category(c) == UTF8PROC_CATEGORY_LT;
}

/* ---- case -------------------------------------------------------------------------------------- */

/* Case_Ignorable of Unicode: marks, and what is within words. */
static int is_case_ignorable(int32_t c)
{
    static const int32_t others[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                     0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return 1;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (c == others[i])
            return 1;
    return 0;
}

/* Whether the sigma at a byte ends a word: a letter is before it and none behind it. */
static int is_final_sigma(const clef__str *s, size_t at)
{
    int32_t c = 0;
    size_t i = at;
    while (i > 0) {
        do
            i--;
        while (i > 0 && ((unsigned char)s->p[i] & 0xC0) == 0x80);
        c = clef__codepoint(s->p + i, s->n - i);
        if (!is_case_ignorable(c))
            break;
        c = 0;
    }
    if (!c || !has_case(c))
        return 0;
    for (i = at + 2; i < s->n; i += clef__char_bytes(s->p + i, s->n - i)) {
        c = clef__codepoint(s->p + i, s->n - i);
        if (!is_case_ignorable(c))
            return !has_case(c);
    }
    return 1;
}

enum { MOST_CASE = 4 };

/* One character in another case: 'u', 'l', 't' or 'f' (folded). Returns how many characters it becomes. A
 * character whose upper case is longer is the upper case of what it folds to (all of SpecialCasing.txt). */
static int char_in_case(int32_t c, int how, int32_t out[MOST_CASE])
{
    int bounds = 0;
    *out = how == 'l' ? utf8proc_tolower(c) : how == 't' ? utf8proc_totitle(c) : utf8proc_toupper(c);
    if (how == 'l') {
        out[1] = 0x307; /* I with a dot becomes i and a dot above */
        return c == 0x130 ? (*out = 'i', 2) : 1;
    }
    const int n = (int)utf8proc_decompose_char(c, out, MOST_CASE, UTF8PROC_CASEFOLD, &bounds);
    if (how == 'f' && n > 0 && n <= MOST_CASE)
        return n;
    if (n < 2 || n > MOST_CASE || c == 0x130 || c == 0x1E9E ||
        (how == 't' && c != 0xDF &&
         (utf8proc_totitle(c) != c || utf8proc_category(c) == UTF8PROC_CATEGORY_LT))) {
        *out = how == 't' ? utf8proc_totitle(c) : utf8proc_toupper(c);
        return 1;
    }
    for (int i = 0; i < n; i++)
        if (how == 'u' || i == 0 || c == 0x149)
            out[i] = utf8proc_toupper(out[i]);
        else if (i == n - 1 && out[i] == 0x3B9)
            out[i] = 0x345; /* an iota stays below */
    return n;
}

clef__str *clef__change_case(clef__tpl *t, const clef__str *s, int how)
{
    clef__out o = {0};
    int is_first = 1;
    for (size_t at = 0, n; at < s->n && !t->status; at += n) {
        int32_t to[MOST_CASE];
        n = clef__char_bytes(s->p + at, s->n - at);
        const int32_t c = clef__codepoint(s->p + at, s->n - at);
        int each = how;
        if (how == 'c' || how == 't')
            each = is_first ? 't' : 'l';
        if (how == 's')
            each = clef__char_is_upper(c) ? 'l' : clef__char_is_lower(c) ? 'u' : 'n';
        is_first = how == 't' && !has_case(c); /* title: after what has no case */
        int length = each == 'n' ? (*to = c, 1) : char_in_case(c, each, to);
        if (each == 'l' && c == 0x3A3 && is_final_sigma(s, at))
            *to = 0x3C2;
        for (int i = 0; i < length; i++) {
            char text[4];
            const size_t bytes = (size_t)utf8proc_encode_char(to[i], (utf8proc_uint8_t *)text);
            clef__out_add(t, &o, text, bytes, clef__mark_at(s, at));
        }
    }
    clef__str *out = clef__out_value(t, &o).s;
    if (!t->status)
        out->is_safe = s->is_safe;
    return out;
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
