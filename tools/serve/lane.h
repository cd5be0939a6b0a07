/* Work of requests that may be long: it waits its turn for one thread, which has a lower priority than the
 * engine's and those of connections. Two threads would take both cores of a small machine from the engine,
 * and double the time to the first token of others. Clients take turns. */
#ifndef CLEF_TOOLS_SERVE_LANE_H
#define CLEF_TOOLS_SERVE_LANE_H

#include "tools/serve/http.h"

typedef struct serve_lane serve_lane;

/** NULL when out of memory, or the system has no threads left. */
serve_lane *serve_lane_create(void);
/** When nobody waits for it any more. Accepts NULL. */
void serve_lane_destroy(serve_lane *lane);
/** Runs work(user) in the thread of the lane, and waits until it is done. 0, and an error: the request ended
 * while it waited for its turn, or too many do (--max-queue); the work was not begun. */
int serve_lane_run(serve_lane *lane, serve_request *r, void (*work)(void *user), void *user);
/** Runs work(user) here if the request is small, else in the server's lane for large ones. */
int serve_prepare(serve_request *r, void (*work)(void *user), void *user);
/** Whether a request that has waited since a time goes on waiting, `for` something. Else 0, and *error says
 *  why: the client has gone, the server ends, or --queue-timeout or --request-timeout is over. */
int serve_may_wait(serve_request *r, double since, const char *why, serve_error *error);
/** Ends a request so. */
void serve_wait_ends(serve_request *r, const serve_error *error);

#endif
