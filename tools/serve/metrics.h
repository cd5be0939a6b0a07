/* Counters and histograms, and their text for Prometheus. */
#ifndef CLEF_TOOLS_SERVE_METRICS_H
#define CLEF_TOOLS_SERVE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/serve/base/buffer.h"
#include "tools/serve/endpoints.h"

enum {
#define COUNTER(id, name, help) SERVE_COUNT_##id,
#include "tools/serve/metrics.def"
    SERVE_N_COUNTERS
};
enum {
#define LABELLED(id, name, help, label, values) SERVE_LABEL_##id,
#include "tools/serve/metrics.def"
    SERVE_N_LABELLED
};
enum {
#define GAUGE(id, name, help) SERVE_GAUGE_##id,
#include "tools/serve/metrics.def"
    SERVE_N_GAUGES
};
enum {
#define HISTOGRAM(id, name, help, ...) SERVE_TIME_##id,
#include "tools/serve/metrics.def"
    SERVE_N_HISTOGRAMS
};

/* The values of labels, in the order of metrics.def. */
enum {
    SERVE_REJECTED_QUEUE,
    SERVE_REJECTED_INVALID,
    SERVE_REJECTED_AUTH,
    SERVE_REJECTED_LIMIT,
    SERVE_REJECTED_HOST
};
enum { SERVE_CANCELLED_DISCONNECT, SERVE_CANCELLED_TIMEOUT, SERVE_CANCELLED_SLOW, SERVE_CANCELLED_SHUTDOWN };
enum { SERVE_COMPILE_OK, SERVE_COMPILE_CACHED, SERVE_COMPILE_REFUSED };

enum { SERVE_MOST_VALUES = 8, SERVE_MOST_BOUNDS = 16, SERVE_N_STATUSES = 32 };

typedef struct serve_histogram {
    _Atomic uint64_t counts[SERVE_MOST_BOUNDS + 1];
    _Atomic uint64_t sum; /* in millionths */
} serve_histogram;

typedef struct serve_metrics {
    _Atomic uint64_t counters[SERVE_N_COUNTERS];
    _Atomic uint64_t labelled[SERVE_N_LABELLED][SERVE_MOST_VALUES];
    _Atomic uint64_t requests[SERVE_N_ENDPOINTS + 1][SERVE_N_STATUSES]; /* the last ones: of other paths */
    serve_histogram histograms[SERVE_N_HISTOGRAMS];
} serve_metrics;

/** Any thread. */
void serve_count(serve_metrics *m, int counter, uint64_t n);
/** Makes a counter at least n. */
void serve_count_to(serve_metrics *m, int counter, uint64_t n);
void serve_count_label(serve_metrics *m, int labelled, int value);
void serve_count_request(serve_metrics *m, int endpoint, int32_t status);
void serve_observe(serve_metrics *m, int histogram, double x);

/** Writes all in Prometheus' text format 0.0.4, but for the lines of clef_build_info, which are last. */
void serve_metrics_write(const serve_metrics *m, const double gauges[SERVE_N_GAUGES], serve_buffer *to);
/** The same under llama-server's names (forms/llama_about.c). */
void serve_llama_metrics(const serve_metrics *m, const double gauges[SERVE_N_GAUGES], serve_buffer *to);
/** Writes the text of a label's value, escaped. */
void serve_label_text(const char *text, serve_buffer *to);
/** Writes a line of Markdown's table for each metric. */
void serve_metrics_list(FILE *to);

#endif
