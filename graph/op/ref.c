/* The reference evaluator. */
#include "graph/op/ref.h"

#include <stdlib.h>

static int64_t count_elements(const clef_ref_tensor *t)
{
    return t->n[0] * t->n[1] * t->n[2] * t->n[3];
}

static clef_status allocate_tensor(const clef_value *v, const int64_t *symbols, clef_ref_tensor *t,
                                   clef_error *err)
{
    for (int32_t i = 0; i < CLEF_MAX_DIMS; i++)
        t->n[CLEF_MAX_DIMS - 1 - i] = clef__dim_at(v->graph, clef__dim_right(&v->shape, i), symbols);
    t->x = calloc((size_t)count_elements(t), sizeof *t->x);
    return t->x ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its reference", v->name);
}

static void take_constant(const clef_value *v, clef_ref_tensor *t)
{
    for (int64_t i = 0; i < count_elements(t); i++)
        t->x[i] = v->dtype == CLEF_F32 ? (double)((const float *)v->data)[i]
                                       : (double)((const int32_t *)v->data)[i];
}

clef_status clef__ref_value(const clef_value *v, const int64_t *symbols, clef_ref_source leaves, void *user,
                            clef_ref_tensor *results, clef_error *err)
{
    clef_ref_tensor in[CLEF_MAX_INPUTS] = {0}, *out = &results[v->id];
    const clef_status s = allocate_tensor(v, symbols, out, err);
    if (s)
        return s;
    if (v->kind == CLEF_CONSTANT) {
        take_constant(v, out);
        return CLEF_OK;
    }
    if (v->op == CLEF_OP_NONE)
        return leaves(user, v, out->x, count_elements(out), err);
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i])
            in[i] = results[v->in[i]->id];
    clef__ops[v->op]->ref(v, in, out);
    return CLEF_OK;
}

clef_status clef__ref_eval(const clef_graph *g, const int64_t *symbols, clef_ref_source leaves, void *user,
                           clef_ref_tensor *results, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < g->n_values && !s; i++)
        s = clef__ref_value(g->values[i], symbols, leaves, user, results, err);
    return s;
}

void clef__ref_free(clef_ref_tensor *results, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        free(results[i].x);
        results[i] = (clef_ref_tensor){0};
    }
}

int clef__beyond_window(int32_t window, int64_t s, int64_t at)
{
    return window > 0 ? s <= at - window || s >= at + window : window < 0 && s < at - at % -window;
}
