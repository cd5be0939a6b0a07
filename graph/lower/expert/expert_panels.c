/* Lowering of panel_experts. Few pairs (token, choice) multiply one by one; where experts have more, those of
 * one expert share what is read of it. */
#include "graph/lower/expert/expert_parts.h"
#include "graph/lower/panel/panel.h"

enum {
    LEAST_ROW_BYTES = 8192,
    GROUPS_A_UNIT = 4, /* of expert_panels_few */
    MIN_SPAN = 6       /* tiles of such a group, which rounds x for itself */
};

/* Rounded up to a power of two, so that rows of similar length share a program. */
static uint32_t row_bytes(uint32_t k)
{
    uint32_t bytes = LEAST_ROW_BYTES;
    while (bytes < TOKEN_BYTES(k, 0))
        bytes *= 2;
    return bytes;
}

static clef_status lower_few(clef_lowering *lo, const clef_value *n, expert_panel_args *args, clef_error *err)
{
    const clef__panel_experts_opts *o = (const void *)n->attr;
    const uint32_t tiles = args->a.n / PANEL_ROWS,
                   units = lo->caps->n_units > 0 ? (uint32_t)lo->caps->n_units : 1,
                   fair = clef__ceil_div(tiles * args->pairs, units * GROUPS_A_UNIT);
    args->span = fair < MIN_SPAN ? MIN_SPAN : fair > tiles ? tiles : fair;
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_panels",
                                       .kernel = "expert_panels_few",
                                       .defs = {{"FEW", 1},
                                                {"ROW_BYTES", (int32_t)row_bytes(args->a.k)},
                                                {"W_TYPE", (int32_t)o->dtype},
                                                {"BIAS_TYPE", clef__panel_dtype(n->in[3])},
                                                {"DOT", lo->serving->method}},
                                       .args = args,
                                       .args_bytes = sizeof *args,
                                       .bufs = {n, n->in[0], n->in[1], n->in[2], n->in[3]},
                                       .n_bufs = 5,
                                       .groups = {clef__ceil_div(tiles, args->span), args->pairs}},
                        err);
}

/* A launch of expert_blocks.cl. */
static clef_status lower_order(clef_lowering *lo, const expert_panel_args *args, int rows,
                               const clef_value *in, uint32_t groups, uint64_t scratch_bytes, clef_error *err)
{
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_blocks",
                                       .kernel = rows ? "expert_block_rows" : "expert_blocks",
                                       .defs = {{"ROWS", rows}},
                                       .args = args,
                                       .args_bytes = sizeof *args,
                                       .bufs = {CLEF__SCRATCH, in},
                                       .n_bufs = 2,
                                       .groups = {groups},
                                       .scratch_bytes = scratch_bytes},
                        err);
}

static clef_status lower_blocks(clef_lowering *lo, const clef_value *n, expert_panel_args *args,
                                clef_error *err)
{
    const clef__panel_experts_opts *o = (const void *)n->attr;
    const uint32_t most = args->pairs / EXPERT_BLOCK + args->a.experts + 1,
                   blocks =
                       most < args->pairs ? most : args->pairs; /* an expert's last one need not be full */
    args->words = lo->serving->method == CLEF_DOT_AVX2 && clef__panel_codes_are_bytes(o->dtype);
    const uint64_t x_words = (uint64_t)blocks * EXPERT_BLOCK * TOKEN_BYTES(args->a.k, args->words) / 4;
    args->tiles = blocks / EXPERT_BLOCKS + args->a.experts + 1;
    args->order = (args_uint)x_words;
    const uint64_t words = x_words + 1 + (uint64_t)args->tiles * EXPERT_TILE_WORDS + args->a.experts + 1 +
                           (uint64_t)blocks * EXPERT_BLOCK;
    clef_status s = lower_order(lo, args, 0, n->in[2], 1, words * 4, err);
    if (!s)
        s = lower_order(lo, args, 1, n->in[0], blocks, words * 4, err);
    return s ? s
             : clef__launch(lo,
                            &(clef_launch){.source = "expert_panels",
                                           .kernel = "expert_panels",
                                           .defs = {{"FEW", 0},
                                                    {"W_TYPE", (int32_t)o->dtype},
                                                    {"BIAS_TYPE", clef__panel_dtype(n->in[3])},
                                                    {"DOT", lo->serving->method}},
                                           .args = args,
                                           .args_bytes = sizeof *args,
                                           .bufs = {n, CLEF__SCRATCH, n->in[1], n->in[3]},
                                           .n_bufs = 4,
                                           .groups = {args->a.n / PANEL_ROWS, args->tiles}},
                            err);
}

static clef_status lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef__panel_experts_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0], *ids = n->in[2];
    expert_panel_args args = {.a = {.n = (args_uint)o->n,
                                    .k = (args_uint)o->k,
                                    .experts = (args_uint)o->experts,
                                    .chosen = clef__n(lo, ids, 0),
                                    .each = x->shape.rank == 4,
                                    .x = clef__view(lo, x).offset,
                                    .ids = clef__view(lo, ids).offset,
                                    .bias = clef__view(lo, n->in[3]).offset},
                              .pairs = clef__size(lo, ids)};
    const int is_few =
        args.pairs < args.a.experts && !o->batch_invariant && row_bytes(args.a.k) <= lo->caps->local_bytes;
    return is_few ? lower_few(lo, n, &args, err) : lower_blocks(lo, n, &args, err);
}

/* ---- variants: the instructions of panel_matmul's -------------------------------------------------------
 */

const clef_variant clef__panel_experts_vnni = {
    .name = "vnni",
    .device_text = "a CPU with AVX-512 VNNI whose compiler takes it as assembly",
    .cap = CLEF_CAP(x86_vnni),
    .method = CLEF_DOT_VNNI,
    .lower = lower};
const clef_variant clef__panel_experts_avxvnni = {
    .name = "avxvnni",
    .device_text = "a CPU with AVX-VNNI but without AVX-512 VNNI, whose compiler takes it as assembly",
    .cap = CLEF_CAP(x86_avxvnni),
    .method = CLEF_DOT_AVXVNNI,
    .lower = lower};
const clef_variant clef__panel_experts_avx2 = {
    .name = "avx2",
    .device_text = "a CPU with AVX2 but without VNNI, whose compiler takes it as assembly",
    .cap = CLEF_CAP(x86_avx2),
    .method = CLEF_DOT_AVX2,
    .lower = lower};
const clef_variant clef__panel_experts_i8mm = {
    .name = "i8mm",
    .device_text = "an Arm CPU with usdot and usmmla (FEAT_I8MM) whose compiler takes them as assembly",
    .cap = CLEF_CAP(arm64_i8mm),
    .method = CLEF_DOT_I8MM,
    .lower = lower};
const clef_variant clef__panel_experts_sdot = {
    .name = "sdot",
    .device_text =
        "an Arm CPU with sdot (FEAT_DotProd) but without FEAT_I8MM, whose compiler takes it as assembly",
    .cap = CLEF_CAP(arm64_sdot),
    .method = CLEF_DOT_SDOT,
    .lower = lower};
const clef_variant clef__panel_experts_portable = {
    .name = "portable", .method = CLEF_DOT_PORTABLE, .lower = lower};
