/* Replies to requests for texts: whole, or as a stream of events, in the form of the request. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/forms/form.h"
#include "tools/serve/lane.h"

/* ---- counts ---------------------------------------------------------------------------------- */

static int32_t generated(const serve_choice *c)
{
    const int32_t n = c->n_used - c->n_forced;
    return n > 0 ? n : 0;
}

/* Adds a choice; the group's lock is held. */
static void add_choice(serve_counts *n, const serve_choice *c, int with_prompt)
{
    const serve_run *run = c->run;
    n->n_prompt += with_prompt ? c->task->prompts[c->prompt].n : 0;
    n->n_cached += with_prompt ? run->n_cached : 0;
    n->slot = run->place;
    n->n_generated += generated(c);
    n->n_reasoning += c->n_reasoning;
    n->n_drafted += run->n_drafted;
    n->n_accepted += run->n_accepted;
    n->began = run->began > 0 && (n->began <= 0 || run->began < n->began) ? run->began : n->began;
    n->first = run->first > 0 && (n->first <= 0 || run->first < n->first) ? run->first : n->first;
    n->last = run->last > n->last ? run->last : n->last;
}

/* Each prompt counts once, whatever its choices. */
serve_counts serve_task_count(const serve_task *t)
{
    serve_counts n = {0};
    serve_lock_take((serve_lock *)&t->group.lock);
    for (int32_t i = 0; i < t->n_choices; i++)
        add_choice(&n, &t->choices[i], i % t->p.n == 0);
    serve_lock_release((serve_lock *)&t->group.lock);
    return n;
}

serve_counts serve_choice_count(const serve_choice *c)
{
    serve_counts n = {0};
    serve_lock_take((serve_lock *)&c->task->group.lock);
    add_choice(&n, c, 1);
    serve_lock_release((serve_lock *)&c->task->group.lock);
    return n;
}
/* What the log says of the request, and the metrics if its reply arrives. */
static void note_counts(serve_task *t)
{
    const serve_counts n = serve_task_count(t);
    serve_request *r = t->r;
    if (r->n_prompt >= 0)
        return;
    r->n_prompt = (int32_t)n.n_prompt;
    r->n_cached = (int32_t)n.n_cached;
    r->n_generated = (int32_t)n.n_generated;
}
/* ---- the whole ------------------------------------------------------------------------------- */

static void task_reply(serve_task *t)
{
    serve_request *r = t->r;
    while (!serve_task_done(t))
        if (!serve_task_take(t) || (!serve_task_done(t) && !serve_task_wait(t)))
            return;
    serve_task_end(t);
    json_t *root = t->writer->whole(t);
    note_counts(t);
    r->tells_usage = 1;
    serve_reply_json(r, root);
}

/* ---- the stream ------------------------------------------------------------------------------ */

json_t *serve_text_of(const serve_buffer *t)
{
    return json_stringn(t->p ? t->p : "", t->n);
}

int serve_put_text(serve_task *t, const char *text)
{
    return serve_buffer_add(&t->out, text, strlen(text)) ||
           serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

int serve_put_event(serve_task *t, const char *name, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    int ok = text || serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    if (ok && name)
        ok = serve_put_text(t, "event: ") && serve_put_text(t, name) && serve_put_text(t, "\n");
    ok = ok && serve_put_text(t, "data: ") && serve_put_text(t, text) && serve_put_text(t, "\n\n");
    free(text);
    json_decref(value);
    return ok;
}

/* Fills `out` with what is new. 0: an error. */
static int put_news(serve_task *t)
{
    if (!serve_task_take(t) || !t->writer->news(t))
        return 0;
    if (!serve_task_done(t))
        return 1;
    t->ended = 1;
    serve_task_end(t);
    note_counts(t);
    t->r->tells_usage = 1;
    return t->writer->end(t);
}

/* An error under way: the status is long sent. */
static void put_error(serve_task *t)
{
    serve_request *r = t->r;
    t->ended = 1;
    serve_task_end(t);
    note_counts(t);
    if (r->error.id != SERVE_E_GONE)
        t->writer->error(t);
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
        else if (!t->writer->stream_type &&
                 cli_terminal_seconds() - t->last_sent > (double)SERVE_PING_SECONDS)
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
    t->r->content_type = t->writer->stream_type;
    t->r->stream = (serve_stream){.read = read_stream, .finish = finish_stream, .user = t};
}
/* ---- the endpoints --------------------------------------------------------------------------- */

typedef struct preparing {
    serve_task *t;
    serve_request *r;
    serve_form form;
    const serve_writer *writer;
    int ok;
} preparing;

/* From the body to the prompts. */
static void prepare(void *user)
{
    preparing *p = user;
    p->ok = serve_task_begin(p->t, p->r, p->form, p->writer) &&
            (p->t->is_chat    ? serve_task_prompt_chat(p->t)
             : p->t->p.suffix ? serve_task_prompt_infill(p->t)
                              : serve_task_prompt_texts(p->t));
}

/* A task that is read, or failed to be; NULL and an error: there is none. */
static serve_task *prepared(preparing *p)
{
    serve_request *r = p->r;
    p->t = calloc(1, sizeof *p->t);
    if (!p->t) {
        serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    } else if (!serve_prepare(r, prepare, p)) {
        free(p->t);
        p->t = NULL;
    }
    return p->t;
}

void serve_answer_count(serve_request *r, serve_form form, const serve_writer *writer, const char *object)
{
    preparing p = {.r = r, .form = form, .writer = writer};
    serve_task *t = prepared(&p);
    if (t && p.ok)
        serve_reply_json(r, json_pack("{s:s*, s:i}", "object", object, "input_tokens", (int)t->prompts[0].n));
    if (t)
        serve_task_free(t);
}

void serve_answer_texts(serve_request *r, serve_form form, const serve_writer *writer)
{
    preparing p = {.r = r, .form = form, .writer = writer};
    serve_task *t = prepared(&p);
    if (!t)
        return;
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
    serve_answer_texts(r, SERVE_FORM_CHAT, &serve_writer_openai);
}

void serve_answer_completions(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_TEXT, &serve_writer_openai);
}

void serve_answer_messages(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_MESSAGES, &serve_writer_messages);
}

void serve_answer_responses(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_RESPONSES, &serve_writer_responses);
}

static const char counted[] = "response.input_tokens"; /* of chats, too, in llama-server */

void serve_answer_count_chat(serve_request *r)
{
    serve_answer_count(r, SERVE_FORM_CHAT, &serve_writer_openai, counted);
}

void serve_answer_count_response(serve_request *r)
{
    serve_answer_count(r, SERVE_FORM_RESPONSES, &serve_writer_responses, counted);
}
