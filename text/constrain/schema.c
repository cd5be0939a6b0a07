/* The tables of a schema: places, literals, expressions; references; and what is alive. */
#include "text/constrain/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPRS = 50000, MOST_READ_DEPTH = 400 };

void clef__schema_fail(clef__schema *s, const char *path, const char *keyword, clef_status status,
                       const char *format, ...)
{
    char text[192];
    va_list args;
    if (s->work->status)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->path = path;
    s->keyword = keyword;
    clef__work_fail(s->work, status, "%s", text);
}

/* ---- hash tables ---------------------------------------------------------------------------- */

static uint32_t mix(uint64_t x)
{
    x *= 0x9E3779B97F4A7C15u;
    return (uint32_t)(x >> 32);
}

static uint32_t site_slot(const clef__schema *s, const json_t *schema)
{
    uint32_t i = mix((uint64_t)(uintptr_t)schema) & (s->n_site_slots - 1);
    while (s->site_slots[i] && s->sites[s->site_slots[i] - 1].schema != schema)
        i = (i + 1) & (s->n_site_slots - 1);
    return i;
}

static uint32_t literal_slot(const clef__schema *s, const json_t *value, int is_constant, int negated)
{
    uint32_t i = mix(((uint64_t)(uintptr_t)value << 2) + (uint32_t)(2 * is_constant + negated)) &
                 (s->n_literal_slots - 1);
    for (; s->literal_slots[i]; i = (i + 1) & (s->n_literal_slots - 1)) {
        const clef__literal *l = &s->literals[s->literal_slots[i] - 1];
        if (l->value == value && l->is_constant == is_constant && l->negated == negated)
            break;
    }
    return i;
}

static uint32_t expr_slot(const clef__schema *s, const uint32_t *literals, uint32_t n)
{
    uint64_t hash = n;
    for (uint32_t k = 0; k < n; k++)
        hash = hash * 0x100000001B3u + literals[k] + 1;
    uint32_t i = mix(hash) & (s->n_expr_slots - 1);
    for (; s->expr_slots[i]; i = (i + 1) & (s->n_expr_slots - 1)) {
        const clef__expr *e = &s->exprs[s->expr_slots[i] - 1];
        if (e->n == n && (!n || !memcmp(e->literals, literals, n * sizeof *literals)))
            break;
    }
    return i;
}

/* Twice the slots once the table is half full; all are then found anew by `again`. */
static int more_slots(clef__schema *s, uint32_t **slots, uint32_t *n_slots, uint32_t n)
{
    if (n * 2 < *n_slots)
        return 0;
    free(*slots);
    *n_slots = *n_slots ? *n_slots * 2 : 256;
    *slots = calloc(*n_slots, sizeof **slots);
    if (!*slots) {
        *n_slots = 0;
        clef__work_fail(s->work, CLEF_E_NOMEM, "out of host memory");
    }
    return 1;
}

static int room_for_literal(clef__schema *s)
{
    if (!clef__work_grow(s->work, &s->literals, s->n_literals, &s->room_literals, sizeof *s->literals))
        return 0;
    if (more_slots(s, &s->literal_slots, &s->n_literal_slots, s->n_literals))
        for (uint32_t i = 0; i < s->n_literals && !s->work->status; i++) {
            const clef__literal *l = &s->literals[i];
            s->literal_slots[literal_slot(s, l->value, l->is_constant, l->negated)] = i + 1;
        }
    return !s->work->status;
}

static int room_for_expr(clef__schema *s)
{
    if (s->n_exprs >= MOST_EXPRS)
        clef__work_fail(s->work, CLEF_E_LIMIT, "it combines into more than %d schemas", MOST_EXPRS);
    if (!clef__work_grow(s->work, &s->exprs, s->n_exprs, &s->room_exprs, sizeof *s->exprs))
        return 0;
    if (more_slots(s, &s->expr_slots, &s->n_expr_slots, s->n_exprs))
        for (uint32_t i = 0; i < s->n_exprs && !s->work->status; i++)
            s->expr_slots[expr_slot(s, s->exprs[i].literals, s->exprs[i].n)] = i + 1;
    return !s->work->status;
}

uint32_t clef__literal_of(clef__schema *s, const json_t *value, int is_constant, int negated)
{
    if (!room_for_literal(s))
        return 0;
    const uint32_t slot = literal_slot(s, value, is_constant, negated);
    if (!s->literal_slots[slot]) {
        s->literals[s->n_literals++] =
            (clef__literal){.value = value, .is_constant = is_constant, .negated = negated};
        s->literal_slots[slot] = s->n_literals;
    }
    return s->literal_slots[slot] - 1;
}

static uint32_t intern_expr(clef__schema *s, const uint32_t *literals, uint32_t n)
{
    if (!room_for_expr(s))
        return 0;
    const uint32_t slot = expr_slot(s, literals, n);
    if (!s->expr_slots[slot]) {
        uint32_t *own = clef__work_alloc(s->work, n * sizeof *own);
        if (!own)
            return 0;
        if (n)
            memcpy(own, literals, n * sizeof *own);
        s->exprs[s->n_exprs++] = (clef__expr){.literals = own, .n = n};
        s->expr_slots[slot] = s->n_exprs;
    }
    return s->expr_slots[slot] - 1;
}

void clef__expr_begin(clef__schema *s)
{
    intern_expr(s, NULL, 0);
}

uint32_t clef__expr_of(clef__schema *s, uint32_t literal)
{
    const clef__literal *l = s->literals ? &s->literals[literal] : NULL;
    if (!l || s->work->status)
        return 0;
    const int is_object = json_is_object(l->value);
    const int any = json_is_true(l->value) || (is_object && !json_object_size(l->value));
    if (!l->is_constant && !l->negated && any)
        return CLEF__EXPR_ANY;
    return intern_expr(s, &literal, 1);
}

uint32_t clef__expr_and(clef__schema *s, uint32_t a, uint32_t b)
{
    if (a == b || b == CLEF__EXPR_ANY || s->work->status)
        return a;
    if (a == CLEF__EXPR_ANY)
        return b;
    const clef__expr x = s->exprs[a], y = s->exprs[b];
    uint32_t *all = malloc((x.n + y.n) * sizeof *all), n = 0;
    if (!all) {
        clef__work_fail(s->work, CLEF_E_NOMEM, "out of host memory");
        return a;
    }
    for (uint32_t i = 0, k = 0; i < x.n || k < y.n;) {
        const uint32_t next =
            k == y.n || (i < x.n && x.literals[i] <= y.literals[k]) ? x.literals[i] : y.literals[k];
        all[n++] = next;
        i += i < x.n && x.literals[i] == next;
        k += k < y.n && y.literals[k] == next;
    }
    const uint32_t expr = intern_expr(s, all, n);
    free(all);
    return expr;
}

uint32_t clef__expr_never(clef__schema *s)
{
    return clef__expr_of(s, clef__literal_of(s, json_false(), 0, 0));
}

/* ---- reading at need -------------------------------------------------------------------------- */

clef__alts clef__literal_alts(clef__schema *s, uint32_t literal)
{
    clef__literal l = s->literals[literal];
    if (l.state == 2)
        return l.alts;
    if (l.state == 1 || s->depth > MOST_READ_DEPTH) {
        if (s->probing && l.state == 1) {
            s->unknown = 1;
            return clef__alts_any(s);
        }
        const clef__site *site = clef__site_of(s, l.value);
        clef__schema_fail(s, site ? site->path : "", s->depth > MOST_READ_DEPTH ? "allOf" : "$ref",
                          CLEF_E_UNSUPPORTED,
                          s->depth > MOST_READ_DEPTH ? "schemas apply each other more than %d deep"
                                                     : "it refers to itself without a value between",
                          MOST_READ_DEPTH);
        return (clef__alts){.n = 0};
    }
    const int32_t unknown = s->unknown;
    s->unknown = 0;
    s->depth++;
    s->literals[literal].state = 1;
    if (l.negated) {
        const clef__site *site = clef__site_of(s, l.value);
        const clef__alts of = clef__literal_alts(s, clef__literal_of(s, l.value, l.is_constant, 0));
        l.alts = clef__alts_not(s, &of, site ? site->path : "", "not");
    } else {
        l.alts = l.is_constant ? clef__read_constant(s, l.value) : clef__read_schema(s, l.value);
    }
    s->depth--;
    s->literals[literal].alts = l.alts;
    s->literals[literal].state = s->unknown ? 0 : 2; /* what rests on a guess is read again */
    s->unknown |= unknown;
    return l.alts;
}

const clef__alts *clef__expr_alts(clef__schema *s, uint32_t expr)
{
    static const clef__alts nothing = {.n = 0};
    const int32_t unknown = s->unknown;
    if (s->work->status)
        return &nothing;
    if (s->exprs[expr].state == 2)
        return &s->exprs[expr].alts;
    s->unknown = 0;
    clef__alts alts = clef__alts_any(s);
    for (uint32_t i = 0; i < s->exprs[expr].n && !s->work->status; i++) {
        const clef__alts other = clef__literal_alts(s, s->exprs[expr].literals[i]);
        alts = i ? clef__alts_and(s, &alts, &other) : other;
    }
    s->exprs[expr].alts = alts;
    s->exprs[expr].state = s->unknown ? 0 : 2;
    s->unknown |= unknown;
    return &s->exprs[expr].alts;
}

/* ---- places --------------------------------------------------------------------------------- */

const clef__site *clef__site_of(const clef__schema *s, const json_t *schema)
{
    const uint32_t slot = s->n_site_slots ? site_slot(s, schema) : 0;
    return s->n_site_slots && s->site_slots[slot] ? &s->sites[s->site_slots[slot] - 1] : NULL;
}

/* A step of a JSON pointer (RFC 6901). */
static size_t write_step(char *out, const char *step)
{
    size_t n = 0;
    out[n++] = '/';
    for (; *step; step++) {
        out[n++] = *step == '~' || *step == '/' ? '~' : *step;
        if (*step == '~' || *step == '/')
            out[n++] = *step == '~' ? '0' : '1';
    }
    return n;
}

static const json_t *resource_of(const clef__schema *s, const json_t *schema, const json_t *outer)
{
    const char *id = json_string_value(json_object_get(schema, s->draft == CLEF__DRAFT4 ? "id" : "$id"));
    return id && id[0] != '#' ? schema : outer;
}

void clef__site_put(clef__schema *s, const json_t *schema, const json_t *resource, const char *path)
{
    if (!json_is_object(schema) || clef__site_of(s, schema) || s->work->status)
        return;
    if (!clef__work_grow(s->work, &s->sites, s->n_sites, &s->room_sites, sizeof *s->sites))
        return;
    if (more_slots(s, &s->site_slots, &s->n_site_slots, s->n_sites))
        for (uint32_t i = 0; i < s->n_sites && !s->work->status; i++)
            s->site_slots[site_slot(s, s->sites[i].schema)] = i + 1;
    if (s->work->status)
        return;
    s->sites[s->n_sites++] = (clef__site){schema, resource_of(s, schema, resource), path};
    s->site_slots[site_slot(s, schema)] = s->n_sites;
}

void clef__site_add(clef__schema *s, const json_t *schema, const json_t *outer, const char *step,
                    const char *name)
{
    const clef__site *from = outer ? clef__site_of(s, outer) : NULL;
    const char *path = from ? from->path : "";
    if (!json_is_object(schema) || clef__site_of(s, schema) || s->work->status)
        return;
    char *own = clef__work_alloc(s->work, strlen(path) + 2 * (strlen(step) + strlen(name ? name : "")) + 3);
    if (!own)
        return;
    size_t n = strlen(path);
    memcpy(own, path, n);
    n += step[0] ? write_step(own + n, step) : 0;
    n += name ? write_step(own + n, name) : 0;
    own[n] = '\0';
    clef__site_put(s, schema, from ? from->resource : schema, own);
}
