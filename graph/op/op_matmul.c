/* matmul: the matrix product, with broadcast batches, grouped heads, floats a and b of any dtype. The work is
 * done by variants. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/lower/variant.h"
#include "graph/op/ways.h"
#include "graph/shrink.h"

static const clef_attr_def matmul_attrs[] = {
    {"transpose_b", CLEF_ATTR_INT, offsetof(clef_matmul_opts, transpose_b), NULL},
    {"alpha", CLEF_ATTR_FLOAT, offsetof(clef_matmul_opts, alpha), NULL},
    {"transpose_a", CLEF_ATTR_INT, offsetof(clef_matmul_opts, transpose_a), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_matmul(clef_graph *g, clef_value *a, clef_value *b, clef_value *bias,
                        const clef_matmul_opts *opts)
{
    return clef__node(g, CLEF_OP_matmul, (clef_value *[]){a, b, bias}, 3, opts);
}

/* K, as a has it. */
static clef_dim inner_of_a(const clef_shape *a, const clef_matmul_opts *o)
{
    return clef__dim_right(a, o->transpose_a ? 1 : 0);
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
    opts.transpose_a &= a->shape.rank > 1;
    opts.transpose_b |= b->shape.rank == 1;
    if (!clef__dim_equal(inner_of_a(&a->shape, &opts), clef__dim_right(&b->shape, opts.transpose_b ? 0 : 1)))
        return clef__graph_fail(g, CLEF_E_SHAPE, "matmul: a %s%s and b %s%s do not multiply",
                                clef__shape_text(g, &a->shape, text[0]),
                                opts.transpose_a ? " transposed" : "",
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
    if (!batch_dims(a, b, &n->shape) || !clef__dim_equal(inner_of_a(a, o), clef__dim_right(b, k_at)))
        return clef__fail(err, CLEF_E_SHAPE, "a %s%s and b %s%s do not multiply",
                          clef__shape_text(n->graph, a, text[0]), o->transpose_a ? " transposed" : "",
                          clef__shape_text(n->graph, b, text[1]), o->transpose_b ? " transposed" : "");
    n->shape.dim[n->shape.rank - 2] = clef__dim_right(a, o->transpose_a ? 0 : 1);
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
    const int64_t H = out->n[1], M = out->n[2], N = out->n[3], K = a->n[o->transpose_a ? 2 : 3];
    const int64_t group = clef__head_group(&n->in[0]->shape, &n->in[1]->shape);
    const int64_t step = o->transpose_b ? 1 : N, step_a = o->transpose_a ? M : 1;
    for (int64_t i = 0; i < out->n[0] * H * M * N; i++) {
        const int64_t i0 = i / N / M / H, i1 = i / N / M % H, m = i / N % M, col = i % N;
        const double *x = a->x + clef__ref_at(a, i0, i1, o->transpose_a ? 0 : m, o->transpose_a ? m : 0);
        const double *w =
            b->x + clef__ref_at(b, i0, i1 / group, o->transpose_b ? col : 0, o->transpose_b ? 0 : col);
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += x[k * step_a] * w[k * step];
        out->x[i] = alpha * sum + (bias->x ? bias->x[col] : 0);
    }
}

static clef_cost matmul_cost(const clef_value *n, const int64_t *symbols)
{
    const clef_dim k = inner_of_a(&n->in[0]->shape, (const void *)n->attr);
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = 2 * (double)clef__elements(n, symbols) * (double)clef__dim_at(n->graph, k, symbols);
    return cost;
}

/* ---- lowering -------------------------------------------------------------------------------- */

/* Sides kept: some tiles of every kernel, and a remainder; enough rows that matmul_gemm.c packs b first;
 * whole blocks of any dtype. */
enum { SHRUNK_N = 160, SHRUNK_M = 1100, SHRUNK_K = 768 };

static int is_cuttable(const clef_value *v)
{
    return v->shape.rank == 2 && !v->shape.dim[0].symbol && !v->shape.dim[1].symbol &&
           v->kind != CLEF_CONSTANT && (clef__base(v) == v || clef__base(v)->kind != CLEF_STATE);
}

/* Cuts all sides of a product of matrices whose sizes are fixed; NULL if it is none. */
static clef_value *cut_product(clef__shrinker *s, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *a = n->in[0], *b = n->in[1], *bias = n->in[2];
    const int32_t k_of_a = o->transpose_a ? 0 : 1, k_of_b = o->transpose_b ? 1 : 0;
    if (!is_cuttable(a) || !is_cuttable(b) || a == b || (bias && bias->kind == CLEF_CONSTANT))
        return NULL;
    clef_shape sa = a->shape, sb = b->shape;
    sa.dim[k_of_a] = sb.dim[k_of_b] = clef_n(clef__shrink_rows(a, k_of_a, SHRUNK_K));
    sa.dim[1 - k_of_a] = clef_n(clef__shrink_rows(a, 1 - k_of_a, SHRUNK_M));
    sb.dim[1 - k_of_b] = clef_n(clef__shrink_rows(b, 1 - k_of_b, SHRUNK_N));
    clef_value *in[3] = {clef__shrink_to(s, a, &sa), clef__shrink_to(s, b, &sb)};
    if (bias)
        in[2] = clef__shrink_cut(s, bias, 0, sb.dim[1 - k_of_b].n);
    return clef__node(clef__shrink_graph(s), CLEF_OP_matmul, in, 3, o);
}

/* Rebuilds the product with fewer rows of the weight, or of all sides if they are fixed. */
static clef_value *matmul_shrink(clef__shrinker *s, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *b = n->in[1];
    clef_value *in[3] = {0};
    if (b->kind != CLEF_WEIGHT || b->shape.rank != 2 || b == n->in[0])
        return cut_product(s, n);
    const int32_t axis = o->transpose_b ? 0 : 1;
    const int64_t rows = clef__shrink_rows(b, axis, SHRUNK_N);
    in[0] = clef__shrink_copy(s, n->in[0]);
    in[1] = clef__shrink_cut(s, b, axis, rows);
    if (n->in[2])
        in[2] = clef__shrink_cut(s, n->in[2], 0, rows);
    return clef__node(clef__shrink_graph(s), CLEF_OP_matmul, in, 3, o);
}

/* alpha a^T b of a [.., R, M] and b [.., R, N]. */
static clef_value *product_of_columns(clef_value *a, clef_value *b, float alpha)
{
    return a ? clef_matmul(a->graph, a, b, NULL, &(clef_matmul_opts){.alpha = alpha, .transpose_a = 1})
             : NULL;
}

/* x [B, H, M, N] as [B, Hk, H / Hk M, N], if Hk heads of b serve its H: the rows of heads that share a
 * matrix. */
static clef_value *join_groups(clef_value *x, const clef_value *b)
{
    const int64_t group = x ? clef__head_group(&x->shape, &b->shape) : 1;
    clef_shape shape = x ? x->shape : (clef_shape){0};
    if (group == 1)
        return x;
    shape.dim[1].n /= group;
    shape.dim[2].n *= group;
    return clef_reshape(x->graph, x, shape);
}

/* The rule of alpha a^T b, with a [.., K, M]. */
static void transposed_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    clef_value *a = n->in[0], *b = n->in[1];
    if (clef__head_group(&n->shape, &b->shape) != 1) {
        clef__graph_fail(n->graph, CLEF_E_UNSUPPORTED,
                         "%s: no gradient where heads share a matrix and a is transposed", n->name);
        return;
    }
    const clef_matmul_opts of_a = {.transpose_a = o->transpose_b, .transpose_b = 1, .alpha = o->alpha},
                           of_b = {.transpose_a = 1, .transpose_b = 1, .alpha = o->alpha},
                           plain = {.alpha = o->alpha};
    if (clef__wants_gradient(gr, a)) {
        clef_value *floats = b->dtype == CLEF_F32 ? b : clef_copy(n->graph, b);
        clef__add_gradient(gr, a, clef_matmul(n->graph, floats, d, NULL, &of_a));
    }
    if (clef__wants_gradient(gr, b))
        clef__add_gradient(gr, b,
                           o->transpose_b ? clef_matmul(n->graph, d, a, NULL, &of_b)
                                          : clef_matmul(n->graph, a, d, NULL, &plain));
}

static void matmul_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    clef_graph *g = n->graph;
    clef_value *a = n->in[0], *b = n->in[1];
    const int joins_rows =
        b->shape.rank == 2; /* b is one matrix for all batches: their rows are one matrix */
    clef__add_gradient(gr, n->in[2], d);
    if (o->transpose_a) {
        transposed_rule(gr, n, d);
        return;
    }
    clef_value *rows = joins_rows ? clef__as_rows(a) : join_groups(a, b);
    d = joins_rows ? d : join_groups(d, b);
    if (joins_rows)
        d = clef__as_rows(d);
    if (clef__wants_gradient(gr, a)) { /* blocks lie along the dim that b would be read across */
        b = clef_dtype_block_elems(b->dtype) > 1 && o->transpose_b ? clef_copy(g, b) : b;
        const clef_matmul_opts back = {.transpose_b = !o->transpose_b, .alpha = o->alpha};
        clef_value *x = clef_matmul(g, d, b, NULL, &back);
        clef__add_gradient(gr, a, rows != a && x ? clef_reshape(g, x, a->shape) : x);
    }
    if (clef__wants_gradient(gr, b))
        clef__add_gradient(gr, b,
                           o->transpose_b ? product_of_columns(d, rows, o->alpha)
                                          : product_of_columns(rows, d, o->alpha));
}

const clef_op_def clef__op_matmul = {
    .name = "matmul",
    .formula = "out = alpha a b (+ bias), a [.., M, K] or, with transpose_a, [.., K, M]; b [.., K, N] or, "
               "with transpose_b, [.., N, K]; a and b may be vectors [K]",
    .n_min = 2,
    .n_max = 3,
    .in = {CLEF_IN_FLOAT | CLEF_IN_ROWS, CLEF_IN_WEIGHT | CLEF_IN_ROWS,
           CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = matmul_attrs,
    .attr_bytes = sizeof(clef_matmul_opts),
    .with_views = vector_product,
    .infer = matmul_infer,
    .way = clef__way_matmul,
    .sum = clef__sum_matmul,
    .ref = matmul_ref,
    .cost = matmul_cost,
    .lower = clef__lower_variant,
    .shrink = matmul_shrink,
    .tune = &clef__tune_matmul,
    .grad = matmul_rule,
    .tol = 5e-6f, /* K terms rounded to 6e-8 sqrt(K) of the largest sum at random signs; K <= 1024 here, in
                     one chain at worst */
};
