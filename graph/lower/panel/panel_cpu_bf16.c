/* The variant of panel_matmul for many rows and weights in bf16 on Arm (cl/panel/panel_cpu_gemm_bf16.cl). A
 * few rows wait for memory, so they are multiplied in f32. */
#include "graph/lower/panel/panel.h"
#include "graph/lower/tile.h"
#include "graph/lower/variant.h"

enum {
    FEW_ROWS = 4,
    TOKENS = 4, /* of a group: 16 sums, two columns of 16 rows and four tokens in 32 registers */
    COLUMNS = 8 /* that the kernel takes at a time */
};

/* x is rounded like the weight where the choose pass allowed it. */
static int takes_bf16(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    (void)lo;
    return o->activations == CLEF_PANEL_HALF && o->dtype == CLEF_BF16 && o->k % COLUMNS == 0;
}

/* Bytes of the rounded rows, and at least what a few rows need with the other kernels, since a plan asks for
 * the largest number of rows only. */
static uint64_t scratch_of(const clef_lowering *lo, const rows_args *rows)
{
    const uint64_t bytes = (uint64_t)rows->m * rows->k * 2,
                   few = clef__tile_scratch(lo->caps, FEW_ROWS, rows->k);
    return bytes > few ? bytes : few;
}

static clef_status lower_bf16(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const rows_args rows = clef__panel_rows_args(lo, n);
    panel_args args = clef__panel_args(lo, n);
    if (args.m <= FEW_ROWS && !o->batch_invariant)
        return clef__lower_panel_cpu(lo, n, err);
    clef_launch launch = {
        .source = "panel_cpu_gemm_bf16",
        .kernel = "panel_cpu_rows_bf16",
        .defs = {{"NT", TOKENS},
                 {"BIAS_TYPE", clef__panel_type_of(n, PANEL_BIAS)},
                 {"ACT", (int32_t)o->act},
                 {"NORM_WEIGHT_TYPE", clef__panel_type_of(n, PANEL_NORM_WEIGHT)},
                 {"NORM_BIAS_TYPE", clef__panel_type_of(n, PANEL_NORM_BIAS)}},
        .args = &rows,
        .args_bytes = sizeof rows,
        .bufs = {CLEF__SCRATCH, n->in[PANEL_X], n->in[PANEL_NORM_WEIGHT], n->in[PANEL_NORM_BIAS]},
        .n_bufs = 4,
        .groups = {rows.m},
        .scratch_bytes = scratch_of(lo, &rows)};
    const clef_status status = clef__launch(lo, &launch, err);
    if (status)
        return status;
    const clef_value *bufs[] = {n, CLEF__SCRATCH, n->in[PANEL_PACKED], n->in[PANEL_BIAS],
                                n->in[PANEL_RESIDUAL]};
    args.x = 0;
    launch.kernel = "panel_cpu_gemm_bf16";
    launch.args = &args;
    launch.args_bytes = sizeof args;
    launch.n_bufs = sizeof bufs / sizeof *bufs;
    for (uint32_t i = 0; i < launch.n_bufs; i++)
        launch.bufs[i] = bufs[i];
    launch.groups[0] = clef__ceil_div(args.m, TOKENS);
    launch.groups[1] = clef__ceil_div(args.n, PANEL_ROWS);
    launch.scratch_bytes = 0;
    return clef__launch(lo, &launch, err);
}

const clef_variant clef__panel_matmul_bfdot = {
    .name = "bfdot",
    .device_text = "an Arm CPU with bfdot (FEAT_BF16) whose compiler takes it as assembly",
    .shape_text = "bf16 weights whose activations may be rounded to bf16",
    .cap = CLEF_CAP(arm64_bf16),
    .fits = takes_bf16,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}},
    .method = CLEF_DOT_PORTABLE,
    .lower = lower_bf16};
