/* The memory and the budget of compiling one constraint. */
#include "text/constrain/work.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void clef__work_fail(clef__work *w, clef_status status, const char *format, ...)
{
    char text[256];
    va_list args;
    if (w->status)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (w->keyword && **w->keyword)
        w->status = clef__fail(w->err, status, "%s: %.160s/%s: %s", w->name, *w->path, *w->keyword, text);
    else
        w->status = clef__fail(w->err, status, "%s: %s", w->name, text);
}

static int take_bytes(clef__work *w, size_t n_bytes)
{
    if (w->status)
        return 0;
    w->n_bytes += n_bytes;
    if (w->n_bytes > CLEF__MAX_MEMORY)
        clef__work_fail(w, CLEF_E_LIMIT, "compiled, it is larger than %d MiB", CLEF__MAX_MEMORY >> 20);
    return !w->status;
}

void *clef__work_alloc(clef__work *w, size_t n_bytes)
{
    if (!take_bytes(w, n_bytes))
        return NULL;
    void *p = clef__arena_alloc(w->arena, n_bytes ? n_bytes : 1);
    if (!p)
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
    return p;
}

char *clef__work_copy(clef__work *w, const char *text, size_t n)
{
    char *copy = clef__work_alloc(w, n + 1);
    if (copy && n)
        memcpy(copy, text, n);
    return copy;
}

int clef__work_step(clef__work *w, int64_t n)
{
    w->n_steps += n;
    if (w->n_steps > CLEF__MAX_STEPS)
        clef__work_fail(w, CLEF_E_LIMIT, "it takes more than %d million steps to compile",
                        CLEF__MAX_STEPS / 1000000);
    return !w->status;
}

int clef__work_grow(clef__work *w, void *list, uint32_t n, uint32_t *capacity, size_t item_bytes)
{
    void **p = list;
    if (w->status)
        return 0;
    if (n < *capacity)
        return 1;
    const uint32_t more = *capacity ? *capacity * 2 : 16;
    if (more > CLEF__MAX_MEMORY / item_bytes) {
        clef__work_fail(w, CLEF_E_LIMIT, "compiled, it is larger than %d MiB", CLEF__MAX_MEMORY >> 20);
        return 0;
    }
    void *grown = realloc(*p, more * item_bytes);
    if (!grown) {
        clef__work_fail(w, CLEF_E_NOMEM, "out of host memory");
        return 0;
    }
    *p = grown;
    *capacity = more;
    return 1;
}
