/* The readers: one for each format that holds a tokenizer. Each fills an empty tokenizer and seals it. */
#ifndef CLEF_MODEL_TOKENIZER_FORMATS_H
#define CLEF_MODEL_TOKENIZER_FORMATS_H

#include "model/tokenizer/tokenizer.h"

enum { CLEF_TOKENIZER_PATH = 4096, CLEF_TOKENIZER_FILE_BYTES = 256 << 20 };

/** The name of the file from which clef_tokenizer_open() reads the folder's tokenizer; NULL: it has none
 *  (open.c). */
const char *clef__tokenizer_file(const char *folder);

/** tokenizer.json of Hugging Face's tokenizers. */
clef_status clef__tokenizer_read_json(clef_tokenizer *tok, const char *path, clef_error *err);
/** Reads tokenizer.json, tokenizer.model, vocab.json or vocab.txt with all files beside it (read_beside.c).
 *  *is_read 0, and CLEF_OK: the file alone counts, and one of the readers below reads it. */
clef_status clef__tokenizer_read_beside(clef_tokenizer *tok, const char *path, int *is_read, clef_error *err);
/** GPT-2's vocab.json with the merges.txt beside it; `path` is either of them, or their folder. */
clef_status clef__tokenizer_read_vocab(clef_tokenizer *tok, const char *path, clef_error *err);
/** BERT's vocab.txt, with the tokenizer_config.json beside it. */
clef_status clef__tokenizer_read_txt(clef_tokenizer *tok, const char *path, clef_error *err);
/** tokenizer.model: SentencePiece's, or tiktoken's lines. */
clef_status clef__tokenizer_read_spm(clef_tokenizer *tok, const char *path, clef_error *err);
/** The tokenizer.ggml.* keys of a GGUF file. */
clef_status clef__tokenizer_read_gguf(clef_tokenizer *tok, const char *path, clef_error *err);

/** The tokenizer.json that was made from the files of a folder; NULL: none was made, since one file counts
 *  alone. It is read anew, and released with json_decref(). */
struct json_t;
clef_status clef__tokenizer_root(const clef_tokenizer *tok, struct json_t **out, clef_error *err);

/** The readers of text in memory; `name` is for messages. */
clef_status clef__tokenizer_parse_json(clef_tokenizer *tok, const char *text, size_t n, const char *name,
                                       clef_error *err);
clef_status clef__tokenizer_parse_spm(clef_tokenizer *tok, const void *data, size_t n, const char *name,
                                      clef_error *err);
struct clef_gguf;
clef_status clef__tokenizer_parse_gguf(clef_tokenizer *tok, const struct clef_gguf *gguf, const char *name,
                                       clef_error *err);
/** Parses tiktoken's lines, "base64 rank" each. The file's name decides the regex and the special tokens. A
 *  file of Llama 3's size has Llama 3's. */
clef_status clef__tokenizer_parse_tiktoken(clef_tokenizer *tok, const char *text, size_t n, const char *name,
                                           clef_error *err);
/** 1 if the first line is a line of tiktoken. */
int clef__is_tiktoken(const char *text, size_t n);

/* ---- what several readers share */

/** Settings in the files beside a tokenizer (read_config.c): 1, 0, or -1 if no file has the setting. */
typedef struct clef__token_config {
    int32_t add_bos, add_eos;
    int32_t lowercase, strip_accents, space_cjk; /* BERT's */
} clef__token_config;
/** Reads tokenizer_config.json, special_tokens_map.json and config.json beside `path`, if they exist, and
 *  sets the roles of the special tokens that they name. */
clef_status clef__tokenizer_read_config(clef_tokenizer *tok, const char *path, clef__token_config *out,
                                        clef_error *err);
/** Sets the roles that no file has named, by the texts that nearly all models use for them. */
void clef__tokenizer_guess_roles(clef_tokenizer *tok);
/** Writes the path of `name` in the folder of `path` to `out`. CLEF_E_LIMIT: it does not fit. */
clef_status clef__beside(const char *path, const char *name, char *out, size_t capacity, clef_error *err);

/** Reads a JSON object from the folder of `path`; *out is NULL if there is no such file. Its integers are
 *  reals. */
clef_status clef__load_beside(const char *path, const char *name, struct json_t **out, clef_error *err);

/** Adds BERT's stages, model and special tokens (bert_parts.c) and seals the tokenizer. In the vocabulary,
 *  pieces inside a word begin with "##". lowercase -1: as the vocabulary shows; strip_accents -1: as
 *  lowercase. */
clef_status clef__bert_parts(clef_tokenizer *tok, const clef__token_config *config, const char *name,
                             clef_error *err);

/* ---- SentencePiece's vocabulary, from its own file or from GGUF (spm_parts.c) */

/** Numbered as in sentencepiece_model.proto, and in GGUF. */
typedef enum clef__piece_type {
    CLEF_PIECE_NORMAL = 1,
    CLEF_PIECE_UNKNOWN,
    CLEF_PIECE_CONTROL,
    CLEF_PIECE_USER_DEFINED,
    CLEF_PIECE_UNUSED,
    CLEF_PIECE_BYTE
} clef__piece_type;

typedef struct clef__spm_opts {
    int32_t unigram; /* 0: BPE */
    int32_t byte_fallback, unk;
} clef__spm_opts;
/** Creates the model. Call it before the first piece. */
clef_status clef__spm_create(clef_tokenizer *tok, const clef__spm_opts *opts, clef_error *err);
/** Sets a piece's text and adds it to the model by its type. */
clef_status clef__spm_piece(clef_tokenizer *tok, int32_t id, const char *text, size_t n, int64_t type,
                            double score, clef_error *err);
/** Call it after the last piece: adds the stages and seals the tokenizer. */
clef_status clef__spm_finish(clef_tokenizer *tok, const clef__spm_spaces *spaces, clef_error *err);

#endif
