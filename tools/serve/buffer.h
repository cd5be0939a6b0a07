/* Text of any length in memory. */
#ifndef CLEF_TOOLS_SERVE_BUFFER_H
#define CLEF_TOOLS_SERVE_BUFFER_H

#include <stddef.h>

#include "tools/cli.h"

/** Zeroed, it is empty. The owner frees `text` with free(). */
typedef struct serve_buffer {
    char *text; /* ends with a NUL that is not counted; NULL while it is empty */
    size_t n, room;
    int failed; /* 1: out of memory; the text is incomplete */
} serve_buffer;

/** Appends as printf() does. */
CLI_PRINTF(2, 3)
void serve_buffer_print(serve_buffer *to, const char *format, ...);

#endif
