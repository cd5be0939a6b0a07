/* The flags of sampling, for the commands that generate text. */
#ifndef CLEF_TOOLS_SAMPLING_H
#define CLEF_TOOLS_SAMPLING_H

#include "clef/model.h"
#include "clef/sampler.h"
#include "clef/tokenizer.h"
#include "tools/cli/cli.h"

/** A number that no flag sets, for options that a model may recommend. */
#define CLI_NOT_GIVEN (-1)

typedef struct cli_sampling {
    float       temperature, top_p, min_p, typical, repeat_penalty; /* or CLI_NOT_GIVEN */
    int32_t     top_k;                                              /* or CLI_NOT_GIVEN */
    float       presence_penalty, frequency_penalty, top_n_sigma;
    float       dry_multiplier, dry_base, xtc_probability, xtc_threshold, mirostat_tau, mirostat_eta;
    int32_t     repeat_last_n, dry_allowed_length, dry_last_n, mirostat; /* the first one or CLI_NOT_GIVEN */
    const char *samplers;
    cli_list    dry_breakers, biases;
    cli_seed    seed;
} cli_sampling;

/* clang-format off */
#define CLI_SAMPLING_DEFAULTS                                                                           \
    {.temperature = CLI_NOT_GIVEN, .top_p = CLI_NOT_GIVEN, .min_p = CLI_NOT_GIVEN,                      \
     .typical = CLI_NOT_GIVEN, .repeat_penalty = CLI_NOT_GIVEN, .top_k = CLI_NOT_GIVEN,                 \
     .dry_base = 1.75f, .xtc_threshold = 0.1f, .mirostat_tau = 5, .mirostat_eta = 0.1f,                 \
     .repeat_last_n = CLI_NOT_GIVEN, .dry_allowed_length = 2, .dry_last_n = -1}

#define CLI_SAMPLING_AT(options, field, name) .offset = offsetof(options, field.name)
#define SAMPLING_OPTIONS(options, field)                                                                \
    {.names = "temp,temperature", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 100,                  \
     CLI_SAMPLING_AT(options, field, temperature),                                                      \
     .help = "sampling temperature; 0: always pick the likeliest token [0.8]"},                         \
    {.names = "top-k", .type = CLI_INT, .value = "N", .lo = 0, .hi = INT32_MAX,                         \
     CLI_SAMPLING_AT(options, field, top_k),                                                            \
     .help = "sample from the N likeliest tokens; 0: off [40]"},                                        \
    {.names = "top-p", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 1,                               \
     CLI_SAMPLING_AT(options, field, top_p),                                                            \
     .help = "sample from the likeliest tokens whose probabilities add up to X; 1: off [0.95]"},        \
    {.names = "min-p", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 1,                               \
     CLI_SAMPLING_AT(options, field, min_p),                                                            \
     .help = "drop tokens less likely than X times the likeliest one; 0: off [0.05]"},                  \
    {.names = "typical,typical-p", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 1,                   \
     CLI_SAMPLING_AT(options, field, typical),                                                          \
     .help = "sample from the tokens of the most typical probability that add up to X; 1: off [1]"},    \
    {.names = "top-n-sigma,top-nsigma", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 100,            \
     CLI_SAMPLING_AT(options, field, top_n_sigma),                                                      \
     .help = "drop tokens more than X standard deviations of the logits below the best; 0: off [0]"},   \
    {.names = "xtc-probability", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 1,                     \
     CLI_SAMPLING_AT(options, field, xtc_probability),                                                  \
     .help = "the chance that a token is sampled without the likeliest ones; 0: off [0]"},               \
    {.names = "xtc-threshold", .type = CLI_FLOAT, .value = "X", .lo = 0.001, .hi = 1,                   \
     CLI_SAMPLING_AT(options, field, xtc_threshold),                                                    \
     .help = "these are all with a probability of at least X but the least of them [0.1]"},             \
    {.names = "repeat-penalty", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 100,                    \
     CLI_SAMPLING_AT(options, field, repeat_penalty),                                                   \
     .help = "penalty for tokens that appeared recently; 1: off [1]"},                                  \
    {.names = "presence-penalty", .type = CLI_FLOAT, .value = "X", .lo = -100, .hi = 100,               \
     CLI_SAMPLING_AT(options, field, presence_penalty),                                                 \
     .help = "subtract X from the logits of tokens that appeared recently [0]"},                        \
    {.names = "frequency-penalty", .type = CLI_FLOAT, .value = "X", .lo = -100, .hi = 100,              \
     CLI_SAMPLING_AT(options, field, frequency_penalty),                                                \
     .help = "subtract X as many times as they appeared [0]"},                                          \
    {.names = "repeat-last-n", .type = CLI_INT, .value = "N", .lo = 1, .hi = 65536,                     \
     CLI_SAMPLING_AT(options, field, repeat_last_n),                                                    \
     .help = "how many tokens back these penalties look [64]"},                                         \
    {.names = "dry-multiplier", .type = CLI_FLOAT, .value = "X", .lo = 0, .hi = 1000,                   \
     CLI_SAMPLING_AT(options, field, dry_multiplier),                                                   \
     .help = "DRY: subtract X BASE^(n - LENGTH) from the logit of a token that continues a repetition " \
             "of n tokens; 0: off [0]"},                                                                \
    {.names = "dry-base", .type = CLI_FLOAT, .value = "BASE", .lo = 1, .hi = 1000,                      \
     CLI_SAMPLING_AT(options, field, dry_base), .help = "DRY: its BASE [1.75]"},                        \
    {.names = "dry-allowed-length", .type = CLI_INT, .value = "LENGTH", .lo = 1, .hi = 65536,           \
     CLI_SAMPLING_AT(options, field, dry_allowed_length),                                               \
     .help = "DRY: shorter repetitions are free [2]"},                                                  \
    {.names = "dry-last-n,dry-penalty-last-n", .type = CLI_INT, .value = "N", .lo = -1,                 \
     .hi = INT32_MAX, CLI_SAMPLING_AT(options, field, dry_last_n),                                      \
     .help = "DRY: how many tokens back it looks; 0: off, -1: the whole text [-1]"},                    \
    {.names = "dry-breaker,dry-sequence-breaker", .type = CLI_LIST, .value = "TEXT",                    \
     CLI_SAMPLING_AT(options, field, dry_breakers),                                                     \
     .help = "DRY: no repetition reaches over TEXT; may be repeated; none: no breakers [a line break, " \
             ":, \", *]"},                                                                              \
    {.names = "mirostat", .type = CLI_INT, .value = "2", .lo = 0, .hi = 2,                              \
     CLI_SAMPLING_AT(options, field, mirostat),                                                         \
     .help = "2: hold the mean surprise of the tokens at --mirostat-tau, with penalties, DRY and "      \
             "temperature but no other sampler; 0: off [0]"},                                           \
    {.names = "mirostat-tau,mirostat-ent", .type = CLI_FLOAT, .value = "X", .lo = 0.001, .hi = 100,     \
     CLI_SAMPLING_AT(options, field, mirostat_tau), .help = "Mirostat: the surprise in bits [5]"},      \
    {.names = "mirostat-eta,mirostat-lr", .type = CLI_FLOAT, .value = "X", .lo = 0.001, .hi = 1,        \
     CLI_SAMPLING_AT(options, field, mirostat_eta), .help = "Mirostat: how fast it adapts [0.1]"},      \
    {.names = "logit-bias", .type = CLI_LIST, .value = "ID=X",                                          \
     CLI_SAMPLING_AT(options, field, biases),                                                           \
     .help = "add X to the logit of token ID; -inf: never pick it; may be repeated"},                   \
    {.names = "samplers", .type = CLI_TEXT, .value = "A,B", CLI_SAMPLING_AT(options, field, samplers),  \
     .help = "the samplers and their order; one left out is off [penalties,dry,top_n_sigma,top_k,"      \
             "typical,top_p,min_p,xtc,temperature]"},                                                   \
    {.names = "seed", .letter = 's', .type = CLI_SEED, .value = "N",                                    \
     CLI_SAMPLING_AT(options, field, seed),                                                             \
     .help = "seed of the random draws [random; printed with the statistics]"}
/* clang-format on */

/** Options of a sampler, and the lists in them. */
typedef struct cli_sampler {
    clef_sampler_opts opts;
    int32_t          *breakers;
    int32_t           cap_breakers;
    clef_logit_bias  *biases;
    char              recommended[256]; /* by the model, where no flag is set: "temperature 0.6, top_k 20" */
    const clef_model *model;            /* NULL: none */
} cli_sampler;

/** Makes the options from the flags, what the model recommends, and the defaults. With model NULL nothing is
 *  recommended, breakers are lists of ids ("3,4"), and options that were not given are off, the temperature
 *  is 1. CLI_GO_ON, or an exit code after a message. Free with cli_sampler_finish() in either case. */
int  cli_sampler_make(const cli_sampling *flags, const char *command, clef_model *model, cli_sampler *out);
/** Appends DRY's breakers of the texts (none: the usual ones) to the options, for a model that has a
 *  tokenizer. Texts of 1 to 40 bytes. CLI_GO_ON, or an exit code after a message. */
int  cli_dry_breakers(const cli_list *texts, clef_model *model, cli_sampler *out);
/** Tells on stderr what the model recommended, if anything; and which keys of generation_config.json hold for
 *  each text, and which are not applied. n_beams: of --beams, or 0. */
void cli_sampler_tell(const cli_sampler *sampler, int32_t n_beams);
void cli_sampler_finish(cli_sampler *sampler);

#endif
