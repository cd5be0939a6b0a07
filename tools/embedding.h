/* What `clef embed` and `clef similarity` share: a model that computes embeddings, on a device. */
#ifndef CLEF_TOOLS_EMBEDDING_H
#define CLEF_TOOLS_EMBEDDING_H

#include "tools/cli/common.h"
#include "tools/cli/progress.h"

/** Options of both commands; their structs begin with these. */
typedef struct cli_embedding_options {
    const char *device;
    cli_split   split;
    int32_t     pooling, normalize, n_batch, truncate, no_prompt, n_dims, n_threads, quiet;
    const char *prompt_name;
    clef_compile_opts compile;
} cli_embedding_options;

/** The names of --pooling in the order of clef_pooling, and of --normalize in that of clef_normalize. */
extern const char *const cli_pooling_names[];
extern const char *const cli_normalize_names[];

#define EMBEDDING_OPTIONS(options)                                                                        \
    {.names = "pooling", .type = CLI_CHOICE, .value = "HOW", .offset = offsetof(options, common.pooling), \
     .choices = cli_pooling_names,                                                                        \
     .help = "how hidden states become one vector. model: as the model's files say, else their mean "     \
             "(decoders: the last one)"},                                                                 \
    {.names = "normalize", .type = CLI_CHOICE, .value = "HOW",                                            \
     .offset = offsetof(options, common.normalize), .choices = cli_normalize_names,                       \
     .help = "scale vectors to length 1. model: as the model's files say, else no"},                      \
    {.names = "truncate", .type = CLI_SWITCH, .offset = offsetof(options, common.truncate),               \
     .help = "cut texts that are too long for the model instead of refusing them"},                       \
    {.names = "no-prompt", .type = CLI_SWITCH, .offset = offsetof(options, common.no_prompt),             \
     .help = "leave out the prompt that the model's files put before each text"},                         \
    {.names = "prompt-name", .type = CLI_TEXT, .value = "NAME",                                           \
     .offset = offsetof(options, common.prompt_name),                                                     \
     .help = "put this prompt of the model's files before each text, such as query or document"},         \
    {.names = "dimensions", .type = CLI_INT, .value = "N", .offset = offsetof(options, common.n_dims),    \
     .lo = 1, .hi = 1 << 20,                                                                              \
     .help = "keep the first N numbers of each vector, for models that were trained for it"},             \
    THREADS_OPTION(cli_embedding_options), DEVICES_OPTION(cli_embedding_options),                         \
    COMPILE_OPTIONS(cli_embedding_options), QUIET_OPTION(cli_embedding_options)

/** cli_embedding_finish() accepts it in any state, also zeroed. */
typedef struct cli_embedding {
    clef_model    *model;
    clef_device   *device;
    clef_embedder *embedder;
    cli_progress progress;
} cli_embedding;

/** Returns CLI_GO_ON, or an exit code after a message. */
int  cli_embedding_open(cli_embedding *e, const cli_embedding_options *o, const char *path);
void cli_embedding_finish(cli_embedding *e);
/** Computes the embeddings of n texts, [n, n_dims], which the caller frees. n_tokens: NULL, or set to the
 *  number of their tokens. */
int  cli_embedding_texts(cli_embedding *e, const cli_embedding_options *o, const clef_span *texts, int32_t n,
                         float **out, int64_t *n_tokens);

#endif
