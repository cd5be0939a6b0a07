/* OpenAI's objects from the choices of a request: whole, or as a stream of events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/lane.h"
#include "tools/serve/task.h"

/* ---- counts ---------------------------------------------------------------------------------- */

typedef struct counts {
    int64_t n_prompt, n_cached, n_generated, n_reasoning, n_drafted, n_accepted;
    double began, first, last;
} counts;

static int32_t generated(const serve_choice *c)
{
    const int32_t n = c->n_used - c->n_forced;
    return n > 0 ? n : 0;
}

/* Each prompt counts once, whatever its choices. */
static counts count(const serve_task *t)
{
    counts n = {0};
    serve_lock_take((serve_lock *)&t->group.lock);
    for (int32_t i = 0; i < t->n_choices; i++) {
        const serve_choice *c = &t->choices[i];
        const serve_run *run = c->run;
        if (i % t->p.n == 0) {
            n.n_prompt += t->prompts[c->prompt].n;
            n.n_cached += run->n_cached;
        }
        n.n_generated += generated(c);
        n.n_reasoning += c->n_reasoning;
        n.n_drafted += run->n_drafted;
        n.n_accepted += run->n_accepted;
        n.began = run->began > 0 && (n.began <= 0 || run->began < n.began) ? run->began : n.began;
        n.first = run->first > 0 && (n.first <= 0 || run->first < n.first) ? run->first : n.first;
        n.last = run->last > n.last ? run->last : n.last;
    }
    serve_lock_release((serve_lock *)&t->group.lock);
    return n;
}

static json_t *task_usage(const serve_task *t)
{
    const counts n = count(t);
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I, s:I, s:I}}", "prompt_tokens", (json_int_t)n.n_prompt,
                     "completion_tokens", (json_int_t)n.n_generated, "total_tokens",
                     (json_int_t)(n.n_prompt + n.n_generated), "prompt_tokens_details", "cached_tokens",
                     (json_int_t)n.n_cached, "completion_tokens_details", "reasoning_tokens",
                     (json_int_t)n.n_reasoning, "accepted_prediction_tokens", (json_int_t)n.n_accepted,
                     "rejected_prediction_tokens", (json_int_t)(n.n_drafted - n.n_accepted));
}

/* {"prompt_tokens": ..}, and {"cache_n": ..}. */
static json_t *task_timings(const serve_task *t)
{
    const counts n = count(t);
    const double prompt = n.first > n.began ? (n.first - n.began) * 1e3 : 0,
                 predicted = n.last > n.first ? (n.last - n.first) * 1e3 : 0;
    const json_int_t n_fed = (json_int_t)(n.n_prompt - n.n_cached);
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:f}", "cache_n", (json_int_t)n.n_cached, "prompt_n",
                     n_fed, "prompt_ms", prompt, "prompt_per_second",
                     prompt > 0 ? (double)n_fed / prompt * 1e3 : 0.0, "predicted_n",
                     (json_int_t)n.n_generated, "predicted_ms", predicted, "predicted_per_second",
                     predicted > 0 ? (double)n.n_generated / predicted * 1e3 : 0.0);
}

/* What the log says of the request, and the metrics if its reply arrives. */
static void note_counts(serve_task *t)
{
    const counts n = count(t);
    serve_request *r = t->r;
    if (r->n_prompt >= 0)
        return;
    r->n_prompt = (int32_t)n.n_prompt;
    r->n_cached = (int32_t)n.n_cached;
    r->n_generated = (int32_t)n.n_generated;
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
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", t->id, "object", object, "created",
                     (json_int_t)t->r->created, "model", t->model, "system_fingerprint",
                     t->r->s->fingerprint);
}

static json_t *text_of(const serve_buffer *t)
{
    return json_stringn(t->p ? t->p : "", t->n);
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
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                                has_calls && !c->content.n ? json_null() : text_of(&c->content), "refusal");
    if (c->reasoning.n)
        json_object_set_new(message, "reasoning_content", text_of(&c->reasoning));
    json_t *call;
    size_t i;
    json_array_foreach(c->calls, i, call)
        json_object_del(call, "index"); /* of streams only */
    if (has_calls)
        json_object_set(message, "tool_calls", c->calls);
    return message;
}

static json_t *choice_object(serve_choice *c)
{
    json_t *o = json_pack("{s:i}", "index", (int)c->index);
    if (c->task->is_chat)
        json_object_set_new(o, "message", message_of(c));
    else
        json_object_set_new(o, "text", text_of(&c->content));
    json_object_set_new(o, "logprobs", take_logprobs(c));
    json_object_set_new(o, "finish_reason", json_string(c->finish));
    if (c->task->p.return_ids)
        json_object_set_new(o, "token_ids", token_ids(c, 0));
    return o;
}

static void task_reply(serve_task *t)
{
    serve_request *r = t->r;
    while (!serve_task_done(t))
        if (!serve_task_take(t) || (!serve_task_done(t) && !serve_task_wait(t)))
            return;
    serve_task_end(t);
    json_t *root = new_object(t, t->is_chat ? "chat.completion" : "text_completion"), *choices = json_array();
    for (int32_t i = 0; i < t->n_choices; i++)
        json_array_append_new(choices, choice_object(&t->choices[i]));
    json_object_set_new(root, "choices", choices);
    json_object_set_new(root, "usage", task_usage(t));
    if (t->p.timings)
        json_object_set_new(root, "timings", task_timings(t));
    if (t->p.return_ids)
        json_object_set_new(root, "prompt_token_ids", ids_of(t->prompts[0].ids, t->prompts[0].n));
    note_counts(t);
    r->tells_usage = 1;
    serve_reply_json(r, root);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int put_text(serve_task *t, const char *text)
{
    return serve_buffer_add(&t->out, text, strlen(text)) ||
           serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

static int put_event(serve_task *t, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    const int ok = text ? put_text(t, "data: ") && put_text(t, text) && put_text(t, "\n\n")
                        : serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    free(text);
    json_decref(value);
    return ok;
}

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
    return new_chunk(c->task, list);
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
            json_array_append(calls, json_array_get(c->calls, c->n_sent_calls));
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
        if (first && !put_event(t, first))
            return 0;
    }
    json_t *delta = delta_of(c);
    if (delta && !put_event(t, with_ids(c, chunk_of(c, delta, take_logprobs(c), NULL))))
        return 0;
    if (!c->finish || c->sent_finish)
        return 1;
    c->sent_finish = 1;
    json_t *rest = json_array_size(c->logprobs) ? take_logprobs(c) : json_null();
    json_t *last = chunk_of(c, t->is_chat ? json_object() : json_string(""), rest, c->finish);
    if (t->p.timings && serve_task_done(t) && c->index == t->n_choices - 1)
        json_object_set_new(last, "timings", task_timings(t));
    return put_event(t, with_ids(c, last));
}

/* How much of the prompts is computed. */
static int put_progress(serve_task *t)
{
    int32_t total = 0, cached = 0, done = 0;
    if (!t->p.return_progress || t->n_progress < 0)
        return 1;
    serve_lock_take(&t->group.lock);
    int any = 0;
    for (int32_t i = 0; i < t->n_choices; i++) {
        const serve_run *run = &t->runs[i];
        any |= run->n_tokens > 0;
        if (i % t->p.n)
            continue;
        total += run->request.n;
        cached += run->n_cached;
        done += run->n_tokens ? run->request.n : run->n_past;
    }
    const double began = t->runs[0].began;
    serve_lock_release(&t->group.lock);
    if (done == t->n_progress && !any)
        return 1;
    t->n_progress = any ? -1 : done;
    json_t *chunk = new_chunk(t, json_array());
    json_object_set_new(chunk, "prompt_progress",
                        json_pack("{s:i, s:i, s:i, s:f}", "total", (int)total, "cache", (int)cached,
                                  "processed", (int)done, "time_ms", (cli_terminal_seconds() - began) * 1e3));
    return put_event(t, chunk);
}

static int put_end(serve_task *t)
{
    t->ended = 1;
    serve_task_end(t);
    note_counts(t);
    t->r->tells_usage = 1;
    if (t->p.include_usage) {
        json_t *last = new_chunk(t, json_array());
        json_object_set_new(last, "usage", task_usage(t));
        if (!put_event(t, last))
            return 0;
    }
    return put_text(t, "data: [DONE]\n\n");
}

/* Fills `out` with what is new. 0: an error. */
static int put_news(serve_task *t)
{
    if (!serve_task_take(t) || !put_progress(t))
        return 0;
    for (int32_t i = 0; i < t->n_choices; i++)
        if (!put_choice(&t->choices[i]))
            return 0;
    return serve_task_done(t) ? put_end(t) : 1;
}

/* An error under way: the status is long sent. */
static void put_error(serve_task *t)
{
    serve_request *r = t->r;
    t->ended = 1;
    serve_task_end(t);
    note_counts(t);
    if (r->error.id != SERVE_E_GONE) {
        char *text = serve_error_json(&r->error);
        serve_buffer_add(&t->out, "data: ", 6);
        if (text)
            serve_buffer_add(&t->out, text, strlen(text));
        serve_buffer_add(&t->out, "\n\n", 2);
        free(text);
    }
    r->why = r->why ? r->why : "an error under way";
    if (r->error.id == SERVE_E_UNAVAILABLE)
        serve_count_label(&r->s->metrics, SERVE_LABEL_CANCELLED, SERVE_CANCELLED_SHUTDOWN);
    snprintf(t->late, sizeof t->late, "%s", r->error.message);
    r->why = t->late;
    r->error.id = SERVE_OK; /* the log has it as the reason of a reply that began well */
}

static size_t read_stream(void *user, char *out, size_t room)
{
    serve_task *t = user;
    while (t->n_out == t->out.n && !t->ended) {
        t->out.n = t->n_out = 0;
        if (!put_news(t)) {
            put_error(t);
            break;
        }
        if (t->out.n || t->ended)
            break;
        if (!serve_task_wait(t))
            put_error(t);
        else if (cli_terminal_seconds() - t->last_sent > (double)SERVE_PING_SECONDS)
            serve_buffer_add(&t->out, ": ping\n\n", 8);
    }
    const size_t n = t->out.n - t->n_out < room ? t->out.n - t->n_out : room;
    if (n)
        memcpy(out, t->out.p + t->n_out, n);
    t->n_out += n;
    t->last_sent = cli_terminal_seconds();
    return n;
}

static void finish_stream(void *user)
{
    serve_task *t = user;
    if (!t->ended) { /* the connection broke while a piece was written */
        const int slow = serve_client_slow(t->r);
        t->r->gone = 1;
        t->r->why = slow ? "the client reads too slowly" : "the client has gone";
        serve_count_label(&t->r->s->metrics, SERVE_LABEL_CANCELLED,
                          slow ? SERVE_CANCELLED_SLOW : SERVE_CANCELLED_DISCONNECT);
        serve_task_end(t);
        note_counts(t);
    }
    if (t->r->why == t->late) { /* the log still reads it */
        t->r->error.id = SERVE_OK;
        snprintf(t->r->error.message, sizeof t->r->error.message, "%s", t->late);
        t->r->why = t->r->error.message;
    }
    serve_task_free(t);
}

/* The whole reply; the stream. */
static void task_stream(serve_task *t)
{
    t->r->stream = (serve_stream){.read = read_stream, .finish = finish_stream, .user = t};
}

/* ---- the two endpoints ----------------------------------------------------------------------- */

typedef struct preparing {
    serve_task *t;
    serve_request *r;
    serve_form form;
    int ok;
} preparing;

/* From the body to the prompts. */
static void prepare(void *user)
{
    preparing *p = user;
    p->ok = serve_task_begin(p->t, p->r, p->form) &&
            (p->t->is_chat ? serve_task_prompt_chat(p->t) : serve_task_prompt_texts(p->t));
}

static void answer(serve_request *r, serve_form form)
{
    serve_task *t = calloc(1, sizeof *t);
    if (!t) {
        serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
        return;
    }
    preparing p = {.t = t, .r = r, .form = form};
    if (!serve_prepare(r, prepare, &p)) {
        free(t);
        return;
    }
    const int ok = p.ok && serve_task_set_picks(t) && serve_task_submit(t);
    if (ok && t->p.stream) {
        task_stream(t);
        return;
    }
    if (ok)
        task_reply(t);
    if (r->n_prompt < 0 && t->n_choices && r->error.id == SERVE_E_GONE)
        note_counts(t);
    serve_task_free(t);
}

void serve_answer_chat(serve_request *r)
{
    answer(r, SERVE_FORM_CHAT);
}

void serve_answer_completions(serve_request *r)
{
    answer(r, SERVE_FORM_TEXT);
}
