/* Functions that several ops share. */
#include "graph/op.h"

clef_status clef__infer_same(clef_value *n, clef_error *err)
{
    (void)err;
    n->dtype = CLEF_F32;
    n->shape = n->in[0]->shape;
    return CLEF_OK;
}

clef_status clef__infer_broadcast(clef_value *n, clef_error *err)
{
    const clef_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    char text[2][96];
    n->dtype = CLEF_F32;
    if (!clef__broadcast(a, b, &n->shape))
        return clef__fail(err, CLEF_E_SHAPE, "a %s and b %s do not broadcast",
                          clef__shape_text(n->graph, a, text[0]), clef__shape_text(n->graph, b, text[1]));
    return CLEF_OK;
}

clef_cost clef__cost_elementwise(const clef_value *n, const int64_t *symbols, double flops_per_element)
{
    clef_cost cost = {.flops = flops_per_element * (double)clef__elements(n, symbols),
                      .bytes = (double)clef__bytes(n, symbols)};
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i])
            cost.bytes += (double)clef__bytes(n->in[i], symbols);
    return cost;
}

clef_cost clef__cost(const clef_value *n, const int64_t *symbols)
{
    const clef_op_def *def = clef__ops[n->op];
    return def->cost ? def->cost(n, symbols) : clef__cost_elementwise(n, symbols, (double)def->flops);
}

int64_t clef__ref_at(const clef_ref_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3)
{
    i0 = t->n[0] == 1 ? 0 : i0;
    i1 = t->n[1] == 1 ? 0 : i1;
    i2 = t->n[2] == 1 ? 0 : i2;
    i3 = t->n[3] == 1 ? 0 : i3;
    return ((i0 * t->n[1] + i1) * t->n[2] + i2) * t->n[3] + i3;
}

float clef__tolerance(const clef_value *n)
{
    const clef_op_def *def = clef__ops[n->op];
    return def->tol_of ? def->tol_of(n) : def->tol;
}
