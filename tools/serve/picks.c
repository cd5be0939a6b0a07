/* How a request's tokens are sampled: samplers, biases, stop strings, constraint, adapter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/task.h"

enum {
    MOST_STOPS = 16,
    MOST_STOP_BYTES = 256,
    MOST_STOP_IDS = 64,
    MOST_BIASES = 1024,
    MOST_BREAKERS = 64,
    MOST_BREAKER_BYTES = 40,
    MOST_CHOICES = 1024
};

static int bad(serve_request *r, const char *path, const json_t *value, const char *wanted)
{
    return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected %s, got %s", path, wanted,
                      serve_kind_of(value));
}

/* ---- stop strings ---------------------------------------------------------------------------- */

static int set_stops(serve_task *t)
{
    json_t *stop = t->p.stop;
    const size_t n = json_is_string(stop) ? 1 : json_array_size(stop);
    if (!stop)
        return 1;
    if (!json_is_string(stop) && !json_is_array(stop))
        return bad(t->r, "stop", stop, "a string or a list of strings");
    if (n > MOST_STOPS)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "stop",
                          "stop: expected at most %d strings, got %zu", MOST_STOPS, n);
    t->stops = calloc(n + 1, sizeof *t->stops);
    if (!t->stops)
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    for (size_t i = 0; i < n; i++) {
        char path[128] = "stop";
        json_t *one = json_is_string(stop) ? stop : json_array_get(stop, i);
        if (one != stop)
            serve_path(path, "stop[%zu]", i);
        if (!serve_is_plain(one))
            return bad(t->r, path, one, "a string without \\u0000");
        if (json_string_length(one) < 1 || json_string_length(one) > MOST_STOP_BYTES)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "%s: expected 1 to %d bytes, got %zu", path, MOST_STOP_BYTES,
                              json_string_length(one));
        t->stops[t->n_stops++] = (char *)json_string_value(one);
    }
    return 1;
}

/* A stop string that is a special token's name: the token ends the text, which does not show it. */
static void add_named_ends(serve_task *t)
{
    const clef_tokenizer *tok = t->r->m->tok;
    for (int32_t i = 0; i < t->n_stops; i++) {
        const int32_t id = clef_tokenizer_find(tok, t->stops[i]);
        if (id >= 0 && clef_tokenizer_is_special(tok, id))
            t->ends[t->n_ends++] = id;
    }
}

/* Tokens that end the text: the model's own, and those of the request. */
static int set_stop_ids(serve_task *t)
{
    const serve_model *m = t->r->m;
    const json_t *list = t->p.stop_ids, *one;
    size_t i;
    if (list && !json_is_array(list))
        return bad(t->r, "stop_token_ids", list, "a list of token ids");
    if (json_array_size(list) > MOST_STOP_IDS)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "stop_token_ids",
                          "stop_token_ids: expected at most %d, got %zu", MOST_STOP_IDS,
                          json_array_size(list));
    t->ends = malloc(((size_t)(m->n_ends + t->n_stops) + json_array_size(list) + 1) * sizeof *t->ends);
    if (!t->ends)
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    for (; !t->p.ignore_eos && t->n_ends < m->n_ends; t->n_ends++)
        t->ends[t->n_ends] = m->ends[t->n_ends];
    add_named_ends(t);
    json_array_foreach(list, i, one) {
        char path[128];
        serve_path(path, "stop_token_ids[%zu]", i);
        if (!serve_read_id(t->r, one, path, &t->ends[t->n_ends++]))
            return 0;
    }
    return 1;
}

/* ---- samplers -------------------------------------------------------------------------------- */

/* false and -100 ban, as llama-server's and OpenAI's references say. */
static int add_bias(serve_task *t, const char *path, int32_t id, const json_t *value)
{
    const double x = json_is_false(value) ? -100 : json_number_value(value);
    if (!json_is_number(value) && !json_is_false(value))
        return bad(t->r, path, value, "a number");
    if (!(x >= -100 && x <= 100))
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path, "%s: expected -100 to 100, got %g", path,
                          x);
    if (t->p.sampling.n_biases == MOST_BIASES)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path, "logit_bias: expected at most %d tokens",
                          MOST_BIASES);
    t->biases[t->p.sampling.n_biases++] =
        (clef_logit_bias){.id = id, .bias = x <= -100 ? -INFINITY : (float)x};
    return 1;
}

/* The bias of each token of a text. */
static int add_bias_of_text(serve_task *t, const char *path, const char *text, size_t n, const json_t *value)
{
    clef_error err = {0};
    int32_t *ids = NULL, n_ids = 0;
    if (clef_tokenizer_encode(t->r->m->tok, text, n, CLEF_SPECIAL_NONE, &ids, &n_ids, &err) != CLEF_OK)
        return serve_fail_status(&t->r->error, &err, SERVE_E_INVALID_VALUE, path);
    int ok = 1;
    for (int32_t i = 0; ok && i < n_ids; i++)
        ok = add_bias(t, path, ids[i], value);
    clef_tokens_free(ids);
    return ok;
}

/* {"ID": X}, or {"TEXT": X} */
static int add_biases_of_object(serve_task *t, json_t *object)
{
    const int32_t n_vocab = t->r->m->hparams->n_vocab;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char path[128], *end;
        const long long id = strtoll(key, &end, 10);
        const int is_id = end != key && !*end;
        serve_path(path, "logit_bias.%.40s", key);
        if (is_id && (id < 0 || id >= n_vocab))
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "logit_bias: expected ids from 0 to %d, got '%.40s'", (int)n_vocab - 1, key);
        if (is_id ? !add_bias(t, path, (int32_t)id, value)
                  : !add_bias_of_text(t, path, key, strlen(key), value))
            return 0;
    }
    return 1;
}

/* [[ID, X]], or [["TEXT", X]] */
static int add_biases_of_list(serve_task *t, const json_t *list)
{
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one) {
        char path[128];
        int32_t id;
        const json_t *what = json_array_get(one, 0), *value = json_array_get(one, 1);
        serve_path(path, "logit_bias[%zu]", i);
        if (json_array_size(one) != 2)
            return bad(t->r, path, one, "[ID, X]");
        if (json_is_string(what)
                ? !add_bias_of_text(t, path, json_string_value(what), json_string_length(what), value)
                : !serve_read_id(t->r, what, path, &id) || !add_bias(t, path, id, value))
            return 0;
    }
    return 1;
}

/* Bans all tokens but those of a list; `biases` has room for them. */
static int ban_others(serve_task *t, const json_t *allowed)
{
    const int32_t n_vocab = t->r->m->hparams->n_vocab, first = t->p.sampling.n_biases;
    clef_logit_bias *all = t->biases + first;
    const json_t *one;
    size_t i;
    int32_t n = 0;
    for (int32_t id = 0; id < n_vocab; id++)
        all[id] = (clef_logit_bias){.id = id, .bias = -INFINITY};
    json_array_foreach(allowed, i, one) {
        char path[128];
        int32_t id;
        if (!serve_read_id(t->r, one, serve_path(path, "allowed_token_ids[%zu]", i), &id))
            return 0;
        all[id].bias = 0;
    }
    for (int32_t id = 0; id < n_vocab; id++)
        if (all[id].bias < 0)
            all[n++] = all[id];
    t->p.sampling.n_biases = first + n;
    return 1;
}

static int set_biases(serve_task *t)
{
    json_t *all = t->p.logit_bias;
    const json_t *allowed = t->p.allowed_ids;
    if (!all && !allowed)
        return 1;
    if (all && !json_is_object(all) && !json_is_array(all))
        return bad(t->r, "logit_bias", all, "{\"ID\": X} or [[ID, X]]");
    if (allowed && !json_array_size(allowed))
        return bad(t->r, "allowed_token_ids", allowed, "a list of token ids that is not empty");
    const size_t n = json_is_object(all) ? json_object_size(all) : json_array_size(all);
    if (n > MOST_BIASES)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "logit_bias",
                          "logit_bias: expected at most %d tokens, got %zu", MOST_BIASES, n);
    t->biases =
        calloc(MOST_BIASES + (allowed ? (size_t)t->r->m->hparams->n_vocab : 0) + 1, sizeof *t->biases);
    if (!t->biases)
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    return (json_is_object(all) ? add_biases_of_object(t, all) : add_biases_of_list(t, all)) &&
           (!allowed || ban_others(t, allowed));
}

static int add_sampler(serve_task *t, const char *name, size_t n, int32_t *count)
{
    clef_sampler_opts *o = &t->p.sampling;
    for (int i = 1; i < CLEF_N_SAMPLERS; i++) {
        const char *known = clef_sampler_name((clef_sampler_kind)i);
        const int is_other = i == CLEF_SAMPLER_TYPICAL && ((n == 9 && !memcmp(name, "typical_p", 9)) ||
                                                           (n == 5 && !memcmp(name, "typ_p", 5)));
        if (!is_other && (strlen(known) != n || memcmp(known, name, n) != 0))
            continue;
        for (int32_t k = 0; k < *count; k++)
            if (o->samplers[k] == i)
                return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "samplers",
                                  "samplers: %s is there twice", known);
        o->samplers[(*count)++] = (uint8_t)i;
        return 1;
    }
    return serve_fail(
        &t->r->error, SERVE_E_INVALID_VALUE, "samplers",
        "samplers: expected some of penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, "
        "temperature; got '%.*s'",
        n < 40 ? (int)n : 40, name);
}

static int set_samplers(serve_task *t)
{
    const json_t *list = t->p.samplers;
    int32_t count = 0;
    json_t *name;
    size_t i;
    if (!list)
        return 1;
    memset(t->p.sampling.samplers, 0, sizeof t->p.sampling.samplers);
    if (json_is_string(list)) {
        for (const char *s = json_string_value(list); s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
            if (!add_sampler(t, s, strcspn(s, ","), &count))
                return 0;
        return 1;
    }
    const int is_native = ((int)t->p.form & SERVE_FORM_NATIVE) != 0;
    if (!json_is_array(list) || (!json_array_size(list) && !is_native))
        return bad(t->r, "samplers", list, "a list of names, at least one");
    json_array_foreach(list, i, name) {
        if (!json_is_string(name))
            return bad(t->r, "samplers", name, "names");
        if (is_native && !strcmp(json_string_value(name), "infill")) { /* editors ask for it */
            serve_note_ignored(t->r, "samplers.infill");
            continue;
        }
        if (!add_sampler(t, json_string_value(name), json_string_length(name), &count))
            return 0;
    }
    if (!count) { /* none: the model's own probabilities */
        t->p.sampling.samplers[0] = CLEF_SAMPLER_TEMPERATURE;
        t->p.sampling.temperature = 1;
    }
    return 1;
}

static int set_breakers(serve_task *t)
{
    cli_list texts = {.n = 0};
    json_t *one;
    size_t i;
    if (t->p.dry_breakers && !json_is_array(t->p.dry_breakers))
        return bad(t->r, "dry_sequence_breakers", t->p.dry_breakers, "a list of strings");
    if (json_array_size(t->p.dry_breakers) > MOST_BREAKERS)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "dry_sequence_breakers",
                          "dry_sequence_breakers: expected at most %d", MOST_BREAKERS);
    json_array_foreach(t->p.dry_breakers, i, one) {
        char path[128];
        const size_t n = json_string_length(one);
        serve_path(path, "dry_sequence_breakers[%zu]", i);
        if (!serve_is_plain(one))
            return bad(t->r, path, one, "a string without \\u0000");
        if (n < 1 || n > MOST_BREAKER_BYTES)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "%s: expected 1 to %d bytes, got %zu", path, MOST_BREAKER_BYTES, n);
        texts.items[texts.n++] = json_string_value(one);
    }
    if (t->p.sampling.dry_multiplier == 0 || (t->p.dry_breakers && !texts.n))
        return 1;
    if (cli_dry_breakers(&texts, t->r->m->model, &t->breakers) == CLI_GO_ON)
        return 1;
    return serve_fail(&t->r->error, SERVE_E_INTERNAL, "dry_sequence_breakers", "no memory for the breakers");
}

/* ---- adapter --------------------------------------------------------------------------------- */

/* By its place, as llama-server counts them; NULL: there is none. */
static const char *adapter_named(const serve_model *m, json_int_t i)
{
    return i >= 0 && i < m->adapters.n ? m->adapters.names[i] : NULL;
}

int serve_pick_adapter(serve_request *r, const json_t *list, int32_t *out)
{
    const serve_model *m = r->m;
    serve_error *e = &r->error;
    char names[400];
    json_t *one;
    size_t i;
    *out = 0;
    if (!json_is_array(list))
        return bad(r, "lora", list, "a list");
    json_array_foreach(list, i, one) {
        const json_t *scale = json_object_get(one, "scale"), *id = json_object_get(one, "id");
        const char *name = json_is_integer(id) ? adapter_named(m, json_integer_value(id))
                                               : json_string_value(json_object_get(one, "name"));
        const int32_t number = name ? cli_adapters_find(&m->adapters, name) : 0;
        char path[128];
        serve_path(path, "lora[%zu]", i);
        if (!name)
            return bad(r, path, one, "{\"name\" or \"id\": .., \"scale\": ..} of an adapter that is there");
        cli_adapters_text(&m->adapters, names, sizeof names);
        if (!number)
            return serve_fail(e, SERVE_E_INVALID_VALUE, path, "%s: no adapter is named '%.63s'; adapters: %s",
                              path, name, names);
        if (scale && !json_is_null(scale) && !json_is_number(scale))
            return bad(r, path, scale, "a number for scale");
        const double loaded = (double)m->adapter_scales[number - 1],
                     x = json_is_number(scale) ? json_number_value(scale) : loaded;
        if (x == 0)
            continue;
        if (fabs(x - loaded) > 1e-6)
            return serve_fail(
                e, SERVE_E_UNSUPPORTED, path,
                "%s: not supported: the scale %g; '%.63s' was loaded with %g, and has that or 0", path, x,
                name, loaded);
        if (*out)
            return serve_fail(e, SERVE_E_UNSUPPORTED, path, "%s: a text uses at most one adapter", path);
        *out = number;
    }
    return 1;
}

/* ---- constraint ------------------------------------------------------------------------------ */

static int take(serve_task *t, clef_constraint_kind kind, const char *source, size_t n, int strict,
                const char *param)
{
    const clef_constraint_opts opts = {.strict = strict,
                                       .tok = kind == CLEF_CONSTRAIN_GBNF ? t->r->m->tok : NULL};
    t->constraint = serve_constraints_take(t->r, kind, source, n, &opts, param);
    return t->constraint != NULL;
}

static int take_json(serve_task *t, clef_constraint_kind kind, const json_t *value, int strict,
                     const char *param)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    const int ok = take(t, kind, text, strlen(text), strict, param);
    free(text);
    return ok;
}

/* {"name", "schema"}, as `response_format` has it, where other servers have the schema itself. */
static const json_t *unwrapped(const json_t *schema)
{
    static const char *const keywords[] = {"type",  "properties", "$ref", "anyOf",
                                           "oneOf", "allOf",      "enum", "const"};
    const json_t *inner = json_object_get(schema, "schema");
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (json_object_get(schema, keywords[i]))
            return schema;
    return json_is_object(inner) ? inner : schema;
}

static int take_schema(serve_task *t, const json_t *schema, int strict, const char *path)
{
    schema = unwrapped(schema);
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return bad(t->r, path, schema, "a JSON Schema");
    return take_json(t, CLEF_CONSTRAIN_SCHEMA, schema, strict, path);
}

/* A schema, or the text of one, as vLLM takes both. */
static int take_schema_or_text(serve_task *t, const json_t *schema, const char *path)
{
    if (!json_is_string(schema))
        return take_schema(t, schema, 0, path);
    return take(t, CLEF_CONSTRAIN_SCHEMA, json_string_value(schema), json_string_length(schema), 0, path);
}

static int take_text(serve_task *t, clef_constraint_kind kind, const json_t *text, const char *path)
{
    if (!json_is_string(text) || !json_string_length(text))
        return bad(t->r, path, text, "a string that is not empty");
    return take(t, kind, json_string_value(text), json_string_length(text), 0, path);
}

static int take_any_object(serve_task *t, const char *path)
{
    static const char object[] = "{\"type\": \"object\"}";
    return take(t, CLEF_CONSTRAIN_SCHEMA, object, strlen(object), 0, path);
}

static int take_choice(serve_task *t, const json_t *list, const char *path)
{
    json_t *one;
    size_t i;
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > MOST_CHOICES)
        return bad(t->r, path, list, "a list of 1 to 1024 strings");
    json_array_foreach(list, i, one) {
        if (!serve_is_plain(one))
            return bad(t->r, path, one, "strings without \\u0000");
    }
    return take_json(t, CLEF_CONSTRAIN_CHOICES, list, 0, path);
}

/* A member that is there and not null. */
static const json_t *member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

/* ---- response_format ------------------------------------------------------------------------- */

/* {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}, or the schema beside the type, as
 * `schema` or `value`. */
static int take_format_schema(serve_task *t, const json_t *format)
{
    static const char *const names[] = {"schema", "value"};
    const json_t *inner = member(format, "json_schema"), *strict = member(inner, "strict"),
                 *schema = member(inner, "schema");
    char path[128] = "response_format.json_schema.schema";
    for (int i = 0; i < 2; i++) {
        const json_t *beside = member(format, names[i]);
        if (!beside)
            continue;
        serve_path(path, "response_format.%s", names[i]);
        if (schema)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path, "%s: there are two schemas", path);
        schema = beside;
        strict = member(format, "strict");
    }
    if (strict && !json_is_boolean(strict))
        return bad(t->r, "response_format.json_schema.strict", strict, "true or false");
    return take_schema(t, schema, json_is_true(strict), path);
}

/* The text of {"type": TYPE, TYPE: text}, or of its `value` or `pattern`. */
static const json_t *format_text(const json_t *format, const char *type)
{
    const json_t *own = member(format, type), *value = member(format, "value");
    return own ? own : value ? value : member(format, "pattern");
}

static int has_schema(const json_t *format)
{
    return member(format, "schema") || member(format, "json_schema") || member(format, "value");
}

static int take_format(serve_task *t)
{
    const json_t *format = t->p.response_format;
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!json_is_object(format))
        return bad(t->r, "response_format", format, "an object");
    if (!type)
        return bad(t->r, "response_format.type", json_object_get(format, "type"),
                   "text, json_object or json_schema");
    if (!strcmp(type, "json_schema"))
        return take_format_schema(t, format);
    if (!strcmp(type, "json_object") || !strcmp(type, "json"))
        return has_schema(format) ? take_format_schema(t, format) : take_any_object(t, "response_format");
    if (!strcmp(type, "regex"))
        return take_text(t, CLEF_CONSTRAIN_REGEX, format_text(format, "regex"), "response_format.regex");
    if (!strcmp(type, "grammar"))
        return take_text(t, CLEF_CONSTRAIN_GBNF, format_text(format, "grammar"), "response_format.grammar");
    return serve_fail(
        &t->r->error, SERVE_E_INVALID_VALUE, "response_format.type",
        "response_format.type: expected text, json_object, json_schema, regex or grammar, got '%.40s'", type);
}

/* 1 for {"type": "text"}, which has no constraint. */
static int is_text_format(const json_t *format)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    return type && !strcmp(type, "text") && !has_schema(format);
}

/* ---- as other servers' clients write them ---------------------------------------------------- */

/* "json" or a schema. */
static int take_ollama_format(serve_task *t)
{
    const char *word = json_string_value(t->p.format);
    if (word && strcmp(word, "json") != 0)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "format",
                          "format: expected \"json\" or a JSON Schema, got '%.40s'", word);
    return word ? take_any_object(t, "format") : take_schema(t, t->p.format, 0, "format");
}

/* {"json": schema}, or one of the others. */
static int take_structured(serve_task *t)
{
    const char *name, *found = NULL;
    json_t *value;
    char path[128];
    if (!json_is_object(t->p.structured))
        return bad(t->r, "structured_outputs", t->p.structured, "an object");
    json_object_foreach(t->p.structured, name, value) {
        if (json_is_null(value) || json_is_false(value))
            continue;
        serve_path(path, "structured_outputs.%.60s", name);
        const int known = !strcmp(name, "json") || !strcmp(name, "regex") || !strcmp(name, "choice") ||
                          !strcmp(name, "grammar") || !strcmp(name, "json_object");
        if (!known || found)
            return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, path,
                              "%s: expected one of json, regex, choice, grammar and json_object", path);
        found = name;
    }
    if (!found)
        return bad(t->r, "structured_outputs", t->p.structured,
                   "one of json, regex, choice, grammar and json_object");
    const json_t *of = json_object_get(t->p.structured, found);
    serve_path(path, "structured_outputs.%s", found);
    return !strcmp(found, "json")      ? take_schema_or_text(t, of, path)
           : !strcmp(found, "regex")   ? take_text(t, CLEF_CONSTRAIN_REGEX, of, path)
           : !strcmp(found, "choice")  ? take_choice(t, of, path)
           : !strcmp(found, "grammar") ? take_text(t, CLEF_CONSTRAIN_GBNF, of, path)
           : json_is_true(of)          ? take_any_object(t, path)
                                       : bad(t->r, path, of, "true or false");
}

/* The constraint on the text that a request has, if any, whatever its name; *n is how many it has. */
static int take_given(serve_task *t, int *n)
{
    const serve_params *p = &t->p;
    const int format = p->response_format && !is_text_format(p->response_format),
              other = p->format && !(json_is_string(p->format) && !json_string_length(p->format));
    *n = format + (p->grammar != NULL) + (p->regex != NULL) + (p->choice != NULL) + (p->json_schema != NULL) +
         other + (p->structured != NULL);
    if (*n > 1)
        return serve_fail(
            &t->r->error, SERVE_E_INVALID_VALUE, "response_format",
            "expected one constraint: response_format, json_schema, format, structured_outputs, "
            "grammar, regex or choice");
    return !*n              ? 1
           : format         ? take_format(t)
           : p->grammar     ? take(t, CLEF_CONSTRAIN_GBNF, p->grammar, strlen(p->grammar), 0, "grammar")
           : p->regex       ? take(t, CLEF_CONSTRAIN_REGEX, p->regex, strlen(p->regex), 0, "regex")
           : p->choice      ? take_choice(t, p->choice, "choice")
           : p->json_schema ? take_schema_or_text(t, p->json_schema, "json_schema")
           : other          ? take_ollama_format(t)
                            : take_structured(t);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The constraint on calls. "auto" begins at the tag of a call, so that the model may reason before it. */
static int set_calls(serve_task *t, int *is_auto)
{
    const serve_model *m = t->r->m;
    serve_error *e = &t->r->error;
    const json_t *choice = t->p.tool_choice;
    const char *word = json_string_value(choice), *name;
    clef_tool_constraint_opts o = {.format = m->format,
                                   .tools = t->tools,
                                   .tools_bytes = t->n_tools,
                                   .parallel = t->p.parallel,
                                   .tok = m->tok};
    *is_auto = !choice || (word && !strcmp(word, "auto"));
    if (word && !*is_auto && strcmp(word, "required") != 0 && strcmp(word, "any") != 0)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "tool_choice",
                          "tool_choice: expected none, auto, required or a function, got '%.40s'", word);
    if (choice && !word) {
        name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
        if (!name)
            return bad(t->r, "tool_choice.function.name",
                       json_object_get(json_object_get(choice, "function"), "name"),
                       "the name of a function");
        o.choice = CLEF_TOOL_CHOICE_NAMED;
        o.name = name;
    } else
        o.choice = *is_auto ? CLEF_TOOL_CHOICE_AUTO : CLEF_TOOL_CHOICE_REQUIRED;
    if (m->format == CLEF_TOOLS_NONE)
        return serve_fail(
            e, SERVE_E_UNSUPPORTED, "tools",
            "tools: the model's template writes no known format of calls (--tool-format names one)");
    t->constraint = serve_constraints_take_tools(t->r, &o);
    return t->constraint != NULL;
}

/* What says itself where a text may end, or goes on after an end. */
static int check_beside_constraint(serve_task *t)
{
    static const char *const names[] = {"min_tokens", "ignore_eos", "stop_token_ids"};
    const int given[] = {t->p.min_tokens > 0, t->p.ignore_eos, json_array_size(t->p.stop_ids) > 0};
    for (int i = 0; i < 3; i++)
        if (given[i])
            return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, names[i],
                              "%s: not together with a constraint, which says where a text may end",
                              names[i]);
    return 1;
}

/* After which text a constraint begins. gpt-oss's reasoning and answer are messages of their own; calls,
 * which are messages too, hold from the start. */
static const char *after_of(const serve_task *t, int is_answer, int is_auto)
{
    const int is_harmony = t->r->m->format == CLEF_TOOLS_HARMONY;
    if (!t->may_think || is_auto || (is_harmony && !is_answer))
        return NULL;
    return is_harmony ? "<|channel|>final<|message|>" : t->thought.close;
}

/* The format of an answer says nothing of a call, which a choice demands: it is checked and dropped. Other
 * constraints are on all of the text. */
static int drop_format(serve_task *t, int *n)
{
    if (!t->p.response_format)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "tool_choice",
                          "tool_choice: expected auto or none beside another constraint");
    if (t->constraint)
        clef_constraint_cache_give(t->r->m->constraints, t->constraint);
    t->constraint = NULL;
    *n = 0;
    return 1;
}

static int set_constraint(serve_task *t)
{
    serve_params *p = &t->p;
    int n = 0, is_auto = 0;
    const char *word = json_string_value(p->tool_choice);
    const int demands = p->tool_choice && !(word && (!strcmp(word, "none") || !strcmp(word, "auto")));
    if (demands && !t->has_tools)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "tool_choice",
                          "tool_choice: expected none or auto, since there are no tools");
    if (!take_given(t, &n) || (n && demands && !drop_format(t, &n)) ||
        (t->has_tools && !n && !set_calls(t, &is_auto)))
        return 0;
    if (!t->constraint)
        return 1;
    if (!check_beside_constraint(t))
        return 0;
    t->has_guide = 1;
    t->guide = (clef_guide){t->constraint, t->r->m->trie, after_of(t, n, is_auto)};
    return 1;
}

static int set_reading(serve_task *t)
{
    const char *format = t->p.reasoning_format;
    if (!format || !strcmp(format, "auto") || !strcmp(format, "deepseek"))
        return 1;
    if (strcmp(format, "none") != 0)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "reasoning_format",
                          "reasoning_format: expected auto, deepseek or none, got '%.32s'", format);
    if (t->has_tools)
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "reasoning_format",
                          "reasoning_format: none is not supported beside tools");
    t->is_raw = 1;
    return 1;
}

int serve_task_set_picks(serve_task *t)
{
    return set_reading(t) && set_stops(t) && set_stop_ids(t) && set_biases(t) && set_samplers(t) &&
           set_breakers(t) && (!t->p.lora || serve_pick_adapter(t->r, t->p.lora, &t->lora)) &&
           set_constraint(t);
}
