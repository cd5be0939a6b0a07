/* A request for texts, from its parameters to its end. */
#include "tools/serve/task.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/keys.h"

/* How often a waiting thread looks for its client. */
static const double look_seconds = 0.1;

/* ---- begin ----------------------------------------------------------------------------------- */

static int check_model(serve_task *t)
{
    const serve_model *m = t->r->m;
    serve_error *e = &t->r->error;
    t->lora = t->p.model ? serve_model_find(m, &t->r->s->o, t->p.model) : 0;
    if (t->lora < 0)
        return serve_fail(e, SERVE_E_MODEL, "model", "model: '%.100s' is not here; this server has '%s'",
                          t->p.model, m->id);
    if (!t->lora && atomic_load(&t->r->s->adapter))
        t->lora = atomic_load(&t->r->s->adapter) - 1;
    if (!m->trie)
        return serve_fail(e, SERVE_E_UNSUPPORTED, "model", "%s does not generate text; it has %s", m->id,
                          m->hears       ? "/v1/audio/transcriptions"
                          : m->is_ranker ? "/v1/rerank"
                                         : "/v1/embeddings");
    snprintf(t->model, sizeof t->model, "%s", t->lora ? m->adapters.names[t->lora - 1] : m->id);
    return 1;
}

static uint64_t salt_of(const serve_task *t)
{
    const serve_params *p = &t->p;
    const int per_key = t->r->s->o.cache_per_key;
    if (!p->cache_prompt)
        return cli_terminal_entropy() | 1; /* shared with nobody */
    const void *const parts[] = {per_key ? &t->r->tenant : NULL, p->cache_salt, p->cache_key};
    const size_t sizes[] = {sizeof t->r->tenant, p->cache_salt ? strlen(p->cache_salt) : 0,
                            p->cache_key ? strlen(p->cache_key) : 0};
    return per_key || p->cache_salt || p->cache_key ? serve_secret_hash(parts, sizes, 3) : 0;
}

int serve_task_begin(serve_task *t, serve_request *r, serve_form form, const serve_writer *writer)
{
    *t = (serve_task){.r = r, .is_chat = !(form & SERVE_FORM_TEXT), .writer = writer};
    serve_group_init(&t->group);
    t->group.client = serve_client_of(r);
    if (!serve_params_read(r, form, &t->p) || !check_model(t) || (t->writer->read && !t->writer->read(t)))
        return 0;
    t->salt = salt_of(t);
    snprintf(t->id, sizeof t->id, "%s", t->is_chat ? writer->id : "cmpl-");
    serve_random_letters(t->id + strlen(t->id), 24);
    return 1;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Positions that a text has for its prompt and what is generated: the context, or a smaller pool. */
static int32_t n_positions(const serve_task *t)
{
    const int32_t n = t->r->m->n_context;
    const int64_t pool = serve_engine_describe(t->r->engine).batch.kv_tokens;
    return pool > 0 && pool < n ? (int32_t)pool : n;
}

/* Checks a prompt of n tokens, and sets *n_max to the most that can be generated after it; 0: until the
 * context is full. The words of the errors are those by which clients know them. */
static int check_length(serve_task *t, int32_t n, int32_t *n_max)
{
    const serve_model *m = t->r->m;
    serve_error *e = &t->r->error;
    const char *what = t->is_chat ? "messages" : "prompt";
    const int32_t n_all = n_positions(t), most = m->is_seq2seq ? m->n_source : n_all - 1,
                  want = t->p.max_tokens, room = n_all - (m->is_seq2seq ? m->n_start : n);
    *n_max = want < 0 ? 0 : want < room ? want : room;
    e->n_prompt = n;
    e->n_ctx = m->is_seq2seq && n > most ? m->n_source : n_all;
    e->max_tokens = want;
    if (n > most)
        return serve_fail(
            e, SERVE_E_CONTEXT, what,
            "This model's maximum context length is %d tokens. However, your %s resulted in %d "
            "tokens. Please reduce the length of the %s, which exceeds the available context size.",
            (int)e->n_ctx, what, (int)n, what);
    if (want <= room)
        return 1;
    if (t->r->s->o.strict_limits)
        return serve_fail(
            e, SERVE_E_CONTEXT, "max_tokens",
            "This model's maximum context length is %d tokens. However, you requested %lld tokens (%d "
            "in the %s, %d in the completion). Please reduce the length of the %s or completion.",
            (int)e->n_ctx, (long long)n + want, (int)n, what, (int)want, what);
    if (!t->r->max_tokens || room < t->r->max_tokens)
        t->r->max_tokens = room;
    return 1;
}

static int make_run(serve_task *t, int32_t i)
{
    const serve_model *m = t->r->m;
    serve_choice *c = &t->choices[i];
    serve_run *run = &t->runs[i];
    c->prompt = i / t->p.n;
    c->index = i;
    c->task = t;
    c->run = run;
    const serve_prompt *prompt = &t->prompts[c->prompt];
    const int as_forced =
        t->p.echo && t->p.logprobs && !m->is_seq2seq; /* the prompt's own logprobs are wanted */
    clef_sampler_opts sampling = t->p.sampling;
    sampling.biases = t->biases;
    sampling.dry_breakers = t->breakers.opts.dry_breakers;
    sampling.n_dry_breakers = t->breakers.opts.n_dry_breakers;
    c->n_forced = as_forced ? prompt->n - 1 : 0;
    c->has_first = as_forced;
    const int only_prompt = t->p.max_tokens == 0 && !t->p.echo; /* into the cache: its token is dropped */
    const int32_t n_fed = m->is_seq2seq ? m->n_start : prompt->n - c->n_forced,
                  n_max = only_prompt            ? 1
                          : t->p.max_tokens >= 0 ? prompt->n_max + c->n_forced
                                                 : 0;
    const int32_t n_min =
        t->p.min_tokens < INT32_MAX - c->n_forced ? t->p.min_tokens : INT32_MAX - c->n_forced;
    run->group = &t->group;
    run->pictures = t->p.pictures.n ? &t->p.pictures : NULL;
    run->request = (clef_request){
        .ids = m->is_seq2seq ? m->start : prompt->ids,
        .n = n_fed,
        .source = m->is_seq2seq ? prompt->ids : NULL,
        .n_source = m->is_seq2seq ? prompt->n : 0,
        .n_max = n_max,
        .n_min = n_min ? n_min + c->n_forced : 0,
        .ignore_eos = t->p.ignore_eos,
        .stops = t->ends,
        .n_stops = t->n_ends,
        .sampling = sampling,
        .stream = (uint32_t)(i % t->p.n),
        .logprobs = t->p.logprobs,
        .n_top = t->p.n_top,
        .forced = as_forced ? prompt->ids + 1 : NULL,
        .n_forced = c->n_forced,
        .lora = t->lora,
        .salt = t->salt,
        .guide = t->has_guide ? &t->guide : NULL,
        .thought = t->is_chat && t->p.thinking_budget >= 0 ? &t->thought : NULL,
    };
    run->capacity = n_max ? n_max : m->n_context - n_fed;
    run->tokens = malloc(((size_t)run->capacity + 1) * sizeof *run->tokens);
    run->tops = malloc(((size_t)run->capacity * (size_t)t->p.n_top + 1) * sizeof *run->tops);
    if (!run->tokens || !run->tops)
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    if (t->p.max_tokens == 0 && !c->n_forced && !only_prompt) /* echo alone: nothing is computed */
        run->state = SERVE_RUN_DONE;
    c->n_forced += only_prompt;
    run->finish = run->state == SERVE_RUN_DONE ? CLEF_FINISH_LENGTH : CLEF_FINISH_NONE;
    run->n_prompt = m->is_seq2seq ? prompt->n : prompt->n - c->n_forced;
    return serve_choice_begin(c);
}

static int make_runs(serve_task *t)
{
    const int32_t n = t->n_prompts * t->p.n, most = t->r->s->o.max_choices;
    if (n > most)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "n",
                          "n: %d prompts with %d choices each are %d, expected at most %d (--max-choices)",
                          (int)t->n_prompts, (int)t->p.n, (int)n, (int)most);
    t->n_choices = n;
    t->choices = calloc((size_t)t->n_choices + 1, sizeof *t->choices);
    t->runs = calloc((size_t)t->n_choices + 1, sizeof *t->runs);
    if (!t->choices || !t->runs) {
        t->n_choices = 0;
        return serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    }
    for (int32_t i = 0; i < t->n_prompts; i++)
        if (!check_length(t, t->prompts[i].n, &t->prompts[i].n_max))
            return 0;
    for (int32_t i = 0; i < t->n_choices; i++)
        if (!make_run(t, i))
            return 0;
    return 1;
}

/* Nothing more comes; the group's lock is held. */
static int all_done(const serve_task *t)
{
    int32_t i = 0;
    while (i < t->n_choices && t->runs[i].state == SERVE_RUN_DONE)
        i++;
    return i == t->n_choices;
}

static int has_begun(const serve_task *t)
{
    for (int32_t i = 0; i < t->n_choices; i++)
        if (t->runs[i].state != SERVE_RUN_WAITING)
            return 1;
    return 0;
}

static void note_prompt(serve_task *t)
{
    const serve_buffer *text = &t->prompts[0].text;
    if (!t->r->s->log.prompts || !text->p)
        return;
    t->r->prompt = malloc(text->n + 1);
    if (t->r->prompt)
        memcpy(t->r->prompt, text->p, text->n + 1);
}

/* Bytes of what is kept of a body for its response. Values take a few times as much as their text. */
static size_t kept_bytes(const serve_task *t)
{
    size_t n = 4 * (json_dumpb(t->echo, NULL, 0, JSON_COMPACT) + json_dumpb(t->ids, NULL, 0, JSON_COMPACT));
    for (int i = 0; i < SERVE_N_STORED; i++)
        n += t->stored[i] ? strlen(t->stored[i]) : 0;
    return n;
}

int serve_task_submit(serve_task *t)
{
    if (!make_runs(t))
        return 0;
    note_prompt(t);
    const size_t n_kept = t->echo ? kept_bytes(t) : 0;
    serve_params_shrink(t->r, &t->p);
    if (n_kept && !serve_hold(t->r, n_kept))
        return 0;
    t->last_sent = cli_terminal_seconds();
    if (all_done(t)) /* echo alone */
        return 1;
    if (!serve_engine_submit(t->r->engine, &t->group, t->runs, t->n_choices, &t->r->error))
        return 0;
    t->submitted = 1;
    for (;;) {
        serve_lock_take(&t->group.lock);
        const int begun = has_begun(t);
        serve_lock_release(&t->group.lock);
        if (begun)
            break;
        if (!serve_task_wait(t))
            return 0;
    }
    for (int32_t i = 0; i < t->n_choices; i++) { /* refused as it began: its status is still free */
        serve_lock_take(&t->group.lock);
        const serve_error error = t->runs[i].error;
        serve_lock_release(&t->group.lock);
        if (error.id) {
            t->r->error = error;
            return 0;
        }
    }
    return 1;
}

/* ---- waiting --------------------------------------------------------------------------------- */

int serve_task_wait(serve_task *t)
{
    serve_request *r = t->r;
    const serve_options *o = &r->s->o;
    serve_lock_take(&t->group.lock);
    serve_group_wait(&t->group, t->seen, look_seconds);
    t->seen = t->group.n_changes;
    const int waits = !has_begun(t), done = all_done(t);
    serve_lock_release(&t->group.lock);
    if (done) /* its answer is complete, whatever happens to the server or the client's time */
        return 1;
    if (serve_engine_gave_up(r->engine, &r->error))
        return 0;
    const double now = cli_terminal_seconds();
    if (now >= t->next_look) {
        t->next_look = now + look_seconds;
        if (serve_client_gone(r)) {
            const int slow = serve_client_slow(r);
            r->gone = 1;
            r->why = slow ? "the client reads too slowly" : "the client has gone";
            serve_count_label(&r->s->metrics, SERVE_LABEL_CANCELLED,
                              slow ? SERVE_CANCELLED_SLOW : SERVE_CANCELLED_DISCONNECT);
            return serve_fail(&r->error, SERVE_E_GONE, NULL, "%s", r->why);
        }
    }
    const int late = now - r->began > (double)o->request_timeout,
              queued = waits && now - t->group.submitted > (double)o->queue_timeout;
    if (!late && !queued)
        return 1;
    serve_count_label(&r->s->metrics, SERVE_LABEL_CANCELLED, SERVE_CANCELLED_TIMEOUT);
    r->why = queued && !late ? "the queue's time is over" : "the request's time is over";
    return serve_fail(&r->error, SERVE_E_TIMEOUT, NULL,
                      queued && !late ? "the request waited for %.0f s (--queue-timeout)"
                                      : "the request took more than %.0f s (--request-timeout)",
                      (double)(queued && !late ? o->queue_timeout : o->request_timeout));
}

int serve_task_take(serve_task *t)
{
    for (int32_t i = 0; i < t->n_choices; i++)
        if (!serve_choice_take(&t->choices[i]))
            return 0;
    return 1;
}

int serve_task_done(const serve_task *t)
{
    for (int32_t i = 0; i < t->n_choices; i++)
        if (!t->choices[i].finish)
            return 0;
    return 1;
}

/* ---- the end --------------------------------------------------------------------------------- */

void serve_task_end(serve_task *t)
{
    serve_request *r = t->r;
    if (t->submitted) {
        for (int32_t i = 0; i < t->n_choices; i++)
            atomic_store(&t->runs[i].cancelled, 1);
        for (int32_t i = 0; i < t->n_choices; i++)
            t->is_held |= !serve_run_cancel(r->engine, &t->runs[i]);
        serve_engine_note(r->engine, cli_terminal_seconds() - t->group.submitted);
    }
    t->submitted = 0;
}

void serve_task_free(serve_task *t)
{
    serve_task_end(t);
    if (t->is_held)
        return;
    for (int32_t i = 0; i < t->n_choices; i++) {
        serve_choice_free(&t->choices[i]);
        free(t->runs[i].tokens);
        free(t->runs[i].tops);
    }
    for (int32_t i = 0; i < t->n_prompts; i++) {
        if (t->prompts[i].own)
            free(t->prompts[i].ids);
        else
            clef_tokens_free(t->prompts[i].ids);
        serve_buffer_free(&t->prompts[i].text);
    }
    if (t->r && t->constraint)
        clef_constraint_cache_give(t->r->m->constraints, t->constraint);
    free(t->prompts);
    free(t->choices);
    free(t->runs);
    free(t->biases);
    free(t->stops);
    free(t->ends);
    free(t->tools);
    json_decref(t->parts);
    json_decref(t->logprobs);
    json_decref(t->echo);
    json_decref(t->ids);
    for (int i = 0; i < SERVE_N_STORED; i++)
        free(t->stored[i]);
    json_decref(t->customs);
    cli_sampler_finish(&t->breakers);
    serve_buffer_free(&t->out);
    serve_params_finish(&t->p);
    serve_group_finish(&t->group);
    free(t);
}
