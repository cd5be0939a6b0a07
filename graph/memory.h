/* The memory plan: which part of the arena each computed value uses. */
#ifndef CLEF_GRAPH_MEMORY_H
#define CLEF_GRAPH_MEMORY_H

#include "graph/op.h"

/** The place of value i of the graph. Only computed values that are not views have bytes. */
typedef struct clef_place {
    uint64_t offset, bytes; /* in the arena; bytes at the symbols' bounds, rounded up to `align` */
    int32_t  first, last;   /* it is alive from node `first` to node `last` (ids) */
    int32_t  in_place_of;   /* id of the value whose memory it reuses, -1: none */
} clef_place;

typedef struct clef_memory {
    clef_place *places; /* one for each value of the graph */
    int32_t     n_places;
    uint64_t    arena_bytes;
    uint64_t    sum_bytes; /* size of the arena if no memory were reused */
} clef_memory;

/** Plans by lifetime: values that are not alive at the same time share memory, and a result reuses an input's
 *  memory where its op allows it. The largest values are placed first, each at the lowest offset that fits
 *  (greedy by size, arXiv:2001.03288). Outputs stay alive to the end.
 *
 *   No value crosses a multiple of chunk_bytes, so that the arena can be cut into buffers of that size. A
 *   value larger than that is CLEF_E_LIMIT. apart: NULL, or an array by value id: 1 for values whose memory
 *   is elsewhere. Free with clef__memory_finish(). CLEF_E_NOMEM, CLEF_E_LIMIT. */
clef_status clef__memory_plan(const clef_graph *g, const unsigned char *apart, uint64_t align,
                              uint64_t chunk_bytes, clef_memory *out, clef_error *err);
void        clef__memory_finish(clef_memory *memory);

#endif
