/* A module for MPI that damages a message: it opens the real module ($CLEF_TEST_MPI) and stands before it
 * ($CLEF_MPI names this one). The first message of at least $CLEF_TEST_SPOIL bytes that rank 0 sends has one
 * bit changed on its way. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/ranks/transport.h"

static clef__transport_calls calls;
static const clef__transport_calls *real;
static size_t least;

static clef_status send(clef__transport *t, int32_t to, const void *data, size_t n_bytes, clef_error *err)
{
    unsigned char *copy = least && n_bytes >= least && t->rank == 0 ? malloc(n_bytes) : NULL;
    if (!copy)
        return real->send(t, to, data, n_bytes, err);
    least = 0;
    memcpy(copy, data, n_bytes);
    copy[n_bytes / 2] ^= 4;
    const clef_status s = real->send(t, to, copy, n_bytes, err);
    free(copy);
    return s;
}

__attribute__((visibility("default"))) clef_status clef__mpi_open(int32_t version, clef__transport **out,
                                                                  clef_error *err)
{
    const char *path = getenv("CLEF_TEST_MPI"), *size = getenv("CLEF_TEST_SPOIL");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    void *symbol = library ? dlsym(library, CLEF__TRANSPORT_SYMBOL) : NULL;
    clef__transport_open open;
    *out = NULL;
    if (!symbol)
        return fprintf(stderr, "CLEF_TEST_MPI: %s\n", path ? dlerror() : "not set"), CLEF_E_NOT_FOUND;
    memcpy(&open, &symbol, sizeof open);
    const clef_status s = open(version, out, err);
    if (s)
        return s;
    least = size ? strtoul(size, NULL, 10) : 0;
    real = (*out)->calls;
    calls = *real;
    calls.send = send;
    (*out)->calls = &calls;
    return CLEF_OK;
}
