/* Predicts how fast a model runs on several ranks, from the speed of a device and of the network
 * (`clef plan --ranks`). docs/scaling.md has the formulas. */
#ifndef CLEF_TOOLS_SCALING_H
#define CLEF_TOOLS_SCALING_H

#include "clef/model.h"
#include "clef/ranks.h"
#include "tools/cli/common.h"

enum { CLI_LINK_ROWS = 16 };
/** A connection. A rank that sends to k others at once needs latency + (k - 1) message + the bytes by the
 *  rate. */
typedef struct cli_link {
    double bytes_per_second;
    double latency, message; /* seconds: until a small message has arrived; for each further message */
    /* What was measured, by rising bytes. Between the rows there are lines. It holds for n_ranks only. */
    int32_t n_ranks, n_rows; /* 0 rows: nothing */
    struct {
        double bytes, all_reduce[3], all_gather, send; /* seconds, the sums over each wire */
    } rows[CLI_LINK_ROWS];
} cli_link;
/** Reads "25Gbit,20us" or "25Gbit,20us,2us" (rate, latency, further message [a tenth of the latency]), or a
 *  table that `clef bench --network` has printed. `flag` names the option in messages. CLEF_E_ARG, CLEF_E_IO,
 *  CLEF_E_FORMAT. */
clef_status cli_link_read(const char *flag, const char *text, cli_link *out, clef_error *err);

/** What runs one rank. */
typedef struct cli_device_profile {
    char   name[96];
    double read_gb_s, gflop_s;       /* memory; arithmetic, a multiply-add counts as two */
    double launch_us, round_trip_us; /* a launch in a row of them; one that the host waits for */
    double host_gb_s;                /* copies between device and host; 0: they share the memory */
    double memory_gb;
    double decode_share, prompt_share; /* what a model reaches of read_gb_s and of gflop_s; 0: all */
} cli_device_profile;
/** Reads lines of `key = value`; # begins a comment. CLEF_E_IO, CLEF_E_FORMAT: a key is unknown, or one is
 *  missing. */
clef_status cli_device_profile_read(const char *path, cli_device_profile *out, clef_error *err);
/** Measures a device, which takes a few seconds unless it was done before and `again` is 0. */
clef_status cli_device_profile_measure(clef_device *device, int32_t again, cli_device_profile *out,
                                       clef_error *err);
void        cli_device_profile_write(const cli_device_profile *profile, FILE *to);

/** What is predicted for. */
typedef struct cli_scaling_machine {
    int32_t            n_ranks, n_nodes; /* each node has as many ranks */
    cli_device_profile device;
    cli_link           between, within;  /* nodes; ranks of a node */
    int32_t            wire;             /* index in cli_wire_names */
} cli_scaling_machine;

/** Bytes of a command from rank 0 to the others (clef__command of ranks/join/ranks.h). */
enum { CLI_COMMAND_BYTES = 232 };

/** Seconds and bytes of one step. */
typedef struct cli_step_cost {
    double compute, network; /* seconds. The stages of a pipeline follow each other, so they are added up */
    double sent_bytes;       /* of the rank that sends the most */
} cli_step_cost;

typedef struct cli_layout {
    int32_t       width, stages;
    char          refused[200]; /* empty, or why the model cannot be cut so */
    int32_t       n_exchanges;  /* of the rank that has the most, a step */
    uint64_t      weight_bytes, state_bytes, arena_bytes; /* of the rank that needs the most */
    int32_t       fits;         /* 1: the memory of a device suffices */
    cli_step_cost decode, prefill;
} cli_layout;

enum { CLI_MAX_LAYOUTS = 32 };
typedef struct cli_scaling {
    const char         *title;
    cli_scaling_machine machine;
    int32_t             n_context, n_prompt;
    double              weight_bytes; /* of the whole model */
    cli_layout          layouts[CLI_MAX_LAYOUTS]; /* by falling width */
    int32_t             n_layouts;
    int32_t             best_decode, best_prefill; /* -1: none fits */
} cli_scaling;

/** Predicts every layout of machine.n_ranks ranks, or those of given width and stages (0: any). `graph` is
 *  the model's, after its passes; its context and the bound of T are n_context and n_prompt. */
clef_status cli_scaling_predict(const clef_graph *graph, int32_t width, int32_t stages, cli_scaling *s,
                                clef_error *err);

/** The time of a collective of n_bytes among the `width` ranks from `first` on, and the bytes that a rank
 *  sends. */
double cli_all_reduce_cost(const cli_scaling_machine *m, int32_t first, int32_t width, double n_bytes,
                           double *sent_bytes);
double cli_all_gather_cost(const cli_scaling_machine *m, int32_t first, int32_t width, double n_bytes,
                           double *sent_bytes);
/** The time of a message of n_bytes from each of the `width` ranks from `first` on to a rank `distance`
 *  further. */
double cli_message_cost(const cli_scaling_machine *m, int32_t first, int32_t width, int32_t distance,
                        double n_bytes);

/* The forms of the result; `s` is a cli_scaling. */
clef_status cli_scaling_text(void *s, FILE *to, clef_error *err);
clef_status cli_scaling_json(void *s, FILE *to, clef_error *err);

#endif
