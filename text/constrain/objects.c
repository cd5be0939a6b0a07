/* The keywords of arrays and objects. */
#include <string.h>

#include "text/constrain/nfa.h"
#include "text/constrain/schema.h"

enum { MOST_REGIONS = 256 };

static const char *path_of(const clef__schema *s, const json_t *schema)
{
    const clef__site *site = clef__site_of(s, schema);
    return site ? site->path : "";
}

static void fail(clef__schema *s, const json_t *schema, const char *keyword, clef_status status,
                 const char *why)
{
    clef__schema_fail(s, path_of(s, schema), keyword, status, "%s", why);
}

/* The expression of an inner schema. */
static uint32_t expr_of(clef__schema *s, const json_t *schema, const json_t *inner, const char *keyword,
                        const char *name)
{
    if (!json_is_object(inner) && !json_is_boolean(inner)) {
        clef__schema_fail(s, path_of(s, schema), keyword, CLEF_E_FORMAT, "expected a schema%s%.60s",
                          name ? " at " : "", name ? name : "");
        return CLEF__EXPR_ANY;
    }
    clef__site_add(s, inner, schema, keyword, name);
    return clef__expr_of(s, clef__literal_of(s, inner, 0, 0));
}

/* ---- arrays --------------------------------------------------------------------------------- */

static void read_prefix(clef__schema *s, const json_t *schema, const char *keyword, clef__alt *a)
{
    const json_t *list = json_object_get(schema, keyword);
    a->prefix = clef__work_alloc(s->work, json_array_size(list) * sizeof *a->prefix);
    for (size_t i = 0; i < json_array_size(list) && a->prefix && !s->work->status; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        a->prefix[a->n_prefix++] = expr_of(s, schema, json_array_get(list, i), keyword, number);
    }
}

/* A list as `items` is an earlier draft's, also where no $schema says so: no later draft has one. */
static void read_items(clef__schema *s, const json_t *schema, clef__alt *a)
{
    const json_t *items = json_object_get(schema, "items"),
                 *more = json_object_get(schema, "additionalItems");
    const json_t *prefix = json_object_get(schema, "prefixItems");
    if (s->draft >= CLEF__DRAFT2020 && (prefix || !json_is_array(items))) {
        if (prefix && !json_is_array(prefix))
            fail(s, schema, "prefixItems", CLEF_E_FORMAT, "expected a list of schemas");
        if (prefix)
            read_prefix(s, schema, "prefixItems", a);
        if (json_is_array(items))
            fail(s, schema, "items", CLEF_E_UNSUPPORTED, "expected a schema beside prefixItems, got a list");
        else if (items)
            a->rest = expr_of(s, schema, items, "items", NULL);
        return;
    }
    if (json_is_array(items)) {
        read_prefix(s, schema, "items", a);
        if (more)
            a->rest = expr_of(s, schema, more, "additionalItems", NULL);
    } else if (items) {
        a->rest = expr_of(s, schema, items, "items", NULL);
    }
}

/* contains is followed only where it says nothing about the items. */
static void read_contains(clef__schema *s, const json_t *schema, clef__alt *a)
{
    const json_t *contains = json_object_get(schema, "contains");
    const int counts = s->draft >= CLEF__DRAFT2019;
    if (!contains || s->draft < CLEF__DRAFT6)
        return;
    const uint32_t min = counts ? clef__read_count(s, schema, "minContains", 1) : 1;
    const uint32_t max = counts ? clef__read_count(s, schema, "maxContains", UINT32_MAX) : UINT32_MAX;
    if (expr_of(s, schema, contains, "contains", NULL) == CLEF__EXPR_ANY) {
        a->min = min > a->min ? min : a->min;
        a->max = max < a->max ? max : a->max;
    } else if (min > 0 || max < UINT32_MAX) {
        fail(s, schema, "contains", CLEF_E_UNSUPPORTED, "not supported");
    }
}

clef__alt clef__read_array(clef__schema *s, const json_t *schema)
{
    clef__alt a = clef__alt_any(s, CLEF__ALT_ARRAY);
    a.min = clef__read_count(s, schema, "minItems", 0);
    a.max = clef__read_count(s, schema, "maxItems", UINT32_MAX);
    read_items(s, schema, &a);
    read_contains(s, schema, &a);
    if (json_is_true(json_object_get(schema, "uniqueItems")) && a.max > 1)
        fail(s, schema, "uniqueItems", CLEF_E_UNSUPPORTED, "not supported");
    return a;
}

/* ---- objects -------------------------------------------------------------------------------- */

typedef struct pattern {
    const clef__dfa *names;
    uint32_t expr;
} pattern;

static int32_t is_required(const json_t *required, const char *name)
{
    const json_t *item;
    size_t i;
    json_array_foreach(required, i, item)
        if (!strcmp(json_string_value(item), name))
            return 1;
    return 0;
}

/* The names of all patterns, cut into sets in which the same patterns match. */
static void read_regions(clef__schema *s, const json_t *schema, const pattern *patterns, uint32_t n,
                         uint32_t others, clef__alt *a)
{
    clef__region *regions = clef__work_alloc(s->work, (MOST_REGIONS + 1) * 2 * sizeof *regions);
    uint8_t *matched = clef__work_alloc(s->work, (MOST_REGIONS + 1) * 2);
    uint32_t n_regions = 1;
    if (!regions || !matched)
        return;
    regions[0] = (clef__region){clef__dfa_any(s->dfas), CLEF__EXPR_ANY};
    for (uint32_t p = 0; p < n && !s->work->status; p++)
        for (uint32_t i = 0, end = n_regions; i < end; i++) {
            const clef__dfa *in = clef__dfa_join(s->dfas, regions[i].names, patterns[p].names, CLEF__AND);
            const clef__dfa *out = clef__dfa_join(s->dfas, regions[i].names, patterns[p].names, CLEF__MINUS);
            if (!in->n_states)
                continue;
            if (out->n_states) {
                if (n_regions >= MOST_REGIONS) {
                    fail(s, schema, "patternProperties", CLEF_E_LIMIT,
                         "the patterns overlap in too many ways");
                    return;
                }
                matched[n_regions] = matched[i];
                regions[n_regions++] = (clef__region){out, regions[i].expr};
            }
            regions[i] = (clef__region){in, clef__expr_and(s, regions[i].expr, patterns[p].expr)};
            matched[i] = 1;
        }
    for (uint32_t i = 0; i < n_regions; i++)
        if (!matched[i])
            regions[i].expr = others;
    a->regions = regions;
    a->n_regions = n_regions;
}

static void add_prop(clef__schema *s, const char *name, uint32_t expr, int32_t required, clef__alt *a)
{
    const size_t n = strlen(name);
    const char *own = clef__work_copy(s->work, name, n);
    if (own)
        a->props[a->n_props++] = (clef__prop){{own, n}, expr, required};
}

static void check_required(clef__schema *s, const json_t *schema, const json_t *required)
{
    if (required && json_is_boolean(required)) /* draft-03 put it into the property */
        fail(s, schema, "required", CLEF_E_FORMAT, "expected a list of names, got true or false");
    else if (required && !json_is_array(required))
        fail(s, schema, "required", CLEF_E_FORMAT, "expected a list of names");
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_is_string(json_array_get(required, i)))
            fail(s, schema, "required", CLEF_E_FORMAT, "expected a list of names");
}

static void read_properties(clef__schema *s, const json_t *schema, const pattern *patterns,
                            uint32_t n_patterns, clef__alt *a)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    const char *name;
    json_t *inner;
    check_required(s, schema, required);
    if (properties && !json_is_object(properties))
        fail(s, schema, "properties", CLEF_E_FORMAT, "expected an object");
    const size_t most = json_object_size(properties) + json_array_size(required);
    a->props = clef__work_alloc(s->work, most * sizeof *a->props);
    if (s->work->status || !clef__work_step(s->work, (int64_t)(most * json_array_size(required))))
        return;
    json_object_foreach((json_t *)properties, name, inner) {
        uint32_t expr = expr_of(s, schema, inner, "properties", name);
        for (uint32_t p = 0; p < n_patterns && !s->work->status; p++)
            if (clef__dfa_has(patterns[p].names, name, strlen(name)))
                expr = clef__expr_and(s, expr, patterns[p].expr);
        add_prop(s, name, expr, is_required(required, name), a);
    }
    for (size_t i = 0; i < json_array_size(required) && !s->work->status; i++) {
        name = json_string_value(json_array_get(required, i));
        if (json_object_get(properties, name))
            continue;
        const clef__utf8_text text = {name, strlen(name)};
        int known = 0;
        for (uint32_t k = 0; k < a->n_props; k++)
            known |= a->props[k].name.n == text.n && !memcmp(a->props[k].name.p, name, text.n);
        if (!known)
            add_prop(s, name, clef__alt_member(a, text), 1, a);
    }
}

/* Names that propertyNames does not allow have no value. */
static void read_names(clef__schema *s, const json_t *schema, clef__alt *a)
{
    const json_t *inner = json_object_get(schema, "propertyNames");
    if (!inner || s->draft < CLEF__DRAFT6)
        return;
    const uint32_t expr = expr_of(s, schema, inner, "propertyNames", NULL), never = clef__expr_never(s);
    const clef__alts alts = s->work->status ? (clef__alts){.n = 0} : *clef__expr_alts(s, expr);
    const clef__dfa *names = clef__dfa_none(s->dfas);
    for (uint32_t i = 0; i < alts.n; i++)
        if (alts.at[i].kind == CLEF__ALT_STRING) {
            const clef__alt *x = &alts.at[i];
            names =
                clef__dfa_join(s->dfas, names, clef__dfa_length(s->dfas, x->dfa, x->min, x->max), CLEF__OR);
        }
    for (uint32_t i = 0; i < a->n_props && !s->work->status; i++)
        if (!clef__dfa_has(names, a->props[i].name.p, a->props[i].name.n))
            a->props[i].expr = never;
    clef__region *regions = clef__work_alloc(s->work, (a->n_regions + 1) * sizeof *regions);
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_regions && regions && !s->work->status; i++) {
        regions[n] = (clef__region){clef__dfa_join(s->dfas, a->regions[i].names, names, CLEF__AND),
                                    a->regions[i].expr};
        n += regions[n].names->n_states > 0;
    }
    if (!regions)
        return;
    regions[n] = (clef__region){clef__dfa_not(s->dfas, names), never};
    n += regions[n].names->n_states > 0;
    a->regions = regions;
    a->n_regions = n;
}

clef__alt clef__read_object(clef__schema *s, const json_t *schema)
{
    clef__alt a = clef__alt_any(s, CLEF__ALT_OBJECT);
    const json_t *list = json_object_get(schema, "patternProperties");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    pattern *patterns = clef__work_alloc(s->work, json_object_size(list) * sizeof *patterns);
    uint32_t n = 0;
    const char *text;
    json_t *inner;
    a.min = clef__read_count(s, schema, "minProperties", 0);
    a.max = clef__read_count(s, schema, "maxProperties", UINT32_MAX);
    if (list && !json_is_object(list))
        fail(s, schema, "patternProperties", CLEF_E_FORMAT, "expected an object");
    json_object_foreach((json_t *)list, text, inner) {
        if (s->work->status)
            break;
        s->path = path_of(s, schema);
        s->keyword = "patternProperties";
        patterns[n].expr = expr_of(s, schema, inner, "patternProperties", text);
        patterns[n++].names = clef__pattern_dfa(s->dfas, text, strlen(text), 0);
    }
    const uint32_t others =
        additional ? expr_of(s, schema, additional, "additionalProperties", NULL) : CLEF__EXPR_ANY;
    if (s->work->status)
        return a;
    if (n || others != CLEF__EXPR_ANY)
        read_regions(s, schema, patterns, n, others, &a);
    if (!s->work->status)
        read_properties(s, schema, patterns, n, &a);
    if (!s->work->status)
        read_names(s, schema, &a);
    return a;
}

/* ---- dependencies --------------------------------------------------------------------------- */

static clef__alts with_member(clef__schema *s, const char *name, uint32_t expr, int32_t required)
{
    clef__alts alts = clef__alts_any(s);
    if (s->work->status)
        return alts;
    clef__alt *a = &alts.at[CLEF__ALT_OBJECT];
    a->props = clef__work_alloc(s->work, sizeof *a->props);
    if (a->props)
        add_prop(s, name, expr, required, a);
    return alts;
}

/* Either there is no member of that name, or what it asks for holds. */
static void depend(clef__schema *s, const json_t *schema, const char *keyword, const char *name,
                   const json_t *needs, clef__alts *alts)
{
    clef__alts without = with_member(s, name, clef__expr_never(s), 0), with = {.n = 0};
    if (s->work->status)
        return;
    without = clef__alts_and(s, alts, &without);
    if (json_is_array(needs)) {
        with = clef__alts_any(s);
        for (size_t i = 0; i < json_array_size(needs) && !s->work->status; i++) {
            const char *other = json_string_value(json_array_get(needs, i));
            if (!other) {
                fail(s, schema, keyword, CLEF_E_FORMAT, "expected names");
                return;
            }
            const clef__alts one = with_member(s, other, CLEF__EXPR_ANY, 1);
            with = clef__alts_and(s, &with, &one);
        }
    } else {
        const uint32_t expr = expr_of(s, schema, needs, keyword, name);
        if (!s->work->status)
            with = *clef__expr_alts(s, expr);
    }
    /* other kinds of values are in `without`, or in `with`: with_member() allows them all */
    const clef__alts has = with_member(s, name, CLEF__EXPR_ANY, 1);
    with = clef__alts_and(s, alts, &with);
    with = clef__alts_and(s, &with, &has);
    clef__alts_add_all(s, &without, &with);
    clef__alts_merge(s, &without);
    *alts = without;
}

void clef__read_dependencies(clef__schema *s, const json_t *schema, clef__alts *alts)
{
    static const struct {
        const char *keyword;
        clef__draft_version first, last;
    } kinds[] = {
        {"dependencies", CLEF__DRAFT4, CLEF__DRAFT2020}, /* later drafts split it, and advise to keep it */
        {"dependentRequired", CLEF__DRAFT2019, CLEF__DRAFT2020},
        {"dependentSchemas", CLEF__DRAFT2019, CLEF__DRAFT2020}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *keyword = kinds[i].keyword, *name;
        const json_t *list = json_object_get(schema, keyword);
        json_t *needs;
        if (!list)
            continue;
        if (s->draft < kinds[i].first || s->draft > kinds[i].last) {
            fail(s, schema, keyword, CLEF_E_UNSUPPORTED, "the draft of this schema does not have it");
            return;
        }
        if (!json_is_object(list))
            fail(s, schema, keyword, CLEF_E_FORMAT, "expected an object");
        s->path = path_of(s, schema);
        s->keyword = keyword;
        json_object_foreach((json_t *)list, name, needs) {
            if (s->work->status)
                return;
            /* draft-04 also has a single name */
            json_t *one = json_is_string(needs) ? json_pack("[O]", needs) : NULL;
            depend(s, schema, keyword, name, one ? one : needs, alts);
            json_decref(one);
        }
    }
}
