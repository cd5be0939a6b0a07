/* /v1/rerank, in the forms of Jina and Cohere (`documents`) and of Hugging Face's text-embeddings-inference
 * (`texts`). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/keys.h"
#include "tools/serve/lane.h"
#include "tools/serve/rows.h"

/* Each document is tokenised with the query; of queries there are at most so many MiB. */
enum { MOST_DOCUMENTS = 2048, MOST_QUERIES = 64 };

/* The text of a document, which is a string or an object with one; NULL for another value. */
static const json_t *text_of(const json_t *document)
{
    const json_t *text = json_is_object(document) ? json_object_get(document, "text") : document;
    return json_is_string(text) ? text : NULL;
}

static int read_document(serve_rows *w, const clef_ranker_info *info, int32_t i, const json_t *document)
{
    char path[128];
    clef_encoded pair = {0};
    clef_error err = {0};
    const json_t *text = text_of(document), *query = w->p.query;
    serve_path(path, "%s[%d]", w->p.texts ? "texts" : "documents", (int)i);
    if (!text)
        return serve_rows_bad(w->r, path, document, "a string, or an object with a text");
    const clef_status status = clef_rank_encode(
        w->r->m->tok, info, (clef_span){json_string_value(query), json_string_length(query)},
        (clef_span){json_string_value(text), json_string_length(text)}, w->p.truncate, &pair, &err);
    if (status != CLEF_OK) {
        w->r->error.n_prompt = pair.n;
        w->r->error.n_ctx = info->max_tokens;
        w->r->error.max_tokens = -1;
        clef_encoded_finish(&pair);
        return serve_fail_status(&w->r->error, &err,
                                 status == CLEF_E_LIMIT ? SERVE_E_CONTEXT : SERVE_E_INVALID_VALUE, path);
    }
    w->n_cut += pair.n_cut > 0;
    w->ids[i] = pair.ids;
    w->types[i] = pair.types;
    w->n_ids[i] = pair.n;
    return serve_rows_check(w, i, path);
}

static int read_documents(serve_rows *w, const clef_ranker_info *info)
{
    const serve_model *m = w->r->m;
    const json_t *list = w->p.texts ? w->p.texts : w->p.documents;
    const char *name = w->p.texts ? "texts" : "documents";
    const size_t n = json_array_size(list);
    if (w->p.model && serve_model_find(m, &w->r->s->o, w->p.model) < 0)
        return serve_fail(&w->r->error, SERVE_E_MODEL, "model",
                          "model: '%.100s' is not here; this server has '%s'", w->p.model, m->id);
    if (!json_is_string(w->p.query) || !json_string_length(w->p.query))
        return serve_rows_bad(w->r, "query", w->p.query, "a text that is not empty");
    if (!list || (w->p.texts && w->p.documents))
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, "documents", "expected documents, or texts");
    if (!json_is_array(list))
        return serve_rows_bad(w->r, name, list, "a list");
    if (n < 1 || n > MOST_DOCUMENTS)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, name, "%s: expected 1 to %d, got %zu", name,
                          MOST_DOCUMENTS, n);
    if (json_string_length(w->p.query) > ((size_t)MOST_QUERIES << 20) / n)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, "query",
                          "query: expected at most %d MiB for all documents together, got %zu x %zu bytes",
                          MOST_QUERIES, n, json_string_length(w->p.query));
    if (!serve_rows_room(w, n))
        return 0;
    for (int32_t i = 0; i < w->n; i++)
        if (!read_document(w, info, i, json_array_get(list, (size_t)i)))
            return 0;
    return 1;
}

/* From the body to the ids. The documents stay where the reply has them. */
static void prepare(void *user)
{
    serve_rows *w = user;
    serve_request *r = w->r;
    const serve_engine_stats s = serve_engine_describe(r->engine);
    w->are_pairs = 1;
    w->max_tokens = s.ranking.max_tokens;
    w->is_ready =
        serve_params_read(r, SERVE_FORM_RANK, &w->p) &&
        (s.ranks || serve_fail(&r->error, SERVE_E_UNSUPPORTED, "model",
                               "this model is not for rankings; --rerank asks a decoder all the same")) &&
        read_documents(w, &s.ranking) && serve_hold(r, (size_t)w->n_tokens * 2 * sizeof(int32_t));
}

/* ---- the reply ------------------------------------------------------------------------------- */

static json_t *result_of(const serve_rows *w, const clef_ranked *one, int is_bounded)
{
    const char *score = w->p.texts ? "score" : "relevance_score";
    const double x = (double)one->score;
    json_t *o = json_pack("{s:i, s:f}", "index", (int)one->index, score, is_bounded ? 1 / (1 + exp(-x)) : x);
    const json_t *list = w->p.texts ? w->p.texts : w->p.documents,
                 *text = text_of(json_array_get(list, (size_t)one->index));
    if (w->p.return_documents && w->p.texts)
        json_object_set(o, "text", (json_t *)(uintptr_t)text);
    else if (w->p.return_documents)
        json_object_set_new(o, "document", json_pack("{s:O}", "text", text));
    return o;
}

/* Cohere's, with a warning where documents were cut. */
static json_t *meta_of(const serve_rows *w)
{
    char text[96];
    json_t *meta = json_pack("{s:{s:s}}", "api_version", "version", "2");
    snprintf(text, sizeof text, "%d of %d documents were cut to %d tokens", (int)w->n_cut, (int)w->n,
             (int)w->max_tokens);
    if (w->n_cut)
        json_object_set_new(meta, "warnings", json_pack("[s]", text));
    return meta;
}

/* The best documents; NULL: no memory. */
static json_t *results_of(const serve_rows *w)
{
    const int is_bounded = serve_engine_describe(w->r->engine).ranking.is_bounded && !w->p.raw_scores;
    const int32_t n = w->p.top_n > 0 && w->p.top_n < w->n ? w->p.top_n : w->n;
    float *scores = malloc((size_t)w->n * sizeof *scores); /* by document */
    clef_ranked *all = malloc((size_t)w->n * sizeof *all);
    json_t *results = scores && all ? json_array() : NULL;
    for (int32_t k = 0; results && k < w->n; k++)
        scores[w->order[k]] = w->run.out[k];
    if (results)
        clef_rank_sort(scores, w->n, all);
    for (int32_t i = 0; results && i < n; i++)
        json_array_append_new(results, result_of(w, &all[i], is_bounded));
    free(scores);
    free(all);
    return results;
}

static void reply(serve_rows *w)
{
    const serve_model *m = w->r->m;
    char id[40] = "rerank-";
    json_t *results = results_of(w);
    if (!results || w->p.texts) {
        serve_rows_reply(w, results); /* NULL is an error */
        return;
    }
    serve_random_letters(id + strlen(id), 24);
    serve_rows_reply(w,
                     json_pack("{s:s, s:s, s:s, s:{s:I, s:I}, s:o, s:o}", "id", id, "object", "list", "model",
                               m->id, "usage", "prompt_tokens", (json_int_t)w->n_tokens, "total_tokens",
                               (json_int_t)w->n_tokens, "results", results, "meta", meta_of(w)));
}

void serve_answer_rerank(serve_request *r)
{
    serve_rows *w = serve_rows_new(r);
    if (!w)
        return;
    if (serve_prepare(r, prepare, w) && w->is_ready && serve_rows_compute(w, 1))
        reply(w);
    serve_rows_free(w);
}
