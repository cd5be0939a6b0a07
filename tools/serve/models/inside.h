/* What the files of the models share. */
#ifndef CLEF_TOOLS_SERVE_MODELS_INSIDE_H
#define CLEF_TOOLS_SERVE_MODELS_INSIDE_H

#include "tools/serve/models.h"

/** A request that waits for a model. All but `began` under the lock. */
typedef struct serve_waiter {
    double since, began; /* seconds, monotonic: when it began to wait; from when --queue-timeout counts */
    int32_t is_over;     /* 1: it has the model, or an error */
    serve_error error;
    struct serve_waiter *next;
} serve_waiter;

/** A model of the server. */
typedef struct serve_hosted {
    serve_server *s;
    serve_card card;
    serve_model m;        /* open while it is loaded; of a model that is alone always */
    serve_engine *engine; /* NULL while it is not loaded */
    uint64_t n_more;      /* what embeddings, or rankings, of a model need that also generates; 0: unknown */
    int32_t is_fixed;     /* 1: it is never unloaded */
    /* under the lock of serve_models */
    serve_presence now;
    uint64_t n_bytes; /* what it needs, as far as that is known before */
    uint32_t more;    /* what else requests have asked for; bits of more_of() */
    int32_t n_users, n_waiting, closes; /* closes: it takes no new requests, so that it can be unloaded */
    serve_waiter *first;
    double used; /* seconds, monotonic: when it was last taken, or given back */
} serve_hosted;

struct serve_models {
    serve_server *s;
    serve_hosted *all; /* [n] */
    char **paths;      /* [n] */
    int32_t n;
    uint64_t most_bytes; /* --memory; 0: no limit */
    double idle_seconds; /* 0: none is unloaded because nobody uses it */
    serve_thread thread;
    int32_t started;
    /* under the lock */
    serve_lock lock;
    serve_condition work, changed; /* for the thread; for requests that wait */
    int32_t ends;
};

/** Opens what is closed and starts the engine. Returns when it is ready. 0 after a message. */
int serve_hosted_load(serve_hosted *h);
/** Ends the engine, and gives the memory back. In any state. */
void serve_hosted_unload(serve_hosted *h);

#endif
