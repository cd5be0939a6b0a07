/* Finds the names that a source declares, by their place in the text, without expanding macros, so that all
 * branches of #if count:
 *   - at file scope, an identifier before ( [ = ; or , and one after struct, union or enum
 *   - in the braces of an enum, an identifier after { , or )
 *   - the first argument of a macro that is used at file scope: DEFINE_ROW(key_row, 16)
 * None of these is part of a value, which begins with = and ends with , or ; or the braces of an enum.
 * Names that the text makes with ## alone are found by their beginning: an identifier that ends with _ stands
 * for all that begin with it (load_##number, JOIN(load_, 7)). */
#include "runtime/device/source_scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

static int same(clef__word a, clef__word b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

int clef__word_is(clef__word a, const char *text)
{
    return same(a, (clef__word){text, strlen(text)});
}

int clef__words_have(const clef__words *list, clef__word w)
{
    for (size_t i = 0; i < list->n; i++)
        if (same(list->at[i], w))
            return 1;
    return 0;
}

static void add(clef__source_names *all, clef__words *list, clef__word w)
{
    if (all->failed || clef__words_have(list, w))
        return;
    if (list->n == list->room) {
        const size_t room = 2 * list->room + 64;
        clef__word *grown = realloc(list->at, room * sizeof *grown);
        all->failed = !grown;
        if (!grown)
            return;
        list->at = grown;
        list->room = room;
    }
    list->at[list->n++] = w;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int begins_name(int c)
{
    return isalpha(c) || c == '_';
}

static int continues_name(int c)
{
    return isalnum(c) || c == '_';
}

static const char *past_comment(const char *p, const char *end)
{
    if (p[1] == '/') {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        return newline ? newline : end;
    }
    for (p += 2; p < end && !(p[0] == '*' && p + 1 < end && p[1] == '/');)
        p++;
    return p < end ? p + 2 : end;
}

static const char *past_quoted(const char *p, const char *end)
{
    const char quote = *p++;
    while (p < end && *p != quote && *p != '\n')
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    return p < end && *p == quote ? p + 1 : p;
}

clef__token clef__token_next(const char **at, const char *end)
{
    const char *p = *at, *from = p;
    clef__token_kind is = CLEF__TOKEN_OTHER;
    if (p == end)
        return (clef__token){CLEF__TOKEN_END, {p, 0}};
    const int c = (unsigned char)*p;
    if (begins_name(c)) {
        is = CLEF__TOKEN_IDENTIFIER;
        while (p < end && continues_name((unsigned char)*p))
            p++;
    } else if (isdigit(c) || (c == '.' && p + 1 < end && isdigit((unsigned char)p[1]))) {
        is = CLEF__TOKEN_NUMBER;
        while (p < end && (continues_name((unsigned char)*p) || *p == '.' ||
                           ((*p == '+' || *p == '-') && strchr("eEpP", p[-1]))))
            p++;
    } else if (c == '\n') {
        is = CLEF__TOKEN_NEWLINE;
        p++;
    } else if (c == '/' && p + 1 < end && (p[1] == '*' || p[1] == '/')) {
        is = CLEF__TOKEN_SPACE;
        p = past_comment(p, end);
    } else if (c == '\\' && p + 1 < end && p[1] == '\n') {
        is = CLEF__TOKEN_SPACE;
        p += 2;
    } else if (c == '"' || c == '\'') {
        p = past_quoted(p, end);
    } else if (isspace(c)) {
        is = CLEF__TOKEN_SPACE;
        p++;
    } else {
        is = c == '#' ? CLEF__TOKEN_HASH : CLEF__TOKEN_OTHER;
        p++;
    }
    *at = p;
    return (clef__token){is, {from, (size_t)(p - from)}};
}

clef__token clef__token_peek(const char *at, const char *end, int in_directive)
{
    clef__token t = clef__token_next(&at, end);
    while (t.kind == CLEF__TOKEN_SPACE || (t.kind == CLEF__TOKEN_NEWLINE && !in_directive))
        t = clef__token_next(&at, end);
    return t;
}

int clef__is_free_text(clef__word directive)
{
    return clef__word_is(directive, "line") || clef__word_is(directive, "error") ||
           clef__word_is(directive, "pragma");
}

const char *clef__option_next(const char *options, clef__word *name, clef__word *value)
{
    const char *p = strstr(options, "-D ");
    if (!p)
        return NULL;
    *name = (clef__word){p + 3, strcspn(p + 3, "= ")};
    p = name->at + name->n;
    *value = *p == '=' ? (clef__word){p + 1, strcspn(p + 1, " ")} : (clef__word){"1", 1};
    return *p == '=' ? value->at + value->n : p;
}

static int is_sign(clef__token t, const char *signs)
{
    return t.kind == CLEF__TOKEN_OTHER && t.text.n == 1 && strchr(signs, *t.text.at);
}

/* ---- finding the names ----------------------------------------------------------------------- */

static const char *const never[] = {"__attribute__",  "__asm__", "asm", "sizeof",
                                    "_Static_assert", "_Pragma", "void"};
/* Built-in functions that ## may complete, and what units share. */
static const char *const shared_families[] = {"as_",    "atomic_", "convert_",   "fused_stage_",
                                              "get_",   "half_",   "native_",    "sub_group_",
                                              "vload_", "vstore_", "work_group_"};

static int is_one_of(clef__word w, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (clef__word_is(w, list[i]))
            return 1;
    return 0;
}

/* Where in the text a token is. All branches of an #if begin at the same place. */
typedef struct place {
    int braces, parens;
    int in_enum;        /* the braces are those of an enum at file scope */
    int in_value;       /* after the = of a declaration or of an enum's constant */
    clef__token before; /* the last token that was no space and is not part of a directive */
} place;

typedef struct scan {
    clef__source_names *all;
    const char *at, *end;
    place now, saved[CLEF__SOURCE_NESTING];
    int n_saved;
    int after_enum, after_tag, after_macro;
} scan;

static void scan_family(scan *s, clef__word w)
{
    if (w.n > 1 && w.at[w.n - 1] == '_' && w.at[0] != '_' &&
        !is_one_of(w, shared_families, sizeof shared_families / sizeof *shared_families))
        add(s->all, &s->all->families, w);
}

static void scan_directive(scan *s)
{
    clef__token t = clef__token_peek(s->at, s->end, 1);
    const clef__word what = t.text;
    if (clef__word_is(what, "if") || clef__word_is(what, "ifdef") || clef__word_is(what, "ifndef")) {
        if (s->n_saved < CLEF__SOURCE_NESTING)
            s->saved[s->n_saved] = s->now;
        else
            s->all->too_deep = 1;
        s->n_saved++;
    } else if ((clef__word_is(what, "else") || clef__word_is(what, "elif")) && s->n_saved &&
               s->n_saved <= CLEF__SOURCE_NESTING) {
        s->now = s->saved[s->n_saved - 1];
    } else if (clef__word_is(what, "endif") && s->n_saved) {
        s->n_saved--;
    }
    const int is_define = clef__word_is(what, "define"), is_text = clef__is_free_text(what);
    for (int i = 0;
         (t = clef__token_next(&s->at, s->end)).kind != CLEF__TOKEN_END && t.kind != CLEF__TOKEN_NEWLINE;) {
        if (t.kind != CLEF__TOKEN_IDENTIFIER)
            continue;
        if (++i == 2 && is_define)
            add(s->all, &s->all->macros, t.text);
        if (!is_text)
            scan_family(s, t.text);
    }
}

static void scan_identifier(scan *s, clef__word w)
{
    scan_family(s, w);
    const place *now = &s->now;
    const int at_file_scope = !now->braces && !now->parens;
    const clef__token after = clef__token_peek(s->at, s->end, 0);
    const int is_declared = at_file_scope && (s->after_tag || is_sign(after, "([=;,"));
    const int is_constant = now->in_enum && now->braces == 1 && !now->parens && is_sign(now->before, "{,)");
    const int is_argument = !now->braces && now->parens == 1 && s->after_macro && is_sign(now->before, "(") &&
                            is_sign(after, ",)");
    if ((is_declared || is_constant || is_argument) && !now->in_value &&
        !is_one_of(w, never, sizeof never / sizeof *never))
        add(s->all, &s->all->declared, w);
    s->after_tag = clef__word_is(w, "struct") || clef__word_is(w, "union") || clef__word_is(w, "enum");
    if (at_file_scope)
        s->after_macro = clef__words_have(&s->all->macros, w);
    if (at_file_scope)
        s->after_enum = clef__word_is(w, "enum") || (s->after_enum && is_sign(after, "{"));
}

static void scan_sign(scan *s, clef__token t)
{
    place *now = &s->now;
    if (!now->parens && now->braces <= now->in_enum && is_sign(t, "=,;"))
        now->in_value = is_sign(t, "=");
    if (is_sign(t, "{")) {
        if (!now->braces)
            now->in_enum = s->after_enum;
        now->braces++;
        s->after_enum = 0;
    } else if (is_sign(t, "}")) {
        now->braces -= now->braces > 0;
        if (now->in_enum && !now->braces)
            now->in_enum = now->in_value = 0;
    } else if (is_sign(t, "(")) {
        now->parens++;
    } else if (is_sign(t, ")")) {
        now->parens -= now->parens > 0;
    }
    s->after_tag = 0;
}

void clef__source_names_find(clef__source_names *all, const clef_unit *unit)
{
    scan s = {.all = all, .at = unit->text, .end = unit->text + unit->n_bytes};
    int at_line_start = 1;
    clef__token t;
    clef__word name, value;
    for (const char *p = unit->options; (p = clef__option_next(p, &name, &value)) != NULL;)
        add(all, &all->constants, name);
    while ((t = clef__token_next(&s.at, s.end)).kind != CLEF__TOKEN_END) {
        if (t.kind == CLEF__TOKEN_SPACE)
            continue;
        if (t.kind == CLEF__TOKEN_HASH && at_line_start)
            scan_directive(&s);
        else if (t.kind == CLEF__TOKEN_IDENTIFIER)
            scan_identifier(&s, t.text);
        else if (t.kind == CLEF__TOKEN_OTHER)
            scan_sign(&s, t);
        const int is_directive = t.kind == CLEF__TOKEN_HASH && at_line_start;
        at_line_start = t.kind == CLEF__TOKEN_NEWLINE || is_directive;
        if (t.kind != CLEF__TOKEN_NEWLINE && !is_directive)
            s.now.before = t;
    }
}

void clef__source_names_free(clef__source_names *all)
{
    free(all->constants.at);
    free(all->macros.at);
    free(all->declared.at);
    free(all->families.at);
}

int clef__source_names_in_family(const clef__source_names *all, clef__word w)
{
    for (size_t i = 0; i < all->families.n; i++) {
        const clef__word *f = &all->families.at[i];
        if (w.n >= f->n && memcmp(w.at, f->at, f->n) == 0)
            return !is_one_of(w, never, sizeof never / sizeof *never);
    }
    return 0;
}
