/* A hash table of texts. */
#include "train/model/word_table.h"

#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"

static size_t slot_of(const clef__word_table *t, const char *text, size_t n)
{
    size_t i = (size_t)clef__hash(CLEF__HASH_START, text, n) & (t->n_slots - 1);
    while (t->slots[i]) {
        const clef__word *w = &t->items[t->slots[i] - 1];
        if (w->n == n && memcmp(w->text, text, n) == 0)
            break;
        i = (i + 1) & (t->n_slots - 1);
    }
    return i;
}

static int grow(clef__word_table *t)
{
    const size_t n_slots = t->n_slots ? 2 * t->n_slots : 1 << 12, n_items = n_slots / 2;
    size_t *slots = calloc(n_slots, sizeof *slots);
    clef__word *items = slots ? realloc(t->items, n_items * sizeof *items) : NULL;
    if (!items) {
        free(slots);
        return 0;
    }
    free(t->slots);
    t->items = items;
    t->slots = slots;
    t->n_slots = n_slots;
    t->n_items = n_items;
    for (size_t i = 0; i < t->n; i++)
        t->slots[slot_of(t, items[i].text, items[i].n)] = i + 1;
    return 1;
}

clef__word *clef__word_of(clef__word_table *t, const char *text, size_t n)
{
    if (t->n == t->n_items && !grow(t))
        return NULL;
    const size_t slot = slot_of(t, text, n);
    if (!t->slots[slot]) {
        t->items[t->n] = (clef__word){.text = text, .n = n};
        t->slots[slot] = ++t->n;
    }
    return &t->items[t->slots[slot] - 1];
}

clef__word *clef__word_find(const clef__word_table *t, const char *text, size_t n)
{
    const size_t slot = t->n_slots ? slot_of(t, text, n) : 0;
    return t->n_slots && t->slots[slot] ? &t->items[t->slots[slot] - 1] : NULL;
}

void clef__word_table_finish(clef__word_table *t)
{
    free(t->items);
    free(t->slots);
    *t = (clef__word_table){0};
}
