/* matmul for any number of rows, on every device: by cl/gemm_panel.cl on CPUs, by cl/gemm.cl elsewhere. */
#include "graph/lower/tile.h"
#include "graph/lower/variant.h"

enum {
    GPU_LANES = 64, /* with a column each */
    GPU_ROWS = 8,
    LEAST_ROWS_NK = 256, /* for which b is packed by a launch of its own */
    LEAST_ROWS_KN = 1024,
    MAX_PACKED_BYTES = 64 << 20
};

static int32_t dtype_of(const clef_value *v)
{
    return v ? (int32_t)v->dtype : DTYPE_NONE;
}

static const clef_matmul_opts *options(const clef_value *n)
{
    return (const void *)n->attr;
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
                     {"A_TYPE", (int32_t)n->in[0]->dtype},
                     {"W_TYPE", (int32_t)n->in[1]->dtype},
                     {"BIAS_TYPE", dtype_of(n->in[2])},
                     {"TRANSPOSED", options(n)->transpose_b != 0},
                     {"TRANSPOSED_A", options(n)->transpose_a != 0}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {n, n->in[0], n->in[1], n->in[2]},
            .n_bufs = 4,
            .groups = {clef__ceil_div(args.m, args.rows) * clef__ceil_div(args.n, wg), args.n1, args.n0},
            .local = {wg}},
        err);
}

/* Packing b once pays if many groups would do so, sooner if it must be transposed. */
static int packs_first(const clef_value *n, const matmul_args *p)
{
    const uint64_t bytes = (uint64_t)clef__ceil_div(p->n, PANEL_PAD) * PANEL_PAD * p->k * sizeof(float);
    return p->n0 * p->n1 == 1 && bytes <= MAX_PACKED_BYTES &&
           p->m >= (options(n)->transpose_b ? LEAST_ROWS_NK : LEAST_ROWS_KN);
}

static clef_status lower_pack(clef_lowering *lo, const clef_value *n, const matmul_args *args,
                              clef_error *err)
{
    const uint32_t pairs = clef__ceil_div(args->n, PANEL_PAD);
    return clef__launch(
        lo,
        &(clef_launch){.source = "gemm_pack",
                       .kernel = "gemm_pack",
                       .defs = {{"NT", PANEL_ROWS},
                                {"VECTORS", 1},
                                {"W_TYPE", (int32_t)n->in[1]->dtype},
                                {"TRANSPOSED", options(n)->transpose_b != 0}},
                       .args = args,
                       .args_bytes = sizeof *args,
                       .bufs = {CLEF__SCRATCH, n->in[1]},
                       .n_bufs = 2,
                       .groups = {pairs, clef__ceil_div(args->k, CLEF__TILE_DEPTH)},
                       .scratch_bytes = (uint64_t)pairs * PANEL_PAD * args->k * sizeof(float)},
        err);
}

static clef_status lower_tiles(clef_lowering *lo, const clef_value *n, matmul_args args, clef_error *err)
{
    const uint32_t pairs = clef__ceil_div(args.n, PANEL_PAD);
    const int packed = packs_first(n, &args);
    const clef_tile tile = clef__tile_of_gemm(lo->caps, &args, packed);
    const clef_status status = packed ? lower_pack(lo, n, &args, err) : CLEF_OK;
    if (status)
        return status;
    args.blocks = tile.blocks;
    args.pairs = tile.pairs;
    return clef__launch(lo,
                        &(clef_launch){.source = "gemm_panel",
                                       .kernel = "gemm_panel",
                                       .defs = {{"NT", tile.rows},
                                                {"VECTORS", tile.vectors},
                                                {"A_TYPE", (int32_t)n->in[0]->dtype},
                                                {"W_TYPE", packed ? CLEF_F32 : (int32_t)n->in[1]->dtype},
                                                {"BIAS_TYPE", dtype_of(n->in[2])},
                                                {"TRANSPOSED", packed ? 0 : options(n)->transpose_b != 0},
                                                {"TRANSPOSED_A", options(n)->transpose_a != 0},
                                                {"PACKED", packed}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], packed ? CLEF__SCRATCH : n->in[1], n->in[2]},
                                       .n_bufs = 4,
                                       .groups = {clef__ceil_div(pairs, tile.pairs) *
                                                      clef__ceil_div(tile.all_blocks, tile.blocks),
                                                  args.n1, args.n0}},
                        err);
}

static clef_status gemm_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const matmul_args args = clef__matmul_args(lo, n);
    return lo->caps->is_cpu ? lower_tiles(lo, n, args, err) : lower_columns(lo, n, args, err);
}

const clef_variant clef__matmul_gemm = {.name = "gemm", .lower = gemm_lower};
