/* Shows the progress of long work: a bar if stderr is a terminal, else a plain line every few seconds. */
#ifndef CLEF_TOOLS_CLI_PROGRESS_H
#define CLEF_TOOLS_CLI_PROGRESS_H

#include <stdint.h>

#include "clef/plan.h"

typedef struct cli_progress {
    int32_t     quiet;
    int32_t     on_terminal;
    const char *what;  /* as in the last call */
    double      next;  /* time, in seconds, before which nothing is shown */
} cli_progress;

/** quiet: shows nothing, but still notices Ctrl-C. */
void cli_progress_init(cli_progress *progress, int32_t quiet);
/** A clef_progress; user is the cli_progress. Returns non-zero after Ctrl-C. */
int  cli_progress_step(void *user, const char *what, uint64_t done, uint64_t total);
/** The options, with this progress function added. */
clef_compile_opts cli_compile_opts(const clef_compile_opts *opts, cli_progress *progress);
/** Removes the bar. */
void cli_progress_finish(cli_progress *progress);

#endif
