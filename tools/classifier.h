/* What `clef classify` and `clef fill` share: a model with a head for it, on a device, and the text that goes through. */
#ifndef CLEF_TOOLS_CLASSIFIER_H
#define CLEF_TOOLS_CLASSIFIER_H

#include "tools/common.h"
#include "tools/progress.h"

/** Options of both; the first member of their structs is called `common`. */
typedef struct clef__classifier_options {
    const char *device, *split;
    int32_t     truncate, json, n_threads, quiet;
    clef_compile_opts compile;
} clef__classifier_options;

#define CLASSIFIER_OPTIONS(options)                                                                                                      \
    {.names = "json", .type = CLI_SWITCH, .offset = offsetof(options, common.json), .help = "as JSON"},                                  \
    {.names = "truncate", .type = CLI_SWITCH, .offset = offsetof(options, common.truncate),                                             \
     .help = "cut a text that is longer than the model takes, in place of refusing it"},                                                 \
    THREADS_OPTION(clef__classifier_options), DEVICES_OPTION(clef__classifier_options), COMPILE_OPTIONS(clef__classifier_options),        \
    QUIET_OPTION(clef__classifier_options)

/** Finished by clef__classifier_finish() in any state, zeroed too. */
typedef struct clef__classifier {
    clef_model           *model;
    const clef_tokenizer *tokenizer;
    clef_device          *device;
    clef_classifier      *classifier;
    clef_classifier_info  info;
    clef_encoded          text;
    clef__progress        progress;
} clef__classifier;

/** CLI_GO_ON, or an exit code after a message. */
int  clef__classifier_open(clef__classifier *c, const clef__classifier_options *o, const char *path, clef_head head);
void clef__classifier_finish(clef__classifier *c);
/** Encodes a text, or two (b not NULL), into c->text and runs it; *logits as of clef_classify(). */
int  clef__classifier_run(clef__classifier *c, const clef__classifier_options *o, const char *a, const char *b, const float **logits);
/** 1 for [CLS], [SEP] and their like. */
int  clef__classifier_is_mark(const clef__classifier *c, int32_t id);

#endif
