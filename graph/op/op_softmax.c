/* softmax: scale, soft cap, mask, causal and sliding window, then the softmax of each row. */
#include <math.h>

#include "graph/grad/gradient.h"
#include "graph/grad/softmax_grad.h"
#include "graph/lower/subgroup.h"
#include "graph/lower/variant.h"
#include "graph/op/ways.h"

static const clef_attr_def softmax_attrs[] = {
    {"scale", CLEF_ATTR_FLOAT, offsetof(clef_softmax_opts, scale), NULL},
    {"softcap", CLEF_ATTR_FLOAT, offsetof(clef_softmax_opts, softcap), NULL},
    {"causal", CLEF_ATTR_INT, offsetof(clef_softmax_opts, causal), NULL},
    {"window", CLEF_ATTR_INT, offsetof(clef_softmax_opts, window), NULL},
    {"log", CLEF_ATTR_INT, offsetof(clef_softmax_opts, log), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_softmax(clef_graph *g, clef_value *x, clef_value *mask, clef_value *pos,
                         const clef_softmax_opts *opts)
{
    return clef_softmax_with_sinks(g, x, mask, pos, NULL, opts);
}

clef_value *clef_softmax_with_sinks(clef_graph *g, clef_value *x, clef_value *mask, clef_value *pos,
                                    clef_value *sinks, const clef_softmax_opts *opts)
{
    return clef__node(g, CLEF_OP_softmax, (clef_value *[]){x, mask, pos, sinks}, 4, opts);
}

static clef_status softmax_infer(clef_value *n, clef_error *err)
{
    const clef_value *x = n->in[0], *mask = n->in[1], *pos = n->in[2], *sinks = n->in[3];
    char a[96], b[96];
    if (mask && !clef__broadcasts_to(&mask->shape, &x->shape))
        return clef__fail(err, CLEF_E_SHAPE, "mask %s does not broadcast to x %s",
                          clef__shape_text(n->graph, &mask->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    if (pos &&
        (x->shape.rank != 4 || pos->shape.rank != 1 || !clef__dim_equal(pos->shape.dim[0], x->shape.dim[0])))
        return clef__fail(err, CLEF_E_SHAPE, "pos %s is not [B] of x %s",
                          clef__shape_text(n->graph, &pos->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    if (sinks && (x->shape.rank != 4 || sinks->shape.rank != 1 ||
                  !clef__dim_equal(sinks->shape.dim[0], x->shape.dim[1])))
        return clef__fail(err, CLEF_E_SHAPE, "sinks %s are not [H] of x %s",
                          clef__shape_text(n->graph, &sinks->shape, a),
                          clef__shape_text(n->graph, &x->shape, b));
    const clef_softmax_opts *o = (const void *)n->attr;
    if (o->window < 0 && !o->causal)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "chunks (window %d) without causal", o->window);
    if (sinks && o->log)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "log with sinks");
    return clef__infer_same(n, err);
}

static void softmax_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_softmax_opts *o = (const void *)n->attr;
    const double scale = o->scale != 0 ? (double)o->scale : 1.0;
    const clef_ref_tensor *x = &in[0], *mask = &in[1], *pos = &in[2], *sinks = &in[3];
    const int keep_mask = mask->x && n->in[1]->dtype != CLEF_F32;
    const int64_t S = x->n[3];

    for (int64_t r = 0; r < x->n[0] * x->n[1] * x->n[2]; r++) {
        const int64_t t = r % x->n[2], h = r / x->n[2] % x->n[1], b = r / x->n[2] / x->n[1];
        const int64_t at = t + (pos->x ? (int64_t)pos->x[b] : 0);
        double *z = out->x + r * S, max = sinks->x ? sinks->x[h] : -INFINITY, sum;
        for (int64_t s = 0; s < S; s++) {
            z[s] = scale * x->x[r * S + s];
            if (o->softcap > 0)
                z[s] = (double)o->softcap * tanh(z[s] / (double)o->softcap);
            const double m = mask->x ? mask->x[clef__ref_at(mask, b, h, t, s)] : 0;
            if ((keep_mask && mask->x && m == 0) || (o->causal && s > at) ||
                clef__beyond_window(o->window, s, at))
                z[s] = -INFINITY;
            else if (!keep_mask)
                z[s] += m;
            max = fmax(max, z[s]);
        }
        max = max > -INFINITY ? max : 0; /* if all is masked, the sum is 0; if NaNs are left, it is NaN */
        sum = sinks->x ? exp(sinks->x[h] - max) : 0;
        for (int64_t s = 0; s < S; s++)
            sum += exp(z[s] - max);
        for (int64_t s = 0; s < S; s++) {
            if (o->log)
                z[s] = sum != 0 ? z[s] - max - log(sum) : -INFINITY;
            else
                z[s] = sum != 0 ? exp(z[s] - max) / sum : 0;
        }
    }
}

static clef_status softmax_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_softmax_opts *o = (const void *)n->attr;
    const clef_value *x = n->in[0], *mask = n->in[1], *pos = n->in[2], *sinks = n->in[3];
    softmax_args args = {.x = clef__view(lo, x),
                         .mask = clef__view_as(lo, mask, x),
                         .pos = clef__view(lo, pos).offset,
                         .sinks = clef__view(lo, sinks).offset,
                         .scale = o->scale != 0 ? o->scale : 1,
                         .softcap = o->softcap,
                         .causal = o->causal,
                         .window = o->window,
                         .log = o->log};
    clef__n4(lo, x, args.n);
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, x, 0));
    return clef__launch(lo,
                        &(clef_launch){.source = "softmax",
                                       .kernel = "softmax_rows",
                                       .c_version = CLEF_SUBGROUP_C_VERSION(lo),
                                       .defs = {{"WG", (int32_t)wg},
                                                CLEF_SUBGROUP_DEFS(lo),
                                                {"MASK", !mask                     ? 0
                                                         : mask->dtype == CLEF_F32 ? 1
                                                         : mask->dtype == CLEF_I32 ? 2
                                                                                   : 3},
                                                {"POS", pos != NULL},
                                                {"SINKS", sinks ? (int32_t)sinks->dtype : DTYPE_NONE}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, x, mask, pos, sinks},
                                       .n_bufs = 5,
                                       .groups = {clef__rows(lo, x)}, /* one work-group a row */
                                       .local = {wg}},
                        err);
}

CLEF_ROW_VARIANTS(softmax, softmax_lower);

clef_value *clef__softmax_rule(clef__gradients *gr, clef_value *n, clef_value *d, int wants_x)
{
    const clef_softmax_opts *o = (const void *)n->attr;
    clef_graph *g = n->graph;
    const float scale = o->scale != 0 ? o->scale : 1;
    const int caps = o->softcap > 0;
    const int adds_mask = n->in[1] && n->in[1]->dtype == CLEF_F32;
    if (clef__wants_gradient(gr, n->in[3])) { /* a sink's share is 1 - sum(y) */
        clef_value *sum = clef_reduce(g, n, NULL), *seen = clef_reduce(g, clef_mul(g, n, d), NULL);
        clef_value *share = clef_affine(g, sum, &(clef_affine_opts){.scale = 1, .shift = -1});
        clef_value *each = clef_mul(g, share, seen);
        clef_value *sinks = clef_sum_axes(g, each, &(clef_sum_axes_opts){.axes = 1 | 4 | 8});
        clef__add_gradient(gr, n->in[3], sinks ? clef_reshape(g, sinks, n->in[3]->shape) : NULL);
    }
    clef_value *z = clef__softmax_grad(
        n, d, &(clef__softmax_grad_opts){.scale = caps || adds_mask ? 1 : scale, .log = o->log});
    if (adds_mask)
        clef__add_gradient(gr, n->in[1], z);
    if (!wants_x || !z)
        return NULL;
    if (caps) { /* cap(u) = c tanh(u / c) has the slope 1 - tanh^2 */
        clef_value *t =
            clef_tanh(g, clef_affine(g, n->in[0], &(clef_affine_opts){.scale = scale / o->softcap}));
        z = clef_mul(g, z,
                     clef_affine(g, clef_square(g, t), &(clef_affine_opts){.scale = -scale, .shift = scale}));
    } else if (adds_mask && scale != 1) {
        z = clef_affine(g, z, &(clef_affine_opts){.scale = scale});
    }
    return z;
}

static void softmax_rule(clef__gradients *gr, clef_value *n, clef_value *d)
{
    clef__add_gradient(gr, n->in[0], clef__softmax_rule(gr, n, d, clef__wants_gradient(gr, n->in[0])));
}

const clef_op_def clef__op_softmax = {
    .name = "softmax",
    .formula = "out = softmax(cap(scale x) + mask) over the last dim; causal, window, sinks; a fully masked "
               "row gives zeros",
    .n_min = 1,
    .n_max = 4,
    .in = {CLEF_IN_F32 | CLEF_IN_ROWS, CLEF_IN_MASK | CLEF_IN_OPTIONAL,
           CLEF_IN_I32 | CLEF_IN_DENSE | CLEF_IN_OPTIONAL, CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = softmax_attrs,
    .attr_bytes = sizeof(clef_softmax_opts),
    .infer = softmax_infer,
    .way = clef__way_softmax,
    .ref = softmax_ref,
    .flops = 5, /* scale, max, subtract, exp, divide */
    .lower = clef__lower_variant,
    .in_place = 1,
    .grad = softmax_rule,
    .tol = 2e-6f, /* exp to 3 ulp (OpenCL 1.2, 7.4), a sum of up to 1031 terms in groups */
};
