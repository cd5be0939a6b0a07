/* Lowering of expert_matmul: rows, each of which reads the matrix of its expert; or grouped, where the rows
 * of an expert share what is read. */
#include "graph/lower/expert/expert_parts.h"
#include "graph/lower/variant.h"

enum { CPU_COLUMNS_NK = 4, CPU_COLUMNS_KN = 64, GPU_LANES = 64 };

static int is_transposed(const clef_value *n)
{
    return clef__expert_attrs_of(n)->opts.transpose_b != 0;
}

expert_args clef__expert_args_of(const clef_lowering *lo, const clef_value *n)
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

int clef__expert_rows_aligned(clef_dtype dtype, uint32_t offset, uint32_t k)
{
    const uint64_t bytes = (uint64_t)clef_dtype_block_bytes(dtype),
                   elems = (uint64_t)clef_dtype_block_elems(dtype);
    return offset / elems * bytes % 16 == 0 && k / elems * bytes % 16 == 0 && k % elems == 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static clef_status rows_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *w = n->in[1], *ids = n->in[2], *bias = n->in[3];
    const int transposed = is_transposed(n);
    const uint32_t wg = clef__fit_local(lo, GPU_LANES);
    const uint32_t columns = !transposed ? (wg == 1 ? CPU_COLUMNS_KN : wg) : wg == 1 ? CPU_COLUMNS_NK : 1;
    const expert_args args = clef__expert_args_of(lo, n);
    return clef__launch(lo,
                        &(clef_launch){.source = "expert",
                                       .kernel = transposed ? "expert_nk" : "expert_kn",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"COLUMNS", (int32_t)columns},
                                                {"W_TYPE", (int32_t)w->dtype},
                                                {"BIAS_TYPE", clef__panel_dtype(bias)},
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
    return (uint64_t)EXPERT_STEP * (EXPERT_COLUMNS + rows + 4) * sizeof(float);
}

int clef__experts_have_groups(const clef_caps *caps)
{
    return !caps->is_cpu && caps->max_group >= ORDER_GROUP && caps->max_items[0] >= ORDER_GROUP &&
           caps->local_bytes >= local_bytes(LARGE_ROWS);
}

static int grouped_fits(const clef_lowering *lo, const clef_value *n)
{
    (void)lo;
    return !clef__expert_attrs_of(n)->batch_invariant;
}

static int bytes_fits(const clef_lowering *lo, const clef_value *n)
{
    return grouped_fits(lo, n) && clef__expert_attrs_of(n)->int8 && clef__experts_have_bytes(n);
}

int clef__has_expert_codes(clef_dtype dtype)
{
    return dtype == CLEF_Q8_0 || dtype == CLEF_Q4_0 || dtype == CLEF_Q4_K || dtype == CLEF_Q5_K ||
           dtype == CLEF_Q6_K;
}

int clef__experts_have_bytes(const clef_value *n)
{
    return is_transposed(n) && clef__has_expert_codes(n->in[1]->dtype);
}

int clef__experts_have_many_pairs(const clef_lowering *lo, const clef_value *n)
{
    return clef__size(lo, n->in[2]) >= LEAST_PAIRS * clef__n(lo, n->in[1], 2);
}

static clef_int_dot int_dot_of(const clef_caps *caps)
{
    return caps->int_dot   ? CLEF_INT_DOT_KHR
           : caps->nv_asm  ? CLEF_INT_DOT_PTX
           : caps->amd_dot ? (clef_int_dot)caps->amd_dot
           : caps->arm_dot ? CLEF_INT_DOT_ARM
                           : CLEF_INT_DOT_PLAIN;
}

/* Bytes are the default only where the device has an instruction for products of them. */
static int bytes_pay(const clef_lowering *lo, const clef_value *n)
{
    return int_dot_of(lo->caps) != CLEF_INT_DOT_PLAIN && clef__experts_have_many_pairs(lo, n);
}

/* Words of a row of k elements of x. */
static uint64_t words_of_x(clef_x_form x, uint32_t k)
{
    return x == CLEF_X_FLOATS  ? 0
           : x == CLEF_X_BYTES ? k / 32 * 11 /* 32 bytes, a scale, two sums */
                               : k / 2 + 1;
}

clef__expert_tiles clef__expert_tiles_of(const clef_lowering *lo, const clef_value *n, clef_x_form x)
{
    const expert_args a = clef__expert_args_of(lo, n);
    const uint32_t pairs = clef__size(lo, n->in[2]), rows = rows_of_tile(pairs, a.experts),
                   m = clef__rows(lo, n->in[0]);
    const uint64_t x_words = m * words_of_x(x, a.k);
    clef__expert_tiles g = {.args = {.a = a, .pairs = pairs, .m = m, .order = (args_uint)x_words},
                            .x = x,
                            .rows = rows,
                            .tiles = pairs / rows + a.experts + 1};
    /* for the smallest tiles: memory is taken for the longest step, and a shorter one must not need more */
    const uint64_t most_tiles = (uint64_t)pairs / SMALL_ROWS + a.experts + 1;
    g.scratch_bytes = (x_words + pairs + most_tiles * EXPERT_TILE_WORDS) * sizeof(int32_t);
    return g;
}

static clef_status lower_order(clef_lowering *lo, const clef_value *n, const clef__expert_tiles *g,
                               clef_error *err)
{
    const expert_order_args args = {.pairs = g->args.pairs,
                                    .experts = g->args.a.experts,
                                    .rows = g->rows,
                                    .ids = g->args.a.ids,
                                    .order = g->args.order};
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_order",
                                       .kernel = "expert_order",
                                       .defs = {{"WG", ORDER_GROUP}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {CLEF__SCRATCH, n->in[2]},
                                       .n_bufs = 2,
                                       .groups = {args.experts + 1},
                                       .local = {ORDER_GROUP},
                                       .scratch_bytes = g->scratch_bytes},
                        err);
}

static clef_status lower_x(clef_lowering *lo, const clef_value *n, const clef__expert_tiles *g,
                           clef_error *err)
{
    const clef_value *x = n->in[0];
    const rows_args args = {.m = g->args.m,
                            .k = g->args.a.k,
                            .n1 = clef__n(lo, x, 2),
                            .n2 = clef__n(lo, x, 1),
                            .x = clef__view(lo, x)};
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, x, 0) / (g->x == CLEF_X_BYTES ? 32 : 8));
    return clef__launch_activations(
        lo, &args,
        &(clef_x_launch){
            .form = g->x, .x = x, .group = wg, .rows = args.m, .scratch_bytes = g->scratch_bytes},
        err);
}

static clef_status lower_expert_tiles(clef_lowering *lo, const clef_value *n, const clef__expert_tiles *g,
                                      clef_error *err)
{
    const clef_value *x = n->in[0], *w = n->in[1];
    const expert_args *a = &g->args.a;
    const int in_bytes = g->x == CLEF_X_BYTES;
    const int aligned = clef__expert_rows_aligned(x->dtype, a->x, a->k) &&
                        (!is_transposed(n) || clef__expert_rows_aligned(w->dtype, a->w, a->k));
    const clef_int_dot dot = in_bytes ? int_dot_of(lo->caps) : CLEF_INT_DOT_PLAIN;
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_tiles",
                                       .kernel = "expert_tiles",
                                       .c_version = clef__int_dot_c_version(dot),
                                       .defs = {{"ROWS", (int32_t)g->rows},
                                                {"W_TYPE", (int32_t)w->dtype},
                                                {"BIAS_TYPE", clef__panel_dtype(n->in[3])},
                                                {"TRANSPOSED", is_transposed(n)},
                                                {"QUANTISE", in_bytes},
                                                {"ALIGNED", aligned && !in_bytes},
                                                {"INT_DOT", (int32_t)dot}},
                                       .args = &g->args,
                                       .args_bytes = sizeof g->args,
                                       .bufs = {n, in_bytes ? CLEF__SCRATCH : x, w, CLEF__SCRATCH, n->in[3]},
                                       .n_bufs = 5,
                                       .groups = {clef__ceil_div(a->n, EXPERT_COLUMNS), g->tiles},
                                       .local = {4 * g->rows}},
                        err);
}

clef_status clef__lower_expert_order(clef_lowering *lo, const clef_value *n, const clef__expert_tiles *g,
                                     clef_error *err)
{
    const clef_status status = lower_order(lo, n, g, err);
    return status || g->x == CLEF_X_FLOATS ? status : lower_x(lo, n, g, err);
}

static clef_status grouped_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef__expert_tiles g =
        clef__expert_tiles_of(lo, n, lo->serving->method ? CLEF_X_BYTES : CLEF_X_FLOATS);
    const clef_status status = clef__lower_expert_order(lo, n, &g, err);
    return status ? status : lower_expert_tiles(lo, n, &g, err);
}

#define NEEDED_GPU "a GPU with groups of 256 and 25 KiB of local memory"

const clef_variant clef__expert_matmul_grouped = {.name = "grouped",
                                                  .device_text = NEEDED_GPU,
                                                  .shape_text = "products that need not be batch-invariant",
                                                  .runs_on = clef__experts_have_groups,
                                                  .fits = grouped_fits,
                                                  .is_default = clef__experts_have_many_pairs,
                                                  .lower = grouped_lower};
const clef_variant clef__expert_matmul_grouped_bytes = {
    .name = "grouped_bytes",
    .device_text = NEEDED_GPU,
    .shape_text = "x that may be rounded to 8 bits and Q8_0, Q4_0, Q4_K, Q5_K or Q6_K",
    .runs_on = clef__experts_have_groups,
    .fits = bytes_fits,
    .is_default = bytes_pay,
    .method = 1,
    .lower = grouped_lower};
