/* Requests and replies, on libmicrohttpd. */
#include "tools/serve/http.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/base/body.h"
#include "tools/serve/connections.h"
#include "tools/serve/keys.h"
#include "tools/serve/models.h"
#include "tools/serve/os/socket.h"
#include "tools/serve/os/system.h"
#include "tools/serve/rules.h"
#include "tools/serve/turns.h"

enum { PIECE = 16384, MOST_URI = 8192, HEAD_BYTES = 96 << 10 };
/* A refused request's body is read and dropped up to here: a client that is still writing would else lose the
 * reply. */
static const uint64_t most_dropped = (uint64_t)64 << 20;

struct serve_http {
    serve_server *s;
    serve_connections *connections;
    struct MHD_Daemon *daemons[CLI_MAX_LIST];
    int32_t n_daemons;
    char *cert, *key;
};

/** What is kept beside a request while libmicrohttpd has it. */
typedef struct exchange {
    serve_request r;
    serve_http *http;
    int checked, complete, has_response, long_uri;
    uint64_t dropped;
    const char *target_end; /* in libmicrohttpd's buffer */
    serve_head head;
} exchange;

const serve_endpoint serve_endpoints[] = {
#define ENDPOINT(name, method, path, flags, help) {#name, method, path, flags, help, serve_answer_##name},
#include "tools/serve/endpoints.def"
#undef ENDPOINT
};

/* ---- replies --------------------------------------------------------------------------------- */

void serve_reply_json(serve_request *r, json_t *value)
{
    free(r->reply);
    r->reply = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(value);
    if (r->reply)
        r->n_reply = strlen(r->reply);
    else
        serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

int serve_client_slow(serve_request *r)
{
    return atomic_load(&r->connection->slow);
}

int serve_client_gone(serve_request *r)
{
    return serve_client_slow(r) || serve_socket_gone(r->connection->socket);
}

static void reply_error(serve_request *r)
{
    const serve_error_kind *k = &serve_error_kinds[r->error.id];
    if (r->reply && r->status)
        return; /* it made its own */
    free(r->reply);
    const uint32_t flags = r->endpoint ? r->endpoint->flags : 0;
    r->reply = flags & SERVE_ANTHROPIC ? serve_messages_error(r)
               : flags & SERVE_OLLAMA  ? serve_ollama_error(r)
                                       : serve_error_json(&r->error);
    r->n_reply = r->reply ? strlen(r->reply) : 0;
    r->content_type = NULL;
    r->policy[0] = '\0';
    r->status = k->status == 499 ? 400 : k->status;
}

static ssize_t read_piece(void *user, uint64_t pos, char *out, size_t room)
{
    exchange *x = user;
    serve_request *r = &x->r;
    size_t n;
    serve_connection_writes(x->http->connections, r->connection, 0);
    if (r->stream.read)
        n = r->stream.read(r->stream.user, out, room);
    else {
        n = pos < r->n_reply ? r->n_reply - (size_t)pos : 0;
        n = n < room ? n : room;
        memcpy(out, r->reply + pos, n);
    }
    serve_connection_writes(x->http->connections, r->connection, 1);
    return n ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value && *value)
        MHD_add_response_header(response, name, value);
}

static void add_headers(exchange *x, struct MHD_Response *response)
{
    serve_request *r = &x->r;
    char number[24];
    add_header(response, "x-request-id", r->id);
    if (r->endpoint && r->endpoint->flags & SERVE_ANTHROPIC)
        add_header(response, "request-id", r->id);
    add_header(response, "Content-Type",
               r->content_type  ? r->content_type
               : r->stream.read ? "text/event-stream; charset=utf-8"
               : r->n_reply     ? "application/json; charset=utf-8"
                                : NULL);
    if (r->stream.read) {
        add_header(response, "Cache-Control", "no-cache");
        add_header(response, "X-Accel-Buffering", "no");
    }
    add_header(response, "X-Content-Type-Options", "nosniff");
    add_header(response, "Content-Security-Policy", r->policy);
    add_header(response, "clef-ignored", r->ignored);
    if (r->max_tokens) {
        snprintf(number, sizeof number, "%d", (int)r->max_tokens);
        add_header(response, "clef-max-tokens", number);
    }
    if (r->status >= 400 && r->status < 500 && r->status != 429)
        add_header(response, "x-should-retry", "false");
    if (r->status == 401)
        add_header(response, "WWW-Authenticate", "Bearer");
    if (r->error.retry_after) {
        snprintf(number, sizeof number, "%d", (int)r->error.retry_after);
        add_header(response, "Retry-After", number);
    }
    add_header(response, "Allow", x->head.allow);
    if (x->head.origin_allowed) {
        add_header(response, "Access-Control-Allow-Origin", x->head.origin);
        add_header(response, "Access-Control-Expose-Headers",
                   "x-request-id, request-id, clef-ignored, clef-max-tokens, retry-after");
        add_header(response, "Vary", "Origin");
    }
    if (x->head.is_options && x->head.origin_allowed) {
        add_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
        add_header(response, "Access-Control-Allow-Headers",
                   "authorization, content-type, x-api-key, x-request-id, anthropic-version, *");
        add_header(response, "Access-Control-Max-Age", "600");
    }
    if (atomic_load(&r->s->state) >= SERVE_DRAINING)
        add_header(response, "Connection", "close");
}

static enum MHD_Result respond(exchange *x, struct MHD_Connection *connection)
{
    serve_request *r = &x->r;
    struct MHD_Response *response;
    if (r->error.id)
        reply_error(r);
    else if (!r->status)
        r->status = 200;
    if (r->stream.read || r->n_reply > PIECE)
        response = MHD_create_response_from_callback(r->stream.read ? MHD_SIZE_UNKNOWN : r->n_reply, PIECE,
                                                     read_piece, x, NULL);
    else
        response = MHD_create_response_from_buffer(r->n_reply, r->reply, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    add_headers(x, response);
    serve_connection_writes(x->http->connections, r->connection, 1);
    x->has_response = 1;
    const enum MHD_Result queued = MHD_queue_response(connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* ---- requests -------------------------------------------------------------------------------- */

static exchange *make_exchange(serve_http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    exchange *x = info && info->socket_context ? calloc(1, sizeof *x) : NULL;
    if (!x)
        return NULL;
    x->http = http;
    x->r = (serve_request){.s = http->s,
                           .connection = info->socket_context,
                           .began = cli_terminal_seconds(),
                           .created = (int64_t)serve_time(),
                           .method = "?",
                           .n_prompt = -1};
    memcpy(x->r.peer, x->r.connection->peer, sizeof x->r.peer);
    serve_models_begin(&x->r);
    return x;
}

/* Where a thread that waits for a socket is not woken when another ends it, libmicrohttpd ends the
 * connection, a little later: when nothing has come from the peer for so many seconds. */
static unsigned silence(const serve_options *o, serve_phase phase)
{
    if (serve_socket_end_wakes || phase == SERVE_PHASE_ANSWERING)
        return 0; /* no limit */
    const float header = phase == SERVE_PHASE_BODY ? 2 * o->header_timeout : o->header_timeout;
    return (unsigned)(phase == SERVE_PHASE_IDLE ? o->idle_timeout : header) + 2;
}

static void enter(serve_http *http, struct MHD_Connection *connection, serve_connection *c, serve_phase phase)
{
    serve_connection_enter(http->connections, c, phase);
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, silence(&http->s->o, phase));
}

static void *request_begins(void *user, const char *uri, struct MHD_Connection *connection)
{
    serve_http *http = user;
    exchange *x = make_exchange(http, connection);
    if (!x)
        return NULL;
    x->long_uri = strlen(uri) > MOST_URI;
    x->target_end = uri + strlen(uri);
    enter(http, connection, x->r.connection, SERVE_PHASE_HEADERS);
    return x;
}

static size_t keep_escapes(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user;
    (void)connection;
    return strlen(text);
}

static const char hidden[] = "a NUL, or a line that goes on in the next one, in the head";

/* The header lines as libmicrohttpd has them: it ends names and values with a NUL where they are in its
 * buffer, so that one which a client sent hides what follows it. */
typedef struct head_lines {
    serve_head *head;
    const char *end; /* of the last value, or of the target */
} head_lines;

/* Whether text is hidden between the end of a value and what libmicrohttpd has next. */
static int hides_text(const char *end, const char *next)
{
    const uintptr_t from = (uintptr_t)end, to = (uintptr_t)next;
    if (!end || to <= from || to - from > HEAD_BYTES)
        return 0; /* not from the buffer */
    for (size_t i = 0; i < to - from; i++)
        if (end[i] && !strchr(" \t\r\n", end[i]))
            return 1;
    return 0;
}

static enum MHD_Result note_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    head_lines *lines = user;
    (void)kind;
    serve_head_add(lines->head, name, value);
    if (hides_text(lines->end, name))
        lines->head->wrong = hidden;
    lines->end = value ? value + strlen(value) : NULL;
    return MHD_YES;
}

static void check(exchange *x, struct MHD_Connection *connection, const char *url, const char *method,
                  const char *version)
{
    serve_request *r = &x->r;
    head_lines lines = {.head = &x->head};
    x->checked = 1;
    x->head.long_uri = x->long_uri;
    x->head.socket = r->connection->socket;
    x->head.is_proxy = r->connection->is_proxy;
    x->head.is_http11 = !strcmp(version, "HTTP/1.1");
    x->head.is_full = serve_connections_full(x->http->connections, r->connection);
    if (hides_text(x->target_end, version))
        x->head.wrong = hidden;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, note_header, &lines);
    if (lines.end && lines.end[1] &&
        !strchr("\r\n", lines.end[1])) /* the last line: a blank one follows it */
        x->head.wrong = hidden;
    serve_rules_check(r, &x->head, url, method);
    r->n_expected = (size_t)x->head.n_body;
    enter(x->http, connection, r->connection, SERVE_PHASE_BODY);
}

/* A large body has its turn for n more bytes. */
static int take_turn(exchange *x, size_t n)
{
    serve_connection *c = x->r.connection;
    if (x->r.n_body + n <= SERVE_LARGE_BODY)
        return 1;
    serve_connection_waits(x->http->connections, c, 1);
    const int ok = serve_turn_take(&x->r, n);
    serve_connection_waits(x->http->connections, c, 0);
    return ok;
}

/* Adds a part of the body; returns 0 where no more of it is wanted. */
static int add_body(exchange *x, const char *data, size_t n)
{
    serve_request *r = &x->r;
    serve_connection_body(x->http->connections, r->connection, n);
    if (!r->error.id && n > serve_most_body(r) - r->n_body)
        serve_fail(&r->error, SERVE_E_BODY, NULL, "a body of more than %zu bytes (--max-body)",
                   serve_most_body(r));
    if (r->error.id)
        return (x->dropped += n) <= most_dropped;
    if (!take_turn(x, n) || !serve_grow_body(r, n)) {
        serve_drop_body(r);
        return 1;
    }
    memcpy(r->body + r->n_body, data, n);
    r->n_body += n;
    return 1;
}

static int needs_model(const serve_request *r)
{
    return r->endpoint->flags & SERVE_OF_MODEL || !strcmp(r->endpoint->method, "POST");
}

/* The name of a model in a body with parts: "" where there is none, which its endpoint finds again. */
static void name_in_parts(const serve_request *r, char *name, size_t room)
{
    serve_error ignored = {.id = SERVE_OK};
    serve_parts parts;
    const serve_part *p = serve_multipart_read(r->body, r->n_body, r->boundary, &parts, &ignored)
                              ? serve_multipart_find(&parts, "model")
                              : NULL;
    if (p && p->n < room)
        snprintf(name, room, "%.*s", (int)p->n, p->data);
}

/* Takes the model that the body names, or of a GET the query. */
static int take_model(serve_request *r)
{
    char name[SERVE_MODEL_NAME] = "";
    if (r->m)
        return 1; /* there is only one */
    if (r->body && r->endpoint->flags & SERVE_FORM_BODY)
        name_in_parts(r, name, sizeof name);
    else if (r->body)
        serve_body_text(r->body, r->n_body, "model", name, sizeof name);
    if (r->body && !*name && r->endpoint->flags & SERVE_OLLAMA)
        serve_body_text(r->body, r->n_body, "name", name, sizeof name);
    if (r->query[SERVE_QUERY_MODEL])
        serve_decode_percent(r->query[SERVE_QUERY_MODEL], name, sizeof name);
    serve_turn_give(r); /* others are read while a model is loaded */
    return serve_models_take(r, name) && (r->n_body <= SERVE_LARGE_BODY || serve_turn_take(r, 0));
}

static void answer(exchange *x, struct MHD_Connection *connection)
{
    serve_request *r = &x->r;
    x->complete = 1;
    enter(x->http, connection, r->connection, SERVE_PHASE_ANSWERING);
    if (r->error.id || x->head.is_options || (r->n_body > SERVE_LARGE_BODY && !serve_turn_take(r, 0)))
        return;
    if (r->body)
        r->body[r->n_body] = '\0';
    if (!strcmp(r->method, "GET") || !strcmp(r->method, "HEAD")) {
        static const char *const names[] = {"model", "limit", "order", "after"};
        for (size_t i = 0; i < SERVE_N_QUERY; i++)
            r->query[i] = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, names[i]);
        r->needs_slot =
            MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "fail_on_no_slot") != NULL;
    }
    if (!needs_model(r) || take_model(r))
        r->endpoint->answer(r);
    serve_drop_body(r); /* it may be large, and the reply slow */
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data, size_t *n_data,
                              void **context)
{
    serve_http *http = user;
    exchange *x = *context;
    if (!x && !(x = *context = make_exchange(http, connection)))
        return MHD_NO;
    if (!x->checked) {
        check(x, connection, url, method, version);
        if (x->head.wrong || (x->r.error.id && x->head.n_body > most_dropped)) {
            x->complete = 1;
            return respond(x, connection);
        }
        return MHD_YES;
    }
    if (*n_data) {
        const int goes_on = add_body(x, data, *n_data);
        *n_data = 0;
        return goes_on ? MHD_YES : MHD_NO;
    }
    if (x->has_response)
        return MHD_YES;
    answer(x, connection);
    return respond(x, connection);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void count_rejected(serve_server *s, serve_error_id id)
{
    static const struct {
        serve_error_id id;
        int reason;
    } reasons[] = {{SERVE_E_QUEUE, SERVE_REJECTED_QUEUE},       {SERVE_E_KEY, SERVE_REJECTED_AUTH},
                   {SERVE_E_HOST, SERVE_REJECTED_HOST},         {SERVE_E_ORIGIN, SERVE_REJECTED_HOST},
                   {SERVE_E_CONNECTIONS, SERVE_REJECTED_LIMIT}, {SERVE_E_BODY, SERVE_REJECTED_LIMIT},
                   {SERVE_E_URI, SERVE_REJECTED_LIMIT},         {SERVE_E_HEADERS, SERVE_REJECTED_LIMIT},
                   {SERVE_E_DEADLINE, SERVE_REJECTED_LIMIT},    {SERVE_E_BODIES, SERVE_REJECTED_LIMIT}};
    int reason = SERVE_REJECTED_INVALID;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].id == id)
            reason = reasons[i].reason;
    if ((serve_error_kinds[id].status < 500 || id == SERVE_E_BODIES) && id != SERVE_E_GONE)
        serve_count_label(&s->metrics, SERVE_LABEL_REJECTED, reason);
}

static void write_log(exchange *x)
{
    serve_request *r = &x->r;
    const serve_log_line line = {.id = r->id,
                                 .peer = r->peer,
                                 .method = r->method,
                                 .path = r->whole_path,
                                 .reason = r->error.id ? r->error.message : r->why,
                                 .prompt = r->prompt,
                                 .status = r->status,
                                 .seconds = cli_terminal_seconds() - r->began,
                                 .n_prompt = r->n_prompt,
                                 .n_cached = r->n_cached,
                                 .n_generated = r->n_generated};
    serve_log_request(&r->s->log, &line);
}

static void request_ends(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    exchange *x = *context;
    serve_http *http = user;
    *context = NULL;
    if (!x)
        return;
    serve_request *r = &x->r;
    if (r->stream.finish)
        r->stream.finish(r->stream.user);
    serve_models_give(r);
    if (x->checked) {
        if (r->gone || !x->complete || code == MHD_REQUEST_TERMINATED_CLIENT_ABORT ||
            code == MHD_REQUEST_TERMINATED_READ_ERROR)
            r->status = 499;
        const int endpoint = r->endpoint ? (int)(r->endpoint - serve_endpoints) : SERVE_N_ENDPOINTS;
        serve_count_request(&r->s->metrics, endpoint, r->status);
        serve_observe(&r->s->metrics, SERVE_TIME_REQUEST, cli_terminal_seconds() - r->began);
        if (r->error.id)
            count_rejected(r->s, r->error.id);
        if (r->tells_usage && r->status == 200 && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
            serve_count(&r->s->metrics, SERVE_COUNT_PROMPT_TOKENS, (uint64_t)r->n_prompt);
            serve_count(&r->s->metrics, SERVE_COUNT_CACHED_TOKENS, (uint64_t)r->n_cached);
            serve_count(&r->s->metrics, SERVE_COUNT_GENERATED_TOKENS, (uint64_t)r->n_generated);
        }
        if (r->status != 200 || !r->endpoint || !(r->endpoint->flags & SERVE_NO_LOG))
            write_log(x);
    }
    enter(http, connection, r->connection, SERVE_PHASE_IDLE);
    serve_drop_body(r);
    serve_let_all_but(r, 0);
    free(r->reply);
    free(r->prompt);
    free(x);
}

static void connection_changes(void *user, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code)
{
    serve_http *http = user;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        char peer[64];
        const union MHD_ConnectionInfo *address =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        serve_peer_text(address ? address->client_addr : NULL, peer);
        const union MHD_ConnectionInfo *fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = fd ? serve_connections_add(http->connections, fd->connect_fd, peer) : NULL;
    } else if (*context) {
        serve_connections_remove(http->connections, *context);
        *context = NULL;
    }
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static int read_tls(serve_http *http)
{
    const serve_options *o = &http->s->o;
    size_t n;
    int rc = CLI_GO_ON;
    if (o->tls_cert)
        rc = cli_read_file(o->tls_cert, &http->cert, &n);
    if (rc == CLI_GO_ON && o->tls_key)
        rc = cli_read_file(o->tls_key, &http->key, &n);
    return rc;
}

int serve_http_has_tls(void)
{
    return MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES;
}

/* Begins to answer on one socket. NULL: it cannot. */
static struct MHD_Daemon *start_daemon(serve_http *http, serve_socket listening)
{
    /* A limit beyond ours: a connection too many is answered so, and one for /health gets through. */
    const unsigned limit = (unsigned)http->s->o.max_connections + 128;
    const int tls = http->s->o.tls_cert != NULL;
    const struct MHD_OptionItem more[3] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, http->cert},
                                           {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
                                           {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
            (tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, handle, http, MHD_OPTION_LISTEN_SOCKET, listening, MHD_OPTION_NOTIFY_COMPLETED,
        request_ends, http, MHD_OPTION_NOTIFY_CONNECTION, connection_changes, http,
        MHD_OPTION_URI_LOG_CALLBACK, request_begins, http, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_CONNECTION_TIMEOUT,
        silence(&http->s->o, SERVE_PHASE_HEADERS), /* of a new connection */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_ARRAY, tls ? more : more + 2, MHD_OPTION_END);
}

int serve_http_start(serve_server *s, serve_socket *listening, int32_t n)
{
    serve_http *http = s->http = calloc(1, sizeof *http);
    if (http)
        *http = (serve_http){.s = s, .connections = serve_connections_create(s)};
    if (!http || !http->connections)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    const int rc = read_tls(http);
    for (int32_t i = 0; i < n && rc == CLI_GO_ON; i++) {
        http->daemons[i] = start_daemon(http, listening[i]);
        if (!http->daemons[i])
            return cli_fail(CLI_FAILED, s->o.tls_cert ? "serve: libmicrohttpd refuses to start with this "
                                                        "certificate and key"
                                                      : "serve: libmicrohttpd refuses to start");
        listening[i] = SERVE_NO_SOCKET;
        http->n_daemons++;
    }
    return rc;
}

void serve_http_stop(serve_http *http)
{
    if (!http)
        return;
    if (http->connections)
        serve_connections_end(http->connections);
    for (int32_t i = 0; i < http->n_daemons; i++)
        MHD_stop_daemon(http->daemons[i]);
    serve_connections_destroy(http->connections);
    free(http->cert);
    free(http->key);
    free(http);
}

int32_t serve_http_n_connections(serve_http *http)
{
    int32_t n_answering;
    return serve_connections_count(http->connections, &n_answering);
}

int32_t serve_http_n_busy(serve_http *http)
{
    int32_t n_answering;
    serve_connections_count(http->connections, &n_answering);
    return n_answering;
}
