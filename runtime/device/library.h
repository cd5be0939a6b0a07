/* Functions of a shared library that is opened when the first of them is needed. */
#ifndef CLEF_RUNTIME_LIBRARY_H
#define CLEF_RUNTIME_LIBRARY_H

#include <stdatomic.h>
#include <stdint.h>

enum { CLEF_LIBRARY_WHY = 160 };
/** A library. It has static storage and is never closed. */
typedef struct clef__library {
    const char        *variable;  /* the environment variable that names another file; NULL: none */
    const char        *unless;    /* an environment variable with which it stays closed; NULL: none */
    const char *const *places;    /* file names, the usual one first; NULL ends the list */
    const char *const *names;     /* [n] names of functions */
    void             **functions; /* [n] their addresses; NULL for a name that the library lacks */
    int32_t            n;
    atomic_int         state;
    int32_t            is_open;
    char               why[CLEF_LIBRARY_WHY]; /* why it is not open: the variable that keeps it closed, or the
                                                 system's words for the file that was named, or else for
                                                 the usual one */
} clef__library;

/** Opens the library when it is called for the first time; other threads wait meanwhile. The variables are
 *  read then, and never again. Returns 1 if the library is open. */
int clef__library_open(clef__library *l);

#endif
