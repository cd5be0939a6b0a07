/* What the server says of itself: health, models, limits, metrics, and its page. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/sight.h"
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

/* A model, or one of its adapters. */
static json_t *model_object(const serve_card *card, const char *adapter)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:s}", "id", adapter ? adapter : card->id, "object", "model",
                          "created", (json_int_t)card->created, "owned_by", "clef");
    if (adapter)
        json_object_set_new(o, "parent", json_string(card->id));
    json_object_set_new(o, "max_model_len", json_integer(card->n_context));  /* vLLM's name for it */
    json_object_set_new(o, "context_length", json_integer(card->n_context)); /* OpenRouter's */
    json_object_set_new(o, "state", json_string(serve_presence_text(card->now)));
    json_object_set_new(o, "status", /* llama-server's */
                        json_pack("{s:s}", "value", serve_presence_text(card->now)));
    json_object_set_new(o, "meta",
                        json_pack("{s:i, s:i, s:I, s:I}", "n_ctx", (int)card->n_context, "n_vocab",
                                  (int)card->n_vocab, "n_params", (json_int_t)card->n_params, "size",
                                  (json_int_t)card->n_bytes));
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
    /* `models` is llama-server's, after Ollama's */
    serve_reply_json(
        r, json_pack("{s:s, s:o, s:o}", "object", "list", "data", list, "models", serve_ollama_list(ms, 0)));
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

/* ---- limits ---------------------------------------------------------------------------------- */

static json_t *limits(const serve_request *r, const serve_engine_stats *s)
{
    const serve_options *o = &r->s->o;
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "n_ctx", (int)r->m->n_context, "max_seqs",
                     (int)o->max_seqs, "max_queue", (int)o->max_queue, "max_body", (int)serve_most_body(r),
                     "max_n", (int)o->max_n, "max_tokens", (int)o->max_tokens, "n_embd", (int)s->n_dims,
                     "max_embedding_tokens", (int)s->max_tokens);
}

/* The names of the samplers, in their order. */
static json_t *samplers_of(const clef_sampler_opts *o)
{
    json_t *list = json_array();
    for (int i = 0; i + 1 < CLEF_N_SAMPLERS && (!o->samplers[0] || o->samplers[i]); i++)
        json_array_append_new(list, json_string(clef_sampler_name(
                                        (clef_sampler_kind)(o->samplers[0] ? o->samplers[i] : i + 1))));
    return list;
}

json_t *serve_settings_of(const clef_sampler_opts *o)
{
    json_t *all = json_pack(
        "{s:I, s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "seed", (json_int_t)(o->seed & INT64_MAX), "temperature",
        (double)o->temperature, "dynatemp_range", 0.0, "top_k", (int)o->top_k, "top_p", (double)o->top_p,
        "min_p", (double)o->min_p, "typical_p", (double)o->typical, "top_n_sigma", (double)o->top_n_sigma);
    json_object_update_new(
        all, json_pack("{s:f, s:i, s:f, s:f, s:f, s:f}", "repeat_penalty", (double)o->repeat_penalty,
                       "repeat_last_n", o->repeat_last_n ? (int)o->repeat_last_n : 64, "presence_penalty",
                       (double)o->presence_penalty, "frequency_penalty", (double)o->frequency_penalty,
                       "xtc_probability", (double)o->xtc_probability, "xtc_threshold",
                       o->xtc_threshold > 0 ? (double)o->xtc_threshold : 0.1));
    json_object_update_new(
        all,
        json_pack("{s:f, s:f, s:i, s:i, s:i, s:f, s:f, s:o}", "dry_multiplier", (double)o->dry_multiplier,
                  "dry_base", o->dry_base > 0 ? (double)o->dry_base : 1.75, "dry_allowed_length",
                  o->dry_allowed_length ? (int)o->dry_allowed_length : 2, "dry_penalty_last_n",
                  o->dry_last_n ? (int)o->dry_last_n : -1, "mirostat", (int)o->mirostat, "mirostat_tau",
                  o->mirostat_tau > 0 ? (double)o->mirostat_tau : 5.0, "mirostat_eta",
                  o->mirostat_eta > 0 ? (double)o->mirostat_eta : 0.1, "samplers", samplers_of(o)));
    return all;
}

/* What llama-server says of a template, under its names. */
static json_t *template_caps(const serve_model *m, const char *source)
{
    const int tools = m->format != CLEF_TOOLS_NONE;
    return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "supports_tools", tools, "supports_tool_calls", tools,
                     "supports_parallel_tool_calls", tools, "supports_system_role",
                     source && strstr(source, "system") != NULL, "supports_string_content", source != NULL,
                     "supports_typed_content", source != NULL);
}

/* Without its folder: a path is nobody else's affair. */
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static json_t *token_of(const serve_model *m, int32_t id)
{
    size_t n = 0;
    const char *text = id >= 0 ? clef_tokenizer_bytes(m->tok, id, &n) : NULL;
    json_t *token = text ? json_stringn(text, n) : NULL;
    return token ? token : json_string("");
}

/* What a request that says nothing else gets. */
static json_t *default_settings(const serve_model *m, int speculates)
{
    json_t *params = serve_settings_of(&m->sampling);
    json_object_update_new(params,
                           json_pack("{s:i, s:i, s:b, s:b, s:i, s:[], s:[]}", "n_predict", -1, "max_tokens",
                                     -1, "ignore_eos", 0, "stream", 0, "n_probs", 0, "stop", "logit_bias"));
    return json_pack("{s:i, s:i, s:i, s:b, s:b, s:o}", "id", 0, "id_task", -1, "n_ctx", (int)m->n_context,
                     "speculative", speculates, "is_processing", 0, "params", params);
}

void serve_answer_props(serve_request *r)
{
    const serve_server *srv = r->s;
    const serve_model *m = r->m;
    const serve_engine_stats s = serve_engine_describe(r->engine);
    size_t n = 0;
    const char *source = m->template ? clef_template_source(m->template, &n) : NULL;
    const int speculates = (srv->o.speculation.spec || m->draft) && !s.no_speculation;
    json_t *o = json_pack("{s:s, s:s, s:o, s:o}", "model", m->id, "clef_version", clef_version(), "limits",
                          limits(r, &s), "chat_template", source ? json_stringn(source, n) : json_null());
    json_object_set_new(o, "capabilities",
                        json_pack("{s:b, s:b, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "chat",
                                  m->template && m->trie && !m->is_seq2seq, "tools",
                                  m->format != CLEF_TOOLS_NONE, "tool_format",
                                  clef_tool_format_name(m->format), "completions", m->trie != NULL,
                                  "embeddings", s.n_dims > 0, "rerank", s.ranks, "transcriptions",
                                  (int)m->hears, "prefix_cache", m->trie && !s.no_prefix_cache, "speculation",
                                  speculates, "repeatable", (int)srv->o.repeatable));
    json_object_set_new(
        o, "device",
        json_pack("{s:s, s:s, s:s}", "name", s.device, "driver", s.driver, "kernels", s.kernels));
    json_t *formats = json_array();
    for (int32_t i = 0; i < m->adapters.n; i++)
        json_array_append_new(formats, json_string(m->adapters.names[i]));
    json_object_set_new(o, "adapters", formats);
    /* llama-server's names */
    json_object_set_new(o, "model_alias", json_string(m->id));
    json_object_set_new(o, "modalities",
                        json_pack("{s:b, s:b}", "vision", m->trie && clef_model_sees(m->model, NULL), "audio",
                                  (int)m->hears));
    json_object_set_new(o, "chat_template_caps", template_caps(m, source));
    json_object_update_new(o,
                           json_pack("{s:i, s:s, s:s, s:o, s:o, s:b, s:o}", "total_slots",
                                     (int)srv->o.max_seqs, "model_path", file_name(m->path), "build_info",
                                     srv->fingerprint, "bos_token", token_of(m, clef_tokenizer_bos(m->tok)),
                                     "eos_token", token_of(m, m->n_ends ? m->ends[0] : -1), "is_sleeping", 0,
                                     "default_generation_settings", default_settings(m, speculates)));
    serve_reply_json(r, o);
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* One place, by llama-server's names. Nothing of a prompt or a text is in it. */
static json_t *slot_object(const serve_server *s, const serve_card *card, int32_t i, const serve_slot *slot)
{
    const clef_sampler_opts *o = &slot->sampling;
    const int is_busy = slot->sequence >= 0;
    json_t *one = json_pack("{s:i, s:I, s:i, s:b, s:b}", "id", (int)i, "id_task", (json_int_t)slot->sequence,
                            "n_ctx", (int)card->n_context, "speculative", s->o.speculation.spec != NULL,
                            "is_processing", is_busy);
    if (!is_busy)
        return one;
    const int n_predict = slot->n_max ? (int)slot->n_max : -1;
    json_object_set_new(one, "params",
                        json_pack("{s:i, s:I, s:f, s:i, s:f, s:f, s:f, s:f, s:i, s:f, s:f}", "n_predict",
                                  n_predict, "seed", (json_int_t)(o->seed & INT64_MAX), "temperature",
                                  (double)o->temperature, "top_k", (int)o->top_k, "top_p", (double)o->top_p,
                                  "min_p", (double)o->min_p, "typical_p", (double)o->typical,
                                  "repeat_penalty", (double)o->repeat_penalty, "repeat_last_n",
                                  (int)o->repeat_last_n, "presence_penalty", (double)o->presence_penalty,
                                  "frequency_penalty", (double)o->frequency_penalty));
    json_object_set_new(one, "next_token",
                        json_pack("{s:b, s:i, s:i}", "has_next_token", 1, "n_remain",
                                  n_predict < 0 ? -1 : n_predict - (int)slot->n_tokens, "n_decoded",
                                  (int)slot->n_tokens));
    json_object_set_new(one, "n_prompt_tokens", json_integer(slot->n_prompt));
    return one;
}

void serve_answer_slots(serve_request *r)
{
    serve_models *ms = r->s->models;
    char name[SERVE_MODEL_NAME] = "";
    if (r->query_model)
        serve_decode_percent(r->query_model, name, sizeof name);
    const int32_t named = *name ? serve_models_named(ms, name) : 0, room = r->s->o.max_seqs;
    if (named < 0) {
        serve_fail(&r->error, SERVE_E_MODEL, "model", "the model '%.100s' is not here", name);
        return;
    }
    serve_slot *slots = calloc((size_t)room, sizeof *slots);
    const int32_t n = slots ? serve_models_slots(ms, named, slots, room) : 0;
    const serve_card card = serve_models_card(ms, named);
    json_t *list = slots ? json_array() : NULL;
    int32_t n_free = 0;
    for (int32_t i = 0; i < n; i++) {
        json_array_append_new(list, slot_object(r->s, &card, i, &slots[i]));
        n_free += slots[i].sequence < 0;
    }
    free(slots);
    if (list && r->needs_slot && !n_free) {
        json_decref(list);
        serve_fail(&r->error, SERVE_E_UNAVAILABLE, NULL, "no slot available");
        return;
    }
    serve_reply_json(r, list);
}

void serve_answer_slot_action(serve_request *r)
{
    serve_fail(&r->error, SERVE_E_NOT_HERE, "action",
               "action: not supported: clef keeps no state of a slot; prompts share their beginnings by "
               "themselves, and --cache-disk keeps them in files");
}

void serve_answer_adapters(serve_request *r)
{
    const serve_model *m = r->m;
    json_t *list = json_array();
    for (int32_t i = 0; i < m->adapters.n; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:s, s:f}", "id", (int)i, "name", m->adapters.names[i],
                                        "path", m->adapters.names[i], "scale", (double)m->adapter_scales[i]));
    serve_reply_json(r, list);
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
