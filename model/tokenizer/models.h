/* The models of tokenizers: how a piece of text becomes ids. */
#ifndef CLEF_MODEL_TOKENIZER_MODELS_H
#define CLEF_MODEL_TOKENIZER_MODELS_H

#include "model/tokenizer/stages.h"

struct clef__token_model {
    clef_status (*encode)(const clef__token_model *self, clef__encoding *enc, const char *text, size_t n);
    /** Prepares the model for encoding, after the last token and stage were added; NULL: nothing to
     *  prepare. */
    clef_status (*seal)(clef__token_model *self, clef_error *err);
    void (*destroy)(clef__token_model *self);
    const clef__vocab *vocab; /* borrowed: must outlive the model */
    clef_tokenizer_kind kind;
};

/* Every create function below needs a vocabulary whose room is reserved. It sets *out before it can fail, so
 * the caller always destroys *out. */

/* ---- BPE (bpe.c, bpe_build.c) */

typedef struct clef__bpe_opts {
    int32_t byte_level;    /* by ranks: symbols are bytes, written as GPT-2's characters */
    int32_t byte_fallback, fuse_unk, ignore_merges;
    int32_t unk;           /* -1: unknown symbols are dropped */
    int32_t bytes;         /* by scores: symbols are bytes; a word that is a token is not split (tiktoken) */
    const char *prefix;    /* by ranks: prefix of every symbol but a word's first; NULL or "": none. Copied */
    const char *suffix;    /* by ranks: suffix of a word's last symbol; likewise */
} clef__bpe_opts;

/** BPE by ranks. clef__bpe_merge() is then called at most n_merges times, in the order of the ranks. */
clef_status clef__bpe_create(const clef__vocab *vocab, const clef__bpe_opts *opts, size_t n_merges,
                             clef__token_model **out, clef_error *err);
/** Adds the next merge. A pair that was added before gets the later rank. CLEF_E_FORMAT names a part that is
 *  not in the vocabulary. */
clef_status clef__bpe_merge(clef__token_model *model, const char *left, size_t n_left, const char *right,
                            size_t n_right, clef_error *err);
/** Adds a merge written as "left right", as in merges.txt and the older tokenizer.json. */
clef_status clef__bpe_merge_line(clef__token_model *model, const char *line, size_t n, clef_error *err);

/** SentencePiece's BPE: two symbols merge if their joined text is a piece, best score first. */
clef_status clef__bpe_create_scored(const clef__vocab *vocab, const clef__bpe_opts *opts,
                                    clef__token_model **out, clef_error *err);
/** Makes token `id` a piece that symbols may merge into. CLEF_E_FORMAT: the score is not finite. */
clef_status clef__bpe_score(clef__token_model *model, int32_t id, double score, clef_error *err);
/** By scores: the score of a token, 0 for a token that symbols cannot merge into. */
double clef__bpe_score_of(const clef__token_model *model, int32_t id);

int clef__is_bpe(const clef__token_model *model);

/* ---- WordPiece and WordLevel (wordpiece.c), after the whole vocabulary */

typedef struct clef__wordpiece_opts {
    const char *prefix; /* of pieces inside a word */
    size_t      n_prefix;
    size_t      max_chars; /* a longer word is unknown */
    int32_t     unk;
} clef__wordpiece_opts;
clef_status clef__wordpiece_create(const clef__vocab *vocab, const clef__wordpiece_opts *opts,
                                   clef__token_model **out, clef_error *err);
/** unk -1: unknown words are dropped. */
clef_status clef__wordlevel_create(const clef__vocab *vocab, int32_t unk, clef__token_model **out,
                                   clef_error *err);

/* ---- Unigram (unigram.c) */

typedef struct clef__unigram_opts {
    int32_t byte_fallback;
    int32_t single; /* 1: sums are floats, as in SentencePiece; 0: doubles, as in Hugging Face's tokenizers.
                       This decides which of two equal cuts wins */
    int32_t unk;    /* id of unknown characters; a run of them is one token */
} clef__unigram_opts;
clef_status clef__unigram_create(const clef__vocab *vocab, const clef__unigram_opts *opts,
                                 clef__token_model **out, clef_error *err);
/** Makes token `id`, whose text is set, a piece. Of pieces with equal texts the last one counts.
 *  CLEF_E_FORMAT: the score is not finite. */
clef_status clef__unigram_piece(clef__token_model *model, int32_t id, double score, clef_error *err);
/** The score of token `id`, 0 if it is not a piece. */
double clef__unigram_score_of(const clef__token_model *model, int32_t id);

#endif
