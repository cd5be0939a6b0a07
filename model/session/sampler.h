/* What the host's sampler, sessions and batches share. */
#ifndef CLEF_MODEL_SAMPLER_H
#define CLEF_MODEL_SAMPLER_H

#include "clef/generate.h"
#include "graph/op/sample.h"
#include "model/session/rules.h"
#include "model/session/sampler_chain.h"

/** Writes the options in the form of the op clef_sample(). Draw 0 belongs to the token at position `first`.
 *  The mode is SAMPLE_OFF for options that are sampled on the host. opts NULL: greedy. CLEF_E_ARG for an
 *  option out of range. */
clef_status clef__sampler_options(const clef_sampler_opts *opts, int32_t first, sample_options *out,
                                  clef_error *err);

/** Memory for sampling, which several samplers may share. Zeroed: none. */
typedef struct clef__sampler_room {
    int32_t             n_vocab, n_lengths, n;
    clef__sampler_token *tokens; /* these of a chain; after a sample [n], among which it was drawn */
    int32_t             *room;
    int32_t             *lengths;
} clef__sampler_room;
/** Makes room for the chain of a sampler, and texts of n_text tokens. CLEF_E_NOMEM. */
clef_status clef__sampler_reserve(clef__sampler_room *room, const clef_sampler *sampler, int32_t n_text,
                                  clef_error *err);
void        clef__sampler_release(clef__sampler_room *room);

/** A sample: draw number `draw` of a stream (0: as a clef_sampler draws), after the tokens text [n_text]. */
typedef struct clef__sampler_pick {
    const float    *logits;
    const uint32_t *mask; /* NULL, or the allowed ids */
    const int32_t  *text;
    int32_t         n_text;
    uint64_t        draw;
    uint32_t        stream;
    double         *mu;   /* of Mirostat: read and updated */
    const clef__rules_place *rules; /* NULL: none */
} clef__sampler_pick;
/** A sampler without memory of its own, which samples by clef__sampler_pick_with() alone. Errors of
 *  clef_sampler_create(). */
clef_status clef__sampler_create(int32_t n_vocab, const clef_sampler_opts *opts, clef_sampler **out,
                                 clef_error *err);
/** The mu that a text begins with. */
double      clef__sampler_mu(const clef_sampler *sampler);
/** What is returned in place of an id: none is allowed; the logits are not finite. */
enum { CLEF__PICK_NONE = -1, CLEF__PICK_NOT_FINITE = -2 };
/** CLEF_E_NOT_FINITE, for the logits after n tokens. */
clef_status clef__fail_not_finite(int32_t n, clef_error *err);
/** Samples by the chain of the host, with room for it. Else one of the numbers above. */
int32_t     clef__sampler_pick_with(const clef_sampler *sampler, clef__sampler_room *room,
                                    const clef__sampler_pick *pick);

#endif
