/* Ollama's API, with --ollama: editors look for it. https://docs.ollama.com/api has the forms. A stream is a
 * JSON object a line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clef/sight.h"
#include "tools/serve/base/body.h"
#include "tools/serve/forms/form.h"
#include "tools/serve/lane.h"
#include "tools/serve/models.h"
#include "tools/serve/os/system.h"

/* Clients compare it: VS Code wants 0.6.4. The forms here are those of this version, which has logprobs. */
static const char served_version[] = "0.12.11";

/* ---- requests -------------------------------------------------------------------------------- */

static int has_images(const json_t *images)
{
    return images && !json_is_null(images) && (!json_is_array(images) || json_array_size(images));
}

/* Pictures in base64 become parts of a message, before its text. */
static int add_images(serve_request *r, json_t *message, const json_t *images, const char *path)
{
    const json_t *one;
    size_t k;
    if (!json_is_array(images))
        return serve_wrong(r, path, images, "a list of pictures in base64");
    json_t *parts = json_array();
    json_array_foreach(images, k, one) {
        json_t *url = serve_is_plain(one) ? json_sprintf("data:;base64,%s", json_string_value(one)) : NULL;
        if (!url) {
            json_decref(parts);
            return serve_wrong(r, path, one, "pictures in base64");
        }
        json_array_append_new(parts,
                              json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url", url));
    }
    json_array_append_new(
        parts, json_pack("{s:s, s:O?}", "type", "text", "text", json_object_get(message, "content")));
    return json_object_set_new(message, "content", parts) == 0 ||
           serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

/* `thinking` of a message is a chat's `reasoning_content`. */
static int read_message(serve_task *t, size_t i, json_t *message)
{
    char path[128];
    const json_t *images = json_object_get(message, "images");
    json_t *thinking = json_object_get(message, "thinking");
    if (has_images(images) && !add_images(t->r, message, images, serve_path(path, "messages[%zu].images", i)))
        return 0;
    if (thinking)
        json_object_set(message, "reasoning_content", thinking);
    json_object_del(message, "images");
    json_object_del(message, "thinking");
    return 1;
}

/* A level of thinking is a string; true and false turn it on and off. */
static int read_think(serve_task *t)
{
    const json_t *think = t->p.thinking;
    if (!think)
        return 1;
    if (!json_is_boolean(think) && !serve_is_plain(think))
        return serve_wrong(t->r, "think", think, "true, false or a level");
    t->p.enable_thinking = !json_is_false(think);
    if (json_is_string(think))
        t->p.reasoning_effort = json_string_value(think);
    return 1;
}

/* A request that says nothing asks for the model alone, which is here by now. */
static int only_load(serve_task *t)
{
    t->is_chat = 0;
    t->p.max_tokens = 0;
    t->p.prompt = serve_set_field(t, "prompt", json_string(" "));
    return t->p.prompt != NULL;
}

static int read_chat(serve_task *t)
{
    json_t *message;
    size_t i;
    if (t->p.messages && !json_is_array(t->p.messages))
        return serve_wrong(t->r, "messages", t->p.messages, "a list");
    if (!json_array_size(t->p.messages))
        return only_load(t);
    json_array_foreach(t->p.messages, i, message)
        if (!read_message(t, i, message))
            return 0;
    return read_think(t);
}

/* /api/generate: a prompt is what the user of a chat says; with `raw` or `suffix` it is the text itself. */
static int read_generate(serve_task *t)
{
    serve_params *p = &t->p;
    if (p->prompt && !json_is_string(p->prompt))
        return serve_wrong(t->r, "prompt", p->prompt, "a string");
    if (p->system && !json_is_string(p->system))
        return serve_wrong(t->r, "system", p->system, "a string");
    if (p->suffix && json_is_string(p->suffix) && !json_string_length(p->suffix))
        p->suffix = NULL;
    if (!json_string_length(p->prompt) && !p->suffix && !has_images(p->images))
        return only_load(t);
    json_t *messages = json_array(), *user = json_pack("{s:s}", "role", "user");
    t->is_chat = !p->raw && !p->suffix;
    json_object_set_new(user, "content", p->prompt ? json_incref(p->prompt) : json_string(""));
    if (p->system && json_string_length(p->system))
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "system", "content", p->system));
    json_array_append_new(messages, user);
    p->messages = serve_set_field(t, "messages", messages);
    if (has_images(p->images) && !t->is_chat)
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "images",
                          "images: not supported beside raw or suffix");
    return p->messages && (!has_images(p->images) || add_images(t->r, user, p->images, "images")) &&
           read_think(t);
}

/* ---- replies --------------------------------------------------------------------------------- */

json_t *serve_time_text(int64_t seconds)
{
    char when[40];
    struct tm at = {0};
    serve_utc(seconds, &at);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &at);
    return json_string(when);
}

static json_t *new_object(const serve_task *t)
{
    return json_pack("{s:s, s:o}", "model", t->model, "created_at", serve_time_text((int64_t)serve_time()));
}

/* Takes the log-probabilities that are new. */
static json_t *take_logprobs(serve_choice *c)
{
    json_t *list = c->logprobs, *entry, *top;
    size_t i, k;
    c->logprobs = json_array();
    json_array_foreach(list, i, entry) {
        json_object_del(entry, "offset");
        json_object_del(entry, "id");
        json_array_foreach(json_object_get(entry, "top_logprobs"), k, top)
            json_object_del(top, "id");
    }
    return list;
}

static json_int_t nanoseconds(double from, double to)
{
    return to > from && from > 0 ? (json_int_t)((to - from) * 1e9) : 0;
}

/* Ollama's calls have an object as arguments. */
static json_t *calls_of(const serve_choice *c, size_t from)
{
    json_t *list = json_array(), *call;
    size_t i;
    json_array_foreach(c->calls, i, call) {
        const json_t *function = json_object_get(call, "function"),
                     *text = json_object_get(function, "arguments");
        json_t *arguments = serve_body_object(json_string_value(text), json_string_length(text));
        if (i >= from)
            json_array_append_new(list, json_pack("{s:O, s:{s:i, s:O, s:o}}", "id",
                                                  json_object_get(call, "id"), "function", "index", (int)i,
                                                  "name", json_object_get(function, "name"), "arguments",
                                                  arguments ? arguments : json_object()));
        else
            json_decref(arguments);
    }
    return list;
}

/* What a choice said since the last line. */
static json_t *said(serve_choice *c)
{
    const serve_task *t = c->task;
    const int is_prompt = (t->p.form & SERVE_FORM_TEXT) != 0; /* /api/generate */
    json_t *o = new_object(t), *message = is_prompt ? o : json_pack("{s:s}", "role", "assistant");
    json_object_set_new(
        message, is_prompt ? "response" : "content",
        json_stringn(c->content.p ? c->content.p + c->n_sent_content : "", c->content.n - c->n_sent_content));
    if (c->reasoning.n > c->n_sent_reasoning)
        json_object_set_new(
            message, "thinking",
            json_stringn(c->reasoning.p + c->n_sent_reasoning, c->reasoning.n - c->n_sent_reasoning));
    if (json_array_size(c->calls) > c->n_sent_calls)
        json_object_set_new(message, "tool_calls", calls_of(c, c->n_sent_calls));
    if (json_array_size(c->logprobs))
        json_object_set_new(o, "logprobs", take_logprobs(c));
    c->n_sent_content = c->content.n;
    c->n_sent_reasoning = c->reasoning.n;
    c->n_sent_calls = json_array_size(c->calls);
    if (message != o)
        json_object_set_new(o, "message", message);
    return o;
}

static json_t *whole(serve_task *t)
{
    serve_choice *c = &t->choices[0];
    const serve_counts n = serve_task_count(t);
    json_t *o = said(c);
    const char *reason = !t->p.max_tokens ? "load" : strcmp(c->finish, "length") ? "stop" : "length";
    json_object_update_new(
        o, json_pack("{s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "done", 1, "done_reason", reason,
                     "total_duration", nanoseconds(n.began, n.last), "load_duration", (json_int_t)0,
                     "prompt_eval_count", (json_int_t)n.n_prompt, "prompt_eval_duration",
                     nanoseconds(n.began, n.first), "eval_count", (json_int_t)n.n_generated, "eval_duration",
                     nanoseconds(n.first, n.last)));
    return o;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int put_line(serve_task *t, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    const int ok = text ? serve_put_text(t, text) && serve_put_text(t, "\n")
                        : serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    free(text);
    json_decref(value);
    return ok;
}

static int news(serve_task *t)
{
    serve_choice *c = &t->choices[0];
    if (c->content.n == c->n_sent_content && c->reasoning.n == c->n_sent_reasoning &&
        json_array_size(c->calls) == c->n_sent_calls)
        return 1;
    json_t *o = said(c);
    json_object_set_new(o, "done", json_false());
    return put_line(t, o);
}

static int end(serve_task *t)
{
    return put_line(t, whole(t));
}

char *serve_ollama_error(const serve_request *r)
{
    json_t *root = json_pack("{s:s}", "error", r->error.message);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static void error(serve_task *t)
{
    (void)put_line(t, json_pack("{s:s}", "error", t->r->error.message));
}

static const serve_writer chat_writer = {.id = "chat-",
                                         .read = read_chat,
                                         .whole = whole,
                                         .news = news,
                                         .end = end,
                                         .error = error,
                                         .stream_type = "application/x-ndjson"};
static const serve_writer generate_writer = {.id = "gen-",
                                             .read = read_generate,
                                             .whole = whole,
                                             .news = news,
                                             .end = end,
                                             .error = error,
                                             .stream_type = "application/x-ndjson"};

void serve_answer_ollama_chat(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_CHAT | SERVE_FORM_OLLAMA, &chat_writer);
}

void serve_answer_ollama_generate(serve_request *r)
{
    serve_answer_texts(r, SERVE_FORM_TEXT | SERVE_FORM_OLLAMA, &generate_writer);
}

/* ---- models ---------------------------------------------------------------------------------- */

static json_t *details_of(const serve_card *c)
{
    char size[24];
    snprintf(size, sizeof size, c->n_params >= 1000000000 ? "%.1fB" : "%.0fM",
             (double)c->n_params / (c->n_params >= 1000000000 ? 1e9 : 1e6));
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "gguf", "family",
                     c->arch, "families", c->arch, "parameter_size", size, "quantization_level", "");
}

static json_t *model_of(const serve_card *c)
{
    return json_pack("{s:s, s:s, s:o, s:I, s:s, s:o}", "name", c->id, "model", c->id, "modified_at",
                     serve_time_text(c->created), "size", (json_int_t)c->n_bytes, "digest", "", "details",
                     details_of(c));
}

static json_t *capabilities_of(const serve_model *m)
{
    json_t *list = json_array();
    if (m->trie)
        json_array_append_new(list, json_string("completion"));
    else if (!m->is_ranker && !m->hears)
        json_array_append_new(list, json_string("embedding"));
    if (m->format != CLEF_TOOLS_NONE)
        json_array_append_new(list, json_string("tools"));
    if (m->has_think_tag)
        json_array_append_new(list, json_string("thinking"));
    if (m->trie && clef_model_sees(m->model, NULL))
        json_array_append_new(list, json_string("vision"));
    return list;
}

json_t *serve_ollama_list(serve_models *ms, int only_loaded)
{
    const serve_model *only = serve_models_only(ms);
    json_t *list = json_array();
    for (int32_t i = 0; i < serve_models_count(ms); i++) {
        const serve_card card = serve_models_card(ms, i);
        json_t *one = !only_loaded || card.now == SERVE_IS_LOADED ? model_of(&card) : NULL;
        if (one && only)
            json_object_set_new(one, "capabilities", capabilities_of(only));
        if (one && only_loaded) /* they stay until the memory is needed */
            json_object_update_new(one, json_pack("{s:s, s:I, s:i}", "expires_at", "9999-12-31T23:59:59Z",
                                                  "size_vram", (json_int_t)serve_models_describe(ms, i).bytes,
                                                  "context_length", (int)card.n_context));
        if (one)
            json_array_append_new(list, one);
    }
    return list;
}

static void list_models(serve_request *r, int only_loaded)
{
    serve_reply_json(r, json_pack("{s:o}", "models", serve_ollama_list(r->s->models, only_loaded)));
}

void serve_answer_ollama_tags(serve_request *r)
{
    list_models(r, 0);
}

void serve_answer_ollama_ps(serve_request *r)
{
    list_models(r, 1);
}

void serve_answer_ollama_version(serve_request *r)
{
    serve_reply_json(r, json_pack("{s:s}", "version", served_version));
}

static void show(void *user)
{
    serve_request *r = user;
    const serve_model *m = r->m;
    serve_params p;
    char context[64];
    size_t n = 0;
    if (serve_params_read(r, SERVE_FORM_SHOW, &p)) {
        const serve_card card = serve_models_card(
            r->s->models, serve_models_only(r->s->models) ? 0 : serve_models_named(r->s->models, m->id));
        const char *source = m->template ? clef_template_source(m->template, &n) : "";
        snprintf(context, sizeof context, "%.31s.context_length", m->hparams->arch);
        if (p.model && serve_model_find(m, &r->s->o, p.model) < 0)
            serve_fail(&r->error, SERVE_E_MODEL, "model", "model '%.100s' not found", p.model);
        else
            serve_reply_json(r,
                             json_pack("{s:s, s:s, s:s, s:o, s:s%, s:o, s:{s:s, s:I, s:i}, s:o}", "modelfile",
                                       "", "license", "", "parameters", "", "modified_at",
                                       serve_time_text(card.created), "template", source, n, "details",
                                       details_of(&card), "model_info", "general.architecture",
                                       m->hparams->arch, "general.parameter_count", (json_int_t)m->n_params,
                                       context, (int)m->n_context, "capabilities", capabilities_of(m)));
    }
    serve_params_finish(&p);
}

void serve_answer_ollama_show(serve_request *r)
{
    serve_prepare(r, show, r);
}
