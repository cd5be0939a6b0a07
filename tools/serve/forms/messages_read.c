/* From Anthropic's messages to those of a chat. https://docs.anthropic.com/en/api/messages has the fields. */
#include <string.h>

#include "tools/serve/forms/form.h"

int serve_wrong(serve_request *r, const char *path, const json_t *value, const char *wanted)
{
    return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected %s, got %s", path, wanted,
                      serve_kind_of(value));
}

json_t *serve_set_field(serve_task *t, const char *name, json_t *value)
{
    if (json_object_set_new(t->p.root, name, value) == 0)
        return value;
    serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    return NULL;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The messages so far, and what is collected for the next one. */
typedef struct reading {
    serve_request *r;
    json_t *messages, *parts, *calls, *reasoning;
    json_t *pictures; /* of results of calls */
} reading;

static int push(reading *w, json_t *list, json_t *value)
{
    return json_array_append_new(list, value) == 0 ||
           serve_fail(&w->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

static int add_text(reading *w, json_t *list, const json_t *text, const char *path)
{
    if (!json_is_string(text))
        return serve_wrong(w->r, path, text, "a string");
    return push(w, list, json_pack("{s:s, s:O}", "type", "text", "text", text));
}

static int add_text_block(reading *w, json_t *list, const json_t *block, const char *path)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (!type)
        return serve_wrong(w->r, path, block, "a block with a type");
    return strcmp(type, "text") == 0
               ? add_text(w, list, json_object_get(block, "text"), path)
               : serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, path,
                            "%s: not supported here: a block of type '%.40s'", path, type);
}

/* A string, or a list of blocks of text, as parts. */
static int add_texts(reading *w, json_t *list, const json_t *content, const char *path)
{
    char inner[128];
    const json_t *block;
    size_t k;
    if (json_is_string(content))
        return add_text(w, list, content, path);
    if (!json_is_array(content))
        return serve_wrong(w->r, path, content, "a string or a list of blocks");
    json_array_foreach(content, k, block)
        if (!add_text_block(w, list, block, serve_path(inner, "%.100s[%zu]", path, k)))
            return 0;
    return 1;
}

/* Adds a message; to the last one where both are of one role and call nothing: Anthropic's API makes one of
 * them. */
static int add_turn(reading *w, json_t *message)
{
    json_t *last = json_array_get(w->messages, json_array_size(w->messages) - 1),
           *reasoning = json_object_get(message, "reasoning_content");
    if (!last || !json_equal(json_object_get(last, "role"), json_object_get(message, "role")) ||
        json_object_get(last, "tool_calls") || json_object_get(message, "tool_calls"))
        return push(w, w->messages, message);
    const int ok =
        json_array_extend(json_object_get(last, "content"), json_object_get(message, "content")) == 0 &&
        (!reasoning || json_object_get(last, "reasoning_content") ||
         json_object_set(last, "reasoning_content", reasoning) == 0);
    json_decref(message);
    return ok || serve_fail(&w->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

/* Ends the message that is being collected, if there is anything of it. */
static int end_message(reading *w, const char *role)
{
    json_t *parts = w->parts, *message;
    if (!json_array_size(parts) && !json_array_size(w->calls) && !json_array_size(w->reasoning))
        return 1;
    message = json_pack("{s:s, s:O}", "role", role, "content", parts);
    w->parts = json_array();
    json_decref(parts);
    if (json_array_size(w->calls))
        json_object_set(message, "tool_calls", w->calls);
    if (json_array_size(w->reasoning))
        json_object_set(message, "reasoning_content", json_array_get(w->reasoning, 0));
    json_decref(w->calls);
    json_decref(w->reasoning);
    w->calls = json_array();
    w->reasoning = json_array();
    return add_turn(w, message);
}

/* A picture in base64, as a part of a chat. */
static int add_image(reading *w, json_t *list, const json_t *block, const char *path)
{
    const json_t *source = json_object_get(block, "source"), *data = json_object_get(source, "data");
    const char *type = json_string_value(json_object_get(source, "type"));
    if (!type || strcmp(type, "base64") != 0)
        return serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, path,
                          "%s: not supported: an image whose source is not of type 'base64'; this server "
                          "fetches nothing",
                          path);
    if (!serve_is_plain(data))
        return serve_wrong(w->r, path, data, "a string in source.data");
    json_t *url = json_sprintf("data:;base64,%s", json_string_value(data));
    return push(w, list,
                url ? json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url", url) : NULL);
}

/* What a search found: its texts. */
static int add_found(reading *w, json_t *texts, const json_t *block, const char *path)
{
    char inner[128];
    return add_texts(w, texts, json_object_get(block, "content"), serve_path(inner, "%.100s.content", path));
}

/* What a call returned: its texts go into `texts`, its pictures into those of the user's message. */
static int add_returned(reading *w, json_t *texts, const json_t *content, const char *path)
{
    char inner[128];
    const json_t *block;
    size_t k;
    if (!json_is_array(content))
        return add_texts(w, texts, content, path);
    json_array_foreach(content, k, block) {
        const char *type = json_string_value(json_object_get(block, "type"));
        serve_path(inner, "%.100s[%zu]", path, k);
        if (!(type && !strcmp(type, "image")           ? add_image(w, w->pictures, block, inner)
              : type && !strcmp(type, "search_result") ? add_found(w, texts, block, inner)
                                                       : add_text_block(w, texts, block, inner)))
            return 0;
    }
    return 1;
}

/* The result of a call: a message of its own. Templates know no pictures in it, so these begin the user's
 * message after the results. */
static int add_result(reading *w, const json_t *block, const char *path)
{
    char inner[128];
    const json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content"),
                 *failed = json_object_get(block, "is_error");
    if (failed && !json_is_null(failed) && !json_is_boolean(failed))
        return serve_wrong(w->r, serve_path(inner, "%.100s.is_error", path), failed, "true or false");
    if (!json_is_string(id))
        return serve_wrong(w->r, serve_path(inner, "%.100s.tool_use_id", path), id, "a string");
    json_t *parts = json_array();
    int ok = end_message(w, "user");
    if (ok && content && !json_is_null(content))
        ok = add_returned(w, parts, content, serve_path(inner, "%.100s.content", path));
    return push(w, w->messages,
                json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", parts)) &&
           ok;
}

static int add_call(reading *w, const json_t *block, const char *path)
{
    char inner[128];
    const json_t *input = json_object_get(block, "input");
    static const char *const names[] = {"id", "name"};
    for (int i = 0; i < 2; i++)
        if (!serve_is_plain(json_object_get(block, names[i])))
            return serve_wrong(w->r, serve_path(inner, "%.100s.%s", path, names[i]),
                               json_object_get(block, names[i]), "a string");
    if (!json_is_object(input))
        return serve_wrong(w->r, serve_path(inner, "%.100s.input", path), input, "an object");
    return push(w, w->calls,
                json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", json_object_get(block, "id"), "type", "function",
                          "function", "name", json_object_get(block, "name"), "arguments", input));
}

/* A text as a document. */
static int add_document(reading *w, const json_t *block, const char *path)
{
    const json_t *source = json_object_get(block, "source");
    const char *type = json_string_value(json_object_get(source, "type"));
    if (!type || strcmp(type, "text") != 0)
        return serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, path,
                          "%s: not supported: a document whose source is not of type 'text'", path);
    return add_text(w, w->parts, json_object_get(source, "data"), path);
}

static int add_thinking(reading *w, const json_t *block, const char *path)
{
    const json_t *text = json_object_get(block, "thinking");
    if (!json_is_string(text))
        return serve_wrong(w->r, path, text, "a string for thinking");
    return json_array_size(w->reasoning) || push(w, w->reasoning, json_incref((json_t *)(uintptr_t)text));
}

static int add_block(reading *w, const json_t *block, int is_user, const char *path)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (!type)
        return serve_wrong(w->r, path, block, "a block with a type");
    if (!strcmp(type, "text"))
        return add_text(w, w->parts, json_object_get(block, "text"), path);
    if (is_user && !strcmp(type, "tool_result"))
        return add_result(w, block, path);
    if (is_user && !strcmp(type, "image"))
        return add_image(w, w->parts, block, path);
    if (is_user && !strcmp(type, "document"))
        return add_document(w, block, path);
    if (is_user && !strcmp(type, "search_result"))
        return add_found(w, w->parts, block, path);
    if (!is_user && !strcmp(type, "redacted_thinking")) /* encrypted: another server made it */
        return 1;
    if (!is_user && !strcmp(type, "tool_use"))
        return add_call(w, block, path);
    if (!is_user && !strcmp(type, "thinking"))
        return add_thinking(w, block, path);
    return serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, path,
                      "%s: not supported: a block of type '%.40s' in a message of the %s", path, type,
                      is_user ? "user" : "assistant");
}

/* ---- messages -------------------------------------------------------------------------------- */

static int add_message(reading *w, size_t i, const json_t *message)
{
    char path[128];
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content"), *block;
    size_t k;
    serve_path(path, "messages[%zu].role", i);
    if (!role)
        return serve_wrong(w->r, path, json_object_get(message, "role"), "user, assistant or system");
    const int is_system = !strcmp(role, "system"), is_user = !strcmp(role, "user");
    if (!is_user && !is_system && strcmp(role, "assistant") != 0)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, path,
                          "%s: expected user, assistant or system, got '%.40s'", path, role);
    serve_path(path, "messages[%zu].content", i);
    if (is_system || json_is_string(content))
        return add_texts(w, w->parts, content, path) && end_message(w, role);
    if (!json_is_array(content))
        return serve_wrong(w->r, path, content, "a string or a list of blocks");
    json_array_foreach(content, k, block)
        if (!add_block(w, block, is_user, serve_path(path, "messages[%zu].content[%zu]", i, k)))
            return 0;
    json_array_extend(w->pictures, w->parts);
    json_array_clear(w->parts);
    json_array_extend(w->parts, w->pictures);
    json_array_clear(w->pictures);
    return end_message(w, role);
}

/* A last message of the assistant is continued, if it has a text: its blocks are one, as templates get them.
 */
static void continue_last(serve_params *p)
{
    json_t *last = json_array_get(p->messages, json_array_size(p->messages) - 1),
           *content = json_object_get(last, "content");
    const char *role = json_string_value(json_object_get(last, "role"));
    if (!role || strcmp(role, "assistant") != 0 || json_object_get(last, "tool_calls"))
        return;
    serve_buffer all = {0};
    p->continue_final = serve_message_text(content, "\n", &all);
    json_object_set_new(last, "content", json_stringn(all.p ? all.p : "", all.n));
    serve_buffer_free(&all);
}

static int read_messages(serve_task *t)
{
    serve_params *p = &t->p;
    reading w = {t->r, json_array(), json_array(), json_array(), json_array(), json_array()};
    const json_t *message;
    size_t i;
    int ok = 1;
    if (p->system) {
        ok = add_texts(&w, w.parts, p->system, "system") && end_message(&w, "system");
    }
    if (ok && !json_is_array(p->messages))
        ok = serve_wrong(t->r, "messages", p->messages, "a list");
    json_array_foreach(p->messages, i, message)
        ok = ok && add_message(&w, i, message);
    json_decref(w.parts);
    json_decref(w.calls);
    json_decref(w.reasoning);
    json_decref(w.pictures);
    if (!ok) {
        json_decref(w.messages);
        return 0;
    }
    p->messages = serve_set_field(t, "messages", w.messages);
    if (p->messages)
        continue_last(p);
    return p->messages != NULL;
}

/* ---- tools ----------------------------------------------------------------------------------- */

static int add_tool(serve_request *r, json_t *tools, size_t i, const json_t *tool)
{
    char path[128];
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *description = json_object_get(tool, "description"),
                 *strict = json_object_get(tool, "strict");
    serve_path(path, "tools[%zu].type", i);
    if (type && strcmp(type, "custom") != 0)
        return serve_fail(&r->error, SERVE_E_UNSUPPORTED, path,
                          "%s: not supported: '%.40s'; clef knows tools of type custom", path, type);
    if (!json_is_object(json_object_get(tool, "input_schema")))
        return serve_wrong(r, serve_path(path, "tools[%zu].input_schema", i),
                           json_object_get(tool, "input_schema"), "a JSON Schema");
    if (!json_is_string(json_object_get(tool, "name")))
        return serve_wrong(r, serve_path(path, "tools[%zu].name", i), json_object_get(tool, "name"),
                           "a string");
    if (description && !json_is_string(description) && !json_is_null(description))
        return serve_wrong(r, serve_path(path, "tools[%zu].description", i), description, "a string");
    if (strict && !json_is_boolean(strict) && !json_is_null(strict))
        return serve_wrong(r, serve_path(path, "tools[%zu].strict", i), strict, "true or false");
    json_t *function = json_pack("{s:O, s:O}", "name", json_object_get(tool, "name"), "parameters",
                                 json_object_get(tool, "input_schema"));
    if (json_is_string(description))
        json_object_set(function, "description", (json_t *)(uintptr_t)description);
    if (json_is_true(strict))
        json_object_set_new(function, "strict", json_true());
    return json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function)) ==
               0 ||
           serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

static int read_tools(serve_task *t)
{
    json_t *tools = json_array();
    const json_t *tool;
    size_t i;
    if (!json_is_array(t->p.tools)) {
        json_decref(tools);
        return serve_wrong(t->r, "tools", t->p.tools, "a list");
    }
    json_array_foreach(t->p.tools, i, tool)
        if (!add_tool(t->r, tools, i, tool)) {
            json_decref(tools);
            return 0;
        }
    t->p.tools = serve_set_field(t, "tools", tools);
    return t->p.tools != NULL;
}

/* {"type": auto, any, none or tool, "name", "disable_parallel_tool_use"}. */
static int read_tool_choice(serve_task *t)
{
    const json_t *choice = t->p.tool_choice, *name = json_object_get(choice, "name"),
                 *alone = json_object_get(choice, "disable_parallel_tool_use");
    const char *type = json_string_value(json_object_get(choice, "type"));
    json_t *own = NULL;
    if (!type)
        return serve_wrong(t->r, "tool_choice", choice,
                           "{\"type\": \"auto\", \"any\", \"tool\" or \"none\"}");
    if (alone && !json_is_boolean(alone))
        return serve_wrong(t->r, "tool_choice.disable_parallel_tool_use", alone, "true or false");
    t->p.parallel = !json_is_true(alone);
    if (!strcmp(type, "auto") || !strcmp(type, "none"))
        own = json_string(type);
    else if (!strcmp(type, "any"))
        own = json_string("required");
    else if (!strcmp(type, "tool") && json_is_string(name))
        own = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
    else if (!strcmp(type, "tool"))
        return serve_wrong(t->r, "tool_choice.name", name, "the name of a tool");
    else
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "tool_choice.type",
                          "tool_choice.type: expected auto, any, tool or none, got '%.40s'", type);
    t->p.tool_choice = serve_set_field(t, "tool_choice", own);
    return t->p.tool_choice != NULL;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* {"effort", "format": {"type": "json_schema", "schema"}}. */
static int read_output(serve_task *t)
{
    const json_t *effort = json_object_get(t->p.output, "effort");
    json_t *format = json_object_get(t->p.output, "format");
    if (!json_is_object(t->p.output))
        return serve_wrong(t->r, "output_config", t->p.output, "an object");
    if (effort && !json_is_null(effort) && !serve_is_plain(effort))
        return serve_wrong(t->r, "output_config.effort", effort, "a string");
    if (json_is_string(effort))
        t->p.reasoning_effort = json_string_value(effort);
    if (format && !json_is_null(format) && t->p.response_format)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "output_config.format",
                          "output_config.format and output_format are one field, and have two values");
    if (format && !json_is_null(format))
        t->p.response_format = format;
    return 1;
}

int serve_messages_read(serve_task *t)
{
    serve_params *p = &t->p;
    if (p->form == SERVE_FORM_MESSAGES && p->max_tokens < 0)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "max_tokens", "max_tokens: it is required");
    p->enable_thinking = 0; /* where nothing asks for it */
    return read_messages(t) && (!p->tools || read_tools(t)) && (!p->tool_choice || read_tool_choice(t)) &&
           (!p->thinking || serve_read_thinking(t)) && (!p->output || read_output(t));
}
