/* Text to token ids and back, exactly as the model's own tokenizer does. */
#ifndef CLEF_TOKENIZER_H
#define CLEF_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_tokenizer clef_tokenizer;

/** Opens the tokenizer at `path`: a GGUF file (tokenizer.ggml.* keys); a folder with tokenizer.json, or
 *  tokenizer.model or spiece.model (SentencePiece, or tiktoken's lines as Meta writes them), or vocab.json
 *  and merges.txt, or vocab.txt (BERT); one such file itself; or a *.tiktoken file whose name says its
 *  encoding. A pre-tokenizer, normalizer or model type that clef does not know is refused by name. Free with
 *  clef_tokenizer_close(). CLEF_OK, CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOT_FOUND (the
 *  folder has none), CLEF_E_NOMEM. */
CLEF_API clef_status clef_tokenizer_open(const char *path, clef_tokenizer **out, clef_error *err);
CLEF_API void        clef_tokenizer_close(clef_tokenizer *tok);

/** How a text is cut into tokens; the numbers are those of llama.cpp's vocab_type. */
typedef enum clef_tokenizer_kind {
    CLEF_TOKENIZER_OTHER,         /* whole words */
    CLEF_TOKENIZER_SENTENCEPIECE, /* SentencePiece's BPE */
    CLEF_TOKENIZER_BPE,
    CLEF_TOKENIZER_WORDPIECE,
    CLEF_TOKENIZER_UNIGRAM
} clef_tokenizer_kind;
CLEF_API clef_tokenizer_kind clef_tokenizer_kind_of(const clef_tokenizer *tok);

/** Number of ids, and the ids of the BOS and EOS tokens; -1 if the model has none. */
CLEF_API int32_t clef_tokenizer_n_tokens(const clef_tokenizer *tok);
CLEF_API int32_t clef_tokenizer_bos(const clef_tokenizer *tok);
CLEF_API int32_t clef_tokenizer_eos(const clef_tokenizer *tok);
/** The BOS token where the post-processor puts it before each text (CLEF_SPECIAL_ADD), else -1. */
CLEF_API int32_t clef_tokenizer_leading_bos(const clef_tokenizer *tok);

/** The id of a special token by its role, -1 if the model has none. */
typedef enum clef_token_role {
    CLEF_ROLE_BOS,
    CLEF_ROLE_EOS,
    CLEF_ROLE_UNK,
    CLEF_ROLE_SEP,
    CLEF_ROLE_PAD,
    CLEF_ROLE_CLS,
    CLEF_ROLE_MASK,
    /* before the text before a gap, before the text after it, and before what fills it: of code models, where
     * a GGUF file names them */
    CLEF_ROLE_FIM_PREFIX,
    CLEF_ROLE_FIM_SUFFIX,
    CLEF_ROLE_FIM_MIDDLE
} clef_token_role;
CLEF_API int32_t clef_tokenizer_role(const clef_tokenizer *tok, clef_token_role role);
/** The id of a token by its text in the vocabulary ("fra_Latn"), -1 for none. */
CLEF_API int32_t clef_tokenizer_find(const clef_tokenizer *tok, const char *text);

/** The bytes that a token stands for within a text, without NUL, and their number in *n. They need not be
 *  whole characters. Of a special token, its name. NULL, and 0: there is no such token. They belong to the
 *  tokenizer. */
CLEF_API const char *clef_tokenizer_bytes(const clef_tokenizer *tok, int32_t id, size_t *n);
/** 1 for a special token, which clef_tokenizer_decode() leaves out. */
CLEF_API int32_t clef_tokenizer_is_special(const clef_tokenizer *tok, int32_t id);

typedef enum clef_special {
    CLEF_SPECIAL_ADD,   /* add BOS/EOS as the model's own post-processor does */
    CLEF_SPECIAL_NONE   /* only the tokens of the text */
} clef_special;

/** Encodes `n_bytes` of UTF-8; invalid bytes are read as U+FFFD. Special tokens that are written in the text
 *  ("<|endoftext|>") are recognised. *out is an array of *n ids; free it with clef_tokens_free(). It is NULL
 *  for an empty result. The time is linear in n_bytes for ordinary text. CLEF_OK, CLEF_E_NOMEM, CLEF_E_LIMIT
 *  (a regex gave up). */
CLEF_API clef_status clef_tokenizer_encode(const clef_tokenizer *tok, const char *text, size_t n_bytes,
                                           clef_special special, int32_t **out, int32_t *n, clef_error *err);
CLEF_API void        clef_tokens_free(int32_t *ids);

/** Puts an id before ids that clef_tokenizer_encode() or its like made, unless it is the first of them.
 *  CLEF_OK, CLEF_E_NOMEM: they are as they were. */
CLEF_API clef_status clef_tokens_begin_with(int32_t id, int32_t **ids, int32_t *n, clef_error *err);

/** Encodes text of which a part is somebody else's, such as a message within a chat template: within the
 *  spans no special token is recognised, so that a message cannot write one. Elsewhere the ids are those of
 *  clef_tokenizer_encode() with CLEF_SPECIAL_NONE. Spans are in bytes, in order, and do not overlap. A
 *  special token that the tokenizer looks for in normalised text is not recognised either in text that has
 *  no other special token between it and a span. CLEF_E_FORMAT: the text is not UTF-8; CLEF_E_ARG; statuses
 *  of clef_tokenizer_encode(). */
typedef struct clef_byte_span {
    size_t begin, end;
} clef_byte_span;
CLEF_API clef_status clef_tokenizer_encode_plain(const clef_tokenizer *tok, const char *text, size_t n_bytes,
                                                 const clef_byte_span *plain, size_t n_plain, int32_t **out,
                                                 int32_t *n, clef_error *err);

/** Which of two texts loses tokens at its end when both are too long. */
typedef enum clef_truncate {
    CLEF_TRUNCATE_LONGEST, /* the longer, until both are equally long, then both */
    CLEF_TRUNCATE_FIRST,
    CLEF_TRUNCATE_SECOND
} clef_truncate;
typedef struct clef_encode_opts {
    clef_special  special;
    int32_t       max_tokens; /* 0: no limit. Special tokens count, and are never cut */
    clef_truncate truncate;
} clef_encode_opts;
/** ids [n] and the token types [n] (0 or 1, as the model's post-processor gives them); n_cut tokens were
 *  left out. */
typedef struct clef_encoded {
    int32_t *ids, *types;
    int32_t  n, n_cut;
} clef_encoded;
/** Encodes one text (b NULL), or two in the way the model expects a pair: "[CLS] a [SEP] b [SEP]". opts
 *  NULL: defaults. Overwrites *out; free its contents with clef_encoded_finish(). Statuses of
 *  clef_tokenizer_encode(); CLEF_E_ARG: max_tokens is less than the number of special tokens; CLEF_E_LIMIT:
 *  the text that must not be cut does not fit. */
CLEF_API clef_status clef_tokenizer_encode_pair(const clef_tokenizer *tok, const char *a, size_t n_a,
                                                const char *b, size_t n_b, const clef_encode_opts *opts,
                                                clef_encoded *out, clef_error *err);
/** Accepts NULL and zeroed structs. */
CLEF_API void clef_encoded_finish(clef_encoded *enc);

/** The text of n ids, NUL-terminated, and its length. Free it with clef_text_free(). Special tokens are left
 *  out; bytes that are not UTF-8 become U+FFFD. CLEF_E_ARG for an id outside the vocabulary. */
CLEF_API clef_status clef_tokenizer_decode(const clef_tokenizer *tok, const int32_t *ids, int32_t n,
                                           char **out, size_t *n_bytes, clef_error *err);
CLEF_API void        clef_text_free(char *text);

/** State of a streaming decoder: ids go in one by one, complete characters come out. Start from a zeroed
 *  struct with .tok set. All pieces together are equal to the result of clef_tokenizer_decode(), if it has
 *  one. */
typedef struct clef_stream {
    const clef_tokenizer *tok;
    uint8_t               pending[8]; /* bytes of an incomplete character */
    int32_t               n_pending;
    int32_t               started;    /* 1: something was decoded, so that a leading space is kept */
    int32_t               held;       /* 1: a space is pending until another token follows */
    int32_t               last;       /* the last token's id + 1 */
    int32_t               with_special; /* 1: special tokens give the text that the vocabulary has for them */
    uint32_t              cleaning;     /* spaces that wait for the text that shows whether they stay */
} clef_stream;
/** Writes at most `capacity` bytes, without NUL, and sets *n. The text of a token has at most CLEF_MAX_PIECE
 *  bytes. An id beyond the vocabulary has none: a model may have more rows than its tokenizer has tokens.
 *  CLEF_E_ARG: a negative id; CLEF_E_LIMIT: capacity too small. */
enum { CLEF_MAX_PIECE = 1024 };
CLEF_API clef_status clef_stream_push(clef_stream *stream, int32_t id, char *out, size_t capacity, size_t *n,
                                      clef_error *err);
/** Writes what is left at the end of a stream; an incomplete character becomes U+FFFD. */
CLEF_API clef_status clef_stream_finish(clef_stream *stream, char *out, size_t capacity, size_t *n,
                                        clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
