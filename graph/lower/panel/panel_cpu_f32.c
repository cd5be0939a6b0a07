/* Products of f32 rows with panels, for more rows than a gemv computes: the rows are packed, then multiplied
 * tile by tile. */
#include "graph/lower/panel/panel.h"
#include "graph/lower/tile.h"
#include "graph/lower/variant.h"

/* The columns that a group adds at a time: as many as a step of a block format has, or so few that a tile's
 * panels and its block of x fit the nearest cache. */
static int32_t depth_of(const clef_panel_matmul_opts *o, const clef_tile *tile)
{
    const int is_blocks = clef_dtype_block_elems((clef_dtype)o->dtype) > 1;
    return is_blocks ? CLEF__TILE_DEPTH : CLEF__TILE_DEPTH / tile->vectors;
}

static clef_status lower_pack(clef_lowering *lo, const clef_value *n, const rows_args *rows,
                              const clef_tile *tile, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "panel_cpu_activations_f32",
            .kernel = "panel_cpu_activations_f32",
            .defs = {{"NT", tile->rows},
                     {"VECTORS", tile->vectors},
                     {"DEPTH", depth_of(o, tile)},
                     {"NORM_WEIGHT_TYPE", clef__panel_type_of(n, PANEL_NORM_WEIGHT)},
                     {"NORM_BIAS_TYPE", clef__panel_type_of(n, PANEL_NORM_BIAS)}},
            .args = rows,
            .args_bytes = sizeof *rows,
            .bufs = {CLEF__SCRATCH, n->in[PANEL_X], n->in[PANEL_NORM_WEIGHT], n->in[PANEL_NORM_BIAS]},
            .n_bufs = 4,
            .groups = {tile->all_blocks},
            .scratch_bytes = clef__tile_scratch(lo->caps, rows->m, rows->k)},
        err);
}

clef_status clef__lower_panel_cpu_f32(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const rows_args rows = clef__panel_rows_args(lo, n);
    panel_args args = clef__panel_args(lo, n);
    const uint32_t tiles = clef__ceil_div(args.n, PANEL_ROWS);
    const uint32_t pairs =
        o->act == CLEF_PANEL_SWIGLU ? tiles : clef__ceil_div(tiles, PANEL_PAD / PANEL_ROWS);
    const clef_tile tile = clef__tile_of(lo->caps, args.m, pairs, 1);
    args.x = 0;
    args.blocks = tile.blocks;
    args.pairs = tile.pairs;
    const clef_status status = lower_pack(lo, n, &rows, &tile, err);
    if (status)
        return status;
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "panel_cpu_gemm_f32",
            .kernel = "panel_cpu_gemm_f32",
            .defs = {{"NT", tile.rows},
                     {"VECTORS", tile.vectors},
                     {"DEPTH", depth_of(o, &tile)},
                     {"W_TYPE", (int32_t)o->dtype},
                     {"BIAS_TYPE", clef__panel_type_of(n, PANEL_BIAS)},
                     {"ACT", (int32_t)o->act},
                     {clef_dtype_block_elems((clef_dtype)o->dtype) > 1 ? "DOT" : NULL, lo->serving->method}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {n, CLEF__SCRATCH, n->in[PANEL_PACKED], n->in[PANEL_BIAS], n->in[PANEL_RESIDUAL]},
            .n_bufs = 5,
            .groups = {clef__ceil_div(pairs, tile.pairs), clef__ceil_div(tile.all_blocks, tile.blocks)}},
        err);
}
