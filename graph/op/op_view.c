/* reshape, permute and slice: views, which share memory with their input and need no launch. */
#include <inttypes.h>
#include <string.h>

#include "graph/grad/gradient.h"
#include "graph/op.h"
#include "graph/op/ways.h"

/* A view costs nothing, since it reads and writes nothing. */
static clef_cost no_cost(const clef_value *n, const int64_t *symbols)
{
    (void)n;
    (void)symbols;
    return (clef_cost){0};
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* The shape is the result's type, not an attribute of the op. This attribute only passes it to infer. */
typedef struct reshape_attr {
    const clef_shape *wanted;
} reshape_attr;

clef_value *clef_reshape(clef_graph *g, clef_value *x, clef_shape shape)
{
    const reshape_attr attr = {&shape};
    return clef__node(g, CLEF_OP_reshape, (clef_value *[]){x}, 1, &attr);
}

/* Computes the product of the numbers, and how often each symbol occurs. Returns 0 if s is not a valid
 * shape. */
static int product(const clef_graph *g, const clef_shape *s, int64_t *n, int32_t powers[CLEF_MAX_SYMBOLS])
{
    if (s->rank < 0 || s->rank > CLEF_MAX_DIMS)
        return 0;
    *n = 1;
    memset(powers, 0, CLEF_MAX_SYMBOLS * sizeof *powers);
    for (int32_t i = 0; i < s->rank; i++) {
        const clef_dim d = s->dim[i];
        if (d.n < 1 || d.n > INT32_MAX || d.symbol < 0 || d.symbol > g->n_symbols || *n > INT64_MAX / d.n)
            return 0;
        *n *= d.n;
        if (d.symbol)
            powers[d.symbol - 1]++;
    }
    return 1;
}

static clef_status reshape_infer(clef_value *n, clef_error *err)
{
    reshape_attr *attr = (void *)n->attr;
    const clef_value *x = n->in[0];
    const int32_t block = clef_dtype_block_elems(x->dtype);
    int32_t powers[2][CLEF_MAX_SYMBOLS];
    int64_t count[2];
    char a[96], b[96];
    if (attr->wanted)
        n->shape = *attr->wanted;
    attr->wanted = NULL;
    n->dtype = x->dtype;
    if (!product(n->graph, &n->shape, &count[0], powers[0]))
        return clef__fail(err, CLEF_E_SHAPE,
                          "the new shape has too many elements, or a dim that is not a positive number");
    if (!product(n->graph, &x->shape, &count[1], powers[1]) || count[0] != count[1] ||
        memcmp(powers[0], powers[1], sizeof powers[0]) != 0)
        return clef__fail(err, CLEF_E_SHAPE, "%s does not have as many elements as x %s",
                          clef__shape_text(n->graph, &n->shape, a), clef__shape_text(n->graph, &x->shape, b));
    if (block > 1 && clef__dim_right(&n->shape, 0).n % block)
        return clef__fail(err, CLEF_E_SHAPE, "rows of %s are not whole blocks of %s",
                          clef__shape_text(n->graph, &n->shape, a), clef_dtype_name(x->dtype));
    return CLEF_OK;
}

static void reshape_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    memcpy(out->x, in[0].x, (size_t)(out->n[0] * out->n[1] * out->n[2] * out->n[3]) * sizeof *out->x);
}

static void reshape_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef__add_gradient(gr, n->in[0], clef_reshape(n->graph, d, n->in[0]->shape));
}

const clef_op_def clef__op_reshape = {
    .name = "reshape",
    .formula = "out = x in another shape",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_DENSE},
    .attr_bytes = sizeof(reshape_attr),
    .infer = reshape_infer,
    .way = clef__way_reshape,
    .sum = clef__sum_linear,
    .ref = reshape_ref,
    .cost = no_cost,
    .view = 1,
    .grad = reshape_rule,
    .tol = 5e-6f, /* for the matmul in a case; the view itself is exact */
};

/* ---- permute --------------------------------------------------------------------------------- */

static const clef_attr_def permute_attrs[] = {
    {"axes", CLEF_ATTR_AXES, offsetof(clef_permute_opts, axes), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_permute(clef_graph *g, clef_value *x, const clef_permute_opts *opts)
{
    return clef__node(g, CLEF_OP_permute, (clef_value *[]){x}, 1, opts);
}

static clef_status permute_infer(clef_value *n, clef_error *err)
{
    const clef_permute_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0];
    uint32_t seen = 0;
    char text[96];
    n->dtype = x->dtype;
    n->shape = x->shape;
    for (int32_t i = 0; i < x->shape.rank; i++) {
        const int32_t axis = o->axes[i];
        if (axis < 0 || axis >= x->shape.rank || (seen >> axis & 1))
            return clef__fail(err, CLEF_E_ARG, "axes [%d, %d, %d, %d] do not name each axis of %s once",
                              o->axes[0], o->axes[1], o->axes[2], o->axes[3],
                              clef__shape_text(n->graph, &x->shape, text));
        seen |= 1u << axis;
        n->shape.dim[i] = x->shape.dim[axis];
    }
    if (clef_dtype_block_elems(x->dtype) > 1 && o->axes[x->shape.rank - 1] != x->shape.rank - 1)
        return clef__fail(err, CLEF_E_SHAPE, "the last axis of %s %s holds blocks and must stay the last",
                          clef_dtype_name(x->dtype), clef__shape_text(n->graph, &x->shape, text));
    return CLEF_OK;
}

static void permute_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_permute_opts *o = (const void *)n->attr;
    const int32_t pad = CLEF_MAX_DIMS - n->shape.rank;
    int64_t dense[CLEF_MAX_DIMS] = {in->n[1] * in->n[2] * in->n[3], in->n[2] * in->n[3], in->n[3], 1},
            stride[CLEF_MAX_DIMS];
    for (int32_t i = 0; i < CLEF_MAX_DIMS; i++)
        stride[i] = dense[i < pad ? i : o->axes[i - pad] + pad];
    double *to = out->x;
    for (int64_t i0 = 0; i0 < out->n[0]; i0++)
        for (int64_t i1 = 0; i1 < out->n[1]; i1++)
            for (int64_t i2 = 0; i2 < out->n[2]; i2++)
                for (int64_t i3 = 0; i3 < out->n[3]; i3++)
                    *to++ = in->x[i0 * stride[0] + i1 * stride[1] + i2 * stride[2] + i3 * stride[3]];
}

static void permute_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_permute_opts *o = (const void *)n->attr;
    clef_permute_opts back = {{0}};
    for (int32_t i = 0; i < n->shape.rank; i++)
        back.axes[o->axes[i]] = i;
    clef__add_gradient(gr, n->in[0], clef_permute(n->graph, d, &back));
}

const clef_op_def clef__op_permute = {
    .name = "permute",
    .formula = "out dim i = x dim axes[i]",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_VIEW},
    .attrs = permute_attrs,
    .attr_bytes = sizeof(clef_permute_opts),
    .infer = permute_infer,
    .way = clef__way_permute,
    .sum = clef__sum_linear,
    .ref = permute_ref,
    .cost = no_cost,
    .view = 1,
    .grad = permute_rule,
    .tol = 0, /* exact */
};

/* ---- slice ----------------------------------------------------------------------------------- */

static const clef_attr_def slice_attrs[] = {
    {"axis", CLEF_ATTR_INT, offsetof(clef_slice_opts, axis), NULL},
    {"start", CLEF_ATTR_INT, offsetof(clef_slice_opts, start), NULL},
    {"size", CLEF_ATTR_DIM, offsetof(clef_slice_opts, size), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_slice(clef_graph *g, clef_value *x, const clef_slice_opts *opts)
{
    return clef__node(g, CLEF_OP_slice, (clef_value *[]){x}, 1, opts);
}

static int slice_fits_at(int64_t start, int64_t size, int64_t dim)
{
    const int64_t from = start < 0 ? start + dim : start;
    return from >= 0 && size <= dim && from <= dim - size;
}

/* Whether the slice is within the axis for all values of the symbols. Sizes are linear in their symbol, so it
 * suffices to check both ends. */
static int slice_fits(const clef_graph *g, int32_t start, clef_dim size, clef_dim dim)
{
    const int64_t size_most = clef__dim_at(g, size, NULL), dim_most = clef__dim_at(g, dim, NULL);
    if (size.symbol == dim.symbol)
        return slice_fits_at(start, size.n, dim.n) && slice_fits_at(start, size_most, dim_most);
    return slice_fits_at(start, size_most, dim.n); /* the largest slice of the smallest axis */
}

static clef_status slice_infer(clef_value *n, clef_error *err)
{
    clef_slice_opts *o = (void *)n->attr;
    const clef_value *x = n->in[0];
    char a[96], b[96];
    const clef_shape size = {.rank = 1, .dim = {o->size}};
    if (o->axis < 0)
        o->axis += x->shape.rank;
    if (o->axis < 0 || o->axis >= x->shape.rank)
        return clef__fail(err, CLEF_E_ARG, "axis %d of %s", o->axis,
                          clef__shape_text(n->graph, &x->shape, a));
    if (o->size.n < 1 || o->size.n > INT32_MAX || o->size.symbol < 0 || o->size.symbol > n->graph->n_symbols)
        return clef__fail(err, CLEF_E_ARG, "size %" PRId64 ", expected a positive number or a symbol",
                          o->size.n);
    if (!slice_fits(n->graph, o->start, o->size, x->shape.dim[o->axis]))
        return clef__fail(err, CLEF_E_SHAPE, "%s from %d is not within axis %d of %s",
                          clef__shape_text(n->graph, &size, a), o->start, o->axis,
                          clef__shape_text(n->graph, &x->shape, b));
    if (clef_dtype_block_elems(x->dtype) > 1 && o->axis == x->shape.rank - 1)
        return clef__fail(err, CLEF_E_SHAPE, "the last axis of %s %s holds blocks and cannot be cut",
                          clef_dtype_name(x->dtype), clef__shape_text(n->graph, &x->shape, a));
    n->dtype = x->dtype;
    n->shape = x->shape;
    n->shape.dim[o->axis] = o->size;
    return CLEF_OK;
}

static void slice_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_slice_opts *o = (const void *)n->attr;
    const int32_t axis = o->axis + CLEF_MAX_DIMS - n->shape.rank;
    int64_t from[CLEF_MAX_DIMS] = {0};
    from[axis] = o->start < 0 ? o->start + in->n[axis] : o->start;
    double *to = out->x;
    for (int64_t i0 = 0; i0 < out->n[0]; i0++)
        for (int64_t i1 = 0; i1 < out->n[1]; i1++)
            for (int64_t i2 = 0; i2 < out->n[2]; i2++)
                for (int64_t i3 = 0; i3 < out->n[3]; i3++)
                    *to++ = in->x[clef__ref_at(in, i0 + from[0], i1 + from[1], i2 + from[2], i3 + from[3])];
}

static void slice_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_slice_opts *o = (const void *)n->attr;
    const clef_dim whole = n->in[0]->shape.dim[o->axis];
    if (clef__dim_equal(whole, o->size))
        clef__add_gradient(gr, n->in[0], d);
    else
        clef__add_gradient_of_part(gr, n->in[0], o->axis,
                                   o->start < 0 ? o->start + (int32_t)whole.n : o->start, d);
}

const clef_op_def clef__op_slice = {
    .name = "slice",
    .formula = "out = `size` elements of an axis of x, from `start`",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_VIEW},
    .attrs = slice_attrs,
    .attr_bytes = sizeof(clef_slice_opts),
    .infer = slice_infer,
    .way = clef__way_slice,
    .sum = clef__sum_linear,
    .ref = slice_ref,
    .cost = no_cost,
    .view = 1,
    .grad = slice_rule,
    .tol = 0, /* exact */
};
