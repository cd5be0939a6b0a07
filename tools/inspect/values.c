/* Reads values of a graph, and compares them. */
#include "tools/inspect/values.h"

#include "tools/inspect/taps.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

value_stats cli_value_stats(const value_data *v)
{
    value_stats s = {.min = INFINITY, .max = -INFINITY};
    const float *x = v->data;
    double sum = 0, squares = 0;
    int64_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        s.n_nan += isnan(x[i]) != 0;
        s.n_inf += isinf(x[i]) != 0;
        s.n_plus_inf += isinf(x[i]) && x[i] > 0;
        if (!isfinite(x[i]))
            continue;
        n++;
        s.min = fmin(s.min, (double)x[i]);
        s.max = fmax(s.max, (double)x[i]);
        sum += (double)x[i];
    }
    s.mean = n ? sum / (double)n : 0;
    for (size_t i = 0; i < v->n; i++)
        squares += isfinite(x[i]) ? ((double)x[i] - s.mean) * ((double)x[i] - s.mean) : 0;
    s.std = n ? sqrt(squares / (double)n) : 0;
    return s;
}

double cli_value_error(const value_data *a, const value_data *b)
{
    const float *x = a->data, *y = b->data;
    double most = 0, error = 0;
    if (a->n != b->n || a->rank != b->rank ||
        memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return INFINITY;
    for (size_t i = 0; i < a->n; i++) {
        if (!isfinite(y[i]) || !isfinite(x[i])) {
            if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i])))
                return INFINITY;
            continue;
        }
        most = fmax(most, fabs((double)y[i]));
        error = fmax(error, fabs((double)x[i] - (double)y[i]));
    }
    return error == 0 ? 0 : error / (most > 0 ? most : 1e-30);
}

/* Views and nodes that write to a state have no memory of their own. */
static int has_memory(const char *op)
{
    static const char *const none[] = {"reshape",     "permute",       "slice",
                                       "cache_write", "cache_reorder", "sample"};
    for (size_t i = 0; op && i < sizeof none / sizeof *none; i++)
        if (strcmp(op, none[i]) == 0)
            return 0;
    return op != NULL;
}

/* 1 when `clef compare` looks at the value: it is computed, has memory of its own, and is F32. */
static int value_counts(const clef_value *value)
{
    const clef_value_info v = clef_value_describe(value);
    return v.kind == CLEF_COMPUTED && v.dtype == CLEF_F32 && has_memory(v.op);
}

static double bytes_at_bounds(const clef_graph *graph, const clef_value_info *v)
{
    double n = 4;
    for (int32_t i = 0; i < v->shape.rank; i++) {
        int64_t bound = 1;
        if (v->shape.dim[i].symbol)
            clef_graph_symbol(graph, v->shape.dim[i].symbol, &bound);
        n *= (double)v->shape.dim[i].n * (double)bound;
    }
    return n;
}

int32_t cli_values_next(const clef_graph *graph, int32_t first, const clef_value **list, int32_t *n)
{
    const double most = 256e6;
    double sum = 0;
    int32_t i = first;
    *n = 0;
    for (; i < clef_graph_n_values(graph); i++) {
        const clef_value *v = clef_graph_value(graph, i);
        if (!value_counts(v))
            continue;
        const clef_value_info info = clef_value_describe(v);
        sum += bytes_at_bounds(graph, &info);
        if (sum > most && *n)
            break;
        list[(*n)++] = v;
    }
    return i;
}

static clef_status read_one(clef_plan *plan, const clef_graph *graph, const char *name, value_data *out,
                            clef_error *err)
{
    const clef_value_info v = clef_value_describe(clef_graph_find(graph, name));
    const int32_t output = clef_plan_output(plan, name);
    const size_t n_bytes = clef_plan_output_bytes(plan, output, &out->rank, out->dims);
    out->name = name;
    out->op = v.op;
    out->dtype = v.dtype;
    out->n = n_bytes / 4;
    out->data = malloc(n_bytes + 1);
    if (!out->data)
        return cli_error(err, CLEF_E_NOMEM, "%s: out of host memory for %zu bytes", name, n_bytes);
    return clef_plan_read(plan, output, out->data, n_bytes, err);
}

clef_status cli_values_read_by(const clef_graph *of, cli_values_run run, void *user, const char *const *names,
                               int32_t n, value_data *out, clef_error *err)
{
    clef_plan *plan = NULL;
    clef_graph *graph = clef_graph_clone(of);
    clef_status status = graph ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "out of host memory");
    memset(out, 0, (size_t)n * sizeof *out);
    for (int32_t i = 0; i < n && status == CLEF_OK; i++) {
        clef_value *v = clef_graph_find(graph, names[i]);
        if (v && !cli_is_output(graph, names[i]))
            clef_output(graph, names[i], v);
    }
    if (status == CLEF_OK)
        status = clef_graph_error(graph, err);
    if (status == CLEF_OK)
        status = run(user, graph, &plan, err);
    for (int32_t i = 0; i < n && status == CLEF_OK; i++)
        if (clef_graph_find(graph, names[i]))
            status = read_one(plan, graph, names[i], &out[i], err);
    for (int32_t i = 0; i < n; i++)
        out[i].op = NULL; /* it belongs to the copy, which is freed */
    clef_graph_destroy(graph);
    return status;
}

static clef_status run_forward(void *user, const clef_graph *graph, clef_plan **plan, clef_error *err)
{
    cli_forward *f = user;
    const clef_status status = cli_forward_execute(f, graph, err);
    *plan = f->plan;
    return status;
}

clef_status cli_values_read(cli_forward *f, const char *const *names, int32_t n, value_data *out,
                            clef_error *err)
{
    return cli_values_read_by(f->graph, run_forward, f, names, n, out, err);
}

clef_status cli_stats_forward(cli_forward *f, const char *after, FILE *to, clef_error *err)
{
    clef_status status = cli_forward_build(f, NULL, 0, err);
    if (status == CLEF_OK && !(after && strcmp(after, "build") == 0))
        status = clef_graph_optimize(f->graph, after ? after : "drop", err);
    return status == CLEF_OK ? cli_stats_walk(f->graph, run_forward, f, to, err) : status;
}

void cli_value_free(value_data *v)
{
    free(v->data);
    *v = (value_data){0};
}
