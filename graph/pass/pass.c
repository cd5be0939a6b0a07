/* Runs the passes, and has the rewriting that they share. */
#include "graph/pass/pass.h"

#include <stdlib.h>
#include <string.h>

#include "graph/names.h"

typedef struct pass_def {
    const char *name;
    clef_status (*run)(clef_graph *, clef_error *);
} pass_def;

static const pass_def passes[] = {
#define PASS(name) {#name, clef__pass_##name},
#include "graph/pass/passes.def"
#undef PASS
};
static const char pass_list[] =
#define PASS(name) " " #name
#include "graph/pass/passes.def"
#undef PASS
    ;
enum { N_PASSES = sizeof passes / sizeof *passes };

const char *clef_pass_name(int32_t i)
{
    return i >= 0 && i < (int32_t)N_PASSES ? passes[i].name : NULL;
}

clef_status clef_graph_optimize(clef_graph *g, const char *last, clef_error *err)
{
    if (g->error.status)
        return clef_graph_error(g, err);
    size_t n = N_PASSES;
    if (last) {
        for (n = 0; n < N_PASSES && strcmp(passes[n].name, last) != 0;)
            n++;
        if (n == N_PASSES)
            return clef__fail(err, CLEF_E_NOT_FOUND, "there is no pass '%s'; the passes are%s", last,
                              pass_list);
        n++;
    }
    for (size_t i = 0; i < n; i++) {
        const clef_status s = passes[i].run(g, err);
        if (s)
            return s;
    }
    return CLEF_OK;
}

int clef__only_use(const clef_value *v)
{
    return v->n_uses == 1 && !clef__is_output(v);
}

int clef__stands_for(const clef_value *x, const clef_value *n)
{
    return x->dtype == n->dtype && clef__shape_equal(&x->shape, &n->shape) && clef__is_dense(x) &&
           clef__base(x)->kind != CLEF_STATE && clef__view_depth(x) < CLEF_MAX_VIEWS / 4;
}

int clef__has_effect(const clef_value *v)
{
    return v->op != CLEF_OP_NONE && (clef__ops[v->op]->writes || clef__ops[v->op]->effect);
}

void clef__count_uses(const clef_graph *g)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        g->values[i]->n_uses = 0;
        g->values[i]->forward = NULL;
    }
    for (int32_t i = 0; i < g->n_values; i++)
        for (int32_t k = 0; k < g->values[i]->n_in; k++)
            if (g->values[i]->in[k])
                g->values[i]->in[k]->n_uses++;
    for (int32_t i = 0; i < g->n_outputs; i++)
        g->outputs[i].value->n_uses++;
}

void clef__enter_scope_of(clef_graph *g, const clef_value *v)
{
    const char *dot = strrchr(v->name, '.');
    const size_t n = dot ? (size_t)(dot - v->name) + 1 : 0;
    g->scope = v->scope;
    if (n >= sizeof g->prefix)
        return;
    memcpy(g->prefix, v->name, n);
    g->prefix[n] = 0;
}

void clef__leave_scope(clef_graph *g)
{
    g->prefix[0] = 0;
    g->scope = (clef__scope){0};
}

/* Gives v's uses to its replacement, and also its name if that was chosen. */
static int replace_value(clef_graph *g, clef_value *v, clef_value *by)
{
    v->forward = by;
    by->n_uses += v->n_uses;
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == v)
            g->outputs[i].value = by;
    clef__names_remove(g->names, v);
    if (by->op == CLEF_OP_NONE || by->named || !v->named)
        return 1;
    by->named = 1;
    by->scope = v->scope;
    return clef__graph_rename(g, by, v->name);
}

clef_status clef__rewrite(clef_graph *g, clef_visit visit, const void *user, clef_error *err)
{
    const int32_t n_old = g->n_values;
    clef_value **old = malloc((size_t)n_old * sizeof *old + 1);
    if (!old)
        return clef__fail(err, CLEF_E_NOMEM, "graph: no memory for a pass over %d values", n_old);
    memcpy(old, g->values, (size_t)n_old * sizeof *old);
    clef__count_uses(g);
    g->n_values = 0;
    for (int32_t i = 0; i < n_old && !g->error.status; i++) {
        clef_value *v = old[i];
        for (int32_t k = 0; k < v->n_in; k++)
            while (v->in[k] && v->in[k]->forward)
                v->in[k] = v->in[k]->forward;
        clef__enter_scope_of(g, v);
        clef_value *now = visit(v, user);
        clef__leave_scope(g);
        if (now == v)
            clef__graph_append(g, v);
        else if (now)
            replace_value(g, v, now);
    }
    free(old);
    return clef_graph_error(g, err);
}
