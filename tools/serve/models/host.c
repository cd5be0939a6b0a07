/* Finds the models that a command line names, opens them, and knows what memory each needs. */
#include <stdlib.h>
#include <string.h>

#include "clef/sight.h"
#include "tools/cli/terminal.h"
#include "tools/hub/hub.h"
#include "tools/serve/models/inside.h"
#include "tools/serve/os/system.h"

enum { MOST_MODELS = 256, MOST_TEXTS = 32, MOST_RUN_TOKENS = 16384 };

/* ---- memory ---------------------------------------------------------------------------------- */

/* The most tokens of a text that is embedded, and how its vector is made. Others have neither. */
static int32_t longest_text(const serve_hosted *h, clef_device *device, clef_pooling *pooling)
{
    const clef_embed_opts opts = {.compile = h->s->o.compile};
    const int32_t own = h->m.hparams->n_context;
    clef_embedder_info info = {.max_tokens = h->m.n_context};
    clef_embedder *e = NULL;
    if (clef_embedder_create(device, h->m.model, &opts, &e, NULL) == CLEF_OK)
        info = clef_embedder_describe(e);
    clef_embedder_destroy(e);
    *pooling = info.pooling;
    return own > 0 && own < info.max_tokens ? own : info.max_tokens;
}

/* What the model does with whole texts: rankings, by a head for classes or by words; vectors; or, where it
 * writes texts too, the graph with logits, which is the larger. */
static clef_status build_reader(const serve_hosted *h, clef_build_opts *build, clef_graph **out,
                                clef_error *err)
{
    build->classify = h->m.is_ranker;
    if (h->m.trie || h->m.is_ranker)
        build->pooling = CLEF_POOL_NONE;
    const clef_status status = clef_model_build(h->m.model, build, out, err);
    if (status != CLEF_E_NOT_FOUND || !build->classify)
        return status;
    build->classify = 0;
    return clef_model_build(h->m.model, build, out, err);
}

/* Of a model that reads whole texts: as its longest ones need it. */
static clef_status describe_reader(const serve_hosted *h, clef_device *device, uint64_t *n_bytes,
                                   clef_error *err)
{
    clef_pooling pooling;
    const int32_t most = longest_text(h, device, &pooling), fit = MOST_RUN_TOKENS / most;
    clef_build_opts build = {.n_context = most,
                             .n_batch = most,
                             .n_sequences = fit < 1            ? 1
                                            : fit < MOST_TEXTS ? fit
                                                               : MOST_TEXTS,
                             .pooling = pooling};
    const clef_plan_opts opts = {.compile = h->s->o.compile,
                                 .describe_only = 1,
                                 .weights = clef_model_weight,
                                 .weights_user = h->m.model};
    clef_graph *graph = NULL;
    clef_plan *plan = NULL;
    clef_status status = build_reader(h, &build, &graph, err);
    if (status == CLEF_OK)
        status = clef_graph_optimize(graph, NULL, err);
    if (status == CLEF_OK)
        status = clef_plan_create(device, graph, &opts, &plan, err);
    *n_bytes = serve_plan_bytes(plan);
    clef_plan_destroy(plan);
    clef_graph_destroy(graph);
    return status;
}

static clef_status describe_writer(serve_hosted *h, clef_device *device, clef_error *err)
{
    clef_batch_opts opts;
    clef_batch *batch = NULL;
    serve_batch_opts(h->s, &h->m, &opts);
    opts.describe_only = 1;
    const clef_status status = clef_batch_create(device, h->m.model, &opts, &batch, err);
    if (status != CLEF_OK)
        return status;
    for (int32_t i = 0; i < 3; i++)
        h->n_bytes += serve_plan_bytes(clef_batch_plan(batch, i));
    clef_batch_destroy(batch);
    return CLEF_OK;
}

static clef_status describe_hearer(serve_hosted *h, clef_device *device, clef_error *err)
{
    const serve_options *o = &h->s->o;
    const clef_session_opts opts = {.kv_type = cli_kv_type(h->m.model, o->kv_type, o->compile.exact),
                                    .compile = o->compile,
                                    .describe_only = 1};
    clef_session *session = NULL;
    const clef_status status = clef_session_create(device, h->m.model, &opts, &session, err);
    for (int32_t i = 0; i < 2 && !status; i++)
        h->n_bytes += serve_plan_bytes(clef_session_plan(session, i));
    clef_session_destroy(session);
    return status;
}

enum { Q8_0 = 3, LEAST_CONTEXT = 256 };

/* The next smaller choice: fewer positions for all texts together, down to one context; then a smaller type
 * of them, once; then shorter contexts. 0: there is none that the command line leaves free. */
static int next_fit(const serve_options *o, serve_model *m, int *may_lower)
{
    serve_fit *f = &m->fit;
    if (!f->kv_tokens && !o->kv_tokens)
        f->kv_tokens = o->max_seqs > INT32_MAX / m->n_context ? INT32_MAX : o->max_seqs * m->n_context;
    if (!o->kv_tokens && f->kv_tokens > m->n_context)
        f->kv_tokens = f->kv_tokens / 2 > m->n_context ? f->kv_tokens / 2 : m->n_context;
    else if (*may_lower) {
        *may_lower = 0;
        f->kv_type = Q8_0;
    } else if (o->n_context < 0 && m->n_context / 2 >= LEAST_CONTEXT) {
        m->n_context = f->n_context = m->n_context / 2;
        f->kv_tokens = o->kv_tokens ? 0 : m->n_context;
    } else
        return 0;
    return 1;
}

/* Makes a model smaller until it fits, and says what it got. */
static void fit_memory(serve_models *ms, serve_hosted *h, clef_device *device)
{
    const serve_options *o = &ms->s->o;
    serve_model *m = &h->m;
    char needs[24];
    int may_lower = !o->kv_type && !o->compile.exact;
    while (h->n_bytes > ms->most_bytes && next_fit(o, m, &may_lower)) {
        const uint64_t before = h->n_bytes;
        h->n_bytes = 0;
        if (describe_writer(h, device, NULL) != CLEF_OK) { /* not with this type: the next choice */
            h->n_bytes = before;
            m->fit.kv_type = 0;
        }
    }
    h->card.n_context = m->n_context;
    if (h->n_bytes <= ms->most_bytes && !o->quiet)
        fprintf(stderr, "clef: --fit: %s needs %s with a context of %d and a KV cache of %d positions%s\n",
                h->card.id, cli_bytes_text(h->n_bytes, needs), (int)m->n_context,
                (int)(m->fit.kv_tokens ? m->fit.kv_tokens : o->kv_tokens), m->fit.kv_type ? ", q8_0" : "");
}

static int check_memory(serve_models *ms, serve_hosted *h, clef_device *device)
{
    clef_error err = {0};
    char needs[24], most[24];
    if (!device)
        return CLI_GO_ON;
    h->n_bytes = 0;
    clef_status status = h->m.hears ? describe_hearer(h, device, &err)
                                    : describe_reader(h, device, h->m.trie ? &h->n_more : &h->n_bytes, &err);
    if (h->m.trie)
        status = describe_writer(h, device, &err); /* it may have no embeddings */
    if (status != CLEF_OK)
        return cli_report(&err);
    if (ms->s->o.fit && h->m.trie && h->n_bytes > ms->most_bytes)
        fit_memory(ms, h, device);
    if (h->n_bytes <= ms->most_bytes)
        return CLI_GO_ON;
    return cli_fail(CLI_FAILED,
                    "serve --memory: %s needs %s, expected at most %s; -c, --max-seqs and --kv-tokens "
                    "lower what its KV cache takes, and --fit chooses them",
                    h->card.id, cli_bytes_text(h->n_bytes, needs), cli_bytes_text(ms->most_bytes, most));
}

/* ---- opening --------------------------------------------------------------------------------- */

static void fill_card(serve_hosted *h)
{
    const serve_model *m = &h->m;
    h->card = (serve_card){.n_context = m->n_context,
                           .n_trained = m->hparams->n_context,
                           .n_vocab = m->hparams->n_vocab,
                           .n_dims = m->hparams->d_model,
                           .sees = m->trie && clef_model_sees(m->model, NULL),
                           .hears = m->hears,
                           .kind = clef_tokenizer_kind_of(m->tok),
                           .created = m->created,
                           .n_params = m->n_params,
                           .n_bytes = m->n_bytes};
    memcpy(h->card.id, m->id, sizeof h->card.id);
    snprintf(h->card.arch, sizeof h->card.arch, "%s", m->hparams->arch);
}

static int open_one(serve_models *ms, serve_hosted *h, clef_device *device)
{
    int rc = serve_model_open(&h->m, &ms->s->o);
    if (rc == CLI_GO_ON)
        fill_card(h);
    if (rc == CLI_GO_ON)
        rc = check_memory(ms, h, device);
    for (serve_hosted *other = ms->all; rc == CLI_GO_ON && other < h; other++)
        if (!strcmp(other->card.id, h->card.id))
            rc = cli_fail(CLI_USAGE, "serve: %s and %s are both called '%s'; --alias names each",
                          other->m.path, h->m.path, h->card.id);
    return rc;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* A path, and whether it was found in a folder. */
typedef struct place {
    char *path;
    int32_t is_found;
} place;

typedef struct list {
    place items[MOST_MODELS];
    int32_t n, failed;
} list;

static void add(list *l, const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = l->n < MOST_MODELS ? malloc(size) : NULL;
    if (!path) {
        l->failed = 1;
        return;
    }
    snprintf(path, size, "%s%s%s", folder, *folder ? "/" : "", name);
    l->items[l->n++] = (place){path, *folder != '\0'};
}

static int has_config(const char *folder)
{
    char path[4096];
    FILE *f =
        snprintf(path, sizeof path, "%s/config.json", folder) < (int)sizeof path ? fopen(path, "rb") : NULL;
    if (f)
        fclose(f);
    return f != NULL;
}

/* A GGUF file, unless it is a later part of one, or what a model needs to see or hear. */
static int is_model_file(const char *name)
{
    const size_t n = strlen(name);
    const char *of = strstr(name, "-of-");
    const int is_part = of && of - name >= 5 && strspn(of - 5, "0123456789") == 5,
              is_later = is_part && strncmp(of - 5, "00001", 5) != 0;
    return n > 5 && !strcmp(name + n - 5, ".gguf") && !is_later && strncmp(name, "mmproj", 6) != 0;
}

typedef struct scan {
    list *to;
    const char *folder;
} scan;

static void look_at(void *user, const char *name)
{
    const scan *s = user;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", s->folder, name) >= (int)sizeof path)
        return;
    if (cli_terminal_is_folder(path) ? has_config(path) : is_model_file(name))
        add(s->to, s->folder, name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const place *)a)->path, ((const place *)b)->path);
}

static int add_folder(list *l, const char *folder)
{
    const int32_t first = l->n;
    scan s = {l, folder};
    if (!serve_folder_list(folder, look_at, &s))
        return cli_fail(CLI_FAILED, "serve: the folder %s cannot be read", folder);
    if (l->n == first)
        return cli_fail(CLI_FAILED,
                        "serve: %s: expected a config.json, or models: .gguf files, and folders "
                        "with a config.json",
                        folder);
    qsort(l->items + first, (size_t)(l->n - first), sizeof *l->items, by_name);
    return CLI_GO_ON;
}

static int find_all(list *l, int32_t n, char *const *paths)
{
    int rc = CLI_GO_ON;
    for (int32_t i = 0; i < n && rc == CLI_GO_ON; i++) {
        const char *path = hub_find(paths[i]);
        if (!path)
            rc = CLI_FAILED;
        else if (cli_terminal_is_folder(path) && !has_config(path))
            rc = add_folder(l, path);
        else
            add(l, "", path);
    }
    if (rc == CLI_GO_ON && l->failed)
        rc = cli_fail(CLI_FAILED, "serve: more than %d models, or no memory for their names", MOST_MODELS);
    return rc;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* What does not go together with several models. */
static int check_options(const serve_options *o, int32_t n)
{
    if (o->fit && !o->memory)
        return cli_fail(CLI_USAGE, "serve --fit: expected --memory, to which models are to fit");
    if (o->aliases.n > n)
        return cli_fail(CLI_USAGE, "serve --alias: expected at most one for each of %d models, got %d",
                        (int)n, (int)o->aliases.n);
    if (n == 1)
        return CLI_GO_ON;
    if (o->loras.n || o->speculation.draft || o->mmproj)
        return cli_fail(CLI_USAGE, "serve %s: expected one model, since it belongs to one; got %d",
                        o->loras.n  ? "--lora"
                        : o->mmproj ? "--mmproj"
                                    : "--draft",
                        (int)n);
    if (clef_ranks_started() > 1)
        return cli_fail(CLI_USAGE, "serve: on several ranks: expected one model, got %d", (int)n);
    return CLI_GO_ON;
}

/* Opens the model of a place as the next one. */
static int open_place(serve_models *ms, place *at, int32_t i, clef_device *device)
{
    const cli_list *aliases = &ms->s->o.aliases;
    serve_hosted *h = &ms->all[ms->n];
    *h = (serve_hosted){.s = ms->s,
                        .m = {.path = at->path, .alias = i < aliases->n ? aliases->items[i] : NULL}};
    ms->paths[ms->n] = at->path;
    at->path = NULL;
    const int rc = open_one(ms, h, device);
    if (rc == CLI_GO_ON) {
        ms->n++;
        return rc;
    }
    serve_model_close(&h->m);
    if (at->is_found)
        fprintf(stderr, "clef: %s is left out\n", h->m.path);
    free(ms->paths[ms->n]);
    return at->is_found && rc != CLI_INTERRUPTED ? CLI_GO_ON : rc;
}

static int open_all(serve_models *ms, list *l)
{
    const serve_options *o = &ms->s->o;
    clef_device *device = NULL;
    clef_error err = {0};
    int rc = CLI_GO_ON;
    ms->all = calloc((size_t)l->n, sizeof *ms->all);
    ms->paths = calloc((size_t)l->n, sizeof *ms->paths);
    if (!ms->all || !ms->paths)
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    if (ms->most_bytes && cli_devices_open(o->device, &o->split, NULL, &device, &err) != CLEF_OK)
        return cli_report(&err);
    for (int32_t i = 0; i < l->n && rc == CLI_GO_ON; i++) {
        rc = open_place(ms, &l->items[i], i, device);
        if (l->n > 1 && ms->n)
            serve_model_close(&ms->all[ms->n - 1].m);
    }
    clef_device_close(device);
    if (rc == CLI_GO_ON && !ms->n)
        return cli_fail(CLI_FAILED, "serve: none of the models can be served");
    if (rc == CLI_GO_ON && ms->n == 1 && l->n > 1) /* the others were left out */
        rc = serve_model_open(&ms->all[0].m, o);
    ms->all[0].is_fixed = ms->n == 1 && ms->idle_seconds <= 0 && !ms->most_bytes;
    ms->s->o.strict_model |= ms->n > 1;
    return rc;
}

int serve_models_open(serve_server *s, int32_t n, char *const *paths)
{
    serve_models *ms = s->models = calloc(1, sizeof *ms);
    list *l = calloc(1, sizeof *l);
    if (!ms || !l) {
        free(l);
        return cli_fail(CLI_FAILED, "serve: out of host memory");
    }
    ms->s = s;
    ms->idle_seconds = (double)s->o.idle_unload;
    serve_lock_init(&ms->lock);
    serve_condition_init(&ms->work);
    serve_condition_init(&ms->changed);
    int rc = find_all(l, n, paths);
    if (rc == CLI_GO_ON)
        rc = check_options(&s->o, l->n);
    if (rc == CLI_GO_ON && s->o.memory && !cli_size_read(s->o.memory, &ms->most_bytes))
        rc = cli_fail(CLI_USAGE, "serve --memory: expected a size such as 512M or 2G, got '%.40s'",
                      s->o.memory);
    if (rc == CLI_GO_ON)
        rc = open_all(ms, l);
    for (int32_t i = 0; i < l->n; i++)
        free(l->items[i].path);
    free(l);
    return rc;
}

void serve_models_destroy(serve_models *ms)
{
    if (!ms)
        return;
    for (int32_t i = 0; i < ms->n; i++) {
        serve_engine_destroy(ms->all[i].engine);
        serve_model_close(&ms->all[i].m);
        free(ms->paths[i]);
    }
    serve_lock_finish(&ms->lock);
    serve_condition_finish(&ms->work);
    serve_condition_finish(&ms->changed);
    free(ms->all);
    free(ms->paths);
    free(ms);
}

/* ---- loading --------------------------------------------------------------------------------- */

int serve_hosted_load(serve_hosted *h)
{
    serve_options quiet = h->s->o;
    quiet.quiet = 1; /* what it would say, it said at the start */
    return (h->m.model || serve_model_open(&h->m, &quiet) == CLI_GO_ON) &&
           serve_engine_start(h->s, &h->m, &h->engine) == CLI_GO_ON && serve_engine_wait(h->engine);
}

void serve_hosted_unload(serve_hosted *h)
{
    serve_engine_stop(h->engine);
    serve_engine_destroy(h->engine);
    h->engine = NULL;
    if (h->s->models->n > 1)
        serve_model_close(&h->m);
    serve_give_memory_back();
}
