#include "tools/serve/rows.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"

static const double look_seconds = 0.1;

int serve_rows_no_memory(serve_request *r)
{
    return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

int serve_rows_bad(serve_request *r, const char *path, const json_t *value, const char *wanted)
{
    return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected %s, got %s", path, wanted,
                      serve_kind_of(value));
}

serve_rows *serve_rows_new(serve_request *r)
{
    serve_rows *w = calloc(1, sizeof *w);
    if (!w) {
        serve_rows_no_memory(r);
        return NULL;
    }
    w->r = r;
    serve_group_init(&w->group);
    w->group.client = serve_client_of(r);
    return w;
}

int serve_rows_room(serve_rows *w, size_t n)
{
    w->ids = calloc(n, sizeof(int32_t *));
    w->types = calloc(n, sizeof(int32_t *));
    w->n_ids = calloc(n, sizeof *w->n_ids);
    w->order = calloc(n, sizeof *w->order);
    w->sorted = calloc(n, sizeof(int32_t *));
    w->sorted_types = calloc(n, sizeof(int32_t *));
    w->n_sorted = calloc(n, sizeof *w->n_sorted);
    if (!w->ids || !w->types || !w->n_ids || !w->order || !w->sorted || !w->sorted_types || !w->n_sorted)
        return serve_rows_no_memory(w->r);
    w->n = (int32_t)n;
    return 1;
}

int serve_rows_check(serve_rows *w, int32_t i, const char *path)
{
    serve_error *e = &w->r->error;
    w->n_tokens += w->n_ids[i];
    if (w->n_ids[i] < 1)
        return serve_fail(e, SERVE_E_INVALID_VALUE, path, "%s: it has no tokens", path);
    if (w->n_ids[i] <= w->max_tokens)
        return 1;
    e->n_prompt = w->n_ids[i];
    e->n_ctx = w->max_tokens;
    e->max_tokens = -1;
    return serve_fail(
        e, SERVE_E_CONTEXT, path,
        "This model's maximum context length is %d tokens. However, your %s resulted in %d tokens. "
        "Please reduce the length of the input, which is too large.",
        (int)w->max_tokens, path, (int)w->n_ids[i]);
}

/* ---- running --------------------------------------------------------------------------------- */

static void sort_by_length(serve_rows *w)
{
    /* counted by length: lengths are at most max_tokens */
    int32_t *first = calloc((size_t)w->max_tokens + 2, sizeof *first);
    for (int32_t i = 0; i < w->n; i++)
        w->order[i] = i;
    if (first) {
        for (int32_t i = 0; i < w->n; i++)
            first[w->n_ids[i] + 1]++;
        for (int32_t k = 1; k <= w->max_tokens + 1; k++)
            first[k] += first[k - 1];
        for (int32_t i = 0; i < w->n; i++)
            w->order[first[w->n_ids[i]]++] = i;
    }
    free(first);
    for (int32_t k = 0; k < w->n; k++) {
        w->sorted[k] = w->ids[w->order[k]];
        w->sorted_types[k] = w->types[w->order[k]];
        w->n_sorted[k] = w->n_ids[w->order[k]];
    }
}

/* Ends a request under way. */
static int give_up(serve_request *r, serve_embedding *work, int reason, int32_t *is_held)
{
    serve_count_label(&r->s->metrics, SERVE_LABEL_CANCELLED, reason);
    *is_held = !serve_embedding_cancel(r->engine, work);
    return 0;
}

int serve_rows_wait(serve_request *r, serve_embedding *work, uint64_t *seen, int32_t *is_held)
{
    serve_group *g = work->group;
    serve_lock_take(&g->lock);
    if (work->state != SERVE_RUN_DONE)
        serve_group_wait(g, *seen, look_seconds);
    *seen = g->n_changes;
    const int done = work->state == SERVE_RUN_DONE;
    serve_lock_release(&g->lock);
    if (done)
        return SERVE_ROWS_DONE;
    if (serve_engine_gave_up(r->engine, &r->error)) {
        *is_held = !serve_embedding_cancel(r->engine, work);
        return 0;
    }
    if (serve_client_gone(r)) {
        const int slow = serve_client_slow(r);
        r->gone = 1;
        serve_fail(&r->error, SERVE_E_GONE, NULL,
                   slow ? "the client reads too slowly" : "the client has gone");
        return give_up(r, work, slow ? SERVE_CANCELLED_SLOW : SERVE_CANCELLED_DISCONNECT, is_held);
    }
    if (cli_terminal_seconds() - r->began <= (double)r->s->o.request_timeout)
        return SERVE_ROWS_GO_ON;
    serve_fail(&r->error, SERVE_E_TIMEOUT, NULL, "the request took more than %.0f s (--request-timeout)",
               (double)r->s->o.request_timeout);
    return give_up(r, work, SERVE_CANCELLED_TIMEOUT, is_held);
}

static int wait_for(serve_rows *w)
{
    uint64_t seen = 0;
    int now = SERVE_ROWS_GO_ON;
    while (now == SERVE_ROWS_GO_ON)
        now = serve_rows_wait(w->r, &w->run, &seen, &w->is_held);
    if (now != SERVE_ROWS_DONE)
        return 0;
    if (w->run.error.id)
        w->r->error = w->run.error;
    return !w->run.error.id;
}

int serve_rows_compute(serve_rows *w, int32_t width)
{
    sort_by_length(w);
    w->run = (serve_embedding){.group = &w->group,
                               .ids = w->sorted,
                               .types = w->are_pairs ? w->sorted_types : NULL,
                               .n_ids = w->n_sorted,
                               .n = w->n};
    w->run.are_weights = w->kind == SERVE_SPARSE;
    if (w->kind)
        w->run.tokens = calloc((size_t)w->n, sizeof *w->run.tokens);
    else
        w->run.out = malloc((size_t)w->n * (size_t)width * sizeof *w->run.out);
    if (!w->run.out && !w->run.tokens)
        return serve_rows_no_memory(w->r);
    return serve_engine_embed(w->r->engine, &w->run, &w->r->error) && wait_for(w);
}

void serve_rows_reply(serve_rows *w, json_t *root)
{
    serve_request *r = w->r;
    char *text =
        root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL; /* all digits of an f32 */
    json_decref(root);
    r->n_prompt = (int32_t)w->n_tokens;
    r->n_cached = r->n_generated = 0;
    r->tells_usage = 1;
    if (!text) {
        serve_rows_no_memory(r);
        return;
    }
    r->reply = text;
    r->n_reply = strlen(text);
}

void serve_rows_free(serve_rows *w)
{
    if (w->is_held)
        return;
    for (int32_t i = 0; i < w->n; i++) {
        free(w->ids[i]);
        free(w->types[i]);
        if (w->run.tokens) {
            free(w->run.tokens[i].weights);
            free(w->run.tokens[i].vectors);
        }
    }
    free(w->run.tokens);
    free(w->ids);
    free(w->types);
    free(w->n_ids);
    free(w->order);
    free(w->sorted);
    free(w->sorted_types);
    free(w->n_sorted);
    free(w->run.out);
    serve_params_finish(&w->p);
    serve_group_finish(&w->group);
    free(w);
}
