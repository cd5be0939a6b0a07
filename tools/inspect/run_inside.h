/* `clef run --tap --stats`: the values behind a generated text. */
#ifndef CLEF_TOOLS_RUN_INSIDE_H
#define CLEF_TOOLS_RUN_INSIDE_H

#include "tools/inspect/forward.h"

typedef struct cli_inside_opts {
    cli_list  taps;
    const char *tap_out; /* the target, as for cli_tensors_write() */
    int32_t     stats;   /* 1: printed on stderr, because stdout has the text */
} cli_inside_opts;

/** Runs the model once over the ids of `forward` (known_ids, known_target); row i is the step that read token
 *  i. Returns an exit code. */
int cli_run_inside(const cli_inside_opts *o, const cli_forward_opts *forward, const char *path);

#endif
