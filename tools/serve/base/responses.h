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
/** Keeps a response and its input, unless they are too large: the `messages` of the conversation with the
 * reply, and the `items` of the request. `tenant` stands for the client's key. */
void serve_responses_store(serve_responses *s, uint64_t tenant, const char *id, const json_t *input,
                           const json_t *response);
/** The JSON of a stored response, or of its input, which the caller frees; NULL: this key has none of this
 * id.
 */
char *serve_responses_find(serve_responses *s, uint64_t tenant, const char *id, int of_input);
/** As serve_responses_find(), for the last one in which something has this id. */
char *serve_responses_find_item(serve_responses *s, uint64_t tenant, const char *item, int of_input);
/** 1, and the response is dropped; 0: this key has none of this id. */
int serve_responses_drop(serve_responses *s, uint64_t tenant, const char *id);

#endif
