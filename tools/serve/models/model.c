/* Opens what a server needs of its model. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/constraint.h"
#include "tools/hub/hub.h"
#include "tools/sampling.h"
#include "tools/serve/os/system.h"
#include "tools/serve/serve.h"

enum { MAX_DEFAULT_CONTEXT = 8192 };

static void set_id(serve_model *m)
{
    const char *title = m->alias ? m->alias : hub_name_of(m->path);
    const int is_named = title != NULL;
    title = title ? title : cli_title_of(m->path);
    size_t n = strlen(title);
    if (!is_named && n > 5 && !strcmp(title + n - 5, ".gguf"))
        n -= 5;
    snprintf(m->id, sizeof m->id, "%.*s", n < sizeof m->id ? (int)n : (int)sizeof m->id - 1, title);
}

static void count_weights(serve_model *m)
{
    for (int32_t i = 0; i < clef_model_n_tensors(m->model); i++) {
        const clef_tensor_info t = clef_model_tensor(m->model, i);
        uint64_t n = 1;
        for (int32_t k = 0; k < t.rank; k++)
            n *= (uint64_t)t.dims[k];
        m->n_params += n;
        m->n_bytes += t.n_bytes;
    }
}

/* ---- templates ------------------------------------------------------------------------------- */

static int keep_arg(serve_model *m, const char *name, size_t n_name, const char *json, size_t n_json)
{
    char *own_name = malloc(n_name + 1), *own = malloc(n_json + 1);
    if (!own_name || !own) {
        free(own_name);
        free(own);
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    }
    memcpy(own_name, name, n_name);
    own_name[n_name] = '\0';
    memcpy(own, json, n_json);
    own[n_json] = '\0';
    m->arg_texts[m->n_arg_texts++] = own_name;
    m->arg_texts[m->n_arg_texts++] = own;
    m->args[m->n_args++] = (clef_template_arg){own_name, own};
    return CLI_GO_ON;
}

/* The model's special tokens, read once: a template that prints each of them tells what they are. */
static int find_specials(serve_model *m)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char source[128];
        clef_template *ask = NULL;
        clef_rendered text = {0};
        clef_error err = {0};
        snprintf(source, sizeof source, "{%% if %s is defined %%}{{ %s | tojson }}{%% endif %%}", names[i],
                 names[i]);
        const clef_template_opts opts = {.messages = "[]", .messages_bytes = 2, .model = m->path};
        int rc = CLI_GO_ON;
        if (clef_template_parse(source, strlen(source), names[i], &ask, &err) != CLEF_OK ||
            clef_template_render(ask, &opts, &text, &err) != CLEF_OK)
            rc = cli_report(&err);
        else if (text.n_bytes)
            rc = keep_arg(m, names[i], strlen(names[i]), text.text, text.n_bytes);
        clef_rendered_finish(&text);
        clef_template_destroy(ask);
        if (rc != CLI_GO_ON)
            return rc;
    }
    return CLI_GO_ON;
}

static int open_templates(serve_model *m, const serve_options *o)
{
    clef_error err = {0};
    size_t n = 0;
    const char *name = o->template;
    clef_status s = clef_template_open(m->path, name, 0, &m->template, &err);
    if (s == CLEF_E_NOT_FOUND && !name && !cli_terminal_is_folder(m->path)) { /* as llama-server has it */
        name = "chatml";
        s = clef_template_open(m->path, name, 0, &m->template, &err);
        fprintf(stderr, "clef: %s has no chat template: chats take chatml; --chat-template names another\n",
                m->id);
    }
    if (s == CLEF_E_NOT_FOUND && !name) { /* it has /v1/completions */
        snprintf(m->no_template, sizeof m->no_template,
                 "the model has no chat template; --chat-template names one");
        return CLI_GO_ON;
    }
    if (!s)
        s = clef_template_open(m->path, name, 1, &m->template_with_tools, &err);
    if (s)
        return cli_report(&err);
    int rc = find_specials(m);
    for (int32_t i = 0; i < o->args.n && rc == CLI_GO_ON; i++) {
        const char *item = o->args.items[i], *equals = strchr(item, '=');
        if (!equals || equals == item)
            return cli_fail(CLI_USAGE, "serve --template-arg: expected KEY=JSON, got '%.60s'", item);
        rc = keep_arg(m, item, (size_t)(equals - item), equals + 1, strlen(equals + 1));
    }
    if (rc != CLI_GO_ON)
        return rc;
    const char *source = clef_template_source(m->template_with_tools, &n);
    m->format = clef_tool_format_of_template(source, n);
    m->is_generic = m->format == CLEF_TOOLS_NONE && !o->tool_format;
    if (m->is_generic)
        m->format = CLEF_TOOLS_JSON;
    if (o->tool_format && clef_tool_format_find(o->tool_format, &m->format, &err) != CLEF_OK)
        return cli_report(&err);
    m->has_think_tag =
        m->format == CLEF_TOOLS_HARMONY ||
        strstr(clef_template_source(m->template, &n), clef_tool_format_thought(m->format).close) != NULL;
    return CLI_GO_ON;
}

/* A model that was trained for fewer dimensions says so in its config (arXiv:2205.13147). */
static void look_for_cut(void *user, const char *key, const char *value)
{
    if (strstr(key, "matryoshka") && strcmp(value, "false") != 0)
        *(int32_t *)user = 1;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void set_limits(serve_model *m, const serve_options *o)
{
    const clef_hparams *hp = m->hparams;
    const int32_t own = hp->n_context, asked = o->n_context;
    m->is_encoder = clef_model_is_encoder(m->model);
    m->is_seq2seq = hp->n_decoder_layers > 0;
    m->is_ranker = clef_model_is_ranker(m->model);
    m->hears = strcmp(hp->arch, "whisper") == 0;
    m->n_context = asked > 0                                          ? asked
                   : own > 0 && (own < MAX_DEFAULT_CONTEXT || !asked) ? own
                                                                      : MAX_DEFAULT_CONTEXT;
    if (m->fit.n_context)
        m->n_context = m->fit.n_context;
    m->n_source = own > 0 ? own : MAX_DEFAULT_CONTEXT;
    if (m->is_seq2seq && hp->decoder_start >= 0)
        m->start[m->n_start++] = hp->decoder_start;
    if (m->is_seq2seq && hp->forced_bos >= 0 && m->n_start < 2)
        m->start[m->n_start++] = hp->forced_bos;
    clef_model_metadata(m->model, look_for_cut, &m->can_cut);
}

static void set_sampling(serve_model *m, const cli_sampler *recommended)
{
    const struct {
        const char *name;
        float *to;
        float otherwise;
    } numbers[] = {{"temperature", &m->sampling.temperature, 1},
                   {"top_p", &m->sampling.top_p, 1},
                   {"min_p", &m->sampling.min_p, 0},
                   {"typical", &m->sampling.typical, 1},
                   {"repeat_penalty", &m->sampling.repeat_penalty, 1}};
    double x;
    m->sampling = recommended->opts;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i].to = clef_model_sampling(m->model, numbers[i].name, &x) ? (float)x : numbers[i].otherwise;
    m->sampling.top_k = clef_model_sampling(m->model, "top_k", &x) ? (int32_t)x : 0;
    m->sampling.biases = NULL;
    m->sampling.n_biases = 0;
    m->sampling.dry_breakers = NULL;
    m->sampling.n_dry_breakers = 0;
}

static int open_sampling(serve_model *m, const serve_options *o)
{
    cli_sampling flags = CLI_SAMPLING_DEFAULTS;
    cli_sampler made;
    flags.samplers = o->samplers;
    const int rc = cli_sampler_make(&flags, "serve", m->model, &made);
    if (rc == CLI_GO_ON) {
        set_sampling(m, &made);
        made.recommended[0] = 0; /* a request's fields say */
        if (!o->quiet)
            cli_sampler_tell(&made, 0);
    }
    cli_sampler_finish(&made);
    return rc;
}

static int open_adapters(serve_model *m, const serve_options *o)
{
    clef_error err = {0};
    if (cli_adapters_open_all(&o->loras, m->model, &m->adapters, &err) != CLEF_OK)
        return cli_report(&err);
    m->adapter_scales = calloc((size_t)m->adapters.n + 1, sizeof *m->adapter_scales);
    if (!m->adapter_scales)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    for (int32_t i = 0; i < m->adapters.n; i++) {
        cli_adapter one;
        if (cli_adapter_split(o->loras.items[i], &one, &err) != CLEF_OK)
            return cli_report(&err);
        m->adapter_scales[i] = one.scale;
    }
    return CLI_GO_ON;
}

/* ---- all ------------------------------------------------------------------------------------- */

int serve_model_open(serve_model *m, const serve_options *o)
{
    clef_error err = {0};
    m->created = (int64_t)serve_time();
    set_id(m);
    if (clef_model_open(m->path, &m->model, &err) != CLEF_OK ||
        (o->mmproj && clef_model_add_pictures(m->model, o->mmproj, &err) != CLEF_OK) ||
        (o->speculation.draft && clef_model_open(o->speculation.draft, &m->draft, &err) != CLEF_OK))
        return cli_report(&err);
    if (o->verbose)
        cli_say_unread(m->model);
    m->hparams = clef_model_hparams(m->model);
    m->tok = clef_model_tokenizer(m->model, &err);
    if (!m->tok)
        return cli_report(&err);
    count_weights(m);
    set_limits(m, o);
    int rc = open_adapters(m, o);
    if (rc == CLI_GO_ON && !m->is_encoder && !m->is_seq2seq && !m->is_ranker)
        rc = open_templates(m, o);
    else if (rc == CLI_GO_ON)
        snprintf(m->no_template, sizeof m->no_template, "%s does not chat: it is %s", m->id,
                 m->hears        ? "a model for sounds, which /v1/audio/transcriptions serves"
                 : m->is_ranker  ? "a model for rankings, which /v1/rerank serves"
                 : m->is_encoder ? "an encoder"
                                 : "an encoder-decoder, which /v1/completions serves");
    if (rc == CLI_GO_ON)
        rc = open_sampling(m, o);
    if (rc != CLI_GO_ON || m->is_encoder || m->is_ranker || m->hears)
        return rc;
    m->n_ends = cli_end_tokens(m->model, m->ends);
    clef_status s = clef_token_trie_create(m->tok, m->ends, m->n_ends, &m->trie, &err);
    if (s == CLEF_OK)
        s = clef_constraint_cache_create(0, &m->constraints, &err);
    return s ? cli_report(&err) : CLI_GO_ON;
}

void serve_model_close(serve_model *m)
{
    clef_constraint_cache_destroy(m->constraints);
    clef_token_trie_destroy(m->trie);
    cli_adapters_finish(&m->adapters);
    free(m->adapter_scales);
    clef_template_destroy(m->template);
    clef_template_destroy(m->template_with_tools);
    for (int32_t i = 0; i < m->n_arg_texts; i++)
        free(m->arg_texts[i]);
    clef_model_close(m->draft);
    clef_model_close(m->model);
    *m = (serve_model){.path = m->path, .alias = m->alias, .fit = m->fit};
}

/* A name that stands for a file, and for no model that a client could mean. */
static int is_path(const char *name)
{
    return name[0] == '/' || name[0] == '\\' || name[0] == '~' || strstr(name, "..") != NULL;
}

int serve_is_name(const char *name, const char *id)
{
    const size_t n = strlen(id);
    return !strncmp(name, id, n) && (!name[n] || !strcmp(name + n, ":latest"));
}

int32_t serve_model_find(const serve_model *m, const serve_options *o, const char *name)
{
    const int32_t adapter = cli_adapters_find(&m->adapters, name);
    const int strict = o->strict_model || m->adapters.n > 0 || is_path(name);
    if (adapter)
        return adapter;
    return !strict || serve_is_name(name, m->id) || !*name ? 0 : -1;
}
