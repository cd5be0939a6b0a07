/* Sets of code points. */
#include "text/constrain/charset.h"

#include <stdlib.h>
#include <string.h>

enum { LAST = 0x10FFFF, SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

static void push(clef__work *w, clef__set *set, uint32_t lo, uint32_t hi)
{
    if (set->n == set->room) {
        const uint32_t room = set->room ? set->room * 2 : 4;
        clef__range *at = clef__work_alloc(w, room * sizeof *at);
        if (!at)
            return;
        if (set->n)
            memcpy(at, set->at, set->n * sizeof *at);
        set->at = at;
        set->room = room;
    }
    set->at[set->n++] = (clef__range){lo, hi};
}

void clef__set_add(clef__work *w, clef__set *set, uint32_t lo, uint32_t hi)
{
    hi = hi > LAST ? LAST : hi;
    if (lo < SURROGATE && hi >= SURROGATE) {
        push(w, set, lo, SURROGATE - 1);
        lo = LAST_SURROGATE + 1;
    } else if (lo >= SURROGATE && lo <= LAST_SURROGATE) {
        lo = LAST_SURROGATE + 1;
    }
    if (lo <= hi)
        push(w, set, lo, hi);
}

void clef__set_add_all(clef__work *w, clef__set *set, const clef__set *other)
{
    for (uint32_t i = 0; i < other->n; i++)
        push(w, set, other->at[i].lo, other->at[i].hi);
}

static int order(const void *a, const void *b)
{
    const clef__range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

void clef__set_order(clef__work *w, clef__set *set)
{
    uint32_t n = 0;
    if (!clef__work_step(w, set->n) || !set->n)
        return;
    qsort(set->at, set->n, sizeof *set->at, order);
    for (uint32_t i = 0; i < set->n; i++) {
        const clef__range r = set->at[i];
        if (n && r.lo <= set->at[n - 1].hi + 1)
            set->at[n - 1].hi = r.hi > set->at[n - 1].hi ? r.hi : set->at[n - 1].hi;
        else
            set->at[n++] = r;
    }
    set->n = n;
}

clef__set clef__set_not(clef__work *w, const clef__set *set)
{
    clef__set out = {.n = 0};
    uint32_t from = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->at[i].lo > from)
            clef__set_add(w, &out, from, set->at[i].lo - 1);
        from = set->at[i].hi + 1;
    }
    if (from <= LAST)
        clef__set_add(w, &out, from, LAST);
    return out;
}
