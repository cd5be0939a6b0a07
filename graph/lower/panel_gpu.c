/* Lowering of panel_matmul on GPUs: rows of x are prepared where they need it (norm, 8 bits), then a few are
 * multiplied tile by tile of the weight (cl/panel/panel_gpu_gemv.cl), many in tiles of both. And the
 * variants: by what bytes multiply, and how a group's items reach one another.
 */
#include "graph/lower/panel_gpu.h"
#include "graph/lower/variant.h"

enum {
    FEW_ROWS = 4,     /* that one group of panel_gpu_gemv takes */
    LEAST_GROUP = 32, /* work-items: two teams of 16 */
    MOST_GROUP = 256,
    ITEMS_PER_UNIT = 1024 /* wanted of a launch, so that reads of memory wait for one another */
};

/* What of the device a variant uses. */
typedef struct means {
    clef_int_dot dot;
    clef_subgroups subgroups;
    clef_x_form x;
} means;

static int is_floats(const clef_panel_matmul_opts *o)
{
    return clef_dtype_block_elems((clef_dtype)o->dtype) == 1;
}

int32_t clef__int_dot_c_version(clef_int_dot dot)
{
    return dot == CLEF_INT_DOT_KHR ? 30 : 12;
}

uint32_t clef__group_most(const clef_caps *caps)
{
    const int32_t most = caps->max_group < caps->max_items[0] ? caps->max_group : caps->max_items[0];
    return most < MOST_GROUP ? (uint32_t)most : MOST_GROUP;
}

/* A power of two for `n` parts of work. */
static uint32_t group_for(const clef_lowering *lo, uint32_t n)
{
    uint32_t wg = LEAST_GROUP;
    while (wg * 2 <= clef__group_most(lo->caps) && wg < n)
        wg *= 2;
    return wg;
}

/* ---- rows of x
 * ---------------------------------------------------------------------------------------------------------------------
 */

static int is_prepared(const clef_value *n, const means *by)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return by->x != CLEF_X_FLOATS || o->norm || !clef__is_dense(n->in[PANEL_X]);
}

clef_status clef__lower_lane_rows(clef_lowering *lo, const clef_value *n, clef_x_form x,
                                  clef_subgroups subgroups, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const rows_args args = clef__panel_rows_args(lo, n);
    const uint64_t k = args.k;
    const uint64_t row_bytes[] = {[CLEF_X_FLOATS] = 4 * k,
                                  [CLEF_X_BYTES] = k / 8 * 11,
                                  [CLEF_X_HALVES] = k / 8 * 19,
                                  [CLEF_X_ROW_HALVES] = 2 * k + 4,
                                  [CLEF_X_ROW_BF16] = 2 * k + 4};
    const int by_blocks = x == CLEF_X_BYTES || x == CLEF_X_HALVES;
    const uint32_t wg = group_for(lo, args.k / (by_blocks ? 32 : 4));
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "panel_gpu_activations",
            .kernel = "panel_gpu_activations",
            .c_version = clef__subgroup_c_version(lo->caps, subgroups),
            .defs = {{"WG", (int32_t)wg},
                     {"NORM", o->norm},
                     {"NORM_WEIGHT_TYPE", clef__panel_dtype(n->in[PANEL_NORM_WEIGHT])},
                     {"NORM_BIAS_TYPE", clef__panel_dtype(n->in[PANEL_NORM_BIAS])},
                     {"QUANTISE", (int32_t)x},
                     {"SUBGROUPS", (int32_t)subgroups},
                     {"SUBGROUP_SIZE", clef__subgroup_demand(lo->caps, subgroups)}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {CLEF__SCRATCH, n->in[PANEL_X], n->in[PANEL_NORM_WEIGHT], n->in[PANEL_NORM_BIAS]},
            .n_bufs = 4,
            .groups = {args.m},
            .local = {wg},
            .scratch_bytes = args.m * row_bytes[x]},
        err);
}

/* ---- a few rows
 * --------------------------------------------------------------------------------------------------------------------
 */

/* Work-items for each tile: no more teams than parts of K, and no more than keep the device busy. */
static uint32_t lanes_of(const clef_lowering *lo, const clef_panel_matmul_opts *o, uint32_t tiles)
{
    const uint32_t parts = is_floats(o) ? (uint32_t)o->k / 8 : (uint32_t)o->k / 32;
    const uint64_t wanted =
        (uint64_t)ITEMS_PER_UNIT * (uint64_t)(lo->caps->n_units > 0 ? lo->caps->n_units : 1);
    uint32_t wg = LEAST_GROUP;
    if (clef__tunable(lo, 0) && (uint32_t)clef__tunable(lo, 0) <= clef__group_most(lo->caps))
        return (uint32_t)clef__tunable(lo, 0);
    while (wg * 2 <= clef__group_most(lo->caps) && wg / PANEL_ROWS < parts && (uint64_t)wg * tiles < wanted)
        wg *= 2;
    return wg;
}

static clef_status lower_lanes(clef_lowering *lo, const clef_value *n, const means *by, panel_args args,
                               clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const uint32_t tiles = clef__ceil_div(args.n, PANEL_ROWS), wg = lanes_of(lo, o, tiles);
    const int32_t of_dot = clef__int_dot_c_version(by->dot),
                  of_subgroups = clef__subgroup_c_version(lo->caps, by->subgroups);
    const int32_t version = of_dot > of_subgroups ? of_dot : of_subgroups;
    clef_status status = CLEF_OK;
    for (; args.first < args.m && !status; args.first += FEW_ROWS)
        status = clef__launch(
            lo,
            &(clef_launch){.source = "panel_gpu_gemv",
                           .kernel = "panel_gpu_gemv",
                           .c_version = version,
                           .defs = {{"WG", (int32_t)wg},
                                    {"NT", (int32_t)(args.m == 1 ? 1 : FEW_ROWS)},
                                    {"W_TYPE", o->dtype},
                                    {"QUANTISE", (int32_t)by->x},
                                    {"INT_DOT", (int32_t)by->dot},
                                    {"SUBGROUPS", (int32_t)by->subgroups},
                                    {"SUBGROUP_SIZE", clef__subgroup_demand(lo->caps, by->subgroups)},
                                    {"BIAS_TYPE", clef__panel_dtype(n->in[PANEL_BIAS])},
                                    {"ACT", o->act},
                                    {"RESIDUAL", n->in[PANEL_RESIDUAL] != NULL}},
                           .args = &args,
                           .args_bytes = sizeof args,
                           .bufs = {n, is_prepared(n, by) ? CLEF__SCRATCH : n->in[PANEL_X],
                                    n->in[PANEL_PACKED], n->in[PANEL_BIAS], n->in[PANEL_RESIDUAL]},
                           .n_bufs = 5,
                           .groups = {tiles},
                           .local = {wg}},
            err);
    return status;
}

/* ---- many rows
 * -------------------------------------------------------------------------------------------------------------------
 */

enum {
    TILE_GROUP = 256, /* items of a group of panel_gpu_gemm */
    SMALL_TILES = 4,  /* tiles of the weight a group: 64 rows */
    LARGE_TILES = 8,
    TILE_TOKENS = 4,     /* rows of x for an item: 64 a group */
    GROUPS_PER_UNIT = 2, /* wanted before a group takes more */
};

/* Local memory of panel_gpu_gemm: 32 columns of all rows, in words of four bytes where x is in 8 bits, with
 * scales. */
static uint64_t tile_bytes(clef_x_form x, uint32_t tiles, uint32_t tokens)
{
    static const uint64_t words[] = {[CLEF_X_FLOATS] = 32, [CLEF_X_BYTES] = 8 + 4, [CLEF_X_HALVES] = 16 + 4};
    return ((uint64_t)tiles * PANEL_ROWS + (uint64_t)tokens * 16) * words[x] * 4;
}

int clef__has_many_rows(const clef_lowering *lo, const clef_value *n)
{
    return clef__rows(lo, n) > FEW_ROWS ||
           ((const clef_panel_matmul_opts *)(const void *)n->attr)->batch_invariant;
}

static int takes_tiles(const clef_lowering *lo, const clef_value *n, clef_x_form x)
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
    if (multiplies || blocks * clef__ceil_div(all, tiles) < units * GROUPS_PER_UNIT ||
        lo->caps->local_bytes < tile_bytes(by->x, tiles, tokens))
        tiles = SMALL_TILES;
    return clef__launch(
        lo,
        &(clef_launch){.source = "panel_gpu_gemm",
                       .kernel = "panel_gpu_gemm",
                       .c_version = clef__int_dot_c_version(by->dot),
                       .defs = {{"TILES", (int32_t)tiles},
                                {"TOKENS", (int32_t)tokens},
                                {"W_TYPE", o->dtype},
                                {"QUANTISE", (int32_t)by->x},
                                {"INT_DOT", (int32_t)by->dot},
                                {"BIAS_TYPE", clef__panel_dtype(n->in[PANEL_BIAS])},
                                {"ACT", o->act},
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

static clef_status lower(clef_lowering *lo, const clef_value *n, means by, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    if (o->quantise)
        by.x = CLEF_X_BYTES;
    panel_args args = clef__panel_args(lo, n);
    if (is_prepared(n, &by))
        args.x = 0;
    const clef_status status =
        is_prepared(n, &by) ? clef__lower_lane_rows(lo, n, by.x, by.subgroups, err) : CLEF_OK;
    if (status)
        return status;
    return takes_tiles(lo, n, by.x) ? lower_tiles(lo, n, &by, args, err) : lower_lanes(lo, n, &by, args, err);
}

/* ---- variants
 * ----------------------------------------------------------------------------------------------------------------------
 */

#define TUNABLES                                                                                             \
    {                                                                                                        \
        {                                                                                                    \
            "items",                                                                                         \
            {                                                                                                \
                32, 64, 128, 256                                                                             \
            }                                                                                                \
        }                                                                                                    \
    }

static int has_groups(const clef_caps *caps)
{
    return clef__group_most(caps) >= LEAST_GROUP;
}

static int is_quantised(const clef_lowering *lo, const clef_value *n)
{
    (void)lo;
    return ((const clef_panel_matmul_opts *)(const void *)n->attr)->quantise != 0;
}

/* On a CPU with subgroups or dot products these kernels run, but not before they were measured. */
static int is_no_cpu(const clef_lowering *lo, const clef_value *n)
{
    (void)n;
    return !lo->caps->is_cpu;
}

static int has_int_dot(const clef_caps *caps)
{
    return has_groups(caps) && caps->int_dot;
}

static int has_dp4a(const clef_caps *caps)
{
    return has_groups(caps) && caps->nv_asm;
}

static int has_sdot4(const clef_caps *caps)
{
    return has_groups(caps) && caps->amd_dot;
}

static int has_arm_dot(const clef_caps *caps)
{
    return has_groups(caps) && caps->arm_dot;
}

static int has_subgroups(const clef_caps *caps)
{
    return has_groups(caps) && clef__has_shuffles(caps);
}

int clef__has_byte_products(const clef_caps *caps)
{
    return clef__matrix_multiplies(caps, CLEF_MATRIX_BYTES) || has_int_dot(caps) || has_dp4a(caps) ||
           has_sdot4(caps) || has_arm_dot(caps);
}

clef_subgroups clef__shuffles_of(const clef_caps *caps)
{
    return clef__has_shuffles(caps) ? clef__subgroups_of(caps) : CLEF_SUBGROUPS_NONE;
}

static int is_for_groups(const clef_caps *caps)
{
    return has_groups(caps) && !caps->is_cpu;
}

static clef_status dot_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return lower(lo, n, (means){CLEF_INT_DOT_KHR, clef__shuffles_of(lo->caps), CLEF_X_FLOATS}, err);
}

static clef_status dp4a_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return lower(lo, n, (means){CLEF_INT_DOT_PTX, clef__shuffles_of(lo->caps), CLEF_X_FLOATS}, err);
}

static clef_status sdot4_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return lower(lo, n, (means){(clef_int_dot)lo->caps->amd_dot, clef__shuffles_of(lo->caps), CLEF_X_FLOATS},
                 err);
}

static clef_status arm_dot_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return lower(lo, n, (means){CLEF_INT_DOT_ARM, clef__shuffles_of(lo->caps), CLEF_X_FLOATS}, err);
}

static clef_status subgroup_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return lower(lo, n, (means){CLEF_INT_DOT_PLAIN, clef__shuffles_of(lo->caps), CLEF_X_FLOATS}, err);
}

static clef_status groups_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return lower(lo, n, (means){CLEF_INT_DOT_PLAIN, CLEF_SUBGROUPS_NONE, CLEF_X_FLOATS}, err);
}

static int has_fp16(const clef_caps *caps)
{
    return has_groups(caps) && caps->fp16;
}

/* A few rows wait for memory: halves gain nothing there. */
static int takes_halves(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return o->half && !is_floats(o) && takes_tiles(lo, n, CLEF_X_HALVES);
}

static clef_status half_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return lower(lo, n, (means){CLEF_INT_DOT_PLAIN, CLEF_SUBGROUPS_NONE, CLEF_X_HALVES}, err);
}

const clef_variant clef__panel_matmul_dot = {.name = "dot",
                                             .needs = "cl_khr_integer_dot_product",
                                             .takes = "8-bit activations",
                                             .device = has_int_dot,
                                             .fits = is_quantised,
                                             .pays = is_no_cpu,
                                             .tunables = TUNABLES,
                                             .lower = dot_lower};
const clef_variant clef__panel_matmul_dp4a = {.name = "dp4a",
                                              .needs = "a compiler that takes PTX, and dp4a",
                                              .takes = "8-bit activations",
                                              .device = has_dp4a,
                                              .fits = is_quantised,
                                              .tunables = TUNABLES,
                                              .lower = dp4a_lower};
const clef_variant clef__panel_matmul_sdot4 = {.name = "sdot4",
                                               .needs = "AMD's built-in sudot4 or sdot4",
                                               .takes = "8-bit activations",
                                               .device = has_sdot4,
                                               .fits = is_quantised,
                                               .tunables = TUNABLES,
                                               .lower = sdot4_lower};
const clef_variant clef__panel_matmul_arm_dot = {.name = "arm_dot",
                                                 .needs = "cl_arm_integer_dot_product_accumulate_int8",
                                                 .takes = "8-bit activations",
                                                 .device = has_arm_dot,
                                                 .fits = is_quantised,
                                                 .pays = is_no_cpu,
                                                 .tunables = TUNABLES,
                                                 .lower = arm_dot_lower};
const clef_variant clef__panel_matmul_half = {.name = "half",
                                              .needs = "cl_khr_fp16",
                                              .takes = "more than 4 rows of half activations",
                                              .device = has_fp16,
                                              .fits = takes_halves,
                                              .pays = is_no_cpu,
                                              .lower = half_lower};
const clef_variant clef__panel_matmul_subgroup = {
    .name = "subgroup",
    .needs = "subgroups with shuffles (OpenCL's, Intel's, or by PTX)",
    .device = has_subgroups,
    .pays = is_no_cpu,
    .tunables = TUNABLES,
    .lower = subgroup_lower};
const clef_variant clef__panel_matmul_groups = {.name = "groups",
                                                .needs = "a device that is no CPU, with groups of 32",
                                                .device = is_for_groups,
                                                .tunables = TUNABLES,
                                                .lower = groups_lower};
