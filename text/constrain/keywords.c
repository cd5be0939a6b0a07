/* The keywords of JSON Schema, but for those of arrays and objects. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/constrain/nfa.h"
#include "text/constrain/number.h"
#include "text/constrain/schema.h"

enum { MOST_MULTIPLE = 100000 };

/* ---- reading values ------------------------------------------------------------------------- */

static const char *path_of(const clef__schema *s, const json_t *schema)
{
    const clef__site *site = clef__site_of(s, schema);
    return site ? site->path : "";
}

/* Says for what a limit that is reached below is an error. */
static void at_keyword(clef__schema *s, const json_t *schema, const char *keyword)
{
    if (s->work->status)
        return;
    s->path = path_of(s, schema);
    s->keyword = keyword;
}

static void refuse(clef__schema *s, const json_t *schema, const char *keyword, const char *why)
{
    clef__schema_fail(s, path_of(s, schema), keyword, CLEF_E_UNSUPPORTED, "%s", why);
}

static void expected(clef__schema *s, const json_t *schema, const char *keyword, const char *what)
{
    clef__schema_fail(s, path_of(s, schema), keyword, CLEF_E_FORMAT, "expected %s", what);
}

uint32_t clef__read_count(clef__schema *s, const json_t *schema, const char *keyword, uint32_t missing)
{
    const json_t *value = json_object_get(schema, keyword);
    if (!value)
        return missing;
    const double x = json_is_number(value) ? json_number_value(value) : -1;
    if (x < 0 || x != floor(x)) {
        expected(s, schema, keyword, "an integer of 0 or more");
        return missing;
    }
    if (x > (double)CLEF__MAX_REPEATS) {
        if (!strncmp(keyword, "max", 3))
            return UINT32_MAX - 1 < x ? UINT32_MAX : (uint32_t)x;
        clef__schema_fail(s, path_of(s, schema), keyword, CLEF_E_LIMIT, "%.0f, expected %d at most", x,
                          CLEF__MAX_REPEATS);
    }
    return (uint32_t)x;
}

/* ---- constants ------------------------------------------------------------------------------ */

static int decimal_of(const json_t *value, char out[CLEF__DECIMAL_BYTES])
{
    if (json_is_integer(value)) {
        snprintf(out, CLEF__DECIMAL_BYTES, "%lld", (long long)json_integer_value(value));
        return 1;
    }
    return clef__decimal_of_double(json_real_value(value), out);
}

static clef__alt constant_object(clef__schema *s, const json_t *value)
{
    clef__alt a = clef__alt_any(s, CLEF__ALT_OBJECT);
    const char *name;
    json_t *member;
    a.props = clef__work_alloc(s->work, json_object_size(value) * sizeof *a.props);
    if (!a.props || !a.regions)
        return a;
    a.regions[0].expr = clef__expr_never(s);
    json_object_foreach((json_t *)value, name, member) {
        const uint32_t expr = clef__expr_of(s, clef__literal_of(s, member, 1, 0));
        const char *own = clef__work_copy(s->work, name, strlen(name));
        if (own)
            a.props[a.n_props++] = (clef__prop){{own, strlen(own)}, expr, 1};
    }
    return a;
}

static clef__alt constant_array(clef__schema *s, const json_t *value)
{
    clef__alt a = clef__alt_any(s, CLEF__ALT_ARRAY);
    json_t *item;
    size_t i;
    a.min = a.max = (uint32_t)json_array_size(value);
    a.prefix = clef__work_alloc(s->work, json_array_size(value) * sizeof *a.prefix);
    if (!a.prefix)
        return a;
    json_array_foreach(value, i, item)
        a.prefix[a.n_prefix++] = clef__expr_of(s, clef__literal_of(s, item, 1, 0));
    a.rest = clef__expr_never(s);
    return a;
}

clef__alts clef__read_constant(clef__schema *s, const json_t *value)
{
    clef__alts out = {.n = 0};
    clef__alt a = {.max = UINT32_MAX};
    char decimal[CLEF__DECIMAL_BYTES];
    if (json_is_string(value)) {
        const clef__utf8_text text = {json_string_value(value), json_string_length(value)};
        a = clef__alt_any(s, CLEF__ALT_STRING);
        a.dfa = clef__dfa_texts(s->dfas, &text, 1);
    } else if (json_is_number(value)) {
        a = clef__alt_any(s, CLEF__ALT_NUMBER);
        if (decimal_of(value, decimal))
            a.dfa = clef__number_compare(s->dfas, CLEF__EQUAL, decimal);
        else
            clef__work_fail(s->work, CLEF_E_UNSUPPORTED, "a number with more than 400 digits");
    } else if (json_is_object(value)) {
        a = constant_object(s, value);
    } else if (json_is_array(value)) {
        a = constant_array(s, value);
    } else {
        a.kind = json_is_null(value)   ? CLEF__ALT_NULL
                 : json_is_true(value) ? CLEF__ALT_TRUE
                                       : CLEF__ALT_FALSE;
    }
    clef__alts_add(s, &out, &a);
    return out;
}

/* All strings of a list at once; other values one by one. */
static clef__alts read_enum(clef__schema *s, const json_t *list)
{
    clef__alts out = {.n = 0};
    const size_t n = json_array_size(list);
    clef__utf8_text *texts = clef__work_alloc(s->work, n * sizeof *texts);
    uint32_t n_texts = 0;
    for (size_t i = 0; i < n && texts && !s->work->status; i++) {
        const json_t *value = json_array_get(list, i);
        if (json_is_string(value)) {
            texts[n_texts++] = (clef__utf8_text){json_string_value(value), json_string_length(value)};
        } else {
            const clef__alts one = clef__read_constant(s, value);
            clef__alts_add_all(s, &out, &one);
        }
    }
    if (n_texts) {
        clef__alt a = clef__alt_any(s, CLEF__ALT_STRING);
        a.dfa = clef__dfa_texts(s->dfas, texts, n_texts);
        clef__alts_add(s, &out, &a);
    }
    clef__alts_merge(s, &out);
    return out;
}

/* ---- types, numbers, strings ------------------------------------------------------------------ */

enum { INTEGER_BIT = 1 << 8 };

static unsigned type_bits(clef__schema *s, const json_t *schema, const json_t *type)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {{"null", 1 << CLEF__ALT_NULL},     {"boolean", 1 << CLEF__ALT_TRUE | 1 << CLEF__ALT_FALSE},
                 {"number", 1 << CLEF__ALT_NUMBER}, {"integer", INTEGER_BIT},
                 {"string", 1 << CLEF__ALT_STRING}, {"array", 1 << CLEF__ALT_ARRAY},
                 {"object", 1 << CLEF__ALT_OBJECT}};
    const char *name = json_string_value(type);
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i].name))
            return types[i].bits;
    expected(s, schema, "type", "null, boolean, number, integer, string, array, object, or a list of these");
    return 0;
}

static unsigned read_type(clef__schema *s, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    unsigned bits = 0;
    if (!type)
        return (1 << CLEF__N_ALT_KINDS) - 1;
    if (!json_is_array(type))
        return type_bits(s, schema, type);
    for (size_t i = 0; i < json_array_size(type); i++)
        bits |= type_bits(s, schema, json_array_get(type, i));
    return bits;
}

static const clef__dfa *limit_number(clef__schema *s, const json_t *schema, const char *keyword,
                                     clef__compare how, const clef__dfa *dfa)
{
    const json_t *limit = json_object_get(schema, keyword);
    char decimal[CLEF__DECIMAL_BYTES];
    at_keyword(s, schema, keyword);
    if (!limit)
        return dfa;
    if (!json_is_number(limit)) {
        expected(s, schema, keyword, "a number");
        return dfa;
    }
    if (!decimal_of(limit, decimal)) {
        refuse(s, schema, keyword, "more than 400 digits are not supported");
        return dfa;
    }
    return clef__dfa_join(s->dfas, dfa, clef__number_compare(s->dfas, how, decimal), CLEF__AND);
}

static const clef__dfa *read_multiple(clef__schema *s, const json_t *schema, const clef__dfa *dfa)
{
    const json_t *value = json_object_get(schema, "multipleOf");
    at_keyword(s, schema, "multipleOf");
    if (!value)
        return dfa;
    const double m = json_is_number(value) ? json_number_value(value) : 0;
    if (!(m > 0)) {
        expected(s, schema, "multipleOf", "a number of more than 0");
        return dfa;
    }
    if (m != floor(m) || m > (double)MOST_MULTIPLE) {
        refuse(s, schema, "multipleOf", "only integers up to 100000 are supported");
        return dfa;
    }
    return clef__dfa_join(s->dfas, dfa, clef__number_multiple(s->dfas, (uint32_t)m, s->draft != CLEF__DRAFT4),
                          CLEF__AND);
}

static clef__alt read_number(clef__schema *s, const json_t *schema, int integer)
{
    clef__alt a = clef__alt_any(s, CLEF__ALT_NUMBER);
    /* in draft-04, exclusiveMinimum is a switch for minimum */
    const int less = s->draft == CLEF__DRAFT4 && json_is_true(json_object_get(schema, "exclusiveMaximum"));
    const int more = s->draft == CLEF__DRAFT4 && json_is_true(json_object_get(schema, "exclusiveMinimum"));
    if (integer)
        a.dfa = clef__number_integer(s->dfas, s->draft != CLEF__DRAFT4);
    a.dfa = limit_number(s, schema, "minimum", more ? CLEF__GREATER : CLEF__GREATER_EQUAL, a.dfa);
    a.dfa = limit_number(s, schema, "maximum", less ? CLEF__LESS : CLEF__LESS_EQUAL, a.dfa);
    if (s->draft != CLEF__DRAFT4 || json_is_number(json_object_get(schema, "exclusiveMinimum")))
        a.dfa = limit_number(s, schema, "exclusiveMinimum", CLEF__GREATER, a.dfa);
    if (s->draft != CLEF__DRAFT4 || json_is_number(json_object_get(schema, "exclusiveMaximum")))
        a.dfa = limit_number(s, schema, "exclusiveMaximum", CLEF__LESS, a.dfa);
    a.dfa = read_multiple(s, schema, a.dfa);
    return a;
}

static clef__alt read_string(clef__schema *s, const json_t *schema)
{
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    clef__alt a = clef__alt_any(s, CLEF__ALT_STRING);
    a.min = clef__read_count(s, schema, "minLength", 0);
    a.max = clef__read_count(s, schema, "maxLength", UINT32_MAX);
    at_keyword(s, schema, "pattern");
    if (pattern && !json_is_string(pattern))
        expected(s, schema, "pattern", "a string");
    else if (pattern)
        a.dfa = clef__pattern_dfa(s->dfas, json_string_value(pattern), json_string_length(pattern), 0);
    at_keyword(s, schema, "format");
    if (format && !json_is_string(format)) {
        expected(s, schema, "format", "a string");
    } else if (format) {
        const clef__dfa *texts = clef__format_dfa(s->dfas, json_string_value(format));
        if (texts)
            a.dfa = clef__dfa_join(s->dfas, a.dfa, texts, CLEF__AND);
        else if (s->opts.strict && !s->work->status)
            clef__schema_fail(s, path_of(s, schema), "format", CLEF_E_UNSUPPORTED,
                              "'%.60s' is not supported in a strict schema", json_string_value(format));
    }
    return a;
}

/* ---- schemas that apply to the same value ------------------------------------------------------ */

static clef__alts alts_of(clef__schema *s, const json_t *schema, const json_t *inner, const char *keyword,
                          const char *name)
{
    clef__site_add(s, inner, schema, keyword, name);
    if (!json_is_object(inner) && !json_is_boolean(inner)) {
        expected(s, schema, keyword, "a schema");
        return (clef__alts){.n = 0};
    }
    return s->work->status ? (clef__alts){.n = 0} : clef__literal_alts(s, clef__literal_of(s, inner, 0, 0));
}

static void and_with(clef__schema *s, clef__alts *alts, const clef__alts *other)
{
    *alts = clef__alts_and(s, alts, other);
    clef__alts_merge(s, alts);
}

/* Returns the number of schemas in a list, 0 if there is none. */
static size_t list_size(clef__schema *s, const json_t *schema, const char *keyword)
{
    const json_t *list = json_object_get(schema, keyword);
    if (list && (!json_is_array(list) || !json_array_size(list)))
        expected(s, schema, keyword, "a list of schemas, at least one");
    return json_array_size(list);
}

static void read_all_of(clef__schema *s, const json_t *schema, clef__alts *alts)
{
    const size_t n = list_size(s, schema, "allOf");
    for (size_t i = 0; i < n && !s->work->status; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        const clef__alts one =
            alts_of(s, schema, json_array_get(json_object_get(schema, "allOf"), i), "allOf", number);
        at_keyword(s, schema, "allOf");
        and_with(s, alts, &one);
    }
}

/* anyOf and oneOf, whose branches must not share a value beside what is next to it. */
static void read_either(clef__schema *s, const json_t *schema, const char *keyword, int one, clef__alts *alts)
{
    const size_t n = list_size(s, schema, keyword);
    clef__alts all = {.n = 0}, *branches = clef__work_alloc(s->work, n * sizeof *branches);
    if (!n || !branches)
        return;
    for (size_t i = 0; i < n && !s->work->status; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        branches[i] =
            alts_of(s, schema, json_array_get(json_object_get(schema, keyword), i), keyword, number);
        at_keyword(s, schema, keyword);
        branches[i] = clef__alts_and(s, alts, &branches[i]);
        for (size_t k = 0; one && k < i && !s->work->status; k++) {
            const clef__alts both = clef__alts_and(s, &branches[i], &branches[k]);
            if (!s->work->status && !clef__alts_empty(s, &both)) {
                at_keyword(s, schema, keyword);
                clef__schema_fail(s, path_of(s, schema), keyword, CLEF_E_UNSUPPORTED,
                                  "branches %zu and %zu are not shown to be disjoint", k, i);
            }
        }
        clef__alts_add_all(s, &all, &branches[i]);
    }
    at_keyword(s, schema, keyword);
    clef__alts_merge(s, &all);
    *alts = all;
}

static void read_not(clef__schema *s, const json_t *schema, clef__alts *alts)
{
    const json_t *inner = json_object_get(schema, "not");
    if (!inner)
        return;
    const clef__alts of = alts_of(s, schema, inner, "not", NULL);
    at_keyword(s, schema, "not");
    const clef__alts other = clef__alts_not(s, &of, path_of(s, schema), "not");
    and_with(s, alts, &other);
}

/* (if and then) or (not if and else) */
static void read_if(clef__schema *s, const json_t *schema, clef__alts *alts)
{
    const json_t *cond = json_object_get(schema, "if"), *then = json_object_get(schema, "then");
    const json_t *otherwise = json_object_get(schema, "else");
    if (!cond || (!then && !otherwise) || s->draft < CLEF__DRAFT7)
        return;
    const clef__alts of = alts_of(s, schema, cond, "if", NULL);
    at_keyword(s, schema, "if");
    const clef__alts not_of = clef__alts_not(s, &of, path_of(s, schema), "if");
    clef__alts yes = clef__alts_and(s, alts, &of), no = clef__alts_and(s, alts, &not_of);
    if (then) {
        const clef__alts other = alts_of(s, schema, then, "then", NULL);
        and_with(s, &yes, &other);
    }
    if (otherwise) {
        const clef__alts other = alts_of(s, schema, otherwise, "else", NULL);
        and_with(s, &no, &other);
    }
    at_keyword(s, schema, "if");
    *alts = (clef__alts){.n = 0};
    clef__alts_add_all(s, alts, &yes);
    clef__alts_add_all(s, alts, &no);
    clef__alts_merge(s, alts);
}

static void read_ref(clef__schema *s, const json_t *schema, clef__alts *alts)
{
    const json_t *ref = json_object_get(schema, "$ref");
    if (!ref)
        return;
    at_keyword(s, schema, "$ref");
    if (!json_is_string(ref)) {
        expected(s, schema, "$ref", "a string");
        return;
    }
    if (json_object_get(schema, "$id") && !json_object_get(s->root, "$schema")) {
        refuse(s, schema, "$ref", "drafts differ on $ref beside $id: name the draft by $schema");
        return;
    }
    const json_t *target = clef__schema_resolve(s, schema, json_string_value(ref));
    if (!target || s->work->status)
        return;
    if (!json_is_object(target) && !json_is_boolean(target)) {
        expected(s, schema, "$ref", "the place of a schema");
        return;
    }
    const clef__alts other = clef__literal_alts(s, clef__literal_of(s, target, 0, 0));
    at_keyword(s, schema, "$ref");
    *alts = clef__alts_and(s, alts, &other);
}

/* Keywords that no state of the machine can follow. */
static void refuse_unsupported(clef__schema *s, const json_t *schema, unsigned types)
{
    static const struct {
        const char *name;
        clef__draft_version since;
        clef__alt_kind kind; /* the kind that it limits; N_ALT_KINDS: any */
    } refused[] = {{"$dynamicRef", CLEF__DRAFT2020, CLEF__N_ALT_KINDS},
                   {"$recursiveRef", CLEF__DRAFT2019, CLEF__N_ALT_KINDS},
                   {"unevaluatedItems", CLEF__DRAFT2019, CLEF__ALT_ARRAY},
                   {"unevaluatedProperties", CLEF__DRAFT2019, CLEF__ALT_OBJECT},
                   {"disallow", CLEF__DRAFT4, CLEF__N_ALT_KINDS},
                   {"extends", CLEF__DRAFT4, CLEF__N_ALT_KINDS},
                   {"divisibleBy", CLEF__DRAFT4, CLEF__ALT_NUMBER}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *value = json_object_get(schema, refused[i].name);
        const int of_kind = refused[i].kind == CLEF__N_ALT_KINDS || types >> refused[i].kind & 1;
        if (value && s->draft >= refused[i].since && of_kind && !json_is_true(value) &&
            !(json_is_object(value) && !json_object_size(value)))
            refuse(s, schema, refused[i].name, "not supported");
    }
}

static clef__alts own_keywords(clef__schema *s, const json_t *schema)
{
    clef__alts alts = {.n = 0};
    const unsigned types = read_type(s, schema);
    refuse_unsupported(s, schema, types);
    for (int kind = 0; kind < CLEF__N_ALT_KINDS && !s->work->status; kind++) {
        const int integer = kind == CLEF__ALT_NUMBER && !(types >> kind & 1) && (types & INTEGER_BIT);
        if (!(types >> kind & 1) && !integer)
            continue;
        at_keyword(s, schema, "type");
        const clef__alt a = kind == CLEF__ALT_NUMBER   ? read_number(s, schema, integer)
                            : kind == CLEF__ALT_STRING ? read_string(s, schema)
                            : kind == CLEF__ALT_ARRAY  ? clef__read_array(s, schema)
                            : kind == CLEF__ALT_OBJECT
                                ? clef__read_object(s, schema)
                                : (clef__alt){.kind = (clef__alt_kind)kind, .max = UINT32_MAX};
        clef__alts_add(s, &alts, &a);
    }
    return alts;
}

clef__alts clef__read_schema(clef__schema *s, const json_t *schema)
{
    clef__alts alts = {.n = 0};
    if (json_is_boolean(schema))
        return json_is_true(schema) ? clef__alts_any(s) : alts;
    const json_t *constant = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    if (json_object_get(schema, "$ref") && s->draft <= CLEF__DRAFT7) {
        alts = clef__alts_any(s); /* nothing beside $ref counts before 2019-09 */
        read_ref(s, schema, &alts);
        return alts;
    }
    alts = own_keywords(s, schema);
    if (constant && s->draft >= CLEF__DRAFT6) {
        at_keyword(s, schema, "const");
        const clef__alts other = clef__read_constant(s, constant);
        and_with(s, &alts, &other);
    }
    if (list) {
        at_keyword(s, schema, "enum");
        if (!json_is_array(list))
            expected(s, schema, "enum", "a list");
        const clef__alts other = read_enum(s, list);
        and_with(s, &alts, &other);
    }
    clef__read_dependencies(s, schema, &alts);
    read_ref(s, schema, &alts);
    read_all_of(s, schema, &alts);
    read_either(s, schema, "anyOf", 0, &alts);
    read_either(s, schema, "oneOf", 1, &alts);
    read_not(s, schema, &alts);
    read_if(s, schema, &alts);
    return alts;
}
