/* Plans over several devices: the graph is cut between layers, each device has a plan for its stage, and what
 * crosses goes through the host. */
#include "runtime/plan/pipeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making
 * ----------------------------------------------------------------------------------------------------------------------
 */

static clef_status make_stages(clef_plan *plan, const clef_cut *cut, clef_error *err)
{
    clef_device *dev = plan->dev;
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < cut->n_stages && !s; i++, dev = dev->others) {
        clef_graph *graph;
        s = clef__cut_stage(cut, i, &graph, err);
        if (!s)
            s = clef__plan_create_on(dev, graph, &plan->opts, &plan->pipeline->stages[i], err);
        clef_graph_destroy(graph);
    }
    return s;
}

static int is_input(const clef_value *v)
{
    return v->kind == CLEF_INPUT;
}

/* Where the nodes of a stage write to an input. */
static int writes_to(const clef_plan *stage, const clef_value *input)
{
    const clef_graph *g = stage->graph;
    for (int32_t i = 0; i < g->n_values; i++)
        for (int32_t k = 0; k < g->values[i]->n_in && g->values[i]->op != CLEF_OP_NONE; k++)
            if ((clef__ops[g->values[i]->op]->writes >> k & 1) && g->values[i]->in[k] == input)
                return 1;
    return 0;
}

static clef_status share_inputs(clef_plan *plan, clef_error *err)
{
    const clef_graph *g = plan->graph;
    clef_pipeline *c = plan->pipeline;
    plan->inputs = calloc((size_t)g->n_values + 1, sizeof *plan->inputs);
    c->inputs = calloc((size_t)g->n_values + 1, sizeof *c->inputs);
    if (!plan->inputs || !c->inputs)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for its inputs");
    for (int32_t i = 0; i < g->n_values; i++) {
        if (!is_input(g->values[i]))
            continue;
        clef_shared_input *in = &c->inputs[plan->n_inputs];
        plan->inputs[plan->n_inputs++].value = g->values[i];
        in->writer = -1;
        for (int32_t s = 0; s < c->n; s++) {
            in->number[s] = clef_plan_input(c->stages[s], g->values[i]->name);
            if (in->number[s] >= 0 && writes_to(c->stages[s], c->stages[s]->inputs[in->number[s]].value))
                in->writer = s;
        }
    }
    return CLEF_OK;
}

/* An input of a stage that the whole does not have comes of the stage whose output crosses under its name. */
static clef_status lay_wire(clef_pipeline *c, int32_t to, int32_t input, clef_error *err)
{
    const clef_value *v = c->stages[to]->inputs[input].value;
    char name[CLEF_NAME_BYTES + sizeof CLEF_CROSS];
    strcpy(name, CLEF_CROSS);
    strcat(name, v->name);
    for (int32_t from = 0; from < to; from++) {
        const int32_t output = clef_plan_output(c->stages[from], name);
        if (output < 0)
            continue;
        clef_wire *more = realloc(c->wires, ((size_t)c->n_wires + 1) * sizeof *more);
        if (!more)
            return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for what crosses");
        c->wires = more;
        c->wires[c->n_wires++] = (clef_wire){from, output, to, input};
        return CLEF_OK;
    }
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: no device before number %" PRId32 " computes it", v->name,
                      to);
}

static clef_status lay_wires(clef_plan *plan, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    clef_status status = CLEF_OK;
    for (int32_t s = 1; s < c->n; s++)
        for (int32_t i = 0; i < c->stages[s]->n_inputs && !status; i++) {
            const clef_value *v = c->stages[s]->inputs[i].value;
            const size_t n_bytes = (size_t)clef__bytes(v, NULL);
            c->cargo_bytes = n_bytes > c->cargo_bytes ? n_bytes : c->cargo_bytes;
            if (clef_plan_input(plan, v->name) < 0)
                status = lay_wire(c, s, i, err);
        }
    for (int32_t i = 0; i < plan->n_inputs; i++) {
        const size_t n_bytes =
            c->inputs[i].writer >= 0 ? (size_t)clef__bytes(plan->inputs[i].value, NULL) : 0;
        c->cargo_bytes = n_bytes > c->cargo_bytes ? n_bytes : c->cargo_bytes;
    }
    c->cargo = status || plan->opts.describe_only ? NULL : malloc(c->cargo_bytes + 1);
    if (!status && !c->cargo && !plan->opts.describe_only)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for what crosses, %zu bytes", c->cargo_bytes);
    return status;
}

/* Where the list of devices cuts the graph. */
static clef_status cut_graph(const clef_plan *plan, clef_cut *cut, clef_error *err)
{
    double shares[CLEF_MAX_STAGES];
    int32_t begin[CLEF_MAX_STAGES], n = 0;
    for (const clef_device *d = plan->dev; d; d = d->others)
        n++;
    clef_status s = clef__cut_init(cut, plan->graph, err);
    if (!s)
        s = clef__shares(plan->dev, cut, shares, err);
    if (!s)
        s = clef__cut_choose(cut, shares, n, begin, err);
    return s ? s : clef__cut_at(cut, begin, n, err);
}

clef_status clef__pipeline_create(clef_plan *plan, clef_error *err)
{
    clef_cut cut;
    plan->pipeline = calloc(1, sizeof *plan->pipeline);
    if (!plan->pipeline)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a plan");
    clef_status s = cut_graph(plan, &cut, err);
    plan->pipeline->n = cut.n_stages;
    if (!s)
        s = make_stages(plan, &cut, err);
    clef__cut_finish(&cut);
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        plan->symbols[i] = plan->graph->symbols[i].bound;
    if (!s)
        s = share_inputs(plan, err);
    return s ? s : lay_wires(plan, err);
}

void clef__pipeline_destroy(clef_pipeline *c)
{
    if (!c)
        return;
    for (int32_t i = 0; i < c->n; i++)
        clef_plan_destroy(c->stages[i]);
    free(c->wires);
    free(c->inputs);
    free(c->cargo);
    free(c);
}

/* ---- running
 * ---------------------------------------------------------------------------------------------------------------------
 */

clef_status clef__pipeline_bind(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t s = 0; s < plan->pipeline->n && !status; s++)
        status = clef_plan_bind(plan->pipeline->stages[s], symbol, value, err);
    if (!status)
        plan->symbols[symbol - 1] = value;
    return status;
}

static clef_status write_shared(clef_pipeline *c, const clef_shared_input *in, int32_t but, const void *data,
                                size_t n_bytes, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t s = 0; s < c->n && !status; s++)
        if (in->number[s] >= 0 && s != but)
            status = clef_plan_write(c->stages[s], in->number[s], data, n_bytes, err);
    return status;
}

clef_status clef__pipeline_write(clef_plan *plan, int32_t input, const void *data, size_t n_bytes,
                                 clef_error *err)
{
    if (input < 0 || input >= plan->n_inputs)
        return clef__fail(err, CLEF_E_ARG, "input number %d: the graph has %d", input, plan->n_inputs);
    const clef_status s =
        write_shared(plan->pipeline, &plan->pipeline->inputs[input], -1, data, n_bytes, err);
    if (!s)
        plan->pipeline->inputs[input].changed = 0;
    return s;
}

/* What a stage has written to an input goes to the others: the token, to the first. */
static clef_status bring_back(clef_plan *plan, clef_shared_input *in, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    clef_plan *writer = c->stages[in->writer];
    const clef_value *v = writer->inputs[in->number[in->writer]].value;
    const size_t n_bytes = (size_t)clef__bytes(v, plan->symbols);
    const cl_int code = clEnqueueReadBuffer(writer->dev->queue, writer->mem[v->id], CL_TRUE, 0, n_bytes,
                                            c->cargo, 0, NULL, NULL);
    if (code)
        return clef__cl_fail(err, "clEnqueueReadBuffer", v->name, code);
    clef__plan_is_idle(writer);
    in->changed = 0;
    return write_shared(c, in, in->writer, c->cargo, n_bytes, err);
}

static clef_status carry(clef_plan *plan, const clef_wire *w, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    const size_t n_bytes = clef_plan_output_bytes(c->stages[w->from], w->output, NULL, NULL);
    const clef_status s = clef_plan_read(c->stages[w->from], w->output, c->cargo, n_bytes, err);
    return s ? s : clef_plan_write(c->stages[w->to], w->input, c->cargo, n_bytes, err);
}

clef_status clef__pipeline_run(clef_plan *plan, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    clef_status status = plan->opts.describe_only ? clef__plan_is_description(err) : CLEF_OK;
    for (int32_t i = 0; i < plan->n_inputs && !status; i++)
        if (c->inputs[i].changed)
            status = bring_back(plan, &c->inputs[i], err);
    for (int32_t s = 0, w = 0; s < c->n && !status; s++) {
        for (; w < c->n_wires && c->wires[w].to == s && !status; w++)
            status = carry(plan, &c->wires[w], err);
        if (!status)
            status = clef_plan_run(c->stages[s], err);
    }
    for (int32_t i = 0; i < plan->n_inputs; i++)
        c->inputs[i].changed = c->inputs[i].writer >= 0;
    return status;
}

/* The stage that has output number i of the whole, and its number there; NULL where there is none. */
static clef_plan *stage_of_output(const clef_plan *plan, int32_t *output, clef_error *err)
{
    if (*output < 0 || *output >= plan->graph->n_outputs) {
        clef__fail(err, CLEF_E_ARG, "output number %d: the graph has %d", *output, plan->graph->n_outputs);
        return NULL;
    }
    const char *name = plan->graph->outputs[*output].name;
    for (int32_t s = 0; s < plan->pipeline->n; s++) {
        const int32_t there = clef_plan_output(plan->pipeline->stages[s], name);
        if (there >= 0) {
            *output = there;
            plan->pipeline->reading = s;
            return plan->pipeline->stages[s];
        }
    }
    clef__fail(err, CLEF_E_ARG, "output %s: no device has it", name);
    return NULL;
}

clef_status clef__pipeline_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    const int32_t reading = plan->pipeline->reading; /* of the read under way, if there is one */
    clef_plan *stage = stage_of_output(plan, &output, err);
    plan->pipeline->reading = reading;
    return stage ? clef_plan_read(stage, output, data, n_bytes, err) : CLEF_E_ARG;
}

clef_status clef__pipeline_read_start(clef_plan *plan, int32_t output, void *data, size_t n_bytes,
                                      clef_error *err)
{
    if (plan->pipeline->stages[plan->pipeline->reading]->reading)
        return clef__fail(err, CLEF_E_ARG, "output number %d: another read is under way", output);
    clef_plan *stage = stage_of_output(plan, &output, err);
    return stage ? clef_plan_read_start(stage, output, data, n_bytes, err) : CLEF_E_ARG;
}

clef_status clef__pipeline_read_wait(clef_plan *plan, clef_error *err)
{
    return clef_plan_read_wait(plan->pipeline->stages[plan->pipeline->reading], err);
}

clef_status clef__pipeline_reset(clef_plan *plan, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t s = 0; s < plan->pipeline->n && !status; s++)
        status = clef_plan_reset(plan->pipeline->stages[s], err);
    return status;
}

/* ---- looking
 * ---------------------------------------------------------------------------------------------------------------------
 */

clef_plan_stats clef__pipeline_describe(const clef_plan *plan)
{
    clef_plan_stats all = {0};
    for (int32_t i = 0; i < plan->pipeline->n; i++) {
        const clef_plan_stats s = clef_plan_describe(plan->pipeline->stages[i]);
        all.weight_bytes += s.weight_bytes;
        all.mapped_bytes += s.mapped_bytes;
        all.state_bytes += s.state_bytes;
        all.arena_bytes += s.arena_bytes;
        all.scratch_bytes += s.scratch_bytes;
        all.io_bytes += s.io_bytes;
        all.fused_bytes += s.fused_bytes;
        all.packed_bytes += s.packed_bytes;
        all.staging_bytes += s.staging_bytes;
        all.unshared_bytes += s.unshared_bytes;
        all.n_launches += s.n_launches;
        all.n_kernels_built += s.n_kernels_built;
        all.n_kernels_cached += s.n_kernels_cached;
        all.run_flops += s.run_flops;
        all.run_bytes += s.run_bytes;
    }
    return all;
}

int32_t clef__pipeline_profile(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    clef_error why = {0};
    int32_t n = 0;
    for (int32_t s = 0; s < plan->pipeline->n && !why.status; s++)
        n += clef_plan_profile(plan->pipeline->stages[s], times + n, capacity - n, &why);
    if (why.status && err)
        *err = why;
    return why.status ? 0 : n;
}

int32_t clef__pipeline_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity)
{
    int32_t n = 0;
    for (int32_t s = 0; s < plan->pipeline->n; s++)
        n += clef_plan_launches(plan->pipeline->stages[s], n < capacity ? out + n : NULL,
                                n < capacity ? capacity - n : 0);
    return n;
}
