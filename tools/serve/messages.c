/* Messages of a conversation: what a client may send, and how they become a prompt. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/lane.h"
#include "tools/serve/task.h"

enum { MOST_MESSAGES = 4096, MOST_TOOLS = 1024, MOST_KWARGS = 64, MOST_NAME = 128 };
enum { BY_DEFAULT = 2 }; /* of continue_final: the request does not say it */

/* ---- messages -------------------------------------------------------------------------------- */

static int bad(serve_error *e, const char *path, const json_t *value, const char *wanted)
{
    return serve_fail(e, SERVE_E_INVALID_VALUE, path, "%s: expected %s, got %s", path, wanted,
                      serve_kind_of(value));
}

static int check_part(serve_error *e, size_t i, size_t k, const json_t *part, int is_user)
{
    char path[128];
    const char *type = json_string_value(json_object_get(part, "type"));
    serve_path(path, "messages[%zu].content[%zu]", i, k);
    if (!json_is_object(part) || !type || !serve_is_plain(json_object_get(part, "type")))
        return bad(e, path, part, "{\"type\": \"text\", \"text\": ..}");
    if (is_user && strcmp(type, "image_url") == 0) /* images.c reads it */
        return 1;
    if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0)
        return serve_fail(e, SERVE_E_UNSUPPORTED, path,
                          "%s: not supported: a part of type '%.40s'; clef reads text, and pictures "
                          "(image_url) of the user",
                          path, type);
    if (!json_is_string(json_object_get(part, type)))
        return bad(e, serve_path(path, "messages[%zu].content[%zu].%s", i, k, type),
                   json_object_get(part, type), "a string");
    return 1;
}

static int check_content(serve_error *e, size_t i, const json_t *message, int may_be_null, int is_user)
{
    char path[128];
    const json_t *content = json_object_get(message, "content"), *part;
    size_t k;
    if (json_is_string(content) || (may_be_null && (!content || json_is_null(content))))
        return 1;
    serve_path(path, "messages[%zu].content", i);
    if (!json_is_array(content))
        return bad(e, path, content,
                   may_be_null ? "a string, a list of parts or null" : "a string or a list of parts");
    json_array_foreach(content, k, part)
        if (!check_part(e, i, k, part, is_user))
            return 0;
    return 1;
}

static int check_calls(serve_error *e, size_t i, const json_t *calls)
{
    char path[128];
    const json_t *call;
    size_t k;
    if (!json_is_array(calls))
        return bad(e, serve_path(path, "messages[%zu].tool_calls", i), calls, "a list");
    json_array_foreach(calls, k, call) {
        const json_t *function = json_object_get(call, "function");
        if (!json_is_string(json_object_get(function, "name")))
            return bad(e, serve_path(path, "messages[%zu].tool_calls[%zu].function.name", i, k),
                       json_object_get(function, "name"), "a string");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(arguments) && !json_is_object(arguments))
            return bad(e, serve_path(path, "messages[%zu].tool_calls[%zu].function.arguments", i, k),
                       arguments, "JSON in a string");
    }
    return 1;
}

static int check_text_field(serve_error *e, size_t i, const json_t *message, const char *name)
{
    char path[128];
    const json_t *value = json_object_get(message, name);
    if (!value || json_is_null(value) || json_is_string(value))
        return 1;
    return bad(e, serve_path(path, "messages[%zu].%s", i, name), value, "a string");
}

/* Reasoning by the names that clients and templates have for it, as in transformers. "thinking" is gpt-oss's,
 * whose template refuses it beside both calls and a text. */
static void name_reasoning(json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *reasoning = NULL;
    for (size_t k = 0; k < sizeof names / sizeof *names && !json_is_string(reasoning); k++)
        reasoning = json_object_get(message, names[k]);
    if (!json_is_string(reasoning))
        return;
    json_object_set(message, "reasoning_content", reasoning);
    const json_t *content = json_object_get(message, "content");
    if (!json_array_size(json_object_get(message, "tool_calls")) ||
        (!json_string_length(content) && !json_array_size(content)))
        json_object_set(message, "thinking", reasoning);
}

static int is_assistant(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "assistant");
}

static int check_message(serve_error *e, size_t i, json_t *message, int knows_developer, int32_t *n_calls)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    char path[128];
    const char *role = json_string_value(json_object_get(message, "role"));
    int known = -1;
    if (!json_is_object(message))
        return bad(e, serve_path(path, "messages[%zu]", i), message, "an object");
    for (int k = 0; role && k < 5; k++)
        if (!strcmp(role, roles[k]))
            known = k;
    serve_path(path, "messages[%zu].role", i);
    if (role && !serve_is_plain(json_object_get(message, "role")))
        return serve_fail(e, SERVE_E_INVALID_VALUE, path, "%s: expected a string without \\u0000", path);
    if (role && known < 0)
        return serve_fail(e, SERVE_E_INVALID_VALUE, path,
                          "%s: expected system, developer, user, assistant or tool, got '%.40s'", path, role);
    if (known < 0)
        return bad(e, path, json_object_get(message, "role"), "a string");
    const json_t *calls = json_object_get(message, "tool_calls");
    if (!check_content(e, i, message, known == 3, known == 2) || !check_text_field(e, i, message, "name") ||
        !check_text_field(e, i, message, "reasoning_content") ||
        !check_text_field(e, i, message, "reasoning") || !check_text_field(e, i, message, "tool_call_id"))
        return 0;
    if (calls && json_is_null(calls))
        json_object_del(message, "tool_calls");
    else if (calls) {
        if (!check_calls(e, i, calls))
            return 0;
        *n_calls += (int32_t)json_array_size(calls);
    }
    if (!json_is_string(json_object_get(message, "content")) &&
        !json_is_array(json_object_get(message, "content")))
        json_object_set_new(message, "content", json_string("")); /* templates would write null as "None" */
    if (known == 1 && !knows_developer)
        json_object_set_new(message, "role", json_string("system"));
    name_reasoning(message);
    return 1;
}

int serve_message_text(const json_t *content, const char *between, serve_buffer *all)
{
    const json_t *part;
    size_t i, n_blank = 0;
    if (json_is_string(content))
        serve_buffer_add(all, json_string_value(content), json_string_length(content));
    json_array_foreach(content, i, part) {
        const json_t *text = json_object_get(part, json_string_value(json_object_get(part, "type")));
        serve_buffer_add(all, between, i > 0 ? strlen(between) : 0);
        serve_buffer_add(all, json_string_value(text), json_string_length(text));
    }
    while (n_blank < all->n && isspace((unsigned char)all->p[n_blank]))
        n_blank++;
    return n_blank < all->n;
}

/* As in llama-server: where a conversation ends with the assistant's text, and the request does not say what
 * is to become of it, it goes on. */
static int continue_by_default(serve_request *r, serve_params *p)
{
    const size_t n = json_array_size(p->messages);
    json_t *last = json_array_get(p->messages, n - 1), *content = json_object_get(last, "content");
    const json_t *said = json_object_get(p->root, "continue_final_message");
    serve_buffer all = {0};
    if (p->form & SERVE_FORM_OLLAMA || !(p->form & (SERVE_FORM_CHAT | SERVE_FORM_RENDER)) ||
        p->generation_prompt >= 0 || (said && !json_is_null(said)) || !is_assistant(last) ||
        json_array_size(json_object_get(last, "tool_calls")))
        return 1;
    if (serve_message_text(content, "", &all)) {
        p->continue_final = BY_DEFAULT;
        p->last_parts = json_incref(content);
        json_object_set_new(last, "content", json_stringn(all.p, all.n));
    }
    serve_buffer_free(&all);
    if (p->continue_final && is_assistant(json_array_get(p->messages, n - 2)))
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, "messages",
                          "messages: expected one of the assistant at the end, which is continued, got two");
    return 1;
}

/* 1, and what the messages say in all. */
static int check_messages(serve_request *r, serve_params *p, int32_t *n_calls)
{
    serve_error *e = &r->error;
    json_t *message;
    size_t i, n_source = 0;
    const char *source = r->m->template ? clef_template_source(r->m->template, &n_source) : "";
    const int knows_developer = strstr(source, "developer") != NULL;
    if (!json_is_array(p->messages))
        return bad(e, "messages", p->messages, "a list");
    const size_t n = json_array_size(p->messages);
    if (n < 1 || n > MOST_MESSAGES)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "messages", "messages: expected 1 to %d, got %zu",
                          MOST_MESSAGES, n);
    json_array_foreach(p->messages, i, message)
        if (!check_message(e, i, message, knows_developer, n_calls))
            return 0;
    const json_t *final = json_array_get(p->messages, n - 1);
    p->continue_final |= json_is_true(json_object_get(final, "prefix")); /* as DeepSeek and Mistral have it */
    if (!p->continue_final && !continue_by_default(r, p))
        return 0;
    if (p->continue_final && !is_assistant(final))
        return serve_fail(e, SERVE_E_INVALID_VALUE, "continue_final_message",
                          "continue_final_message: the last message is not the assistant's");
    if (p->continue_final && p->generation_prompt == 1)
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, "add_generation_prompt",
                          "add_generation_prompt: expected false, since the last message is continued");
    if (p->continue_final && !json_is_string(json_object_get(final, "content")))
        return serve_fail(e, SERVE_E_INVALID_VALUE, "continue_final_message",
                          "continue_final_message: the last message has no text");
    return serve_images_read(r, p);
}

/* ---- tools ----------------------------------------------------------------------------------- */

static int good_name(const char *name)
{
    size_t n = 0;
    while (name[n] && (isalnum((unsigned char)name[n]) || strchr("_-.:/", name[n])))
        n++;
    return n >= 1 && n <= MOST_NAME && !name[n];
}

static int check_tool(serve_error *e, size_t i, json_t *tool)
{
    char path[128];
    const char *type = json_string_value(json_object_get(tool, "type"));
    json_t *function = json_object_get(tool, "function");
    if (serve_has_nul(tool))
        return serve_fail(e, SERVE_E_INVALID_VALUE, serve_path(path, "tools[%zu]", i),
                          "%s: expected strings without \\u0000", path);
    if (!type || strcmp(type, "function") != 0)
        return bad(e, serve_path(path, "tools[%zu].type", i), json_object_get(tool, "type"), "\"function\"");
    const char *name = json_string_value(json_object_get(function, "name"));
    serve_path(path, "tools[%zu].function.name", i);
    if (!name)
        return bad(e, path, json_object_get(function, "name"), "a string");
    if (!good_name(name))
        return serve_fail(e, SERVE_E_INVALID_VALUE, path, "%s: expected 1 to %d letters, digits, _ or -",
                          path, MOST_NAME);
    json_t *parameters = json_object_get(function, "parameters");
    if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
        return bad(e, serve_path(path, "tools[%zu].function.parameters", i), parameters, "a JSON Schema");
    if (!parameters || json_is_null(parameters)) /* no parameters: an empty object */
        json_object_set_new(function, "parameters", json_pack("{s:s, s:{}}", "type", "object", "properties"));
    return 1;
}

static int check_tools(serve_request *r, const serve_params *p)
{
    serve_error *e = &r->error;
    json_t *tool;
    size_t i;
    if (!json_is_array(p->tools))
        return bad(e, "tools", p->tools, "a list");
    if (json_array_size(p->tools) > MOST_TOOLS)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "tools", "tools: expected at most %d, got %zu",
                          MOST_TOOLS, json_array_size(p->tools));
    json_array_foreach(p->tools, i, tool)
        if (!check_tool(e, i, tool))
            return 0;
    return 1;
}

/* ---- variables ------------------------------------------------------------------------------- */

typedef struct variables {
    clef_template_arg args[CLI_MAX_LIST + 16 + MOST_KWARGS + 8];
    char *own[MOST_KWARGS + 8];
    int32_t n, n_own;
} variables;

static int is_reserved(const char *name)
{
    static const char *const names[] = {"messages",   "tools",           "add_generation_prompt",
                                        "bos_token",  "eos_token",       "unk_token",
                                        "sep_token",  "pad_token",       "cls_token",
                                        "mask_token", "raise_exception", "strftime_now",
                                        "namespace",  "range",           "dict",
                                        "loop"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return 1;
    size_t n = 0;
    while (name[n] && (isalnum((unsigned char)name[n]) || name[n] == '_'))
        n++;
    return !n || name[n] || n > MOST_NAME || !strncmp(name, "__", 2) || isdigit((unsigned char)*name);
}

static int add_variable(serve_error *e, variables *v, const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return serve_fail(e, SERVE_E_INTERNAL, NULL, "out of host memory");
    v->own[v->n_own++] = text;
    v->args[v->n++] = (clef_template_arg){name, text};
    return 1;
}

/* 1 if a template has a variable of this name: a word of its own, neither text nor a member. */
static int has_variable(const char *source, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = source; (at = strstr(at, name)); at += n) {
        const char before = at > source ? at[-1] : ' ', after = at[n];
        if (!isalnum((unsigned char)before) && !strchr("_.'\"<", before) && !isalnum((unsigned char)after) &&
            !(after && strchr("_'\">", after)))
            return 1;
    }
    return 0;
}

/* The level of a template for one that it does not name. */
static const char *effort_for(const char *source, const char *effort)
{
    static const char *const near[][2] = {
        {"none", "low"}, {"minimal", "low"}, {"xhigh", "high"}, {"max", "high"}};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        if (!strcmp(effort, near[i][0]) && !strstr(source, effort))
            return near[i][1];
    return effort;
}

/* Adds a variable that the request does not name itself; drops the value. */
static int add_unless_given(serve_error *e, const serve_params *p, variables *v, const char *name,
                            json_t *value)
{
    const int ok = json_object_get(p->kwargs, name) || add_variable(e, v, name, value);
    json_decref(value);
    return ok;
}

/* 1 or 0 where a request says whether the model is to reason; -1: it does not. */
static int is_to_think(const serve_params *p)
{
    if (p->enable_thinking >= 0 || !p->reasoning_effort)
        return p->enable_thinking < 0 && p->thinking_budget == 0 ? 0 : p->enable_thinking;
    return p->thinking_budget != 0 && strcmp(p->reasoning_effort, "none") != 0;
}

/* What says whether the model is to reason, and how much, by the names that templates have for it. */
static int add_reasoning(serve_request *r, const serve_params *p, variables *v)
{
    size_t n = 0;
    const char *source = r->m->template ? clef_template_source(r->m->template, &n) : "",
               *effort = p->reasoning_effort;
    serve_error *e = &r->error;
    const int thinks = is_to_think(p);
    if (thinks >= 0 && !add_unless_given(e, p, v, "enable_thinking", json_boolean(thinks)))
        return 0;
    if (thinks >= 0 && has_variable(source, "thinking") &&
        !add_unless_given(e, p, v, "thinking", json_boolean(thinks)))
        return 0;
    if (p->thinking_budget >= 0 && has_variable(source, "thinking_budget") &&
        !add_unless_given(e, p, v, "thinking_budget", json_integer(p->thinking_budget)))
        return 0;
    return !effort || add_unless_given(e, p, v, "reasoning_effort", json_string(effort_for(source, effort)));
}

static int set_variables(serve_request *r, const serve_params *p, variables *v)
{
    serve_error *e = &r->error;
    const serve_model *m = r->m;
    const char *name;
    json_t *value;
    for (int32_t i = 0; i < m->n_args; i++)
        v->args[v->n++] = m->args[i];
    if (p->kwargs && !json_is_object(p->kwargs))
        return bad(e, "chat_template_kwargs", p->kwargs, "an object");
    if (json_object_size(p->kwargs) > MOST_KWARGS)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "chat_template_kwargs",
                          "chat_template_kwargs: expected at most %d variables", MOST_KWARGS);
    json_object_foreach(p->kwargs, name, value) {
        char path[128];
        serve_path(path, "chat_template_kwargs.%.60s", name);
        if (is_reserved(name))
            return serve_fail(e, SERVE_E_INVALID_VALUE, path,
                              "chat_template_kwargs: '%.60s' is reserved, or no name of a variable", name);
        if (!add_variable(e, v, name, value))
            return 0;
    }
    return add_reasoning(r, p, v);
}

/* ---- rendering ------------------------------------------------------------------------------- */

/* Where the last occurrence of a part in a text ends; 0: there is none, or no memory. Both are read
 * backwards, each byte once or twice (Knuth, Morris and Pratt): clients write them. */
static size_t end_of_last(const char *text, size_t n, const char *part, size_t n_part)
{
    size_t *fallback = malloc((n_part + 1) * sizeof *fallback), k = 0, end = 0;
    if (!fallback || !n_part) {
        free(fallback);
        return 0;
    }
    fallback[0] = 0;
    for (size_t i = 1; i < n_part; i++) {
        while (k && part[n_part - 1 - i] != part[n_part - 1 - k])
            k = fallback[k - 1];
        k += part[n_part - 1 - i] == part[n_part - 1 - k];
        fallback[i] = k;
    }
    k = 0;
    for (size_t i = 0; i < n && !end; i++) {
        while (k && text[n - 1 - i] != part[n_part - 1 - k])
            k = fallback[k - 1];
        k += text[n - 1 - i] == part[n_part - 1 - k];
        end = k == n_part ? n - 1 - i + n_part : 0;
    }
    free(fallback);
    return end;
}

/* Ends the text with the last message's own: what the template writes after it is dropped. */
static int cut_after_last(serve_request *r, const serve_params *p, clef_rendered *text)
{
    const json_t *last = json_array_get(p->messages, json_array_size(p->messages) - 1),
                 *said = json_object_get(last, "content");
    if (json_is_array(said)) /* beside pictures, texts are parts */
        said = json_object_get(json_array_get(said, json_array_size(said) - 1), "text");
    const char *content = json_string_value(said);
    size_t n = json_string_length(said);
    while (n && isspace((unsigned char)content[n - 1])) /* templates trim */
        n--;
    while (n && isspace((unsigned char)*content))
        content++, n--;
    const size_t end = end_of_last(text->text, text->n_bytes, content, n);
    if (!end)
        return serve_fail(&r->error, SERVE_E_TEMPLATE, "continue_final_message",
                          "continue_final_message: the template does not write the last message as it is");
    text->n_bytes = end;
    text->text[end] = '\0';
    while (text->n_parts && text->parts[text->n_parts - 1].begin >= end)
        text->n_parts--;
    if (text->n_parts && text->parts[text->n_parts - 1].end > end)
        text->parts[text->n_parts - 1].end = end;
    return 1;
}

/* Renders the messages of a request as the prompt's text. Free with clef_rendered_finish(). */
static int render_messages(serve_request *r, serve_params *p, const char *tools, size_t n_tools,
                           clef_rendered *out)
{
    const serve_model *m = r->m;
    clef_error err = {0};
    variables v = {.n = 0};
    *out = (clef_rendered){0};
    const clef_template *template = tools && m->template_with_tools ? m->template_with_tools : m->template;
    if (!template)
        return serve_fail(&r->error, SERVE_E_TEMPLATE, "messages", "%s", m->no_template);
    int ok = set_variables(r, p, &v);
    char *messages = ok ? json_dumps(p->messages, JSON_COMPACT) : NULL;
    if (ok && !messages)
        ok = serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    if (ok) {
        const clef_template_opts opts = {.messages = messages,
                                         .messages_bytes = strlen(messages),
                                         .tools = tools,
                                         .tools_bytes = n_tools,
                                         .args = v.args,
                                         .n_args = v.n,
                                         .no_generation_prompt = p->continue_final || !p->generation_prompt,
                                         .join_parts = !p->pictures.n};
        if (clef_template_render(template, &opts, out, &err) != CLEF_OK)
            ok = serve_fail_status(&r->error, &err, SERVE_E_TEMPLATE, "messages");
    }
    const int is_over = ok && p->continue_final && !cut_after_last(r, p, out);
    free(messages);
    for (int32_t i = 0; i < v.n_own; i++)
        free(v.own[i]);
    if (!is_over || p->continue_final != BY_DEFAULT)
        return ok && !is_over;
    p->continue_final = 0;
    json_object_set(json_array_get(p->messages, json_array_size(p->messages) - 1), "content", p->last_parts);
    serve_images_as_parts(p);
    r->error = (serve_error){0};
    clef_rendered_finish(out);
    return render_messages(r, p, tools, n_tools, out);
}

/* The same, by the template's own form of tools, or else the general one. */
static int render_with_tools(serve_request *r, serve_params *p, const char *tools, size_t n_tools,
                             clef_rendered *out)
{
    *out = (clef_rendered){0};
    if (!r->m->is_generic || !r->m->template)
        return render_messages(r, p, tools, n_tools, out);
    return serve_generic_tools(r, p, tools, n_tools) && render_messages(r, p, NULL, 0, out);
}

/* Text from messages gives no special token, unless --special-in-content says so. */
static int encode(serve_task *t, const clef_rendered *text, serve_prompt *to)
{
    const serve_model *m = t->r->m;
    clef_error err = {0};
    size_t n_spans = 0;
    clef_byte_span *spans = malloc(((size_t)text->n_parts + 1) * sizeof *spans);
    if (!spans)
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    for (int32_t i = 0; i < text->n_parts && !t->r->s->o.special_in_content; i++)
        if (text->parts[i].from_message)
            spans[n_spans++] = (clef_byte_span){text->parts[i].begin, text->parts[i].end};
    const cli_picture_prompt prompt = {
        .text = text->text, .n_bytes = text->n_bytes, .plain = spans, .n_plain = n_spans, .is_rendered = 1};
    const clef_status s = t->p.pictures.n
                              ? cli_prompt_pictures_encode(&t->p.pictures, &prompt, &to->ids, &to->n, &err)
                              : clef_tokenizer_encode_plain(m->tok, text->text, text->n_bytes, spans, n_spans,
                                                            &to->ids, &to->n, &err);
    free(spans);
    if (s || cli_begin_with_bos(m->path, m->tok, &to->ids, &to->n, &err))
        return serve_fail_status(&t->r->error, &err, SERVE_E_INVALID_VALUE, "messages");
    return to->n
               ? 1
               : serve_fail(&t->r->error, SERVE_E_TEMPLATE, "messages", "the template makes an empty prompt");
}

/* 1 if the prompt ends with a tag. */
static int ends_with(const clef_rendered *text, const char *tag)
{
    const size_t n = strlen(tag);
    size_t end = text->n_bytes;
    while (end > 0 && isspace((unsigned char)text->text[end - 1]))
        end--;
    return end >= n && !memcmp(text->text + end - n, tag, n);
}

/* 1 if the request says that there is to be no reasoning, and the template knows how. */
static int is_switched_off(const serve_task *t)
{
    size_t n = 0;
    const char *source = t->r->m->template ? clef_template_source(t->r->m->template, &n) : "";
    return !is_to_think(&t->p) &&
           (has_variable(source, "enable_thinking") || has_variable(source, "thinking"));
}

static void set_thought(serve_task *t, const clef_rendered *text)
{
    const serve_model *m = t->r->m;
    t->thought = clef_tool_format_thought(m->format);
    t->thought.begun = ends_with(text, t->thought.open);
    t->thought.most = t->p.thinking_budget;
    t->prompts[0].starts_thinking = t->thought.begun;
    const int is_over = ends_with(text, t->thought.close) || is_switched_off(t);
    t->may_think = t->thought.begun || (m->has_think_tag && !t->p.continue_final && !is_over);
}

static int is_among(const json_t *allowed, const json_t *tool)
{
    const json_t *one, *name = json_object_get(json_object_get(tool, "function"), "name");
    size_t i;
    json_array_foreach(allowed, i, one) {
        const json_t *function = json_object_get(one, "function"),
                     *inner = function ? function : json_object_get(one, "custom");
        if (json_equal(json_object_get(inner ? inner : one, "name"), name))
            return 1;
    }
    return 0;
}

/* {"type": "allowed_tools", "mode", "tools"}, also with mode and tools within `allowed_tools`: the prompt has
 * all tools, of which only these may be called. */
static int keep_allowed_tools(serve_task *t)
{
    const json_t *choice = t->p.tool_choice, *inner = json_object_get(choice, "allowed_tools");
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (!type || strcmp(type, "allowed_tools") != 0)
        return 1;
    inner = inner ? inner : choice;
    json_t *mode = json_object_get(inner, "mode"), *kept = json_array(), *tool;
    size_t i;
    json_array_foreach(t->p.tools, i, tool)
        if (is_among(json_object_get(inner, "tools"), tool))
            json_array_append(kept, tool);
    free(t->tools);
    t->tools = json_array_size(kept) ? json_dumps(kept, JSON_COMPACT) : NULL;
    t->n_tools = t->tools ? strlen(t->tools) : 0;
    json_decref(kept);
    if (!t->tools)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "tool_choice.tools",
                          "tool_choice.tools: expected at least one of the request's tools");
    t->p.tool_choice = mode ? mode : NULL;
    return !mode || json_is_string(mode) || bad(&t->r->error, "tool_choice.mode", mode, "auto or required");
}

int serve_task_prompt_chat(serve_task *t)
{
    serve_request *r = t->r;
    clef_rendered text;
    t->prompts = calloc(1, sizeof *t->prompts);
    if (!t->prompts)
        return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    t->n_prompts = 1;
    if (!check_messages(r, &t->p, &t->n_calls) || (t->p.tools && !check_tools(r, &t->p)))
        return 0;
    const char *choice = json_string_value(t->p.tool_choice);
    if (json_array_size(t->p.tools) && !(choice && !strcmp(choice, "none"))) {
        t->tools = json_dumps(t->p.tools, JSON_COMPACT);
        if (!t->tools)
            return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
        t->n_tools = strlen(t->tools);
        t->has_tools = 1;
    }
    int ok = render_with_tools(r, &t->p, t->tools, t->n_tools, &text) && encode(t, &text, &t->prompts[0]) &&
             (!t->has_tools || keep_allowed_tools(t));
    if (ok) {
        set_thought(t, &text);
        ok = serve_buffer_add(&t->prompts[0].text, text.text, text.n_bytes) ||
             serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    }
    clef_rendered_finish(&text);
    return ok;
}

/* ---- /apply-template ------------------------------------------------------------------------- */

static void read_and_render(void *user)
{
    serve_request *r = user;
    serve_params p;
    clef_rendered text = {0};
    int32_t n_calls = 0;
    char *tools = NULL;
    if (serve_params_read(r, SERVE_FORM_RENDER, &p) && check_messages(r, &p, &n_calls) &&
        (!p.tools || check_tools(r, &p))) {
        if (json_array_size(p.tools))
            tools = json_dumps(p.tools, JSON_COMPACT);
        if (render_with_tools(r, &p, tools, tools ? strlen(tools) : 0, &text))
            serve_reply_json(r, json_pack("{s:s%}", "prompt", text.text, text.n_bytes));
    }
    clef_rendered_finish(&text);
    free(tools);
    serve_params_finish(&p);
}

void serve_answer_apply_template(serve_request *r)
{
    serve_prepare(r, read_and_render, r);
}
