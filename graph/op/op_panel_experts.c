/* panel_experts: expert_matmul with packed experts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"
#include "graph/op/expert.h"
#include "graph/shrink.h"

enum { X, PACKED, IDS, BIAS, N_IN };

static const clef_attr_def attrs[] = {
    {"n", CLEF_ATTR_INT, offsetof(clef__panel_experts_opts, n), NULL},
    {"k", CLEF_ATTR_INT, offsetof(clef__panel_experts_opts, k), NULL},
    {"experts", CLEF_ATTR_INT, offsetof(clef__panel_experts_opts, experts), NULL},
    {"dtype", CLEF_ATTR_DTYPE, offsetof(clef__panel_experts_opts, dtype), NULL},
    {"batch_invariant", CLEF_ATTR_INT, offsetof(clef__panel_experts_opts, batch_invariant), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__panel_experts(clef_graph *g, clef_value *x, clef_value *packed, clef_value *ids,
                                clef_value *bias, const clef__panel_experts_opts *opts)
{
    return clef__node(g, CLEF_OP_panel_experts, (clef_value *[N_IN]){x, packed, ids, bias}, N_IN, opts);
}

static const clef__panel_experts_opts *opts_of(const clef_value *n)
{
    return (const void *)n->attr;
}

static clef_status infer(clef_value *n, clef_error *err)
{
    const clef__panel_experts_opts *o = opts_of(n);
    const clef_value *packed = n->in[PACKED], *bias = n->in[BIAS];
    const clef_shape *x = &n->in[X]->shape, *ids = &n->in[IDS]->shape;
    char a[96], b[96];
    if (o->n < 1 || o->k < 1 || o->experts < 1 || o->n % PANEL_ROWS || (uint32_t)o->dtype >= CLEF_N_DTYPES ||
        clef_dtype_block_elems(o->dtype) == 1 || !clef__panel_has(o->dtype, o->k))
        return clef__fail(
            err, CLEF_E_ARG,
            "n %d, k %d, experts %d, dtype %d: expected matrices of a format of blocks with panels, n "
            "a multiple of %d",
            o->n, o->k, o->experts, o->dtype, PANEL_ROWS);
    if (packed->shape.rank != 1 || packed->dtype != CLEF_I8 || packed->shape.dim[0].symbol ||
        packed->shape.dim[0].n != clef__panel_bytes(o->dtype, (int64_t)o->experts * o->n, o->k))
        return clef__fail(err, CLEF_E_SHAPE, "packed weight %s is not of %d experts, n %d, k %d and %s",
                          clef__shape_text(n->graph, &packed->shape, a), o->experts, o->n, o->k,
                          clef_dtype_name(o->dtype));
    int fits = ids->rank == 3 && (x->rank == 3 || x->rank == 4) &&
               clef__dim_equal(x->dim[x->rank - 1], clef_n(o->k));
    for (int32_t i = 0; fits && i < x->rank - 1; i++)
        fits = clef__dim_equal(x->dim[i], ids->dim[i]);
    if (!fits)
        return clef__fail(err, CLEF_E_SHAPE, "x %s and ids %s, expected [B, T, (k,) %d] and [B, T, k]",
                          clef__shape_text(n->graph, x, a), clef__shape_text(n->graph, ids, b), o->k);
    const clef_shape of_bias = clef_shape_2(clef_n(o->experts), clef_n(o->n));
    if (bias && !clef__shape_equal(&bias->shape, &of_bias))
        return clef__fail(err, CLEF_E_SHAPE, "bias %s, expected %s",
                          clef__shape_text(n->graph, &bias->shape, a),
                          clef__shape_text(n->graph, &of_bias, b));
    n->dtype = CLEF_F32;
    n->shape = clef_shape_4(ids->dim[0], ids->dim[1], ids->dim[2], clef_n(o->n));
    return CLEF_OK;
}

static void ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef__panel_experts_opts *o = opts_of(n);
    const int64_t choices = out->n[2], all = (int64_t)o->experts * o->n;
    const int each = n->in[X]->shape.rank == 4;
    double *x = malloc((size_t)o->k * sizeof *x);
    for (int64_t r = 0; r < out->n[0] * out->n[1] * choices; r++) {
        const int64_t id = (int64_t)in[IDS].x[r], first = id * o->n;
        const int inside = id >= 0 && id < o->experts;
        if (x) {
            memcpy(x, in[X].x + (each ? r : r / choices) * o->k, (size_t)o->k * sizeof *x);
            clef__panel_quantise_row(x, o->k);
        }
        for (int64_t c = 0; c < o->n; c++) {
            double sum = !x ? NAN /* no memory */ : inside && in[BIAS].x ? in[BIAS].x[first + c] : 0;
            for (int64_t i = 0; x && inside && i < o->k; i++)
                sum += x[i] * clef__panel_element(o->dtype, all, o->k, in[PACKED].x, first + c, i);
            out->x[r * o->n + c] = sum;
        }
    }
    free(x);
}

static clef_cost cost(const clef_value *n, const int64_t *symbols)
{
    const clef__panel_experts_opts *o = opts_of(n);
    const double rows = (double)clef__elements(n->in[IDS], symbols), experts = o->experts,
                 per_expert = (double)clef__bytes(n->in[PACKED], symbols) / experts;
    clef_cost cost = clef__cost_elementwise(n, symbols, 2.0 * o->k);
    cost.bytes = (double)clef__bytes(n, symbols) + (double)clef__bytes(n->in[X], symbols) +
                 per_expert * (rows < experts ? rows : experts);
    return cost;
}

static clef_row_range range(const clef_value *n)
{
    return (clef_row_range){.n_rows = clef_n(opts_of(n)->experts), .span = clef_n(1)};
}

static clef_value *shrink(clef__shrinker *s, const clef_value *n)
{
    enum { EXPERTS = 4, ROWS = 48 };
    clef__panel_experts_opts o = *opts_of(n);
    const clef_value *packed = n->in[PACKED], *bias = n->in[BIAS];
    if (packed->op != CLEF_OP_pack || packed->in[0]->kind != CLEF_WEIGHT || packed->in[0]->shape.rank != 3)
        return NULL;
    o.experts = o.experts < EXPERTS ? o.experts : EXPERTS;
    o.n = o.n < ROWS ? o.n : ROWS;
    const clef_shape w = clef_shape_3(clef_n(o.experts), clef_n(o.n), clef_n(o.k)),
                     of_bias = clef_shape_2(clef_n(o.experts), clef_n(o.n));
    clef_value *weight = clef__shrink_to(s, packed->in[0], &w);
    clef_value *in[N_IN] = {clef__shrink_copy(s, n->in[X]),
                            clef__pack(clef__shrink_graph(s), &weight, 1, (const void *)packed->attr),
                            clef__shrink_copy(s, n->in[IDS]),
                            bias ? clef__shrink_to(s, bias, &of_bias) : NULL};
    return clef__node(clef__shrink_graph(s), CLEF_OP_panel_experts, in, N_IN, &o);
}

const clef_op_def clef__op_panel_experts = {
    .name = "panel_experts",
    .formula = "expert_matmul with transpose_b, x in 8 bits, W packed",
    .n_min = 3,
    .n_max = N_IN,
    .in = {CLEF_IN_F32 | CLEF_IN_DENSE, CLEF_IN_DENSE, CLEF_IN_I32 | CLEF_IN_DENSE,
           CLEF_IN_FLOAT | CLEF_IN_DENSE | CLEF_IN_OPTIONAL},
    .attrs = attrs,
    .attr_bytes = sizeof(clef__panel_experts_opts),
    .row_numbers = 1 << IDS,
    .row_range = range,
    .infer = infer,
    .ref = ref,
    .cost = cost,
    .lower = clef__lower_variant,
    .shrink = shrink,
    .tol = 5e-6f, /* as panel_matmul's: integers are exact */
};
