/* Byte-pair encoding is learned from words and how often they occur (Sennrich et al., arXiv:1508.07909), with
 * the same result as Hugging Face tokenizers' BpeTrainer. */
#ifndef CLEF_MODEL_TOKENIZER_BPE_TRAIN_H
#define CLEF_MODEL_TOKENIZER_BPE_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "clef/device.h"
#include "clef/status.h"

/** Words, each once, as symbols: n symbols of word i from symbols[first[i]] on. */
typedef struct clef__bpe_words {
    int32_t *symbols;
    size_t  *first; /* n_words + 1 entries */
    int64_t *counts;
    size_t   n_words;
} clef__bpe_words;

typedef struct clef__learned_merge {
    int32_t left, right, result;
} clef__learned_merge;

/** Instead of a symbol: the pair is not merged; out of memory. */
enum { CLEF_BPE_SKIP = -1, CLEF_BPE_NO_MEMORY = -2 };

typedef struct clef__bpe_learn_opts {
    int32_t n_vocab;       /* symbols in the end, with those that there are */
    int64_t min_frequency; /* of a pair that is merged */
    /** The number of the symbol that `left` and `right` make, which may be an old one; `next` if it is new.
     *  Or CLEF_BPE_SKIP, CLEF_BPE_NO_MEMORY. */
    int32_t (*join)(void *user, int32_t left, int32_t right, int32_t next);
    void *user;
    clef_progress progress;
    void *progress_user;
} clef__bpe_learn_opts;

/** Merges the most frequent pair (of equal ones that with the lowest numbers) until the vocabulary, which has
 *  n_symbols, is full or no pair is frequent enough. The words' symbols change. *out: the merges in order, to
 *  be freed; NULL if there are none. CLEF_E_NOMEM, CLEF_E_CANCELLED. */
clef_status clef__bpe_learn(clef__bpe_words *words, int32_t n_symbols, const clef__bpe_learn_opts *opts,
                            clef__learned_merge **out, size_t *n, clef_error *err);

#endif
