/* A run's time as Chrome's trace events (Perfetto reads them): what the host did, what the device did, and
 * which call led to which execution.
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
#ifndef CLEF_TOOLS_TRACE_H
#define CLEF_TOOLS_TRACE_H

#include <stdio.h>

#include "tools/cli/common.h"

/** Zeroed: none. */
typedef struct cli_trace {
    const char *path, *title;
    FILE       *events;  /* so far */
    double      zero;    /* start of the trace, in the host's seconds */
    int64_t     n_events, n_flows;
    double      device_us, wall_us; /* sums over steps */
} cli_trace;

/** path NULL: no trace; the other functions do nothing then. FILE.html is a page that shows the events; any
 *  other name gets the events as JSON. The texts are borrowed until the trace ends. */
clef_status cli_trace_begin(cli_trace *t, const char *path, const char *model, const char *device,
                            clef_error *err);
/** Waits for the session's last step and adds it. `start`: when the host began to enqueue it; negative:
 *  unknown, and computed from its end. */
clef_status cli_trace_step(cli_trace *t, clef_session *session, const char *name, double start,
                           clef_error *err);
/** Writes the file and releases the trace, also after a failure. */
clef_status cli_trace_end(cli_trace *t, clef_error *err);

#endif
