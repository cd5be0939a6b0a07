/* clef serve: OpenAI's and Anthropic's APIs over HTTP. */
#include <string.h>

#include "tools/serve/base/error.h"
#include "tools/serve/endpoints.h"
#include "tools/serve/http.h"
#include "tools/serve/params.h"
#include "tools/serve/serve.h"

static const serve_options serve_defaults = {
    .port = 8080,
    .n_context = -1,
    .max_seqs = 8,
    .max_queue = 64,
    .queue_timeout = 60,
    .request_timeout = 600,
    .max_connections = 256,
    .max_per_address = 64,
    .header_timeout = 10,
    .idle_timeout = 60,
    .write_timeout = 30,
    .drain_timeout = 10,
    .max_n = 8,
    .max_choices = 512,
    .body_memory = 256,
    .thinking_budget = -1,
    .pin = CLEF_PIN_AUTO,
    .cache_disk_size = "8G",
};

static const char *const log_names[] = {"text", "json", NULL};
static const char *const list_names[] = {"none", "endpoints", "fields", "errors", "metrics", NULL};

/* clang-format off */
#define AT(field) .offset = offsetof(serve_options, field)
static const cli_option serve_option_table[] = {
    {.names = "", .type = CLI_HEADING, .help = "Where it listens, and who may call it"},
    MODEL_OPTION(serve_options),
    {.names = "host", .type = CLI_LIST, .value = "ADDRESS", AT(hosts),
     .help = "the address to listen on; other than loopback needs a key, or --no-auth; may be repeated "
             "[127.0.0.1]"},
    {.names = "port", .type = CLI_INT, .value = "N", AT(port), .lo = 0, .hi = 65535,
     .help = "the port; 0: any, which is printed [8080]"},
    {.names = "unix", .type = CLI_TEXT, .value = "PATH", AT(unix_path),
     .help = "listen on a Unix socket instead"},
    {.names = "api-key-file", .type = CLI_TEXT, .value = "FILE", AT(key_file),
     .help = "API keys, one a line; only its owner may read it. SIGHUP reads it again. $CLEF_API_KEY is a "
             "further key"},
    {.names = "no-auth", .type = CLI_SWITCH, AT(no_auth),
     .help = "let everybody who reaches the server use it"},
    {.names = "tls-cert", .type = CLI_TEXT, .value = "FILE", AT(tls_cert), .help = "a certificate in PEM"},
    {.names = "tls-key", .type = CLI_TEXT, .value = "FILE", AT(tls_key), .help = "its key in PEM"},
    {.names = "allow-host", .type = CLI_LIST, .value = "NAME", AT(allow_hosts),
     .help = "answer requests to this Host too; may be repeated"},
    {.names = "cors-origin", .type = CLI_LIST, .value = "ORIGIN", AT(cors_origins),
     .help = "let pages of this origin call the server; may be repeated"},
    {.names = "proxy", .type = CLI_LIST, .value = "ADDRESS", AT(proxies),
     .help = "the address of a proxy, or unix: the log has the client that its X-Forwarded-For names, and "
             "--max-per-address does not count it; may be repeated"},
    {.names = "no-page", .type = CLI_SWITCH, AT(no_page), .help = "no page to chat at /"},
    {.names = "ollama", .type = CLI_SWITCH, AT(ollama),
     .help = "also answer at Ollama's paths, /api/chat and others, for programs that look for it"},
    {.names = "", .type = CLI_HEADING, .help = "The model"},
    {.names = "alias", .type = CLI_LIST, .value = "NAME", AT(aliases),
     .help = "the model's id; repeated, those of several models in their order [its file's name]"},
    {.names = "memory", .type = CLI_TEXT, .value = "SIZE", AT(memory),
     .help = "the most that loaded models take, such as 16G: beyond it the one used longest ago is unloaded "
             "[no limit]"},
    {.names = "fit", .type = CLI_SWITCH, AT(fit),
     .help = "where a model needs more than --memory, give it a smaller KV cache, of q8_0, and a shorter "
             "context, as far as no flag says what they are"},
    {.names = "idle-unload", .type = CLI_FLOAT, .value = "S", AT(idle_unload), .lo = 0.1, .hi = 1e9,
     .help = "unload a model that nobody has used for so many seconds; the next request loads it again "
             "[never]"},
    {.names = "rerank,reranking", .type = CLI_SWITCH, AT(rerank),
     .help = "also answer /v1/rerank with a decoder whose files say nothing of rankings"},
    {.names = "strict-model", .type = CLI_SWITCH, AT(strict_model),
     .help = "answer 404 to requests for another model; so it is with adapters"},
    {.names = "chat-template,template", .type = CLI_TEXT, .value = "NAME|FILE", AT(template),
     .help = "another template than the model's: one of its templates, a built-in one, a file, "
             "or the template itself",
     .choice = clef_template_builtin_name},
    {.names = "template-arg", .type = CLI_LIST, .value = "KEY=JSON", AT(args),
     .help = "a variable of the template; may be repeated"},
    {.names = "tool-format", .type = CLI_TEXT, .value = "NAME", AT(tool_format),
     .help = "how the model writes tool calls [by its template]"},
    {.names = "special-in-content", .type = CLI_SWITCH, AT(special_in_content),
     .help = "special tokens that are written in messages are tokens, and not text"},
    {.names = "samplers", .type = CLI_TEXT, .value = "A,B", AT(samplers),
     .help = "the samplers and their order, for requests that name none"},
    {.names = "seed", .letter = 's', .type = CLI_SEED, .value = "N", AT(seed),
     .help = "the seed of requests that name none [random]"},
    LORA_OPTION(offsetof(serve_options, loras)),
    {.names = "", .type = CLI_HEADING, .help = "Limits"},
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "N", AT(n_context), .lo = 0,
     .hi = INT32_MAX, .help = "positions of a request; 0: as many as the model has [the "
             "model's, at most 8192]"},
    {.names = "max-seqs", .type = CLI_INT, .value = "N", AT(max_seqs), .lo = 1, .hi = 4096,
     .help = "texts that are computed at once [8]"},
    {.names = "kv-tokens", .type = CLI_INT, .value = "N", AT(kv_tokens), .lo = 1, .hi = INT32_MAX,
     .help = "positions of the KV cache that they share [what N contexts need, or what memory holds]"},
    {.names = "step-tokens", .type = CLI_INT, .value = "N", AT(step_tokens), .lo = 1, .hi = 65536,
     .help = "tokens of all prompts and texts per step [512, on a CPU 256]"},
    {.names = "max-queue", .type = CLI_INT, .value = "N", AT(max_queue), .lo = 0, .hi = 1000000,
     .help = "requests that may wait; more are answered with 429 [64]"},
    {.names = "queue-timeout", .type = CLI_FLOAT, .value = "S", AT(queue_timeout), .lo = 0.1, .hi = 1e6,
     .help = "seconds that a request may wait; then 504 [60]"},
    {.names = "request-timeout", .type = CLI_FLOAT, .value = "S", AT(request_timeout), .lo = 0.1, .hi = 1e6,
     .help = "seconds that a request may take in all; then 504, or an error event [600]"},
    {.names = "max-body", .type = CLI_INT, .value = "BYTES", AT(max_body), .lo = 1, .hi = 1 << 30,
     .help = "bytes of a request [8 MiB; with a sound 25 MiB]"},
    {.names = "body-memory", .type = CLI_INT, .value = "MIB", AT(body_memory), .lo = 1, .hi = 1 << 20,
     .help = "memory of all large requests' bodies and their values; beyond it 503 [256]"},
    {.names = "max-connections", .type = CLI_INT, .value = "N", AT(max_connections), .lo = 1, .hi = 65536,
     .help = "connections at once [256]"},
    {.names = "max-per-address", .type = CLI_INT, .value = "N", AT(max_per_address), .lo = 1, .hi = 65536,
     .help = "connections of one address [64]"},
    {.names = "header-timeout", .type = CLI_FLOAT, .value = "S", AT(header_timeout), .lo = 0.1, .hi = 1e6,
     .help = "seconds that a request's head may take; its body gets a second more for each 64 KiB [10]"},
    {.names = "idle-timeout", .type = CLI_FLOAT, .value = "S", AT(idle_timeout), .lo = 0.1, .hi = 1e6,
     .help = "seconds that a connection is kept between two requests [60]"},
    {.names = "write-timeout", .type = CLI_FLOAT, .value = "S", AT(write_timeout), .lo = 0.1, .hi = 1e6,
     .help = "seconds that a client may leave a full socket unread; then its request ends [30]"},
    {.names = "max-n", .type = CLI_INT, .value = "N", AT(max_n), .lo = 1, .hi = 1024,
     .help = "choices of a request [8]"},
    {.names = "max-tokens", .type = CLI_INT, .value = "N", AT(max_tokens), .lo = 1, .hi = INT32_MAX,
     .help = "tokens of a choice [until its context is full]"},
    {.names = "max-choices", .type = CLI_INT, .value = "N", AT(max_choices), .lo = 1, .hi = 65536,
     .help = "choices of a request for all its prompts: prompts times n [512]"},
    {.names = "strict-limits", .type = CLI_SWITCH, AT(strict_limits),
     .help = "refuse max_tokens beyond the context with 400, rather than cut it to what fits"},
    {.names = "thinking-budget,reasoning-budget", .type = CLI_INT, .value = "N",
     AT(thinking_budget), .lo = -1, .hi = INT32_MAX,
     .help = "most tokens of a chat's reasoning, for requests that say nothing of it; 0: none [no limit]"},
    {.names = "drain-timeout", .type = CLI_FLOAT, .value = "S", AT(drain_timeout), .lo = 0, .hi = 1e6,
     .help = "seconds that running requests may go on after SIGTERM [10]"},
    {.names = "mmproj", .type = CLI_TEXT, .value = "FILE", AT(mmproj),
     .help = "the tower of a GGUF model that reads pictures, in a file of its own"},
    {.names = "", .type = CLI_HEADING, .help = "Caches and speculation"},
    {.names = "cache-per-key", .type = CLI_SWITCH, AT(cache_per_key),
     .help = "clients with different keys share no cached prefix"},
    {.names = "no-prefix-cache", .type = CLI_SWITCH, AT(no_prefix_cache),
     .help = "compute every prompt from its first token"},
    {.names = "cache-disk", .type = CLI_TEXT, .value = "DIR", AT(cache_disk),
     .help = "also keep the cache of prefixes in this folder, where the next start finds it; it holds what "
             "clients have said"},
    {.names = "cache-disk-size", .type = CLI_TEXT, .value = "SIZE", AT(cache_disk_size),
     .help = "the most that it takes, such as 20G; what was used longest ago is removed [8G]"},
    {.names = "repeatable", .type = CLI_SWITCH, AT(repeatable),
     .help = "a text does not depend on the requests beside it, not even in the last bits; it may cost "
             "speed"},
    {.names = "spec", .type = CLI_TEXT, .value = "ngram[:MIN,MAX]|mtp", AT(speculation.spec),
     .help = "draft tokens from the text itself, or by the layer of the model that predicts further tokens; "
             "the texts stay the same"},
    SPECULATION_OPTIONS(serve_options, speculation),
    {.names = "", .type = CLI_HEADING, .help = "Log"},
    {.names = "log", .type = CLI_CHOICE, .value = "FORM", AT(log), .choices = log_names,
     .help = "the form of the log on stderr [text]"},
    {.names = "log-prompts", .type = CLI_SWITCH, AT(log_prompts), .help = "write prompts to the log"},
    {.names = "list", .type = CLI_CHOICE, .value = "WHAT", AT(list), .choices = list_names,
     .help = "print a table of the API, in Markdown, and end"},
    QUIET_OPTION(serve_options),
    VERBOSE_OPTION(serve_options),
    {.names = "", .type = CLI_HEADING, .help = "Device and kernels"},
    DEVICES_OPTION(serve_options),
    KV_TYPE_OPTION(serve_options),
    THREADS_OPTION(serve_options),
    PIN_OPTION(serve_options),
    COMPILE_OPTIONS(serve_options),
    {.names = NULL},
};
/* clang-format on */

#ifdef CLEF_HAVE_MICROHTTPD
static void list_endpoints(void)
{
    printf("| request | |\n|---|---|\n");
    for (int i = 0; i < SERVE_N_ENDPOINTS; i++)
        printf("| `%s %s%s` | %s |\n", serve_endpoints[i].method, serve_endpoints[i].path,
               serve_endpoints[i].flags & SERVE_PREFIX ? "{id}" : "", serve_endpoints[i].help);
}

static void list_errors(void)
{
    printf("| status | type | code | when |\n|---|---|---|---|\n");
    for (int i = 1; i < SERVE_N_ERRORS; i++)
        printf("| %d | %s | %s | %s |\n", (int)serve_error_kinds[i].status, serve_error_kinds[i].type,
               serve_error_kinds[i].code, serve_error_kinds[i].when);
}

static int list(int32_t what)
{
    if (what == 1)
        list_endpoints();
    else if (what == 2)
        serve_fields_list(stdout);
    else if (what == 3)
        list_errors();
    else
        serve_metrics_list(stdout);
    return CLI_OK;
}

static int serve_run(const void *options, int32_t n_args, char **args)
{
    const serve_options *o = options;
    clef_batch_opts probe = {0};
    if (o->list)
        return list(o->list);
    if (!o->tls_cert != !o->tls_key)
        return cli_fail(CLI_USAGE, "serve: expected --tls-cert and --tls-key together");
    if (o->tls_cert && !serve_http_has_tls())
        return cli_fail(CLI_USAGE,
                        "serve --tls-cert: this clef was built without TLS: put a proxy that has TLS in "
                        "front of it");
    const int rc = cli_speculation_parse(&o->speculation, "serve", 1, &probe);
    if (rc != CLI_GO_ON)
        return rc;
    const char *path = cli_model_path("serve", n_args, args, o->model);
    if (!path)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    serve_options sized = *o;
    if (!cli_size_read(o->cache_disk_size, &sized.cache_disk_bytes))
        return cli_fail(CLI_USAGE, "serve --cache-disk-size: expected a size such as 20G, got '%s'",
                        o->cache_disk_size);
    char *only = (char *)(uintptr_t)path;
    return n_args ? serve_run_server(&sized, n_args, args) : serve_run_server(&sized, 1, &only);
}
#else
static int serve_run(const void *options, int32_t n_args, char **args)
{
    (void)options, (void)n_args, (void)args;
    return cli_fail(CLI_FAILED, "serve: this clef was built without libmicrohttpd and GnuTLS");
}
#endif

const cli_command cli_command_serve = {
    .name = "serve",
    .usage = "[MODEL ..] [FLAGS]",
    .summary = "Serve models over HTTP by OpenAI's and Anthropic's APIs",
    .notes = "Many clients share one batch: each step reads the weights once for all of them. "
             "docs/serving.md describes the API. Several models, or a folder of them, are loaded when "
             "requests ask for them.\n\n  clef serve qwen2.5.gguf\n  clef serve "
             "qwen2.5.gguf --host 0.0.0.0 --api-key-file keys.txt\n",
    .options = serve_option_table,
    .first = "model host port api-key-file tls-cert tls-key cors-origin alias chat-template lora "
             "ctx-size max-seqs draft max-queue log device threads quiet",
    .max_args = 64,
    .defaults = &serve_defaults,
    .options_bytes = sizeof serve_defaults,
    .run = serve_run,
};
