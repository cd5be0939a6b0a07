/* A session: one sequence fed step by step through a plan that keeps its KV cache. */
#include <inttypes.h>
#include <stdlib.h>

#include "clef/generate.h"
#include "graph/fail.h"

/* The step sees the cache up to a multiple of this, so that most steps of a generation bind the same symbols. What lies beyond a
 * token's position is dropped by the causal rule. */
enum { VISIBLE_STEP = 64 };

struct clef_session {
    const clef_hparams *hp;
    clef_plan *plan;
    clef_session_opts opts;
    int32_t n_past;
    int32_t ids, pos, logits; /* numbers of inputs and output */
    int32_t T, S;             /* numbers of symbols */
    float *last;              /* [n_vocab] */
};

static clef_status make_plan(clef_session *s, clef_device *dev, clef_model *model, clef_error *err)
{
    clef_graph *graph;
    clef_status status = clef_model_build(
        model, &(clef_build_opts){.n_context = s->opts.n_context, .n_batch = s->opts.n_batch, .n_sequences = 1, .kv_type = s->opts.kv_type},
        &graph, err);
    if (status)
        return status;
    status = clef_graph_optimize(graph, NULL, err);
    if (!status)
        status = clef_plan_create(dev, graph,
                                  &(clef_plan_opts){.gemm = s->opts.gemm,
                                                    .exact = s->opts.exact,
                                                    .weights = clef_model_weight,
                                                    .release = clef_model_release,
                                                    .weights_user = model,
                                                    .progress = s->opts.progress,
                                                    .progress_user = s->opts.progress_user},
                                  &s->plan, err);
    clef_graph_destroy(graph);
    return status;
}

clef_status clef_session_create(clef_device *dev, clef_model *model, const clef_session_opts *opts, clef_session **out, clef_error *err)
{
    *out = NULL;
    clef_session *s = calloc(1, sizeof *s);
    if (!s)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a session");
    s->hp = clef_model_hparams(model);
    s->opts = opts ? *opts : (clef_session_opts){0};
    if (!s->opts.n_context)
        s->opts.n_context = s->hp->n_context;
    if (!s->opts.n_batch)
        s->opts.n_batch = 512;
    if (s->opts.n_batch > s->opts.n_context && s->opts.n_context > 0)
        s->opts.n_batch = s->opts.n_context;
    s->last = malloc((size_t)s->hp->n_vocab * sizeof *s->last);
    const clef_status status =
        s->last ? make_plan(s, dev, model, err) : clef__fail(err, CLEF_E_NOMEM, "no memory for %d logits", s->hp->n_vocab);
    if (status) {
        clef_session_destroy(s);
        return status;
    }
    s->ids = clef_plan_input(s->plan, "input_ids");
    s->pos = clef_plan_input(s->plan, "pos");
    s->logits = clef_plan_output(s->plan, "logits");
    s->T = clef_plan_symbol(s->plan, "T");
    s->S = clef_plan_symbol(s->plan, "S");
    *out = s;
    return CLEF_OK;
}

void clef_session_destroy(clef_session *s)
{
    if (!s)
        return;
    clef_plan_destroy(s->plan);
    free(s->last);
    free(s);
}

int32_t clef_session_n_context(const clef_session *s)
{
    return s->opts.n_context;
}

int32_t clef_session_n_past(const clef_session *s)
{
    return s->n_past;
}

clef_plan_stats clef_session_describe(const clef_session *s)
{
    return clef_plan_describe(s->plan);
}

int32_t clef_session_profile(clef_session *s, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    return clef_plan_profile(s->plan, times, capacity, err);
}

static clef_status feed_step(clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    int32_t visible = (s->n_past + n + VISIBLE_STEP - 1) / VISIBLE_STEP * VISIBLE_STEP;
    if (visible > s->opts.n_context)
        visible = s->opts.n_context;
    clef_status status = clef_plan_bind(s->plan, s->T, n, err);
    if (!status)
        status = clef_plan_bind(s->plan, s->S, visible, err);
    if (!status)
        status = clef_plan_write(s->plan, s->ids, ids, (size_t)n * sizeof *ids, err);
    if (!status)
        status = clef_plan_write(s->plan, s->pos, &s->n_past, sizeof s->n_past, err);
    if (!status)
        status = clef_plan_run(s->plan, err);
    if (!status)
        s->n_past += n;
    return status;
}

clef_status clef_session_feed(clef_session *s, const int32_t *ids, int32_t n, const float **logits, clef_error *err)
{
    *logits = NULL;
    if (n < 1)
        return clef__fail(err, CLEF_E_ARG, "%d tokens to feed, wanted at least 1", n);
    if (n > s->opts.n_context - s->n_past)
        return clef__fail(err, CLEF_E_LIMIT, "%d tokens after %d: the context holds %d", n, s->n_past, s->opts.n_context);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->hp->n_vocab)
            return clef__fail(err, CLEF_E_ARG, "token %d of the input is %d, the vocabulary has 0 to %d", i, ids[i], s->hp->n_vocab - 1);
    const int32_t n_past = s->n_past;
    clef_status status = CLEF_OK;
    for (int32_t at = 0; at < n && !status; at += s->opts.n_batch) {
        const int32_t step = n - at < s->opts.n_batch ? n - at : s->opts.n_batch;
        status = feed_step(s, ids + at, step, err);
        if (!status && n > 1 && s->opts.progress && s->opts.progress(s->opts.progress_user, "prompt", (uint64_t)(at + step), (uint64_t)n))
            status = clef__fail(err, CLEF_E_CANCELLED, "prompt: interrupted at %d of %d tokens", at + step, n);
    }
    if (!status)
        status = clef_plan_read(s->plan, s->logits, s->last, (size_t)s->hp->n_vocab * sizeof *s->last, err);
    if (status)
        s->n_past = n_past; /* what was written beyond it is never seen, and written over */
    else
        *logits = s->last;
    return status;
}

clef_status clef_session_reset(clef_session *s, clef_error *err)
{
    s->n_past = 0;
    return clef_plan_reset(s->plan, err);
}
