/* Skips a test that needs a model or a text that is not in the tree: $CLEF_SHARED names a folder with more of
 * them. */
#ifndef CLEF_TESTS_SKIP_H
#define CLEF_TESTS_SKIP_H

#include <stdio.h>

#include "tests/check.h"

/* tests/count.awk repeats the line below the others. */
#define skip_without(what)                                                                                   \
    do {                                                                                                     \
        printf("skipped: %s: no %s here (CLEF_SHARED)\n", __func__, what);                                   \
        fflush(stdout);                                                                                      \
        skip();                                                                                              \
    } while (0)

#endif
