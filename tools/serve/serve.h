/* clef serve: OpenAI's and Anthropic's HTTP APIs. Threads of connections read requests, make prompts and
 * write replies; one engine thread drives the batch. */
#ifndef CLEF_TOOLS_SERVE_SERVE_H
#define CLEF_TOOLS_SERVE_SERVE_H

#include <stdatomic.h>

#include "tools/adapters.h"
#include "tools/cli/cli.h"
#include "tools/cli/common.h"
#include "tools/constraint.h"
#include "tools/serve/base/log.h"
#include "tools/serve/constraints.h"
#include "tools/serve/keys.h"
#include "tools/serve/metrics.h"
#include "tools/speculation.h"

typedef struct serve_options {
    const char *model, *unix_path, *key_file, *tls_cert, *tls_key, *device, *memory;
    const char *cache_disk, *cache_disk_size;
    uint64_t cache_disk_bytes; /* what cache_disk_size says */
    cli_split split;
    const char *template, *tool_format, *samplers;
    cli_list hosts, aliases, allow_hosts, cors_origins, proxies, args, loras;
    int32_t port, no_auth, n_context, max_seqs, step_tokens, kv_tokens, max_queue, max_body;
    int32_t max_connections, max_per_address, max_n, max_choices, max_tokens, body_memory, strict_limits;
    int32_t strict_model, special_in_content;
    float queue_timeout, request_timeout, header_timeout, idle_timeout, write_timeout, drain_timeout;
    float idle_unload;
    int32_t cache_per_key, no_prefix_cache, repeatable, log, log_prompts, quiet, verbose, no_page, list;
    int32_t ollama, fit, thinking_budget; /* thinking_budget: -1: no limit */
    int32_t n_threads, pin, kv_type, rerank;
    const char *mmproj; /* the tower of the model, for pictures */
    cli_speculation speculation;
    cli_seed seed; /* of requests that name none */
    clef_compile_opts compile;
} serve_options;

typedef enum serve_state { SERVE_LOADING, SERVE_READY, SERVE_DRAINING, SERVE_ENDING } serve_state;

/** What --fit has chosen; 0: what the options say. */
typedef struct serve_fit {
    int32_t n_context, kv_tokens, kv_type;
} serve_fit;

/** What is known of a model. Nothing changes while it is in memory. */
typedef struct serve_model {
    const char *path, *alias; /* alias: NULL, or its id */
    serve_fit fit;
    char id[128];
    clef_model *model, *draft;
    const clef_hparams *hparams;
    const clef_tokenizer *tok;
    clef_template *template, *template_with_tools; /* NULL: none */
    char no_template[256];                         /* why not */
    clef_tool_format format;
    clef_constraint_cache *constraints;        /* NULL: the model does not generate */
    clef_template_arg args[CLI_MAX_LIST + 16]; /* special tokens, then --template-arg */
    char *arg_texts[2 * CLI_MAX_LIST + 32];
    int32_t n_args, n_arg_texts;
    clef_token_trie *trie; /* NULL: the model does not generate */
    int32_t ends[CLI_END_TOKENS], n_ends;
    cli_adapters adapters;
    float *adapter_scales;      /* [adapters.n] */
    clef_sampler_opts sampling; /* of requests that say nothing else */
    int32_t n_context, n_source, is_encoder, is_seq2seq, has_think_tag;
    int32_t start[2], n_start; /* what an encoder-decoder's text begins with */
    int32_t is_generic;        /* its template writes no calls: messages say how (forms/generic.c) */
    int32_t is_ranker;         /* its files are for rankings: it generates no text */
    int32_t hears;             /* it writes down what is said in sounds, and does nothing else */
    int32_t can_cut;           /* embeddings may be cut to fewer dimensions */
    int64_t created;           /* seconds since 1970 */
    uint64_t n_params, n_bytes;
} serve_model;

struct serve_models;
struct serve_http;
struct serve_lane;
struct serve_turns;

typedef struct serve_server {
    serve_options o;
    struct serve_models *models;
    struct serve_http *http;
    serve_keys *keys;
    serve_log log;
    serve_metrics metrics;
    struct serve_responses *responses;    /* stored ones */
    struct serve_turns *turns;            /* of large bodies */
    struct serve_lane *bodies, *compiles; /* where large bodies are read; where constraints are compiled */
    _Atomic int state, said_device;       /* serve_state; the log has named the device */
    /* 1 + the adapter that POST /lora-adapters chose for requests that name none; 0: nobody chose */
    _Atomic int32_t adapter;
    _Atomic size_t n_held, n_let; /* bytes that bodies hold; that they let go since memory was given back */
    char fingerprint[64];
    double start_time; /* seconds since 1970 */
} serve_server;

/** Opens what can be opened before the device: model, template, adapters, tokenizer. `m` has the path and the
 * alias. CLI_GO_ON, or an exit code after a message. Free with serve_model_close() in either case. */
int serve_model_open(serve_model *m, const serve_options *o);
/** Leaves the path, the alias and what --fit has chosen: it can be opened again. */
void serve_model_close(serve_model *m);
/** 1 if a request's `model` is the id, or ID:latest, as Ollama's programs write it. */
int serve_is_name(const char *name, const char *id);
/** The number of the adapter that a request's `model` names; 0: none; -1: nothing has this name. */
int32_t serve_model_find(const serve_model *m, const serve_options *o, const char *name);

/** Runs the server until a signal ends it. Returns the exit code. */
int serve_run_server(const serve_options *o, int32_t n_paths, char *const *paths);

#endif
