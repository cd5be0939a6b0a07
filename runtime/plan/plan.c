/* What all kinds of plans share: names, sizes, and the functions of clef/plan.h, which call the plan's
 * kind. */
#include "runtime/plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

clef_status clef__plan_new(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                           clef_plan **out, clef_error *err)
{
    *out = NULL;
    const clef_status s = clef_graph_error(graph, err);
    if (s)
        return s;
    clef_plan *plan = calloc(1, sizeof *plan);
    clef_graph *copy = plan ? clef_graph_clone(graph) : NULL;
    if (!copy) {
        free(plan);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a plan%s", plan ? "'s copy of the graph" : "");
    }
    plan->dev = dev;
    dev->n_plans++;
    if (opts)
        plan->opts = *opts;
    plan->graph = copy;
    plan->kind = plan->opts.describe_only ? &clef__plan_described : &clef__plan_single;
    plan->storage = plan->opts.describe_only ? &clef__storage_none : &clef__storage_device;
    *out = plan;
    return CLEF_OK;
}

void clef_plan_destroy(clef_plan *plan)
{
    if (!plan)
        return;
    plan->kind->release(plan);
    plan->dev->n_plans--;
    for (int32_t i = 0; i < plan->n_inputs; i++)
        free(plan->inputs[i].staging);
    free(plan->inputs);
    clef__tuning_finish(&plan->tuning);
    clef_graph_destroy(plan->graph);
    free(plan);
}

void clef__tuning_finish(clef_tuning *tuning)
{
    free((void *)(uintptr_t)tuning->choices);
    free((void *)(uintptr_t)tuning->aside);
    *tuning = (clef_tuning){0};
}

clef_status clef__plan_progress(const clef_plan *plan, const char *what, uint64_t done, uint64_t total,
                                clef_error *err)
{
    if (plan->opts.compile.progress &&
        plan->opts.compile.progress(plan->opts.compile.progress_user, what, done, total))
        return clef__fail(err, CLEF_E_CANCELLED, "%s: interrupted at %llu of %llu", what,
                          (unsigned long long)done, (unsigned long long)total);
    return CLEF_OK;
}

/* ---- names and sizes ------------------------------------------------------------------------- */

int32_t clef_plan_input(const clef_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->n_inputs; i++)
        if (strcmp(plan->inputs[i].value->name, name) == 0)
            return i;
    return -1;
}

int32_t clef_plan_output(const clef_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->graph->n_outputs; i++)
        if (strcmp(plan->graph->outputs[i].name, name) == 0)
            return i;
    return -1;
}

int32_t clef_plan_symbol(const clef_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        if (strcmp(plan->graph->symbols[i].name, name) == 0)
            return i + 1;
    return 0;
}

static size_t bytes_of(const clef_plan *plan, const clef_value *v, int32_t *rank, int64_t dims[CLEF_MAX_DIMS])
{
    if (rank)
        *rank = v->shape.rank;
    for (int32_t i = 0; dims && i < v->shape.rank; i++)
        dims[i] = clef__dim_at(plan->graph, v->shape.dim[i], plan->symbols);
    return (size_t)clef__bytes(v, plan->symbols);
}

size_t clef_plan_output_bytes(const clef_plan *plan, int32_t output, int32_t *rank,
                              int64_t dims[CLEF_MAX_DIMS])
{
    if (output < 0 || output >= plan->graph->n_outputs)
        return 0;
    return bytes_of(plan, plan->graph->outputs[output].value, rank, dims);
}

size_t clef_plan_input_bytes(const clef_plan *plan, int32_t input, int32_t *rank, int64_t dims[CLEF_MAX_DIMS])
{
    return input < 0 || input >= plan->n_inputs ? 0 : bytes_of(plan, plan->inputs[input].value, rank, dims);
}

const clef_graph *clef_plan_graph(const clef_plan *plan)
{
    return plan->graph;
}

const clef_device *clef_plan_device(const clef_plan *plan)
{
    return plan->dev;
}

int32_t clef_plan_tensors(const clef_plan *plan, clef_plan_tensor *out, int32_t capacity)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->memory.n_places; i++) {
        const clef_place *p = &plan->memory.places[i];
        if (!p->bytes)
            continue;
        if (n < capacity)
            out[n] = (clef_plan_tensor){
                .name = plan->graph->values[i]->name,
                .in_place_of = p->in_place_of >= 0 ? plan->graph->values[p->in_place_of]->name : NULL,
                .offset = p->offset,
                .bytes = p->bytes,
                .first = p->first,
                .last = p->last};
        n++;
    }
    return n;
}

/* ---- what the plan's kind does --------------------------------------------------------------- */

clef_status clef_plan_bind(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err)
{
    if (symbol < 1 || symbol > plan->graph->n_symbols)
        return clef__fail(err, CLEF_E_ARG, "symbol number %d: the graph has %d", symbol,
                          plan->graph->n_symbols);
    const clef_symbol_def *def = &plan->graph->symbols[symbol - 1];
    if (value < 1 || value > def->bound)
        return clef__fail(err, CLEF_E_ARG, "symbol %s: %" PRId64 ", expected 1 to %" PRId64, def->name, value,
                          def->bound);
    return plan->kind->bind(plan, symbol, value, err);
}

clef_status clef_plan_write(clef_plan *plan, int32_t input, const void *data, size_t n_bytes, clef_error *err)
{
    if (input < 0 || input >= plan->n_inputs)
        return clef__fail(err, CLEF_E_ARG, "input number %d: the graph has %d", input, plan->n_inputs);
    return plan->kind->write(plan, input, data, n_bytes, err);
}

clef_status clef_plan_run(clef_plan *plan, clef_error *err)
{
    return plan->kind->run(plan, err);
}

clef_status clef_plan_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    return plan->kind->read(plan, output, data, n_bytes, err);
}

clef_status clef_plan_read_start(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    return plan->kind->read_start(plan, output, data, n_bytes, err);
}

clef_status clef_plan_read_wait(clef_plan *plan, clef_error *err)
{
    return plan->kind->read_wait(plan, err);
}

clef_status clef_plan_reset(clef_plan *plan, clef_error *err)
{
    return plan->kind->reset(plan, err);
}

clef_plan_stats clef_plan_describe(const clef_plan *plan)
{
    return plan->kind->describe(plan);
}

int32_t clef_plan_profile(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    return plan->kind->profile(plan, times, capacity, err);
}

int32_t clef_plan_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity)
{
    return plan->kind->launches(plan, out, capacity);
}

const clef_plan *clef_plan_stage(const clef_plan *plan, int32_t i)
{
    return plan->kind->stage(plan, i);
}
