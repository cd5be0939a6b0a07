/* attention and cached_attention of few queries for each head of k, as in decode, on GPUs: rows of k and v
 * pass from memory to registers (cl/attention/attention_gpu_decode.cl). */
#include "graph/lower/attention.h"
#include "graph/lower/attention_gpu_parts.h"

enum {
    GROUP = 128,         /* items */
    MOST_QUERIES = 16,   /* of a head of k: beyond them tiles that share local memory read less */
    MOST_ROWS = 8,       /* of a tile */
    MOST_FLOATS = 32,    /* of the queries, and of the sums, in an item's registers */
    MOST_PRODUCTS = 16,  /* of an item in a chunk, unless a tile has more than 4 rows */
    GROUPS_PER_UNIT = 4, /* so that the others compute while one waits for memory */
    LEAST_EACH = 4,      /* loads of k under way in an item */
    MOST_EACH = 8
};

/* Constants of the program; rows 0: none fit. */
typedef struct shape {
    uint32_t rows, unit, each;
} shape;

/* Queries of a head of k in a tile's run. */
static uint32_t queries_of(const clef_attention_call *call)
{
    const attention_args *a = &call->args.a;
    return a->group * (call->pages ? clef__ceil_div(a->n[0], a->paging.n_runs) : a->n[2]);
}

static shape shape_of(const clef_lowering *lo, const clef_attention_call *call)
{
    const uint32_t D = clef__n(lo, call->k, 0), queries = queries_of(call);
    shape s = {.rows = clef__ceil_div(queries, clef__ceil_div(queries, MOST_ROWS))};
    s.unit = s.rows * 8 <= MOST_FLOATS && D % 8 == 0 && D / 8 <= GROUP ? 8 : 4;
    s.each = MOST_PRODUCTS / s.rows;
    s.each = s.each < LEAST_EACH ? LEAST_EACH : s.each > MOST_EACH ? MOST_EACH : s.each;
    return s;
}

static uint64_t local_bytes(shape s, uint32_t D)
{
    const uint64_t lanes = D / s.unit, streams = GROUP / lanes, pairs = streams * s.each * s.rows,
                   products = pairs * (lanes | 1), sums = streams * D;
    return 4 * ((products > sums ? products : sums) + 2 * pairs + streams * s.rows + 2 * s.rows) + 64;
}

/* Whether a row of k or v can be read in pieces of `unit` elements. */
static int has_pieces(const clef_value *v, const view_args *view, uint32_t unit)
{
    if (v->dtype == CLEF_Q8_0)
        return 1;
    if (v->dtype != CLEF_F32 && v->dtype != CLEF_F16 && v->dtype != CLEF_BF16)
        return 0;
    return view->offset % unit == 0 && view->stride[0] % unit == 0 && view->stride[1] % unit == 0 &&
           view->stride[2] % unit == 0;
}

int clef__attention_gpu_decode_runs(const clef_caps *caps)
{
    return !caps->is_cpu && caps->max_group >= GROUP && caps->max_items[0] >= GROUP;
}

int clef__attention_gpu_decode_takes(const clef_lowering *lo, const clef_attention_call *call)
{
    const uint32_t D = clef__n(lo, call->k, 0), E = clef__n(lo, call->v, 0);
    if (call->batch_invariant || D != E || queries_of(call) > MOST_QUERIES)
        return 0;
    const shape s = shape_of(lo, call);
    return D % s.unit == 0 && D / s.unit <= GROUP && has_pieces(call->k, &call->args.a.k, s.unit) &&
           has_pieces(call->v, &call->args.a.v, s.unit) && local_bytes(s, D) <= lo->caps->local_bytes;
}

clef_status clef__attention_gpu_decode_launch(clef_lowering *lo, const clef_attention_call *call,
                                              clef_error *err)
{
    const shape s = shape_of(lo, call);
    clef_launch launch = {.source = "attention_gpu_decode",
                          .kernel = "attention_gpu_decode",
                          .defs = {{"WG", GROUP},
                                   {"ROWS", (int32_t)s.rows},
                                   {"UNIT", (int32_t)s.unit},
                                   {"EACH", (int32_t)s.each},
                                   CLEF_ATTENTION_DEFS(lo, call),
                                   {"FIRST", call->first != NULL}},
                          .local = {GROUP}};
    return clef__attention_parts_launch(lo, call, &launch, s.rows, GROUPS_PER_UNIT, err);
}
