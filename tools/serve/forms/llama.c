/* llama-server's own forms: /completion, and /infill for editors (llama.vim, llama.vscode).
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md has them. */
#include <string.h>

#include "tools/serve/forms/form.h"

static const char *stop_type(const serve_choice *c)
{
    return !strcmp(c->finish, "length") ? "limit" : c->stopped ? "word" : "eos";
}

static json_t *piece_of(serve_choice *c, int is_end)
{
    json_t *text =
        json_stringn(c->content.p ? c->content.p + c->n_sent_content : "", c->content.n - c->n_sent_content);
    c->n_sent_content = c->content.n;
    return json_pack("{s:i, s:o, s:b}", "index", 0, "content", text, "stop", is_end);
}

static json_t *whole(serve_task *t)
{
    serve_choice *c = &t->choices[0];
    const serve_counts n = serve_task_count(t);
    const int32_t found = c->stopped ? clef_stop_found(c->stop) : -1;
    json_t *o = piece_of(c, 1);
    json_object_update_new(
        o, json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:o}", "model", t->model, "stop_type", stop_type(c),
                     "stopping_word", found >= 0 && found < t->n_stops ? t->stops[found] : "", "truncated", 0,
                     "tokens_predicted", (json_int_t)n.n_generated, "tokens_evaluated",
                     (json_int_t)n.n_prompt, "tokens_cached", (json_int_t)(n.n_prompt + n.n_generated),
                     "timings", serve_task_timings(t)));
    return o;
}

static int news(serve_task *t)
{
    serve_choice *c = &t->choices[0];
    return c->content.n == c->n_sent_content || serve_put_event(t, NULL, piece_of(c, 0));
}

static int end(serve_task *t)
{
    return serve_put_event(t, NULL, whole(t));
}

static int read_one(serve_task *t)
{
    if (t->p.n > 1 || (json_is_array(t->p.prompt) && !json_is_number(json_array_get(t->p.prompt, 0))))
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "prompt",
                          "prompt: expected one prompt and one choice; /v1/completions has more");
    return 1;
}

static const serve_writer writer = {
    .read = read_one, .whole = whole, .news = news, .end = end, .error = serve_put_openai_error};

void serve_answer_completion(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_TEXT, &writer);
}

void serve_answer_infill(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_TEXT | SERVE_FORM_INFILL, &writer);
}
