/* `clef run --tap --stats`: the values behind a text. */
#ifndef CLEF_TOOLS_RUN_INSIDE_H
#define CLEF_TOOLS_RUN_INSIDE_H

#include "tools/inspect/forward.h"

typedef struct clef__inside_opts {
    clef__list  taps;
    const char *tap_out; /* where they go, as clef__tensors_write() takes it */
    int32_t     stats;   /* on stderr: stdout is the text's */
} clef__inside_opts;

/** One pass over the ids of `forward` (known_ids, known_target), with row i the step that read token i. Returns an exit code. */
int clef__run_inside(const clef__inside_opts *o, const clef__forward_opts *forward, const char *path);

#endif
