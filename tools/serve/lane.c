/* A thread for work that may be long. */
#include "tools/serve/lane.h"

#include <stdlib.h>

#include "tools/cli/terminal.h"
#include "tools/serve/engine.h"
#include "tools/serve/os/thread.h"
#include "tools/serve/turns.h"

static const double look_seconds = 0.1;

typedef enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE } job_state;

typedef struct job {
    void (*work)(void *user);
    void *user;
    uint64_t client;
    int64_t round; /* clients take turns: each has one job in a round */
    job_state state;
    struct job *next;
} job;

struct serve_lane {
    serve_lock lock;
    serve_condition work, done;
    serve_thread thread;
    int32_t n_waiting, ends;
    job *first;      /* those that wait, by round */
    uint64_t client; /* of the job that was begun last, and its round */
    int64_t round;
};

static void run_jobs(void *user)
{
    serve_lane *lane = user;
    serve_thread_lower();
    serve_lock_take(&lane->lock);
    while (!lane->ends) {
        job *j = lane->first;
        if (!j) {
            serve_condition_wait(&lane->work, &lane->lock);
            continue;
        }
        lane->first = j->next;
        lane->n_waiting--;
        lane->client = j->client;
        lane->round = j->round;
        j->state = JOB_RUNS;
        serve_lock_release(&lane->lock);
        j->work(j->user);
        serve_lock_take(&lane->lock);
        j->state = JOB_DONE;
        serve_condition_broadcast(&lane->done);
    }
    serve_lock_release(&lane->lock);
}

static void finish(serve_lane *lane)
{
    serve_lock_finish(&lane->lock);
    serve_condition_finish(&lane->work);
    serve_condition_finish(&lane->done);
    free(lane);
}

serve_lane *serve_lane_create(void)
{
    serve_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    serve_lock_init(&lane->lock);
    serve_condition_init(&lane->work);
    serve_condition_init(&lane->done);
    if (serve_thread_start(&lane->thread, run_jobs, lane))
        return lane;
    finish(lane);
    return NULL;
}

void serve_lane_destroy(serve_lane *lane)
{
    if (!lane)
        return;
    serve_lock_take(&lane->lock);
    lane->ends = 1;
    serve_condition_broadcast(&lane->work);
    serve_lock_release(&lane->lock);
    serve_thread_join(lane->thread);
    finish(lane);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* The round after the last one in which the client has a job; at the earliest the one that is under way. */
static int64_t next_round(const serve_lane *lane, uint64_t client)
{
    int64_t round = lane->round + (client == lane->client);
    for (const job *j = lane->first; j; j = j->next)
        if (j->client == client && j->round >= round)
            round = j->round + 1;
    return round;
}

static int add(serve_lane *lane, serve_request *r, job *j)
{
    job **at = &lane->first;
    if (lane->n_waiting > r->s->o.max_queue) {
        r->error.retry_after = 1;
        return serve_fail(&r->error, SERVE_E_QUEUE, NULL, "the queue is full: %d requests wait to be read",
                          (int)lane->n_waiting);
    }
    j->round = next_round(lane, j->client);
    while (*at && (*at)->round <= j->round)
        at = &(*at)->next;
    j->next = *at;
    *at = j;
    lane->n_waiting++;
    serve_condition_signal(&lane->work);
    return 1;
}

static void leave(serve_lane *lane, job *j)
{
    job **at = &lane->first;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    lane->n_waiting--;
}

/* Whether a request that waits should go on doing so. Else *e says why: the request's own error is that of
 * the work, which may begin meanwhile. */
int serve_may_wait(serve_request *r, double since, const char *why, serve_error *e)
{
    const serve_options *o = &r->s->o;
    const double now = cli_terminal_seconds();
    if (r->engine && serve_engine_gave_up(r->engine, e))
        return 0;
    if (atomic_load(&r->s->state) >= SERVE_ENDING)
        return serve_fail(e, SERVE_E_UNAVAILABLE, NULL, "the server ends");
    if (serve_client_gone(r))
        return serve_fail(e, SERVE_E_GONE, NULL, "the client has gone");
    if (now - since <= (double)o->queue_timeout && now - r->began <= (double)o->request_timeout)
        return 1;
    return serve_fail(e, SERVE_E_TIMEOUT, NULL, "the request waited %s for %.0f s", why, now - since);
}

void serve_wait_ends(serve_request *r, const serve_error *why)
{
    r->error = *why;
    r->gone = why->id == SERVE_E_GONE;
    if (r->gone || why->id == SERVE_E_TIMEOUT)
        serve_count_label(&r->s->metrics, SERVE_LABEL_CANCELLED,
                          r->gone ? SERVE_CANCELLED_DISCONNECT : SERVE_CANCELLED_TIMEOUT);
}

int serve_lane_run(serve_lane *lane, serve_request *r, void (*work)(void *user), void *user)
{
    job j = {.work = work, .user = user, .client = serve_client_of(r)};
    const double since = cli_terminal_seconds();
    serve_lock_take(&lane->lock);
    int ok = add(lane, r, &j);
    while (ok && j.state != JOB_DONE) {
        serve_condition_wait_seconds(&lane->done, &lane->lock, look_seconds);
        if (j.state != JOB_WAITS)
            continue;
        serve_lock_release(&lane->lock); /* a look at the client takes a while */
        serve_error why = {.id = SERVE_OK};
        const int stays = serve_may_wait(r, since, "to be read", &why);
        serve_lock_take(&lane->lock);
        if (stays || j.state != JOB_WAITS)
            continue;
        leave(lane, &j);
        serve_wait_ends(r, &why);
        ok = 0;
    }
    serve_lock_release(&lane->lock);
    return ok;
}

int serve_prepare(serve_request *r, void (*work)(void *user), void *user)
{
    if (r->n_body > SERVE_LARGE_BODY)
        return serve_lane_run(r->s->bodies, r, work, user);
    work(user);
    return 1;
}
