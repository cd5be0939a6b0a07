/* What a constraint became, as text for people. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/memory.h"
#include "text/constrain/constraint.h"

typedef struct writer {
    clef__chars text;
    clef_status status;
    clef_error *err;
} writer;

static void CLEF_PRINTF(2, 3) put(writer *w, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (!w->status)
        w->status =
            clef__chars_append(&w->text, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1, w->err);
}

static void put_code(writer *w, uint32_t code)
{
    if (code > 0x20 && code < 0x7F && code != '"' && code != '\\' && code != ']' && code != '-' &&
        code != '^')
        put(w, "%c", (int)code);
    else
        put(w, code <= 0xFFFF ? "\\u%04X" : "\\U%08X", code);
}

static void put_range(writer *w, uint32_t min, uint32_t max, const char *unit)
{
    if (max != UINT32_MAX)
        put(w, ", %u to %u %s", min, max, unit);
    else if (min)
        put(w, ", at least %u %s", min, unit);
}

static void put_expr(writer *w, uint32_t expr)
{
    if (expr == CLEF__EXPR_ANY)
        put(w, "any value");
    else
        put(w, "value %u", expr);
}

static void put_object(writer *w, const clef__alt *a)
{
    put(w, "object");
    put_range(w, a->min, a->max, "members");
    put(w, "\n");
    for (uint32_t i = 0; i < a->n_props; i++) {
        put(w, "      \"%.*s\"%s: ", (int)(a->props[i].name.n < 200 ? a->props[i].name.n : 200),
            a->props[i].name.p, a->props[i].required ? "" : " (optional)");
        put_expr(w, a->props[i].expr);
        put(w, "\n");
    }
    for (uint32_t i = 0; i < a->n_regions; i++) {
        put(w, "      other names (%u states): ", a->regions[i].names->n_states);
        put_expr(w, a->regions[i].expr);
        put(w, "\n");
    }
}

static void put_alt(writer *w, const clef__alt *a)
{
    put(w, "  - ");
    switch (a->kind) {
    case CLEF__ALT_NUMBER:
        put(w, "number (%u states)\n", a->dfa->n_states);
        break;
    case CLEF__ALT_STRING:
        put(w, "string (%u states)", a->dfa->n_states);
        put_range(w, a->min, a->max, "characters");
        put(w, "\n");
        break;
    case CLEF__ALT_ARRAY:
        put(w, "array");
        put_range(w, a->min, a->max, "items");
        for (uint32_t i = 0; i < a->n_prefix; i++) {
            put(w, "%s", i ? ", " : ": ");
            put_expr(w, a->prefix[i]);
        }
        put(w, a->n_prefix ? ", then " : ": ");
        put_expr(w, a->rest);
        put(w, "\n");
        break;
    case CLEF__ALT_OBJECT:
        put_object(w, a);
        break;
    default:
        put(w, "%s\n", a->kind == CLEF__ALT_NULL ? "null" : a->kind == CLEF__ALT_TRUE ? "true" : "false");
    }
}

static void put_node(writer *w, const clef_constraint *c, uint32_t i)
{
    const clef__gnode *x = &c->graph.nodes[i];
    put(w, "  %u: ", i);
    switch (x->kind) {
    case CLEF__G_END:
        put(w, "end of the rule\n");
        break;
    case CLEF__G_EITHER:
        put(w, x->to == x->other ? "go to %u\n" : "go to %u or %u\n", x->to, x->other);
        break;
    case CLEF__G_SET:
        put(w, "[");
        for (uint32_t r = 0; r < x->set.n; r++) {
            put_code(w, x->set.at[r].lo);
            if (x->set.at[r].hi > x->set.at[r].lo)
                put(w, "-");
            if (x->set.at[r].hi > x->set.at[r].lo)
                put_code(w, x->set.at[r].hi);
        }
        put(w, "], then %u\n", x->to);
        break;
    case CLEF__G_CALL:
        put(w, "rule at %u, then %u\n", x->other, x->to);
        break;
    case CLEF__G_VALUE:
        put(w, "JSON value %u, then %u\n", x->expr, x->to);
        break;
    case CLEF__G_TEXT:
        put(w, "text of an automaton with %u states, then %u\n", x->dfa->n_states, x->to);
        break;
    case CLEF__G_SPECIAL:
        put(w, "a special token, then %u\n", x->to);
        break;
    case CLEF__G_TOKEN:
        put(w, "%stoken %d, then %u\n", x->negated ? "any but " : "", x->token, x->to);
        break;
    }
}

clef_status clef_constraint_describe(const clef_constraint *c, char **out, size_t *n_bytes, clef_error *err)
{
    writer w = {.err = err};
    *out = NULL;
    put(&w, "begins at %u\n", c->start);
    for (uint32_t i = 0; i < c->graph.n; i++)
        put_node(&w, c, i);
    for (uint32_t e = 0; e < c->schema.n_exprs; e++) {
        const clef__alts *alts = &c->schema.exprs[e].alts;
        if (e == CLEF__EXPR_ANY || !alts->n)
            continue;
        put(&w, "value %u is one of\n", e);
        for (uint32_t i = 0; i < alts->n; i++)
            put_alt(&w, &alts->at[i]);
    }
    if (!w.status)
        w.status = clef__chars_append(&w.text, "", 1, err);
    if (w.status) {
        clef__chars_finish(&w.text);
        return w.status;
    }
    *out = w.text.at;
    *n_bytes = w.text.n - 1;
    return CLEF_OK;
}
