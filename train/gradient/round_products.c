/* Rounds what products and gradients read to 16 bits. */
#include "train/gradient/round_products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/gradient.h"
#include "graph/pass/pass.h"

/* The inputs, as bits, that are read in 16 bits: of products in both passes, of others in the backward pass
 * if they are values of the forward pass. */
static const uint32_t in_both[CLEF_N_OPS] = {
    [CLEF_OP_matmul] = 0x3 /* a, b */,
    [CLEF_OP_attention] = 0x7 /* q, k, v */,
    [CLEF_OP_attention_grad] = 0xf /* q, k, v, and the result */,
};
static const uint32_t in_backward[CLEF_N_OPS] = {
    [CLEF_OP_gelu_grad] = 0x1, [CLEF_OP_gelu_tanh_grad] = 0x1, [CLEF_OP_silu_grad] = 0x1,
    [CLEF_OP_relu_grad] = 0x1, [CLEF_OP_silu] = 0x1,           [CLEF_OP_mul] = 0x3,
};

typedef struct rounding {
    clef_dtype dtype;
    int32_t n_forward;     /* of the values as they were; those that the walk has passed have new ids */
    clef_value **rounded;  /* by id: the value in 16 bits, NULL if nothing has read it so far */
    unsigned char *kept;   /* by old id: whether the backward pass reads the value in 16 bits */
    int32_t forward_end;   /* new ids of the forward pass are below it, while the walk is behind it */
    clef_value *last_kept; /* the value before, if it is kept: its copy comes next */
} rounding;

static int is_view(const clef_value *v)
{
    return v->op != CLEF_OP_NONE && clef__ops[v->op]->view && !clef__ops[v->op]->writes;
}

/* The value that v is a view of. */
static const clef_value *viewed(const clef_value *v)
{
    while (is_view(v))
        v = v->in[0];
    return v;
}

/* 1 for a weight, and for what is made of weights alone, once, when the plan is made. */
static int is_frozen(const clef_value *v)
{
    if (v->op == CLEF_OP_NONE)
        return v->kind == CLEF_WEIGHT;
    for (int32_t i = 0; i < v->n_in; i++)
        if (v->in[i] && !is_frozen(v->in[i]))
            return 0;
    return 1;
}

/* Whether n reads its input k in 16 bits. n has not been passed; its inputs before forward_end are those of
 * the forward pass. */
static int reads_rounded(const rounding *r, const clef_value *n, int32_t k, int32_t forward_end)
{
    const clef_value *v = n->op == CLEF_OP_NONE || k >= n->n_in ? NULL : n->in[k];
    if (!v || v->dtype != CLEF_F32 ||
        (n->op == CLEF_OP_matmul && (is_frozen(n->in[0]) || is_frozen(n->in[1]))))
        return 0;
    const clef_value *base = viewed(v);
    if (in_both[n->op] >> k & 1)
        return base->op != CLEF_OP_NONE || base->kind == CLEF_STATE;
    return in_backward[n->op] >> k & 1 && n->id >= r->n_forward && !n->recomputed &&
           base->op != CLEF_OP_NONE && base->id < forward_end;
}

/* ---- copies ----------------------------------------------------------------------------------- */

/* The view v, of another value. */
static clef_value *same_view(const clef_value *v, clef_value *of)
{
    clef_graph *g = v->graph;
    char name[CLEF_NAME_BYTES];
    clef_value *n = of ? clef__graph_alloc(g, sizeof *n) : NULL;
    if (!n || !clef__graph_make_name(g, g->prefix, strlen(g->prefix), v->op, name))
        return NULL;
    *n = *v;
    n->name = NULL;
    n->named = 0;
    n->in[0] = of;
    n->dtype = of->dtype;
    return clef__graph_rename(g, n, name) && clef__graph_append(g, n) ? n : NULL;
}

/* A copy in 16 bits, which has the value's name and the dtype's behind it, if that is free. */
static clef_value *named_copy(clef_value *v, clef_dtype dtype)
{
    char name[CLEF_NAME_BYTES + 8];
    clef_value *copy = clef_cast(v->graph, v, &(clef_cast_opts){dtype});
    snprintf(name, sizeof name, "/%s.%s", v->name, clef_dtype_name(dtype));
    if (!copy || strlen(name) > CLEF_NAME_BYTES || clef_graph_find(v->graph, name + 1))
        return copy;
    copy = clef_named(copy, "%s", name);
    if (copy)
        copy->scope = v->scope;
    return copy;
}

/* v in 16 bits; NULL after an error. Views of one value are views of its one copy. */
static clef_value *rounded(const rounding *r, clef_value *v)
{
    clef_value **copy = &r->rounded[v->id];
    if (!*copy)
        *copy = is_view(v) ? same_view(v, rounded(r, v->in[0])) : named_copy(v, r->dtype);
    return *copy;
}

/* v in 16 bits, as input k of n can read it. */
static clef_value *rounded_for(const rounding *r, const clef_value *n, int32_t k, clef_value *v)
{
    const int reads_16_bits = (clef__ops[n->op]->in[k] & (CLEF_IN_FLOAT | CLEF_IN_WEIGHT)) != 0;
    clef_value *x = rounded(r, v);
    return !x || reads_16_bits ? x : clef_copy(v->graph, x);
}

/* ---- the walk ---------------------------------------------------------------------------------- */

/* Finds the values of the forward pass that the backward pass reads in 16 bits. They are rounded at once, so
 * that the values themselves need not be kept. */
static void find_kept(rounding *r, const clef_graph *g)
{
    for (int32_t i = r->n_forward; i < g->n_values; i++)
        for (int32_t k = 0; k < g->values[i]->n_in; k++)
            if (reads_rounded(r, g->values[i], k, r->n_forward)) {
                const clef_value *base = viewed(g->values[i]->in[k]);
                r->kept[base->id] = base->op != CLEF_OP_NONE && base->id < r->n_forward;
            }
}

static clef_value *round_inputs(clef_value *n, const void *user)
{
    rounding *r = (void *)(uintptr_t)user;
    if (r->last_kept && !rounded(r, r->last_kept))
        return NULL;
    r->last_kept = r->kept[n->id] ? n : NULL;
    if (n->id <= r->n_forward)
        r->forward_end = n->graph->n_values;
    for (int32_t k = 0; k < n->n_in; k++) {
        if (reads_rounded(r, n, k, r->forward_end))
            n->in[k] = rounded_for(r, n, k, n->in[k]);
        if (n->graph->error.status)
            return NULL;
    }
    return n;
}

clef_status clef__round_products(clef_graph *g, clef_dtype dtype, int32_t n_forward, clef_error *err)
{
    const size_t n = (size_t)g->n_values;
    const size_t most = n * (CLEF_MAX_INPUTS + 2) + 1; /* copies of each value and of each node's inputs */
    rounding r = {.dtype = dtype,
                  .n_forward = n_forward,
                  .rounded = calloc(most, sizeof(clef_value *)),
                  .kept = calloc(n + 1, 1)};
    clef_status s = r.rounded && r.kept
                        ? CLEF_OK
                        : clef__fail(err, CLEF_E_NOMEM, "graph: no memory to round what its products read");
    if (!s) {
        find_kept(&r, g);
        s = clef__rewrite(g, round_inputs, &r, err);
    }
    free(r.rounded);
    free(r.kept);
    return s;
}
