/* affine: scale and shift by numbers. */
#include "graph/grad/gradient.h"
#include "graph/lower/elementwise.h"
#include "graph/op/ways.h"

static const clef_attr_def affine_attrs[] = {
    {"scale", CLEF_ATTR_FLOAT, offsetof(clef_affine_opts, scale), NULL},
    {"shift", CLEF_ATTR_FLOAT, offsetof(clef_affine_opts, shift), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_affine(clef_graph *g, clef_value *x, const clef_affine_opts *opts)
{
    return clef__node(g, CLEF_OP_affine, (clef_value *[]){x}, 1, opts);
}

static void affine_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_affine_opts *o = (const void *)n->attr;
    for (int64_t i = 0; i < out->n[0] * out->n[1] * out->n[2] * out->n[3]; i++)
        out->x[i] = (double)o->scale * in[0].x[i] + (double)o->shift;
}

static clef_status affine_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_affine_opts *o = (const void *)n->attr;
    return clef__lower_elementwise(lo, n, "affine", o->scale, o->shift, err);
}

static void affine_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    const clef_affine_opts *o = (const void *)n->attr;
    clef__add_gradient(gr, n->in[0],
                       o->scale == 1 ? d : clef_affine(n->graph, d, &(clef_affine_opts){.scale = o->scale}));
}

const clef_op_def clef__op_affine = {
    .name = "affine",
    .formula = "out = scale x + shift",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_F32},
    .attrs = affine_attrs,
    .attr_bytes = sizeof(clef_affine_opts),
    .infer = clef__infer_same,
    .way = clef__way_elementwise,
    .sum = clef__sum_affine,
    .ref = affine_ref,
    .flops = 2,
    .lower = affine_lower,
    .in_place = 1,
    .grad = affine_rule,
    .tol = 3e-7f, /* two roundings of 6e-8 */
};
