/* Cuts a graph between layers, so that each device gets some of them. */
#include "graph/pass/cut.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/names.h"
#include "graph/pass/pass.h"

enum { ANYWHERE = -1, SMALL_BYTES = 1 << 20 };

/* ---- layers ---------------------------------------------------------------------------------- */

/* Numbers the layers in the order of their first nodes. */
static void find_layers(clef_cut *cut, clef__scope *layers)
{
    for (int32_t i = 0; i < cut->graph->n_values; i++) {
        const clef_value *v = cut->graph->values[i];
        cut->layer[i] = -1;
        if (v->op == CLEF_OP_NONE || !clef__in_layer(v->scope))
            continue;
        int32_t l = cut->n_layers - 1;
        while (l >= 0 && !clef__same_layer(layers[l], v->scope))
            l--;
        if (l < 0)
            layers[l = cut->n_layers++] = v->scope;
        cut->layer[i] = l;
    }
}

/* The state that v shows or has just written, else NULL. */
static const clef_value *state_of(const clef_value *v)
{
    const clef_value *base = clef__base(v);
    return base->kind == CLEF_STATE ? base : NULL;
}

/* The layers from the first to the last one that uses a state stay together. */
static void find_places(clef_cut *cut, int32_t *first, int32_t *last)
{
    const clef_graph *g = cut->graph;
    for (int32_t i = 0; i < g->n_values; i++)
        first[i] = last[i] = -1;
    for (int32_t i = 0; i < g->n_values; i++)
        for (int32_t k = 0; k < g->values[i]->n_in && cut->layer[i] >= 0; k++) {
            const clef_value *state = g->values[i]->in[k] ? state_of(g->values[i]->in[k]) : NULL;
            if (!state)
                continue;
            if (first[state->id] < 0 || cut->layer[i] < first[state->id])
                first[state->id] = cut->layer[i];
            if (cut->layer[i] > last[state->id])
                last[state->id] = cut->layer[i];
        }
    for (int32_t l = 1; l < cut->n_layers; l++)
        cut->may_begin[l] = 1;
    for (int32_t i = 0; i < g->n_values; i++)
        for (int32_t l = first[i] + 1; first[i] >= 0 && l <= last[i]; l++)
            cut->may_begin[l] = 0;
}

/* Counts weights and states for the layer that uses them first. */
static void weigh_layers(clef_cut *cut, unsigned char *seen)
{
    const clef_graph *g = cut->graph;
    int32_t now = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        if (g->values[i]->op != CLEF_OP_NONE)
            now = cut->layer[i] > now ? cut->layer[i] : now;
        for (int32_t k = 0; k < g->values[i]->n_in; k++) {
            const clef_value *base = g->values[i]->in[k] ? clef__base(g->values[i]->in[k]) : NULL;
            if (!base || seen[base->id] || (base->kind != CLEF_WEIGHT && base->kind != CLEF_STATE))
                continue;
            seen[base->id] = 1;
            cut->bytes[now] += (double)clef__bytes(base, NULL);
        }
    }
}

clef_status clef__cut_init(clef_cut *cut, const clef_graph *g, clef_error *err)
{
    const size_t n = (size_t)g->n_values + 1;
    *cut = (clef_cut){.graph = g};
    cut->layer = calloc(n, sizeof *cut->layer);
    cut->stage = calloc(n, sizeof *cut->stage);
    cut->may_begin = calloc(n, 1);
    cut->bytes = calloc(n, sizeof *cut->bytes);
    clef__scope *layers = calloc(n, sizeof *layers);
    int32_t *range = calloc(2 * n, sizeof *range);
    unsigned char *seen = calloc(n, 1);
    clef_status s = CLEF_OK;
    if (cut->layer && cut->stage && cut->may_begin && cut->bytes && layers && range && seen) {
        find_layers(cut, layers);
        find_places(cut, range, range + n);
        weigh_layers(cut, seen);
    } else {
        s = clef__fail(err, CLEF_E_NOMEM, "no memory to split a graph of %" PRId32 " values", g->n_values);
    }
    free(layers);
    free(range);
    free(seen);
    return s;
}

void clef__cut_finish(clef_cut *cut)
{
    free(cut->layer);
    free(cut->stage);
    free(cut->may_begin);
    free(cut->bytes);
    for (int32_t s = 0; s < CLEF_MAX_STAGES; s++)
        free(cut->marks[s]);
    *cut = (clef_cut){0};
}

/* ---- where to cut ---------------------------------------------------------------------------- */

clef_status clef__cut_choose(const clef_cut *cut, const double *shares, int32_t n_stages, int32_t *begin,
                             clef_error *err)
{
    int32_t places = 0;
    double all = 0, before = 0;
    for (int32_t l = 1; l < cut->n_layers; l++)
        places += cut->may_begin[l];
    for (int32_t s = 0; s < n_stages; s++)
        all += shares[s];
    if (places < n_stages - 1)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%" PRId32 " stages (devices or --pp): the model has %" PRId32
                          " layers, which can be cut at %" PRId32 " places",
                          n_stages, cut->n_layers, places);
    begin[0] = 0;
    for (int32_t s = 1; s < n_stages; s++) {
        before += shares[s - 1];
        const double wanted = before / all * cut->n_layers;
        int32_t left = 0;
        begin[s] = -1;
        for (int32_t l = cut->n_layers - 1; l > begin[s - 1]; l--) {
            if (!cut->may_begin[l])
                continue;
            if (left++ >= n_stages - 1 - s && (begin[s] < 0 || fabs(l - wanted) < fabs(begin[s] - wanted)))
                begin[s] = l;
        }
    }
    return CLEF_OK;
}

/* 1 for a node that is computed again in each stage that reads it. */
static int is_anywhere(const clef_cut *cut, const clef_value *v, const unsigned char *of_weights)
{
    int64_t weights = 0;
    if (of_weights[v->id])
        return 1;
    if (cut->layer[v->id] >= 0 || clef__has_effect(v))
        return 0;
    for (int32_t k = 0; k < v->n_in; k++) {
        const clef_value *x = v->in[k];
        if (!x)
            continue;
        if (x->kind == CLEF_STATE || (x->op != CLEF_OP_NONE && cut->stage[x->id] != ANYWHERE))
            return 0;
        weights += x->kind == CLEF_WEIGHT ? clef__bytes(x, NULL) : 0;
    }
    return weights <= SMALL_BYTES;
}

/* 1 for leaves that are weights or constants, and for nodes of these alone. */
static unsigned char is_of_weights(const clef_value *v, const unsigned char *of_weights)
{
    if (v->op == CLEF_OP_NONE)
        return v->kind == CLEF_WEIGHT || v->kind == CLEF_CONSTANT;
    for (int32_t k = 0; k < v->n_in; k++)
        if (v->in[k] && !of_weights[v->in[k]->id])
            return 0;
    return 1;
}

static int32_t stage_of_layer(int32_t layer, const int32_t *begin, int32_t n_stages)
{
    int32_t s = n_stages - 1;
    while (s > 0 && layer < begin[s])
        s--;
    return s;
}

static clef_status check_states(const clef_cut *cut, clef_error *err)
{
    const clef_graph *g = cut->graph;
    for (int32_t i = 0; i < g->n_values; i++)
        for (int32_t k = 0; k < g->values[i]->n_in; k++) {
            const clef_value *state = g->values[i]->in[k] ? state_of(g->values[i]->in[k]) : NULL;
            if (state && cut->stage[i] != cut->stage[state->id])
                return clef__fail(
                    err, CLEF_E_UNSUPPORTED,
                    "%s: %s uses it on another device than its own: the model cannot be split there",
                    state->name, g->values[i]->name);
        }
    return CLEF_OK;
}

/* ---- the values of each stage ------------------------------------------------------------------ */

enum { WANTED = CLEF__CUT_WANTED, CROSSES_IN = CLEF__CUT_IN, CROSSES_OUT = CLEF__CUT_OUT };

int32_t clef__cut_stage_of(const clef_cut *cut, const clef_value *v)
{
    return cut->stage[v->id];
}

/* The stage of an output. A value that any stage could compute belongs to the first. */
static int32_t home_of(const clef_cut *cut, const clef_value *v)
{
    return cut->stage[v->id] == ANYWHERE ? 0 : cut->stage[v->id];
}

static void mark_outputs(const clef_cut *cut, int32_t s, unsigned char *marks)
{
    const clef_graph *g = cut->graph;
    for (int32_t i = 0; i < g->n_values; i++)
        if ((g->values[i]->kind == CLEF_INPUT && s == 0) ||
            (clef__has_effect(g->values[i]) && cut->stage[i] == s))
            marks[i] |= WANTED;
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (home_of(cut, g->outputs[i].value) == s)
            marks[g->outputs[i].value->id] |= WANTED;
}

/* Marks what stage s needs for value i, which it computes: the inputs, of those that another stage computes
 * the ones that cross. */
static void mark_inputs(clef_cut *cut, int32_t s, int32_t i)
{
    unsigned char *marks = cut->marks[s];
    for (int32_t k = 0; k < cut->graph->values[i]->n_in; k++) {
        const clef_value *x = cut->graph->values[i]->in[k];
        if (!x)
            continue;
        marks[x->id] |= WANTED;
        if (x->op == CLEF_OP_NONE || cut->stage[x->id] == ANYWHERE || cut->stage[x->id] == s)
            continue;
        marks[x->id] |= CROSSES_IN;
        cut->marks[cut->stage[x->id]][x->id] |= WANTED | CROSSES_OUT;
    }
}

clef_status clef__cut_mark(clef_cut *cut, clef_error *err)
{
    for (int32_t s = 0; s < cut->n_stages; s++) {
        cut->marks[s] = calloc((size_t)cut->graph->n_values + 1, 1);
        if (!cut->marks[s])
            return clef__fail(err, CLEF_E_NOMEM, "no memory to split a graph of %" PRId32 " values",
                              cut->graph->n_values);
        mark_outputs(cut, s, cut->marks[s]);
    }
    for (int32_t i = cut->graph->n_values - 1; i >= 0; i--) /* what is wanted only asks for earlier values */
        for (int32_t s = 0; s < cut->n_stages; s++)
            if ((cut->marks[s][i] & WANTED) && !(cut->marks[s][i] & CROSSES_IN))
                mark_inputs(cut, s, i);
    return CLEF_OK;
}

clef_status clef__cut_at(clef_cut *cut, const int32_t *begin, int32_t n_stages, clef_error *err)
{
    const clef_graph *g = cut->graph;
    unsigned char *of_weights = calloc((size_t)g->n_values + 1, 1);
    if (!of_weights)
        return clef__fail(err, CLEF_E_NOMEM, "no memory to split a graph of %" PRId32 " values", g->n_values);
    cut->n_stages = n_stages;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        of_weights[i] = is_of_weights(v, of_weights);
        if (v->op == CLEF_OP_NONE || is_anywhere(cut, v, of_weights)) {
            cut->stage[i] = ANYWHERE;
            continue;
        }
        int32_t s = cut->layer[i] >= 0 ? stage_of_layer(cut->layer[i], begin, n_stages) : 0;
        for (int32_t k = 0; k < v->n_in; k++)
            if (v->in[k] && cut->stage[v->in[k]->id] > s && !(v->in[k]->kind == CLEF_STATE))
                s = cut->stage[v->in[k]->id];
        cut->stage[i] = s;
        for (int32_t k = 0; k < v->n_in; k++) { /* a state belongs to the stage that uses it */
            const clef_value *state = v->in[k] ? state_of(v->in[k]) : NULL;
            if (state && cut->stage[state->id] < s)
                cut->stage[state->id] = s;
        }
    }
    free(of_weights);
    const clef_status status = check_states(cut, err);
    return status ? status : clef__cut_mark(cut, err);
}

/* 1 for a product with chosen experts, and for what is computed of values that each chosen expert has one of
 * [B, T, k, n], up to their sum. */
static int is_of_experts(const clef_cut *cut, const clef_value *v)
{
    if (v->op == CLEF_OP_expert_matmul)
        return 1;
    for (int32_t k = 0; k < v->n_in; k++)
        if (v->in[k] && v->in[k]->op != CLEF_OP_NONE && cut->stage[v->in[k]->id] == CLEF__CUT_EXPERTS &&
            v->in[k]->shape.rank == 4)
            return 1;
    return 0;
}

clef_status clef__cut_experts(clef_cut *cut, clef_error *err)
{
    const clef_graph *g = cut->graph;
    unsigned char *of_weights = calloc((size_t)g->n_values + 1, 1);
    if (!of_weights)
        return clef__fail(err, CLEF_E_NOMEM, "no memory to split a graph of %" PRId32 " values", g->n_values);
    cut->n_stages = 1;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        of_weights[i] = is_of_weights(v, of_weights);
        cut->stage[i] = v->op == CLEF_OP_NONE || of_weights[i] ? ANYWHERE
                        : is_of_experts(cut, v)                ? CLEF__CUT_EXPERTS
                                                               : CLEF__CUT_REST;
        cut->n_stages = cut->stage[i] == CLEF__CUT_EXPERTS ? 2 : cut->n_stages;
    }
    free(of_weights);
    return clef__cut_mark(cut, err);
}

/* ---- a stage as a graph ---------------------------------------------------------------------- */

/* Keeps the marked values of a copy of the whole graph. Values that cross into the stage become inputs. */
static void keep_marked(clef_graph *g, const unsigned char *marks)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        clef_value *v = g->values[i];
        if (!(marks[i] & WANTED)) {
            clef__names_remove(g->names, v);
            continue;
        }
        if (marks[i] & CROSSES_IN) {
            v->kind = CLEF_INPUT;
            v->op = CLEF_OP_NONE;
            v->n_in = 0;
            memset(v->in, 0, sizeof v->in);
            memset(v->attr, 0, sizeof v->attr);
        }
        v->id = n;
        g->values[n++] = v;
    }
    g->n_values = n;
}

static void keep_outputs(const clef_cut *cut, int32_t s, clef_graph *g)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (home_of(cut, cut->graph->outputs[i].value) == s)
            g->outputs[n++] = g->outputs[i];
    g->n_outputs = n;
}

clef_status clef__cut_stage(const clef_cut *cut, int32_t s, clef_graph **out, clef_error *err)
{
    char name[CLEF_NAME_BYTES + sizeof CLEF_CROSS];
    clef_graph *g = *out = clef_graph_clone(cut->graph);
    if (!g)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a copy of the graph");
    keep_outputs(cut, s, g);
    for (int32_t i = 0; i < cut->graph->n_values; i++)
        if (cut->marks[s][i] & CROSSES_OUT) {
            snprintf(name, sizeof name, CLEF_CROSS "%s", g->values[i]->name);
            clef__graph_add_output(g, name, g->values[i]);
        }
    keep_marked(g, cut->marks[s]);
    const clef_status status = clef_graph_error(g, err);
    if (status) {
        clef_graph_destroy(g);
        *out = NULL;
    }
    return status;
}
