/* A conversation: opens what it needs, keeps the messages, and renders them. answer.c lets the model answer.
 */
#include "tools/chat/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/adapters.h"
#include "tools/cli/common.h"
#include "tools/cli/terminal.h"

enum { MAX_DEFAULT_CONTEXT = 8192 };

/* ---- messages ------------------------------------------------------------------------------- */

int talk_add(talk *t, const char *role, const char *content)
{
    json_t *message = json_pack("{s:s, s:s}", "role", role, "content", content);
    if (!message || json_array_append_new(t->messages, message) != 0)
        return cli_fail(CLI_FAILED, "chat: the message is not UTF-8");
    return CLI_GO_ON;
}

int talk_ask(talk *t, const char *text)
{
    json_t *parts = json_array();
    if (t->pictures.n == t->n_images) {
        json_decref(parts);
        return talk_add(t, "user", text);
    }
    for (; t->n_images < t->pictures.n; t->n_images++)
        json_array_append_new(parts, json_pack("{s:s}", "type", "image"));
    json_t *said = json_pack("{s:s, s:s}", "type", "text", "text", text);
    if (!said || json_array_append_new(parts, said) != 0 ||
        json_array_append_new(t->messages, json_pack("{s:s, s:O}", "role", "user", "content", parts)) != 0) {
        json_decref(parts);
        return cli_fail(CLI_FAILED, "chat: the message is not UTF-8");
    }
    json_decref(parts);
    return CLI_GO_ON;
}

static int32_t count_images(const json_t *message)
{
    const json_t *part;
    size_t i;
    int32_t n = 0;
    json_array_foreach(json_object_get(message, "content"), i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        n += type && strcmp(type, "image") == 0;
    }
    return n;
}

void talk_forget(talk *t, int first)
{
    const json_t *message;
    size_t i;
    int32_t n = 0;
    json_array_foreach(t->messages, i, message)
        n += count_images(message);
    const int32_t next = t->pictures.n - t->n_images; /* of the message that is still to come */
    if (first)
        cli_prompt_pictures_keep(&t->pictures, n + next, 1);
    else if (n < t->n_images)
        cli_prompt_pictures_keep(&t->pictures, n, 0);
    t->n_images = n;
}

static int is_role(const talk *t, size_t i, const char *role)
{
    const char *own = json_string_value(json_object_get(json_array_get(t->messages, i), "role"));
    return own && !strcmp(own, role);
}

int talk_system(talk *t, const char *text)
{
    json_t *message = json_pack("{s:s, s:s}", "role", "system", "content", text);
    if (!message)
        return cli_fail(CLI_FAILED, "chat: the system message is not UTF-8");
    if (is_role(t, 0, "system"))
        json_array_remove(t->messages, 0);
    if (*text)
        json_array_insert(t->messages, 0, message);
    json_decref(message);
    return CLI_GO_ON;
}

int talk_undo(talk *t)
{
    size_t n = json_array_size(t->messages);
    while (n > 0 && !is_role(t, n - 1, "user"))
        n--;
    if (n == 0)
        return 0;
    while (json_array_size(t->messages) >= n)
        json_array_remove(t->messages, n - 1);
    talk_forget(t, 0);
    return 1;
}

char *talk_keep_text(talk *t, const char *text)
{
    char **grown = realloc(t->kept_texts, (size_t)(t->n_kept_texts + 1) * sizeof *grown);
    char *copy = malloc(strlen(text) + 1);
    if (grown)
        t->kept_texts = grown;
    if (!grown || !copy) {
        free(copy);
        return NULL;
    }
    memcpy(copy, text, strlen(text) + 1);
    return grown[t->n_kept_texts++] = copy;
}

/* ---- pictures ------------------------------------------------------------------------------- */

/* Makes what answers messages with pictures, in place of the session. */
static int open_teller(talk *t)
{
    clef_error err = {0};
    const clef_batch_opts opts = {.n_context = t->n_context,
                                  .compile = cli_compile_opts(&t->o.compile, &t->progress),
                                  .kv_type = cli_kv_type(t->model, t->o.kv_type, t->o.compile.exact),
                                  .loras = t->loras};
    clef_session_destroy(t->session);
    t->session = NULL;
    const clef_status s = cli_teller_open(&t->teller, t->device, t->model, &opts, &err);
    cli_progress_finish(&t->progress);
    return s == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

int talk_show(talk *t, const char *path)
{
    clef_error err = {0};
    if (!t->pictures.processor && cli_prompt_pictures_open(&t->pictures, t->model, &err) != CLEF_OK)
        return cli_report(&err);
    if (cli_prompt_pictures_add_file(&t->pictures, path, &err) != CLEF_OK)
        return cli_report(&err);
    return t->device && t->session ? open_teller(t) : CLI_GO_ON;
}

/* Templates that write pictures expect all contents as lists of parts. */
static json_t *as_parts(const talk *t)
{
    json_t *all = json_deep_copy(t->messages), *message;
    size_t i;
    json_array_foreach(all, i, message) {
        json_t *content = json_object_get(message, "content");
        if (t->n_images && json_is_string(content))
            json_object_set_new(message, "content",
                                json_pack("[{s:s, s:O}]", "type", "text", "text", content));
    }
    return all;
}

/* ---- rendering ------------------------------------------------------------------------------ */

clef_status talk_render(talk *t, clef_rendered *out, clef_error *err)
{
    clef_template_arg args[CLI_MAX_LIST + 1];
    char *names[CLI_MAX_LIST] = {NULL};
    int32_t n = 0;
    json_t *all = as_parts(t);
    char *messages = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    clef_status s = messages ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "chat: out of host memory");
    for (int32_t i = 0; i < t->o.args.n && !s; i++) {
        const char *item = t->o.args.items[i], *equals = strchr(item, '=');
        const size_t size = equals ? (size_t)(equals - item) : 0;
        if (!size || !(names[n] = malloc(size + 1))) {
            s = cli_error(err, CLEF_E_ARG, "chat --arg: expected KEY=JSON, got '%.60s'", item);
            break;
        }
        memcpy(names[n], item, size);
        names[n][size] = '\0';
        args[n] = (clef_template_arg){names[n], equals + 1};
        n++;
    }
    const int32_t n_names = n;
    if (t->o.thinking == CHAT_OFF)
        args[n++] = (clef_template_arg){"enable_thinking", "false"};
    if (!s)
        s = clef_template_render(t->tpl,
                                 &(clef_template_opts){.messages = messages,
                                                       .messages_bytes = strlen(messages),
                                                       .tools = t->tools,
                                                       .tools_bytes = t->tools_bytes,
                                                       .model = t->path,
                                                       .args = args,
                                                       .n_args = n,
                                                       .join_parts = !t->n_images,
                                                       .date = t->o.date},
                                 out, err);
    for (int32_t i = 0; i < n_names; i++)
        free(names[i]);
    free(messages);
    return s;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int open_format(talk *t)
{
    clef_error err = {0};
    size_t n = 0;
    const char *source = clef_template_source(t->tpl, &n);
    t->format = clef_tool_format_of_template(source, n);
    if (t->o.tool_format && clef_tool_format_find(t->o.tool_format, &t->format, &err) != CLEF_OK)
        return cli_report(&err);
    if (t->tools && t->format == CLEF_TOOLS_NONE)
        return cli_fail(CLI_FAILED,
                        "chat --tools: the template writes no known format of calls; --tool-format "
                        "names one");
    return CLI_GO_ON;
}

/* Calls are well formed: their constraint holds for every answer, unless the flags name another one. */
static int open_calls(talk *t)
{
    clef_error err = {0};
    clef_tool_constraint_opts opts = {
        .format = t->format, .tools = t->tools, .tools_bytes = t->tools_bytes, .parallel = 1, .tok = t->tok};
    cli_tool_choice(t->o.tool_choice, &opts);
    const int rc = cli_tool_constraint_open(&opts, &t->guide.constraint);
    if (rc != CLI_GO_ON)
        return rc;
    return clef_token_trie_create(t->tok, t->ends, t->n_ends, &t->guide.trie, &err) ? cli_report(&err)
                                                                                    : CLI_GO_ON;
}

static int read_system(talk *t)
{
    const char *text = t->o.system;
    char *own = NULL;
    size_t n = 0;
    if (!text)
        return CLI_GO_ON;
    if (text[0] == '@') {
        const int rc = cli_read_file(text + 1, &own, &n);
        if (rc != CLI_GO_ON)
            return rc;
    }
    const int rc = talk_system(t, own ? own : text);
    free(own);
    return rc;
}

static int open_session(talk *t)
{
    clef_error err = {0};
    const clef_hparams *hp = clef_model_hparams(t->model);
    const clef_device_opts device = {.notice = cli_say_notice,
                                     .n_threads = t->o.n_threads,
                                     .pin = (clef_pin)t->o.pin,
                                     .progress = cli_progress_step,
                                     .progress_user = &t->progress};
    t->n_context = t->o.n_context > 0 ? t->o.n_context : hp->n_context;
    if (t->n_context <= 0 || (t->o.n_context < 0 && t->n_context > MAX_DEFAULT_CONTEXT))
        t->n_context = MAX_DEFAULT_CONTEXT;
    if (cli_devices_open(t->o.device, &t->o.split, &device, &t->device, &err) != CLEF_OK)
        return cli_report(&err);
    if (!t->o.quiet)
        cli_say_device(t->device);
    if (t->pictures.n)
        return open_teller(t);
    const clef_session_opts opts = {.n_context = t->n_context,
                                    .n_batch = t->o.n_batch < t->n_context ? t->o.n_batch : t->n_context,
                                    .compile = cli_compile_opts(&t->o.compile, &t->progress),
                                    .kv_type = cli_kv_type(t->model, t->o.kv_type, t->o.compile.exact),
                                    .loras = t->loras,
                                    .lora = t->loras != NULL};
    if (clef_session_create(t->device, t->model, &opts, &t->session, &err) != CLEF_OK)
        return cli_report(&err);
    cli_progress_finish(&t->progress);
    return CLI_GO_ON;
}

int talk_open(talk *t, const chat_options *options, const char *path)
{
    clef_error err = {0};
    *t = (talk){.o = *options, .path = path};
    t->interactive = cli_terminal_stdin() && cli_terminal_stdout();
    t->messages = json_array();
    t->input = chat_input_open();
    if (!t->messages || !t->input)
        return cli_fail(CLI_FAILED, "chat: out of host memory");
    cli_terminal_catch_interrupt();
    cli_progress_init(&t->progress, options->quiet);
    int rc = options->tools ? cli_read_file(options->tools, &t->tools, &t->tools_bytes) : CLI_GO_ON;
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_model_open(path, &t->model, &err) != CLEF_OK ||
        (options->mmproj && clef_model_add_pictures(t->model, options->mmproj, &err) != CLEF_OK) ||
        clef_template_open(path, options->template, t->tools != NULL, &t->tpl, &err) != CLEF_OK)
        return cli_report(&err);
    if (options->verbose)
        cli_say_unread(t->model);
    if (clef_model_hparams(t->model)->n_decoder_layers > 0)
        return cli_fail(CLI_FAILED, "chat: %s is an encoder-decoder, which does not chat", path);
    t->tok = (clef_tokenizer *)clef_model_tokenizer(t->model, &err);
    if (!t->tok || cli_adapters_open(&options->loras, t->model, &t->loras, &err) != CLEF_OK)
        return cli_report(&err);
    t->n_ends = cli_end_tokens(t->model, t->ends);
    rc = open_format(t);
    if (rc == CLI_GO_ON)
        rc = read_system(t);
    if (rc == CLI_GO_ON)
        rc = cli_sampler_make(&t->o.sampling, "chat", t->model, &t->sampling);
    if (rc == CLI_GO_ON)
        rc = cli_guide_open(&t->o.constraint, "chat", t->model, &t->guide);
    if (rc == CLI_GO_ON && t->tools && !t->guide.constraint)
        rc = open_calls(t);
    if (rc == CLI_GO_ON && !options->quiet)
        cli_sampler_tell(&t->sampling, 0);
    for (int32_t i = 0; i < options->images.n && rc == CLI_GO_ON; i++)
        rc = talk_show(t, options->images.items[i]);
    return rc == CLI_GO_ON ? open_session(t) : rc;
}

void talk_close(talk *t)
{
    cli_progress_finish(&t->progress);
    clef_session_destroy(t->session);
    cli_teller_close(&t->teller);
    cli_prompt_pictures_close(&t->pictures);
    clef_device_close(t->device);
    cli_progress_finish(&t->progress);
    cli_guide_finish(&t->guide);
    cli_sampler_finish(&t->sampling);
    clef_lora_set_destroy(t->loras);
    clef_template_destroy(t->tpl);
    clef_model_close(t->model);
    chat_input_close(t->input);
    json_decref(t->messages);
    free(t->tools);
    for (int32_t i = 0; i < t->n_kept_texts; i++)
        free(t->kept_texts[i]);
    free(t->kept_texts);
}

void talk_print_stats(const talk *t)
{
    const chat_stats *s = &t->stats;
    const int32_t n_fed = s->n_prompt - s->n_cached;
    fprintf(stderr,
            "clef: %zu messages; %d of %d positions of the context used\n"
            "clef: last answer: prompt %d tokens, cached %d, %.1f tokens/s; generated %d tokens, %.1f "
            "tokens/s\n",
            json_array_size(t->messages), s->n_prompt + s->n_new, t->n_context, s->n_prompt, s->n_cached,
            s->prompt_seconds > 0 ? n_fed / s->prompt_seconds : 0, s->n_new,
            s->new_seconds > 0 ? s->n_new / s->new_seconds : 0);
}
