/* Decides, from the outputs backwards, in which forms a rank needs the values. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/pass/pass.h"
#include "ranks/shard/sharding.h"

int clef__shard_marks(const clef__sharding *s, int32_t stage, const clef_value *v)
{
    return s->layout.stages > 1 ? s->cut.marks[stage][v->id] : CLEF__CUT_WANTED;
}

/* The form of v with this kind and range, made if it is new. NULL: no memory. */
static clef__form *form_of(clef__sharding *s, const clef_value *v, clef__form_kind kind, int32_t axis,
                           clef__range range)
{
    clef__form **at = &s->forms[v->id];
    for (; *at; at = &(*at)->next)
        if ((*at)->kind == kind &&
            (kind != CLEF__PIECE ||
             ((*at)->axis == axis && (*at)->range.start == range.start && (*at)->range.size == range.size)))
            return *at;
    *at = calloc(1, sizeof **at);
    if (*at)
        **at = (clef__form){.kind = kind, .axis = axis, .range = range};
    return *at;
}

static clef__form *whole(clef__sharding *s, const clef_value *v)
{
    return form_of(s, v, CLEF__WHOLE, -1, (clef__range){0, 0});
}

static clef__range of_input(const clef__way_in *in, clef__range r)
{
    const int64_t size = r.size * in->mul / in->div;
    return (clef__range){r.start * in->mul / in->div + in->add, size ? size : 1};
}

/* The forms of the inputs of f, which is made of pieces or summands. Returns 0 when out of memory. */
static int need_inputs(clef__sharding *s, const clef_value *n, clef__form *f, clef__range range)
{
    int fits = 1;
    for (int32_t i = 0; i < n->n_in && fits; i++) {
        clef_value *x = n->in[i];
        const clef__way_in *in = &f->way.in[i];
        if (!x || (f->way.passes_input && i))
            continue;
        if (in->axis == CLEF__FIRST && s->part) { /* all ranks take part in computing it */
            fits = x->op == CLEF_OP_NONE || whole(s, x);
            continue;
        }
        f->of[i] = in->axis >= 0               ? form_of(s, x, CLEF__PIECE, in->axis, of_input(in, range))
                   : in->axis == CLEF__PARTIAL ? form_of(s, x, CLEF__SUMMAND, -1, (clef__range){0, 0})
                                               : whole(s, x);
        fits = f->of[i] != NULL;
    }
    return fits;
}

static int need_whole_inputs(clef__sharding *s, const clef_value *n, clef__form *f)
{
    int fits = 1;
    f->how = CLEF__FROM_WHOLE;
    for (int32_t i = 0; i < n->n_in && fits; i++)
        if (n->in[i])
            fits = (f->of[i] = whole(s, n->in[i])) != NULL;
    return fits;
}

/* The rank's part of n along an axis, to be joined with those of the others. */
static int join_pieces(clef__sharding *s, const clef_value *n, int32_t axis, clef__form *f)
{
    const clef__range mine =
        clef__shard_range(s, n->shape.dim[axis].n, &s->cuttable[n->id][axis], s->part, &f->grain);
    f->how = CLEF__BY_GATHER;
    f->axis = axis;
    return (f->self = form_of(s, n, CLEF__PIECE, axis, mine)) != NULL;
}

static int plan_whole(clef__sharding *s, const clef_value *n, clef__form *f)
{
    if (s->is_sum[n->id]) {
        f->how = CLEF__BY_REDUCE;
        return (f->self = form_of(s, n, CLEF__SUMMAND, -1, (clef__range){0, 0})) != NULL;
    }
    if (s->layout.width > 1 && s->state_axis[n->id] >= 0)
        return join_pieces(s, n, s->state_axis[n->id], f);
    if (s->layout.width > 1 && clef__shard_gathers(s, n))
        return join_pieces(s, n, n->shape.rank - 1, f);
    return need_whole_inputs(s, n, f);
}

static int plan_summand(clef__sharding *s, const clef_value *n, clef__form *f)
{
    clef__cuttable lead;
    f->how = CLEF__FROM_SUM;
    if (!clef__shard_sum(s, n, &f->way, &lead))
        return 0;
    if (f->way.lead >= 0) {
        const int64_t size = n->in[f->way.lead]->shape.dim[f->way.in[f->way.lead].axis].n;
        int64_t grain;
        f->lead = clef__shard_range(s, size, &lead, s->part, &grain);
    }
    return need_inputs(s, n, f, f->lead);
}

/* 1 when the piece begins and ends between grains; the last one may be shorter. */
static int is_aligned(const clef__cuttable *c, clef__range r)
{
    return r.start % c->grain == 0 && r.size % c->grain == 0;
}

static int plan_piece(clef__sharding *s, const clef_value *v, clef__form *f)
{
    const clef__cuttable *c = &s->cuttable[v->id][f->axis];
    const int arrives = clef__shard_marks(s, s->stage, v) & CLEF__CUT_IN;
    if (!arrives && c->by_inputs && is_aligned(c, f->range)) {
        f->how = CLEF__FROM_PIECES;
        if (v->op == CLEF_OP_NONE)
            return 1;
        return clef__ops[v->op]->way(v, f->axis, &f->way) && need_inputs(s, v, f, f->range);
    }
    f->how = CLEF__BY_SLICE;
    return (f->self = whole(s, v)) != NULL;
}

static int plan_form(clef__sharding *s, const clef_value *v, clef__form *f)
{
    if (f->kind == CLEF__PIECE)
        return plan_piece(s, v, f);
    if (f->kind == CLEF__SUMMAND)
        return plan_summand(s, v, f);
    if (v->op != CLEF_OP_NONE && clef__shard_marks(s, s->stage, v) & CLEF__CUT_IN) {
        f->how = CLEF__BY_RECEIVE;
        return 1;
    }
    return v->op == CLEF_OP_NONE ? 1 : plan_whole(s, v, f);
}

/* What no other value asks for: outputs, values that later stages need, and nodes with an effect. */
static int demand_by_itself(clef__sharding *s, const clef_value *v)
{
    const int marks = clef__shard_marks(s, s->stage, v);
    int wanted = marks & CLEF__CUT_OUT;
    for (int32_t i = 0; i < s->from->n_outputs && !wanted; i++)
        wanted = s->from->outputs[i].value == v && !(marks & CLEF__CUT_IN) &&
                 (s->layout.stages == 1 || clef__cut_stage_of(&s->cut, v) == s->stage ||
                  (clef__cut_stage_of(&s->cut, v) < 0 && s->stage == 0));
    if (v->kind == CLEF_INPUT && s->stage == 0)
        wanted = 1;
    if (!wanted && !s->forms[v->id] && clef__has_effect(v) && !(marks & CLEF__CUT_IN)) {
        const int32_t axis = s->state_axis[v->id];
        clef__form f = {0};
        if (axis >= 0 && s->layout.width > 1 && v->shape.dim[axis].n >= s->layout.width)
            return join_pieces(s, v, axis, &f);
        wanted = 1;
    }
    return !wanted || whole(s, v) != NULL;
}

clef_status clef__shard_demand(clef__sharding *s, clef_error *err)
{
    for (int32_t i = s->from->n_values - 1; i >= 0; i--) {
        const clef_value *v = s->from->values[i];
        if (!(clef__shard_marks(s, s->stage, v) & CLEF__CUT_WANTED))
            continue;
        int fits = demand_by_itself(s, v);
        for (clef__form *f = s->forms[i]; f && fits; f = f->next) /* the list grows by what its forms need */
            fits = plan_form(s, v, f);
        if (!fits)
            return clef__fail(err, CLEF_E_NOMEM, "no memory to cut a graph of %" PRId32 " values",
                              s->from->n_values);
    }
    return CLEF_OK;
}
