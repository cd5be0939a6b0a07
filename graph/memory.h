/* The memory plan: where each computed value lies while it lives. */
#ifndef CLEF_GRAPH_MEMORY_H
#define CLEF_GRAPH_MEMORY_H

#include "graph/op.h"

/** Of value i of the graph. Only values that own memory in the arena (computed, no view) have bytes. */
typedef struct clef_place {
    uint64_t offset, bytes; /* in the arena; bytes at the symbols' bounds, rounded up to `align` */
    int32_t  first, last;   /* the nodes (ids) between which it lives */
    int32_t  in_place_of;   /* id of the value whose memory it took over, -1: none */
} clef_place;

typedef struct clef_memory {
    clef_place *places; /* n_values of the graph */
    int32_t     n_places;
    uint64_t    arena_bytes;
    uint64_t    sum_bytes; /* what it would be without reuse */
} clef_memory;

/** Plans by lifetime: values that do not live at the same time share memory; a result takes over an input's
 *  memory where its op allows it. Placed largest first, each at the lowest offset that fits (greedy by size,
 *  arXiv:2001.03288). Outputs live to the end. No value crosses a multiple of chunk_bytes, so that the arena
 *  can be cut into buffers of that size; a value larger than that is CLEF_E_LIMIT. apart: NULL, or by id 1
 *  for values that have memory elsewhere. Free with clef__memory_finish(). CLEF_E_NOMEM, CLEF_E_LIMIT. */
clef_status clef__memory_plan(const clef_graph *g, const unsigned char *apart, uint64_t align,
                              uint64_t chunk_bytes, clef_memory *out, clef_error *err);
void        clef__memory_finish(clef_memory *memory);

#endif
