/* Checks integers that are row numbers, both inputs and those that the graph computes. */
#include "tools/inspect/row_numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/taps.h"

/* Records that a node uses `numbers`, and makes them an output unless they are an input. */
static void list_use(row_uses *uses, clef_graph *graph, const clef_value *node, clef_value *numbers,
                     const clef_row_range *range)
{
    const int is_computed = clef_value_describe(numbers).kind != CLEF_INPUT;
    if (is_computed && !cli_is_output(graph, clef_value_describe(numbers).name))
        clef_output(graph, clef_value_describe(numbers).name, numbers);
    const clef_value_info n = clef_value_describe(node);
    uses->items[uses->n++] = (row_use){.node = n.name,
                                       .op = n.op,
                                       .numbers = clef_value_describe(numbers).name,
                                       .is_computed = is_computed,
                                       .range = *range};
}

clef_status cli_row_uses_list(const char *path, clef_graph *graph, row_uses *out, clef_error *err)
{
    const int32_t n_values = clef_graph_n_values(graph);
    *out = (row_uses){.path = path, .graph = graph};
    out->items = calloc((size_t)n_values * CLEF_MAX_INPUTS + 1, sizeof *out->items);
    if (!out->items)
        return cli_error(err, CLEF_E_NOMEM, "%s: out of host memory", path);
    for (int32_t i = 0; i < n_values; i++) {
        const clef_value *node = clef_graph_value(graph, i);
        for (int32_t k = 0; k < CLEF_MAX_INPUTS; k++) {
            clef_row_range range;
            clef_value *numbers = clef_value_input(node, k, NULL);
            if (clef_value_row_range(node, k, &range) && !cli_shows_state(numbers))
                list_use(out, graph, node, numbers, &range);
        }
    }
    return clef_graph_error(graph, err);
}

void cli_row_uses_free(row_uses *uses)
{
    free(uses->items);
    *uses = (row_uses){0};
}

static int64_t dim_at(const clef_graph *graph, const int64_t *symbols, clef_dim d)
{
    int64_t value = 1;
    if (d.symbol && !(value = symbols[d.symbol - 1]))
        clef_graph_symbol(graph, d.symbol, &value);
    return d.n * value;
}

/* "[0, 3]": the place of element i in a tensor. */
static const char *place_text(const clef_tensor_info *t, size_t i, char out[96])
{
    int64_t at[CLEF_MAX_DIMS];
    for (int32_t d = t->rank - 1; d >= 0; d--) {
        at[d] = (int64_t)i % t->dims[d];
        i /= (size_t)t->dims[d];
    }
    return cli_dims_text(t->rank, at, out);
}

static clef_status check_use(const row_uses *uses, const row_use *use, const int64_t *symbols,
                             const clef_tensor_info *numbers, clef_error *err)
{
    const clef_row_range *range = &use->range;
    const int64_t n_rows = dim_at(uses->graph, symbols, range->n_rows),
                  span = dim_at(uses->graph, symbols, range->span), last = range->first + n_rows - span;
    const int32_t *x = numbers->data;
    char place[96], each[32] = "";
    if (span > n_rows)
        return cli_error(err, CLEF_E_ARG, "%s: %s (%s): expected at most %" PRId64 " rows, got %" PRId64,
                         uses->path, use->node, use->op, n_rows, span);
    if (span > 1)
        snprintf(each, sizeof each, "%" PRId64 " of ", span);
    for (size_t i = 0; i < numbers->n_bytes / sizeof *x; i++)
        if (x[i] < range->first || x[i] > last)
            return cli_error(err, CLEF_E_ARG,
                             "%s: %s (%s): expected %s from %" PRId64 " to %" PRId64 " (%s%" PRId64
                             " rows), got %" PRId32 " at %s",
                             uses->path, use->node, use->op, use->numbers, range->first, last, each, n_rows,
                             x[i], place_text(numbers, i, place));
    return CLEF_OK;
}

clef_status cli_row_numbers_check(const row_uses *uses, const int64_t *symbols,
                                  const clef_tensor_info *numbers, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < uses->n && status == CLEF_OK; i++)
        if (strcmp(uses->items[i].numbers, numbers->name) == 0)
            status = check_use(uses, &uses->items[i], symbols, numbers, err);
    return status;
}

clef_status cli_row_outputs_check(const row_uses *uses, const int64_t *symbols, clef_plan *plan,
                                  clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < uses->n && status == CLEF_OK; i++) {
        clef_tensor_info t = {.name = uses->items[i].numbers, .dtype = CLEF_I32};
        const int32_t output = uses->items[i].is_computed ? clef_plan_output(plan, t.name) : -1;
        if (output < 0)
            continue; /* an input, or not part of this run */
        t.n_bytes = clef_plan_output_bytes(plan, output, &t.rank, t.dims);
        void *data = malloc(t.n_bytes + 1);
        t.data = data;
        status = data ? clef_plan_read(plan, output, data, t.n_bytes, err)
                      : cli_error(err, CLEF_E_NOMEM, "%s: out of host memory", t.name);
        if (status == CLEF_OK)
            status = check_use(uses, &uses->items[i], symbols, &t, err);
        free(data);
    }
    return status;
}
