/* gather_elements_grad and expert_matmul_grad: the gradients of what mixtures of experts are made of. */
#include "graph/grad/expert_grad.h"
#include "graph/op.h"

/* ---- gather_elements_grad ---------------------------------------------------------------------- */

static const clef_attr_def gather_elements_grad_attrs[] = {
    {"columns", CLEF_ATTR_INT, offsetof(clef__gather_elements_grad_opts, columns), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__gather_elements_grad(clef_value *d, clef_value *ids,
                                       const clef__gather_elements_grad_opts *opts)
{
    return d ? clef__node(d->graph, CLEF_OP_gather_elements_grad, (clef_value *[]){d, ids}, 2, opts) : NULL;
}

static clef_status gather_elements_grad_infer(clef_value *n, clef_error *err)
{
    const clef__gather_elements_grad_opts *o = (const void *)n->attr;
    char a[96], b[96];
    if (!clef__shape_equal(&n->in[0]->shape, &n->in[1]->shape) || n->in[0]->shape.rank == 0 || o->columns < 1)
        return clef__fail(err, CLEF_E_SHAPE,
                          "d %s and ids %s, %d columns: expected one shape and at least 1 column",
                          clef__shape_text(n->graph, &n->in[0]->shape, a),
                          clef__shape_text(n->graph, &n->in[1]->shape, b), o->columns);
    clef__infer_same(n, err);
    n->shape.dim[n->shape.rank - 1] = clef_n(o->columns);
    return CLEF_OK;
}

static void gather_elements_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t k = in[0].n[3], N = out->n[3];
    (void)n;
    for (int64_t r = 0; r < out->n[0] * out->n[1] * out->n[2]; r++)
        for (int64_t c = 0; c < N; c++) {
            out->x[r * N + c] = 0;
            for (int64_t j = 0; j < k; j++)
                out->x[r * N + c] += in[1].x[r * k + j] == (double)c ? in[0].x[r * k + j] : 0;
        }
}

static clef_status gather_elements_grad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const gather_elements_args args = {.n = clef__size(lo, n),
                                       .k = clef__n(lo, n->in[0], 0),
                                       .n_row = clef__n(lo, n, 0),
                                       .x = clef__view(lo, n->in[0]).offset,
                                       .ids = clef__view(lo, n->in[1]).offset};
    const uint32_t wg = clef__fit_local(lo, 256);
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_grad",
                                       .kernel = "gather_elements_grad",
                                       .defs = {{"WG", (int32_t)wg}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1]},
                                       .n_bufs = 3,
                                       .groups = {clef__rows(lo, n)},
                                       .local = {wg}},
                        err);
}

const clef_op_def clef__op_gather_elements_grad = {
    .name = "gather_elements_grad",
    .formula = "out[.., c] = the sum of d[.., j] over the j with ids[.., j] = c",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .attrs = gather_elements_grad_attrs,
    .attr_bytes = sizeof(clef__gather_elements_grad_opts),
    .infer = gather_elements_grad_infer,
    .ref = gather_elements_grad_ref,
    .lower = gather_elements_grad_lower,
    .tol = 1e-6f, /* sums of a few terms */
};

/* ---- expert_matmul_grad ------------------------------------------------------------------------ */

static const clef_attr_def expert_matmul_grad_attrs[] = {
    {"experts", CLEF_ATTR_INT, offsetof(clef__expert_matmul_grad_opts, experts), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__expert_matmul_grad(clef_value *a, clef_value *b, clef_value *ids,
                                     const clef__expert_matmul_grad_opts *opts)
{
    return a && b ? clef__node(a->graph, CLEF_OP_expert_matmul_grad, (clef_value *[]){a, b, ids}, 3, opts)
                  : NULL;
}

/* How often each row of x [B, T, N] or [B, T, k, N] stands for a pair of token and expert. */
static int64_t share_of(const clef_value *x, const clef_value *ids)
{
    return x->shape.rank == 4 ? 1 : clef__dim_right(&ids->shape, 0).n;
}

static clef_status expert_matmul_grad_infer(clef_value *n, clef_error *err)
{
    const clef__expert_matmul_grad_opts *o = (const void *)n->attr;
    const clef_shape *ids = &n->in[2]->shape;
    char text[96];
    int fits = ids->rank == 3 && o->experts > 0;
    for (int32_t i = 0; i < 2 && fits; i++) {
        const clef_shape *x = &n->in[i]->shape;
        fits = (x->rank == 3 || x->rank == 4) && !clef__dim_right(x, 0).symbol;
        for (int32_t k = 0; k + 1 < x->rank && fits; k++)
            fits = clef__dim_equal(x->dim[k], ids->dim[k]);
    }
    if (!fits)
        return clef__fail(err, CLEF_E_SHAPE, "ids %s, expected [B, T, k], with a and b [B, T, (k,) N]",
                          clef__shape_text(n->graph, ids, text));
    n->dtype = CLEF_F32;
    n->shape = clef_shape_3(clef_n(o->experts), clef__dim_right(&n->in[0]->shape, 0),
                            clef__dim_right(&n->in[1]->shape, 0));
    return CLEF_OK;
}

static void expert_matmul_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t E = out->n[1], M = out->n[2], N = out->n[3];
    const int64_t share_a = share_of(n->in[0], n->in[2]), share_b = share_of(n->in[1], n->in[2]);
    for (int64_t i = 0; i < E * M * N; i++)
        out->x[i] = 0;
    for (int64_t r = 0; r < in[2].n[1] * in[2].n[2] * in[2].n[3]; r++) {
        const double e = in[2].x[r], *a = in[0].x + r / share_a * M, *b = in[1].x + r / share_b * N;
        for (int64_t i = 0; i < M * N && e >= 0 && e < (double)E; i++)
            out->x[(int64_t)e * M * N + i] += a[i / N] * b[i % N];
    }
}

static clef_cost expert_matmul_grad_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops =
        2 * (double)clef__elements(n->in[2], symbols) * (double)n->shape.dim[1].n * (double)n->shape.dim[2].n;
    return cost;
}

/* A group owns some rows of one expert's matrix and goes through all tokens, in their order. */
static clef_status expert_matmul_grad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    enum { ROWS = 16 };
    const expert_grad_args args = {.m = clef__n(lo, n, 1),
                                   .n = clef__n(lo, n, 0),
                                   .n_ids = clef__size(lo, n->in[2]),
                                   .share_a = (args_uint)share_of(n->in[0], n->in[2]),
                                   .share_b = (args_uint)share_of(n->in[1], n->in[2]),
                                   .rows = ROWS,
                                   .a = clef__view(lo, n->in[0]).offset,
                                   .b = clef__view(lo, n->in[1]).offset,
                                   .ids = clef__view(lo, n->in[2]).offset};
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, n, 0));
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_grad",
                                       .kernel = "expert_matmul_grad",
                                       .defs = {{"WG", (int32_t)wg}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1], n->in[2]},
                                       .n_bufs = 4,
                                       .groups = {clef__ceil_div(args.m, ROWS), clef__n(lo, n, 2)},
                                       .local = {wg}},
                        err);
}

const clef_op_def clef__op_expert_matmul_grad = {
    .name = "expert_matmul_grad",
    .formula = "out[e] = the sum of a[r]^T b[r] over the pairs r of token and expert with ids[r] = e",
    .n_min = 3,
    .n_max = 3,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .attrs = expert_matmul_grad_attrs,
    .attr_bytes = sizeof(clef__expert_matmul_grad_opts),
    .infer = expert_matmul_grad_infer,
    .ref = expert_matmul_grad_ref,
    .cost = expert_matmul_grad_cost,
    .lower = expert_matmul_grad_lower,
    .tol = 5e-6f, /* chains of up to some 10^3 terms */
};
