/* Deterministic automata: what is asked of them, and how they are joined. dfa_build.c finishes them. */
#include "text/constrain/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"

uint32_t clef__dfa_step(const clef__dfa *a, uint32_t state, uint32_t code)
{
    uint32_t lo = a->first[state], hi = a->first[state + 1];
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (code > a->edges[mid].hi)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < a->first[state + 1] && code >= a->edges[lo].lo ? a->edges[lo].to : CLEF__DEAD;
}

int clef__dfa_can(const clef__dfa *a, uint32_t state, uint32_t lo, uint32_t hi)
{
    uint32_t i = a->first[state], end = a->first[state + 1];
    while (i < end) {
        const uint32_t mid = i + (end - i) / 2;
        if (lo > a->edges[mid].hi)
            i = mid + 1;
        else
            end = mid;
    }
    return i < a->first[state + 1] && a->edges[i].lo <= hi;
}

int clef__dfa_has(const clef__dfa *a, const char *text, size_t n)
{
    uint32_t state = a->n_states ? 0 : CLEF__DEAD;
    for (size_t i = 0, size; i < n && state != CLEF__DEAD; i += size) {
        uint32_t code = 0;
        if (clef__utf8_read(text + i, n - i, &code, &size) != CLEF_UTF8_OK)
            return 0;
        state = clef__dfa_step(a, state, code);
    }
    return state != CLEF__DEAD && a->ends[state];
}

/* ---- joining -------------------------------------------------------------------------------- */

/* Pairs of states, each with the number of its state in the result. */
typedef struct pairs {
    uint64_t *keys;  /* by number */
    uint32_t *slots; /* number + 1 */
    uint32_t n, room, n_slots;
} pairs;

static uint32_t slot_of(const pairs *p, uint64_t key)
{
    uint32_t i = (uint32_t)(key * 0x9E3779B97F4A7C15u >> 32) & (p->n_slots - 1);
    while (p->slots[i] && p->keys[p->slots[i] - 1] != key)
        i = (i + 1) & (p->n_slots - 1);
    return i;
}

static int more_slots(clef__work *w, pairs *p)
{
    const uint32_t n_slots = p->n_slots ? p->n_slots * 2 : 64;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots) {
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
        return 0;
    }
    free(p->slots);
    p->slots = slots;
    p->n_slots = n_slots;
    for (uint32_t i = 0; i < p->n; i++)
        p->slots[slot_of(p, p->keys[i])] = i + 1;
    return 1;
}

static uint32_t pair_number(clef__work *w, pairs *p, uint32_t a, uint32_t b)
{
    const uint64_t key = (uint64_t)a << 32 | b;
    if (p->n * 2 >= p->n_slots && !more_slots(w, p))
        return 0;
    const uint32_t slot = slot_of(p, key);
    if (!p->slots[slot]) {
        if (!clef__work_grow(w, &p->keys, p->n, &p->room, sizeof *p->keys))
            return 0;
        p->keys[p->n++] = key;
        p->slots[slot] = p->n;
    }
    return p->slots[slot] - 1;
}

static int ends_at(const clef__dfa *a, uint32_t state)
{
    return state != CLEF__DEAD && a->ends[state];
}

/* 1 if nothing can follow in the result, so that the pair needs no state. */
static int is_over(uint32_t a, uint32_t b, clef__set_op op)
{
    return op == CLEF__AND ? a == CLEF__DEAD || b == CLEF__DEAD
                           : a == CLEF__DEAD && (op == CLEF__MINUS || b == CLEF__DEAD);
}

/* The range of code points from `code` on, in which the state's step is the same. */
static uint32_t step_range(const clef__dfa *a, uint32_t state, uint32_t code, uint32_t *hi)
{
    *hi = CLEF__LAST_CODE;
    if (state == CLEF__DEAD)
        return CLEF__DEAD;
    for (uint32_t e = a->first[state]; e < a->first[state + 1]; e++) {
        if (code < a->edges[e].lo) {
            *hi = a->edges[e].lo - 1;
            return CLEF__DEAD;
        }
        if (code <= a->edges[e].hi) {
            *hi = a->edges[e].hi;
            return a->edges[e].to;
        }
    }
    return CLEF__DEAD;
}

static void join_state(clef__draft *d, pairs *p, uint32_t number, const clef__dfa *a, const clef__dfa *b,
                       clef__set_op op)
{
    clef__work *w = d->dfas->work;
    const uint32_t in_a = (uint32_t)(p->keys[number] >> 32), in_b = (uint32_t)p->keys[number];
    for (uint64_t code = 0; code <= CLEF__LAST_CODE && clef__work_step(w, 1);) {
        uint32_t hi_a, hi_b;
        const uint32_t to_a = step_range(a, in_a, (uint32_t)code, &hi_a);
        const uint32_t to_b = step_range(b, in_b, (uint32_t)code, &hi_b);
        const uint32_t hi = hi_a < hi_b ? hi_a : hi_b;
        if (!is_over(to_a, to_b, op)) {
            const uint32_t to = pair_number(w, p, to_a, to_b);
            clef__draft_edge(d, number, (uint32_t)code, hi, to);
        }
        code = (uint64_t)hi + 1;
    }
}

const clef__dfa *clef__dfa_join(clef__dfas *dfas, const clef__dfa *a, const clef__dfa *b, clef__set_op op)
{
    clef__draft d = {.dfas = dfas};
    pairs p = {.n = 0};
    if (a == b)
        return op == CLEF__MINUS ? clef__dfa_none(dfas) : a;
    if (op == CLEF__AND && (a == dfas->any || b == dfas->any))
        return a == dfas->any ? b : a;
    if (!a->n_states || !b->n_states) {
        if (op == CLEF__AND || (op == CLEF__MINUS && !a->n_states))
            return clef__dfa_none(dfas);
        return a->n_states ? a : b;
    }
    pair_number(dfas->work, &p, 0, 0);
    for (uint32_t i = 0; i < p.n && !dfas->work->status; i++) {
        const int in_a = ends_at(a, (uint32_t)(p.keys[i] >> 32)), in_b = ends_at(b, (uint32_t)p.keys[i]);
        clef__draft_state(&d, op == CLEF__AND ? in_a && in_b : op == CLEF__OR ? in_a || in_b : in_a && !in_b);
        join_state(&d, &p, i, a, b, op);
    }
    free(p.keys);
    free(p.slots);
    return clef__draft_finish(&d);
}

const clef__dfa *clef__dfa_not(clef__dfas *dfas, const clef__dfa *a)
{
    return clef__dfa_join(dfas, clef__dfa_any(dfas), a, CLEF__MINUS);
}

const clef__dfa *clef__dfa_length(clef__dfas *dfas, const clef__dfa *a, uint32_t min, uint32_t max)
{
    clef__draft d = {.dfas = dfas};
    const uint32_t levels = max == UINT32_MAX ? min + 1 : max + 1;
    if (min == 0 && max == UINT32_MAX)
        return a;
    if (min > max)
        return clef__dfa_none(dfas);
    for (uint32_t i = 0; i < levels && clef__work_step(dfas->work, a->n_states); i++) {
        for (uint32_t s = 0; s < a->n_states; s++)
            clef__draft_state(&d, a->ends[s] && i >= min);
        const uint32_t next = i + 1 < levels ? i + 1 : i;
        for (uint32_t s = 0; s < a->n_states && (i + 1 < levels || max == UINT32_MAX); s++)
            for (uint32_t e = a->first[s]; e < a->first[s + 1]; e++)
                clef__draft_edge(&d, i * a->n_states + s, a->edges[e].lo, a->edges[e].hi,
                                 next * a->n_states + a->edges[e].to);
    }
    return clef__draft_finish(&d);
}

/* ---- texts ---------------------------------------------------------------------------------- */

static int order_texts(const void *a, const void *b)
{
    const clef__utf8_text *x = a, *y = b;
    const int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* The state after `code`, which is new unless the last edge of `from` is of the same code point: texts come
 * in order. */
static uint32_t text_step(clef__draft *d, uint32_t from, uint32_t code)
{
    const uint32_t last = d->head[from];
    if (last && d->edges[last - 1].lo == code)
        return d->edges[last - 1].to;
    const uint32_t to = clef__draft_state(d, 0);
    clef__draft_edge(d, from, code, code, to);
    return to;
}

const clef__dfa *clef__dfa_texts(clef__dfas *dfas, const clef__utf8_text *texts, uint32_t n)
{
    clef__draft d = {.dfas = dfas};
    clef__utf8_text *sorted = malloc((n + 1) * sizeof *sorted);
    if (!sorted) {
        clef__work_fail(dfas->work, CLEF_E_NOMEM, "out of host memory");
        return clef__dfa_none(dfas);
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = texts[i];
    qsort(sorted, n, sizeof *sorted, order_texts);
    clef__draft_state(&d, 0);
    for (uint32_t i = 0; i < n && !dfas->work->status; i++) {
        uint32_t state = 0, code = 0;
        for (size_t at = 0, size; at < sorted[i].n && !dfas->work->status; at += size) {
            if (clef__utf8_read(sorted[i].p + at, sorted[i].n - at, &code, &size) != CLEF_UTF8_OK)
                clef__work_fail(dfas->work, CLEF_E_FORMAT, "text %u is not UTF-8", i + 1);
            else
                state = text_step(&d, state, code);
        }
        if (!dfas->work->status)
            d.ends[state] = 1;
    }
    free(sorted);
    return clef__draft_finish(&d);
}
