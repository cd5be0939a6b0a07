/* Finds, along each axis of each value, whether ranks can compute parts of it, and which values they can
 * compute as sums. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/divisor.h"
#include "graph/pass/pass.h"
#include "ranks/shard/sharding.h"

enum {
    SMALL_SHARE = 512, /* a product or table with less than this part of all weights stays whole, unless its
                         neighbours are cut: exchanging the result would cost more than it saves */
    ROWS_OF_PANEL =
        16 /* rows of a panel (graph/lower/panel/panel.h): parts of whole panels, where that is possible */
};

static int64_t common_multiple(int64_t a, int64_t b)
{
    return a / clef__common_divisor(a, b) * b;
}

/* ---- along one axis -------------------------------------------------------------------------- */

static clef__cuttable cuttable_leaf(const clef_value *v, int32_t axis)
{
    const int32_t block = clef_dtype_block_elems(v->dtype);
    return (clef__cuttable){.grain = axis == v->shape.rank - 1 ? block : 1,
                            .by_inputs = v->kind == CLEF_WEIGHT || v->kind == CLEF_STATE};
}

/* Adds what input i demands. Returns 0 if the axis cannot be cut then. Attention is cut between any two
 * heads: where its inputs are computed in larger units, it takes slices of them. */
static int add_input(const clef__sharding *s, const clef_value *n, int32_t i, const clef__way *way,
                     clef__cuttable *c)
{
    const clef__way_in *in = &way->in[i];
    const clef__cuttable *x = &s->cuttable[n->in[i]->id][in->axis];
    if (way->heads)
        return 1;
    if (in->add % x->grain)
        return 0;
    const int64_t wanted = x->grain * in->div;
    c->grain = common_multiple(c->grain, wanted / clef__common_divisor(wanted, in->mul));
    if (x->heads) {
        c->heads = x->heads;
        c->kv_heads = x->kv_heads;
    }
    return 1;
}

static clef__cuttable cuttable_node(const clef__sharding *s, const clef_value *n, int32_t axis)
{
    const clef__cuttable never = {.grain = 1};
    clef__way way;
    int32_t paying = 0, computed = 0;
    if (n->shape.dim[axis].symbol || !clef__ops[n->op]->way || !clef__ops[n->op]->way(n, axis, &way))
        return never;
    clef__cuttable c = {.grain = 1, .by_inputs = 1, .heads = way.heads, .kv_heads = way.kv_heads};
    for (int32_t i = 0; i < n->n_in; i++) {
        if (!n->in[i] || way.in[i].axis < 0)
            continue;
        if (!add_input(s, n, i, &way, &c))
            return never;
        if (n->in[i]->kind == CLEF_COMPUTED) {
            computed++;
            paying += s->cuttable[n->in[i]->id][way.in[i].axis].pays;
        }
    }
    c.pays = way.pays || (way.needs_all_inputs ? paying && paying == computed : paying > 0);
    return c;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static int heads_divide(int32_t heads, int32_t kv_heads, int32_t width)
{
    return heads % width == 0 && (kv_heads % width == 0 || width % kv_heads == 0);
}

static clef_status check_heads(const clef__sharding *s, const clef_value *n, const clef__cuttable *c,
                               clef_error *err)
{
    char widths[128] = "";
    if (!c->heads || !c->pays || heads_divide(c->heads, c->kv_heads, s->layout.width))
        return CLEF_OK;
    for (int32_t w = 1; w <= c->heads; w++)
        if (heads_divide(c->heads, c->kv_heads, w) && strlen(widths) < sizeof widths - 16)
            snprintf(widths + strlen(widths), 16, "%s%" PRId32, *widths ? ", " : "", w);
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: %" PRId32 " ranks cannot share its %" PRId32 " heads (%" PRId32
                      " of keys and values): widths that divide them: %s",
                      n->name, s->layout.width, c->heads, c->kv_heads, widths);
}

clef__range clef__shard_range(const clef__sharding *s, int64_t size, const clef__cuttable *c, int32_t part,
                              int64_t *grain)
{
    const int64_t panels = common_multiple(c->grain, ROWS_OF_PANEL);
    *grain = !c->heads && size % panels == 0 && size / panels >= s->layout.width ? panels : c->grain;
    return clef__part_of(size, *grain, part, s->layout.width);
}

/* 1 when an axis of `size` elements has a part for each rank. */
static int has_parts(const clef__sharding *s, int64_t size, const clef__cuttable *c)
{
    const int64_t units = size / c->grain;
    return size % c->grain == 0 && units >= s->layout.width && (!c->heads || units % s->layout.width == 0);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The axis of input `lead` that the ranks divide, with what all inputs that are cut along it demand. Returns
 * 0 if dividing it does not pay. */
static int lead_is_cut(const clef__sharding *s, const clef_value *n, const clef__way *way,
                       clef__cuttable *out)
{
    const clef_value *x = n->in[way->lead];
    const int32_t axis = way->in[way->lead].axis;
    *out = s->cuttable[x->id][axis];
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && way->in[i].axis >= 0)
            out->grain = common_multiple(out->grain, s->cuttable[n->in[i]->id][way->in[i].axis].grain);
    if (x->shape.dim[axis].symbol || !has_parts(s, x->shape.dim[axis].n, out))
        return 0;
    return x->kind == CLEF_WEIGHT ? clef__bytes(x, NULL) * SMALL_SHARE >= s->weight_bytes : out->pays;
}

int clef__shard_sum(const clef__sharding *s, const clef_value *n, clef__way *way, clef__cuttable *lead)
{
    unsigned char partial[CLEF_MAX_INPUTS] = {0};
    if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->sum || n->dtype != CLEF_F32)
        return 0;
    for (int32_t i = 0; i < n->n_in; i++)
        partial[i] = n->in[i] && s->is_sum[n->in[i]->id] && n->in[i]->n_uses == 1;
    return clef__ops[n->op]->sum(n, partial, way) && (way->lead < 0 || lead_is_cut(s, n, way, lead));
}

int clef__shard_gathers(const clef__sharding *s, const clef_value *n)
{
    const int32_t axis = n->shape.rank - 1;
    clef__way way;
    if (n->op != CLEF_OP_matmul || axis < 0 || n->dtype != CLEF_F32 || !clef__ops[n->op]->way(n, axis, &way))
        return 0;
    return way.pays && clef__bytes(n->in[1], NULL) * SMALL_SHARE >= s->weight_bytes &&
           has_parts(s, n->shape.dim[axis].n, &s->cuttable[n->id][axis]);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The axis of n along which a part depends on parts of states alone; -1: none, or it has too few parts. */
static int32_t axis_by_states(const clef__sharding *s, const clef_value *n)
{
    const int32_t writes = clef__ops[n->op]->writes;
    clef__way way;
    for (int32_t axis = 0; axis < n->shape.rank; axis++) {
        const clef__cuttable *c = &s->cuttable[n->id][axis];
        if (!c->by_inputs || !has_parts(s, n->shape.dim[axis].n, c) || !clef__ops[n->op]->way(n, axis, &way))
            continue;
        for (int32_t i = 0; i < n->n_in; i++)
            if (n->in[i] && way.in[i].axis >= 0 &&
                (((writes >> i & 1) && clef__base(n->in[i])->kind == CLEF_STATE) ||
                 s->state_axis[n->in[i]->id] == way.in[i].axis))
                return axis;
    }
    return -1;
}

clef_status clef__shard_trace(clef__sharding *s, clef_error *err)
{
    const clef_graph *g = s->from;
    clef_status status = CLEF_OK;
    clef__count_uses(g);
    for (int32_t i = 0; i < g->n_values; i++)
        s->weight_bytes += g->values[i]->kind == CLEF_WEIGHT ? clef__bytes(g->values[i], NULL) : 0;
    for (int32_t i = 0; i < g->n_values && !status; i++) {
        const clef_value *v = g->values[i];
        const int is_leaf = v->op == CLEF_OP_NONE;
        clef__way way;
        clef__cuttable lead;
        for (int32_t axis = 0; axis < v->shape.rank && !status; axis++) {
            s->cuttable[i][axis] = is_leaf ? cuttable_leaf(v, axis) : cuttable_node(s, v, axis);
            status = check_heads(s, v, &s->cuttable[i][axis], err);
        }
        s->state_axis[i] = is_leaf ? -1 : axis_by_states(s, v);
        s->is_sum[i] = s->layout.width > 1 && clef__shard_sum(s, v, &way, &lead);
    }
    return status;
}
