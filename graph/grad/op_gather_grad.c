/* gather_grad: the gradient of the table in a gather along axis 0: each row is the sum of the gradients of
 * the tokens that read it. */
#include "graph/grad/gather_grad.h"
#include "graph/op.h"

static const clef_attr_def gather_grad_attrs[] = {
    {"rows", CLEF_ATTR_INT, offsetof(clef__gather_grad_opts, rows), NULL},
    {"first", CLEF_ATTR_INT, offsetof(clef__gather_grad_opts, first), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__gather_grad(clef_value *d, clef_value *ids, const clef__gather_grad_opts *opts)
{
    return d ? clef__node(d->graph, CLEF_OP_gather_grad, (clef_value *[]){d, ids}, 2, opts) : NULL;
}

static clef_status gather_grad_infer(clef_value *n, clef_error *err)
{
    const clef__gather_grad_opts *o = (const void *)n->attr;
    const clef_shape *d = &n->in[0]->shape, *ids = &n->in[1]->shape;
    char a[96], b[96];
    int fits = d->rank == ids->rank + 1 && o->rows > 0 && d->rank > 0 && !d->dim[d->rank - 1].symbol;
    for (int32_t i = 0; i < ids->rank && fits; i++)
        fits = clef__dim_equal(d->dim[i], ids->dim[i]);
    if (!fits)
        return clef__fail(err, CLEF_E_SHAPE, "d %s, ids %s, %d rows: expected d [ids, N] and at least 1 row",
                          clef__shape_text(n->graph, d, a), clef__shape_text(n->graph, ids, b), o->rows);
    n->dtype = CLEF_F32;
    n->shape = clef_shape_2(clef_n(o->rows), d->dim[d->rank - 1]);
    return CLEF_OK;
}

static void gather_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef__gather_grad_opts *o = (const void *)n->attr;
    const clef_ref_tensor *d = &in[0], *ids = &in[1];
    const int64_t N = out->n[3], rows = out->n[2];
    for (int64_t i = 0; i < rows * N; i++)
        out->x[i] = 0;
    for (int64_t t = 0; t < ids->n[0] * ids->n[1] * ids->n[2] * ids->n[3]; t++) {
        const double id = ids->x[t] - o->first;
        for (int64_t i = 0; i < N && id >= 0 && id < (double)rows; i++)
            out->x[(int64_t)id * N + i] += d->x[t * N + i];
    }
}

static clef_cost gather_grad_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = (double)clef__elements(n->in[0], symbols);
    return cost;
}

/* Each group owns some rows and looks through all ids, in their order. So the sums are the same each time. */
static clef_status gather_grad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    enum { GROUPS_PER_UNIT = 8, LEAST_EACH = 16 };
    const clef__gather_grad_opts *o = (const void *)n->attr;
    const uint32_t units = (uint32_t)(lo->caps->n_units > 0 ? lo->caps->n_units : 1);
    gather_grad_args args = {.rows = (args_uint)o->rows,
                             .n = clef__n(lo, n, 0),
                             .n_ids = clef__size(lo, n->in[1]),
                             .ids = clef__view(lo, n->in[1]).offset,
                             .d = clef__view(lo, n->in[0]).offset,
                             .first = (args_uint)o->first};
    args.each = clef__ceil_div(args.rows, GROUPS_PER_UNIT * units);
    args.each = args.each < LEAST_EACH ? LEAST_EACH : args.each;
    const uint32_t wg = clef__fit_local(lo, args.n);
    return clef__launch(lo,
                        &(clef_launch){.source = "gather_grad",
                                       .kernel = "gather_grad",
                                       .defs = {{"WG", (int32_t)wg}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, n->in[0], n->in[1]},
                                       .n_bufs = 3,
                                       .groups = {clef__ceil_div(args.rows, args.each)},
                                       .local = {wg}},
                        err);
}

const clef_op_def clef__op_gather_grad = {
    .name = "gather_grad",
    .formula = "out[id] = the sum of the rows of d whose id is first + id",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .attrs = gather_grad_attrs,
    .attr_bytes = sizeof(clef__gather_grad_opts),
    .infer = gather_grad_infer,
    .ref = gather_grad_ref,
    .cost = gather_grad_cost,
    .lower = gather_grad_lower,
    .tol = 5e-6f, /* chains of up to some 10^3 terms */
};
