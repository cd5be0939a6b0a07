/* Opens shared libraries when they are needed. */
#include "runtime/device/library.h"

#include <stdio.h>

#include "runtime/os/os.h"

static void *open_first(clef__library *l)
{
    const char *const own = l->variable ? clef__os_env(l->variable) : NULL;
    const char *const only[] = {own, NULL};
    const char *const *at = own ? only : l->places;
    void *library = NULL;
    if (l->unless && clef__os_env(l->unless)) {
        snprintf(l->why, sizeof l->why, "%s is not used while %s is set", l->places[0], l->unless);
        return NULL;
    }
    for (int i = 0; at[i] && !library; i++) {
        clef_error err = {0};
        library = clef__os_library(at[i], &err);
        if (!library && i == 0)
            snprintf(l->why, sizeof l->why, "%.*s", CLEF_LIBRARY_WHY - 1, err.text);
    }
    return library;
}

int clef__library_open(clef__library *l)
{
    enum { CLOSED, OPENING, DONE };
    int expected = CLOSED;
    if (atomic_load_explicit(&l->state, memory_order_acquire) == DONE)
        return l->is_open;
    if (atomic_compare_exchange_strong(&l->state, &expected, OPENING)) {
        void *library = open_first(l);
        for (int32_t i = 0; library && i < l->n; i++)
            l->functions[i] = clef__os_symbol(library, l->names[i]);
        l->is_open = library != NULL;
        atomic_store_explicit(&l->state, DONE, memory_order_release);
    }
    while (atomic_load_explicit(&l->state, memory_order_acquire) != DONE)
        clef__os_sleep(1);
    return l->is_open;
}
