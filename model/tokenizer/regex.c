/* The regexes of tokenizers: Oniguruma's dialect, as Hugging Face runs it, translated for PCRE2. */
#include "model/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/memory.h"
#include "model/tokenizer/unicode.h"

/* The matcher stops after MATCH_LIMIT steps. The patterns in use need several million steps for a run of a
 * million spaces. */
enum {
    MATCH_LIMIT = 50 * 1000 * 1000,
    STACK_START = 64 << 10,
    STACK_MOST = 16 << 20,
    PATTERN_BYTES = 64 << 10
};

struct clef__regex {
    pcre2_code *code;
    pcre2_code *newer; /* for texts with characters newer than PCRE2's Unicode; NULL: no class of the pattern
                          contains such characters */
};

/* ---- Oniguruma's syntax (its doc/RE, Ruby syntax) where PCRE2 gives it another meaning */

typedef struct translation {
    const char *pattern;
    size_t n, at;
    int in_class;
    int after_count; /* the last item was {n,m} */
    int newer;       /* add the characters that PCRE2's Unicode lacks to classes */
    int asks;        /* a class of the pattern lacks some of them */
    clef__chars out;
} translation;

static clef_status refuse_construct(const translation *t, const char *what, clef_error *err)
{
    char quote[64];
    return clef__fail(err, CLEF_E_UNSUPPORTED, "regex \"%s\": %s at byte %zu is not supported",
                      clef__quote_text(t->pattern, t->n, quote), what, t->at);
}

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD_ALONE                                                                                           \
    WORD "\\xB2\\xB3\\xB9\\xBC-\\xBE" /* outside a class, with Latin-1's fractions and superscripts */

static clef_status append_newer(translation *t, const char *property, size_t n, clef_error *err)
{
    const size_t before = t->out.n;
    clef_status st = clef__unicode_newer(property, n, &t->out, err);
    t->asks |= t->out.n > before;
    if (!t->newer)
        t->out.n = before;
    return st;
}

/* Appends an item of a class, in brackets of its own unless a class is open already. */
static clef_status append_class(translation *t, int negated, const char *item, const char *const *newer,
                                clef_error *err)
{
    const char *open = t->in_class ? "" : negated ? "[^" : "[";
    clef_status st = clef__chars_append(&t->out, open, strlen(open), err);
    if (st == CLEF_OK)
        st = clef__chars_append(&t->out, item, strlen(item), err);
    for (; *newer && st == CLEF_OK; newer++)
        st = append_newer(t, *newer, strlen(*newer), err);
    return st || t->in_class ? st : clef__chars_append(&t->out, "]", 1, err);
}

/* PCRE2 reads \p{Han} as the property Script_Extensions, Oniguruma as the property Script. */
static int is_script(const char *name, size_t n)
{
    static const char *const scripts[] = {"Han",      "Hiragana",   "Katakana", "Latin",  "Greek",
                                          "Cyrillic", "Arabic",     "Hebrew",   "Thai",   "Hangul",
                                          "Lao",      "Devanagari", "Khmer",    "Myanmar"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (strlen(scripts[i]) == n && memcmp(scripts[i], name, n) == 0)
            return 1;
    return 0;
}

static clef_status translate_property(translation *t, clef_error *err)
{
    const char *text = t->pattern + t->at, *close = memchr(text, '}', t->n - t->at);
    if (!close || t->n - t->at < 3 || text[2] != '{')
        return refuse_construct(t, "a property without braces", err);
    const size_t inverse = text[3] == '^', n_name = (size_t)(close - text) - 3 - inverse;
    const char *name = text + 3 + inverse;
    const int negated = (text[1] == 'P') != (inverse != 0);
    char item[64];
    if (n_name > 40)
        return refuse_construct(t, "a property with so long a name", err);
    snprintf(item, sizeof item, "\\%c{%s%.*s}", negated && t->in_class ? 'P' : 'p',
             is_script(name, n_name) ? "sc:" : "", (int)n_name, name);
    char newer[48];
    snprintf(newer, sizeof newer, "%.*s", (int)n_name, name);
    t->at += (size_t)(close - text) + 1;
    const char *const of[] = {newer, NULL}, *const none[] = {NULL};
    return append_class(t, negated, item, negated && t->in_class ? none : of, err);
}

/* Appends \b or \B with Oniguruma's word characters. */
static clef_status append_boundary(translation *t, int negated, clef_error *err)
{
    static const char *const words[] = {"L", "M", "Nd", NULL};
    static const char *const between[2][4] = {{"(?:(?<=", ")(?!", ")|(?<!", ")(?="},
                                              {"(?:(?<=", ")(?=", ")|(?<!", ")(?!"}};
    clef_status st = CLEF_OK;
    for (int i = 0; i < 4 && st == CLEF_OK; i++) {
        st = clef__chars_append(&t->out, between[negated][i], strlen(between[negated][i]), err);
        if (st == CLEF_OK)
            st = append_class(t, 0, WORD_ALONE, words, err);
    }
    return st ? st : clef__chars_append(&t->out, "))", 2, err);
}

/* Oniguruma's \s is White_Space, to which PCRE2 adds U+180E. Oniguruma's \w includes combining marks. */
static clef_status translate_escape(translation *t, clef_error *err)
{
    static const char *const digits[] = {"Nd", NULL}, *const words[] = {"L", "M", "Nd", NULL};
    const char c = t->at + 1 < t->n ? t->pattern[t->at + 1] : 0;
    clef_status st = CLEF_OK;
    if (c && strchr("hHRXKgCQ", c))
        return refuse_construct(t, "this escape", err);
    if (c == 'p' || c == 'P')
        return translate_property(t, err);
    if (t->in_class && (c == 'W' || c == 'D'))
        return refuse_construct(t, "\\W or \\D in a class", err);
    const size_t size = t->at + 1 < t->n ? 2 : 1;
    if (c == 's' || c == 'S')
        st = clef__chars_append(&t->out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}", 15, err);
    else if (c == 'w' || c == 'W')
        st = append_class(t, c == 'W', t->in_class ? WORD : WORD_ALONE, words, err);
    else if ((c == 'b' || c == 'B') && !t->in_class)
        st = append_boundary(t, c == 'B', err);
    else if (c == 'd' || c == 'D')
        st = append_class(t, c == 'D', "\\p{Nd}", digits, err);
    else
        st = clef__chars_append(&t->out, t->pattern + t->at, size, err);
    t->at += size;
    return st;
}

/* Includes the older characters that became Alphabetic after PCRE2's version of Unicode. */
#define ALPHABETIC                                                                                           \
    "\\p{Alphabetic}\\x{363}-\\x{36F}\\x{C04}\\x{F82}\\x{F83}\\x{1DD3}-\\x{1DE6}\\x{11080}\\x{11081}"

/* Translates [:alpha:] and the other POSIX classes, which have other members in PCRE2. */
static clef_status translate_posix(translation *t, clef_error *err)
{
    static const struct {
        const char *name, *item, *newer[4];
    } classes[] = {
        {"[:alpha:]", ALPHABETIC, {"Alphabetic"}},
        {"[:alnum:]", ALPHABETIC "\\p{Nd}", {"Alphabetic", "Nd"}},
        {"[:digit:]", "\\p{Nd}", {"Nd"}},
        {"[:word:]", WORD, {"L", "M", "Nd"}},
        {"[:space:]", "\\p{White_Space}", {NULL}},
        {"[:punct:]", "\\p{P}\\p{S}", {"P", "S"}},
        {"[:upper:]", "\\p{Uppercase}", {"Lu"}},
        {"[:lower:]", "\\p{Lowercase}\\x{10FC}\\x{A7F2}-\\x{A7F4}\\x{AB69}\\x{1E030}-\\x{1E06D}", {"Ll"}},
        {"[:xdigit:]", "0-9A-Fa-f", {NULL}},
        {"[:cntrl:]", "\\p{Cc}", {NULL}},
        {"[:ascii:]", "\\x00-\\x7F", {NULL}},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const size_t n = strlen(classes[i].name);
        if (t->n - t->at < n || memcmp(t->pattern + t->at, classes[i].name, n) != 0)
            continue;
        t->at += n;
        return append_class(t, 0, classes[i].item, classes[i].newer, err);
    }
    return refuse_construct(t, "this POSIX class", err);
}

static const char *what_differs(const translation *t)
{
    const char *at = t->pattern + t->at;
    const size_t n = t->n - t->at;
    if (t->in_class) {
        if (*at == '[' && (n < 2 || at[1] != ':'))
            return "a class inside a class";
        return n >= 2 && at[0] == '&' && at[1] == '&' ? "&& in a class" : NULL;
    }
    if (n >= 2 && at[0] == '{' && at[1] == ',')
        return "{,n}";
    if (*at == '+' && t->after_count)
        return "+ after {n,m}";
    if (n >= 3 && at[0] == '(' && at[1] == '?')
        for (size_t i = 2; i < n && ((at[i] >= 'a' && at[i] <= 'z') || at[i] == '-'); i++)
            if (at[i] == 'm')
                return "the option m";
    return NULL;
}

static clef_status translate_pattern(translation *t, clef_error *err)
{
    clef_status st = CLEF_OK;
    while (t->at < t->n && st == CLEF_OK) {
        const char c = t->pattern[t->at];
        if (c == '\\') {
            st = translate_escape(t, err);
            t->after_count = 0;
            continue;
        }
        const char *differs = what_differs(t);
        if (differs)
            return refuse_construct(t, differs, err);
        if (t->in_class && c == '[') {
            st = translate_posix(t, err);
            continue;
        }
        if (c == '[' && !t->in_class)
            t->in_class = 1;
        else if (c == ']')
            t->in_class = 0;
        t->after_count = c == '}';
        st = clef__chars_append(&t->out, &c, 1, err);
        t->at++;
    }
    return st;
}

/* ---- compiling and matching */

static clef_status compile_pattern(const translation *t, pcre2_code **out, clef_error *err)
{
    int code = 0;
    size_t where = 0;
    *out =
        pcre2_compile((PCRE2_SPTR)(t->out.at ? t->out.at : ""), t->out.n,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &where, NULL);
    if (!*out) {
        char why[128] = "", quote[64];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return clef__fail(err, CLEF_E_FORMAT, "regex \"%s\": %s", clef__quote_text(t->pattern, t->n, quote),
                          why);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT, pcre2_match() interprets the pattern */
    return CLEF_OK;
}

clef_status clef__regex_create(const char *pattern, size_t n, clef__regex **out, clef_error *err)
{
    *out = NULL;
    if (n > PATTERN_BYTES)
        return clef__fail(err, CLEF_E_LIMIT, "the regex has %zu bytes, expected at most %d", n,
                          PATTERN_BYTES);
    clef__regex *regex = calloc(1, sizeof *regex);
    if (!regex)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a regex");
    clef_status st = CLEF_OK;
    for (int newer = 0, asks = 1; newer < 2 && asks && st == CLEF_OK; newer++) {
        translation t = {.pattern = pattern, .n = n, .newer = newer};
        st = translate_pattern(&t, err);
        if (st == CLEF_OK)
            st = compile_pattern(&t, newer ? &regex->newer : &regex->code, err);
        asks = t.asks;
        clef__chars_finish(&t.out);
    }
    if (st)
        clef__regex_destroy(regex);
    else
        *out = regex;
    return st;
}

void clef__regex_destroy(clef__regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    pcre2_code_free(regex->newer);
    free(regex);
}

static clef_status make_run(clef__regex_run *run, clef_error *err)
{
    if (!run->data)
        run->data = pcre2_match_data_create(1, NULL);
    if (!run->context) {
        run->context = pcre2_match_context_create(NULL);
        if (run->context)
            pcre2_set_match_limit(run->context, MATCH_LIMIT);
    }
    return run->data && run->context ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory to run a regex");
}

/* Allocates a stack for a pattern that needs more than JIT's share of the machine stack. Returns 1 if it was
 * allocated now. */
static int bigger_stack(clef__regex_run *run)
{
    if (run->stack)
        return 0;
    run->stack = pcre2_jit_stack_create(STACK_START, STACK_MOST, NULL);
    if (run->stack)
        pcre2_jit_stack_assign(run->context, NULL, run->stack);
    return run->stack != NULL;
}

clef_status clef__regex_find(const clef__regex *regex, clef__regex_run *run, const char *text, size_t n,
                             size_t from, size_t *start, size_t *end, int *found, clef_error *err)
{
    *found = 0;
    if (!run->data || !run->context) {
        const clef_status st = make_run(run, err);
        if (st)
            return st;
    }
    const pcre2_code *code = run->newer && regex->newer ? regex->newer : regex->code;
    int rc;
    do
        rc = pcre2_match(code, (PCRE2_SPTR)(text ? text : ""), n, from, PCRE2_NO_UTF_CHECK, run->data,
                         run->context);
    while (rc == PCRE2_ERROR_JIT_STACKLIMIT && bigger_stack(run));
    if (rc == PCRE2_ERROR_NOMATCH)
        return CLEF_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return clef__fail(err, CLEF_E_NOMEM, "no memory to run a regex");
    if (rc < 0) {
        char why[128] = "";
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return clef__fail(err, CLEF_E_LIMIT, "a regex of the tokenizer stopped after byte %zu of %zu: %s",
                          from, n, why);
    }
    const size_t *offsets = pcre2_get_ovector_pointer(run->data);
    if (offsets[0] < from || offsets[1] < offsets[0]) /* caused by \K in a lookaround */
        return clef__fail(err, CLEF_E_UNSUPPORTED, "a regex of the tokenizer matches backwards");
    *start = offsets[0];
    *end = offsets[1];
    *found = 1;
    return CLEF_OK;
}

void clef__regex_run_finish(clef__regex_run *run)
{
    pcre2_match_data_free(run->data);
    pcre2_match_context_free(run->context);
    pcre2_jit_stack_free(run->stack);
    *run = (clef__regex_run){0};
}

/* ---- walking over the matches of a text */

static int find_string(const clef__pattern *pattern, const char *text, size_t n, size_t from, size_t *start)
{
    for (size_t i = from; i < n && n - i >= pattern->n_text; i++) {
        const char *first = memchr(text + i, pattern->text[0], n - i - pattern->n_text + 1);
        if (!first)
            return 0;
        i = (size_t)(first - text);
        if (memcmp(first, pattern->text, pattern->n_text) == 0) {
            *start = i;
            return 1;
        }
    }
    return 0;
}

static int find_char(const clef__pattern *pattern, const char *text, size_t n, size_t from, size_t *start,
                     size_t *end)
{
    for (size_t i = from, size; i < n; i += size) {
        uint32_t code = 0xFFFD;
        clef__utf8_read(text + i, n - i, &code, &size);
        if (pattern->is(code)) {
            *start = i;
            *end = i + size;
            return 1;
        }
    }
    return 0;
}

clef_status clef__pattern_next(const clef__pattern *pattern, clef__regex_run *run, const char *text, size_t n,
                               clef__pattern_walk *walk, size_t *start, size_t *end, int *found,
                               clef_error *err)
{
    for (;;) {
        *found = 0;
        if (walk->at > n)
            return CLEF_OK;
        if (pattern->is) {
            *found = find_char(pattern, text, n, walk->at, start, end);
            walk->at = *found ? *end : n + 1;
            return CLEF_OK;
        }
        if (!pattern->regex) {
            *found = find_string(pattern, text, n, walk->at, start);
            if (*found)
                walk->at = *end = *start + pattern->n_text;
            return CLEF_OK;
        }
        const clef_status st =
            clef__regex_find(pattern->regex, run, text, n, walk->at, start, end, found, err);
        if (st || !*found)
            return st;
        const int repeats = *start == *end && walk->any && walk->last_end == *start;
        walk->at = *end;
        if (*start == *end)
            walk->at += *end < n ? clef__utf8_size(text[*end]) : 1;
        if (repeats)
            continue;
        walk->any = 1;
        walk->last_end = *end;
        return CLEF_OK;
    }
}
