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

/* The dims before the last two: those of a, with those of b broadcast against them. */
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

/* ---- lowering
 * --------------------------------------------------------------------------------------------------------------
 */

#define WEIGHT_CASES(dtype)                                                                                  \
    {.graph = "symbol T <= 19\ninput x f32 [2, T, 96]\nweight w " dtype                                      \
              " [67, 96]\ny = matmul(x, w) transpose_b=1\noutput y\n"},                                      \
        {.graph = "symbol T <= 3\ninput x f32 [T, 160]\nweight w " dtype " [130, 160]\nweight b f32 [130]\n" \
                  "y = matmul(x, w, b) transpose_b=1 alpha=0.5\noutput y\n"},                                \
    {                                                                                                        \
        .graph = "input x f32 [4, 1024]\nweight w " dtype                                                    \
                 " [5, 1024]\ny = matmul(x, w) transpose_b=1\noutput y\n"                                    \
    }
#define KN_CASES(dtype)                                                                                      \
    {.graph = "symbol T <= 19\ninput x f32 [2, T, 35]\nweight w " dtype                                      \
              " [35, 67]\ny = matmul(x, w)\noutput y\n"},                                                    \
    {                                                                                                        \
        .graph =                                                                                             \
            "symbol T <= 3\ninput x f32 [T, 300]\nweight w " dtype " [300, 150]\nweight b " dtype " [150]\n" \
            "y = matmul(x, w, b)\noutput y\n"                                                                \
    }

/* One row and several. */
#define BLOCK_CASE(dtype)                                                                                    \
    {                                                                                                        \
        .graph = "symbol T <= 6\ninput x f32 [T, 512]\nweight w " dtype                                      \
                 " [37, 512]\ny = matmul(x, w) transpose_b=1\noutput y\n"                                    \
    }

/* The product with fewer of the weight's rows; NULL where b is no weight. */
static clef_value *matmul_shrink(clef__shrinker *s, const clef_value *n)
{
    enum { ROWS = 160 }; /* kept: some tiles of every kernel, and a rest */
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

static const clef_op_case matmul_cases[] = {
    {.graph = "input a f32 [1, 1]\ninput b f32 [1, 1]\ny = matmul(a, b)\noutput y\n"},
    {.graph = "input a f32 [5, 7]\ninput b f32 [3, 7]\ny = matmul(a, b) transpose_b=1 alpha=-2\noutput y\n"},
    {.graph = "input a f32 [33, 17]\ninput b f32 [17, 1]\ny = matmul(a, b)\noutput y\n"},
    {.graph = "input a f32 [70, 300]\ninput b f32 [129, 300]\nweight c bf16 [129]\ny = matmul(a, b, c) "
              "transpose_b=1\noutput y\n"},
    {.graph = "input a f32 [130, 530]\ninput b f32 [530, 66]\nweight c f32 [66]\ny = matmul(a, b, c) "
              "alpha=0.25\noutput y\n"},
    WEIGHT_CASES("f32"),
    WEIGHT_CASES("f16"),
    WEIGHT_CASES("bf16"),
    WEIGHT_CASES("q8_0"),
    WEIGHT_CASES("q4_0"),
    CLEF_BLOCK_FORMATS(BLOCK_CASE),
    KN_CASES("f32"),
    KN_CASES("f16"),
    KN_CASES("bf16"),
    /* batches: plain, broadcast on either side */
    {.graph = "input a f32 [2, 3, 5, 17]\ninput b f32 [2, 3, 17, 9]\ny = matmul(a, b)\noutput y\n"},
    {.graph =
         "input a f32 [2, 1, 5, 17]\ninput b f32 [3, 9, 17]\ny = matmul(a, b) transpose_b=1\noutput y\n"},
    {.graph = "symbol B <= 3\ninput a f32 [B, 7, 17]\ninput b f32 [B, 17, 40]\ny = matmul(a, b)\noutput y\n"},
    /* heads: grouped, permuted views, slices of a cache */
    {.graph = "symbol T <= 6\nsymbol S <= 37\ninput q f32 [2, T, 6, 20]\ninput k f32 [2, 2, 40, 20]\nv = "
              "permute(q) axes=[0, 2, 1, 3]\n"
              "s = slice(k) axis=2 size=S\ny = matmul(v, s) transpose_b=1 alpha=0.3\noutput y\n"},
    {.graph = "symbol T <= 6\nsymbol S <= 37\ninput p f32 [2, 6, T, S]\ninput k f32 [2, 2, 40, 20]\ns = "
              "slice(k) axis=2 size=S\n"
              "y = matmul(p, s)\noutput y\n"},
    {.graph = "input x f32 [3, 5, 40]\nv = permute(x) axes=[1, 0, 2]\nu = slice(v) axis=2 start=3 "
              "size=33\nweight w f32 [17, 33]\n"
              "y = matmul(u, w) transpose_b=1\noutput y\n"},
    {.graph = "input x f32 [6, 4, 64]\nweight w q8_0 [3, 32, 64]\nv = slice(w) axis=0 start=1 size=1\n"
              "y = matmul(x, v) transpose_b=1\noutput y\n"},
    {.graph = NULL},
};

const clef_op_def clef__op_matmul = {
    .name = "matmul",
    .formula = "out = alpha a b (+ bias), b [.., K, N] or, with transpose_b, [.., N, K]",
    .n_min = 2,
    .n_max = 3,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_WEIGHT | CLEF_IN_ROWS,
           CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = matmul_attrs,
    .attr_bytes = sizeof(clef_matmul_opts),
    .infer = matmul_infer,
    .ref = matmul_ref,
    .cost = matmul_cost,
    .lower = clef__lower_variant,
    .shrink = matmul_shrink,
    .tune = &clef__tune_matmul,
    .cases = matmul_cases,
    .tol = 5e-6f, /* K terms rounded to 6e-8 sqrt(K) of the largest sum at random signs; K <= 1024 here, in
                     one chain at worst */
};
