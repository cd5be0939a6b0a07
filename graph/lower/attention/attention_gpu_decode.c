/* attention and cached_attention of few queries for each head of k, as in decode, on GPUs: rows of k and v
 * pass from memory to registers (cl/attention/attention_gpu_decode.cl). */
#include "graph/lower/attention/attention.h"
#include "graph/lower/attention/attention_gpu_parts.h"
#include "graph/lower/paging.h"

enum {
    GROUP = 128,       /* items */
    SHORT_LANES = 32,  /* most items for a row on devices that end long loops: each adds as many products */
    MOST_QUERIES = 16, /* of a head of k: beyond them tiles that share local memory read less */
    LEAST_EACH = 2     /* keys of an item in a chunk */
};

/* What a device's registers and local memory have room for, by prediction: no card has
 * measured it. More would spill registers. */
typedef struct room {
    uint32_t rows;     /* queries of a tile */
    uint32_t floats;   /* of the sums in an item's registers */
    uint32_t products; /* of an item in a chunk of whole pieces: of each a float is in local memory */
    uint32_t each;     /* most keys of an item in a chunk */
    uint32_t groups;   /* for each compute unit: one computes while others wait for memory */
} room;

static room room_of(const clef_caps *caps)
{
    if (caps->nv_asm) /* at some 150 registers for an item a unit holds 3 groups */
        return (room){.rows = 8, .floats = 32, .products = 16, .each = 4, .groups = 3};
    if (caps->subgroup_demand) /* Intel: 64 registers for an item in subgroups of 16 */
        return (room){.rows = 4, .floats = 32, .products = 8, .each = 2, .groups = 1};
    /* AMD: with 64 floats gfx1100, whose waves have 32 items, spills */
    return (room){
        .rows = 8, .floats = caps->subgroup_size == 64 ? 64 : 56, .products = 16, .each = 4, .groups = 4};
}

/* Constants of the program; rows 0: none fit. */
typedef struct shape {
    uint32_t rows, unit, each, groups;
} shape;

/* Queries of a head of k in a tile's run. */
static uint32_t queries_of(const clef_attention_call *call)
{
    const attention_args *a = &call->args.a;
    return a->group * (call->pages ? clef__ceil_div(a->n[0], a->paging.n_runs) : a->n[2]);
}

static shape shape_of(const clef_lowering *lo, const clef_attention_call *call)
{
    const room has = room_of(lo->caps);
    const uint32_t D = clef__n(lo, call->k, 0), queries = queries_of(call);
    shape s = {.rows = clef__ceil_div(queries, clef__ceil_div(queries, has.rows))};
    s.unit = s.rows * 8 <= has.floats && D % 8 == 0 && D / 8 <= GROUP ? 8 : 4;
    s.each = has.products * 8 / s.unit / s.rows;
    s.each = s.each < LEAST_EACH ? LEAST_EACH : s.each > has.each ? has.each : s.each;
    /* Items of half a piece have fewer registers, but with pages, and on units with copies in bulk, some
     * more. */
    s.groups = s.unit == 4 && has.groups < 4 && !call->pages && !lo->caps->nv_bulk_copies ? 4 : has.groups;
    return s;
}

/* n_new: new tokens whose keys are there, too. */
static uint64_t local_bytes(shape s, uint32_t D, uint32_t n_new)
{
    const uint64_t lanes = D / s.unit, streams = GROUP / lanes, pairs = streams * s.each * s.rows,
                   products = pairs * (lanes | 1), sums = streams * D,
                   heads = n_new ? n_new * D + (s.rows + n_new) * (lanes | 1) : 0;
    const uint64_t most = products > sums ? products : sums;
    return 4 * ((most > heads ? most : heads) + 2 * pairs + streams * s.rows + (2 + D) * s.rows + n_new * D) +
           64;
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
    return D % s.unit == 0 && D / s.unit <= (lo->caps->short_loops ? SHORT_LANES : GROUP) &&
           has_pieces(call->k, &call->args.a.k, s.unit) && has_pieces(call->v, &call->args.a.v, s.unit) &&
           local_bytes(s, D, 0) <= lo->caps->local_bytes;
}

int clef__attention_gpu_decode_makes_heads(const clef_lowering *lo, const clef_attention_call *call)
{
    const attention_args *a = &call->args.a;
    const shape s = shape_of(lo, call);
    return call->new_k && queries_of(call) <= s.rows &&
           (!call->pages || clef__runs_are_rows(lo, call->runs, a->n[0])) &&
           local_bytes(s, clef__n(lo, call->k, 0), a->n[2]) <= lo->caps->local_bytes;
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
                                   {"FIRST", call->first != NULL},
                                   {"NEW", call->new_k ? (int32_t)call->args.a.n[2] : 0}},
                          .local = {GROUP}};
    if (call->new_k) {
        clef_def *more = launch.defs;
        while (more->name)
            more++;
        more[0] = (clef_def){"TURNED", call->freqs ? (int32_t)clef__n(lo, call->freqs, 0) : 0};
        more[1] = (clef_def){"PAIRING", (int32_t)call->pairing};
        more[2] = (clef_def){"NORM_TYPE", call->q_norm ? (int32_t)call->q_norm->dtype : DTYPE_NONE};
    }
    return clef__attention_parts_launch(lo, call, &launch, s.rows, s.groups * clef__units(lo->caps), err);
}
