/* verify: checks that every node agrees with its op's inference, that inputs come before their users, that no
 * value shows an overwritten state, and that names and outputs are consistent. */
#include <string.h>

#include "graph/names.h"
#include "graph/pass/pass.h"

static clef_status verify_node(const clef_value *n, clef_error *err)
{
    const clef_graph *g = n->graph;
    char a[96], b[96];
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && (n->in[i]->id < 0 || n->in[i]->id >= n->id || g->values[n->in[i]->id] != n->in[i]))
            return clef__fail(err, CLEF_E_ARG, "%s: input %d (%s) does not come before it", n->name, i,
                              n->in[i]->name);
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && clef__overwritten_by(n->in[i]))
            return clef__fail(err, CLEF_E_ARG, "%s: input %d (%s) shows a state that %s has written since",
                              n->name, i, n->in[i]->name, clef__overwritten_by(n->in[i])->name);
    clef_value again = *n;
    clef_error why;
    const clef_status s = clef__ops[n->op]->infer(&again, &why);
    if (s)
        return clef__fail(err, s, "%s: %s", n->name, why.text);
    if (again.dtype != n->dtype || !clef__shape_equal(&again.shape, &n->shape))
        return clef__fail(err, CLEF_E_SHAPE, "%s: is %s %s, its op gives %s %s", n->name,
                          clef_dtype_name(n->dtype), clef__shape_text(g, &n->shape, a),
                          clef_dtype_name(again.dtype), clef__shape_text(g, &again.shape, b));
    return CLEF_OK;
}

clef_status clef__pass_verify(clef_graph *g, clef_error *err)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        if (v->id != i || clef__names_find(g->names, v->name) != v)
            return clef__fail(err, CLEF_E_ARG,
                              "%s: is not at its place in the graph's list or among its names", v->name);
        const clef_status s = v->op == CLEF_OP_NONE ? CLEF_OK : verify_node(v, err);
        if (s)
            return s;
        clef__track_state(g->values[i]);
    }
    if (!clef__has_result(g))
        return clef__fail(err, CLEF_E_ARG, "the graph has no output");
    for (int32_t i = 0; i < g->n_outputs; i++) {
        const clef_value *v = g->outputs[i].value;
        if (v->id >= g->n_values || g->values[v->id] != v)
            return clef__fail(err, CLEF_E_ARG, "output %s: its value is not in the graph",
                              g->outputs[i].name);
        if (clef__overwritten_by(v))
            return clef__fail(err, CLEF_E_ARG, "output %s: %s shows a state that %s has written since",
                              g->outputs[i].name, v->name, clef__overwritten_by(v)->name);
    }
    return CLEF_OK;
}
