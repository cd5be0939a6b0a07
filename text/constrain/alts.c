/* Unions, intersections and complements of alternatives. */
#include <stdlib.h>
#include <string.h>

#include "text/constrain/number.h"
#include "text/constrain/schema.h"

enum { MOST_ALTS = 2000, MOST_REGIONS = 256, PROBE_DEPTH = 6 };

void clef__alts_add(clef__schema *s, clef__alts *to, const clef__alt *alt)
{
    if (to->n >= MOST_ALTS) {
        clef__schema_fail(s, s->path, s->keyword, CLEF_E_LIMIT, "it combines into more than %d alternatives",
                          MOST_ALTS);
        return;
    }
    if (to->n == to->room) {
        const uint32_t room = to->room ? to->room * 2 : 8;
        clef__alt *at = clef__work_alloc(s->work, room * sizeof *at);
        if (!at)
            return;
        if (to->n)
            memcpy(at, to->at, to->n * sizeof *at);
        to->at = at;
        to->room = room;
    }
    to->at[to->n++] = *alt;
}

void clef__alts_add_all(clef__schema *s, clef__alts *to, const clef__alts *from)
{
    for (uint32_t i = 0; i < from->n && !s->work->status; i++)
        clef__alts_add(s, to, &from->at[i]);
}

clef__alt clef__alt_any(clef__schema *s, clef__alt_kind kind)
{
    clef__alt a = {.kind = kind, .max = UINT32_MAX};
    if (kind == CLEF__ALT_NUMBER)
        a.dfa = clef__number_any(s->dfas);
    if (kind == CLEF__ALT_STRING)
        a.dfa = clef__dfa_any(s->dfas);
    if (kind == CLEF__ALT_OBJECT && (a.regions = clef__work_alloc(s->work, sizeof *a.regions))) {
        a.regions[a.n_regions++] = (clef__region){clef__dfa_any(s->dfas), CLEF__EXPR_ANY};
    }
    return a;
}

clef__alts clef__alts_any(clef__schema *s)
{
    clef__alts all = {.n = 0};
    for (int kind = 0; kind < CLEF__N_ALT_KINDS; kind++) {
        const clef__alt a = clef__alt_any(s, (clef__alt_kind)kind);
        clef__alts_add(s, &all, &a);
    }
    return all;
}

/* ---- intersection --------------------------------------------------------------------------- */

static uint32_t item_expr(const clef__alt *a, uint32_t i)
{
    return i < a->n_prefix ? a->prefix[i] : a->rest;
}

static int and_arrays(clef__schema *s, const clef__alt *a, const clef__alt *b, clef__alt *out)
{
    out->n_prefix = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    out->prefix = clef__work_alloc(s->work, out->n_prefix * sizeof *out->prefix);
    if (!out->prefix)
        return 0;
    for (uint32_t i = 0; i < out->n_prefix; i++)
        out->prefix[i] = clef__expr_and(s, item_expr(a, i), item_expr(b, i));
    out->rest = clef__expr_and(s, a->rest, b->rest);
    return 1;
}

static const clef__prop *find_prop(const clef__alt *a, clef__utf8_text name)
{
    for (uint32_t i = 0; i < a->n_props; i++)
        if (a->props[i].name.n == name.n && !memcmp(a->props[i].name.p, name.p, name.n))
            return &a->props[i];
    return NULL;
}

uint32_t clef__alt_member(const clef__alt *object, clef__utf8_text name)
{
    const clef__prop *p = find_prop(object, name);
    if (p)
        return p->expr;
    for (uint32_t i = 0; i < object->n_regions; i++)
        if (clef__dfa_has(object->regions[i].names, name.p, name.n))
            return object->regions[i].expr;
    return CLEF__EXPR_ANY; /* regions hold all names */
}

static int and_objects(clef__schema *s, const clef__alt *a, const clef__alt *b, clef__alt *out)
{
    if (!clef__work_step(s->work,
                         (int64_t)a->n_props * (b->n_props + 1) + (int64_t)b->n_props * (a->n_props + 1)))
        return 0;
    out->props = clef__work_alloc(s->work, (a->n_props + b->n_props) * sizeof *out->props);
    out->regions = clef__work_alloc(s->work, (size_t)a->n_regions * b->n_regions * sizeof *out->regions);
    if (!out->props || !out->regions)
        return 0;
    for (uint32_t i = 0; i < a->n_props; i++) {
        const clef__prop *p = &a->props[i], *other = find_prop(b, p->name);
        out->props[out->n_props++] =
            (clef__prop){p->name, clef__expr_and(s, p->expr, clef__alt_member(b, p->name)),
                         p->required || (other && other->required)};
    }
    for (uint32_t i = 0; i < b->n_props; i++) {
        const clef__prop *p = &b->props[i];
        if (!find_prop(a, p->name))
            out->props[out->n_props++] =
                (clef__prop){p->name, clef__expr_and(s, p->expr, clef__alt_member(a, p->name)), p->required};
    }
    for (uint32_t i = 0; i < a->n_regions && !s->work->status; i++)
        for (uint32_t k = 0; k < b->n_regions; k++) {
            const clef__dfa *names =
                clef__dfa_join(s->dfas, a->regions[i].names, b->regions[k].names, CLEF__AND);
            if (names->n_states)
                out->regions[out->n_regions++] =
                    (clef__region){names, clef__expr_and(s, a->regions[i].expr, b->regions[k].expr)};
        }
    if (out->n_regions > MOST_REGIONS)
        clef__schema_fail(s, s->path, "patternProperties", CLEF_E_LIMIT,
                          "they cut names into more than %d sets", MOST_REGIONS);
    return !s->work->status;
}

/* Returns 0 if nothing is in both. */
static int and_alt(clef__schema *s, const clef__alt *a, const clef__alt *b, clef__alt *out)
{
    if (a->kind != b->kind)
        return 0;
    *out = (clef__alt){.kind = a->kind};
    out->min = a->min > b->min ? a->min : b->min;
    out->max = a->max < b->max ? a->max : b->max;
    if (out->min > out->max)
        return 0;
    switch (a->kind) {
    case CLEF__ALT_NUMBER:
    case CLEF__ALT_STRING:
        out->dfa = clef__dfa_join(s->dfas, a->dfa, b->dfa, CLEF__AND);
        return out->dfa->n_states > 0;
    case CLEF__ALT_ARRAY:
        return and_arrays(s, a, b, out);
    case CLEF__ALT_OBJECT:
        return and_objects(s, a, b, out);
    default:
        return 1;
    }
}

clef__alts clef__alts_and(clef__schema *s, const clef__alts *a, const clef__alts *b)
{
    clef__alts out = {.n = 0};
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n && clef__work_step(s->work, 1); k++) {
            clef__alt both;
            if (and_alt(s, &a->at[i], &b->at[k], &both))
                clef__alts_add(s, &out, &both);
        }
    return out;
}

/* ---- emptiness -------------------------------------------------------------------------------- */

static int alts_empty(clef__schema *s, const clef__alts *a, int depth);

static int expr_empty(clef__schema *s, uint32_t expr, int depth)
{
    if (expr == CLEF__EXPR_ANY || depth == 0)
        return 0;
    const clef__alts alts = *clef__expr_alts(s, expr);
    return alts_empty(s, &alts, depth - 1);
}

static int alt_empty(clef__schema *s, const clef__alt *a, int depth)
{
    if (a->kind == CLEF__ALT_NUMBER || a->kind == CLEF__ALT_STRING) {
        if (!a->dfa->n_states || a->min > a->max)
            return 1;
        return a->kind == CLEF__ALT_STRING && a->max < UINT32_MAX && a->dfa != s->dfas->any &&
               a->max < 1000 && !clef__dfa_length(s->dfas, a->dfa, a->min, a->max)->n_states;
    }
    if (a->min > a->max)
        return 1;
    if (a->kind == CLEF__ALT_ARRAY)
        for (uint32_t i = 0; i < a->min && i <= a->n_prefix; i++)
            if (expr_empty(s, item_expr(a, i), depth))
                return 1;
    uint32_t n_required = 0;
    if (a->kind == CLEF__ALT_OBJECT)
        for (uint32_t i = 0; i < a->n_props; i++) {
            n_required += (uint32_t)a->props[i].required;
            if (a->props[i].required && expr_empty(s, a->props[i].expr, depth))
                return 1;
        }
    return n_required > a->max;
}

static int alts_empty(clef__schema *s, const clef__alts *a, int depth)
{
    for (uint32_t i = 0; i < a->n && !s->work->status; i++)
        if (!alt_empty(s, &a->at[i], depth))
            return 0;
    return 1;
}

int clef__alts_empty(clef__schema *s, const clef__alts *a)
{
    s->probing++;
    const int empty = alts_empty(s, a, PROBE_DEPTH);
    s->probing--;
    return empty;
}

/* ---- complement ------------------------------------------------------------------------------- */

typedef struct complement {
    clef__schema *s;
    const char *path, *keyword;
    clef__alts *out;
} complement;

static void add_lengths(complement *c, clef__alt_kind kind, const clef__alt *a)
{
    clef__alt less = clef__alt_any(c->s, kind), more = less;
    if (a->min > 0) {
        less.max = a->min - 1;
        clef__alts_add(c->s, c->out, &less);
    }
    if (a->max < UINT32_MAX) {
        more.min = a->max + 1;
        clef__alts_add(c->s, c->out, &more);
    }
}

/* The expressions that together hold what is not in `expr`: one for each of its literals. */
static uint32_t not_literal(clef__schema *s, uint32_t expr, uint32_t i)
{
    const clef__literal l = s->literals[s->exprs[expr].literals[i]];
    return clef__expr_of(s, clef__literal_of(s, l.value, l.is_constant, !l.negated));
}

static void not_array(complement *c, const clef__alt *a)
{
    clef__schema *s = c->s;
    add_lengths(c, CLEF__ALT_ARRAY, a);
    for (uint32_t i = 0; i < a->n_prefix && !s->work->status; i++)
        for (uint32_t k = 0; k < s->exprs[a->prefix[i]].n; k++) {
            clef__alt other = clef__alt_any(s, CLEF__ALT_ARRAY);
            other.prefix = clef__work_alloc(s->work, (i + 1) * sizeof *other.prefix);
            if (!other.prefix)
                return;
            other.prefix[i] = not_literal(s, a->prefix[i], k);
            other.n_prefix = other.min = i + 1;
            clef__alts_add(s, c->out, &other);
        }
    if (a->rest != CLEF__EXPR_ANY && a->max > a->n_prefix)
        clef__schema_fail(s, c->path, c->keyword, CLEF_E_UNSUPPORTED,
                          "the complement of a schema of all items is not supported");
}

static void add_member(complement *c, const clef__prop *prop, uint32_t expr, int required)
{
    clef__alt other = clef__alt_any(c->s, CLEF__ALT_OBJECT);
    other.props = clef__work_alloc(c->s->work, sizeof *other.props);
    if (!other.props)
        return;
    other.props[other.n_props++] = (clef__prop){prop->name, expr, required};
    clef__alts_add(c->s, c->out, &other);
}

static void not_object(complement *c, const clef__alt *a)
{
    clef__schema *s = c->s;
    add_lengths(c, CLEF__ALT_OBJECT, a);
    for (uint32_t i = 0; i < a->n_props && !s->work->status; i++) {
        const clef__prop *p = &a->props[i];
        if (p->required)
            add_member(c, p, clef__expr_never(s), 0);
        for (uint32_t k = 0; k < s->exprs[p->expr].n; k++)
            add_member(c, p, not_literal(s, p->expr, k), 1);
    }
    for (uint32_t i = 0; i < a->n_regions; i++)
        if (a->regions[i].expr != CLEF__EXPR_ANY)
            clef__schema_fail(s, c->path, c->keyword, CLEF_E_UNSUPPORTED,
                              "the complement of a schema of all other members is not supported");
}

static clef__alts not_alt(complement *c, const clef__alt *a)
{
    clef__schema *s = c->s;
    clef__alts out = {.n = 0};
    c->out = &out;
    for (int kind = 0; kind < CLEF__N_ALT_KINDS; kind++) {
        const clef__alt other = clef__alt_any(s, (clef__alt_kind)kind);
        if (kind != (int)a->kind)
            clef__alts_add(s, &out, &other);
    }
    clef__alt same = clef__alt_any(s, a->kind);
    switch (a->kind) {
    case CLEF__ALT_NUMBER:
        if (a->dfa == same.dfa)
            break;
        same.dfa = clef__dfa_join(s->dfas, clef__number_short(s->dfas), a->dfa, CLEF__MINUS);
        if (same.dfa->n_states)
            clef__alts_add(s, &out, &same);
        break;
    case CLEF__ALT_STRING:
        add_lengths(c, CLEF__ALT_STRING, a);
        same.dfa = clef__dfa_not(s->dfas, a->dfa);
        if (same.dfa->n_states)
            clef__alts_add(s, &out, &same);
        break;
    case CLEF__ALT_ARRAY:
        not_array(c, a);
        break;
    case CLEF__ALT_OBJECT:
        not_object(c, a);
        break;
    default:
        break;
    }
    return out;
}

clef__alts clef__alts_not(clef__schema *s, const clef__alts *a, const char *path, const char *keyword)
{
    complement c = {.s = s, .path = path, .keyword = keyword};
    clef__alts out = clef__alts_any(s);
    for (uint32_t i = 0; i < a->n && !s->work->status; i++) {
        const clef__alts other = not_alt(&c, &a->at[i]);
        out = clef__alts_and(s, &out, &other);
        clef__alts_merge(s, &out);
    }
    return out;
}

/* ---- merging ---------------------------------------------------------------------------------- */

static int same_alt(const clef__alt *a, const clef__alt *b)
{
    if (a->kind != b->kind || a->min != b->min || a->max != b->max || a->dfa != b->dfa ||
        a->n_prefix != b->n_prefix || a->rest != b->rest || a->n_props != b->n_props ||
        a->n_regions != b->n_regions)
        return 0;
    for (uint32_t i = 0; i < a->n_prefix; i++)
        if (a->prefix[i] != b->prefix[i])
            return 0;
    for (uint32_t i = 0; i < a->n_props; i++) {
        const clef__prop *x = &a->props[i], *y = &b->props[i];
        if (x->expr != y->expr || x->required != y->required || x->name.n != y->name.n ||
            memcmp(x->name.p, y->name.p, x->name.n))
            return 0;
    }
    for (uint32_t i = 0; i < a->n_regions; i++)
        if (a->regions[i].expr != b->regions[i].expr || a->regions[i].names != b->regions[i].names)
            return 0;
    return 1;
}

/* Puts `a` into `to`, which is of the same kind, if both together are one alternative. */
static int join_alt(clef__schema *s, clef__alt *to, const clef__alt *a)
{
    const int no_limits = !to->min && !a->min && to->max == UINT32_MAX && a->max == UINT32_MAX;
    if (a->kind == CLEF__ALT_NUMBER || (a->kind == CLEF__ALT_STRING && no_limits)) {
        to->dfa = clef__dfa_join(s->dfas, to->dfa, a->dfa, CLEF__OR);
        return 1;
    }
    if (a->kind == CLEF__ALT_STRING && a->dfa == to->dfa && a->min <= to->max + (to->max < UINT32_MAX) &&
        to->min <= a->max + (a->max < UINT32_MAX)) {
        to->min = a->min < to->min ? a->min : to->min;
        to->max = a->max > to->max ? a->max : to->max;
        return 1;
    }
    return same_alt(to, a);
}

void clef__alts_merge(clef__schema *s, clef__alts *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n && !s->work->status; i++) {
        uint32_t k = 0;
        while (k < n && clef__work_step(s->work, 1) &&
               (a->at[k].kind != a->at[i].kind || !join_alt(s, &a->at[k], &a->at[i])))
            k++;
        if (k == n)
            a->at[n++] = a->at[i];
    }
    a->n = n;
}
