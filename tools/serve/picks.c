/* How a request's tokens are picked: samplers, biases, stop strings, constraint, adapter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/task.h"

enum {
    MOST_STOPS = 16,
    MOST_STOP_BYTES = 256,
    MOST_BIASES = 1024,
    MOST_BREAKERS = 64,
    MOST_BREAKER_BYTES = 40,
    MOST_CHOICES = 1024
};

static int bad(serve_task *t, const char *path, const json_t *value, const char *wanted)
{
    return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path, "%s: expected %s, got %s", path, wanted,
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
        return bad(t, "stop", stop, "a string or a list of strings");
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
        if (!json_is_string(one))
            return bad(t, path, one, "a string");
        if (json_string_length(one) < 1 || json_string_length(one) > MOST_STOP_BYTES)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "%s: expected 1 to %d bytes, got %zu", path, MOST_STOP_BYTES,
                              json_string_length(one));
        t->stops[t->n_stops++] = (char *)json_string_value(one);
    }
    return 1;
}

/* ---- samplers -------------------------------------------------------------------------------- */

static int set_biases(serve_task *t)
{
    const char *key;
    json_t *value;
    const int32_t n_vocab = t->r->s->m.hparams->n_vocab;
    if (!t->p.logit_bias)
        return 1;
    if (!json_is_object(t->p.logit_bias))
        return bad(t, "logit_bias", t->p.logit_bias, "{\"ID\": X}");
    const size_t n = json_object_size(t->p.logit_bias);
    if (n > MOST_BIASES)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "logit_bias",
                          "logit_bias: expected at most %d tokens, got %zu", MOST_BIASES, n);
    t->biases = calloc(n + 1, sizeof *t->biases);
    if (!t->biases)
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    json_object_foreach(t->p.logit_bias, key, value)
    {
        char path[128], *end;
        const long long id = strtoll(key, &end, 10);
        const double x = json_number_value(value);
        serve_path(path, "logit_bias.%.40s", key);
        if (end == key || *end || id < 0 || id >= n_vocab)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "logit_bias: expected ids from 0 to %d, got '%.40s'", (int)n_vocab - 1, key);
        if (!json_is_number(value))
            return bad(t, path, value, "a number");
        if (!(x >= -100 && x <= 100))
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path, "%s: expected -100 to 100, got %g",
                              path, x);
        /* -100 bans, as OpenAI's reference says */
        t->biases[t->p.sampling.n_biases++] =
            (clef_logit_bias){.id = (int32_t)id, .bias = x <= -100 ? -INFINITY : (float)x};
    }
    return 1;
}

static int add_sampler(serve_task *t, const char *name, size_t n, int32_t *count)
{
    clef_sampler_opts *o = &t->p.sampling;
    for (int i = 1; i < CLEF_N_SAMPLERS; i++) {
        const char *known = clef_sampler_name((clef_sampler_kind)i);
        const int is_other = i == CLEF_SAMPLER_TYPICAL && n == 9 && !memcmp(name, "typical_p", 9);
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
    if (!json_is_array(list) || !json_array_size(list))
        return bad(t, "samplers", list, "a list of names, at least one");
    json_array_foreach(list, i, name)
    {
        if (!json_is_string(name))
            return bad(t, "samplers", name, "names");
        if (!add_sampler(t, json_string_value(name), json_string_length(name), &count))
            return 0;
    }
    return 1;
}

static int set_breakers(serve_task *t)
{
    cli_list texts = {.n = 0};
    json_t *one;
    size_t i;
    if (t->p.dry_breakers && !json_is_array(t->p.dry_breakers))
        return bad(t, "dry_sequence_breakers", t->p.dry_breakers, "a list of strings");
    if (json_array_size(t->p.dry_breakers) > MOST_BREAKERS)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "dry_sequence_breakers",
                          "dry_sequence_breakers: expected at most %d", MOST_BREAKERS);
    json_array_foreach(t->p.dry_breakers, i, one)
    {
        char path[128];
        const size_t n = json_string_length(one);
        serve_path(path, "dry_sequence_breakers[%zu]", i);
        if (!json_is_string(one))
            return bad(t, path, one, "a string");
        if (n < 1 || n > MOST_BREAKER_BYTES)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "%s: expected 1 to %d bytes, got %zu", path, MOST_BREAKER_BYTES, n);
        texts.items[texts.n++] = json_string_value(one);
    }
    if (t->p.sampling.dry_multiplier == 0 || (t->p.dry_breakers && !texts.n))
        return 1;
    if (cli_dry_breakers(&texts, t->r->s->m.model, &t->breakers) == CLI_GO_ON)
        return 1;
    return serve_fail(&t->r->error, SERVE_E_INTERNAL, "dry_sequence_breakers", "no memory for the breakers");
}

/* ---- adapter --------------------------------------------------------------------------------- */

static int set_adapter(serve_task *t)
{
    const serve_model *m = &t->r->s->m;
    serve_error *e = &t->r->error;
    char names[400];
    if (!t->p.lora)
        return 1;
    if (!json_is_array(t->p.lora))
        return bad(t, "lora", t->p.lora, "a list");
    json_t *one;
    size_t i;
    int32_t found = 0;
    json_array_foreach(t->p.lora, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_t *scale = json_object_get(one, "scale");
        const int32_t number = name ? cli_adapters_find(&m->adapters, name) : 0;
        char path[128];
        serve_path(path, "lora[%zu]", i);
        if (!name)
            return bad(t, path, one, "{\"name\": .., \"scale\": ..}");
        cli_adapters_text(&m->adapters, names, sizeof names);
        if (!number)
            return serve_fail(e, SERVE_E_INVALID_VALUE, path, "%s: no adapter is named '%.63s'; adapters: %s",
                              path, name, names);
        if (scale && !json_is_null(scale) && !json_is_number(scale))
            return bad(t, path, scale, "a number for scale");
        const double x =
            json_is_number(scale) ? json_number_value(scale) : (double)m->adapter_scales[number - 1];
        if (x == 0)
            continue;
        if (fabs(x - (double)m->adapter_scales[number - 1]) > 1e-6)
            return serve_fail(e, SERVE_E_UNSUPPORTED, path,
                              "%s: '%.63s' was loaded with the scale %g, and has no other", path, name,
                              (double)m->adapter_scales[number - 1]);
        if (found)
            return serve_fail(e, SERVE_E_UNSUPPORTED, path, "%s: a text uses at most one adapter", path);
        found = number;
    }
    t->lora = found;
    return 1;
}

/* ---- constraint ------------------------------------------------------------------------------ */

static int take(serve_task *t, clef_constraint_kind kind, const char *source, size_t n, int strict,
                const char *param)
{
    const clef_constraint_opts opts = {.strict = strict,
                                       .tok = kind == CLEF_CONSTRAIN_GBNF ? t->r->s->m.tok : NULL};
    t->constraint = serve_constraints_take(t->r->s->constraints, kind, source, n, &opts, param, &t->r->error);
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

/* {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}, or the schema beside the type. */
static int set_schema(serve_task *t, const json_t *format)
{
    const json_t *inner = json_object_get(format, "json_schema"), *strict = json_object_get(inner, "strict");
    const json_t *schema = json_object_get(inner, "schema");
    const char *path = "response_format.json_schema.schema";
    if (!schema) {
        schema = json_object_get(format, "schema");
        path = schema ? "response_format.schema" : path;
        strict = schema ? json_object_get(format, "strict") : strict;
    }
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return bad(t, path, schema, "a JSON Schema");
    if (strict && !json_is_boolean(strict) && !json_is_null(strict))
        return bad(t, "response_format.json_schema.strict", strict, "true or false");
    return take_json(t, CLEF_CONSTRAIN_SCHEMA, schema, json_is_true(strict), path);
}

static int set_format(serve_task *t, int *given)
{
    static const char object[] = "{\"type\": \"object\"}";
    const json_t *format = t->p.response_format;
    const char *type = json_string_value(json_object_get(format, "type"));
    *given = 0;
    if (!format)
        return 1;
    if (!json_is_object(format))
        return bad(t, "response_format", format, "an object");
    if (!type)
        return bad(t, "response_format.type", json_object_get(format, "type"),
                   "text, json_object or json_schema");
    if (!strcmp(type, "text"))
        return 1;
    *given = 1;
    if (!strcmp(type, "json_schema"))
        return set_schema(t, format);
    if (!strcmp(type, "json_object"))
        return json_object_get(format, "schema")
                   ? set_schema(t, format)
                   : take(t, CLEF_CONSTRAIN_SCHEMA, object, strlen(object), 0, "response_format");
    return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "response_format.type",
                      "response_format.type: expected text, json_object or json_schema, got '%.40s'", type);
}

static int set_choice(serve_task *t)
{
    json_t *one;
    size_t i;
    if (!json_is_array(t->p.choice) || !json_array_size(t->p.choice) ||
        json_array_size(t->p.choice) > MOST_CHOICES)
        return bad(t, "choice", t->p.choice, "a list of 1 to 1024 strings");
    json_array_foreach(t->p.choice, i, one) if (!json_is_string(one)) return bad(t, "choice", one, "strings");
    return take_json(t, CLEF_CONSTRAIN_CHOICES, t->p.choice, 0, "choice");
}

/* The constraint on calls. "auto" begins at the tag of a call, so that the model may reason before it. */
static int set_calls(serve_task *t, int *is_auto)
{
    const serve_model *m = &t->r->s->m;
    serve_error *e = &t->r->error;
    const json_t *choice = t->p.tool_choice;
    const char *word = json_string_value(choice), *name;
    clef_tool_constraint_opts o = {.format = m->format,
                                   .tools = t->tools,
                                   .tools_bytes = t->n_tools,
                                   .parallel = t->p.parallel,
                                   .tok = m->tok};
    *is_auto = !choice || (word && !strcmp(word, "auto"));
    if (word && !*is_auto && strcmp(word, "required") != 0)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "tool_choice",
                          "tool_choice: expected none, auto, required or a function, got '%.40s'", word);
    if (choice && !word) {
        name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
        if (!name)
            return bad(t, "tool_choice.function.name",
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
    if (m->format == CLEF_TOOLS_GEMMA4 && *is_auto) /* read, but not constrained */
        return 1;
    t->constraint = serve_constraints_take_tools(t->r->s->constraints, &o, e);
    return t->constraint != NULL;
}

static int set_constraint(serve_task *t)
{
    serve_params *p = &t->p;
    int given = 0, is_auto = 0;
    const char *word = json_string_value(p->tool_choice);
    if (p->tool_choice && !t->has_tools && !(word && (!strcmp(word, "none") || !strcmp(word, "auto"))))
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "tool_choice",
                          "tool_choice: expected none or auto, since there are no tools");
    if (!set_format(t, &given))
        return 0;
    const int n = given + (p->grammar != NULL) + (p->regex != NULL) + (p->choice != NULL);
    if (n > 1)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "response_format",
                          "expected one of response_format, grammar, regex and choice");
    int ok = 1;
    if (p->grammar)
        ok = take(t, CLEF_CONSTRAIN_GBNF, p->grammar, strlen(p->grammar), 0, "grammar");
    else if (p->regex)
        ok = take(t, CLEF_CONSTRAIN_REGEX, p->regex, strlen(p->regex), 0, "regex");
    else if (p->choice)
        ok = set_choice(t);
    else if (t->has_tools && !given)
        ok = set_calls(t, &is_auto);
    if (!ok || !t->constraint)
        return ok;
    if (n && t->has_tools && word && strcmp(word, "auto") != 0)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "tool_choice",
                          "tool_choice: expected auto or none beside another constraint");
    if (p->min_tokens)
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "min_tokens",
                          "min_tokens: not together with a constraint, which says where a text may end");
    if (p->ignore_eos)
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "ignore_eos",
                          "ignore_eos: not together with a constraint, which says where a text ends");
    t->has_guide = 1;
    t->guide = (clef_guide){t->constraint, t->r->s->m.trie, t->may_think && !is_auto ? "</think>" : NULL};
    return 1;
}

int serve_task_set_picks(serve_task *t)
{
    return set_stops(t) && set_biases(t) && set_samplers(t) && set_breakers(t) && set_adapter(t) &&
           set_constraint(t);
}
