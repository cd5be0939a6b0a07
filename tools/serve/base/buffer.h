/* Text of any length in memory. */
#ifndef CLEF_TOOLS_SERVE_BASE_BUFFER_H
#define CLEF_TOOLS_SERVE_BASE_BUFFER_H

#include <stddef.h>

#include "tools/cli/cli.h"

/** Zeroed, it is empty. */
typedef struct serve_buffer {
    char *p; /* n bytes and a NUL; NULL: nothing was appended. free() or serve_buffer_free() frees it */
    size_t n, room;
    int failed; /* 1: memory ran out once, and something is missing */
} serve_buffer;

/** Appends n bytes. Returns 0 when out of memory. */
int serve_buffer_add(serve_buffer *to, const char *text, size_t n);
/** Appends as printf() does. */
CLI_PRINTF(2, 3)
void serve_buffer_print(serve_buffer *to, const char *format, ...);
/** Empties it. */
void serve_buffer_free(serve_buffer *b);

#endif
