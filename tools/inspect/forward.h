/* One pass of a model over a text that is known, with values read out: what `clef attention`, `clef logits` and their kin do. */
#ifndef CLEF_TOOLS_FORWARD_H
#define CLEF_TOOLS_FORWARD_H

#include "tools/common.h"
#include "tools/progress.h"

typedef struct clef__forward_opts {
    const char *prompt, *file, *ids, *in; /* one of them: text, a file of text, "1,2,3", a .safetensors file as `clef eval` reads it */
    const char *target;                   /* an encoder-decoder's text; NULL: what it says itself, n_predict tokens at most */
    const char *device, *split;
    const char *said;                        /* where target is NULL: decoder_input_ids of this .safetensors file, if it has them */
    const int32_t *known_ids, *known_mask, *known_target; /* in place of all of these: ids, their mask or NULL, an encoder-decoder's own */
    int32_t     n_known_ids, n_known_target;
    int32_t     n_predict, quiet;
    clef_compile_opts compile;
} clef__forward_opts;

/** The options that stand for it in a command's options struct, which has a clef__forward_opts called `forward`. */
#define FORWARD_AT(options, field) .offset = offsetof(options, forward) + offsetof(clef__forward_opts, field)
#define FORWARD_OPTIONS(options)                                                                                                         \
    {.names = "prompt", .letter = 'p', .type = CLI_TEXT, .value = "TEXT", FORWARD_AT(options, prompt), .help = "the text"},              \
        {.names = "file", .letter = 'f', .type = CLI_TEXT, .value = "FILE", FORWARD_AT(options, file), .help = "a file with the text"},  \
        {.names = "ids", .type = CLI_TEXT, .value = "1,2,3", FORWARD_AT(options, ids), .help = "token ids in place of a text"},          \
        {.names = "in", .letter = 'i', .type = CLI_TEXT, .value = "FILE", FORWARD_AT(options, in),                                       \
         .help = "a .safetensors file with input_ids, attention_mask, decoder_input_ids of one sequence"},                               \
        {.names = "target", .type = CLI_TEXT, .value = "TEXT", FORWARD_AT(options, target),                                              \
         .help = "what an encoder-decoder says [what it generates]"},                                                                    \
        {.names = "n-predict", .letter = 'n', .type = CLI_INT, .value = "N", FORWARD_AT(options, n_predict), .lo = 1, .hi = 4096,        \
         .help = "tokens that an encoder-decoder generates at most [32]"},                                                               \
        {.names = "device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE", FORWARD_AT(options, device), .env = "CLEF_DEVICE",       \
         .help = "P:D, a part of a device's name, or auto (`clef devices` lists them)"},                                                 \
        {.names = "split", .type = CLI_TEXT, .value = "60,40", FORWARD_AT(options, split),                                               \
         .help = "of several devices (-d A,B): what each gets of the layers [by measured speed, as far as memory allows]"},              \
        {.names = "gemm", .type = CLI_CHOICE, .value = "HOW", FORWARD_AT(options, compile.gemm), .choices = clef__gemm_names,                    \
         .env = "CLEF_GEMM", .help = "who multiplies matrices"},                                                                         \
        {.names = "no-tune", .type = CLI_SWITCH, FORWARD_AT(options, compile.no_tune), .help = "measure no kernels at a model's first load"},    \
        {.names = "no-proof", .type = CLI_SWITCH, FORWARD_AT(options, compile.no_proof),                                                         \
         .help = "use kernels that this device never ran before without proving them first"},                                            \
    {                                                                                                                                    \
        .names = "quiet", .letter = 'q', .type = CLI_SWITCH, FORWARD_AT(options, quiet), .help = "no progress; errors still show"        \
    }

/** Finished by clef__forward_close() in any state. */
typedef struct clef__forward {
    const clef__forward_opts *o;
    clef_model           *model;
    const clef_tokenizer *tokenizer; /* NULL: ids alone */
    clef_device          *device;
    clef_graph           *graph;
    clef_plan            *plan;
    clef__progress        progress;
    int32_t              *ids, n_ids;
    int32_t              *mask;      /* NULL, or [n_ids]: 0 where a token is padding */
    int32_t              *target, n_target; /* of an encoder-decoder */
    int32_t               is_seq2seq;
} clef__forward;

/** Opens the model and makes the ids. */
clef_status clef__forward_open(clef__forward *f, const clef__forward_opts *o, const char *path, clef_error *err);
/** Builds the model's graph for exactly these ids, with logits of every position, as f->graph; taps as in clef_build_opts. */
clef_status clef__forward_build(clef__forward *f, const char *const *taps, int32_t n_taps, clef_error *err);
/** Optimises, plans and runs f->graph. */
clef_status clef__forward_run(clef__forward *f, clef_error *err);
/** Plans and runs a graph that was made of f->graph. */
clef_status clef__forward_execute(clef__forward *f, const clef_graph *graph, clef_error *err);
/** An output as F32; the caller frees *out. dims has CLEF_MAX_DIMS. */
clef_status clef__forward_read(clef__forward *f, const char *name, float **out, int32_t *rank, int64_t *dims, clef_error *err);
void        clef__forward_close(clef__forward *f);

/** The text of a token, "<5>" where it has none; the caller frees it. NULL when out of memory. */
char *clef__forward_token(const clef__forward *f, int32_t id);
/** Of n tokens: an array that clef__forward_texts_free() takes. */
char **clef__forward_texts(const clef__forward *f, const int32_t *ids, int32_t n);
void   clef__forward_texts_free(char **texts, int32_t n);

#endif
