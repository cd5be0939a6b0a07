/* low_rank_add: adds the product with two narrow matrices, which each sequence chooses (LoRA). */
#include "graph/op.h"
#include "graph/op/ways.h"

clef_value *clef_low_rank_add(clef_graph *g, clef_value *y, clef_value *x, clef_value *down, clef_value *up,
                              clef_value *ids)
{
    return clef__node(g, CLEF_OP_low_rank_add, (clef_value *[]){y, x, down, up, ids}, 5, NULL);
}

static int is_static(const clef_shape *s, int32_t rank)
{
    int fits = s->rank == rank;
    for (int32_t i = 0; fits && i < rank; i++)
        fits = !s->dim[i].symbol;
    return fits;
}

static clef_status low_rank_infer(clef_value *n, clef_error *err)
{
    const clef_shape *y = &n->in[0]->shape, *x = &n->in[1]->shape, *down = &n->in[2]->shape,
                     *up = &n->in[3]->shape, *ids = &n->in[4]->shape;
    char a[96], b[96];
    if (!is_static(down, 3) || !is_static(up, 3) || down->dim[0].n != up->dim[0].n ||
        down->dim[1].n != up->dim[1].n)
        return clef__fail(err, CLEF_E_SHAPE, "down %s and up %s, expected [n, r, K] and [n, r, N]",
                          clef__shape_text(n->graph, down, a), clef__shape_text(n->graph, up, b));
    if (down->dim[1].n > CLEF_MAX_LOW_RANK)
        return clef__fail(err, CLEF_E_LIMIT, "a rank of %lld, expected at most %d", (long long)down->dim[1].n,
                          CLEF_MAX_LOW_RANK);
    if (y->rank != 3 || x->rank != 3 || !clef__dim_equal(y->dim[0], x->dim[0]) ||
        !clef__dim_equal(y->dim[1], x->dim[1]) || !clef__dim_equal(y->dim[2], up->dim[2]) ||
        !clef__dim_equal(x->dim[2], down->dim[2]))
        return clef__fail(err, CLEF_E_SHAPE, "y %s and x %s, expected [B, T, %lld] and [B, T, %lld]",
                          clef__shape_text(n->graph, y, a), clef__shape_text(n->graph, x, b),
                          (long long)up->dim[2].n, (long long)down->dim[2].n);
    if (ids->rank != 1 || !clef__dim_equal(ids->dim[0], y->dim[0]))
        return clef__fail(err, CLEF_E_SHAPE, "ids %s, expected [B] of y %s",
                          clef__shape_text(n->graph, ids, a), clef__shape_text(n->graph, y, b));
    n->dtype = CLEF_F32;
    n->shape = *y;
    return CLEF_OK;
}

static void low_rank_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t T = out->n[2], N = out->n[3], K = in[1].n[3], r = in[2].n[2], pairs = in[2].n[1];
    (void)n;
    for (int64_t row = 0; row < out->n[1] * T; row++) {
        const double id = in[4].x[row / T], *x = in[1].x + row * K;
        for (int64_t c = 0; c < N; c++)
            out->x[row * N + c] = in[0].x[row * N + c];
        for (int64_t j = 0; id >= 1 && id <= (double)pairs && j < r; j++) {
            const double *down = in[2].x + (((int64_t)id - 1) * r + j) * K,
                         *up = in[3].x + (((int64_t)id - 1) * r + j) * N;
            double middle = 0;
            for (int64_t k = 0; k < K; k++)
                middle += x[k] * down[k];
            for (int64_t c = 0; c < N; c++)
                out->x[row * N + c] += middle * up[c];
        }
    }
}

static clef_cost low_rank_cost(const clef_value *n, const int64_t *symbols)
{
    const double rows = (double)clef__elements(n->in[0], symbols) / (double)n->in[3]->shape.dim[2].n,
                 sequences = (double)clef__elements(n->in[4], symbols),
                 pairs = (double)n->in[2]->shape.dim[0].n,
                 weights = (double)(clef__bytes(n->in[2], symbols) + clef__bytes(n->in[3], symbols)) / pairs;
    return (clef_cost){.flops = rows * weights / 2,
                       .bytes = 2 * (double)clef__bytes(n, symbols) + (double)clef__bytes(n->in[1], symbols) +
                                weights * (sequences < pairs ? sequences : pairs)};
}

/* A group that has few columns repeats the work in the middle; one that has many leaves cores without
 * work. */
static uint32_t columns_of_group(const clef_lowering *lo, uint32_t n, uint32_t rows, uint32_t wg)
{
    enum { LEAST = 128 };
    const uint32_t units = lo->caps->n_units > 1 ? (uint32_t)lo->caps->n_units : 1,
                   parts = wg > 1 ? clef__ceil_div(n, 4 * wg) : clef__ceil_div(units, rows ? rows : 1),
                   columns = clef__ceil_div(clef__ceil_div(n, parts ? parts : 1), 16) * 16;
    return columns < LEAST ? LEAST : columns;
}

static clef_status low_rank_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    enum { GPU_LANES = 64 };
    const clef_value *y = n->in[0], *x = n->in[1], *down = n->in[2], *up = n->in[3], *ids = n->in[4];
    const uint32_t wg = clef__fit_local(lo, GPU_LANES), rows = clef__rows(lo, n);
    const low_rank_args args = {.n = clef__n(lo, n, 0),
                                .k = clef__n(lo, x, 0),
                                .pairs = clef__n(lo, down, 2),
                                .each = clef__n(lo, n, 1),
                                .columns = columns_of_group(lo, clef__n(lo, n, 0), rows, wg),
                                .y = clef__view(lo, y).offset,
                                .x = clef__view(lo, x).offset,
                                .down = clef__view(lo, down).offset,
                                .up = clef__view(lo, up).offset,
                                .ids = clef__view(lo, ids).offset};
    return clef__launch(lo,
                        &(clef_launch){.source = "low_rank",
                                       .kernel = "low_rank_add",
                                       .defs = {{"WG", (int32_t)wg}, {"RANK", (int32_t)clef__n(lo, down, 1)}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, y, x, down, up, ids},
                                       .n_bufs = 6,
                                       .groups = {clef__ceil_div(args.n, args.columns), rows},
                                       .local = {wg}},
                        err);
}

static clef_row_range low_rank_rows(const clef_value *n)
{
    return (clef_row_range){.n_rows = clef_n(n->in[2]->shape.dim[0].n + 1), .span = clef_n(1)};
}

const clef_op_def clef__op_low_rank_add = {
    .name = "low_rank_add",
    .formula =
        "out[b, t, :] = y[b, t, :] + (x[b, t, :] down[i]^T) up[i], i = ids[b] - 1; y where ids[b] is 0",
    .n_min = 5,
    .n_max = 5,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE,
           CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .row_numbers = 1 << 4,
    .row_range = low_rank_rows,
    .infer = low_rank_infer,
    .way = clef__way_low_rank_add,
    .sum = clef__sum_low_rank_add,
    .ref = low_rank_ref,
    .cost = low_rank_cost,
    .lower = low_rank_lower,
    .in_place = 1,
    .tol = 1e-5f, /* two products, each as matmul's */
};
