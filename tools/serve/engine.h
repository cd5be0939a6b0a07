/* The engine: one thread that drives the batch and the embedder. Other threads hand it runs, and wait for
 * tokens. It never formats, parses, or waits for a client. */
#ifndef CLEF_TOOLS_SERVE_ENGINE_H
#define CLEF_TOOLS_SERVE_ENGINE_H

#include <stdatomic.h>

#include "clef/clef.h"
#include "tools/prompt_pictures.h"
#include "clef/speech.h"
#include "tools/serve/base/buffer.h"
#include "tools/serve/base/error.h"
#include "tools/serve/serve.h"
#include "tools/serve/os/thread.h"

typedef struct serve_engine serve_engine;

/** What the runs of a request share. */
typedef struct serve_group {
    serve_lock lock;
    serve_condition changed; /* there are new tokens, a run began or ended */
    uint64_t n_changes;
    double submitted; /* seconds, monotonic */
    uint64_t client;  /* a number that stands for its key, or its address */
    /* the engine's own */
    int32_t is_waiting;      /* none of its runs has begun */
    struct serve_run *first; /* those that wait */
    struct serve_group *next;
} serve_group;
void serve_group_init(serve_group *g);
void serve_group_finish(serve_group *g);
/** Waits until n_changes differs from `seen`, or some seconds have passed. The lock is held. */
void serve_group_wait(serve_group *g, uint64_t seen, double seconds);

typedef struct serve_token {
    int32_t id;
    float logprob;
} serve_token;

typedef enum serve_run_state { SERVE_RUN_WAITING, SERVE_RUN_RUNNING, SERVE_RUN_DONE } serve_run_state;

/** A text that is generated. */
typedef struct serve_run {
    serve_group *group;
    clef_request request;     /* what it points to must live until the run is done */
    const cli_prompt_pictures *pictures; /* NULL, or those of its prompt; the same holds for them */
    serve_token *tokens;      /* [capacity] */
    clef_token_logprob *tops; /* [capacity, request.n_top]; id -1: no more of a token */
    int32_t capacity;         /* the most tokens it can have */
    _Atomic int cancelled;
    /* under the group's lock */
    serve_run_state state;
    int32_t n_tokens, n_prompt, n_cached, n_past, n_drafted, n_accepted;
    int32_t place; /* the slot in which it began */
    clef_finish finish; /* of a run that is done; NONE: it was cancelled, or failed with `error` */
    serve_error error;
    double began, first, last; /* seconds, monotonic; 0: not yet */
    /* the engine's own */
    int64_t sequence;
    int32_t slot;                /* its place, while it is active */
    int32_t is_paused, n_before; /* n_before: tokens that it had when it began, or went on */
    struct serve_run *next;
} serve_run;

/** A sound, and what is said in it. */
typedef struct serve_hearing {
    const float *samples; /* [n] at 16 kHz */
    size_t n;
    clef_transcribe_opts opts; /* without its functions */
    /* under the group's lock */
    int32_t has_begun;
    serve_buffer text;    /* of the segments so far */
    clef_transcript said; /* once it is done without an error */
} serve_hearing;

/** What a text's tokens give: weights, or vectors. The engine allocates them by malloc(). */
typedef struct serve_token_rows {
    clef_token_weight *weights; /* [n] */
    float *vectors;             /* [n, n_dims] */
    int32_t n, n_dims;
} serve_token_rows;

/** Texts that are embedded, pairs that are ranked, or a sound that is written down. */
typedef struct serve_embedding {
    serve_group *group;
    serve_hearing *hearing;      /* NULL: texts or pairs. The sound; then the fields up to `out` are unused */
    const int32_t *const *ids;   /* [n], the shortest first */
    const int32_t *const *types; /* of pairs; NULL: texts */
    const int32_t *n_ids;
    int32_t n;
    float *out; /* [n, n_dims]; of pairs their logits [n] */
    serve_token_rows *tokens; /* [n], in place of `out`; NULL: a vector for each text */
    int32_t are_weights;      /* of tokens: 1, or 0 for vectors */
    _Atomic int cancelled;
    serve_run_state state; /* under the group's lock */
    serve_error error;
    int32_t n_done;
    struct serve_embedding *next;
} serve_embedding;

/** Starts the thread, which opens the device, loads the model, and makes the server ready. When that fails,
 * it says why, and serve_engine_failed() returns 1. CLI_GO_ON, or an exit code after a message. */
int serve_engine_start(serve_server *server, const serve_model *m, serve_engine **out);
/** Ends all runs, and the thread; what is handed over later is refused. Accepts NULL. */
void serve_engine_stop(serve_engine *e);
/** When no other thread knows it any more. Accepts NULL. */
void serve_engine_destroy(serve_engine *e);
int serve_engine_failed(serve_engine *e);
/** Waits until it is ready: 1, or has failed: 0. */
int serve_engine_wait(serve_engine *e);
/** What its batch is made of. */
void serve_batch_opts(const serve_server *s, const serve_model *m, clef_batch_opts *out);
/** Memory of a plan; NULL: 0. */
uint64_t serve_plan_bytes(const clef_plan *plan);

/** A number that stands for a request's client: its key, or its address where there are no keys. */
struct serve_request;
uint64_t serve_client_of(const struct serve_request *r);
/** Hands over the n runs of a group, or none of them: 0, and SERVE_E_QUEUE or SERVE_E_UNAVAILABLE. */
int serve_engine_submit(serve_engine *e, serve_group *g, serve_run *runs, int32_t n, serve_error *error);
int serve_engine_embed(serve_engine *e, serve_embedding *work, serve_error *error);
/** Ends a run and waits until the engine has let go of it: a step at most. 0: the server has given up, and
 *  the engine may still use the run, and what it points to, until the process ends. */
int serve_run_cancel(serve_engine *e, serve_run *run);
int serve_embedding_cancel(serve_engine *e, serve_embedding *work);
/** From now on nobody waits for the engine, whose thread may be in a call that never returns. */
void serve_engine_give_up(serve_engine *e);
/** 1 after that, and *error says so. */
int serve_engine_gave_up(const serve_engine *e, serve_error *error);
/** Fails all runs that are left, as the server is about to end. */
void serve_engine_fail_all(serve_engine *e, const char *why);

/** A place for a text that is computed. */
typedef struct serve_slot {
    int64_t sequence; /* -1: none runs there */
    int32_t n_prompt, n_max, n_tokens;
    clef_sampler_opts sampling; /* without its lists */
} serve_slot;
/** Copies at most `room` of them, and returns how many there are. */
int32_t serve_engine_slots(serve_engine *e, serve_slot *out, int32_t room);

typedef struct serve_engine_stats {
    clef_batch_stats batch;
    int32_t n_running, n_waiting; /* runs that are computed; requests in the queue */
    double mean_seconds;          /* of requests, lately; 0: none yet */
    int32_t is_lost;              /* the device, and it is not yet back */
    int32_t n_dims, max_tokens;   /* of embeddings; 0: not known yet */
    const char *prompt;           /* before each text of embeddings; NULL: none. The model's */
    int32_t ranks;                /* 1: it ranks, as `ranking` says */
    clef_ranker_info ranking;
    int32_t hears;                /* 1: it writes down sounds */
    uint64_t bytes; /* of what it has on the device, and of weights that are used in place */
    char device[160], driver[288], kernels[512];
    const char *no_prefix_cache, *no_speculation; /* NULL: they work */
} serve_engine_stats;
serve_engine_stats serve_engine_describe(serve_engine *e);
/** Notes how long a request took, for estimates. */
void serve_engine_note(serve_engine *e, double seconds);

#endif
