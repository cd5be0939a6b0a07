/* CLEF_DEBUG=KEY=VALUE,...: settings for tests and debugging. Its keys are the rows of debug.def. */
#ifndef CLEF_RUNTIME_DEBUG_H
#define CLEF_RUNTIME_DEBUG_H

#include <stddef.h>

#include "clef/status.h"

enum { CLEF__DEBUG_BYTES = 1024 }; /* the longest variable, with its NUL */

/** The value of a key, NULL when unset or empty. Of a key that is there twice, the last value. The elements
 * of a list, which has ':' between them, come with ',' between them. The text lives as long as the block.
 * A key that is not there is looked up as a variable of its own (CLEF_FUSED for `fused`), which it was
 * before; this is for one release. */
#define clef__debug(key) clef__debug_find(key, (char[CLEF__DEBUG_BYTES]){0})
const char *clef__debug_find(const char *key, char text[CLEF__DEBUG_BYTES]);

/** 1 when the key has this value. */
int clef__debug_is(const char *key, const char *value);

/** CLEF_E_ARG when the variable has an item without "=" or a key that is none. CLEF_E_LIMIT: it is too long.
 */
clef_status clef__debug_check(clef_error *err);

#endif
