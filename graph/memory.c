/* Plans the arena: lifetimes, reuse in place, and offsets. */
#include "graph/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* 1 for a value that needs its own memory in the arena. */
static int owns_memory(const clef_value *v, const unsigned char *apart)
{
    return v->op != CLEF_OP_NONE && !clef__ops[v->op]->view && !(apart && apart[v->id]);
}

static void find_lifetimes(const clef_graph *g, clef_place *places)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        places[i] = (clef_place){.first = i, .last = i, .in_place_of = -1};
        for (int32_t k = 0; k < v->n_in; k++) /* views pass the use on to their base */
            if (v->in[k])
                places[clef__base(v->in[k])->id].last = i;
    }
    for (int32_t i = 0; i < g->n_outputs; i++)
        places[clef__base(g->outputs[i].value)->id].last = g->n_values;
}

/* The input whose memory n's result may reuse: dense, of equal size at every length, last used here and read
 * through no other input. */
static const clef_value *reusable_input(const clef_value *n, const clef_place *places,
                                        const unsigned char *apart)
{
    const clef_op_def *def = clef__ops[n->op];
    for (int32_t k = 0; k < n->n_in; k++) {
        const clef_value *x = n->in[k];
        if (!x || !(def->in_place >> k & 1) || (def->in_place_if && !def->in_place_if(n)) ||
            !clef__is_dense(x) || x->dtype != n->dtype)
            continue;
        const clef_value *base = clef__base(x);
        int others = 0;
        for (int32_t j = 0; j < n->n_in; j++)
            others += j != k && n->in[j] && clef__base(n->in[j]) == base;
        if (owns_memory(base, apart) && places[base->id].last == n->id && !others &&
            clef__shape_equal(&x->shape, &n->shape) && clef__bytes(base, NULL) == clef__bytes(n, NULL))
            return base;
    }
    return NULL;
}

typedef struct item {
    uint64_t bytes;
    int32_t id;
} item;

static int larger_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The lowest offset at which `p` overlaps none of the n placed values that are alive at the same time.
 * `placed` is sorted by offset. */
static uint64_t lowest_fit(const clef_place *places, const int32_t *placed, int32_t n, const clef_place *p,
                           uint64_t chunk)
{
    uint64_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        const clef_place *q = &places[placed[i]];
        if (q->last < p->first || p->last < q->first)
            continue;
        if (at + p->bytes > (at / chunk + 1) * chunk)
            at = (at / chunk + 1) * chunk;
        if (q->offset >= at + p->bytes)
            break;
        if (q->offset + q->bytes > at)
            at = q->offset + q->bytes;
    }
    if (at + p->bytes > (at / chunk + 1) * chunk)
        at = (at / chunk + 1) * chunk;
    return at;
}

static void insert_by_offset(const clef_place *places, int32_t *placed, int32_t n, int32_t id)
{
    int32_t i = n;
    for (; i > 0 && places[placed[i - 1]].offset > places[id].offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = id;
}

static void place_all(clef_memory *m, item *items, int32_t n_items, int32_t *placed, uint64_t chunk)
{
    qsort(items, (size_t)n_items, sizeof *items, larger_first);
    for (int32_t i = 0; i < n_items; i++) {
        clef_place *p = &m->places[items[i].id];
        p->offset = lowest_fit(m->places, placed, i, p, chunk);
        insert_by_offset(m->places, placed, i, items[i].id);
        if (p->offset + p->bytes > m->arena_bytes)
            m->arena_bytes = p->offset + p->bytes;
    }
}

clef_status clef__memory_plan(const clef_graph *g, const unsigned char *apart, uint64_t align,
                              uint64_t chunk_bytes, clef_memory *out, clef_error *err)
{
    const size_t n = (size_t)g->n_values;
    const uint64_t chunk = chunk_bytes / align * align;
    clef_status status = CLEF_OK;
    int32_t n_items = 0;
    *out = (clef_memory){.n_places = g->n_values};
    out->places = calloc(n + 1, sizeof *out->places);
    item *items = malloc((n + 1) * sizeof *items);
    int32_t *placed = malloc((n + 1) * sizeof *placed);
    if (!out->places || !items || !placed) {
        status = clef__fail(err, CLEF_E_NOMEM, "memory plan: no memory for %d values", g->n_values);
        goto out;
    }
    find_lifetimes(g, out->places);
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        clef_place *p = &out->places[i];
        if (!owns_memory(v, apart))
            continue;
        p->bytes = ((uint64_t)clef__bytes(v, NULL) + align - 1) / align * align;
        out->sum_bytes += p->bytes;
        if (p->bytes > chunk) {
            status = clef__fail(err, CLEF_E_LIMIT,
                                "%s: %" PRIu64 " bytes, a buffer of the device holds at most %" PRIu64
                                ": fewer rows at a time (clef run -b) make it smaller",
                                v->name, p->bytes, chunk);
            goto out;
        }
        const clef_value *taken = reusable_input(v, out->places, apart);
        if (taken) { /* one block, from the start of its first owner's life */
            p->in_place_of = taken->id;
            int32_t root = taken->id;
            while (out->places[root].in_place_of >= 0)
                root = out->places[root].in_place_of;
            if (out->places[root].last < p->last)
                out->places[root].last = p->last;
        } else {
            items[n_items++] = (item){p->bytes, i};
        }
    }
    place_all(out, items, n_items, placed, chunk);
    for (int32_t i = 0; i < g->n_values; i++) /* owners come before the values that reuse their memory */
        if (out->places[i].in_place_of >= 0)
            out->places[i].offset = out->places[out->places[i].in_place_of].offset;
out:
    free(items);
    free(placed);
    if (status)
        clef__memory_finish(out);
    return status;
}

void clef__memory_finish(clef_memory *memory)
{
    free(memory->places);
    *memory = (clef_memory){0};
}
