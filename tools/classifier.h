/* What `clef classify` and `clef fill` share: a model with a head, on a device, and the text that it
 * reads. */
#ifndef CLEF_TOOLS_CLASSIFIER_H
#define CLEF_TOOLS_CLASSIFIER_H

#include "tools/cli/common.h"
#include "tools/cli/progress.h"

/** Options of both commands; in their structs this member is called `common`. */
typedef struct cli_classifier_options {
    const char *device;
    cli_split   split;
    int32_t     truncate, json, n_threads, quiet;
    clef_compile_opts compile;
} cli_classifier_options;

#define CLASSIFIER_OPTIONS(options)                                                                        \
    {.names = "json", .type = CLI_SWITCH, .offset = offsetof(options, common.json), .help = "print JSON"}, \
    {.names = "truncate", .type = CLI_SWITCH, .offset = offsetof(options, common.truncate),                \
     .help = "cut a text that is too long for the model instead of refusing it"},                          \
    THREADS_OPTION(cli_classifier_options), DEVICES_OPTION(cli_classifier_options),                        \
    COMPILE_OPTIONS(cli_classifier_options), QUIET_OPTION(cli_classifier_options)

/** cli_classifier_finish() accepts it in any state, also zeroed. */
typedef struct cli_classifier {
    clef_model           *model;
    const clef_tokenizer *tokenizer;
    clef_device          *device;
    clef_classifier      *classifier;
    clef_classifier_info  info;
    clef_encoded          text;
    cli_progress        progress;
} cli_classifier;

/** Returns CLI_GO_ON, or an exit code after a message. */
int  cli_classifier_open(cli_classifier *c, const cli_classifier_options *o, const char *path,
                         clef_head head);
void cli_classifier_finish(cli_classifier *c);
/** Encodes a text, or two (b not NULL), into c->text and runs the model. *logits as in clef_classify(). */
int  cli_classifier_run(cli_classifier *c, const cli_classifier_options *o, const char *a, const char *b,
                        const float **logits);
/** 1 for special tokens such as [CLS] and [SEP]. */
int  cli_classifier_is_mark(const cli_classifier *c, int32_t id);

#endif
