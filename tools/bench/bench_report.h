/* The report of `clef bench --report` (docs/drivers.md): what was found and measured, and how it is
 * written. */
#ifndef CLEF_TOOLS_BENCH_REPORT_H
#define CLEF_TOOLS_BENCH_REPORT_H

#include "clef/tune.h"
#include "tools/bench/bench.h"

enum { REPORT_MAX_MODELS = 2, REPORT_MAX_ASIDE = 64, REPORT_NAME = 64 };

/** Launches of a step that do the same work with the same kernel. */
typedef struct report_launch {
    char     step[32]; /* "prefill 512 after 0" */
    char     kernel[REPORT_NAME], op[REPORT_NAME], variant[REPORT_NAME]; /* variant "": the op has none */
    char     node[REPORT_NAME];                                          /* of the first of them */
    uint32_t groups[3], local[3];
    int32_t  count;
    double   flops, bytes, us, least_us; /* of one of them; us: their mean */
} report_launch;

typedef struct report_model {
    char           name[256], arch[REPORT_NAME];
    uint64_t       n_bytes;
    int32_t        n_layers, d_model, n_vocab;
    const char    *dtype; /* that most of the bytes have; NULL: the model was not opened */
    double         limit; /* of products, in 1e9 operations a second */
    double         load_seconds, first_seconds;
    bench_rate     rates[2];
    int32_t        n_rates;
    report_launch *launches;
    int32_t        n_launches, cap_launches;
} report_model;

/** A kernel that is not used on the device. */
typedef struct report_aside {
    char op[REPORT_NAME], variant[REPORT_NAME], why[REPORT_NAME];
} report_aside;

typedef struct report {
    clef_device_info   device;
    clef_device_speed  speed;
    report_model       models[REPORT_MAX_MODELS];
    int32_t            n_models;
    report_aside       aside[REPORT_MAX_ASIDE];
    int32_t            n_aside;
    clef_variant_info *variants;
    int32_t            n_variants;
    char               failure[REPORT_NAME]; /* empty, or that the measurements stopped before the end */
} report;

/** Writes the report as JSON with sorted keys. `user` is the report (a cli_writer). */
clef_status cli_report_write(void *user, FILE *to, clef_error *err);

#endif
