/* Requests and replies, on libmicrohttpd: a thread per connection. */
#ifndef CLEF_TOOLS_SERVE_HTTP_H
#define CLEF_TOOLS_SERVE_HTTP_H

#include <stddef.h>

#include "tools/serve/base/error.h"
#include "tools/serve/base/multipart.h"
#include "tools/serve/endpoints.h"
#include "tools/serve/os/socket.h"
#include "tools/serve/serve.h"

typedef struct serve_http serve_http;
struct serve_connection;

/** A reply that is written while it is made. */
typedef struct serve_stream {
    /** Writes up to `room` bytes, at least 1, and may wait. 0: the end. */
    size_t (*read)(void *user, char *out, size_t room);
    /** Called once, also when the client has gone. */
    void (*finish)(void *user);
    void *user;
} serve_stream;

/** What of a query is read. */
typedef enum serve_query {
    SERVE_QUERY_MODEL,
    SERVE_QUERY_LIMIT,
    SERVE_QUERY_ORDER,
    SERVE_QUERY_AFTER,
    SERVE_N_QUERY
} serve_query;

typedef struct serve_request {
    serve_server *s;
    const serve_model *m; /* which it is for, and what runs it; NULL: it has taken none yet (models.h) */
    struct serve_engine *engine;
    struct serve_hosted *hosted; /* NULL: there is nothing to give back */
    struct serve_connection *connection;
    const serve_endpoint *endpoint;   /* NULL: no such path */
    const char *query[SERVE_N_QUERY]; /* of a GET: values as they are written; NULL: none */
    int32_t needs_slot;               /* its query has fail_on_no_slot */
    const char *path;                 /* after the endpoint's, with SERVE_PREFIX */
    const char *method;
    char id[72], peer[64], whole_path[128];
    uint64_t tenant; /* stands for the key; 0: there are no keys */
    char *body;
    char boundary[SERVE_BOUNDARY]; /* of a body with parts; "" where it is none, or names none */
    size_t n_body, room;
    size_t n_expected; /* bytes of the body, as the head says; 0: it does not */
    size_t n_held;     /* bytes of memory that body and values take */
    double began;      /* seconds, monotonic */
    int64_t created;   /* seconds since 1970 */
    /* the reply */
    serve_error error;
    int32_t status; /* 0: 200, or that of the error */
    char *reply;    /* freed with the request */
    size_t n_reply;
    const char *content_type; /* NULL: JSON */
    char policy[320];         /* Content-Security-Policy */
    serve_stream stream;      /* read NULL: none */
    char ignored[512];        /* fields that were ignored */
    int32_t max_tokens;       /* what max_tokens was cut to; 0: it was not */
    /* for the log */
    int32_t n_prompt, n_cached, n_generated; /* -1: no tokens */
    int32_t tells_usage; /* the reply has these counts, and so have the metrics once it is written */
    char *prompt;        /* NULL, or with --log-prompts */
    int32_t gone;        /* the client left, or was too slow */
    const char *why;     /* NULL, or of a stream that ended early */
} serve_request;

/** The most bytes of its body. */
size_t serve_most_body(const serve_request *r);
/** Counts n further bytes of memory for a body or its values. 0: there are no more, and the error is set. */
int serve_hold(serve_request *r, size_t n);
/** Counts only n bytes from now on, if there are more. */
void serve_let_all_but(serve_request *r, size_t n);
/** Makes room for n more bytes of the body, and a NUL. 0 and an error: there is none. */
int serve_grow_body(serve_request *r, size_t n);
void serve_drop_body(serve_request *r);

/** Takes a JSON value as the reply, and drops it. */
struct json_t;
void serve_reply_json(serve_request *r, struct json_t *value);
/** 1 if the client has gone. */
int serve_client_gone(serve_request *r);
/** 1 if its connection was ended since it reads too slowly. */
int serve_client_slow(serve_request *r);

/** 1 if this build's libmicrohttpd can do TLS. */
int serve_http_has_tls(void);
/** Begins to answer on sockets. Those that it takes over become SERVE_NO_SOCKET. Sets s->http before, since
 *  requests read it; after a failure, too. CLI_GO_ON, or CLI_FAILED after a message. */
int serve_http_start(serve_server *s, serve_socket *listening, int32_t n);
/** Ends all connections, and waits for their threads. Accepts NULL. */
void serve_http_stop(serve_http *http);
int32_t serve_http_n_connections(serve_http *http);
/** Requests that are being answered. */
int32_t serve_http_n_busy(serve_http *http);

#endif
