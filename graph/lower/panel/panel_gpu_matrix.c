/* Lowering of panel_matmul to units that multiply small matrices (cl/instruction/matrix.h). Rows of x are
 * multiplied in 8 bits or halves with a weight in blocks, or in halves or bf16 with a weight of the same
 * type, or in bf16 with a weight in blocks that is decoded to bf16. Up to 16 rows share a group, whose units
 * divide the columns (cl/panel/panel_gpu_few_mma.cl); more are multiplied in tiles
 * (cl/panel/panel_gpu_gemm_mma.cl). caps->matrix says which vendor's unit it is. */
#include "graph/lower/panel/panel_gpu_matrix.h"
#include "graph/lower/variant.h"

#include <string.h>

enum {
    FEW_ROWS = 16,
    MOST_STEP = 2,   /* of a step of panel_gpu_gemm_mma */
    FEW_TILES = 2,   /* tiles of the weight in a group of panel_gpu_few_mma */
    SMALL_TILES = 4, /* in one of panel_gpu_gemm_mma */
    LARGE_TILES = 16,
    FEW_TOKENS = 2, /* rows of x in a group, in sixteens */
    MANY_TOKENS = 4,
    WIDE_TOKENS = 8,
    FEW_BLOCK_TILES = 8,    /* of a weight in blocks for fewer than WIDE_TOKENS */
    PARTS_PER_UNIT = 5,     /* parts of the result, of 32 x 128, wanted before a group has WIDE_TOKENS */
    NEW_PARTS_PER_UNIT = 3, /* the same on units with copies in bulk */
    GROUPS_PER_UNIT = 2,    /* wanted before a group of panel_gpu_few_mma gets more */
    HALF_PARTS = 4,         /* most parts of the columns where rows of x are in halves or bf16 */
    FULL_RATE_WARPS = 64,   /* of a compute unit that adds in f32 at full rate */
    LEAST_STEPS = 2,        /* blocks of 32 columns of a part */
    LEAST_TILES = 2         /* of a group whose units divide columns */
};

/* A vendor's unit, and how its kernels divide their work. */
typedef struct unit {
    uint32_t lanes;          /* work-items */
    uint32_t rows;           /* of the weight */
    uint32_t tokens;         /* most rows of x: its registers hold their sums */
    uint32_t block_tokens;   /* the same with a weight in blocks, whose scales take registers, too */
    uint32_t decoded_tokens; /* the same with blocks that are decoded to bf16 */
    uint32_t plain_tokens;   /* the same in plain C: fewer compile faster */
    uint32_t fragment;       /* rows of x of a fragment */
    uint32_t words;          /* from one row of x to the next in local memory */
    uint32_t few_units;      /* of a group of panel_gpu_few_mma */
    uint32_t few_tiles;      /* most tiles of such a group */
    uint32_t few_blocks;     /* blocks of 32 columns that such a unit reads at once */
    uint32_t split_tiles;    /* tiles of a group whose units divide the columns (split()) */
    uint32_t split_parts;    /* most parts of the columns */
} unit;

static const unit units[] = {[CLEF_MATRIX_NONE] = {.lanes = 1,
                                                   .rows = 1,
                                                   .tokens = 1,
                                                   .block_tokens = 1,
                                                   .decoded_tokens = 1,
                                                   .plain_tokens = 1,
                                                   .fragment = 1,
                                                   .words = 1,
                                                   .few_units = 1,
                                                   .few_tiles = 1,
                                                   .few_blocks = 1,
                                                   .split_tiles = 1,
                                                   .split_parts = 1},
                             [CLEF_MATRIX_MMA] = {.lanes = 32,
                                                  .rows = 32,
                                                  .tokens = 64,
                                                  .block_tokens = 64,
                                                  .decoded_tokens = 128,
                                                  .plain_tokens = 16,
                                                  .fragment = 8,
                                                  .words = 8,
                                                  .few_units = 8,
                                                  .few_tiles = 4,
                                                  .few_blocks = 4,
                                                  .split_tiles = 4,
                                                  .split_parts = 8},
                             [CLEF_MATRIX_WMMA] = {.lanes = 32,
                                                   .rows = 32,
                                                   .tokens = 32,
                                                   .block_tokens = 16,
                                                   .decoded_tokens = 64,
                                                   .plain_tokens = 32,
                                                   .fragment = 16,
                                                   .words = 12,
                                                   .few_units = 8,
                                                   .few_tiles = 2,
                                                   .few_blocks = 1,
                                                   .split_tiles = 4,
                                                   .split_parts = 4},
                             [CLEF_MATRIX_DPAS] = {.lanes = 8,
                                                   .rows = 32,
                                                   .tokens = 8,
                                                   .block_tokens = 8,
                                                   .decoded_tokens = 8,
                                                   .plain_tokens = 8,
                                                   .fragment = 8,
                                                   .words = 8,
                                                   .few_units = 16,
                                                   .few_tiles = 2,
                                                   .few_blocks = 1,
                                                   .split_tiles = 4,
                                                   .split_parts = 1},
                             [CLEF_MATRIX_MFMA] = {.lanes = 64,
                                                   .rows = 32,
                                                   .tokens = 64,
                                                   .block_tokens = 64,
                                                   .decoded_tokens = 64,
                                                   .plain_tokens = 32,
                                                   .fragment = 16,
                                                   .words = 12,
                                                   .few_units = 4,
                                                   .few_tiles = 2,
                                                   .few_blocks = 4,
                                                   .split_tiles = 4,
                                                   .split_parts = 4}};

static const unit *unit_of(const clef_caps *caps)
{
    return &units[caps->matrix];
}

int32_t clef__matrix_lanes(const clef_caps *caps)
{
    return (int32_t)unit_of(caps)->lanes;
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

uint32_t clef__unit_group_items(const clef_caps *caps, const clef__unit_group *g)
{
    return unit_of(caps)->lanes * (g->tiles * PANEL_ROWS / unit_of(caps)->rows) *
           (g->tokens * 16 / g->unit_tokens) * g->parts;
}

clef__candidate clef__unit_candidate(const clef_caps *caps, const clef__unit_group *g, uint64_t local_bytes)
{
    const uint32_t items = clef__unit_group_items(caps, g);
    return (clef__candidate){.items = items,
                             .local_bytes = local_bytes + clef__plain_unit_bytes(caps, items)};
}

/* Slices of 32 bytes in 32 columns of x. */
static uint32_t slices_of(clef_x_form x)
{
    return x == CLEF_X_BYTES ? 1 : 2;
}

uint64_t clef__plain_unit_bytes(const clef_caps *caps, uint32_t group)
{
    return caps->matrix_plain ? (uint64_t)group * 64 : 0;
}

/* Local memory of panel_gpu_gemm_mma: two steps of x, with scales and sums; or what the parts exchange, the
 * sums of 16 rows of the weight of each unit. */
static uint64_t local_bytes(const clef_caps *caps, clef_x_form x, const clef__unit_group *s)
{
    const uint64_t words = slices_of(x) * unit_of(caps)->words + 2;
    const uint64_t steps = 2 * words * 4 * s->step * s->parts * s->tokens * 16,
                   sums = (uint64_t)clef__unit_group_items(caps, s) / s->parts * (s->parts - 1) /
                          unit_of(caps)->lanes * 16 * s->unit_tokens * 4;
    return steps > sums ? steps : sums;
}

static clef__candidate candidate_of(const clef_caps *caps, clef_x_form x, const clef__unit_group *s)
{
    return clef__unit_candidate(caps, s, local_bytes(caps, x, s));
}

static int can_lower(const clef_caps *caps, clef_x_form x, const clef__unit_group *s)
{
    const clef__candidate c = candidate_of(caps, x, s);
    return clef__candidate_fits(caps, &c);
}

/* The columns of a product: blocks of 32, and whether a weight in blocks is decoded for it. */
typedef struct columns {
    uint32_t blocks;
    int decodes;
} columns;

/* A group takes two blocks of 32 columns at a time where local memory has room for that. */
static clef__unit_group shape_of(const clef_caps *caps, clef_x_form x, columns cols, uint32_t tiles,
                                 uint32_t tokens)
{
    const int by_blocks = x == CLEF_X_BYTES || x == CLEF_X_HALVES; /* scales take registers, too */
    const uint32_t most = caps->matrix_plain                      ? unit_of(caps)->plain_tokens
                          : by_blocks                             ? unit_of(caps)->block_tokens
                          : cols.decodes || tokens == WIDE_TOKENS ? unit_of(caps)->decoded_tokens
                                                                  : unit_of(caps)->tokens;
    clef__unit_group s = {.tiles = tiles,
                          .parts = 1,
                          .tokens = tokens,
                          .unit_tokens = most < tokens * 16 ? most : tokens * 16,
                          .step = caps->matrix == CLEF_MATRIX_MMA && !by_blocks && tokens < WIDE_TOKENS &&
                                          cols.blocks % MOST_STEP == 0
                                      ? MOST_STEP
                                      : 1};
    if (caps->local_bytes < candidate_of(caps, x, &s).local_bytes)
        s.step = 1;
    return s;
}

int clef__matrix_multiplies(const clef_caps *caps, int32_t type)
{
    const clef_x_form x = type == CLEF_MATRIX_BYTES ? CLEF_X_BYTES : CLEF_X_HALVES; /* others need no more */
    const clef__unit_group least = shape_of(caps, x, (columns){0}, SMALL_TILES, MANY_TOKENS);
    return caps->matrix && (caps->matrix_types & type) && can_lower(caps, x, &least) &&
           (caps->matrix != CLEF_MATRIX_DPAS || clef__has_matrix_local(caps));
}

static int has_blocks(const clef_panel_matmul_opts *o)
{
    return clef_dtype_block_elems((clef_dtype)o->dtype) > 1;
}

/* The form in which the unit multiplies the node's x; CLEF_X_FLOATS: it cannot. */
static clef_x_form form_of(const clef_caps *caps, const clef_panel_matmul_opts *o)
{
    if (clef__is_int8(o))
        return clef__matrix_multiplies(caps, CLEF_MATRIX_BYTES) ? CLEF_X_BYTES : CLEF_X_FLOATS;
    if (o->activations == CLEF_PANEL_HALF && o->dtype == CLEF_F16 &&
        clef__matrix_multiplies(caps, CLEF_MATRIX_HALVES))
        return CLEF_X_ROW_HALVES;
    if (o->activations == CLEF_PANEL_HALF && has_blocks(o) &&
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

int clef__matrix_decodes(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return clef__rows(lo, n) > FEW_ROWS && o->activations == CLEF_PANEL_BY_DEVICE && !o->batch_invariant &&
           has_blocks(o) && clef__matrix_multiplies(lo->caps, CLEF_MATRIX_BF16);
}

clef_status clef__launch_units(clef_lowering *lo, const clef_value *n, clef_x_form x, const clef_launch *own,
                               clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_caps *caps = lo->caps;
    const clef_def common[] = {{"W_TYPE", (int32_t)o->dtype},
                               {"QUANTISE", (int32_t)x},
                               {"MATRIX", (int32_t)caps->matrix},
                               {"MATRIX_PLAIN", caps->matrix_plain},
                               {"SUBGROUPS", clef__matrix_subgroups(caps)},
                               {"SUBGROUP_SIZE", clef__matrix_subgroup_size(caps)},
                               {"BIAS_TYPE", clef__panel_dtype(n->in[PANEL_BIAS])},
                               {"ACT", (int32_t)o->act},
                               {"RESIDUAL", n->in[PANEL_RESIDUAL] != NULL}};
    panel_args args = clef__panel_args(lo, n);
    clef_launch l = *own;
    int32_t n_own = 0;
    args.x = 0; /* its rows are in scratch memory */
    while (l.defs[n_own].name)
        n_own++;
    memcpy(&l.defs[n_own], common, sizeof common);
    l.c_version = clef__matrix_c_version(caps);
    l.args = &args;
    l.args_bytes = sizeof args;
    l.n_bufs = 5;
    l.bufs[0] = n;
    l.bufs[1] = CLEF__SCRATCH;
    l.bufs[2] = n->in[PANEL_PACKED];
    l.bufs[3] = n->in[PANEL_BIAS];
    l.bufs[4] = n->in[PANEL_RESIDUAL];
    return clef__launch(lo, &l, err);
}

/* ---- up to 16 rows --------------------------------------------------------------------------- */

static uint32_t few_tokens(const clef_caps *caps, uint32_t m)
{
    const uint32_t fragment = unit_of(caps)->fragment;
    return clef__ceil_div(m, fragment) * fragment;
}

static uint64_t few_bytes(const clef_caps *caps, uint32_t tokens, uint32_t tiles)
{
    const uint32_t n = unit_of(caps)->few_units;
    return (uint64_t)n * tokens * tiles * PANEL_ROWS * 4 +
           clef__plain_unit_bytes(caps, n * unit_of(caps)->lanes);
}

static int is_few(const clef_lowering *lo, const clef_value *n)
{
    const clef_caps *caps = lo->caps;
    const uint32_t m = (uint32_t)clef__rows(lo, n);
    return m <= FEW_ROWS && !((const clef_panel_matmul_opts *)(const void *)n->attr)->batch_invariant &&
           clef__group_most(caps) >= unit_of(caps)->few_units * unit_of(caps)->lanes &&
           caps->local_bytes >= few_bytes(caps, few_tokens(caps, m), FEW_TILES);
}

static clef_status lower_few(clef_lowering *lo, const clef_value *n, clef_x_form x, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_caps *caps = lo->caps;
    const panel_args args = clef__panel_args(lo, n);
    const uint32_t all = clef__ceil_div((uint32_t)clef__panel_rows(o), PANEL_ROWS), blocks = args.k / 32,
                   tokens = few_tokens(caps, args.m), n_units = unit_of(caps)->few_units;
    const uint32_t more = unit_of(caps)->few_tiles;
    const int has_more = all / more >= clef__units(caps) * GROUPS_PER_UNIT &&
                         caps->local_bytes >= few_bytes(caps, tokens, more);
    const uint32_t tiles = has_more ? more : FEW_TILES;
    uint32_t chunk = unit_of(caps)->few_blocks;
    while (blocks % chunk)
        chunk /= 2;
    return clef__launch_units(lo, n, x,
                              &(clef_launch){.source = "panel_gpu_few_mma",
                                             .kernel = "panel_gpu_few_mma",
                                             .defs = {{"UNITS", (int32_t)n_units},
                                                      {"TILES", (int32_t)tiles},
                                                      {"TOKENS", (int32_t)tokens},
                                                      {"CHUNK", (int32_t)chunk}},
                                             .groups = {clef__ceil_div(all, tiles)},
                                             .local = {n_units * unit_of(caps)->lanes}},
                              err);
}

/* ---- more rows ------------------------------------------------------------------------------- */

static columns columns_of(const clef_panel_matmul_opts *o, clef_x_form x)
{
    return (columns){.blocks = (uint32_t)o->k / 32, .decodes = x == CLEF_X_ROW_BF16 && has_blocks(o)};
}

/* Rows of x in a group, in sixteens. On NVIDIA's units a weight is decoded for as many rows of x as a unit
 * has registers for, where that leaves parts of the result for all units. */
static uint32_t tokens_of(const clef_caps *caps, const clef_panel_matmul_opts *o, clef_x_form x, uint32_t m)
{
    const uint32_t parts = clef__ceil_div(m, WIDE_TOKENS * 16) *
                           clef__ceil_div((uint32_t)clef__panel_rows(o), unit_of(caps)->rows);
    const clef__unit_group wide = shape_of(caps, x, columns_of(o, x), SMALL_TILES, WIDE_TOKENS);
    const uint32_t wanted = caps->nv_bulk_copies ? NEW_PARTS_PER_UNIT : PARTS_PER_UNIT;
    if (m <= FEW_TOKENS * 16)
        return FEW_TOKENS;
    return caps->matrix == CLEF_MATRIX_MMA && x >= CLEF_X_ROW_HALVES && m > MANY_TOKENS * 16 &&
                   parts >= clef__units(caps) * wanted && can_lower(caps, x, &wide)
               ? WIDE_TOKENS
               : MANY_TOKENS;
}

/* 1 where products of bf16 have the rate of the others of NVIDIA's unit. Sums in f32 run at half the rate on
 * NVIDIA's cards for games and workstations (CUDA C++ Programming Guide, the table of arithmetic throughput;
 * white papers of GA102 and Ada). Their compute units hold 48 warps, those of the others 64 (the same guide,
 * "Technical Specifications per Compute Capability"). */
static int has_full_rate(const clef_caps *caps)
{
    return caps->nv_warps == 0 || caps->nv_warps >= FULL_RATE_WARPS;
}

/* For units with copies in bulk, ptxas gives groups of MANY_TOKENS too few registers to read ahead. */
int clef__matrix_decoding_pays(const clef_lowering *lo, const clef_value *n)
{
    const clef_caps *caps = lo->caps;
    if (caps->matrix != CLEF_MATRIX_MMA)
        return 1;
    return has_full_rate(caps) &&
           (!caps->nv_bulk_copies || tokens_of(caps, (const void *)n->attr, CLEF_X_ROW_BF16,
                                               (uint32_t)clef__rows(lo, n)) == WIDE_TOKENS);
}

/* A group of NVIDIA's units that read blocks has few tiles, so that a processor holds several groups. */
static uint32_t most_tiles(const clef_caps *caps, clef_x_form x, columns cols, uint32_t tokens)
{
    const int reads_blocks = cols.decodes || x <= CLEF_X_HALVES;
    return reads_blocks && caps->matrix == CLEF_MATRIX_MMA && tokens < WIDE_TOKENS ? FEW_BLOCK_TILES
                                                                                   : LARGE_TILES;
}

/* The tiles of a group: as many as a group can have, but fewer where the compute units finish sooner by a
 * tenth, since none is left with a group more than the others. A group takes as long as it has tiles; a tile
 * more where waiting for x takes long: for many tokens, or where NVIDIA's units decode a weight. Units with
 * copies in bulk outrun the second cache, from which each group reads its x, so there it is three tiles. */
static clef__unit_group tiles_of(const clef_caps *caps, const clef_panel_matmul_opts *o, clef_x_form x,
                                 uint32_t tokens, uint32_t m)
{
    const columns cols = columns_of(o, x);
    const uint32_t token_blocks = clef__ceil_div(m, tokens * 16),
                   all = clef__ceil_div((uint32_t)clef__panel_rows(o), PANEL_ROWS);
    const int waits = tokens == WIDE_TOKENS || (caps->matrix == CLEF_MATRIX_MMA && cols.decodes);
    clef__candidate candidates[CLEF__MOST_CANDIDATES];
    clef__unit_group shapes[CLEF__MOST_CANDIDATES];
    int32_t n = 0;
    for (uint32_t tiles = most_tiles(caps, x, cols, tokens); tiles >= SMALL_TILES; tiles /= 2, n++) {
        shapes[n] = shape_of(caps, x, cols, tiles, tokens);
        candidates[n] = candidate_of(caps, x, &shapes[n]);
        candidates[n].n_groups = token_blocks * clef__ceil_div(all, tiles);
        candidates[n].time = tokens == WIDE_TOKENS && caps->nv_bulk_copies ? tiles + 3
                             : waits                                       ? tiles + 1
                                                                           : tiles;
    }
    const int32_t best = clef__fastest(caps, candidates, n, clef__units(caps));
    return shapes[best < 0 ? n - 1 : best];
}

/* Units that a compute unit should have at once, so that some multiply while others wait. NVIDIA's have
 * registers for 12 to 16, and for eight with WIDE_TOKENS. */
static uint32_t wanted_units(const clef_caps *caps, clef_x_form x, uint32_t tokens)
{
    switch (caps->matrix) {
    case CLEF_MATRIX_MMA:
        return x <= CLEF_X_HALVES || tokens == MANY_TOKENS ? 15 : tokens == FEW_TOKENS ? 10 : 8;
    case CLEF_MATRIX_WMMA:
        return 16; /* two compute units, of two SIMDs each */
    default:
        return tokens == FEW_TOKENS ? 8 : 4;
    }
}

/* Divides the columns among units of a group where the result has too few parts for the device's compute
 * units. How often depends on the number of tokens, so a batch-invariant product is not divided. */
static clef__unit_group split(const clef_caps *caps, const clef_panel_matmul_opts *o, clef_x_form x,
                              clef__unit_group whole, uint32_t m)
{
    const uint32_t blocks = (uint32_t)o->k / 32, n_units = clef__units(caps),
                   all = clef__ceil_div((uint32_t)clef__panel_rows(o), PANEL_ROWS);
    const uint32_t of_result = clef__ceil_div(all * PANEL_ROWS, unit_of(caps)->rows) *
                               clef__ceil_div(m, whole.tokens * 16) * (whole.tokens * 16 / whole.unit_tokens);
    const int by_blocks = x <= CLEF_X_HALVES, few = whole.tokens == FEW_TOKENS,
              keeps = caps->nv_bulk_copies && !few;
    const uint32_t wanted = by_blocks ? unit_of(caps)->split_parts
                            : few     ? HALF_PARTS
                                      : 2,
                   most = wanted < unit_of(caps)->split_parts ? wanted : unit_of(caps)->split_parts;
    clef__unit_group s = whole;
    if (o->batch_invariant)
        return whole;
    while (s.parts < most && of_result * s.parts * 2 <= n_units * wanted_units(caps, x, s.tokens) &&
           blocks % (s.parts * 2) == 0 && blocks >= s.parts * 2 * LEAST_STEPS)
        s.parts *= 2;
    if (s.parts == 1)
        return whole;
    if (!keeps)
        s.tiles = unit_of(caps)->split_tiles;
    if (blocks % (s.step * s.parts) || !can_lower(caps, x, &s))
        s.step = 1;
    const uint32_t groups = clef__ceil_div(m, s.tokens * 16) * clef__ceil_div(all, s.tiles);
    if (!by_blocks && few && caps->matrix != CLEF_MATRIX_WMMA && groups * 2 <= n_units)
        s.tiles /= 2;
    while (s.parts > 1 && !can_lower(caps, x, &s))
        if (s.tiles > LEAST_TILES)
            s.tiles /= 2;
        else
            s.parts /= 2;
    return s.parts > 1 ? s : whole;
}

static clef_status lower_many(clef_lowering *lo, const clef_value *n, clef_x_form x, uint32_t tokens,
                              clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const clef_caps *caps = lo->caps;
    const panel_args args = clef__panel_args(lo, n);
    const uint32_t all = clef__ceil_div((uint32_t)clef__panel_rows(o), PANEL_ROWS),
                   blocks = clef__ceil_div(args.m, tokens * 16);
    const clef__unit_group s = split(caps, o, x, tiles_of(caps, o, x, tokens, args.m), args.m);
    return clef__launch_units(lo, n, x,
                              &(clef_launch){.source = "panel_gpu_gemm_mma",
                                             .kernel = "panel_gpu_gemm_mma",
                                             .defs = {{"TILES", (int32_t)s.tiles},
                                                      {"TOKENS", (int32_t)tokens},
                                                      {"UNIT_ROWS", (int32_t)unit_of(caps)->rows},
                                                      {"UNIT_TOKENS", (int32_t)s.unit_tokens},
                                                      {"PARTS", (int32_t)s.parts},
                                                      {"STEP", (int32_t)s.step}},
                                             .groups = {blocks, clef__ceil_div(all, s.tiles)},
                                             .local = {clef__unit_group_items(caps, &s)}},
                              err);
}

clef_status clef__lower_panel_matrix(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_caps *caps = lo->caps;
    const clef_x_form x =
        lo->serving->method == CLEF_BY_BF16 ? CLEF_X_ROW_BF16 : form_of(caps, (const void *)n->attr);
    const uint32_t m = (uint32_t)clef__rows(lo, n);
    const int is_local = clef__is_matrix_local(caps, x);
    const uint32_t tokens =
        is_local ? clef__matrix_local_tokens(caps, m) : tokens_of(caps, (const void *)n->attr, x, m);
    const int few = x != CLEF_X_ROW_BF16 || !has_blocks((const void *)n->attr) ? is_few(lo, n) : 0;
    const clef_x_slices slices = {
        .rows = few ? few_tokens(caps, m) : tokens * 16,
        .paired = x == CLEF_X_BYTES && (caps->matrix == CLEF_MATRIX_MMA || caps->matrix == CLEF_MATRIX_MFMA)};
    const clef_status status = clef__lower_lane_rows(lo, n, x, &slices, clef__shuffles_of(caps), err);
    if (status || few)
        return status ? status : lower_few(lo, n, x, err);
    return is_local ? clef__lower_matrix_local(lo, n, x, err) : lower_many(lo, n, x, tokens, err);
}
