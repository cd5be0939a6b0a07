/* From a graph with a loss to the graphs that train it. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "train/plan/train_graphs.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "graph/pass/pass.h"
#include "train/gradient/round_products.h"

void clef__train_array_name(const char *parameter, clef_train_array which, char name[CLEF_NAME_BYTES])
{
    static const char *const prefixes[] = {"", "gradients/", "moments1/", "moments2/"};
    snprintf(name, CLEF_NAME_BYTES, "%s%s", prefixes[which], parameter);
}

int64_t clef__train_row(const clef__train_parameter *p)
{
    return p->shape.rank > 0 ? p->n / p->shape.dim[0].n : p->n;
}

int64_t clef__train_cut(const clef__train_graphs *graphs, int32_t i, int32_t rank, int32_t n_ranks)
{
    const clef__train_parameter *p = &graphs->parameters[i], *last = &graphs->parameters[0];
    const int64_t row = clef__train_row(p), n_rows = p->n / row, all = last->start + last->n,
                  before = all / n_ranks * rank + all % n_ranks * rank / n_ranks -
                           p->start, /* all * rank / n_ranks */
        cut = before <= 0 ? 0 : (before + row - 1) / row;
    return rank >= n_ranks || cut > n_rows ? n_rows : cut;
}

static clef_value *state_of(clef_graph *g, const clef__train_parameter *p, clef_train_array which)
{
    char name[CLEF_NAME_BYTES];
    clef__train_array_name(p->name, which, name);
    return clef_state(g, name, CLEF_F32, p->shape);
}

/* ---- the loss ---------------------------------------------------------------------------------- */

static int is_trained(const clef_train_opts *o, const clef_value *v)
{
    return v->kind == CLEF_WEIGHT && (!o->trains || o->trains(o->trains_user, v->name));
}

/* Marks the values that have a gradient of the loss. What only decides which rows are chosen, as a bias of
 * topk, has none. */
static void mark_sloped(const clef_graph *g, unsigned char *sloped)
{
    sloped[g->outputs[0].value->id] = 1; /* the only one: keep_loss_alone() */
    for (int32_t i = g->n_values - 1; i >= 0; i--)
        for (int32_t k = 0; k < g->values[i]->n_in && sloped[i]; k++) {
            const clef_value *in = g->values[i]->in[k];
            if (in && (in->op == CLEF_OP_NONE || in->dtype == CLEF_F32))
                sloped[in->id] = 1;
        }
}

/* Makes the weights that are trained states and lists them. */
static clef_status free_weights(clef_graph *g, const clef_train_opts *o, clef__train_graphs *out,
                                clef_error *err)
{
    clef_status s = CLEF_OK;
    unsigned char *sloped = calloc((size_t)g->n_values + 1, 1);
    out->parameters = calloc((size_t)g->n_values + 1, sizeof *out->parameters);
    if (!out->parameters || !sloped) {
        free(sloped);
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for the list of its parameters");
    }
    mark_sloped(g, sloped);
    for (int32_t i = 0; i < g->n_values && !s; i++) {
        clef_value *v = g->values[i];
        const int is_free = sloped[i] && is_trained(o, v);
        if (v->kind == CLEF_WEIGHT && !is_free)
            out->n_frozen += clef__elements(v, NULL);
        if (!is_free)
            continue;
        clef__train_parameter *p = &out->parameters[out->n_parameters++];
        *p = (clef__train_parameter){.name = strdup(v->name),
                                     .shape = v->shape,
                                     .n = clef__elements(v, NULL),
                                     .stored = v->dtype,
                                     .decays = v->shape.rank >= 2};
        s = p->name ? clef_weight_to_state(v, err)
                    : clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for the name of %s", v->name);
    }
    free(sloped);
    return s;
}

/* Leaves the loss as the only output. */
static void keep_loss_alone(clef_graph *g, clef_value *loss)
{
    g->n_outputs = 0;
    clef_output(g, CLEF__LOSS, loss);
}

static clef_value *find_loss(clef_graph *g, const char *name, clef_error *err)
{
    clef_value *loss = clef_graph_find(g, name);
    char text[96];
    if (!loss)
        clef__fail(err, CLEF_E_NOT_FOUND, "the graph has no value '%s' to be its loss", name);
    else if (loss->dtype != CLEF_F32 || clef__elements(loss, NULL) != 1) {
        clef__fail(err, CLEF_E_SHAPE, "the loss %s is %s %s, expected one f32", name,
                   clef_dtype_name(loss->dtype), clef__shape_text(g, &loss->shape, text));
        loss = NULL;
    }
    return loss;
}

/* The loss as an output that the passes keep. */
static clef_status mark_loss(clef_graph *g, const char *name, clef_error *err)
{
    clef_status s = clef_graph_fix_symbols(g, err);
    clef_value *loss = s ? NULL : find_loss(g, name, err);
    if (!loss)
        return s ? s : err->status;
    keep_loss_alone(g, loss);
    return clef__pass_drop(g, err);
}

/* ---- gradients --------------------------------------------------------------------------------- */

/* Drops parameters that the loss does not depend on. */
static void forget_parameter(clef__train_graphs *out, int32_t i)
{
    free(out->parameters[i].name);
    memmove(&out->parameters[i], &out->parameters[i + 1],
            (size_t)(out->n_parameters - i - 1) * sizeof *out->parameters);
    out->n_parameters--;
}

/* What add_to_sum() needs. */
typedef struct sums {
    clef__train_graphs *graphs;
    clef_value *keep;
} sums;

static void add_to_sum(void *user, int32_t i, clef_value *gradient)
{
    const sums *s = user;
    clef_accumulate(gradient->graph,
                    state_of(gradient->graph, &s->graphs->parameters[i], CLEF_TRAIN_GRADIENT), gradient,
                    s->keep);
}

/* The loss times its scale. */
static clef_value *scaled_loss(clef_graph *g, clef_value *loss, const clef_train_opts *o)
{
    if (o->compute != CLEF_F16 && (o->loss_scale == 0 || o->loss_scale == 1))
        return loss;
    clef_value *scale = clef_input(g, CLEF__SCALE, CLEF_F32, clef_shape_1(clef_n(1)));
    return scale ? clef_mul(g, loss, clef_reshape(g, scale, loss->shape)) : NULL;
}

static clef_status add_gradients(clef_graph *g, const clef_train_opts *o, clef__train_graphs *out,
                                 clef_error *err)
{
    for (int32_t i = out->n_parameters - 1; i >= 0; i--)
        if (!clef_graph_find(g, out->parameters[i].name)) /* the passes found that nothing depends on it */
            forget_parameter(out, i);
    const int32_t n = out->n_parameters;
    clef_value *loss = g->outputs[0].value; /* the only one: keep_loss_alone() */
    clef_value **of = calloc((size_t)n + 1, sizeof *of), **d = calloc((size_t)n + 1, sizeof *d);
    clef_status s =
        of && d ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for %d gradients", n);
    for (int32_t i = 0; i < n && !s; i++)
        of[i] = clef_graph_find(g, out->parameters[i].name);
    sums each = {out, s ? NULL : clef_input(g, CLEF__KEEP, CLEF_F32, clef_shape_1(clef_n(1)))};
    clef_value *scaled = s ? NULL : scaled_loss(g, loss, o);
    const clef_gradient_opts opts = {.recompute = o->recompute, .ready = add_to_sum, .user = &each};
    if (!s && scaled)
        s = clef_graph_gradients(g, scaled, of, n, &opts, d, err);
    for (int32_t i = 0; i < n && !s; i++)
        if (!d[i])
            s = clef__fail(err, CLEF_E_UNSUPPORTED, "%s: the loss depends on it, but has no gradient of it",
                           out->parameters[i].name);
    if (!s)
        clef_accumulate(g, clef_state(g, CLEF__LOSS_SUM, CLEF_F32, clef_shape_1(clef_n(1))),
                        clef_reshape(g, loss, clef_shape_1(clef_n(1))), each.keep);
    free(of);
    free(d);
    return s ? s : clef_graph_error(g, err);
}

static clef_status make_gradients(const clef_graph *evaluation, const clef_train_opts *o,
                                  clef__train_graphs *out, clef_error *err)
{
    clef_graph *g = out->gradients = clef_graph_clone(evaluation);
    if (!g)
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for its graphs");
    const int32_t n_forward = g->n_values;
    clef_status s = add_gradients(g, o, out, err);
    if (!s && o->compute != CLEF_F32)
        s = clef__round_products(g, o->compute, n_forward, err);
    if (!s)
        g->n_outputs = 0; /* the loss is read from its state */
    for (int32_t i = 0; i < o->n_taps && !s; i++) {
        clef_value *v = clef_graph_find(g, o->taps[i]);
        if (!v)
            return clef__fail(err, CLEF_E_NOT_FOUND,
                              "there is no value '%s' to tap; `clef graph --train` lists them", o->taps[i]);
        clef_output(g, o->taps[i], v);
        s = clef_graph_error(g, err);
    }
    return s ? s : clef__pass_drop(g, err);
}

/* ---- the update -------------------------------------------------------------------------------- */

/* Decides which rows of each parameter this rank updates. */
static clef_status share(const clef_train_opts *o, clef__train_graphs *out, clef_error *err)
{
    clef_ranks_info ranks = {.n = 1};
    int64_t start = 0, n_own = 0;
    if (o->ranks)
        clef_ranks_describe(o->ranks, &ranks);
    for (int32_t i = out->n_parameters - 1; i >= 0; i--) {
        out->parameters[i].start = start;
        start += out->parameters[i].n;
    }
    for (int32_t i = 0; i < out->n_parameters; i++) {
        clef__train_parameter *p = &out->parameters[i];
        p->first = clef__train_cut(out, i, ranks.rank, ranks.n);
        p->n_rows = clef__train_cut(out, i, ranks.rank + 1, ranks.n) - p->first;
        n_own += p->n_rows;
    }
    return n_own ? CLEF_OK
                 : clef__fail(err, CLEF_E_ARG,
                              "trainer: %d ranks divide the rows of %d parameters, and rank %d has none",
                              ranks.n, out->n_parameters, ranks.rank);
}

/* The rows of a parameter's array that this rank updates. */
static clef_value *own_rows(clef_graph *g, const clef__train_parameter *p, clef_train_array which)
{
    char name[CLEF_NAME_BYTES];
    clef__train_array_name(p->name, which, name);
    clef_value *there = clef_graph_find(g, name), *all = there ? there : state_of(g, p, which);
    const clef_slice_opts rows = {.axis = 0, .start = (int32_t)p->first, .size = clef_n(p->n_rows)};
    return p->n_rows * clef__train_row(p) == p->n ? all : clef_slice(g, all, &rows);
}

/* A moment, which this rank has of its rows alone. */
static clef_value *own_moment(clef_graph *g, const clef__train_parameter *p, clef_train_array which)
{
    clef__train_parameter own = *p;
    if (own.shape.rank > 0)
        own.shape.dim[0] = clef_n(p->n_rows);
    return state_of(g, &own, which);
}

static clef_value *norm_of(clef_graph *g, const clef__train_graphs *of)
{
    clef_value *norm = NULL;
    for (int32_t i = 0; i < of->n_parameters; i++)
        if (of->parameters[i].n_rows)
            norm = clef_sum_squares(g, own_rows(g, &of->parameters[i], CLEF_TRAIN_GRADIENT), norm);
    clef_output(g, CLEF__NORM, norm);
    return norm;
}

static clef_status make_update(const clef_train_opts *o, clef__train_graphs *out, clef_error *err)
{
    clef_graph *g = out->update = clef_graph_create();
    if (o->ranks)
        out->norm = clef_graph_create();
    if (!g || (o->ranks && !out->norm))
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for its graphs");
    clef_value *numbers = clef_input(g, CLEF__NUMBERS, CLEF_F32, clef_shape_1(clef_n(CLEF_STEP_NUMBERS))),
               *norm = o->ranks ? clef_input(g, CLEF__NORM, CLEF_F32, clef_shape_1(clef_n(CLEF_NORM_PARTS)))
                                : norm_of(g, out);
    if (o->ranks)
        norm_of(out->norm, out);
    for (int32_t i = 0; i < out->n_parameters; i++) {
        const clef__train_parameter *p = &out->parameters[i];
        if (!p->n_rows)
            continue;
        clef_value *w = own_rows(g, p, CLEF_TRAIN_WEIGHT), *d = own_rows(g, p, CLEF_TRAIN_GRADIENT),
                   *m = own_moment(g, p, CLEF_TRAIN_MOMENT1);
        const clef_optimizer_opts opts = {.decays = p->decays};
        if (o->optimizer == CLEF_ADAMW)
            clef_adamw(g, w, d, m, own_moment(g, p, CLEF_TRAIN_MOMENT2), numbers, norm, &opts);
        else
            clef_sgd(g, w, d, m, numbers, norm, &opts);
    }
    const clef_status s = clef_graph_error(g, err);
    return s || !out->norm ? s : clef_graph_error(out->norm, err);
}

static clef_value *without_dropout(clef_value *v, const void *user)
{
    (void)user;
    return v->op == CLEF_OP_dropout ? v->in[0] : v;
}

clef_status clef__train_graphs_make(const clef_graph *graph, const char *loss, const clef_train_opts *o,
                                    clef__train_graphs *out, clef_error *err)
{
    clef_error own = {0};
    err = err ? err : &own;
    if (o->compute != CLEF_F32 && o->compute != CLEF_F16 && o->compute != CLEF_BF16)
        return clef__fail(err, CLEF_E_ARG, "trainer: compute %s, expected f32, f16 or bf16",
                          clef_dtype_name(o->compute));
    clef_graph *g = out->evaluation = clef_graph_clone(graph);
    if (!g)
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for its graphs");
    clef_status s = clef_graph_error(g, err);
    if (!s)
        s = mark_loss(g, loss, err);
    if (!s)
        s = free_weights(g, o, out, err);
    if (!s) /* fusing depends on what is trained */
        s = clef_graph_optimize(g, NULL, err);
    if (!s)
        s = make_gradients(g, o, out, err);
    if (!s && !out->n_parameters)
        s = clef__fail(err, CLEF_E_ARG, "nothing to train: the loss %s depends on no weight that is trained",
                       loss);
    if (!s)
        s = clef__rewrite(g, without_dropout, NULL, err);
    if (!s)
        s = clef__pass_drop(g, err);
    if (!s)
        s = share(o, out, err);
    return s ? s : make_update(o, out, err);
}

void clef__train_graphs_free(clef__train_graphs *graphs)
{
    clef_graph_destroy(graphs->gradients);
    clef_graph_destroy(graphs->update);
    clef_graph_destroy(graphs->norm);
    clef_graph_destroy(graphs->evaluation);
    for (int32_t i = 0; i < graphs->n_parameters; i++)
        free(graphs->parameters[i].name);
    free(graphs->parameters);
}

clef_status clef__train_graph_with_all(const clef_graph *graph, clef_graph **out, clef_error *err)
{
    clef_graph *g = *out = clef_graph_clone(graph);
    if (!g)
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for a copy of the graph");
    for (int32_t i = 0; i < g->n_values; i++) {
        clef_value *v = g->values[i];
        const int32_t is_write = v->op != CLEF_OP_NONE && clef__ops[v->op]->writes;
        if (v->op != CLEF_OP_NONE && v->dtype == CLEF_F32 && !is_write && !clef__ops[v->op]->view)
            clef__graph_add_output(g, v->name, v);
    }
    return clef_graph_error(g, err);
}

clef_status clef_train_graph(const clef_graph *graph, const char *loss, const clef_train_opts *opts,
                             clef_graph **out, clef_error *err)
{
    const clef_train_opts defaults = clef_train_defaults();
    clef__train_graphs graphs = {0};
    const clef_status s = clef__train_graphs_make(graph, loss, opts ? opts : &defaults, &graphs, err);
    *out = s ? NULL : graphs.gradients;
    graphs.gradients = s ? graphs.gradients : NULL;
    clef__train_graphs_free(&graphs);
    return s;
}
