/* Finishes automata: states that lead nowhere go, states of the same language become one, and automata of the
 * same language become one. */
#include <stdlib.h>
#include <string.h>

#include "text/constrain/dfa.h"

/* Larger ones are not minimised: they stay right, but two of the same language may be apart. */
enum { MOST_MINIMISED = 20000, MOST_ROUNDS = 400, MOST_WORK = 3000000 };

uint32_t clef__draft_state(clef__draft *d, int ends)
{
    clef__work *w = d->dfas->work;
    if (!clef__work_grow(w, &d->head, d->n_states, &d->room[0], sizeof *d->head) ||
        !clef__work_grow(w, &d->ends, d->n_states, &d->room[1], sizeof *d->ends))
        return 0;
    d->head[d->n_states] = 0;
    d->ends[d->n_states] = (uint8_t)ends;
    return d->n_states++;
}

void clef__draft_edge(clef__draft *d, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to)
{
    clef__work *w = d->dfas->work;
    if (!clef__work_grow(w, &d->edges, d->n_edges, &d->room[2], sizeof *d->edges) ||
        !clef__work_grow(w, &d->from, d->n_edges, &d->room[3], sizeof *d->from) ||
        !clef__work_grow(w, &d->next, d->n_edges, &d->room[4], sizeof *d->next))
        return;
    d->edges[d->n_edges] = (clef__edge){lo, hi, to};
    d->from[d->n_edges] = from;
    d->next[d->n_edges] = d->head[from];
    d->head[from] = ++d->n_edges;
}

static void free_draft(clef__draft *d)
{
    free(d->edges);
    free(d->from);
    free(d->next);
    free(d->head);
    free(d->ends);
}

static int order_edges(const void *a, const void *b)
{
    const clef__edge *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* An automaton with its edges in order, in the heap. */
typedef struct flat {
    uint32_t n, n_edges;
    uint32_t *first;
    clef__edge *edges;
    uint8_t *ends;
} flat;

static void free_flat(flat *f)
{
    free(f->first);
    free(f->edges);
    free(f->ends);
}

static int flat_alloc(clef__work *w, flat *f, uint32_t n, uint32_t n_edges)
{
    *f = (flat){.n = n};
    f->first = calloc((size_t)n + 1, sizeof *f->first);
    f->edges = malloc(((size_t)n_edges + 1) * sizeof *f->edges);
    f->ends = calloc((size_t)n + 1, 1);
    if (!f->first || !f->edges || !f->ends)
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
    return !w->status;
}

/* 1 for each state of the draft from which an end can be reached. */
static uint8_t *find_live(clef__work *w, const clef__draft *d)
{
    uint32_t *into = calloc((size_t)d->n_states + 1, sizeof *into); /* edges by their target */
    uint32_t *next = malloc(((size_t)d->n_edges + 1) * sizeof *next);
    uint32_t *stack = malloc(((size_t)d->n_states + 1) * sizeof *stack), n = 0;
    uint8_t *live = calloc((size_t)d->n_states + 1, 1);
    if (!into || !next || !stack || !live) {
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
        free(live);
        live = NULL;
        goto out;
    }
    for (uint32_t e = 0; e < d->n_edges; e++) {
        next[e] = into[d->edges[e].to];
        into[d->edges[e].to] = e + 1;
    }
    for (uint32_t s = 0; s < d->n_states; s++)
        if (d->ends[s])
            live[stack[n++] = s] = 1;
    while (n && clef__work_step(w, 1))
        for (uint32_t e = into[stack[--n]]; e; e = next[e - 1])
            if (!live[d->from[e - 1]])
                live[stack[n++] = d->from[e - 1]] = 1;
out:
    free(into);
    free(next);
    free(stack);
    return live;
}

/* Adds a state's edges in order, and joins neighbours with the same target. */
static void add_edges(flat *f, uint32_t state, clef__edge *edges, uint32_t n)
{
    qsort(edges, n, sizeof *edges, order_edges);
    const uint32_t begin = f->n_edges;
    f->first[state] = begin;
    for (uint32_t i = 0; i < n; i++) {
        clef__edge *last = f->n_edges > begin ? &f->edges[f->n_edges - 1] : NULL;
        if (last && last->to == edges[i].to && last->hi + 1 == edges[i].lo)
            last->hi = edges[i].hi;
        else
            f->edges[f->n_edges++] = edges[i];
    }
    f->first[state + 1] = f->n_edges;
}

/* The draft without what is dead, in the order of a breadth-first walk, which needs no minimal automaton. */
static int flatten(clef__work *w, const clef__draft *d, const uint8_t *live, flat *f)
{
    uint32_t *number = malloc(((size_t)d->n_states + 1) * sizeof *number), n = 0;
    uint32_t *order = malloc(((size_t)d->n_states + 1) * sizeof *order);
    clef__edge *own = malloc(((size_t)d->n_edges + 1) * sizeof *own);
    if (!number || !order || !own)
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
    if (w->status || !flat_alloc(w, f, d->n_states, d->n_edges))
        goto out;
    memset(number, 0xFF, (size_t)d->n_states * sizeof *number);
    if (d->n_states && live[0])
        order[n++] = 0, number[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        for (uint32_t e = d->head[order[i]]; e; e = d->next[e - 1])
            if (live[d->edges[e - 1].to])
                own[k++] = d->edges[e - 1];
        qsort(own, k, sizeof *own, order_edges);
        for (uint32_t j = 0; j < k; j++) {
            if (number[own[j].to] == UINT32_MAX)
                number[own[j].to] = n, order[n++] = own[j].to;
            own[j].to = number[own[j].to];
        }
        f->ends[i] = d->ends[order[i]];
        add_edges(f, i, own, k);
        clef__work_step(w, k + 1);
    }
    f->n = n;
out:
    free(number);
    free(order);
    free(own);
    return !w->status;
}

/* ---- minimal automata ------------------------------------------------------------------------- */

/* Walks the edges of a state as they are between classes: neighbours with the same class are one. */
static int next_class_edge(const flat *f, const uint32_t *class_of, uint32_t state, uint32_t *e,
                           clef__edge *out)
{
    if (*e >= f->first[state + 1])
        return 0;
    *out = f->edges[(*e)++];
    out->to = class_of[out->to];
    while (*e < f->first[state + 1] && f->edges[*e].lo == out->hi + 1 && class_of[f->edges[*e].to] == out->to)
        out->hi = f->edges[(*e)++].hi;
    return 1;
}

static uint32_t mix(uint32_t h, uint32_t x)
{
    return (h ^ x) * 0x9E3779B1u + (h >> 15);
}

static uint32_t hash_state(const flat *f, const uint32_t *class_of, uint32_t state)
{
    uint32_t h = class_of[state] + 7, e = f->first[state];
    for (clef__edge x; next_class_edge(f, class_of, state, &e, &x);)
        h = mix(mix(mix(h, x.lo), x.hi), x.to);
    return h ^ h >> 13;
}

static int same_state(const flat *f, const uint32_t *class_of, uint32_t a, uint32_t b)
{
    uint32_t ea = f->first[a], eb = f->first[b];
    clef__edge x, y;
    if (class_of[a] != class_of[b])
        return 0;
    for (;;) {
        const int more_a = next_class_edge(f, class_of, a, &ea, &x);
        const int more_b = next_class_edge(f, class_of, b, &eb, &y);
        if (!more_a || !more_b)
            return more_a == more_b;
        if (x.lo != y.lo || x.hi != y.hi || x.to != y.to)
            return 0;
    }
}

/* One round of Moore's algorithm (1956): splits classes whose states step to different classes. Returns their
 * number. */
static uint32_t split_classes(clef__work *w, const flat *f, const uint32_t *old, uint32_t *new_class,
                              uint32_t *slots, uint32_t n_slots)
{
    uint32_t n = 0;
    memset(slots, 0, n_slots * sizeof *slots);
    for (uint32_t s = 0; s < f->n && clef__work_step(w, 1 + f->first[s + 1] - f->first[s]); s++) {
        uint32_t i = hash_state(f, old, s) & (n_slots - 1);
        while (slots[i] && !same_state(f, old, slots[i] - 1, s))
            i = (i + 1) & (n_slots - 1);
        if (!slots[i]) {
            slots[i] = s + 1;
            new_class[s] = n++;
        } else {
            new_class[s] = new_class[slots[i] - 1];
        }
    }
    return n;
}

/* The classes of states with the same language; 0 where they were not found. */
static int find_classes(clef__work *w, const flat *f, uint32_t *class_of, uint32_t *n_classes)
{
    uint32_t n_slots = 64, n = 1, *other = malloc(((size_t)f->n + 1) * sizeof *other), *a = class_of,
             *b = other;
    int found = 0;
    while (n_slots < f->n * 2)
        n_slots *= 2;
    uint32_t *slots = malloc(n_slots * sizeof *slots);
    if (!slots || !other)
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
    for (uint32_t s = 0; s < f->n && !w->status; s++)
        a[s] = f->ends[s];
    const uint32_t enough = MOST_WORK / (f->n + f->n_edges + 1),
                   rounds = enough < MOST_ROUNDS ? enough : MOST_ROUNDS;
    for (uint32_t round = 0; round < rounds && !w->status && !found; round++) {
        const uint32_t more = split_classes(w, f, a, b, slots, n_slots);
        uint32_t *swap = a;
        a = b;
        b = swap;
        found = more == n && round > 0;
        n = more;
    }
    if (found && a != class_of)
        memcpy(class_of, a, f->n * sizeof *a);
    free(slots);
    free(other);
    *n_classes = n;
    return found && !w->status;
}

static void merge(clef__work *w, flat *f, const uint32_t *class_of, uint32_t n_classes)
{
    /* classes are numbered by their first state, which keeps the order of a breadth-first walk */
    flat small;
    uint32_t done = 0;
    clef__edge *own = malloc(((size_t)f->n_edges + 1) * sizeof *own);
    if (!own)
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
    if (!own || !flat_alloc(w, &small, n_classes, f->n_edges)) {
        free(own);
        return;
    }
    for (uint32_t s = 0; s < f->n; s++) {
        if (class_of[s] != done)
            continue;
        uint32_t k = 0, e = f->first[s];
        while (next_class_edge(f, class_of, s, &e, &own[k]))
            k++;
        small.ends[done] = f->ends[s];
        add_edges(&small, done++, own, k);
    }
    free(own);
    free_flat(f);
    *f = small;
}

static void minimise(clef__work *w, flat *f)
{
    uint32_t n_classes = 0;
    if (f->n < 2 || f->n > MOST_MINIMISED)
        return;
    uint32_t *class_of = malloc(f->n * sizeof *class_of);
    if (!class_of)
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
    else if (find_classes(w, f, class_of, &n_classes) && n_classes < f->n)
        merge(w, f, class_of, n_classes);
    free(class_of);
}

/* ---- one of each language ----------------------------------------------------------------------- */

static const clef__dfa *keep(clef__dfas *dfas, const flat *f)
{
    uint32_t hash = mix(f->n, f->n_edges);
    for (uint32_t e = 0; e < f->n_edges; e++)
        hash = mix(mix(mix(hash, f->edges[e].lo), f->edges[e].hi), f->edges[e].to);
    for (uint32_t s = 0; s < f->n; s++)
        hash = mix(hash, f->ends[s]);
    const clef__dfa **slot = &dfas->slots[hash % CLEF__DFA_SLOTS];
    for (const clef__dfa *a = *slot; a; a = a->next)
        if (a->hash == hash && a->n_states == f->n && a->n_edges == f->n_edges &&
            !memcmp(a->edges, f->edges, f->n_edges * sizeof *f->edges) &&
            !memcmp(a->first, f->first, (f->n + 1) * sizeof *f->first) && !memcmp(a->ends, f->ends, f->n))
            return a;
    clef__work *w = dfas->work;
    clef__dfa *a = clef__work_alloc(w, sizeof *a);
    uint32_t *first = clef__work_alloc(w, ((size_t)f->n + 1) * sizeof *first);
    clef__edge *edges = clef__work_alloc(w, f->n_edges * sizeof *edges);
    uint8_t *ends = clef__work_alloc(w, f->n);
    if (!a || !first || !edges || !ends)
        return NULL;
    memcpy(first, f->first, ((size_t)f->n + 1) * sizeof *first);
    memcpy(edges, f->edges, f->n_edges * sizeof *edges);
    memcpy(ends, f->ends, f->n);
    *a = (clef__dfa){f->n, f->n_edges, first, edges, ends, hash, *slot};
    return *slot = a;
}

const clef__dfa *clef__draft_finish(clef__draft *d)
{
    static const uint32_t no_first[1];
    static const clef__dfa empty = {.first = no_first};
    clef__work *w = d->dfas->work;
    flat f = {.n = 0};
    uint8_t *live = w->status ? NULL : find_live(w, d);
    const clef__dfa *a = NULL;
    if (live && flatten(w, d, live, &f)) {
        minimise(w, &f);
        if (!w->status)
            a = keep(d->dfas, &f);
    }
    free(live);
    free_flat(&f);
    free_draft(d);
    *d = (clef__draft){.dfas = d->dfas};
    return a ? a : &empty;
}

const clef__dfa *clef__dfa_none(clef__dfas *dfas)
{
    if (!dfas->none)
        dfas->none = clef__draft_finish(&(clef__draft){.dfas = dfas});
    return dfas->none;
}

const clef__dfa *clef__dfa_any(clef__dfas *dfas)
{
    if (!dfas->any) {
        clef__draft d = {.dfas = dfas};
        clef__draft_state(&d, 1);
        clef__draft_edge(&d, 0, 0, 0xD7FF, 0);
        clef__draft_edge(&d, 0, 0xE000, CLEF__LAST_CODE, 0);
        dfas->any = clef__draft_finish(&d);
    }
    return dfas->any;
}
