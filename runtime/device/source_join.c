/* Joins several sources into one program. Each source keeps its own constants and macros, and its own copy of
 * the headers, which may depend on them: its macros end with it, and the names that it declares at file scope
 * get a prefix.
 *
 * A name is found by its place in the text, without expanding macros, so that all branches of #if count:
 *   - at file scope, an identifier before ( [ = ; or , and one after struct, union or enum
 *   - in the braces of an enum, an identifier after { , or )
 *   - the first argument of a macro that is used at file scope: DEFINE_ROW(key_row, 16)
 * None of these is part of a value, which begins with = and ends with , or ; or the braces of an enum.
 * These are renamed by macros, which reach the names that ## makes, too. Names that the text makes with ##
 * alone are found by their beginning: an identifier that ends with _ stands for all that begin with it
 * (load_##number, JOIN(load_, 7)). These are renamed in the text. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/source.h"

enum { MAX_NESTING = 32, MAX_PREFIX = 16 };

/* Part of a text. */
typedef struct word {
    const char *at;
    size_t n;
} word;

typedef struct words {
    word *at;
    size_t n, room;
} words;

typedef struct joined {
    char *text;
    size_t n, room;
    int failed; /* out of memory */
    int too_deep;
} joined;

/* What a source's text declares. */
typedef struct names {
    words constants; /* of its -D options */
    words macros, declared;
    words families; /* the beginnings of names that ## makes */
    int failed;     /* out of memory */
    int too_deep;   /* more than MAX_NESTING levels of #if */
} names;

/* ---- words ----------------------------------------------------------------------------------- */

static int same(word a, word b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

static int is_word(word a, const char *text)
{
    return same(a, (word){text, strlen(text)});
}

static int has(const words *list, word w)
{
    for (size_t i = 0; i < list->n; i++)
        if (same(list->at[i], w))
            return 1;
    return 0;
}

static void add(names *all, words *list, word w)
{
    if (all->failed || has(list, w))
        return;
    if (list->n == list->room) {
        const size_t room = 2 * list->room + 64;
        word *grown = realloc(list->at, room * sizeof *grown);
        all->failed = !grown;
        if (!grown)
            return;
        list->at = grown;
        list->room = room;
    }
    list->at[list->n++] = w;
}

static void names_free(names *all)
{
    free(all->constants.at);
    free(all->macros.at);
    free(all->declared.at);
    free(all->families.at);
}

static void put(joined *out, const char *text, size_t n)
{
    if (!out->failed && out->room - out->n <= n) {
        const size_t room = 2 * (out->n + n) + 4096;
        char *grown = realloc(out->text, room);
        out->failed = !grown;
        out->text = grown ? grown : out->text;
        out->room = grown ? room : out->room;
    }
    if (out->failed)
        return;
    memcpy(out->text + out->n, text, n);
    out->n += n;
    out->text[out->n] = 0;
}

static void put_text(joined *out, const char *text)
{
    put(out, text, strlen(text));
}

/* Writes "before NAME after". */
static void put_word(joined *out, const char *before, word name, const char *after)
{
    put_text(out, before);
    put(out, name.at, name.n);
    put_text(out, after);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

typedef enum kind { END, IDENTIFIER, NUMBER, SPACE, NEWLINE, HASH, OTHER } kind;
typedef struct token {
    kind kind;
    word text;
} token;

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

/* A comment and a line's continuation count as space. */
static token next_token(const char **at, const char *end)
{
    const char *p = *at, *from = p;
    kind is = OTHER;
    if (p == end)
        return (token){END, {p, 0}};
    const int c = (unsigned char)*p;
    if (begins_name(c)) {
        is = IDENTIFIER;
        while (p < end && continues_name((unsigned char)*p))
            p++;
    } else if (isdigit(c) || (c == '.' && p + 1 < end && isdigit((unsigned char)p[1]))) {
        is = NUMBER;
        while (p < end && (continues_name((unsigned char)*p) || *p == '.' ||
                           ((*p == '+' || *p == '-') && strchr("eEpP", p[-1]))))
            p++;
    } else if (c == '\n') {
        is = NEWLINE;
        p++;
    } else if (c == '/' && p + 1 < end && (p[1] == '*' || p[1] == '/')) {
        is = SPACE;
        p = past_comment(p, end);
    } else if (c == '\\' && p + 1 < end && p[1] == '\n') {
        is = SPACE;
        p += 2;
    } else if (c == '"' || c == '\'') {
        p = past_quoted(p, end);
    } else if (isspace(c)) {
        is = SPACE;
        p++;
    } else {
        is = c == '#' ? HASH : OTHER;
        p++;
    }
    *at = p;
    return (token){is, {from, (size_t)(p - from)}};
}

/* The next token that is no space; *at stays. A newline is space outside of directives. */
static token peek(const char *at, const char *end, int in_directive)
{
    token t = next_token(&at, end);
    while (t.kind == SPACE || (t.kind == NEWLINE && !in_directive))
        t = next_token(&at, end);
    return t;
}

static int is_sign(token t, const char *signs)
{
    return t.kind == OTHER && t.text.n == 1 && strchr(signs, *t.text.at);
}

/* ---- finding the names ----------------------------------------------------------------------- */

static const char *const never[] = {"__attribute__",  "__asm__", "asm", "sizeof",
                                    "_Static_assert", "_Pragma", "void"};
/* Built-in functions that ## may complete, and what units share. */
static const char *const shared_families[] = {"as_",    "atomic_", "convert_",   "fused_stage_",
                                              "get_",   "half_",   "native_",    "sub_group_",
                                              "vload_", "vstore_", "work_group_"};

static int is_one_of(word w, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_word(w, list[i]))
            return 1;
    return 0;
}

/* Where in the text a token is. All branches of an #if begin at the same place. */
typedef struct place {
    int braces, parens;
    int in_enum;  /* the braces are those of an enum at file scope */
    int in_value; /* after the = of a declaration or of an enum's constant */
    token before; /* the last token that was no space and is no part of a directive */
} place;

typedef struct scan {
    names *all;
    const char *at, *end;
    place now, saved[MAX_NESTING];
    int n_saved;
    int after_enum, after_tag, after_macro;
} scan;

static void scan_family(scan *s, word w)
{
    if (w.n > 1 && w.at[w.n - 1] == '_' && w.at[0] != '_' &&
        !is_one_of(w, shared_families, sizeof shared_families / sizeof *shared_families))
        add(s->all, &s->all->families, w);
}

static void scan_directive(scan *s)
{
    token t = peek(s->at, s->end, 1);
    const word what = t.text;
    if (is_word(what, "if") || is_word(what, "ifdef") || is_word(what, "ifndef")) {
        if (s->n_saved < MAX_NESTING)
            s->saved[s->n_saved] = s->now;
        else
            s->all->too_deep = 1;
        s->n_saved++;
    } else if ((is_word(what, "else") || is_word(what, "elif")) && s->n_saved && s->n_saved <= MAX_NESTING) {
        s->now = s->saved[s->n_saved - 1];
    } else if (is_word(what, "endif") && s->n_saved) {
        s->n_saved--;
    }
    const int is_define = is_word(what, "define"),
              is_text = is_word(what, "line") || is_word(what, "error") || is_word(what, "pragma");
    for (int i = 0; (t = next_token(&s->at, s->end)).kind != END && t.kind != NEWLINE;) {
        if (t.kind != IDENTIFIER)
            continue;
        if (++i == 2 && is_define)
            add(s->all, &s->all->macros, t.text);
        if (!is_text)
            scan_family(s, t.text);
    }
}

static void scan_identifier(scan *s, word w)
{
    scan_family(s, w);
    const place *now = &s->now;
    const int at_file_scope = !now->braces && !now->parens;
    const token after = peek(s->at, s->end, 0);
    const int is_declared = at_file_scope && (s->after_tag || is_sign(after, "([=;,"));
    const int is_constant = now->in_enum && now->braces == 1 && !now->parens && is_sign(now->before, "{,)");
    const int is_argument = !now->braces && now->parens == 1 && s->after_macro && is_sign(now->before, "(") &&
                            is_sign(after, ",)");
    if ((is_declared || is_constant || is_argument) && !now->in_value &&
        !is_one_of(w, never, sizeof never / sizeof *never))
        add(s->all, &s->all->declared, w);
    s->after_tag = is_word(w, "struct") || is_word(w, "union") || is_word(w, "enum");
    if (at_file_scope)
        s->after_macro = has(&s->all->macros, w);
    if (at_file_scope)
        s->after_enum = is_word(w, "enum") || (s->after_enum && is_sign(after, "{"));
}

static void scan_sign(scan *s, token t)
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

static void scan_options(names *all, const char *options)
{
    for (const char *p = options; (p = strstr(p, "-D ")) != NULL;) {
        p += 3;
        add(all, &all->constants, (word){p, strcspn(p, "= ")});
    }
}

static void scan_unit(names *all, const clef_unit *unit)
{
    scan s = {.all = all, .at = unit->text, .end = unit->text + unit->n_bytes};
    int at_line_start = 1;
    token t;
    scan_options(all, unit->options);
    while ((t = next_token(&s.at, s.end)).kind != END) {
        if (t.kind == SPACE)
            continue;
        if (t.kind == HASH && at_line_start)
            scan_directive(&s);
        else if (t.kind == IDENTIFIER)
            scan_identifier(&s, t.text);
        else if (t.kind == OTHER)
            scan_sign(&s, t);
        const int is_directive = t.kind == HASH && at_line_start;
        at_line_start = t.kind == NEWLINE || is_directive;
        if (t.kind != NEWLINE && !is_directive)
            s.now.before = t;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static int is_of_family(const names *all, word w)
{
    for (size_t i = 0; i < all->families.n; i++) {
        const word *f = &all->families.at[i];
        if (w.n >= f->n && memcmp(w.at, f->at, f->n) == 0)
            return !is_one_of(w, never, sizeof never / sizeof *never);
    }
    return 0;
}

static int is_renamed(const names *all, word w)
{
    return has(&all->declared, w) && !is_of_family(all, w) && !has(&all->constants, w);
}

static void put_name(joined *out, const names *all, const char *prefix, word w)
{
    if (is_of_family(all, w))
        put_text(out, prefix);
    put(out, w.at, w.n);
}

/* Copies the directive after its #, which is not yet written. */
static void put_directive(joined *out, const names *all, const char *prefix, const char **at, const char *end)
{
    token t = peek(*at, end, 1);
    const int is_define = is_word(t.text, "define");
    const int is_text = is_word(t.text, "line") || is_word(t.text, "error") || is_word(t.text, "pragma");
    const char *name = t.text.at + t.text.n;
    t = peek(name, end, 1);
    if (is_define && is_renamed(all, t.text)) /* a macro in this branch, a declaration in another */
        put_word(out, "#undef ", t.text, "\n");
    put_text(out, "#");
    while ((t = next_token(at, end)).kind != END) {
        if (t.kind == IDENTIFIER && !is_text)
            put_name(out, all, prefix, t.text);
        else
            put(out, t.text.at, t.text.n);
        if (t.kind == NEWLINE)
            return;
    }
}

static void put_text_of(joined *out, const names *all, const char *prefix, const clef_unit *unit)
{
    const char *at = unit->text, *end = at + unit->n_bytes;
    int at_line_start = 1;
    token t;
    while ((t = next_token(&at, end)).kind != END) {
        if (t.kind == HASH && at_line_start)
            put_directive(out, all, prefix, &at, end);
        else if (t.kind == IDENTIFIER)
            put_name(out, all, prefix, t.text);
        else
            put(out, t.text.at, t.text.n);
        at_line_start = t.kind == NEWLINE || (at_line_start && (t.kind == SPACE || t.kind == HASH));
    }
}

static void put_constants(joined *out, const names *all, const char *prefix, const char *options)
{
    for (const char *p = options; (p = strstr(p, "-D ")) != NULL;) {
        p += 3;
        const size_t n = strcspn(p, "= ");
        const char *value = p[n] == '=' ? p + n + 1 : "1";
        put_text(out, "#define ");
        put_name(out, all, prefix, (word){p, n});
        put_word(out, " ", (word){value, p[n] == '=' ? strcspn(value, " ") : 1}, "\n");
    }
}

static void put_undef(joined *out, const names *all, const char *prefix, const words *list)
{
    for (size_t i = 0; i < list->n; i++) {
        put_text(out, "#undef ");
        put_name(out, all, prefix, list->at[i]);
        put_text(out, "\n");
    }
}

static void put_unit(joined *out, const clef_unit *unit, int32_t number)
{
    names all = {0};
    char prefix[MAX_PREFIX] = "";
    if (number >= 0)
        snprintf(prefix, sizeof prefix, "s%d_", (int)number);
    scan_unit(&all, unit);
    put_text(out, "#pragma OPENCL FP_CONTRACT DEFAULT\n"); /* a source before this one may have set it */
    put_constants(out, &all, prefix, unit->options);
    for (size_t i = 0; i < all.declared.n && number >= 0; i++)
        if (is_renamed(&all, all.declared.at[i])) {
            put_word(out, "#define ", all.declared.at[i], " ");
            put_word(out, prefix, all.declared.at[i], "\n");
        }
    put_text_of(out, &all, prefix, unit);
    put_text(out, "\n");
    put_undef(out, &all, prefix, &all.declared);
    put_undef(out, &all, prefix, &all.macros);
    put_undef(out, &all, prefix, &all.constants);
    out->failed |= all.failed;
    out->too_deep |= all.too_deep;
    names_free(&all);
}

clef_status clef__source_join(const clef_unit *units, int32_t n, char **text, size_t *n_bytes,
                              clef_error *err)
{
    joined out = {0};
    for (int32_t i = 0; i < n; i++)
        put_unit(&out, &units[i], i + 1 < n ? i : -1);
    clef_status s = CLEF_OK;
    if (out.failed)
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for the text of %d sources", (int)n);
    else if (out.too_deep)
        s = clef__fail(err, CLEF_E_LIMIT, "kernel sources to be joined: #if is nested more than %d deep",
                       MAX_NESTING);
    *text = s ? NULL : out.text;
    *n_bytes = s ? 0 : out.n;
    if (s)
        free(out.text);
    return s;
}
