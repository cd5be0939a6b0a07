/* attention and cached_attention on GPUs: tiles of queries by chunks of keys in local memory. The keys are
 * cut into parts if the tiles would leave compute units idle (cl/attention/attention_gpu_flash.cl,
 * graph/lower/attention/attention_gpu_parts.c). */
#include "graph/lower/attention/attention.h"
#include "graph/lower/attention/attention_gpu_parts.h"

enum {
    GROUP = 128,        /* items */
    MOST_ROWS = 32,     /* of a tile */
    GROUPS_PER_UNIT = 2 /* so that one computes while another waits for memory */
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

clef_status clef__attention_gpu_flash_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err)
{
    const attention_args *a = &call->args.a;
    const uint32_t D = clef__n(lo, call->k, 0), E = clef__n(lo, call->v, 0),
                   rows = call->pages ? clef__ceil_div(a->n[0], a->paging.n_runs) : a->n[2],
                   queries = a->group * rows;
    const shape s = shape_of(lo->caps, call->batch_invariant ? UINT32_MAX / 2 : queries, D, E);
    clef_launch launch = {.source = "attention_gpu_flash",
                          .kernel = "attention_gpu_flash",
                          .defs = {{"WG", (int32_t)s.wg},
                                   {"ROWS", (int32_t)s.rows},
                                   {"TALL", (int32_t)s.tall},
                                   {"KEYS", (int32_t)s.keys},
                                   CLEF_ATTENTION_DEFS(lo, call),
                                   {"FIRST", call->first != NULL}},
                          .local = {s.wg}};
    return clef__attention_parts_launch(lo, call, &launch, s.rows, GROUPS_PER_UNIT * clef__units(lo->caps),
                                        err);
}
