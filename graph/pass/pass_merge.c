/* merge: of nodes that compute the same op of the same inputs, and of equal constants, only the first
 * stays. */
#include <stdlib.h>
#include <string.h>

#include "graph/pass/pass.h"
#include "graph/text/text.h"

static int are_equal(const clef_value *a, const clef_value *b)
{
    if (a->op != b->op || a->recomputed != b->recomputed || a->kind != b->kind || a->dtype != b->dtype ||
        !clef__shape_equal(&a->shape, &b->shape) || a->n_in != b->n_in)
        return 0;
    if (a->kind == CLEF_CONSTANT)
        return memcmp(a->data, b->data, (size_t)clef__bytes(a, NULL)) == 0;
    return memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0 && clef__attrs_equal(a, b);
}

static int can_merge(const clef_value *v)
{
    if (v->kind == CLEF_CONSTANT)
        return 1;
    if (v->op == CLEF_OP_NONE || clef__has_effect(v) || clef__is_output(v))
        return 0;
    for (int32_t i = 0; i < v->n_in; i++) /* a state may have changed in between */
        if (v->in[i] && clef__base(v->in[i])->kind == CLEF_STATE)
            return 0;
    return 1;
}

/* Equal nodes share their first input, so only the nodes after that input are compared; constants are few. */
static clef_value *merge_value(clef_value *v, const void *user)
{
    (void)user;
    const clef_graph *g = v->graph;
    if (!can_merge(v))
        return v;
    const int32_t from = v->n_in && v->in[0] ? v->in[0]->id : 0;
    for (int32_t i = from; i < g->n_values; i++)
        if (can_merge(g->values[i]) && are_equal(g->values[i], v))
            return g->values[i];
    return v;
}

clef_status clef__pass_merge(clef_graph *g, clef_error *err)
{
    return clef__rewrite(g, merge_value, NULL, err);
}
