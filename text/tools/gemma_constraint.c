/* Values become rules, one for each expression, so that schemas that contain themselves do. Members come in
 * the order of the schema, and undeclared ones after them. */
#include "text/tools/gemma_constraint.h"

#include <string.h>

#include "text/constrain/nfa.h"

enum { MOST_ITEMS = 200, MOST_NESTING = 200 };
static const char quote[] = "<|\"|>", call_end[] = "<tool_call|>", not_in_keys[] = ":,{}[]<";

static uint32_t either(clef__gemma *g, uint32_t a, uint32_t b)
{
    return a && b ? clef__graph_add(&g->c->graph, (clef__gnode){.kind = CLEF__G_EITHER, .to = a, .other = b})
                  : a + b;
}

static uint32_t literal(clef__gemma *g, const char *text, uint32_t to)
{
    return g->literal(g->user, text, to);
}

static uint32_t text_of(clef__gemma *g, const clef__dfa *dfa, uint32_t to)
{
    return dfa->n_states
               ? clef__graph_add(&g->c->graph, (clef__gnode){.kind = CLEF__G_TEXT, .dfa = dfa, .to = to})
               : 0;
}

static const clef__dfa *pattern(clef__gemma *g, const char *source, int whole)
{
    return clef__pattern_dfa(&g->c->dfas, source, strlen(source), whole);
}

static uint32_t string(clef__gemma *g, const clef__alt *alt, uint32_t to)
{
    clef__dfas *dfas = &g->c->dfas;
    const clef__dfa *texts =
        clef__dfa_join(dfas, clef__dfa_length(dfas, alt->dfa, alt->min, alt->max),
                       clef__dfa_not(dfas, pattern(g, "<\\|\"\\|>|<tool_call\\|>", 0)), CLEF__AND);
    const uint32_t text = text_of(g, texts, literal(g, quote, to));
    return text ? literal(g, quote, text) : 0;
}

/* ---- lists ------------------------------------------------------------------------------------ */

/* Items from number i on, when `i` are written; from the end of the list to its begin. */
static uint32_t array(clef__gemma *g, const clef__alt *alt, uint32_t to)
{
    const int has_limit = alt->max != UINT32_MAX;
    const uint32_t counted = alt->n_prefix > alt->min ? alt->n_prefix : alt->min,
                   last = has_limit ? alt->max : counted;
    const uint32_t close = literal(g, "]", to);
    const int goes_on = g->c->schema.exprs[alt->rest].live;
    uint32_t next = close; /* after `last` items */
    if (last > MOST_ITEMS) {
        clef__work_fail(&g->c->work, CLEF_E_LIMIT, "calls of this format have at most %d items in a list",
                        MOST_ITEMS);
        return 0;
    }
    if (!has_limit && goes_on) { /* any number behind those that are counted */
        next =
            clef__graph_add(&g->c->graph, (clef__gnode){.kind = CLEF__G_EITHER, .to = close, .other = close});
        const uint32_t more = literal(g, ",", clef__gemma_value(g, alt->rest, next));
        if (!g->c->work.status)
            g->c->graph.nodes[next].other = more;
    }
    uint32_t first = next;
    for (uint32_t i = last; i-- > 0 && !g->c->work.status;) {
        const uint32_t expr = i < alt->n_prefix ? alt->prefix[i] : alt->rest;
        const int may_be = g->c->schema.exprs[expr].live;
        const uint32_t item = may_be ? clef__gemma_value(g, expr, next) : 0;
        first = either(g, i >= alt->min ? close : 0, item);
        next = either(g, i >= alt->min ? close : 0, i && item ? literal(g, ",", item) : item);
    }
    if (last == 0 && !has_limit && goes_on) /* the first one has no comma before it */
        first = either(g, close, clef__gemma_value(g, alt->rest, next));
    return first ? literal(g, "[", first) : 0;
}

/* ---- objects ---------------------------------------------------------------------------------- */

static uint32_t member(clef__gemma *g, const clef__prop *p, uint32_t to)
{
    const char *name =
        g->c->schema.exprs[p->expr].live ? clef__work_copy(&g->c->work, p->name.p, p->name.n) : NULL;
    if (!name)
        return 0;
    const int is_bare = *name && !strpbrk(name, not_in_keys) && !strpbrk(name, " \t\n\r");
    uint32_t value = literal(g, ":", clef__gemma_value(g, p->expr, to));
    if (is_bare)
        return literal(g, name, value);
    return strstr(name, quote) || strstr(name, call_end)
               ? 0
               : literal(g, quote, literal(g, name, literal(g, quote, value)));
}

/* Undeclared members: none or several, each after a comma; *first: the same where none is before. */
static uint32_t others(clef__gemma *g, const clef__alt *alt, uint32_t close, uint32_t *first)
{
    const uint32_t loop =
        clef__graph_add(&g->c->graph, (clef__gnode){.kind = CLEF__G_EITHER, .to = close, .other = close});
    uint32_t one = 0;
    for (uint32_t i = 0; i < alt->n_regions && !g->c->work.status; i++) {
        const clef__dfa *names =
            clef__dfa_join(&g->c->dfas, alt->regions[i].names, pattern(g, "[A-Za-z0-9_.-]+", 1), CLEF__AND);
        const uint32_t value = literal(g, ":", clef__gemma_value(g, alt->regions[i].expr, loop));
        one = either(g, one, text_of(g, names, value));
    }
    *first = either(g, close, one);
    if (one && !g->c->work.status) {
        const uint32_t more = literal(g, ",", one);
        if (!g->c->work.status)
            g->c->graph.nodes[loop].other = more;
    }
    return loop;
}

static uint32_t object(clef__gemma *g, const clef__alt *alt, uint32_t to)
{
    uint32_t close = literal(g, "}", to), first = close, next = close; /* first: no member was written yet */
    if (alt->min > alt->n_required || alt->max != UINT32_MAX) {
        clef__work_fail(&g->c->work, CLEF_E_UNSUPPORTED,
                        "calls of this format cannot be held to a number of members");
        return 0;
    }
    if (alt->n_regions)
        next = others(g, alt, close, &first);
    for (uint32_t i = alt->n_props; i-- > 0 && !g->c->work.status;) {
        const uint32_t with = member(g, &alt->props[i], next);
        const int required = alt->props[i].required;
        if (required && !with)
            clef__work_fail(&g->c->work, CLEF_E_UNSUPPORTED, "a member that this format cannot write");
        first = either(g, with, required ? 0 : first);
        next = either(g, with ? literal(g, ",", with) : 0, required ? 0 : next);
    }
    return first ? literal(g, "{", first) : 0;
}

/* ---- values ----------------------------------------------------------------------------------- */

static uint32_t alternative(clef__gemma *g, const clef__alt *alt)
{
    static const char *const words[] = {
        [CLEF__ALT_NULL] = "null", [CLEF__ALT_FALSE] = "false", [CLEF__ALT_TRUE] = "true"};
    switch (alt->kind) {
    case CLEF__ALT_NUMBER:
        return text_of(g, alt->dfa, 0);
    case CLEF__ALT_STRING:
        return string(g, alt, 0);
    case CLEF__ALT_ARRAY:
        return array(g, alt, 0);
    case CLEF__ALT_OBJECT:
        return object(g, alt, 0);
    default:
        return literal(g, words[alt->kind], 0);
    }
}

uint32_t clef__gemma_value(clef__gemma *g, uint32_t expr, uint32_t to)
{
    if (g->c->work.status)
        return 0;
    if (!g->rules[expr]) {
        const clef__alts *alts = &g->c->schema.exprs[expr].alts;
        const uint32_t rule = clef__graph_add(&g->c->graph, (clef__gnode){.kind = CLEF__G_EITHER});
        uint32_t any = 0;
        g->rules[expr] = rule; /* before it is made: it may contain itself */
        if (++g->depth > MOST_NESTING)
            clef__work_fail(&g->c->work, CLEF_E_LIMIT, "values nest deeper than %d", MOST_NESTING);
        for (uint32_t i = 0; i < alts->n && !g->c->work.status; i++)
            any = either(g, any, alternative(g, &alts->at[i]));
        g->depth--;
        if (!any)
            clef__work_fail(&g->c->work, CLEF_E_UNSUPPORTED, "a value that this format cannot write");
        else if (!g->c->work.status)
            g->c->graph.nodes[rule].to = g->c->graph.nodes[rule].other = any;
    }
    return clef__graph_add(&g->c->graph,
                           (clef__gnode){.kind = CLEF__G_CALL, .other = g->rules[expr], .to = to});
}
