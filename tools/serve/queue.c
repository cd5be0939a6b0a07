/* The runs that wait, and who is next. */
#include "tools/serve/queue.h"

#include <stddef.h>

/* Tokens that a run has before it makes place for the first run of a new request; where as many of its
 * request wait as are active in all, one. */
enum { LEAST_TOKENS = 16 };

/* ---- the queue ------------------------------------------------------------------------------- */

/* Puts a group into the list, unless it is there. */
static void list_group(serve_queue *q, serve_group *g)
{
    serve_group **at = &q->first;
    while (*at && *at != g)
        at = &(*at)->next;
    if (*at)
        return;
    g->next = NULL;
    *at = g;
    q->n_waiting += g->is_waiting;
}

void serve_queue_add(serve_queue *q, serve_run *run)
{
    serve_run **at = &run->group->first;
    while (*at)
        at = &(*at)->next;
    run->next = NULL;
    *at = run;
    list_group(q, run->group);
}

/* The group keeps its place by age: its first run was added earlier than those of groups behind it. */
void serve_queue_put_back(serve_queue *q, serve_run *run)
{
    serve_group *g = run->group, **at = &q->first;
    const int is_listed = g->first != NULL;
    run->next = g->first;
    g->first = run;
    if (is_listed)
        return;
    while (*at && (*at)->submitted <= g->submitted)
        at = &(*at)->next;
    g->next = *at;
    *at = g;
}

void serve_queue_remove(serve_queue *q, serve_run *run)
{
    serve_group *g = run->group, **listed = &q->first;
    serve_run **at = &g->first;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    while (*listed != g)
        listed = &(*listed)->next;
    q->n_waiting -= g->is_waiting;
    g->is_waiting = 0;
    if (!g->first)
        *listed = g->next;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Active runs of a client, and of a group. */
typedef struct share {
    int32_t client, group;
} share;

static share share_of(const serve_group *g, serve_run *const *active, int32_t n_active)
{
    share n = {0, 0};
    for (int32_t i = 0; i < n_active; i++) {
        n.client += active[i]->group->client == g->client;
        n.group += active[i]->group == g;
    }
    return n;
}

serve_run *serve_queue_next(const serve_queue *q, serve_run *const *active, int32_t n_active)
{
    const serve_group *best = NULL;
    share least = {0, 0};
    for (const serve_group *g = q->first; g; g = g->next) {
        const share n = share_of(g, active, n_active);
        if (best && (n.client > least.client || (n.client == least.client && n.group >= least.group)))
            continue;
        best = g;
        least = n;
    }
    return best ? best->first : NULL;
}

static int32_t n_waiting(const serve_group *g, int32_t most)
{
    int32_t n = 0;
    for (const serve_run *r = g->first; r && n < most; r = r->next)
        n++;
    return n;
}

/* Whether a run of a request with others that wait has had a part of its text. */
static int has_had_its_turn(const serve_run *run, int32_t n_active)
{
    const int32_t n = n_waiting(run->group, n_active), least = n >= n_active ? 1 : LEAST_TOKENS;
    return n > 0 && run->n_tokens - run->n_before >= least;
}

int32_t serve_queue_victim(const serve_run *next, serve_run *const *active, int32_t n_active)
{
    const share own = share_of(next->group, active, n_active);
    int32_t found = -1;
    share most = {0, 0};
    for (int32_t i = 0; i < n_active; i++) { /* of the best, the newest */
        const serve_group *g = active[i]->group;
        const share n = share_of(g, active, n_active);
        const int is_other = g->client != next->group->client;
        const int32_t more = is_other ? n.client - own.client : n.group - own.group;
        const int fits =
            more >= 2 || (more == 1 && next->group->is_waiting && has_had_its_turn(active[i], n_active));
        const int is_more = n.client > most.client || (n.client == most.client && n.group >= most.group);
        if (!fits || (found >= 0 && !is_more))
            continue;
        found = i;
        most = n;
    }
    return found;
}
