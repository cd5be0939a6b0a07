/* The server's log: a line per request on stderr. */
#ifndef CLEF_TOOLS_SERVE_LOG_H
#define CLEF_TOOLS_SERVE_LOG_H

#include <stdint.h>

#include "tools/cli/cli.h"

typedef enum serve_log_form { SERVE_LOG_TEXT, SERVE_LOG_JSON } serve_log_form;
typedef struct serve_log {
    serve_log_form form;
    int32_t quiet, prompts;
} serve_log;

typedef struct serve_log_line {
    const char *id, *peer, *method, *path, *reason; /* reason NULL: none */
    const char *prompt;                             /* NULL: not reported */
    int32_t status;
    double seconds;
    int32_t n_prompt, n_cached, n_generated; /* -1: no tokens */
} serve_log_line;

/** Writes a line, control characters escaped. A log that cannot be written stops nothing. Any thread. */
void serve_log_request(const serve_log *log, const serve_log_line *line);
/** Writes "clef: " and the sentence; with SERVE_LOG_JSON as {"message": ..}. */
CLI_PRINTF(2, 3)
void serve_log_say(const serve_log *log, const char *format, ...);

#endif
