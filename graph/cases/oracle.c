#include "graph/cases/oracle.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_BLOCK_ELEMENTS = 256 };

/* ---- random numbers -------------------------------------------------------------------------- */

double clef__random_uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

/* N(0, 1), by Box and Muller. */
static double draw_normal(uint64_t *state)
{
    return sqrt(-2 * log(clef__random_uniform(state))) * cos(6.283185307179586 * clef__random_uniform(state));
}

void clef__random_block(uint64_t *state, clef_dtype dtype, void *block, float *x)
{
    const size_t elems = (size_t)clef_dtype_block_elems(dtype), bytes = (size_t)clef_dtype_block_bytes(dtype);
    float own[MOST_BLOCK_ELEMENTS], most = 0;
    x = x ? x : own;
    while (!(most > 0.25f && most < 4)) {
        most = 0;
        for (size_t i = 0; i < bytes; i++)
            ((unsigned char *)block)[i] = (unsigned char)(clef__random_uniform(state) * 256);
        clef_dtype_decode(dtype, block, elems, x);
        for (size_t i = 0; i < elems; i++)
            most = isfinite(x[i]) ? fmaxf(most, fabsf(x[i])) : INFINITY;
    }
}

/* ---- data ------------------------------------------------------------------------------------ */

static void free_leaf(clef__leaf *l)
{
    free(l->bytes);
    free(l->x);
    *l = (clef__leaf){0};
}

clef_status clef__oracle_init(clef__oracle *o, const clef_graph *graph, clef_error *err)
{
    o->graph = graph;
    o->leaves = calloc((size_t)graph->n_values + 1, sizeof *o->leaves);
    o->results = calloc((size_t)graph->n_values + 1, sizeof *o->results);
    return o->leaves && o->results
               ? CLEF_OK
               : clef__fail(err, CLEF_E_NOMEM, "no memory for the reference of %d values", graph->n_values);
}

void clef__oracle_finish(clef__oracle *o)
{
    for (int32_t i = 0; o->leaves && i < o->graph->n_values; i++)
        free_leaf(&o->leaves[i]);
    if (o->results)
        clef__ref_free(o->results, o->graph->n_values);
    free(o->leaves);
    free(o->results);
    o->leaves = NULL;
    o->results = NULL;
}

/* Numbers that the dtype cannot hold are rounded, for the device and the reference alike. */
static void draw_elements(const clef__oracle *o, const clef_value *v, clef__leaf *l, uint64_t *random)
{
    const int is_integer = v->dtype == CLEF_I32 || v->dtype == CLEF_I8;
    const double spread = o->spread != 0 ? (double)o->spread : 1;
    for (size_t i = 0; i < l->n && v->kind != CLEF_STATE; i++)
        l->x[i] =
            (float)(is_integer ? o->int_lo + floor(clef__random_uniform(random) * (o->int_hi - o->int_lo))
                               : spread * draw_normal(random));
    clef_dtype_encode(v->dtype, l->x, l->n, l->bytes);
    clef_dtype_decode(v->dtype, l->bytes, l->n, l->x);
}

/* Writes the integers of a leaf by the first node that asks for certain ones. Returns 0 if none does. */
static int draw_as_asked(const clef__oracle *o, const clef_value *v, clef__leaf *l)
{
    for (int32_t i = v->id + 1; i < o->graph->n_values && v->dtype == CLEF_I32; i++) {
        const clef_value *n = o->graph->values[i];
        for (int32_t k = 0; k < n->n_in && n->op != CLEF_OP_NONE && clef__ops[n->op]->draw; k++)
            if (n->in[k] == v && clef__ops[n->op]->draw(n, k, o->symbols, l->x)) {
                clef_dtype_encode(v->dtype, l->x, l->n, l->bytes);
                return 1;
            }
    }
    return 0;
}

static clef_status draw_leaf(clef__oracle *o, const clef_value *v, clef_error *err)
{
    const size_t elems = (size_t)clef_dtype_block_elems(v->dtype),
                 bytes = (size_t)clef_dtype_block_bytes(v->dtype);
    clef__leaf *l = &o->leaves[v->id];
    uint64_t random = 20240817 + (uint64_t)v->id * 1000003;
    free_leaf(l);
    l->n = (size_t)clef__elements(v, o->symbols);
    l->n_bytes = (size_t)clef__bytes(v, o->symbols);
    l->x = calloc(l->n + 1, sizeof *l->x);
    l->bytes = malloc(l->n_bytes + 1);
    if (!l->x || !l->bytes)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu random elements", v->name, l->n);
    if (draw_as_asked(o, v, l))
        return CLEF_OK;
    if (clef_dtype_encodes(v->dtype))
        draw_elements(o, v, l, &random);
    else /* clef cannot write the format */
        for (size_t i = 0; i < l->n / elems; i++)
            clef__random_block(&random, v->dtype, l->bytes + i * bytes, l->x + i * elems);
    return CLEF_OK;
}

clef_status clef__oracle_draw(clef__oracle *o, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < o->graph->n_values && !s; i++) {
        const clef_value *v = o->graph->values[i];
        const int is_leaf = v->op == CLEF_OP_NONE && v->kind != CLEF_CONSTANT;
        if (is_leaf && (v->kind == CLEF_INPUT || !o->leaves[i].bytes)) /* a plan borrows the weights */
            s = draw_leaf(o, v, err);
    }
    return s;
}

const void *clef__oracle_weight(void *oracle, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    const clef__oracle *o = oracle;
    const clef_value *v = clef_graph_find(o->graph, name);
    return v && v->dtype == dtype && o->leaves[v->id].n_bytes == n_bytes ? o->leaves[v->id].bytes : NULL;
}

/* ---- results --------------------------------------------------------------------------------- */

static clef_status read_leaf(void *user, const clef_value *v, double *x, int64_t n, clef_error *err)
{
    const clef__oracle *o = user;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)o->leaves[v->id].x[i];
    return CLEF_OK;
}

clef_status clef__oracle_eval(clef__oracle *o, clef_error *err)
{
    clef__ref_free(o->results, o->graph->n_values);
    for (int32_t i = 0; i < o->graph->n_values; i++)
        o->results[i].stored = o->graph->values[i]->kind == CLEF_WEIGHT ? o->leaves[i].bytes : NULL;
    return clef__ref_eval(o->graph, o->symbols, read_leaf, o, o->results, err);
}

double clef__stored_element(clef_dtype dtype, const void *data, int64_t i)
{
    const int64_t elems = clef_dtype_block_elems(dtype);
    float block[MOST_BLOCK_ELEMENTS];
    if (dtype == CLEF_F32)
        return (double)((const float *)data)[i];
    if (dtype == CLEF_I32)
        return (double)((const int32_t *)data)[i];
    clef_dtype_decode(dtype, (const char *)data + i / elems * clef_dtype_block_bytes(dtype), (size_t)elems,
                      block);
    return (double)block[i % elems];
}

double clef__worst_error(clef_dtype dtype, const void *data, const double *want, int64_t n, double tol,
                         int64_t *at)
{
    double most = 0, worst = 0;
    for (int64_t i = 0; i < n; i++)
        most = isfinite(want[i]) ? fmax(most, fabs(want[i])) : most;
    const double allowed = tol * (most + 1e-6);
    for (int64_t i = 0; i < n; i++) {
        const double x = clef__stored_element(dtype, data, i),
                     wrong = x == want[i] || (isnan(x) && isnan(want[i])) ? 0 : fabs(x - want[i]),
                     error = wrong == 0                       ? 0
                             : allowed > 0 && isfinite(wrong) ? wrong / allowed
                                                              : INFINITY;
        if (error > worst && at)
            *at = i;
        worst = fmax(worst, error);
    }
    return worst;
}
