/* Embeddings: turns texts into vectors by pooling the hidden states of an encoder, or of a decoder trained
 * for it. */
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
    int32_t           no_prompt; /* 1: texts as they are, without the prompt of the model's files */
    clef_compile_opts compile;   /* its progress is called between runs too: ("embedding", done, texts) */
} clef_embed_opts;

typedef struct clef_embedder_info {
    int32_t      n_dims;     /* dimensions of an embedding */
    int32_t      max_tokens; /* of a text, with special tokens */
    clef_pooling pooling;
    int32_t      normalize;  /* 0 or 1 */
    const char  *prompt;     /* what clef_embed_texts() puts before each text; NULL: nothing. Borrowed from
                                the model */
    const char  *similarity; /* how the model's vectors are meant to be compared: "cosine", "dot",
                                "euclidean", "manhattan". Borrowed from the model */
} clef_embedder_info;

typedef struct clef_embedder clef_embedder;

/** Makes an embedder. dev and model are borrowed and must outlive it. Pooling, normalisation and the longest
 *  text come from modules.json, 1_Pooling/config.json and sentence_bert_config.json of a folder, as
 *  sentence-transformers writes them (the longest text else from tokenizer_config.json), the prompt from
 *  default_prompt_name of config_sentence_transformers.json, or from pooling_type of a GGUF file
 *  (normalised, as in llama.cpp). Without these, the embedding is the mean, not normalised, as in
 *  sentence-transformers; for decoders the last token. CLEF_E_ARG (an option out of range), CLEF_E_FORMAT
 *  and CLEF_E_UNSUPPORTED (another module or pooling, which is named), CLEF_E_NOMEM. */
CLEF_API clef_status clef_embedder_create(clef_device *dev, clef_model *model, const clef_embed_opts *opts,
                                          clef_embedder **out, clef_error *err);
CLEF_API void        clef_embedder_destroy(clef_embedder *embedder);
CLEF_API clef_embedder_info clef_embedder_describe(const clef_embedder *embedder);

/** Embeds n sequences of ids, with their special tokens: out [n, n_dims] f32, row i for ids[i] [n_ids[i]].
 *  Sequences of equal length run in one batch, so that nothing is computed for padding. On a CPU each row is
 *  bit-identical to the row of a sequence that runs alone. The first call, and a call with a longer sequence
 *  than before, makes a plan, which takes seconds and memory for the longest sequence. CLEF_E_ARG (an id
 *  outside the vocabulary, an empty sequence), CLEF_E_LIMIT (a sequence beyond max_tokens), statuses of
 *  clef_model_build() and clef_plan_create(), CLEF_E_CANCELLED, CLEF_E_NOT_FINITE, CLEF_E_CL. After an error
 *  the contents of `out` are undefined. */
CLEF_API clef_status clef_embed_ids(clef_embedder *embedder, const int32_t *const *ids, const int32_t *n_ids,
                                    int32_t n, float *out, clef_error *err);

/** UTF-8 that need not end with a NUL. */
typedef struct clef_span {
    const char *text;
    size_t      n_bytes;
} clef_span;

/** Embeds n texts with the model's tokenizer. truncate: 1 cuts the end of a text beyond max_tokens; 0 refuses
 *  it with CLEF_E_LIMIT, and the error names it by its index. n_tokens: NULL, or set to the number of tokens
 *  of all texts. Statuses of clef_tokenizer_encode() and clef_embed_ids(). */
CLEF_API clef_status clef_embed_texts(clef_embedder *embedder, const clef_span *texts, int32_t n,
                                      int32_t truncate, float *out, int64_t *n_tokens, clef_error *err);

/** a b / (|a| |b|), computed in double; 0 if one of them is 0. */
CLEF_API double clef_cosine(const float *a, const float *b, int32_t n);

#ifdef __cplusplus
}
#endif
#endif
