/* From OpenAI's responses to the messages of a chat. https://platform.openai.com/docs/api-reference/responses
 * has the fields. */
#include <stdlib.h>
#include <string.h>

#include "tools/serve/base/body.h"
#include "tools/serve/base/responses.h"
#include "tools/serve/forms/form.h"

/* ---- items ----------------------------------------------------------------------------------- */

enum { MOST_REFERENCES = 128 }; /* each may take reading all that is stored of a response */

/* The messages so far, and the items that they were, with their ids; NULL: nobody will ask for these.
 * `reasoning` waits for the assistant's next message. */
typedef struct reading {
    serve_request *r;
    json_t *messages, *items, *ids, *reasoning;
    int32_t n_references;
} reading;

static int push(reading *w, json_t *list, json_t *value)
{
    return json_array_append_new(list, value) == 0 ||
           serve_fail(&w->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

/* With `path` errors of the picture name it as the client wrote it. */
static int add_image(reading *w, json_t *list, const json_t *part, const char *path)
{
    json_t *url = json_object_get(part, "image_url");
    char own[128];
    serve_path(own, "%.100s.image_url", path);
    return json_is_string(url) ? push(w, list,
                                      json_pack("{s:s, s:{s:O}, s:s}", "type", "image_url", "image_url",
                                                "url", url, "path", own))
                               : serve_wrong(w->r, own, url, "a string");
}

/* A string, or a list of parts: of text, and of the user also pictures. */
static int add_parts(reading *w, json_t *list, const json_t *content, const char *path, int is_user)
{
    static const char *const types[] = {"input_text", "output_text", "text", "summary_text",
                                        "reasoning_text"};
    char inner[128];
    const json_t *part;
    size_t k;
    if (json_is_string(content))
        return push(w, list, json_pack("{s:s, s:O}", "type", "text", "text", content));
    if (!json_is_array(content))
        return serve_wrong(w->r, path, content, "a string or a list of parts");
    json_array_foreach(content, k, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const int is_refusal = type && !strcmp(type, "refusal");
        const json_t *text = json_object_get(part, is_refusal ? "refusal" : "text");
        int known = is_refusal;
        for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
            known |= !strcmp(type, types[i]);
        serve_path(inner, "%.100s[%zu]", path, k);
        if (!type)
            return serve_wrong(w->r, inner, part, "a part with a type");
        if (is_user && !strcmp(type, "input_image")) {
            if (!add_image(w, list, part, inner))
                return 0;
            continue;
        }
        if (!known)
            return serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, inner,
                              "%s: not supported: a part of type '%.40s'; clef reads text, and pictures "
                              "(input_image) of the user",
                              inner, type);
        if (!json_is_string(text))
            return serve_wrong(w->r, inner, text, "a string for text");
        if (!push(w, list, json_pack("{s:s, s:O}", "type", "text", "text", text)))
            return 0;
    }
    return 1;
}

static int add_texts(reading *w, json_t *list, const json_t *content, const char *path)
{
    return add_parts(w, list, content, path, 0);
}

/* The message of the assistant to which an item belongs: the last one, or a new one. */
static json_t *assistant_message(reading *w, int is_text)
{
    json_t *last = json_array_get(w->messages, json_array_size(w->messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    const int goes_on = role && !strcmp(role, "assistant") && !w->reasoning &&
                        !(is_text && json_object_get(last, "tool_calls"));
    if (goes_on)
        return last;
    last = json_pack("{s:s, s:[]}", "role", "assistant", "content");
    if (last && w->reasoning)
        json_object_set_new(last, "reasoning_content", w->reasoning);
    w->reasoning = NULL;
    return push(w, w->messages, last) ? last : NULL;
}

static int add_message(reading *w, const json_t *item, const char *path)
{
    char inner[128];
    const json_t *role = json_object_get(item, "role"), *content = json_object_get(item, "content");
    serve_path(inner, "%.100s.content", path);
    if (!serve_is_plain(role))
        return serve_wrong(w->r, path, role, "a role");
    if (!strcmp(json_string_value(role), "assistant")) {
        json_t *message = assistant_message(w, 1);
        return message && add_texts(w, json_object_get(message, "content"), content, inner);
    }
    json_t *parts = json_array();
    const int ok = add_parts(w, parts, content, inner, !strcmp(json_string_value(role), "user"));
    return push(w, w->messages, json_pack("{s:O, s:o}", "role", role, "content", parts)) && ok;
}

static int need_text(reading *w, const json_t *item, const char *name, const char *path)
{
    char inner[128];
    const json_t *text = json_object_get(item, name);
    return serve_is_plain(text) ||
           serve_wrong(w->r, serve_path(inner, "%.100s.%s", path, name), text, "a string");
}

static int add_call(reading *w, const json_t *item, const char *path)
{
    if (!need_text(w, item, "call_id", path) || !need_text(w, item, "name", path) ||
        !need_text(w, item, "arguments", path))
        return 0;
    json_t *message = assistant_message(w, 0), *calls = json_object_get(message, "tool_calls");
    if (message && !calls) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    return message && push(w, calls,
                           json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", json_object_get(item, "call_id"),
                                     "type", "function", "function", "name", json_object_get(item, "name"),
                                     "arguments", json_object_get(item, "arguments")));
}

/* A call of a custom tool, whose input is the argument of a function here. */
static int add_custom_call(reading *w, const json_t *item, const char *path)
{
    if (!need_text(w, item, "input", path))
        return 0;
    json_t *own = json_copy((json_t *)(uintptr_t)item),
           *arguments = serve_custom_arguments(json_object_get(item, "input"));
    json_object_set_new(own, "arguments", arguments);
    const int ok = arguments ? add_call(w, own, path)
                             : serve_fail(&w->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    json_decref(own);
    return ok;
}

static int add_output(reading *w, const json_t *item, const char *path)
{
    char inner[128];
    json_t *parts = json_array();
    int ok = need_text(w, item, "call_id", path) &&
             add_texts(w, parts, json_object_get(item, "output"), serve_path(inner, "%.100s.output", path));
    if (!ok) {
        json_decref(parts);
        return 0;
    }
    return push(w, w->messages,
                json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", json_object_get(item, "call_id"),
                          "content", parts));
}

/* Its text, or else its summary; nothing where it is encrypted: another server made it. */
static int add_reasoning(reading *w, const json_t *item, const char *path)
{
    const json_t *content = json_object_get(item, "content"), *summary = json_object_get(item, "summary");
    const json_t *from = json_array_size(content) ? content : summary;
    json_t *parts = json_array();
    const int ok = !from || json_is_null(from) || add_texts(w, parts, from, path);
    if (ok && json_array_size(parts)) {
        json_decref(w->reasoning);
        w->reasoning = json_incref(json_object_get(json_array_get(parts, 0), "text"));
    }
    json_decref(parts);
    return ok;
}

/* Keeps an item as GET .../input_items has it. */
static int keep_item(reading *w, const json_t *item, const char *type, const char *id)
{
    const json_t *content = json_object_get(item, "content"), *role = json_object_get(item, "role");
    const int is_reply = json_is_string(role) && !strcmp(json_string_value(role), "assistant");
    char own_id[40];
    json_t *own = json_copy((json_t *)(uintptr_t)item);
    snprintf(own_id, sizeof own_id, "%s", id);
    serve_random_letters(own_id + strlen(own_id), 24);
    json_object_set_new(own, "type", json_string(type));
    if (!json_is_string(json_object_get(own, "id")))
        json_object_set_new(own, "id", json_string(own_id));
    if (!json_is_string(json_object_get(own, "status")) && strcmp(type, "reasoning") != 0)
        json_object_set_new(own, "status", json_string("completed"));
    if (json_is_string(content) && is_reply)
        json_object_set_new(
            own, "content",
            json_pack("[{s:s, s:O, s:[]}]", "type", "output_text", "text", content, "annotations"));
    else if (json_is_string(content))
        json_object_set_new(own, "content", json_pack("[{s:s, s:O}]", "type", "input_text", "text", content));
    return push(w, w->items, own) && push(w, w->ids, json_incref(json_object_get(own, "id")));
}

static int read_item(reading *w, const json_t *item, const char *path)
{
    static const struct {
        const char *type, *id;
        int (*add)(reading *w, const json_t *item, const char *path);
    } types[] = {{"message", "msg_", add_message},
                 {"function_call", "fc_", add_call},
                 {"function_call_output", "fco_", add_output},
                 {"custom_tool_call", "ctc_", add_custom_call},
                 {"custom_tool_call_output", "ctco_", add_output},
                 {"reasoning", "rs_", add_reasoning}};
    const json_t *given = json_object_get(item, "type");
    const char *type = given ? json_string_value(given) : "message";
    if (!json_is_object(item) || !type)
        return serve_wrong(w->r, path, item, "an item with a type");
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (!strcmp(type, types[k].type))
            return types[k].add(w, item, path) && (!w->items || keep_item(w, item, type, types[k].id));
    return serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, path, "%s: not supported: an item of type '%.40s'",
                      path, type);
}

/* {"type": "item_reference", "id"}, where the type may be left out. */
static int is_reference(const json_t *item)
{
    const json_t *type = json_object_get(item, "type");
    return json_is_string(type) ? !strcmp(json_string_value(type), "item_reference")
                                : json_object_get(item, "id") && !json_object_get(item, "role");
}

static int add_item(reading *w, size_t i, const json_t *item)
{
    char path[128];
    serve_path(path, "input[%zu]", i);
    if (!is_reference(item))
        return read_item(w, item, path);
    if (++w->n_references > MOST_REFERENCES)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, path,
                          "%s: expected at most %d items that are named by an id alone", path,
                          MOST_REFERENCES);
    json_t *stored = serve_responses_item(w->r, json_object_get(item, "id"), path);
    const int ok = stored && read_item(w, stored, path);
    json_decref(stored);
    return ok;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int hold(void *user, size_t n_bytes)
{
    return serve_hold(user, n_bytes);
}

/* Reads a text of the store, and frees it: what its values take is held. NULL: there is none, or an error. */
static json_t *read_stored(serve_request *r, char *text, serve_stored what)
{
    const serve_body_opts opts = {.hold = hold, .user = r, .is_list = what != SERVE_STORED_RESPONSE};
    const size_t n = text ? strlen(text) : 0;
    serve_body body = {.root = NULL};
    if (text && serve_hold(r, n)) {
        if (!serve_body_read(text, n, &opts, &body, &r->error)) {
            json_decref(body.root);
            body.root = NULL;
        }
        serve_let_all_but(r, r->n_held - n);
    }
    free(text);
    return body.root;
}

json_t *serve_responses_stored(serve_request *r, const char *id, serve_stored what, const char *param)
{
    char *text = serve_responses_find(r->s->responses, r->tenant, id, what);
    if (!text)
        serve_fail(&r->error, SERVE_E_STORED, param, "%s%sthere is no response '%.60s' (any more)",
                   param ? param : "", param ? ": " : "", id);
    return read_stored(r, text, what);
}

static json_t *with_id(const json_t *items, const json_t *id)
{
    json_t *one;
    size_t i;
    json_array_foreach(items, i, one)
        if (json_equal(json_object_get(one, "id"), id))
            return json_incref(one);
    return NULL;
}

json_t *serve_responses_item(serve_request *r, const json_t *id, const char *path)
{
    static const serve_stored places[] = {SERVE_STORED_ITEMS, SERVE_STORED_RESPONSE};
    json_t *found = NULL;
    if (!serve_is_plain(id)) {
        serve_wrong(r, path, id, "a string for id");
        return NULL;
    }
    for (int i = 0; i < 2 && !found && !r->error.id; i++) {
        const size_t n_held = r->n_held;
        json_t *stored = read_stored(
            r, serve_responses_find_item(r->s->responses, r->tenant, json_string_value(id), places[i]),
            places[i]);
        found = with_id(json_is_array(stored) ? stored : json_object_get(stored, "output"), id);
        json_decref(stored);
        serve_let_all_but(r, n_held);
    }
    if (found && !serve_hold(r, 4 * json_dumpb(found, NULL, 0, JSON_COMPACT))) { /* of what stays */
        json_decref(found);
        return NULL;
    }
    if (!found && !r->error.id)
        serve_fail(&r->error, SERVE_E_STORED, path, "%s: there is no item '%.60s' (any more)", path,
                   json_string_value(id));
    return found;
}

static int add_history(serve_task *t, json_t *messages)
{
    static const char name[] = "previous_response_id";
    json_t *message, *part;
    size_t i, k;
    if (!t->p.previous)
        return 1;
    json_t *before = serve_responses_stored(t->r, t->p.previous, SERVE_STORED_MESSAGES, name);
    json_array_foreach(before, i, message)
        json_array_foreach(json_object_get(message, "content"), k, part)
            if (json_object_get(part, "path"))
                json_object_set_new(part, "path", json_string(name));
    json_array_extend(messages, before);
    json_decref(before);
    return before != NULL;
}

static int read_input(serve_task *t, json_t *messages, json_t *items)
{
    reading w = {.r = t->r, .messages = messages, .items = items, .ids = t->ids};
    const json_t *item;
    size_t i;
    int ok = 1;
    if (json_is_string(t->p.input)) {
        json_t *only = json_pack("{s:s, s:O}", "role", "user", "content", t->p.input);
        ok = push(&w, messages, json_incref(only)) && (!items || keep_item(&w, only, "message", "msg_"));
        json_decref(only);
        return ok;
    }
    if (!json_is_array(t->p.input))
        return serve_wrong(t->r, "input", t->p.input, "a string or a list of items");
    json_array_foreach(t->p.input, i, item)
        ok = ok && add_item(&w, i, item);
    json_decref(w.reasoning);
    return ok;
}

static int keep_text(serve_task *t, serve_stored what, const json_t *list)
{
    if (!serve_hold(t->r, json_dumpb(list, NULL, 0, JSON_COMPACT)))
        return 0;
    t->stored[what] = json_dumps(list, JSON_COMPACT);
    return t->stored[what] != NULL || serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

/* Instructions are not part of what is stored: each request has its own. */
static int read_messages(serve_task *t)
{
    json_t *messages = json_array(), *items = t->p.store ? json_array() : NULL;
    t->ids = t->p.store ? json_array() : NULL;
    int ok = messages && add_history(t, messages) && read_input(t, messages, items);
    ok = ok && (!items ||
                (keep_text(t, SERVE_STORED_MESSAGES, messages) && keep_text(t, SERVE_STORED_ITEMS, items)));
    json_decref(items);
    if (!ok) {
        json_decref(messages);
        return 0;
    }
    if (t->p.instructions)
        json_array_insert_new(messages, 0,
                              json_pack("{s:s, s:s}", "role", "system", "content", t->p.instructions));
    t->p.messages = serve_set_field(t, "messages", messages);
    return t->p.messages != NULL;
}

/* ---- tools ----------------------------------------------------------------------------------- */

/* A function of a list, as that of a chat. */
static json_t *function_of(const json_t *tool)
{
    static const char *const names[] = {"name", "description", "parameters", "strict"};
    json_t *function = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(tool, names[i]);
        if (value && !json_is_null(value))
            json_object_set(function, names[i], value);
    }
    return json_pack("{s:s, s:o}", "type", "function", "function", function);
}

static json_t *tool_of(serve_task *t, size_t i, const json_t *tool)
{
    char path[128];
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (type && !strcmp(type, "function"))
        return function_of(tool);
    if (type && !strcmp(type, "custom"))
        return serve_custom_tool(t, tool, serve_path(path, "tools[%zu]", i));
    serve_path(path, "tools[%zu].type", i);
    serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, path,
               "%s: not supported: '%.40s'; clef knows tools of type function and custom", path,
               type ? type : "");
    return NULL;
}

/* 1 for a tool that OpenAI's servers run, such as web_search_preview. Programs offer them beside their own.
 */
static int is_hosted(const json_t *tool)
{
    static const char *const types[] = {"web_search", "file_search", "code_interpreter", "image_generation",
                                        "mcp"};
    const char *type = json_string_value(json_object_get(tool, "type"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strncmp(type, types[i], strlen(types[i])) == 0 &&
            (!type[strlen(types[i])] || strstr(type, "_preview") || strstr(type, "_20"))) /* and of a date */
            return 1;
    return 0;
}

static size_t count_hosted(const json_t *tools)
{
    const json_t *tool;
    size_t i, n = 0;
    json_array_foreach(tools, i, tool)
        n += (size_t)is_hosted(tool);
    return n;
}

static int read_tools(serve_task *t)
{
    json_t *tools = json_array();
    const json_t *tool;
    size_t i;
    int ok = json_is_array(t->p.tools) || serve_wrong(t->r, "tools", t->p.tools, "a list");
    const int has_own = ok && count_hosted(t->p.tools) < json_array_size(t->p.tools);
    json_array_foreach(t->p.tools, i, tool) {
        char path[128];
        if (has_own && is_hosted(tool)) {
            serve_note_ignored(t->r, serve_path(path, "tools[%zu]", i));
            continue;
        }
        json_t *made = ok ? tool_of(t, i, tool) : NULL;
        ok = made && json_array_append_new(tools, made) == 0;
    }
    if (!ok) {
        json_decref(tools);
        return 0;
    }
    t->p.tools = serve_set_field(t, "tools", tools);
    return t->p.tools != NULL;
}

/* {"type": "function" or "custom", "name"} as a chat has it; words, and allowed tools, are the same there. */
static int read_tool_choice(serve_task *t)
{
    const json_t *name = json_object_get(t->p.tool_choice, "name");
    const char *type = json_string_value(json_object_get(t->p.tool_choice, "type"));
    if (!type || (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0) || !name)
        return 1;
    t->p.tool_choice = serve_set_field(
        t, "tool_choice", json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name));
    return t->p.tool_choice != NULL;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int read_text(serve_task *t)
{
    json_t *format = json_object_get(t->p.text, "format");
    if (!json_is_object(t->p.text))
        return serve_wrong(t->r, "text", t->p.text, "an object");
    if (format && !json_is_null(format))
        t->p.response_format = format;
    return 1;
}

/* What the reply may have besides: log-probabilities. Of the others, which OpenAI has, there is nothing here.
 */
static int read_include(serve_task *t)
{
    static const char *const names[] = {
        "message.output_text.logprobs",  "reasoning.encrypted_content",
        "message.input_image.image_url", "file_search_call.results",
        "web_search_call.results",       "web_search_call.action.sources",
        "code_interpreter_call.outputs", "computer_call_output.output.image_url"};
    char path[128];
    const json_t *one;
    size_t i;
    if (!json_is_array(t->p.include))
        return serve_wrong(t->r, "include", t->p.include, "a list");
    json_array_foreach(t->p.include, i, one) {
        const char *name = json_string_value(one);
        int known = 0;
        for (size_t k = 0; name && k < sizeof names / sizeof *names; k++)
            known |= !strcmp(name, names[k]);
        serve_path(path, "include[%zu]", i);
        if (!name)
            return serve_wrong(t->r, path, one, "a string");
        if (!known)
            return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path,
                              "%s: expected a name such as message.output_text.logprobs, got '%.40s'", path,
                              name);
        t->p.logprobs |= !strcmp(name, names[0]);
    }
    return 1;
}

int serve_responses_read(serve_task *t)
{
    serve_params *p = &t->p;
    if (p->include && !read_include(t))
        return 0;
    if (p->metadata && !json_is_object(p->metadata))
        return serve_wrong(t->r, "metadata", p->metadata, "an object");
    if (p->truncation && strcmp(p->truncation, "auto") != 0 && strcmp(p->truncation, "disabled") != 0)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "truncation",
                          "truncation: expected auto or disabled, got '%.20s'", p->truncation);
    p->logprobs |= p->n_top > 0;
    t->echo = serve_responses_echo(t); /* as the client wrote it */
    return t->echo && read_messages(t) && (!p->tools || read_tools(t)) &&
           (!p->tool_choice || read_tool_choice(t)) && (!p->text || read_text(t)) &&
           (!p->reasoning || serve_read_reasoning(t));
}
