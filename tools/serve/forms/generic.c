/* Tools for models whose template has no format of calls that clef reads: the messages themselves say how a
 * call is written (format `json`), and calls and results before are texts. */
#include <stdlib.h>
#include <string.h>

#include "tools/serve/base/body.h"
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
        if (i) /* as templates get them */
            serve_buffer_add(&all, "\n", 1);
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

/* The parts of a content, of which pictures are not texts. NULL: no memory. */
static json_t *parts_of(const json_t *content)
{
    if (json_is_array(content))
        return json_copy((json_t *)(uintptr_t)content);
    return json_is_string(content) ? json_pack("[{s:s, s:O}]", "type", "text", "text", content)
                                   : json_array();
}

static int has_pictures(const json_t *content)
{
    const json_t *part;
    size_t i;
    json_array_foreach(content, i, part) {
        if (!json_is_string(json_object_get(part, "text")))
            return 1;
    }
    return 0;
}

/* What two messages say, one behind the other: a text, or parts where one of them has pictures. NULL: no
 * memory. */
static json_t *said_by(const json_t *first, const char *between, const json_t *second)
{
    const json_t *a = json_object_get(first, "content"), *b = json_object_get(second, "content");
    if (!has_pictures(a) && !has_pictures(b)) {
        json_t *text = text_of(second);
        json_t *both =
            text ? joined(text_of(first), between, json_string_value(text), json_string_length(text)) : NULL;
        json_decref(text);
        return both;
    }
    json_t *parts = parts_of(a), *more = parts_of(b);
    const int failed =
        !parts || !more ||
        (json_array_size(parts) &&
         json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "text", "text", between))) ||
        json_array_extend(parts, more);
    json_decref(more);
    if (failed)
        json_decref(parts);
    return failed ? NULL : parts;
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
                                ? serve_body_object(json_string_value(given), json_string_length(given))
                                : NULL;
        json_array_append_new(list,
                              json_pack("{s:O, s:o}", "name", json_object_get(function, "name"), "arguments",
                                        arguments ? arguments : json_incref((json_t *)(uintptr_t)given)));
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

/* Adds what a user says to the last message if that is the user's, too; else as a message of its own. */
static int add(json_t *out, json_t *content)
{
    json_t *last = json_array_get(out, json_array_size(out) - 1),
           *message = json_pack("{s:s, s:o}", "role", "user", "content", content);
    const char *of = json_string_value(json_object_get(last, "role"));
    if (!message || !of || strcmp(of, "user") != 0)
        return json_array_append_new(out, message) == 0;
    json_t *own = json_copy(last); /* the last one may be the request's */
    const int ok = own && json_object_set_new(own, "content", said_by(last, "\n\n", message)) == 0;
    json_decref(message);
    return json_array_set_new(out, json_array_size(out) - 1, own) == 0 && ok;
}

static int add_result(json_t *out, const json_t *messages, const json_t *message)
{
    json_t *text = text_of(message), *head;
    head = json_sprintf("Result of %.64s:\n",
                        called(messages, json_string_value(json_object_get(message, "tool_call_id"))));
    json_t *both = text ? joined(head, "", json_string_value(text), json_string_length(text)) : NULL;
    json_decref(text);
    return both && add(out, both);
}

/* A message other than a result; `follows`: one is before it. */
static int add_message(json_t *out, json_t *message, int follows)
{
    json_t *calls = json_object_get(message, "tool_calls"), *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    if (follows && role && !strcmp(role, "user"))
        return add(out, content ? json_incref(content) : json_string(""));
    if (!json_array_size(calls))
        return json_array_append(out, message) == 0;
    json_t *own = json_copy(message);
    char *text = calls_text(calls);
    json_t *said = text ? json_pack("{s:s}", "content", text) : NULL;
    json_object_del(own, "tool_calls");
    const int ok = own && said && !json_object_set_new(own, "content", said_by(message, "\n", said));
    json_decref(said);
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
    json_t *own = json_copy(first), *rules = json_pack("{s:o}", "content", text);
    json_object_set_new(own, "content", rules ? said_by(rules, "\n\n", first) : NULL);
    json_decref(rules);
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
    serve_images_as_parts(p);
    return 1;
}
