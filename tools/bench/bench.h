/* What the files of `clef bench` share. */
#ifndef CLEF_TOOLS_BENCH_H
#define CLEF_TOOLS_BENCH_H

#include <stdio.h>

#include "tools/common.h"
#include "tools/progress.h"
#include "tools/inspect/trace.h"

enum { BENCH_MAX_ROUNDS = 100, BENCH_N_PRODUCTS = 4 };

typedef struct bench_options {
    const char *model, *device, *split, *product, *trace;
    int32_t n_prompt, n_gen; /* -1: by the model */
    int32_t depth, n_rounds, n_batch, n_threads, pin, kv_type;
    int32_t json, md, profile, of_device, quiet;
    clef_compile_opts compile;
} bench_options;

/** One figure: so many tokens in so many seconds, round after round. */
typedef struct bench_rate {
    const char *what; /* "prefill", "decode" */
    int32_t n_tokens, depth;
    int32_t n_samples;
    double samples[BENCH_MAX_ROUNDS]; /* tokens a second */
    double flops, bytes;              /* of one round */
} bench_rate;

/** What a benchmark holds; finished by cli_bench_close() in any state. */
typedef struct bench {
    const bench_options *o;
    clef_device *device;
    clef_model *model;
    clef_session *session;
    cli_progress progress;
    cli_trace trace;
    FILE *to;                            /* where profiles go */
    clef_device_speed speed;             /* with --profile: measured before the model is loaded */
    int32_t *ids;                        /* the longest that is fed at once */
    int32_t n_prompt, n_gen, n_threads;
    double load_seconds, first_seconds;  /* from the start to a session; to the logits of a first token */
    uint64_t peak_rss;
    bench_rate rates[2];
    int32_t n_rates;
} bench;

typedef struct bench_summary {
    double best, mean, median, stddev; /* stddev: of the sample, 0 for one */
} bench_summary;
bench_summary cli_bench_summary(const bench_rate *rate);

/** Prints the rates: JSON lines, or a table with the share of what the device was measured to do. */
void cli_bench_print_json(const bench *b);
/** The device's limit for the model's products in 1e9 operations a second: of bytes where its weights and
 *  activations are quantised. */
double cli_bench_limit(const bench *b, const clef_device_speed *speed);
void cli_bench_print_table(const bench *b, const clef_device_speed *speed);
void cli_bench_print_speed(const bench *b, const clef_device_speed *speed);

/** A product [M, K] x [N, K]^T by each who was asked: form of its second factor (NULL: not asked), kernel,
 *  GFLOP/s. */
typedef struct bench_product {
    int32_t m, n, k;
    struct {
        const char *form;
        char kernel[64];
        bench_rate rate;
    } runs[BENCH_N_PRODUCTS];
} bench_product;
/** Measures the products of --product on the device, in turn, and prints them with the share of its
 *  multiply-adds. Returns an exit code. */
int  cli_bench_product(bench *b);
void cli_bench_print_product(const bench *b, const bench_product *p, double limit);

/** Prints where the session's last step spent its time, and waits for it; b has o, model, session, speed and
 *  to. seconds: what the step took; 0: from its first launch's enqueueing to its last launch's end. Returns
 *  CLI_GO_ON or an exit code. */
int  cli_profile_step(const bench *b, const char *title, double seconds);
/** The line above: the limits that the shares are of. */
void cli_profile_limits(const bench *b);
/** Profiles one prefill and one decode step of the session (its device keeps times) and prints where the time
 *  goes. Returns an exit code. */
int cli_bench_profile(bench *b);

/** CLEF_E_CANCELLED when the user has interrupted the command. */
clef_status cli_bench_interrupted(clef_error *err);
/** The next tokens of the prompt: feeds n ids in steps, adding each step's cost to *flops and *bytes where
 *  these are not NULL. */
clef_status cli_bench_feed(bench *b, int32_t n, double *flops, double *bytes, clef_error *err);
/** Generates n tokens, greedily, after one more of the prompt: n steps. */
clef_status cli_bench_decode(bench *b, int32_t n, double *flops, double *bytes, clef_error *err);

#endif
