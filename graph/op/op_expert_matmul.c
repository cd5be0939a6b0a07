/* expert_matmul: multiplies each token by the matrices of the experts that were chosen for it. No other
 * expert is read. */
#include "graph/grad/expert_grad.h"
#include "graph/grad/gather_grad.h"
#include "graph/grad/gradient.h"
#include "graph/lower/variant.h"
#include "graph/op/expert_fused.h"
#include "graph/op/ways.h"

static const clef_attr_def expert_attrs[] = {
    {"transpose_b", CLEF_ATTR_INT, offsetof(clef__expert_attrs, opts.transpose_b), NULL},
    {"batch_invariant", CLEF_ATTR_INT, offsetof(clef__expert_attrs, batch_invariant), NULL},
    {"int8", CLEF_ATTR_INT, offsetof(clef__expert_attrs, int8), NULL},
    {"half", CLEF_ATTR_INT, offsetof(clef__expert_attrs, half), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_expert_matmul(clef_graph *g, clef_value *x, clef_value *w, clef_value *ids, clef_value *bias,
                               const clef_expert_matmul_opts *opts)
{
    const clef__expert_attrs attrs = {.opts = opts ? *opts : (clef_expert_matmul_opts){0}};
    return clef__node(g, CLEF_OP_expert_matmul, (clef_value *[]){x, w, ids, bias}, 4, &attrs);
}

static int is_transposed(const clef_value *n)
{
    return clef__expert_attrs_of(n)->opts.transpose_b != 0;
}

static clef_status expert_infer(clef_value *n, clef_error *err)
{
    const clef_shape *x = &n->in[0]->shape, *w = &n->in[1]->shape, *ids = &n->in[2]->shape;
    const clef_value *bias = n->in[3];
    char a[96], b[96];
    if (w->rank != 3 || w->dim[0].symbol || w->dim[1].symbol || w->dim[2].symbol)
        return clef__fail(err, CLEF_E_SHAPE, "weight %s, expected [experts, N, K]",
                          clef__shape_text(n->graph, w, a));
    const clef_dim N = w->dim[is_transposed(n) ? 1 : 2], K = w->dim[is_transposed(n) ? 2 : 1];
    int fits = ids->rank == 3 && (x->rank == 3 || x->rank == 4) && clef__dim_equal(x->dim[x->rank - 1], K);
    for (int32_t i = 0; fits && i < x->rank - 1; i++)
        fits = clef__dim_equal(x->dim[i], ids->dim[i]);
    if (!fits)
        return clef__fail(err, CLEF_E_SHAPE, "x %s and ids %s, expected [B, T, (k,) %lld] and [B, T, k]",
                          clef__shape_text(n->graph, x, a), clef__shape_text(n->graph, ids, b),
                          (long long)K.n);
    if (clef_dtype_block_elems(n->in[1]->dtype) > 1 && !is_transposed(n))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "weight %s: blocks run along the rows that are summed over, expected transpose_b",
                          clef_dtype_name(n->in[1]->dtype));
    if (bias && (bias->shape.rank != 2 || !clef__dim_equal(bias->shape.dim[0], w->dim[0]) ||
                 !clef__dim_equal(bias->shape.dim[1], N)))
        return clef__fail(err, CLEF_E_SHAPE, "bias %s, expected [experts, N] of weight %s",
                          clef__shape_text(n->graph, &bias->shape, a), clef__shape_text(n->graph, w, b));
    n->dtype = CLEF_F32;
    n->shape = clef_shape_4(ids->dim[0], ids->dim[1], ids->dim[2], N);
    return CLEF_OK;
}

static void expert_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int transposed = is_transposed(n);
    const int64_t E = in[1].n[1], N = out->n[3], K = in[0].n[3], k = out->n[2];
    const int each = n->in[0]->shape.rank == 4;
    for (int64_t r = 0; r < out->n[0] * out->n[1] * k; r++) {
        const double id = in[2].x[r], *x = in[0].x + (each ? r : r / k) * K;
        for (int64_t c = 0; c < N; c++) {
            double sum = 0;
            if (id >= 0 && id < (double)E) {
                const double *w = in[1].x + (int64_t)id * N * K;
                for (int64_t i = 0; i < K; i++)
                    sum += x[i] * w[transposed ? c * K + i : i * N + c];
                sum += in[3].x ? in[3].x[(int64_t)id * N + c] : 0;
            }
            out->x[r * N + c] = sum;
        }
    }
}

static clef_cost expert_cost(const clef_value *n, const int64_t *symbols)
{
    const double rows = (double)clef__elements(n->in[2], symbols);
    const double per_expert = (double)clef__bytes(n->in[1], symbols) / (double)n->in[1]->shape.dim[0].n;
    const double experts = (double)n->in[1]->shape.dim[0].n;
    clef_cost cost =
        clef__cost_elementwise(n, symbols, 2.0 * (double)n->in[0]->shape.dim[n->in[0]->shape.rank - 1].n);
    cost.bytes = (double)clef__bytes(n, symbols) + (double)clef__bytes(n->in[0], symbols) +
                 per_expert * (rows < experts ? rows : experts);
    return cost;
}

static clef_row_range expert_rows(const clef_value *n)
{
    return (clef_row_range){.n_rows = n->in[1]->shape.dim[0], .span = clef_n(1)};
}

static void expert_matmul_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef_value *x = n->in[0], *w = n->in[1], *ids = n->in[2];
    const int32_t experts = (int32_t)w->shape.dim[0].n;
    if (clef__wants_gradient(gr, x)) { /* of [B, T, K] the sum over the token's experts */
        const clef_expert_matmul_opts back = {.transpose_b = !is_transposed(n)};
        clef_value *floats = clef_dtype_block_elems(w->dtype) > 1 ? clef_copy(n->graph, w) : w;
        clef_value *each = clef_expert_matmul(n->graph, d, floats, ids, NULL, &back);
        if (each && x->shape.rank == 3)
            each = clef_reshape(n->graph, clef_sum_axes(n->graph, each, &(clef_sum_axes_opts){1 << 2}),
                                x->shape);
        clef__add_gradient(gr, x, each);
    }
    if (clef__wants_gradient(gr, w)) {
        const clef__expert_matmul_grad_opts opts = {experts};
        clef__add_gradient(gr, w,
                           is_transposed(n) ? clef__expert_matmul_grad(d, x, ids, &opts)
                                            : clef__expert_matmul_grad(x, d, ids, &opts));
    }
    if (clef__wants_gradient(gr, n->in[3]))
        clef__add_gradient(gr, n->in[3],
                           clef__gather_grad(d, ids, &(clef__gather_grad_opts){.rows = experts}));
}

static clef_status expert_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return clef__expert_is_fused(lo, n) ? CLEF_OK : clef__lower_variant(lo, n, err);
}

float clef__expert_tol(const clef_value *n)
{
    const clef__expert_attrs *o = clef__expert_attrs_of(n);
    return o->int8 || o->half ? 1e-2f : 5e-6f; /* as panel_matmul in bf16, and matmul */
}

const clef_op_def clef__op_expert_matmul = {
    .name = "expert_matmul",
    .formula =
        "out[b, t, j, :] = x[b, t, (j,) :] W[ids[b, t, j]] (+ bias[ids[b, t, j]]); an id outside gives 0",
    .n_min = 3,
    .n_max = 4,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_WEIGHT | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE,
           CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = expert_attrs,
    .attr_bytes = sizeof(clef__expert_attrs),
    .row_numbers = 1 << 2,
    .row_range = expert_rows,
    .infer = expert_infer,
    .way = clef__way_expert_matmul,
    .sum = clef__sum_expert_matmul,
    .ref = expert_ref,
    .cost = expert_cost,
    .lower = expert_lower,
    .grad = expert_matmul_rule,
    .tol_of = clef__expert_tol,
    .tol = 5e-6f,
};
