/* matmul by cl/gemm.cl: any number of rows. Fits everything. */
#include "graph/variant.h"

enum {
    COLUMNS = 32,        /* of a CPU's group: two vectors of 16 */
    CPU_TILE_ROWS = 8,   /* rows that are in registers at a time */
    CPU_MAX_ROWS = 256,  /* rows of a group: what the packing of b's panel is shared by */
    GROUPS_PER_UNIT = 4, /* wanted, so that the compute units end together */
    GPU_LANES = 64,      /* a column each */
    GPU_ROWS = 8
};

/* As many rows a group as leave every compute unit some groups. */
static uint32_t cpu_rows(const clef_lowering *lo, const matmul_args *args)
{
    const uint64_t panels = (uint64_t)clef__ceil_div(args->n, COLUMNS) * args->n0 * args->n1;
    const uint64_t wanted = (uint64_t)GROUPS_PER_UNIT * (uint64_t)(lo->caps->n_units > 0 ? lo->caps->n_units : 1);
    uint32_t rows = CPU_MAX_ROWS;
    while (rows > CPU_TILE_ROWS && panels * clef__ceil_div(args->m, rows) < wanted)
        rows /= 2;
    return rows;
}

static clef_status gemm_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *a = n->in[0], *b = n->in[1], *bias = n->in[2];
    matmul_args args = clef__matmul_args(lo, n);
    const uint32_t wg = clef__fit_local(lo, GPU_LANES), columns = wg == 1 ? COLUMNS : wg;
    args.rows = wg == 1 ? cpu_rows(lo, &args) : GPU_ROWS;
    return clef__launch(lo,
                        &(clef_launch){.source = "gemm",
                                       .kernel = wg == 1 ? "gemm_panel" : "gemm_columns",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"W_TYPE", (int32_t)b->dtype},
                                                {"BIAS_TYPE", bias ? (int32_t)bias->dtype : DTYPE_NONE},
                                                {"TRANSPOSED", o->transpose_b != 0}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, a, b, bias},
                                       .n_bufs = 4,
                                       .groups = {clef__ceil_div(args.m, args.rows) * clef__ceil_div(args.n, columns), args.n1, args.n0},
                                       .local = {wg}},
                        err);
}

const clef_variant clef__matmul_gemm = {.name = "gemm", .lower = gemm_lower};
