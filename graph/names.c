/* Values by name: open addressing with linear probing; a removed entry leaves a mark until the table
 * grows. */
#include "graph/names.h"

#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"

struct clef__names {
    clef_value **slots;
    size_t n_slots, n_used; /* a power of two; used counts marks too */
};

static clef_value removed_mark;

static size_t hash_name(const char *s)
{
    return (size_t)clef__hash(CLEF__HASH_START, s, strlen(s));
}

clef__names *clef__names_create(void)
{
    clef__names *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->n_slots = 64;
    n->slots = calloc(n->n_slots, sizeof *n->slots);
    if (!n->slots) {
        free(n);
        return NULL;
    }
    return n;
}

void clef__names_destroy(clef__names *names)
{
    if (!names)
        return;
    free(names->slots);
    free(names);
}

static clef_value **slot_of(const clef__names *n, const char *name)
{
    for (size_t i = hash_name(name);; i++) {
        clef_value **slot = &n->slots[i & (n->n_slots - 1)];
        if (!*slot || (*slot != &removed_mark && strcmp((*slot)->name, name) == 0))
            return slot;
    }
}

clef_value *clef__names_find(const clef__names *names, const char *name)
{
    return *slot_of(names, name);
}

static int grow_table(clef__names *n)
{
    clef__names bigger = {.n_slots = n->n_slots * 2};
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots)
        return 0;
    for (size_t i = 0; i < n->n_slots; i++)
        if (n->slots[i] && n->slots[i] != &removed_mark) {
            *slot_of(&bigger, n->slots[i]->name) = n->slots[i];
            bigger.n_used++;
        }
    free(n->slots);
    *n = bigger;
    return 1;
}

int clef__names_add(clef__names *names, clef_value *value)
{
    if (names->n_used * 2 >= names->n_slots && !grow_table(names))
        return 0;
    *slot_of(names, value->name) = value;
    names->n_used++;
    return 1;
}

void clef__names_remove(clef__names *names, const clef_value *value)
{
    clef_value **slot = slot_of(names, value->name);
    if (*slot == value)
        *slot = &removed_mark;
}

/* ---- what may be a name ---------------------------------------------------------------------- */

int clef__is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_.-/", c));
}

int clef__name_is_bare(const char *name)
{
    if (!*name || strcmp(name, "_") == 0)
        return 0;
    while (clef__is_name_char(*name))
        name++;
    return !*name;
}

int clef__is_symbol_name(const char *name)
{
    return clef__name_is_bare(name) && !(*name >= '0' && *name <= '9') && strlen(name) < CLEF_NAME_BYTES;
}
