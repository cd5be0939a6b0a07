/* OpenAI's responses, whole or as a stream of events.
 * https://platform.openai.com/docs/api-reference/responses and /responses-streaming have the forms. */
#include <stdlib.h>
#include <string.h>

#include "tools/serve/base/responses.h"
#include "tools/serve/forms/form.h"
#include "tools/serve/keys.h"
#include "tools/serve/os/system.h"
#include "tools/serve/rules.h"

/* ---- the response ---------------------------------------------------------------------------- */

static json_t *or_null(const json_t *value)
{
    return value ? json_incref((json_t *)(uintptr_t)value) : json_null();
}

static json_t *or_text(const char *text)
{
    return text ? json_string(text) : json_null();
}

json_t *serve_responses_echo(const serve_task *t)
{
    const serve_params *p = &t->p;
    json_t *o = json_pack("{s:b, s:n, s:n, s:o, s:o, s:n, s:b, s:o, s:o}", "background", 0, "error",
                          "incomplete_details", "instructions", or_text(p->instructions), "max_output_tokens",
                          p->max_tokens < 0 ? json_null() : json_integer(p->max_tokens), "max_tool_calls",
                          "parallel_tool_calls", (int)p->parallel, "previous_response_id",
                          or_text(p->previous), "prompt_cache_key", or_text(p->cache_key));
    json_object_set_new(o, "reasoning",
                        p->reasoning ? or_null(p->reasoning) : json_pack("{s:n, s:n}", "effort", "summary"));
    json_object_set_new(o, "text",
                        p->text ? or_null(p->text) : json_pack("{s:{s:s}}", "format", "type", "text"));
    json_object_set_new(o, "tool_choice", p->tool_choice ? or_null(p->tool_choice) : json_string("auto"));
    json_object_set_new(o, "tools", p->tools ? or_null(p->tools) : json_array());
    json_object_set_new(o, "metadata", p->metadata ? or_null(p->metadata) : json_object());
    json_object_set_new(o, "truncation", json_string(p->truncation ? p->truncation : "disabled"));
    json_object_set_new(o, "temperature", json_real((double)p->sampling.temperature));
    json_object_set_new(o, "top_p", json_real((double)p->sampling.top_p));
    json_object_set_new(o, "presence_penalty", json_real((double)p->sampling.presence_penalty));
    json_object_set_new(o, "frequency_penalty", json_real((double)p->sampling.frequency_penalty));
    json_object_set_new(o, "top_logprobs", json_integer(p->n_top));
    json_object_set_new(o, "service_tier", json_string("default"));
    json_object_set_new(o, "store", json_boolean(p->store));
    json_object_update_new(o, json_pack("{s:n, s:n, s:n}", "completed_at", "conversation", "prompt"));
    static const char *const repeated[] = {"user", "safety_identifier", "prompt_cache_retention"};
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++)
        json_object_set_new(o, repeated[i], or_null(json_object_get(p->root, repeated[i])));
    return o;
}

static json_t *usage_of(const serve_task *t)
{
    const serve_counts n = serve_task_count(t);
    return json_pack("{s:I, s:{s:I, s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)n.n_prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)n.n_cached, "cache_write_tokens",
                     (json_int_t)0, "output_tokens", (json_int_t)n.n_generated, "output_tokens_details",
                     "reasoning_tokens", (json_int_t)n.n_reasoning, "total_tokens",
                     (json_int_t)(n.n_prompt + n.n_generated));
}

/* `usage` NULL: it has none yet. */
static json_t *response_of(const serve_task *t, const char *status, json_t *usage)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", t->id, "object", "response", "created_at",
                          (json_int_t)t->r->created, "status", status, "model", t->model, "output",
                          t->parts ? json_copy(t->parts) : json_array());
    json_object_update(o, t->echo);
    json_object_set_new(o, "usage", usage ? usage : json_null());
    return o;
}

/* What the model said, as a message of a chat. */
static json_t *said(const serve_choice *c)
{
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", serve_text_of(&c->content));
    if (c->reasoning.n)
        json_object_set_new(message, "reasoning_content", serve_text_of(&c->reasoning));
    if (json_array_size(c->calls))
        json_object_set(message, "tool_calls", c->calls);
    return message;
}

/* A list of messages, which is dropped, with one more, as JSON. NULL: no memory. */
static char *with_reply(char *messages, json_t *reply)
{
    char *last = json_dumps(reply, JSON_COMPACT);
    const size_t n = strlen(messages), room = n + (last ? strlen(last) : 0) + 2;
    char *text = last ? malloc(room) : NULL;
    if (text)
        snprintf(text, room, "%.*s%s%s]", (int)n - 1, messages, n > 2 ? "," : "", last);
    free(last);
    free(messages);
    json_decref(reply);
    return text;
}

static void store(serve_task *t, const json_t *response)
{
    char **texts = t->stored;
    json_t *item;
    size_t i;
    json_array_foreach(t->parts, i, item)
        json_array_append(t->ids, json_object_get(item, "id"));
    texts[SERVE_STORED_MESSAGES] = with_reply(texts[SERVE_STORED_MESSAGES], said(&t->choices[0]));
    texts[SERVE_STORED_RESPONSE] = json_dumps(response, JSON_COMPACT | JSON_REAL_PRECISION(10));
    serve_responses_store(t->r->s->responses, t->r->tenant, t->id, texts, t->ids);
}

/* The finished response, which is stored if the client does not say otherwise. */
static json_t *finished(serve_task *t)
{
    const int is_cut = !strcmp(t->choices[0].finish, "length");
    json_t *o = response_of(t, is_cut ? "incomplete" : "completed", usage_of(t));
    if (!is_cut)
        json_object_set_new(o, "completed_at", json_integer((json_int_t)serve_time()));
    else
        json_object_set_new(o, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    if (t->stored[SERVE_STORED_MESSAGES] && o)
        store(t, o);
    return o;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Takes the log-probabilities that are new, of the text: tokens of reasoning and of calls have none here. */
static json_t *take_logprobs(serve_task *t)
{
    serve_choice *c = &t->choices[0];
    json_t *entries = c->logprobs, *taken = json_array(), *entry;
    size_t i, n_known = 0;
    const int32_t first = c->n_reported - (int32_t)json_array_size(entries);
    json_array_foreach(entries, i, entry) {
        if (!c->begins[first + (int32_t)i].is_said)
            continue;
        json_array_append(taken, entry);
        n_known = i + 1;
    }
    if (n_known) { /* what follows may become text yet */
        c->logprobs = json_array();
        for (i = n_known; i < json_array_size(entries); i++)
            json_array_append(c->logprobs, json_array_get(entries, i));
        json_decref(entries);
    }
    json_array_extend(t->logprobs, taken);
    return taken;
}

static json_t *part_of(serve_task *t, const serve_block *b, json_t *text)
{
    if (b->kind == CLEF_REPLY_REASONING)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", text, "annotations", "logprobs",
                     json_deep_copy(t->logprobs));
}

/* The name of the function that a block calls. */
static json_t *name_of(const serve_block *b)
{
    return json_object_get(json_object_get(b->call, "function"), "name");
}

static int is_custom(const serve_task *t, const serve_block *b)
{
    return b->kind == CLEF_REPLY_CALL && serve_is_custom(t, name_of(b));
}

static json_t *custom_item(const serve_block *b, const char *status, json_t *input)
{
    return json_pack("{s:s, s:s, s:s, s:O, s:O, s:o}", "type", "custom_tool_call", "id", b->id, "status",
                     status, "call_id", json_object_get(b->call, "id"), "name", name_of(b), "input", input);
}

/* An item with its parts; `text` NULL: as it begins. */
static json_t *item_of(serve_task *t, const serve_block *b, json_t *text)
{
    const char *finish = t->choices[0].finish, *status = !text                                 ? "in_progress"
                                                         : finish && !strcmp(finish, "length") ? "incomplete"
                                                                                               : "completed";
    json_t *content = json_array();
    if (b->kind == CLEF_REPLY_CALL) {
        json_decref(content);
        if (is_custom(t, b))
            return custom_item(b, status, text ? text : json_string(""));
        return json_pack("{s:s, s:s, s:s, s:O, s:O, s:o}", "type", "function_call", "id", b->id, "status",
                         status, "call_id", json_object_get(b->call, "id"), "name", name_of(b), "arguments",
                         text ? text : json_string(""));
    }
    if (text)
        json_array_append_new(content, part_of(t, b, text));
    if (b->kind == CLEF_REPLY_REASONING)
        return json_pack("{s:s, s:s, s:s, s:[], s:o}", "type", "reasoning", "id", b->id, "status", status,
                         "summary", "content", content);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", b->id, "status", status, "role",
                     "assistant", "content", content);
}

static int begin_item(serve_task *t, const serve_block *b)
{
    static const char *const prefixes[] = {
        [CLEF_REPLY_REASONING] = "rs_", [CLEF_REPLY_CONTENT] = "msg_", [CLEF_REPLY_CALL] = "fc_"};
    snprintf(t->block.id, sizeof t->block.id, "%s", is_custom(t, b) ? "ctc_" : prefixes[b->kind]);
    serve_random_letters(t->block.id + strlen(t->block.id), 24);
    json_decref(t->logprobs);
    t->logprobs = json_array();
    return 1;
}

static int put_part(serve_task *t, const serve_block *b, json_t *text)
{
    return json_array_append_new(t->parts, item_of(t, b, text)) == 0 ||
           serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

static int end_item(serve_task *t, const serve_block *b, json_t *text)
{
    if (b->kind == CLEF_REPLY_CONTENT)
        json_decref(take_logprobs(t));
    return put_part(t, b, is_custom(t, b) ? serve_custom_input(text) : text);
}

static json_t *whole(serve_task *t)
{
    static const serve_block_events on = {.begin = begin_item, .end = end_item};
    t->parts = json_array();
    return serve_blocks_take(t, &on) ? finished(t) : NULL;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int put(serve_task *t, const char *type, json_t *event)
{
    json_object_set_new(event, "type", json_string(type));
    json_object_set_new(event, "sequence_number", json_integer(t->n_events++));
    return serve_put_event(t, type, event);
}

/* An event of a part of an item: {"item_id", "output_index", "content_index"}, and one more member. */
static int put_of(serve_task *t, const serve_block *b, const char *type, const char *name, json_t *value)
{
    json_t *event =
        json_pack("{s:s, s:i, s:o}", "item_id", b->id, "output_index", (int)b->index, name, value);
    if (b->kind != CLEF_REPLY_CALL)
        json_object_set_new(event, "content_index", json_integer(0));
    if (!strcmp(type, "response.output_text.delta"))
        json_object_set_new(event, "logprobs", take_logprobs(t));
    if (!strcmp(type, "response.output_text.done"))
        json_object_set_new(event, "logprobs", json_deep_copy(t->logprobs));
    if (t->p.timings_per_token)
        json_object_set_new(event, "timings", serve_task_timings(t));
    return put(t, type, event);
}

static int put_item(serve_task *t, const serve_block *b, const char *type, json_t *item)
{
    return put(t, type, json_pack("{s:i, s:o}", "output_index", (int)b->index, "item", item));
}

static int begin_block(serve_task *t, const serve_block *b)
{
    return begin_item(t, b) && put_item(t, b, "response.output_item.added", item_of(t, b, NULL)) &&
           (b->kind == CLEF_REPLY_CALL ||
            put_of(t, b, "response.content_part.added", "part", part_of(t, b, json_string(""))));
}

static const char *const delta_types[] = {[CLEF_REPLY_REASONING] = "response.reasoning_text.delta",
                                          [CLEF_REPLY_CONTENT] = "response.output_text.delta",
                                          [CLEF_REPLY_CALL] = "response.function_call_arguments.delta"};
static const char *const done_types[] = {[CLEF_REPLY_REASONING] = "response.reasoning_text.done",
                                         [CLEF_REPLY_CONTENT] = "response.output_text.done",
                                         [CLEF_REPLY_CALL] = "response.function_call_arguments.done"};

static int more_of_block(serve_task *t, const serve_block *b, json_t *text)
{
    if (is_custom(t, b))
        return put_of(t, b, "response.custom_tool_call_input.delta", "delta", serve_custom_input(text));
    return put_of(t, b, delta_types[b->kind], "delta", text);
}

static int end_block(serve_task *t, const serve_block *b, json_t *text)
{
    const int is_call = b->kind == CLEF_REPLY_CALL, has_input = is_custom(t, b);
    const char *type = has_input ? "response.custom_tool_call_input.done" : done_types[b->kind],
               *name = has_input ? "input"
                       : is_call ? "arguments"
                                 : "text";
    text = has_input ? serve_custom_input(text) : text;
    if (b->kind == CLEF_REPLY_CONTENT)
        json_decref(take_logprobs(t));
    const int ok =
        put_of(t, b, type, name, json_incref(text)) &&
        (is_call || put_of(t, b, "response.content_part.done", "part", part_of(t, b, json_incref(text)))) &&
        put_item(t, b, "response.output_item.done", item_of(t, b, json_incref(text)));
    return put_part(t, b, text) && ok;
}

static int put_response(serve_task *t, const char *type, json_t *response)
{
    return put(t, type, json_pack("{s:o}", "response", response));
}

static int put_progress(serve_task *t, json_t *progress)
{
    return put(t, "response.in_progress",
               json_pack("{s:o, s:o}", "response", response_of(t, "in_progress", NULL), "prompt_progress",
                         progress));
}

static int news(serve_task *t)
{
    static const serve_block_events on = {begin_block, more_of_block, end_block};
    serve_choice *c = &t->choices[0];
    if (!c->sent_role) {
        c->sent_role = 1;
        t->parts = json_array();
        if (!put_response(t, "response.created", response_of(t, "in_progress", NULL)) ||
            !put_response(t, "response.in_progress", response_of(t, "in_progress", NULL)))
            return 0;
    }
    return serve_take_progress(t, put_progress) && serve_blocks_take(t, &on);
}

static int end(serve_task *t)
{
    json_t *response = finished(t);
    const char *type = strcmp(t->choices[0].finish, "length") ? "response.completed" : "response.incomplete";
    json_t *event = json_pack("{s:o}", "response", response);
    if (t->p.timings_per_token)
        json_object_set_new(event, "timings", serve_task_timings(t));
    return put(t, type, event);
}

static void error(serve_task *t)
{
    const serve_error *e = &t->r->error;
    json_t *response = response_of(t, "failed", NULL);
    json_object_set_new(response, "error",
                        json_pack("{s:s, s:s}", "code", "server_error", "message", e->message));
    (void)(put(t, "error",
               json_pack("{s:s, s:s, s:n}", "code", serve_error_kinds[e->id].code, "message", e->message,
                         "param")) &&
           put_response(t, "response.failed", response));
}

const serve_writer serve_writer_responses = {
    .id = "resp_", .read = serve_responses_read, .whole = whole, .news = news, .end = end, .error = error};

/* ---- GET and DELETE -------------------------------------------------------------------------- */

enum { ITEMS = 20, MOST_ITEMS = 100 }; /* of a page, as OpenAI has it */

/* The place after the item of this id, counted from the last one or the first; 0: there is none. */
static size_t place_after(const json_t *items, int from_last, const char *id)
{
    const size_t n = json_array_size(items);
    size_t i = 0;
    while (i < n && strcmp(json_string_value(json_object_get(json_array_get(items, i), "id")), id) != 0)
        i++;
    return i == n ? 0 : from_last ? n - i : i + 1;
}

/* A page of a list, which begins at the place i. */
static json_t *page_of(const json_t *items, int64_t most, int from_last, size_t i)
{
    json_t *page = json_array();
    const size_t n = json_array_size(items);
    size_t size;
    for (; i < n && (int64_t)json_array_size(page) < most; i++)
        json_array_append(page, json_array_get(items, from_last ? n - 1 - i : i));
    size = json_array_size(page);
    return json_pack("{s:s, s:O?, s:O?, s:b, s:o}", "object", "list", "first_id",
                     json_object_get(json_array_get(page, 0), "id"), "last_id",
                     json_object_get(json_array_get(page, size - 1), "id"), "has_more", i < n, "data", page);
}

static json_t *input_items(serve_request *r, const char *id)
{
    const char *limit = r->query[SERVE_QUERY_LIMIT], *order = r->query[SERVE_QUERY_ORDER],
               *after = r->query[SERVE_QUERY_AFTER];
    char *end = NULL, item[128] = "";
    const long most = limit ? strtol(limit, &end, 10) : ITEMS;
    if (limit && (*limit < '0' || *limit > '9' || *end || most < 1 || most > MOST_ITEMS)) {
        serve_fail(&r->error, SERVE_E_INVALID_VALUE, "limit", "limit: expected 1 to %d, got '%.20s'",
                   MOST_ITEMS, limit);
        return NULL;
    }
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        serve_fail(&r->error, SERVE_E_INVALID_VALUE, "order", "order: expected asc or desc, got '%.20s'",
                   order);
        return NULL;
    }
    json_t *items = serve_responses_stored(r, id, SERVE_STORED_ITEMS, NULL), *page = NULL;
    const int from_last = !order || *order == 'd',
              is_read = after && serve_decode_percent(after, item, sizeof item);
    const size_t begin = is_read ? place_after(items, from_last, item) : 0;
    if (items && after && !begin)
        serve_fail(&r->error, SERVE_E_STORED, "after", "after: the response '%.60s' has no item '%.60s'", id,
                   is_read ? item : after);
    else if (items)
        page = page_of(items, most, from_last, begin);
    json_decref(items);
    return page;
}

void serve_answer_response(serve_request *r)
{
    static const char tail[] = "/input_items";
    const int is_get = strcmp(r->method, "DELETE") != 0;
    const char *slash = strchr(r->path, '/');
    char id[64];
    json_t *reply = NULL;
    snprintf(id, sizeof id, "%.*s", slash ? (int)(slash - r->path) : (int)sizeof id - 1, r->path);
    if (slash && (strcmp(slash, tail) != 0 || !is_get))
        serve_fail(&r->error, SERVE_E_PATH, NULL, "no such path: %.100s", r->whole_path);
    else if (slash)
        reply = input_items(r, id);
    else if (is_get)
        reply = serve_responses_stored(r, id, SERVE_STORED_RESPONSE, NULL);
    else if (serve_responses_drop(r->s->responses, r->tenant, id))
        reply = json_pack("{s:s, s:s, s:b}", "id", id, "object", "response", "deleted", 1);
    if (reply)
        serve_reply_json(r, reply);
    else
        serve_fail(&r->error, SERVE_E_STORED, NULL, "there is no response '%.60s' (any more)", id);
}
