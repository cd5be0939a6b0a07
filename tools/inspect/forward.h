/* One run of a model over a known text, whose values can be read: the base of `clef attention`, `clef logits`
 * and similar commands. */
#ifndef CLEF_TOOLS_FORWARD_H
#define CLEF_TOOLS_FORWARD_H

#include "clef/picture.h"
#include "tools/adapters.h"
#include "tools/cli/common.h"
#include "tools/cli/progress.h"

typedef struct cli_forward_opts {
    const char *prompt, *file, *ids, *in; /* exactly one of: text, a file of text, "1,2,3", a .safetensors
                                             file as for `clef eval` */
    const char *image;                    /* or a picture, for a model that reads pictures; "-": stdin */
    const char *target;                   /* an encoder-decoder's target text; NULL: what it generates, at
                                             most n_predict tokens */
    const char *device;
    cli_split   split;
    const char *said;                        /* if target is NULL: decoder_input_ids of this .safetensors
                                                file, if it has them */
    /* in place of all of these: ids, their mask or NULL, and the ids of an encoder-decoder's target */
    const int32_t *known_ids, *known_mask, *known_target;
    int32_t     n_known_ids, n_known_target;
    int32_t     n_predict, quiet;
    cli_list    loras;
    clef_compile_opts compile;
} cli_forward_opts;

/** The options that fill it. The command's options struct has a cli_forward_opts called `forward`. */
#define FORWARD_AT(options, field) .offset = offsetof(options, forward) + offsetof(cli_forward_opts, field)
#define FORWARD_OPTIONS(options)                                                                           \
    {.names = "prompt", .letter = 'p', .type = CLI_TEXT, .value = "TEXT", FORWARD_AT(options, prompt),     \
     .help = "the text"},                                                                                  \
    {.names = "file", .letter = 'f', .type = CLI_TEXT, .value = "FILE", FORWARD_AT(options, file),         \
     .help = "read the text from a file"},                                                                 \
    {.names = "ids", .type = CLI_TEXT, .value = "1,2,3", FORWARD_AT(options, ids),                         \
     .help = "token ids instead of a text"},                                                               \
    {.names = "in", .letter = 'i', .type = CLI_TEXT, .value = "FILE", FORWARD_AT(options, in),             \
     .help = "a .safetensors file with input_ids and optionally attention_mask and decoder_input_ids, of " \
             "one sequence"},                                                                              \
    {.names = "target", .type = CLI_TEXT, .value = "TEXT", FORWARD_AT(options, target),                    \
     .help = "encoder-decoders: the output text [what the model generates]"},                              \
    {.names = "n-predict", .letter = 'n', .type = CLI_INT, .value = "N", FORWARD_AT(options, n_predict),   \
     .lo = 1, .hi = 4096, .help = "encoder-decoders: most tokens to generate [32]"},                       \
    LORA_OPTION(offsetof(options, forward) + offsetof(cli_forward_opts, loras)),                           \
    {.names = "device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE", FORWARD_AT(options, device),   \
     .env = "CLEF_DEVICE",                                                                                 \
     .help = "the OpenCL device: platform and number (0:1), a part of its name, or auto; see `clef "       \
             "devices`"},                                                                                  \
    SPLIT_OPTIONS(offsetof(options, forward) + offsetof(cli_forward_opts, split)),                         \
    {.names = "gemm", .type = CLI_CHOICE, .value = "HOW", FORWARD_AT(options, compile.gemm),               \
     .choices = cli_gemm_names, .env = "CLEF_GEMM", .help = "which kernels multiply dense matrices"},      \
    {.names = "no-tune", .type = CLI_SWITCH, FORWARD_AT(options, compile.no_tune),                         \
     .help = "do not measure kernels when a model is first loaded; earlier measurements still count"},     \
    {.names = "no-proof", .type = CLI_SWITCH, FORWARD_AT(options, compile.no_proof),                       \
     .help = "use kernels that are new to this device without first checking their results in a child "    \
             "process"},                                                                                   \
    {.names = "quiet", .letter = 'q', .type = CLI_SWITCH, FORWARD_AT(options, quiet),                      \
     .help = "print no progress, only errors"}

/** State of a run; cli_forward_close() accepts it in any state. */
typedef struct cli_forward {
    const cli_forward_opts *o;
    clef_model           *model;
    const clef_tokenizer *tokenizer; /* NULL: the model has none, ids are used */
    clef_lora_set        *loras;  /* NULL: none */
    clef_device          *device;
    clef_graph           *graph;
    clef_plan            *plan;
    cli_progress        progress;
    int32_t              *ids, n_ids;
    int32_t              *mask;      /* NULL, or [n_ids]: 0 where a token is padding */
    int32_t              *target, n_target; /* of an encoder-decoder */
    int32_t               is_seq2seq;
    clef_pixels           pixels;    /* of a picture, in place of ids */
    clef_picture          seen;      /* the same part of it, to look at */
} cli_forward;

/** Opens the model, and reads the ids or the picture. */
clef_status cli_forward_open(cli_forward *f, const cli_forward_opts *o, const char *path, clef_error *err);
/** Builds the model's graph for exactly these ids or this picture as f->graph, with logits of every position
 *  of a text; taps as in clef_build_opts. */
clef_status cli_forward_build(cli_forward *f, const char *const *taps, int32_t n_taps, clef_error *err);
/** Optimises, plans and runs f->graph. */
clef_status cli_forward_run(cli_forward *f, clef_error *err);
/** Plans and runs a graph that was made from f->graph. */
clef_status cli_forward_execute(cli_forward *f, const clef_graph *graph, clef_error *err);
/** Reads an output as F32; the caller frees *out. dims has CLEF_MAX_DIMS. */
clef_status cli_forward_read(cli_forward *f, const char *name, float **out, int32_t *rank, int64_t *dims,
                             clef_error *err);
void        cli_forward_close(cli_forward *f);

/** The text of a token, "<5>" if it has none; the caller frees it. NULL when out of memory. */
char *cli_forward_token(const cli_forward *f, int32_t id);
/** Texts of n tokens, to be freed by cli_forward_texts_free(). */
char **cli_forward_texts(const cli_forward *f, const int32_t *ids, int32_t n);
void   cli_forward_texts_free(char **texts, int32_t n);

#endif
