/* Regular expressions of ECMA-262, the dialect of JSON Schema's `pattern`: parsed into a tree. */
#include <string.h>

#include "model/file/utf8.h"
#include "text/constrain/nfa.h"

typedef struct parser {
    clef__dfas *dfas;
    clef__work *work;
    const char *text;
    size_t n, at;
    int32_t depth;
} parser;

static const clef__re empty_re = {.kind = CLEF__RE_EMPTY};

static const clef__re *fail(parser *p, clef_status status, const char *what)
{
    clef__work_fail(p->work, status, "pattern '%.*s', byte %zu: %s", (int)(p->n > 60 ? 60 : p->n), p->text,
                    p->at + 1, what);
    return &empty_re;
}

static const clef__re *make(parser *p, clef__re re)
{
    clef__re *own = clef__work_alloc(p->work, sizeof *own);
    if (!own)
        return &empty_re;
    *own = re;
    return own;
}

static int peek(const parser *p)
{
    return p->at < p->n ? (unsigned char)p->text[p->at] : -1;
}

static int take(parser *p, const char *text)
{
    const size_t n = strlen(text);
    if (p->at + n > p->n || memcmp(p->text + p->at, text, n) != 0)
        return 0;
    p->at += n;
    return 1;
}

static uint32_t take_code(parser *p)
{
    uint32_t code = 0;
    size_t size = 1;
    if (p->at >= p->n || clef__utf8_read(p->text + p->at, p->n - p->at, &code, &size) != CLEF_UTF8_OK)
        fail(p, CLEF_E_FORMAT, p->at < p->n ? "no UTF-8" : "expected a character");
    p->at += size;
    return code;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static void add_class(parser *p, int letter, clef__set *to)
{
    static const clef__range digits[] = {{'0', '9'}},
                             words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const clef__range spaces[] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const int lower = letter | 0x20;
    const clef__range *ranges = lower == 'd' ? digits : lower == 'w' ? words : spaces;
    const size_t n = lower == 'd' ? 1 : lower == 'w' ? 4 : sizeof spaces / sizeof *spaces;
    clef__set set = {.n = 0};
    for (size_t i = 0; i < n; i++)
        clef__set_add(p->work, &set, ranges[i].lo, ranges[i].hi);
    clef__set_order(p->work, &set);
    if (letter != lower)
        set = clef__set_not(p->work, &set);
    clef__set_add_all(p->work, to, &set);
}

static uint32_t take_hex(parser *p, int n_digits)
{
    uint32_t code = 0;
    for (int i = 0; i < n_digits; i++) {
        const int c = peek(p), lower = c | 0x20;
        if (!((c >= '0' && c <= '9') || (c > 0 && lower >= 'a' && lower <= 'f'))) {
            fail(p, CLEF_E_FORMAT, "expected a hexadecimal digit");
            return 0;
        }
        code = code << 4 | (uint32_t)(c <= '9' ? c - '0' : lower - 'a' + 10);
        p->at++;
    }
    return code;
}

/* After \u: four digits, a pair of surrogates, or {…}. */
static uint32_t take_unicode(parser *p)
{
    if (take(p, "{")) {
        uint32_t code = 0;
        while (peek(p) != '}' && code <= CLEF__LAST_CODE && !p->work->status)
            code = code << 4 | take_hex(p, 1);
        if (!take(p, "}") || code > CLEF__LAST_CODE)
            fail(p, CLEF_E_FORMAT, "expected a code point up to 10FFFF and }");
        return code;
    }
    const uint32_t code = take_hex(p, 4);
    const size_t before = p->at;
    if (code >= 0xD800 && code < 0xDC00 && take(p, "\\u")) {
        const uint32_t low = peek(p) == '{' ? 0 : take_hex(p, 4);
        if (low >= 0xDC00 && low < 0xE000)
            return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        p->at = before;
    }
    return code;
}

static int is_class(int c)
{
    return c > 0 && strchr("dDwWsS", c) != NULL;
}

/* The character after a backslash, which is not a class. */
static uint32_t take_escape(parser *p, int in_class)
{
    static const char names[] = "tnvfr", codes[] = "\t\n\v\f\r";
    const int c = peek(p);
    const char *name = c > 0 ? strchr(names, c) : NULL;
    if (c < 0) {
        fail(p, CLEF_E_FORMAT, "expected a character after \\");
        return 0;
    }
    if (c >= 0x80)
        return take_code(p);
    p->at++;
    if (name)
        return (uint32_t)codes[name - names];
    if (c == 'x')
        return take_hex(p, 2);
    if (c == 'u')
        return take_unicode(p);
    if (c == 'b' && in_class)
        return 8;
    if (c == '0' && !(peek(p) >= '0' && peek(p) <= '9'))
        return 0;
    if (c == 'c' && ((peek(p) | 0x20) >= 'a' && (peek(p) | 0x20) <= 'z'))
        return (uint32_t)p->text[p->at++] & 31;
    p->at--;
    if (c == 'b' || c == 'B')
        fail(p, CLEF_E_UNSUPPORTED, "word boundaries are not supported");
    else if (c == 'p' || c == 'P')
        fail(p, CLEF_E_UNSUPPORTED, "Unicode properties are not supported");
    else if (c == 'k' || (c >= '0' && c <= '9'))
        fail(p, CLEF_E_UNSUPPORTED, "references to groups are not supported");
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
        fail(p, CLEF_E_FORMAT, "an escape that ECMA-262 does not have");
    p->at++;
    return (uint32_t)c;
}

/* One item of a class. Returns 1 for a character, 0 for a class, which was added. */
static int take_item(parser *p, clef__set *set, uint32_t *code)
{
    if (peek(p) != '\\') {
        *code = take_code(p);
        return 1;
    }
    p->at++;
    if (is_class(peek(p))) {
        add_class(p, p->text[p->at++], set);
        return 0;
    }
    *code = take_escape(p, 1);
    return 1;
}

static const clef__re *parse_class(parser *p)
{
    clef__set set = {.n = 0};
    const int negated = take(p, "^");
    while (peek(p) != ']' && clef__work_step(p->work, 1)) {
        uint32_t lo = 0, hi = 0;
        if (peek(p) < 0)
            return fail(p, CLEF_E_FORMAT, "expected ]");
        const int one = take_item(p, &set, &lo);
        if (peek(p) != '-' || p->at + 1 >= p->n || p->text[p->at + 1] == ']') {
            if (one)
                clef__set_add(p->work, &set, lo, lo);
            continue;
        }
        p->at++;
        const int other = take_item(p, &set, &hi);
        if (one && other && lo > hi)
            return fail(p, CLEF_E_FORMAT, "a range that ends before it begins");
        if (one && other) {
            clef__set_add(p->work, &set, lo, hi);
            continue;
        }
        clef__set_add(p->work, &set, '-', '-'); /* beside a class, - is itself (annex B) */
        if (one || other)
            clef__set_add(p->work, &set, one ? lo : hi, one ? lo : hi);
    }
    p->at++;
    clef__set_order(p->work, &set);
    return make(p, (clef__re){.kind = CLEF__RE_SET, .set = negated ? clef__set_not(p->work, &set) : set});
}

/* ---- terms ---------------------------------------------------------------------------------- */

static const clef__re *parse_either(parser *p);

static const clef__re *parse_group(parser *p)
{
    if (take(p, "?")) {
        if (peek(p) == '=' || peek(p) == '!')
            return fail(p, CLEF_E_UNSUPPORTED, "lookahead is not supported");
        if (take(p, "<=") || take(p, "<!"))
            return fail(p, CLEF_E_UNSUPPORTED, "lookbehind is not supported");
        if (take(p, "<")) {
            while (peek(p) >= 0 && peek(p) != '>')
                p->at++;
            if (!take(p, ">"))
                return fail(p, CLEF_E_FORMAT, "expected > after the name of a group");
        } else if (!take(p, ":")) {
            return fail(p, CLEF_E_FORMAT, "expected ?: or ?<name>");
        }
    }
    if (++p->depth > CLEF__MAX_NESTING)
        return fail(p, CLEF_E_LIMIT, "groups are nested more than 256 deep");
    const clef__re *re = parse_either(p);
    p->depth--;
    return take(p, ")") || p->work->status ? re : fail(p, CLEF_E_FORMAT, "expected )");
}

static const clef__re *make_set(parser *p, uint32_t code)
{
    clef__re re = {.kind = CLEF__RE_SET};
    clef__set_add(p->work, &re.set, code, code);
    return make(p, re);
}

static const clef__re *parse_dot(parser *p)
{
    clef__set lines = {.n = 0};
    clef__set_add(p->work, &lines, '\n', '\n');
    clef__set_add(p->work, &lines, '\r', '\r');
    clef__set_add(p->work, &lines, 0x2028, 0x2029);
    clef__set_order(p->work, &lines);
    return make(p, (clef__re){.kind = CLEF__RE_SET, .set = clef__set_not(p->work, &lines)});
}

static const clef__re *parse_atom(parser *p)
{
    if (take(p, "^"))
        return make(p, (clef__re){.kind = CLEF__RE_BEGIN});
    if (take(p, "$"))
        return make(p, (clef__re){.kind = CLEF__RE_END});
    if (take(p, "("))
        return parse_group(p);
    if (take(p, "["))
        return parse_class(p);
    if (take(p, "."))
        return parse_dot(p);
    if (peek(p) == '*' || peek(p) == '+' || peek(p) == '?')
        return fail(p, CLEF_E_FORMAT, "nothing to repeat");
    if (!take(p, "\\"))
        return make_set(p, take_code(p));
    if (is_class(peek(p))) {
        clef__re re = {.kind = CLEF__RE_SET};
        add_class(p, p->text[p->at++], &re.set);
        clef__set_order(p->work, &re.set);
        return make(p, re);
    }
    return make_set(p, take_escape(p, 0));
}

/* {n}, {n,} or {n,m}; anything else is text (annex B). */
static int take_counts(parser *p, uint32_t *min, uint32_t *max)
{
    const size_t begin = p->at;
    uint64_t counts[2] = {0, UINT32_MAX};
    int n = 0;
    p->at++;
    for (; n < 2; n++) {
        uint64_t x = 0;
        const size_t digits = p->at;
        for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
            x = x > UINT32_MAX ? x : x * 10 + (uint64_t)(peek(p) - '0');
        if (p->at > digits)
            counts[n] = x;
        else if (n == 0)
            break;
        if (n == 0 && !take(p, ",")) {
            counts[1] = counts[0];
            n = 2;
            break;
        }
    }
    if (n < 2 || !take(p, "}")) {
        p->at = begin;
        return 0;
    }
    if (counts[0] > CLEF__MAX_REPEATS || (counts[1] > CLEF__MAX_REPEATS && counts[1] != UINT32_MAX))
        fail(p, CLEF_E_LIMIT, "more than 10000 repetitions");
    else if (counts[0] > counts[1])
        fail(p, CLEF_E_FORMAT, "fewer repetitions at most than at least");
    *min = (uint32_t)counts[0];
    *max = (uint32_t)counts[1];
    return 1;
}

static const clef__re *parse_term(parser *p)
{
    const clef__re *re = parse_atom(p);
    uint32_t min = 0, max = UINT32_MAX;
    const int c = peek(p);
    if (c == '*' || c == '+' || c == '?') {
        p->at++;
        min = c == '+';
        max = c == '?' ? 1 : UINT32_MAX;
    } else if (c != '{' || !take_counts(p, &min, &max)) {
        return re;
    }
    if (re->kind == CLEF__RE_BEGIN || re->kind == CLEF__RE_END)
        return fail(p, CLEF_E_FORMAT, "nothing to repeat");
    take(p, "?"); /* as few as possible: the same texts */
    if (peek(p) == '*' || peek(p) == '+' || peek(p) == '?')
        return fail(p, CLEF_E_FORMAT, "nothing to repeat");
    return make(p, (clef__re){.kind = CLEF__RE_REPEAT, .a = re, .min = min, .max = max});
}

static const clef__re *parse_sequence(parser *p)
{
    const clef__re *re = NULL;
    while (peek(p) >= 0 && peek(p) != '|' && peek(p) != ')' && clef__work_step(p->work, 1)) {
        const clef__re *next = parse_term(p);
        re = re ? make(p, (clef__re){.kind = CLEF__RE_THEN, .a = re, .b = next}) : next;
    }
    return re ? re : &empty_re;
}

static const clef__re *parse_either(parser *p)
{
    const clef__re *re = parse_sequence(p);
    while (take(p, "|") && !p->work->status)
        re = make(p, (clef__re){.kind = CLEF__RE_EITHER, .a = re, .b = parse_sequence(p)});
    return re;
}

const clef__dfa *clef__pattern_dfa(clef__dfas *dfas, const char *text, size_t n, int whole)
{
    parser p = {.dfas = dfas, .work = dfas->work, .text = text, .n = n};
    const clef__re *re = parse_either(&p);
    if (p.at < n && !p.work->status)
        fail(&p, CLEF_E_FORMAT, "a ) without its (");
    return p.work->status ? clef__dfa_none(dfas) : clef__re_dfa(dfas, re, whole);
}
