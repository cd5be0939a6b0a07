/* copy and concat: make dense values from views. */
#include <string.h>

#include "graph/grad/gradient.h"
#include "graph/lower/elementwise.h"
#include "graph/op/ways.h"

clef_value *clef_copy(clef_graph *g, clef_value *x)
{
    return clef__node(g, CLEF_OP_copy, (clef_value *[]){x}, 1, NULL);
}

static clef_status copy_infer(clef_value *n, clef_error *err)
{
    const clef_dtype t = n->in[0]->dtype;
    clef__infer_same(n, err);
    n->dtype = t == CLEF_I32 || t == CLEF_I8 ? t : CLEF_F32;
    return CLEF_OK;
}

static void copy_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    memcpy(out->x, in[0].x, (size_t)(out->n[0] * out->n[1] * out->n[2] * out->n[3]) * sizeof *out->x);
}

static void copy_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef__add_gradient(gr, n->in[0], d);
}

const clef_op_def clef__op_copy = {
    .name = "copy",
    .formula = "out = x, dense; floats and block formats become f32, whole numbers stay what they are",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_WEIGHT | CLEF_IN_MASK},
    .infer = copy_infer,
    .way = clef__way_elementwise,
    .sum = clef__sum_linear,
    .ref = copy_ref,
    .lower = clef__lower_named,
    .grad = copy_rule,
    .tol = 2e-7f, /* exact; a block's product of scale and number is rounded once */
};

/* ---- concat ---------------------------------------------------------------------------------- */

static const clef_attr_def concat_attrs[] = {
    {"axis", CLEF_ATTR_INT, offsetof(clef_concat_opts, axis), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_concat(clef_graph *g, clef_value *a, clef_value *b, const clef_concat_opts *opts)
{
    return clef__node(g, CLEF_OP_concat, (clef_value *[]){a, b}, 2, opts);
}

static clef_status concat_infer(clef_value *n, clef_error *err)
{
    clef_concat_opts *o = (void *)n->attr;
    const clef_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    char text[2][96];
    if (o->axis < 0)
        o->axis += a->rank;
    if (o->axis < 0 || o->axis >= a->rank)
        return clef__fail(err, CLEF_E_ARG, "axis %d of %s", o->axis, clef__shape_text(n->graph, a, text[0]));
    n->dtype = CLEF_F32;
    n->shape = *a;
    int fits = a->rank == b->rank;
    for (int32_t i = 0; i < a->rank && fits; i++)
        fits = i == o->axis ? !a->dim[i].symbol && !b->dim[i].symbol : clef__dim_equal(a->dim[i], b->dim[i]);
    if (!fits)
        return clef__fail(err, CLEF_E_SHAPE, "%s and %s do not join along axis %d",
                          clef__shape_text(n->graph, a, text[0]), clef__shape_text(n->graph, b, text[1]),
                          o->axis);
    n->shape.dim[o->axis].n += b->dim[o->axis].n;
    if (n->shape.dim[o->axis].n > INT32_MAX)
        return clef__fail(err, CLEF_E_LIMIT, "axis %d has more than %d elements", o->axis, INT32_MAX);
    return CLEF_OK;
}

/* In padded dims, `outer` is the number of runs before the axis; na and nb are the lengths of a run in a and
 * b. */
static void concat_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_concat_opts *o = (const void *)n->attr;
    const int32_t axis = o->axis + CLEF_MAX_DIMS - n->shape.rank;
    int64_t outer = 1, inner = 1;
    for (int32_t i = 0; i < CLEF_MAX_DIMS; i++) {
        outer *= i < axis ? out->n[i] : 1;
        inner *= i > axis ? out->n[i] : 1;
    }
    const size_t na = (size_t)(in[0].n[axis] * inner), nb = (size_t)(in[1].n[axis] * inner);
    for (size_t r = 0; r < (size_t)outer; r++) {
        memcpy(out->x + r * (na + nb), in[0].x + r * na, na * sizeof *out->x);
        memcpy(out->x + r * (na + nb) + na, in[1].x + r * nb, nb * sizeof *out->x);
    }
}

/* Launches two copies to the slices of the output. */
static clef_status concat_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_concat_opts *o = (const void *)n->attr;
    const int32_t axis = o->axis + CLEF_MAX_DIMS - n->shape.rank;
    clef_status s = CLEF_OK;
    args_uint whole[4];
    clef__n4(lo, n, whole);
    view_args to = clef__dense_view(whole);
    for (int32_t i = 0; i < 2 && !s; i++) {
        clef_elementwise e = {
            .what = "copy", .out = n, .x = n->in[i], .out_view = to, .x_view = clef__view(lo, n->in[i])};
        clef__n4(lo, n->in[i], e.n);
        s = clef__launch_elementwise(lo, &e, err);
        to.offset += e.n[axis] * to.stride[axis];
    }
    return s;
}

static void concat_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_concat_opts *o = (const void *)n->attr;
    int32_t start = 0;
    for (int32_t i = 0; i < 2; i++) {
        const clef_dim size = n->in[i]->shape.dim[o->axis];
        if (clef__wants_gradient(gr, n->in[i]))
            clef__add_gradient(
                gr, n->in[i],
                clef_slice(n->graph, d, &(clef_slice_opts){.axis = o->axis, .start = start, .size = size}));
        start += (int32_t)size.n;
    }
}

const clef_op_def clef__op_concat = {
    .name = "concat",
    .formula = "out = a and b joined along an axis",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_FLOAT, CLEF_IN_FLOAT},
    .attrs = concat_attrs,
    .attr_bytes = sizeof(clef_concat_opts),
    .infer = concat_infer,
    .way = clef__way_concat,
    .ref = concat_ref,
    .lower = concat_lower,
    .at_load = 1, /* joins the biases of weights that are packed together */
    .grad = concat_rule,
    .tol = 0, /* exact */
};
