/* The fields of a session, for the files that share it: session.c, session_encode.c, session_file.c,
 * beams.c. */
#ifndef CLEF_MODEL_SESSION_H
#define CLEF_MODEL_SESSION_H

#include "clef/generate.h"
#include "model/open/model.h"
#include "model/plan_io.h"
#include "model/session/guide.h"
#include "runtime/os/sha256.h"

/* A step sees the cache up to a multiple of this, so that most steps of a generation bind the same symbols.
 * Positions after the token's own are masked by the causal rule. */
enum { VISIBLE_STEP = 64 };

/* Candidates that the device returns for each beam: the limit of topk. */
enum { MAX_CANDIDATES = 64 };

/* A running generation. The device is one step ahead of the caller: when token k is waited for, the step that
 * reads it is enqueued already. */
typedef struct generation {
    int32_t active;
    int32_t n_max;   /* most tokens to return; 0: until the context is full */
    int32_t n_given; /* tokens returned to the caller */
    int32_t n_ahead; /* enqueued steps whose tokens were not returned yet */
    sample_options sample; /* sampling options */
    int32_t on_host;       /* the session's sampler samples from the logits, which are read; no token is */
    double mu;             /* of that sampler */
    clef__guide_place place; /* of the session's guide */
    clef__rules_place rules; /* its rules are NULL: none */
} generation;

/* The encoder of an encoder-decoder, and its current source. */
typedef struct session_encoder {
    clef_plan *plan;
    clef__plan_io io;
    int32_t *inputs;   /* [outputs of the plan]: the decoder's input for each */
    int32_t n;         /* tokens of the source; 0: none yet */
    int32_t *source;   /* [n_source]: these; zeros of a source that is heard */
    float *features;   /* NULL, or such a source: [n_mels, 2 n_source] */
    float *rows;       /* [n_heads, n_source, head_dim]: a copy between the two plans */
} session_encoder;

struct clef_session {
    const clef_hparams *hp;
    clef_device *dev;
    clef_model *model;
    /* [n_context + 1]: the tokens in the cache, and the token that follows them */
    int32_t *seen;
    clef_plan *plan;
    clef_session_opts opts;
    int32_t n_past, n_batch; /* positions in the cache; most tokens of a step */
    clef__plan_io io;
    float *last;                               /* [n_vocab] */
    sample_options sample;                     /* the options that the device has */
    generation gen;
    int32_t token; /* target of the pending read, during which gen may be copied */
    clef_sampler *sampler;                     /* of a generation on the host */
    int32_t no_rules;                          /* of the generation: the model's do not hold */
    clef__sampler_room room;                   /* for it */
    clef__guide guide;                         /* of generations */
    /* linear attention: its state is overwritten by each step and cannot be rewound */
    int32_t is_recurrent;
    int32_t state_is_ahead; /* the recurrent state covers more than n_past positions */

    int32_t is_seq2seq;
    session_encoder encoder;
    int32_t n_beams, n_candidates;             /* 0: no beam search */

    int32_t has_fingerprint;                   /* the model's, computed for the first session file */
    unsigned char fingerprint[CLEF_SHA256_BYTES];
};

/** Makes the plans, and looks up the indices of their inputs, outputs and symbols. */
clef_status clef__session_open(clef_session *s, clef_error *err);
/** Feeds a prompt in steps. `last` holds the sampling options of the last step; the others do not sample. */
clef_status clef__session_prompt(clef_session *s, const int32_t *ids, int32_t n, const sample_options *last,
                                 clef_error *err);
/** Feeds the cached tokens again if the recurrent state is ahead of them, because it cannot be rewound. */
clef_status clef__session_replay(clef_session *s, clef_error *err);
/** Starts reading the token that the last enqueued step samples, if the device does. */
clef_status clef__session_start_read(clef_session *s, clef_error *err);
/** Runs an encoder-decoder's encoder on a source. */
clef_status clef__session_encode(clef_session *s, const int32_t *ids, int32_t n, clef_error *err);
/** If `why` says that the device was lost, gets the device back and makes the plans anew. Then it restores
 *  the session's state: the source, the cache's n_past tokens, and the step of `gen` whose token is still to
 *  be returned (NULL: no generation is running). CLEF_OK: the failed call can be repeated. Else `why` is the
 *  error (model/session/session_recover.c). */
clef_status clef__session_recover(clef_session *s, const generation *gen, const clef_error *why,
                                  clef_error *err);

/** The number of plans that clef_device_n_plans() counts for this one; 0 for NULL. */
int32_t clef__plans_of(const clef_plan *plan);

/** Compiles a graph of the model with the session's options. */
clef_status clef__session_plan(const clef_session *s, clef_device *dev, clef_model *model,
                               const clef_build_opts *build, clef_plan **out,
                               clef_error *err);
/** Makes s->encoder for an encoder-decoder. */
clef_status clef__session_encoder(clef_session *s, clef_device *dev, clef_model *model, clef_error *err);
/** Finds the input of s->plan for each output of s->encoder's plan: they have the same names. */
clef_status clef__session_join(clef_session *s, clef_error *err);
/** Runs the step of n tokens after `past`, whose ids and position are on the device already. */
clef_status clef__session_step(clef_session *s, int32_t past, int32_t n, clef_error *err);
/** Ends the running generation and forgets the steps that run ahead. What they write to the cache is never
 *  read, and overwritten later. */
clef_status clef__session_end(clef_session *s, clef_error *err);

#endif
