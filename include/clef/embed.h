/* Embeddings: texts to vectors, by an encoder (or a decoder that was trained for it) and a pooling of its hidden states. */
#ifndef CLEF_EMBED_H
#define CLEF_EMBED_H

#include <stddef.h>
#include <stdint.h>

#include "clef/model.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whether embeddings are divided by their Euclidean norm. */
typedef enum clef_normalize { CLEF_NORMALIZE_MODEL, CLEF_NORMALIZE_NO, CLEF_NORMALIZE_YES } clef_normalize;

typedef struct clef_embed_opts {
    clef_pooling      pooling;   /* CLEF_POOL_NONE: as the model's files say */
    clef_normalize    normalize; /* CLEF_NORMALIZE_MODEL: as the model's files say */
    int32_t           n_batch;   /* most texts of a run; 0: 32 */
    clef_compile_opts compile;   /* its progress is called between runs too: ("embed", texts done, texts) */
} clef_embed_opts;

typedef struct clef_embedder_info {
    int32_t      n_dims;     /* numbers of an embedding */
    int32_t      max_tokens; /* of a text, special tokens counted */
    clef_pooling pooling;
    int32_t      normalize;  /* 0 or 1 */
} clef_embedder_info;

typedef struct clef_embedder clef_embedder;

/** What makes embeddings of a model. dev and model are borrowed and must outlive it. Pooling, normalisation and the longest text come from
 *  a folder's modules.json with 1_Pooling/config.json and sentence_bert_config.json, as sentence-transformers writes them, or from GGUF's
 *  pooling_type (normalised, as llama.cpp does by default). Where nothing is said: the mean, not normalised, as sentence-transformers
 *  takes a plain model; the last token of decoders.
 *  CLEF_E_ARG (an option out of range), CLEF_E_FORMAT and CLEF_E_UNSUPPORTED (another module or pooling, named), CLEF_E_NOMEM. */
CLEF_API clef_status clef_embedder_create(clef_device *dev, clef_model *model, const clef_embed_opts *opts, clef_embedder **out,
                                          clef_error *err);
CLEF_API void        clef_embedder_destroy(clef_embedder *embedder);
CLEF_API clef_embedder_info clef_embedder_describe(const clef_embedder *embedder);

/** Embeddings of n sequences of ids, special tokens and all: out [n, n_dims] f32, row i of ids[i] [n_ids[i]]. They run in batches of equal
 *  lengths, so that nothing is computed for padding; on a CPU each row is to the bit what it is alone.
 *  The first call, and one with a longer sequence than the plan was made for, makes a plan (seconds; memory by its longest).
 *  CLEF_E_ARG (an id outside the vocabulary, an empty sequence), CLEF_E_LIMIT (one beyond max_tokens), statuses of clef_model_build() and
 *  clef_plan_create(), CLEF_E_CANCELLED, CLEF_E_CL. `out` holds nothing of use after an error. */
CLEF_API clef_status clef_embed_ids(clef_embedder *embedder, const int32_t *const *ids, const int32_t *n_ids, int32_t n, float *out,
                                    clef_error *err);

/** UTF-8 that need not end with a NUL. */
typedef struct clef_span {
    const char *text;
    size_t      n_bytes;
} clef_span;

/** The same of n texts, by the model's tokenizer. truncate 1: a text beyond max_tokens loses its end; 0: it is refused with CLEF_E_LIMIT,
 *  which names it by its number, counted from 0. n_tokens: NULL, or set to the tokens of all texts together. Statuses of
 *  clef_tokenizer_encode() and clef_embed_ids(). */
CLEF_API clef_status clef_embed_texts(clef_embedder *embedder, const clef_span *texts, int32_t n, int32_t truncate, float *out,
                                      int64_t *n_tokens, clef_error *err);

/** a b / (|a| |b|) in double; 0 where one of them is 0. */
CLEF_API double clef_cosine(const float *a, const float *b, int32_t n);

#ifdef __cplusplus
}
#endif
#endif
