/* Joins several sources into one program. Each source keeps its own constants and macros, and its own copy of
 * the headers, which may depend on them: its macros end with it, and the names that it declares at file scope
 * get a prefix. source_scan.c finds these names.
 *
 * Most are renamed by macros, which reach the names that ## makes, too. Names that the text makes with ##
 * alone are renamed in the text, with all that have their beginning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/source_scan.h"

enum { MAX_PREFIX = 16 };

typedef struct joined {
    char *text;
    size_t n, room;
    int failed; /* out of memory */
    int too_deep;
} joined;

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
static void put_word(joined *out, const char *before, clef__word name, const char *after)
{
    put_text(out, before);
    put(out, name.at, name.n);
    put_text(out, after);
}

static int is_renamed(const clef__source_names *all, clef__word w)
{
    return clef__words_have(&all->declared, w) && !clef__source_names_in_family(all, w) &&
           !clef__words_have(&all->constants, w);
}

static void put_name(joined *out, const clef__source_names *all, const char *prefix, clef__word w)
{
    if (clef__source_names_in_family(all, w))
        put_text(out, prefix);
    put(out, w.at, w.n);
}

/* Copies the directive after its #, which is not yet written. */
static void put_directive(joined *out, const clef__source_names *all, const char *prefix, const char **at,
                          const char *end)
{
    clef__token t = clef__token_peek(*at, end, 1);
    const int is_define = clef__word_is(t.text, "define");
    const int is_text = clef__is_free_text(t.text);
    const char *name = t.text.at + t.text.n;
    t = clef__token_peek(name, end, 1);
    if (is_define && is_renamed(all, t.text)) /* a macro in this branch, a declaration in another */
        put_word(out, "#undef ", t.text, "\n");
    put_text(out, "#");
    while ((t = clef__token_next(at, end)).kind != CLEF__TOKEN_END) {
        if (t.kind == CLEF__TOKEN_IDENTIFIER && !is_text)
            put_name(out, all, prefix, t.text);
        else
            put(out, t.text.at, t.text.n);
        if (t.kind == CLEF__TOKEN_NEWLINE)
            return;
    }
}

static void put_text_of(joined *out, const clef__source_names *all, const char *prefix, const clef_unit *unit)
{
    const char *at = unit->text, *end = at + unit->n_bytes;
    int at_line_start = 1;
    clef__token t;
    while ((t = clef__token_next(&at, end)).kind != CLEF__TOKEN_END) {
        if (t.kind == CLEF__TOKEN_HASH && at_line_start)
            put_directive(out, all, prefix, &at, end);
        else if (t.kind == CLEF__TOKEN_IDENTIFIER)
            put_name(out, all, prefix, t.text);
        else
            put(out, t.text.at, t.text.n);
        at_line_start = t.kind == CLEF__TOKEN_NEWLINE ||
                        (at_line_start && (t.kind == CLEF__TOKEN_SPACE || t.kind == CLEF__TOKEN_HASH));
    }
}

static void put_constants(joined *out, const clef__source_names *all, const char *prefix, const char *options)
{
    clef__word name, value;
    for (const char *p = options; (p = clef__option_next(p, &name, &value)) != NULL;) {
        put_text(out, "#define ");
        put_name(out, all, prefix, name);
        put_word(out, " ", value, "\n");
    }
}

static void put_undef(joined *out, const clef__source_names *all, const char *prefix, const clef__words *list)
{
    for (size_t i = 0; i < list->n; i++) {
        put_text(out, "#undef ");
        put_name(out, all, prefix, list->at[i]);
        put_text(out, "\n");
    }
}

static void put_unit(joined *out, const clef_unit *unit, int32_t number)
{
    clef__source_names all = {0};
    char prefix[MAX_PREFIX] = "";
    if (number >= 0)
        snprintf(prefix, sizeof prefix, "s%d_", (int)number);
    clef__source_names_find(&all, unit);
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
    clef__source_names_free(&all);
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
                       CLEF__SOURCE_NESTING);
    *text = s ? NULL : out.text;
    *n_bytes = s ? 0 : out.n;
    if (s)
        free(out.text);
    return s;
}
