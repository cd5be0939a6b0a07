/* A run's time as Chrome's trace events (Perfetto reads them): what the host did, what the device did, and
 * which enqueueing led to which execution.
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
#ifndef CLEF_TOOLS_TRACE_H
#define CLEF_TOOLS_TRACE_H

#include <stdio.h>

#include "tools/common.h"

/** Zeroed: none. */
typedef struct cli_trace {
    const char *path, *title;
    FILE       *events;  /* so far */
    double      zero;    /* host seconds of its beginning */
    int64_t     n_events, n_flows;
    double      device_us, wall_us; /* in steps: sums */
} cli_trace;

/** path NULL: no trace; the other functions do nothing then. FILE.html is a page that shows the events, any
 *  other name the events' JSON. The texts are borrowed until the trace ends. */
clef_status cli_trace_begin(cli_trace *t, const char *path, const char *model, const char *device,
                            clef_error *err);
/** Something that the host did from `start` to `end` (cli_terminal_seconds()). */
void        cli_trace_span(cli_trace *t, const char *name, double start, double end);
/** The session's last step, which the host began to enqueue at `start` (negative: not known, reckoned from
 *  its end); waits for it. */
clef_status cli_trace_step(cli_trace *t, clef_session *session, const char *name, double start,
                           clef_error *err);
/** Writes the file; and lets go of what the trace holds, also after a failure. */
clef_status cli_trace_end(cli_trace *t, clef_error *err);

#endif
