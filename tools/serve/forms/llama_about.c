/* What llama-server says of itself, under its names: /props, /slots, /lora-adapters, and its metrics.
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md has them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clef/sight.h"
#include "tools/serve/base/body.h"
#include "tools/serve/engine.h"
#include "tools/serve/forms/form.h"
#include "tools/serve/http.h"
#include "tools/serve/keys.h"
#include "tools/serve/models.h"
#include "tools/serve/params.h"
#include "tools/serve/rules.h"

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
    json_t *all =
        json_pack("{s:I, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "seed", (json_int_t)(o->seed & INT64_MAX),
                  "temperature", (double)o->temperature, "dynatemp_range", 0.0, "dynatemp_exponent", 1.0,
                  "top_k", (int)o->top_k, "top_p", (double)o->top_p, "min_p", (double)o->min_p, "typical_p",
                  (double)o->typical, "top_n_sigma", (double)o->top_n_sigma);
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
    json_object_update_new(all, json_pack("{s:i, s:i, s:i}", "n_keep", 0, "n_discard", 0, "min_keep", 0));
    return all;
}

/* Whether what the system says is in the text. */
static int writes_system(const serve_model *m)
{
    static const char talk[] = "[{\"role\":\"system\",\"content\":\"a rule for clef\"},"
                               "{\"role\":\"user\",\"content\":\"Hello\"}]";
    const clef_template_opts opts = {
        .messages = talk, .messages_bytes = sizeof talk - 1, .args = m->args, .n_args = m->n_args};
    clef_rendered text = {0};
    clef_error err = {0};
    const int writes = m->template && clef_template_render(m->template, &opts, &text, &err) == CLEF_OK &&
                       strstr(text.text, "a rule for clef") != NULL;
    clef_rendered_finish(&text);
    return writes;
}

static json_t *template_caps(const serve_model *m, const char *source)
{
    const int tools = m->format != CLEF_TOOLS_NONE;
    return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "supports_tools", tools, "supports_tool_calls", tools,
                     "supports_parallel_tool_calls", tools, "supports_system_role", writes_system(m),
                     "supports_string_content", source != NULL, "supports_typed_content", source != NULL);
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

/* What a request that says nothing else gets: a seed that is drawn for it, which llama-server writes so. */
static json_t *default_settings(const serve_request *r, int speculates)
{
    const serve_model *m = r->m;
    const cli_seed *seed = &r->s->o.seed;
    json_t *params = serve_settings_of(&m->sampling);
    json_object_set_new(params, "seed",
                        json_integer(seed->given ? (json_int_t)(seed->value & INT64_MAX) : UINT32_MAX));
    json_object_update_new(params, json_pack("{s:i, s:i, s:b, s:b, s:i, s:b, s:b, s:s, s:[], s:[], s:[]}",
                                             "n_predict", -1, "max_tokens", -1, "ignore_eos", 0, "stream", 0,
                                             "n_probs", 0, "timings_per_token", 0, "post_sampling_probs", 0,
                                             "grammar", "", "stop", "logit_bias", "lora"));
    return json_pack("{s:i, s:i, s:i, s:b, s:b, s:o, s:s, s:{s:b, s:b, s:i, s:i, s:s}}", "id", 0, "id_task",
                     -1, "n_ctx", (int)m->n_context, "speculative", speculates, "is_processing", 0, "params",
                     params, "prompt", "", "next_token", "has_next_token", 1, "has_new_line", 0, "n_remain",
                     -1, "n_decoded", 0, "stopping_word", "");
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
                                     "default_generation_settings", default_settings(r, speculates)));
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
    json_t *params = serve_settings_of(o);
    json_object_update_new(params, json_pack("{s:i, s:i}", "n_predict", n_predict, "max_tokens", n_predict));
    json_object_set_new(one, "params", params);
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
    if (r->query[SERVE_QUERY_MODEL])
        serve_decode_percent(r->query[SERVE_QUERY_MODEL], name, sizeof name);
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

void serve_answer_not_here(serve_request *r)
{
    serve_fail(&r->error, SERVE_E_NOT_HERE, NULL, "%s: not supported by this server", r->whole_path);
}

static void list_adapters(serve_request *r)
{
    const serve_model *m = r->m;
    const int32_t chosen = atomic_load(&r->s->adapter) - 1;
    json_t *list = json_array();
    for (int32_t i = 0; i < m->adapters.n; i++) {
        const double scale = chosen == i + 1 ? (double)m->adapter_scales[i] : 0;
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:s, s:f}", "id", (int)i, "name", m->adapters.names[i],
                                        "path", m->adapters.names[i], "scale", scale));
    }
    serve_reply_json(r, list);
}

static int hold(void *user, size_t n_bytes)
{
    return serve_hold(user, n_bytes);
}

static void choose_adapter(serve_request *r)
{
    const serve_body_opts opts = {.hold = hold, .user = r, .is_list = 1};
    serve_body body = {.root = NULL};
    char none[] = "";
    int32_t chosen = 0;
    if (serve_keys_count(r->s->keys) > 1)
        serve_fail(
            &r->error, SERVE_E_NOT_HERE, NULL,
            "POST /lora-adapters: not supported where the server has several keys: it would change the "
            "replies to all of them; 'model' or 'lora' of a request names its adapter");
    else if (serve_body_read(r->body ? r->body : none, r->n_body, &opts, &body, &r->error) &&
             serve_pick_adapter(r, body.root, &chosen)) {
        atomic_store(&r->s->adapter, 1 + chosen);
        serve_reply_json(r, json_pack("{s:b}", "success", 1));
    }
    json_decref(body.root);
}

void serve_answer_adapters(serve_request *r)
{
    if (!strcmp(r->method, "POST"))
        choose_adapter(r);
    else
        list_adapters(r);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void serve_llama_metrics(const serve_metrics *m, const double gauges[SERVE_N_GAUGES], serve_buffer *to)
{
#define COUNT(id) ((double)atomic_load(&m->counters[SERVE_COUNT_##id]))
#define SECONDS(id) ((double)atomic_load(&m->histograms[SERVE_TIME_##id].sum) * 1e-6)
    const double fed = COUNT(PROMPT_TOKENS) - COUNT(CACHED_TOKENS), written = COUNT(GENERATED_TOKENS);
    const struct {
        const char *name, *type, *help;
        double value;
    } all[] = {
        {"prompt_tokens_total", "counter", "Tokens of prompts that were computed", fed},
        {"prompt_seconds_total", "counter", "Time that prompts took", SECONDS(PREFILL)},
        {"prompt_tokens_seconds", "gauge", "Their tokens a second", ratio(fed, SECONDS(PREFILL))},
        {"tokens_predicted_total", "counter", "Tokens that were generated", written},
        {"tokens_predicted_seconds_total", "counter", "Time that they took", SECONDS(ITL)},
        {"predicted_tokens_seconds", "gauge", "Tokens a second of a text", ratio(written, SECONDS(ITL))},
        {"requests_processing", "gauge", "Requests that are being computed", gauges[SERVE_GAUGE_RUNNING]},
        {"requests_deferred", "gauge", "Requests in the queue", gauges[SERVE_GAUGE_WAITING]},
        {"n_tokens_max", "counter", "The longest text so far, with its prompt", COUNT(LONGEST)},
        {"n_decode_total", "counter", "Steps of the batch", COUNT(STEPS)},
        {"n_busy_slots_per_decode", "gauge", "Texts in a step", ratio(COUNT(STEP_TEXTS), COUNT(STEPS))},
        {"spec_decode_num_draft_tokens_total", "counter", "Tokens that speculation drafted", COUNT(DRAFTED)},
        {"spec_decode_num_accepted_tokens_total", "counter", "Of these, tokens that were right",
         COUNT(ACCEPTED)},
        {"spec_decode_num_drafts_total", "counter", "Steps with drafts", COUNT(DRAFTS)},
    };
#undef COUNT
#undef SECONDS
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        serve_buffer_print(to, "# HELP llamacpp:%s %s.\n# TYPE llamacpp:%s %s\nllamacpp:%s %.15g\n",
                           all[i].name, all[i].help, all[i].name, all[i].type, all[i].name, all[i].value);
}
