/* The engine's thread. */
#include "tools/serve/engine_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"

/* Embeddings yield to each other after so many tokens, and to texts; a step that fails is tried so often. */
enum { EMBED_TOKENS = 1024, EMBED_TOKENS_BESIDE = 256, MOST_TRIES = 2 };
static const double reopen_seconds = 2;
/* How often a thread that waits for the engine looks whether the server has given up. */
static const double look_seconds = 0.1;

/* ---- groups ---------------------------------------------------------------------------------- */

void serve_group_init(serve_group *g)
{
    *g = (serve_group){.submitted = 0};
    serve_lock_init(&g->lock);
    serve_condition_init(&g->changed);
}

void serve_group_finish(serve_group *g)
{
    serve_lock_finish(&g->lock);
    serve_condition_finish(&g->changed);
}

void serve_group_wait(serve_group *g, uint64_t seen, double seconds)
{
    if (g->n_changes == seen)
        serve_condition_wait_seconds(&g->changed, &g->lock, seconds);
}

static void tell(serve_group *g)
{
    g->n_changes++;
    serve_condition_broadcast(&g->changed);
}

/* Tells, and releases the group's lock. A thread that wakes finds the lock free. For groups with runs that go
 * on: a group whose last run is done may be gone once its lock is free. */
static void tell_and_unlock(serve_group *g)
{
    g->n_changes++;
    serve_lock_release(&g->lock);
    serve_condition_broadcast(&g->changed);
}

/* ---- ends of runs ---------------------------------------------------------------------------- */

/* The engine touches the run no more once it is done. A client that learns of the end is no longer counted as
 * running. */
static void finish_run(serve_engine *e, serve_run *r, clef_finish finish, const serve_error *error)
{
    serve_group *g = r->group;
    serve_engine_publish(e);
    serve_lock_take(&g->lock);
    r->state = SERVE_RUN_DONE;
    r->finish = finish;
    if (error)
        r->error = *error;
    tell(g);
    serve_lock_release(&g->lock);
}

static void finish_embedding(serve_embedding *w, const serve_error *error)
{
    serve_group *g = w->group;
    serve_lock_take(&g->lock);
    w->state = SERVE_RUN_DONE;
    if (error)
        w->error = *error;
    tell(g);
    serve_lock_release(&g->lock);
}

static serve_error error_of(serve_error_id id, const char *text)
{
    serve_error e = {.id = SERVE_OK};
    serve_fail(&e, id, NULL, "%s", text);
    return e;
}

static void drop_active(serve_engine *e, int32_t i)
{
    if (e->batch)
        clef_batch_cancel(e->batch, e->active[i]->sequence, NULL); /* it may have ended already */
    e->active[i] = e->active[--e->n_active];
}

/* Takes a run out of the queue, and from the batch if it was begun. The engine's lock is held. */
static void drop_waiting(serve_engine *e, serve_run *r)
{
    if (r->is_paused && e->batch)
        clef_batch_cancel(e->batch, r->sequence, NULL);
    serve_queue_remove(&e->queue, r);
}

/* The first run in the queue that was begun, or was cancelled. */
typedef enum waiting_kind { WAITING_PAUSED, WAITING_CANCELLED, WAITING_ANY } waiting_kind;
static serve_run *find_waiting(const serve_engine *e, waiting_kind kind)
{
    for (serve_group *g = e->queue.first; g; g = g->next)
        for (serve_run *r = g->first; r; r = r->next)
            if (kind == WAITING_ANY || (kind == WAITING_PAUSED ? r->is_paused : atomic_load(&r->cancelled)))
                return r;
    return NULL;
}

/* Ends the runs of a kind that are in the queue. */
static void finish_waiting(serve_engine *e, waiting_kind kind, const serve_error *error)
{
    for (;;) {
        serve_lock_take(&e->lock);
        serve_run *r = find_waiting(e, kind);
        if (r)
            drop_waiting(e, r);
        serve_lock_release(&e->lock);
        if (!r)
            return;
        finish_run(e, r, CLEF_FINISH_NONE, error);
    }
}

/* Ends all that the batch has. */
static void fail_active(serve_engine *e, const serve_error *error)
{
    while (e->n_active) {
        serve_run *r = e->active[e->n_active - 1];
        drop_active(e, e->n_active - 1);
        finish_run(e, r, CLEF_FINISH_NONE, error);
    }
    finish_waiting(e, WAITING_PAUSED, error);
}

static void fail_queue(serve_engine *e, const serve_error *error)
{
    finish_waiting(e, WAITING_ANY, error);
    for (;;) {
        serve_lock_take(&e->lock);
        serve_embedding *w = e->embeddings;
        if (w)
            e->embeddings = w->next;
        serve_lock_release(&e->lock);
        if (!w)
            return;
        finish_embedding(w, error);
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Makes a run active, in the first place that is free. */
static void add_active(serve_engine *e, serve_run *r)
{
    r->slot = 0;
    for (int32_t i = 0; i < e->n_active; i++)
        if (e->active[i]->slot == r->slot) {
            r->slot++;
            i = -1; /* from the first one again */
        }
    e->active[e->n_active++] = r;
}

/* Adds a run to the batch. Its pictures are seen first, between two steps. */
static clef_status add_run(serve_engine *e, serve_run *r, clef_error *err)
{
    clef_request request = r->request;
    clef_seen seen;
    if (!e->batch)
        return cli_error(err, CLEF_E_DEVICE, "the device was lost, and is not yet back");
    if (!r->pictures)
        return clef_batch_add(e->batch, &request, &r->sequence, err);
    clef_status s =
        e->sight ? CLEF_OK : clef_sight_create(e->device, e->m->model, &e->s->o.compile, &e->sight, err);
    if (!s)
        s = clef_sight_see(e->sight, request.ids, request.n, r->pictures->views, r->pictures->n, &seen, err);
    if (s)
        return s;
    request.pictures = seen.pictures;
    request.n_pictures = seen.n_pictures;
    s = clef_batch_add(e->batch, &request, &r->sequence, err);
    clef_seen_finish(&seen);
    return s;
}

static void begin_run(serve_engine *e, serve_run *r)
{
    clef_error err = {0};
    const double now = cli_terminal_seconds();
    const clef_status status = add_run(e, r, &err);
    if (status) {
        serve_error error = {.id = SERVE_OK};
        serve_fail_status(&error, &err, status == CLEF_E_LIMIT ? SERVE_E_CONTEXT : SERVE_E_INVALID_VALUE,
                          NULL);
        error.n_prompt = r->request.n;
        error.n_ctx = e->m->n_context;
        error.max_tokens = r->request.n_max;
        finish_run(e, r, CLEF_FINISH_NONE, &error);
        return;
    }
    add_active(e, r);
    serve_observe(&e->s->metrics, SERVE_TIME_QUEUE, now - r->group->submitted);
    serve_lock_take(&r->group->lock);
    r->state = SERVE_RUN_RUNNING;
    r->began = now;
    r->place = r->slot;
    tell_and_unlock(r->group);
}

/* Goes on with a run that was paused. */
static void resume_run(serve_engine *e, serve_run *r)
{
    r->is_paused = 0;
    r->n_before = r->n_tokens;
    clef_batch_resume(e->batch, r->sequence, NULL);
    add_active(e, r);
}

static void pause_run(serve_engine *e, int32_t i)
{
    serve_run *r = e->active[i];
    clef_batch_pause(e->batch, r->sequence, NULL);
    e->active[i] = e->active[--e->n_active];
    r->is_paused = 1;
    serve_lock_take(&e->lock);
    serve_queue_put_back(&e->queue, r);
    serve_lock_release(&e->lock);
}

/* Begins runs while there is a place for the next one, or one is made. */
static void begin_runs(serve_engine *e)
{
    for (;;) {
        serve_lock_take(&e->lock);
        serve_run *r = serve_queue_next(&e->queue, e->active, e->n_active);
        const int32_t victim =
            r && e->n_active == e->max_seqs ? serve_queue_victim(r, e->active, e->n_active) : -1;
        if (r && (e->n_active < e->max_seqs || victim >= 0))
            serve_queue_remove(&e->queue, r);
        else
            r = NULL;
        serve_lock_release(&e->lock);
        if (!r)
            return;
        if (victim >= 0)
            pause_run(e, victim);
        if (r->is_paused)
            resume_run(e, r);
        else
            begin_run(e, r);
    }
}

/* Clients that left: out of the queue, wherever they are in it. */
static void drop_cancelled(serve_engine *e)
{
    for (int32_t i = e->n_active - 1; i >= 0; i--)
        if (atomic_load(&e->active[i]->cancelled)) {
            serve_run *r = e->active[i];
            drop_active(e, i);
            finish_run(e, r, CLEF_FINISH_NONE, NULL);
        }
    finish_waiting(e, WAITING_CANCELLED, NULL);
}

static void take_token(serve_engine *e, const clef_batch_token *t, double now)
{
    int32_t i = 0;
    while (i < e->n_active && e->active[i]->sequence != t->sequence)
        i++;
    if (i == e->n_active)
        return;
    serve_run *r = e->active[i];
    const int is_text = t->finish == CLEF_FINISH_NONE || t->finish == CLEF_FINISH_LENGTH;
    if (r->last > 0)
        serve_observe(&e->s->metrics, SERVE_TIME_ITL, now - r->last);
    else {
        serve_observe(&e->s->metrics, SERVE_TIME_PREFILL, now - r->began);
        serve_observe(&e->s->metrics, SERVE_TIME_TTFT, now - r->group->submitted);
    }
    serve_lock_take(&r->group->lock);
    r->first = r->first > 0 ? r->first : now;
    r->last = now;
    r->n_prompt = t->n_prompt;
    r->n_cached = t->n_cached;
    r->n_drafted = t->n_drafted;
    r->n_accepted = t->n_accepted;
    if (is_text && r->n_tokens < r->capacity) {
        for (int32_t k = 0; k < r->request.n_top; k++)
            r->tops[(size_t)r->n_tokens * (size_t)r->request.n_top + (size_t)k] =
                k < t->n_top ? t->top[k] : (clef_token_logprob){-1, 0};
        r->tokens[r->n_tokens++] = (serve_token){t->id, t->logprob};
    }
    tell_and_unlock(r->group);
    serve_count_to(&e->s->metrics, SERVE_COUNT_LONGEST, (uint64_t)(r->n_prompt + r->n_tokens));
    if (!t->finish)
        return;
    e->active[i] = e->active[--e->n_active];
    finish_run(e, r, t->finish, NULL);
}

static void note_step(serve_engine *e, int32_t n_rows)
{
    serve_metrics *m = &e->s->metrics;
    const clef_batch_stats now = clef_batch_describe(e->batch), *was = &e->before;
    serve_observe(m, SERVE_TIME_STEP_ROWS, n_rows);
    serve_count(m, SERVE_COUNT_STEPS, (uint64_t)(now.n_steps - was->n_steps));
    serve_count(m, SERVE_COUNT_STEP_TEXTS, (uint64_t)((now.n_steps - was->n_steps) * e->n_active));
    serve_count(m, SERVE_COUNT_DRAFTS, now.n_drafted > was->n_drafted);
    serve_count(m, SERVE_COUNT_PREEMPTIONS, (uint64_t)(now.n_preemptions - was->n_preemptions));
    serve_count(m, SERVE_COUNT_DRAFTED, (uint64_t)(now.n_drafted - was->n_drafted));
    serve_count(m, SERVE_COUNT_ACCEPTED, (uint64_t)(now.n_accepted - was->n_accepted));
    if (now.n_masks > was->n_masks)
        serve_observe(m, SERVE_TIME_MASK,
                      (now.mask_seconds - was->mask_seconds) / (double)(now.n_masks - was->n_masks));
    e->before = now;
    for (int32_t i = 0; i < e->n_active; i++) {
        serve_run *r = e->active[i];
        int32_t n_past, n_cached;
        if (r->last > 0 || clef_batch_find(e->batch, r->sequence, &n_past, &n_cached) < 0)
            continue;
        serve_lock_take(&r->group->lock);
        r->n_past = n_past;
        r->n_cached = n_cached;
        tell_and_unlock(r->group);
    }
}

/* A step failed. It is tried again; then what ran is given up, and the batch is made anew. */
static void after_failure(serve_engine *e, const clef_error *err)
{
    if (++e->n_failures < MOST_TRIES)
        return;
    char text[700];
    snprintf(text, sizeof text, "the device failed: %.600s", err->text);
    serve_log_say(&e->s->log, "%s", text);
    const serve_error error = error_of(SERVE_E_UNAVAILABLE, text);
    serve_lock_take(&e->lock);
    e->stats.is_lost = 1; /* before the clients know, who may ask for the server's health */
    serve_lock_release(&e->lock);
    fail_active(e, &error);
    serve_engine_close(e);
    e->n_failures = 0;
    e->tried = cli_terminal_seconds();
}

static void reopen(serve_engine *e)
{
    clef_error err = {0};
    const double now = cli_terminal_seconds();
    if (e->device || now < e->tried + reopen_seconds)
        return;
    e->tried = now;
    if (serve_engine_open(e, &err) == CLEF_OK) {
        serve_engine_publish_all(e);
        serve_log_say(&e->s->log, "the device is back");
    } else {
        serve_log_say(&e->s->log, "the device is not back: %s", err.text);
        serve_engine_close(e);
    }
}

static void run_step(serve_engine *e)
{
    enum { N_TOKENS = 32 };
    clef_batch_token tokens[N_TOKENS];
    clef_error err = {0};
    int32_t n_rows = 0, n;
    if (!e->n_active)
        return;
    if (clef_batch_step(e->batch, &n_rows, &err) != CLEF_OK) {
        after_failure(e, &err);
        return;
    }
    e->n_failures = 0;
    const double now = cli_terminal_seconds();
    note_step(e, n_rows);
    while ((n = clef_batch_take(e->batch, tokens, N_TOKENS)) > 0)
        for (int32_t i = 0; i < n; i++)
            take_token(e, &tokens[i], now);
    if (!n_rows && e->n_active) {
        const serve_error error = error_of(SERVE_E_INTERNAL, "the batch has sequences, and none can run");
        fail_active(e, &error);
    }
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* The embedding that is next: of another client than the last one, if there is one. The engine's lock is
 * held. */
static serve_embedding **next_embedding(serve_engine *e)
{
    serve_embedding **at = &e->embeddings;
    while (*at && (*at)->group->client == e->last_client)
        at = &(*at)->next;
    return *at ? at : &e->embeddings;
}

static clef_status compute_tokens(serve_engine *e, const serve_embedding *w, int32_t i, clef_error *err)
{
    serve_token_rows *rows = &w->tokens[i];
    const size_t n = (size_t)w->n_ids[i];
    clef_status status = w->are_weights ? CLEF_OK : clef_embed_multi_dims(e->embedder, &rows->n_dims, err);
    if (status != CLEF_OK)
        return status;
    if (w->are_weights)
        rows->weights = malloc(n * sizeof *rows->weights);
    else
        rows->vectors = malloc(n * (size_t)rows->n_dims * sizeof *rows->vectors);
    if (!rows->weights && !rows->vectors)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    rows->n = w->n_ids[i] - 1;
    return w->are_weights
               ? clef_embed_sparse(e->embedder, w->ids[i], w->n_ids[i], rows->weights, &rows->n, err)
               : clef_embed_multi(e->embedder, w->ids[i], w->n_ids[i], rows->vectors, err);
}

static clef_status compute_rows(serve_engine *e, const serve_embedding *w, int32_t first, int32_t n,
                                clef_error *err)
{
    if (w->types)
        return clef_rank_ids(e->ranker, w->ids + first, w->types + first, w->n_ids + first, n, w->out + first,
                             err);
    clef_status status = CLEF_OK;
    for (int32_t i = first; w->tokens && i < first + n && status == CLEF_OK; i++)
        status = compute_tokens(e, w, i, err);
    if (w->tokens)
        return status;
    const size_t d = (size_t)clef_embedder_describe(e->embedder).n_dims;
    return clef_embed_ids(e->embedder, w->ids + first, w->n_ids + first, n, w->out + (size_t)first * d, err);
}

/* Computes a part of one request for embeddings, which then goes behind the others. */
static void run_embeddings(serve_engine *e)
{
    clef_error err = {0};
    const int64_t most = e->n_active ? EMBED_TOKENS_BESIDE : EMBED_TOKENS;
    serve_lock_take(&e->lock);
    serve_embedding **at = next_embedding(e), *w = *at;
    if (w)
        *at = w->next;
    e->current = w;
    serve_lock_release(&e->lock);
    if (!w)
        return;
    e->last_client = w->group->client;
    int64_t n_tokens = 0;
    int32_t end = w->n_done + (w->hearing != NULL);
    while (!w->hearing && end < w->n && (end == w->n_done || n_tokens + w->n_ids[end] <= most))
        n_tokens += w->n_ids[end++];
    serve_error error = {.id = SERVE_OK};
    if (w->hearing ? !e->transcriber : w->types ? !e->ranker : !e->embedder)
        serve_fail(&error, SERVE_E_UNAVAILABLE, NULL, "the device was lost, and is not yet back");
    else if (w->hearing && !atomic_load(&w->cancelled)) {
        serve_engine_hear(e, w, &error);
        w->n_done = end;
    } else if (!atomic_load(&w->cancelled)) {
        const clef_status s = compute_rows(e, w, w->n_done, end - w->n_done, &err);
        if (s)
            serve_fail_status(&error, &err, s == CLEF_E_LIMIT ? SERVE_E_CONTEXT : SERVE_E_INVALID_VALUE,
                              w->types ? "documents" : "input");
        cli_progress_finish(&e->progress);
        serve_engine_count_bytes(e); /* it may have made a larger plan */
        w->n_done = end;
    }
    const int ended = error.id || atomic_load(&w->cancelled) || w->n_done == w->n;
    serve_lock_take(&e->lock);
    e->current = NULL;
    for (at = &e->embeddings; *at && !ended;)
        at = &(*at)->next;
    if (!ended) {
        w->next = NULL;
        *at = w;
    }
    serve_lock_release(&e->lock);
    if (ended)
        finish_embedding(w, error.id ? &error : NULL);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int has_work(const serve_engine *e)
{
    return e->ends || e->fail_all || e->n_active || e->queue.first || e->embeddings;
}

/* Waits for work, or until a lost device may be back: while it is lost, a balancer sends no work. Returns 0
 * when the engine is to end. */
static int wait_for_work(serve_engine *e)
{
    serve_lock_take(&e->lock);
    while (e->device && !has_work(e))
        serve_condition_wait(&e->work, &e->lock);
    if (!has_work(e))
        serve_condition_wait_seconds(&e->work, &e->lock, reopen_seconds);
    const int goes_on = !e->ends;
    const char *why = e->fail_all;
    e->fail_all = NULL;
    serve_lock_release(&e->lock);
    if (why) {
        const serve_error error = error_of(SERVE_E_UNAVAILABLE, why);
        fail_active(e, &error);
        fail_queue(e, &error);
    }
    return goes_on;
}

static void run_engine(void *user)
{
    serve_engine *e = user;
    int ready = serve_engine_load(e), expected = SERVE_LOADING;
    serve_lock_take(&e->lock);
    e->is_ready = ready;
    e->failed = !ready;
    serve_condition_broadcast(&e->loaded);
    serve_lock_release(&e->lock);
    if (ready)
        atomic_compare_exchange_strong(&e->s->state, &expected, SERVE_READY);
    while (ready && wait_for_work(e)) {
        reopen(e);
        drop_cancelled(e);
        begin_runs(e);
        run_step(e);
        run_embeddings(e);
        serve_engine_publish(e);
    }
    const serve_error error = error_of(SERVE_E_UNAVAILABLE, "the server ends");
    fail_active(e, &error);
    fail_queue(e, &error);
    serve_engine_close(e);
}

int serve_engine_start(serve_server *server, const serve_model *m, serve_engine **out)
{
    serve_engine *e = *out = calloc(1, sizeof *e);
    if (!e)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    e->s = server;
    e->m = m;
    e->max_seqs = server->o.max_seqs;
    e->active = calloc((size_t)e->max_seqs, sizeof(serve_run *));
    e->slots = calloc((size_t)e->max_seqs, sizeof *e->slots);
    serve_lock_init(&e->lock);
    serve_condition_init(&e->work);
    serve_condition_init(&e->loaded);
    for (int32_t i = 0; i < e->max_seqs && e->slots; i++)
        e->slots[i].sequence = -1;
    if (!e->active || !e->slots || !serve_thread_start(&e->thread, run_engine, e))
        return cli_fail(CLI_FAILED, "serve: no memory for a thread");
    e->started = 1;
    return CLI_GO_ON;
}

void serve_engine_stop(serve_engine *e)
{
    if (!e)
        return;
    serve_lock_take(&e->lock);
    e->ends = 1;
    serve_condition_signal(&e->work);
    serve_lock_release(&e->lock);
    if (e->started)
        serve_thread_join(e->thread);
    e->started = 0;
}

void serve_engine_destroy(serve_engine *e)
{
    if (!e)
        return;
    serve_lock_finish(&e->lock);
    serve_condition_finish(&e->work);
    serve_condition_finish(&e->loaded);
    free(e->active);
    free(e->slots);
    free(e);
}

int serve_engine_failed(serve_engine *e)
{
    serve_lock_take(&e->lock);
    const int failed = e->failed;
    serve_lock_release(&e->lock);
    return failed;
}

int serve_engine_wait(serve_engine *e)
{
    serve_lock_take(&e->lock);
    while (!e->is_ready && !e->failed)
        serve_condition_wait(&e->loaded, &e->lock);
    const int is_ready = e->is_ready;
    serve_lock_release(&e->lock);
    return is_ready;
}

void serve_engine_fail_all(serve_engine *e, const char *why)
{
    serve_lock_take(&e->lock);
    e->fail_all = why;
    serve_condition_signal(&e->work);
    serve_lock_release(&e->lock);
}

/* ---- other threads --------------------------------------------------------------------------- */

/* Seconds until a place in the queue is free, about. */
static int32_t estimate(const serve_engine *e)
{
    const double mean = e->stats.mean_seconds > 0 ? e->stats.mean_seconds : 1,
                 seconds = mean * (1 + (double)e->queue.n_waiting / e->max_seqs);
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (int32_t)seconds;
}

/* Requests that may wait, with those for which there is a free sequence. */
static int32_t most_waiting(const serve_engine *e)
{
    const int32_t n_free = e->max_seqs - e->stats.n_running;
    return e->s->o.max_queue + (n_free > 0 ? n_free : 0);
}

uint64_t serve_client_of(const serve_request *r)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *p = r->peer; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return r->tenant ? r->tenant : hash;
}

int serve_engine_submit(serve_engine *e, serve_group *g, serve_run *runs, int32_t n, serve_error *error)
{
    int ok = 1;
    g->submitted = cli_terminal_seconds();
    serve_lock_take(&e->lock);
    if (e->ends || e->failed || atomic_load(&e->s->state) != SERVE_READY)
        ok = serve_fail(error, SERVE_E_UNAVAILABLE, NULL, "the server is about to end");
    else if (e->queue.n_waiting >= most_waiting(e)) {
        ok = serve_fail(error, SERVE_E_QUEUE, NULL, "the queue is full: %d requests wait",
                        (int)e->queue.n_waiting);
        error->retry_after = estimate(e);
    }
    g->is_waiting = ok;
    for (int32_t i = 0; ok && i < n; i++) {
        serve_run *r = &runs[i];
        if (r->state == SERVE_RUN_DONE) /* nothing of it is computed */
            continue;
        r->group = g;
        serve_queue_add(&e->queue, r);
    }
    if (ok)
        serve_condition_signal(&e->work);
    serve_lock_release(&e->lock);
    return ok;
}

int serve_engine_embed(serve_engine *e, serve_embedding *w, serve_error *error)
{
    int ok = 1;
    int32_t n = 0;
    w->group->submitted = cli_terminal_seconds();
    serve_lock_take(&e->lock);
    serve_embedding **at = &e->embeddings;
    for (; *at; n++)
        at = &(*at)->next;
    if (e->ends || e->failed || atomic_load(&e->s->state) != SERVE_READY)
        ok = serve_fail(error, SERVE_E_UNAVAILABLE, NULL, "the server is about to end");
    else if (n > e->s->o.max_queue) {
        ok = serve_fail(error, SERVE_E_QUEUE, NULL, "the queue is full: %d requests wait", (int)n);
        error->retry_after = estimate(e);
    } else {
        w->next = NULL;
        *at = w;
        serve_condition_signal(&e->work);
    }
    serve_lock_release(&e->lock);
    return ok;
}

void serve_engine_give_up(serve_engine *e)
{
    atomic_store(&e->given_up, 1);
}

int serve_engine_gave_up(const serve_engine *e, serve_error *error)
{
    if (!atomic_load(&e->given_up))
        return 0;
    serve_fail(error, SERVE_E_UNAVAILABLE, NULL, "the server ends: one of its ranks has ended or is lost");
    return 1;
}

static int wait_until_done(const serve_engine *e, serve_group *g, const serve_run_state *state)
{
    serve_lock_take(&g->lock);
    while (*state != SERVE_RUN_DONE && !atomic_load(&e->given_up))
        serve_condition_wait_seconds(&g->changed, &g->lock, look_seconds);
    const int done = *state == SERVE_RUN_DONE;
    serve_lock_release(&g->lock);
    return done;
}

int serve_run_cancel(serve_engine *e, serve_run *run)
{
    atomic_store(&run->cancelled, 1);
    return wait_until_done(e, run->group, &run->state);
}

int serve_embedding_cancel(serve_engine *e, serve_embedding *w)
{
    atomic_store(&w->cancelled, 1);
    serve_lock_take(&e->lock); /* what only waits its turn ends at once */
    serve_embedding **at = &e->embeddings;
    while (*at && *at != w)
        at = &(*at)->next;
    const int waits = *at != NULL;
    if (waits)
        *at = w->next;
    serve_lock_release(&e->lock);
    if (waits)
        finish_embedding(w, NULL);
    return wait_until_done(e, w->group, &w->state);
}

int32_t serve_engine_slots(serve_engine *e, serve_slot *out, int32_t room)
{
    serve_lock_take(&e->lock);
    for (int32_t i = 0; i < e->max_seqs && i < room; i++)
        out[i] = e->slots[i];
    serve_lock_release(&e->lock);
    return e->max_seqs;
}

serve_engine_stats serve_engine_describe(serve_engine *e)
{
    serve_lock_take(&e->lock);
    serve_engine_stats s = e->stats;
    s.n_waiting = e->queue.n_waiting;
    s.n_running += e->current != NULL;
    for (const serve_embedding *w = e->embeddings; w; w = w->next)
        s.n_running++;
    serve_lock_release(&e->lock);
    return s;
}

void serve_engine_note(serve_engine *e, double seconds)
{
    serve_lock_take(&e->lock);
    e->stats.mean_seconds = e->stats.mean_seconds > 0 ? 0.9 * e->stats.mean_seconds + 0.1 * seconds : seconds;
    serve_lock_release(&e->lock);
}
