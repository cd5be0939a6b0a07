/* Text of any length in memory. */
#include "tools/serve/base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for n more bytes and a NUL. */
static int make_room(serve_buffer *b, size_t n)
{
    enum { LEAST = 64 };
    if (b->n + n < b->room)
        return 1;
    const size_t room = 2 * (b->n + n) + LEAST;
    char *grown = realloc(b->p, room);
    if (!grown) {
        b->failed = 1;
        return 0;
    }
    b->p = grown;
    b->room = room;
    return 1;
}

int serve_buffer_add(serve_buffer *to, const char *text, size_t n)
{
    if (!make_room(to, n))
        return 0;
    if (n)
        memcpy(to->p + to->n, text, n);
    to->n += n;
    to->p[to->n] = '\0';
    return 1;
}

void serve_buffer_print(serve_buffer *to, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    const int n = vsnprintf(NULL, 0, format, list);
    if (n < 0)
        to->failed = 1;
    else if (make_room(to, (size_t)n)) {
        vsnprintf(to->p + to->n, (size_t)n + 1, format, again);
        to->n += (size_t)n;
    }
    va_end(again);
    va_end(list);
}

void serve_buffer_free(serve_buffer *b)
{
    free(b->p);
    *b = (serve_buffer){0};
}
