/* gather_elements: takes elements of each row by their indices. */
#include "graph/grad/expert_grad.h"
#include "graph/grad/gradient.h"
#include "graph/op.h"

clef_value *clef_gather_elements(clef_graph *g, clef_value *x, clef_value *ids)
{
    return clef__node(g, CLEF_OP_gather_elements, (clef_value *[]){x, ids}, 2, NULL);
}

static clef_status gather_elements_infer(clef_value *n, clef_error *err)
{
    const clef_shape *x = &n->in[0]->shape, *ids = &n->in[1]->shape;
    char a[96], b[96];
    int same = x->rank == ids->rank && x->rank > 0, is_shared = 1;
    for (int32_t i = 0; same && i + 1 < x->rank; i++) {
        is_shared = is_shared && !ids->dim[i].symbol && ids->dim[i].n == 1;
        same = is_shared || clef__dim_equal(x->dim[i], ids->dim[i]);
    }
    if (!same)
        return clef__fail(err, CLEF_E_SHAPE, "x %s and ids %s differ before the last dim",
                          clef__shape_text(n->graph, x, a), clef__shape_text(n->graph, ids, b));
    n->dtype = CLEF_F32;
    n->shape = *x;
    n->shape.dim[x->rank - 1] = ids->dim[x->rank - 1];
    return CLEF_OK;
}

static void gather_elements_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++) {
        const double id = in[1].x[i % (in[1].n[0] * in[1].n[1] * in[1].n[2] * in[1].n[3])];
        out->x[i] =
            id >= 0 && id < (double)in[0].n[3] ? in[0].x[i / out->n[3] * in[0].n[3] + (int64_t)id] : 0;
    }
}

static clef_cost gather_elements_cost(const clef_value *n, const int64_t *symbols)
{
    return (clef_cost){.bytes = 3.0 * (double)clef__bytes(n, symbols)};
}

static clef_status gather_elements_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const gather_elements_args args = {.n = clef__size(lo, n),
                                       .k = clef__n(lo, n, 0),
                                       .n_ids = clef__size(lo, n->in[1]),
                                       .n_row = clef__n(lo, n->in[0], 0),
                                       .x = clef__view(lo, n->in[0]).offset,
                                       .ids = clef__view(lo, n->in[1]).offset};
    return clef__launch(lo,
                        &(clef_launch){.source = "gather_elements",
                                       .kernel = "gather_elements",
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1]},
                                       .n_bufs = 3,
                                       .groups = {args.n}},
                        err);
}

static clef_row_range gather_elements_rows(const clef_value *n)
{
    clef_dim rows = clef__dim_right(&n->in[0]->shape, 0);
    const int may_be_none = n->in[1]->kind == CLEF_WEIGHT && !rows.symbol; /* -1, of a quantised weight */
    rows.n += may_be_none;
    return (clef_row_range){.first = may_be_none ? -1 : 0, .n_rows = rows, .span = clef_n(1)};
}

static void gather_elements_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    if (!clef__shape_equal(&n->in[1]->shape, &n->shape)) {
        clef__graph_fail(n->graph, CLEF_E_UNSUPPORTED, "%s: gather_elements with shared ids has no gradient",
                         n->name);
        return;
    }
    const clef__gather_elements_grad_opts opts = {(int32_t)clef__dim_right(&n->in[0]->shape, 0).n};
    clef__add_gradient(gr, n->in[0], clef__gather_elements_grad(d, n->in[1], &opts));
}

const clef_op_def clef__op_gather_elements = {
    .name = "gather_elements",
    .formula = "out[.., j] = x[.., ids[.., j]]; an id outside gives 0",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .row_numbers = 1 << 1,
    .row_range = gather_elements_rows,
    .infer = gather_elements_infer,
    .ref = gather_elements_ref,
    .cost = gather_elements_cost,
    .lower = gather_elements_lower,
    .grad = gather_elements_rule,
    .tol = 0, /* copies */
};
