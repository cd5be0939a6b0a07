/* matmul by cl/gemv.cl: up to four rows of a against b, which is read once. */
#include "graph/lower/variant.h"

enum {
    MAX_ROWS = 4,
    CPU_COLUMNS_NK = 4, /* columns of a group, each with an accumulator for each row */
    CPU_COLUMNS_KN = 64,
    GPU_LANES = 64
};

static int gemv_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    return !o->transpose_a && n->in[0]->dtype == CLEF_F32 && clef__matmul_args(lo, n).m <= MAX_ROWS;
}

static clef_status gemv_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *a = n->in[0], *b = n->in[1], *bias = n->in[2];
    const matmul_args args = clef__matmul_args(lo, n);
    /* [N, K]: the work-items of a group share the dot products of a few columns. [K, N]: each has its own
     * column. */
    const uint32_t wg = clef__fit_local(lo, GPU_LANES);
    const uint32_t columns = !o->transpose_b ? (wg == 1 ? CPU_COLUMNS_KN : wg) : wg == 1 ? CPU_COLUMNS_NK : 1;
    return clef__launch(lo,
                        &(clef_launch){.source = "gemv",
                                       .kernel = o->transpose_b ? "gemv_nk" : "gemv_kn",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"COLUMNS", (int32_t)columns},
                                                {"ROWS", args.m == 1 ? 1 : MAX_ROWS},
                                                {"W_TYPE", (int32_t)b->dtype},
                                                {"BIAS_TYPE", bias ? (int32_t)bias->dtype : DTYPE_NONE},
                                                {"TRANSPOSED", o->transpose_b != 0}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, a, b, bias},
                                       .n_bufs = 4,
                                       .groups = {clef__ceil_div(args.n, columns), args.n1, args.n0},
                                       .local = {wg}},
                        err);
}

const clef_variant clef__matmul_gemv = {
    .name = "gemv", .shape_text = "up to 4 rows, not transposed", .fits = gemv_fits, .lower = gemv_lower};
