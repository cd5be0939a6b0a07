/* The inside of BPE, which bpe_build.c builds and bpe.c encodes with. */
#ifndef CLEF_MODEL_BPE_H
#define CLEF_MODEL_BPE_H

#include "model/tokenizer/models.h"
#include "model/tokenizer/word_cuts.h"

enum { CLEF_BPE_AFFIX = 64 };

typedef struct clef__bpe_slot {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    int32_t  id; /* -1: free */
} clef__bpe_slot;

typedef struct clef__bpe clef__bpe;
struct clef__bpe {
    clef__token_model base;
    clef__bpe_opts    opts;
    /** Returns 1 if l and r, adjacent in `text`, merge, and then sets the rank and the new token. */
    int (*pair)(const clef__bpe *bpe, const char *text, const clef__bpe_symbol *l, const clef__bpe_symbol *r,
                uint32_t *rank, int32_t *id);
    clef__bpe_slot *pairs; /* by ranks */
    size_t          n_slots, n_pairs;
    uint32_t        next_rank;
    clef__text_arena texts; /* of `pieces` */
    clef__vocab_map pieces; /* by scores: what symbols may merge into; with ignore_merges: whole words */
    uint32_t       *ranks;  /* by scores: rank of each token */
    int32_t         byte_ids[256];     /* symbols of one byte; ASCII alone unless byte_level; -1: none */
    int32_t         fallback_ids[256]; /* <0x00> .. <0xFF>; -1: none */
    char            prefix[CLEF_BPE_AFFIX], suffix[CLEF_BPE_AFFIX];
    size_t          n_prefix, n_suffix;
    clef__word_cuts cuts;
    int             merges_bytes; /* a merge involves a byte token or <unk>, whose text differs from the
                                     bytes that it means */
};

static inline size_t clef__bpe_pair_hash(uint64_t key)
{
    key = (key ^ key >> 32) * 0x9E3779B97F4A7C15u;
    return (size_t)(key >> 29);
}

/** The slot of a pair, or the free slot for it. n_slots > 0. */
static inline clef__bpe_slot *clef__bpe_find_slot(const clef__bpe *bpe, uint64_t key)
{
    size_t i = clef__bpe_pair_hash(key) & (bpe->n_slots - 1);
    while (bpe->pairs[i].id >= 0 && bpe->pairs[i].key != key)
        i = (i + 1) & (bpe->n_slots - 1);
    return &bpe->pairs[i];
}

/* The encode functions of both kinds, by ranks and by scores. */
clef_status clef__bpe_encode_by_rank(const clef__token_model *model, clef__encoding *enc, const char *text,
                                     size_t n);
clef_status clef__bpe_encode_by_score(const clef__token_model *model, clef__encoding *enc, const char *text,
                                      size_t n);
int clef__bpe_pair_by_rank(const clef__bpe *bpe, const char *text, const clef__bpe_symbol *l,
                           const clef__bpe_symbol *r, uint32_t *rank, int32_t *id);
int clef__bpe_pair_by_score(const clef__bpe *bpe, const char *text, const clef__bpe_symbol *l,
                            const clef__bpe_symbol *r, uint32_t *rank, int32_t *id);

#endif
