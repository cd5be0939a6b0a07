/* Reverse-mode differentiation: walks the graph backwards and lets each op's rule add nodes. */
#include <stdlib.h>
#include <string.h>

#include "graph/grad/gradients.h"
#include "graph/text/text.h"

static int is_float(const clef_value *v)
{
    return v->dtype != CLEF_I32 && v->dtype != CLEF_I8;
}

/* ---- computing layers again -------------------------------------------------------------------- */

/* Adds a copy of the node that reads the layer's recomputed values. */
static clef_value *compute_again(clef__gradients *gr, clef_value *v)
{
    clef_graph *g = gr->g;
    char name[CLEF_NAME_BYTES], layer[CLEF__LAYER_BYTES + 1];
    strcat(clef__layer_name(v->scope, layer), ".");
    clef_value *n = clef__graph_alloc(g, sizeof *n);
    if (!n || !clef__graph_make_name(g, layer, strlen(layer), v->op, name))
        return NULL;
    *n = *v;
    n->name = NULL;
    n->named = 0;
    n->recomputed = 1;
    n->forward = v;
    for (int32_t i = 0; i < n->n_in; i++)
        if (v->in[i] && gr->again[v->in[i]->id])
            n->in[i] = gr->again[v->in[i]->id];
    return clef__graph_rename(g, n, name) && clef__graph_append(g, n) ? n : NULL;
}

/* Computes the layer again whose last node is `last`. */
static void compute_layer_again(clef__gradients *gr, const clef_value *last)
{
    int32_t first = last->id;
    while (first > 0 && (gr->g->values[first - 1]->op == CLEF_OP_NONE ||
                         clef__same_layer(gr->g->values[first - 1]->scope, last->scope)))
        first--;
    for (int32_t i = first; i <= last->id && !gr->g->error.status; i++) {
        clef_value *v = gr->g->values[i];
        if (v->op != CLEF_OP_NONE && !clef__ops[v->op]->writes)
            gr->again[i] = compute_again(gr, v);
    }
}

/* ---- the walk ---------------------------------------------------------------------------------- */

/* A node needs a gradient if one of its inputs does. */
static void spread_wants(clef__gradients *gr)
{
    for (int32_t i = 0; i < gr->n; i++) {
        const clef_value *v = gr->g->values[i];
        for (int32_t k = 0; k < v->n_in && !gr->wanted[i]; k++)
            gr->wanted[i] = v->in[k] && is_float(v) && gr->wanted[v->in[k]->id];
    }
}

/* Names a gradient after its value. */
static void name_gradient(clef_graph *g, const clef_value *v, clef_value *d)
{
    char name[CLEF_NAME_BYTES + 8];
    if (d->named || strlen(v->name) + sizeof ".grad" > CLEF_NAME_BYTES)
        return;
    snprintf(name, sizeof name, "/%s.grad", v->name);
    const clef_value *other = clef_graph_find(g, name + 1);
    if ((!other || !other->named) && clef_named(d, "%s", name))
        d->scope = v->scope;
}

/* New nodes belong to the layer of v, if it is in one, until leave_layer(). */
static void enter_layer(clef_graph *g, const clef_value *v)
{
    char layer[CLEF__LAYER_BYTES];
    if (v->scope.in_layer)
        clef_scope_push(g, "%s", clef__layer_name(v->scope, layer));
}

static void leave_layer(clef_graph *g, const clef_value *v)
{
    if (v->scope.in_layer)
        clef_scope_pop(g);
}

/* The gradient of v: the sum of what its users have added; NULL if none has. */
static clef_value *sum_of(clef__gradients *gr, const clef_value *v)
{
    if (!gr->wanted[v->id] || !gr->addends[v->id])
        return NULL;
    enter_layer(gr->g, v);
    clef_value *sum = clef__sum_addends(v, gr->addends[v->id]);
    leave_layer(gr->g, v);
    return sum;
}

static void differentiate(clef__gradients *gr, clef_value *v, clef_value *d)
{
    const clef_op_def *def = clef__ops[v->op];
    if (!def->grad) {
        clef__graph_fail(gr->g, CLEF_E_UNSUPPORTED, "%s: the op %s has no gradient", v->name, def->name);
        return;
    }
    for (int32_t i = 0; i < v->n_in; i++)
        if (def->fixed >> i & 1 && clef__wants_gradient(gr, v->in[i])) {
            clef__graph_fail(gr->g, CLEF_E_UNSUPPORTED, "%s: there is no gradient of input %d (%s) of %s",
                             v->name, i, v->in[i]->name, def->name);
            return;
        }
    clef_value *seen = gr->again[v->id] ? gr->again[v->id] : v;
    enter_layer(gr->g, v);
    def->grad(gr, seen, d);
    leave_layer(gr->g, v);
}

/* Tells the caller that the gradient d of v is there. */
static void tell(const clef_value *v, clef_value *d, clef_value *const *of, int32_t n,
                 const clef_gradient_opts *opts)
{
    for (int32_t i = 0; i < n && opts->ready; i++)
        if (of[i] == v)
            opts->ready(opts->user, i, d);
}

static int is_computed_again(const clef_value *v, const clef_gradient_opts *opts)
{
    return v->op != CLEF_OP_NONE && v->scope.in_layer &&
           (opts->recompute || v->scope.part == CLEF__PART_LOSS);
}

static void walk(clef__gradients *gr, clef_value *loss, clef_value *const *of, int32_t n,
                 const clef_gradient_opts *opts)
{
    const clef_value *layer = NULL; /* a node of the layer that was computed again last */
    const float one = 1;
    clef_value *start = clef_constant(gr->g, "loss.grad", CLEF_F32, (clef_shape){0}, &one);
    if (start)
        clef__add_gradient(gr, loss, clef_reshape(gr->g, start, loss->shape));
    for (int32_t i = gr->n - 1; i >= 0 && !gr->g->error.status; i--) {
        clef_value *v = gr->g->values[i];
        if (gr->wanted[i] && is_computed_again(v, opts) &&
            !(layer && clef__same_layer(layer->scope, v->scope))) {
            compute_layer_again(gr, v);
            layer = v;
        }
        clef_value *d = sum_of(gr, v);
        if (!d)
            continue;
        name_gradient(gr->g, v, d);
        gr->addends[i] = NULL;
        clef__keep_addend(gr, v, (clef__addend){.d = d, .axis = -1});
        tell(v, d, of, n, opts);
        if (v->op != CLEF_OP_NONE)
            differentiate(gr, v, d);
    }
}

clef_status clef_graph_gradients(clef_graph *g, clef_value *loss, clef_value *const *of, int32_t n,
                                 const clef_gradient_opts *opts, clef_value **out, clef_error *err)
{
    const clef_gradient_opts none = {0};
    char text[96];
    if (g->error.status)
        return clef_graph_error(g, err);
    if (loss->dtype != CLEF_F32 || clef__elements(loss, NULL) != 1)
        return clef__fail(err, CLEF_E_SHAPE, "the loss %s is %s %s, expected one f32", loss->name,
                          clef_dtype_name(loss->dtype), clef__shape_text(g, &loss->shape, text));
    const size_t n_values = (size_t)g->n_values;
    clef__gradients gr = {.g = g,
                          .n = g->n_values,
                          .wanted = calloc(n_values + 1, 1),
                          .addends = calloc(n_values + 1, sizeof *gr.addends),
                          .again = calloc(n_values + 1, sizeof *gr.again)};
    if (!gr.wanted || !gr.addends || !gr.again)
        clef__graph_fail(g, CLEF_E_NOMEM, "graph: no memory for the gradients of %d values", g->n_values);
    for (int32_t i = 0; i < n && !g->error.status; i++)
        gr.wanted[of[i]->id] = 1;
    if (!g->error.status) {
        spread_wants(&gr);
        walk(&gr, loss, of, n, opts ? opts : &none);
    }
    for (int32_t i = gr.n; i < g->n_values; i++)
        g->values[i]->forward = NULL;
    for (int32_t i = 0; i < n; i++)
        out[i] = !g->error.status && gr.addends[of[i]->id] ? gr.addends[of[i]->id]->d : NULL;
    free(gr.wanted);
    free(gr.addends);
    free(gr.again);
    return clef_graph_error(g, err);
}

/* ---- sizes and leaves -------------------------------------------------------------------------- */

static void fix_dim(const clef_graph *g, clef_dim *d)
{
    *d = clef_n(clef__dim_at(g, *d, NULL));
}

clef_status clef_graph_fix_symbols(clef_graph *g, clef_error *err)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        clef_value *v = g->values[i];
        for (int32_t k = 0; k < v->shape.rank; k++)
            fix_dim(g, &v->shape.dim[k]);
        const clef_attr_def *attr = v->op == CLEF_OP_NONE ? NULL : clef__ops[v->op]->attrs;
        for (; attr && attr->name; attr++)
            if (attr->type == CLEF_ATTR_DIM) {
                clef_dim d;
                memcpy(&d, v->attr + attr->offset, sizeof d);
                fix_dim(g, &d);
                memcpy(v->attr + attr->offset, &d, sizeof d);
            }
    }
    g->n_symbols = 0;
    return clef_graph_error(g, err);
}

clef_status clef_weight_to_state(clef_value *w, clef_error *err)
{
    if (w->kind != CLEF_WEIGHT || w->part || !is_float(w))
        return clef__fail(err, CLEF_E_ARG, "%s: expected a weight of numbers", w->name);
    w->kind = CLEF_STATE;
    w->dtype = CLEF_F32;
    clef__track_state(w);
    for (int32_t i = w->id + 1; i < w->graph->n_values; i++) { /* views show it as it is */
        clef_value *v = w->graph->values[i];
        if (v->op != CLEF_OP_NONE && clef__ops[v->op]->view && clef__base(v) == w)
            v->dtype = CLEF_F32;
    }
    return CLEF_OK;
}
