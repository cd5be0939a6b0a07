/* Rank 0's side of a plan on several ranks: it keeps a plan for its own part of the graph, and tells the
 * others what callers do. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/plan/ranked.h"
#include "runtime/compile.h"

static clef_status tell(const clef_plan *plan, clef__command_kind kind, int64_t a, int64_t b,
                        const void *data, size_t n_bytes, clef_error *err)
{
    clef__command command = {
        .kind = (int32_t)kind, .plan = plan->ranked->number, .a = a, .b = b, .n_bytes = n_bytes};
    return clef__ranks_command(plan->dev->ranks, &command, data, err);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The part of the graph that `rank` has, as a plan. */
static clef_status make_part(clef_plan *plan, int32_t rank, int described, clef_plan **out, clef_error *err)
{
    clef_plan_opts opts = plan->opts;
    clef_graph *part;
    clef_status s = clef__shard(plan->graph, &plan->dev->ranks->layout, rank, NULL, &part, err);
    opts.describe_only |= described;
    if (!s)
        s = clef__compile_for_one(plan->dev, part, &opts, out, err);
    clef_graph_destroy(part);
    return s;
}

static clef_status make_parts(clef_plan *plan, clef_error *err)
{
    clef_ranked *r = plan->ranked;
    const clef_layout *layout = &plan->dev->ranks->layout;
    clef_status s = make_part(plan, 0, 0, &r->mine, err);
    r->stages[0] = r->mine;
    for (int32_t i = 1; i < layout->stages && !s; i++)
        s = make_part(plan, i * layout->width, 1, &r->stages[i], err);
    for (int32_t i = 0; i < layout->stages && !s; i++)
        r->stages[i]->ranked = r;
    return s;
}

static clef_status find_places(clef_plan *plan, clef_error *err)
{
    const clef_graph *g = plan->graph;
    clef_ranked *r = plan->ranked;
    plan->inputs = calloc((size_t)g->n_values + 1, sizeof *plan->inputs);
    r->inputs = calloc((size_t)g->n_values + 1, sizeof *r->inputs);
    r->homes = calloc((size_t)g->n_outputs + 1, sizeof *r->homes);
    r->outputs = calloc((size_t)g->n_outputs + 1, sizeof *r->outputs);
    if (!plan->inputs || !r->inputs || !r->homes || !r->outputs)
        return clef__fail(err, CLEF_E_NOMEM, "plan: no memory for its inputs");
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->kind == CLEF_INPUT) {
            r->inputs[plan->n_inputs] = clef_plan_input(r->mine, g->values[i]->name);
            plan->inputs[plan->n_inputs++].value = g->values[i];
        }
    for (int32_t i = 0; i < g->n_symbols; i++)
        plan->symbols[i] = g->symbols[i].bound;
    const clef_status s = clef__shard_home(g, &plan->dev->ranks->layout, NULL, r->homes, err);
    for (int32_t i = 0; i < g->n_outputs && !s; i++)
        r->outputs[i] = r->homes[i] ? -1 : clef_plan_output(r->mine, g->outputs[i].name);
    return s;
}

/* Tells the others about the plan, makes the own part meanwhile, and hears whether all have theirs. */
static clef_status make_on_all(clef_plan *plan, clef_error *err)
{
    clef_error why = {0};
    size_t n_bytes;
    if (plan->opts.describe_only)
        return make_parts(plan, err);
    plan->dev->ranks->transport->calls->at(plan->dev->ranks->transport, "making plan", plan->ranked->number);
    char *packed = clef__ranked_pack(plan->graph, &plan->opts, &n_bytes, err);
    if (!packed)
        return CLEF_E_NOMEM;
    clef_status s = tell(plan, CLEF__COMMAND_CREATE, 0, 0, packed, n_bytes, err);
    free(packed);
    plan->opts.weights_name = NULL; /* it was borrowed for the call */
    if (s)
        return s;
    s = make_parts(plan, &why);
    return clef__ranks_agree(plan->dev->ranks, s, &why, err);
}

static void release_parts(clef_plan *plan)
{
    clef_ranked *r = plan->ranked;
    if (!r)
        return;
    for (int32_t i = 0; i < CLEF_MAX_STAGES; i++)
        clef_plan_destroy(r->stages[i]);
    if (!r->stages[0])
        clef_plan_destroy(r->mine);
    free(r->inputs);
    free(r->homes);
    free(r->outputs);
    clef__ranked_free_pieces(r);
    free(r);
    plan->ranked = NULL;
}

static void release_plan(clef_plan *plan)
{
    if (plan->ranked && !plan->opts.describe_only)
        tell(plan, CLEF__COMMAND_DESTROY, 0, 0, NULL, 0, NULL);
    release_parts(plan);
}

/* ---- running --------------------------------------------------------------------------------- */

static clef_status bind_on_all(clef_plan *plan, int32_t symbol, int64_t value, clef_error *err)
{
    if (plan->symbols[symbol - 1] == value)
        return CLEF_OK;
    clef_status s =
        plan->opts.describe_only ? CLEF_OK : tell(plan, CLEF__COMMAND_BIND, symbol, value, NULL, 0, err);
    if (!s)
        s = clef_plan_bind(plan->ranked->mine, symbol, value, err);
    if (!s)
        plan->symbols[symbol - 1] = value;
    return s;
}

static clef_status write_on_all(clef_plan *plan, int32_t input, const void *data, size_t n_bytes,
                                clef_error *err)
{
    const size_t wanted = clef_plan_input_bytes(plan, input, NULL, NULL);
    const int32_t own = plan->ranked->inputs[input];
    if (n_bytes != wanted)
        return clef__fail(err, CLEF_E_ARG, "input %s: expected %zu bytes, got %zu",
                          plan->inputs[input].value->name, wanted, n_bytes);
    const clef_status s = tell(plan, CLEF__COMMAND_WRITE, input, 0, data, n_bytes, err);
    return s || own < 0 ? s : clef_plan_write(plan->ranked->mine, own, data, n_bytes, err);
}

clef_status clef__ranked_run(clef_plan *mine, clef_error *err)
{
    mine->exchange = clef__ranked_exchange;
    const clef_status s = clef_plan_run(mine, err);
    mine->exchange = NULL;
    return s;
}

static clef_status run_on_all(clef_plan *plan, clef_error *err)
{
    clef_ranks *ranks = plan->dev->ranks;
    ranks->transport->calls->at(ranks->transport, "step", ++ranks->n_steps);
    const clef_status s = tell(plan, CLEF__COMMAND_RUN, 0, 0, NULL, 0, err);
    return s ? s : clef__ranked_run(plan->ranked->mine, err);
}

static clef_status reset_on_all(clef_plan *plan, clef_error *err)
{
    const clef_status s = tell(plan, CLEF__COMMAND_RESET, 0, 0, NULL, 0, err);
    return s ? s : clef_plan_reset(plan->ranked->mine, err);
}

static clef_status check_output(const clef_plan *plan, int32_t output, size_t n_bytes, clef_error *err)
{
    if (output < 0 || output >= plan->graph->n_outputs)
        return clef__fail(err, CLEF_E_ARG, "output number %d: the graph has %d", output,
                          plan->graph->n_outputs);
    const size_t wanted = clef_plan_output_bytes(plan, output, NULL, NULL);
    return n_bytes == wanted ? CLEF_OK
                             : clef__fail(err, CLEF_E_ARG, "output %s: it has %zu bytes, got room for %zu",
                                          plan->graph->outputs[output].name, wanted, n_bytes);
}

/* Asks the rank that has an output for it. */
static clef_status fetch(const clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    clef__transport *t = plan->dev->ranks->transport;
    const clef_status s = tell(plan, CLEF__COMMAND_READ, output, 0, NULL, 0, err);
    return s ? s : t->calls->receive(t, plan->ranked->homes[output], data, n_bytes, err);
}

static clef_status read_output(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    const clef_status s = check_output(plan, output, n_bytes, err);
    if (s)
        return s;
    const int32_t own = plan->ranked->outputs[output];
    return own >= 0 ? clef_plan_read(plan->ranked->mine, own, data, n_bytes, err)
                    : fetch(plan, output, data, n_bytes, err);
}

/* A value on another rank is fetched at once: later commands would otherwise come first. */
static clef_status start_read(clef_plan *plan, int32_t output, void *data, size_t n_bytes, clef_error *err)
{
    clef_ranked *r = plan->ranked;
    if (r->reading >= 0)
        return clef__fail(err, CLEF_E_ARG, "output number %d: another read is pending", output);
    const clef_status s = check_output(plan, output, n_bytes, err);
    if (s)
        return s;
    const int32_t own = plan->ranked->outputs[output];
    const clef_status status = own >= 0 ? clef_plan_read_start(r->mine, own, data, n_bytes, err)
                                        : fetch(plan, output, data, n_bytes, err);
    r->reading = status ? -1 : own >= 0 ? 0 : 1;
    return status;
}

static clef_status wait_for_read(clef_plan *plan, clef_error *err)
{
    clef_ranked *r = plan->ranked;
    const int32_t reading = r->reading;
    r->reading = -1;
    return reading < 0    ? clef__fail(err, CLEF_E_ARG, "no read is pending")
           : reading == 0 ? clef_plan_read_wait(r->mine, err)
                          : CLEF_OK;
}

static clef_status read_input(clef_plan *plan, int32_t input, void *data, size_t n_bytes, clef_error *err)
{
    const int32_t own = plan->ranked->inputs[input];
    return own < 0 ? clef__fail(err, CLEF_E_ARG, "input %s: rank 0 does not have it",
                                plan->inputs[input].value->name)
                   : plan->ranked->mine->kind->read_input(plan->ranked->mine, own, data, n_bytes, err);
}

/* ---- describing ------------------------------------------------------------------------------- */

static clef_plan_stats describe(const clef_plan *plan)
{
    return clef_plan_describe(plan->ranked->mine);
}

static int32_t profile(clef_plan *plan, clef_launch_time *times, int32_t capacity, clef_error *err)
{
    return clef_plan_profile(plan->ranked->mine, times, capacity, err);
}

static int32_t launches(const clef_plan *plan, clef_launch_info *out, int32_t capacity)
{
    return clef_plan_launches(plan->ranked->mine, out, capacity);
}

static const clef_plan *stage_of(const clef_plan *plan, int32_t i)
{
    return i >= 0 && i < plan->dev->ranks->layout.stages ? plan->ranked->stages[i] : NULL;
}

static const clef__plan_kind ranked_kind = {.bind = bind_on_all,
                                            .write = write_on_all,
                                            .run = run_on_all,
                                            .read = read_output,
                                            .read_start = start_read,
                                            .read_wait = wait_for_read,
                                            .read_input = read_input,
                                            .reset = reset_on_all,
                                            .describe = describe,
                                            .profile = profile,
                                            .launches = launches,
                                            .stage = stage_of,
                                            .whole_states = 1,
                                            .release = release_plan};

/* ---- the whole plan -------------------------------------------------------------------------- */

static clef_status check_opts(const clef_device *dev, const clef_plan_opts *opts, clef_error *err)
{
    if (dev->others)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "several devices on a rank (-d A,B): expected one for each rank");
    if (opts && opts->weights && !opts->weights_name)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "these weights have no name under which the other ranks could open them");
    return opts && opts->states_of
               ? clef__fail(err, CLEF_E_UNSUPPORTED, "plans that share states do not run on several ranks")
               : CLEF_OK;
}

clef_status clef__ranked_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                clef_plan **out, clef_error *err)
{
    clef_plan *plan = NULL;
    *out = NULL;
    clef_status s = check_opts(dev, opts, err);
    if (!s)
        s = clef__plan_new(dev, graph, opts, &plan, err);
    if (s)
        return s;
    plan->kind = &ranked_kind;
    plan->ranked = calloc(1, sizeof *plan->ranked);
    if (!plan->ranked)
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for a plan");
    else
        plan->ranked->number = dev->ranks->n_plans++;
    if (!s && plan->ranked) {
        plan->ranked->reading = -1;
        s = make_on_all(plan, err);
    }
    if (!s)
        s = find_places(plan, err);
    if (s)
        clef_plan_destroy(plan);
    else
        *out = plan;
    return s;
}
