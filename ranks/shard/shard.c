/* Cuts a graph for several ranks. First it finds what can be cut, then, from the outputs backwards, what the
 * rank needs in which form, then it makes the rank's graph. */
#include "ranks/shard/shard.h"

#include <inttypes.h>
#include <stdlib.h>

#include "clef/ranks.h"
#include "ranks/shard/sharding.h"

static clef_status cut_stages(const clef_graph *g, const clef_layout *layout, const int32_t *begin,
                              clef_cut *cut, clef_error *err)
{
    double shares[CLEF_MAX_STAGES];
    int32_t chosen[CLEF_MAX_STAGES];
    for (int32_t i = 0; i < CLEF_MAX_STAGES; i++)
        shares[i] = 1;
    clef_status s = clef__cut_init(cut, g, err);
    if (!s && !begin)
        s = clef__cut_choose(cut, shares, layout->stages, chosen, err);
    return s ? s : clef__cut_at(cut, begin ? begin : chosen, layout->stages, err);
}

/* A graph of less than two layers, such as what lies between a tower and its model, is not cut into stages:
 * each stage has all of it. */
static clef_status layout_for(const clef_graph *g, clef_layout *layout, clef_error *err)
{
    clef_cut cut = {0};
    if (layout->stages == 1)
        return CLEF_OK;
    const clef_status s = clef__cut_init(&cut, g, err);
    if (!s && cut.n_layers < 2)
        layout->stages = 1;
    clef__cut_finish(&cut);
    return s;
}

static clef_status start(clef__sharding *s, const int32_t *begin, clef_error *err)
{
    const size_t n = (size_t)s->from->n_values + 1;
    s->to = clef_graph_create();
    s->cuttable = calloc(n, sizeof *s->cuttable);
    s->is_sum = calloc(n, 1);
    s->state_axis = calloc(n, sizeof *s->state_axis);
    s->forms = calloc(n, sizeof(clef__form *));
    if (!s->to || !s->cuttable || !s->is_sum || !s->state_axis || !s->forms)
        return clef__fail(err, CLEF_E_NOMEM, "no memory to cut a graph of %" PRId32 " values",
                          s->from->n_values);
    return s->layout.stages > 1 ? cut_stages(s->from, &s->layout, begin, &s->cut, err) : CLEF_OK;
}

static void finish(clef__sharding *s)
{
    for (int32_t i = 0; s->forms && i < s->from->n_values; i++)
        for (clef__form *f = s->forms[i], *next; f; f = next) {
            next = f->next;
            free(f);
        }
    free((void *)s->forms);
    free(s->cuttable);
    free(s->is_sum);
    free(s->state_axis);
    clef__cut_finish(&s->cut);
    clef_graph_destroy(s->to);
}

static clef_status check_layout(const clef_layout *layout, int32_t rank, clef_error *err)
{
    if (layout->width < 1 || layout->stages < 1 || layout->stages > CLEF_MAX_STAGES)
        return clef__fail(err, CLEF_E_ARG,
                          "%" PRId32 " ranks a stage and %" PRId32
                          " stages: expected at least 1, and at most %d "
                          "stages",
                          layout->width, layout->stages, CLEF_MAX_STAGES);
    return rank >= 0 && rank < layout->width * layout->stages
               ? CLEF_OK
               : clef__fail(err, CLEF_E_ARG, "rank %" PRId32 ": the layout has %" PRId32, rank,
                            layout->width * layout->stages);
}

clef_status clef__shard(const clef_graph *g, const clef_layout *layout, int32_t rank, const int32_t *begin,
                        clef_graph **out, clef_error *err)
{
    clef__sharding s = {.from = g, .layout = *layout};
    *out = NULL;
    clef_status status = check_layout(layout, rank, err);
    if (status)
        return status;
    status = layout_for(g, &s.layout, err);
    s.part = rank % layout->width;
    s.stage = s.layout.stages > 1 ? rank / layout->width : 0;
    if (!status)
        status = start(&s, begin, err);
    if (!status)
        status = clef__shard_trace(&s, err);
    if (!status)
        status = clef__shard_demand(&s, err);
    if (!status)
        status = clef__shard_make(&s, err);
    if (!status) {
        *out = s.to;
        s.to = NULL;
    }
    finish(&s);
    return status;
}

clef_status clef_graph_of_rank(const clef_graph *g, int32_t width, int32_t stages, int32_t rank,
                               clef_graph **out, clef_error *err)
{
    const clef_layout layout = {width, stages};
    return clef__shard(g, &layout, rank, NULL, out, err);
}

clef_status clef__shard_home(const clef_graph *g, const clef_layout *layout, const int32_t *begin,
                             int32_t *homes, clef_error *err)
{
    clef_cut cut = {0};
    clef_layout own = *layout;
    clef_status s = layout_for(g, &own, err);
    if (!s && own.stages > 1)
        s = cut_stages(g, layout, begin, &cut, err);
    for (int32_t i = 0; i < g->n_outputs && !s; i++) {
        const int32_t stage = own.stages > 1 ? clef__cut_stage_of(&cut, g->outputs[i].value) : 0;
        homes[i] = (stage < 0 ? 0 : stage) * layout->width;
    }
    clef__cut_finish(&cut);
    return s;
}
