/* Shows how far something long has come: a bar where stderr is a terminal, else a plain line every few seconds. */
#ifndef CLEF_TOOLS_PROGRESS_H
#define CLEF_TOOLS_PROGRESS_H

#include <stdint.h>

#include "clef/plan.h"

typedef struct clef__progress {
    int32_t     quiet;
    int32_t     on_terminal;
    const char *what;  /* of the last call */
    double      next;  /* seconds: nothing is shown before */
} clef__progress;

/** quiet: shows nothing, but still sees Ctrl-C. */
void clef__progress_init(clef__progress *progress, int32_t quiet);
/** A clef_progress; user is the clef__progress. Non-zero after Ctrl-C. */
int  clef__progress_step(void *user, const char *what, uint64_t done, uint64_t total);
/** The options with this progress in them. */
clef_compile_opts cli_compile_opts(const clef_compile_opts *opts, clef__progress *progress);
/** Takes the bar away. */
void clef__progress_finish(clef__progress *progress);

#endif
