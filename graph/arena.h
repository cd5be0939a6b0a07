/* Memory that is allocated piece by piece and freed all at once. */
#ifndef CLEF_GRAPH_ARENA_H
#define CLEF_GRAPH_ARENA_H

#include <stddef.h>

typedef struct clef__arena clef__arena;

clef__arena *clef__arena_create(void);          /* NULL when out of memory */
void         clef__arena_destroy(clef__arena *arena); /* takes NULL */
/** Returns zeroed memory, aligned to 16 bytes; NULL when out of memory. */
void        *clef__arena_alloc(clef__arena *arena, size_t n_bytes);

#endif
