/* A module for MPI in which something goes wrong. It opens the real one ($CLEF_TEST_MPI) and is called before
 * it
 * ($CLEF_MPI names this one).
 *   $CLEF_TEST_SIGNAL     "RANK SIGNAL N CALL": that rank gets the signal (a number) in its Nth call, from 1
 *                         on, of `at` with a text that begins with CALL
 *   $CLEF_TEST_SIGNALLED  a file that is made before the signal */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "ranks/join/transport.h"

static clef__transport_calls calls;
static const clef__transport_calls *real;
static int at_rank = -1, signal_number, n_left;
static char call_name[64];

static void count(const clef__transport *t, const char *name)
{
    if (t->rank != at_rank || strncmp(name, call_name, strlen(call_name)) != 0 || --n_left != 0)
        return;
    const char *path = getenv("CLEF_TEST_SIGNALLED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file)
        fclose(file);
    raise(signal_number);
}

static void at(clef__transport *t, const char *what, int64_t number)
{
    real->at(t, what, number);
    count(t, what);
}

__attribute__((visibility("default"))) clef_status
clef__mpi_open(int32_t version, const clef__transport_opts *opts, clef__transport **out, clef_error *err)
{
    const char *path = getenv("CLEF_TEST_MPI"), *signal_at = getenv("CLEF_TEST_SIGNAL");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    void *symbol = library ? dlsym(library, CLEF__TRANSPORT_SYMBOL) : NULL;
    clef__transport_open open;
    *out = NULL;
    if (!symbol)
        return fprintf(stderr, "CLEF_TEST_MPI: %s\n", path ? dlerror() : "not set"), CLEF_E_NOT_FOUND;
    if (signal_at &&
        sscanf(signal_at, "%d %d %d %63[a-z ]", &at_rank, &signal_number, &n_left, call_name) != 4)
        return fprintf(stderr, "CLEF_TEST_SIGNAL: '%s'\n", signal_at), CLEF_E_ARG;
    memcpy(&open, &symbol, sizeof open);
    const clef_status s = open(version, opts, out, err);
    if (s)
        return s;
    real = (*out)->calls;
    calls = *real;
    calls.at = at;
    (*out)->calls = &calls;
    return CLEF_OK;
}
