#include "tests/model/side_by_side.h"

#include <stdlib.h>
#include <string.h>

/* A value on its way from one rank to another. */
typedef struct message {
    struct message *next;
    int32_t from, to;
    size_t n;
    double x[];
} message;

typedef struct ranks {
    const clef__oracle *o;
    clef_graph *const *graphs;
    clef_ref_tensor *const *results;
    int32_t *at; /* of each rank: the value that it evaluates next */
    int32_t n, width;
    message *sent;
} ranks;

static size_t count_of(const clef_ref_tensor *t)
{
    return (size_t)(t->n[0] * t->n[1] * t->n[2] * t->n[3]);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static int take_part(const clef__oracle *o, const clef_value *v, double *x)
{
    const clef_weight_part *p = v->part;
    const clef_value *whole = clef_graph_find(o->graph, p->whole);
    const uint64_t elems = (uint64_t)clef_dtype_block_elems(v->dtype),
                   bytes = (uint64_t)clef_dtype_block_bytes(v->dtype);
    if (!whole)
        return 0;
    for (uint64_t run = 0; run < p->n_runs; run++)
        for (uint64_t i = 0; i < p->run_bytes / bytes * elems; i++)
            *x++ = (double)o->leaves[whole->id].x[(p->offset + run * p->stride) / bytes * elems + i];
    return 1;
}

static clef_status read_leaf(void *user, const clef_value *v, double *x, int64_t n, clef_error *err)
{
    const clef__oracle *o = user;
    if (v->kind == CLEF_STATE || (v->part && take_part(o, v, x))) /* states are 0 */
        return CLEF_OK;
    const clef_value *whole = clef_graph_find(o->graph, v->name);
    if (!whole)
        return clef__fail(err, CLEF_E_ARG, "%s: the whole graph has no value of this name", v->name);
    for (int64_t i = 0; i < n && whole->op == CLEF_OP_NONE;
         i++) /* what a rank receives is computed elsewhere */
        x[i] = (double)o->leaves[whole->id].x[i];
    return CLEF_OK;
}

/* ---- exchanging ------------------------------------------------------------------------------ */

static const clef_value *next_of(const ranks *r, int32_t rank)
{
    const clef_graph *g = r->graphs[rank];
    return r->at[rank] < g->n_values ? g->values[r->at[rank]] : NULL;
}

static int is_collective(const clef_value *v)
{
    return v && (v->op == CLEF_OP_all_reduce || v->op == CLEF_OP_all_gather);
}

static clef_status evaluate(ranks *r, int32_t rank, clef_error *err)
{
    const clef_value *v = next_of(r, rank);
    const clef_status s =
        clef__ref_value(v, r->o->symbols, read_leaf, (void *)(uintptr_t)r->o, r->results[rank], err);
    r->at[rank]++;
    return s;
}

/* Sums of what each rank of the stage has evaluated: x itself, or its part among zeros. Returns 0 if a rank
 * has not come so far. */
static int meet(ranks *r, int32_t first, clef_error *err, clef_status *status)
{
    const clef_value *v = next_of(r, first);
    for (int32_t k = first; k < first + r->width; k++)
        if (!is_collective(next_of(r, k)) || next_of(r, k)->op != v->op)
            return 0;
    for (int32_t k = first; k < first + r->width && !*status; k++)
        *status = evaluate(r, k, err);
    if (*status)
        return 1;
    clef_ref_tensor *sum = &r->results[first][v->id];
    for (int32_t k = first + 1; k < first + r->width; k++)
        for (size_t i = 0; i < count_of(sum); i++)
            sum->x[i] += r->results[k][r->at[k] - 1].x[i];
    for (int32_t k = first + 1; k < first + r->width; k++)
        memcpy(r->results[k][r->at[k] - 1].x, sum->x, count_of(sum) * sizeof *sum->x);
    return 1;
}

static clef_status send_value(ranks *r, int32_t rank, const clef_value *v, clef_error *err)
{
    const clef_ref_tensor *x = &r->results[rank][v->in[0]->id];
    message *m = malloc(sizeof *m + count_of(x) * sizeof *x->x), **last = &r->sent;
    if (!m)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a message", v->name);
    *m = (message){
        .from = rank, .to = ((const clef__peer_opts *)(const void *)v->attr)->rank, .n = count_of(x)};
    memcpy(m->x, x->x, m->n * sizeof *m->x);
    while (*last)
        last = &(*last)->next;
    *last = m;
    return evaluate(r, rank, err);
}

/* Returns 0 if nothing has arrived yet. */
static int receive_value(ranks *r, int32_t rank, const clef_value *v, clef_error *err, clef_status *status)
{
    const int32_t from = ((const clef__peer_opts *)(const void *)v->attr)->rank;
    message **at = &r->sent;
    while (*at && ((*at)->from != from || (*at)->to != rank))
        at = &(*at)->next;
    message *m = *at;
    if (!m)
        return 0;
    *at = m->next;
    *status = evaluate(r, rank, err);
    clef_ref_tensor *out = &r->results[rank][v->id];
    if (!*status && m->n != count_of(out))
        *status =
            clef__fail(err, CLEF_E_SHAPE, "%s: expected %zu elements, got %zu", v->name, count_of(out), m->n);
    if (!*status)
        memcpy(out->x, m->x, m->n * sizeof *m->x);
    free(m);
    return 1;
}

/* Evaluates values of a rank until it has to wait. Returns how many. */
static int32_t advance(ranks *r, int32_t rank, clef_error *err, clef_status *status)
{
    const int32_t begin = r->at[rank];
    for (const clef_value *v; !*status && (v = next_of(r, rank)) != NULL;) {
        const int32_t before = r->at[rank];
        if (is_collective(v)) {
            if (rank % r->width == 0)
                meet(r, rank, err, status);
        } else if (v->op == CLEF_OP_receive) {
            receive_value(r, rank, v, err, status);
        } else {
            *status = v->op == CLEF_OP_send ? send_value(r, rank, v, err) : evaluate(r, rank, err);
        }
        if (r->at[rank] == before)
            break;
    }
    return r->at[rank] - begin;
}

static const clef_value *first_waiting(const ranks *r, int32_t *rank)
{
    for (*rank = 0; *rank < r->n; ++*rank)
        if (next_of(r, *rank))
            return next_of(r, *rank);
    return NULL;
}

clef_status clef__ranks_eval(const clef__oracle *o, clef_graph *const *graphs, const clef_layout *layout,
                             clef_ref_tensor *const *results, clef_error *err)
{
    ranks r = {.o = o,
               .graphs = graphs,
               .results = results,
               .n = layout->width * layout->stages,
               .width = layout->width};
    clef_status s = CLEF_OK;
    r.at = calloc((size_t)r.n, sizeof *r.at);
    if (!r.at)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d ranks", (int)r.n);
    for (int32_t moved = 1; moved && !s;) {
        moved = 0;
        for (int32_t k = 0; k < r.n && !s; k++)
            moved += advance(&r, k, err, &s);
    }
    int32_t rank;
    const clef_value *waiting = s ? NULL : first_waiting(&r, &rank);
    if (waiting)
        s = clef__fail(err, CLEF_E_ARG, "rank %d waits at %s for ever", (int)rank, waiting->name);
    while (r.sent) {
        message *next = r.sent->next;
        free(r.sent);
        r.sent = next;
    }
    free(r.at);
    return s;
}
