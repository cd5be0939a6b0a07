/* Lowering of expert_matmul: rows, each of which reads the matrix of its expert; or grouped, where the rows
 * of an expert share what is read. */
#include "graph/op/expert.h"
#include "graph/lower/variant.h"

enum { CPU_COLUMNS_NK = 4, CPU_COLUMNS_KN = 64, GPU_LANES = 64 };

static int is_transposed(const clef_value *n)
{
    return clef__expert_attrs_of(n)->opts.transpose_b != 0;
}

static int32_t bias_type(const clef_value *bias)
{
    return bias ? (int32_t)bias->dtype : DTYPE_NONE;
}

static expert_args args_of(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *x = n->in[0], *w = n->in[1], *ids = n->in[2];
    return (expert_args){.n = clef__n(lo, n, 0),
                         .k = clef__n(lo, x, 0),
                         .experts = clef__n(lo, w, 2),
                         .chosen = clef__n(lo, ids, 0),
                         .each = x->shape.rank == 4,
                         .x = clef__view(lo, x).offset,
                         .w = clef__view(lo, w).offset,
                         .ids = clef__view(lo, ids).offset,
                         .bias = clef__view(lo, n->in[3]).offset};
}

/* ---- rows ------------------------------------------------------------------------------------ */

static clef_status rows_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *w = n->in[1], *ids = n->in[2], *bias = n->in[3];
    const int transposed = is_transposed(n);
    const uint32_t wg = clef__fit_local(lo, GPU_LANES);
    const uint32_t columns = !transposed ? (wg == 1 ? CPU_COLUMNS_KN : wg) : wg == 1 ? CPU_COLUMNS_NK : 1;
    const expert_args args = args_of(lo, n);
    return clef__launch(lo,
                        &(clef_launch){.source = "expert",
                                       .kernel = transposed ? "expert_nk" : "expert_kn",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"COLUMNS", (int32_t)columns},
                                                {"W_TYPE", (int32_t)w->dtype},
                                                {"BIAS_TYPE", bias_type(bias)},
                                                {"TRANSPOSED", transposed}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, x, w, ids, bias},
                                       .n_bufs = 5,
                                       .groups = {clef__ceil_div(args.n, columns), clef__size(lo, ids)},
                                       .local = {wg}},
                        err);
}

const clef_variant clef__expert_matmul_rows = {.name = "rows", .lower = rows_lower};

/* ---- grouped --------------------------------------------------------------------------------- */

enum {
    ORDER_GROUP = 256,
    STEP = 32, /* those of expert_tiles.cl */
    COLUMNS = 128,
    LEAST_PAIRS = 4, /* for each expert, from which the others' sharing pays */
    SMALL_ROWS = 16, /* pairs of a tile */
    MEDIUM_ROWS = 32,
    LARGE_ROWS = 64,
    LEAST_FOR_MEDIUM = 12, /* pairs of an expert */
    LEAST_FOR_LARGE = 96
};

/* Pairs of a tile: few, where experts have few, since a tile is computed whole. */
static uint32_t rows_of_tile(uint32_t pairs, uint32_t experts)
{
    return pairs < LEAST_FOR_MEDIUM * experts  ? SMALL_ROWS
           : pairs < LEAST_FOR_LARGE * experts ? MEDIUM_ROWS
                                               : LARGE_ROWS;
}

static uint64_t local_bytes(uint32_t rows)
{
    return (uint64_t)STEP * (COLUMNS + rows + 4) * sizeof(float);
}

static int grouped_runs_on(const clef_caps *caps)
{
    return !caps->is_cpu && caps->max_group >= ORDER_GROUP && caps->max_items[0] >= ORDER_GROUP &&
           caps->local_bytes >= local_bytes(LARGE_ROWS);
}

static int grouped_fits(const clef_lowering *lo, const clef_value *n)
{
    (void)lo;
    return !clef__expert_attrs_of(n)->batch_invariant;
}

static int has_many_pairs(const clef_lowering *lo, const clef_value *n)
{
    return clef__size(lo, n->in[2]) >= LEAST_PAIRS * clef__n(lo, n->in[1], 2);
}

/* Whether `offset` elements, and a row of k, are multiples of 16 bytes. */
static int is_aligned(clef_dtype dtype, uint32_t offset, uint32_t k)
{
    const uint64_t bytes = (uint64_t)clef_dtype_block_bytes(dtype),
                   elems = (uint64_t)clef_dtype_block_elems(dtype);
    return offset / elems * bytes % 16 == 0 && k / elems * bytes % 16 == 0 && k % elems == 0;
}

static clef_status order_lower(clef_lowering *lo, const clef_value *n, const expert_order_args *args,
                               uint32_t tiles, clef_error *err)
{
    return clef__launch(
        lo,
        &(clef_launch){.source = "expert_order",
                       .kernel = "expert_order",
                       .defs = {{"WG", ORDER_GROUP}},
                       .args = args,
                       .args_bytes = sizeof *args,
                       .bufs = {CLEF__SCRATCH, n->in[2]},
                       .n_bufs = 2,
                       .groups = {args->experts + 1},
                       .local = {ORDER_GROUP},
                       .scratch_bytes =
                           ((uint64_t)args->pairs + (uint64_t)tiles * EXPERT_TILE_WORDS) * sizeof(int32_t)},
        err);
}

static clef_status grouped_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *w = n->in[1];
    const expert_args args = args_of(lo, n);
    const uint32_t pairs = clef__size(lo, n->in[2]), rows = rows_of_tile(pairs, args.experts),
                   tiles = pairs / rows + args.experts + 1;
    const expert_tiles_args all = {.a = args, .pairs = pairs};
    const int aligned =
        is_aligned(x->dtype, args.x, args.k) && (!is_transposed(n) || is_aligned(w->dtype, args.w, args.k));
    const clef_status status = order_lower(
        lo, n, &(expert_order_args){.pairs = pairs, .experts = args.experts, .rows = rows, .ids = args.ids},
        tiles, err);
    if (status)
        return status;
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_tiles",
                                       .kernel = "expert_tiles",
                                       .defs = {{"ROWS", (int32_t)rows},
                                                {"W_TYPE", (int32_t)w->dtype},
                                                {"BIAS_TYPE", bias_type(n->in[3])},
                                                {"TRANSPOSED", is_transposed(n)},
                                                {"ALIGNED", aligned}},
                                       .args = &all,
                                       .args_bytes = sizeof all,
                                       .bufs = {n, x, w, CLEF__SCRATCH, n->in[3]},
                                       .n_bufs = 5,
                                       .groups = {clef__ceil_div(args.n, COLUMNS), tiles},
                                       .local = {4 * rows}},
                        err);
}

const clef_variant clef__expert_matmul_grouped = {.name = "grouped",
                                                  .device_text =
                                                      "a GPU with groups of 256 and 25 KiB of local memory",
                                                  .shape_text = "products that need not be batch-invariant",
                                                  .runs_on = grouped_runs_on,
                                                  .fits = grouped_fits,
                                                  .is_default = has_many_pairs,
                                                  .lower = grouped_lower};
