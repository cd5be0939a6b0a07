#include "graph/shrink.h"

enum {
    MAX_ELEMENTS = 24 << 20, /* most elements of all leaves: above it the op's own cases are used */
    MAX_COPIED = 64
};

struct clef__shrinker {
    clef_graph *graph;
    const clef_value *from[MAX_COPIED]; /* values copied */
    clef_value *to[MAX_COPIED];
    int32_t n;
    int64_t elements;
};

static clef_value *find_copy(const clef__shrinker *s, const clef_value *v)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->from[i] == v)
            return s->to[i];
    return NULL;
}

static clef_value *record_copy(clef__shrinker *s, const clef_value *v, clef_value *copy)
{
    if (copy && s->n < MAX_COPIED) {
        s->from[s->n] = v;
        s->to[s->n++] = copy;
    }
    return copy;
}

/* Makes a leaf of this shape for v. States and weights keep their kind; computed values become inputs, and so
 * do views of weights. */
static clef_value *add_leaf(clef__shrinker *s, const clef_value *v, const clef_shape *shape)
{
    const clef_value *base = clef__base(v);
    char name[16];
    clef_value *out = find_copy(s, v);
    if (out)
        return out;
    name[0] = 'v';
    name[1] = (char)('a' + s->n % 26);
    name[2] = (char)('a' + s->n / 26);
    name[3] = 0;
    if (v->kind == CLEF_CONSTANT)
        return record_copy(s, v, clef_constant(s->graph, name, v->dtype, v->shape, v->data));
    int64_t elements = 1;
    for (int32_t i = 0; i < shape->rank; i++)
        elements *= clef__dim_at(v->graph, shape->dim[i], NULL);
    s->elements += elements;
    if (base->kind == CLEF_STATE)
        out = clef_state(s->graph, name, v->dtype, *shape);
    else if (v->kind == CLEF_WEIGHT)
        out = clef_weight(s->graph, name, v->dtype, *shape);
    else
        out = clef_input(s->graph, name, v->dtype, *shape);
    return record_copy(s, v, out);
}

clef_value *clef__shrink_copy(clef__shrinker *s, const clef_value *v)
{
    if (!v)
        return NULL;
    const int is_view = v->op != CLEF_OP_NONE && clef__ops[v->op]->view && !clef__ops[v->op]->writes;
    if (!is_view || clef__base(v)->kind != CLEF_STATE)
        return add_leaf(s, v, &v->shape);
    clef_value *out = find_copy(s, v), *of = out ? NULL : clef__shrink_copy(s, v->in[0]);
    return out ? out : record_copy(s, v, of ? clef__node(s->graph, v->op, &of, 1, v->attr) : NULL);
}

clef_graph *clef__shrink_graph(const clef__shrinker *s)
{
    return s->graph;
}

int64_t clef__shrink_rows(const clef_value *v, int32_t axis, int64_t most)
{
    const int64_t n = v->shape.dim[axis].n;
    return n < most ? n : most;
}

clef_value *clef__shrink_cut(clef__shrinker *s, const clef_value *v, int32_t axis, int64_t n)
{
    clef_shape shape = v->shape;
    shape.dim[axis] = clef_n(n);
    return add_leaf(s, v, &shape);
}

clef_value *clef__shrink_to(clef__shrinker *s, const clef_value *v, const clef_shape *shape)
{
    return add_leaf(s, v, shape);
}

static clef_value *copy_node(clef__shrinker *s, const clef_value *n)
{
    clef_value *in[CLEF_MAX_INPUTS] = {0};
    for (int32_t i = 0; i < n->n_in; i++)
        in[i] = clef__shrink_copy(s, n->in[i]);
    return clef__node(s->graph, n->op, in, n->n_in, n->attr);
}

/* Returns NULL when no graph can be made of the node, or the graph has an error. */
static clef_value *add_node(clef__shrinker *s, const clef_value *n)
{
    clef_value *(*const shrink)(clef__shrinker *, const clef_value *) = clef__ops[n->op]->shrink;
    clef_value *node = shrink ? shrink(s, n) : NULL;
    return node || s->n ? node : copy_node(s, n);
}

clef_status clef__graph_of_node(const clef_value *n, clef_graph **out, clef_error *err)
{
    clef__shrinker s = {.graph = clef_graph_create()};
    *out = NULL;
    if (!s.graph)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a graph");
    for (int32_t i = 0; i < n->graph->n_symbols; i++)
        clef_symbol(s.graph, n->graph->symbols[i].name, n->graph->symbols[i].bound);
    clef_value *node = add_node(&s, n);
    if (node)
        clef_output(s.graph, "proof", node);
    if (!node || s.elements > MAX_ELEMENTS || clef_graph_error(s.graph, NULL)) {
        const int no_memory = clef_graph_error(s.graph, NULL) == CLEF_E_NOMEM;
        clef_graph_destroy(s.graph);
        return no_memory ? clef__fail(err, CLEF_E_NOMEM, "no memory for a graph of %s alone", n->name)
                         : CLEF_OK;
    }
    *out = s.graph;
    return CLEF_OK;
}
