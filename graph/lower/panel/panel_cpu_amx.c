/* The variant of panel_matmul for many rows on x86 AMX (cl/panel/panel_cpu_gemm_amx.cl). A few rows are
 * lowered as in the VNNI variant. */
#include "graph/lower/panel/panel.h"
#include "graph/lower/tile.h"
#include "graph/lower/variant.h"

enum {
    LEAST_ROWS = 24,
    TILE_TOKENS = 16,
    TILE_COLUMNS = 32
}; /* LEAST_ROWS: with fewer rows, decoding a weight costs more than AMX saves */

static int has_amx(const clef_caps *caps)
{
    return caps->x86_amx && caps->x86_vnni && caps->local_bytes >= (AMX_PAIRS * AMX_TOKENS + AMX_DEPTH) * 128;
}

static int32_t planes_of(const clef_panel_matmul_opts *o)
{
    return o->activations != CLEF_PANEL_F32 ? 1 : 3;
}

/* Whether one buffer can hold the prepared rows, for the symbols' bounds: a plan's scratch serves all
 * lengths. */
static int has_room(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *x = n->in[PANEL_X];
    const uint64_t floats = (uint64_t)clef__bytes(x, NULL) / sizeof(float) + TILE_TOKENS * clef__n(lo, x, 0);
    return lo->caps->max_alloc_bytes == 0 ||
           floats * 2 * (uint64_t)planes_of((const void *)n->attr) <= lo->caps->max_alloc_bytes;
}

/* AMX multiplies x with 24 bits of precision, or with 8 if x may be rounded. It does not support x rounded in
 * blocks. */
static int takes_bf16(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return o->activations != CLEF_PANEL_INT8 && has_room(lo, n);
}

/* The number of pairs of tiles for a work-group with which the last group ends earliest. */
static uint32_t pairs_a_group(uint32_t pairs, uint32_t blocks, uint32_t units)
{
    uint32_t best = 1, least = UINT32_MAX;
    for (uint32_t p = 1; p <= AMX_PAIRS; p++) {
        const uint32_t rounds = clef__ceil_div(clef__ceil_div(pairs, p) * blocks, units) * p;
        if (rounds <= least) {
            least = rounds;
            best = p;
        }
    }
    return best;
}

/* Bytes of the prepared rows. They are at least what a few rows need with the other kernel, since a plan asks
 * for the largest number of rows only. */
static uint64_t scratch_of(const clef_lowering *lo, const clef_panel_matmul_opts *o, const rows_args *rows)
{
    const uint64_t tokens = (uint64_t)clef__ceil_div(rows->m, TILE_TOKENS) * TILE_TOKENS;
    const uint64_t bytes =
        tokens * clef__ceil_div(rows->k, TILE_COLUMNS) * TILE_COLUMNS * 2 * (uint64_t)planes_of(o);
    const uint64_t few = clef__tile_scratch(lo->caps, LEAST_ROWS, rows->k);
    return bytes > few ? bytes : few;
}

static clef_status lower_rows(clef_lowering *lo, const clef_value *n, const rows_args *rows, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "panel_cpu_activations_bf16",
            .kernel = "panel_cpu_activations_bf16",
            .defs = {{"PLANES", planes_of(o)},
                     {"NORM_WEIGHT_TYPE", clef__panel_type_of(n, PANEL_NORM_WEIGHT)},
                     {"NORM_BIAS_TYPE", clef__panel_type_of(n, PANEL_NORM_BIAS)}},
            .args = rows,
            .args_bytes = sizeof *rows,
            .bufs = {CLEF__SCRATCH, n->in[PANEL_X], n->in[PANEL_NORM_WEIGHT], n->in[PANEL_NORM_BIAS]},
            .n_bufs = 4,
            .groups = {rows->m},
            .scratch_bytes = scratch_of(lo, o, rows)},
        err);
}

static clef_status amx_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const rows_args rows = clef__panel_rows_args(lo, n);
    panel_args args = clef__panel_args(lo, n);
    if (args.m < LEAST_ROWS && !o->batch_invariant)
        return clef__lower_panel_cpu(lo, n, err);
    const uint32_t tiles = clef__ceil_div(args.n, PANEL_ROWS),
                   units = lo->caps->n_units > 0 ? (uint32_t)lo->caps->n_units : 1;
    const uint32_t pairs =
        o->act == CLEF_PANEL_SWIGLU ? tiles : clef__ceil_div(tiles, PANEL_PAD / PANEL_ROWS);
    const uint32_t blocks = clef__ceil_div(args.m, AMX_TOKENS); /* blocks of tokens of nearly equal size */
    args.x = 0;
    args.blocks = clef__ceil_div(clef__ceil_div(args.m, blocks), TILE_TOKENS) * TILE_TOKENS;
    args.pairs = pairs_a_group(pairs, blocks, units);
    const clef_status status = lower_rows(lo, n, &rows, err);
    if (status)
        return status;
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "panel_cpu_gemm_amx",
            .kernel = "panel_cpu_gemm_amx",
            .defs = {{"PLANES", planes_of(o)},
                     {"W_TYPE", (int32_t)o->dtype},
                     {"BIAS_TYPE", clef__panel_type_of(n, PANEL_BIAS)},
                     {"ACT", (int32_t)o->act},
                     {clef_dtype_block_elems((clef_dtype)o->dtype) > 1 ? "DOT" : NULL, lo->serving->method}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {n, CLEF__SCRATCH, n->in[PANEL_PACKED], n->in[PANEL_BIAS], n->in[PANEL_RESIDUAL]},
            .n_bufs = 5,
            .groups = {clef__ceil_div(args.m, args.blocks), clef__ceil_div(pairs, args.pairs)}},
        err);
}

const clef_variant clef__panel_matmul_amx = {
    .name = "amx",
    .device_text = "a CPU with AMX (bf16) and AVX-512 VNNI whose compiler takes them as assembly",
    .shape_text = "all but 8-bit activations",
    .runs_on = has_amx,
    .fits = takes_bf16,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}},
    .method = CLEF_DOT_VNNI,
    .lower = amx_lower};
