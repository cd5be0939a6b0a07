/* What the files of `clef bench` share. */
#ifndef CLEF_TOOLS_BENCH_H
#define CLEF_TOOLS_BENCH_H

#include <stdio.h>

#include "clef/batch.h"
#include "tools/cli/common.h"
#include "tools/inspect/trace.h"
#include "tools/cli/progress.h"
#include "tools/speculation.h"

enum { BENCH_MAX_ROUNDS = 100, BENCH_N_PRODUCTS = 4 };

typedef struct bench_options {
    const char *model, *device, *product, *trace, *batch, *report;
    cli_split split;
    int32_t n_prompt, n_gen; /* -1: depends on the model */
    int32_t depth, n_rounds, n_batch, n_threads, pin, kv_type;
    int32_t json, md, profile, of_device, network, quiet, repeatable, step_tokens;
    cli_speculation speculation;
    clef_batch_opts spec_opts; /* of these flags */
    clef_compile_opts compile;
} bench_options;

/** One figure: n tokens in some seconds, for each round. */
typedef struct bench_rate {
    const char *what; /* "prefill", "decode" */
    int32_t n_tokens, depth;
    int32_t n_samples;
    double samples[BENCH_MAX_ROUNDS]; /* tokens a second */
    double flops, bytes;              /* of one round */
    double sent_bytes; /* a token, of the rank that sends the most to others; 0: not measured */
} bench_rate;

/** State of a benchmark; cli_bench_close() accepts it in any state. */
typedef struct bench {
    const bench_options *o;
    clef_device *device;
    clef_model *model;
    clef_session *session;
    clef_batch *batch; /* with --batch */
    cli_progress progress;
    cli_trace trace;
    int32_t is_profiled;     /* 1: the device is opened for profiles, as with --profile */
    FILE *to;                /* output of profiles */
    clef_device_speed speed; /* with --profile: measured before the model is loaded */
    int32_t *ids;            /* the longest sequence that is fed at once */
    int32_t n_prompt, n_gen, n_threads;
    double load_seconds, first_seconds; /* from the start until the session is open; until the logits of
                                           the first token */
    uint64_t peak_rss;
    bench_rate rates[2];
    int32_t n_rates;
} bench;

/** The parts of a benchmark (bench_model.c): each returns CLI_GO_ON, or an exit code after saying why. Open
 *  opens the device too, if that is not open yet. */
int  cli_bench_open_device(bench *b);
/** Opens the model alone, which has to be a decoder. */
int  cli_bench_open_decoder(bench *b, const char *path);
int  cli_bench_open(bench *b, const char *path);
int  cli_bench_measure(bench *b);
/** Closes the model; the device may be measured afterwards. */
void cli_bench_close_model(bench *b);
/** Destroys the session, and measures the limits of its devices. Several devices work one after the other, so
 *  each is weighted by the bytes and operations of its layers. */
clef_status cli_bench_limits(bench *b, clef_device_speed *out, clef_error *err);

/** Writes the report of --report: device, driver, limits, and the bundled and the given model (NULL: none) on
 *  it. Returns an exit code. */
int cli_bench_report(bench *b, const char *given);

typedef struct bench_summary {
    double best, mean, median, stddev; /* stddev: of the sample; 0 for one round */
} bench_summary;
bench_summary cli_bench_summary(const bench_rate *rate);

/** Prints the rates: as JSON lines, or as a table with their share of the device's measured limits. */
void cli_bench_print_json(const bench *b);
/** The device's limit for the model's products in 1e9 operations per second: for products of bytes if its
 *  weights and activations are quantised. */
double cli_bench_limit(const bench *b, const clef_device_speed *speed);
void cli_bench_print_table(const bench *b, const clef_device_speed *speed);
void cli_bench_print_speed(const bench *b, const clef_device_speed *speed);

/** A product [M, K] x [N, K]^T by each contestant: the form of its second factor (NULL: not asked for),
 *  kernel, GFLOP/s. */
typedef struct bench_product {
    int32_t m, n, k;
    struct {
        const char *form;
        char kernel[64];
        bench_rate rate;
    } runs[BENCH_N_PRODUCTS];
} bench_product;
/** Measures the products of --product on the device, alternately, and prints them with their share of its
 *  multiply-adds. Returns an exit code. */
int cli_bench_product(bench *b);
void cli_bench_print_product(const bench *b, const bench_product *p, double limit);

enum { BENCH_MAX_BATCH = 32 };
/** A number of sequences that generate at once: the best of the rounds. */
typedef struct bench_batch_row {
    int32_t n_sequences;
    double total;    /* tokens a second of all sequences, while all of them generate */
    double whole;    /* all tokens generated / the time from the first prompt to the last token */
    double p50, p99; /* seconds between two tokens of a sequence */
} bench_batch_row;
typedef struct bench_batch {
    bench_batch_row rows[BENCH_MAX_BATCH];
    int32_t n_rows, step_tokens;
    int32_t n_long;    /* tokens of a prompt that comes in beside a running text; 0: not measured */
    double gap;        /* the longest gap of that text, in seconds */
    double step;       /* the longest step of that prompt alone, which has step_tokens rows */
    uint64_t kv_bytes; /* of the pool and of states */
} bench_batch;
/** Measures the numbers of sequences of --batch, and prints them. b has o and device. Returns an exit
 *  code. */
int cli_bench_batch(bench *b, const char *path);
void cli_bench_print_batch(const bench *b, const bench_batch *batch);

/** A text with speculation and without, one sequence: the best of the rounds. */
typedef struct bench_spec_row {
    const char *name;
    int32_t n_prompt, n_gen;
    double plain, with;              /* tokens a second */
    int64_t n_drafted, n_accepted; /* tokens of all rounds */
} bench_spec_row;
enum { BENCH_SPEC_TEXTS = 2 };
typedef struct bench_spec {
    bench_spec_row rows[BENCH_SPEC_TEXTS];
    int32_t n_rows;
    const char *off; /* NULL, or why nothing is drafted */
} bench_spec;
/** Measures what speculation gives, and prints it. b has o and device. Returns an exit code. */
int cli_bench_spec(bench *b, const char *path);
void cli_bench_print_spec(const bench *b, const bench_spec *spec);

/** Waits for the session's last step, and prints where it spent its time. b has o, model, session, speed and
 *  to. seconds: the step's time; 0: from the enqueueing of its first launch to the end of its last. Returns
 *  CLI_GO_ON or an exit code. */
int cli_profile_step(const bench *b, const char *title, double seconds);
/** Prints the limits that the shares refer to, as the line above the tables. */
void cli_profile_limits(const bench *b);
/** Profiles one prefill step and one decode step of the session (its device must measure times), and prints
 *  where the time goes. Returns an exit code. */
int cli_bench_profile(bench *b);
/** The least time of a launch that b->speed allows: to read its memory or to do its operations, whichever is
 *  longer. */
double cli_bench_least_us(const bench *b, const clef_launch_time *t);

/** CLEF_E_CANCELLED if the user has interrupted the command. */
clef_status cli_bench_interrupted(clef_error *err);
/** Feeds n ids, the next tokens of the prompt, in steps. Adds each step's cost to *flops and *bytes, unless
 *  they are NULL. */
clef_status cli_bench_feed(bench *b, int32_t n, double *flops, double *bytes, clef_error *err);
/** Tokens of a prefill step that is profiled: the prompt, or as much of it as a step takes. 0: none. */
int32_t cli_bench_step_tokens(const bench *b);
/** A step of n tokens after `depth` tokens, twice: drivers compile in the first. The second is what the
 *  session's profile has afterwards. *start: when it began; *seconds: how long it took; both may be NULL. */
clef_status cli_bench_second_step(bench *b, int32_t n, int32_t depth, double *start, double *seconds,
                                  clef_error *err);
/** Feeds one more token of the prompt and generates n tokens greedily, in n steps. */
clef_status cli_bench_decode(bench *b, int32_t n, double *flops, double *bytes, clef_error *err);

/** Measures exchanges between the ranks, and prints them on rank 0. Returns an exit code. */
int cli_bench_network(const bench *b);

#endif
