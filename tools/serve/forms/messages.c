/* Anthropic's messages, whole or as a stream of events. https://docs.anthropic.com/en/api/messages and
 * /en/docs/build-with-claude/streaming have the forms. */
#include <stdlib.h>
#include <string.h>

#include "tools/serve/base/body.h"
#include "tools/serve/forms/form.h"
#include "tools/serve/lane.h"

/* ---- errors ---------------------------------------------------------------------------------- */

/* The type that Anthropic has for a status. */
static const char *type_of(int32_t status)
{
    static const struct {
        int32_t status;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"}, {500, "api_error"},
                 {503, "overloaded_error"},     {504, "timeout_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status)
            return types[i].type;
    return "invalid_request_error";
}

static json_t *error_object(const serve_request *r)
{
    return json_pack("{s:s, s:{s:s, s:s}, s:s}", "type", "error", "error", "type",
                     type_of(serve_error_kinds[r->error.id].status), "message", r->error.message,
                     "request_id", r->id);
}

char *serve_messages_error(const serve_request *r)
{
    json_t *root = error_object(r);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static void error(serve_task *t)
{
    (void)serve_put_event(t, "error", error_object(t->r));
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* `input_tokens` are those that were computed; the three kinds add up to the prompt. */
static json_t *usage_of(const serve_task *t)
{
    const serve_counts n = serve_task_count(t);
    return json_pack("{s:I, s:I, s:I, s:I, s:{s:i, s:i}, s:n, s:s}", "input_tokens",
                     (json_int_t)(n.n_prompt - n.n_cached), "cache_creation_input_tokens", (json_int_t)0,
                     "cache_read_input_tokens", (json_int_t)n.n_cached, "output_tokens",
                     (json_int_t)n.n_generated, "cache_creation", "ephemeral_5m_input_tokens", 0,
                     "ephemeral_1h_input_tokens", 0, "server_tool_use", "service_tier", "standard");
}

static json_t *message_of(const serve_task *t, json_t *content, json_t *reason, json_t *sequence)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "id", t->id, "type", "message", "role",
                     "assistant", "model", t->model, "content", content, "stop_reason", reason,
                     "stop_sequence", sequence, "usage", usage_of(t));
}

static const char *stop_reason(const serve_choice *c)
{
    const serve_request *r = c->task->r;
    if (!strcmp(c->finish, "tool_calls"))
        return "tool_use";
    if (!strcmp(c->finish, "length")) /* r->max_tokens: the context has no room for more */
        return r->max_tokens ? "model_context_window_exceeded" : "max_tokens";
    return c->stopped ? "stop_sequence" : "end_turn";
}

static json_t *stop_sequence(const serve_choice *c)
{
    const int32_t found = c->stopped ? clef_stop_found(c->stop) : -1;
    return found >= 0 && found < c->task->n_stops ? json_string(c->task->stops[found]) : json_null();
}

static json_t *block_of(const serve_block *b, json_t *text)
{
    const json_t *function = json_object_get(b->call, "function");
    json_t *input = NULL;
    if (b->kind == CLEF_REPLY_REASONING)
        return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", text, "signature", "");
    if (b->kind == CLEF_REPLY_CONTENT)
        return json_pack("{s:s, s:o}", "type", "text", "text", text);
    input = serve_body_object(json_string_value(text), json_string_length(text));
    json_decref(text);
    return json_pack("{s:s, s:O, s:O, s:o}", "type", "tool_use", "id", json_object_get(b->call, "id"), "name",
                     json_object_get(function, "name"), "input", input ? input : json_object());
}

static int is_hidden(const serve_task *t, const serve_block *b)
{
    return b->kind == CLEF_REPLY_REASONING && t->p.hides_thinking;
}

static int keep_block(serve_task *t, const serve_block *b, json_t *text)
{
    if (is_hidden(t, b))
        json_string_set(text, "");
    return json_array_append_new(t->parts, block_of(b, text)) == 0 ||
           serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

static json_t *whole(serve_task *t)
{
    static const serve_block_events on = {.end = keep_block};
    serve_choice *c = &t->choices[0];
    t->parts = json_array();
    if (!serve_blocks_take(t, &on))
        return NULL;
    return message_of(t, json_incref(t->parts), json_string(stop_reason(c)), stop_sequence(c));
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int begin_block(serve_task *t, const serve_block *b)
{
    json_t *block = block_of(b, json_string(""));
    return serve_put_event(t, "content_block_start",
                           json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", (int)b->index,
                                     "content_block", block));
}

static int more_of_block(serve_task *t, const serve_block *b, json_t *text)
{
    static const char *const types[][2] = {[CLEF_REPLY_REASONING] = {"thinking_delta", "thinking"},
                                           [CLEF_REPLY_CONTENT] = {"text_delta", "text"},
                                           [CLEF_REPLY_CALL] = {"input_json_delta", "partial_json"}};
    if (is_hidden(t, b)) {
        json_decref(text);
        return 1;
    }
    return serve_put_event(t, "content_block_delta",
                           json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta", "index",
                                     (int)b->index, "delta", "type", types[b->kind][0], types[b->kind][1],
                                     text));
}

/* A thought ends with its signature, which is empty: there is no secret that could sign it. */
static int end_block(serve_task *t, const serve_block *b, json_t *text)
{
    json_decref(text);
    if (b->kind == CLEF_REPLY_REASONING &&
        !serve_put_event(t, "content_block_delta",
                         json_pack("{s:s, s:i, s:{s:s, s:s}}", "type", "content_block_delta", "index",
                                   (int)b->index, "delta", "type", "signature_delta", "signature", "")))
        return 0;
    return serve_put_event(t, "content_block_stop",
                           json_pack("{s:s, s:i}", "type", "content_block_stop", "index", (int)b->index));
}

static int news(serve_task *t)
{
    static const serve_block_events on = {begin_block, more_of_block, end_block};
    serve_choice *c = &t->choices[0];
    if (!c->sent_role &&
        !(serve_put_event(t, "message_start",
                          json_pack("{s:s, s:o}", "type", "message_start", "message",
                                    message_of(t, json_array(), json_null(), json_null()))) &&
          serve_put_event(t, "ping", json_pack("{s:s}", "type", "ping"))))
        return 0;
    c->sent_role = 1;
    return serve_blocks_take(t, &on);
}

static int end(serve_task *t)
{
    const serve_choice *c = &t->choices[0];
    json_t *delta = json_pack("{s:s, s:o}", "stop_reason", stop_reason(c), "stop_sequence", stop_sequence(c));
    return serve_put_event(
               t, "message_delta",
               json_pack("{s:s, s:o, s:o}", "type", "message_delta", "delta", delta, "usage", usage_of(t))) &&
           serve_put_event(t, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

const serve_writer serve_writer_messages = {
    .id = "msg_", .read = serve_messages_read, .whole = whole, .news = news, .end = end, .error = error};

/* ---- /v1/messages/count_tokens --------------------------------------------------------------- */

void serve_answer_count_tokens(serve_request *r)
{
    serve_answer_count(r, SERVE_FORM_COUNT, &serve_writer_messages, NULL);
}
