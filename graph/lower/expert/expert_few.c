/* Lowering of products of a few rows with chosen experts on GPUs, alone (expert_matmul) or together with what
 * follows them (expert_gated, expert_sum). */
#include <string.h>

#include "graph/lower/elementwise.h"
#include "graph/lower/expert/expert_parts.h"
#include "graph/lower/panel/panel.h"
#include "graph/op/expert_fused.h"

enum {
    FEW_GROUP = 128,
    LEAST_SPAN = 16,
    FEW_COLUMNS = 8,       /* of a work-item, each a load in flight */
    FEW_SMALL_COLUMNS = 4, /* where registers are few, or groups */
    ITEMS_PER_UNIT = 192,  /* work-items wanted in a launch for FEW_COLUMNS */
    MOST_CHOSEN = 64       /* experts of a token that expert_few_sum takes */
};

static const clef__expert_sum_opts *sum_opts_of(const clef_value *n)
{
    return (const void *)n->attr;
}

static int few_runs_on(const clef_caps *caps)
{
    return !caps->is_cpu && caps->max_group >= FEW_GROUP && caps->max_items[0] >= FEW_GROUP &&
           caps->local_bytes >= (int64_t)(((FEW_COLUMNS + 1) * FEW_GROUP + MOST_CHOSEN) * sizeof(float));
}

int clef__experts_need_aligned(clef_dtype dtype)
{
    return clef_dtype_block_elems(dtype) == 1 || dtype == CLEF_Q4_K || dtype == CLEF_Q5_K;
}

static int few_fits(const clef_lowering *lo, const clef_value *n)
{
    const expert_args a = clef__expert_args_of(lo, n);
    return clef__expert_attrs_of(n)->opts.transpose_b && a.k > 0 && a.k % EXPERT_CHUNK == 0 &&
           a.w % a.k == 0 && clef__expert_rows_aligned(CLEF_F32, a.x, a.k) &&
           (!clef__experts_need_aligned(n->in[1]->dtype) ||
            clef__expert_rows_aligned(n->in[1]->dtype, a.w, a.k));
}

/* Work-items that share columns of `chunks` chunks: many, unless an eighth of them would have nothing to do.
 */
static uint32_t span_of(uint32_t chunks)
{
    uint32_t span = FEW_GROUP;
    while (span > LEAST_SPAN && (uint64_t)clef__ceil_div(chunks, span) * span * 8 > (uint64_t)chunks * 9)
        span /= 2;
    return span;
}

/* Columns of a work-item of a product of n columns: many, if it has the registers, unless the device then has
 * too little to do. They depend on the experts of one token, not on the number of tokens, so that a row's
 * sums do not either. */
static uint32_t columns_of(const clef_lowering *lo, int has_registers, uint32_t n, uint32_t chosen,
                           uint32_t span)
{
    const uint64_t units = lo->caps->n_units > 0 ? (uint64_t)lo->caps->n_units : 1;
    return has_registers && (uint64_t)n / FEW_COLUMNS * chosen * span >= ITEMS_PER_UNIT * units
               ? FEW_COLUMNS
               : FEW_SMALL_COLUMNS;
}

/* By what the vendors' compilers spill: those for AMD's GPUs spill with more columns. */
static int has_registers(const clef_caps *caps)
{
    return caps->nv_asm || caps->subgroup_demand;
}

/* A launch of expert_few, without arguments and buffers. */
static clef_launch few_launch(uint32_t span, uint32_t columns, int32_t w_type, int32_t bias_type,
                              int32_t gated)
{
    return (clef_launch){.source = "expert_few",
                         .kernel = "expert_few",
                         .defs = {{"WG", FEW_GROUP},
                                  {"SPAN", (int32_t)span},
                                  {"COLUMNS", (int32_t)columns},
                                  {"W_TYPE", w_type},
                                  {"BIAS_TYPE", bias_type},
                                  {"GATED", gated}},
                         .local = {FEW_GROUP}};
}

static clef_status few_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *w = n->in[1], *ids = n->in[2], *bias = n->in[3];
    const expert_args args = clef__expert_args_of(lo, n);
    const uint32_t span = span_of(args.k / EXPERT_CHUNK),
                   columns = columns_of(lo, has_registers(lo->caps), args.n, args.chosen, span);
    clef_launch l = few_launch(span, columns, (int32_t)w->dtype, clef__panel_dtype(bias), 0);
    const clef_value *bufs[] = {n, x, w, ids, bias};
    l.args = &args;
    l.args_bytes = sizeof args;
    memcpy(l.bufs, bufs, sizeof bufs);
    l.n_bufs = 5;
    l.groups[0] = clef__ceil_div(args.n, columns * (FEW_GROUP / span));
    l.groups[1] = clef__size(lo, ids);
    return clef__launch(lo, &l, err);
}

const clef_variant clef__expert_matmul_few = {.name = "few",
                                              .device_text = "a GPU with groups of 128",
                                              .shape_text =
                                                  "transpose_b, K a multiple of 32, and aligned rows",
                                              .runs_on = few_runs_on,
                                              .fits = few_fits,
                                              .lower = few_lower};

/* ---- products that are computed by the op that reads them -------------------------------------- */

static int is_product(const clef_value *y)
{
    return y->op == CLEF_OP_expert_matmul;
}

/* 1 if y, an input of n, may be computed by n, which has y's inputs. */
static int can_fuse(const clef_lowering *lo, const clef_value *y, const clef_value *x, const clef_value *w,
                    const clef_value *ids)
{
    return is_product(y) && !y->in[3] && y->in[0] == x && y->in[1] == w && y->in[2] == ids &&
           clef__variant_of(lo, y, NULL) == &clef__expert_matmul_few && y->n_readers == 1 &&
           !clef__is_output(y);
}

/* Blocks that are not integer codes (cl/expert/expert_codes.h) take registers to decode: expert_few_sum
 * spills with them, but for NVIDIA's GPUs. */
static int sum_has_registers(const clef_caps *caps, clef_dtype dtype)
{
    return caps->nv_asm || clef__has_expert_codes(dtype) || clef_dtype_block_elems(dtype) == 1;
}

static int gated_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *gate = n->in[GATED_W_GATE], *up = n->in[GATED_W_UP];
    return gate->dtype == up->dtype && clef__shape_equal(&gate->shape, &up->shape) &&
           can_fuse(lo, n->in[GATED_GATE], n->in[GATED_X], gate, n->in[GATED_IDS]) &&
           can_fuse(lo, n->in[GATED_UP], n->in[GATED_X], up, n->in[GATED_IDS]);
}

static int sum_fits(const clef_lowering *lo, const clef_value *n)
{
    return n->in[SUM_IDS]->shape.dim[2].n <= MOST_CHOSEN &&
           sum_has_registers(lo->caps, n->in[SUM_W]->dtype) &&
           can_fuse(lo, n->in[SUM_Y], n->in[SUM_X], n->in[SUM_W], n->in[SUM_IDS]);
}

/* 1 if the launch of n, an op above, computes its products; 0 if these are launched before it. */
static int fuses(const clef_lowering *lo, const clef_value *n)
{
    const clef_variant *v = clef__variant_of(lo, n, NULL);
    return v == &clef__expert_gated_fused || v == &clef__expert_sum_fused;
}

int clef__expert_is_fused(const clef_lowering *lo, const clef_value *n)
{
    const clef_graph *g = lo->graph;
    if (lo->caps->is_cpu || clef__variant_of(lo, n, NULL) != &clef__expert_matmul_few)
        return 0;
    for (int32_t i = n->id + 1; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        for (int32_t k = 0; k < v->n_in; k++)
            if (v->in[k] == n)
                return (v->op == CLEF_OP_expert_gated || v->op == CLEF_OP_expert_sum) && fuses(lo, v);
    }
    return 0;
}

/* ---- expert_gated ------------------------------------------------------------------------------ */

static clef_status lower_gated(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return clef__lower_elementwise(lo, n, "swiglu", 0, 0, err);
}

static clef_status lower_gated_fused(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const expert_gated_args args = {.a = clef__expert_args_of(lo, n->in[GATED_GATE]),
                                    .up = clef__view(lo, n->in[GATED_W_UP]).offset};
    const uint32_t span = span_of(args.a.k / EXPERT_CHUNK),
                   columns = columns_of(lo, has_registers(lo->caps), 2 * args.a.n, args.a.chosen, span);
    clef_launch l = few_launch(span, columns, (int32_t)n->in[GATED_W_GATE]->dtype, DTYPE_NONE, 1);
    const clef_value *bufs[] = {n, n->in[GATED_X], n->in[GATED_W_GATE], n->in[GATED_IDS], n->in[GATED_W_UP]};
    l.args = &args;
    l.args_bytes = sizeof args;
    memcpy(l.bufs, bufs, sizeof bufs);
    l.n_bufs = 5;
    l.groups[0] = clef__ceil_div(args.a.n, columns / 2 * (FEW_GROUP / span));
    l.groups[1] = clef__size(lo, n->in[GATED_IDS]);
    return clef__launch(lo, &l, err);
}

static const char fused_device[] = "a GPU with groups of 128",
                  fused_shapes[] =
                      "products that the variant `few` would compute, of which nothing else reads the result";

const clef_variant clef__expert_gated_fused = {.name = "fused",
                                               .device_text = fused_device,
                                               .shape_text = fused_shapes,
                                               .runs_on = few_runs_on,
                                               .fits = gated_fits,
                                               .lower = lower_gated_fused};
const clef_variant clef__expert_gated_apart = {.name = "apart", .lower = lower_gated};

/* ---- expert_sum -------------------------------------------------------------------------------- */

static expert_sum_args sum_args_of(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *y = n->in[SUM_Y], *ids = n->in[SUM_IDS];
    const expert_args product = {.n = clef__n(lo, y, 0),
                                 .experts = clef__n(lo, n->in[SUM_W], 2),
                                 .chosen = clef__n(lo, ids, 0),
                                 .ids = clef__view(lo, ids).offset};
    return (expert_sum_args){.a = is_product(y) ? clef__expert_args_of(lo, y) : product,
                             .scores = clef__view(lo, n->in[SUM_SCORES]).offset,
                             .residual = clef__view(lo, n->in[SUM_RESIDUAL]).offset,
                             .y = clef__view(lo, y).offset};
}

/* The sum of products that are there. */
static clef_status lower_sum(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const expert_sum_args args = sum_args_of(lo, n);
    const uint32_t wg = clef__fit_local(lo, args.a.n);
    return clef__launch(
        lo,
        &(clef_launch){.source = "expert_sum",
                       .kernel = "expert_sum",
                       .defs = {{"WG", (int32_t)wg},
                                {"RESIDUAL", n->in[SUM_RESIDUAL] != NULL},
                                {"CHOSEN", (int32_t)args.a.chosen},
                                {"SOFTMAX", sum_opts_of(n)->softmax}},
                       .args = &args,
                       .args_bytes = sizeof args,
                       .bufs = {n, n->in[SUM_Y], n->in[SUM_SCORES], n->in[SUM_IDS], n->in[SUM_RESIDUAL]},
                       .n_bufs = 5,
                       .groups = {clef__ceil_div(args.a.n, wg), clef__rows(lo, n)},
                       .local = {wg}},
        err);
}

static clef_status lower_sum_fused(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const expert_sum_args args = sum_args_of(lo, n);
    const uint32_t span = span_of(args.a.chosen * (args.a.k / EXPERT_CHUNK)),
                   columns = columns_of(lo, lo->caps->nv_asm, args.a.n, 1, span);
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "expert_few_sum",
            .kernel = "expert_few_sum",
            .defs = {{"WG", FEW_GROUP},
                     {"SPAN", (int32_t)span},
                     {"COLUMNS", (int32_t)columns},
                     {"W_TYPE", (int32_t)n->in[SUM_W]->dtype},
                     {"RESIDUAL", n->in[SUM_RESIDUAL] != NULL},
                     {"CHOSEN", (int32_t)args.a.chosen},
                     {"SOFTMAX", sum_opts_of(n)->softmax}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {n, n->in[SUM_X], n->in[SUM_W], n->in[SUM_IDS], n->in[SUM_SCORES], n->in[SUM_RESIDUAL]},
            .n_bufs = 6,
            .groups = {clef__ceil_div(args.a.n, columns * (FEW_GROUP / span)), clef__rows(lo, n)},
            .local = {FEW_GROUP}},
        err);
}

const clef_variant clef__expert_sum_fused = {.name = "fused",
                                             .device_text = fused_device,
                                             .shape_text = fused_shapes,
                                             .runs_on = few_runs_on,
                                             .fits = sum_fits,
                                             .lower = lower_sum_fused};
const clef_variant clef__expert_sum_apart = {.name = "apart", .lower = lower_sum};
