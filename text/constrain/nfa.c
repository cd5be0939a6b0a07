/* Automata with choices (Thompson, CACM 11 (1968), 419), and the subset construction. */
#include "text/constrain/nfa.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 400000 };

typedef enum node_kind { SPLIT, SET, BEGIN, END, ACCEPT } node_kind;

typedef struct node {
    node_kind kind;
    uint32_t to, other; /* SPLIT has two ways; 0: none */
    const clef__set *set;
} node;

typedef struct nfa {
    clef__dfas *dfas;
    clef__work *work;
    node *nodes;
    uint32_t n, room;
} nfa;

static uint32_t add(nfa *a, node_kind kind, uint32_t to, uint32_t other, const clef__set *set)
{
    if (a->n >= MOST_NODES)
        clef__work_fail(a->work, CLEF_E_LIMIT, "a pattern needs more than %d states", MOST_NODES);
    if (!clef__work_step(a->work, 1) ||
        !clef__work_grow(a->work, &a->nodes, a->n, &a->room, sizeof *a->nodes))
        return 0;
    a->nodes[a->n] = (node){kind, to, other, set};
    return a->n++;
}

/* The first node of what matches `re` and then goes on with node `to`. Made from its end to its begin. */
static uint32_t build(nfa *a, const clef__re *re, uint32_t to)
{
    uint32_t loop;
    if (a->work->status)
        return 0;
    switch (re->kind) {
    case CLEF__RE_SET:
        return add(a, SET, to, 0, &re->set);
    case CLEF__RE_THEN: /* long ones are deep on their left side */
        for (; re->kind == CLEF__RE_THEN; re = re->a)
            to = build(a, re->b, to);
        return build(a, re, to);
    case CLEF__RE_EITHER:
        for (loop = build(a, re->b, to), re = re->a; re->kind == CLEF__RE_EITHER; re = re->a)
            loop = add(a, SPLIT, build(a, re->b, to), loop, NULL);
        return add(a, SPLIT, build(a, re, to), loop, NULL);
    case CLEF__RE_REPEAT:
        if (re->max == UINT32_MAX) {
            loop = add(a, SPLIT, 0, to, NULL);
            const uint32_t body = build(a, re->a, loop);
            if (!a->work->status)
                a->nodes[loop].to = body;
            to = loop;
        } else {
            const uint32_t end = to;
            for (uint32_t i = re->min; i < re->max && !a->work->status; i++)
                to = add(a, SPLIT, build(a, re->a, to), end, NULL);
        }
        for (uint32_t i = 0; i < re->min && !a->work->status; i++)
            to = build(a, re->a, to);
        return to;
    case CLEF__RE_BEGIN:
        return add(a, BEGIN, to, 0, NULL);
    case CLEF__RE_END:
        return add(a, END, to, 0, NULL);
    case CLEF__RE_EMPTY:
        break;
    }
    return to;
}

/* ---- subsets -------------------------------------------------------------------------------- */

/* Sets of nodes, each in rising order, one after another; set i is the state i of the result. */
typedef struct subsets {
    uint32_t *items, *first; /* [n + 1] */
    uint32_t *slots;
    uint32_t n, n_items, n_slots, room_items, room_first;
    uint32_t *stack, *seen, stamp; /* of closures */
    uint32_t n_closed, *closed;
} subsets;

/* Adds to `closed` all nodes that are reached from `from` without a character. */
static void close_over(const nfa *a, subsets *s, uint32_t from, int at_begin, int at_end)
{
    uint32_t n = 0;
    s->stack[n++] = from;
    while (n) {
        const uint32_t i = s->stack[--n];
        const node *x = &a->nodes[i];
        if (s->seen[i] == s->stamp)
            continue;
        s->seen[i] = s->stamp;
        if (x->kind == SET || x->kind == ACCEPT || x->kind == END)
            s->closed[s->n_closed++] = i;
        clef__work_step(a->work, 1);
        if (x->kind == SPLIT)
            s->stack[n++] = x->other;
        if (x->kind == SPLIT || (x->kind == BEGIN && at_begin) || (x->kind == END && at_end))
            s->stack[n++] = x->to;
    }
}

static int order(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t hash_items(const uint32_t *items, uint32_t n)
{
    uint32_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ items[i]) * 0x9E3779B1u + (h >> 15);
    return h ^ h >> 14;
}

static uint32_t find_slot(const subsets *s, const uint32_t *items, uint32_t n)
{
    uint32_t i = hash_items(items, n) & (s->n_slots - 1);
    for (; s->slots[i]; i = (i + 1) & (s->n_slots - 1)) {
        const uint32_t k = s->slots[i] - 1, size = s->first[k + 1] - s->first[k];
        if (size == n && !memcmp(s->items + s->first[k], items, n * sizeof *items))
            break;
    }
    return i;
}

static int rehash(clef__work *w, subsets *s)
{
    free(s->slots);
    s->n_slots = s->n_slots ? s->n_slots * 2 : 64;
    s->slots = calloc(s->n_slots, sizeof *s->slots);
    if (!s->slots) {
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
        return 0;
    }
    for (uint32_t i = 0; i < s->n; i++)
        s->slots[find_slot(s, s->items + s->first[i], s->first[i + 1] - s->first[i])] = i + 1;
    return 1;
}

/* The number of the set `closed`. */
static uint32_t number_of(clef__work *w, subsets *s)
{
    if (s->n * 2 >= s->n_slots && !rehash(w, s))
        return 0;
    qsort(s->closed, s->n_closed, sizeof *s->closed, order);
    const uint32_t slot = find_slot(s, s->closed, s->n_closed);
    if (s->slots[slot])
        return s->slots[slot] - 1;
    for (uint32_t i = 0; i < s->n_closed; i++) {
        if (!clef__work_grow(w, &s->items, s->n_items, &s->room_items, sizeof *s->items))
            return 0;
        s->items[s->n_items++] = s->closed[i];
    }
    if (!clef__work_grow(w, &s->first, s->n + 1, &s->room_first, sizeof *s->first))
        return 0;
    s->first[++s->n] = s->n_items;
    s->slots[slot] = s->n;
    return s->n - 1;
}

static void begin_set(subsets *s)
{
    s->n_closed = 0;
    s->stamp++;
}

/* 1 if the text may end in set i: with what $ allows. */
static int ends_in(const nfa *a, subsets *s, uint32_t i, int at_begin)
{
    begin_set(s);
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
        close_over(a, s, s->items[k], at_begin, 1);
    for (uint32_t k = 0; k < s->n_closed; k++)
        if (a->nodes[s->closed[k]].kind == ACCEPT)
            return 1;
    return 0;
}

/* The edges of set i: between two neighbouring cuts, all code points do the same. */
static void add_edges(const nfa *a, subsets *s, uint32_t i, clef__draft *d, uint32_t **cuts, uint32_t *room)
{
    uint32_t n = 0;
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
        const node *x = &a->nodes[s->items[k]];
        for (uint32_t r = 0; x->kind == SET && r < x->set->n; r++) {
            if (!clef__work_grow(a->work, cuts, n + 1, room, sizeof **cuts))
                return;
            (*cuts)[n++] = x->set->at[r].lo;
            (*cuts)[n++] = x->set->at[r].hi + 1;
        }
    }
    if (n)
        qsort(*cuts, n, sizeof **cuts, order);
    for (uint32_t c = 0; c + 1 < n; c++) {
        const uint32_t lo = (*cuts)[c], hi = (*cuts)[c + 1] - 1;
        if (lo > hi)
            continue;
        begin_set(s);
        for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
            const node *x = &a->nodes[s->items[k]];
            for (uint32_t r = 0; x->kind == SET && r < x->set->n; r++)
                if (x->set->at[r].lo <= lo && hi <= x->set->at[r].hi)
                    close_over(a, s, x->to, 0, 0);
        }
        if (!clef__work_step(a->work, s->first[i + 1] - s->first[i]))
            return;
        if (s->n_closed)
            clef__draft_edge(d, i, lo, hi, number_of(a->work, s));
    }
}

static const clef__dfa *determine(nfa *a, uint32_t start)
{
    subsets s = {.stack = malloc((2 * (size_t)a->n + 2) * sizeof *s.stack)};
    clef__draft d = {.dfas = a->dfas};
    uint32_t *cuts = NULL, room = 0;
    s.seen = calloc((size_t)a->n + 1, sizeof *s.seen);
    s.closed = malloc(((size_t)a->n + 2) * sizeof *s.closed);
    if (!s.stack || !s.seen || !s.closed)
        clef__work_fail(a->work, CLEF_E_NOMEM, "out of host memory");
    if (!a->work->status && clef__work_grow(a->work, &s.first, 0, &s.room_first, sizeof *s.first)) {
        s.first[0] = 0;
        begin_set(&s);
        close_over(a, &s, start, 1, 0);
        s.closed[s.n_closed++] = 0; /* so that no later set is the same: only here is the start */
        number_of(a->work, &s);
        for (uint32_t i = 0; i < s.n && !a->work->status; i++) {
            clef__draft_state(&d, ends_in(a, &s, i, i == 0));
            add_edges(a, &s, i, &d, &cuts, &room);
        }
    }
    free(s.items);
    free(s.first);
    free(s.slots);
    free(s.stack);
    free(s.seen);
    free(s.closed);
    free(cuts);
    return clef__draft_finish(&d);
}

const clef__dfa *clef__re_dfa(clef__dfas *dfas, const clef__re *re, int whole)
{
    nfa a = {.dfas = dfas, .work = dfas->work};
    clef__set all = {.n = 0};
    clef__set_add(a.work, &all, 0, CLEF__LAST_CODE);
    add(&a, BEGIN, 0, 0, NULL); /* node 0 stands for no way, and marks the first set */
    uint32_t to = add(&a, ACCEPT, 0, 0, NULL);
    if (!whole) { /* anything may follow, and precede */
        const uint32_t loop = add(&a, SPLIT, 0, to, NULL), any = add(&a, SET, loop, 0, &all);
        if (!a.work->status)
            a.nodes[loop].to = any;
        to = loop;
    }
    uint32_t start = build(&a, re, to);
    if (!whole) {
        const uint32_t loop = add(&a, SPLIT, 0, start, NULL), any = add(&a, SET, loop, 0, &all);
        if (!a.work->status)
            a.nodes[loop].to = any;
        start = loop;
    }
    const clef__dfa *dfa = a.work->status ? clef__dfa_none(dfas) : determine(&a, start);
    free(a.nodes);
    return dfa;
}
