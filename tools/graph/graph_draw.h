/* Pictures of a graph, by Graphviz's library. */
#ifndef CLEF_TOOLS_GRAPH_DRAW_H
#define CLEF_TOOLS_GRAPH_DRAW_H

#include "clef/clef.h"

/** Lays a graph out and draws it as "svg" or "png". Each layer is one node, except those in `expand`; n -1:
 *  all nodes are drawn. CLEF_E_UNSUPPORTED if clef was built without Graphviz, or Graphviz cannot draw the
 *  form; CLEF_E_IO, CLEF_E_NOMEM. */
clef_status cli_graph_draw(const clef_graph *graph, const char *format, const int32_t *expand, int32_t n,
                           FILE *to, clef_error *err);

#endif
