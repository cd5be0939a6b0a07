/* fold: nodes of constants become constants; nodes that change nothing are removed; views of views become
 * one. */
#include <stdlib.h>
#include <string.h>

#include "graph/names.h"
#include "graph/pass/pass.h"

enum { MAX_FOLDED = 1 << 20 }; /* most elements: larger results cost more memory than the launch saves */

static int can_fold(const clef_value *n)
{
    if (n->n_in == 0 || clef__has_effect(n) || (n->dtype != CLEF_F32 && n->dtype != CLEF_I32))
        return 0;
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && (n->in[i]->kind != CLEF_CONSTANT || clef__elements(n->in[i], NULL) > MAX_FOLDED))
            return 0;
    for (int32_t i = 0; i < n->shape.rank; i++)
        if (n->shape.dim[i].symbol)
            return 0;
    return clef__elements(n, NULL) <= MAX_FOLDED;
}

static void dims_of(const clef_value *v, clef_ref_tensor *t)
{
    for (int32_t i = 0; i < CLEF_MAX_DIMS; i++)
        t->n[CLEF_MAX_DIMS - 1 - i] = clef__dim_right(&v->shape, i).n;
}

static int load_tensor(const clef_value *v, clef_ref_tensor *t)
{
    const int64_t n = clef__elements(v, NULL);
    dims_of(v, t);
    t->x = malloc((size_t)n * sizeof *t->x);
    if (!t->x)
        return 0;
    for (int64_t i = 0; i < n; i++)
        t->x[i] = v->dtype == CLEF_F32 ? (double)((const float *)v->data)[i]
                                       : (double)((const int32_t *)v->data)[i];
    return 1;
}

/* Computes the node by its own reference, as a constant. */
static clef_value *fold_constant(clef_value *n)
{
    clef_ref_tensor in[CLEF_MAX_INPUTS] = {0}, out = {0};
    const int64_t n_out = clef__elements(n, NULL);
    clef_value *c = NULL;
    int ok = 1;
    for (int32_t i = 0; i < n->n_in && ok; i++)
        ok = !n->in[i] || load_tensor(n->in[i], &in[i]);
    dims_of(n, &out);
    out.x = malloc((size_t)n_out * sizeof *out.x);
    uint32_t *data = malloc((size_t)n_out * sizeof *data);
    if (!ok || !out.x || !data) {
        clef__graph_fail(n->graph, CLEF_E_NOMEM, "%s: no memory to fold it", n->name);
        goto out;
    }
    clef__ops[n->op]->ref(n, in, &out);
    for (int64_t i = 0; i < n_out; i++) {
        if (n->dtype == CLEF_F32)
            ((float *)(void *)data)[i] = (float)out.x[i];
        else
            ((int32_t *)(void *)data)[i] = (int32_t)out.x[i];
    }
    char name[CLEF_NAME_BYTES];
    snprintf(name, sizeof name, "%.200s.folded", n->name);
    for (int32_t i = 0; clef__names_find(n->graph->names, name); i++)
        snprintf(name, sizeof name, "%.200s.folded_%d", n->name, i);
    c = clef_constant(n->graph, name, n->dtype, n->shape, data);
out:
    for (int32_t i = 0; i < n->n_in; i++)
        free(in[i].x);
    free(out.x);
    free(data);
    return c;
}

static int is_identity_permute(const clef_value *n)
{
    const clef_permute_opts *o = (const void *)n->attr;
    for (int32_t i = 0; i < n->shape.rank; i++)
        if (o->axes[i] != i)
            return 0;
    return 1;
}

static clef_value *fold_permute(clef_value *n)
{
    clef_value *x = n->in[0];
    if (is_identity_permute(n))
        return x;
    if (x->op != CLEF_OP_permute)
        return n;
    const clef_permute_opts *outer = (const void *)n->attr, *inner = (const void *)x->attr;
    clef_permute_opts both = {{0}};
    for (int32_t i = 0; i < n->shape.rank; i++)
        both.axes[i] = inner->axes[outer->axes[i]];
    clef_value *p = clef_permute(n->graph, x->in[0], &both);
    return p && is_identity_permute(p) ? x->in[0] : p;
}

static clef_value *fold_reshape(clef_value *n)
{
    clef_value *x = n->in[0];
    if (clef__shape_equal(&n->shape, &x->shape))
        return x;
    return x->op == CLEF_OP_reshape ? clef_reshape(n->graph, x->in[0], n->shape) : n;
}

/* 1 if the node only passes on the elements of in[0]. */
static int is_identity(const clef_value *n)
{
    const clef_affine_opts *o = (const void *)n->attr;
    return n->op == CLEF_OP_copy || (n->op == CLEF_OP_affine && o->scale == 1 && o->shift == 0);
}

static clef_value *fold_node(clef_value *n)
{
    clef_value *x = n->n_in ? n->in[0] : NULL;
    if (can_fold(n))
        return fold_constant(n);
    if (n->op == CLEF_OP_reshape)
        return fold_reshape(n);
    if (n->op == CLEF_OP_permute)
        return fold_permute(n);
    if (n->op == CLEF_OP_slice && clef__shape_equal(&n->shape, &x->shape))
        return x;
    return is_identity(n) && clef__stands_for(x, n) && !clef__is_output(n) ? x : n;
}

static clef_value *fold_value(clef_value *v, const void *user)
{
    (void)user;
    if (v->op == CLEF_OP_NONE)
        return v;
    clef_value *now = fold_node(v);
    /* An output keeps a node of its own, and so its name and its memory. */
    return now != v && clef__is_output(v) && now && now->op == CLEF_OP_NONE ? v : now;
}

clef_status clef__pass_fold(clef_graph *g, clef_error *err)
{
    return clef__rewrite(g, fold_value, NULL, err);
}
