/* An embedder: batches of texts of equal length through a plan that ends in a pooling. */
#include "model/open/embed_config.h"
#include "model/open/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/session/sequence_plan.h"

enum { DEFAULT_BATCH = 32, MAX_BATCH = 4096 };

struct clef_embedder {
    clef_model *model;
    clef_embed_opts opts;
    clef_embedder_info info;
    clef_sequence_plan plan;
};

/* Sets what the plan is made of; the first text decides its length. */
static void set_plan(clef_embedder *e, clef_device *dev)
{
    e->plan = (clef_sequence_plan){
        .dev = dev,
        .model = e->model,
        .build = {.pooling = e->info.pooling, .normalize = e->info.normalize},
        .opts = {.compile = e->opts.compile},
        .n_batch = e->opts.n_batch,
        .max_tokens = e->info.max_tokens,
    };
}

clef_status clef_embedder_create(clef_device *dev, clef_model *model, const clef_embed_opts *opts,
                                 clef_embedder **out, clef_error *err)
{
    *out = NULL;
    clef_embedder *e = calloc(1, sizeof *e);
    if (!e)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an embedder");
    *e = (clef_embedder){.model = model, .opts = opts ? *opts : (clef_embed_opts){0}};
    clef_status status = clef__embed_config(model, &e->info, err);
    if (!e->opts.n_batch)
        e->opts.n_batch = DEFAULT_BATCH;
    if (status == CLEF_OK && (e->opts.n_batch < 1 || e->opts.n_batch > MAX_BATCH))
        status = clef__fail(err, CLEF_E_ARG, "%" PRId32 " texts a run, expected 1 to %d", e->opts.n_batch,
                            MAX_BATCH);
    if (status == CLEF_OK && (e->opts.pooling < CLEF_POOL_NONE || e->opts.pooling > CLEF_POOL_LAST))
        status = clef__fail(err, CLEF_E_ARG, "pooling %d, expected a clef_pooling", (int)e->opts.pooling);
    if (status != CLEF_OK) {
        free(e);
        return status;
    }
    if (e->opts.no_prompt)
        e->info.prompt = NULL;
    if (e->opts.pooling)
        e->info.pooling = e->opts.pooling;
    if (e->opts.normalize != CLEF_NORMALIZE_MODEL)
        e->info.normalize = e->opts.normalize == CLEF_NORMALIZE_YES;
    set_plan(e, dev);
    *out = e;
    return CLEF_OK;
}

void clef_embedder_destroy(clef_embedder *e)
{
    if (!e)
        return;
    clef__sequence_plan_finish(&e->plan);
    free(e);
}

clef_embedder_info clef_embedder_describe(const clef_embedder *e)
{
    return e->info;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A sequence and its length, sorted with the longest first. */
typedef struct entry {
    int32_t n_ids, index;
} entry;

static int by_length(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->n_ids != y->n_ids ? (x->n_ids < y->n_ids) - (x->n_ids > y->n_ids)
                                : (x->index > y->index) - (x->index < y->index);
}

static clef_status check_ids(const clef_embedder *e, const int32_t *const *ids, const int32_t *n_ids,
                             int32_t n, clef_error *err)
{
    const int32_t n_vocab = clef_model_hparams(e->model)->n_vocab;
    for (int32_t i = 0; i < n; i++) {
        if (n_ids[i] < 1)
            return clef__fail(err, CLEF_E_ARG, "text %" PRId32 " has no tokens", i);
        if (n_ids[i] > e->info.max_tokens)
            return clef__fail(err, CLEF_E_LIMIT,
                              "text %" PRId32 " has %" PRId32 " tokens, %s accepts at most %" PRId32, i,
                              n_ids[i], clef_model_path(e->model), e->info.max_tokens);
        for (int32_t k = 0; k < n_ids[i]; k++)
            if (ids[i][k] < 0 || ids[i][k] >= n_vocab)
                return clef__fail(err, CLEF_E_ARG,
                                  "text %" PRId32 ": token %" PRId32 " is %" PRId32
                                  ", the vocabulary has 0 to %" PRId32,
                                  i, k, ids[i][k], n_vocab - 1);
        const clef_status status = clef__check_padding(e->model, ids[i], n_ids[i], err);
        if (status != CLEF_OK)
            return status;
    }
    return CLEF_OK;
}

/** Memory of a call. */
typedef struct work {
    entry *entries;
    int32_t *tokens; /* [max_B, max_T] */
    float *rows;     /* [max_B, d] */
} work;

static clef_status check_row(const float *row, size_t d, int32_t text, clef_error *err)
{
    for (size_t k = 0; k < d; k++)
        if (!isfinite(row[k]))
            return clef__fail(err, CLEF_E_NOT_FINITE,
                              "text %" PRId32
                              ": embedding[%zu]: expected a finite value, got %s; clef compare "
                              "--stats finds the first value that is not finite",
                              text, k,
                              isnan(row[k]) ? "NaN"
                              : row[k] > 0  ? "inf"
                                            : "-inf");
    return CLEF_OK;
}

/* Runs the n entries from `first` on, all of one length. */
static clef_status run_batch(clef_embedder *e, const work *w, const entry *first, int32_t n,
                             const int32_t *const *ids, float *out, clef_error *err)
{
    const size_t T = (size_t)first->n_ids, d = (size_t)e->info.n_dims;
    for (int32_t i = 0; i < n; i++)
        memcpy(w->tokens + (size_t)i * T, ids[first[i].index], T * sizeof **ids);
    clef_status status = clef__sequence_plan_run(&e->plan, w->tokens, NULL, n, first->n_ids, w->rows,
                                                 (size_t)n * d * sizeof *w->rows, err);
    for (int32_t i = 0; status == CLEF_OK && i < n; i++)
        status = check_row(w->rows + (size_t)i * d, d, first[i].index, err);
    for (int32_t i = 0; status == CLEF_OK && i < n; i++)
        memcpy(out + (size_t)first[i].index * d, w->rows + (size_t)i * d, d * sizeof *out);
    return status;
}

/* The number of entries in the next run: those with the length of the first of the `n_left`, divided into
 * runs of nearly equal size. */
static int32_t batch_size(const clef_embedder *e, const entry *entries, int32_t n_left)
{
    int32_t n = 1;
    while (n < n_left && entries[n].n_ids == entries->n_ids)
        n++;
    const int32_t n_runs = (n + e->plan.max_B - 1) / e->plan.max_B;
    return (n + n_runs - 1) / n_runs;
}

static clef_status run_all(clef_embedder *e, const work *w, const int32_t *const *ids, int32_t n, float *out,
                           clef_error *err)
{
    for (int32_t i = 0; i < n;) {
        const int32_t size = batch_size(e, w->entries + i, n - i);
        const clef_status status = run_batch(e, w, w->entries + i, size, ids, out, err);
        if (status != CLEF_OK)
            return status;
        i += size;
        if (e->opts.compile.progress &&
            e->opts.compile.progress(e->opts.compile.progress_user, "embed", (uint64_t)i, (uint64_t)n))
            return clef__fail(err, CLEF_E_CANCELLED, "embed: interrupted at %" PRId32 " of %" PRId32 " texts",
                              i, n);
    }
    return CLEF_OK;
}

clef_status clef_embed_ids(clef_embedder *e, const int32_t *const *ids, const int32_t *n_ids, int32_t n,
                           float *out, clef_error *err)
{
    if (n < 1)
        return n == 0 ? CLEF_OK : clef__fail(err, CLEF_E_ARG, "%" PRId32 " texts, expected 0 or more", n);
    clef_status status = check_ids(e, ids, n_ids, n, err);
    if (status != CLEF_OK)
        return status;
    work w = {.entries = malloc((size_t)n * sizeof *w.entries)};
    if (!w.entries)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " texts", n);
    for (int32_t i = 0; i < n; i++)
        w.entries[i] = (entry){n_ids[i], i};
    qsort(w.entries, (size_t)n, sizeof *w.entries, by_length);
    status = clef__sequence_plan_for(&e->plan, w.entries->n_ids, err);
    if (status == CLEF_OK) {
        w.tokens = malloc((size_t)e->plan.max_B * (size_t)e->plan.max_T * sizeof *w.tokens);
        w.rows = malloc((size_t)e->plan.max_B * (size_t)e->info.n_dims * sizeof *w.rows);
        status = w.tokens && w.rows
                     ? run_all(e, &w, ids, n, out, err)
                     : clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " texts a run", e->plan.max_B);
    }
    free(w.entries);
    free(w.tokens);
    free(w.rows);
    return status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Encodes text i and appends its ids to encs. */
static clef_status encode_text(clef_embedder *e, const clef_tokenizer *tok, const clef_span *text,
                               int32_t truncate, clef_encoded *out, clef_error *err)
{
    const clef_encode_opts opts = {.special = CLEF_SPECIAL_ADD,
                                   .max_tokens = truncate ? e->info.max_tokens : 0};
    const size_t n = e->info.prompt ? strlen(e->info.prompt) : 0;
    if (!n)
        return clef_tokenizer_encode_pair(tok, text->text, text->n_bytes, NULL, 0, &opts, out, err);
    char *whole = malloc(n + text->n_bytes + 1);
    if (!whole)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a prompt and a text of %zu bytes", text->n_bytes);
    memcpy(whole, e->info.prompt, n);
    if (text->n_bytes)
        memcpy(whole + n, text->text, text->n_bytes);
    const clef_status status =
        clef_tokenizer_encode_pair(tok, whole, n + text->n_bytes, NULL, 0, &opts, out, err);
    free(whole);
    return status;
}

clef_status clef_embed_texts(clef_embedder *e, const clef_span *texts, int32_t n, int32_t truncate,
                             float *out, int64_t *n_tokens, clef_error *err)
{
    if (n_tokens)
        *n_tokens = 0;
    if (n < 1)
        return n == 0 ? CLEF_OK : clef__fail(err, CLEF_E_ARG, "%" PRId32 " texts, expected 0 or more", n);
    const clef_tokenizer *tok = clef_model_tokenizer(e->model, err);
    if (!tok)
        return err ? err->status : CLEF_E_NOT_FOUND;
    clef_encoded *encs = calloc((size_t)n, sizeof *encs);
    const int32_t **ids = malloc((size_t)n * sizeof *ids);
    int32_t *n_ids = malloc((size_t)n * sizeof *n_ids);
    clef_status status =
        encs && ids && n_ids
            ? CLEF_OK
            : clef__fail(err, CLEF_E_NOMEM, "no memory for the tokens of %" PRId32 " texts", n);
    int64_t total = 0;
    for (int32_t i = 0; status == CLEF_OK && i < n; i++) {
        status = encode_text(e, tok, &texts[i], truncate, &encs[i], err);
        ids[i] = encs[i].ids;
        n_ids[i] = encs[i].n;
        total += encs[i].n;
    }
    if (status == CLEF_OK)
        status = clef_embed_ids(e, ids, n_ids, n, out, err);
    if (n_tokens)
        *n_tokens = total;
    for (int32_t i = 0; encs && i < n; i++)
        clef_encoded_finish(&encs[i]);
    free(encs);
    free(ids);
    free(n_ids);
    return status;
}

double clef_cosine(const float *a, const float *b, int32_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int32_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}
