/* attention of many positions on CPUs: a tile of queries shares each chunk of keys. */
#include "graph/lower/attention/attention.h"

enum {
    TILE_ROWS = 6,     /* with four vectors of keys each: 24 sums, the most that 32 registers hold; with one
                          vector in two registers: 12 of 16 */
    WIDE = 16,         /* floats of a vector: wider ones mean 32 registers */
    TILE = 96,         /* queries that share the cost of transposing a chunk */
    WIDE_TILE = 48,    /* .. for heads so wide that 96 would leave the second cache */
    TILES_PER_UNIT = 4 /* so that cores that start late find work */
};

int clef__attention_has_vectors(const clef_caps *caps)
{
    return caps->is_cpu && caps->float_width > 1;
}

clef_status clef__attention_cpu_prefill_launch(clef_lowering *lo, const clef_attention_call *call,
                                               clef_error *err)
{
    attention_args args = call->args.a;
    const uint32_t D = clef__n(lo, call->k, 0), E = clef__n(lo, call->v, 0),
                   most = D + E > 256 ? WIDE_TILE : TILE;
    const uint32_t rows = call->pages ? args.n[0] : args.n[2], batch = call->pages ? 1 : args.n[0];
    const uint32_t queries = args.group * rows, heads = args.n[1] / args.group * batch;
    args.tile = most;
    while (args.tile > TILE_ROWS * 2 &&
           clef__ceil_div(queries, args.tile) * heads < TILES_PER_UNIT * (uint32_t)lo->caps->n_units)
        args.tile /= 2; /* stays a multiple of the rows */
    clef_launch launch = {.source = "attention_cpu_prefill",
                          .kernel = "attention_cpu_prefill",
                          .defs = {{"TILE", (int32_t)most},
                                   {"ROWS", TILE_ROWS},
                                   CLEF_ATTENTION_DEFS(lo, call),
                                   {"FIRST", call->first != NULL},
                                   {lo->caps->float_width < WIDE ? "AT_ONCE" : NULL, 1}},
                          .args = &args,
                          .args_bytes = sizeof args,
                          .bufs = {call->out, call->q, call->k, call->v, call->mask, call->pos, call->sinks},
                          .n_bufs = 7,
                          .groups = {clef__ceil_div(queries, args.tile) * heads}};
    if (call->pages) {
        args.tiles = clef__tiles_of_runs(&args, args.tile);
        launch.groups[0] = args.tiles * (args.n[1] / args.group);
    }
    clef__add_optional(&launch, call);
    return clef__launch(lo, &launch, err);
}

void clef__add_optional(clef_launch *launch, const clef_attention_call *call)
{
    if (call->first)
        launch->bufs[launch->n_bufs++] = call->first;
    if (!call->pages)
        return;
    launch->bufs[launch->n_bufs++] = call->runs;
    launch->bufs[launch->n_bufs++] = call->pages;
}

uint32_t clef__most_keys(const clef_lowering *lo, const clef_attention_call *call)
{
    return call->pages ? call->args.a.paging.n_pages * KV_PAGE : clef__bound_n(lo, call->k, 1);
}

uint32_t clef__tiles_of_runs(const attention_args *args, uint32_t tile)
{
    return args->group * args->n[0] / tile +
           args->paging.n_runs; /* each run has at most one that is not full */
}
