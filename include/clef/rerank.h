/* Ranking: how well documents answer a query, by a cross-encoder or by a decoder that answers yes or no. */
#ifndef CLEF_RERANK_H
#define CLEF_RERANK_H

#include <stddef.h>
#include <stdint.h>

#include "clef/embed.h"
#include "clef/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_ranker_opts {
    int32_t           n_batch; /* most pairs of a run; 0: 32 */
    int32_t           raw;     /* 1: scores are the model's logits, not brought to 0 .. 1 */
    clef_compile_opts compile; /* its progress is called between runs too: ("score", pairs done, pairs) */
} clef_ranker_opts;

/** What a model's files say of its rankings. The texts are borrowed from the model. */
typedef struct clef_ranker_info {
    int32_t     max_tokens; /* of a pair, with special tokens */
    int32_t     is_bounded; /* 1: scores are from 0 to 1, unless `raw` is set */
    clef_span   question;   /* {0}: the model reads pairs; else the text in which {query} and {document} are
                               replaced, and which a decoder answers by yes or no */
    int32_t     is_assumed; /* 1: the files say nothing of rankings; the question is Qwen3-Reranker's */
} clef_ranker_info;

typedef struct clef_ranker clef_ranker;

/** 1 if a model's files are for rankings: a classifier of texts with one label, or what they say themselves.
 *  Any other decoder ranks only by the question of Qwen3-Reranker. */
CLEF_API int32_t clef_model_is_ranker(const clef_model *model);

/** Makes a ranker. dev and model are borrowed and must outlive it. What it can use:
 *  - a ...ForSequenceClassification model with one label l: the score is 1 / (1 + exp(-l)), or l where the
 *    files of sentence-transformers name torch's Identity as activation;
 *  - a GGUF file with llama.cpp's labels yes and no: exp(yes) / (exp(yes) + exp(no));
 *  - another decoder: the same of the logits of the tokens yes and no
 *    (huggingface.co/Qwen/Qwen3-Reranker-0.6B). CLEF_E_UNSUPPORTED (several labels; an encoder-decoder; a
 *    module or an activation that is not known), CLEF_E_NOT_FOUND (an encoder without classifier),
 *    CLEF_E_ARG, CLEF_E_FORMAT, CLEF_E_NOMEM. */
CLEF_API clef_status clef_ranker_create(clef_device *dev, clef_model *model, const clef_ranker_opts *opts,
                                        clef_ranker **out, clef_error *err);
CLEF_API void        clef_ranker_destroy(clef_ranker *ranker);
CLEF_API clef_ranker_info clef_ranker_describe(const clef_ranker *ranker);
/** Its plan, until a longer pair needs another one; NULL before the first pair. Borrowed. */
CLEF_API const clef_plan *clef_ranker_plan(const clef_ranker *ranker);

/** Encodes a query and a document, with special tokens. truncate: 1 cuts what is beyond max_tokens, of a
 *  pair as sentence-transformers does (the longer text first), of a question at the document's end;
 *  out->n_cut tells how many tokens. 0: CLEF_E_LIMIT. Overwrites *out. Statuses of
 *  clef_tokenizer_encode_pair(). */
CLEF_API clef_status clef_rank_encode(const clef_tokenizer *tok, const clef_ranker_info *info,
                                      clef_span query, clef_span document, int32_t truncate,
                                      clef_encoded *out, clef_error *err);

/** Scores n encoded pairs, scores [n] f32. Pairs of equal length run in one batch, so that nothing is
 *  computed for padding; on a CPU each score is bit-identical to that of a pair that runs alone. Errors as
 *  of clef_embed_ids(). */
CLEF_API clef_status clef_rank_ids(clef_ranker *ranker, const int32_t *const *ids,
                                   const int32_t *const *types, const int32_t *n_ids, int32_t n,
                                   float *scores, clef_error *err);

typedef struct clef_rank_stats {
    int64_t n_tokens; /* of all pairs */
    int32_t n_cut;    /* pairs that were cut */
} clef_rank_stats;
/** Scores n documents for a query: scores [n] f32. stats: NULL, or set. Statuses of clef_rank_encode() (the
 *  error names the document) and clef_rank_ids(). */
CLEF_API clef_status clef_rerank(clef_ranker *ranker, clef_span query, const clef_span *documents, int32_t n,
                                 int32_t truncate, float *scores, clef_rank_stats *stats, clef_error *err);

typedef struct clef_ranked {
    float   score;
    int32_t index; /* of the document */
} clef_ranked;
/** n scores with their indices, out [n], the best first; of equal scores the lower index. */
CLEF_API void clef_rank_sort(const float *scores, int32_t n, clef_ranked *out);

#ifdef __cplusplus
}
#endif
#endif
