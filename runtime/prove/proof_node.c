/* A graph of one node of a plan, to be proven alone. */
#include <string.h>

#include "graph/lower/panel.h"
#include "runtime/prove/proof.h"

enum {
    PANEL_CUT = 3 * 16,      /* rows that remain of a weight in panels: some tiles */
    STACK_CUT = 4 * 16,      /* of each of several, one behind the other: a multiple of two tiles */
    MATRIX_CUT = 160,        /* of another weight that is multiplied with */
    TABLE_CUT = 16,          /* of a table that rows are gathered from */
    MAX_ELEMENTS = 24 << 20, /* of all leaves: beyond these the op's own first case serves */
    MAX_COPIED = 64
};

typedef struct copier {
    clef_graph *g;
    const clef_value *from[MAX_COPIED]; /* values copied */
    clef_value *to[MAX_COPIED];
    int32_t n;
    int64_t elements;
} copier;

static clef_value *copied(const copier *c, const clef_value *v)
{
    for (int32_t i = 0; i < c->n; i++)
        if (c->from[i] == v)
            return c->to[i];
    return NULL;
}

static clef_value *keep(copier *c, const clef_value *v, clef_value *copy)
{
    if (copy && c->n < MAX_COPIED) {
        c->from[c->n] = v;
        c->to[c->n++] = copy;
    }
    return copy;
}

/* A leaf for v. What a state holds, or a weight, stays such; all that is computed becomes an input, and so
 * does a part of a weight. */
static clef_value *leaf(copier *c, const clef_value *v, const clef_shape *shape)
{
    const clef_value *base = clef__base(v);
    char name[16];
    clef_value *out = copied(c, v);
    if (out)
        return out;
    name[0] = 'v';
    name[1] = (char)('a' + c->n % 26);
    name[2] = (char)('a' + c->n / 26);
    name[3] = 0;
    if (v->kind == CLEF_CONSTANT)
        return keep(c, v, clef_constant(c->g, name, v->dtype, v->shape, v->data));
    int64_t elements = 1;
    for (int32_t i = 0; i < shape->rank; i++)
        elements *= clef__dim_at(v->graph, shape->dim[i], NULL);
    c->elements += elements;
    if (base->kind == CLEF_STATE)
        out = clef_state(c->g, name, v->dtype, *shape);
    else if (v->kind == CLEF_WEIGHT)
        out = clef_weight(c->g, name, v->dtype, *shape);
    else
        out = clef_input(c->g, name, v->dtype, *shape);
    return keep(c, v, out);
}

/* A view of a state is made again of a leaf: kernels may want to see the state behind it. */
static clef_value *same(copier *c, const clef_value *v)
{
    if (!v)
        return NULL;
    const int is_view = v->op != CLEF_OP_NONE && clef__ops[v->op]->view && !clef__ops[v->op]->writes;
    if (!is_view || clef__base(v)->kind != CLEF_STATE)
        return leaf(c, v, &v->shape);
    clef_value *out = copied(c, v), *of = out ? NULL : same(c, v->in[0]);
    return out ? out : keep(c, v, of ? clef__node(c->g, v->op, &of, 1, v->attr) : NULL);
}

static int64_t cut_to(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* v with its dim `axis` cut to n. */
static clef_value *cut(copier *c, const clef_value *v, int32_t axis, int64_t n)
{
    clef_shape shape = v->shape;
    shape.dim[axis] = clef_n(n);
    return leaf(c, v, &shape);
}

/* ---- ops whose weights have rows to spare
 * ------------------------------------------------------------------------------------------- */

/* The packed weight anew, of fewer rows; *n: those of the result. NULL: it is not packed of weights. */
static clef_value *pack_less(copier *c, const clef_value *packed, int32_t *n)
{
    const clef_pack_opts *o = (const void *)packed->attr;
    const int64_t most = packed->n_in > 1 && !o->interleave ? STACK_CUT : PANEL_CUT;
    clef_value *weights[CLEF_MAX_INPUTS];
    *n = 0;
    if (packed->op != CLEF_OP_pack)
        return NULL;
    for (int32_t i = 0; i < packed->n_in; i++) {
        const int32_t axis = o->in_out ? 1 : 0;
        const int64_t rows = cut_to(packed->in[i]->shape.dim[axis].n, most);
        if (packed->in[i]->kind != CLEF_WEIGHT)
            return NULL;
        weights[i] = cut(c, packed->in[i], axis, rows);
        *n += (int32_t)rows;
    }
    return clef__pack(c->g, weights, packed->n_in, o);
}

static clef_value *panel_matmul(copier *c, const clef_value *n)
{
    clef_panel_matmul_opts o = *(const clef_panel_matmul_opts *)(const void *)n->attr;
    int32_t rows = 0;
    clef_value *in[PANEL_INPUTS] = {0};
    in[PANEL_PACKED] = pack_less(c, n->in[PANEL_PACKED], &rows);
    if (!in[PANEL_PACKED])
        return NULL;
    const int gated = o.act == CLEF_PANEL_SWIGLU;
    o.n = gated ? rows / 2 : rows;
    in[PANEL_X] = same(c, n->in[PANEL_X]);
    in[PANEL_NORM_WEIGHT] = same(c, n->in[PANEL_NORM_WEIGHT]);
    in[PANEL_NORM_BIAS] = same(c, n->in[PANEL_NORM_BIAS]);
    if (n->in[PANEL_BIAS])
        in[PANEL_BIAS] = cut(c, n->in[PANEL_BIAS], 0, rows);
    if (n->in[PANEL_RESIDUAL])
        in[PANEL_RESIDUAL] = cut(c, n->in[PANEL_RESIDUAL], n->in[PANEL_RESIDUAL]->shape.rank - 1, o.n);
    return clef__node(c->g, CLEF_OP_panel_matmul, in, PANEL_INPUTS, &o);
}

static clef_value *matmul(copier *c, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    const clef_value *b = n->in[1];
    clef_value *in[3] = {0};
    if (b->kind != CLEF_WEIGHT || b->shape.rank != 2 || b == n->in[0])
        return NULL;
    const int32_t axis = o->transpose_b ? 0 : 1;
    const int64_t rows = cut_to(b->shape.dim[axis].n, MATRIX_CUT);
    in[0] = same(c, n->in[0]);
    in[1] = cut(c, b, axis, rows);
    if (n->in[2])
        in[2] = cut(c, n->in[2], 0, rows);
    return clef__node(c->g, CLEF_OP_matmul, in, 3, o);
}

static clef_value *gather(copier *c, const clef_value *n)
{
    const clef_gather_opts *o = (const void *)n->attr;
    if (o->axis || n->in[0]->shape.dim[0].symbol)
        return NULL;
    clef_value *in[2] = {cut(c, n->in[0], 0, cut_to(n->in[0]->shape.dim[0].n, TABLE_CUT)), same(c, n->in[1])};
    return clef__node(c->g, CLEF_OP_gather, in, 2, o);
}

static clef_value *(*const special[CLEF_N_OPS])(copier *c, const clef_value *n) = {
    [CLEF_OP_panel_matmul] = panel_matmul, [CLEF_OP_matmul] = matmul, [CLEF_OP_gather] = gather};

/* ---- any node
 * -------------------------------------------------------------------------------------------------------------------------
 */

static clef_value *as_it_is(copier *c, const clef_value *n)
{
    clef_value *in[CLEF_MAX_INPUTS] = {0};
    for (int32_t i = 0; i < n->n_in; i++)
        in[i] = same(c, n->in[i]);
    return clef__node(c->g, n->op, in, n->n_in, n->attr);
}

clef_status clef__proof_graph(const clef_value *n, clef_graph **out, clef_error *err)
{
    copier c = {.g = clef_graph_create()};
    *out = NULL;
    if (!c.g)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a graph");
    for (int32_t i = 0; i < n->graph->n_symbols; i++)
        clef_symbol(c.g, n->graph->symbols[i].name, n->graph->symbols[i].bound);
    clef_value *node = special[n->op] ? special[n->op](&c, n) : NULL;
    if (!node && (!special[n->op] || !c.n))
        node = as_it_is(&c, n);
    if (node)
        clef_output(c.g, "proof", node);
    if (!node || c.elements > MAX_ELEMENTS || clef_graph_error(c.g, NULL)) {
        const int no_memory = clef_graph_error(c.g, NULL) == CLEF_E_NOMEM;
        clef_graph_destroy(c.g);
        return no_memory ? clef__fail(err, CLEF_E_NOMEM, "no memory for a graph of %s alone", n->name)
                         : CLEF_OK;
    }
    *out = c.g;
    return CLEF_OK;
}
