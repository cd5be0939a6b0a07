/* The memory and the budget of compiling one constraint. After an error `status` is set, and every function
 * returns at once with something harmless, so that callers check it where they loop. */
#ifndef CLEF_TEXT_CONSTRAIN_WORK_H
#define CLEF_TEXT_CONSTRAIN_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"
#include "graph/arena.h"
#include "graph/fail.h"

/** The limits of one constraint; beyond any of them is an error that names it. Steps are what is counted
 *  instead of time, so that a busy machine compiles the same constraints; so many take less than a second. */
enum {
    CLEF__MAX_SOURCE = 1 << 20,
    CLEF__MAX_NESTING = 256,
    CLEF__MAX_REPEATS = 10000,
    CLEF__MAX_MEMORY = 64 << 20,
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* fuzzers try more inputs when none of them takes long */
    CLEF__MAX_STEPS = 300 * 1000
#else
    CLEF__MAX_STEPS = 60 * 1000 * 1000
#endif
};

typedef struct clef__work {
    const char  *name; /* in messages: "json schema" */
    const char *const *path, *const *keyword; /* NULL, or where in the source the work is: "/items", "type" */
    clef__arena *arena;
    clef_status  status;
    clef_error  *err;
    size_t       n_bytes; /* of the arena and of lists */
    int64_t      n_steps;
} clef__work;

/** Zeroed memory that lives as long as the arena; NULL after an error. */
void *clef__work_alloc(clef__work *w, size_t n_bytes);
/** A copy of n bytes with a NUL after them; NULL after an error. */
char *clef__work_copy(clef__work *w, const char *text, size_t n);
/** Counts steps. Returns 1 while all is well. */
int clef__work_step(clef__work *w, int64_t n);
/** Sets the error "NAME: PATH/KEYWORD: …", unless there is one. */
void clef__work_fail(clef__work *w, clef_status status, const char *format, ...) CLEF_PRINTF(3, 4);

/** Makes room for one more item in a list of the heap. Returns 0 after an error. */
int clef__work_grow(clef__work *w, void *list, uint32_t n, uint32_t *capacity, size_t item_bytes);

#endif
