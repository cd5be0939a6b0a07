/* Lowering of panel_matmul to units that multiply small matrices (cl/panel/matrix.h). Many rows of x are
 * multiplied in 8 bits or halves with a weight in blocks, or in halves or bf16 with a weight of the same
 * type. Each vendor's unit has its own variant (panel_gpu_variants.c), lowered by this code. */
#include "graph/lower/panel_gpu.h"

enum {
    UNIT_ROWS = 32,  /* rows of the weight for a unit */
    SMALL_TILES = 4, /* tiles of the weight in a group */
    LARGE_TILES = 8,
    FEW_TOKENS = 2, /* rows of x in a group, in sixteens */
    MANY_TOKENS = 4,
    GROUPS_PER_UNIT = 2 /* wanted before a group gets more */
};

/* By clef_matrix: work-items of a unit, and its rows of x, as many as its registers hold sums for. A plain
 * unit has fewer, which compiles faster. */
static const struct {
    uint32_t lanes, tokens, plain_tokens;
} units[] = {[CLEF_MATRIX_NONE] = {1, 1, 1},
             [CLEF_MATRIX_MMA] = {32, 32, 16},
             [CLEF_MATRIX_WMMA] = {32, 32, 32},
             [CLEF_MATRIX_DPAS] = {8, 16, 8}};

static uint32_t tokens_of(const clef_caps *caps)
{
    return caps->matrix_plain ? units[caps->matrix].plain_tokens : units[caps->matrix].tokens;
}

int32_t clef__matrix_lanes(const clef_caps *caps)
{
    return (int32_t)units[caps->matrix].lanes;
}

/* Intel's unit is a subgroup of 8. */
static int is_subgroup(const clef_caps *caps)
{
    return caps->matrix == CLEF_MATRIX_DPAS && !caps->matrix_plain;
}

int32_t clef__matrix_subgroups(const clef_caps *caps)
{
    return is_subgroup(caps) ? CLEF_SUBGROUPS_BUILTIN : CLEF_SUBGROUPS_NONE;
}

int32_t clef__matrix_subgroup_size(const clef_caps *caps)
{
    return is_subgroup(caps) ? clef__matrix_lanes(caps) : 0;
}

int32_t clef__matrix_c_version(const clef_caps *caps)
{
    return clef__subgroup_c_version(caps, (clef_subgroups)clef__matrix_subgroups(caps));
}

static uint32_t group_of(const clef_caps *caps, uint32_t tiles, uint32_t tokens)
{
    return units[caps->matrix].lanes * (tiles * PANEL_ROWS / UNIT_ROWS) * (tokens * 16 / tokens_of(caps));
}

/* Local memory of panel_gpu_gemm_mma: 32 columns of all rows, their scales, and what the work-items of a
 * plain unit exchange. */
static uint64_t local_bytes(const clef_caps *caps, clef_x_form x, uint32_t tiles, uint32_t tokens)
{
    static const uint64_t row_words[] = {
        [CLEF_X_BYTES] = 12 + 3, [CLEF_X_HALVES] = 20 + 3, [CLEF_X_ROW_HALVES] = 20, [CLEF_X_ROW_BF16] = 20};
    const uint64_t words = row_words[x], plain = caps->matrix_plain ? 64 : 0;
    return ((uint64_t)tiles + tokens) * 16 * words * 4 + group_of(caps, tiles, tokens) * plain;
}

static int can_lower(const clef_caps *caps, clef_x_form x, uint32_t tiles, uint32_t tokens)
{
    return clef__group_most(caps) >= group_of(caps, tiles, tokens) &&
           caps->local_bytes >= local_bytes(caps, x, tiles, tokens);
}

int clef__matrix_multiplies(const clef_caps *caps, int32_t type)
{
    const clef_x_form x =
        type == CLEF_MATRIX_BYTES ? CLEF_X_BYTES : CLEF_X_HALVES; /* the form that needs most local memory */
    return caps->matrix && (caps->matrix_types & type) && can_lower(caps, x, SMALL_TILES, MANY_TOKENS);
}

/* The form in which the unit multiplies the node's x; CLEF_X_FLOATS: it cannot. */
static clef_x_form form_of(const clef_caps *caps, const clef_panel_matmul_opts *o)
{
    if (clef__is_int8(o))
        return clef__matrix_multiplies(caps, CLEF_MATRIX_BYTES) ? CLEF_X_BYTES : CLEF_X_FLOATS;
    if (o->activations == CLEF_PANEL_HALF && o->dtype == CLEF_F16 &&
        clef__matrix_multiplies(caps, CLEF_MATRIX_HALVES))
        return CLEF_X_ROW_HALVES;
    if (o->activations == CLEF_PANEL_HALF && clef_dtype_block_elems((clef_dtype)o->dtype) > 1 &&
        clef__matrix_multiplies(caps, CLEF_MATRIX_HALVES))
        return CLEF_X_HALVES;
    return o->activations == CLEF_PANEL_HALF && o->dtype == CLEF_BF16 &&
                   clef__matrix_multiplies(caps, CLEF_MATRIX_BF16)
               ? CLEF_X_ROW_BF16
               : CLEF_X_FLOATS;
}

int clef__matrix_fits(const clef_lowering *lo, const clef_value *n)
{
    return clef__has_many_rows(lo, n) && form_of(lo->caps, (const void *)n->attr) != CLEF_X_FLOATS;
}

static clef_status lower_products(clef_lowering *lo, const clef_value *n, clef_x_form x, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_caps *caps = lo->caps;
    panel_args args = clef__panel_args(lo, n);
    args.x = 0;
    const uint32_t all = clef__ceil_div((uint32_t)clef__panel_rows(o), PANEL_ROWS),
                   wanted = caps->n_units > 0 ? (uint32_t)caps->n_units : 1,
                   tokens = args.m <= FEW_TOKENS * 16 ? FEW_TOKENS : MANY_TOKENS,
                   blocks = clef__ceil_div(args.m, tokens * 16);
    uint32_t tiles = LARGE_TILES;
    if (blocks * clef__ceil_div(all, tiles) < wanted * GROUPS_PER_UNIT || !can_lower(caps, x, tiles, tokens))
        tiles = SMALL_TILES;
    return clef__launch(lo,
                        &(clef_launch){.source = "panel_gpu_gemm_mma",
                                       .kernel = "panel_gpu_gemm_mma",
                                       .c_version = clef__matrix_c_version(caps),
                                       .defs = {{"TILES", (int32_t)tiles},
                                                {"TOKENS", (int32_t)tokens},
                                                {"UNIT_TOKENS", (int32_t)tokens_of(caps)},
                                                {"W_TYPE", (int32_t)o->dtype},
                                                {"QUANTISE", (int32_t)x},
                                                {"MATRIX", (int32_t)caps->matrix},
                                                {"MATRIX_PLAIN", caps->matrix_plain},
                                                {"SUBGROUPS", clef__matrix_subgroups(caps)},
                                                {"SUBGROUP_SIZE", clef__matrix_subgroup_size(caps)},
                                                {"BIAS_TYPE", clef__panel_dtype(n->in[PANEL_BIAS])},
                                                {"ACT", (int32_t)o->act},
                                                {"RESIDUAL", n->in[PANEL_RESIDUAL] != NULL}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, CLEF__SCRATCH, n->in[PANEL_PACKED], n->in[PANEL_BIAS],
                                                n->in[PANEL_RESIDUAL]},
                                       .n_bufs = 5,
                                       .groups = {blocks, clef__ceil_div(all, tiles)},
                                       .local = {group_of(caps, tiles, tokens)}},
                        err);
}

clef_status clef__lower_panel_matrix(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_x_form x = form_of(lo->caps, (const void *)n->attr);
    const clef_status status = clef__lower_lane_rows(lo, n, x, clef__shuffles_of(lo->caps), err);
    return status ? status : lower_products(lo, n, x, err);
}
