/* OpenAI's completions and chat completions, whole or as a stream of events. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/forms/form.h"

/* ---- counts ---------------------------------------------------------------------------------- */

static json_t *task_usage(const serve_task *t)
{
    const serve_counts n = serve_task_count(t);
    return json_pack("{s:I, s:I, s:I, s:{s:I, s:i}, s:{s:I, s:i, s:I, s:I}}", "prompt_tokens",
                     (json_int_t)n.n_prompt, "completion_tokens", (json_int_t)n.n_generated, "total_tokens",
                     (json_int_t)(n.n_prompt + n.n_generated), "prompt_tokens_details", "cached_tokens",
                     (json_int_t)n.n_cached, "audio_tokens", 0, "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)n.n_reasoning, "audio_tokens", 0,
                     "accepted_prediction_tokens", (json_int_t)n.n_accepted, "rejected_prediction_tokens",
                     (json_int_t)(n.n_drafted - n.n_accepted));
}

/* ---- log-probabilities ----------------------------------------------------------------------- */

static json_t *top_of(const json_t *entry)
{
    json_t *top = json_object();
    const json_t *one, *list = json_object_get(entry, "top_logprobs");
    size_t i;
    json_array_foreach(list, i, one)
        json_object_set(top, json_string_value(json_object_get(one, "token")),
                        json_object_get(one, "logprob"));
    return top;
}

/* The form of /v1/completions. Offsets are in characters; without echo they count from the prompt's begin. */
static json_t *text_logprobs(serve_choice *c, const json_t *entries)
{
    const serve_task *t = c->task;
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array();
    const json_t *entry;
    size_t i;
    json_array_foreach(entries, i, entry) {
        const json_t *token = json_object_get(entry, "token"), *value = json_object_get(entry, "logprob");
        json_array_append(tokens, (json_t *)token);
        json_array_append(values, (json_t *)value);
        json_array_append_new(tops, t->p.n_top && !json_is_null(value) ? top_of(entry) : json_null());
        json_array_append(offsets, json_object_get(entry, "offset"));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs",
                     t->p.n_top ? tops : (json_decref(tops), json_null()), "text_offset", offsets);
}

/* Takes the entries that are new, and begins anew. */
static json_t *take_logprobs(serve_choice *c)
{
    json_t *entries = c->logprobs;
    if (!entries)
        return json_null();
    c->logprobs = json_array();
    if (c->task->is_chat)
        return json_pack("{s:o, s:n}", "content", entries, "refusal");
    json_t *out = text_logprobs(c, entries);
    json_decref(entries);
    return out;
}
/* ---- the whole ------------------------------------------------------------------------------- */

static json_t *new_object(const serve_task *t, const char *object)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s}", "id", t->id, "object", object, "created",
                     (json_int_t)t->r->created, "model", t->model, "system_fingerprint", t->r->s->fingerprint,
                     "service_tier", "default");
}

static json_t *ids_of(const int32_t *ids, int32_t n)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *token_ids(const serve_choice *c, int32_t from)
{
    json_t *list = json_array();
    for (int32_t i = from > c->n_forced ? from : c->n_forced; i < c->n_used; i++)
        json_array_append_new(list, json_integer(c->run->tokens[i].id));
    return list;
}

static json_t *message_of(serve_choice *c)
{
    const int has_calls = json_array_size(c->calls) > 0;
    json_t *message = json_pack("{s:s, s:o, s:n, s:[]}", "role", "assistant", "content",
                                has_calls && !c->content.n ? json_null() : serve_text_of(&c->content),
                                "refusal", "annotations");
    if (c->reasoning.n)
        json_object_set_new(message, "reasoning_content", serve_text_of(&c->reasoning));
    json_t *call;
    size_t i;
    json_t *calls = has_calls ? json_array() : NULL;
    json_array_foreach(c->calls, i, call) {
        json_object_del(call, "index"); /* of streams only */
        json_array_append_new(calls, serve_custom_call(c->task, call));
    }
    if (has_calls)
        json_object_set_new(message, "tool_calls", calls);
    return message;
}

static json_t *choice_object(serve_choice *c)
{
    json_t *o = json_pack("{s:i}", "index", (int)c->index);
    if (c->task->is_chat)
        json_object_set_new(o, "message", message_of(c));
    else
        json_object_set_new(o, "text", serve_text_of(&c->content));
    json_object_set_new(o, "logprobs", take_logprobs(c));
    json_object_set_new(o, "finish_reason", json_string(c->finish));
    if (c->task->p.return_ids)
        json_object_set_new(o, "token_ids", token_ids(c, 0));
    return o;
}
/* /completions without /v1 is llama-server's own: its reply has both forms. */
static int is_both(const serve_task *t)
{
    return !t->is_chat && !strcmp(t->r->whole_path, "/completions");
}

static json_t *whole(serve_task *t)
{
    json_t *own = is_both(t) ? serve_native_whole(t->choices) : NULL;
    json_t *root = new_object(t, t->is_chat ? "chat.completion" : "text_completion"), *choices = json_array();
    for (int32_t i = 0; i < t->n_choices; i++)
        json_array_append_new(choices, choice_object(&t->choices[i]));
    json_object_set_new(root, "choices", choices);
    json_object_set_new(root, "usage", task_usage(t));
    if (t->p.timings)
        json_object_set_new(root, "timings", serve_task_timings(t));
    if (t->p.return_ids)
        json_object_set_new(root, "prompt_token_ids", ids_of(t->prompts[0].ids, t->prompts[0].n));
    if (own)
        json_object_update_missing(root, own);
    json_decref(own);
    return root;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static json_t *new_chunk(const serve_task *t, json_t *choices)
{
    json_t *root = new_object(t, t->is_chat ? "chat.completion.chunk" : "text_completion");
    json_object_set_new(root, "choices", choices);
    if (t->p.include_usage)
        json_object_set_new(root, "usage", json_null());
    return root;
}

static json_t *chunk_of(serve_choice *c, json_t *delta, json_t *logprobs, const char *finish)
{
    json_t *choice =
        json_pack("{s:i, s:o, s:o, s:o}", "index", (int)c->index, c->task->is_chat ? "delta" : "text", delta,
                  "logprobs", logprobs, "finish_reason", finish ? json_string(finish) : json_null());
    json_t *list = json_array();
    json_array_append_new(list, choice);
    json_t *chunk = new_chunk(c->task, list);
    if (is_both(c->task))
        json_object_update_new(chunk, json_pack("{s:O, s:b}", "content", json_object_get(choice, "text"),
                                                "stop", finish != NULL));
    return chunk;
}

static json_t *fresh_text(const serve_buffer *t, size_t *sent)
{
    json_t *text = json_stringn(t->p ? t->p + *sent : "", t->n - *sent);
    *sent = t->n;
    return text;
}

/* What is new of a choice as a delta; NULL: nothing. */
static json_t *delta_of(serve_choice *c)
{
    const size_t n_calls = json_array_size(c->calls);
    const int content = c->content.n > c->n_sent_content, reasoning = c->reasoning.n > c->n_sent_reasoning;
    if (!c->task->is_chat)
        return content ? fresh_text(&c->content, &c->n_sent_content) : NULL;
    if (!content && !reasoning && n_calls == c->n_sent_calls)
        return NULL;
    json_t *delta = json_object();
    if (reasoning)
        json_object_set_new(delta, "reasoning_content", fresh_text(&c->reasoning, &c->n_sent_reasoning));
    if (content)
        json_object_set_new(delta, "content", fresh_text(&c->content, &c->n_sent_content));
    if (n_calls > c->n_sent_calls) {
        json_t *calls = json_array();
        for (; c->n_sent_calls < n_calls; c->n_sent_calls++)
            json_array_append_new(calls,
                                  serve_custom_call(c->task, json_array_get(c->calls, c->n_sent_calls)));
        json_object_set_new(delta, "tool_calls", calls);
    }
    return delta;
}

static json_t *with_ids(serve_choice *c, json_t *chunk)
{
    if (c->task->p.return_ids) {
        json_object_set_new(json_array_get(json_object_get(chunk, "choices"), 0), "token_ids",
                            token_ids(c, c->n_sent_ids));
        c->n_sent_ids = c->n_used;
    }
    return chunk;
}

static int put_choice(serve_choice *c)
{
    serve_task *t = c->task;
    if (!c->sent_role) {
        c->sent_role = 1;
        json_t *first = t->is_chat ? chunk_of(c, json_pack("{s:s, s:n}", "role", "assistant", "content"),
                                              json_null(), NULL)
                                   : NULL;
        if (first && t->p.return_ids && c->index == 0)
            json_object_set_new(first, "prompt_token_ids", ids_of(t->prompts[0].ids, t->prompts[0].n));
        if (first && !serve_put_event(t, NULL, first))
            return 0;
    }
    json_t *delta = delta_of(c),
           *chunk = delta ? with_ids(c, chunk_of(c, delta, take_logprobs(c), NULL)) : NULL;
    if (chunk && t->p.timings_per_token)
        json_object_set_new(chunk, "timings", serve_task_timings(t));
    if (chunk && !serve_put_event(t, NULL, chunk))
        return 0;
    if (!c->finish || c->sent_finish)
        return 1;
    c->sent_finish = 1;
    json_t *rest = json_array_size(c->logprobs) ? take_logprobs(c) : json_null();
    json_t *last = chunk_of(c, t->is_chat ? json_object() : json_string(""), rest, c->finish);
    if (t->p.timings && serve_task_done(t) && c->index == t->n_choices - 1)
        json_object_set_new(last, "timings", serve_task_timings(t));
    return serve_put_event(t, NULL, with_ids(c, last));
}

static int put_progress(serve_task *t, json_t *progress)
{
    json_t *chunk = new_chunk(t, json_array());
    json_object_set_new(chunk, "prompt_progress", progress);
    return serve_put_event(t, NULL, chunk);
}

static int news(serve_task *t)
{
    if (!serve_take_progress(t, put_progress))
        return 0;
    for (int32_t i = 0; i < t->n_choices; i++)
        if (!put_choice(&t->choices[i]))
            return 0;
    return 1;
}

static int end(serve_task *t)
{
    if (t->p.include_usage) {
        json_t *last = new_chunk(t, json_array());
        json_object_set_new(last, "usage", task_usage(t));
        if (t->p.timings)
            json_object_set_new(last, "timings", serve_task_timings(t));
        if (!serve_put_event(t, NULL, last))
            return 0;
    }
    return serve_put_text(t, "data: [DONE]\n\n");
}

void serve_put_openai_error(serve_task *t)
{
    char *text = serve_error_json(&t->r->error);
    if (text)
        (void)(serve_put_text(t, "data: ") && serve_put_text(t, text) && serve_put_text(t, "\n\n"));
    free(text);
}

const serve_writer serve_writer_openai = {.read = serve_chat_read,
                                          .id = "chatcmpl-",
                                          .whole = whole,
                                          .news = news,
                                          .end = end,
                                          .error = serve_put_openai_error};
