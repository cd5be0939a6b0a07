/* Counts what a run of a graph needs. */
#include <stdlib.h>
#include <string.h>

#include "graph/collective.h"
#include "graph/memory.h"

/* The arena is planned as for a device with buffers of any size, whose alignment is the usual one. */
static const uint64_t arena_align = 128;

static void bind(const clef_graph *g, int64_t rows, int64_t keys, int64_t *symbols)
{
    for (int32_t i = 0; i < g->n_symbols; i++) {
        const clef__symbol_role role = g->symbols[i].role;
        const int64_t wanted = role == CLEF__SYMBOL_ROWS ? rows : role == CLEF__SYMBOL_KEYS ? keys : 0;
        symbols[i] = wanted > 0 && wanted < g->symbols[i].bound ? wanted : g->symbols[i].bound;
    }
}

static int is_exchange(const clef_value *v)
{
    return v->op == CLEF_OP_all_reduce || v->op == CLEF_OP_all_gather || v->op == CLEF_OP_send ||
           v->op == CLEF_OP_receive;
}

clef_status clef_graph_count(const clef_graph *g, int64_t rows, int64_t keys, clef_graph_counts *out,
                             clef_error *err)
{
    int64_t symbols[CLEF_MAX_SYMBOLS];
    clef_memory memory = {0};
    *out = (clef_graph_counts){0};
    clef_status s = clef_graph_error(g, err);
    if (!s)
        s = clef__memory_plan(g, NULL, arena_align, UINT64_MAX / 2, &memory, err);
    if (s)
        return s;
    out->arena_bytes = memory.arena_bytes;
    clef__memory_finish(&memory);
    bind(g, rows, keys, symbols);
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        if (v->kind == CLEF_WEIGHT)
            out->weight_bytes += (uint64_t)clef__bytes(v, NULL);
        if (v->kind == CLEF_STATE)
            out->state_bytes += (uint64_t)clef__bytes(v, NULL);
        if (v->op == CLEF_OP_NONE || clef__ops[v->op]->view || is_exchange(v))
            continue;
        const clef_cost cost = clef__cost(v, symbols);
        out->n_launches++;
        out->flops += cost.flops;
        out->bytes += cost.bytes;
    }
    return CLEF_OK;
}

static int is_launched(const clef_value *n, const clef_launch *launches, int32_t n_launches)
{
    for (int32_t i = 0; i < n_launches; i++)
        if (launches[i].node == n)
            return 1;
    return 0;
}

clef_cost clef__launched_cost(const clef_value *n, const clef_launch *launches, int32_t n_launches,
                              const int64_t *symbols)
{
    clef_cost sum = clef__cost(n, symbols);
    for (int32_t i = 0; i < n->n_in; i++) {
        const clef_value *v = n->in[i];
        if (!(clef__ops[n->op]->absorbs >> i & 1) || v->op == CLEF_OP_NONE || !clef__ops[v->op]->lower ||
            is_launched(v, launches, n_launches))
            continue;
        const clef_cost cost = clef__cost(v, symbols);
        sum.flops += cost.flops;
        sum.bytes += cost.bytes;
    }
    return sum;
}

int32_t clef_graph_exchanges(const clef_graph *g, int64_t rows, int64_t keys, clef_exchange_info *out,
                             int32_t n)
{
    int64_t symbols[CLEF_MAX_SYMBOLS];
    int32_t count = 0;
    bind(g, rows, keys, symbols);
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        if (!is_exchange(v))
            continue;
        const int is_message = v->op == CLEF_OP_send || v->op == CLEF_OP_receive;
        if (count < n)
            out[count] = (clef_exchange_info){
                .op = clef__ops[v->op]->name,
                .n_bytes = (uint64_t)clef__bytes(v, symbols),
                .peer = is_message ? ((const clef__peer_opts *)(const void *)v->attr)->rank : -1};
        count++;
    }
    return count;
}
