/* Reverse-mode differentiation: walks the graph backwards and lets each op's rule add nodes. */
#include "graph/train/gradient.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "graph/text/text.h"

/* One of the gradients that are added up: of the whole value, or of a part of it. */
typedef struct addend {
    clef_value *d;
    int32_t axis, start; /* axis -1: of the whole value */
    struct addend *next;
} addend;

struct clef__gradients {
    clef_graph *g;
    int32_t n;             /* values before any gradient was added */
    unsigned char *wanted; /* by id: whether the gradient of the value is needed */
    addend **addends;      /* by id */
    clef_value **again;    /* by id: what computes the value once more; NULL: nothing does */
};

/* The value that v computes once more; else v. */
static const clef_value *original(const clef_value *v)
{
    return v->recomputed && v->forward ? v->forward : v;
}

int clef__wants_gradient(const clef__gradients *gr, const clef_value *v)
{
    return v && original(v)->id < gr->n && gr->wanted[original(v)->id];
}

static int is_float(const clef_value *v)
{
    return v->dtype != CLEF_I32 && v->dtype != CLEF_I8;
}

/* ---- sums ------------------------------------------------------------------------------------- */

clef_value *clef__as_rows(clef_value *x)
{
    if (!x || x->shape.rank == 2)
        return x;
    const int64_t N = clef__dim_right(&x->shape, 0).n;
    return clef_reshape(x->graph, x, clef_shape_2(clef_n(clef__elements(x, NULL) / N), clef_n(N)));
}

clef_value *clef__sum_to(clef_value *x, const clef_shape *shape)
{
    if (!x || clef__shape_equal(&x->shape, shape))
        return x;
    const int32_t extra = x->shape.rank - shape->rank;
    int32_t axes = 0;
    for (int32_t i = 0; i < x->shape.rank; i++)
        if (i < extra || !clef__dim_equal(x->shape.dim[i], shape->dim[i - extra]))
            axes |= 1 << i;
    return clef_reshape(x->graph, clef_sum_axes(x->graph, x, &(clef_sum_axes_opts){axes}), *shape);
}

static void keep_addend(clef__gradients *gr, const clef_value *v, addend a)
{
    addend **end = &gr->addends[original(v)->id];
    for (; *end; end = &(*end)->next)
        if (a.axis < 0 && (*end)->axis < 0) { /* added at once, so that only their sum is kept */
            (*end)->d = clef_add(gr->g, (*end)->d, a.d);
            return;
        }
    *end = clef__graph_alloc(gr->g, sizeof **end);
    if (*end)
        **end = a;
}

void clef__add_gradient(clef__gradients *gr, clef_value *v, clef_value *d)
{
    if (!d || !clef__wants_gradient(gr, v))
        return;
    d = clef__sum_to(d, &v->shape);
    if (d)
        keep_addend(gr, v, (addend){.d = d, .axis = -1});
}

void clef__add_gradient_of_part(clef__gradients *gr, clef_value *v, int32_t axis, int32_t start,
                                clef_value *d)
{
    if (d && clef__wants_gradient(gr, v))
        keep_addend(gr, v, (addend){.d = d, .axis = axis, .start = start});
}

/* The part that begins at `start` of `axis`, taken out of the list; NULL if there is none. */
static clef_value *take_part(addend *list, int32_t axis, int64_t start)
{
    for (; list; list = list->next)
        if (list->d && list->axis == axis && list->start == start) {
            clef_value *d = list->d;
            list->d = NULL;
            return d;
        }
    return NULL;
}

/* Parts along one axis that follow each other from the first element to the last are joined. NULL: they do
 * not. */
static clef_value *join_parts(const clef_value *v, addend *list, int32_t axis)
{
    const int64_t size = v->shape.dim[axis].n;
    int64_t at = 0, n_parts = 0;
    for (const addend *a = list; a; a = a->next)
        for (const addend *p = list; p; p = p->next)
            if (p->d && p->axis == axis && p->start == at) {
                at += p->d->shape.dim[axis].n;
                n_parts++;
                break;
            }
    if (at != size || n_parts < 2)
        return NULL;
    clef_value *x = take_part(list, axis, 0);
    while (x && x->shape.dim[axis].n < size)
        x = clef_concat(v->graph, x, take_part(list, axis, x->shape.dim[axis].n), &(clef_concat_opts){axis});
    return x;
}

static clef_value *padded_part(const clef_value *v, const addend *a)
{
    const int64_t after = v->shape.dim[a->axis].n - a->start - a->d->shape.dim[a->axis].n;
    return clef_pad(v->graph, a->d,
                    &(clef_pad_opts){.axis = a->axis, .before = a->start, .after = (int32_t)after});
}

/* The gradient of v: the sum of all that was added. */
static clef_value *total(const clef_value *v, addend *list)
{
    clef_value *sum = NULL;
    for (int32_t axis = 0; axis < v->shape.rank; axis++) {
        clef_value *joined = join_parts(v, list, axis);
        if (joined)
            sum = sum ? clef_add(v->graph, sum, joined) : joined;
    }
    for (addend *a = list; a; a = a->next) {
        clef_value *d = !a->d ? NULL : a->axis < 0 ? a->d : padded_part(v, a);
        if (d)
            sum = sum ? clef_add(v->graph, sum, d) : d;
    }
    return sum;
}

/* ---- computing layers again -------------------------------------------------------------------- */

/* Length of the name's scope "layerN" with all before it, 0 if it has none. */
static size_t layer_bytes(const char *name)
{
    const char *at = strncmp(name, "layer", 5) == 0 ? name : strstr(name, ".layer");
    if (!at)
        return 0;
    at += at == name ? 5 : 6;
    const char *digits = at;
    while (*at >= '0' && *at <= '9')
        at++;
    return at > digits && *at == '.' ? (size_t)(at - name) : 0;
}

static int in_one_layer(const clef_value *a, const clef_value *b)
{
    const size_t n = layer_bytes(a->name);
    return n && n == layer_bytes(b->name) && strncmp(a->name, b->name, n) == 0;
}

/* Adds a copy of the node that reads the layer's recomputed values. */
static clef_value *compute_again(clef__gradients *gr, clef_value *v)
{
    clef_graph *g = gr->g;
    char name[CLEF_NAME_BYTES];
    clef_value *n = clef__graph_alloc(g, sizeof *n);
    if (!n || !clef__graph_make_name(g, v->name, layer_bytes(v->name) + 1, v->op, name))
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
    while (first > 0 &&
           (gr->g->values[first - 1]->op == CLEF_OP_NONE || in_one_layer(gr->g->values[first - 1], last)))
        first--;
    for (int32_t i = first; i <= last->id && !gr->g->error.status; i++) {
        clef_value *v = gr->g->values[i];
        if (v->op != CLEF_OP_NONE && !clef__ops[v->op]->writes)
            gr->again[i] = compute_again(gr, v);
    }
}

/* ---- the walk ---------------------------------------------------------------------------------- */

/* A node wants a gradient if one of its inputs does. */
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
    if (!other || !other->named)
        clef_named(d, "%s", name);
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
    const size_t scope = layer_bytes(v->name);
    if (scope && scope + 2 < sizeof gr->g->scope)
        snprintf(gr->g->scope, sizeof gr->g->scope, "%.*s.", (int)scope, v->name);
    def->grad(gr, seen, d);
    gr->g->scope[0] = 0;
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
    return v->op != CLEF_OP_NONE && layer_bytes(v->name) &&
           (opts->recompute || strstr(v->name, CLEF__LOSS_PIECE));
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
        if (gr->wanted[i] && is_computed_again(v, opts) && !(layer && in_one_layer(layer, v))) {
            compute_layer_again(gr, v);
            layer = v;
        }
        clef_value *d = gr->wanted[i] && gr->addends[i] ? total(v, gr->addends[i]) : NULL;
        if (!d)
            continue;
        name_gradient(gr->g, v, d);
        gr->addends[i] = NULL;
        keep_addend(gr, v, (addend){.d = d, .axis = -1});
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
