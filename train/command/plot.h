/* Loss curves from the logs of `clef train`. */
#ifndef CLEF_TRAIN_COMMAND_PLOT_H
#define CLEF_TRAIN_COMMAND_PLOT_H

#include "tools/cli/common.h"
#include "tools/cli/output.h"

/** Numbers along the steps. */
typedef struct plot_series {
    double *step, *value;
    int64_t n, capacity;
} plot_series;

typedef struct plot_sample {
    double step;
    char  *text;
} plot_sample;

/** What a log says. Of a run that was resumed, the steps that were made twice count once. */
typedef struct plot_log {
    const char  *path;
    char         model[256];
    double       parameters;
    plot_series  loss, rate, evaluation, speed;
    plot_sample *samples;
    int64_t      n_samples;
} plot_log;

typedef struct plot_logs {
    plot_log *logs;
    int32_t   n;
} plot_logs;
/* cli_writers; their user is a plot_logs. */
clef_status plot_svg(void *logs, FILE *to, clef_error *err);
clef_status plot_png(void *logs, FILE *to, clef_error *err);
clef_status plot_html(void *logs, FILE *to, clef_error *err);

/** `clef train plot LOG.. [-o FILE]`. An exit code. */
int plot_run(int32_t n_logs, char **logs, const char *out);

#endif
