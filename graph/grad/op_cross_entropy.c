/* log_sum_exp, cross_entropy and its gradient: the loss of classifiers and language models. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/op.h"

/* Which column a label means: label / each - first. */
typedef struct cross_entropy_attr {
    int32_t first; /* where the columns are a part of all: the label of column 0 */
    int32_t each;  /* where a column stands for so many labels: their number; 0 means 1 */
} cross_entropy_attr;

static const clef_attr_def cross_entropy_attrs[] = {
    {"first", CLEF_ATTR_INT, offsetof(cross_entropy_attr, first), NULL},
    {"each", CLEF_ATTR_INT, offsetof(cross_entropy_attr, each), NULL},
    {NULL, 0, 0, NULL},
};

/* ---- builders --------------------------------------------------------------------------------- */

clef_value *clef_log_sum_exp(clef_graph *g, clef_value *x)
{
    return clef__node(g, CLEF_OP_log_sum_exp, (clef_value *[]){x}, 1, NULL);
}

/* -log softmax(x)[column] of each row. */
static clef_value *cross_entropy(clef_value *x, clef_value *labels, clef_value *lse, cross_entropy_attr attr)
{
    return x ? clef__node(x->graph, CLEF_OP_cross_entropy, (clef_value *[]){x, labels, lse}, 3, &attr) : NULL;
}

clef_value *clef_cross_entropy(clef_graph *g, clef_value *x, clef_value *labels)
{
    return cross_entropy(x, labels, clef_log_sum_exp(g, x), (cross_entropy_attr){0});
}

/* Rows first .. of w and of bias, and their logits. */
static clef_value *piece_of_logits(clef_value *x, clef_value *w, clef_value *bias, int64_t first, int64_t n,
                                   float alpha)
{
    clef_graph *g = x->graph;
    const clef_slice_opts rows = {.axis = 0, .start = (int32_t)first, .size = clef_n(n)};
    clef_value *b = bias ? clef_slice(g, bias, &rows) : NULL;
    return clef_matmul(g, x, clef_slice(g, w, &rows), b,
                       &(clef_matmul_opts){.transpose_b = 1, .alpha = alpha});
}

/* The probability of a token is that of its piece, times that of the token in its piece. So each piece is
 * done with when the logarithm of its sum, and the loss of the rows whose label it has, are known. */
clef_value *clef_linear_cross_entropy(clef_graph *g, clef_value *x, clef_value *w, clef_value *bias,
                                      clef_value *labels, const clef_linear_cross_entropy_opts *opts)
{
    enum { MOST_PIECES = 64 };
    const clef_linear_cross_entropy_opts o = opts ? *opts : (clef_linear_cross_entropy_opts){0};
    clef_value *sums = NULL, *loss = NULL;
    if (!x || !w || !labels)
        return NULL;
    if (w->shape.rank != 2 || x->shape.rank != 2 || w->shape.dim[0].symbol)
        return clef__graph_fail(g, CLEF_E_SHAPE, "linear_cross_entropy: expected x [R, D] and w [V, D]");
    const int64_t V = w->shape.dim[0].n, each = o.pieces > 1 ? (V + o.pieces - 1) / o.pieces : V;
    const int64_t n = (V + each - 1) / each;
    if (n > MOST_PIECES)
        return clef__graph_fail(g, CLEF_E_LIMIT, "linear_cross_entropy: %lld pieces, expected at most %d",
                                (long long)n, MOST_PIECES);
    if (n == 1)
        return clef_cross_entropy(g, piece_of_logits(x, w, bias, 0, V, o.alpha), labels);
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = i * each;
        clef_scope_push(g, "loss.layer%d", (int)i); /* computed again for the gradient: CLEF__PART_LOSS */
        clef_value *logits = piece_of_logits(x, w, bias, first, V - first < each ? V - first : each, o.alpha),
                   *sum = clef_log_sum_exp(g, logits),
                   *part = cross_entropy(logits, labels, sum, (cross_entropy_attr){.first = (int32_t)first});
        clef_scope_pop(g);
        sum = sum ? clef_reshape(g, sum, clef_shape_2(sum->shape.dim[0], clef_n(1))) : NULL;
        sums = sums ? clef_concat(g, sums, sum, &(clef_concat_opts){.axis = 1}) : sum;
        loss = loss ? clef_add(g, loss, part) : part;
    }
    clef_value *of_piece =
        cross_entropy(sums, labels, clef_log_sum_exp(g, sums), (cross_entropy_attr){.each = (int32_t)each});
    return clef_add(g, loss, of_piece);
}

/* ---- log_sum_exp ------------------------------------------------------------------------------ */

static clef_status log_sum_exp_infer(clef_value *n, clef_error *err)
{
    if (n->in[0]->shape.rank == 0)
        return clef__fail(err, CLEF_E_SHAPE, "x is a scalar, expected a last dim");
    clef__infer_same(n, err);
    n->shape.rank--;
    return CLEF_OK;
}

static double log_sum_exp(const double *x, int64_t n)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - most);
    return most > -INFINITY ? most + log(sum) : most;
}

static void log_sum_exp_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    for (int64_t r = 0; r < in->n[0] * in->n[1] * in->n[2]; r++)
        out->x[r] = log_sum_exp(in->x + r * in->n[3], in->n[3]);
}

static clef_cost log_sum_exp_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = 4 * (double)clef__elements(n->in[0], symbols);
    return cost;
}

static clef_status launch_rows(clef_lowering *lo, const clef_value *n, const char *kernel,
                               const clef_value *labels, const clef_value *lse, const clef_value *d,
                               clef_error *err)
{
    const clef_value *x = n->in[0];
    cross_entropy_args args = {.x = clef__view(lo, x),
                               .labels = clef__view(lo, labels).offset,
                               .lse = clef__view(lo, lse).offset,
                               .d = clef__view(lo, d).offset,
                               .each = 1};
    if (n->op != CLEF_OP_log_sum_exp) {
        const cross_entropy_attr *attr = (const void *)n->attr;
        args.first = (args_uint)attr->first;
        args.each = attr->each > 0 ? (args_uint)attr->each : 1;
    }
    clef__n4(lo, x, args.n);
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, x, 0));
    clef_launch launch = {.source = "cross_entropy",
                          .kernel = kernel,
                          .defs = {{"WG", (int32_t)wg}},
                          .args = &args,
                          .args_bytes = sizeof args,
                          .bufs = {n, x, labels, lse, d},
                          .n_bufs = d     ? 5
                                    : lse ? 4
                                          : 2,
                          .groups = {clef__rows(lo, x)},
                          .local = {wg}};
    return clef__launch(lo, &launch, err);
}

static clef_status log_sum_exp_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return launch_rows(lo, n, "log_sum_exp", NULL, NULL, NULL, err);
}

/* [..] as [.., 1]. */
static clef_value *with_last_dim(clef_value *x)
{
    clef_shape shape = x->shape;
    shape.dim[shape.rank++] = clef_n(1);
    return clef_reshape(x->graph, x, shape);
}

static void log_sum_exp_grad(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef_value *p = clef_exp(n->graph, clef_sub(n->graph, n->in[0], with_last_dim(n)));
    clef__add_gradient(gr, n->in[0], clef_mul(n->graph, p, with_last_dim(d)));
}

const clef_op_def clef__op_log_sum_exp = {
    .name = "log_sum_exp",
    .formula = "out = ln sum exp(x) over the last dim, which is dropped",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS},
    .infer = log_sum_exp_infer,
    .ref = log_sum_exp_ref,
    .cost = log_sum_exp_cost,
    .lower = log_sum_exp_lower,
    .grad = log_sum_exp_grad,
    .tol = 2e-6f, /* as softmax */
};

/* ---- cross_entropy ---------------------------------------------------------------------------- */

static clef_status check_rows(const clef_value *n, clef_error *err)
{
    clef_shape rows = n->in[0]->shape;
    char a[96], b[96];
    rows.rank--;
    for (int32_t i = 1; i < n->n_in; i++)
        if (rows.rank < 0 || !clef__shape_equal(&n->in[i]->shape, &rows))
            return clef__fail(err, CLEF_E_SHAPE, "%s %s, expected one for each row of x %s",
                              i == 1   ? "labels"
                              : i == 2 ? "log_sum_exp"
                                       : "d",
                              clef__shape_text(n->graph, &n->in[i]->shape, a),
                              clef__shape_text(n->graph, &n->in[0]->shape, b));
    return CLEF_OK;
}

static clef_status cross_entropy_infer(clef_value *n, clef_error *err)
{
    const clef_status s = check_rows(n, err);
    if (s)
        return s;
    n->dtype = CLEF_F32;
    n->shape = n->in[1]->shape;
    return CLEF_OK;
}

/* The column of row r's label, -1 if it is not among them. */
static int64_t label_column(const clef_value *n, const clef_ref_tensor *in, int64_t r)
{
    const cross_entropy_attr *o = (const void *)n->attr;
    const double column = floor(in[1].x[r] / (o->each > 0 ? o->each : 1)) - o->first;
    return in[1].x[r] >= 0 && column >= 0 && column < (double)in[0].n[3] ? (int64_t)column : -1;
}

static void cross_entropy_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t N = in[0].n[3];
    for (int64_t r = 0; r < in[0].n[0] * in[0].n[1] * in[0].n[2]; r++) {
        const int64_t at = label_column(n, in, r);
        out->x[r] = at < 0 ? 0 : in[2].x[r] - in[0].x[r * N + at];
    }
}

static clef_cost cross_entropy_cost(const clef_value *n, const int64_t *symbols)
{
    const double rows = (double)clef__elements(n, symbols);
    return (clef_cost){.flops = rows, .bytes = 16 * rows};
}

static clef_status cross_entropy_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return launch_rows(lo, n, "cross_entropy", n->in[1], n->in[2], NULL, err);
}

/* lse is a function of x, so the rule gives x all of the gradient, and lse none. */
static void cross_entropy_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef__add_gradient(gr, n->in[0],
                       clef__node(n->graph, CLEF_OP_cross_entropy_grad,
                                  (clef_value *[]){n->in[0], n->in[1], n->in[2], d}, 4, n->attr));
}

const clef_op_def clef__op_cross_entropy = {
    .name = "cross_entropy",
    .formula = "out = log_sum_exp(x) - x[label / each - first], 0 where x has no such column",
    .n_min = 3,
    .n_max = 3,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_I32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = cross_entropy_attrs,
    .attr_bytes = sizeof(cross_entropy_attr),
    .infer = cross_entropy_infer,
    .ref = cross_entropy_ref,
    .cost = cross_entropy_cost,
    .lower = cross_entropy_lower,
    .grad = cross_entropy_rule,
    .tol = 2e-6f, /* as log_sum_exp */
};

/* ---- its gradient ----------------------------------------------------------------------------- */

static clef_status cross_entropy_grad_infer(clef_value *n, clef_error *err)
{
    const clef_status s = check_rows(n, err);
    return s ? s : clef__infer_same(n, err);
}

static void cross_entropy_grad_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const int64_t N = in[0].n[3];
    for (int64_t r = 0; r < in[0].n[0] * in[0].n[1] * in[0].n[2]; r++) {
        const int64_t at = label_column(n, in, r);
        for (int64_t i = 0; i < N; i++)
            out->x[r * N + i] = at < 0 ? 0 : in[3].x[r] * (exp(in[0].x[r * N + i] - in[2].x[r]) - (i == at));
    }
}

static clef_status cross_entropy_grad_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return launch_rows(lo, n, "cross_entropy_grad", n->in[1], n->in[2], n->in[3], err);
}

const clef_op_def clef__op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .formula =
        "out = d (exp(x - log_sum_exp) - (column = label / each - first)), 0 where x has no such column",
    .n_min = 4,
    .n_max = 4,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_I32 | CLEF_IN_DENSE, CLEF_IN_F32 | CLEF_IN_DENSE,
           CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = cross_entropy_attrs,
    .attr_bytes = sizeof(cross_entropy_attr),
    .infer = cross_entropy_grad_infer,
    .ref = cross_entropy_grad_ref,
    .flops = 3,
    .lower = cross_entropy_grad_lower,
    .in_place = 1,
    .tol = 2e-6f,
};
