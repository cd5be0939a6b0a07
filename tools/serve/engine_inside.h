/* What the two files of the engine share. */
#ifndef CLEF_SERVE_ENGINE_INSIDE_H
#define CLEF_SERVE_ENGINE_INSIDE_H

#include "tools/cli/progress.h"
#include "tools/serve/engine.h"
#include "tools/serve/http.h"
#include "tools/serve/queue.h"

struct serve_engine {
    serve_server *s;
    const serve_model *m;
    serve_thread thread;
    int started;
    _Atomic int given_up;
    clef_device *device;
    clef_batch *batch; /* NULL: none, or lost */
    clef_sight *sight; /* NULL before the first picture */
    clef_embedder *embedder;
    clef_ranker *ranker; /* NULL: it is none */
    clef_transcriber *transcriber; /* NULL: it does not hear */
    cli_progress progress;
    serve_run **active; /* [max_seqs] */
    int32_t n_active, max_seqs, n_failures;
    double tried;         /* when the batch was last made anew */
    uint64_t last_client; /* of embeddings */
    clef_batch_stats before;
    uint64_t n_bytes;
    /* under the lock */
    serve_lock lock;
    serve_condition work;
    serve_queue queue;
    serve_embedding *embeddings, *current; /* current: of which a part is computed */
    serve_condition loaded; /* is_ready or failed is set */
    int32_t ends, failed, is_ready;
    const char *fail_all; /* NULL, or why all runs are to end */
    serve_engine_stats stats;
    serve_slot *slots; /* [max_seqs] */
};

/** Opens the device, and what runs on it. Statuses of what they open; on failure some are open. */
clef_status serve_engine_open(serve_engine *e, clef_error *err);
void        serve_engine_close(serve_engine *e);
/** serve_engine_open() at the start, with a word on the device. 0 after a message. */
int         serve_engine_load(serve_engine *e);
/** Sets n_bytes to what its plans have. */
void        serve_engine_count_bytes(serve_engine *e);
/** Publishes the statistics of the steps; with the device, kernels and limits, which a new one changes. */
void        serve_engine_publish(serve_engine *e);
void        serve_engine_publish_all(serve_engine *e);

/** Writes a sound down. Fills *error where that fails, and it was not cancelled. */
void        serve_engine_hear(serve_engine *e, serve_embedding *w, serve_error *error);

#endif
