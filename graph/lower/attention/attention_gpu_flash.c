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

/* Constants of the program. */
typedef struct shape {
    uint32_t wg, rows, tall, keys;
} shape;

/* From tall tiles to low ones, then shorter chunks for wide heads. A row is shared by at most as many
 * work-items as a chunk has keys. */
static const shape shapes[] = {{.wg = GROUP, .rows = MOST_ROWS, .tall = 2, .keys = 32},
                               {.wg = GROUP, .rows = 16, .tall = 1, .keys = 32},
                               {.wg = GROUP, .rows = 8, .tall = 1, .keys = 32},
                               {.wg = GROUP, .rows = 4, .tall = 1, .keys = 32},
                               {.wg = GROUP, .rows = 8, .tall = 1, .keys = 16},
                               {.wg = GROUP / 2, .rows = 8, .tall = 1, .keys = 8},
                               {.wg = GROUP / 4, .rows = 4, .tall = 1, .keys = 8}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static uint64_t local_bytes(shape s, uint32_t D, uint32_t E)
{
    const uint64_t d = clef__ceil_div(D, 4), e = clef__ceil_div(E, 4), wide = (d > e ? d : e) + 1;
    return 16 * (s.rows * d + s.keys * wide) + 4 * (uint64_t)s.rows * (s.keys + 1);
}

/* The shape for so many queries of a head of k; NULL: none fits the device. */
static const shape *shape_of(const clef_caps *caps, uint32_t queries, uint32_t D, uint32_t E)
{
    clef__candidate candidates[N_SHAPES];
    for (int32_t i = 0; i < N_SHAPES; i++)
        candidates[i] = clef__attention_candidate(shapes[i].wg, local_bytes(shapes[i], D, E), queries,
                                                  shapes[i].rows, shapes[i].keys);
    const int32_t best = clef__fastest(caps, candidates, N_SHAPES, 1);
    return best < 0 ? NULL : &shapes[best];
}

int clef__attention_gpu_flash_runs(const clef_caps *caps)
{
    return !caps->is_cpu && caps->max_group >= GROUP / 4;
}

int clef__attention_gpu_flash_takes(const clef_caps *caps, uint32_t D, uint32_t E)
{
    return shape_of(caps, 1, D, E) != NULL;
}

clef_status clef__attention_gpu_flash_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err)
{
    const attention_args *a = &call->args.a;
    const uint32_t D = clef__n(lo, call->k, 0), E = clef__n(lo, call->v, 0),
                   rows = call->pages ? clef__ceil_div(a->n[0], a->paging.n_runs) : a->n[2],
                   queries = a->group * rows;
    const shape *s = shape_of(lo->caps, call->batch_invariant ? UINT32_MAX / 2 : queries, D, E);
    clef_launch launch = {.source = "attention_gpu_flash",
                          .kernel = "attention_gpu_flash",
                          .defs = {{"WG", (int32_t)s->wg},
                                   {"ROWS", (int32_t)s->rows},
                                   {"TALL", (int32_t)s->tall},
                                   {"KEYS", (int32_t)s->keys},
                                   CLEF_ATTENTION_DEFS(lo, call),
                                   {"FIRST", call->first != NULL}},
                          .local = {s->wg}};
    return clef__attention_parts_launch(lo, call, &launch, s->rows, GROUPS_PER_UNIT * clef__units(lo->caps),
                                        err);
}
