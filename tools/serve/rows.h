/* Texts or pairs that each become a row of numbers: what /v1/embeddings and /v1/rerank share, from the ids to
 * the engine's result. */
#ifndef CLEF_TOOLS_SERVE_ROWS_H
#define CLEF_TOOLS_SERVE_ROWS_H

#include "tools/serve/engine.h"
#include "tools/serve/http.h"
#include "tools/serve/params.h"

/* What embeddings are: a vector of each text; or of its tokens, weights or vectors. */
enum { SERVE_DENSE, SERVE_SPARSE, SERVE_MULTI };

typedef struct serve_rows {
    serve_request *r;
    serve_params p;
    serve_group group;
    serve_embedding run;                   /* its out: the rows, in the order of `order` */
    int32_t is_held;                       /* 1: the engine may use it until the process ends */
    int32_t **ids, **types;                /* [n]; types: of pairs */
    int32_t *n_ids;                        /* [n] */
    int32_t *order;                        /* [n]: the shortest first */
    const int32_t **sorted, **sorted_types; /* [n] */
    int32_t *n_sorted;
    int32_t n, n_dims, max_tokens, are_pairs, n_cut, is_ready; /* n_cut: pairs that were cut */
    int32_t kind;       /* of embeddings: SERVE_DENSE .. */
    int32_t is_native;  /* the reply of embeddings has llama-server's form */
    const char *prompt; /* of embeddings: NULL, or what is before each text */
    int64_t n_tokens;
} serve_rows;

/** NULL, with the request's error set. */
serve_rows *serve_rows_new(serve_request *r);
/** Frees it, unless the engine still has it. */
void serve_rows_free(serve_rows *w);
/** These return 0 and set the request's error where they fail. Makes room for n sequences. */
int serve_rows_room(serve_rows *w, size_t n);
/** Counts the tokens of sequence i, and checks its length. */
int serve_rows_check(serve_rows *w, int32_t i, const char *path);
/** Has the engine compute rows of `width` numbers, and waits. */
int serve_rows_compute(serve_rows *w, int32_t width);
enum { SERVE_ROWS_OVER, SERVE_ROWS_GO_ON, SERVE_ROWS_DONE };
/** Waits for something new of a piece of work, and looks whether its request goes on. *seen: the changes of
 *  its group that are known. SERVE_ROWS_OVER, and an error: the request ended, and the engine has let go of
 *  the work, unless *is_held is set. */
int serve_rows_wait(serve_request *r, serve_embedding *work, uint64_t *seen, int32_t *is_held);
/** Makes a value the reply; it is freed. NULL: there was no memory for it. */
void serve_rows_reply(serve_rows *w, json_t *root);
int serve_rows_no_memory(serve_request *r);
int serve_rows_bad(serve_request *r, const char *path, const json_t *value, const char *wanted);

#endif
