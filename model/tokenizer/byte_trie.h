/* A trie over byte strings. It finds every key that a text begins with, in one look-up for each byte. */
#ifndef CLEF_MODEL_BYTE_TRIE_H
#define CLEF_MODEL_BYTE_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

typedef struct clef__byte_edge {
    uint32_t key;  /* node << 8 | byte */
    uint32_t node; /* 0: a free slot */
} clef__byte_edge;

/** An empty trie is zeroed. */
typedef struct clef__byte_trie {
    clef__byte_edge *edges;
    size_t          n_edges, n_slots;
    int32_t        *ids; /* by node; -1: no key ends there. Node 0 is the root */
    size_t          n_nodes, capacity;
} clef__byte_trie;

/** Adds a key of n > 0 bytes or replaces its id. CLEF_E_NOMEM, CLEF_E_LIMIT (2^24 nodes). */
clef_status clef__byte_trie_put(clef__byte_trie *trie, const char *text, size_t n, int32_t id,
                                clef_error *err);
/** The node after `byte`, 0 for none. */
uint32_t clef__byte_trie_step(const clef__byte_trie *trie, uint32_t node, uint8_t byte);
/** Bytes of the longest key that text begins with, 0 for none. */
size_t clef__byte_trie_longest(const clef__byte_trie *trie, const char *text, size_t n, int32_t *id);
void   clef__byte_trie_finish(clef__byte_trie *trie);

#endif
