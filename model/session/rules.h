/* Applies the rules of generation_config.json to the logits of a step, or to the log-probabilities of a beam.
 */
#ifndef CLEF_MODEL_RULES_H
#define CLEF_MODEL_RULES_H

#include "model/open/generation.h"
#include "model/session/sampler_chain.h"

/** A text under rules. */
typedef struct clef__rules_place {
    const clef__rules  *rules;    /* NULL: none */
    const clef_hparams *hp;
    const int32_t      *source;   /* [n_source]: of an encoder-decoder; a decoder's is its prompt */
    int32_t             n_source;
    int32_t             n_fed;    /* tokens of the prompt, or those that a target starts with */
    int32_t             n_most;   /* tokens of the longest text */
} clef__rules_place;

/** Bans and changes tokens [n_vocab], in the order of their ids, after text [n]: all rules but the last. */
void clef__rules_apply(const clef__rules_place *place, const int32_t *text, int32_t n,
                       clef__sampler_token *tokens, int32_t n_vocab);
/** The rule that comes after the penalties of a sampler: the end becomes likelier. tokens [n_tokens]: those
 *  that are left. */
void clef__rules_decay(const clef__rules_place *place, int32_t n, clef__sampler_token *tokens,
                       int32_t n_tokens);

#endif
