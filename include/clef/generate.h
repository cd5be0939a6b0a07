/* Generation: a session holds a model on a device with its KV cache; a sampler or a beam search picks tokens. */
#ifndef CLEF_GENERATE_H
#define CLEF_GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/model.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_session_opts {
    int32_t           n_context;     /* positions of the KV cache; 0: the model's own */
    int32_t           n_batch;       /* most prompt tokens of a step; 0: 512. A GPU gets fewer where a launch would
                                        last too long */
    int32_t           n_source;      /* most tokens of an encoder-decoder's source; 0: the model's context */
    int32_t           n_beams;       /* 0: the session picks one token after another; else it is made for
                                        clef_session_beams() with up to so many beams */
    int32_t           n_prompt;      /* tokens of the first prompt, if known: the kernels for that length are built
                                        before the first token, others when they are needed. 0: for whole steps */
    clef_dtype        kv_type;       /* of the KV cache, as in clef_build_opts */
    int32_t           describe_only; /* 1: nothing is loaded; clef_session_plan() says what would be
                                        (clef_plan_opts.describe_only) */
    clef_compile_opts compile;       /* its progress is called between steps too: "prompt", "beams" */
} clef_session_opts;

typedef struct clef_session clef_session;

/** A session of one sequence. dev and model are borrowed and must outlive it. Errors as clef_model_build() and clef_plan_create(). */
CLEF_API clef_status clef_session_create(clef_device *dev, clef_model *model, const clef_session_opts *opts, clef_session **out,
                                         clef_error *err);
CLEF_API void        clef_session_destroy(clef_session *session);

CLEF_API int32_t clef_session_n_context(const clef_session *session);
CLEF_API int32_t clef_session_n_past(const clef_session *session); /* positions in the cache */
CLEF_API clef_plan_stats clef_session_describe(const clef_session *session);
/** The plan of its steps (i 0), and of an encoder-decoder's encoder (i 1); NULL beyond. Borrowed from the session. */
CLEF_API const clef_plan *clef_session_plan(const clef_session *session, int32_t i);

/** Encoder-decoders: takes n ids (n >= 1, special tokens and all) as the source that the text to come is about, computes keys and values
 *  of the decoder's cross-attention once, and empties the cache. What is fed and generated after it is the target's text, which begins
 *  with clef_session_start(). A session of an encoder-decoder refuses to feed and generate before (CLEF_E_ARG).
 *  CLEF_E_UNSUPPORTED for a model of another kind, CLEF_E_ARG for an id outside the vocabulary, CLEF_E_LIMIT beyond n_source, CLEF_E_CL. */
CLEF_API clef_status clef_session_encode(clef_session *session, const int32_t *ids, int32_t n, clef_error *err);
/** What the text of an encoder-decoder begins with: its decoder_start, and the token forced behind it where the model has one. Writes them
 *  to ids and returns how many; 0 for other models. */
CLEF_API int32_t clef_session_start(const clef_session *session, int32_t ids[2]);

/** Feeds n ids (n >= 1) after what the cache holds, in steps of n_batch; then *logits is [n_vocab] f32 of the last one, owned by the
 *  session and overwritten by the next call. CLEF_E_LIMIT when they do not fit the context; CLEF_E_ARG for an id outside the
 *  vocabulary; CLEF_E_CANCELLED when progress says so between steps ("prompt", done, total); CLEF_E_CL. After any of them the cache
 *  holds what it held before, however many steps were done. */
CLEF_API clef_status clef_session_feed(clef_session *session, const int32_t *ids, int32_t n, const float **logits, clef_error *err);
typedef struct clef_sampler_opts {
    float    temperature;    /* 0: greedy */
    int32_t  top_k;          /* 0: off */
    float    top_p;          /* 0 or 1: off */
    float    min_p;          /* 0: off */
    float    repeat_penalty; /* 0 or 1: off (arXiv:1909.05858) */
    int32_t  repeat_last_n;  /* tokens looked back at; 0: 64 */
    uint64_t seed;
} clef_sampler_opts;

/** Generation, with picking on the device. _generate() feeds n ids as _feed() does and enqueues the first pick; it does not wait. Each
 *  _next() then gives a token, by the same rules and, for the same seed, the same draws as a fresh clef_sampler that was told of all that
 *  the cache holds. The device is a step ahead: while the caller looks at a token the step that takes it is running, and all that the host
 *  waits for is
 *  the 4 bytes of the token.
 *
 *  n_max  tokens wanted at most, so that no step runs for nothing; 0: until the context is full.
 *  opts   NULL: greedy.
 *
 *  n_past counts the prompt and every token given but the last, which is not in the cache (as with a sampler, whose pick has yet to be
 *  fed).
 *  _feed(), _generate() and _reset() end a generation; so does any error, and the cache then holds what n_past says. Stopping early costs
 *  the step under way; of models with a recurrent memory (linear attention) the next feed also goes over what the cache holds once more.
 *  Neither allocates, once the lengths have been seen, but for the step at which a fused step that was built meanwhile takes over.
 *
 *  A lost device (clef_error_is_lost()): _feed(), _generate(), _next() and clef_session_encode() make its context anew, load the model
 *  again, feed what the cache held and try once more; only what fails then is an error. Other plans on the device prevent it. What was fed
 *  token by token is fed many at a time then, so that logits may differ in their last bits.
 *
 *  _generate(): as _feed(), and CLEF_E_ARG for an option out of range. _next(): CLEF_E_ARG when no generation is under way, CLEF_E_LIMIT
 *  after n_max tokens or at the context's end, CLEF_E_CL. */
CLEF_API clef_status clef_session_generate(clef_session *session, const int32_t *ids, int32_t n, int32_t n_max,
                                           const clef_sampler_opts *opts, clef_error *err);
CLEF_API clef_status clef_session_next(clef_session *session, int32_t *id, clef_error *err);

typedef struct clef_beam_opts {
    int32_t n_beams;         /* 0: what the session was made for; no more than that */
    float   length_penalty;  /* a text's score is the sum of its tokens' log-probabilities / tokens^length_penalty; used as given */
    int32_t early_stopping;  /* 1: ends when n_beams texts have ended; 0: when no text under way is better than the worst of them */
    int32_t n_best;          /* texts wanted; 0: 1; at most n_beams */
    int32_t n_max;           /* tokens of a text; 0: until the context is full */
    int32_t ignore_eos;      /* 1: no text ends before */
    clef_status (*step)(void *user, clef_error *err); /* NULL, or called when a step is done, as long as clef_session_profile() tells of
                                                         it; anything but CLEF_OK ends the search, which returns it */
    void   *step_user;
} clef_beam_opts;

/** A text that a search found: its ids without the prompt and without the mark that ended it. */
typedef struct clef_hypothesis {
    int32_t *ids;
    int32_t  n;
    int32_t  ended; /* 1: by the model; 0: by n_max */
    float    score;
} clef_hypothesis;

/** Beam search after n ids (n >= 1), which are fed first: at each step the n_beams likeliest continuations of all beams go on, as
 *  transformers' generate(num_beams=n_beams, do_sample=False) does it. The beams share one encoder output, and their caches change places
 *  on the device. opts NULL: a length_penalty of 1, else zeros. *out has n_best texts (*n_out), the best first; free with
 *  clef_hypotheses_free(). The session's cache is emptied before and after; the source of an encoder-decoder stays.
 *  CLEF_E_ARG (the session was not made for beams; an option out of range), as clef_session_feed() else; CLEF_E_CANCELLED when progress
 *  says so ("beams", steps done, n_max). */
CLEF_API clef_status clef_session_beams(clef_session *session, const int32_t *ids, int32_t n, const clef_beam_opts *opts,
                                        clef_hypothesis **out, int32_t *n_out, clef_error *err);
CLEF_API void        clef_hypotheses_free(clef_hypothesis *hypotheses, int32_t n);

/** clef_plan_profile() of the session's last step. */
CLEF_API int32_t clef_session_profile(clef_session *session, clef_launch_time *times, int32_t capacity, clef_error *err);
/** Empties the cache. */
CLEF_API clef_status clef_session_reset(clef_session *session, clef_error *err);

typedef struct clef_sampler clef_sampler;
/** CLEF_E_ARG for an option out of range, which the text names. */
CLEF_API clef_status clef_sampler_create(int32_t n_vocab, const clef_sampler_opts *opts, clef_sampler **out, clef_error *err);
CLEF_API void        clef_sampler_destroy(clef_sampler *sampler);
/** Tells the sampler of a token that was fed (the prompt's too), for the repetition penalty. */
CLEF_API void        clef_sampler_accept(clef_sampler *sampler, int32_t id);
/** Picks the next id from logits [n_vocab] (not changed): penalty, temperature, top-k, top-p, min-p, draw; NaN never wins. Formulas,
 *  rounding and the rule at ties are in graph/op/sample.h: the same seed gives the same picks everywhere. Allocates nothing. */
CLEF_API int32_t     clef_sampler_pick(clef_sampler *sampler, const float *logits);

#ifdef __cplusplus
}
#endif
#endif
