/* Custom tools of OpenAI's chats and responses. Their input is a text; for the model they are functions with
 * one argument, `input`. https://platform.openai.com/docs/guides/function-calling has them. */
#include <stdlib.h>
#include <string.h>

#include "tools/serve/base/body.h"
#include "tools/serve/forms/form.h"

/* The schema of a custom tool's input: any text, or one that a pattern matches. */
static json_t *input_schema(serve_task *t, const json_t *format, const char *path)
{
    const char *type = json_string_value(json_object_get(format, "type")),
               *syntax = json_string_value(json_object_get(format, "syntax"));
    const json_t *definition = json_object_get(format, "definition");
    json_t *schema = json_pack("{s:s}", "type", "string");
    if (!format || json_is_null(format) || (type && !strcmp(type, "text")))
        return schema;
    if (type && syntax && !strcmp(type, "grammar") && !strcmp(syntax, "regex") &&
        serve_is_plain(definition)) {
        json_object_set_new(schema, "pattern", json_sprintf("^(?:%s)$", json_string_value(definition)));
        return schema;
    }
    json_decref(schema);
    serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, path,
               "%s.format: expected text, or a grammar with the syntax regex, got '%.40s'", path,
               syntax ? syntax
               : type ? type
                      : serve_kind_of(format));
    return NULL;
}

/* A custom tool as a function with one argument, `input`. Its name is noted. NULL and an error: it cannot be.
 */
json_t *serve_custom_tool(serve_task *t, const json_t *tool, const char *path)
{
    const json_t *name = json_object_get(tool, "name"), *about = json_object_get(tool, "description");
    if (!serve_is_plain(name)) {
        serve_wrong(t->r, path, name, "a string for name");
        return NULL;
    }
    json_t *schema = input_schema(t, json_object_get(tool, "format"), path);
    if (!schema)
        return NULL;
    if (!t->customs)
        t->customs = json_object();
    json_object_set_new(t->customs, json_string_value(name), json_true());
    return json_pack("{s:s, s:{s:O, s:s, s:b, s:{s:s, s:{s:o}, s:[s], s:b}}}", "type", "function", "function",
                     "name", name, "description", json_is_string(about) ? json_string_value(about) : "",
                     "strict", 1, "parameters", "type", "object", "properties", "input", schema, "required",
                     "input", "additionalProperties", 0);
}

int serve_is_custom(const serve_task *t, const json_t *name)
{
    return json_is_string(name) && json_object_get(t->customs, json_string_value(name)) != NULL;
}

/* What it is called with: the argument of its function. Takes the arguments, and drops them. */
json_t *serve_custom_input(json_t *arguments)
{
    json_t *all = serve_body_object(json_string_value(arguments), json_string_length(arguments)),
           *input = json_incref(json_object_get(all, "input"));
    json_decref(all);
    if (!json_is_string(input)) { /* a call that was cut */
        json_decref(input);
        return arguments;
    }
    json_decref(arguments);
    return input;
}

json_t *serve_custom_arguments(const json_t *input)
{
    json_t *arguments = json_pack("{s:O}", "input", input);
    char *text = json_dumps(arguments, JSON_COMPACT);
    json_t *out = text ? json_string(text) : NULL;
    free(text);
    json_decref(arguments);
    return out;
}

/* ---- chats ----------------------------------------------------------------------------------- */

/* What is in `custom` of a value of this type; NULL: it has another type. */
static const json_t *inner_of(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    return type && !strcmp(type, "custom") ? json_object_get(value, "custom") : NULL;
}

/* As a response has it: a grammar's members are beside its type. */
static json_t *flat_tool(const json_t *inner)
{
    json_t *tool = json_copy((json_t *)(uintptr_t)inner);
    const json_t *format = json_object_get(inner, "format"), *grammar = json_object_get(format, "grammar");
    if (json_is_object(grammar)) {
        json_t *flat = json_copy((json_t *)(uintptr_t)grammar);
        json_object_set(flat, "type", json_object_get(format, "type"));
        json_object_set_new(tool, "format", flat);
    }
    return tool;
}

static int read_tools(serve_task *t)
{
    const json_t *tool;
    size_t i;
    json_array_foreach(t->p.tools, i, tool) {
        char path[128];
        const json_t *inner = inner_of(tool);
        json_t *flat = inner ? flat_tool(inner) : NULL,
               *made = flat ? serve_custom_tool(t, flat, serve_path(path, "tools[%zu].custom", i)) : NULL;
        json_decref(flat);
        if (inner && (!made || json_array_set_new(t->p.tools, i, made) != 0))
            return 0;
    }
    return 1;
}

/* The calls of a message before. */
static int read_calls(serve_task *t, const json_t *message, size_t i)
{
    json_t *calls = json_object_get(message, "tool_calls");
    const json_t *call;
    size_t k;
    json_array_foreach(calls, k, call) {
        char path[128];
        const json_t *inner = inner_of(call), *input = json_object_get(inner, "input");
        if (!inner)
            continue;
        if (!json_is_string(input) || !json_is_string(json_object_get(inner, "name")))
            return serve_wrong(t->r, serve_path(path, "messages[%zu].tool_calls[%zu].custom", i, k), inner,
                               "{\"name\", \"input\"}");
        json_array_set_new(calls, k,
                           json_pack("{s:O?, s:s, s:{s:O, s:o}}", "id", json_object_get(call, "id"), "type",
                                     "function", "function", "name", json_object_get(inner, "name"),
                                     "arguments", serve_custom_arguments(input)));
    }
    return 1;
}

int serve_custom_read(serve_task *t)
{
    const json_t *message, *name = json_object_get(inner_of(t->p.tool_choice), "name");
    size_t i;
    if (!read_tools(t))
        return 0;
    json_array_foreach(t->p.messages, i, message)
        if (!read_calls(t, message, i))
            return 0;
    if (name)
        t->p.tool_choice = serve_set_field(
            t, "tool_choice", json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name));
    return !name || t->p.tool_choice;
}

json_t *serve_custom_call(const serve_task *t, json_t *call)
{
    const json_t *function = json_object_get(call, "function"), *name = json_object_get(function, "name");
    if (!serve_is_custom(t, name))
        return json_incref(call);
    json_t *own = json_copy(call), *arguments = json_incref(json_object_get(function, "arguments"));
    json_object_del(own, "function");
    json_object_set_new(own, "type", json_string("custom"));
    json_object_set_new(own, "custom",
                        json_pack("{s:O, s:o}", "name", name, "input", serve_custom_input(arguments)));
    return own;
}
