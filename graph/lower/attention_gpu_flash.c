/* attention and cached_attention on GPUs: tiles of queries by chunks of keys in local memory. The keys are
 * cut into parts if the tiles would leave compute units idle (cl/attention/attention_gpu_flash.cl). */
#include "graph/lower/attention.h"

enum {
    GROUP = 128,         /* items */
    MOST_ROWS = 32,      /* of a tile */
    GROUPS_PER_UNIT = 2, /* so that one computes while another waits for memory */
    LEAST_KEYS = 128,    /* fewest keys of a part: fewer are not worth the joining */
    SHORT_KEYS = 2048    /* most keys of a part on devices that end long loops: for heads of 512, 20 rounds
                            each */
};

/* Constants of the program; wg 0: none fit the device. */
typedef struct shape {
    uint32_t wg, rows, tall, keys;
} shape;

/* From tall tiles to low ones, then shorter chunks for wide heads. A row is shared by at most as many
 * work-items as a chunk has keys. */
static const shape shapes[] = {{GROUP, MOST_ROWS, 2, 32}, {GROUP, 16, 1, 32},   {GROUP, 8, 1, 32},
                               {GROUP, 4, 1, 32},         {GROUP, 16, 1, 16},   {GROUP, 8, 1, 16},
                               {GROUP, 16, 1, 8},         {GROUP / 2, 8, 1, 8}, {GROUP / 4, 4, 1, 8}};

static uint64_t local_bytes(shape s, uint32_t D, uint32_t E)
{
    const uint64_t d = clef__ceil_div(D, 4), e = clef__ceil_div(E, 4), wide = (d > e ? d : e) + 1;
    return 16 * (s.rows * d + s.keys * wide) + 4 * (uint64_t)s.rows * (s.keys + 1);
}

/* The tallest tile that these queries fill to more than half, with the longest chunk that fits into the
 * device's local memory. */
static shape shape_of(const clef_caps *caps, uint32_t queries, uint32_t D, uint32_t E)
{
    const int32_t most = caps->max_group < caps->max_items[0] ? caps->max_group : caps->max_items[0];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape s = shapes[i];
        const int is_high =
            s.rows >= 2 * queries && i + 1 < sizeof shapes / sizeof *shapes && shapes[i + 1].keys == s.keys;
        if (!is_high && (int32_t)s.wg <= most && local_bytes(s, D, E) <= caps->local_bytes)
            return s;
    }
    return (shape){0};
}

int clef__attention_gpu_flash_runs(const clef_caps *caps)
{
    return !caps->is_cpu && caps->max_group >= GROUP / 4;
}

int clef__attention_gpu_flash_takes(const clef_caps *caps, uint32_t D, uint32_t E)
{
    return shape_of(caps, 1, D, E).wg != 0;
}

/* The number of parts of the keys. */
static uint32_t parts_of(const clef_caps *caps, const attention_args *a, uint32_t groups)
{
    const uint64_t seen =
        (uint64_t)a->window * (a->causal ? 1 : 2) + a->n[2]; /* positions times the width of the window */
    const uint32_t keys = a->window > 0 && seen < a->n[3] ? (uint32_t)seen : a->n[3],
                   wanted = GROUPS_PER_UNIT * (uint32_t)(caps->n_units > 1 ? caps->n_units : 1);
    const uint32_t useful = clef__ceil_div(keys, LEAST_KEYS),
                   of_units = groups < wanted ? clef__ceil_div(wanted, groups) : 1;
    const uint32_t of_loops = caps->short_loops ? clef__ceil_div(keys, SHORT_KEYS) : 1;
    const uint32_t n = of_units < useful ? of_units : useful;
    return n > of_loops ? n : of_loops > 1 ? of_loops : 1;
}

/* The most records that any values of the symbols need. If compute units ask for parts, there are fewer
 * groups than `wanted`, so records are at most rows (wanted + groups). */
static uint64_t most_records(const clef_lowering *lo, const clef_attention_call *call)
{
    const uint64_t rows =
        clef__bound_n(lo, call->out, 3) * (uint64_t)call->args.a.n[1] * clef__bound_n(lo, call->out, 2);
    const uint64_t units = (uint64_t)(lo->caps->n_units > 1 ? lo->caps->n_units : 1),
                   keys = clef__most_keys(lo, call);
    const uint64_t of_units = 2 * GROUPS_PER_UNIT * units * MOST_ROWS,
                   of_keys = rows * ((keys + LEAST_KEYS - 1) / LEAST_KEYS);
    const uint64_t of_loops = lo->caps->short_loops ? rows * ((keys + SHORT_KEYS - 1) / SHORT_KEYS) : 0;
    const uint64_t n = of_units < of_keys ? of_units : of_keys;
    return n > of_loops ? n : of_loops;
}

clef_status clef__attention_gpu_flash_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err)
{
    attention_flash_args args = {.a = call->args.a};
    attention_args *a = &args.a;
    const uint32_t D = clef__n(lo, call->k, 0), E = clef__n(lo, call->v, 0),
                   rows = call->pages ? clef__ceil_div(a->n[0], a->paging.n_runs) : a->n[2],
                   queries = a->group * rows;
    const shape s = shape_of(lo->caps, call->batch_invariant ? UINT32_MAX / 2 : queries, D, E);
    a->tiles = call->pages ? clef__tiles_of_runs(a, s.rows) : clef__ceil_div(queries, s.rows) * a->n[0];
    const uint32_t groups = a->tiles * (a->n[1] / a->group);
    /* The scratch is sized for the symbols' bounds: q, if it is there, then the records. */
    const uint64_t q_floats = call->q == CLEF__SCRATCH
                                  ? clef__bound_n(lo, call->out, 3) * (uint64_t)a->n[1] *
                                        clef__bound_n(lo, call->out, 2) * clef__ceil_div(D, 4) * 4
                                  : 0;
    const uint64_t record = 4 + 4 * (uint64_t)clef__ceil_div(E, 4);
    a->splits = call->batch_invariant ? 1 : parts_of(lo->caps, a, groups);
    args.parts = (uint32_t)q_floats;
    clef_launch launch = {
        .source = "attention_gpu_flash",
        .kernel = "attention_gpu_flash",
        .defs = {{"WG", (int32_t)s.wg},
                 {"ROWS", (int32_t)s.rows},
                 {"TALL", (int32_t)s.tall},
                 {"KEYS", (int32_t)s.keys},
                 CLEF_ATTENTION_DEFS(lo, call),
                 {"FIRST", call->first != NULL}},
        .args = &args,
        .args_bytes = sizeof args,
        .bufs = {call->out, CLEF__SCRATCH, call->q, call->k, call->v, call->mask, call->pos, call->sinks},
        .n_bufs = 8,
        .groups = {a->splits * groups},
        .local = {s.wg},
        .scratch_bytes = 4 * (q_floats + most_records(lo, call) * record)};
    clef__add_optional(&launch, call);
    const clef_status status = clef__launch(lo, &launch, err);
    if (status || a->splits == 1)
        return status;
    launch.kernel = "attention_gpu_flash_merge";
    launch.n_bufs = 2;
    launch.groups[0] = a->n[0] * a->n[1] * a->n[2];
    return clef__launch(lo, &launch, err);
}
