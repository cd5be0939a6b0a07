/* Finished responses, for `previous_response_id` and GET: in memory, the last ones. */
#ifndef CLEF_TOOLS_SERVE_BASE_RESPONSES_H
#define CLEF_TOOLS_SERVE_BASE_RESPONSES_H

#include <jansson.h>
#include <stdint.h>

typedef struct serve_responses serve_responses;

/** At most this many responses and bytes of text are kept. The oldest go first. */
enum { SERVE_MOST_RESPONSES = 1024, SERVE_MOST_RESPONSE_BYTES = 64 << 20 };

/** NULL when out of memory. */
serve_responses *serve_responses_create(void);
/** Accepts NULL. */
void serve_responses_destroy(serve_responses *s);
/** What is kept of a response, each as JSON of its own: the response, the messages of the conversation with
 * the reply, and the items of the request. */
typedef enum serve_stored {
    SERVE_STORED_RESPONSE,
    SERVE_STORED_MESSAGES,
    SERVE_STORED_ITEMS,
    SERVE_N_STORED
} serve_stored;

/** Keeps the texts, which it takes, unless they are too large. `ids` is the list of the ids of the request's
 * items and of the output's. `tenant` stands for the client's key. */
void serve_responses_store(serve_responses *s, uint64_t tenant, const char *id, char *texts[SERVE_N_STORED],
                           const json_t *ids);
/** A text of a stored response, which the caller frees; NULL: this key has none of this id. */
char *serve_responses_find(serve_responses *s, uint64_t tenant, const char *id, serve_stored what);
/** As serve_responses_find(), of the last one whose items or output have this id. */
char *serve_responses_find_item(serve_responses *s, uint64_t tenant, const char *item, serve_stored what);
/** 1, and the response is dropped; 0: this key has none of this id. */
int serve_responses_drop(serve_responses *s, uint64_t tenant, const char *id);

#endif
