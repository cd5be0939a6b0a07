/* What the readers of tokenizer.json's parts share: types by name, fields, patterns, the vocabulary. */
#include "model/tokenizer/read/json_parts.h"

#include <string.h>

clef_status clef__json_by_type(clef__json_reader *r, const char *part, const clef__json_type *types,
                               size_t n_types, const json_t *object)
{
    if (!object || json_is_null(object))
        return CLEF_OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type)
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: %s is %s, expected an object with a \"type\"", r->file,
                          part, clef__json_kind(object));
    for (size_t i = 0; i < n_types; i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].read ? types[i].read(r, object) : types[i].add(&r->tok->stages, r->err);
    clef__chars known = {0};
    for (size_t i = 0; i < n_types; i++) {
        clef__chars_append(&known, i ? ", " : "", i ? 2 : 0, NULL);
        clef__chars_append(&known, types[i].type, strlen(types[i].type), NULL);
    }
    char quote[64];
    const clef_status st =
        clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: %s \"%s\" is not supported; known: %.*s", r->file, part,
                   clef__quote_text(type, strlen(type), quote), (int)known.n, known.at ? known.at : "");
    clef__chars_finish(&known);
    return st;
}

clef_status clef__json_sequence(clef__json_reader *r, const char *part, const clef__json_type *types,
                                size_t n_types, const json_t *array)
{
    clef_status st = CLEF_OK;
    if (!json_is_array(array))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: the Sequence of %s is %s, expected an array", r->file,
                          part, clef__json_kind(array));
    for (size_t i = 0; i < json_array_size(array) && st == CLEF_OK; i++)
        st = clef__json_by_type(r, part, types, n_types, json_array_get(array, i));
    return st;
}

clef_json_fields clef__json_part(clef__json_reader *r, const json_t *object, const char *within)
{
    return (clef_json_fields){.object = object, .file = r->file, .within = within, .err = r->err};
}

clef_status clef__stage_refuse(const clef__json_reader *r, const char *part, const char *what)
{
    return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: %s: %s is not supported", r->file, part, what);
}

clef_status clef__json_pattern(clef__json_reader *r, const char *part, const json_t *object,
                               clef__pattern *out)
{
    const json_t *pattern = json_object_get(object, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"),
                 *string = json_is_string(pattern) ? pattern : json_object_get(pattern, "String");
    *out = (clef__pattern){0};
    if (json_is_string(regex))
        return clef__regex_create(json_string_value(regex), json_string_length(regex), &out->regex, r->err);
    if (!json_is_string(string))
        return clef__fail(r->err, CLEF_E_FORMAT, "%s: %s: expected a pattern with a String or Regex", r->file,
                          part);
    out->text = json_string_value(string);
    out->n_text = json_string_length(string);
    return CLEF_OK;
}

/* Newer files have prepend_scheme, older ones add_prefix_space. */
clef_status clef__json_read_metaspace(clef__json_reader *r, const json_t *object, clef__json_metaspace *out)
{
    static const char *const schemes[] = {
        [CLEF_PREPEND_ALWAYS] = "always", [CLEF_PREPEND_FIRST] = "first", [CLEF_PREPEND_NEVER] = "never"};
    clef_json_fields f = clef__json_part(r, object, "Metaspace");
    const int prefix = clef__json_bool(&f, "add_prefix_space", 1);
    const char *name = clef__json_string(&f, "prepend_scheme", prefix ? "always" : "never");
    out->replacement = clef__json_string(&f, "replacement", CLEF_META_SPACE);
    out->splits = clef__json_bool(&f, "split", 1);
    if (f.status)
        return f.status;
    for (size_t i = 0; i < CLEF_N_ITEMS(schemes); i++)
        if (strcmp(name, schemes[i]) == 0) {
            out->scheme = (clef__prepend_scheme)i;
            return CLEF_OK;
        }
    return clef__fail(r->err, CLEF_E_UNSUPPORTED,
                      "%s: Metaspace has prepend_scheme \"%.48s\"; known: always, first, never", r->file,
                      name);
}

clef_status clef__json_vocab(clef_tokenizer *tok, const json_t *vocab, const json_t *added, const char *file,
                             clef_error *err)
{
    json_t *value;
    const char *key;
    char quote[64];
    json_int_t most = -1;
    if (!json_is_object(vocab))
        return clef__fail(err, CLEF_E_FORMAT, "%s: the vocabulary is %s, expected an object", file,
                          clef__json_kind(vocab));
    /* ids may have gaps, but a small file must not ask for a huge table */
    const json_int_t limit =
        2 * ((json_int_t)json_object_size(vocab) + (json_int_t)json_array_size(added)) + 65536;
    json_object_foreach((json_t *)vocab, key, value) {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= limit)
            return clef__fail(err, CLEF_E_FORMAT, "%s: token \"%s\": expected an id of 0 .. %lld", file,
                              clef__quote_text(key, strlen(key), quote), (long long)limit - 1);
        most = id > most ? id : most;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *id = json_object_get(json_array_get(added, i), "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= limit)
            return clef__fail(err, CLEF_E_FORMAT, "%s: added token %zu: expected an id of 0 .. %lld", file, i,
                              (long long)limit - 1);
        most = json_integer_value(id) > most ? json_integer_value(id) : most;
    }
    clef_status st = clef__vocab_reserve(&tok->vocab, most + 1, err);
    if (st)
        return st;
    json_object_foreach((json_t *)vocab, key, value) {
        st = clef__vocab_set(&tok->vocab, json_integer_value(value), key, strlen(key), err);
        if (st)
            return st;
    }
    return CLEF_OK;
}
