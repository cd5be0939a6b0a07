/* Opens what the engine runs, and describes it. */
#include "tools/serve/engine_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int load_step(void *user, const char *what, uint64_t done, uint64_t total)
{
    serve_engine *e = user;
    cli_progress_step(&e->progress, what, done, total);
    return atomic_load(&e->s->state) >= SERVE_DRAINING;
}

void serve_batch_opts(const serve_server *s, const serve_model *m, clef_batch_opts *out)
{
    const serve_options *o = &s->o;
    *out = (clef_batch_opts){
        .n_context = m->n_context,
        .max_sequences = o->max_seqs,
        .step_tokens = o->step_tokens,
        .kv_tokens = m->fit.kv_tokens ? m->fit.kv_tokens : o->kv_tokens,
        .n_source = m->n_source,
        .kv_type = cli_kv_type(m->model, m->fit.kv_type ? m->fit.kv_type : o->kv_type, o->compile.exact),
        .loras = m->adapters.set,
        .no_prefix_cache = o->no_prefix_cache,
        .repeatable = o->repeatable,
        .draft = m->draft,
        .compile = o->compile,
    };
    cli_speculation_parse(&o->speculation, "serve", 1, out); /* it was right before */
}

static void say_notice(void *user, const char *text)
{
    serve_log_say(&((const serve_engine *)user)->s->log, "%s", text);
}

static clef_status open_batch(serve_engine *e, clef_error *err)
{
    clef_batch_opts opts;
    serve_batch_opts(e->s, e->m, &opts);
    opts.disk_dir = e->s->o.cache_disk;
    opts.disk_bytes = e->s->o.cache_disk_bytes;
    opts.disk_notice = say_notice;
    opts.disk_user = e;
    opts.compile.progress = load_step;
    opts.compile.progress_user = e;
    e->before = (clef_batch_stats){0};
    return clef_batch_create(e->device, e->m->model, &opts, &e->batch, err);
}

static clef_status open_embedder(serve_engine *e, clef_error *err)
{
    clef_embed_opts opts = {.compile = e->s->o.compile};
    opts.compile.progress = load_step;
    opts.compile.progress_user = e;
    return clef_embedder_create(e->device, e->m->model, &opts, &e->embedder, err);
}

static clef_status open_ranker(serve_engine *e, clef_error *err)
{
    clef_ranker_opts opts = {.raw = 1, .compile = e->s->o.compile};
    opts.compile.progress = load_step;
    opts.compile.progress_user = e;
    return e->m->is_ranker || e->s->o.rerank
               ? clef_ranker_create(e->device, e->m->model, &opts, &e->ranker, err)
               : CLEF_OK;
}

/* Times of words cost a little in each step, and need no second plan so. */
static clef_status open_transcriber(serve_engine *e, clef_error *err)
{
    clef_transcriber_opts opts = {.words = 1,
                                  .kv_type = cli_kv_type(e->m->model, e->s->o.kv_type, e->s->o.compile.exact),
                                  .compile = e->s->o.compile};
    opts.compile.progress = load_step;
    opts.compile.progress_user = e;
    return clef_transcriber_create(e->device, e->m->model, &opts, &e->transcriber, err);
}

/* 1 if a list of words, with a blank between two, has this one. */
static int has_word(const char *list, const char *word)
{
    const size_t size = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += size)
        if ((at == list || at[-1] == ' ') && (!at[size] || at[size] == ' '))
            return 1;
    return 0;
}

/* Which kernels the steps use, each once. */
static void describe_kernels(serve_engine *e, char *out, size_t room)
{
    const clef_plan *plan = e->batch ? clef_batch_plan(e->batch, 0) : NULL;
    size_t n = 0;
    out[0] = '\0';
    const int32_t n_launches = plan ? clef_plan_launches(plan, NULL, 0) : 0;
    clef_launch_info *launches = calloc((size_t)n_launches + 1, sizeof *launches);
    if (launches && plan)
        clef_plan_launches(plan, launches, n_launches);
    for (int32_t i = 0; launches && i < n_launches; i++) {
        const char *name = launches[i].kernel;
        if (name && *name && !has_word(out, name) && n + strlen(name) + 2 <= room)
            n += (size_t)snprintf(out + n, room - n, "%s%s", n ? " " : "", name);
    }
    free(launches);
}

uint64_t serve_plan_bytes(const clef_plan *plan)
{
    if (!plan)
        return 0;
    const clef_plan_stats s = clef_plan_describe(plan);
    return s.weight_bytes + s.mapped_bytes + s.state_bytes + s.arena_bytes + s.scratch_bytes + s.io_bytes +
           s.fused_bytes + s.staging_bytes;
}

void serve_engine_count_bytes(serve_engine *e)
{
    uint64_t n = 0;
    for (int32_t i = 0; e->batch && i < 3; i++)
        n += serve_plan_bytes(clef_batch_plan(e->batch, i));
    if (e->embedder)
        n += serve_plan_bytes(clef_embedder_plan(e->embedder));
    if (e->ranker)
        n += serve_plan_bytes(clef_ranker_plan(e->ranker));
    for (int32_t i = 0; e->transcriber && i < 2; i++)
        n += serve_plan_bytes(clef_transcriber_plan(e->transcriber, i));
    e->n_bytes = n;
}

/* The engine's lock is held. */
static void publish_slots(serve_engine *e)
{
    for (int32_t i = 0; i < e->max_seqs; i++)
        e->slots[i].sequence = -1;
    for (int32_t i = 0; i < e->n_active; i++) {
        const serve_run *r = e->active[i];
        serve_slot *slot = &e->slots[r->slot];
        *slot = (serve_slot){.sequence = r->sequence,
                             .n_prompt = r->n_prompt,
                             .n_max = r->request.n_max,
                             .n_tokens = r->n_tokens,
                             .sampling = r->request.sampling};
        slot->sampling.biases = NULL;
        slot->sampling.dry_breakers = NULL;
    }
}

void serve_engine_publish(serve_engine *e)
{
    serve_lock_take(&e->lock);
    if (e->batch)
        e->stats.batch = clef_batch_describe(e->batch);
    e->stats.n_running = e->n_active;
    publish_slots(e);
    e->stats.bytes = e->n_bytes;
    serve_lock_release(&e->lock);
}

void serve_engine_publish_all(serve_engine *e)
{
    serve_engine_stats s = {0};
    const clef_device_info *d = clef_device_describe(clef_device_part(e->device, 0));
    snprintf(s.device, sizeof s.device, "%s", d->name);
    snprintf(s.driver, sizeof s.driver, "%s %s", d->platform_name, d->driver);
    serve_clean_text(s.device);
    serve_clean_text(s.driver);
    describe_kernels(e, s.kernels, sizeof s.kernels);
    if (e->batch) {
        s.no_prefix_cache = clef_batch_no_prefix_cache(e->batch);
        s.no_speculation = clef_batch_no_speculation(e->batch);
    }
    if (e->embedder) {
        s.n_dims = clef_embedder_describe(e->embedder).n_dims;
        s.max_tokens = clef_embedder_describe(e->embedder).max_tokens;
        s.prompt = clef_embedder_describe(e->embedder).prompt;
    }
    if (e->ranker) {
        s.ranks = 1;
        s.ranking = clef_ranker_describe(e->ranker);
    }
    s.hears = e->transcriber != NULL;
    serve_engine_count_bytes(e);
    serve_lock_take(&e->lock);
    e->stats = s;
    serve_lock_release(&e->lock);
    serve_engine_publish(e);
}

void serve_engine_close(serve_engine *e)
{
    clef_batch_destroy(e->batch);
    clef_sight_destroy(e->sight);
    clef_embedder_destroy(e->embedder);
    clef_ranker_destroy(e->ranker);
    clef_transcriber_destroy(e->transcriber);
    clef_device_close(e->device);
    e->batch = NULL;
    e->sight = NULL;
    e->embedder = NULL;
    e->ranker = NULL;
    e->transcriber = NULL;
    e->device = NULL;
    cli_progress_finish(&e->progress);
}

clef_status serve_engine_open(serve_engine *e, clef_error *err)
{
    const serve_server *s = e->s;
    const clef_device_opts device = {.notice = cli_say_notice,
                                     .n_threads = s->o.n_threads,
                                     .pin = (clef_pin)s->o.pin,
                                     .progress = load_step,
                                     .progress_user = e};
    clef_status status = cli_devices_open(s->o.device, &s->o.split, &device, &e->device, err);
    if (!status && e->m->hears)
        status = open_transcriber(e, err);
    if (!status && e->m->trie)
        status = open_batch(e, err);
    if (!status)
        status = open_ranker(e, err);
    if (!status && !e->m->hears) {
        const int has_other = e->m->trie || e->ranker; /* it may have no embeddings */
        status = open_embedder(e, has_other ? NULL : err);
        status = has_other ? CLEF_OK : status;
    }
    cli_progress_finish(&e->progress);
    return status;
}

int serve_engine_load(serve_engine *e)
{
    clef_error err = {0};
    cli_progress_init(&e->progress, e->s->o.quiet);
    const clef_status status = serve_engine_open(e, &err);
    if (status && atomic_load(&e->s->state) < SERVE_DRAINING)
        cli_report(&err);
    if (status)
        return 0;
    if (!e->s->o.quiet && !atomic_exchange(&e->s->said_device, 1))
        cli_say_device(e->device);
    serve_engine_publish_all(e);
    return 1;
}
