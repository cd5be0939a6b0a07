/* gather: takes rows of a table by their ids. */
#include <string.h>

#include "graph/grad/gather_grad.h"
#include "graph/grad/gradient.h"
#include "graph/op.h"
#include "graph/op/ways.h"
#include "graph/shrink.h"

static const clef_attr_def gather_attrs[] = {
    {"axis", CLEF_ATTR_INT, offsetof(clef_gather_opts, axis), NULL},
    {"first", CLEF_ATTR_INT, offsetof(clef_gather_opts, first), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_gather(clef_graph *g, clef_value *table, clef_value *ids, const clef_gather_opts *opts)
{
    return clef__node(g, CLEF_OP_gather, (clef_value *[]){table, ids}, 2, opts);
}

static clef_status gather_infer(clef_value *n, clef_error *err)
{
    clef_gather_opts *o = (void *)n->attr;
    const clef_shape *table = &n->in[0]->shape, *ids = &n->in[1]->shape;
    char a[96], b[96];
    if (o->axis < 0)
        o->axis += table->rank;
    if (o->axis < 0 || o->axis >= table->rank)
        return clef__fail(err, CLEF_E_ARG, "axis %d of table %s", o->axis,
                          clef__shape_text(n->graph, table, a));
    if (table->rank - 1 + ids->rank > CLEF_MAX_DIMS)
        return clef__fail(err, CLEF_E_SHAPE, "table %s and ids %s give more than %d dims",
                          clef__shape_text(n->graph, table, a), clef__shape_text(n->graph, ids, b),
                          CLEF_MAX_DIMS);
    if (n->in[0]->dtype != CLEF_F32 && (table->rank != 2 || o->axis != 0))
        return clef__fail(err, CLEF_E_SHAPE,
                          "table %s %s along axis %d: expected two dims and axis 0, or f32",
                          clef_dtype_name(n->in[0]->dtype), clef__shape_text(n->graph, table, a), o->axis);
    n->dtype = CLEF_F32;
    n->shape = (clef_shape){.rank = table->rank - 1 + ids->rank};
    for (int32_t i = 0; i < n->shape.rank; i++)
        n->shape.dim[i] = i < o->axis               ? table->dim[i]
                          : i < o->axis + ids->rank ? ids->dim[i - o->axis]
                                                    : table->dim[i - ids->rank + 1];
    return CLEF_OK;
}

static void gather_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_gather_opts *o = (const void *)n->attr;
    const int32_t axis = o->axis + CLEF_MAX_DIMS - n->in[0]->shape.rank;
    const clef_ref_tensor *table = &in[0], *ids = &in[1];
    const int64_t n_ids = ids->n[0] * ids->n[1] * ids->n[2] * ids->n[3];
    int64_t outer = 1, inner = 1;
    for (int32_t i = 0; i < CLEF_MAX_DIMS; i++) {
        outer *= i < axis ? table->n[i] : 1;
        inner *= i > axis ? table->n[i] : 1;
    }
    for (int64_t r = 0; r < outer * n_ids; r++) {
        const double id = ids->x[r % n_ids] - o->first;
        double *to = out->x + r * inner;
        if (id >= 0 && id < (double)table->n[axis])
            memcpy(to, table->x + (r / n_ids * table->n[axis] + (int64_t)id) * inner,
                   (size_t)inner * sizeof *to);
        else
            memset(to, 0, (size_t)inner * sizeof *to);
    }
}

static clef_cost gather_cost(const clef_value *n, const int64_t *symbols)
{
    const double elements = (double)clef__elements(n, symbols);
    const clef_dtype t = n->in[0]->dtype;
    return (clef_cost){.bytes =
                           elements * (4 + (double)clef_dtype_block_bytes(t) / clef_dtype_block_elems(t)) +
                           (double)clef__bytes(n->in[1], symbols)};
}

static clef_status gather_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_gather_opts *o = (const void *)n->attr;
    const clef_value *table = n->in[0], *ids = n->in[1];
    gather_args args = {.n_outer = 1,
                        .n_inner = 1,
                        .n_ids = clef__size(lo, ids),
                        .table = clef__view(lo, table).offset,
                        .ids = clef__view(lo, ids).offset,
                        .first = (args_uint)o->first};
    uint32_t inner_bound = 1;
    for (int32_t i = 0; i < table->shape.rank; i++) {
        const uint32_t dim = clef__n(lo, table, table->shape.rank - 1 - i);
        inner_bound *= i > o->axis ? clef__bound_n(lo, table, table->shape.rank - 1 - i) : 1;
        if (i == o->axis)
            args.n_axis = dim;
        else
            *(i < o->axis ? &args.n_outer : &args.n_inner) *= dim;
    }
    const uint32_t wg = clef__fit_local(lo, inner_bound);
    return clef__launch(
        lo,
        &(clef_launch){.source = "gather",
                       .kernel = "gather",
                       .defs = {{"WG", (int32_t)wg}, {"TABLE_TYPE", (int32_t)table->dtype}},
                       .args = &args,
                       .args_bytes = sizeof args,
                       .bufs = {n, table, ids},
                       .n_bufs = 3,
                       .groups = {args.n_outer * args.n_ids}, /* one work-group a row of the result */
                       .local = {wg}},
        err);
}

/* Rebuilds the node with fewer rows of the table. */
static clef_value *gather_shrink(clef__shrinker *s, const clef_value *n)
{
    enum { ROWS = 16 };
    const clef_gather_opts *o = (const void *)n->attr;
    if (o->axis || n->in[0]->shape.dim[0].symbol)
        return NULL;
    clef_value *in[2] = {clef__shrink_cut(s, n->in[0], 0, clef__shrink_rows(n->in[0], 0, ROWS)),
                         clef__shrink_copy(s, n->in[1])};
    return clef__node(clef__shrink_graph(s), CLEF_OP_gather, in, 2, o);
}

static clef_row_range gather_rows(const clef_value *n)
{
    const clef_gather_opts *o = (const void *)n->attr;
    return (clef_row_range){.first = o->first, .n_rows = n->in[0]->shape.dim[o->axis], .span = clef_n(1)};
}

static void gather_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_gather_opts *o = (const void *)n->attr;
    const clef_shape *table = &n->in[0]->shape;
    if (o->axis || table->rank != 2) {
        clef__graph_fail(n->graph, CLEF_E_UNSUPPORTED,
                         "%s: no gradient of a table along axis %d of %d dims, only along axis 0 of 2",
                         n->name, o->axis, table->rank);
        return;
    }
    clef__add_gradient(
        gr, n->in[0],
        clef__gather_grad(d, n->in[1],
                          &(clef__gather_grad_opts){.rows = (int32_t)table->dim[0].n, .first = o->first}));
}

const clef_op_def clef__op_gather = {
    .name = "gather",
    .formula = "out[.., i, ..] = table[.., ids[i], ..] along an axis; an id outside gives zeros",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_WEIGHT | CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE},
    .attrs = gather_attrs,
    .attr_bytes = sizeof(clef_gather_opts),
    .row_numbers = 1 << 1,
    .row_range = gather_rows,
    .infer = gather_infer,
    .sum = clef__sum_gather,
    .ref = gather_ref,
    .cost = gather_cost,
    .lower = gather_lower,
    .shrink = gather_shrink,
    .grad = gather_rule,
    .tol = 2e-7f, /* exact; a block's product of scale and number is rounded once */
};
