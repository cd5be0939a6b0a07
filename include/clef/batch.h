/* Many sequences in one step: a batch reads the weights once for all of them. */
#ifndef CLEF_BATCH_H
#define CLEF_BATCH_H

#include "clef/constrain.h"
#include "clef/generate.h"
#include "clef/lora.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A batch runs requests. Each step feeds up to step_tokens rows, a row being one token of one sequence:
 *  first a token of every sequence that generates, then parts of prompts. The logits of a row do not
 *  depend on the rows beside it but for their last bits, and with `repeatable` not at all.
 *
 *  Keys and values lie in pages of CLEF_KV_PAGE positions. Any prefix of a prompt that is still in the
 *  pool, from a finished or a running sequence, is not computed again; it must be equal token by token,
 *  with the same adapter and salt. If the pool is full, the newest running sequence is preempted: its
 *  pages are freed, and its tokens are computed again later. What it generates does not change. */
typedef struct clef_batch clef_batch;

typedef struct clef_batch_opts {
    int32_t    n_context;       /* most positions of a sequence; 0: the model's own */
    int32_t    max_sequences;   /* most sequences that run at once; 0: 8 */
    int32_t    step_tokens;     /* most rows of a step, at least max_sequences; 0: 512, on a CPU 256 */
    int64_t    kv_tokens;       /* positions in the pool; 0: what max_sequences of n_context need, or less
                                   where the device's memory says so */
    int32_t    n_source;        /* most tokens of an encoder-decoder's source; 0: the model's context */
    clef_dtype kv_type;         /* as in clef_build_opts */
    clef_lora_set *loras;       /* NULL, or the adapters that requests may name; must outlive the batch */
    int32_t    no_prefix_cache; /* 1: every prompt is computed from its first token */
    int32_t    repeatable;      /* 1: a row's result is bit-identical whatever other rows are in the step,
                                   so that texts do not depend on other requests, the prefix cache, or
                                   set-backs. It may cost speed */
    /* Speculation: draft tokens are fed together with a sequence's last one, and kept as far as they are
     * what would have been sampled. The text is the same, at any temperature. Off while more than
     * spec_max_sequences (0: 4) sequences run, and for a while where the tokens accepted do not make up for
     * the time. spec_always 1: on even then, as for measurements.
     *
     * ngram_max > 0: draft tokens come from the sequence's own text. Its last ngram_max to ngram_min tokens
     * (0: 3) are looked for in the text, the longest first, and what followed them is the draft.
     * draft: a second model drafts up to draft_tokens (0: 4) tokens, its likeliest ones. It must have the
     * same vocabulary, token by token, and must outlive the batch. It excludes ngram_max
     * mtp 1: the layer behind the model's own that predicts further tokens (multi-token prediction) drafts up
     * to draft_tokens tokens. CLEF_E_UNSUPPORTED if the model has none. It excludes ngram_max and draft */
    int32_t    ngram_min, ngram_max, spec_max_sequences, spec_always;
    clef_model *draft;
    int32_t    draft_tokens, mtp;
    int32_t    describe_only;   /* as in clef_session_opts */
    clef_compile_opts compile;
    /* disk_dir: NULL, or a folder in which pages of the prefix cache are also kept, of disk_bytes at most, so
     * that a later batch of the same model finds them. Its files hold the tokens of prompts: they are for the
     * owner's eyes. disk_notice: NULL, or called with each line that a log should have */
    const char *disk_dir;
    uint64_t   disk_bytes;
    void     (*disk_notice)(void *user, const char *text);
    void      *disk_user;
} clef_batch_opts;

/** Makes a batch. dev and model are borrowed and must outlive it; one thread drives it. CLEF_E_ARG for an
 *  option out of range and for a draft of another vocabulary, naming the first token that differs;
 *  CLEF_E_LIMIT for a pool without room for a page; CLEF_E_UNSUPPORTED for a model that cannot draft; else
 *  the errors of clef_model_tokenizer(), clef_model_build() and clef_plan_create(). */
CLEF_API clef_status clef_batch_create(clef_device *dev, clef_model *model, const clef_batch_opts *opts,
                                       clef_batch **out, clef_error *err);
CLEF_API void        clef_batch_destroy(clef_batch *batch);

/** Rows of a prompt for a picture, or for a part of one, in place of the embeddings of their tokens
 *  ids[at .. at + n). clef_sight_see() makes them. Copied. */
typedef struct clef_request_picture {
    int32_t      at, n;
    int32_t      height, width; /* with M-RoPE the grid of the rows, height width = n; else not used */
    const float *rows;     /* [n, 1 + deep, d]: embeddings, and what the first layers' results get added */
    uint64_t     digest[4]; /* the prefix cache takes pictures with equal digests for equal */
} clef_request_picture;

typedef struct clef_request {
    const int32_t *ids;         /* [n]: the prompt, n >= 1 */
    int32_t        n;
    const int32_t *source;      /* [n_source]: the source of an encoder-decoder; else NULL */
    int32_t        n_source;
    int32_t        n_max;       /* most tokens to generate; 0: until the context is full */
    int32_t        n_min;       /* before so many tokens none is sampled that ends the text; 0 with a guide */
    int32_t        ignore_eos;  /* 1: the model's end tokens do not end the text */
    const int32_t *stops;       /* [n_stops]: further tokens that end it, ignore_eos or not */
    int32_t        n_stops;
    clef_sampler_opts sampling; /* all zero: greedy */
    /* Draws come from a stream of their own, named by (sampling.seed, stream) and counted from the end of the
     * prompt. Stream 0 draws what clef_session_generate() does */
    uint32_t       stream;
    int32_t        logprobs;    /* 1: the log-probability of each token is computed; 2: that with which it was
                                   drawn, after the options of sampling; 0 where it was forced */
    int32_t        n_top;       /* with logprobs: so many of the likeliest tokens are reported, up to
                                   CLEF_MOST_TOP */
    const int32_t *forced;      /* [n_forced]: the text's first tokens, taken instead of what would have been
                                   sampled, so that the steps of a known text can be measured, and its
                                   log-probabilities be reported. None of them ends the text */
    int32_t        n_forced;    /* at most n_max; 0: none */
    int32_t        lora;        /* the number of its adapter in the batch's set; 0: none */
    int32_t        no_speculation; /* 1: nothing is drafted for it */
    uint64_t       salt;        /* prompts with different salts share no cached prefix */
    const clef_thought *thought; /* NULL, or how long its reasoning may be. Copied */
    const clef_guide *guide;    /* NULL, or what the text must fit, draft tokens too. Copied; what it
                                   points to must outlive the sequence. Its trie's end tokens end the text */
    const clef_request_picture *pictures; /* [n_pictures], in the order of the prompt; else NULL. The first
                                   ones of a batch make its plan anew, which takes such rows from then on */
    int32_t        n_pictures;
} clef_request;

enum { CLEF_MOST_TOP = 20 };

/** Adds a request, which waits until there is room. The arrays are copied. *sequence is its number, which
 *  no other request of the batch has had. CLEF_E_ARG (an id outside the vocabulary, an option out of
 *  range, no source), CLEF_E_LIMIT (it could never fit into the context or the pool), CLEF_E_NOMEM. */
CLEF_API clef_status clef_batch_add(clef_batch *batch, const clef_request *request, int64_t *sequence,
                                    clef_error *err);
/** Forgets a sequence, running or finished, and its tokens. CLEF_E_NOT_FOUND if there is none of that
 *  number. */
CLEF_API clef_status clef_batch_cancel(clef_batch *batch, int64_t sequence, clef_error *err);

/** Takes a sequence off the device, so that others can run: its pages are as those of one that was preempted,
 *  and it waits until clef_batch_resume(). What it generates does not change. CLEF_E_NOT_FOUND. */
CLEF_API clef_status clef_batch_pause(clef_batch *batch, int64_t sequence, clef_error *err);
CLEF_API clef_status clef_batch_resume(clef_batch *batch, int64_t sequence, clef_error *err);

/** Runs one step, and samples a token for each sequence whose prompt is complete. *n_rows is the number of
 *  rows it had: 0 when no sequence is left to run, or all are paused. Allocates nothing once its lengths have
 *  been seen.
 *
 *  If the device is lost, it gets a new context and the step is repeated once, with the caches computed
 *  again. After any other error the sequences are as before the step. CLEF_E_CL, CLEF_E_BUILD,
 *  CLEF_E_DEVICE, CLEF_E_NOMEM, CLEF_E_CANCELLED. */
CLEF_API clef_status clef_batch_step(clef_batch *batch, int32_t *n_rows, clef_error *err);

typedef enum clef_finish {
    CLEF_FINISH_NONE,   /* the sequence goes on */
    CLEF_FINISH_STOP,   /* the model ended the text; the token is its end token */
    CLEF_FINISH_LENGTH, /* n_max tokens, or the end of the context */
    CLEF_FINISH_FAILED, /* the guide and the model's rules allow no token of the vocabulary, or the guide grew
                           beyond its limits; the token is none of the text */
    CLEF_FINISH_NOT_FINITE /* a logit is NaN or +inf, or all are -inf; the token is none of the text */
} clef_finish;

/** ln of a token's probability: see clef_request.logprobs. */
typedef struct clef_token_logprob {
    int32_t id;
    float   logprob;
} clef_token_logprob;

/** A generated token, and the counts of its sequence up to it. With the last one the sequence's number is
 *  free. */
typedef struct clef_batch_token {
    int64_t     sequence;
    int32_t     id;
    float       logprob;      /* ln of its probability; 0 unless requested */
    clef_finish finish;
    int32_t     n_prompt;     /* tokens of the prompt */
    int32_t     n_cached;     /* of these, found in the prefix cache when the sequence began */
    int32_t     n_generated;
    int32_t     n_preemptions;
    int32_t     n_drafted, n_accepted; /* tokens of speculation, so far */
    int32_t     n_top;        /* fewer where fewer were left to be drawn */
    clef_token_logprob top[CLEF_MOST_TOP]; /* the likeliest first; of equal ones the lower id */
} clef_batch_token;

/** Moves up to `capacity` tokens that steps have sampled to `out`, oldest first, and returns their number. */
CLEF_API int32_t clef_batch_take(clef_batch *batch, clef_batch_token *out, int32_t capacity);

/** How far a sequence is: 1 if it runs, 0 if it waits, -1 if there is none of that number. *n_past: its
 *  tokens in the cache now; *n_cached: of its prompt, found in the prefix cache when it began. */
CLEF_API int32_t clef_batch_find(const clef_batch *batch, int64_t sequence, int32_t *n_past,
                                 int32_t *n_cached);

typedef struct clef_batch_stats {
    int32_t  n_waiting, n_running;
    int64_t  n_steps, n_rows;            /* so far */
    int64_t  n_prompt, n_cached;         /* tokens of prompts that began; those found in the prefix cache */
    int64_t  n_generated, n_preemptions;
    int64_t  n_drafted, n_accepted;    /* tokens of speculation */
    int64_t  n_masks;                    /* samples under guides */
    double   mask_seconds;               /* which these took */
    int64_t  n_spec_steps, n_spec_off;   /* steps with draft tokens; without, as they would not have paid */
    int32_t  n_pages, n_pages_running, n_pages_kept; /* of the pool; held by running sequences; kept for
                                                        later */
    int64_t  kv_tokens;                  /* positions in the pool */
    uint64_t page_bytes;                 /* of all layers */
} clef_batch_stats;
CLEF_API clef_batch_stats clef_batch_describe(const clef_batch *batch);
/** NULL, or why prompts are always computed whole. Borrowed from the batch. */
CLEF_API const char      *clef_batch_no_prefix_cache(const clef_batch *batch);
/** NULL, or why nothing is speculated although it was asked for. Borrowed from the batch. */
CLEF_API const char      *clef_batch_no_speculation(const clef_batch *batch);
/** The plan of the steps (i = 0), of the encoder of an encoder-decoder (i = 1), and of the steps of the draft
 *  or of the layer that drafts (i = 2); NULL where there is none. Borrowed. */
CLEF_API const clef_plan *clef_batch_plan(const clef_batch *batch, int32_t i);

#ifdef __cplusplus
}
#endif
#endif
