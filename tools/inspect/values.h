/* Reads every value of a graph: what `clef compare` and `clef replay` share. */
#ifndef CLEF_TOOLS_VALUES_H
#define CLEF_TOOLS_VALUES_H

#include <stdio.h>

#include "tools/inspect/forward.h"

/** The numbers of a value, F32 or I32. */
typedef struct value_data {
    const char *name, *op; /* of the graph */
    clef_dtype  dtype;
    int32_t     rank;
    int64_t     dims[CLEF_MAX_DIMS];
    size_t      n;
    void       *data;
} value_data;

typedef struct value_stats {
    double  min, max, mean, std; /* over the numbers that are finite */
    int64_t n_nan, n_inf, n_plus_inf; /* n_inf: of either sign */
} value_stats;

value_stats cli_value_stats(const value_data *v);
/** max |a - b| / max |b| over finite b. Infinity if only one of two elements is a number, or the shapes
 *  differ. */
double      cli_value_error(const value_data *a, const value_data *b);

/** Lists the next values from `first` on that fit in memory together, in `list`, which has room for all of
 *  the graph. Returns where to continue. */
int32_t cli_values_next(const clef_graph *graph, int32_t first, const clef_value **list, int32_t *n);
/** Plans and runs a graph that was made from one with the same inputs. *plan is borrowed until the next
 *  call. */
typedef clef_status (*cli_values_run)(void *user, const clef_graph *graph, clef_plan **plan, clef_error *err);
/** Runs a copy of the graph with the named values as additional outputs, and reads them into out[0 .. n-1].
 *  Values that it does not have stay zeroed. Free each with cli_value_free(). */
clef_status cli_values_read_by(const clef_graph *of, cli_values_run run, void *user, const char *const *names,
                               int32_t n, value_data *out, clef_error *err);
/** cli_values_read_by() for f->graph. */
clef_status cli_values_read(cli_forward *f, const char *const *names, int32_t n, value_data *out,
                            clef_error *err);
void        cli_value_free(value_data *v);

/** A line of `--stats` (a value's name, op, range, mean, deviation, NaN and infinities), and the line above
 *  all. */
void        cli_stats_head(FILE *to);
void        cli_stats_line(FILE *to, const clef_value *node, const value_data *v);
/** CLEF_E_LIMIT if the value has a NaN; names the node and its inputs. */
clef_status cli_stats_check(const clef_value *node, const value_data *v, clef_error *err);
/** Writes and checks every value of the graph, in the order of execution; stops at the first NaN. */
clef_status cli_stats_walk(const clef_graph *graph, cli_values_run run, void *user, FILE *to,
                           clef_error *err);
/** cli_stats_walk() for the graph of an opened `f` after the pass `after` (NULL: drop, before ops are fused;
 *  build: no pass). */
clef_status cli_stats_forward(cli_forward *f, const char *after, FILE *to, clef_error *err);

/** Saves the node `name` so that it can be run again: PATH, a graph in the text form, and PATH.safetensors
 *  with its inputs and weights, and `wanted` (NULL: none) as the tensor "expected". */
clef_status cli_value_save_case(cli_forward *f, const char *name, const value_data *wanted, const char *path,
                                clef_error *err);

#endif
