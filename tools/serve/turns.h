/* Large bodies are read one at a time: they take no more memory than that, and leave the cores to others.
 */
#ifndef CLEF_TOOLS_SERVE_TURNS_H
#define CLEF_TOOLS_SERVE_TURNS_H

#include "tools/serve/http.h"

/** A body from here on is large. */
enum { SERVE_LARGE_BODY = 128 << 10 };

typedef struct serve_turns serve_turns;

/** NULL when out of memory. */
serve_turns *serve_turns_create(void);
/** When no request is left. Accepts NULL. */
void serve_turns_destroy(serve_turns *all);
/** Waits until the body has a turn, unless it has one. A turn passes to the next body that waits where the
 *  client sends nothing more for long; n_more: bytes received, 0: the body is complete, and keeps its turn.
 *  0, and an error: the request ended while it waited. */
int serve_turn_take(serve_request *r, size_t n_more);
/** Gives the turn to the next body. Does nothing where it has none. */
void serve_turn_give(serve_request *r);

#endif
