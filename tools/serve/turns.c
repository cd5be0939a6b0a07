/* Whose body is read. */
#include "tools/serve/turns.h"

#include <stdlib.h>

#include "tools/cli/terminal.h"
#include "tools/serve/os/thread.h"

enum { N_TURNS = 1 }; /* with two, the first token of others takes twice as long on two cores */
/* A turn lasts so long, and longer by what arrived meanwhile at this rate, in bytes a second. */
static const double least_seconds = 0.1, rate = 16 << 20;
static const double look_seconds = 0.05;

typedef struct turn {
    const serve_request *r; /* NULL: nobody has it */
    double since;
    size_t n;        /* bytes received since */
    int is_complete; /* the body is whole, and parsed soon */
} turn;

typedef struct waiting {
    struct waiting *next;
} waiting;

struct serve_turns {
    serve_lock lock;
    serve_condition changed;
    turn at[N_TURNS];
    waiting *first;
};

serve_turns *serve_turns_create(void)
{
    serve_turns *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    serve_lock_init(&all->lock);
    serve_condition_init(&all->changed);
    return all;
}

void serve_turns_destroy(serve_turns *all)
{
    if (!all)
        return;
    serve_lock_finish(&all->lock);
    serve_condition_finish(&all->changed);
    free(all);
}

static turn *find(serve_turns *all, const serve_request *r)
{
    for (int i = 0; i < N_TURNS; i++)
        if (all->at[i].r == r)
            return &all->at[i];
    return NULL;
}

/* A turn that nobody has, or whose client lets the others wait. */
static turn *find_free(serve_turns *all, double now)
{
    turn *found = find(all, NULL);
    for (int i = 0; i < N_TURNS && !found; i++) {
        const turn *t = &all->at[i];
        if (!t->is_complete && now > t->since + least_seconds + (double)t->n / rate)
            found = &all->at[i];
    }
    return found;
}

static int goes_on(serve_request *r, double since)
{
    const double waited = cli_terminal_seconds() - since;
    if (atomic_load(&r->s->state) >= SERVE_ENDING)
        return serve_fail(&r->error, SERVE_E_UNAVAILABLE, NULL, "the server ends");
    if (waited <= (double)r->s->o.queue_timeout)
        return 1;
    return serve_fail(&r->error, SERVE_E_TIMEOUT, NULL, "the request waited for %.0f s to be read", waited);
}

/* Waits behind those that were here before; the lock is held. */
static turn *wait_for_turn(serve_turns *all, serve_request *r)
{
    const double since = cli_terminal_seconds();
    waiting own = {NULL}, **at = &all->first;
    turn *t = NULL;
    while (*at)
        at = &(*at)->next;
    *at = &own;
    while (!(all->first == &own && (t = find_free(all, cli_terminal_seconds()))) && goes_on(r, since))
        serve_condition_wait_seconds(&all->changed, &all->lock, look_seconds);
    for (at = &all->first; *at != &own;)
        at = &(*at)->next;
    *at = own.next;
    serve_condition_broadcast(&all->changed);
    if (t)
        *t = (turn){.r = r, .since = cli_terminal_seconds()};
    return t;
}

int serve_turn_take(serve_request *r, size_t n_more)
{
    serve_turns *all = r->s->turns;
    serve_lock_take(&all->lock);
    turn *t = find(all, r);
    t = t ? t : wait_for_turn(all, r);
    if (t) {
        t->n += n_more;
        t->is_complete = !n_more;
    }
    serve_lock_release(&all->lock);
    return t != NULL;
}

void serve_turn_give(serve_request *r)
{
    serve_turns *all = r->s->turns;
    serve_lock_take(&all->lock);
    turn *t = find(all, r);
    if (t) {
        *t = (turn){.r = NULL};
        serve_condition_broadcast(&all->changed);
    }
    serve_lock_release(&all->lock);
}
