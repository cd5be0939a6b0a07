/* llama-server's own forms: /completion, and /infill for editors (llama.vim, llama.vscode).
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md has them. */
#include <math.h>
#include <string.h>

#include "tools/serve/forms/form.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

static json_t *ids_of(const serve_choice *c, int32_t from, int32_t to)
{
    json_t *list = json_array();
    for (int32_t i = from > c->n_forced ? from : c->n_forced; i < to; i++)
        json_array_append_new(list, json_integer(c->run->tokens[i].id));
    return list;
}

static void to_probability(json_t *entry, double p)
{
    json_object_del(entry, "logprob");
    json_object_set_new(entry, "prob", json_real(p));
}

static double probability_of(const json_t *entry)
{
    return exp(json_number_value(json_object_get(entry, "logprob")));
}

/* The probabilities with which a token was drawn. At temperature 0 it has 1, and all others have 0. */
static json_t *after_sampling(json_t *entry, int is_greedy)
{
    const json_t *id = json_object_get(entry, "id");
    json_t *tops = json_incref(json_object_get(entry, "top_logprobs")), *one;
    size_t i;
    json_array_foreach(tops, i, one)
        to_probability(one, is_greedy ? json_equal(id, json_object_get(one, "id")) : probability_of(one));
    to_probability(entry, is_greedy ? 1 : probability_of(entry));
    json_object_del(entry, "top_logprobs");
    json_object_set_new(entry, "top_probs", tops);
    return entry;
}

/* The first n entries that were not sent; they are taken. */
static json_t *take_probabilities(serve_choice *c, size_t n)
{
    const serve_task *t = c->task;
    json_t *list = json_array();
    for (; n && json_array_size(c->logprobs); n--) {
        json_t *entry = json_incref(json_array_get(c->logprobs, 0));
        json_array_remove(c->logprobs, 0);
        json_object_del(entry, "offset");
        json_array_append_new(list, t->p.post_probs ? after_sampling(entry, t->p.logprobs == 1) : entry);
    }
    return list;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The prompt's text, with its special tokens. */
static json_t *prompt_of(const serve_choice *c)
{
    const serve_prompt *prompt = &c->task->prompts[c->prompt];
    clef_stream stream = {.tok = c->task->r->m->tok, .started = 1, .with_special = 1};
    char text[CLEF_MAX_PIECE + 16];
    serve_buffer all = {0};
    clef_error err = {0};
    size_t n = 0;
    for (int32_t i = 0; i < prompt->n; i++)
        if (clef_stream_push(&stream, prompt->ids[i], text, sizeof text, &n, &err) == CLEF_OK)
            serve_buffer_add(&all, text, n);
    json_t *out = serve_text_of(&all);
    serve_buffer_free(&all);
    return out;
}

static json_t *biases_of(const serve_task *t)
{
    const serve_model *m = t->r->m;
    json_t *list = json_array();
    for (int32_t i = 0; i < t->p.sampling.n_biases; i++)
        json_array_append_new(list, json_pack("{s:i, s:o}", "token", (int)t->biases[i].id, "bias",
                                              isfinite((double)t->biases[i].bias)
                                                  ? json_real((double)t->biases[i].bias)
                                                  : json_null()));
    for (int32_t i = 0; t->p.ignore_eos && i < m->n_ends; i++)
        json_array_append_new(list, json_pack("{s:i, s:n}", "token", (int)m->ends[i], "bias"));
    return list;
}

static json_t *settings_of(const serve_task *t)
{
    json_t *o = serve_settings_of(&t->p.sampling), *stops = json_array();
    for (int32_t i = 0; i < t->n_stops; i++)
        json_array_append_new(stops, json_string(t->stops[i]));
    json_object_update_new(o, json_pack("{s:i, s:i, s:i, s:b, s:b, s:i, s:b, s:b, s:o, s:o, s:i}", "n_ctx",
                                        (int)t->r->m->n_context, "n_predict", (int)t->p.max_tokens,
                                        "max_tokens", (int)t->p.max_tokens, "ignore_eos",
                                        (int)t->p.ignore_eos, "stream", (int)t->p.stream, "n_probs",
                                        (int)t->p.n_probs, "post_sampling_probs", (int)t->p.post_probs,
                                        "timings_per_token", (int)t->p.timings_per_token, "stop", stops,
                                        "logit_bias", biases_of(t), "n_indent", (int)t->p.n_indent));
    return o;
}

static const char *stop_type(const serve_choice *c)
{
    return !strcmp(c->finish, "length") ? "limit" : c->stopped ? "word" : "eos";
}

/* The context is full, and the text could have gone on. */
static int is_truncated(const serve_choice *c, const serve_counts *n)
{
    return !strcmp(c->finish, "length") && n->n_prompt + n->n_generated >= c->task->r->m->n_context;
}

/* Takes the text up to a byte. */
static json_t *take_text(serve_choice *c, size_t to)
{
    const size_t from = c->n_sent_content;
    c->n_sent_content = to;
    return json_stringn(c->content.p ? c->content.p + from : "", to - from);
}

json_t *serve_native_whole(serve_choice *c)
{
    const serve_task *t = c->task;
    const serve_counts n = serve_choice_count(c);
    const int32_t found = c->stopped ? clef_stop_found(c->stop) : -1;
    const int has_line = c->content.p && memchr(c->content.p, '\n', c->content.n),
              with_ids = t->p.return_ids && !t->p.stream;
    json_t *o =
        json_pack("{s:i, s:o, s:o, s:b, s:i, s:s}", "index", (int)c->index, "content",
                  take_text(c, c->content.n), "tokens", with_ids ? ids_of(c, 0, c->n_used) : json_array(),
                  "stop", 1, "id_slot", (int)n.slot, "model", t->model);
    json_object_update_new(
        o, json_pack("{s:I, s:I, s:I, s:b, s:b, s:s, s:s, s:o, s:o, s:o}", "tokens_predicted",
                     (json_int_t)n.n_generated, "tokens_evaluated", (json_int_t)n.n_prompt, "tokens_cached",
                     (json_int_t)(n.n_prompt + n.n_generated), "truncated", is_truncated(c, &n),
                     "has_new_line", has_line, "stop_type", stop_type(c), "stopping_word",
                     found >= 0 && found < t->n_stops ? t->stops[found] : "", "prompt", prompt_of(c),
                     "generation_settings", settings_of(t), "timings", serve_timings(&n)));
    if (t->p.n_probs && !t->p.stream)
        json_object_set_new(o, "completion_probabilities",
                            take_probabilities(c, json_array_size(c->logprobs)));
    return o;
}

/* What "generation_settings/seed" names; NULL: nothing. */
static json_t *at_path(const json_t *o, const char *path)
{
    char name[128];
    for (;;) {
        const size_t n = strcspn(path, "/");
        if (n >= sizeof name)
            return NULL;
        memcpy(name, path, n);
        name[n] = '\0';
        json_t *value = json_object_get(o, name);
        if (!path[n] || !value)
            return value;
        o = value;
        path += n + 1;
    }
}

/* What response_fields names of a reply, which is dropped. */
static json_t *wanted_of(const serve_task *t, json_t *all)
{
    if (!json_array_size(t->p.fields))
        return all;
    json_t *o = json_object(), *name, *value;
    size_t i;
    json_array_foreach(t->p.fields, i, name)
        if ((value = at_path(all, json_string_value(name))))
            json_object_set(o, json_string_value(name), value);
    json_decref(all);
    return o;
}

/* Of several prompts, or choices, a list. */
static json_t *whole(serve_task *t)
{
    if (t->n_choices == 1)
        return wanted_of(t, serve_native_whole(t->choices));
    json_t *list = json_array();
    for (int32_t i = 0; i < t->n_choices; i++)
        json_array_append_new(list, wanted_of(t, serve_native_whole(&t->choices[i])));
    return list;
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* Where the text of a token ends, as far as it is let through. */
static size_t end_of(const serve_choice *c, int32_t i)
{
    size_t end = i + 1 < c->n_seen ? c->begins[i + 1].byte : c->n_let;
    end = end < c->n_let ? end : c->n_let;
    end = end < c->content.n ? end : c->content.n;
    return end > c->n_sent_content ? end : c->n_sent_content;
}

/* An event before the last one. */
static json_t *new_event(const serve_choice *c, json_t *text, json_t *ids, int32_t n_generated)
{
    return json_pack("{s:i, s:o, s:o, s:b, s:i, s:i, s:i}", "index", (int)c->index, "content", text, "tokens",
                     ids, "stop", 0, "id_slot", (int)serve_choice_count(c).slot, "tokens_predicted",
                     (int)n_generated, "tokens_evaluated", (int)c->task->prompts[c->prompt].n);
}

/* An event for each token. */
static int put_token(serve_choice *c, int32_t i)
{
    const serve_task *t = c->task;
    json_t *o = new_event(c, take_text(c, end_of(c, i)), ids_of(c, i, i + 1), i + 1 - c->n_forced);
    if (t->p.n_probs)
        json_object_set_new(o, "completion_probabilities", take_probabilities(c, 1));
    if (t->p.timings_per_token) {
        const serve_counts n = serve_choice_count(c);
        json_object_set_new(o, "timings", serve_timings(&n));
    }
    return serve_put_event(c->task, NULL, o);
}

static int put_choice(serve_choice *c)
{
    for (; c->n_sent_ids < c->n_used; c->n_sent_ids++)
        if (c->n_sent_ids >= c->n_forced && !put_token(c, c->n_sent_ids))
            return 0;
    if (!c->finish || c->sent_finish)
        return 1;
    c->sent_finish = 1;
    return serve_put_event(c->task, NULL, wanted_of(c->task, serve_native_whole(c)));
}

static int put_progress(serve_task *t, json_t *progress)
{
    json_t *o = new_event(&t->choices[0], json_string(""), json_array(), 0);
    json_object_set_new(o, "prompt_progress", progress);
    return serve_put_event(t, NULL, o);
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
    return t->n_choices > 0; /* the last event of each choice was sent with its news */
}

/* ---- requests -------------------------------------------------------------------------------- */

static int check_fields(serve_task *t)
{
    const json_t *name, *fields = t->p.fields;
    size_t i;
    if (fields && !json_is_array(fields))
        return serve_wrong(t->r, "response_fields", fields, "a list of names");
    json_array_foreach(fields, i, name)
        if (!serve_is_plain(name))
            return serve_wrong(t->r, "response_fields", name, "names");
    return 1;
}

static int read_own(serve_task *t)
{
    if (t->p.text_logprobs >= 0)
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "logprobs", "logprobs: n_probs has them");
    if (t->p.echo)
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "echo", "echo: /v1/completions has it");
    if (t->p.post_probs && t->p.logprobs && t->p.sampling.temperature > 0)
        t->p.logprobs = 2; /* of clef_request */
    return check_fields(t);
}

static const serve_writer writer = {
    .read = read_own, .whole = whole, .news = news, .end = end, .error = serve_put_openai_error};

void serve_answer_completion(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_TEXT | SERVE_FORM_NATIVE, &writer);
}

void serve_answer_infill(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_TEXT | SERVE_FORM_NATIVE | SERVE_FORM_INFILL, &writer);
}
