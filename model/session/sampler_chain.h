/* The chain of samplers on the host, in doubles: the rules of clef/sampler.h. */
#ifndef CLEF_MODEL_SAMPLER_CHAIN_H
#define CLEF_MODEL_SAMPLER_CHAIN_H

#include "clef/sampler.h"

/** A token that is left: its logit, its probability among those left, and what a sampler sorts by. */
typedef struct clef__sampler_token {
    double  z, p, key;
    int32_t id;
} clef__sampler_token;

/** Which breakers there are, for DRY. */
typedef struct clef__dry_breakers {
    uint32_t *ends;   /* [n_vocab] bits: a breaker ends with this id */
    uint32_t *singly; /* [n_vocab] bits: this id alone is a breaker */
    int32_t  *many;   /* those of several ids, each ended by -1 */
    int32_t   n_many; /* numbers in it */
} clef__dry_breakers;

/** Tokens that are left, in rising order of their ids, and room to work. */
typedef struct clef__sampler_chain {
    const clef_sampler_opts  *opts; /* without zeros that mean a default */
    const clef__dry_breakers *breakers;
    const int32_t            *text; /* [n_text]: the tokens before the sample */
    int32_t                   n_text;
    int32_t                   n_vocab, n;
    clef__sampler_token      *tokens; /* [n], room for n_vocab */
    int32_t                  *room;   /* [n_vocab] */
    int32_t                  *lengths; /* [n_text] for DRY */
    uint64_t                  xtc_bits; /* XTC's draw */
    double                    mu;       /* of Mirostat */
    const struct clef__rules_place *rules; /* NULL: none */
} clef__sampler_chain;

/** 1 if no logit is NaN or +inf, and one at least is above -inf. */
int  clef__logits_finite(const float *logits, int32_t n);
/** Loads the allowed tokens (mask NULL: all) whose logits are above -inf, with their biases. The logits are
 *  finite (clef__logits_finite()). */
void clef__chain_load(clef__sampler_chain *c, const float *logits, const uint32_t *mask);
/** 1 if the sampler is on: its options do something. */
int clef__chain_has(const clef_sampler_opts *opts, clef_sampler_kind kind);
/** Applies one sampler to n >= 1 tokens with finite logits, and leaves at least one. */
void clef__chain_apply(clef__sampler_chain *c, clef_sampler_kind kind);
/** Keeps the tokens that Mirostat does. */
void clef__chain_mirostat(clef__sampler_chain *c);
/** Computes p of all tokens. */
void clef__chain_softmax(clef__sampler_chain *c);

/** model/session/dry.c: sets room[id] to the length of the longest repetition that token id would continue,
 *  0 for none. */
void clef__dry_lengths(clef__sampler_chain *c);

#endif
