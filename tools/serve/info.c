/* What the server says of itself: health, models, metrics, and its page. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/page.h"
#include "tools/serve/engine.h"
#include "tools/serve/http.h"
#include "tools/serve/keys.h"
#include "tools/serve/models.h"
#include "tools/serve/os/system.h"
#include "tools/serve/params.h"
#include "tools/serve/rules.h"

static int is_any_lost(serve_server *s)
{
    int lost = 0;
    for (int32_t i = 0; i < serve_models_count(s->models); i++)
        lost |= serve_models_describe(s->models, i).is_lost;
    return lost;
}

void serve_answer_health(serve_request *r)
{
    const int state = atomic_load(&r->s->state);
    const int is_lost = state == SERVE_READY && is_any_lost(r->s);
    if (state == SERVE_READY && !is_lost) {
        serve_reply_json(r, json_pack("{s:s}", "status", "ok"));
        return;
    }
    serve_reply_json(r, json_pack("{s:{s:i, s:s, s:s}}", "error", "code", 503, "message",
                                  state == SERVE_LOADING ? "Loading model"
                                  : is_lost              ? "The device is lost"
                                                         : "Draining",
                                  "type", "unavailable_error"));
    r->status = 503;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* As llama-server says it: what a model writes is text unless it decides, which none here does. */
static json_t *architecture(const serve_card *card)
{
    json_t *reads = json_pack("[s]", "text");
    if (card->sees)
        json_array_append_new(reads, json_string("image"));
    if (card->hears)
        json_array_append_new(reads, json_string("audio"));
    return json_pack("{s:o, s:[s]}", "input_modalities", reads, "output_modalities", "text");
}

/* A model, or one of its adapters: OpenAI's members, Anthropic's, and those of others. */
static json_t *model_object(const serve_card *card, const char *adapter)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:s}", "id", adapter ? adapter : card->id, "object", "model",
                          "created", (json_int_t)card->created, "owned_by", "clef");
    json_object_update_new(o,
                           json_pack("{s:s, s:O, s:o}", "type", "model", "display_name",
                                     json_object_get(o, "id"), "created_at", serve_time_text(card->created)));
    if (adapter)
        json_object_set_new(o, "parent", json_string(card->id));
    json_object_set_new(o, "max_model_len", json_integer(card->n_context));  /* vLLM's name for it */
    json_object_set_new(o, "context_length", json_integer(card->n_context)); /* OpenRouter's */
    json_object_set_new(o, "state", json_string(serve_presence_text(card->now)));
    json_object_set_new(o, "status", /* llama-server's */
                        json_pack("{s:s}", "value", serve_presence_text(card->now)));
    json_object_set_new(o, "architecture", architecture(card));
    json_object_set_new(o, "meta",
                        json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:I}", "vocab_type", (int)card->kind,
                                  "n_vocab", (int)card->n_vocab, "n_ctx", (int)card->n_context, "n_ctx_train",
                                  (int)card->n_trained, "n_embd", (int)card->n_dims, "n_params",
                                  (json_int_t)card->n_params, "size", (json_int_t)card->n_bytes));
    return o;
}

void serve_answer_models(serve_request *r)
{
    serve_models *ms = r->s->models;
    const serve_model *only = serve_models_only(ms);
    json_t *list = json_array();
    for (int32_t i = 0; i < serve_models_count(ms); i++) {
        const serve_card card = serve_models_card(ms, i);
        json_array_append_new(list, model_object(&card, NULL));
        for (int32_t k = 0; only && k < only->adapters.n; k++)
            json_array_append_new(list, model_object(&card, only->adapters.names[k]));
    }
    const json_t *first = json_array_get(list, 0), *last = json_array_get(list, json_array_size(list) - 1);
    /* `models` is llama-server's, after Ollama's; the page is Anthropic's */
    serve_reply_json(r, json_pack("{s:s, s:b, s:O?, s:O?, s:o, s:o}", "object", "list", "has_more", 0,
                                  "first_id", json_object_get(first, "id"), "last_id",
                                  json_object_get(last, "id"), "data", list, "models",
                                  serve_ollama_list(ms, 0)));
}

void serve_answer_model(serve_request *r)
{
    serve_models *ms = r->s->models;
    const serve_model *only = serve_models_only(ms);
    char name[SERVE_MODEL_NAME];
    const int ok = serve_decode_percent(r->path, name, sizeof name);
    const int32_t i = ok ? serve_models_named(ms, name) : -1,
                  adapter = ok && only ? cli_adapters_find(&only->adapters, name) : 0;
    const serve_card card = serve_models_card(ms, i < 0 ? 0 : i);
    if (i >= 0 || adapter)
        serve_reply_json(r, model_object(&card, adapter ? only->adapters.names[adapter - 1] : NULL));
    else
        serve_fail(&r->error, SERVE_E_MODEL, "model",
                   "the model '%.100s' is not here; this server has '%s'%s", r->path, card.id,
                   only ? "" : " and others (/v1/models)");
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void read_gauges(serve_server *s, double g[SERVE_N_GAUGES])
{
    for (int32_t i = 0; i < serve_models_count(s->models); i++) {
        const serve_engine_stats e = serve_models_describe(s->models, i);
        g[SERVE_GAUGE_RUNNING] += e.n_running;
        g[SERVE_GAUGE_WAITING] += e.n_waiting;
        g[SERVE_GAUGE_PAGES] += e.batch.n_pages;
        g[SERVE_GAUGE_PAGES_USED] += e.batch.n_pages_running + e.batch.n_pages_kept;
        g[SERVE_GAUGE_PAGES_CACHED] += e.batch.n_pages_kept;
        g[SERVE_GAUGE_MODELS] += serve_models_card(s->models, i).now == SERVE_IS_LOADED;
        g[SERVE_GAUGE_MODEL_BYTES] += (double)e.bytes;
    }
    g[SERVE_GAUGE_WAITING] += serve_models_n_waiting(s->models);
    g[SERVE_GAUGE_CONNECTIONS] = serve_http_n_connections(s->http);
    g[SERVE_GAUGE_START] = s->start_time;
    g[SERVE_GAUGE_RESIDENT] = (double)serve_resident_bytes();
}

/* The labels of clef_build_info, of a model that is loaded. */
static void write_build(serve_server *s, int32_t i, serve_buffer *to)
{
    const serve_engine_stats e = serve_models_describe(s->models, i);
    const serve_card card = serve_models_card(s->models, i);
    const char *const labels[][2] = {{"version=\"", clef_version()},
                                     {"\",model=\"", card.id},
                                     {"\",device=\"", e.device},
                                     {"\",driver=\"", e.driver}};
    for (size_t k = 0; k < sizeof labels / sizeof *labels; k++) {
        serve_buffer_print(to, "%s", labels[k][0]);
        serve_label_text(labels[k][1], to);
    }
    serve_buffer_print(to, "\"");
}

void serve_answer_metrics(serve_request *r)
{
    serve_server *s = r->s;
    double gauges[SERVE_N_GAUGES] = {0};
    serve_buffer all = {0};
    read_gauges(s, gauges);
    serve_llama_metrics(&s->metrics, gauges, &all);
    serve_metrics_write(&s->metrics, gauges, &all);
    for (int32_t i = 0; i < serve_models_count(s->models); i++) {
        serve_buffer build = {0};
        if (serve_models_card(s->models, i).now == SERVE_IS_UNLOADED)
            continue;
        write_build(s, i, &build);
        serve_buffer_print(&all, "clef_build_info{%s} 1\n", build.failed ? "" : build.p);
        all.failed |= build.failed;
        serve_buffer_free(&build);
    }
    r->reply = all.p;
    r->n_reply = all.n;
    r->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (all.failed)
        serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The hash of what is between two tags. */
static void hash_between(const char *page, const char *begin, const char *end, char out[64])
{
    const char *from = strstr(page, begin), *to = from ? strstr(from, end) : NULL;
    serve_policy_hash(from ? from + strlen(begin) : "", to ? (size_t)(to - from) - strlen(begin) : 0, out);
}

void serve_answer_page(serve_request *r)
{
    const char *text = NULL;
    char script[64], style[64];
    for (const cli_page_file *f = cli_pages; f->name; f++)
        if (!strcmp(f->name, "chat.html"))
            text = f->text;
    r->n_reply = text ? strlen(text) : 0;
    r->reply = text ? malloc(r->n_reply + 1) : NULL;
    if (!r->reply) {
        serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
        return;
    }
    memcpy(r->reply, text, r->n_reply + 1);
    r->content_type = "text/html; charset=utf-8";
    /* The page has one script and one style, and talks to this server alone. */
    hash_between(text, "<script>", "</script>", script);
    hash_between(text, "<style>", "</style>", style);
    snprintf(r->policy, sizeof r->policy,
             "default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; base-uri 'none'; "
             "form-action 'none'; frame-ancestors 'none'",
             script, style);
}
