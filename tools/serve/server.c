/* The life of a server: it opens, listens, loads, answers, drains, and ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/ranks.h"
#include "tools/serve/base/responses.h"
#include "tools/serve/engine.h"
#include "tools/serve/http.h"
#include "tools/serve/lane.h"
#include "tools/serve/models.h"
#include "tools/serve/os/socket.h"
#include "tools/serve/os/system.h"
#include "tools/serve/turns.h"

/* Requests that were failed write their last event within this time. */
static const double last_seconds = 3;
/* The same where all ranks end: their launcher, or the library, waits for a second. Naps of 10 ms, which are
 * counted since a process that was stopped has made none meanwhile. */
enum { RANK_NAPS = 90 };

static void say_addresses(const serve_server *s)
{
    const serve_options *o = &s->o;
    if (o->unix_path)
        printf("clef: listening on unix:%s\n", o->unix_path);
    for (int32_t i = 0; i < o->hosts.n && !o->unix_path; i++) {
        const char *host = o->hosts.items[i];
        const int is_v6 = strchr(host, ':') != NULL;
        printf("clef: listening on %s://%s%s%s:%d\n", o->tls_cert ? "https" : "http", is_v6 ? "[" : "", host,
               is_v6 ? "]" : "", (int)o->port);
    }
    fflush(stdout);
}

/* A server that others reach has a key, or was told to have none. */
static int check_open(const serve_server *s)
{
    const serve_options *o = &s->o;
    const int is_open = !o->unix_path && !o->no_auth && !serve_keys_count(s->keys);
    for (int32_t i = 0; i < o->hosts.n && is_open; i++)
        if (!serve_is_loopback(o->hosts.items[i]))
            return cli_fail(CLI_USAGE,
                            "serve --host %s: others can reach it; expected --api-key-file or "
                            "$CLEF_API_KEY, or --no-auth",
                            o->hosts.items[i]);
    return CLI_GO_ON;
}

static void say_ready(serve_server *s)
{
    const int32_t n = serve_models_count(s->models);
    if (n == 1)
        serve_log_say(&s->log, "%s is ready", serve_models_card(s->models, 0).id);
    else
        serve_log_say(&s->log, "%d models are ready to be loaded", (int)n);
}

static int wait_for_end(serve_server *s)
{
    int was_ready = 0;
    for (;;) {
        const int signal = serve_signal_wait(0.1);
        if (signal == 'e')
            return CLI_OK;
        if (signal == 'r') {
            serve_keys_reload(s->keys);
            serve_log_say(&s->log, "the keys were read again: %d", (int)serve_keys_count(s->keys));
        }
        if (serve_models_failed(s->models))
            return CLI_FAILED;
        if (!was_ready && atomic_load(&s->state) == SERVE_READY) {
            was_ready = 1;
            if (!s->o.quiet)
                say_ready(s);
        }
    }
}

static int is_busy(serve_server *s)
{
    int32_t n = serve_models_n_waiting(s->models) + serve_http_n_busy(s->http);
    for (int32_t i = 0; i < serve_models_count(s->models); i++) {
        const serve_engine_stats e = serve_models_describe(s->models, i);
        n += e.n_running + e.n_waiting;
    }
    return n > 0;
}

/* On several ranks: all of them are about to end. Open requests get their error at once, whatever the engine
 * does, and new ones are refused. */
static void give_up(void *user)
{
    serve_server *s = user;
    atomic_store(&s->state, SERVE_ENDING);
    serve_models_give_up(s->models);
    for (int32_t i = 0; i < RANK_NAPS && serve_http_n_busy(s->http) > 0; i++)
        serve_sleep(0.01);
}

/* Running requests go on for a while; then they get an error, and a moment to write it. */
static void drain(serve_server *s)
{
    if (clef_ranks_started() > 1) { /* mpirun gives all ranks the signal, which ends the others at once */
        give_up(s);
        return;
    }
    const double begin = cli_terminal_seconds();
    const int was_ready = atomic_load(&s->state) == SERVE_READY;
    atomic_store(&s->state, SERVE_DRAINING);
    if (was_ready && is_busy(s) && !s->o.quiet)
        serve_log_say(&s->log, "ends when its requests have, within %.0f s", (double)s->o.drain_timeout);
    while (was_ready && is_busy(s) && cli_terminal_seconds() - begin < (double)s->o.drain_timeout)
        if (serve_signal_wait(0.05) == 'e')
            break;
    atomic_store(&s->state, SERVE_ENDING);
    serve_models_fail_all(s->models, "the server ends");
    const double end = cli_terminal_seconds();
    while (was_ready && is_busy(s) && cli_terminal_seconds() - end < last_seconds)
        if (serve_signal_wait(0.05) == 'e')
            break;
}

static int run(serve_server *s, serve_socket *listening, int32_t n)
{
    s->responses = serve_responses_create();
    s->turns = serve_turns_create();
    s->bodies = serve_lane_create();
    s->compiles = serve_lane_create();
    if (!s->responses || !s->turns || !s->bodies || !s->compiles)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    if (!serve_signals_catch())
        return cli_fail(CLI_FAILED, "serve: cannot catch signals");
    int rc = serve_models_start(s->models);
    if (rc == CLI_GO_ON)
        rc = serve_http_start(s, listening, n);
    if (rc != CLI_GO_ON)
        return rc;
    cli_ranks_before_end(give_up, s);
    say_addresses(s);
    rc = wait_for_end(s);
    drain(s);
    cli_ranks_before_end(NULL, NULL);
    return rc;
}

/* Listens on a Unix socket, or on all hosts, with one port. Returns how many sockets there are; 0 after a
 * message. */
static int32_t listen_all(serve_server *s, serve_socket out[CLI_MAX_LIST])
{
    const serve_options *o = &s->o;
    const int32_t n = o->unix_path ? 1 : o->hosts.n;
    for (int32_t i = 0; i < n; i++) {
        out[i] =
            o->unix_path ? serve_listen_unix(o->unix_path) : serve_listen_tcp(o->hosts.items[i], &s->o.port);
        if (out[i] != SERVE_NO_SOCKET)
            continue;
        while (i-- > 0)
            serve_socket_close(out[i]);
        return 0;
    }
    return n;
}

int serve_run_server(const serve_options *o, int32_t n_paths, char *const *paths)
{
    serve_server s = {.o = *o,
                      .log = {.form = (serve_log_form)o->log, .quiet = o->quiet, .prompts = o->log_prompts}};
    serve_socket listening[CLI_MAX_LIST];
    int32_t n_listening = 0;
    if (!s.o.hosts.n)
        s.o.hosts = (cli_list){.items = {"127.0.0.1"}, .n = 1};
    serve_memory_begin();
    s.start_time = serve_time();
    s.o.strict_model = o->strict_model;
    snprintf(s.fingerprint, sizeof s.fingerprint, "b%s-%s-clef", clef_version(), CLEF_BUILD_ID);
    int rc = serve_sockets_start() ? CLI_GO_ON : cli_fail(CLI_FAILED, "serve: the system has no sockets");
    if (rc == CLI_GO_ON)
        rc = serve_keys_open(o->key_file, o->cache_disk, &s.keys);
    if (rc == CLI_GO_ON)
        rc = check_open(&s);
    if (rc == CLI_GO_ON)
        rc = serve_models_open(&s, n_paths, paths);
    if (rc == CLI_GO_ON) {
        n_listening = listen_all(&s, listening);
        rc = n_listening ? run(&s, listening, n_listening) : CLI_FAILED;
    }
    serve_models_stop(s.models); /* before the connections: none waits for it any more */
    serve_http_stop(s.http);
    for (int32_t i = 0; i < n_listening; i++)
        if (listening[i] != SERVE_NO_SOCKET)
            serve_socket_close(listening[i]);
    serve_responses_destroy(s.responses);
    serve_turns_destroy(s.turns);
    serve_lane_destroy(s.bodies);
    serve_lane_destroy(s.compiles);
    serve_models_destroy(s.models);
    serve_keys_close(s.keys);
    if (o->unix_path && n_listening)
        remove(o->unix_path);
    return rc == CLI_GO_ON ? CLI_OK : rc;
}
