/* Pictures of a graph, by Graphviz's library. */
#ifndef CLEF_TOOLS_GRAPH_DRAW_H
#define CLEF_TOOLS_GRAPH_DRAW_H

#include "tools/cli/output.h"

/** Lays out a graph in DOT form, which `write` writes, and draws it as "svg" or "png". CLEF_E_UNSUPPORTED if
 *  clef was built without Graphviz, or Graphviz cannot draw the form; CLEF_E_IO, CLEF_E_NOMEM, and the
 *  statuses of `write`. */
clef_status cli_graph_draw(cli_writer write, void *user, const char *format, FILE *to, clef_error *err);

#endif
