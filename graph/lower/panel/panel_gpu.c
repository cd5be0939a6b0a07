/* Lowering of panel_matmul on GPUs without matrix units, and of the rows of x on all GPUs. The rows are
 * prepared if needed (norm, 8 bits). A few are then multiplied tile by tile of the weight
 * (cl/panel/panel_gpu_gemv.cl), many in tiles of both (cl/panel/panel_gpu_gemm.cl). */
#include "graph/lower/panel/panel_gpu.h"
#include "graph/lower/variant.h"

enum {
    FEW_ROWS = 4,         /* most rows of panel_gpu_gemv */
    ITEMS_PER_UNIT = 1024 /* work-items wanted in a launch, so that some compute while others wait for
                             memory */
};

_Static_assert((int)CLEF_AMD_DOT_SDOT4 == CLEF_INT_DOT_SDOT4 &&
                   (int)CLEF_AMD_DOT_SUDOT4 == CLEF_INT_DOT_SUDOT4,
               "caps->amd_dot is a clef_int_dot");

/* What a variant uses on the device. */
typedef struct means {
    clef_int_dot dot;
    clef_subgroups subgroups;
    clef_x_form x;
} means;

static means means_of(const clef_lowering *lo, const clef_panel_matmul_opts *o)
{
    const int32_t method = lo->serving->method;
    const int is_dot = method < CLEF_N_INT_DOTS,
              without = method == CLEF_BY_GROUPS || method == CLEF_BY_HALVES;
    return (means){.dot = !is_dot                        ? CLEF_INT_DOT_PLAIN
                          : method == CLEF_INT_DOT_SDOT4 ? (clef_int_dot)lo->caps->amd_dot
                                                         : (clef_int_dot)method,
                   .subgroups = without ? CLEF_SUBGROUPS_NONE : clef__shuffles_of(lo->caps),
                   .x = clef__is_int8(o)           ? CLEF_X_BYTES
                        : method == CLEF_BY_HALVES ? CLEF_X_HALVES
                                                   : CLEF_X_FLOATS};
}

static int is_floats(const clef_panel_matmul_opts *o)
{
    return clef_dtype_block_elems((clef_dtype)o->dtype) == 1;
}

int32_t clef__int_dot_c_version(clef_int_dot dot)
{
    return dot == CLEF_INT_DOT_KHR ? 30 : 12;
}

/* A power of two of work-items for `n` parts of work. */
static uint32_t group_for(const clef_lowering *lo, uint32_t n)
{
    uint32_t wg = CLEF_PANEL_LEAST_GROUP;
    while (wg * 2 <= clef__group_most(lo->caps) && wg < n)
        wg *= 2;
    return wg;
}

/* ---- rows of x ------------------------------------------------------------------------------- */

static int is_prepared(const clef_value *n, const means *by)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return by->x != CLEF_X_FLOATS || o->norm || !clef__is_dense(n->in[PANEL_X]);
}

clef_status clef__launch_activations(clef_lowering *lo, const rows_args *args, const clef_x_launch *l,
                                     clef_error *err)
{
    return clef__launch(
        lo,
        &(clef_launch){.source = "panel_gpu_activations",
                       .kernel = "panel_gpu_activations",
                       .c_version = clef__subgroup_c_version(lo->caps, l->subgroups),
                       .defs = {{"WG", (int32_t)l->group},
                                {"NORM", l->norm},
                                {"NORM_WEIGHT_TYPE", clef__panel_dtype(l->norm_weight)},
                                {"NORM_BIAS_TYPE", clef__panel_dtype(l->norm_bias)},
                                {"QUANTISE", (int32_t)l->form},
                                {"SLICED", l->slices ? (int32_t)l->slices->rows : 0},
                                {"PAIRED", l->slices ? l->slices->paired : 0},
                                {"SUBGROUPS", (int32_t)l->subgroups},
                                {"SUBGROUP_SIZE", clef__subgroup_demand(lo->caps, l->subgroups)}},
                       .args = args,
                       .args_bytes = sizeof *args,
                       .bufs = {CLEF__SCRATCH, l->x, l->norm_weight, l->norm_bias},
                       .n_bufs = 4,
                       .groups = {l->rows},
                       .local = {l->group},
                       .scratch_bytes = l->scratch_bytes},
        err);
}

clef_status clef__lower_lane_rows(clef_lowering *lo, const clef_value *n, clef_x_form x,
                                  const clef_x_slices *slices, clef_subgroups subgroups, clef_error *err)
{
    enum { MOST_SLICED = 128 }; /* the largest clef_x_slices.rows: scratch may not shrink as rows grow */
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const rows_args args = clef__panel_rows_args(lo, n);
    const uint64_t k = args.k;
    const uint64_t row_bytes[] = {[CLEF_X_FLOATS] = 4 * k,
                                  [CLEF_X_BYTES] = k / 8 * 11,
                                  [CLEF_X_HALVES] = k / 8 * 19,
                                  [CLEF_X_ROW_HALVES] = 2 * k + 4,
                                  [CLEF_X_ROW_BF16] = 2 * k + 4};
    const int is_block_an_item = x == CLEF_X_HALVES || (x == CLEF_X_BYTES && !slices);
    const uint32_t wg = group_for(lo, args.k / (is_block_an_item ? 32 : 4)),
                   rows = slices ? clef__ceil_div(args.m, slices->rows) * slices->rows : args.m,
                   most = lo->caps->matrix ? clef__ceil_div(args.m, MOST_SLICED) * MOST_SLICED : args.m;
    return clef__launch_activations(lo, &args,
                                    &(clef_x_launch){.form = x,
                                                     .norm = (int32_t)o->norm,
                                                     .x = n->in[PANEL_X],
                                                     .norm_weight = n->in[PANEL_NORM_WEIGHT],
                                                     .norm_bias = n->in[PANEL_NORM_BIAS],
                                                     .slices = slices,
                                                     .subgroups = subgroups,
                                                     .group = wg,
                                                     .rows = rows,
                                                     .scratch_bytes = most * row_bytes[x]},
                                    err);
}

/* ---- a few rows ------------------------------------------------------------------------------ */

/* Work-items for each tile: no more teams than parts of K, no more than keep the device busy, and no part of
 * a wave. */
static uint32_t items_of_tile(const clef_lowering *lo, const clef_panel_matmul_opts *o, uint32_t tiles)
{
    const uint32_t parts = is_floats(o) ? (uint32_t)o->k / 8 : (uint32_t)o->k / 64,
                   wave = lo->caps->subgroup_size > 0 ? (uint32_t)lo->caps->subgroup_size : 1;
    const uint64_t wanted =
        (uint64_t)ITEMS_PER_UNIT * (uint64_t)(lo->caps->n_units > 0 ? lo->caps->n_units : 1);
    uint32_t wg = CLEF_PANEL_LEAST_GROUP;
    if (clef__tunable(lo, 0) && (uint32_t)clef__tunable(lo, 0) <= clef__group_most(lo->caps))
        return (uint32_t)clef__tunable(lo, 0);
    while (wg * 2 <= clef__group_most(lo->caps) && wg / PANEL_ROWS < parts &&
           (wg < wave || (uint64_t)wg * tiles < wanted))
        wg *= 2;
    return wg;
}

/* Local memory of a compute unit, as far as it is known: OpenCL says what a group may have. NVIDIA's units
 * have 96 KiB and more from compute capability 7.0 on (CUDA C++ Programming Guide, "Technical Specifications
 * per Compute Capability"). */
static uint64_t local_bytes_of_unit(const clef_caps *caps)
{
    enum { NVIDIA = 96 << 10 };
    const uint64_t of_group = caps->local_bytes;
    return caps->nv_asm && of_group < NVIDIA ? NVIDIA : of_group;
}

/* How many tiles of `wg` work-items each share a group that prepares its row. Where compute units have
 * several tiles each, as many as the device takes, unless the fullest unit would get more of them by that.
 * Elsewhere one: larger groups wait longer at barriers. */
static uint32_t sharing_of(const clef_lowering *lo, const means *by, uint32_t tiles, uint32_t wg)
{
    enum { MOST_SHARING = 4, MOST_SHARED_GROUP = 1024, LEAST_OF_UNIT = 4, MORE_PERCENT = 15 };
    const uint32_t units = lo->caps->n_units > 0 ? (uint32_t)lo->caps->n_units : 1,
                   apart = clef__ceil_div(tiles, units);
    const int32_t most =
        lo->caps->max_group < lo->caps->max_items[0] ? lo->caps->max_group : lo->caps->max_items[0];
    uint32_t sharing = apart < LEAST_OF_UNIT || by->x != CLEF_X_BYTES ? 1 : MOST_SHARING;
    while (sharing > 1 && (sharing * wg > MOST_SHARED_GROUP || sharing * wg > (uint32_t)most ||
                           clef__ceil_div(clef__ceil_div(tiles, sharing), units) * sharing * 100 >
                               apart * (100 + MORE_PERCENT)))
        sharing /= 2;
    return sharing;
}

/* Whether the groups of a product of one row, `tiles` tiles of `wg` work-items, `sharing` of them a group,
 * prepare the row themselves, each for itself: that saves a launch. There may not be too many groups for
 * that. And local memory has to hold the rows of as many groups as a compute unit should have at once:
 * otherwise it waits for memory more often than a launch takes. */
static int prepares_own(const clef_lowering *lo, const clef_value *n, const means *by, uint32_t tiles,
                        uint32_t wg, uint32_t sharing)
{
    enum { TILES_PER_UNIT = 32, MOST_SUMS = 2 /* of each work-item, with swiglu */ };
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const uint32_t units = lo->caps->n_units > 0 ? (uint32_t)lo->caps->n_units : 1,
                   of_unit = clef__ceil_div(clef__ceil_div(tiles, sharing), units),
                   of_items = clef__ceil_div(ITEMS_PER_UNIT, wg * sharing);
    const uint64_t k = (uint64_t)o->k, row = by->x == CLEF_X_BYTES ? k + k / 8 + k / 4 : 4 * k,
                   bytes = row + MOST_SUMS * sizeof(float) * wg * sharing,
                   at_once = of_unit < of_items ? of_unit : of_items;
    return is_prepared(n, by) && by->x != CLEF_X_HALVES && !clef__has_many_rows(lo, n) &&
           clef__rows(lo, n) == 1 && k % 32 == 0 && of_unit <= TILES_PER_UNIT &&
           bytes <= lo->caps->local_bytes && at_once * bytes <= local_bytes_of_unit(lo->caps);
}

/* Columns of a weight in floats that a work-item reads before it multiplies them. Many hide the time that
 * memory takes. Not so where a processor's memory is the limit, and on AMD's gfx9 without matrix units, where
 * waves of 64 have half as many registers as on those with them. */
static int32_t columns_of(const clef_caps *caps, uint32_t m)
{
    enum { WIDE_WAVE = 64 };
    const int is_shared = caps->is_gpu && caps->unified_memory,
              has_few_registers = caps->subgroup_size == WIDE_WAVE && !caps->matrix;
    return m == 1 && !is_shared && !has_few_registers ? 16 : 4;
}

/* How few rows are multiplied: tiles, of `wg` work-items each; `sharing` of them are a group; own: groups
 * prepare the row. */
typedef struct lanes {
    uint32_t tiles, wg, sharing;
    int own;
} lanes;

static lanes lanes_for(const clef_lowering *lo, const clef_value *n, const means *by)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const uint32_t tiles = clef__ceil_div((uint32_t)o->n, PANEL_ROWS), wg = items_of_tile(lo, o, tiles),
                   sharing = sharing_of(lo, by, tiles, wg);
    const int own = prepares_own(lo, n, by, tiles, wg, sharing);
    return (lanes){.tiles = tiles, .wg = wg, .sharing = own ? sharing : 1, .own = own};
}

static clef_status lower_lanes(clef_lowering *lo, const clef_value *n, const means *by, const lanes *of,
                               panel_args args, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const uint32_t wg = of->wg * of->sharing;
    const int own = of->own;
    panel_gemv_args whole = {.rows = clef__panel_rows_args(lo, n), .span = 1};
    const int32_t of_dot = clef__int_dot_c_version(by->dot),
                  of_subgroups = clef__subgroup_c_version(lo->caps, by->subgroups);
    const int32_t version = of_dot > of_subgroups ? of_dot : of_subgroups;
    clef_status status = CLEF_OK;
    for (; args.first < args.m && !status; args.first += FEW_ROWS) {
        whole.p = args;
        status = clef__launch(
            lo,
            &(clef_launch){.source = "panel_gpu_gemv",
                           .kernel = "panel_gpu_gemv",
                           .c_version = version,
                           .defs = {{"WG", (int32_t)wg},
                                    {"SHARING", (int32_t)of->sharing},
                                    {"NT", (int32_t)(args.m == 1 ? 1 : FEW_ROWS)},
                                    {"AT_ONCE", columns_of(lo->caps, args.m)},
                                    {"W_TYPE", (int32_t)o->dtype},
                                    {"QUANTISE", (int32_t)by->x},
                                    {"INT_DOT", (int32_t)by->dot},
                                    {"SUBGROUPS", (int32_t)by->subgroups},
                                    {"SUBGROUP_SIZE", clef__subgroup_demand(lo->caps, by->subgroups)},
                                    {"BIAS_TYPE", clef__panel_dtype(n->in[PANEL_BIAS])},
                                    {"ACT", (int32_t)o->act},
                                    {"RESIDUAL", n->in[PANEL_RESIDUAL] != NULL},
                                    {"OWN", own ? (int32_t)o->k : 0},
                                    {own ? "NORM" : NULL, (int32_t)o->norm}, /* NULL ends the list */
                                    {"NORM_WEIGHT_TYPE", clef__panel_dtype(n->in[PANEL_NORM_WEIGHT])},
                                    {"NORM_BIAS_TYPE", clef__panel_dtype(n->in[PANEL_NORM_BIAS])}},
                           .args = own ? (const void *)&whole : &args,
                           .args_bytes = own ? sizeof whole : sizeof args,
                           .bufs = {n, is_prepared(n, by) && !own ? CLEF__SCRATCH : n->in[PANEL_X],
                                    n->in[PANEL_PACKED], n->in[PANEL_BIAS], n->in[PANEL_RESIDUAL],
                                    n->in[PANEL_NORM_WEIGHT], n->in[PANEL_NORM_BIAS]},
                           .n_bufs = own ? 7 : 5,
                           .groups = {clef__ceil_div(of->tiles, of->sharing)},
                           .local = {wg}},
            err);
    }
    return status;
}

/* ---- many rows ------------------------------------------------------------------------------- */

enum {
    TILE_GROUP = 256, /* work-items in a group of panel_gpu_gemm */
    SMALL_TILES = 4,  /* tiles of the weight in a group: 64 rows */
    LARGE_TILES = 8,
    TILE_TOKENS = 4,     /* rows of x for each work-item: 64 in a group */
    GROUPS_PER_UNIT = 2, /* wanted before a group gets more */
};

/* Local memory of panel_gpu_gemm: 32 columns of all rows, in words of four bytes if x is in 8 bits, with
 * scales. Columns of x may be four words apart. */
static uint64_t tile_bytes(clef_x_form x, uint32_t tiles, uint32_t tokens)
{
    static const uint64_t words[] = {[CLEF_X_FLOATS] = 32, [CLEF_X_BYTES] = 8 + 4, [CLEF_X_HALVES] = 16 + 4};
    return ((uint64_t)tiles * PANEL_ROWS + (uint64_t)tokens * 16 + (tokens == TILE_TOKENS ? 4 : 0)) *
           words[x] * 4;
}

int clef__has_many_rows(const clef_lowering *lo, const clef_value *n)
{
    return clef__rows(lo, n) > FEW_ROWS ||
           ((const clef_panel_matmul_opts *)(const void *)n->attr)->batch_invariant;
}

int clef__panel_takes_tiles(const clef_lowering *lo, const clef_value *n, clef_x_form x)
{
    return clef__has_many_rows(lo, n) && clef__group_most(lo->caps) >= TILE_GROUP &&
           lo->caps->local_bytes >= tile_bytes(x, SMALL_TILES, TILE_TOKENS);
}

static clef_status lower_tiles(clef_lowering *lo, const clef_value *n, const means *by, panel_args args,
                               clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const uint32_t all = clef__ceil_div((uint32_t)clef__panel_rows(o), PANEL_ROWS),
                   units = lo->caps->n_units > 0 ? (uint32_t)lo->caps->n_units : 1;
    const uint32_t tokens = args.m <= 16 && by->x != CLEF_X_HALVES ? 1
                            : args.m <= 32                         ? 2
                                                                   : TILE_TOKENS,
                   blocks = clef__ceil_div(args.m, tokens * 16);
    const int multiplies = by->x == CLEF_X_BYTES && by->dot == CLEF_INT_DOT_PLAIN; /* which takes registers */
    uint32_t tiles = LARGE_TILES;
    /* Intel's threads have few registers for the sums of 8 tiles by 4 rows of x. */
    if (multiplies || (lo->caps->subgroup_demand && tokens == TILE_TOKENS) ||
        blocks * clef__ceil_div(all, tiles) < units * GROUPS_PER_UNIT ||
        lo->caps->local_bytes < tile_bytes(by->x, tiles, tokens))
        tiles = SMALL_TILES;
    /* With eight bits, sums take so many of NVIDIA's registers that loads of four would leave one group to a
     * unit. */
    const int fours =
        tokens == TILE_TOKENS && by->x != CLEF_X_HALVES && (by->x == CLEF_X_FLOATS || !lo->caps->nv_asm);
    return clef__launch(
        lo,
        &(clef_launch){.source = "panel_gpu_gemm",
                       .kernel = "panel_gpu_gemm",
                       .c_version = clef__int_dot_c_version(by->dot),
                       .defs = {{"TILES", (int32_t)tiles},
                                {"TOKENS", (int32_t)tokens},
                                {"FOURS", fours},
                                {"W_TYPE", (int32_t)o->dtype},
                                {"QUANTISE", (int32_t)by->x},
                                {"INT_DOT", (int32_t)by->dot},
                                {"BIAS_TYPE", clef__panel_dtype(n->in[PANEL_BIAS])},
                                {"ACT", (int32_t)o->act},
                                {"RESIDUAL", n->in[PANEL_RESIDUAL] != NULL}},
                       .args = &args,
                       .args_bytes = sizeof args,
                       .bufs = {n, is_prepared(n, by) ? CLEF__SCRATCH : n->in[PANEL_X], n->in[PANEL_PACKED],
                                n->in[PANEL_BIAS], n->in[PANEL_RESIDUAL]},
                       .n_bufs = 5,
                       .groups = {blocks, clef__ceil_div(all, tiles)},
                       .local = {TILE_GROUP}},
        err);
}

clef_status clef__lower_panel_gpu(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const means by = means_of(lo, (const void *)n->attr);
    panel_args args = clef__panel_args(lo, n);
    if (is_prepared(n, &by))
        args.x = 0;
    const int is_tiled = clef__panel_takes_tiles(lo, n, by.x);
    const lanes of = is_tiled ? (lanes){0} : lanes_for(lo, n, &by);
    const clef_status status = is_prepared(n, &by) && !of.own
                                   ? clef__lower_lane_rows(lo, n, by.x, NULL, by.subgroups, err)
                                   : CLEF_OK;
    if (status)
        return status;
    return is_tiled ? lower_tiles(lo, n, &by, args, err) : lower_lanes(lo, n, &by, &of, args, err);
}

clef_subgroups clef__shuffles_of(const clef_caps *caps)
{
    return clef__has_shuffles(caps) ? clef__subgroups_of(caps) : CLEF_SUBGROUPS_NONE;
}
