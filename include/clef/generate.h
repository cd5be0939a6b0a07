/* Text generation: a session holds a model on a device with its KV cache; a sampler (clef/sampler.h) or a
 * beam search samples tokens. */
#ifndef CLEF_GENERATE_H
#define CLEF_GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/constrain.h"
#include "clef/model.h"
#include "clef/plan.h"
#include "clef/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_session_opts {
    int32_t           n_context;     /* positions of the KV cache; 0: the model's own */
    int32_t           n_batch;       /* most prompt tokens of a step; 0: 512. A GPU gets fewer where a launch
                                        would last too long */
    int32_t           n_source;      /* most tokens of an encoder-decoder's source; 0: the model's context */
    int32_t           n_beams;       /* 0: the session samples one token after another; else it is made for
                                        clef_session_beams() with up to so many beams */
    int32_t           n_prompt;      /* tokens of the first prompt, if known: the kernels for that length are
                                        built before the first token, others when they are needed. 0: for
                                        whole steps */
    clef_dtype        kv_type;       /* of the KV cache, as in clef_build_opts */
    clef_lora_set    *loras;         /* NULL, or adapters; must outlive the session */
    int32_t           lora;          /* the number of the adapter that the sequence uses; 0: none */
    const char *const *taps;         /* values that each step gives, as in clef_build_opts */
    int32_t           n_taps;
    int32_t           describe_only; /* 1: nothing is loaded; clef_session_plan() says what would be
                                        (clef_plan_opts.describe_only) */
    clef_compile_opts compile;       /* its progress is called between steps too: "prompt", "beams" */
} clef_session_opts;

typedef struct clef_session clef_session;

/** Makes a session for one sequence. dev and model are borrowed and must outlive it. Errors as of
 *  clef_model_build() and clef_plan_create(). */
CLEF_API clef_status clef_session_create(clef_device *dev, clef_model *model, const clef_session_opts *opts,
                                         clef_session **out, clef_error *err);
CLEF_API void        clef_session_destroy(clef_session *session);

CLEF_API int32_t clef_session_n_context(const clef_session *session);
CLEF_API int32_t clef_session_n_past(const clef_session *session); /* positions in the cache */
/** The ids at those n_past positions. They belong to the session; the next call that feeds changes them. */
CLEF_API const int32_t *clef_session_ids(const clef_session *session);
/** The *n ids that clef_session_encode() read last; *n is 0 for none. They belong to the session. */
CLEF_API const int32_t *clef_session_source(const clef_session *session, int32_t *n);
CLEF_API clef_plan_stats clef_session_describe(const clef_session *session);
/** The plan of the session's steps (i = 0), and of the encoder of an encoder-decoder (i = 1); NULL beyond.
 *  Borrowed from the session. */
CLEF_API const clef_plan *clef_session_plan(const clef_session *session, int32_t i);

/** For encoder-decoders: reads n ids (n >= 1, with special tokens) as the source text, computes the keys and
 *  values of the decoder's cross-attention once, and empties the cache. What is fed and generated afterwards
 *  is the target text, which starts with clef_session_start(). A session of an encoder-decoder refuses to
 *  feed or generate before this call (CLEF_E_ARG). CLEF_E_UNSUPPORTED for another kind of model, CLEF_E_ARG
 *  for an id outside the vocabulary, CLEF_E_LIMIT beyond n_source, CLEF_E_CL. */
CLEF_API clef_status clef_session_encode(clef_session *session, const int32_t *ids, int32_t n,
                                         clef_error *err);
/** The same for Whisper, whose source is a spectrogram: features F32 [n_mels, 2 n_source] of the model's
 *  hyperparameters (clef/speech.h makes them). clef_session_encode() is CLEF_E_UNSUPPORTED for it, and this
 *  function for all others. */
CLEF_API clef_status clef_session_hear(clef_session *session, const float *features, clef_error *err);
/** The ids that the target text of an encoder-decoder starts with: its decoder_start, then the forced token
 *  if the model has one. Writes them to `ids` and returns how many there are; 0 for other models. */
CLEF_API int32_t clef_session_start(const clef_session *session, int32_t ids[2]);

/** Feeds n ids (n >= 1) after those in the cache, in steps of n_batch. *logits is then [n_vocab] f32 for the
 *  last id; it belongs to the session and is overwritten by the next call. CLEF_E_LIMIT if the ids do not
 *  fit into the context; CLEF_E_ARG for an id outside the vocabulary; CLEF_E_CANCELLED if progress
 *  ("prompt", done, total), which is called between steps, says so; CLEF_E_CL. After an error the cache
 *  holds what it held before the call. */
CLEF_API clef_status clef_session_feed(clef_session *session, const int32_t *ids, int32_t n,
                                       const float **logits, clef_error *err);

/** The generations that begin from now on fit a constraint, each from its first token on. The guide is
 *  copied, what it points to borrowed; NULL: they are free again. A generation with a guide samples on the
 *  host, and ends with one of the trie's end tokens. Ends a running generation. CLEF_E_ARG: the trie has no
 *  end tokens, or is of another vocabulary. CLEF_E_NOMEM. */
CLEF_API clef_status clef_session_guide(clef_session *session, const clef_guide *guide, clef_error *err);

/** Generation. clef_session_generate() feeds n ids as clef_session_feed() does, and does not wait. Each
 *  clef_session_next() then returns one token. Rules and, for the same seed, random draws are those of a new
 *  clef_sampler that has accepted all ids in the cache. The device is one step ahead: while the caller
 *  handles a token, the step after it already runs. If clef_sampler_on_device() says so, the device samples,
 *  and the host only waits for the 4 bytes of a token. Else it waits for the logits, and samples.
 *
 *  n_max  most tokens that the caller will ask for, so that no step runs in vain; 0: until the context is
 *         full.
 *  opts   NULL: greedy.
 *
 *  n_past counts the prompt and all returned tokens but the last one, which is not in the cache yet.
 *
 *  clef_session_feed(), _generate() and _reset() end a generation. So does any error, and the cache then
 *  holds what n_past says. Stopping early costs the step that is running. A model with recurrent state
 *  (linear attention) also replays the cached tokens at its next feed, because such a state cannot be
 *  rewound.
 *
 *  Neither function allocates once its lengths have been seen, except for the step at which a finished fused
 *  step takes over.
 *
 *  If the device is lost (clef_error_is_lost()), _feed(), _generate(), _next() and clef_session_encode()
 *  make a new context, load the model again, feed what the cache held, and try once more. Only a second
 *  failure is an error. Other plans on the device prevent this. Tokens that were fed one by one are then fed
 *  many at a time, so that logits may differ in their last bits.
 *
 *  _generate(): as _feed(), and CLEF_E_ARG for an option out of range. _next(): CLEF_E_ARG without a
 *  generation, or where a guide allows no token of the vocabulary, CLEF_E_LIMIT after n_max tokens or at the
 *  end of the context, CLEF_E_NOT_FINITE where a logit is NaN or +inf, or all are -inf, CLEF_E_CL. */
CLEF_API clef_status clef_session_generate(clef_session *session, const int32_t *ids, int32_t n,
                                           int32_t n_max, const clef_sampler_opts *opts, clef_error *err);
CLEF_API clef_status clef_session_next(clef_session *session, int32_t *id, clef_error *err);

typedef struct clef_beam_opts {
    int32_t n_beams;         /* 0: the n_beams of the session, which is also the most allowed */
    float   length_penalty;  /* score of a text: sum of its tokens' log-probabilities /
                                tokens^length_penalty. 0 means 0 */
    int32_t early_stopping;  /* 1: stops when n_beams texts have ended; 0: when no unfinished text of its
                                present length can beat the worst of them; 2: when none of any length can */
    int32_t n_best;          /* texts to return, at most n_beams; 0: 1 */
    int32_t n_max;           /* most tokens of a text; 0: until the context is full */
    int32_t ignore_eos;      /* 1: texts do not end before n_max */
    float   repeat_penalty;  /* of log-probabilities, over the whole text; 0 or 1: off */
    int32_t no_rules;        /* as in clef_sampler_opts */
    /* NULL, or bans tokens after a text [n] with its prompt: it sets their logits to -INFINITY. The
     * log-probabilities are those before it */
    void (*ban)(void *user, const int32_t *text, int32_t n, float *logits);
    void   *ban_user;
    clef_status (*step)(void *user, clef_error *err); /* NULL, or called after each step, while
                                                         clef_session_profile() describes it. Another status
                                                         than CLEF_OK ends the search, which returns it */
    void   *step_user;
} clef_beam_opts;

/** A text found by beam search: its ids without the prompt and without the end token. */
typedef struct clef_hypothesis {
    int32_t *ids;
    int32_t  n;
    int32_t  ended; /* 1: by the model; 0: by n_max */
    float    score;
} clef_hypothesis;

/** Beam search after n ids (n >= 1), which are fed first. Each step continues the n_beams likeliest
 *  continuations of all beams, as transformers' generate(num_beams=n_beams, do_sample=False) does. The beams
 *  share one encoder output; their caches are reordered on the device.
 *
 *  opts  NULL: a length_penalty of 1, everything else zero.
 *  out   n_best texts, the best first, and their number in *n_out. Free with clef_hypotheses_free().
 *
 *  The session's cache is emptied before and after; the source of an encoder-decoder stays. CLEF_E_ARG (a
 *  session without beams; an option out of range), CLEF_E_CANCELLED when progress ("beams", steps done,
 *  n_max) says so, CLEF_E_NOT_FINITE as clef_session_next(), else as clef_session_feed(). */
CLEF_API clef_status clef_session_beams(clef_session *session, const int32_t *ids, int32_t n,
                                        const clef_beam_opts *opts, clef_hypothesis **out, int32_t *n_out,
                                        clef_error *err);
CLEF_API void        clef_hypotheses_free(clef_hypothesis *hypotheses, int32_t n);

/** clef_plan_profile() of the session's last step. */
CLEF_API int32_t clef_session_profile(clef_session *session, clef_launch_time *times, int32_t capacity,
                                      clef_error *err);
/** Empties the cache. */
CLEF_API clef_status clef_session_reset(clef_session *session, clef_error *err);

/** Keeps the first n positions of the cache and drops the rest; ends a running generation. Costs nothing, but
 *  for a model with recurrent state (linear attention): if n is less than n_past, its next feed replays the n
 *  tokens first. CLEF_E_ARG unless 0 <= n <= n_past, CLEF_E_CL. */
CLEF_API clef_status clef_session_keep(clef_session *session, int32_t n, clef_error *err);

/** Writes what the session holds to a file, from which clef_session_load() continues: the ids in the cache,
 *  the KV cache of their positions, recurrent states, and the ids of an encoder-decoder's source. Ends a
 *  running generation. `path` never holds half a file: a temporary name is renamed.
 *
 *  The file, in little-endian order:
 *
 *      magic       8 bytes  "CLEFSESS"
 *      version     u32      1
 *      zero        u32
 *      length      u64      of the whole file
 *      fingerprint 32 bytes SHA-256 of the model's metadata and of each tensor's name, dtype, shape, first
 *                           and last 64 KiB
 *      model       96 bytes its name, for messages
 *      KV type     12 bytes "f32", "f16", "q8_0"
 *      context     u32      0, or the context on which the frequencies of RoPE depend (dynamic, longrope)
 *      n_past, n_source, n_states, n_adapters   u32 each
 *      adapters    n_adapters bytes: the adapter that the cache was computed with: 64 hexadecimal digits of
 *                  the SHA-256 of its matrices (with their scale), then its name and scale, for messages.
 *                  0 bytes: none
 *      ids         i32 [n_past]
 *      source      i32 [n_source]
 *      states      n_states times: name 64 bytes, dtype 16 bytes, rank u32, axis u32, dims u64 [4], length
 *                  u64, then the data, row-major. `axis` is the dim that counts positions: the file has
 *                  n_past of them. 2^32 - 1: the state has no positions, and all of it is in the file
 *      checksum    32 bytes SHA-256 of everything before
 *
 *  The file depends neither on the device nor, but for those frequencies, on the length of the context. The
 *  keys and values of an encoder-decoder's source are not in it; loading runs the encoder again.
 *
 *  CLEF_E_UNSUPPORTED for a session made for beams, CLEF_E_ARG for one that was only described, CLEF_E_IO,
 *  CLEF_E_CL, CLEF_E_NOMEM. The cache stays. */
CLEF_API clef_status clef_session_save(clef_session *session, const char *path, clef_error *err);

/** Replaces what the session holds by the file's content. The texts of errors name what differs.
 *
 *  CLEF_E_FORMAT: no session file, or it is cut or damaged (the checksum is compared first).
 *  CLEF_E_UNSUPPORTED: another version; a session made for beams. CLEF_E_ARG: of another model, KV type,
 *  adapters or frequencies of RoPE; a session that was only described. CLEF_E_LIMIT: more positions than
 *  the context holds, or a longer source than n_source. CLEF_E_IO, CLEF_E_NOMEM. After all of these the
 *  session is as it was.
 *  CLEF_E_CL: the cache is empty, and an encoder-decoder needs a source again. */
CLEF_API clef_status clef_session_load(clef_session *session, const char *path, clef_error *err);

/** Checks, before there is a session, that a file is whole and was made with this model, KV type and adapter
 *  (loras and lora as in clef_session_opts). Errors as of clef_session_load(). Reads the whole file. */
CLEF_API clef_status clef_session_check(const clef_model *model, clef_dtype kv_type,
                                        const clef_lora_set *loras, int32_t lora, const char *path,
                                        clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
