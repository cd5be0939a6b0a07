#include "model/tasks/sequence_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/ranks.h"
#include "graph/fail.h"
#include "model/session/session.h"
#include "runtime/plan/bounded.h"

enum {
    LEAST_LENGTH = 64,     /* so that few plans are made while lengths grow */
    MAX_RUN_TOKENS = 16384 /* bounds the plan's memory */
};

/* Lowers the number of sequences if a launch would take too long. */
static clef_status bound_batch(clef_sequence_plan *p, clef_graph *graph, clef_error *err)
{
    int64_t bound = p->max_B;
    const clef_status status = clef__bound_rows(p->dev, graph, "B", 1, err);
    for (int32_t i = 1; i <= clef_graph_n_symbols(graph); i++)
        if (strcmp(clef_graph_symbol(graph, i, NULL), "B") == 0)
            clef_graph_symbol(graph, i, &bound);
    p->max_B = (int32_t)bound;
    return status;
}

static int has_columns(const clef_sequence_plan *p)
{
    return p->columns[0] != p->columns[1];
}

/* A second output: two columns of the first. */
static void add_columns(const clef_sequence_plan *p, clef_graph *graph)
{
    clef_value *all = clef_graph_output(graph, 0, NULL), *parts[2];
    const int32_t axis = clef_value_describe(all).shape.rank - 1;
    for (int i = 0; i < 2; i++)
        parts[i] = clef_slice(graph, all,
                              &(clef_slice_opts){.axis = axis, .start = p->columns[i], .size = clef_n(1)});
    clef_output(graph, "columns", clef_concat(graph, parts[0], parts[1], &(clef_concat_opts){.axis = axis}));
}

static clef_status compile_plan(clef_sequence_plan *p, clef_error *err)
{
    clef_graph *graph;
    clef_status status = clef_model_build(p->model, &p->build, &graph, err);
    if (status != CLEF_OK)
        return status;
    if (has_columns(p))
        add_columns(p, graph);
    status = clef_graph_optimize(graph, NULL, err);
    if (status == CLEF_OK)
        status = bound_batch(p, graph, err);
    if (status == CLEF_OK)
        status = clef_plan_create(p->dev, graph, &p->opts, &p->plan, err);
    clef_graph_destroy(graph);
    return status;
}

/* Sets the bounds for `longest` tokens. */
static void set_bounds(clef_sequence_plan *p, int32_t longest)
{
    int64_t bound = LEAST_LENGTH;
    while (bound < longest)
        bound *= 2;
    p->max_T = bound < p->max_tokens ? (int32_t)bound : p->max_tokens;
    p->max_B = MAX_RUN_TOKENS / p->max_T;
    p->max_B = p->max_B < 1 ? 1 : p->max_B > p->n_batch ? p->n_batch : p->max_B;
    p->build.n_context = p->build.n_batch = p->max_T;
    p->build.n_sequences = p->max_B;
}

clef_status clef__sequence_plan_for(clef_sequence_plan *p, int32_t longest, clef_error *err)
{
    if (p->plan && longest <= p->max_T)
        return CLEF_OK;
    clef__sequence_plan_finish(p);
    set_bounds(p, longest);
    p->opts.batch_invariant = 1;
    p->opts.weights = clef_model_weight;
    p->opts.release = clef_model_release;
    p->opts.weights_user = p->model;
    p->opts.weights_name = clef_model_weights_name(p->model, NULL);
    const clef_status status = compile_plan(p, err);
    if (status != CLEF_OK)
        return status;
    p->zeros = calloc((size_t)p->max_B, sizeof *p->zeros);
    if (!p->zeros) {
        clef__sequence_plan_finish(p);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " positions", p->max_B);
    }
    p->io = clef__plan_io_of(p->plan);
    return CLEF_OK;
}

clef_status clef__sequence_plan_width(const clef_sequence_plan *p, int32_t *width, clef_error *err)
{
    clef_graph *graph;
    clef_build_opts opts = p->build;
    opts.n_context = opts.n_batch = 1;
    const clef_status status = clef_model_build(p->model, &opts, &graph, err);
    if (status != CLEF_OK)
        return status;
    const clef_value_info v = clef_value_describe(clef_graph_output(graph, 0, NULL));
    *width = (int32_t)v.shape.dim[v.shape.rank - 1].n;
    clef_graph_destroy(graph);
    return CLEF_OK;
}

static clef_status run_once(clef_sequence_plan *p, const int32_t *ids, const int32_t *types, int32_t B,
                            int32_t T, float *out, size_t n_bytes, clef_error *err)
{
    const size_t n_ids = (size_t)B * (size_t)T * sizeof *ids;
    clef_status status = clef_plan_bind(p->plan, p->io.B, B, err);
    if (status == CLEF_OK)
        status = clef_plan_bind(p->plan, p->io.T, T, err);
    if (status == CLEF_OK && p->io.S)
        status = clef_plan_bind(p->plan, p->io.S, T, err);
    if (status == CLEF_OK)
        status = clef_plan_write(p->plan, p->io.ids, ids, n_ids, err);
    if (status == CLEF_OK && p->io.types >= 0)
        status = clef_plan_write(p->plan, p->io.types, types, n_ids, err);
    if (status == CLEF_OK && p->io.pos >= 0)
        status = clef_plan_write(p->plan, p->io.pos, p->zeros, (size_t)B * sizeof *p->zeros, err);
    if (status == CLEF_OK)
        status = clef_plan_run(p->plan, err);
    return status == CLEF_OK ? clef_plan_read(p->plan, has_columns(p), out, n_bytes, err) : status;
}

clef_status clef__sequence_plan_run(clef_sequence_plan *p, const int32_t *ids, const int32_t *types,
                                    int32_t B, int32_t T, float *out, size_t n_bytes, clef_error *err)
{
    const int32_t longest = p->max_T;
    clef_error why = {0};
    clef_status status = run_once(p, ids, types, B, T, out, n_bytes, &why);
    if (!status || !clef_error_is_lost(&why) || clef_device_n_plans(p->dev) != clef__plans_of(p->plan)) {
        if (status && err)
            *err = why;
        return status;
    }
    clef__sequence_plan_finish(p); /* tries once more, on a new context */
    status = clef_device_reopen(p->dev, err);
    if (!status)
        status = clef__sequence_plan_for(p, longest, err);
    return status ? status : run_once(p, ids, types, B, T, out, n_bytes, err);
}

void clef__sequence_plan_finish(clef_sequence_plan *p)
{
    clef_plan_destroy(p->plan);
    free(p->zeros);
    p->plan = NULL;
    p->zeros = NULL;
}
