/* Predicts the time and the memory of each layout from the graphs of its ranks. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/scaling.h"

enum { MAX_STAGES = 16 };

/* A step of one rank: of one token, or of a whole prompt. */
typedef struct step {
    int64_t rows, keys;
} step;

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* Ranks stop for an exchange: the host waits for the device. */
static double stop_cost(const cli_device_profile *d)
{
    return longer(d->round_trip_us - d->launch_us, 0) * 1e-6;
}

/* The host copies what is not in its own memory, both ways. */
static double copy_cost(const cli_device_profile *d, double n_bytes)
{
    return d->host_gb_s > 0 ? 2 * n_bytes / (d->host_gb_s * 1e9) : 0;
}

/* The number of pieces in which a sum crosses (ranks/join/copies.h): copies of some overlap with the sums
 * of others. */
static double pieces_of(const cli_device_profile *d, double n_bytes)
{
    static const double piece_bytes = 1 << 20, most_pieces = 16;
    const double n = ceil(n_bytes / piece_bytes);
    return d->host_gb_s <= 0 || n < 1 ? 1 : n < most_pieces ? n : most_pieces;
}

static double sum_cost(const cli_scaling_machine *m, int32_t first, int32_t width, double n_bytes,
                       double *sent)
{
    const double n = pieces_of(&m->device, n_bytes), copies = copy_cost(&m->device, n_bytes),
                 sums = n * cli_all_reduce_cost(m, first, width, n_bytes / n, sent);
    *sent *= n;
    return n > 1 ? longer(sums, copies) + (sums < copies ? sums : copies) / n : sums + copies;
}

/* What an exchange takes. A receive costs nothing: its time is counted at the send. */
static double exchange_cost(const cli_scaling_machine *m, const cli_layout *l, int32_t rank,
                            const clef_exchange_info *e, double *sent)
{
    const double bytes = (double)e->n_bytes;
    const int32_t first = rank - rank % l->width;
    double cost = stop_cost(&m->device);
    *sent = 0;
    if (strcmp(e->op, "all_reduce") == 0)
        return cost + sum_cost(m, first, l->width, bytes, sent);
    cost += copy_cost(&m->device, bytes);
    if (strcmp(e->op, "all_gather") == 0)
        return cost + cli_all_gather_cost(m, first, l->width, bytes, sent);
    if (strcmp(e->op, "send") != 0)
        return cost;
    const int32_t low = e->peer < rank ? first + e->peer - rank : first;
    *sent = bytes;
    return cost + cli_message_cost(m, low, l->width, abs(e->peer - rank), bytes);
}

static clef_status add_exchanges(const cli_scaling *s, const clef_graph *g, const cli_layout *l, int32_t rank,
                                 step now, cli_step_cost *cost, int32_t *n_exchanges, clef_error *err)
{
    *n_exchanges = clef_graph_exchanges(g, now.rows, now.keys, NULL, 0);
    clef_exchange_info *all = malloc(((size_t)*n_exchanges + 1) * sizeof *all);
    if (!all)
        return cli_error(err, CLEF_E_NOMEM, "plan: out of host memory");
    clef_graph_exchanges(g, now.rows, now.keys, all, *n_exchanges);
    for (int32_t i = 0; i < *n_exchanges; i++) {
        double sent;
        cost->network += exchange_cost(&s->machine, l, rank, &all[i], &sent);
        cost->sent_bytes += sent;
    }
    free(all);
    return CLEF_OK;
}

static double share_of(double share)
{
    return share > 0 ? share : 1;
}

static clef_status count_rank(const cli_scaling *s, const clef_graph *g, const cli_layout *l, int32_t rank,
                              step now, cli_step_cost *cost, clef_graph_counts *counts, int32_t *n_exchanges,
                              clef_error *err)
{
    const cli_device_profile *d = &s->machine.device;
    *cost = (cli_step_cost){0};
    const clef_status status = clef_graph_count(g, now.rows, now.keys, counts, err);
    if (status)
        return status;
    const double read = d->read_gb_s * 1e9 * share_of(d->decode_share),
                 compute = d->gflop_s * 1e9 * share_of(d->prompt_share);
    cost->compute =
        longer(counts->bytes / read, counts->flops / compute) + counts->n_launches * d->launch_us * 1e-6;
    return add_exchanges(s, g, l, rank, now, cost, n_exchanges, err);
}

/* Of the ranks of a stage the slower one counts. */
static void take_slower(cli_step_cost *stage, const cli_step_cost *rank)
{
    if (rank->compute + rank->network > stage->compute + stage->network) {
        stage->compute = rank->compute;
        stage->network = rank->network;
    }
    stage->sent_bytes = longer(stage->sent_bytes, rank->sent_bytes);
}

static void add_stage(cli_step_cost *all, const cli_step_cost *stage)
{
    all->compute += stage->compute;
    all->network += stage->network;
    all->sent_bytes = longer(all->sent_bytes, stage->sent_bytes);
}

static void take_memory(cli_layout *l, const clef_graph_counts *c, int32_t n_exchanges)
{
    if (c->weight_bytes + c->state_bytes + c->arena_bytes >
        l->weight_bytes + l->state_bytes + l->arena_bytes) {
        l->weight_bytes = c->weight_bytes;
        l->state_bytes = c->state_bytes;
        l->arena_bytes = c->arena_bytes;
    }
    l->n_exchanges = n_exchanges > l->n_exchanges ? n_exchanges : l->n_exchanges;
}

/* The sending of a command to all ranks: the number of copies that leave rank 0. On one node they read what
 * it writes, else there is a tree. */
static double n_copies(const cli_scaling_machine *m)
{
    return m->n_nodes > 1 ? ceil(log2(m->n_ranks)) : m->n_ranks - 1;
}

/* For each token rank 0 tells the others to run, and to hand over the token if it is not on rank 0. */
static double command_bytes(const cli_scaling_machine *m, const cli_layout *l)
{
    return n_copies(m) * (l->stages > 1 ? 2 : 1) * (double)CLI_COMMAND_BYTES;
}

static clef_status count_stage(const cli_scaling *s, const clef_graph *graph, cli_layout *l, int32_t stage,
                               clef_error *err)
{
    const step token = {1, s->n_context}, prompt = {s->n_prompt, s->n_prompt};
    cli_step_cost decode = {0}, prefill = {0}, cost;
    /* Parts differ by what does not divide, and the last one has the most; the first one has the biases. */
    const int32_t to_last = l->width > 1 ? l->width - 1 : 1;
    for (int32_t part = 0; part < l->width; part += to_last) {
        const int32_t rank = stage * l->width + part;
        clef_graph *g = NULL;
        clef_graph_counts counts;
        int32_t n_exchanges = 0;
        clef_status status = clef_graph_of_rank(graph, l->width, l->stages, rank, &g, err);
        if (!status)
            status = count_rank(s, g, l, rank, token, &cost, &counts, &n_exchanges, err);
        if (!status) {
            cost.sent_bytes += rank == 0 ? command_bytes(&s->machine, l) : 0;
            take_slower(&decode, &cost);
            take_memory(l, &counts, n_exchanges);
            status = count_rank(s, g, l, rank, prompt, &cost, &counts, &n_exchanges, err);
        }
        clef_graph_destroy(g);
        if (status)
            return status;
        take_slower(&prefill, &cost);
    }
    add_stage(&l->decode, &decode);
    add_stage(&l->prefill, &prefill);
    return CLEF_OK;
}

/* Before each step rank 0 tells the others, along a tree. Further stages hear it while the first one
 * computes. */
static double telling_cost(const cli_scaling_machine *m, const cli_layout *l)
{
    return ceil(log2(l->width)) * (m->n_nodes > 1 ? m->between.latency : m->within.latency);
}

/* The layout of one rank is the whole graph. A refusal is part of the result. */
static clef_status count_layout(const cli_scaling *s, const clef_graph *graph, cli_layout *l, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t stage = 0; stage < l->stages && !status; stage++)
        status = count_stage(s, graph, l, stage, err);
    if (status == CLEF_E_UNSUPPORTED) {
        snprintf(l->refused, sizeof l->refused, "%.199s", err->text);
        *err = (clef_error){0};
        return CLEF_OK;
    }
    const double need = (double)l->weight_bytes + (double)l->state_bytes + (double)l->arena_bytes;
    l->fits = need <= s->machine.device.memory_gb * 1e9;
    l->decode.network += telling_cost(&s->machine, l);
    l->prefill.network += telling_cost(&s->machine, l);
    return status;
}

static double seconds_of(const cli_step_cost *c)
{
    return c->compute + c->network;
}

static void choose_best(cli_scaling *s)
{
    s->best_decode = s->best_prefill = -1;
    for (int32_t i = 0; i < s->n_layouts; i++) {
        const cli_layout *l = &s->layouts[i];
        if (l->refused[0] || !l->fits)
            continue;
        if (s->best_decode < 0 || seconds_of(&l->decode) < seconds_of(&s->layouts[s->best_decode].decode))
            s->best_decode = i;
        if (s->best_prefill < 0 || seconds_of(&l->prefill) < seconds_of(&s->layouts[s->best_prefill].prefill))
            s->best_prefill = i;
    }
}

clef_status cli_scaling_predict(const clef_graph *graph, int32_t width, int32_t stages, cli_scaling *s,
                                clef_error *err)
{
    const int32_t n = s->machine.n_ranks;
    clef_graph_counts whole;
    clef_status status = clef_graph_count(graph, 0, 0, &whole, err);
    if (n % s->machine.n_nodes)
        return cli_error(err, CLEF_E_ARG,
                         "--ranks %" PRId32 " --nodes %" PRId32 ": expected as many ranks on each node", n,
                         s->machine.n_nodes);
    if ((int64_t)(width ? width : 1) * (stages ? stages : 1) > n || (width && n % width) ||
        (stages && n % stages) || (width && stages && width * stages != n))
        return cli_error(err, CLEF_E_ARG, "--ranks %" PRId32 ": are not --tp times --pp", n);
    s->weight_bytes = (double)whole.weight_bytes;
    for (int32_t p = 1; p <= n && p <= MAX_STAGES && !status; p++) {
        if (n % p || (stages && p != stages) || (width && n / p != width))
            continue;
        cli_layout *l = &s->layouts[s->n_layouts++];
        *l = (cli_layout){.width = n / p, .stages = p};
        status = count_layout(s, graph, l, err);
    }
    choose_best(s);
    return status;
}
