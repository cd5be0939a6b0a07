/* What the pictures of one graph and of several ranks' graphs share (dump_dot.c). */
#ifndef CLEF_GRAPH_DOT_H
#define CLEF_GRAPH_DOT_H

#include "graph/text/text.h"

/** 1 when the value is a node of the picture: all but weights and constants, which are lines of their
 *  readers. */
int  clef__dot_is_drawn(const clef_value *v);
/** 1 when the graph has the layer, in any part. */
int  clef__dot_has_layer(const clef_graph *g, int32_t layer);
/** Writes text of a label: escapes quotes and backslashes, and writes control characters as spaces. */
void clef__dot_write_label(FILE *to, const char *text);
/** Writes the node "<prefix>v<id>". Without a prefix its name lacks the layer, which is around it. */
void clef__dot_write_node(FILE *to, const char *prefix, const clef_value *v);

/** A layer in numbers; symbols are at their bounds. */
typedef struct clef__dot_sums {
    int32_t n_nodes;         /* that run on the device */
    double  elements, flops; /* elements of weights */
} clef__dot_sums;
void clef__dot_add(clef__dot_sums *sums, const clef_value *v);

#endif
