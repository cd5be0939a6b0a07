/* Text of any length in memory. */
#include "tools/serve/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int make_room(serve_buffer *b, size_t more)
{
    enum { LEAST = 4096 };
    if (b->n + more < b->room)
        return 1;
    const size_t room = 2 * (b->n + more) + LEAST;
    char *grown = b->failed ? NULL : realloc(b->text, room);
    if (!grown) {
        b->failed = 1;
        return 0;
    }
    b->text = grown;
    b->room = room;
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
    else if (make_room(to, (size_t)n + 1)) {
        vsnprintf(to->text + to->n, (size_t)n + 1, format, again);
        to->n += (size_t)n;
    }
    va_end(again);
    va_end(list);
}
