/* An embedder: batches of texts of equal length through a plan that ends in a pooling. */
#include "model/open/model.h"
#include "model/tasks/embed_config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/tasks/sequences.h"

enum { DEFAULT_BATCH = 32, MAX_BATCH = 4096 };

struct clef_embedder {
    clef_model *model;
    clef_embed_opts opts;
    clef_embedder_info info;
    clef_sequence_plan plan, tokens[2]; /* tokens: by clef_token_head - 1 */
};

/* Sets what the plan is made of; the first text decides its length. */
static void set_plan(clef_embedder *e, clef_device *dev)
{
    e->plan = (clef_sequence_plan){
        .dev = dev,
        .model = e->model,
        .build = {.pooling = e->info.pooling, .n_dims = e->info.n_dims, .normalize = e->info.normalize},
        .opts = {.compile = e->opts.compile},
        .n_batch = e->opts.n_batch,
        .max_tokens = e->info.max_tokens,
    };
    for (int i = 0; i < 2; i++) {
        e->tokens[i] = e->plan;
        e->tokens[i].build = (clef_build_opts){.token_head = (clef_token_head)(CLEF_TOKENS_SPARSE + i)};
        e->tokens[i].n_batch = 1;
    }
}

clef_status clef_embedder_create(clef_device *dev, clef_model *model, const clef_embed_opts *opts,
                                 clef_embedder **out, clef_error *err)
{
    *out = NULL;
    clef_embedder *e = calloc(1, sizeof *e);
    if (!e)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an embedder");
    *e = (clef_embedder){.model = model, .opts = opts ? *opts : (clef_embed_opts){0}};
    clef_status status = clef__embed_config(model, &e->opts, &e->info, err);
    e->opts.prompt_name = NULL; /* it was borrowed */
    if (!e->opts.n_batch)
        e->opts.n_batch = DEFAULT_BATCH;
    if (status == CLEF_OK && (e->opts.n_batch < 1 || e->opts.n_batch > MAX_BATCH))
        status = clef__fail(err, CLEF_E_ARG, "%" PRId32 " texts a run, expected 1 to %d", e->opts.n_batch,
                            MAX_BATCH);
    if (status == CLEF_OK && (e->opts.pooling < CLEF_POOL_NONE || e->opts.pooling > CLEF_POOL_LAST))
        status = clef__fail(err, CLEF_E_ARG, "pooling %d, expected a clef_pooling", (int)e->opts.pooling);
    if (status == CLEF_OK && (e->opts.n_dims < 0 || e->opts.n_dims > e->info.n_dims))
        status = clef__fail(err, CLEF_E_ARG, "%s: %" PRId32 " dimensions, expected 1 to %" PRId32,
                            clef_model_path(model), e->opts.n_dims, e->info.n_dims);
    if (status != CLEF_OK) {
        free(e);
        return status;
    }
    if (e->opts.n_dims)
        e->info.n_dims = e->opts.n_dims;
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
    for (int i = 0; i < 2; i++)
        clef__sequence_plan_finish(&e->tokens[i]);
    free(e);
}

const clef_plan *clef_embedder_plan(const clef_embedder *e)
{
    return e->plan.plan;
}

clef_embedder_info clef_embedder_describe(const clef_embedder *e)
{
    return e->info;
}

clef_status clef_embed_ids(clef_embedder *e, const int32_t *const *ids, const int32_t *n_ids, int32_t n,
                           float *out, clef_error *err)
{
    const clef__sequences s = {.ids = ids, .n_ids = n_ids, .n = n};
    return clef__sequences_run(&e->plan, &s, "embedding", (size_t)e->info.n_dims, out, err);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* One sequence: out [n, width]. */
static clef_status run_tokens(clef_embedder *e, clef_token_head head, const int32_t *ids, int32_t n,
                              int32_t width, float *out, clef_error *err)
{
    clef_sequence_plan *plan = &e->tokens[head - CLEF_TOKENS_SPARSE];
    const clef__sequences s = {.ids = &ids, .n_ids = &n, .n = 1};
    return clef__sequences_run(plan, &s, "tokens", (size_t)n * (size_t)width, out, err);
}

static clef_status open_head(clef_embedder *e, clef_token_head head, int32_t n, clef_error *err)
{
    if (n < 1)
        return clef__fail(err, CLEF_E_ARG, "a text without tokens");
    return clef__token_head_open(e->model, head, err);
}

clef_status clef_embed_multi_dims(clef_embedder *e, int32_t *n_dims, clef_error *err)
{
    const clef_status status = open_head(e, CLEF_TOKENS_MULTI, 1, err);
    *n_dims = e->model->token_heads[1].n_out;
    return status;
}

clef_status clef_embed_multi(clef_embedder *e, const int32_t *ids, int32_t n, float *out, clef_error *err)
{
    clef_status status = open_head(e, CLEF_TOKENS_MULTI, n, err);
    const int32_t d = e->model->token_heads[1].n_out;
    float *all = status == CLEF_OK ? malloc((size_t)n * (size_t)d * sizeof *all) : NULL;
    if (status == CLEF_OK && !all)
        status = clef__fail(err, CLEF_E_NOMEM, "no memory for the vectors of %" PRId32 " tokens", n);
    if (status == CLEF_OK)
        status = run_tokens(e, CLEF_TOKENS_MULTI, ids, n, d, all, err);
    if (status == CLEF_OK)
        memcpy(out, all + d, (size_t)(n - 1) * (size_t)d * sizeof *out);
    free(all);
    return status;
}

/* Those that FlagEmbedding leaves out. */
static int is_unweighed(const clef_tokenizer *tok, int32_t id)
{
    static const clef_token_role roles[] = {CLEF_ROLE_CLS, CLEF_ROLE_BOS, CLEF_ROLE_EOS,
                                            CLEF_ROLE_SEP, CLEF_ROLE_PAD, CLEF_ROLE_UNK};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (clef_tokenizer_role(tok, roles[i]) == id)
            return 1;
    return 0;
}

static void add_weight(clef_token_weight *out, int32_t *n, int32_t id, float weight)
{
    int32_t i = 0;
    while (i < *n && out[i].id != id)
        i++;
    if (i == *n)
        out[(*n)++] = (clef_token_weight){id, weight};
    else if (weight > out[i].weight)
        out[i].weight = weight;
}

clef_status clef_embed_sparse(clef_embedder *e, const int32_t *ids, int32_t n, clef_token_weight *out,
                              int32_t *n_out, clef_error *err)
{
    *n_out = 0;
    clef_status status = open_head(e, CLEF_TOKENS_SPARSE, n, err);
    const clef_tokenizer *tok = status == CLEF_OK ? clef_model_tokenizer(e->model, err) : NULL;
    if (status == CLEF_OK && !tok)
        return err ? err->status : CLEF_E_NOT_FOUND;
    float *weights = status == CLEF_OK ? malloc((size_t)n * sizeof *weights) : NULL;
    if (status == CLEF_OK && !weights)
        status = clef__fail(err, CLEF_E_NOMEM, "no memory for the weights of %" PRId32 " tokens", n);
    if (status == CLEF_OK)
        status = run_tokens(e, CLEF_TOKENS_SPARSE, ids, n, 1, weights, err);
    for (int32_t i = 0; status == CLEF_OK && i < n; i++)
        if (weights[i] > 0 && !is_unweighed(tok, ids[i]))
            add_weight(out, n_out, ids[i], weights[i]);
    free(weights);
    return status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Fills the ids up to the model's length, in families that were trained so. */
static clef_status pad_ids(const clef_embedder *e, clef_encoded *enc, clef_error *err)
{
    const clef_hparams *hp = clef_model_hparams(e->model);
    const int32_t n = e->info.max_tokens;
    if (!hp->pads_texts || enc->n >= n)
        return CLEF_OK;
    int32_t *ids = realloc(enc->ids, (size_t)n * sizeof *ids);
    enc->ids = ids ? ids : enc->ids;
    int32_t *types = ids ? realloc(enc->types, (size_t)n * sizeof *types) : NULL;
    enc->types = types ? types : enc->types;
    if (!types)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " tokens", n);
    for (; enc->n < n; enc->n++) {
        ids[enc->n] = hp->pad;
        types[enc->n] = 0;
    }
    return CLEF_OK;
}

/* Encodes a text, with the prompt before it. */
static clef_status encode_whole(const clef_embedder *e, const clef_tokenizer *tok, const clef_span *text,
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

static clef_status encode_text(const clef_embedder *e, const clef_tokenizer *tok, const clef_span *text,
                               int32_t truncate, clef_encoded *out, clef_error *err)
{
    const clef_status status = encode_whole(e, tok, text, truncate, out, err);
    return status == CLEF_OK ? pad_ids(e, out, err) : status;
}

clef_status clef_embed_encode(clef_embedder *e, clef_span text, int32_t truncate, clef_encoded *out,
                              clef_error *err)
{
    const clef_tokenizer *tok = clef_model_tokenizer(e->model, err);
    *out = (clef_encoded){0};
    return tok ? encode_text(e, tok, &text, truncate, out, err) : err ? err->status : CLEF_E_NOT_FOUND;
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
