/* sum_axes and expand: the sum over chosen dims, and the broadcast that it undoes. */
#include "graph/grad/gradient.h"
#include "graph/lower/elementwise.h"

/* ---- sum_axes --------------------------------------------------------------------------------- */

static const clef_attr_def sum_axes_attrs[] = {
    {"axes", CLEF_ATTR_INT, offsetof(clef_sum_axes_opts, axes), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_sum_axes(clef_graph *g, clef_value *x, const clef_sum_axes_opts *opts)
{
    return clef__node(g, CLEF_OP_sum_axes, (clef_value *[]){x}, 1, opts);
}

static clef_status sum_axes_infer(clef_value *n, clef_error *err)
{
    const clef_sum_axes_opts *o = (const void *)n->attr;
    char text[96];
    if (o->axes < 0 || o->axes >> n->in[0]->shape.rank)
        return clef__fail(err, CLEF_E_ARG, "axes %d: expected bits of the dims of %s", o->axes,
                          clef__shape_text(n->graph, &n->in[0]->shape, text));
    clef__infer_same(n, err);
    for (int32_t i = 0; i < n->shape.rank; i++)
        if (o->axes >> i & 1)
            n->shape.dim[i] = clef_n(1);
    return CLEF_OK;
}

static void sum_axes_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_ref_tensor *x = &in[0];
    (void)n;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++)
        out->x[i] = 0;
    const double *from = x->x;
    for (int64_t i0 = 0; i0 < x->n[0]; i0++)
        for (int64_t i1 = 0; i1 < x->n[1]; i1++)
            for (int64_t i2 = 0; i2 < x->n[2]; i2++)
                for (int64_t i3 = 0; i3 < x->n[3]; i3++)
                    out->x[clef__ref_at(out, i0, i1, i2, i3)] += *from++;
}

static clef_cost sum_axes_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = clef__cost_elementwise(n, symbols, 0);
    cost.flops = (double)clef__elements(n->in[0], symbols);
    return cost;
}

/* Adjacent dims that are both kept or both summed become one, from the last to the first. */
static void fold_dims(sum_axes_args *args, const args_uint n[4], int32_t axes)
{
    args_uint stride = 1;
    int32_t n_kept = 2, n_summed = 2, last_kind = -1;
    for (int i = 0; i < 2; i++)
        args->kept[i] = args->summed[i] = 1;
    for (int i = 3; i >= 0; stride *= n[i], i--) {
        const int32_t kind = axes >> i & 1;
        int32_t *at = kind ? &n_summed : &n_kept;
        if (n[i] == 1)
            continue;
        if (kind != last_kind)
            --*at;
        args_uint *sizes = kind ? args->summed : args->kept,
                  *strides = kind ? args->summed_stride : args->kept_stride;
        if (kind != last_kind)
            strides[*at] = stride;
        sizes[*at] *= n[i];
        last_kind = kind;
    }
}

enum {
    LEAST_EACH = 512, /* summed elements that are worth a part of their own */
    MOST_PARTS = 32,
    CPU_SPAN = 64, /* columns that a group adds up at once */
    GROUPS_PER_UNIT = 4
};

static clef_status launch_sums(clef_lowering *lo, const clef_value *out, const clef_value *x,
                               sum_axes_args *args, uint64_t scratch, clef_error *err)
{
    const int inner_is_kept = args->kept_stride[1] == 1 && args->kept[1] > 1;
    const uint32_t wg = clef__fit_local(lo, 256);
    args->span = !inner_is_kept ? 1 : wg == 1 ? CPU_SPAN : wg;
    args->pieces = clef__ceil_div(args->kept[1], args->span);
    return clef__launch(lo,
                        &(clef_launch){.source = "sum_axes",
                                       .kernel = inner_is_kept ? "sum_columns" : "sum_elements",
                                       .defs = {{"WG", (int32_t)wg}},
                                       .args = args,
                                       .args_bytes = sizeof *args,
                                       .bufs = {out, x},
                                       .n_bufs = 2,
                                       .groups = {args->kept[0] * args->pieces, args->parts},
                                       .local = {wg},
                                       .scratch_bytes = scratch},
                        err);
}

/* Few sums of many elements are made of parts, which a second launch adds up. */
static clef_status sum_axes_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_sum_axes_opts *o = (const void *)n->attr;
    const int32_t pad = CLEF_MAX_DIMS - n->shape.rank;
    sum_axes_args args = {.x = clef__view(lo, n->in[0]).offset, .parts = 1};
    args_uint dims[4];
    clef__n4(lo, n->in[0], dims);
    fold_dims(&args, dims, o->axes << pad);
    const uint32_t n_out = args.kept[0] * args.kept[1], n_summed = args.summed[0] * args.summed[1];
    const uint32_t wanted = GROUPS_PER_UNIT * (uint32_t)(lo->caps->n_units > 0 ? lo->caps->n_units : 1);
    const uint32_t groups = clef__ceil_div(n_out, lo->caps->is_cpu ? CPU_SPAN : 256);
    while (args.parts < MOST_PARTS && args.parts * 2 * LEAST_EACH <= n_summed && args.parts * groups < wanted)
        args.parts *= 2;
    args.each = clef__ceil_div(n_summed, args.parts);
    const uint64_t scratch = args.parts > 1 ? (uint64_t)args.parts * n_out * sizeof(float) : 0;
    clef_status s = launch_sums(lo, args.parts > 1 ? CLEF__SCRATCH : n, n->in[0], &args, scratch, err);
    if (s || args.parts == 1)
        return s;
    sum_axes_args last = {.kept = {1, n_out},
                          .kept_stride = {0, 1},
                          .summed = {1, args.parts},
                          .summed_stride = {0, n_out},
                          .parts = 1,
                          .each = args.parts};
    return launch_sums(lo, n, CLEF__SCRATCH, &last, scratch, err);
}

static void sum_axes_grad(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef__add_gradient(gr, n->in[0], clef_expand(n->graph, d, n->in[0]));
}

const clef_op_def clef__op_sum_axes = {
    .name = "sum_axes",
    .formula = "out = the sum of x over the dims whose bits are set in axes, which become 1",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE},
    .attrs = sum_axes_attrs,
    .attr_bytes = sizeof(clef_sum_axes_opts),
    .infer = sum_axes_infer,
    .ref = sum_axes_ref,
    .cost = sum_axes_cost,
    .lower = sum_axes_lower,
    .grad = sum_axes_grad,
    .tol = 1e-5f, /* chains of at most some 10^3 terms: sqrt of them times 6e-8 of a sum, whose size may be
                     that of one term */
};

/* ---- expand ----------------------------------------------------------------------------------- */

clef_value *clef_expand(clef_graph *g, clef_value *x, clef_value *like)
{
    return clef__node(g, CLEF_OP_expand, (clef_value *[]){x, like}, 2, NULL);
}

static clef_status expand_infer(clef_value *n, clef_error *err)
{
    char a[96], b[96];
    if (!clef__broadcasts_to(&n->in[0]->shape, &n->in[1]->shape))
        return clef__fail(err, CLEF_E_SHAPE, "x %s does not broadcast to %s",
                          clef__shape_text(n->graph, &n->in[0]->shape, a),
                          clef__shape_text(n->graph, &n->in[1]->shape, b));
    n->dtype = CLEF_F32;
    n->shape = n->in[1]->shape;
    return CLEF_OK;
}

static void expand_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    (void)n;
    double *to = out->x;
    for (int64_t i0 = 0; i0 < out->n[0]; i0++)
        for (int64_t i1 = 0; i1 < out->n[1]; i1++)
            for (int64_t i2 = 0; i2 < out->n[2]; i2++)
                for (int64_t i3 = 0; i3 < out->n[3]; i3++)
                    *to++ = in[0].x[clef__ref_at(&in[0], i0, i1, i2, i3)];
}

static clef_cost expand_cost(const clef_value *n, const int64_t *symbols)
{
    return (clef_cost){.bytes = (double)clef__bytes(n, symbols) + (double)clef__bytes(n->in[0], symbols)};
}

static clef_status expand_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    clef_elementwise e = {.what = "copy", .out = n, .x = n->in[0], .x_view = clef__view_as(lo, n->in[0], n)};
    clef__n4(lo, n, e.n);
    e.out_view = clef__dense_view(e.n);
    return clef__launch_elementwise(lo, &e, err);
}

static void expand_grad(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef__add_gradient(gr, n->in[0], d);
}

const clef_op_def clef__op_expand = {
    .name = "expand",
    .formula = "out = x, broadcast to the shape of like",
    .n_min = 2,
    .n_max = 2,
    .in = {CLEF_IN_FLOAT, CLEF_IN_VIEW},
    .infer = expand_infer,
    .ref = expand_ref,
    .cost = expand_cost,
    .lower = expand_lower,
    .grad = expand_grad,
    .tol = 0, /* exact */
};
