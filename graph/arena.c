/* A bump allocator over blocks, whose size grows with the requests. */
#include "graph/arena.h"

#include <stdint.h>
#include <stdlib.h>

enum { ALIGN = 16, FIRST_BLOCK = 16 * 1024 };

typedef struct block {
    struct block *next;
    size_t used, size;
    _Alignas(ALIGN) unsigned char bytes[];
} block;

struct clef__arena {
    block *head;
};

clef__arena *clef__arena_create(void)
{
    return calloc(1, sizeof(clef__arena));
}

void clef__arena_destroy(clef__arena *arena)
{
    if (!arena)
        return;
    for (block *b = arena->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(arena);
}

void *clef__arena_alloc(clef__arena *arena, size_t n_bytes)
{
    if (n_bytes > SIZE_MAX / 4)
        return NULL;
    n_bytes = (n_bytes + ALIGN - 1) / ALIGN * ALIGN;
    block *b = arena->head;
    if (!b || b->size - b->used < n_bytes) {
        size_t size = b ? b->size * 2 : FIRST_BLOCK;
        if (size < n_bytes)
            size = n_bytes;
        b = calloc(1, sizeof *b + size);
        if (!b)
            return NULL;
        b->size = size;
        b->next = arena->head;
        arena->head = b;
    }
    void *p = b->bytes + b->used;
    b->used += n_bytes;
    return p;
}
