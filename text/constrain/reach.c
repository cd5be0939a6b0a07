/* Reads all that a schema reaches, finds what some value satisfies, and brings the alternatives into the form
 * that the machine follows. */
#include <stdlib.h>
#include <string.h>

#include "text/constrain/number.h"
#include "text/constrain/schema.h"

enum { MOST_REACHED = 50000 };

/* ---- everything that is reached ------------------------------------------------------------------ */

static int is_live(const clef__schema *s, uint32_t expr)
{
    return s->exprs[expr].live;
}

static int array_is_live(const clef__schema *s, const clef__alt *a)
{
    const uint32_t n = a->min < a->n_prefix + 1 ? a->min : a->n_prefix + 1;
    for (uint32_t i = 0; i < n; i++)
        if (!is_live(s, i < a->n_prefix ? a->prefix[i] : a->rest))
            return 0;
    return a->min <= a->max;
}

static int object_is_live(const clef__schema *s, const clef__alt *a)
{
    uint32_t n_live = 0, n_required = 0;
    for (uint32_t i = 0; i < a->n_props; i++) {
        const int live = is_live(s, a->props[i].expr);
        if (a->props[i].required && !live)
            return 0;
        n_live += (uint32_t)live;
        n_required += (uint32_t)a->props[i].required;
    }
    int others = 0;
    for (uint32_t i = 0; i < a->n_regions; i++)
        others |= is_live(s, a->regions[i].expr);
    return n_required <= a->max && a->min <= a->max && (a->min <= n_live || others);
}

static int alt_is_live(const clef__schema *s, const clef__alt *a)
{
    switch (a->kind) {
    case CLEF__ALT_NUMBER:
        return a->dfa->n_states > 0;
    case CLEF__ALT_STRING:
        return a->dfa->n_states > 0 && a->min <= a->max;
    case CLEF__ALT_ARRAY:
        return array_is_live(s, a);
    case CLEF__ALT_OBJECT:
        return object_is_live(s, a);
    default:
        return 1;
    }
}

/* Marks what some value satisfies: from below, so that a value that would have to be infinite is none. */
static void find_live(clef__schema *s)
{
    for (int changed = 1; changed && !s->work->status;) {
        changed = 0;
        for (uint32_t e = s->n_exprs; e-- > 0;) {
            clef__expr *x = &s->exprs[e];
            for (uint32_t i = 0; i < x->alts.n && !x->live && clef__work_step(s->work, 1); i++)
                if (alt_is_live(s, &x->alts.at[i]))
                    changed = x->live = 1;
        }
    }
}

/* Names of members, too, are among the texts of the schema, where it has such. */
static void restrict_names(clef__schema *s, clef__alt *a)
{
    clef__region *regions = clef__work_alloc(s->work, (a->n_regions + 1) * sizeof *regions);
    for (uint32_t i = 0; i < a->n_regions && regions; i++) {
        regions[i] = a->regions[i];
        regions[i].names = clef__dfa_join(s->dfas, regions[i].names, s->texts, CLEF__AND);
    }
    a->regions = regions;
    for (uint32_t i = 0; i < a->n_props && !s->work->status; i++)
        if (!clef__dfa_has(s->texts, a->props[i].name.p, a->props[i].name.n))
            clef__work_fail(s->work, CLEF_E_UNSUPPORTED, "a member %.*s cannot be held", 60,
                            a->props[i].name.p);
}

/* A copy of the alternatives, because expressions may share theirs with literals; the lengths of strings
 * become part of their automata, so that it is known whether there is such a string. */
static clef__alts fold_lengths(clef__schema *s, const clef__alts *alts)
{
    clef__alts out = {.at = clef__work_alloc(s->work, alts->n * sizeof *out.at)};
    for (uint32_t i = 0; i < alts->n && out.at && !s->work->status; i++) {
        clef__alt *a = &out.at[out.n++];
        *a = alts->at[i];
        if (a->kind == CLEF__ALT_OBJECT && s->texts)
            restrict_names(s, a);
        if (a->kind != CLEF__ALT_STRING || (a->dfa == s->dfas->any && !s->texts))
            continue;
        a->dfa = clef__dfa_length(s->dfas, a->dfa, a->min, a->max);
        if (s->texts)
            a->dfa = clef__dfa_join(s->dfas, a->dfa, s->texts, CLEF__AND);
        a->min = 0;
        a->max = UINT32_MAX;
    }
    return out;
}

static void read_reached(clef__schema *s, uint32_t expr)
{
    /* Only what the root reaches is read: sets that were made to compare alternatives are not needed. */
    uint32_t *queue = malloc((size_t)(MOST_REACHED + 1) * sizeof *queue), n = 0;
    uint8_t *seen = calloc(MOST_REACHED + 1, 1);
    if (!queue || !seen)
        clef__work_fail(s->work, CLEF_E_NOMEM, "out of host memory");
    else
        seen[queue[n++] = expr] = 1;
    for (uint32_t q = 0; q < n && !s->work->status; q++) {
        const clef__alts shared = *clef__expr_alts(s, queue[q]), alts = fold_lengths(s, &shared);
        s->exprs[queue[q]].alts = alts;
        for (uint32_t i = 0; i < alts.n; i++) {
            const clef__alt *a = &alts.at[i];
            const uint32_t n_items = a->kind == CLEF__ALT_ARRAY ? a->n_prefix + 1 : 0;
            for (uint32_t k = 0; k < n_items + a->n_props + a->n_regions; k++) {
                const uint32_t to = k < n_items                ? k < a->n_prefix ? a->prefix[k] : a->rest
                                    : k < n_items + a->n_props ? a->props[k - n_items].expr
                                                               : a->regions[k - n_items - a->n_props].expr;
                if (!seen[to] && s->exprs[to].live >= 0)
                    seen[queue[n++] = to] = 1;
            }
        }
    }
    for (uint32_t e = 0; e < s->n_exprs && seen; e++)
        if (!seen[e])
            s->exprs[e].alts = (clef__alts){.n = 0};
    free(queue);
    free(seen);
}

/* ---- finishing ------------------------------------------------------------------------------ */

/* A schema of integers gives texts without a fraction, unless texts of others are judged. */
static void finish_number(clef__schema *s, clef__alt *a)
{
    const clef__dfa *integers = clef__number_integer(s->dfas, 1);
    if (!s->opts.any_order && !clef__dfa_join(s->dfas, a->dfa, integers, CLEF__MINUS)->n_states)
        a->dfa = clef__dfa_join(s->dfas, a->dfa, clef__number_integer(s->dfas, 0), CLEF__AND);
}

/* No item may come where none satisfies. */
static void finish_array(const clef__schema *s, clef__alt *a)
{
    for (uint32_t i = 0; i <= a->n_prefix && i < a->max; i++)
        if (!is_live(s, i < a->n_prefix ? a->prefix[i] : a->rest))
            a->max = i;
}

static int order_texts(clef__utf8_text a, clef__utf8_text b)
{
    const int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* Heap sort needs no state beside the object. */
static void sift(const clef__alt *a, uint32_t i, uint32_t n)
{
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        const clef__prop *p = a->props;
        if (child + 1 < n && order_texts(p[a->by_name[child]].name, p[a->by_name[child + 1]].name) < 0)
            child++;
        if (order_texts(p[a->by_name[i]].name, p[a->by_name[child]].name) >= 0)
            return;
        const uint32_t swap = a->by_name[i];
        a->by_name[i] = a->by_name[child];
        a->by_name[child] = swap;
    }
}

static void sort_names(clef__schema *s, clef__alt *a)
{
    a->by_name = clef__work_alloc(s->work, a->n_props * sizeof *a->by_name);
    if (!a->by_name)
        return;
    for (uint32_t i = 0; i < a->n_props; i++)
        a->by_name[i] = i;
    for (uint32_t i = a->n_props / 2; i-- > 0;)
        sift(a, i, a->n_props);
    for (uint32_t n = a->n_props; n-- > 1;) {
        const uint32_t swap = a->by_name[0];
        a->by_name[0] = a->by_name[n];
        a->by_name[n] = swap;
        sift(a, 0, n);
    }
}

/* Declared names leave the regions, and what nothing satisfies leaves both. */
static void finish_object(clef__schema *s, clef__alt *a)
{
    clef__region *regions = clef__work_alloc(s->work, a->n_regions * sizeof *regions);
    clef__prop *props = clef__work_alloc(s->work, a->n_props * sizeof *props);
    clef__utf8_text *names = clef__work_alloc(s->work, a->n_props * sizeof *names);
    const clef__dfa *declared = NULL;
    uint32_t n = 0;
    if (!regions || !props || !names)
        return;
    for (uint32_t i = 0; i < a->n_props; i++)
        names[i] = a->props[i].name;
    for (uint32_t i = 0; i < a->n_regions && !s->work->status; i++) {
        if (!is_live(s, a->regions[i].expr))
            continue;
        declared = declared ? declared : clef__dfa_texts(s->dfas, names, a->n_props);
        regions[n] = a->regions[i];
        regions[n].names = clef__dfa_join(s->dfas, regions[n].names, declared, CLEF__MINUS);
        n += regions[n].names->n_states > 0;
    }
    a->regions = regions;
    a->n_regions = n;
    n = 0;
    a->n_required = 0;
    for (uint32_t i = 0; i < a->n_props; i++) {
        if (!is_live(s, a->props[i].expr))
            continue;
        props[n++] = a->props[i];
        a->n_required += (uint32_t)a->props[i].required;
    }
    a->props = props;
    a->n_props = n;
    sort_names(s, a);
    a->required_from = clef__work_alloc(s->work, (n + 1) * sizeof *a->required_from);
    for (uint32_t i = n; i-- > 0 && a->required_from;)
        a->required_from[i] = a->required_from[i + 1] + (uint32_t)props[i].required;
    if (a->min > n + (a->n_regions > 0))
        clef__schema_fail(s, "", "minProperties", CLEF_E_UNSUPPORTED,
                          "%u members, of which more than one is not declared: not supported", a->min);
}

static void finish_alts(clef__schema *s, clef__alts *alts)
{
    clef__alt *at = clef__work_alloc(s->work, alts->n * sizeof *at);
    uint32_t n = 0;
    for (uint32_t i = 0; i < alts->n && !s->work->status; i++) {
        clef__alt a = alts->at[i];
        if (!alt_is_live(s, &a))
            continue;
        if (a.kind == CLEF__ALT_NUMBER)
            finish_number(s, &a);
        if (a.kind == CLEF__ALT_ARRAY)
            finish_array(s, &a);
        if (a.kind == CLEF__ALT_OBJECT)
            finish_object(s, &a);
        at[n++] = a;
    }
    *alts = (clef__alts){.at = at, .n = n};
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int depth_of(const json_t *value, int limit)
{
    int deepest = 0;
    const char *key;
    json_t *item;
    size_t i;
    if (limit == 0)
        return 1;
    json_object_foreach((json_t *)value, key, item) {
        const int d = depth_of(item, limit - 1);
        deepest = d > deepest ? d : deepest;
    }
    json_array_foreach(value, i, item) {
        const int d = depth_of(item, limit - 1);
        deepest = d > deepest ? d : deepest;
    }
    return json_is_object(value) || json_is_array(value) ? deepest + 1 : 0;
}

static void find_draft(clef__schema *s)
{
    static const struct {
        const char *part;
        clef__draft_version draft;
    } drafts[] = {{"draft-03", CLEF__DRAFT4},   {"draft-04", CLEF__DRAFT4},
                  {"draft-05", CLEF__DRAFT4},   {"draft-06", CLEF__DRAFT6},
                  {"draft-07", CLEF__DRAFT7},   {"2019-09", CLEF__DRAFT2019},
                  {"2020-12", CLEF__DRAFT2020}, {"json-schema.org/schema", CLEF__DRAFT2020}};
    const json_t *name = json_object_get(s->root, "$schema");
    s->draft = CLEF__DRAFT2020;
    if (!name)
        return;
    const char *text = json_string_value(name);
    for (size_t i = 0; text && i < sizeof drafts / sizeof *drafts; i++)
        if (strstr(text, drafts[i].part)) {
            s->draft = drafts[i].draft;
            if (i == 0)
                break;
            return;
        }
    clef__schema_fail(s, "", "$schema", CLEF_E_UNSUPPORTED,
                      "expected draft-04 to draft-07, 2019-09 or 2020-12, got '%.80s'",
                      text ? text : "no string");
}

static void parse(clef__schema *s, const char *text, size_t n)
{
    json_error_t problem;
    if (n > CLEF__MAX_SOURCE) {
        clef__work_fail(s->work, CLEF_E_LIMIT, "%zu bytes, expected 1 MiB at most", n);
        return;
    }
    s->root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    if (!s->root)
        clef__work_fail(s->work, CLEF_E_FORMAT, "line %d, column %d: %s", problem.line, problem.column,
                        problem.text);
    else if (depth_of(s->root, CLEF__MAX_NESTING + 1) > CLEF__MAX_NESTING)
        clef__work_fail(s->work, CLEF_E_LIMIT, "nested more than %d deep", CLEF__MAX_NESTING);
    else if (!json_is_object(s->root) && !json_is_boolean(s->root))
        clef__work_fail(s->work, CLEF_E_FORMAT, "expected an object, true or false");
}

void clef__schema_read(clef__schema *s, const char *text, size_t n, uint32_t *root_expr)
{
    *root_expr = CLEF__EXPR_ANY;
    s->path = s->keyword = "";
    parse(s, text, n);
    if (s->work->status) {
        s->keyword = "JSON";
        return;
    }
    find_draft(s);
    clef__dfa_any(s->dfas);
    clef__site_add(s, s->root, NULL, "", NULL);
    clef__expr_begin(s); /* number 0: CLEF__EXPR_ANY */
    *root_expr = clef__expr_of(s, clef__literal_of(s, s->root, 0, 0));
    if (s->work->status)
        return;
    read_reached(s, *root_expr);
    find_live(s);
    if (!s->work->status && !s->exprs[*root_expr].live) {
        s->path = "";
        s->keyword = "type";
        clef__work_fail(s->work, CLEF_E_ARG, "no value satisfies it");
    }
    for (uint32_t e = 0; e < s->n_exprs && !s->work->status; e++)
        finish_alts(s, &s->exprs[e].alts);
}

void clef__schema_finish(clef__schema *s)
{
    json_decref(s->root);
    free(s->sites);
    free(s->site_slots);
    free(s->literals);
    free(s->literal_slots);
    free(s->exprs);
    free(s->expr_slots);
    s->root = NULL;
}
