/* attention_grad: the launches of its variants. */
#include <inttypes.h>

#include "graph/lower/attention/attention_grad.h"

/* The arguments that all kernels take. *call: the attention. */
static attention_grad_args args_of(const clef_lowering *lo, const clef_value *n, const clef_value *attention,
                                   clef_attention_call *call)
{
    *call = clef__attention_call(lo, attention);
    return (attention_grad_args){.a = call->args.a,
                                 .y = clef__view(lo, n->in[CLEF_ATTENTION_GRAD_Y]).offset,
                                 .dy = clef__view(lo, n->in[CLEF_ATTENTION_GRAD_DY]).offset,
                                 .dk = clef__size(lo, call->q),
                                 .dv = clef__size(lo, call->q) + clef__size(lo, call->k)};
}

/* Sets the buffers after out and the scratch. */
static void set_inputs(clef_launch *launch, const clef_value *n, const clef_attention_call *call)
{
    const clef_value *const bufs[] = {n,
                                      CLEF__SCRATCH,
                                      call->q,
                                      call->k,
                                      call->v,
                                      n->in[CLEF_ATTENTION_GRAD_Y],
                                      n->in[CLEF_ATTENTION_GRAD_DY],
                                      call->mask,
                                      call->pos};
    launch->n_bufs = sizeof bufs / sizeof *bufs;
    for (uint32_t i = 0; i < launch->n_bufs; i++)
        launch->bufs[i] = bufs[i];
    if (call->first)
        launch->bufs[launch->n_bufs++] = call->first;
}

#define DEFS(lo, call)                                                                                       \
    CLEF_ATTENTION_DEFS(lo, call), {"FIRST", (call)->first != NULL},                                         \
    {                                                                                                        \
        "CAPS", (call)->args.a.softcap > 0                                                                   \
    }

/* ---- CPUs with vectors ------------------------------------------------------------------------- */

enum {
    ROWS = 6,  /* with four vectors of keys each: 24 sums, the most that 32 registers hold */
    KEYS = 64, /* of a chunk */
    TILE = 96, /* queries that share a chunk */
    LEAST_TILE = 12,
    FEW_TILES = 5,           /* fewer of them leave too much of the last one empty */
    STRIP_BYTES = 512 << 10, /* a strip of logits that stays in the second cache */
    WIDE = 256,              /* D + E from which tiles are smaller, because of the stack */
    GROUPS_PER_UNIT = 4      /* so that cores that start late find work */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t tile_of(const clef_attention_call *call, uint32_t D, uint32_t E)
{
    uint32_t tile = D + E > WIDE ? TILE / 2 : TILE;
    const attention_args *a = &call->args.a;
    while (tile > LEAST_TILE &&
           ((uint64_t)tile * a->n[3] * sizeof(float) > STRIP_BYTES || tile * FEW_TILES > a->group * a->n[2]))
        tile /= 2;
    return tile;
}

static clef_status cpu_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value attention = clef__attention_of_grad(n);
    clef_attention_call call;
    attention_grad_args args = args_of(lo, n, &attention, &call);
    attention_args *a = &args.a;
    const uint32_t D = clef__n(lo, call.k, 0), E = clef__n(lo, call.v, 0), tile = tile_of(&call, D, E);
    const uint32_t heads = a->n[1] / a->group * a->n[0], tiles = clef__ceil_div(a->group * a->n[2], tile);
    const uint32_t units = lo->caps->n_units > 1 ? (uint32_t)lo->caps->n_units : 1;
    const uint64_t strip = (uint64_t)clef__ceil_div(a->n[3], KEYS) * KEYS * tile * (a->softcap > 0 ? 2 : 1),
                   slot = strip + (uint64_t)a->n[3] * 16 * (clef__ceil_div(D, 16) + clef__ceil_div(E, 16));
    if (slot > UINT32_MAX)
        return clef__fail(err, CLEF_E_LIMIT, "%s: %" PRIu32 " keys, too many for the gradient of attention",
                          n->name, a->n[3]);
    a->splits = heads % units == 0 ? 1 : least(clef__ceil_div(2 * units, heads), tiles);
    args.items = heads * a->splits;
    args.slot = (uint32_t)slot;
    const uint32_t groups = a->splits > 1 ? args.items : least(args.items, GROUPS_PER_UNIT * units);
    clef_launch launch = {.source = "attention_grad_cpu",
                          .kernel = "attention_grad_cpu",
                          .defs = {{"TILE", (int32_t)tile}, {"ROWS", ROWS}, DEFS(lo, &call)},
                          .args = &args,
                          .args_bytes = sizeof args,
                          .groups = {groups},
                          .scratch_bytes = slot * groups * sizeof(float)};
    set_inputs(&launch, n, &call);
    const clef_status s = clef__launch(lo, &launch, err);
    if (s || a->splits == 1)
        return s;
    launch.kernel = "attention_grad_merge";
    launch.n_bufs = 2;
    launch.groups[0] = heads * a->n[3];
    return clef__launch(lo, &launch, err);
}

const clef_variant clef__attention_grad_cpu = {.name = "cpu",
                                               .device_text = "a CPU with vectors",
                                               .runs_on = clef__attention_has_vectors,
                                               .lower = cpu_lower};

/* ---- any device -------------------------------------------------------------------------------- */

/* Constants of the program: work-items, queries and keys of a tile; wg 0: none fit the device. */
typedef struct shape {
    uint32_t wg, rows, keys;
} shape;

static const shape shapes[] = {{128, 32, 32}, {128, 16, 16}, {64, 8, 8}, {32, 4, 4}, {16, 2, 2}};

static uint64_t local_bytes(shape s, uint32_t D, uint32_t E)
{
    const uint64_t vectors = clef__ceil_div(D, 4) + clef__ceil_div(E, 4) + 2;
    return 16 * vectors * (s.rows + s.keys) + 8 * (uint64_t)s.rows * s.keys + 16 * (uint64_t)s.rows;
}

static shape shape_of(const clef_lowering *lo, uint32_t D, uint32_t E)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        shape s = shapes[i];
        if (local_bytes(s, D, E) > lo->caps->local_bytes)
            continue;
        s.wg = clef__fit_local(lo, s.wg);
        return s;
    }
    return (shape){0};
}

/* The rounds of all loops of a work-item, added up. CLEF_E_LIMIT if the device would end them earlier. */
static clef_status fits_loops(const clef_lowering *lo, const attention_grad_args *g, shape s, uint32_t D,
                              uint32_t E, clef_error *err)
{
    enum { MOST = 60000 };
    const uint64_t d = clef__ceil_div(D, 4), e = clef__ceil_div(E, 4),
                   pairs = clef__ceil_div(s.rows * s.keys, s.wg), most = s.rows > s.keys ? s.rows : s.keys;
    const uint64_t round =
        most * (4 * (d + e) + 8) / s.wg + pairs * (2 * d + e + 2) + (most * (d + e) / s.wg + 2) * (most + 1);
    const uint64_t longest = g->a.group * g->a.n[2] > g->a.n[3] ? g->a.group * g->a.n[2] : g->a.n[3];
    if (!lo->caps->short_loops || longest / (s.rows < s.keys ? s.rows : s.keys) * 2 * round <= MOST)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_LIMIT,
                      "%s: the gradient of attention over %" PRIu64
                      " positions: this device ends a work-item's "
                      "loops after some 65,000 rounds",
                      lo->node->name, longest);
}

static clef_status tiles_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value attention = clef__attention_of_grad(n);
    clef_attention_call call;
    attention_grad_args args = args_of(lo, n, &attention, &call);
    const attention_args *a = &args.a;
    const uint32_t D = clef__n(lo, call.k, 0), E = clef__n(lo, call.v, 0),
                   heads = a->n[1] / a->group * a->n[0];
    const shape s = shape_of(lo, D, E);
    if (!s.wg)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: heads of %" PRIu32 " and %" PRIu32 " do not fit the device's local memory",
                          n->name, D, E);
    clef_status status = fits_loops(lo, &args, s, D, E, err);
    if (status)
        return status;
    clef_launch launch = {.source = "attention_grad",
                          .kernel = "attention_grad_queries",
                          .c_version = CLEF_SUBGROUP_C_VERSION(lo),
                          .defs = {{"WG", (int32_t)s.wg},
                                   {"ROWS", (int32_t)s.rows},
                                   {"KEYS", (int32_t)s.keys},
                                   DEFS(lo, &call)},
                          .args = &args,
                          .args_bytes = sizeof args,
                          .groups = {clef__ceil_div(a->group * a->n[2], s.rows) * heads},
                          .local = {s.wg},
                          .scratch_bytes = 2 * sizeof(float) * a->n[0] * a->n[1] * (uint64_t)a->n[2]};
    set_inputs(&launch, n, &call);
    status = clef__launch(lo, &launch, err);
    if (status)
        return status;
    launch.kernel = "attention_grad_keys";
    launch.groups[0] = clef__ceil_div(a->n[3], s.keys) * heads;
    return clef__launch(lo, &launch, err);
}

const clef_variant clef__attention_grad_tiles = {.name = "tiles", .lower = tiles_lower};
