/* Samples tokens from logits: a chain of samplers, then a random draw. */
#ifndef CLEF_SAMPLER_H
#define CLEF_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The samplers of a chain. Each gets tokens with logits z, and hands on some of them, or other logits. p is
 *  the softmax of the logits of the tokens that it gets; where tokens are equal, the lower id comes first.
 *
 *  PENALTIES    of a token that occurs n times among the last repeat_last_n: z / repeat_penalty where z > 0,
 *               else z repeat_penalty (arXiv:1909.05858); then z - n frequency_penalty - presence_penalty
 *               (OpenAI's API)
 *  DRY          z - dry_multiplier dry_base^(n - dry_allowed_length) of a token that would make a repetition
 *               of n >= dry_allowed_length tokens longer: the last n tokens are earlier in the text, too,
 *               and the token follows them there. n is the most of all such places. A repetition does not
 *               reach over a breaker (oobabooga/text-generation-webui#5677, ggml-org/llama.cpp#9702)
 *  TOP_N_SIGMA  keeps z >= max z - top_n_sigma s, s the standard deviation of z (arXiv:2411.07641)
 *  TOP_K        keeps the top_k largest
 *  TYPICAL      keeps the fewest whose p add up to `typical`, those first whose -ln p is nearest to the
 *               entropy (arXiv:2202.00666)
 *  TOP_P        keeps the fewest, the likeliest first, whose p add up to top_p (arXiv:1904.09751)
 *  MIN_P        keeps p >= min_p max p (arXiv:2407.01082)
 *  XTC          with the chance xtc_probability: of the tokens with p >= xtc_threshold keeps only the least
 *               likely (oobabooga/text-generation-webui#6335, ggml-org/llama.cpp#9742)
 *  TEMPERATURE  z / temperature; a temperature of 0 keeps the likeliest token alone */
typedef enum clef_sampler_kind {
    CLEF_SAMPLER_END,
    CLEF_SAMPLER_PENALTIES,
    CLEF_SAMPLER_DRY,
    CLEF_SAMPLER_TOP_N_SIGMA,
    CLEF_SAMPLER_TOP_K,
    CLEF_SAMPLER_TYPICAL,
    CLEF_SAMPLER_TOP_P,
    CLEF_SAMPLER_MIN_P,
    CLEF_SAMPLER_XTC,
    CLEF_SAMPLER_TEMPERATURE,
    CLEF_N_SAMPLERS
} clef_sampler_kind;

/** "penalties", "dry", "top_n_sigma", "top_k", "typical", "top_p", "min_p", "xtc", "temperature"; NULL for
 *  another number. */
CLEF_API const char *clef_sampler_name(clef_sampler_kind kind);

/** `bias` is added to the logit of token id, before everything else; -infinity: it is never sampled. */
typedef struct clef_logit_bias {
    int32_t id;
    float   bias;
} clef_logit_bias;

typedef struct clef_sampler_opts {
    float    temperature;    /* 0: greedy */
    int32_t  top_k;          /* 0: off */
    float    top_p;          /* 0 or 1: off */
    float    min_p;          /* 0: off */
    float    repeat_penalty; /* 0 or 1: off */
    int32_t  repeat_last_n;  /* tokens that the penalties look back at; 0: 64 */
    uint64_t seed;
    /* The order of the samplers: values of clef_sampler_kind, each at most once, ended by 0. All zero: the
     * order of clef_sampler_kind. A sampler that is left out is off; without a temperature it is 1 */
    uint8_t  samplers[CLEF_N_SAMPLERS];
    float    presence_penalty, frequency_penalty; /* -100 to 100; 0: off */
    float    dry_multiplier;     /* 0: off */
    float    dry_base;           /* at least 1; 0: 1.75 */
    int32_t  dry_allowed_length; /* 0: 2 */
    int32_t  dry_last_n;         /* tokens that DRY looks back at; 0 or -1: all of the text */
    const int32_t *dry_breakers; /* [n_dry_breakers]: sequences of ids, each ended by -1; copied */
    int32_t  n_dry_breakers;
    float    xtc_probability; /* 0: off */
    float    xtc_threshold;   /* 0: 0.1; above 0.5: off */
    float    typical;         /* 0 or 1: off */
    float    top_n_sigma;     /* 0: off */
    const clef_logit_bias *biases; /* [n_biases]; copied. Those of one id are added up */
    int32_t  n_biases;
    /* 2: Mirostat 2 (arXiv:2007.14966), 0: off. Of the samplers only PENALTIES, DRY and TEMPERATURE then
     * count. Keeps the tokens whose surprise -log2 p is at most mu, at least the likeliest. mu is twice
     * mirostat_tau at first; after each token mu -= mirostat_eta (surprise among those kept - tau) */
    int32_t  mirostat;
    float    mirostat_tau, mirostat_eta; /* 0: 5 and 0.1 */
    int32_t  no_rules; /* 1: a session or batch does without what the model's generation_config.json bans and
                          forces (clef_model_generation()). A clef_sampler knows no model, and no rules */
} clef_sampler_opts;

/** 1 if a session and a batch sample with these options on the device (opts NULL: greedy), 0 if they read the
 *  logits of each step and sample on the host, with the same result as a clef_sampler. Under rules of the
 *  model they always do. The device does repeat_penalty, top_k, top_p, min_p and the temperature, in the
 *  order of clef_sampler_kind, or with the temperature before top_p and min_p; and greedy samples. */
CLEF_API int32_t clef_sampler_on_device(const clef_sampler_opts *opts);

typedef struct clef_sampler clef_sampler;
/** Makes a sampler for a text without tokens. CLEF_E_ARG for an option out of range, which the text names,
 *  CLEF_E_NOMEM. It takes some 30 to 40 bytes for each token of the vocabulary. */
CLEF_API clef_status clef_sampler_create(int32_t n_vocab, const clef_sampler_opts *opts, clef_sampler **out,
                                         clef_error *err);
CLEF_API void        clef_sampler_destroy(clef_sampler *sampler);
/** Tells the sampler about a token that was fed (of the prompt too), for penalties and DRY. Where they
 *  see more than 2048, its memory grows; if there is none left, the older half of the text is forgotten. */
CLEF_API void        clef_sampler_accept(clef_sampler *sampler, int32_t id);
/** Samples the next id from logits [n_vocab], which are not changed: biases, the chain, then a random draw.
 *  -2, without a draw, if a logit is NaN or +inf, or all are -inf. Sample n takes draw n of SplitMix64
 *  (Steele, Lea, Flood 2014) for the seed, and XTC's chance that of the seed + 0x5854430000000000. The same
 *  seed gives the same samples everywhere, on host and device. Allocates nothing. */
CLEF_API int32_t     clef_sampler_pick(clef_sampler *sampler, const float *logits);
/** Samples among the allowed ids: id i is allowed if bit i % 32 of mask[i / 32] is set. The chain sees only
 *  these. mask NULL: all. -1, without a draw, if none is allowed. */
CLEF_API int32_t     clef_sampler_pick_masked(clef_sampler *sampler, const float *logits,
                                              const uint32_t *mask);

/** What clef_sampler_explain() calls after each sampler: its name, and p [n_vocab], 0 for tokens that were
 *  removed. */
typedef void (*clef_sampler_report)(void *user, const char *name, const double *p, int32_t n_vocab);
/** Reports what the next sample does: the distribution of the logits ("logits"), then that after each step of
 *  the chain that is on, by clef_sampler_name(), with "logit_bias" first and "mirostat" last where they are
 *  set. The last one is what the sample draws from. Changes nothing. CLEF_E_ARG if the mask allows no id or a
 *  logit is NaN or +inf; CLEF_E_NOMEM. */
CLEF_API clef_status clef_sampler_explain(const clef_sampler *sampler, const float *logits,
                                          const uint32_t *mask, clef_sampler_report report, void *user,
                                          clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
