/* Makes the graph of a rank from the forms that it needs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/pass/pass.h"
#include "ranks/shard/sharding.h"

static clef_value *make_form(clef__sharding *s, const clef_value *v, clef__form *f);

/* ---- leaves ---------------------------------------------------------------------------------- */

static clef_shape piece_shape(const clef_value *v, const clef__form *f)
{
    clef_shape shape = v->shape;
    shape.dim[f->axis] = clef_n(f->range.size);
    return shape;
}

/* Bytes of n elements along an axis, with all that lies after it. */
static uint64_t bytes_along(const clef_value *w, int32_t axis, int64_t n)
{
    uint64_t elements = (uint64_t)n;
    for (int32_t i = axis + 1; i < w->shape.rank; i++)
        elements *= (uint64_t)w->shape.dim[i].n;
    return elements / (uint64_t)clef_dtype_block_elems(w->dtype) * (uint64_t)clef_dtype_block_bytes(w->dtype);
}

/* Where the piece lies in w. NULL when out of memory. */
static clef_weight_part *place_of(clef__sharding *s, const clef_value *w, const clef__form *f)
{
    clef_weight_part *part = clef__graph_alloc(s->to, sizeof *part);
    char *whole = clef__graph_alloc(s->to, strlen(w->name) + 1);
    if (!part || !whole)
        return NULL;
    const uint64_t all = (uint64_t)clef__bytes(w, NULL),
                   stride = bytes_along(w, f->axis, w->shape.dim[f->axis].n);
    *part = (clef_weight_part){.whole = strcpy(whole, w->name),
                               .whole_bytes = all,
                               .offset = bytes_along(w, f->axis, f->range.start),
                               .n_runs = all / stride,
                               .run_bytes = bytes_along(w, f->axis, f->range.size),
                               .stride = stride};
    return part;
}

static clef_value *make_part(clef__sharding *s, const clef_value *w, const clef__form *f)
{
    char name[CLEF_NAME_BYTES];
    if (f->range.size == w->shape.dim[f->axis].n)
        return clef_weight(s->to, w->name, w->dtype, w->shape);
    if (snprintf(name, sizeof name, "%s/%" PRId32 ":%" PRId64 "+%" PRId64, w->name, f->axis, f->range.start,
                 f->range.size) >= (int)sizeof name)
        return clef__graph_fail(s->to, CLEF_E_LIMIT, "%.60s: its parts' names are too long", w->name);
    clef_weight_part *part = place_of(s, w, f);
    clef_value *v = part ? clef_weight(s->to, name, w->dtype, piece_shape(w, f)) : NULL;
    if (v)
        v->part = part;
    return v;
}

/* Several pieces of a state are states of their own; each node changes its own piece. */
static clef_value *make_state(clef__sharding *s, const clef_value *v, const clef__form *f)
{
    char name[CLEF_NAME_BYTES];
    const int is_only = s->forms[v->id] == f && !f->next;
    if (!is_only && snprintf(name, sizeof name, "%s/%" PRId32 ":%" PRId64 "+%" PRId64, v->name, f->axis,
                             f->range.start, f->range.size) >= (int)sizeof name)
        return clef__graph_fail(s->to, CLEF_E_LIMIT, "%.60s: its parts' names are too long", v->name);
    clef_weight_part *part = place_of(s, v, f);
    clef_value *state =
        part ? clef_state(s->to, is_only ? v->name : name, v->dtype, piece_shape(v, f)) : NULL;
    if (!state)
        return NULL;
    state->part = part;
    state->role = v->role;
    return state;
}

static clef_value *whole_state(clef__sharding *s, const clef_value *v)
{
    clef_value *state = clef_state(s->to, v->name, v->dtype, v->shape);
    if (state)
        state->role = v->role;
    return state;
}

static clef_value *make_leaf(clef__sharding *s, const clef_value *v)
{
    switch (v->kind) {
    case CLEF_INPUT:
        return clef_input(s->to, v->name, v->dtype, v->shape);
    case CLEF_WEIGHT:
        return clef_weight(s->to, v->name, v->dtype, v->shape);
    case CLEF_STATE:
        return whole_state(s, v);
    default:
        return clef_constant(s->to, v->name, v->dtype, v->shape, v->data);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static clef_value *make_node(clef__sharding *s, const clef_value *v, clef__form *f)
{
    clef_value *in[CLEF_MAX_INPUTS] = {0};
    unsigned char attr[CLEF_ATTR_BYTES];
    for (int32_t i = 0; i < v->n_in; i++) {
        if (!f->of[i])
            continue;
        in[i] = make_form(s, v->in[i], f->of[i]);
        if (!in[i])
            return NULL;
    }
    if (f->how == CLEF__FROM_PIECES && f->way.passes_input)
        return in[0];
    if (f->how == CLEF__FROM_SUM && (v->op == CLEF_OP_add || v->op == CLEF_OP_sub) && (!in[0] || !in[1]))
        return in[0] ? in[0] : in[1]; /* the other one is added on the first rank */
    if (v->op == CLEF_OP_reshape)
        return clef_reshape(s->to, in[0], f->kind == CLEF__PIECE ? piece_shape(v, f) : v->shape);
    memcpy(attr, v->attr, sizeof attr);
    if (f->how == CLEF__FROM_SUM && v->op == CLEF_OP_gather)
        ((clef_gather_opts *)(void *)attr)->first = (int32_t)f->lead.start;
    return clef__node(s->to, v->op, in, v->n_in, attr);
}

static clef_value *receive(clef__sharding *s, const clef_value *v)
{
    clef_value *x = clef_input(s->to, v->name, v->dtype, v->shape);
    return x ? clef__receive(s->to, x, clef__cut_stage_of(&s->cut, v) * s->layout.width + s->part) : NULL;
}

static clef_value *slice(clef__sharding *s, const clef_value *v, clef__form *f)
{
    clef_value *x = make_form(s, v, f->self);
    const clef_slice_opts o = {
        .axis = f->axis, .start = (int32_t)f->range.start, .size = clef_n(f->range.size)};
    return x ? clef_slice(s->to, x, &o) : NULL;
}

static clef_value *join(clef__sharding *s, const clef_value *v, clef__form *f)
{
    clef_value *x = make_form(s, v, f->self);
    return x ? clef__all_gather(s->to, x,
                                &(clef__all_gather_opts){.axis = f->axis,
                                                         .size = (int32_t)v->shape.dim[f->axis].n,
                                                         .grain = (int32_t)f->grain,
                                                         .part = s->part,
                                                         .parts = s->layout.width})
             : NULL;
}

static clef_value *add_up(clef__sharding *s, const clef_value *v, clef__form *f)
{
    clef_value *x = make_form(s, v, f->self);
    return x ? clef__all_reduce(s->to, x) : NULL;
}

static int has_whole(const clef__sharding *s, const clef_value *v)
{
    const clef__form *f = s->forms[v->id];
    while (f && f->kind != CLEF__WHOLE)
        f = f->next;
    return f != NULL;
}

/* The whole value gets v's name; where there is none, the first form. */
static int name_form(clef__sharding *s, const clef_value *v, const clef__form *f)
{
    if (v->op == CLEF_OP_NONE || f->how == CLEF__BY_RECEIVE || !v->named || f->made->named ||
        (f->kind != CLEF__WHOLE && (has_whole(s, v) || s->forms[v->id] != f)))
        return 1;
    f->made->named = 1;
    f->made->scope = v->scope;
    return clef__graph_rename(s->to, f->made, v->name);
}

static clef_value *make_form(clef__sharding *s, const clef_value *v, clef__form *f)
{
    if (f->made)
        return f->made;
    clef__enter_scope_of(s->to, v);
    if (f->how == CLEF__BY_SLICE)
        f->made = slice(s, v, f);
    else if (f->how == CLEF__BY_REDUCE)
        f->made = add_up(s, v, f);
    else if (f->how == CLEF__BY_GATHER)
        f->made = join(s, v, f);
    else if (f->how == CLEF__BY_RECEIVE)
        f->made = receive(s, v);
    else if (v->op != CLEF_OP_NONE)
        f->made = make_node(s, v, f);
    else if (f->kind == CLEF__PIECE)
        f->made = v->kind == CLEF_WEIGHT ? make_part(s, v, f) : make_state(s, v, f);
    else
        f->made = make_leaf(s, v);
    clef__leave_scope(s->to);
    return f->made && name_form(s, v, f) ? f->made : NULL;
}

/* ---- between stages -------------------------------------------------------------------------- */

static clef_value *whole_of(const clef__sharding *s, const clef_value *v)
{
    const clef__form *f = s->forms[v->id];
    while (f && f->kind != CLEF__WHOLE)
        f = f->next;
    return f ? f->made : NULL;
}

/* Sends v to the stages that need it: each rank to the one with its number. */
static void send_to_stages(clef__sharding *s, const clef_value *v)
{
    if (s->layout.stages == 1 || !(clef__shard_marks(s, s->stage, v) & CLEF__CUT_OUT))
        return;
    for (int32_t to = s->stage + 1; to < s->layout.stages; to++)
        if (clef__shard_marks(s, to, v) & CLEF__CUT_IN) {
            clef__enter_scope_of(s->to, v);
            clef__send(s->to, whole_of(s, v), to * s->layout.width + s->part);
            clef__leave_scope(s->to);
        }
}

/* The stage whose node writes to the input; -1: none. */
static int32_t writer_of(const clef__sharding *s, const clef_value *input)
{
    for (int32_t i = input->id + 1; i < s->from->n_values; i++) {
        const clef_value *n = s->from->values[i];
        for (int32_t k = 0; k < n->n_in && n->op != CLEF_OP_NONE; k++)
            if (n->in[k] == input && (clef__ops[n->op]->writes >> k & 1))
                return clef__cut_stage_of(&s->cut, n);
    }
    return -1;
}

/* 1 when a node of the stage reads the input. */
static int reads_input(const clef__sharding *s, int32_t stage, const clef_value *input)
{
    for (int32_t i = input->id + 1; i < s->from->n_values; i++) {
        const clef_value *n = s->from->values[i];
        const int marks = clef__shard_marks(s, stage, n);
        for (int32_t k = 0; k < n->n_in && marks & CLEF__CUT_WANTED && !(marks & CLEF__CUT_IN); k++)
            if (n->in[k] == input)
                return 1;
    }
    return 0;
}

/* Brings inputs that a stage has written (the next token) to the others that have them. */
static void bring_inputs(clef__sharding *s)
{
    for (int32_t i = 0; i < s->from->n_values && s->layout.stages > 1; i++) {
        const clef_value *v = s->from->values[i];
        const int32_t writer = v->kind == CLEF_INPUT ? writer_of(s, v) : -1;
        if (writer < 0)
            continue;
        for (int32_t to = 0; to < s->layout.stages; to++) {
            if (to == writer || !reads_input(s, to, v))
                continue;
            if (s->stage == writer)
                clef__send(s->to, whole_of(s, v), to * s->layout.width + s->part);
            else if (s->stage == to)
                clef__receive(s->to, whole_of(s, v), writer * s->layout.width + s->part);
        }
    }
}

clef_status clef__shard_make(clef__sharding *s, clef_error *err)
{
    const clef_graph *g = s->from;
    for (int32_t i = 0; i < g->n_symbols; i++)
        clef_symbol(s->to, g->symbols[i].name, g->symbols[i].bound);
    for (int32_t i = 0; i < g->n_values && !s->to->error.status; i++) {
        for (clef__form *f = s->forms[i]; f; f = f->next)
            if (!make_form(s, g->values[i], f))
                break;
        if (!s->to->error.status)
            send_to_stages(s, g->values[i]);
    }
    if (!s->to->error.status)
        bring_inputs(s);
    for (int32_t i = 0; i < g->n_outputs && !s->to->error.status; i++) {
        const int32_t home = s->layout.stages > 1 ? clef__cut_stage_of(&s->cut, g->outputs[i].value) : 0;
        if ((home < 0 ? 0 : home) == s->stage)
            clef__graph_add_output(s->to, g->outputs[i].name, whole_of(s, g->outputs[i].value));
    }
    return clef_graph_error(s->to, err);
}
