/* A ranker: pairs of a query and a document through a classifier, or through a decoder whose yes and no
 * count. */
#include "clef/rerank.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/arch.h"
#include "model/open/model.h"
#include "model/tasks/rank_config.h"
#include "model/tasks/sequences.h"

enum { DEFAULT_BATCH = 32, MAX_BATCH = 4096 };

struct clef_ranker {
    clef_model *model;
    clef_ranker_opts opts;
    clef__rank_config config;
    clef_sequence_plan plan;
    int32_t width; /* logits of a pair: 1; or 2, of yes and no */
};

/* ---- what the model is ----------------------------------------------------------------------- */

static clef_status use_classifier(clef_ranker *r, clef_error *err)
{
    return r->width == 1 || (r->width == 2 && r->config.info.question.text)
               ? CLEF_OK
               : clef__fail(err, CLEF_E_UNSUPPORTED,
                            "%s: expected a classifier of one label, got %" PRId32
                            " labels (clef classify gives their probabilities)",
                            clef_model_path(r->model), r->width);
}

/* A decoder without a classifier: the logits of the tokens "yes" and "no" after the question. */
static clef_status use_decoder(clef_ranker *r, clef_error *err)
{
    clef__rank_config *c = &r->config;
    const clef_tokenizer *tok = clef_model_tokenizer(r->model, err);
    if (!tok)
        return err ? err->status : CLEF_E_NOT_FOUND;
    const int32_t yes = c->yes >= 0 ? c->yes : clef_tokenizer_find(tok, "yes"),
                  no = c->no >= 0 ? c->no : clef_tokenizer_find(tok, "no");
    if (yes < 0 || no < 0 || yes == no)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: expected the tokens \"yes\" and \"no\", the vocabulary does not have \"%s\"",
                          clef_model_path(r->model), yes < 0 ? "yes" : "no");
    c->info.is_assumed = !c->info.question.text || c->info.is_assumed;
    if (!c->info.question.text)
        c->info.question = clef__qwen3_question;
    c->info.is_bounded = 1;
    r->plan.build.classify = 0;
    r->plan.columns[0] = yes;
    r->plan.columns[1] = no;
    r->width = 2;
    return CLEF_OK;
}

static clef_status set_up(clef_ranker *r, clef_error *err)
{
    const clef_hparams *hp = clef_model_hparams(r->model);
    const clef_arch *arch = clef__arch_find(hp->arch, r->model->is_gguf);
    clef_error why = {0};
    if (arch->kind == CLEF_SEQ2SEQ)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %s is an encoder-decoder, which ranks nothing",
                          clef_model_path(r->model), hp->arch);
    if (r->opts.n_batch < 0 || r->opts.n_batch > MAX_BATCH)
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " pairs a run, expected 1 to %d", r->opts.n_batch,
                          MAX_BATCH);
    clef_status status = clef__rank_config_read(r->model, &r->config, err);
    if (status != CLEF_OK)
        return status;
    status = clef__sequence_plan_width(&r->plan, &r->width, &why);
    if (status == CLEF_OK)
        status = use_classifier(r, err);
    else if (status == CLEF_E_NOT_FOUND && arch->kind == CLEF_DECODER)
        status = use_decoder(r, err);
    else if (err)
        *err = why;
    r->plan.max_tokens = r->config.info.max_tokens;
    return status;
}

clef_status clef_ranker_create(clef_device *dev, clef_model *model, const clef_ranker_opts *opts,
                               clef_ranker **out, clef_error *err)
{
    *out = NULL;
    clef_ranker *r = calloc(1, sizeof *r);
    if (!r)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a ranker");
    *r = (clef_ranker){.model = model, .opts = opts ? *opts : (clef_ranker_opts){0}};
    r->plan = (clef_sequence_plan){
        .dev = dev,
        .model = model,
        .build = {.classify = 1, .token_types = clef_model_hparams(model)->n_token_types > 1},
        .opts = {.compile = r->opts.compile},
        .n_batch = r->opts.n_batch ? r->opts.n_batch : DEFAULT_BATCH,
    };
    const clef_status status = set_up(r, err);
    if (status == CLEF_OK)
        *out = r;
    else
        clef_ranker_destroy(r);
    return status;
}

void clef_ranker_destroy(clef_ranker *r)
{
    if (!r)
        return;
    clef__sequence_plan_finish(&r->plan);
    free(r);
}

const clef_plan *clef_ranker_plan(const clef_ranker *r)
{
    return r->plan.plan;
}

clef_ranker_info clef_ranker_describe(const clef_ranker *r)
{
    return r->config.info;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* The question with both texts in it, and where they are. */
typedef struct question {
    char *text;
    size_t n, n_head; /* n_head: up to the document's end */
    clef_byte_span spans[2];
} question;

static void add(question *q, const char *text, size_t n)
{
    if (n)
        memcpy(q->text + q->n, text, n);
    q->n += n;
}

/* Replaces {query} and {document}, in whichever order they are. */
static clef_status ask(const clef_ranker_info *info, clef_span query, clef_span document, question *q,
                       clef_error *err)
{
    static const char *const words[] = {"{query}", "{document}"};
    const clef_span texts[] = {query, document};
    const char *at[] = {clef__find_in(info->question, words[0]), clef__find_in(info->question, words[1])},
               *from = info->question.text, *end = from + info->question.n_bytes;
    *q = (question){.text = malloc(info->question.n_bytes + query.n_bytes + document.n_bytes + 1)};
    if (!q->text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a document of %zu bytes", document.n_bytes);
    const int first = at[1] < at[0];
    for (int i = 0; i < 2; i++) {
        const int k = i ? 1 - first : first;
        add(q, from, (size_t)(at[k] - from));
        q->spans[i].begin = q->n;
        add(q, texts[k].text, texts[k].n_bytes);
        q->spans[i].end = q->n;
        q->n_head = k == 1 ? q->n : q->n_head;
        from = at[k] + strlen(words[k]);
    }
    add(q, from, (size_t)(end - from));
    return CLEF_OK;
}

static clef_status encode_part(const clef_tokenizer *tok, const question *q, size_t begin, size_t end,
                               int32_t **ids, int32_t *n, clef_error *err)
{
    clef_byte_span spans[2];
    size_t n_spans = 0;
    for (int i = 0; i < 2; i++)
        if (q->spans[i].begin >= begin && q->spans[i].end <= end)
            spans[n_spans++] = (clef_byte_span){q->spans[i].begin - begin, q->spans[i].end - begin};
    return clef_tokenizer_encode_plain(tok, q->text + begin, end - begin, spans, n_spans, ids, n, err);
}

/* Cuts tokens at the end of what is before the document's end, and adds what is behind it. */
static clef_status cut_question(const clef_tokenizer *tok, const question *q, int32_t most, clef_encoded *out,
                                clef_error *err)
{
    int32_t *head = NULL, *tail = NULL, n_head = 0, n_tail = 0;
    clef_status status = encode_part(tok, q, 0, q->n_head, &head, &n_head, err);
    if (status == CLEF_OK)
        status = encode_part(tok, q, q->n_head, q->n, &tail, &n_tail, err);
    if (status == CLEF_OK && n_tail >= most)
        status = clef__fail(err, CLEF_E_LIMIT,
                            "the question alone has %" PRId32 " tokens, expected less than %" PRId32, n_tail,
                            most);
    if (status == CLEF_OK) {
        const int32_t n_kept = n_head < most - n_tail ? n_head : most - n_tail;
        out->n_cut = n_head - n_kept;
        out->n = n_kept + n_tail; /* fewer than the whole question has, so that they fit */
        memcpy(out->ids, head, (size_t)n_kept * sizeof *head);
        if (n_tail)
            memcpy(out->ids + n_kept, tail, (size_t)n_tail * sizeof *tail);
    }
    clef_tokens_free(head);
    clef_tokens_free(tail);
    return status;
}

static clef_status encode_question(const clef_tokenizer *tok, const clef_ranker_info *info, clef_span query,
                                   clef_span document, int32_t truncate, clef_encoded *out, clef_error *err)
{
    question q;
    int32_t *ids = NULL;
    clef_status status = ask(info, query, document, &q, err);
    if (status == CLEF_OK)
        status = encode_part(tok, &q, 0, q.n, &ids, &out->n, err);
    if (status == CLEF_OK) {
        out->ids = malloc(((size_t)out->n + 1) * sizeof *out->ids);
        out->types = calloc((size_t)out->n + 1, sizeof *out->types);
        if (!out->ids || !out->types)
            status = clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " tokens", out->n);
        else if (out->n)
            memcpy(out->ids, ids, (size_t)out->n * sizeof *ids);
    }
    if (status == CLEF_OK && truncate && out->n > info->max_tokens)
        status = cut_question(tok, &q, info->max_tokens, out, err);
    clef_tokens_free(ids);
    free(q.text);
    return status;
}

clef_status clef_rank_encode(const clef_tokenizer *tok, const clef_ranker_info *info, clef_span query,
                             clef_span document, int32_t truncate, clef_encoded *out, clef_error *err)
{
    const clef_encode_opts opts = {.special = CLEF_SPECIAL_ADD,
                                   .max_tokens = truncate ? info->max_tokens : 0};
    clef_encoded_finish(out);
    *out = (clef_encoded){0};
    clef_status status = info->question.text ? encode_question(tok, info, query, document, truncate, out, err)
                                             : clef_tokenizer_encode_pair(tok, query.text, query.n_bytes,
                                                                          document.text ? document.text : "",
                                                                          document.n_bytes, &opts, out, err);
    if (status == CLEF_OK && out->n > info->max_tokens)
        status =
            clef__fail(err, CLEF_E_LIMIT,
                       "a query and a document have %" PRId32 " tokens, the model accepts at most %" PRId32,
                       out->n, info->max_tokens);
    return status;
}

/* ---- scores ---------------------------------------------------------------------------------- */

static float score_of(const clef_ranker *r, const float *row)
{
    const double x = r->width == 1 ? (double)row[0] : (double)row[0] - (double)row[1]; /* yes, no */
    return (float)(r->config.info.is_bounded && !r->opts.raw ? 1 / (1 + exp(-x)) : x);
}

clef_status clef_rank_ids(clef_ranker *r, const int32_t *const *ids, const int32_t *const *types,
                          const int32_t *n_ids, int32_t n, float *scores, clef_error *err)
{
    const clef__sequences s = {.ids = ids, .types = types, .n_ids = n_ids, .n = n};
    const size_t width = (size_t)r->width;
    float *rows = n > 0 ? malloc((size_t)n * width * sizeof *rows) : NULL;
    if (n > 0 && !rows)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the logits of %" PRId32 " pairs", n);
    const clef_status status = clef__sequences_run(&r->plan, &s, "score", width, rows, err);
    for (int32_t i = 0; status == CLEF_OK && i < n; i++)
        scores[i] = score_of(r, rows + (size_t)i * width);
    free(rows);
    return status;
}

clef_status clef_rerank(clef_ranker *r, clef_span query, const clef_span *documents, int32_t n,
                        int32_t truncate, float *scores, clef_rank_stats *stats, clef_error *err)
{
    clef_rank_stats sums = {0};
    const clef_tokenizer *tok = clef_model_tokenizer(r->model, err);
    if (!tok)
        return err ? err->status : CLEF_E_NOT_FOUND;
    if (n < 0)
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " documents, expected 0 or more", n);
    clef_encoded *encs = calloc((size_t)n + 1, sizeof *encs);
    const int32_t **ids = malloc(((size_t)n + 1) * sizeof *ids),
                  **types = malloc(((size_t)n + 1) * sizeof *types);
    int32_t *n_ids = malloc(((size_t)n + 1) * sizeof *n_ids);
    clef_status status = encs && ids && types && n_ids
                             ? CLEF_OK
                             : clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " documents", n);
    for (int32_t i = 0; status == CLEF_OK && i < n; i++) {
        clef_error why = {0};
        status = clef_rank_encode(tok, &r->config.info, query, documents[i], truncate, &encs[i], &why);
        if (status)
            clef__fail(err, status, "document %" PRId32 ": %s", i, why.text);
        ids[i] = encs[i].ids;
        types[i] = encs[i].types;
        n_ids[i] = encs[i].n;
        sums.n_tokens += encs[i].n;
        sums.n_cut += encs[i].n_cut > 0;
    }
    if (status == CLEF_OK)
        status = clef_rank_ids(r, ids, types, n_ids, n, scores, err);
    if (stats)
        *stats = sums;
    for (int32_t i = 0; encs && i < n; i++)
        clef_encoded_finish(&encs[i]);
    free(encs);
    free(ids);
    free(types);
    free(n_ids);
    return status;
}

static int by_score(const void *a, const void *b)
{
    const clef_ranked *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1)
                                : (x->index > y->index) - (x->index < y->index);
}

void clef_rank_sort(const float *scores, int32_t n, clef_ranked *out)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = (clef_ranked){scores[i], i};
    if (n > 0)
        qsort(out, (size_t)n, sizeof *out, by_score);
}
