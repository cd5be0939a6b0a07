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
    CLEF_AUTO_NLLB,
    CLEF_AUTO_MBART,
    CLEF_AUTO_MBART50,
    CLEF_AUTO_PEGASUS,
    CLEF_AUTO_CAMEMBERT,
    CLEF_AUTO_WHISPER,
    CLEF_AUTO_OTHER /* another class that makes its own stages: refused */
} clef__auto_kind;

/** The file that holds the vocabulary. */
typedef enum clef__auto_source {
    CLEF_SOURCE_JSON,
    CLEF_SOURCE_SPM,
    CLEF_SOURCE_PAIR, /* vocab.json, merges.txt */
    CLEF_SOURCE_TXT
} clef__auto_source;

/** A token is a text, or an object with its content and options (single_word, lstrip, rstrip, normalized,
 *  special), as in tokenizer.json; without `normalized` it is the opposite of special. */
typedef struct clef__auto {
    const char       *path; /* the file with the vocabulary */
    clef__auto_source source;
    clef__auto_kind   kind;
    int32_t           is_named;                   /* 1: a file names the class, not its model_type alone */
    const char       *class_name;                 /* for messages */
    json_t           *config;                     /* tokenizer_config.json, or an empty object */
    json_t           *model_config, *map, *added; /* config.json and the others; NULL: none */
    json_t           *file;                       /* tokenizer.json; NULL: none */
    json_t           *named;                      /* token by role; null: none, whatever the class says */
    json_t           *specific;                   /* tokens under other names */
    json_t           *by_text;                    /* of those, what comes after the rest */
    json_t           *extra, *additional;         /* lists of further special tokens; NULL: not named */
    json_t           *decoder;                    /* added tokens by id, as in added_tokens_decoder */
    json_t           *spm;                        /* SentencePiece's file, as clef__auto_read_spm() puts it */
    json_int_t        n_extra_ids;                /* T5's tokens that SentencePiece's file lacks */
    json_t           *root;                       /* the result, a tokenizer.json */
    json_t           *ids;                        /* id by text, of the model's vocabulary and added tokens */
    clef_error       *err;
} clef__auto;

/** Makes the tokenizer.json of the folder of `path`, which is one of the files in clef__auto_source. *root is
 *  released with json_decref(), and *named too: the tokens by role. *cleans is 1 if decoded text passes
 *  clef__clean_spaces(). `named` and `cleans` may be NULL. *root is NULL, and the status CLEF_OK: `path`
 *  alone counts. CLEF_E_UNSUPPORTED, CLEF_E_FORMAT, CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__auto_tokenizer(const char *path, json_t **root, json_t **named, int *cleans,
                                 clef_error *err);

/** Sets a->kind and a->class_name. */
clef_status clef__auto_class(clef__auto *a);
/** Sets a->root: the model and the stages; and the tokens that the class names itself. */
clef_status clef__auto_stages(clef__auto *a);
/** Reads the special tokens and the added ones from the files. */
clef_status clef__auto_tokens(clef__auto *a);
/** The language codes of NLLB, MBart or MBart50, with a space after each. */
const char *clef__auto_languages(clef__auto_kind kind);
/** Gives a->root its added_tokens, with their ids in a->ids. */
clef_status clef__auto_add(clef__auto *a);
/** Gives a->root the post_processor of its class. */
clef_status clef__auto_post(clef__auto *a);

/** The text of a token; NULL: there is none. */
const char *clef__auto_text(const json_t *token);
/** The id of a text in a->ids, -1: none. */
json_int_t clef__auto_id(const clef__auto *a, const char *text);
/** The text of a role's token; NULL: the role has none. */
const char *clef__auto_named(const clef__auto *a, const char *role);
/** A token with options. The caller releases it. */
json_t *clef__auto_token(const char *text, int lstrip, int special, int normalized);

/* ---- the vocabulary, in auto_vocab.c */

/** The model of a class without the class's own settings: vocab and merges; a whole WordPiece; a vocab with
 *  scores. NULL, and a->err: the file has none of this kind. */
json_t *clef__auto_bpe(clef__auto *a);
json_t *clef__auto_wordpiece(clef__auto *a);
json_t *clef__auto_unigram(clef__auto *a);
/** Sets a->spm: {"type": 1 Unigram or 2 BPE, "pieces": [[text, score, type], ...], "unk_id", "unk_piece",
 *  "bos_piece", "eos_piece" (without one: left out), "charsmap" in base64, "byte_fallback", "add_prefix",
 *  "squeeze", "escape"}; and a->additional: its control and user-defined pieces. */
clef_status clef__auto_read_spm(clef__auto *a);
/** The model of a->spm by its own settings; appends the pre-tokenizer of user-defined pieces to `pre`. */
clef_status clef__auto_spm_model(clef__auto *a, json_t **model, json_t *pre);
/** Adds T5's <extra_id_0> .. to a->additional, unless they are named there. */
clef_status clef__auto_extra_ids(clef__auto *a, json_int_t n);

#endif
