/* Lowering of panel_matmul to Intel's units for small matrices with a weight in halves or bf16, or in blocks
 * that are decoded to bf16, for more than a few rows (cl/panel/panel_gpu_gemm_mma_local.cl). */
#include "graph/lower/panel/panel_gpu_matrix.h"

enum {
    UNIT_ROWS = 32,  /* of the weight, of a unit */
    MOST_TOKENS = 8, /* rows of x in a group, in sixteens */
    LEAST_TOKENS = 2,
    MOST_TILES = 16, /* tiles of the weight in a group */
    LEAST_TILES = 4,
    ENGINES = 16,   /* compute units that share local memory: vector engines of a core */
    REGISTERS = 256 /* of a thread, which needs 128 for 32 rows of sums of 32 tokens */
};

/* A group of few rows of x has more units with fewer each, since each copies a part of the weight. */
static clef__unit_group group_of(uint32_t tiles, uint32_t tokens)
{
    return (clef__unit_group){.tiles = tiles,
                              .tokens = tokens,
                              .unit_tokens = tokens == LEAST_TOKENS ? 16 : 32,
                              .parts = 1,
                              .step = 1};
}

static clef__candidate candidate_of(const clef_caps *caps, const clef__unit_group *g)
{
    const uint64_t steps = (uint64_t)(g->tiles + g->tokens) * 16 * 64 * 2; /* two of 32 columns in 16 bits */
    return clef__unit_candidate(caps, g, steps);
}

static int can_lower(const clef_caps *caps, clef__unit_group g)
{
    const clef__candidate c = candidate_of(caps, &g);
    return clef__candidate_fits(caps, &c);
}

int clef__is_matrix_local(const clef_caps *caps, clef_x_form x)
{
    return caps->matrix == CLEF_MATRIX_DPAS && (x == CLEF_X_ROW_HALVES || x == CLEF_X_ROW_BF16);
}

int clef__has_matrix_local(const clef_caps *caps)
{
    return can_lower(caps, group_of(LEAST_TILES, LEAST_TOKENS));
}

uint32_t clef__matrix_local_tokens(const clef_caps *caps, uint32_t m)
{
    uint32_t tokens = LEAST_TOKENS;
    while (tokens * 16 < m && tokens < MOST_TOKENS && can_lower(caps, group_of(LEAST_TILES, tokens * 2)))
        tokens *= 2;
    return tokens;
}

/* The tiles of a group: as many as it can have, but fewer where the core that has most to do is done sooner.
 * What bounds a group is local memory: what its units read there for their products, and what the group
 * stores. */
static clef__unit_group shape_of(const clef_caps *caps, uint32_t m, uint32_t tiles)
{
    const uint32_t tokens = clef__matrix_local_tokens(caps, m), blocks = clef__ceil_div(m, tokens * 16),
                   cores = caps->n_units > ENGINES ? (uint32_t)caps->n_units / ENGINES : 1;
    clef__candidate candidates[CLEF__MOST_CANDIDATES];
    clef__unit_group shapes[CLEF__MOST_CANDIDATES];
    int32_t n = 0;
    for (uint32_t t = MOST_TILES; t >= LEAST_TILES; t /= 2, n++) {
        shapes[n] = group_of(t, tokens);
        candidates[n] = candidate_of(caps, &shapes[n]);
        candidates[n].n_groups = blocks * clef__ceil_div(tiles, t);
        candidates[n].time = t * tokens + t + tokens;
    }
    const int32_t best = clef__fastest(caps, candidates, n, cores);
    return shapes[best < 0 ? n - 1 : best];
}

clef_status clef__lower_matrix_local(clef_lowering *lo, const clef_value *n, clef_x_form x, clef_error *err)
{
    const clef_caps *caps = lo->caps;
    const uint32_t m = (uint32_t)clef__rows(lo, n),
                   tiles = clef__ceil_div((uint32_t)clef__panel_rows((const void *)n->attr), PANEL_ROWS);
    const clef__unit_group s = shape_of(caps, m, tiles);
    return clef__launch_units(
        lo, n, x,
        &(clef_launch){.source = "panel_gpu_gemm_mma_local",
                       .kernel = "panel_gpu_gemm_mma_local",
                       .registers = caps->matrix_plain ? 0 : REGISTERS,
                       .defs = {{"TILES", (int32_t)s.tiles},
                                {"TOKENS", (int32_t)s.tokens},
                                {"UNIT_ROWS", UNIT_ROWS},
                                {"UNIT_TOKENS", (int32_t)s.unit_tokens}},
                       .groups = {clef__ceil_div(m, s.tokens * 16), clef__ceil_div(tiles, s.tiles)},
                       .local = {clef__unit_group_items(caps, &s)}},
        err);
}
