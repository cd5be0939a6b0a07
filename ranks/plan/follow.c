/* What the other ranks do: they carry out rank 0's commands on the plans of their own parts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/join/copies.h"
#include "ranks/join/device_sums.h"
#include "ranks/plan/ranked.h"
#include "runtime/compile.h"

/* A plan of rank 0, as this rank has it. */
typedef struct part {
    struct part *next;
    int32_t number;
    clef_graph *whole;
    clef_plan *plan;
    clef_ranks_weights weights;
    int32_t *inputs;  /* by input of the whole graph: its number in this rank's plan; -1: it has none */
    int32_t *outputs; /* by output of the whole graph, where this rank sends it to rank 0; else -1 */
    char *room;       /* memory for an output or rows of a state on their way */
    size_t n_room;
} part;

typedef struct follower {
    clef_ranks *ranks;
    clef_device *dev;
    clef_ranks_open_weights open;
    void *user;
    part *parts;
} follower;

static part *find_part(const follower *f, int32_t number)
{
    part *p = f->parts;
    while (p && p->number != number)
        p = p->next;
    return p;
}

static void free_part(part *p)
{
    clef_plan_destroy(p->plan);
    if (p->weights.close)
        p->weights.close(p->weights.close_user);
    clef_graph_destroy(p->whole);
    free(p->inputs);
    free(p->outputs);
    free(p->room);
    free(p);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Finds inputs and outputs by name once, so that no step does. */
static clef_status find_places(const follower *f, part *p, clef_error *err)
{
    const clef_graph *g = p->whole;
    int32_t n = 0;
    p->inputs = malloc(((size_t)g->n_values + 1) * sizeof *p->inputs);
    p->outputs = malloc(((size_t)g->n_outputs + 1) * sizeof *p->outputs);
    if (!p->inputs || !p->outputs)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the inputs and outputs of a plan");
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->kind == CLEF_INPUT)
            p->inputs[n++] = clef_plan_input(p->plan, g->values[i]->name);
    const clef_status s = clef__shard_home(g, &f->ranks->layout, NULL, p->outputs, err);
    for (int32_t i = 0; i < g->n_outputs && !s; i++)
        p->outputs[i] = p->outputs[i] == f->ranks->rank ? clef_plan_output(p->plan, g->outputs[i].name) : -1;
    return s;
}

static clef_status open_weights(const follower *f, const char *name, clef_ranks_weights *out, clef_error *err)
{
    return f->open ? f->open(f->user, name, out, err)
                   : clef__fail(err, CLEF_E_ARG, "weights %s: this rank has no function to open them", name);
}

static clef_status make_plan(follower *f, part *p, clef_plan_opts *opts, clef_error *err)
{
    clef_graph *graph = NULL;
    clef_status s = opts->weights_name ? open_weights(f, opts->weights_name, &p->weights, err) : CLEF_OK;
    if (!s)
        s = clef__shard(p->whole, &f->ranks->layout, f->ranks->rank, NULL, &graph, err);
    opts->weights = p->weights.weights;
    opts->release = p->weights.release;
    opts->weights_user = p->weights.user;
    if (!s)
        s = clef__compile_for_one(f->dev, graph, opts, &p->plan, err);
    if (!s)
        s = find_places(f, p, err);
    clef_graph_destroy(graph);
    return s;
}

static clef_status create(follower *f, const clef__command *c, const void *data, clef_error *err)
{
    clef_error why = {0};
    clef_plan_opts opts;
    f->ranks->transport->calls->at(f->ranks->transport, "making plan", c->plan);
    part *p = calloc(1, sizeof *p);
    clef_status s = p ? clef__ranked_unpack(data, (size_t)c->n_bytes, &p->whole, &opts, &why)
                      : clef__fail(&why, CLEF_E_NOMEM, "no memory for a plan");
    if (!s)
        s = make_plan(f, p, &opts, &why);
    const clef_status all = clef__ranks_agree(f->ranks, s, &why, NULL);
    if (!s && !all && p) {
        p->number = c->plan;
        p->plan->opts.variants = p->plan->opts.weights_name = NULL; /* they lay in the message */
        p->next = f->parts;
        f->parts = p;
        return CLEF_OK;
    }
    if (p)
        free_part(p);
    (void)err; /* rank 0 has the reason */
    return CLEF_OK;
}

static void destroy(follower *f, int32_t number)
{
    part **at = &f->parts;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    part *p = *at;
    if (!p) /* making it had failed */
        return;
    *at = p->next;
    free_part(p);
}

/* ---- running --------------------------------------------------------------------------------- */

static clef_status write_input(const part *p, const clef__command *c, const void *data, clef_error *err)
{
    const int32_t input = p->inputs[c->a];
    return input < 0 ? CLEF_OK : clef_plan_write(p->plan, input, data, (size_t)c->n_bytes, err);
}

static clef_status run(const follower *f, part *p, clef_error *err)
{
    f->ranks->transport->calls->at(f->ranks->transport, "step", ++f->ranks->n_steps);
    return clef__ranked_run(p->plan, err);
}

static clef_status grow_room(part *p, size_t n_bytes, clef_error *err)
{
    char *more = n_bytes > p->n_room ? realloc(p->room, n_bytes) : p->room;
    if (n_bytes > p->n_room && !more)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu bytes on their way", n_bytes);
    p->n_room = n_bytes > p->n_room ? n_bytes : p->n_room;
    p->room = more;
    return CLEF_OK;
}

static clef_status send_output(const follower *f, part *p, int64_t i, clef_error *err)
{
    clef__transport *t = f->ranks->transport;
    const int32_t output = p->outputs[i];
    if (output < 0)
        return CLEF_OK;
    const size_t n_bytes = clef_plan_output_bytes(p->plan, output, NULL, NULL);
    clef_status s = grow_room(p, n_bytes, err);
    if (!s)
        s = clef_plan_read(p->plan, output, p->room, n_bytes, err);
    return s ? s : t->calls->send(t, 0, p->room, n_bytes, err);
}

/* Reads rows of this rank's part of a state for rank 0, or writes what comes from there. */
static clef_status move_state(const follower *f, part *p, const clef__command *c, const void *data,
                              clef_error *err)
{
    clef__transport *t = f->ranks->transport;
    clef__state_order order = {0};
    if (c->a != f->ranks->rank)
        return CLEF_OK;
    memcpy(&order, data, c->n_bytes < sizeof order ? (size_t)c->n_bytes : sizeof order - 1);
    const clef_value *v = clef_graph_find(p->plan->graph, order.name);
    if (!v || v->kind != CLEF_STATE)
        return clef__fail(err, CLEF_E_ARG, "state %s: this rank has none", order.name);
    const clef__plan_state state = {.stage = p->plan, .value = v, .n_bytes = (uint64_t)clef__bytes(v, NULL)};
    const size_t n_bytes = (size_t)(order.rows.n_rows * order.rows.n_bytes);
    clef_status s = grow_room(p, n_bytes, err);
    if (!s)
        s = c->b ? t->calls->receive(t, 0, p->room, n_bytes, err)
                 : clef__plan_state_read(&state, &order.rows, p->room, err);
    if (s)
        return s;
    return c->b ? clef__plan_state_write(&state, &order.rows, p->room, err)
                : t->calls->send(t, 0, p->room, n_bytes, err);
}

static clef_status obey(follower *f, const clef__command *c, const void *data, clef_error *err)
{
    part *p = find_part(f, c->plan);
    if (c->kind == CLEF__COMMAND_CREATE)
        return create(f, c, data, err);
    if (c->kind == CLEF__COMMAND_DESTROY) {
        destroy(f, c->plan);
        return CLEF_OK;
    }
    if (c->kind == CLEF__COMMAND_SENT)
        return clef__ranks_report_sent(f->ranks, f->ranks->transport->calls->sent(f->ranks->transport), NULL,
                                       err);
    if (!p)
        return clef__fail(err, CLEF_E_ARG, "plan number %" PRId32 ": this rank has none", c->plan);
    switch ((clef__command_kind)c->kind) {
    case CLEF__COMMAND_BIND:
        return clef_plan_bind(p->plan, (int32_t)c->a, c->b, err);
    case CLEF__COMMAND_WRITE:
        return write_input(p, c, data, err);
    case CLEF__COMMAND_RUN:
        return run(f, p, err);
    case CLEF__COMMAND_READ:
        return send_output(f, p, c->a, err);
    case CLEF__COMMAND_RESET:
        return clef_plan_reset(p->plan, err);
    case CLEF__COMMAND_COPY:
        return clef__ranked_copy_parts(p->plan, data, (uint64_t)c->a, (uint64_t)c->b, (uint64_t)c->c, err);
    case CLEF__COMMAND_STATE:
        return move_state(f, p, c, data, err);
    default:
        return clef__fail(err, CLEF_E_ARG, "command %" PRId32 " from rank 0", c->kind);
    }
}

clef_status clef_ranks_follow(clef_ranks *ranks, clef_device *dev, clef_ranks_open_weights open, void *user,
                              clef_error *err)
{
    follower f = {.ranks = ranks, .dev = dev, .open = open, .user = user};
    char text[sizeof err->text + 128];
    clef_error why = {0};
    clef_status s = CLEF_OK;
    dev->ranks = ranks;
    dev->together = &clef__ranks_together;
    clef__device_sums_find(ranks, dev);
    s = clef__ranks_choose_piece(ranks, dev, &why);
    while (!s) {
        clef__command command;
        const void *data;
        ranks->transport->calls->at(ranks->transport, "waiting after step", ranks->n_steps);
        s = clef__ranks_next(ranks, &command, &data, &why);
        if (!s && command.kind == CLEF__COMMAND_END)
            break;
        if (!s)
            s = obey(&f, &command, data, &why);
    }
    if (s) { /* the others wait for this rank */
        snprintf(text, sizeof text, "clef: rank %" PRId32 " on %s: %s", ranks->rank,
                 clef_ranks_host(ranks, ranks->rank), why.text);
        clef_ranks_abort(ranks, text);
    }
    while (f.parts)
        destroy(&f, f.parts->number);
    dev->ranks = NULL;
    dev->together = NULL;
    if (s && err)
        *err = why;
    return s;
}
