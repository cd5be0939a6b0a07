/* Tools for models whose template has no format of calls that clef reads: the messages themselves say how a
 * call is written (format `json`), and calls and results before are texts. */
#include <stdlib.h>
#include <string.h>

#include "tools/serve/forms/form.h"

static const char before[] = "You can call these functions:\n",
                  after[] =
                      "\nTo call functions, answer with nothing but a JSON object of this form: "
                      "{\"tool_calls\": [{\"name\": \"FUNCTION\", \"arguments\": {}}]}\n"
                      "You get the results, and can then answer with a text. Call no function that the list "
                      "does not have. If none is needed, answer with a text.";

/* The text of a message, also one of parts. NULL: no memory. */
static json_t *text_of(const json_t *message)
{
    const json_t *content = json_object_get(message, "content"), *part;
    serve_buffer all = {0};
    size_t i;
    if (json_is_string(content))
        return json_incref((json_t *)(uintptr_t)content);
    json_array_foreach(content, i, part) {
        const json_t *text = json_object_get(part, "text");
        if (json_is_string(text))
            serve_buffer_add(&all, json_string_value(text), json_string_length(text));
    }
    json_t *text = all.failed ? NULL : json_stringn(all.p ? all.p : "", all.n);
    serve_buffer_free(&all);
    return text;
}

/* A text with another one behind it; drops the first. NULL: no memory. */
static json_t *joined(json_t *first, const char *between, const char *text, size_t n)
{
    serve_buffer all = {0};
    if (first && json_string_length(first)) {
        serve_buffer_add(&all, json_string_value(first), json_string_length(first));
        serve_buffer_add(&all, between, strlen(between));
    }
    serve_buffer_add(&all, text, n);
    json_t *made = first && !all.failed ? json_stringn(all.p ? all.p : "", all.n) : NULL;
    json_decref(first);
    serve_buffer_free(&all);
    return made;
}

/* The calls of a message as the model would have written them. NULL: no memory. */
static char *calls_text(const json_t *calls)
{
    json_t *list = json_array();
    const json_t *call;
    size_t i;
    json_array_foreach(calls, i, call) {
        const json_t *function = json_object_get(call, "function"),
                     *given = json_object_get(function, "arguments");
        json_t *arguments = json_is_string(given)
                                ? json_loadb(json_string_value(given), json_string_length(given), 0, NULL)
                                : json_incref((json_t *)(uintptr_t)given);
        json_array_append_new(list, json_pack("{s:O, s:o}", "name", json_object_get(function, "name"),
                                              "arguments", arguments ? arguments : json_object()));
    }
    json_t *all = json_pack("{s:o}", "tool_calls", list);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

/* The name of the function whose call has an id; "the call" where there is none. */
static const char *called(const json_t *messages, const char *id)
{
    const char *found = "the call";
    const json_t *message, *call;
    size_t i, k;
    json_array_foreach(messages, i, message) {
        json_array_foreach(json_object_get(message, "tool_calls"), k, call) {
            const char *own = json_string_value(json_object_get(call, "id")),
                       *name = json_string_value(json_object_get(json_object_get(call, "function"), "name"));
            if (id && own && name && !strcmp(own, id))
                found = name;
        }
    }
    return found;
}

/* Adds a text to the last message if that has the same role and `joins`; else as a message of its own. */
static int add(json_t *out, const char *role, json_t *text, int joins)
{
    json_t *last = json_array_get(out, json_array_size(out) - 1);
    const char *of = json_string_value(json_object_get(last, "role"));
    if (!joins || !of || strcmp(of, role) != 0)
        return json_array_append_new(out, json_pack("{s:s, s:o}", "role", role, "content", text)) == 0;
    json_t *both = joined(text_of(last), "\n\n", json_string_value(text), json_string_length(text));
    json_decref(text);
    return json_object_set_new(last, "content", both) == 0;
}

static int add_result(json_t *out, const json_t *messages, const json_t *message)
{
    json_t *text = text_of(message), *head;
    head = json_sprintf("Result of %.64s:\n",
                        called(messages, json_string_value(json_object_get(message, "tool_call_id"))));
    json_t *both = text ? joined(head, "", json_string_value(text), json_string_length(text)) : NULL;
    json_decref(text);
    return both && add(out, "user", both, 1);
}

/* A message other than a result; `follows`: one is before it. */
static int add_message(json_t *out, json_t *message, int follows)
{
    json_t *calls = json_object_get(message, "tool_calls");
    const char *role = json_string_value(json_object_get(message, "role"));
    if (follows && role && !strcmp(role, "user"))
        return add(out, "user", text_of(message), 1);
    if (!json_array_size(calls))
        return json_array_append(out, message) == 0;
    json_t *own = json_copy(message);
    char *text = calls_text(calls);
    json_object_del(own, "tool_calls");
    const int ok = own && text &&
                   !json_object_set_new(own, "content", joined(text_of(message), "\n", text, strlen(text)));
    free(text);
    return json_array_append_new(out, own) == 0 && ok;
}

/* What the functions are, in the system's message; where the template has none, in the first one. */
static int add_tools(json_t *out, const char *tools, size_t n, int has_system)
{
    json_t *first = json_array_get(out, 0), *text = json_stringn(before, sizeof before - 1);
    const char *role = json_string_value(json_object_get(first, "role"));
    text = joined(text, "", tools, n);
    text = joined(text, "", after, sizeof after - 1);
    if (!text)
        return 0;
    if (has_system && !(role && !strcmp(role, "system")))
        return json_array_insert_new(out, 0, json_pack("{s:s, s:o}", "role", "system", "content", text)) == 0;
    json_t *said = text_of(first), *own = json_copy(first);
    json_object_set_new(own, "content",
                        said ? joined(text, "\n\n", json_string_value(said), json_string_length(said))
                             : NULL);
    json_decref(said);
    return json_array_set_new(out, 0, own) == 0 && json_object_get(own, "content");
}

int serve_generic_tools(serve_request *r, serve_params *p, const char *tools, size_t n)
{
    size_t i, size = 0;
    json_t *out = json_array(), *message;
    const char *source = r->m->template ? clef_template_source(r->m->template, &size) : "";
    int ok = out != NULL, follows = 0;
    json_array_foreach(p->messages, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        const int is_result = role && !strcmp(role, "tool");
        ok = ok && (is_result ? add_result(out, p->messages, message) : add_message(out, message, follows));
        follows = is_result;
    }
    if (ok && tools)
        ok = add_tools(out, tools, n, strstr(source, "system") != NULL);
    if (!ok || json_object_set_new(p->root, "messages", out) != 0)
        return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    p->messages = out;
    return 1;
}
