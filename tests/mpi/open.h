/* Opens the transport over MPI as clef does. */
#ifndef CLEF_TESTS_MPI_OPEN_H
#define CLEF_TESTS_MPI_OPEN_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/join/transport.h"
#include "runtime/os/debug.h"

static inline void must(clef_status s, const clef_error *err)
{
    if (s == CLEF_OK)
        return;
    fprintf(stderr, "FAIL %s\n", err->text);
    exit(1);
}

static inline clef__transport *open_transport(const char *library, clef_error *err)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "FAIL %s\n", dlerror());
        exit(1);
    }
    clef__transport_open open;
    void *symbol = dlsym(handle, CLEF__TRANSPORT_SYMBOL);
    memcpy(&open, &symbol, sizeof open);
    clef__transport *t;
    const clef__transport_opts opts = {.sum = clef__debug("rank_sum"),
                                       .shared = clef__debug("rank_shared"),
                                       .eager = clef__debug("rank_eager")};
    if (open(CLEF__TRANSPORT_VERSION + 1, &opts, &t, err) != CLEF_E_UNSUPPORTED || t) {
        fprintf(stderr, "FAIL another version is not refused\n");
        exit(1);
    }
    must(open(CLEF__TRANSPORT_VERSION, &opts, &t, err), err);
    return t;
}

/** A group of all ranks. */
static inline clef__group *group_of_all(clef__transport *t, clef_error *err)
{
    int32_t *ranks = malloc((size_t)t->size * sizeof *ranks);
    if (!ranks)
        exit(1);
    for (int32_t i = 0; i < t->size; i++)
        ranks[i] = i;
    clef__group *group;
    must(t->calls->group(t, ranks, t->size, &group, err), err);
    free(ranks);
    return group;
}

#endif
