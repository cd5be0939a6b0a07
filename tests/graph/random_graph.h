/* Small random graphs, in the text form: the same for a seed on every machine. */
#ifndef CLEF_TESTS_RANDOM_GRAPH_H
#define CLEF_TESTS_RANDOM_GRAPH_H

#include <stddef.h>

enum { RANDOM_NODES = 14, RANDOM_TEXT = 4096 };

/* A graph of values [1, 2, 4, 4], so that everything fits everything. shows[i]: which version of the state
 * value i shows, -1 none. */
typedef struct random_graph {
    char text[RANDOM_TEXT];
    size_t n_bytes;
    int shows[RANDOM_NODES + 2];
    int n, version, last_write; /* last_write: the value that gives the state as it is */
} random_graph;

void make_random_graph(int seed, random_graph *out);

#endif
