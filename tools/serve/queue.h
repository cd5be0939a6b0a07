/* The runs that wait, and who is next: clients take turns, then the requests of a client. */
#ifndef CLEF_TOOLS_SERVE_QUEUE_H
#define CLEF_TOOLS_SERVE_QUEUE_H

#include "tools/serve/engine.h"

/** Groups with runs that wait, in order of arrival. */
typedef struct serve_queue {
    serve_group *first;
    int32_t n_waiting; /* groups of which no run has begun */
} serve_queue;

/** Adds a run behind those of its group. */
void serve_queue_add(serve_queue *q, serve_run *run);
/** Adds a run that was begun, and paused, before those of its group. */
void serve_queue_put_back(serve_queue *q, serve_run *run);
/** Takes a run out, which is in the queue. */
void serve_queue_remove(serve_queue *q, serve_run *run);

/** The run that is next: of the client that has the fewest among the active ones, then of the request that
 * has the fewest, then of the oldest. NULL: none waits. */
serve_run *serve_queue_next(const serve_queue *q, serve_run *const *active, int32_t n_active);
/** The active run that should make place for `next`, where there is none: its client, or its request, has two
 * runs more; or one more, others that wait, and a part of its text, and nothing of the request of `next` has
 * begun. -1: none. */
int32_t serve_queue_victim(const serve_run *next, serve_run *const *active, int32_t n_active);

#endif
