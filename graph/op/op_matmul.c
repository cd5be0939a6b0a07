/* matmul: the matrix product, with broadcast batches, grouped heads and weights of any dtype. The work is
 * done by variants. */
#include <math.h>

#include "graph/lower/variant.h"
#include "graph/shrink.h"

static const clef_attr_def matmul_attrs[] = {
    {"transpose_b", CLEF_ATTR_INT, offsetof(clef_matmul_opts, transpose_b), NULL},
    {"alpha", CLEF_ATTR_FLOAT, offsetof(clef_matmul_opts, alpha), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_matmul(clef_graph *g, clef_value *a, clef_value *b, clef_value *bias,
                        const clef_matmul_opts *opts)
{
    return clef__node(g, CLEF_OP_matmul, (clef_value *[]){a, b, bias}, 3, opts);
}

/* ---- operands of one dim --------------------------------------------------------------------- */

/* x [K] as [1, K]. */
static clef_value *as_row(clef_graph *g, clef_value *x)
{
    return x->shape.rank == 1 ? clef_reshape(g, x, clef_shape_2(clef_n(1), x->shape.dim[0])) : x;
}

/* Vectors follow numpy: a [K] is a row and b [K] is a column. In memory, that column is a row of b
 * transposed. The product has no dim for a vector. */
static clef_value *vector_product(clef_graph *g, clef_value *const *in, int32_t n_in, const void *attr)
{
    clef_value *a = n_in > 1 ? in[0] : NULL, *b = n_in > 1 ? in[1] : NULL;
    if (!a || !b || !a->shape.rank || !b->shape.rank || (a->shape.rank > 1 && b->shape.rank > 1))
        return NULL;
    clef_matmul_opts opts = attr ? *(const clef_matmul_opts *)attr : (clef_matmul_opts){0};
    char text[2][96];
    opts.transpose_b |= b->shape.rank == 1;
    if (!clef__dim_equal(clef__dim_right(&a->shape, 0), clef__dim_right(&b->shape, opts.transpose_b ? 0 : 1)))
        return clef__graph_fail(g, CLEF_E_SHAPE, "matmul: a %s and b %s%s do not multiply",
                                clef__shape_text(g, &a->shape, text[0]),
                                clef__shape_text(g, &b->shape, text[1]),
                                opts.transpose_b && b->shape.rank > 1 ? " transposed" : "");
    clef_value *row = as_row(g, a), *rows = as_row(g, b);
    clef_value *product = row && rows ? clef_matmul(g, row, rows, n_in > 2 ? in[2] : NULL, &opts) : NULL;
    if (!product)
        return NULL;
    clef_shape shape = {0};
    for (int32_t i = 0; i < product->shape.rank; i++)
        if (!(i == product->shape.rank - 2 && a->shape.rank == 1) &&
            !(i == product->shape.rank - 1 && b->shape.rank == 1))
            shape.dim[shape.rank++] = product->shape.dim[i];
    return clef_reshape(g, product, shape);
}

/* ---- inference and reference ----------------------------------------------------------------- */

/* The dims before the last two: those of a and b, broadcast against each other. */
static int batch_dims(const clef_shape *a, const clef_shape *b, clef_shape *out)
{
    clef_shape x = *a, y = *b;
    const int64_t group = clef__head_group(a, b);
    if (a->rank < 2 || b->rank < 2 || !group)
        return 0;
    if (group > 1)
        y.dim[1] = x.dim[1];
    x.dim[a->rank - 1] = x.dim[a->rank - 2] = y.dim[b->rank - 1] = y.dim[b->rank - 2] = clef_n(1);
    return clef__broadcast(&x, &y, out);
}

static clef_status matmul_infer(clef_value *n, clef_error *err)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    const clef_value *bias = n->in[2];
    const int32_t k_at = o->transpose_b ? 0 : 1;
    char text[2][96];
    n->dtype = CLEF_F32;
    if (!batch_dims(a, b, &n->shape) || !clef__dim_equal(clef__dim_right(a, 0), clef__dim_right(b, k_at)))
        return clef__fail(err, CLEF_E_SHAPE, "a %s and b %s%s do not multiply",
                          clef__shape_text(n->graph, a, text[0]), clef__shape_text(n->graph, b, text[1]),
                          o->transpose_b ? " transposed" : "");
    n->shape.dim[n->shape.rank - 2] = clef__dim_right(a, 1);
    n->shape.dim[n->shape.rank - 1] = clef__dim_right(b, 1 - k_at);
    if (clef_dtype_block_elems(n->in[1]->dtype) > 1 && !o->transpose_b)
        return clef__fail(err, CLEF_E_SHAPE,
                          "b is %s, whose blocks run along its last dim: expected [N, K] and transpose_b",
                          clef_dtype_name(n->in[1]->dtype));
    if (bias &&
        (bias->shape.rank != 1 || !clef__dim_equal(bias->shape.dim[0], clef__dim_right(&n->shape, 0))))
        return clef__fail(err, CLEF_E_SHAPE, "bias %s is not the last dim of %s",
                          clef__shape_text(n->graph, &bias->shape, text[0]),
                          clef__shape_text(n->graph, &n->shape, text[1]));
    return CLEF_OK;
}

static void matmul_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_ref_tensor *a = &in[0], *b = &in[1], *bias = &in[2];
    const double alpha = o->alpha != 0 ? (double)o->alpha : 1;
    const int64_t H = out->n[1], M = out->n[2], N = out->n[3], K = a->n[3];
    const int64_t group = clef__head_group(&n->in[0]->shape, &n->in[1]->shape);
    const int64_t step = o->transpose_b ? 1 : N;
    for (int64_t i = 0; i < out->n[0] * H * M * N; i++) {
        const int64_t i0 = i / N / M / H, i1 = i / N / M % H, m = i / N % M, col = i % N;
        const double *x = a->x + clef__ref_at(a, i0, i1, m, 0);
        const double *w =
            b->x + clef__ref_at(b, i0, i1 / group, o->transpose_b ? col : 0, o->transpose_b ? 0 : col);
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += x[k] * w[k * step];
        out->x[i] = alpha * sum + (bias->x ? bias->x[col] : 0);
    }
}

static clef_cost matmul_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = 2 * (double)clef__elements(n, symbols) *
                 (double)clef__dim_at(n->graph, clef__dim_right(&n->in[0]->shape, 0), symbols);
    return cost;
}

/* ---- lowering -------------------------------------------------------------------------------- */

/* Rebuilds the product with fewer rows of the weight; NULL if b is not a weight. */
static clef_value *matmul_shrink(clef__shrinker *s, const clef_value *n)
{
    enum { ROWS = 160 }; /* rows kept: some tiles of every kernel, and a remainder */
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *b = n->in[1];
    clef_value *in[3] = {0};
    if (b->kind != CLEF_WEIGHT || b->shape.rank != 2 || b == n->in[0])
        return NULL;
    const int32_t axis = o->transpose_b ? 0 : 1;
    const int64_t rows = clef__shrink_rows(b, axis, ROWS);
    in[0] = clef__shrink_copy(s, n->in[0]);
    in[1] = clef__shrink_cut(s, b, axis, rows);
    if (n->in[2])
        in[2] = clef__shrink_cut(s, n->in[2], 0, rows);
    return clef__node(clef__shrink_graph(s), CLEF_OP_matmul, in, 3, o);
}

const clef_op_def clef__op_matmul = {
    .name = "matmul",
    .formula = "out = alpha a b (+ bias), b [.., K, N] or, with transpose_b, [.., N, K]; "
               "a and b may be vectors [K]",
    .n_min = 2,
    .n_max = 3,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_WEIGHT | CLEF_IN_ROWS,
           CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = matmul_attrs,
    .attr_bytes = sizeof(clef_matmul_opts),
    .with_views = vector_product,
    .infer = matmul_infer,
    .ref = matmul_ref,
    .cost = matmul_cost,
    .lower = clef__lower_variant,
    .shrink = matmul_shrink,
    .tune = &clef__tune_matmul,
    .tol = 5e-6f, /* K terms rounded to 6e-8 sqrt(K) of the largest sum at random signs; K <= 1024 here, in
                     one chain at worst */
};
