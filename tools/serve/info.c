/* What the server says of itself: health, models, limits, metrics, and its page. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/page.h"
#include "tools/serve/engine.h"
#include "tools/serve/http.h"
#include "tools/serve/keys.h"
#include "tools/serve/os/system.h"

void serve_answer_health(serve_request *r)
{
    const int state = atomic_load(&r->s->state);
    const int is_lost = state == SERVE_READY && serve_engine_describe(r->engine).is_lost;
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

/* Number i: 0 is the model itself, others its adapters. */
static json_t *model_object(const serve_model *m, int32_t i)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:s}", "id", i ? m->adapters.names[i - 1] : m->id, "object",
                          "model", "created", (json_int_t)m->created, "owned_by", "clef");
    if (i)
        json_object_set_new(o, "parent", json_string(m->id));
    json_object_set_new(o, "max_model_len", json_integer(m->n_context));  /* vLLM's name for it */
    json_object_set_new(o, "context_length", json_integer(m->n_context)); /* OpenRouter's */
    json_object_set_new(o, "meta",
                        json_pack("{s:i, s:i, s:I, s:I}", "n_ctx", (int)m->n_context, "n_vocab",
                                  (int)m->hparams->n_vocab, "n_params", (json_int_t)m->n_params, "size",
                                  (json_int_t)m->n_bytes));
    return o;
}

void serve_answer_models(serve_request *r)
{
    const serve_model *m = r->m;
    json_t *list = json_array();
    for (int32_t i = 0; i <= m->adapters.n; i++)
        json_array_append_new(list, model_object(m, i));
    serve_reply_json(r, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes %XX; 0 where the result has a NUL or is too long. */
static int decode(const char *text, char *out, size_t room)
{
    size_t n = 0;
    for (; *text; text++) {
        char c = *text;
        if (c == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
            c = (char)(hex(text[1]) * 16 + hex(text[2]));
            text += 2;
        }
        if (!c || n + 1 >= room)
            return 0;
        out[n++] = c;
    }
    out[n] = '\0';
    return 1;
}

void serve_answer_model(serve_request *r)
{
    const serve_model *m = r->m;
    char name[256];
    if (decode(r->path, name, sizeof name)) {
        const int32_t i = !strcmp(name, m->id) ? 0 : cli_adapters_find(&m->adapters, name);
        if (i || !strcmp(name, m->id)) {
            serve_reply_json(r, model_object(m, i));
            return;
        }
    }
    serve_fail(&r->error, SERVE_E_MODEL, "model", "the model '%.100s' is not here; this server has '%s'",
               r->path, m->id);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static json_t *limits(const serve_options *o, const serve_model *m, const serve_engine_stats *s)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "n_ctx", (int)m->n_context, "max_seqs",
                     (int)o->max_seqs, "max_queue", (int)o->max_queue, "max_body", (int)o->max_body, "max_n",
                     (int)o->max_n, "max_tokens", (int)o->max_tokens, "n_embd", (int)s->n_dims,
                     "max_embedding_tokens", (int)s->max_tokens);
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

void serve_answer_props(serve_request *r)
{
    const serve_server *srv = r->s;
    const serve_model *m = r->m;
    const serve_engine_stats s = serve_engine_describe(r->engine);
    size_t n = 0;
    const char *source = m->template ? clef_template_source(m->template, &n) : NULL;
    const int speculates = (srv->o.speculation.spec || m->draft) && !s.no_speculation;
    json_t *o =
        json_pack("{s:s, s:s, s:o, s:o}", "model", m->id, "clef_version", clef_version(), "limits",
                  limits(&srv->o, m, &s), "chat_template", source ? json_stringn(source, n) : json_null());
    json_object_set_new(
        o, "capabilities",
        json_pack(
            "{s:b, s:b, s:s, s:b, s:b, s:b, s:b, s:b, s:b}", "chat", m->template && m->trie && !m->is_seq2seq,
            "tools", m->format != CLEF_TOOLS_NONE, "tool_format", clef_tool_format_name(m->format),
            "completions", m->trie != NULL, "embeddings", s.n_dims > 0, "rerank", s.ranks, "prefix_cache",
            m->trie && !s.no_prefix_cache, "speculation", speculates, "repeatable", (int)srv->o.repeatable));
    json_object_set_new(
        o, "device",
        json_pack("{s:s, s:s, s:s}", "name", s.device, "driver", s.driver, "kernels", s.kernels));
    json_t *formats = json_array();
    for (int32_t i = 0; i < m->adapters.n; i++)
        json_array_append_new(formats, json_string(m->adapters.names[i]));
    json_object_set_new(o, "adapters", formats);
    /* llama-server's names */
    json_object_set_new(o, "model_alias", json_string(m->id));
    json_object_set_new(o, "modalities", json_pack("{s:b, s:b}", "vision", 0, "audio", 0));
    json_object_set_new(o, "chat_template_caps", template_caps(m, source));
    json_object_set_new(o, "total_slots", json_integer(srv->o.max_seqs));
    json_object_set_new(o, "default_generation_settings", json_pack("{s:i}", "n_ctx", (int)m->n_context));
    serve_reply_json(r, o);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void read_gauges(serve_server *s, const serve_engine_stats *e, double g[SERVE_N_GAUGES])
{
    const clef_batch_stats *b = &e->batch;
    g[SERVE_GAUGE_RUNNING] = e->n_running;
    g[SERVE_GAUGE_WAITING] = e->n_waiting;
    g[SERVE_GAUGE_CONNECTIONS] = serve_http_n_connections(s->http);
    g[SERVE_GAUGE_PAGES] = b->n_pages;
    g[SERVE_GAUGE_PAGES_USED] = b->n_pages_running + b->n_pages_kept;
    g[SERVE_GAUGE_PAGES_CACHED] = b->n_pages_kept;
    g[SERVE_GAUGE_START] = s->start_time;
    g[SERVE_GAUGE_RESIDENT] = (double)serve_resident_bytes();
}

void serve_answer_metrics(serve_request *r)
{
    serve_server *s = r->s;
    const serve_engine_stats e = serve_engine_describe(s->engine);
    double gauges[SERVE_N_GAUGES] = {0};
    serve_buffer build = {0}, all = {0};
    const char *const labels[][2] = {{"version=\"", clef_version()},
                                     {"\",model=\"", s->m.id},
                                     {"\",device=\"", e.device},
                                     {"\",driver=\"", e.driver}};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        serve_buffer_print(&build, "%s", labels[i][0]);
        serve_label_text(labels[i][1], &build);
    }
    serve_buffer_print(&build, "\"");
    read_gauges(s, &e, gauges);
    const int failed = build.failed;
    serve_metrics_write(&s->metrics, gauges, failed ? "" : build.p, &all);
    serve_buffer_free(&build);
    r->reply = all.p;
    r->n_reply = all.n;
    r->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (failed || all.failed)
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
