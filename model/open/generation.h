/* What generation_config.json says about the tokens that a model may sample, beyond what a sampler's options
 * say. The rules are those of transformers' generate() (generation/logits_process.py). */
#ifndef CLEF_MODEL_GENERATION_H
#define CLEF_MODEL_GENERATION_H

#include "clef/model.h"
#include "model/file/json.h"

/** A GGUF file's key for the text of generation_config.json. */
#define CLEF_GENERATION_KEY "libclef.generation_config"

/** A list of ids. */
typedef struct clef__id_list {
    int32_t *ids, n;
} clef__id_list;

/** Zeroed: no rules. */
typedef struct clef__rules {
    int32_t       n;           /* rules that change what is sampled */
    int32_t       min_length;  /* of the text with its prompt; before, no end token */
    int32_t       min_new;     /* the same of the new tokens */
    int32_t       no_repeat;   /* n-grams of so many tokens occur once in the text; 0: off */
    int32_t       no_repeat_source;           /* nor are those of the source in it */
    double        source_penalty;             /* encoder_repetition_penalty; 1: off */
    int32_t       decay_start;                /* new tokens after which the end becomes likelier */
    double        decay;                      /* by this factor for each token; 1: off */
    int32_t       forced_bos;                 /* of a decoder, after one token; -1: none */
    clef__id_list forced_eos;                 /* the last token of the longest text */
    clef__id_list suppress, begin_suppress;   /* never; not as the first new token */
    clef__id_list sequences;                  /* each ended by -1 */
    double       *biases;                     /* of each: added to the logit of its last id; -inf: banned */
    int32_t       n_sequences;
    int32_t       renormalize;                /* of beams: scores are log-probabilities again */
    char          applied[400], ignored[400]; /* "min_length 5, suppress_tokens" */
} clef__rules;

/** Reads the rules of an object such as generation_config.json. CLEF_E_FORMAT names the key; CLEF_E_NOMEM. */
clef_status clef__rules_read(const json_t *generation, const clef_hparams *hp, clef__rules *out,
                             clef_error *err);
void        clef__rules_finish(clef__rules *rules);
/** The keys of config.json that transformers takes for those of a generation_config.json that is not there; a
 *  new reference, NULL without memory. */
json_t *clef__generation_of_config(const json_t *config);

#endif
