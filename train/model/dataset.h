/* A dataset: tokens of files, the pieces of documents that belong to each split, and how they fill rows. */
#ifndef CLEF_MODEL_DATASET_H
#define CLEF_MODEL_DATASET_H

#include "clef/dataset.h"
#include "model/tokenizer/tokenizer.h"
#include "train/model/dataset_tokens.h"

/** A document or the part of one that belongs to a split; or a pair. */
typedef struct clef__piece {
    int64_t start; /* its first token among those of its file */
    int64_t n;     /* its tokens, without special tokens; of a pair the source's, which the target's follow */
    union {
        int64_t at;       /* CLEF_NEXT_TOKEN: its place in the stream; CLEF_MASKED_TOKENS: its first row */
        int64_t n_target; /* CLEF_TEXT_PAIRS */
    };
    int32_t file;
    int16_t begins, ends; /* 1: the document begins, or ends, with this piece */
} clef__piece;

/** What CLEF_PACK_WHOLE puts into a row: tokens `from` to from + n - 1 of a piece, special tokens
 *  included. */
typedef struct clef__chunk {
    int64_t piece, from;
    int64_t n;
} clef__chunk;

/** One split. */
typedef struct clef__share {
    clef__piece *pieces;
    int64_t      n_pieces;
    int64_t      n_stream; /* CLEF_NEXT_TOKEN: tokens of all pieces */
    clef__chunk *chunks;   /* CLEF_PACK_WHOLE: those of row r are row_chunks[r] to row_chunks[r + 1] - 1 */
    int64_t     *row_chunks;
    clef_dataset_counts counts;
} clef__share;

struct clef_dataset {
    clef_objective objective;
    clef_packing   packing;
    int32_t        n_tokens, n_target; /* T and U */
    int32_t        decoder_start, n_vocab, pad, mask;
    uint32_t       mask_below; /* a token is hidden if a random word is below */
    uint64_t       seed;
    int32_t        before[CLEF_MAX_TEMPLATE], after[CLEF_MAX_TEMPLATE]; /* special tokens around a document */
    int32_t        n_before, n_after;
    clef__tokens  *files; /* those for training first */
    int32_t        n_files, n_training_files;
    clef__share    shares[2]; /* by clef_split */
    clef_dataset_info info;
};

/** Tokens of a piece in a stream, special tokens included. */
static inline int64_t clef__piece_tokens(const clef_dataset *ds, const clef__piece *p)
{
    return p->n + (p->begins ? ds->n_before : 0) + (p->ends ? ds->n_after : 0);
}

/** Rows of a piece with CLEF_MASKED_TOKENS. */
static inline int64_t clef__piece_rows(const clef_dataset *ds, const clef__piece *p)
{
    const int64_t room = ds->n_tokens - ds->n_before - ds->n_after;
    return (p->n + room - 1) / room;
}

/** Fills both shares' pieces (dataset_split.c). CLEF_E_NOMEM. */
clef_status clef__dataset_split(clef_dataset *ds, const clef_dataset_opts *opts, clef_error *err);
/** Counts the rows and tokens of a share, and packs documents into rows (dataset_pack.c). CLEF_E_NOMEM. */
clef_status clef__dataset_pack(clef_dataset *ds, clef__share *share, clef_error *err);

#endif
