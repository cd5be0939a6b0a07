/* Embeddings: turns texts into vectors by pooling the hidden states of an encoder, or of a decoder trained
 * for it. */
#ifndef CLEF_EMBED_H
#define CLEF_EMBED_H

#include <stddef.h>
#include <stdint.h>

#include "clef/model.h"
#include "clef/plan.h"
#include "clef/tokenizer.h"

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
    const char       *prompt_name; /* NULL: default_prompt_name of the model's files; else another of their
                                      prompts. Borrowed for the call */
    int32_t           n_dims;    /* 0: all; else the first n_dims of each vector, which then get length 1 if
                                    they are normalised (Matryoshka embeddings, arXiv:2205.13147) */
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

/** Makes an embedder. dev and model are borrowed and must outlive it. Pooling, dense layers, normalisation
 *  and the longest text come from modules.json, the folders that it names and sentence_bert_config.json of
 *  a folder, as sentence-transformers writes them (the longest text else from tokenizer_config.json), the
 *  prompt from config_sentence_transformers.json; or from pooling_type and the tensors dense_2, dense_3 ...
 *  of a GGUF file (normalised, as in llama.cpp). Without these, the embedding is the mean, not
 *  normalised, as in sentence-transformers; for decoders the last token. CLEF_E_ARG (an option out of
 *  range), CLEF_E_FORMAT, CLEF_E_SHAPE, CLEF_E_NOT_FOUND (a prompt, which is named with those there are; a
 *  module's file), CLEF_E_UNSUPPORTED (another module or pooling, which is named), CLEF_E_NOMEM. */
CLEF_API clef_status clef_embedder_create(clef_device *dev, clef_model *model, const clef_embed_opts *opts,
                                          clef_embedder **out, clef_error *err);
CLEF_API void        clef_embedder_destroy(clef_embedder *embedder);
CLEF_API clef_embedder_info clef_embedder_describe(const clef_embedder *embedder);
/** Its plan, until a longer text needs another one; NULL before the first text. Borrowed. */
CLEF_API const clef_plan *clef_embedder_plan(const clef_embedder *embedder);

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

/** The ids of a text as clef_embed_texts() takes it, with prompt and special tokens. Overwrites *out.
 *  Statuses of clef_tokenizer_encode(). */
CLEF_API clef_status clef_embed_encode(clef_embedder *embedder, clef_span text, int32_t truncate,
                                       clef_encoded *out, clef_error *err);

/** How much a token of the vocabulary counts in a text. */
typedef struct clef_token_weight {
    int32_t id;
    float   weight;
} clef_token_weight;

/** bge-m3's lexical weights of a sequence of ids, with its special tokens: out [n] gets *n_out of them, each
 *  id once with its largest weight, in the order of their first places; special tokens and weights of 0 are
 *  left out. Runs the sequence alone. Statuses of clef_embed_ids(), and CLEF_E_NOT_FOUND: the model's folder
 *  has no sparse_linear.safetensors. */
CLEF_API clef_status clef_embed_sparse(clef_embedder *embedder, const int32_t *ids, int32_t n,
                                       clef_token_weight *out, int32_t *n_out, clef_error *err);
/** The length of the vectors of clef_embed_multi(). CLEF_E_NOT_FOUND: no colbert_linear.safetensors. */
CLEF_API clef_status clef_embed_multi_dims(clef_embedder *embedder, int32_t *n_dims, clef_error *err);
/** bge-m3's vectors of all tokens but the first: out [n - 1, n_dims], each of length 1. Statuses as of
 *  clef_embed_sparse(). */
CLEF_API clef_status clef_embed_multi(clef_embedder *embedder, const int32_t *ids, int32_t n, float *out,
                                      clef_error *err);

/** a b / (|a| |b|), computed in double; 0 if one of them is 0. */
CLEF_API double clef_cosine(const float *a, const float *b, int32_t n);

/** Vectors in fewer bits, as quantize_embeddings() of sentence-transformers 6 gives them. A number x becomes
 *    UINT8    floor((x - least) / step), brought to 0 .. 255, with step = (most - least) / 255, or 1 for 0
 *    INT8     the same less 128
 *    UBINARY  a bit, 1 where x > 0; the first of eight is the highest of a byte, and missing ones are 0
 *    BINARY   the bytes of UBINARY less 128, as signed numbers */
typedef enum clef_vector_form {
    CLEF_VECTOR_F32,
    CLEF_VECTOR_INT8,
    CLEF_VECTOR_UINT8,
    CLEF_VECTOR_BINARY,
    CLEF_VECTOR_UBINARY
} clef_vector_form;

/** Bytes of a vector of n_dims numbers in that form. */
CLEF_API size_t clef_vector_bytes(clef_vector_form form, int32_t n_dims);
/** The least and the most number of each column of rows [n, n_dims], n >= 1: ranges [2, n_dims]. */
CLEF_API void clef_vector_ranges(const float *rows, int32_t n, int32_t n_dims, float *ranges);
/** Packs rows [n, n_dims] into out [n, clef_vector_bytes()]. ranges [2, n_dims]: read for INT8 and UINT8;
 *  what is compared has to have the same ones. */
CLEF_API void clef_vector_pack(clef_vector_form form, const float *rows, int32_t n, int32_t n_dims,
                               const float *ranges, void *out);

#ifdef __cplusplus
}
#endif
#endif
