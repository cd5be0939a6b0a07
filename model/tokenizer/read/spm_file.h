/* SentencePiece's file (sentencepiece_model.proto). Everything is borrowed from the file's bytes. */
#ifndef CLEF_MODEL_TOKENIZER_SPM_FILE_H
#define CLEF_MODEL_TOKENIZER_SPM_FILE_H

#include "model/tokenizer/read/formats.h"

enum { CLEF_SPM_UNIGRAM = 1, CLEF_SPM_BPE = 2 };

/** Everything in the file except its pieces, with the format's defaults. */
typedef struct clef__spm_spec {
    int64_t model_type, unk, bos, eos, pad, byte_fallback, suffix_space;
    int64_t n_pieces;
    const char *charsmap;
    size_t n_charsmap, n_rules;
    const char *unk_piece, *bos_piece, *eos_piece; /* not ended by a NUL */
    size_t n_piece[3];
    clef__spm_spaces spaces;
    int bad;
    const void *pieces;
    size_t n_bytes;
} clef__spm_spec;

/** CLEF_E_FORMAT, CLEF_E_UNSUPPORTED: a model type or a setting that clef does not follow. */
clef_status clef__spm_spec_read(const void *data, size_t n, const char *name, clef__spm_spec *out,
                                clef_error *err);

typedef struct clef__spm_piece_text {
    const char *text;
    size_t n;
    double score;
    int64_t type; /* clef__piece_type */
} clef__spm_piece_text;
/** Calls `each` for all pieces in the order of their ids, until one fails. */
clef_status clef__spm_pieces(const clef__spm_spec *spec,
                             clef_status (*each)(void *to, int32_t id, const clef__spm_piece_text *piece,
                                                 clef_error *err),
                             void *to, clef_error *err);

#endif
