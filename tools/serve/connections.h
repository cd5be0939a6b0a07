/* The open connections: how long each may take for what it does, and how many there may be. A thread ends
 * those that are late. */
#ifndef CLEF_TOOLS_SERVE_CONNECTIONS_H
#define CLEF_TOOLS_SERVE_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "tools/serve/serve.h"
#include "tools/serve/os/socket.h"

typedef enum serve_phase {
    SERVE_PHASE_IDLE,    /* between two requests */
    SERVE_PHASE_HEADERS, /* a request has begun */
    SERVE_PHASE_BODY,
    SERVE_PHASE_ANSWERING /* it is complete */
} serve_phase;

typedef struct serve_connection {
    struct serve_connection *next, **at;
    serve_socket socket;
    int ended, is_first; /* is_first: no request was read from it yet */
    int waits;           /* for its turn to send more */
    int is_proxy;        /* its requests come from many clients */
    char peer[64];
    serve_phase phase;
    double since;       /* when the phase began */
    double begun;       /* when the request began; later by the time that it waited for its turn */
    size_t n_body;      /* bytes of it received so far */
    double reader_left; /* when a stream was last handed over to the socket; 0: it is being made */
    _Atomic int slow;   /* it was ended since its client reads too slowly */
} serve_connection;

typedef struct serve_connections serve_connections;

/** NULL when out of memory. */
serve_connections *serve_connections_create(serve_server *s);
void serve_connections_destroy(serve_connections *all);
/** Adds a connection, and makes room by ending one that is idle, or slow with its request. NULL when out of
 * memory. */
serve_connection *serve_connections_add(serve_connections *all, serve_socket socket, const char *peer);
void serve_connections_remove(serve_connections *all, serve_connection *c);
void serve_connection_enter(serve_connections *all, serve_connection *c, serve_phase phase);
void serve_connection_body(serve_connections *all, serve_connection *c, size_t n);
/** Its body waits for its turn, or goes on: that time is not the client's. */
void serve_connection_waits(serve_connections *all, serve_connection *c, int waits);
/** A stream's piece goes to the socket, or the socket wants the next one. */
void serve_connection_writes(serve_connections *all, serve_connection *c, int writes);
/** 1 if there are too many for this request to be answered. */
int serve_connections_full(serve_connections *all, const serve_connection *c);
int32_t serve_connections_count(serve_connections *all, int32_t *n_answering);
/** Ends all of them. */
void serve_connections_end(serve_connections *all);

#endif
