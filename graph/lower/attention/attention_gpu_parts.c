/* Attention on GPUs by parts of the keys: with few tiles of queries, more groups than tiles keep the compute
 * units busy. Each leaves a record for each of its queries, and cl/attention/attention_gpu_merge.cl joins
 * them. */
#include "graph/lower/attention/attention_gpu_parts.h"

#include <assert.h>

enum {
    MERGE_GROUP = 128,     /* items that join a row's records */
    MOST_TILE_GROUPS = 64, /* rows of a tile times groups per compute unit, in all kernels */
    LEAST_KEYS = 128,      /* fewest keys of a part: fewer are not worth the joining */
    SHORT_KEYS = 2048      /* most keys of a part on devices that end long loops: for heads of 512, 20 rounds
                              each */
};

clef__candidate clef__attention_candidate(uint32_t items, uint64_t local_bytes, uint32_t queries,
                                          uint32_t rows, uint32_t keys)
{
    /* Besides the rows a tile reads the keys, and waits at the barriers of each chunk. */
    enum { OF_KEYS = 12, OF_CHUNKS = 128 };
    return (clef__candidate){.items = items,
                             .local_bytes = local_bytes,
                             .n_groups = clef__ceil_div(queries, rows),
                             .time = rows + OF_KEYS + OF_CHUNKS / keys};
}

/* The number of parts of the keys. most_keys: of a sequence; a mask may be wider than its pages. */
static uint32_t parts_of(const clef_caps *caps, const attention_args *a, uint32_t most_keys, uint32_t groups,
                         uint32_t wanted)
{
    const uint64_t seen =
        (uint64_t)a->window * (a->causal ? 1 : 2) + a->n[2]; /* positions times the width of the window */
    const uint32_t all = a->n[3] < most_keys ? a->n[3] : most_keys,
                   keys = a->window > 0 && seen < all ? (uint32_t)seen : all;
    /* Some groups too few leave less idle than some too many, which would wait for the others to end. */
    const uint32_t useful = clef__ceil_div(keys, LEAST_KEYS), most = clef__ceil_div(wanted, groups),
                   of_units = most > 4 ? wanted / groups : most;
    const uint32_t of_loops = caps->short_loops ? clef__ceil_div(keys, SHORT_KEYS) : 1;
    const uint32_t n = of_units < useful ? of_units : useful;
    return n > of_loops ? n : of_loops > 1 ? of_loops : 1;
}

/* The most records that any values of the symbols need, in any kernel: a plan's scratch is sized once, and
 * other values may lead to another kernel. If compute units ask for parts, there are fewer groups than
 * `wanted`, so records are at most rows (wanted + groups). */
static uint64_t most_records(const clef_lowering *lo, const clef_attention_call *call)
{
    const uint64_t rows =
        clef__bound_n(lo, call->out, 3) * (uint64_t)call->args.a.n[1] * clef__bound_n(lo, call->out, 2);
    const uint64_t units = clef__units(lo->caps), keys = clef__most_keys(lo, call);
    const uint64_t of_units = 2 * MOST_TILE_GROUPS * units,
                   of_keys = rows * ((keys + LEAST_KEYS - 1) / LEAST_KEYS);
    const uint64_t of_loops = lo->caps->short_loops ? rows * ((keys + SHORT_KEYS - 1) / SHORT_KEYS) : 0;
    const uint64_t n = of_units < of_keys ? of_units : of_keys;
    return n > of_loops ? n : of_loops;
}

clef_status clef__attention_parts_launch(clef_lowering *lo, const clef_attention_call *call,
                                         clef_launch *launch, uint32_t rows, uint32_t wanted, clef_error *err)
{
    attention_flash_args args = {.a = call->args.a, .heads = call->args.heads};
    attention_args *a = &args.a;
    const uint32_t D = clef__n(lo, call->k, 0), E = clef__n(lo, call->v, 0), queries = a->group * a->n[2];
    const clef_value *bufs[] = {call->out, CLEF__SCRATCH, call->q,   call->k,
                                call->v,   call->mask,    call->pos, call->sinks},
                     *heads[] = {call->new_k, call->new_v, call->q_norm, call->k_norm, call->freqs};
    assert(rows * wanted <= MOST_TILE_GROUPS * clef__units(lo->caps)); /* most_records() counts on it */
    a->tiles = !call->pages  ? clef__ceil_div(queries, rows) * a->n[0]
               : call->new_k ? a->paging.n_runs /* of one row */
                             : clef__tiles_of_runs(a, rows);
    const uint32_t groups = a->tiles * (a->n[1] / a->group);
    /* The scratch is sized for the symbols' bounds: q, if it may be there, then the records. */
    const uint64_t q_floats = call->q == CLEF__SCRATCH || call->new_k
                                  ? clef__bound_n(lo, call->out, 3) * (uint64_t)a->n[1] *
                                        clef__bound_n(lo, call->out, 2) * clef__ceil_div(D, 4) * 4
                                  : 0;
    const uint64_t record = 4 + 4 * (uint64_t)clef__ceil_div(E, 4);
    a->splits = call->batch_invariant ? 1 : parts_of(lo->caps, a, clef__most_keys(lo, call), groups, wanted);
    args.parts = (uint32_t)q_floats;
    launch->args = &args;
    launch->args_bytes = sizeof args;
    launch->groups[0] = a->splits * groups;
    launch->scratch_bytes = 4 * (q_floats + most_records(lo, call) * record);
    for (uint32_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        launch->bufs[launch->n_bufs++] = bufs[i];
    for (uint32_t i = 0; call->new_k && i < sizeof heads / sizeof *heads; i++)
        launch->bufs[launch->n_bufs++] = heads[i];
    clef__add_optional(launch, call);
    const clef_status status = clef__launch(lo, launch, err);
    if (status || a->splits == 1)
        return status;
    const uint32_t wg = clef__fit_local(lo, MERGE_GROUP);
    return clef__launch(lo,
                        &(clef_launch){.source = "attention_gpu_merge",
                                       .kernel = "attention_gpu_merge",
                                       .defs = {{"WG", (int32_t)wg}, {"E", (int32_t)E}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {call->out, CLEF__SCRATCH},
                                       .n_bufs = 2,
                                       .groups = {a->n[0] * a->n[1] * a->n[2]},
                                       .local = {wg},
                                       .scratch_bytes = launch->scratch_bytes},
                        err);
}
