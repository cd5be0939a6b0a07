/* The inside of a session, for the files that share it: session.c, session_encode.c, beams.c. */
#ifndef CLEF_MODEL_SESSION_H
#define CLEF_MODEL_SESSION_H

#include "clef/generate.h"
#include "model/session/sampler.h"

/* The step sees the cache up to a multiple of this, so that most steps of a generation bind the same symbols.
 * What lies beyond a token's position is dropped by the causal rule. */
enum { VISIBLE_STEP = 64 };

/* A step of a prompt is not cut below so many tokens. */
enum { LEAST_ROWS = 16 };

/* Candidates that the device gives of each beam: what topk can. */
enum { MAX_CANDIDATES = 64 };

/* A generation under way. The device is a step ahead of the caller: when token k is waited for, the step that
 * takes it is enqueued already.
 */
typedef struct generation {
    int32_t active;
    int32_t n_max;   /* tokens to come at most, 0: as many as the context holds */
    int32_t n_given; /* to the caller */
    int32_t n_ahead; /* steps enqueued that give a token nobody has asked for */
    int32_t token;   /* where the read under way puts it */
    sample_options sample; /* how it picks */
} generation;

/* An encoder-decoder's encoder, and the source that it was given. */
typedef struct session_encoder {
    clef_plan *plan;
    int32_t ids, T;    /* numbers of an input and a symbol of its plan */
    int32_t n;         /* tokens of the source; 0: none yet */
    int32_t *source;   /* [n_source]: these */
    float *rows;       /* [n_heads, n_source, head_dim]: on the way from one plan to the other */
} session_encoder;

struct clef_session {
    const clef_hparams *hp;
    clef_device *dev;
    clef_model *model;
    /* [n_context + 1]: what the cache holds, and the token that is to follow it */
    int32_t *seen;
    clef_plan *plan;
    clef_session_opts opts;
    int32_t n_past, n_batch; /* positions in the cache; tokens of a step at most */
    int32_t ids, pos, sampling, logits, token; /* numbers of inputs and outputs */
    int32_t T, S;                              /* numbers of symbols */
    float *last;                               /* [n_vocab] */
    sample_options sample;                     /* what the device was told */
    generation gen;
    /* linear attention: its state is overwritten by each step and cannot be rewound */
    int32_t is_recurrent;
    int32_t state_is_ahead; /* the recurrent state covers more than n_past positions */

    int32_t is_seq2seq;
    session_encoder encoder;
    int32_t n_beams, n_candidates;             /* 0: no beam search */
    int32_t B, order, candidates, scores;      /* numbers, as above */
};

/** Makes the plans, and looks up the numbers of what the session uses of them. */
clef_status clef__session_open(clef_session *s, clef_error *err);
/** Feeds a prompt in steps; the last of them picks as `last` says, the others not at all. */
clef_status clef__session_prompt(clef_session *s, const int32_t *ids, int32_t n, const sample_options *last,
                                 clef_error *err);
/** Begins to read the token that the step enqueued last picks. */
clef_status clef__session_start_read(clef_session *s, clef_error *err);
/** Puts an encoder-decoder's source through its encoder. */
clef_status clef__session_encode(clef_session *s, const int32_t *ids, int32_t n, clef_error *err);
/** Where `why` says that the device was lost: gets it back, makes the plans anew, and brings them to where
 *  the session stood: the source, the cache's n_past tokens, and of `gen` (NULL: no generation is under way)
 *  the step whose token nobody has yet. CLEF_OK: the call that failed may be made again. Else `why`, in *err
 *  (model/session/session_recover.c). */
clef_status clef__session_recover(clef_session *s, const generation *gen, const clef_error *why,
                                  clef_error *err);

/** How many plans clef_device_n_plans() counts for one; 0 for NULL. */
int32_t clef__plans_of(const clef_plan *plan);

/** Compiles a graph of the model with the session's options. */
clef_status clef__session_plan(const clef_session *s, clef_device *dev, clef_model *model,
                               const clef_build_opts *build, clef_plan **out,
                               clef_error *err);
/** Makes s->encoder of an encoder-decoder. */
clef_status clef__session_encoder(clef_session *s, clef_device *dev, clef_model *model, clef_error *err);
/** Runs the step of n tokens after `past`, whose ids and position the device has. */
clef_status clef__session_step(clef_session *s, int32_t past, int32_t n, clef_error *err);
/** Ends the generation under way: the steps that run ahead are forgotten. What they write to the cache is
 *  never seen, and written over. */
clef_status clef__session_end(clef_session *s, clef_error *err);

#endif
