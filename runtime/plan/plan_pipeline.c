/* Plans over several devices: the graph is cut between layers, each device has a plan for its stage, and
 * values that cross from one stage to another go through the host. */
#include "runtime/plan/pipeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

static clef_status make_stages(clef_plan *plan, const clef_cut *cut, clef__make_stage make, clef_error *err)
{
    clef_device *dev = plan->dev;
    clef_status (*const cut_out)(const clef_cut *, int32_t, clef_graph **, clef_error *) =
        dev->offloads_experts && cut->n_stages > 1 ? clef__cut_exchanging : clef__cut_stage;
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < cut->n_stages && !s; i++, dev = dev->others) {
        clef_graph *graph;
        s = cut_out(cut, i, &graph, err);
        if (!s)
            s = make(dev, graph, &plan->opts, &plan->pipeline->stages[i], err);
        clef_graph_destroy(graph);
    }
    return s;
}

static int is_input(const clef_value *v)
{
    return v->kind == CLEF_INPUT;
}

/* 1 when a node of the stage writes to the input. */
static int writes_to(const clef_graph *g, const clef_value *input)
{
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
        int32_t n_stages = 0;
        in->writer = -1;
        for (int32_t s = 0; s < c->n; s++) {
            in->number[s] = clef_plan_input(c->stages[s], g->values[i]->name);
            if (in->number[s] >= 0 &&
                writes_to(c->stages[s]->graph, c->stages[s]->inputs[in->number[s]].value))
                in->writer = s;
            n_stages += in->number[s] >= 0;
        }
        if (n_stages == 1) /* nothing has to be brought to others at each step */
            in->writer = -1;
    }
    return CLEF_OK;
}

/* An input of a stage that the whole graph does not have is the output of an earlier stage, which has the
 * same name after CLEF_CROSS. */
static clef_status connect_input(clef_pipeline *c, int32_t to, int32_t input, clef_error *err)
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
            return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for values between stages");
        c->wires = more;
        c->wires[c->n_wires++] = (clef_wire){from, output, to, input};
        return CLEF_OK;
    }
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: no device before number %" PRId32 " computes it", v->name,
                      to);
}

static clef_status connect_stages(clef_plan *plan, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    clef_status status = CLEF_OK;
    for (int32_t s = 1; s < c->n && !plan->dev->offloads_experts; s++)
        for (int32_t i = 0; i < c->stages[s]->n_inputs && !status; i++) {
            const clef_value *v = c->stages[s]->inputs[i].value;
            const size_t n_bytes = (size_t)clef__bytes(v, NULL);
            c->copy_bytes = n_bytes > c->copy_bytes ? n_bytes : c->copy_bytes;
            if (clef_plan_input(plan, v->name) < 0)
                status = connect_input(c, s, i, err);
        }
    for (int32_t i = 0; i < plan->n_inputs; i++) {
        const size_t n_bytes =
            c->inputs[i].writer >= 0 ? (size_t)clef__bytes(plan->inputs[i].value, NULL) : 0;
        c->copy_bytes = n_bytes > c->copy_bytes ? n_bytes : c->copy_bytes;
    }
    if (!status && !plan->storage->allocate_host(c->copy_bytes + 1, &c->copy))
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for values between stages, %zu bytes",
                          c->copy_bytes);
    return status;
}

/* Cuts the graph into one stage for each device of the list. */
static clef_status cut_graph(const clef_plan *plan, clef_cut *cut, clef_error *err)
{
    double shares[CLEF_MAX_STAGES];
    int32_t begin[CLEF_MAX_STAGES], n = 0;
    for (const clef_device *d = plan->dev; d; d = d->others)
        n++;
    clef_status s = clef__cut_init(cut, plan->graph, err);
    if (!s && plan->dev->offloads_experts)
        return clef__cut_experts(cut, err);
    if (!s)
        s = clef__shares(plan->dev, cut, shares, err);
    if (!s)
        s = clef__cut_choose(cut, shares, n, begin, err);
    return s ? s : clef__cut_at(cut, begin, n, err);
}

static clef_status make_pipeline(clef_plan *plan, clef__make_stage make, clef_error *err)
{
    clef_cut cut;
    plan->pipeline = calloc(1, sizeof *plan->pipeline);
    if (!plan->pipeline)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a plan");
    plan->pipeline->reading = -1;
    clef_status s = cut_graph(plan, &cut, err);
    plan->pipeline->n = cut.n_stages;
    if (!s)
        s = make_stages(plan, &cut, make, err);
    clef__cut_finish(&cut);
    for (int32_t i = 0; i < plan->graph->n_symbols; i++)
        plan->symbols[i] = plan->graph->symbols[i].bound;
    if (!s)
        s = share_inputs(plan, err);
    if (!s)
        s = connect_stages(plan, err);
    return s || !plan->dev->offloads_experts || plan->pipeline->n == 1
               ? s
               : clef__offload_create(plan->pipeline->stages[CLEF__CUT_REST],
                                      plan->pipeline->stages[CLEF__CUT_EXPERTS], &plan->pipeline->offload,
                                      err);
}

clef_status clef__pipeline_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                  clef__make_stage make, clef_plan **out, clef_error *err)
{
    clef_plan *plan = NULL;
    *out = NULL;
    clef_status s = clef__plan_new(dev, graph, opts, &plan, err);
    if (s)
        return s;
    plan->kind = &clef__plan_pipeline;
    s = make_pipeline(plan, make, err);
    if (s)
        clef_plan_destroy(plan);
    else
        *out = plan;
    return s;
}

static void release_pipeline(clef_plan *plan)
{
    clef_pipeline *c = plan->pipeline;
    if (!c)
        return;
    clef__offload_destroy(c->offload);
    for (int32_t i = 0; i < c->n; i++)
        clef_plan_destroy(c->stages[i]);
    free(c->wires);
    free(c->inputs);
    free(c->copy);
    free(c);
}

/* ---- running --------------------------------------------------------------------------------- */

static clef_status bind_all(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err)
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

static clef_status write_stages(clef_plan *plan, int32_t input, const void *data, size_t n_bytes,
                                clef_error *err)
{
    const clef_status s =
        write_shared(plan->pipeline, &plan->pipeline->inputs[input], -1, data, n_bytes, err);
    if (!s)
        plan->pipeline->inputs[input].changed = 0;
    return s;
}

/* Copies an input that a stage has written to the other stages: the next token goes to the first one. */
static clef_status bring_back(clef_plan *plan, clef_shared_input *in, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    clef_plan *writer = c->stages[in->writer];
    const int32_t number = in->number[in->writer];
    const size_t n_bytes = clef_plan_input_bytes(writer, number, NULL, NULL);
    const clef_status s = writer->kind->read_input(writer, number, c->copy, n_bytes, err);
    if (s)
        return s;
    in->changed = 0;
    return write_shared(c, in, in->writer, c->copy, n_bytes, err);
}

static clef_status carry_values(clef_plan *plan, const clef_wire *w, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    const size_t n_bytes = clef_plan_output_bytes(c->stages[w->from], w->output, NULL, NULL);
    const clef_status s = clef_plan_read(c->stages[w->from], w->output, c->copy, n_bytes, err);
    return s ? s : clef_plan_write(c->stages[w->to], w->input, c->copy, n_bytes, err);
}

static clef_status run_stages(clef_plan *plan, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < plan->n_inputs && !status; i++)
        if (c->inputs[i].changed)
            status = bring_back(plan, &c->inputs[i], err);
    if (c->offload && !status)
        status = clef__offload_run(c->offload, err);
    for (int32_t s = 0, w = 0; s < c->n && !status && !c->offload; s++) {
        for (; w < c->n_wires && c->wires[w].to == s && !status; w++)
            status = carry_values(plan, &c->wires[w], err);
        if (!status)
            status = clef_plan_run(c->stages[s], err);
    }
    for (int32_t i = 0; i < plan->n_inputs; i++)
        c->inputs[i].changed = c->inputs[i].writer >= 0;
    return status;
}

/* The stage that has this output of the whole graph, -1 if none has. *output becomes the index in that
 * stage. */
static int32_t find_output(const clef_plan *plan, int32_t *output, clef_error *err)
{
    if (*output < 0 || *output >= plan->graph->n_outputs) {
        clef__fail(err, CLEF_E_ARG, "output number %d: the graph has %d", *output, plan->graph->n_outputs);
        return -1;
    }
    const char *name = plan->graph->outputs[*output].name;
    for (int32_t s = 0; s < plan->pipeline->n; s++) {
        const int32_t there = clef_plan_output(plan->pipeline->stages[s], name);
        if (there >= 0) {
            *output = there;
            return s;
        }
    }
    clef__fail(err, CLEF_E_ARG, "output %s: no device has it", name);
    return -1;
}

static clef_status read_output(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    const int32_t s = find_output(plan, &output, err);
    return s < 0 ? CLEF_E_ARG : clef_plan_read(plan->pipeline->stages[s], output, data, n_bytes, err);
}

static clef_status start_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    if (c->reading >= 0)
        return clef__fail(err, CLEF_E_ARG, "output number %d: another read is pending", output);
    const int32_t s = find_output(plan, &output, err);
    const clef_status status =
        s < 0 ? CLEF_E_ARG : clef_plan_read_start(c->stages[s], output, data, n_bytes, err);
    c->reading = status ? -1 : s;
    return status;
}

static clef_status wait_for_read(clef_plan *plan, clef_error *err)
{
    clef_pipeline *c = plan->pipeline;
    if (c->reading < 0)
        return clef__fail(err, CLEF_E_ARG, "no read is pending");
    clef_plan *stage = c->stages[c->reading];
    c->reading = -1;
    return clef_plan_read_wait(stage, err);
}

static clef_status reset_stages(clef_plan *plan, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t s = 0; s < plan->pipeline->n && !status; s++)
        status = clef_plan_reset(plan->pipeline->stages[s], err);
    return status;
}

/* ---- describing ------------------------------------------------------------------------------- */

static clef_plan_stats describe_stages(const clef_plan *plan)
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

static int32_t profile_stages(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    clef_error why = {0};
    int32_t n = 0;
    for (int32_t s = 0; s < plan->pipeline->n && !why.status; s++)
        n += clef_plan_profile(plan->pipeline->stages[s], n < capacity ? times + n : NULL,
                               n < capacity ? capacity - n : 0, &why);
    if (why.status && err)
        *err = why;
    return why.status ? 0 : n;
}

static int32_t list_launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity)
{
    int32_t n = 0;
    for (int32_t s = 0; s < plan->pipeline->n; s++)
        n += clef_plan_launches(plan->pipeline->stages[s], n < capacity ? out + n : NULL,
                                n < capacity ? capacity - n : 0);
    return n;
}

static clef_status read_input(clef_plan *plan, int32_t input, void *data, size_t n_bytes, clef_error *err)
{
    const clef_shared_input *in = &plan->pipeline->inputs[input];
    int32_t s = in->writer < 0 ? 0 : in->writer;
    while (in->number[s] < 0 && s < plan->pipeline->n - 1)
        s++;
    clef_plan *stage = plan->pipeline->stages[s];
    return stage->kind->read_input(stage, in->number[s], data, n_bytes, err);
}

static const clef_plan *stage_of(const clef_plan *plan, int32_t i)
{
    return i >= 0 && i < plan->pipeline->n ? plan->pipeline->stages[i] : NULL;
}

const clef__plan_kind clef__plan_pipeline = {.bind = bind_all,
                                             .write = write_stages,
                                             .run = run_stages,
                                             .read = read_output,
                                             .read_start = start_read,
                                             .read_wait = wait_for_read,
                                             .read_input = read_input,
                                             .reset = reset_stages,
                                             .describe = describe_stages,
                                             .profile = profile_stages,
                                             .launches = list_launches,
                                             .stage = stage_of,
                                             .release = release_pipeline};
