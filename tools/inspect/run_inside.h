/* `clef run --tap --stats`: the values behind a text. */
#ifndef CLEF_TOOLS_RUN_INSIDE_H
#define CLEF_TOOLS_RUN_INSIDE_H

#include "tools/inspect/forward.h"

typedef struct cli_inside_opts {
    cli_list  taps;
    const char *tap_out; /* where they go, as cli_tensors_write() takes it */
    int32_t     stats;   /* on stderr: stdout is the text's */
} cli_inside_opts;

/** One pass over the ids of `forward` (known_ids, known_target), with row i the step that read token i.
 *  Returns an exit code. */
int cli_run_inside(const cli_inside_opts *o, const cli_forward_opts *forward, const char *path);

#endif
