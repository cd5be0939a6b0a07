/* Loads and unloads models, and lets requests wait for them. */
#include "tools/serve/models/inside.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/lane.h"
#include "tools/serve/os/system.h"

/* How often a request that waits looks whether its client is still there. */
static const double look_seconds = 0.1;
/* How long the thread sleeps where nothing has to be done at a certain time. */
static const double long_seconds = 3600;

/* ---- what is there; the lock is held --------------------------------------------------------- */

static int is_idle(const serve_hosted *h)
{
    return h->now == SERVE_IS_LOADED && !h->n_users && !h->is_fixed;
}

/* What a model needs, as far as that is known before it is there. */
static uint64_t needs(const serve_hosted *h)
{
    return h->n_bytes + ((h->more & 1) + (h->more >> 1)) * h->n_more;
}

static uint64_t bytes_of(serve_hosted *h)
{
    const uint64_t n = h->now == SERVE_IS_LOADED ? serve_engine_describe(h->engine).bytes : 0;
    return n > needs(h) ? n : needs(h);
}

/* Bytes beyond the limit once the next model is loaded; NULL: as it is. */
static uint64_t n_over(serve_models *ms, const serve_hosted *next)
{
    uint64_t n = next && next->now == SERVE_IS_UNLOADED ? needs(next) : 0;
    for (int32_t i = 0; i < ms->n; i++)
        if (ms->all[i].now != SERVE_IS_UNLOADED)
            n += bytes_of(&ms->all[i]);
    return ms->most_bytes && n > ms->most_bytes ? n - ms->most_bytes : 0;
}

/* The model for which a request has waited longest: it is to be loaded, or needs more memory. NULL: none. */
static serve_hosted *next_wanted(serve_models *ms)
{
    serve_hosted *best = NULL;
    for (int32_t i = 0; i < ms->n; i++) {
        serve_hosted *h = &ms->all[i];
        const int fits = h->now == SERVE_IS_UNLOADED || (h->now == SERVE_IS_LOADED && !h->closes);
        if (fits && h->first && (!best || h->first->since < best->first->since))
            best = h;
    }
    return best;
}

/* The model but the next one that was used longest ago, of those that nobody uses, or of all. */
static serve_hosted *least_recent(serve_models *ms, const serve_hosted *next, int only_idle)
{
    serve_hosted *best = NULL;
    for (int32_t i = 0; i < ms->n; i++) {
        serve_hosted *h = &ms->all[i];
        const int fits = only_idle ? is_idle(h) : h->now == SERVE_IS_LOADED && !h->closes && !h->is_fixed;
        if (fits && h != next && (!best || h->used < best->used))
            best = h;
    }
    return best;
}

/* The idle model whose time is over; else *seconds becomes less where one's time ends before. */
static serve_hosted *find_expired(serve_models *ms, double *seconds)
{
    const double now = cli_terminal_seconds();
    for (int32_t i = 0; i < ms->n && ms->idle_seconds > 0; i++) {
        serve_hosted *h = &ms->all[i];
        const double left = h->used + ms->idle_seconds - now;
        if (!is_idle(h))
            continue;
        if (left <= 0)
            return h;
        *seconds = left < *seconds ? left : *seconds;
    }
    return NULL;
}

/* ---- who waits; the lock is held ------------------------------------------------------------- */

static void add_waiter(serve_hosted *h, serve_waiter *w)
{
    serve_waiter **at = &h->first;
    while (*at)
        at = &(*at)->next;
    *at = w;
    h->n_waiting++;
}

static void remove_waiter(serve_hosted *h, const serve_waiter *w)
{
    serve_waiter **at = &h->first;
    while (*at && *at != w)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = w->next;
    h->n_waiting--;
}

/* All that wait for it may use it; or none can, with an error. */
static void end_waits(serve_models *ms, serve_hosted *h, const serve_error *error)
{
    while (h->first) {
        serve_waiter *w = h->first;
        remove_waiter(h, w);
        w->is_over = 1;
        if (error)
            w->error = *error;
        else
            h->n_users++;
    }
    h->used = cli_terminal_seconds();
    serve_condition_broadcast(&ms->changed);
}

/* From those used longest ago, models take no new requests until there is room for the next one. */
static void close_some(serve_models *ms, const serve_hosted *next)
{
    uint64_t n = next ? n_over(ms, next) : 0;
    for (int32_t i = 0; i < ms->n; i++) {
        serve_hosted *h = &ms->all[i];
        if (h->closes && n)
            n -= bytes_of(h) < n ? bytes_of(h) : n;
        else if (h->closes) {
            h->closes = 0;
            end_waits(ms, h, NULL);
        }
    }
    for (serve_hosted *h; n && (h = least_recent(ms, next, 0));) {
        h->closes = 1;
        n -= bytes_of(h) < n ? bytes_of(h) : n;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* The lock is held, but not while it works. */
static void load(serve_models *ms, serve_hosted *h)
{
    serve_error error = {.id = SERVE_OK};
    const double began = cli_terminal_seconds();
    h->now = SERVE_IS_LOADING;
    serve_lock_release(&ms->lock);
    const int ok = serve_hosted_load(h);
    const double seconds = cli_terminal_seconds() - began;
    char size[24];
    uint64_t n_bytes = 0;
    if (ok) {
        n_bytes = serve_engine_describe(h->engine).bytes;
        serve_count(&ms->s->metrics, SERVE_COUNT_LOADS, 1);
        serve_log_say(&ms->s->log, "%s is loaded: %s in %.1f s", h->card.id, cli_bytes_text(n_bytes, size),
                      seconds);
    } else {
        serve_hosted_unload(h);
        serve_log_say(&ms->s->log, "%s could not be loaded", h->card.id);
        serve_fail(&error, SERVE_E_UNAVAILABLE, NULL, "%s could not be loaded; the server's log says why",
                   h->card.id);
    }
    serve_lock_take(&ms->lock);
    h->now = ok ? SERVE_IS_LOADED : SERVE_IS_UNLOADED;
    h->n_bytes = ok && n_bytes > h->n_bytes ? n_bytes : h->n_bytes;
    end_waits(ms, h, ok ? NULL : &error);
}

static void unload(serve_models *ms, serve_hosted *h, const char *why)
{
    h->now = SERVE_IS_UNLOADING;
    h->closes = 0;
    h->more = 0;
    serve_lock_release(&ms->lock);
    serve_hosted_unload(h);
    serve_count(&ms->s->metrics, SERVE_COUNT_UNLOADS, 1);
    serve_log_say(&ms->s->log, "%s is unloaded: %s", h->card.id, why);
    serve_lock_take(&ms->lock);
    h->now = SERVE_IS_UNLOADED;
}

/* One thing that is to be done now; else *seconds says when to look again. */
static int do_next(serve_models *ms, double *seconds)
{
    serve_hosted *next = next_wanted(ms), *idle = least_recent(ms, next, 1),
                 *expired = find_expired(ms, seconds);
    close_some(ms, next);
    if (next && !n_over(ms, next) && next->now == SERVE_IS_LOADED)
        end_waits(ms, next, NULL);
    else if (next && !n_over(ms, next))
        load(ms, next);
    else if (idle && n_over(ms, next))
        unload(ms, idle, "another model needs its memory");
    else if (expired)
        unload(ms, expired, "nobody used it (--idle-unload)");
    else
        return 0;
    return 1;
}

static void run_models(void *user)
{
    serve_models *ms = user;
    serve_lock_take(&ms->lock);
    while (!ms->ends) {
        double seconds = long_seconds;
        if (!do_next(ms, &seconds) && !ms->ends)
            serve_condition_wait_seconds(&ms->work, &ms->lock, seconds);
    }
    serve_lock_release(&ms->lock);
}

int serve_models_start(serve_models *ms)
{
    serve_hosted *first = &ms->all[0];
    if (ms->n == 1) {
        const int rc = serve_engine_start(ms->s, &first->m, &first->engine);
        if (rc != CLI_GO_ON)
            return rc;
        first->now = SERVE_IS_LOADED;
        first->used = cli_terminal_seconds();
        if (first->is_fixed)
            return CLI_GO_ON;
    } else
        atomic_store(&ms->s->state, SERVE_READY);
    ms->started = serve_thread_start(&ms->thread, run_models, ms);
    return ms->started ? CLI_GO_ON : cli_fail(CLI_FAILED, "serve: no memory for a thread");
}

void serve_models_stop(serve_models *ms)
{
    if (!ms)
        return;
    serve_lock_take(&ms->lock);
    ms->ends = 1;
    serve_condition_broadcast(&ms->work);
    serve_lock_release(&ms->lock);
    if (ms->started)
        serve_thread_join(ms->thread);
    ms->started = 0;
    for (int32_t i = 0; i < ms->n; i++)
        serve_engine_stop(ms->all[i].engine);
}

/* ---- requests -------------------------------------------------------------------------------- */

static serve_hosted *find(serve_request *r, const char *name)
{
    serve_models *ms = r->s->models;
    const int32_t i = ms->n == 1 || !name || !*name ? 0 : serve_models_named(ms, name);
    if (i >= 0)
        return &ms->all[i];
    serve_fail(&r->error, SERVE_E_MODEL, "model",
               "model: '%.100s' is not here; this server has '%s' and %d more (/v1/models)", name,
               ms->all[0].card.id, (int)ms->n - 1);
    return NULL;
}

/* Whether a request goes on waiting; while its model is loaded, --queue-timeout does not count. */
static int stays(serve_request *r, serve_waiter *w, int is_loading, serve_error *why)
{
    w->began = is_loading ? cli_terminal_seconds() : w->began;
    return serve_may_wait(r, w->began, "for its model", why);
}

static int wait_for(serve_models *ms, serve_hosted *h, serve_request *r, serve_waiter *w)
{
    add_waiter(h, w);
    serve_condition_signal(&ms->work);
    while (!w->is_over) {
        serve_condition_wait_seconds(&ms->changed, &ms->lock, look_seconds);
        const int is_loading = h->now == SERVE_IS_LOADING;
        if (w->is_over)
            break;
        serve_lock_release(&ms->lock); /* a look at the client takes a while */
        serve_error why = {.id = SERVE_OK};
        const int ok = stays(r, w, is_loading, &why);
        serve_lock_take(&ms->lock);
        if (ok || w->is_over) /* it got the model meanwhile, and gives it back as any request */
            continue;
        remove_waiter(h, w);
        serve_condition_signal(&ms->work);
        serve_wait_ends(r, &why);
        return 0;
    }
    r->error = w->error;
    return !w->error.id;
}

void serve_models_begin(serve_request *r)
{
    serve_hosted *first = &r->s->models->all[0];
    if (!first->is_fixed)
        return;
    r->m = &first->m;
    r->engine = first->engine;
}

/* What a request needs beside what is always there. */
static uint32_t more_of(const serve_request *r)
{
    return r->endpoint->answer == serve_answer_embeddings ? 1
           : r->endpoint->answer == serve_answer_rerank   ? 2
                                                          : 0;
}

/* Notes that a model needs more memory from now on; 0: it would be more than all. */
static int add_more(serve_models *ms, serve_hosted *h, serve_request *r)
{
    const uint32_t before = h->more;
    char size[24], most[24];
    h->more |= more_of(r);
    if (!ms->most_bytes || needs(h) <= ms->most_bytes)
        return 1;
    const uint64_t n = needs(h);
    h->more = before;
    return serve_fail(&r->error, SERVE_E_UNSUPPORTED, "model",
                      "%s needs %s to do this, too, and the server has %s for models (--memory)", h->card.id,
                      cli_bytes_text(n, size), cli_bytes_text(ms->most_bytes, most));
}

int serve_models_take(serve_request *r, const char *name)
{
    serve_models *ms = r->s->models;
    if (r->m)
        return 1;
    serve_hosted *h = find(r, name);
    if (!h)
        return 0;
    serve_lock_take(&ms->lock);
    const double now = cli_terminal_seconds();
    serve_waiter w = {.since = now, .began = now};
    int ok = add_more(ms, h, r);
    if (ok && h->now == SERVE_IS_LOADED && !h->closes && !(more_of(r) && n_over(ms, NULL)))
        h->n_users++;
    else if (ok && h->n_waiting > r->s->o.max_queue) {
        r->error.retry_after = 1;
        ok = serve_fail(&r->error, SERVE_E_QUEUE, NULL, "the queue is full: %d requests wait for %s",
                        (int)h->n_waiting, h->card.id);
    } else if (ok)
        ok = wait_for(ms, h, r, &w);
    if (ok) {
        h->used = cli_terminal_seconds();
        r->hosted = h;
        r->m = &h->m;
        r->engine = h->engine;
    }
    serve_lock_release(&ms->lock);
    return ok;
}

void serve_models_give(serve_request *r)
{
    serve_models *ms = r->s->models;
    serve_hosted *h = r->hosted;
    if (!h)
        return;
    serve_lock_take(&ms->lock);
    h->used = cli_terminal_seconds();
    if (--h->n_users == 0)
        serve_condition_signal(&ms->work);
    serve_lock_release(&ms->lock);
    r->hosted = NULL;
    r->m = NULL;
    r->engine = NULL;
}

/* ---- what others ask ------------------------------------------------------------------------- */

int32_t serve_models_count(const serve_models *ms)
{
    return ms->n;
}

const char *serve_presence_text(serve_presence now)
{
    return now == SERVE_IS_LOADED ? "loaded" : now == SERVE_IS_LOADING ? "loading" : "unloaded";
}

serve_card serve_models_card(serve_models *ms, int32_t i)
{
    serve_lock_take(&ms->lock);
    serve_card card = ms->all[i].card;
    card.now = ms->all[i].now;
    if (card.now == SERVE_IS_LOADED && atomic_load(&ms->s->state) == SERVE_LOADING)
        card.now = SERVE_IS_LOADING;
    serve_lock_release(&ms->lock);
    return card;
}

/* Ollama's programs write NAME:latest. */
int32_t serve_models_named(const serve_models *ms, const char *name)
{
    for (int32_t i = 0; i < ms->n; i++)
        if (serve_is_name(name, ms->all[i].card.id))
            return i;
    return -1;
}

const serve_model *serve_models_only(const serve_models *ms)
{
    return ms->n == 1 ? &ms->all[0].m : NULL;
}

serve_engine_stats serve_models_describe(serve_models *ms, int32_t i)
{
    serve_engine_stats s = {.n_running = 0};
    serve_lock_take(&ms->lock);
    if (ms->all[i].now == SERVE_IS_LOADED)
        s = serve_engine_describe(ms->all[i].engine);
    serve_lock_release(&ms->lock);
    return s;
}

int32_t serve_models_slots(serve_models *ms, int32_t i, serve_slot *out, int32_t room)
{
    int32_t n = 0;
    serve_lock_take(&ms->lock);
    if (ms->all[i].now == SERVE_IS_LOADED)
        n = serve_engine_slots(ms->all[i].engine, out, room);
    serve_lock_release(&ms->lock);
    return n;
}

int32_t serve_models_n_waiting(serve_models *ms)
{
    int32_t n = 0;
    serve_lock_take(&ms->lock);
    for (int32_t i = 0; i < ms->n; i++)
        n += ms->all[i].n_waiting;
    serve_lock_release(&ms->lock);
    return n;
}

int serve_models_failed(serve_models *ms)
{
    if (ms->n != 1)
        return 0;
    serve_lock_take(&ms->lock);
    const int failed = ms->all[0].now == SERVE_IS_LOADED && serve_engine_failed(ms->all[0].engine);
    serve_lock_release(&ms->lock);
    return failed;
}

/* On several ranks there is one model. No lock: its thread may be in a call that never returns. */
void serve_models_give_up(serve_models *ms)
{
    if (ms->n == 1 && ms->all[0].engine)
        serve_engine_give_up(ms->all[0].engine);
}

void serve_models_fail_all(serve_models *ms, const char *why)
{
    serve_lock_take(&ms->lock);
    for (int32_t i = 0; i < ms->n; i++)
        if (ms->all[i].now == SERVE_IS_LOADED)
            serve_engine_fail_all(ms->all[i].engine, why);
    serve_lock_release(&ms->lock);
}
