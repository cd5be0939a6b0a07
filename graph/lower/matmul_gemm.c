/* matmul for any number of rows, on every device: by cl/gemm_panel.cl on CPUs, by cl/gemm.cl elsewhere. */
#include "graph/lower/tile.h"
#include "graph/lower/variant.h"

enum {
    GPU_LANES = 64, /* with a column each */
    GPU_ROWS = 8
};

static int32_t dtype_of(const clef_value *v)
{
    return v ? (int32_t)v->dtype : DTYPE_NONE;
}

static clef_status lower_columns(clef_lowering *lo, const clef_value *n, matmul_args args, clef_error *err)
{
    const uint32_t wg = clef__fit_local(lo, GPU_LANES);
    args.rows = GPU_ROWS;
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "gemm",
            .kernel = "gemm_columns",
            .defs = {{"WG", (int32_t)wg},
                     {"W_TYPE", (int32_t)n->in[1]->dtype},
                     {"BIAS_TYPE", dtype_of(n->in[2])},
                     {"TRANSPOSED", ((const clef_matmul_opts *)(const void *)n->attr)->transpose_b != 0}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {n, n->in[0], n->in[1], n->in[2]},
            .n_bufs = 4,
            .groups = {clef__ceil_div(args.m, args.rows) * clef__ceil_div(args.n, wg), args.n1, args.n0},
            .local = {wg}},
        err);
}

/* a's rows are packed once, for all columns. */
static clef_status lower_panels(clef_lowering *lo, const clef_value *n, matmul_args args, clef_error *err)
{
    const uint32_t pairs = clef__ceil_div(args.n, PANEL_PAD), batches = args.n0 * args.n1;
    const clef_tile tile = clef__tile_of(lo->caps, args.m, pairs, batches);
    args.blocks = tile.blocks;
    args.pairs = tile.pairs;
    const clef_status status =
        clef__launch(lo,
                     &(clef_launch){.source = "gemm_rows",
                                    .kernel = "gemm_rows",
                                    .defs = {{"NT", tile.rows}, {"VECTORS", tile.vectors}},
                                    .args = &args,
                                    .args_bytes = sizeof args,
                                    .bufs = {CLEF__SCRATCH, n->in[0]},
                                    .n_bufs = 2,
                                    .groups = {tile.all_blocks, args.n1, args.n0},
                                    .scratch_bytes = batches * clef__tile_scratch(lo->caps, args.m, args.k)},
                     err);
    if (status)
        return status;
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "gemm_panel",
            .kernel = "gemm_panel",
            .defs = {{"NT", tile.rows},
                     {"VECTORS", tile.vectors},
                     {"W_TYPE", (int32_t)n->in[1]->dtype},
                     {"BIAS_TYPE", dtype_of(n->in[2])},
                     {"TRANSPOSED", ((const clef_matmul_opts *)(const void *)n->attr)->transpose_b != 0}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {n, CLEF__SCRATCH, n->in[1], n->in[2]},
            .n_bufs = 4,
            .groups = {clef__ceil_div(pairs, tile.pairs) * clef__ceil_div(tile.all_blocks, tile.blocks),
                       args.n1, args.n0}},
        err);
}

static clef_status gemm_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const matmul_args args = clef__matmul_args(lo, n);
    return lo->caps->is_cpu ? lower_panels(lo, n, args, err) : lower_columns(lo, n, args, err);
}

const clef_variant clef__matmul_gemm = {.name = "gemm", .lower = gemm_lower};
