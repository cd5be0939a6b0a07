/* --stats: statistics of each value of a graph, up to the first that is not finite. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/values.h"

void cli_stats_head(FILE *to)
{
    fprintf(to, "%-32s %-16s %12s %12s %12s %12s %8s %8s\n", "value", "op", "min", "max", "mean", "std",
            "NaN", "inf");
}

void cli_stats_line(FILE *to, const clef_value *node, const value_data *v)
{
    const value_stats s = cli_value_stats(v);
    fprintf(to, "%-32s %-16s %12.5g %12.5g %12.5g %12.5g %8" PRId64 " %8" PRId64 "\n", v->name,
            clef_value_describe(node).op, s.min, s.max, s.mean, s.std, s.n_nan, s.n_inf);
}

clef_status cli_stats_check(const clef_value *node, const value_data *v, clef_error *err)
{
    char inputs[600] = "";
    int32_t n = 0;
    const value_stats s = cli_value_stats(v);
    if (s.n_nan == 0 && s.n_plus_inf == 0) /* masks are -inf */
        return CLEF_OK;
    clef_value_input(node, 0, &n);
    for (int32_t i = 0; i < n; i++) {
        const clef_value *in = clef_value_input(node, i, NULL);
        const size_t at = strlen(inputs);
        if (in)
            snprintf(inputs + at, sizeof inputs - at, "%s%s", at ? ", " : "", clef_value_describe(in).name);
    }
    return cli_error(err, CLEF_E_LIMIT, "%s (%s) is the first value with %s; its inputs: %s", v->name,
                     clef_value_describe(node).op, s.n_nan ? "a NaN" : "an infinite number", inputs);
}

static clef_status look_at_part(const clef_value *const *list, const value_data *values, int32_t n, FILE *to,
                                clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < n && status == CLEF_OK; i++) {
        cli_stats_line(to, list[i], &values[i]);
        status = cli_stats_check(list[i], &values[i], err);
    }
    return status;
}

clef_status cli_stats_walk(const clef_graph *graph, cli_values_run run, void *user, FILE *to, clef_error *err)
{
    const int32_t n_values = clef_graph_n_values(graph);
    const clef_value **list = calloc((size_t)n_values + 1, sizeof *list);
    const char **names = calloc((size_t)n_values + 1, sizeof *names);
    value_data *values = calloc((size_t)n_values + 1, sizeof *values);
    clef_status status =
        list && names && values ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "--stats: out of host memory");
    if (status == CLEF_OK)
        cli_stats_head(to);
    for (int32_t at = 0, n = 0; at < n_values && status == CLEF_OK;) {
        at = cli_values_next(graph, at, list, &n);
        for (int32_t i = 0; i < n; i++)
            names[i] = clef_value_describe(list[i]).name;
        if (n)
            status = cli_values_read_by(graph, run, user, names, n, values, err);
        if (status == CLEF_OK)
            status = look_at_part(list, values, n, to, err);
        for (int32_t i = 0; i < n; i++)
            cli_value_free(&values[i]);
    }
    free((void *)list);
    free((void *)names);
    free(values);
    return status;
}
