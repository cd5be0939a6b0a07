/* A folder's tokenizer as transformers' AutoTokenizer makes it (5.24): one tokenizer.json from all its files.
 *
 *   tokenizer_config.json, config.json          -> the class (auto_class.c)
 *   the class, and the file of the vocabulary   -> the model and the stages around it (auto_stages.c)
 *   added_tokens.json, special_tokens_map.json,
 *   tokenizer_config.json, tokenizer.json       -> the added tokens and their ids (auto_added.c) */
#ifndef CLEF_MODEL_TOKENIZER_AUTO_H
#define CLEF_MODEL_TOKENIZER_AUTO_H

#include "model/tokenizer/read/json_parts.h"

/** How a class makes its tokenizer. */
typedef enum clef__auto_kind {
    CLEF_AUTO_BACKEND, /* as tokenizer.json says, or SentencePiece's own file */
    CLEF_AUTO_BERT,
    CLEF_AUTO_MPNET,
    CLEF_AUTO_GPT2,
    CLEF_AUTO_ROBERTA,
    CLEF_AUTO_BLENDERBOT,
    CLEF_AUTO_LLAMA,
    CLEF_AUTO_CODE_LLAMA,
    CLEF_AUTO_GEMMA,
    CLEF_AUTO_QWEN2,
    CLEF_AUTO_QWEN3_5,
    CLEF_AUTO_GPT_NEOX,
    CLEF_AUTO_COHERE,
    CLEF_AUTO_T5,
    CLEF_AUTO_XLM_ROBERTA,
    CLEF_AUTO_ALBERT,
    CLEF_AUTO_FILE /* another class that makes its own stages: its tokenizer.json is taken to have the same */
} clef__auto_kind;

/** The file that holds the vocabulary. */
typedef enum clef__auto_source {
    CLEF_SOURCE_JSON,
    CLEF_SOURCE_SPM,
    CLEF_SOURCE_PAIR, /* vocab.json, merges.txt */
    CLEF_SOURCE_TXT
} clef__auto_source;

typedef struct clef__auto {
    const char       *path; /* the file with the vocabulary */
    clef__auto_source source;
    clef__auto_kind   kind;
    const char       *class_name; /* for messages */
    json_t           *config;     /* tokenizer_config.json, whose parts are moved elsewhere below */
    json_t           *model_config, *map, *added; /* config.json and the others; NULL: none */
    json_t           *file;                       /* tokenizer.json; NULL: none */
    json_t           *named;    /* role to token: a string, or an object with its options */
    json_t           *extra;    /* other special tokens: an array of the same */
    json_t           *decoder;  /* added tokens by id, as in added_tokens_decoder */
    json_t           *root;     /* the result, a tokenizer.json */
    clef_error       *err;
} clef__auto;

/** Makes the tokenizer.json of the folder of `path`, which is one of the files in clef__auto_source. *out is
 *  released with json_decref(). NULL, and CLEF_OK: no other file says anything, so that `path` alone counts.
 *  CLEF_E_UNSUPPORTED, CLEF_E_FORMAT, CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__auto_tokenizer(const char *path, json_t **out, clef_error *err);

/** Sets a->kind and a->class_name. */
clef_status clef__auto_class(clef__auto *a);
/** Sets a->root: the model and the stages; and the tokens that the class names itself. */
clef_status clef__auto_stages(clef__auto *a);
/** Moves the special tokens and the added ones from the files to a->named, a->extra and a->decoder. */
clef_status clef__auto_tokens(clef__auto *a);
/** Gives a->root its added_tokens. */
clef_status clef__auto_add(clef__auto *a);
/** Gives a->root the post_processor of its class. */
clef_status clef__auto_post(clef__auto *a);

/** The text of a token of a->named or a->extra; NULL: there is none. */
const char *clef__auto_text(const json_t *token);
/** The id of a text in a->root, -1: none. */
json_int_t clef__auto_id(const clef__auto *a, const char *text);

/** Reads the vocabulary of a SentencePiece file as {"vocab", "merges" or none, "unk_id", "unk_piece",
 *  "charsmap" in base64, "pieces": [[text, score, type], ...], and the flags of its spec}. */
clef_status clef__spm_json(const char *path, json_t **out, clef_error *err);

#endif
