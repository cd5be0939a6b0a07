/* What llama-server says of the time that a text took, and how far its prompt is. */
#include "tools/cli/terminal.h"
#include "tools/serve/forms/form.h"

static double per_second(int64_t n, double ms)
{
    return ms > 0 ? (double)n / ms * 1e3 : 0;
}

static double per_token(int64_t n, double ms)
{
    return n > 0 ? ms / (double)n : 0;
}

json_t *serve_timings(const serve_counts *n)
{
    const double prompt = n->first > n->began ? (n->first - n->began) * 1e3 : 0,
                 predicted = n->last > n->first ? (n->last - n->first) * 1e3 : 0;
    const int64_t n_fed = n->n_prompt - n->n_cached;
    json_t *o = json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "cache_n", (json_int_t)n->n_cached,
                          "prompt_n", (json_int_t)n_fed, "prompt_ms", prompt, "prompt_per_token_ms",
                          per_token(n_fed, prompt), "prompt_per_second", per_second(n_fed, prompt),
                          "predicted_n", (json_int_t)n->n_generated, "predicted_ms", predicted,
                          "predicted_per_token_ms", per_token(n->n_generated, predicted),
                          "predicted_per_second", per_second(n->n_generated, predicted));
    if (n->n_drafted)
        json_object_update_new(o, json_pack("{s:I, s:I}", "draft_n", (json_int_t)n->n_drafted,
                                            "draft_n_accepted", (json_int_t)n->n_accepted));
    return o;
}

json_t *serve_task_timings(const serve_task *t)
{
    const serve_counts n = serve_task_count(t);
    return serve_timings(&n);
}

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct progress {
    int32_t total, cached, done, any; /* any: of the first tokens there is one */
    double began;
} progress;

static progress progress_of(serve_task *t)
{
    progress p = {.total = 0};
    serve_lock_take(&t->group.lock);
    p.began = t->runs[0].began;
    for (int32_t i = 0; i < t->n_choices; i++) {
        const serve_run *run = &t->runs[i];
        p.any |= run->n_tokens > 0;
        if (i % t->p.n)
            continue;
        p.total += run->request.n;
        p.cached += run->n_cached;
        p.done += run->n_tokens ? run->request.n : run->n_past;
    }
    serve_lock_release(&t->group.lock);
    return p;
}

static json_t *progress_object(const progress *p, int32_t done)
{
    return json_pack("{s:i, s:i, s:i, s:f}", "total", (int)p->total, "cache", (int)p->cached, "processed",
                     (int)done, "time_ms", (cli_terminal_seconds() - p->began) * 1e3);
}

/* First what was in the cache. */
int serve_take_progress(serve_task *t, int (*put)(serve_task *t, json_t *progress))
{
    if (!t->p.return_progress || t->n_progress < 0)
        return 1;
    const progress p = progress_of(t);
    if (!p.done)
        return 1;
    int ok = 1;
    if (!t->has_progress) {
        ok = put(t, progress_object(&p, p.cached));
        t->has_progress = 1;
        t->n_progress = p.cached;
    }
    if (ok && p.done > t->n_progress)
        ok = put(t, progress_object(&p, p.done));
    t->n_progress = p.any ? -1 : p.done;
    return ok;
}
