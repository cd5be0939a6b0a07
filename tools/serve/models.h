/* The models of a server: which of them are in memory, and which requests wait for one.
 *
 * One model alone is there from the start to the end. Several are loaded when requests ask for them. A
 * request takes its model, which then stays until the request gives it back. */
#ifndef CLEF_TOOLS_SERVE_MODELS_H
#define CLEF_TOOLS_SERVE_MODELS_H

#include "tools/serve/engine.h"
#include "tools/serve/http.h"

typedef struct serve_models serve_models;

typedef enum serve_presence {
    SERVE_IS_UNLOADED,
    SERVE_IS_LOADING,
    SERVE_IS_LOADED,
    SERVE_IS_UNLOADING
} serve_presence;

/** What is known of a model whether it is in memory or not. Nothing of it changes but `now`. */
typedef struct serve_card {
    char id[128], arch[32];
    int32_t n_context, n_trained, n_vocab, n_dims; /* n_trained: positions that the model itself has */
    int32_t sees, hears; /* pictures, sounds */
    clef_tokenizer_kind kind;
    int64_t created; /* seconds since 1970 */
    uint64_t n_params, n_bytes;
    serve_presence now;
} serve_card;

/** Opens all that the command line names, each a file or a folder; a folder without a config.json stands for
 *  the models in it, of which those that cannot be opened are left out. Sets s->models in either case.
 *  CLI_GO_ON, or an exit code after a message. */
int serve_models_open(serve_server *s, int32_t n, char *const *paths);
/** Starts the thread that loads and unloads, and the engine of a model that is alone. */
int serve_models_start(serve_models *ms);
/** Ends all engines, and the thread. Accepts NULL. */
void serve_models_stop(serve_models *ms);
/** When no request is left. Accepts NULL. */
void serve_models_destroy(serve_models *ms);

enum { SERVE_MODEL_NAME = 1024 };

/** Before all else: where one model is always there, the request has it. */
void serve_models_begin(serve_request *r);
/** Takes the model that a request names; NULL: none. Waits until it is in memory. 0: the request's error says
 *  why not. */
int serve_models_take(serve_request *r, const char *name);
/** Gives it back, if the request took one. */
void serve_models_give(serve_request *r);

int32_t serve_models_count(const serve_models *ms);
serve_card serve_models_card(serve_models *ms, int32_t i);
/** "loaded", "loading" or "unloaded". */
const char *serve_presence_text(serve_presence now);
/** The number of a model; -1: none has this name. */
int32_t serve_models_named(const serve_models *ms, const char *name);
/** The model that is alone, which is always open; NULL where there are several. */
const serve_model *serve_models_only(const serve_models *ms);
/** What its engine says; zeros while it is not loaded. */
serve_engine_stats serve_models_describe(serve_models *ms, int32_t i);
/** Its places for texts: as serve_engine_slots(); 0 while it is not loaded. */
int32_t serve_models_slots(serve_models *ms, int32_t i, serve_slot *out, int32_t room);
/** Requests that wait for a model. */
int32_t serve_models_n_waiting(serve_models *ms);

/** As the functions of the same names of the engine, for all of them. */
int serve_models_failed(serve_models *ms);
void serve_models_give_up(serve_models *ms);
void serve_models_fail_all(serve_models *ms, const char *why);

#endif
