/* drop: removes what no output and no state needs. Inputs stay, because they are the graph's interface. */
#include "graph/names.h"
#include "graph/pass/pass.h"

clef_status clef__pass_drop(clef_graph *g, clef_error *err)
{
    for (int32_t i = 0; i < g->n_values; i++)
        g->values[i]->n_uses = g->values[i]->kind == CLEF_INPUT || clef__has_effect(g->values[i]);
    for (int32_t i = 0; i < g->n_outputs; i++)
        g->outputs[i].value->n_uses = 1;
    for (int32_t i = g->n_values - 1; i >= 0; i--)
        for (int32_t k = 0; k < g->values[i]->n_in && g->values[i]->n_uses; k++)
            if (g->values[i]->in[k])
                g->values[i]->in[k]->n_uses = 1;
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        clef_value *v = g->values[i];
        if (v->n_uses) {
            v->id = n;
            g->values[n++] = v;
            clef__track_readers(v);
        } else {
            clef__names_remove(g->names, v);
        }
    }
    g->n_values = n;
    return clef_graph_error(g, err);
}
