/* A trie whose edges are in one hash table (open addressing). */
#include "model/tokenizer/byte_trie.h"

#include <stdlib.h>

#include "graph/fail.h"

enum { MAX_NODES = 1 << 24 };

static clef__byte_edge *edge_of(const clef__byte_trie *trie, uint32_t key)
{
    size_t i = (key * 0x9E3779B1u >> 7) & (trie->n_slots - 1);
    while (trie->edges[i].node && trie->edges[i].key != key)
        i = (i + 1) & (trie->n_slots - 1);
    return &trie->edges[i];
}

static clef_status grow_edges(clef__byte_trie *trie, clef_error *err)
{
    clef__byte_trie bigger = *trie;
    bigger.n_slots = trie->n_slots ? trie->n_slots * 2 : 1024;
    bigger.edges = calloc(bigger.n_slots, sizeof *bigger.edges);
    if (!bigger.edges)
        return clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for a trie of %zu edges", bigger.n_slots);
    for (size_t i = 0; i < trie->n_slots; i++)
        if (trie->edges[i].node)
            *edge_of(&bigger, trie->edges[i].key) = trie->edges[i];
    free(trie->edges);
    *trie = bigger;
    return CLEF_OK;
}

static clef_status new_node(clef__byte_trie *trie, clef_error *err)
{
    if (trie->n_nodes == trie->capacity) {
        const size_t capacity = trie->capacity ? trie->capacity * 2 : 1024;
        int32_t *ids = realloc(trie->ids, capacity * sizeof *ids);
        if (!ids)
            return clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for a trie of %zu nodes", capacity);
        trie->ids = ids;
        trie->capacity = capacity;
    }
    trie->ids[trie->n_nodes++] = -1;
    return CLEF_OK;
}

clef_status clef__byte_trie_put(clef__byte_trie *trie, const char *text, size_t n, int32_t id,
                                clef_error *err)
{
    uint32_t node = 0;
    clef_status st = trie->n_nodes ? CLEF_OK : new_node(trie, err);
    for (size_t i = 0; i < n && st == CLEF_OK; i++) {
        if (trie->n_edges >= trie->n_slots / 2)
            st = grow_edges(trie, err);
        if (st)
            return st;
        const uint32_t key = node << 8 | (uint8_t)text[i];
        clef__byte_edge *edge = edge_of(trie, key);
        if (!edge->node) {
            if (trie->n_nodes == MAX_NODES)
                return clef__fail(err, CLEF_E_LIMIT, "vocabulary: a trie of more than %d nodes", MAX_NODES);
            st = new_node(trie, err);
            if (st)
                return st;
            *edge = (clef__byte_edge){.key = key, .node = (uint32_t)trie->n_nodes - 1};
            trie->n_edges++;
        }
        node = edge->node;
    }
    if (st == CLEF_OK)
        trie->ids[node] = id;
    return st;
}

uint32_t clef__byte_trie_step(const clef__byte_trie *trie, uint32_t node, uint8_t byte)
{
    return trie->n_slots ? edge_of(trie, node << 8 | byte)->node : 0;
}

size_t clef__byte_trie_longest(const clef__byte_trie *trie, const char *text, size_t n, int32_t *id)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = clef__byte_trie_step(trie, node, (uint8_t)text[i]);
        if (!node)
            break;
        if (trie->ids[node] >= 0) {
            *id = trie->ids[node];
            longest = i + 1;
        }
    }
    return longest;
}

void clef__byte_trie_finish(clef__byte_trie *trie)
{
    free(trie->edges);
    free(trie->ids);
    *trie = (clef__byte_trie){0};
}
