/* The tokens of one text file, made once and kept in the cache:
 *
 *   "cleftoks"  format u32  bytes of an id u32 (2 or 4)  key [32]  zeros [16]
 *   ids, then zeros up to a multiple of 8
 *   starts u64 [n_texts + 1]  n_texts u64  n_empty u64
 *   SHA-256 of all before it [32]
 *
 * Numbers are little-endian. Text i has the ids from starts[i] to starts[i + 1] - 1. */
#ifndef CLEF_MODEL_DATASET_TOKENS_H
#define CLEF_MODEL_DATASET_TOKENS_H

#include "clef/dataset.h"
#include "model/tokenizer/memory.h"
#include "runtime/os/os.h"
#include "runtime/os/sha256.h"

enum {
    CLEF__TOKENS_FORMAT = 1,
    CLEF__TOKENS_KEY_AT = 16,
    CLEF__TOKENS_HEADER = 64,
    CLEF__TOKENS_COUNTS = 16, /* bytes of n_texts and n_empty */
    CLEF__TOKENS_PATH = 768
};

typedef struct clef__tokens {
    const void     *ids;
    int32_t         is_wide; /* ids are 4 bytes each, else 2 */
    int32_t         is_cached; /* they were in the cache */
    const uint64_t *starts;
    int64_t         n_texts; /* each pair has two */
    int64_t         n_empty;
    unsigned char   digest[CLEF_SHA256_BYTES]; /* of the text */
    clef_mapping    file;   /* what the pointers above are in: this, */
    char           *memory; /* or this */
} clef__tokens;

static inline int32_t clef__token_at(const clef__tokens *t, int64_t i)
{
    return t->is_wide ? ((const int32_t *)t->ids)[i] : ((const uint16_t *)t->ids)[i];
}

/** What all files of a dataset share while they are opened. */
typedef struct clef__tokens_maker {
    const clef_tokenizer    *tok;
    const clef_dataset_opts *opts;
    unsigned char            tokenizer[CLEF_SHA256_BYTES]; /* its digest */
    char                     dir[CLEF__TOKENS_PATH]; /* the cache's folder of tokens; "": none */
    uint64_t                 done, total; /* bytes of text, for the progress */
} clef__tokens_maker;

/** Opens the tokens of a text file: from the cache, or from the text. Statuses of clef_dataset_open(). */
clef_status clef__tokens_open(clef__tokens_maker *m, const char *path, clef__tokens *out, clef_error *err);
void        clef__tokens_close(clef__tokens *t); /* accepts a zeroed one */

/** Writes the tokens of a mapped text to the file `path`, or, if it is NULL, to *memory, which the caller
 *  frees. A failure of writing has the status CLEF_E_IO (dataset_encode.c). */
clef_status clef__tokens_write(clef__tokens_maker *m, const char *text_path, const clef_mapping *text,
                               const unsigned char key[CLEF_SHA256_BYTES], const char *path,
                               clef__chars *memory, clef_error *err);

#endif
